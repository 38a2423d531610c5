"""Base of the learned metrics: a metric is a linear map, and distance is Euclidean distance after it."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from nearsay.core.arrays import row_blocks
from nearsay.core.documented import DocumentedEstimator
from nearsay.core.settings import check_flag
from nearsay.core.validation import checked_rows, checked_rows_and_labels
from nearsay.data.content_order import content_order
from nearsay.data.rows import as_groups
from nearsay.distances.distance import Distance
from nearsay.distances.mahalanobis import Mahalanobis
from nearsay.errors import InputError

# If the largest number lies between these, rows are not scaled: float32 holds their squares.
SMALL, LARGE = 1e-15, 1e15
# Below this the map back to the user's unit would not be finite, and numbers have fewer digits.
SMALLEST = 1e-290


class LearnedMetric(ClassNamePrefixFeaturesOutMixin, TransformerMixin, DocumentedEstimator):
    """Base of learned metrics: a linear transformer after which the Euclidean distance is the learned one.

    A learner sets ``components_`` in ``fit``; everything else follows from it.

    Attributes
    ----------
    components_ : (n_components, n_features)
        The map L: ``transform(X)`` is X Lᵀ, and the squared distance of a and b is |L(a − b)|².
    """

    components_: np.ndarray

    def transform(self, X: Any) -> np.ndarray:
        """Map the rows to the space in which Euclidean distance is the learned one: (n_rows, n_components)."""
        check_is_fitted(self, "components_")
        rows = checked_rows(self, X, dtype=(np.float64, np.float32), reset=False)
        return rows @ self.components_.T.astype(rows.dtype, copy=False)

    def get_mahalanobis_matrix(self) -> np.ndarray:
        """M = LᵀL, symmetric and without negative eigenvalues: (n_features, n_features)."""
        check_is_fitted(self, "components_")
        return self.components_.T @ self.components_

    def metric(self) -> Distance:
        """The learned metric as a distance for ``NeighborClassifier(metric=…)`` and every search."""
        check_is_fitted(self, "components_")
        return Mahalanobis(L=self.components_)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _labeled_rows(
        self, X: Any, y: Any, groups: Any = None
    ) -> tuple[np.ndarray, float, np.ndarray, np.ndarray, np.ndarray | None]:
        """The checked rows in float64, as ``in_units`` gives them with the unit; class numbers, classes and groups.

        Rows are sorted by content, so that random draws and sums do not depend on the order in which they were passed.
        """
        X, y = self._checked_rows_and_labels(X, y)
        order = content_order(X, np.unique(y, return_inverse=True)[1], in_any_unit=True)
        groups = as_groups(groups, len(X))
        return *in_units(X[order]), *class_numbers(y[order]), None if groups is None else groups[order]

    def _checked_rows_and_labels(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        X, y = checked_rows_and_labels(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        return X, y

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def class_numbers(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The class number of each label, and the classes by number; an error where there is only one class.

    Classes are numbered in the order of their first rows, not by name: random draws and sums over classes are then the
    same under any names.

    >>> class_numbers(np.array(["oak", "elm", "oak"]))
    (array([0, 1, 0]), array(['oak', 'elm'], dtype='<U3'))
    """
    in_order, first, labels = np.unique(y, return_index=True, return_inverse=True)
    by_row = np.argsort(first)
    classes, labels = in_order[by_row], np.argsort(by_row)[labels]
    if len(classes) < 2:
        raise InputError(
            f"A metric is learned from what sets classes apart, but all {len(y)} rows have the label"
            f" {classes[0]!r}: 1 class. Pass rows of at least two classes."
        )
    return labels, classes


def rows_by_class(labels: np.ndarray) -> list[np.ndarray]:
    """The row numbers of each class, ascending.

    >>> rows_by_class(np.array([1, 0, 1]))
    [array([1]), array([0, 2])]
    """
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.cumsum(np.unique(labels, return_counts=True)[1])[:-1])


def in_units(X: np.ndarray) -> tuple[np.ndarray, float]:
    """Rows scaled so that their fourth powers neither overflow nor underflow; and the unit.

    The unit is a power of two, so that nothing is rounded; 1, with the rows themselves, if they need no scaling.

    >>> in_units(np.array([[3.0 * 2.0**600], [-(2.0**600)]]))[0].ravel(), in_units(np.array([[3.0]]))[1]
    (array([ 0.75, -0.25]), 1.0)
    """
    largest = max(float(X.max()), -float(X.min())) if X.size else 0.0
    if largest == 0 or SMALL <= largest <= LARGE:
        return X, 1.0
    if largest < SMALLEST:
        raise InputError(
            f"No number in X is larger than {largest:g}, too small to learn from without loss."
            " Multiply all rows by some large number first."
        )
    unit = 2.0 ** math.frexp(largest)[1]
    return X / unit, unit


def varying_columns(X: np.ndarray) -> np.ndarray:
    """Numbers of the columns in which rows differ, by more than rounding errors.

    A column with a number that is not finite is included: other checks refuse it.

    >>> varying_columns(np.array([[1.0, 7.0, 0.1 + 0.2], [2.0, 7.0, 0.3]]))
    array([0])
    """
    low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        constant = high - low <= 16 * np.finfo(np.float64).eps * np.maximum(high, -low)
    return np.flatnonzero(~constant)


def distinct_columns(X: np.ndarray) -> np.ndarray:
    """Numbers of the columns that vary and are no copy of an earlier one.

    Any other column would change the mean variance and the shrinkage without adding information. If none varies,
    the first column, so that there is always one.

    >>> distinct_columns(np.array([[5.0, 1.0, 1.0, 7.0], [6.0, 2.0, 2.0, 7.0]]))
    array([0, 1])
    """
    varying = varying_columns(X)
    if not len(varying):
        return np.zeros(1, np.int64)
    # A copy has the same weighted sum, to the last bit: few columns need a full comparison.
    lots, sums = np.random.default_rng(0).random(len(X)), np.zeros(X.shape[1])
    with np.errstate(invalid="ignore", over="ignore"):
        for part in row_blocks(len(X), row_bytes=8 * X.shape[1]):
            sums += (X[part] * lots[part, None]).sum(axis=0)
    _, which, counts = np.unique(sums[varying], return_inverse=True, return_counts=True)
    copied = np.zeros(len(varying), np.bool_)
    met = set()
    for place in np.flatnonzero(counts[which] > 1):
        digest = blake2b((X[:, varying[place]] + 0.0).tobytes()).digest()  # -0.0 is 0.0
        copied[place] = digest in met
        met.add(digest)
    return varying[~copied]


def factor(M: np.ndarray) -> np.ndarray:
    """The symmetric square root of a positive semidefinite matrix: L = Lᵀ with LᵀL = M.

    Eigenvalues that rounding made negative count as 0. The identity gives the identity.

    >>> factor(np.array([[4.0, 0.0], [0.0, 9.0]]))
    array([[2., 0.],
           [0., 3.]])
    """
    values, vectors = np.linalg.eigh((M + M.T) / 2)
    half = vectors * np.sqrt(np.sqrt(np.maximum(values, 0.0)))
    return half @ half.T  # a matrix times its transpose is symmetric to the last bit


class Report(Protocol):
    """Reports the number of rounds done, and the loss."""

    def __call__(self, done: int, loss: float) -> None: ...


@contextmanager
def progress_bar(words: str, max_iter: int, shown: Any) -> Iterator[Report]:
    """A progress bar on stderr with the rounds done and the loss, if ``shown``."""
    if not check_flag("verbose", shown):
        yield lambda done, loss: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}"),
    )
    with Progress(*columns, console=Console(file=sys.stderr, markup=False)) as progress:
        task = progress.add_task(words, total=max_iter, loss="")
        yield lambda done, loss: progress.update(task, completed=done, loss=f"{loss:.6g}")
