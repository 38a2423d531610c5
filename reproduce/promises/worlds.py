"""Worlds to draw collections from: how likely each class of a row truly is, is known.

A world is a mixture of round classes, Gaussian or with heavy tails, under a taxonomy. In grouped worlds the rows of a
group (a writer, a video) share what a new row, of a new group, does not share with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nearsay.taxonomy.taxonomy import Taxonomy

# A group has from one to so many rows.
LARGEST_GROUP = 7


class Drawn(NamedTuple):
    """A collection: rows, their classes, and the group of each, None where rows are independent."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray | None


@dataclass(frozen=True)
class World:
    """Round classes around centers.

    Attributes
    ----------
    taxonomy : its leaves are the numbers of the classes.
    centers : (n_classes, n_columns)
    shares, scales : (n_classes,) how frequent each class is, and how wide.
    freedom : degrees of freedom of Student's t, None for Gaussian classes.
    within : float
        The share of the variance around a center that is within groups; 1 where rows are independent. The rest is
        an offset that all rows of a group share.
    one_class : bool
        Whether all rows of a group are of one class, as the frames of a video are.
    """

    taxonomy: Taxonomy
    centers: np.ndarray
    shares: np.ndarray
    scales: np.ndarray
    freedom: float | None = None
    within: float = 1.0
    one_class: bool = False

    def draw_alone(self, random: np.random.Generator, n: int) -> Drawn:
        """So many rows, each of a group of its own."""
        y = random.choice(len(self.centers), size=n, p=self.shares)
        return Drawn(self.centers[y] + self.scales[y, None] * self._noise(random, n), y, None)

    def draw(self, random: np.random.Generator, n: int) -> Drawn:
        """So many rows, drawn group by group."""
        if self.within == 1:
            return self.draw_alone(random, n)
        groups = np.repeat(np.arange(n), random.integers(1, LARGEST_GROUP + 1, size=n))[:n]
        y = random.choice(len(self.centers), size=n, p=self.shares)
        y = y[groups] if self.one_class else y
        offsets, noise = self._noise(random, n)[groups], self._noise(random, n)
        around = np.sqrt(1 - self.within) * offsets + np.sqrt(self.within) * noise
        return Drawn(self.centers[y] + self.scales[y, None] * around, y, groups)

    def _noise(self, random: np.random.Generator, n: int) -> np.ndarray:
        noise = random.normal(size=(n, self.centers.shape[1]))
        if self.freedom is None:
            return noise
        return noise / np.sqrt(random.chisquare(self.freedom, size=(n, 1)) / self.freedom)

    def posterior(self, X: np.ndarray) -> np.ndarray:
        """How likely each class truly is, of rows that are alone in their group: (n_rows, n_classes)."""
        n_columns = self.centers.shape[1]
        squared = ((X[:, None] - self.centers) ** 2).sum(axis=2) / self.scales**2
        if self.freedom is None:
            logarithm = -0.5 * squared
        else:
            logarithm = -0.5 * (self.freedom + n_columns) * np.log1p(squared / self.freedom)
        logarithm += np.log(self.shares) - n_columns * np.log(self.scales)
        p = np.exp(logarithm - logarithm.max(axis=1, keepdims=True))
        posterior: np.ndarray = p / p.sum(axis=1, keepdims=True)
        return posterior


def families(n_families: int, size: int) -> Taxonomy:
    """Families of so many classes each; the leaves are 0, 1, …"""
    nested = {f"family {place}": list(range(size * place, size * (place + 1))) for place in range(n_families)}
    return Taxonomy.from_nested({"all": nested}).with_leaves(range(n_families * size))


def kinds_and_breeds() -> World:
    """Four kinds of two breeds each in the plane: breeds are hard to tell apart, kinds less so."""
    angles = 2 * np.pi * np.arange(4) / 4
    kinds = 2.2 * np.column_stack([np.cos(angles), np.sin(angles)])
    return _world(families(4, 2), np.repeat(kinds, 2, axis=0) + np.tile([[0.0, 0.0], [0.9, 0.9]], (4, 1)))


def unequal() -> World:
    """Fifteen classes of unequal frequency in five columns."""
    random = np.random.default_rng(5)
    centers = np.repeat(2.0 * random.normal(size=(5, 5)), 3, axis=0) + 1.1 * random.normal(size=(15, 5))
    return _world(families(5, 3), centers, shares=1 / np.arange(1, 16) ** 0.7)


def easy() -> World:
    """Six classes in eight columns that are told apart nine times in ten."""
    return _world(families(3, 2), 1.25 * np.random.default_rng(6).normal(size=(6, 8)))


def two_classes() -> World:
    """Two overlapping classes without families: answer or abstain."""
    tree = Taxonomy.from_edges([(-1, 0), (-1, 1)], leaves=[0, 1])
    return _world(tree, np.array([[-1.1, 0, 0], [1.1, 0, 0]]), shares=np.array([0.6, 0.4]))


def heavy_tails() -> World:
    """Twelve classes of unequal width, with rows far off."""
    random = np.random.default_rng(7)
    centers = np.repeat(2.2 * random.normal(size=(3, 6)), 4, axis=0) + random.normal(size=(12, 6))
    return _world(families(3, 4), centers, scales=random.uniform(0.6, 1.3, 12), freedom=4.0)


def strip() -> World:
    """Ten classes side by side: each is mistaken for the two beside it only."""
    centers = np.arange(10)[:, None] * np.array([[1.6, 0.5]])
    return _world(families(5, 2), centers, shares=np.array([3, 1, 2, 1, 3, 1, 2, 1, 3, 1.0]))


def writers() -> World:
    """Groups of up to seven rows of any class, all written by one hand: half the variance is the writer's."""
    random = np.random.default_rng(8)
    centers = np.repeat(2.0 * random.normal(size=(4, 4)), 2, axis=0) + random.normal(size=(8, 4))
    return _world(families(4, 2), centers, within=0.5)


def videos() -> World:
    """Groups of up to seven rows of one class that lie close together, as the frames of a video do."""
    random = np.random.default_rng(9)
    centers = np.repeat(2.0 * random.normal(size=(3, 5)), 2, axis=0) + random.normal(size=(6, 5))
    return _world(families(3, 2), centers, within=0.3, one_class=True)


def _world(
    taxonomy: Taxonomy,
    centers: np.ndarray,
    *,
    shares: np.ndarray | None = None,
    scales: np.ndarray | None = None,
    freedom: float | None = None,
    within: float = 1.0,
    one_class: bool = False,
) -> World:
    shares = np.ones(len(centers)) if shares is None else shares
    scales = np.ones(len(centers)) if scales is None else scales
    return World(taxonomy, centers, shares / shares.sum(), scales, freedom, within, one_class)


WORLDS = {
    "kinds and breeds": kinds_and_breeds,
    "unequal": unequal,
    "easy": easy,
    "two classes": two_classes,
    "heavy tails": heavy_tails,
    "strip": strip,
    "writers": writers,
    "videos": videos,
}
