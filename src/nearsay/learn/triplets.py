"""Triplets for metric learning: a row, one of the same class, one of another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.learn.linear_map import rows_by_class
from nearsay.neighbors.other_groups import nearest_among, others


class Triplets(NamedTuple):
    """Row numbers (n_triplets,): each row ``same`` should be nearer to its ``anchor`` than the row ``other``."""

    anchor: np.ndarray
    same: np.ndarray
    other: np.ndarray


def near_triplets(
    X: np.ndarray,
    labels: np.ndarray,
    n_triplets: int,
    near: tuple[int, int],
    random: np.random.RandomState,
    groups: np.ndarray | None = None,
    rows_at_once: int | None = None,
) -> Triplets:
    """Random triplets of rows near each other, where a metric decides which rows are neighbors.

    Every row is the anchor of equally many (or one more), drawn from all pairs of the ``near[0]`` nearest rows of its
    class and the ``near[1]`` nearest rows of other classes, by Euclidean distance. There are fewer than
    ``n_triplets``, or none, if there are not as many pairs.

    A row alone in its class is no anchor, and a triplet never holds two identical rows of different classes: no metric
    separates them. Neither other row is of the group of the anchor.

    X : (n_rows, n_features)
    labels : (n_rows,) number of each row's class; at least two classes
    groups : (n_rows,) numbers of groups, optional
    rows_at_once : how many anchors, by default as many as take little memory; changes no triplet

    >>> X, labels = np.array([[0.0], [1.0], [3.0], [7.0]]), np.array([0, 0, 1, 1])
    >>> near_triplets(X, labels, 4, (1, 1), np.random.RandomState(0))
    Triplets(anchor=array([0, 1, 2, 3]), same=array([1, 0, 3, 2]), other=array([2, 2, 1, 1]))
    """
    members = [rows for rows in rows_by_class(labels) if len(rows) > 1]
    if not members:
        return Triplets(*np.empty((3, 0), np.int64))
    n_drawn = _shared_out(n_triplets, np.concatenate(members), labels, random)
    content = np.unique(X, axis=0, return_inverse=True)[1].reshape(-1)
    given = n_drawn, near, random, groups, rows_at_once
    drawn = [block for rows in members for block in _of_one_class(X, content, rows, *given)]
    return Triplets(*(np.concatenate(parts) for parts in zip(*drawn, strict=True)))


def _shared_out(n: int, rows: np.ndarray, labels: np.ndarray, random: np.random.RandomState) -> np.ndarray:
    """How many of ``n`` triplets each of the ``rows`` gets; the remainder is spread over classes at random."""
    by_lot = random.permutation(rows)
    place_in_class = np.empty(len(rows), np.int64)
    for places in rows_by_class(labels[by_lot]):
        place_in_class[places] = np.arange(len(places))
    favored = by_lot[np.argsort(place_in_class, kind="stable")[: n % len(rows)]]
    shared = np.zeros(len(labels), np.int64)
    shared[rows] = n // len(rows)
    shared[favored] += 1
    return shared


def _of_one_class(
    X: np.ndarray,
    content: np.ndarray,
    rows: np.ndarray,
    n_drawn: np.ndarray,
    near: tuple[int, int],
    random: np.random.RandomState,
    groups: np.ndarray | None,
    rows_at_once: int | None,
) -> list[Triplets]:
    """The triplets anchored at ``rows``, all of one class, in blocks; rows with equal ``content`` are identical."""
    rest = np.setdiff1d(np.arange(len(X)), rows, assume_unique=True)
    of_rows, of_rest = (None, None) if groups is None else (groups[rows], groups[rest])
    same_places = others(X[rows], near[0], of_rows)
    other_places = nearest_among(X[rest], X[rows], near[1], of_rows, of_rest)
    near_same, near_other = rows[same_places], rest[other_places]
    n_pairs = near_same.shape[1] * near_other.shape[1]
    triplets = []
    for block in row_blocks(len(rows), row_bytes=8 * n_pairs, size=rows_at_once):
        # Every pair of a near row of the class and a near other gets a random number; the lowest make the triplets.
        lots = random.random_sample((block.stop - block.start, n_pairs))
        identical = content[near_same[block]][:, :, None] == content[near_other[block]][:, None, :]
        missing = (same_places[block] < 0)[:, :, None] | (other_places[block] < 0)[:, None, :]
        lots[(identical | missing).reshape(lots.shape)] = np.inf
        wanted = np.minimum(n_drawn[rows[block]], np.isfinite(lots).sum(axis=1))
        most = int(wanted.max())
        lowest = _lowest(lots, most)
        at, place = np.nonzero(np.arange(most) < wanted[:, None])
        same, other = np.divmod(lowest[at, place], near_other.shape[1])
        triplets.append(Triplets(rows[block][at], near_same[block][at, same], near_other[block][at, other]))
    return triplets


def _lowest(lots: np.ndarray, most: int) -> np.ndarray:
    """The columns of the ``most`` lowest numbers of each row, lowest first."""
    some = np.argpartition(lots, most - 1, axis=1)[:, :most] if 0 < most < lots.shape[1] else np.argsort(lots, axis=1)
    in_order = np.argsort(np.take_along_axis(lots, some, axis=1), axis=1)
    return np.take_along_axis(some, in_order, axis=1)


def triplet_shares(triplets: Triplets, labels: np.ndarray, class_distances: np.ndarray | None = None) -> np.ndarray:
    """The weight of each triplet, summing to 1: equal, or growing with the distance of its two classes.

    class_distances : (n_classes, n_classes) from 0 to 1, optional, weights are proportional to one half plus the
        distance of the two classes, so that close classes are separated too.

    >>> triplets = Triplets(*np.array([[0, 0], [1, 1], [2, 3]]))
    >>> triplet_shares(triplets, np.array([0, 0, 1, 2]), np.array([[0, 0.5, 1], [0.5, 0, 1], [1, 1, 0]]))
    array([0.4, 0.6])
    """
    counts = np.ones(len(triplets.anchor))
    if class_distances is not None:
        counts = 0.5 + class_distances[labels[triplets.anchor], labels[triplets.other]]
    return counts / counts.sum()
