"""Companion models: classifiers whose probabilities are pooled with the neighbors.

    rows ──► model ──► log probabilities ─┐
    rows ──► neighbors ──► distances      ─┴─► one pool, weighed by past cases

What a model says of rows it was fitted to is worth nothing as a past case, so
past cases are asked of copies that were fitted without them, fold by fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from nearsay.core.arrays import row_blocks
from nearsay.core.settings import check_estimator
from nearsay.errors import InputError
from nearsay.posterior.base import folds_by
from nearsay.posterior.past_cases import ROWS_AT_ONCE
from nearsay.posterior.views.gaussian_classes import MOST_ANSWERS, GaussianClasses
from nearsay.posterior.views.row_transforms import ROWS_TO_LEARN_FROM
from nearsay.search.shards import ShardedRows

# Some models give a class nothing at all; this share of every answer is spread evenly, so that logs stay finite.
SPREAD = 1e-4

# Classes as Gaussians, by the names that people read.
GAUSSIANS = {"Gaussian": GaussianClasses(), "Gaussian ranks": GaussianClasses(scores=True)}


class ModelBeside:
    """A fitted classifier of any kind, and what copies of it say of the training rows that they were fitted without.

    In shards a model is fitted to at most 200,000 rows, drawn with a fixed seed, and the copies are kept and asked
    when needed: probabilities of all rows may be billions of numbers. In memory they are asked once.

    Parameters
    ----------
    model : a classifier with ``fit`` and ``predict_proba``; it is cloned, not fitted itself.
    classes : (n_classes,) the labels, sorted: the order of all columns here.
    name : for people; None for a model of the user's.

    Attributes
    ----------
    model_ : the fitted clone; where held-out probabilities were given, the model itself.
    past_ : (n_rows, n_classes) float32 log probabilities of the training rows; None in shards.
    """

    past_: np.ndarray | None = None
    _copies: list[Any] | None = None  # a model for each fold of rows in shards, fitted without it

    def __init__(self, model: Any, classes: np.ndarray, name: str | None = None) -> None:
        check_estimator("beside", model, "fit", "predict_proba")
        self.model = model
        self.classes = classes
        self.name = name

    def fit(
        self,
        X: Any,
        y: np.ndarray,
        labels: np.ndarray,
        held_out: Any = None,
        sample_weight: np.ndarray | None = None,
        *,
        order: np.ndarray | None = None,
    ) -> ModelBeside:
        """Fit a clone to all rows, and others to four fifths of them; or take the model as it is.

        Parameters
        ----------
        labels : (n_rows,) class numbers of y.
        held_out : (n_rows, n_classes), optional
            What the model says of these rows without having been fitted to them. It must be fitted, and is not
            fitted again.
        sample_weight : (n_rows,), optional
            How much each row counts; a model that is fitted here must take it.
        order : (n_rows,) row numbers, in the order in which rows are dealt into folds, and teach; theirs by default.
        """
        if held_out is not None:
            self.model_ = self.model
            check_is_fitted(self.model_)
            self.past_ = self._logs(_checked(held_out, (len(labels), len(self.classes)))).astype(np.float32)
            return self
        self._check_weights(sample_weight)
        order = np.arange(len(labels)) if order is None else order
        fold = folds_by(order, labels)
        in_shards = isinstance(X, ShardedRows)

        def rows_of(rows: np.ndarray) -> Any:
            return X.take(rows) if in_shards else X[rows]

        def fitted(rows: np.ndarray) -> Any:
            rows = _drawn(rows) if in_shards else rows
            weights = {} if sample_weight is None else {"sample_weight": sample_weight[rows]}
            return clone(self.model).fit(rows_of(rows), y[rows], **weights)

        def fitted_without(number: int) -> Any:
            rows = order[fold[order] != number]
            return fitted(rows) if len(np.unique(labels[rows])) > 1 else None  # few models can be fitted to one class

        n_folds = int(fold.max(initial=-1)) + 1
        if in_shards:
            self._rows, self._fold = X, fold
            self._copies = [fitted_without(number) for number in range(n_folds)]
        else:
            self.past_ = np.empty((len(labels), len(self.classes)), np.float32)
            for number in range(n_folds):
                rows = order[fold[order] == number]
                self.past_[rows] = self._log_proba_of(fitted_without(number), X[rows])
        self.model_ = fitted(order)
        return self

    def past_cases(self, rows: np.ndarray | None = None) -> np.ndarray:
        """Log probabilities of the training rows, or of some, by models that were fitted without them."""
        if self.past_ is not None:
            return (self.past_ if rows is None else self.past_[rows]).astype(np.float64)
        assert self._copies is not None
        rows = np.arange(len(self._fold)) if rows is None else rows
        log_p = np.empty((len(rows), len(self.classes)), np.float32)
        for number, model in enumerate(self._copies):
            of_fold = np.flatnonzero(self._fold[rows] == number)
            for part in row_blocks(len(of_fold), size=ROWS_AT_ONCE):
                lines = of_fold[part]
                log_p[lines] = self._log_proba_of(model, self._rows.take(rows[lines]))
        return log_p.astype(np.float64)

    def log_proba(self, X: Any) -> np.ndarray:
        """Log probabilities (n_queries, n_classes); a class that the model does not know has next to none."""
        return self._log_proba_of(self.model_, X)

    def _log_proba_of(self, model: Any, X: Any) -> np.ndarray:
        if not len(X):
            return np.empty((0, len(self.classes)))
        if model is None:
            return np.full((len(X), len(self.classes)), -np.log(len(self.classes)))
        known = np.searchsorted(self.classes, model.classes_)
        p = np.zeros((len(X), len(self.classes)))
        p[:, known] = model.predict_proba(X)
        return self._logs(p)

    def _check_weights(self, sample_weight: np.ndarray | None) -> None:
        """Refuse weights of rows for a model that takes none."""
        if sample_weight is not None and not has_fit_parameter(self.model, "sample_weight"):
            raise InputError(
                f"Rows were given a sample_weight, but the fit of beside={self.model!r} takes none. Pass a model whose"
                " fit takes it, or fit the model yourself and pass beside_proba, what it says of rows it has not seen."
            )

    def _logs(self, p: np.ndarray) -> np.ndarray:
        log_p: np.ndarray = np.log((1 - SPREAD) * p + SPREAD / len(self.classes))
        return log_p


def gaussians_beside(X: Any, labels: np.ndarray, n_classes: int, order: np.ndarray | None = None) -> list[ModelBeside]:
    """Classes as Gaussians, of the columns and of their normal scores; none where rows × classes are too many."""
    if len(X) * n_classes > MOST_ANSWERS:
        return []
    classes = np.arange(n_classes)
    return [ModelBeside(model, classes, name).fit(X, labels, labels, order=order) for name, model in GAUSSIANS.items()]


def stacked_models(log_proba: Sequence[np.ndarray]) -> np.ndarray | None:
    """The log probabilities of several models as one array (n_queries, n_classes, n_models); None without any."""
    return np.stack(log_proba, axis=2) if log_proba else None


def _drawn(rows: np.ndarray) -> np.ndarray:
    """All of these rows, or as many as a model is learned from."""
    if len(rows) <= ROWS_TO_LEARN_FROM:
        return rows
    return rows[np.sort(np.random.default_rng(0).choice(len(rows), ROWS_TO_LEARN_FROM, replace=False))]


def _checked(held_out: Any, expected: tuple[int, int]) -> np.ndarray:
    p = np.asarray(held_out, np.float64)
    if p.shape != expected:
        raise InputError(
            f"beside_proba must hold a probability for each row and class, shape {expected}; got {p.shape}."
        )
    if not np.isfinite(p).all() or p.min(initial=0) < 0 or np.abs(p.sum(axis=1) - 1).max(initial=0) > 1e-3:
        raise InputError("beside_proba must hold probabilities: from 0 to 1, and every row sums to 1.")
    return p
