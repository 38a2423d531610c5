"""The learned metrics of the paper on hedging: learners, the settings that are tried, and how one is chosen.

    training rows ──► four fifths: every setting is learned ──► a fifth: the best is chosen ──► learned from all rows

Test rows have no part in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone

from nearsay.core.arrays import evenly
from nearsay.learn.boost_metric import BoostMetric
from nearsay.learn.itml import ITML
from nearsay.learn.lmnn.lmnn import LMNN
from nearsay.learn.tuning import TunedMetric, tune_metric
from nearsay.learn.whitening import WithinClassWhitening

# As in the paper: neighbors that vote where settings are chosen.
VOTING_NEIGHBORS = 20

# scikit-learn's NCA measures every pair of rows in every step.
MOST_ROWS_OF_NCA = 4000


class OnFewRows(TransformerMixin, BaseEstimator):
    """A learner that sees at most so many rows, in even steps through each class.

    >>> class Sees:
    ...     def fit(self, X, y):
    ...         self.seen = X.ravel().tolist()
    ...         return self
    >>> OnFewRows(Sees(), most_rows=4).fit(np.arange(6.0)[:, None], [0, 0, 1, 1, 1, 1]).learner.seen
    [0.0, 1.0, 2.0, 4.0]
    """

    def __init__(self, learner: Any, most_rows: int) -> None:
        self.learner = learner
        self.most_rows = most_rows

    def fit(self, X: Any, y: Any) -> OnFewRows:
        X, y = np.asarray(X), np.asarray(y)
        classes = np.unique(y)
        of_class = [np.flatnonzero(y == label) for label in classes]
        rows = np.concatenate([rows[evenly(len(rows), self.most_rows // len(classes))] for rows in of_class])
        self.learner.fit(X[rows], y[rows])
        return self

    def transform(self, X: Any) -> np.ndarray:
        mapped: np.ndarray = self.learner.transform(X)
        return mapped


@dataclass(frozen=True)
class Candidates:
    """A learner and the settings it is tried with.

    ``most_classes`` is how many classes settings are chosen on, in even steps, where learning takes long; None for all.
    """

    learner: Callable[[], Any]
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    most_classes: int | None = None


def _nca() -> Any:
    from sklearn.neighbors import NeighborhoodComponentsAnalysis

    return OnFewRows(NeighborhoodComponentsAnalysis(init="identity", max_iter=30, random_state=0), MOST_ROWS_OF_NCA)


def _lda() -> Any:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    return LinearDiscriminantAnalysis()


EUCLIDEAN = "Euclidean"

# None: the rows stay as they are. A new metric is one more line.
METRICS: dict[str, Candidates | None] = {
    EUCLIDEAN: None,
    "LMNN": Candidates(
        lambda: LMNN(tol=1e-3), {"n_neighbors": (3, 10), "shrinkage": (0.0, 0.35, 0.7)}, most_classes=100
    ),
    "BoostMetric": Candidates(
        lambda: BoostMetric(start="zero", near=(3, 10), validation_fraction=None, random_state=0)
    ),
    "BoostMetric, ours": Candidates(
        lambda: BoostMetric(random_state=0), {"near": ((3, 10), (3, 100), (10, 300))}, most_classes=100
    ),
    # Fewer pairs, like ITML's own 20,000, leave 200 classes with little to learn from: the paper has 20 for every two.
    "ITML": Candidates(
        lambda: ITML(n_constraints=100_000, random_state=0),
        {"gamma": (0.001, 0.003, 0.01, 0.03), "prior": ("identity", "within-class")},
    ),
    "whitening": Candidates(WithinClassWhitening, {"power": (0.5, 0.7), "pull": (0.0, 0.3, 1.0)}),
    "NCA": Candidates(_nca),
    "LDA": Candidates(_lda),
}


@dataclass(frozen=True)
class Learned:
    """A metric twice: from all rows, and ``blind`` to the rows held out, on which its settings were chosen."""

    metric: Any
    blind: Any
    tuned: TunedMetric

    @property
    def words(self) -> str:
        """How it was chosen, for a reader."""
        settings = ", ".join(f"{name} = {value}" for name, value in self.tuned.settings.items())
        return (
            f"{settings or 'as it is'}; {100 * self.tuned.accuracy:.1f} % of validation rows right,"
            f" Euclidean {100 * self.tuned.euclidean:.1f} %"
        )


def learn(candidates: Candidates, X: np.ndarray, y: np.ndarray, known: np.ndarray, held_out: np.ndarray) -> Learned:
    """Choose the settings by the neighbors of rows held out among the known ones, then learn from all rows.

    Parameters
    ----------
    X, y : (n_rows, n_features) and (n_rows,), all training rows
    known, held_out : row numbers, together all of them
    """
    tuned = tune(candidates, X, y, known, held_out)
    chosen = candidates.learner().set_params(**tuned.settings)
    blind = tuned.best_ if _tried(candidates, y).all() else clone(chosen).fit(X[known], y[known])
    return Learned(chosen.fit(X, y), blind, tuned)


def tune(candidates: Candidates, X: np.ndarray, y: np.ndarray, known: np.ndarray, held_out: np.ndarray) -> TunedMetric:
    """Try every setting on some classes, or all: learn from the known rows, and judge by those held out."""
    tried = _tried(candidates, y)
    learned_from, queries = known[tried[known]], held_out[tried[held_out]]
    return tune_metric(
        candidates.learner(),
        X[learned_from],
        y[learned_from],
        candidates.grid,
        n_neighbors=VOTING_NEIGHBORS,
        X_valid=X[queries],
        y_valid=y[queries],
        keep_learner=True,
    )


def _tried(candidates: Candidates, y: np.ndarray) -> np.ndarray:
    """Whether each row is of a class that settings are chosen on."""
    classes = np.unique(y)
    return np.isin(y, classes[evenly(len(classes), candidates.most_classes or len(classes))])
