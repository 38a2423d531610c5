"""Which node to name: decisions as pure functions of leaf probabilities and a taxonomy.

Every rule takes probabilities (queries × leaves, columns as ``taxonomy.leaves``) and gives node numbers. Each has one
setting; the larger it is, the safer and the less specific the answers, up to the root, which is always right.

Only few nodes can win. Of those that say equally much, the most probable does; and one that says less must be more
probable than all that say more. These *contenders* are found once, and every rule chooses among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np

from nearsay.core.arrays import as_rows, row_blocks
from nearsay.core.parallel import in_parallel
from nearsay.errors import InputError
from nearsay.taxonomy.taxonomy import Taxonomy

# Ten thousand float32 probabilities, or fifty printed with six digits, add up to 1 within this.
SUM_TOLERANCE = 1e-4

INATURALIST_THRESHOLD = 0.78

COMPARED_DIGITS = 12

BLOCK_BYTES = 8 << 20


def flat(p_leaf: Any, taxonomy: Taxonomy) -> np.ndarray:
    """Name the most probable leaf, sure or not; the first one at ties.

    >>> tree = Taxonomy.from_edges([("R", "A"), ("R", "B"), ("A", "a1"), ("A", "a2"), ("B", "b1"), ("B", "b2")])
    >>> [tree.nodes[v] for v in flat([[0.4, 0.3, 0.2, 0.1], [0.1, 0.4, 0.4, 0.1]], tree)]
    ['a1', 'a2']
    """
    return as_probabilities(p_leaf, taxonomy).argmax(axis=1)


def flat_reject(p_leaf: Any, taxonomy: Taxonomy, threshold: Any) -> np.ndarray:
    """Name the most probable leaf where its probability is at least ``threshold``, otherwise the root.

    At 0 it is ``flat``; above 1 it is always the root. One threshold for all queries, or (n_queries,).

    >>> tree = Taxonomy.from_edges([("R", "A"), ("R", "B"), ("A", "a1"), ("A", "a2"), ("B", "b1"), ("B", "b2")])
    >>> [tree.nodes[v] for t in (0.4, 0.5) for v in flat_reject([[0.4, 0.3, 0.2, 0.1]], tree, t)]
    ['a1', 'R']
    """
    p_leaf = as_probabilities(p_leaf, taxonomy)
    thresholds = _for_each("threshold", threshold, len(p_leaf))
    return _or_root(p_leaf.argmax(axis=1), p_leaf.max(axis=1) >= thresholds, taxonomy)


def darts(p_leaf: Any, taxonomy: Taxonomy, reward_shift: Any) -> np.ndarray:
    """Name the node with the largest expected reward, (information + ``reward_shift``) · probability.

    A larger shift makes being right worth more than being specific. At ties the first node in taxonomy
    order wins, and leaves come first. (Dual Accuracy Reward Trade-off Search, Deng et al. 2012.)

    Parameters
    ----------
    reward_shift : float of at least 0, or (n_queries,)
        In bits, for all queries or for each. +inf names the root.

    >>> tree = Taxonomy.from_edges([("R", "A"), ("R", "B"), ("A", "a1"), ("A", "a2"), ("B", "b1"), ("B", "b2")])
    >>> p = [[0.4, 0.3, 0.2, 0.1]]                     # A .7, B .3; leaves are worth 2 bits, A and B 1, R 0
    >>> [tree.nodes[darts(p, tree, shift)[0]] for shift in (0, 0.5, 3)]      # .8 > .7   1.05 > 1.0   3.0 > 2.8
    ['a1', 'A', 'R']
    """
    from nearsay.decision.envelope_kernels import highest_lines

    p_leaf = as_probabilities(p_leaf, taxonomy)
    shifts = _for_each("reward_shift", reward_shift, len(p_leaf))
    levels = levels_of(taxonomy)

    def choose(rows: slice) -> np.ndarray:
        best = contenders(p_leaf[rows], levels)
        winners = np.empty(len(best.p), np.intp)
        highest_lines(best.p, best.nodes, best.information, shifts[rows], winners)
        return _or_root(winners, shifts[rows] < np.inf, taxonomy)

    return block_by_block(choose, len(p_leaf), taxonomy)


def fixed_threshold(p_leaf: Any, taxonomy: Taxonomy, threshold: Any = INATURALIST_THRESHOLD) -> np.ndarray:
    """Name the most specific node whose probability is at least ``threshold`` (the rule of iNaturalist).

    Of nodes that say equally much the most probable is named, of equally probable ones the first in
    taxonomy order. Where no node is so probable it is the root. At 0 it is ``flat``, unless a prior makes some
    leaves say more than others. One threshold for all queries, or (n_queries,).

    >>> tree = Taxonomy.from_edges([("R", "A"), ("R", "B"), ("A", "a1"), ("A", "a2"), ("B", "b1"), ("B", "b2")])
    >>> [tree.nodes[fixed_threshold([[0.4, 0.3, 0.2, 0.1]], tree, t)[0]] for t in (0.4, 0.6, 0.78)]
    ['a1', 'A', 'R']
    """

    def most_specific_first(p_leaf: np.ndarray, levels: Levels) -> tuple[np.ndarray, np.ndarray]:
        best = contenders(p_leaf, levels)
        return best.nodes, as_compared(best.p)

    return _first_reached(p_leaf, taxonomy, threshold, most_specific_first)


def climbing(p_leaf: Any, taxonomy: Taxonomy, threshold: Any) -> np.ndarray:
    """Climb from the most probable leaf to the first node with a probability of at least ``threshold`` (Goren 2024).

    Along first parents where a node has several; the root where no node is so probable. At 0 it is ``flat``. One
    threshold for all queries, or (n_queries,).

    >>> tree = Taxonomy.from_edges([("R", "A"), ("R", "B"), ("A", "a1"), ("A", "a2"), ("B", "b1"), ("B", "b2")])
    >>> p = [[0.4, 0.0, 0.3, 0.3]]                     # A .4, B .6: a climb never leaves the branch of a1
    >>> [tree.nodes[climbing(p, tree, t)[0]] for t in (0.4, 0.5)]
    ['a1', 'R']
    """
    return _first_reached(p_leaf, taxonomy, threshold, climbs)


def _first_reached(
    p_leaf: Any,
    taxonomy: Taxonomy,
    threshold: Any,
    ways: Callable[[np.ndarray, Levels], tuple[np.ndarray, np.ndarray]],
) -> np.ndarray:
    """The first node as probable as ``threshold`` on the way of each query, or the root; ``ways`` also gives its p."""
    p_leaf = as_probabilities(p_leaf, taxonomy)
    thresholds = _for_each("threshold", threshold, len(p_leaf))
    levels = levels_of(taxonomy)

    def choose(rows: slice) -> np.ndarray:
        way, p = ways(p_leaf[rows], levels)
        reached = p >= thresholds[rows, None]
        return _or_root(way[np.arange(len(way)), reached.argmax(axis=1)], reached.any(axis=1), taxonomy)

    return block_by_block(choose, len(p_leaf), taxonomy)


def climbs(p_leaf: np.ndarray, levels: Levels) -> tuple[np.ndarray, np.ndarray]:
    """(queries, longest way) nodes from the most probable leaf up, the root repeated, and their probabilities."""
    from nearsay.decision.envelope_kernels import add_up

    p_node = np.empty((len(p_leaf), len(levels.level)))
    add_up(p_leaf, levels.starts, levels.targets, p_node)
    way = levels.ways[p_leaf.argmax(axis=1)]
    return way, as_compared(np.take_along_axis(p_node, way, axis=1))


def as_compared(p_node: np.ndarray) -> np.ndarray:
    """Probabilities of nodes as they are held against a threshold: the same votes added up in another order are equal.

    >>> 0.1 + 0.2 + 0.3 == 0.3 + 0.2 + 0.1, as_compared(np.array([0.1 + 0.2 + 0.3])) == as_compared(np.array([0.6]))
    (False, array([ True]))
    """
    return p_node.round(COMPARED_DIGITS)


RULES: dict[str, Callable[[Any, Taxonomy, Any], np.ndarray]] = {
    "darts": darts,
    "fixed-threshold": fixed_threshold,
    "flat-reject": flat_reject,
    "climbing": climbing,
}


def node_probabilities(p_leaf: Any, taxonomy: Taxonomy) -> np.ndarray:
    """How probable each node is: the sum over the leaves below it, each counted once; (n_queries, n_nodes).

    >>> dag = Taxonomy.from_edges([("R", "P"), ("R", "Q"), ("P", "a"), ("P", "b"), ("Q", "b"), ("Q", "c")])
    >>> node_probabilities([[0.2, 0.5, 0.3]], dag)
    array([[0.2, 0.5, 0.3, 0.7, 0.8, 1. ]])
    """
    from nearsay.decision.envelope_kernels import add_up

    p_leaf = as_probabilities(p_leaf, taxonomy)
    levels = levels_of(taxonomy)
    p_node = np.empty((len(p_leaf), taxonomy.n_nodes))
    add_up(p_leaf, levels.starts, levels.targets, p_node)
    return p_node


@dataclass(frozen=True, eq=False)
class Levels:
    """A taxonomy as the loops need it: how much each node says, and how probabilities of leaves add up to those above.

    ``information`` (levels,) falls, ``first[l]`` is the first node of level l, and node v stands at ``level[v]``.
    Going through the nodes in order, the probability of node v is complete when it is added to those of
    ``targets[starts[v]:starts[v + 1]]``. ``ways[y]`` are the nodes from leaf y up along first parents, the root
    repeated to the end.
    """

    information: np.ndarray
    first: np.ndarray
    level: np.ndarray
    starts: np.ndarray
    targets: np.ndarray
    ways: np.ndarray

    @property
    def root(self) -> int:
        """The number of the root, which is the last node."""
        return len(self.level) - 1


@lru_cache(maxsize=8)
def levels_of(taxonomy: Taxonomy) -> Levels:
    """Arrange the arrays of a taxonomy for the loops, once.

    A node is the sum of its children; where these share leaves, which count once, it is the sum of its leaves.
    """
    falling, first, level = np.unique(-taxonomy.information, return_index=True, return_inverse=True)
    child = np.repeat(np.arange(taxonomy.n_nodes), [len(above) for above in taxonomy.parents])
    parent = np.fromiter(chain.from_iterable(taxonomy.parents), np.intp, count=len(child))
    node, leaf = taxonomy.covers.indices, np.repeat(np.arange(taxonomy.n_leaves), np.diff(taxonomy.covers.indptr))
    n_leaves = np.bincount(node)
    overlap = np.bincount(parent, n_leaves[child], minlength=taxonomy.n_nodes) > n_leaves
    sources = np.concatenate([leaf[overlap[node]], child[~overlap[parent]]])
    targets = np.concatenate([node[overlap[node]], parent[~overlap[parent]]])
    # A child has a lower number than its parents, so what it gets comes before what it gives.
    starts = np.searchsorted(np.sort(sources), np.arange(taxonomy.n_nodes + 1))
    # Unsigned: a number that cannot be negative spares the loops a question at every step.
    in_order = targets[np.argsort(sources, kind="stable")]
    of_node, starts_at, upward = (array.astype(np.uintp) for array in (level, starts, in_order))
    return Levels(-falling, first, of_node, starts_at, upward, _ways_up(taxonomy))


def _ways_up(taxonomy: Taxonomy) -> np.ndarray:
    up = np.array([above[0] if above else node for node, above in enumerate(taxonomy.parents)], np.intp)
    ways = [np.arange(taxonomy.n_leaves)]
    while (ways[-1] != taxonomy.n_nodes - 1).any():
        ways.append(up[ways[-1]])
    return np.column_stack(ways)


@dataclass(frozen=True)
class Contenders:
    """The nodes that can win at some setting: for each level of information the most probable one.

    ``information`` (levels,) falls; ``p`` and ``nodes`` are (queries, levels). A level that is no more
    probable than a more informative one has p = −1.
    """

    information: np.ndarray
    p: np.ndarray
    nodes: np.ndarray


def contenders(p_leaf: np.ndarray, levels: Levels) -> Contenders:
    """Find the contenders of a block of queries; ``p_leaf`` is as ``as_probabilities`` gives it."""
    from nearsay.decision.envelope_kernels import most_probable_of_each

    p = np.empty((len(p_leaf), len(levels.information)))
    nodes = np.empty(p.shape, dtype=np.intp)
    most_probable_of_each(p_leaf, levels.starts, levels.targets, levels.level, levels.first, p, nodes)
    return Contenders(levels.information, p, nodes)


def query_blocks(n_queries: int, taxonomy: Taxonomy) -> Iterator[slice]:
    """Slices of queries with so many probabilities of nodes that one is worth a thread, and all it needs is small."""
    return row_blocks(n_queries, size=max(1, BLOCK_BYTES // (8 * taxonomy.n_nodes)))


def block_by_block(choose: Callable[[slice], np.ndarray], n_queries: int, taxonomy: Taxonomy) -> np.ndarray:
    """The nodes that ``choose`` gives to slices of the queries, on all threads."""
    blocks = list(query_blocks(n_queries, taxonomy))
    # One block, as a single query is: calling for threads would take longer than the answer.
    return choose(slice(0, n_queries)) if len(blocks) <= 1 else np.concatenate(in_parallel(choose, blocks))


def as_probabilities(p_leaf: Any, taxonomy: Taxonomy) -> np.ndarray:
    """Give float64 rows, one column per leaf, that sum to 1; nothing is normalized silently.

    >>> as_probabilities([[0.9, 0.8]], Taxonomy.from_edges([("R", "a"), ("R", "b")]))
    Traceback (most recent call last):
    nearsay.errors.InputError: Row 0 of p_leaf sums to 1.7, but probabilities of the leaves sum to 1. ...
    """
    if isinstance(p_leaf, np.ndarray) and p_leaf.dtype == np.float64 and p_leaf.shape[1:] == (taxonomy.n_leaves,):
        # The quick way for what a classifier gave: where all rows sum to 1, nothing is infinite or not a number.
        with np.errstate(invalid="ignore"):
            off = np.abs(p_leaf.sum(axis=1) - 1).max(initial=0.0)
        if off <= SUM_TOLERANCE and p_leaf.min(initial=0.0) >= 0:
            return np.ascontiguousarray(p_leaf)
    p = as_rows(p_leaf, name="p_leaf")
    if p.shape[1] != taxonomy.n_leaves:
        raise InputError(
            f"p_leaf has {p.shape[1]} columns, but the taxonomy has {taxonomy.n_leaves} leaves:"
            " one column for each is expected, in the order of taxonomy.leaves."
        )
    p = np.ascontiguousarray(p, dtype=np.float64)
    if (p < 0).any():
        row, column = np.argwhere(p < 0)[0]
        raise InputError(
            f"p_leaf holds {p[row, column]:g} at row {row}, column {column}; a probability is at least 0."
            " Turn scores into probabilities first (sklearn.calibration.CalibratedClassifierCV does)."
        )
    sums = p.sum(axis=1)
    wrong = np.flatnonzero(np.abs(sums - 1) > SUM_TOLERANCE)
    if len(wrong):
        raise InputError(
            f"Row {wrong[0]} of p_leaf sums to {sums[wrong[0]]:.6g}, but probabilities of the leaves sum to 1."
            " Divide outputs of one classifier a class (such as Platt scaling gives) by their row sum:"
            " p / p.sum(axis=1, keepdims=True)."
        )
    return p


def _or_root(nodes: np.ndarray, keep: Any, taxonomy: Taxonomy) -> np.ndarray:
    return np.where(keep, nodes, taxonomy.n_nodes - 1)


def _for_each(name: str, setting: Any, n_queries: int) -> np.ndarray:
    """A setting for each query, from one for all or one for each."""
    values = np.asarray(setting)
    if values.dtype.kind not in "fiu" or not (values >= 0).all():
        raise InputError(f"{name} must be a number of at least 0; got {setting!r}.")
    if values.shape not in ((), (n_queries,)):
        raise InputError(
            f"{name} must be one number or one for each of the {n_queries} queries; got shape {values.shape}."
        )
    each = np.empty(n_queries)
    each[:] = values
    return each
