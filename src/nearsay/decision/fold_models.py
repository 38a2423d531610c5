"""Several models as one classifier: each was fitted without one fold, and the mean of their probabilities answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import get_tags

from nearsay.core.arrays import places_among
from nearsay.errors import InputError


class FoldModels(ClassifierMixin, BaseEstimator):
    """Models that were each fitted without one fold, answering together by the mean of their probabilities.

    A model fitted on all rows would be surer than those that judged the rows, and thresholds read from their answers
    would not hold for it. The mean of those that judged is never surer than they are.

    estimators_ : the models, one for each fold.
    fitted_on_ : the row numbers that each was fitted on.
    classes_ : (n_classes,) all labels; one that a model was not fitted to has probability 0 there.
    """

    def __init__(self, estimators: Sequence[Any] = ()) -> None:
        self.estimators = estimators

    @classmethod
    def of(cls, models: Sequence[Any], fitted_on: Sequence[np.ndarray], classes: np.ndarray) -> FoldModels:
        """The fitted models as one classifier of these classes."""
        together = cls(list(models))
        together.estimators_, together.fitted_on_, together.classes_ = together.estimators, list(fitted_on), classes
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(models[0], name) and not _takes_distances(models[0]):
                setattr(together, name, getattr(models[0], name))
        return together

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n_rows, n_classes), columns as in ``classes_``."""
        total: Any = 0.0
        for model, rows in zip(self.estimators_, self.fitted_on_, strict=True):
            # Distances are to all training rows; a model knows those it was fitted on.
            known = np.asarray(X)[:, rows] if _takes_distances(model) else X
            total = total + among(self.classes_, model, proba(model, known))
        return total / len(self.estimators_)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable label of every row; the first at ties."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def _takes_distances(model: Any) -> bool:
    """Whether rows are given as their distances to the training rows."""
    return bool(get_tags(model).input_tags.pairwise)


def among(classes: np.ndarray, model: Any, p: np.ndarray) -> np.ndarray:
    """Probabilities of the classes that a model was fitted to, in the columns of all classes; others get 0."""
    known = np.zeros((len(p), len(classes)))
    known[:, columns(np.asarray(model.classes_), classes)] = p
    return known


def proba(estimator: Any, X: Any) -> np.ndarray:
    """The probabilities of an estimator as float64: (n_rows, n_classes)."""
    return np.asarray(estimator.predict_proba(X), dtype=np.float64)


def columns(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The place of each label among the classes."""
    places = places_among(classes, labels)
    unknown = labels[places < 0]
    if len(unknown):
        raise InputError(
            f"The label {unknown.tolist()[0]!r} of a calibration row is none of the {len(classes)} classes the"
            " estimator was fitted on. Fit it on all classes, or leave such rows out: no set could hold their class."
        )
    return places
