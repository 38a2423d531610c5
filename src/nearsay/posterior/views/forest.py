"""A random forest as a vote of neighbors: the rows that share leaves with a query, by how often they do.

    row ──► trees ──► one leaf each ──► the rows that the leaf was grown from ──► shares of the vote

The weight of a row for a query is the mean, over the trees, of its share of the leaf that the query falls into
(RF-GAP: Rhodes, Cutler and Moon, 2023). The weights add up to 1, and the labels of the rows, so weighted, are the
probabilities of the forest. A past case is asked of the trees that were grown without it, so that one forest gives
honest past cases too.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin

from nearsay.core.arrays import evenly, row_blocks
from nearsay.core.parallel import in_parallel
from nearsay.data.content_order import as_met
from nearsay.errors import InputError
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.views.row_transforms import STANDARDIZED, learn_maps
from nearsay.posterior.views.tree_growth import check_trees, grow_trees, leaves_of_trees

# Standardized numbers are compared in float32.
FARTHEST = 1e30
# Shares of the vote that differ less are equal, but for rounding.
SHARE_DIGITS = 12
# Nodes of fewer different rows are not split: the numbers to try, from the finest trees to the coarsest, and how many
# past cases say which is best.
SMALLEST_SPLITS = (2, 5, 10, 20, 40, 80)
CASES_TO_SPLIT_BY = 2000
# A forest of T trees gives a class none of T votes where the next tree may well give it one.
FOREST_SPREAD = 0.01
LOSS_DIGITS = 9


class ForestClasses(ClassifierMixin, BaseEstimator):
    """Probabilities of a random forest, and the weights of training rows behind them.

    Parameters
    ----------
    n_trees : int, default=100
    rows_a_tree : int, default=20_000, rows that each tree is grown from, at most: drawn anew for each, so that together
        they see many more.
    smallest_split : int or None, default=None, nodes of fewer different rows are not split. None takes the one of
        ``SMALLEST_SPLITS`` by which rows are answered best by the trees grown without them: where labels are noisy,
        small leaves repeat the noise.

    Attributes
    ----------
    classes_ : (n_classes,)
    """

    def __init__(self, *, n_trees: int = 100, rows_a_tree: int = 20_000, smallest_split: int | None = None) -> None:
        self.n_trees = n_trees
        self.rows_a_tree = rows_a_tree
        self.smallest_split = smallest_split

    def _to_saved(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_shares", "_row_shares")}

    @classmethod
    def _from_saved(cls, fields: dict[str, Any]) -> ForestClasses:
        """From a file, with what could lead out of its arrays refused."""
        forest: Any = cls.__new__(cls)
        vars(forest).update(fields)
        if "_right" in fields:
            check_trees(forest._roots, forest._feature, forest._right)
            if forest._counts.min(initial=1) < 1:
                raise InputError("A saved forest has a row that was drawn 0 times.")
        return forest

    @property
    def n_rows(self) -> int:
        """How many rows it was grown from."""
        return len(self._labels)

    def fit(self, X: np.ndarray, y: np.ndarray, groups: np.ndarray | None = None) -> Self:
        """Grow the trees; X holds finite numbers, and there are at least two classes.

        With ``groups``, a number for each row, every tree draws whole groups: it was grown without a row where it was
        grown without the rows of its group.
        """
        self.classes_, self._labels = np.unique(y, return_inverse=True)
        [self._standardized] = learn_maps([STANDARDIZED], X, self._labels)
        # Numbered by their first rows, classes of other names give the same trees to the last bit; so do groups.
        one_each = np.arange(len(X) + 1), as_met(self._labels)
        columns = self._columns(X)
        self._stop_early(columns, self._grow(columns, *one_each, None if groups is None else as_met(groups)))
        return self

    def _grow(
        self, columns: np.ndarray, starts: np.ndarray, classes: np.ndarray, groups: np.ndarray | None = None
    ) -> np.ndarray:
        """Grow the trees; the classes of row i, one or many, are ``classes[starts[i] : starts[i + 1]]``.

        Gives how many different rows reached each node.
        """
        unit = np.arange(len(columns)) if groups is None else groups
        n_units = int(unit.max()) + 1
        n_drawn = max(1, n_units * min(self.rows_a_tree, len(columns)) // len(columns))

        def drawn(seed: int) -> tuple[np.ndarray, np.ndarray]:
            units = np.random.RandomState(seed).randint(0, n_units, n_drawn, dtype=np.int32)
            often = np.bincount(units, minlength=n_units)[unit]
            rows = np.flatnonzero(often)
            return rows, often[rows]

        # Seeds and draws are those of scikit-learn's forests, where each row is a group.
        random = np.random.RandomState(0)
        seeds = [random.randint(np.iinfo(np.int32).max) for _ in range(self.n_trees)]
        trees = grow_trees(columns, in_parallel(drawn, seeds), starts, classes, seeds)
        self._roots, self._feature, self._threshold, self._right = trees[:4]
        self._members, self._counts = trees.members, trees.counts
        self._starts = np.append(0, np.cumsum(np.where(self._right, 0, trees.sizes)))
        return trees.sizes

    def _stop_early(self, columns: np.ndarray, sizes: np.ndarray) -> None:
        """Cut the trees back to splits of at least so many rows, as many as past cases are answered best with.

        ``sizes`` are the different rows that reached each node.
        """
        if self.smallest_split is not None:
            self._cut_back(self.smallest_split, np.empty((0, len(self._roots)), np.int64), sizes)
            return
        judged = evenly(self.n_rows, CASES_TO_SPLIT_BY)
        leaves, votes = self._leaves(columns[judged]), 1.0 - self._has_drawn(judged)
        best, least = self, np.inf
        for smallest in SMALLEST_SPLITS:
            trial = copy(best)
            leaves, sizes = trial._cut_back(smallest, leaves, sizes)
            p = trial._proba_at(leaves, votes)[np.arange(len(judged)), self._labels[judged]]
            loss = -float(np.log((1 - FOREST_SPREAD) * p + FOREST_SPREAD / len(self.classes_)).mean())
            if round(loss, LOSS_DIGITS) >= least:
                break
            best, least = trial, round(loss, LOSS_DIGITS)
        self.__dict__.update(best.__dict__)

    def _cut_back(self, smallest: int, leaves: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Make leaves of nodes that fewer rows reached; gives the leaves of the same rows anew, and sizes of nodes."""
        self.__dict__.pop("_shares", None)
        self.smallest_split_ = smallest
        is_leaf = (self._right == 0) | (sizes < smallest)
        parent = np.arange(len(sizes))
        inner = np.flatnonzero(self._right)
        parent[inner + 1] = parent[self._right[inner]] = inner
        # Children are smaller than their parents, so that what lies below a leaf has a leaf for parent.
        kept = ~is_leaf[parent]
        kept[self._roots] = True
        while not kept[leaves].all():
            leaves = np.where(kept[leaves], leaves, parent[leaves])
        number = np.cumsum(kept) - 1
        self._right = np.where(is_leaf, 0, number[self._right])[kept].astype(np.int32)
        self._feature, self._threshold = self._feature[kept], self._threshold[kept]
        self._roots = number[self._roots]
        # The rows of all leaves below a node follow each other.
        self._starts = np.append(self._starts[:-1][kept], self._starts[-1])
        return number[leaves], sizes[kept]

    def predict_proba(self, X: np.ndarray, left_out: np.ndarray | None = None) -> np.ndarray:
        """Probabilities (n_queries, n_classes); ``left_out`` is the training row that each query is, −1 for none."""
        columns = self._columns(X)
        votes = None if left_out is None else 1.0 - self._has_drawn(left_out)
        p = np.empty((len(X), len(self.classes_)))
        for part in row_blocks(len(X), row_bytes=64 * len(self._roots)):
            p[part] = self._proba_at(self._leaves(columns[part]), None if votes is None else votes[part])
        return p

    def _proba_at(self, leaves: np.ndarray, votes: np.ndarray | None) -> np.ndarray:
        """Probabilities of rows that lie in these leaves (n_rows, n_trees), by the trees that have a vote."""
        p = (self._by_leaf(leaves, votes) @ self._shares).toarray()
        total = p.sum(axis=1, keepdims=True)
        return np.where(total > 0, p / np.where(total > 0, total, 1.0), 1 / len(self.classes_))

    def _by_leaf(self, leaves: np.ndarray, votes: np.ndarray | None = None) -> sparse.csr_array:
        """What each tree counts at the leaf of each row, 1 by default, over the number of trees: (n_rows, n_nodes)."""
        counts = np.ones(leaves.shape) if votes is None else votes
        ends = leaves.shape[1] * np.arange(len(leaves) + 1)
        by_leaf = counts.ravel() / leaves.shape[1], leaves.ravel(), ends
        return sparse.csr_array(by_leaf, (len(leaves), len(self._feature)))

    @cached_property
    def _shares(self) -> sparse.csr_array:
        """The shares of the classes in each leaf: (n_nodes, n_classes)."""
        return self._shares_of(self._labels[self._members], len(self.classes_))

    @cached_property
    def _row_shares(self) -> sparse.csr_array:
        """The shares of the rows in each leaf: (n_nodes, n_rows)."""
        return self._shares_of(self._members, self.n_rows)

    def _shares_of(self, who: np.ndarray, n: int) -> sparse.csr_array:
        sizes = np.diff(self._starts)
        leaf = np.repeat(np.arange(len(sizes)), sizes)
        in_leaf = np.bincount(leaf, self._counts, minlength=len(sizes))
        where = who.copy(), self._starts.copy()  # duplicates are summed in place
        shares = sparse.csr_array((self._counts / in_leaf[leaf], *where), (len(sizes), n))
        shares.sum_duplicates()
        return shares

    def _has_drawn(self, rows: np.ndarray) -> np.ndarray:
        """Which trees were grown with each of these rows: (n_rows, n_trees) bool."""
        leaf = np.repeat(np.arange(len(self._feature)), np.diff(self._starts))
        tree = np.searchsorted(self._roots, leaf, side="right") - 1
        drawn = np.zeros((len(self._labels) + 1, len(self._roots)), np.bool_)  # the last line is for no row
        drawn[self._members, tree] = True
        return np.asarray(drawn[rows])

    def neighbors(self, X: np.ndarray, k: int) -> NeighborTable:
        """The ``k`` rows with the largest shares of the vote on each query; their distance is −share."""
        columns = self._columns(X)
        rows, distances = np.full((len(X), k), -1), np.full((len(X), k), np.inf)
        for part in row_blocks(len(X), row_bytes=64 * len(self._roots)):
            shares = self._by_leaf(self._leaves(columns[part])) @ self._row_shares
            query = np.repeat(np.arange(shares.shape[0]), np.diff(shares.indptr))
            order = np.lexsort((shares.indices, -np.round(shares.data, SHARE_DIGITS), query))
            place = np.arange(len(order)) - shares.indptr[query]
            shown = place < k
            rows[part][query[shown], place[shown]] = shares.indices[order[shown]]
            distances[part][query[shown], place[shown]] = -shares.data[order[shown]]
        return NeighborTable(rows, distances)

    def _leaves(self, columns: np.ndarray) -> np.ndarray:
        return leaves_of_trees(columns, self._roots, self._feature, self._threshold, self._right)

    def _columns(self, X: np.ndarray) -> np.ndarray:
        """As trees compare them."""
        return np.asarray(np.clip(self._standardized(X), -FARTHEST, FARTHEST), np.float32)
