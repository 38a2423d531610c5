"""Peers from scikit-learn: nearest neighbors and their calibrations, and four models without neighbors.

A peer chooses its settings by cross-validated log loss on the rows to learn from, as ours does by leave-one-out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ParameterGrid, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.utils.fixes import parse_version

from nearsay.metrics.probability import mean_log_posterior

INNER_FOLDS = 3
N_TREES = 400
KS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50)
# One temperature for all classes is often kinder to a machine of many than a sigmoid for each; since scikit-learn 1.8.
NEW_ENOUGH = parse_version(sklearn.__version__) >= parse_version("1.8")
SVM_CALIBRATIONS = ("sigmoid", "temperature") if NEW_ENOUGH else ("sigmoid",)
# What a class of probability 0 is given while settings are compared.
CHOICE_FLOOR = 1e-3


class SmoothedNeighbors(ClassifierMixin, BaseEstimator):
    """scikit-learn's k-NN, each class given ``pseudo_votes`` on top, so that none has probability 0.

    >>> SmoothedNeighbors(3, pseudo_votes=1.0).fit([[0.0], [1.0], [2.0]], [0, 0, 0]).predict_proba([[1.0]])
    array([[1.]])
    >>> SmoothedNeighbors(1, pseudo_votes=1.0).fit([[0.0], [1.0]], [0, 1]).predict_proba([[0.0]]).round(3)
    array([[0.667, 0.333]])
    """

    def __init__(self, n_neighbors: int = 5, *, pseudo_votes: float = 1.0) -> None:
        self.n_neighbors = n_neighbors
        self.pseudo_votes = pseudo_votes

    def fit(self, X: Any, y: Any) -> SmoothedNeighbors:
        self.votes_ = KNeighborsClassifier(self.n_neighbors).fit(X, y)
        self.classes_ = self.votes_.classes_
        return self

    def predict(self, X: Any) -> np.ndarray:
        labels: np.ndarray = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels

    def predict_proba(self, X: Any) -> np.ndarray:
        votes = self.n_neighbors * self.votes_.predict_proba(X) + self.pseudo_votes
        p: np.ndarray = votes / votes.sum(axis=1, keepdims=True)
        return p


class Folds:
    """Stratified folds for classes of any size. Where folds are given by number, scikit-learn refuses small classes."""

    def get_n_splits(self, *_: Any) -> int:
        return INNER_FOLDS

    def split(self, X: Any, y: Any, groups: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The least populated class")
            yield from StratifiedKFold(INNER_FOLDS, shuffle=True, random_state=0).split(X, y)


@dataclass(frozen=True)
class Peer:
    """A kind of classifier: what makes one from its settings, and the settings to choose from."""

    make: Callable[..., Any]
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    uses_neighbors: bool = False

    def choose(self, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
        """The settings with the smallest cross-validated log loss."""
        within_folds = len(X) * (1 - 1 / INNER_FOLDS) ** 2  # rows that are left where a calibration has folds, too
        tried = [
            settings for settings in ParameterGrid(dict(self.grid)) if settings.get("n_neighbors", 1) < within_folds
        ]
        if len(tried) == 1:
            return dict(tried[0])
        losses = [np.mean([self._loss(settings, X, y, *fold) for fold in Folds().split(X, y)]) for settings in tried]
        return dict(tried[int(np.argmin(losses))])

    def _loss(
        self, settings: dict[str, Any], X: np.ndarray, y: np.ndarray, train: np.ndarray, queries: np.ndarray
    ) -> float:
        fitted = fitted_to(self.make(**settings), X[train], y[train])
        return log_loss(probabilities(fitted, X[queries], int(y.max()) + 1), y[queries], CHOICE_FLOOR)


def fitted_to(classifier: Any, X: np.ndarray, y: np.ndarray) -> Any:
    """The classifier, fitted; what scikit-learn says of slow convergence and of many classes is left unsaid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "The number of unique classes")
        warnings.filterwarnings("ignore", "The least populated class")
        return classifier.fit(X, y)


def probabilities(fitted: Any, Q: np.ndarray, n_classes: int) -> np.ndarray:
    """What it says of the queries, a column for every class; a class it was not shown has probability 0."""
    p = np.zeros((len(Q), n_classes))
    p[:, fitted.classes_] = fitted.predict_proba(Q)
    return p


def log_loss(p: np.ndarray, truth: np.ndarray, floor: float = 0.0) -> float:
    """The mean of −log p(truth), in nat, once ``floor`` of the probability is spread evenly over all classes.

    >>> log_loss(np.array([[1.0, 0.0]]), np.array([1]), floor=0.5)     # 1/4
    1.3862943611198906
    """
    return -mean_log_posterior((1 - floor) * p + floor / p.shape[1], truth)


def calibrated_neighbors(method: str) -> Callable[..., Any]:
    def make(n_neighbors: int) -> Any:
        return CalibratedClassifierCV(KNeighborsClassifier(n_neighbors), method=method, cv=Folds())

    return make


def support_vectors(C: float, width: float, method: str) -> Any:
    """An RBF machine, calibrated: scikit-learn 1.9 gives up its own ``probability=True`` for this."""
    return CalibratedClassifierCV(ScaledSVC(C=C, width=width), method=method, ensemble=False, cv=Folds())


class ScaledSVC(SVC):
    """SVC with gamma = ``width`` times what scikit-learn calls "scale"."""

    def __init__(self, *, C: float = 1.0, width: float = 1.0) -> None:
        super().__init__(C=C)
        self.width = width

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        variance = np.var(X)
        self.gamma = self.width / (np.shape(X)[1] * variance) if variance else 1.0
        return super().fit(X, y, sample_weight)


class Boosting(HistGradientBoostingClassifier):
    """Boosted trees that stop early where the tenth of the rows that says when has one of every class."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        self.early_stopping = len(X) * self.validation_fraction >= len(np.unique(y))
        return super().fit(X, y, sample_weight)


PEERS = {
    "k-NN": Peer(SmoothedNeighbors, {"n_neighbors": KS, "pseudo_votes": (1.0, 0.1)}, uses_neighbors=True),
    "k-NN, sigmoid": Peer(calibrated_neighbors("sigmoid"), {"n_neighbors": KS}, uses_neighbors=True),
    "k-NN, isotonic": Peer(calibrated_neighbors("isotonic"), {"n_neighbors": KS}, uses_neighbors=True),
    "logistic regression": Peer(
        lambda C: LogisticRegression(C=C, max_iter=500), {"C": (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)}
    ),
    "random forest": Peer(lambda: RandomForestClassifier(N_TREES, random_state=0, n_jobs=-1)),
    "gradient boosting": Peer(lambda: Boosting(random_state=0)),
    "RBF SVM": Peer(support_vectors, {"C": (1.0, 10.0), "width": (0.3, 1.0), "method": SVM_CALIBRATIONS}),
}
