"""Transforms of rows before distances are measured: columns of one scale, and directions weighed by the classes.

    rows ──► columns of one scale ─┬► directions in which a class spreads count less ──► unit length
             (standardized)        │  (whitened), those that tell classes apart more    (whitened, unit length)
                                   └► rows of other classes a margin away (large margin)

A map that was learned from the label of a row is too good on that row: past cases
are mapped by maps that were learned without them, fold by fold.

Maps leave out columns that are constant in the rows they learn from, and all but the
first of columns that are copies: neither adds anything, but each would count as one more
dimension in every mean over columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cholesky

from nearsay.core.arrays import rows_within, within_range
from nearsay.core.parallel import one_blas_thread
from nearsay.learn.linear_map import distinct_columns, factor
from nearsay.learn.lmnn.solve import LMNNProblem, mixed_with_euclidean, solve
from nearsay.learn.lmnn.targets import target_neighbors
from nearsay.learn.whitening import around_class_means, pulling_metric, trusted_covariance
from nearsay.posterior.base import FOLDS, FRESH, folds_by
from nearsay.posterior.views.principal_directions import ROWS_AT_ONCE, ColumnDirections, DirectionsWithout, along
from nearsay.posterior.views.value_differences import value_difference_matrix

# With more columns the directions are taken among this many principal ones: the time to find them grows with the cube.
MOST_COLUMNS = 512
# Spread of the widest column to that of the narrowest, from which on standardized columns are another view.
UNEQUAL = 3.0
ROWS_TO_LEARN_FROM = 200_000
BLOCK_BYTES = 4 << 20
# With so many rows a column, scales and principal directions, which know no labels, are learned once and not again
# without each fold: a row moves them by less than a fold of other rows would.
ROWS_A_COLUMN = 4
# Each fold maps all rows again. Of more rows than these two thirds teach a map about as much as four fifths do.
MANY_ROWS, FOLDS_OF_MANY = 20_000, 3


@dataclass(frozen=True)
class RowTransform:
    """How rows are mapped before their distance is measured.

    name : for people.
    power : how far within-class spread is evened out, from 0 (not at all) to 1; None leaves columns as they are.
    pull : weight of the metric that regression on the classes gives.
    large_margin : whether LMNN then moves rows of other classes away from rows and their nearest fellows.
    unit : whether rows are made as long as each other at the end.
    distance : the name of the distance that is measured then.
    blocks : columns that stand for one column of a table: the first and the one after the last. Where there are any,
        each block becomes what it says about the classes (``value_differences.py``).
    """

    name: str
    power: float | None = None
    pull: float = 0.0
    large_margin: bool = False
    unit: bool = False
    distance: str = "euclidean"
    blocks: tuple[tuple[int, int], ...] = ()

    @property
    def knows_labels(self) -> bool:
        """Whether the map is learned from labels, so that past cases need maps learned without them."""
        return self.power is not None or bool(self.blocks)


STANDARDIZED = RowTransform("standardized")
# One column far off counts for less than in Euclidean distance.
STANDARDIZED_MANHATTAN = RowTransform("standardized, manhattan", distance="manhattan")
WHITENED = (
    RowTransform("whitened", power=0.5),
    RowTransform("whitened fully", power=1.0),
    RowTransform("whitened, pull 1", power=0.5, pull=1.0),
    RowTransform("whitened, pull 3", power=0.5, pull=3.0),
    RowTransform("whitened, pull 1, unit length", power=0.5, pull=1.0, unit=True),
)
# The one that does best beside the rows as they are.
WHITENED_BESIDE = WHITENED[2]

# What each column of a table says about the classes, by itself.
VALUE_DIFFERENCES = "value differences"

# A few steps of LMNN go most of the way. All the way, it overfits a few hundred rows.
LARGE_MARGIN = RowTransform("large margin", power=0.0, large_margin=True)
LMNN_TARGETS = 3
LMNN_STEPS = 10
LMNN_TOLERANCE = 1e-4
LMNN_SHRINKAGE = 1 / 3


@dataclass(frozen=True)
class LinearMap:
    """Some columns, centered, times a matrix; at unit length where asked. The same digits for a row in any batch.

    center : (n_taken,)
    matrix : (n_taken, n) or (n_taken,), one dimension is a scale for each column: with very many columns a square
        matrix would not fit into memory.
    unit : whether mapped rows are made as long as each other.
    columns : (n_taken,) numbers of the columns that are taken; None for all.
    further : (n, n_columns) or None, a second matrix, after the first. Maps that differ only here share the first,
        which is large where columns are many.

    A row that is mapped beyond what its type holds lies at the end of its range: far from all others, and a number.

    >>> LinearMap(np.array([1.0, 0.0]), np.array([[2.0, 0.0], [0.0, 1.0]]), unit=False)(np.array([[2.0, 3.0]]))
    array([[2., 3.]])
    >>> LinearMap(np.array([1.0]), np.array([5.0]), unit=False, columns=np.array([1]))(np.array([[2.0, 3.0]]))
    array([[10.]])
    """

    center: np.ndarray
    matrix: np.ndarray
    unit: bool
    columns: np.ndarray | None = None
    further: np.ndarray | None = None

    @classmethod
    def of_columns(cls, columns: np.ndarray) -> LinearMap:
        """Some columns, as they are."""
        return cls(np.zeros(len(columns)), np.ones(len(columns)), unit=False, columns=columns)

    @property
    def n_columns(self) -> int:
        """How many columns mapped rows have."""
        return int((self.matrix if self.further is None else self.further).shape[-1])

    @property
    def parts(self) -> list[Any]:
        """What tells this map from others: arrays and plain values."""
        return [self.center, self.matrix, self.unit, *([] if x is None else x for x in (self.columns, self.further))]

    @staticmethod
    def dtype_of(dtype: np.dtype) -> np.dtype:
        """The type of rows of this type once they are mapped: float32 where they are no wider."""
        return np.dtype(np.float32 if dtype in (np.float16, np.float32) else np.float64)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """The mapped rows: (n_rows, n_columns), float32 where the rows are."""
        dtype = self.dtype_of(rows.dtype)
        mapped = np.empty((len(rows), self.n_columns), dtype)
        by_number = self.matrix.ndim == 1 and self.further is None and not self.unit  # digits depend on nothing else
        size = rows_within(BLOCK_BYTES, 8 * len(self.center), most=max(1, len(rows))) if by_number else ROWS_AT_ONCE
        block = np.zeros((size, len(self.center)))
        with one_blas_thread(), np.errstate(over="ignore"):  # what becomes infinite is put right below
            for first in range(0, len(rows), size):
                some = rows[first : first + size]
                some = some if self.columns is None else some[:, self.columns]
                np.subtract(some, self.center, out=block[: len(some)])
                mapped[first : first + len(some)] = self._finished(self._product(block))[: len(some)]
        return within_range(mapped, mapped.dtype)

    def largest_mapped(self, largest: float) -> float:
        """No number of a mapped row is larger than this, where none of the rows is larger than ``largest``."""
        if self.unit:
            return 1.0
        reach = largest + np.abs(self.center)
        reach = reach * np.abs(self.matrix) if self.matrix.ndim == 1 else reach @ np.abs(self.matrix)
        return float((reach if self.further is None else reach @ np.abs(self.further)).max(initial=0.0))

    def _product(self, block: np.ndarray) -> np.ndarray:
        product: np.ndarray = block * self.matrix if self.matrix.ndim == 1 else block @ self.matrix
        return product if self.further is None else product @ self.further

    def _finished(self, mapped: np.ndarray) -> np.ndarray:
        if not self.unit:
            return mapped
        lengths = np.sqrt((mapped * mapped).sum(axis=1, keepdims=True))
        return np.asarray(mapped / np.where(lengths > 0, lengths, 1.0))


def learn_maps(
    transforms: Sequence[RowTransform],
    X: Any,
    labels: np.ndarray,
    directions: ColumnDirections | None = None,
    most_columns: int = MOST_COLUMNS,
) -> list[LinearMap]:
    """A map for each transform, from rows and their class numbers; what several share is computed, and held, once.

    X : (n_rows, n_columns) finite numbers; at least one row.
    labels : (n_rows,) class numbers.
    directions : those of more rows, where they are known; by default they are learned from these.
    most_columns : of a map that knows labels; of more columns it takes principal directions.
    """
    X, labels = _some(X, labels)
    all_columns = X
    know_labels = any(transform.knows_labels for transform in transforms)
    if directions is None:
        directions = ColumnDirections.of(X, most_columns if know_labels else None)
    taken, first, matrix, basis = directions.columns, directions.center, directions.scale, directions.basis
    maps = {transform: LinearMap(first, matrix, transform.unit, taken) for transform in transforms}
    if know_labels:
        assert basis is not None
        standardized = directions.standardized(X)
        with one_blas_thread():
            few = len(basis) == basis.shape[1]
            spreads = ClassSpread(along(standardized, basis), np.unique(labels, return_inverse=True)[1])
            shared = matrix[:, None] * basis
            for transform in transforms:
                if transform.power is not None:
                    factor = spreads.factor(transform.power, transform.pull, large_margin=transform.large_margin)
                    product = (shared @ factor, None) if few else (shared, factor)
                    maps[transform] = LinearMap(first, product[0], transform.unit, taken, product[1])
                elif transform.blocks:
                    matrix = value_difference_matrix(all_columns, labels, transform.blocks)
                    maps[transform] = LinearMap(all_columns.mean(axis=0), matrix, transform.unit)
    return [maps[transform] for transform in transforms]


def large_margin_map(X: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The map that a few steps of LMNN lead to: symmetric, (n_columns, n_columns).

    The identity where there is one class, or no class of two rows.
    """
    sizes = np.bincount(labels)
    if len(sizes) < 2 or sizes.max() < 2:
        return np.eye(X.shape[1])
    targets = target_neighbors(X, labels, min(LMNN_TARGETS, len(X) - 1))
    problem = LMNNProblem(X, labels, targets, push=0.5, margins=np.ones((len(sizes), len(sizes))))
    axes = np.eye(X.shape[1])
    L = solve(problem, axes, max_iter=LMNN_STEPS, tol=LMNN_TOLERANCE, report=lambda done, loss: None).point
    return factor(mixed_with_euclidean(L.T @ L, problem, LMNN_SHRINKAGE))


def unequal_columns(X: Any) -> bool:
    """Whether columns spread so unequally that standardized ones are another view; constant ones do not count.

    >>> unequal_columns(np.array([[0.0, 0.0], [1.0, 2.0]])), unequal_columns(np.array([[0.0, 0.0], [1.0, 90.0]]))
    (False, True)
    """
    rows = _some(X, np.zeros(len(X), np.int64))[0]
    spread = rows[:, distinct_columns(rows)].std(axis=0)
    return len(spread) > 1 and bool(spread.max() > UNEQUAL * spread.min())


def columns_of_maps(X: Any) -> np.ndarray:
    """Numbers of the columns that maps of these rows take: no constant ones, and one of copies."""
    return distinct_columns(_some(X, np.zeros(len(X), np.int64))[0])


class ClassSpread:
    """How rows spread around the means of their classes, and which directions separate classes.

    ``factor`` gives A with A Aᵀ = S^(−power) + pull · (the regression metric), as ``WithinClassWhitening`` has it.
    """

    def __init__(self, X: np.ndarray, labels: np.ndarray) -> None:
        centered = around_class_means(X, labels)
        self._X, self._labels = X, labels
        values, self._vectors = np.linalg.eigh(trusted_covariance(centered))
        least = values[-1] * len(values) * np.finfo(np.float64).eps
        self._values = np.maximum(values, least) if values[-1] > 0 else np.ones(len(values))
        self._pulls: dict[float, np.ndarray] = {}

    def factor(self, power: float, pull: float, *, large_margin: bool = False) -> np.ndarray:
        """(n_columns, n_columns)"""
        if large_margin:
            start = self.factor(power, pull)
            return start @ large_margin_map(self._X @ start, self._labels)
        whitened: np.ndarray = self._vectors * self._values ** (-power / 2)
        if not pull or self._labels.max(initial=0) == 0:
            return whitened
        M = whitened @ whitened.T
        if power not in self._pulls:
            self._pulls[power] = pulling_metric(self._X, self._labels, like=M)
        M = M + pull * self._pulls[power]
        try:
            return cholesky(M, lower=True)
        except LinAlgError:  # rows that are all but equal, as beside one of 1e30: a spread of rounding errors alone
            return factor(M)


def _some(X: Any, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows in float64; of very many every so many-th, which gives the same spread."""
    even = _even(len(X))
    return np.asarray(X[even], np.float64), labels[even]


def _even(n: int) -> slice:
    """Which of so many rows teach a map: all, or in even steps as many as do."""
    return slice(None, None, max(1, -(-n // ROWS_TO_LEARN_FROM)))


def shares_directions(n_rows: int, n_columns: int) -> bool:
    """Whether folds take the directions of all rows."""
    return n_rows >= ROWS_A_COLUMN * n_columns


def folds_to_learn(order: np.ndarray, labels: np.ndarray, groups: np.ndarray | None = None) -> np.ndarray:
    """The fold of each row, without which something is learned for its past case: (n_rows,).

    Validation rows are in one by themselves: what they are asked is learned from all training rows.
    """
    fold = folds_by(order, labels, FOLDS if len(labels) <= MANY_ROWS else FOLDS_OF_MANY, groups)
    if groups is not None and (groups == FRESH).any():
        fold[groups == FRESH] = fold.max() + 1
    return fold


class LearnedTransforms:
    """The maps of several transforms of one collection: learned from all rows, and from all but each fold of them.

    X : (n_rows, n_columns) finite numbers, held; or ``ShardedRows``, of which those are read that teach.
    labels : (n_rows,) class numbers.
    order : (n_rows,) row numbers, in which rows are dealt into folds, and teach; theirs by default.
    groups : (n_rows,) int, optional, rows of one group are in one fold.
    """

    most_columns = MOST_COLUMNS  # as in ``learn_maps``

    def __init__(
        self,
        transforms: Sequence[RowTransform],
        X: Any,
        labels: np.ndarray,
        order: np.ndarray | None = None,
        groups: np.ndarray | None = None,
    ) -> None:
        self.transforms = list(transforms)
        self.X = X
        self.labels = labels
        self.order = np.arange(len(labels)) if order is None else order
        self.fold = folds_to_learn(self.order, labels, groups)
        self._whole: list[LinearMap] | None = None
        self._without: dict[int, list[LinearMap]] = {}

    @cached_property
    def _directions(self) -> ColumnDirections:
        """Scales for the maps of all folds, and directions of all rows."""
        know_labels = any(transform.knows_labels for transform in self.transforms)
        return ColumnDirections.of(self._teachers, self.most_columns if know_labels else None)

    @cached_property
    def _bases(self) -> list[np.ndarray] | None:
        """The directions of the rows without each fold; None where those of all rows serve: rows or columns are few."""
        directions = self._directions
        n_columns = len(directions.center)
        if directions.basis is None or n_columns <= self.most_columns or shares_directions(len(self.order), n_columns):
            return None
        columns, fold = directions.standardized(self._teachers), self.fold[self.order[_even(len(self.order))]]
        without = DirectionsWithout(columns)
        with one_blas_thread():
            return [without.without(fold == number, self.most_columns) for number in range(self.fold.max() + 1)]

    def basis(self, without: int | None = None) -> np.ndarray | None:
        """The principal directions in which maps are learned, of all rows or of those without a fold, if they are."""
        return self._directions.basis if without is None or self._bases is None else self._bases[without]

    @property
    def _teachers(self) -> np.ndarray:
        return np.asarray(self.X[self.order[_even(len(self.order))]], np.float64)

    def _to_saved(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_directions", "_bases")}

    def whole(self, transform: RowTransform) -> LinearMap:
        """The map for queries."""
        if self._whole is None:
            self._whole = self._learned_from(self.order)
        return self._whole[self.transforms.index(transform)]

    def without(self, fold: int, transform: RowTransform) -> LinearMap:
        """The map for the past cases of a fold, learned without it."""
        if fold not in self._without:
            self._without[fold] = self._learned_from(self.order[self.fold[self.order] != fold], fold)
        return self._without[fold][self.transforms.index(transform)]

    def _learned_from(self, rows: np.ndarray, without: int | None = None) -> list[LinearMap]:
        """Maps that these rows teach: all, or those without a fold."""
        some = rows[_even(len(rows))]  # of rows in files no others are read
        directions = self._directions
        if without is not None and self._bases is not None:
            directions = replace(directions, basis=self._bases[without])
        return learn_maps(self.transforms, self.X[some], self.labels[some], directions, self.most_columns)
