"""Past cases judged by settings that were chosen without them.

    rows of two thirds ──► views, posterior, k, weights ──┐
    a row of the last third ──► all other rows, seen so  ─┴─► its answer

What does best among many on some rows flatters itself there, the more the fewer they are. Taking a case out of the
choice is not enough: as a neighbor of the others it still tells them its label, and has them for neighbors itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from copy import copy
from typing import Any

import numpy as np

from nearsay.errors import InputError
from nearsay.posterior.answers import Answers
from nearsay.posterior.base import splits
from nearsay.posterior.choice.fit_checks import is_auto
from nearsay.posterior.methods.pooled import Pooled
from nearsay.posterior.views.model_beside import said_together
from nearsay.posterior.views.views import with_further
from nearsay.search.shards import ShardedRows

# Choosing anew takes twice as long as choosing once with three folds, four times with five.
NESTED_FOLDS = 3
# With more rows the choice is hardly flattered; fewer have nothing to choose by.
NESTED_BELOW, NESTED_FROM = 2000, 20
# Choosing anew among very many classes takes long, for few rows of each.
MOST_PAIRS = 100_000  # of a row and a class


def worth_nesting(n_rows: int, n_classes: int, n_neighbors: Any = "auto") -> bool:
    """Whether settings that were chosen by so many rows are chosen anew, without each case, to judge it.

    >>> worth_nesting(150, 3), worth_nesting(150, 3, n_neighbors=50), worth_nesting(2000, 3), worth_nesting(1999, 51)
    (True, False, False, False)
    """
    few = NESTED_FROM <= n_rows < NESTED_BELOW and n_rows * n_classes <= MOST_PAIRS
    return few and (is_auto(n_neighbors) or NESTED_FOLDS * int(n_neighbors) < n_rows)


def thirds(order: np.ndarray, labels: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(rows to choose by, rows to judge) for each third; rows alone in their class are never judged: none names it."""
    order = order[np.bincount(labels)[labels[order]] > 1]
    for _, asked in splits(labels[order], NESTED_FOLDS):
        yield np.setdiff1d(np.arange(len(labels)), order[asked]), order[asked]


def answers_by_other_choices(classifier: Any, X: Any, beside_proba: Any) -> Iterator[Any]:
    """(row numbers, their probabilities) of the rows, each answered by all others, as settings chosen without it say.

    ``classifier`` is a fitted NeighborClassifier, and X and ``beside_proba`` what it was fitted to. Rows that are
    alone in their class are left out: without them nothing could name it.
    """
    X = X[:] if isinstance(X, ShardedRows) else X
    labels, n_classes = classifier._labels, len(classifier.classes_)
    for rest, rows in thirds(classifier._order, labels):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # said when the classifier was fitted
            other = classifier._fitted_anew(X, classifier.classes_[labels], beside_proba, rest)
        if len(other.classes_) < n_classes:  # names that a file from elsewhere gives to two classes
            continue
        try:
            yield rows, _answers_over(other, X, labels, n_classes, rows, classifier._weights)
        except InputError:  # a distance that takes the rows it was chosen by, but not all
            continue


def _answers_over(other: Any, X: Any, labels: np.ndarray, n_classes: int, rows: np.ndarray, weights: Any) -> np.ndarray:
    """What a classifier that was fitted to some rows says of others, each asked about all rows but itself."""
    views = [view.over(X, labels, n_classes) for view in other._views.views]
    tables = [
        view.past_cases(1 if number else other.n_neighbors_, other._members, rows) for number, view in enumerate(views)
    ]
    table = tables[0]
    if table.classes is not None:
        table = with_further(tables, said_together([model.said(X[rows]) for model in other._views.models]))
    posterior = copy(other._posterior)
    posterior.weights = weights
    posterior = posterior.over(labels, n_classes, np.arange(len(labels)))
    p = posterior.proba(table)
    if isinstance(posterior, Pooled):
        p = posterior.without_the_case(p, [table], rows)
    return Answers(posterior, labels, n_classes, other._priors, other.tie_break, other._seed).settled(p, table)
