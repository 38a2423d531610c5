"""Past cases answered by models that were chosen without them.

    rows of two thirds ──► views, posterior, k, weights ──┐
    a row of the last third ──► all other rows, measured so ─┴─► its answer

What does best among many candidates on some rows looks too good there, the more so the fewer they are. Taking a case
out of the choice is not enough: as a neighbor of the others it still lends them its label, and has them for neighbors
itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from nearsay.errors import InputError
from nearsay.posterior.base import splits
from nearsay.posterior.methods.named import is_auto
from nearsay.posterior.model import FittedModel
from nearsay.posterior.row_weights import RowWeights
from nearsay.posterior.views.model_beside import held_out_of_rows
from nearsay.search.shards import ShardedRows

if TYPE_CHECKING:
    from nearsay.posterior.choice.fitting import FitOptions
    from nearsay.posterior.fused_model import FusedOptions

# Choosing again takes twice as long as choosing once with three folds, four times with five.
NESTED_FOLDS = 3
# With more rows the choice is hardly too optimistic; fewer have nothing to choose by.
NESTED_BELOW, NESTED_FROM = 2000, 20
# Choosing again among very many classes takes long, for few rows of each.
MOST_PAIRS = 100_000  # of a row and a class


def fit_nested(
    options: FitOptions | FusedOptions,
    X: Any,
    labels: np.ndarray,
    classes: np.ndarray,
    weights: RowWeights | None = None,
    beside_proba: Sequence[Any] | None = None,
    groups: np.ndarray | None = None,
) -> FittedModel:
    """Fit a model; its past cases are judged by choices made without them, where few rows chose."""
    model = options.fit(X, labels, classes, weights, beside_proba, groups)
    if not options.nests or not worth_nesting(len(labels), len(classes), options.n_neighbors):
        return model
    assert model.order is not None
    given = X, labels, classes, weights, beside_proba, model.order, groups
    return replace(model, nested=NestedFits(options.in_memory(), *given))


def worth_nesting(n_rows: int, n_classes: int, n_neighbors: Any = "auto") -> bool:
    """Whether settings that were chosen by so many rows are chosen again, without each case, to judge it.

    >>> worth_nesting(150, 3), worth_nesting(150, 3, n_neighbors=50), worth_nesting(2000, 3), worth_nesting(1999, 51)
    (True, False, False, False)
    """
    few = NESTED_FROM <= n_rows < NESTED_BELOW and n_rows * n_classes <= MOST_PAIRS
    return few and (is_auto(n_neighbors) or NESTED_FOLDS * int(n_neighbors) < n_rows)


def thirds(
    order: np.ndarray, labels: np.ndarray, groups: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(rows to choose by, rows to judge) for each third; the only row of a class is never judged: none names it."""
    order = order[np.bincount(labels)[labels[order]] > 1]
    for _, fold in splits(labels[order], NESTED_FOLDS, None if groups is None else groups[order]):
        yield np.setdiff1d(np.arange(len(labels)), order[fold]), order[fold]


@dataclass(frozen=True, eq=False)
class NestedFits:
    """The same options fitted again without each third of the rows, when their answers are first asked for.

    options, X, labels, classes, weights, beside_proba : as ``fit_nested`` was given them.
    order : (n_rows,) row numbers, in the order in which they are dealt into thirds.
    groups : (n_rows,) rows of one group are in one third, and are never asked about each other; or None.
    """

    options: FitOptions | FusedOptions
    X: Any
    labels: np.ndarray
    classes: np.ndarray
    weights: RowWeights | None
    beside_proba: Sequence[Any] | None
    order: np.ndarray
    groups: np.ndarray | None = None

    @cached_property
    def answers(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """(row numbers, their probabilities): rows answered by all others, by models chosen without them."""
        X = self.X[:] if isinstance(self.X, ShardedRows) else self.X
        answers = []
        for rest, rows in thirds(self.order, self.labels, self.groups):
            weights = None if self.weights is None else self.weights[rest]
            given = held_out_of_rows(self.beside_proba, rest, len(self.labels))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # they were given when the classifier was fitted
                groups = None if self.groups is None else self.groups[rest]
                model = self.options.fit(
                    self.options.take(X, rest, rest), self.labels[rest], self.classes, weights, given, groups
                )
            try:
                answers.append((rows, model.answers_over(X, self.labels, self.weights, rows, self.groups)))
            except InputError:  # a distance that takes the rows it was chosen by, but not all
                continue
        return answers
