"""Sets of nodes: their conformal scores, the boldest setting from which on a row's sets cover the true class.

A rule gives a row a set at every setting, larger and safer ones at larger settings::

    setting    0 ────────── 0.4 ───────────── 1.7 ─────────── ∞
    set        {corgi}      {corgi, cat}      {dog, cat}      {pet}
    a poodle   no           no                yes             yes       score 1.7

A set need not hold the one before it, as {corgi, cat} is not below {dog} alone. So the score asks for all larger
settings too: the share of rows whose score is at most t rises with t, and at t all of them are covered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.decision.envelope import LARGEST_SHIFT, OperatingPoints
from nearsay.decision.leaf_probabilities import leaf_probabilities
from nearsay.decision.sets.best_sets import BestSets, best_sets, steps_of
from nearsay.taxonomy.taxonomy import Taxonomy

BLOCK_BYTES = 64 << 20


def most_informative_points(sets: BestSets) -> OperatingPoints:
    """The set with the largest probability · (information + setting): the most bits on average at any coverage."""
    from nearsay.decision.envelope_kernels import upper_envelopes

    information = np.log2(sets.n_leaves[-1] / sets.n_leaves)
    levels = np.broadcast_to(np.arange(len(information)), sets.p.shape).copy()
    shifts = np.full((len(levels), len(information) + 1), np.nan)
    winners = np.zeros(shifts.shape, np.intp)
    upper_envelopes(sets.p, levels, information, len(information) - 1, LARGEST_SHIFT, shifts, winners)
    return _as_points("lac", shifts, winners)


def smallest_set_points(sets: BestSets) -> OperatingPoints:
    """The set of fewest leaves whose probability reaches the setting; the root where none does."""
    root = sets.p.shape[1] - 1
    in_play = sets.p >= 0
    passed = np.nextafter(np.maximum.accumulate(np.where(in_play, sets.p, 0.0), axis=1), np.inf)
    begins = np.column_stack([np.zeros(len(passed)), passed])  # each when all before it are passed
    begins[:, :-1][~in_play] = np.nan
    begins[in_play[:, root], -1] = np.nan
    levels = np.broadcast_to(np.append(np.arange(root + 1), root), begins.shape)
    opening = in_play.argmax(axis=1)
    begins[np.arange(len(begins)), opening] = 0.0
    return _as_points("aps", begins, levels)


SET_POINTS: dict[str, Callable[[BestSets], OperatingPoints]] = {
    "lac": most_informative_points,
    "aps": smallest_set_points,
}


def _as_points(rule: str, settings: np.ndarray, levels: np.ndarray) -> OperatingPoints:
    is_point = ~np.isnan(settings)
    starts = np.concatenate([[0], np.cumsum(is_point.sum(axis=1))])
    return OperatingPoints(rule, starts, settings[is_point], levels[is_point])


@dataclass(frozen=True)
class NodeSets:
    """Sets of at most ``max_nodes`` nodes for probabilities of these classes.

    ``conformity_score`` is one of SET_POINTS. Class labels are given by their places among ``classes``.
    """

    taxonomy: Taxonomy
    classes: np.ndarray
    max_nodes: int
    conformity_score: str

    def true_scores(self, p: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """(n_rows,) the smallest setting at which, and above which, each row's sets cover its class."""
        scores, truth = np.empty(len(p)), self._class_nodes[labels]
        for rows, sets, points in self._blocks(p):
            queries = np.repeat(np.arange(len(points)), np.diff(points.starts))
            covered = self._cover(sets.nodes[queries, points.nodes], truth[rows][queries])
            numbers = np.arange(len(covered))
            last_miss = np.maximum.reduceat(np.where(covered, -1, numbers), points.starts[:-1])
            first = np.maximum(last_miss + 1, points.starts[:-1])  # the root covers, so a point follows every miss
            scores[rows] = points.settings[first]
        return scores

    def nodes(self, p: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
        """(n_rows, max_nodes) node numbers of the set of each row at its threshold, rising; −1 where it has fewer."""
        nodes = np.empty((len(p), self.max_nodes), np.int64)
        for rows, sets, points in self._blocks(p):
            levels = points.at(thresholds[rows])
            nodes[rows] = sets.nodes[np.arange(len(levels)), levels]
        return nodes

    def inside(self, nodes: np.ndarray) -> np.ndarray:
        """(n_rows, n_classes) bool: which classes are at or below a node of the set."""
        inside = np.zeros((len(nodes), len(self.classes)), np.bool_)
        for column in nodes.T:
            np.logical_or(inside, self._cover(column[:, None, None], self._class_nodes), out=inside)
        return inside

    def leaf_probabilities(self, p: np.ndarray) -> np.ndarray:
        """(n_rows, n_leaves) from probabilities of the classes."""
        mass = self.taxonomy.leaf_mass(self.classes.tolist())
        return leaf_probabilities(p, self.taxonomy, self._class_nodes, mass)

    @property
    def _class_nodes(self) -> np.ndarray:
        return self.taxonomy.check_labels(self.classes.tolist())

    def _cover(self, nodes: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Whether one of the nodes, in the last axis, is the label or above it."""
        known = np.maximum(nodes, 0)
        covers = self.taxonomy.covers_label(known, labels[..., None]) & (nodes >= 0)
        return np.asarray(covers.any(axis=-1))

    def _blocks(self, p: np.ndarray) -> Iterator[tuple[slice, BestSets, OperatingPoints]]:
        p_leaf = self.leaf_probabilities(p)
        row_bytes = 8 * len(steps_of(self.taxonomy, self.max_nodes).level) * (self.max_nodes + 6)
        for rows in row_blocks(len(p), size=max(1, BLOCK_BYTES // row_bytes)):
            sets = best_sets(p_leaf[rows], self.taxonomy, self.max_nodes)
            yield rows, sets, SET_POINTS[self.conformity_score](sets)


def covering_nodes(labels: Sequence[Any], taxonomy: Taxonomy, max_nodes: int = 2) -> list[Any]:
    """At most so many nodes that hold every label, with the fewest leaves in all; of these the fewest nodes.

    The first node holds the first label. What holds all labels covers the right one at least as often as they do.

    >>> pets = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle", "beagle"], "wolf": {}, "cat": {}}})
    >>> covering_nodes(["corgi", "wolf", "beagle"], pets), covering_nodes(["wolf", "corgi", "cat"], pets)
    (['dog', 'wolf'], ['pet'])
    """
    above = [np.unique([node, *map(taxonomy.number, taxonomy.ancestors(label))])
             for label, node in zip(labels, taxonomy.check_labels(labels).tolist(), strict=True)]  # fmt: skip
    n_leaves = np.diff(taxonomy.covers.tocsc().indptr)

    def cheapest(rest: list[int], most: int) -> tuple[int, list[int]] | None:
        """(leaves, nodes) for these labels, by their places."""
        if not rest:
            return 0, []
        best: tuple[int, list[int]] | None = None
        for node in above[rest[0]].tolist() if most else []:
            further = cheapest([place for place in rest if node not in above[place]], most - 1)
            if further is not None:
                offer = int(n_leaves[node]) + further[0], [node, *further[1]]
                best = offer if best is None else min(best, offer, key=lambda each: (each[0], len(each[1])))
        return best

    offer = cheapest(list(range(len(labels))), max_nodes)
    assert offer is not None  # the root holds all
    return [taxonomy.nodes[node] for node in offer[1]]
