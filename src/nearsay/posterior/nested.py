"""Past cases answered by models that were chosen without them.

    rows of two thirds ──► views, posterior, k, weights ──┐
    a row of the last third ──► all other rows, measured so ─┴─► its answer

What does best among many candidates on some rows looks too good there, the more so the fewer they are. Taking a case
out of the choice is not enough: as a neighbor of the others it still lends them its label, and has them for neighbors
itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from nearsay.errors import InputError
from nearsay.posterior.base import splits
from nearsay.posterior.choice.model_fit import FitOptions
from nearsay.posterior.fused_model import FusedOptions
from nearsay.posterior.methods.named import is_auto
from nearsay.posterior.model import FittedModel
from nearsay.posterior.row_weights import TrainingRows
from nearsay.search.shards import ShardedRows

# Choosing again takes twice as long as choosing once with three folds, four times with five.
NESTED_FOLDS = 3
# With more rows the choice is hardly too optimistic; fewer have nothing to choose by. On made-up rows of four kinds
# (500, sixteen draws each) past cases that also chose the default came nearer to the accuracy and the log loss of fresh
# rows than nested fits, which learn from fewer rows: on labels without any meaning, the worst of them, off by .027
# instead of .031 (root mean square). Of 200 they said .05 too much there.
NESTED_BELOW, NESTED_FROM = 500, 20
# The same where every posterior and view is tried: among 500 rows the luckiest still says .036 too much on such labels.
NESTED_BELOW_OF_MANY = 2000
# Choosing again among very many classes takes long, for few rows of each.
MOST_PAIRS = 100_000  # of a row and a class


def fit_nested(options: FitOptions | FusedOptions, given: TrainingRows) -> FittedModel:
    """Fit a model; its past cases are judged by choices made without them, where few rows chose."""
    model = options.fit(given)
    n_rows, n_classes = len(given.labels), len(given.classes)
    if not options.nests or not worth_nesting(n_rows, n_classes, options.n_neighbors, many=options.tries_many):
        return model
    assert model.order is not None
    return replace(model, nested=NestedFits(**vars(given), options=options.in_memory(), order=model.order))


def worth_nesting(n_rows: int, n_classes: int, n_neighbors: Any = "auto", *, many: bool = False) -> bool:
    """Whether settings that were chosen by so many rows are chosen again, without each case, to judge it.

    ``many`` says whether they were chosen among many.

    >>> worth_nesting(150, 3), worth_nesting(150, 3, n_neighbors=50), worth_nesting(500, 3)
    (True, False, False)
    >>> worth_nesting(500, 3, many=True), worth_nesting(2000, 3, many=True), worth_nesting(1999, 51, many=True)
    (True, False, False)
    """
    below = NESTED_BELOW_OF_MANY if many else NESTED_BELOW
    few = NESTED_FROM <= n_rows < below and n_rows * n_classes <= MOST_PAIRS
    return few and (is_auto(n_neighbors) or NESTED_FOLDS * int(n_neighbors) < n_rows)


def thirds(
    order: np.ndarray, labels: np.ndarray, groups: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(rows to choose by, rows to judge) for each third; the only row of a class is never judged: none names it."""
    order = order[np.bincount(labels)[labels[order]] > 1]
    for _, fold in splits(labels[order], NESTED_FOLDS, None if groups is None else groups[order]):
        yield np.setdiff1d(np.arange(len(labels)), order[fold]), order[fold]


@dataclass(frozen=True, eq=False, kw_only=True)
class NestedFits(TrainingRows):
    """The same options fitted again without each third of the rows, when their answers are first asked for.

    order : (n_rows,) row numbers, in the order in which they are dealt into thirds; a group is in one of them.
    """

    options: FitOptions | FusedOptions
    order: np.ndarray

    @cached_property
    def answers(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """(row numbers, their probabilities): rows answered by all others, by models chosen without them."""
        everything = replace(self, X=self.X[:]) if isinstance(self.X, ShardedRows) else self
        answers = []
        for rest, rows in thirds(self.order, self.labels, self.groups):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # they were given when the classifier was fitted
                model = self.options.fit(self.some(self.options.take(everything.X, rest, rest), rest))
            try:
                answers.append((rows, model.answers_over(everything, rows)))
            except InputError:  # a distance that takes the rows it was chosen by, but not all
                continue
        return answers
