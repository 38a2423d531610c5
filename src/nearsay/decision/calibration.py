"""Calibration: probabilities of rows that the model was not fitted to, to read thresholds and guarantees from."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import assert_all_finite, column_or_1d, get_tags, indexable
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from nearsay.core.arrays import check_row_numbers, check_sample_weight, row_blocks
from nearsay.core.documented import DocumentedEstimator
from nearsay.core.validation import checked_labels
from nearsay.data.content_order import content_order
from nearsay.data.rows import as_groups
from nearsay.decision.confidence_bound import LEFT_OUT_EXCESS
from nearsay.decision.fold_models import FoldModels, among, proba
from nearsay.errors import InputError, NearDuplicateWarning
from nearsay.neighbors.near_duplicates import near_duplicate_groups
from nearsay.posterior.base import FRESH
from nearsay.posterior.choice.row_groups import are_automatic, checked_validation
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.fused import FusedClassifier
from nearsay.posterior.methods.named import Auto, is_auto
from nearsay.posterior.past_cases import ROWS_AT_ONCE
from nearsay.posterior.sharded import ShardedClassifier
from nearsay.search.shards import ShardedRows

# One row in so many is held out where a part of the rows is.
HELD_OUT = 5

# So many folds of groups are left out in turn where an estimator cannot leave out a group by itself.
GROUP_FOLDS = 5

# What a hedge may take instead of the posterior that past cases chose.
FINE_POSTERIORS = ("weighted", "pooled")

Block = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Calibration:
    """A fitted estimator, and probabilities of labeled rows by models that were not fitted on them.

    estimator : the fitted classifier.
    labels : (n_calibration,) the labels of the calibration rows.
    probabilities : (n_calibration, n_classes) columns as ``estimator.classes_``. Without rows where they are too many
        to be held.
    unseen : (n_calibration,) bool, True where the model was fitted without the row's class: no set of its classes could
        hold it.
    n_unasked : rows that were drawn as well, but kept for fitting because each is the only one of its class.
    excess : how much more than independent answers these scatter (``rows_worth_one``): 0 where the rows were held out
        of the fitted classifier, more where it was fitted on them and only the models that judged them were not.
    in_blocks : function, or None, gives what ``probabilities`` does not hold, as ``blocks`` does.
    groups : (n_calibration,) the number of the group of each row, or None where each is a group of its own.
    rows : (n_calibration,) the number of each row among those given, of validation rows where there are some; None
        where they are too many to be held.
    """

    estimator: Any
    labels: np.ndarray
    probabilities: np.ndarray
    unseen: np.ndarray
    n_unasked: int = 0
    excess: float = 0.0
    in_blocks: Callable[[], Iterator[Block]] | None = None
    groups: np.ndarray | None = None
    rows: np.ndarray | None = None

    def blocks(self) -> Iterator[Block]:
        """(places among the calibration rows, their probabilities): each row once, in any order."""
        if self.in_blocks is None:
            yield np.arange(len(self.labels)), self.probabilities
        else:
            yield from self.in_blocks()


class AroundClassifier(MetaEstimatorMixin, ClassifierMixin, DocumentedEstimator):
    """Base of the classifiers that guarantee something about the answers of another with ``predict_proba``."""

    estimator: Any
    cv: Any

    def _fit_estimator(
        self, X: Any, y: Any, sample_weight: Any, groups: Any = None, validation: Any = None
    ) -> Calibration:
        """Fit the estimator, copy its attributes about the data, and give the calibration."""
        calibration = calibrate(self.estimator, X, y, self.cv, sample_weight, groups, validation)
        self._take_over(calibration)
        return calibration

    def _take_over(self, calibration: Calibration) -> None:
        """Copy what the fitted classifier knows of its data."""
        self.estimator_ = calibration.estimator
        self.classes_ = np.asarray(calibration.estimator.classes_)
        self.n_calibration_ = len(calibration.labels)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probabilities of the estimator: (n_rows, n_classes), columns as in ``classes_``."""
        check_is_fitted(self, "estimator_")
        return proba(self.estimator_, X)

    def _explained(self, X: Any) -> tuple[np.ndarray, Any]:
        """The probabilities of the estimator, and its evidence for each row, None where it explains nothing."""
        check_is_fitted(self, "estimator_")
        evidence = self.estimator_.explain(X) if hasattr(self.estimator_, "explain") else None
        p = getattr(evidence, "probabilities", None)  # as predict_proba gives them, from the same search
        return self.predict_proba(X) if p is None else p, evidence

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
        return tags


def calibrate(
    estimator: Any, X: Any, y: Any, cv: Any, sample_weight: Any = None, groups: Any = None, validation: Any = None
) -> Calibration:
    """Fit a copy of the estimator, and get probabilities of rows that it, or copies of it, were not fitted to.

    cv, sample_weight, groups, validation : as in ``HedgedClassifier``, of classes of one row, a split draws a fifth as
        of any other, but leaves it with the estimator.
    """
    is_fitted = isinstance(cv, str) and cv == "prefit"
    if hasattr(estimator, "opened") and (not is_fitted or isinstance(X, str | os.PathLike)):
        X = estimator.opened(X)  # rows in files
    X, y = _check_rows(estimator, X, y)
    weights = None if sample_weight is None else _check_weights(estimator, sample_weight, len(y), is_fitted)
    if validation is not None:
        return _validated(estimator, X, y, cv, weights, groups, checked_validation(validation))
    leaves_out = cv is None and hasattr(estimator, "leave_one_out_proba")
    if are_automatic(groups) and leaves_out and has_fit_parameter(estimator, "groups"):
        return _left_out(estimator, X, y, weights, groups)  # it finds them by its own metric
    group = _near_duplicates(X, y) if are_automatic(groups) else as_groups(groups, len(y))
    if is_fitted:
        check_is_fitted(estimator)
        if isinstance(X, ShardedRows):
            return _proba_in_blocks(estimator, X, y, group)
        return Calibration(
            estimator, y, proba(estimator, X), np.zeros(len(y), bool), groups=group, rows=np.arange(len(y))
        )
    if leaves_out:
        if group is not None and not has_fit_parameter(estimator, "groups"):
            return _cross_validated(estimator, X, y, GROUP_FOLDS, weights, group)
        return _left_out(estimator, X, y, weights, group)
    if hasattr(estimator, "left_out_blocks"):
        raise InputError(
            "Rows in shards are calibrated on by leaving each out (cv=None), or are others than the estimator was"
            f' fitted to (cv="prefit"); got cv={cv!r}.'
        )
    if cv is None or (isinstance(cv, str) and cv == "split"):
        return _held_out(estimator, X, y, weights, group)
    return _cross_validated(estimator, X, y, cv, weights, group)


def _left_out(
    estimator: Any, X: Any, y: np.ndarray, weights: np.ndarray | None, group: np.ndarray | str | None
) -> Calibration:
    """Every row is answered by the others, those of its group excepted; of "auto" the estimator finds them."""
    if len(y) < 2:
        raise InputError(f"Leaving a row out takes others to judge it by, but got n_samples={len(y)}.")
    by_group = {} if group is None else {"groups": group}
    fitted = clone(estimator).fit(X, y, **_weighed(weights, slice(None)), **by_group)
    if hasattr(fitted, "left_out_blocks"):
        return _left_out_in_blocks(fitted, y, weights, fitted.groups_)
    p = np.asarray(fitted.leave_one_out_proba(), dtype=np.float64)
    group = fitted.groups_ if isinstance(group, str) else group
    counted = np.arange(len(y)) if weights is None else np.flatnonzero(weights > 0)
    return _of_left_out(fitted, y[counted], p[counted], None if group is None else group[counted], counted)


def left_out_calibration(fitted: NeighborClassifier) -> Calibration:
    """The calibration of a classifier on its own rows: validation rows where it was fitted with any, else all.

    All rows are answered by the others, those of their group excepted; validation rows by all that are none.
    """
    labels, groups = fitted.labels_, fitted.groups_
    fresh = np.zeros(len(labels), np.bool_) if groups is None else groups == FRESH
    if not fresh.any():
        every = np.arange(len(labels))
        return _of_left_out(fitted, fitted.classes_[labels], fitted.leave_one_out_proba(), groups, every)
    unseen = ~np.isin(labels[fresh], labels[~fresh])
    known = fitted.classes_[labels[fresh]]
    return Calibration(fitted, known, fitted.validation_proba(), unseen, excess=LEFT_OUT_EXCESS)


def _of_left_out(fitted: Any, y: np.ndarray, p: np.ndarray, group: np.ndarray | None, rows: np.ndarray) -> Calibration:
    return Calibration(fitted, y, p, _alone(y, group), excess=LEFT_OUT_EXCESS, groups=group, rows=rows)


def _alone(y: np.ndarray, group: np.ndarray | None) -> np.ndarray:
    """Which rows are the only ones of their class, or of the only group that has it."""
    _, place = np.unique(y, return_inverse=True)
    every = place if group is None else np.unique(np.column_stack([place, group]), axis=0)[:, 0]
    return (np.bincount(every) == 1)[place]


def _validated(
    estimator: Any,
    X: Any,
    y: np.ndarray,
    cv: Any,
    weights: np.ndarray | None,
    groups: Any,
    validation: tuple[Any, np.ndarray],
) -> Calibration:
    """Validation rows are answered by the training rows, without what each of them taught."""
    if cv is not None:
        raise InputError(f"The promise is read from the validation rows, so cv must be None; got cv={cv!r}.")
    rows, labels = validation
    unseen, numbers = ~np.isin(labels, y), np.arange(len(labels))
    how = {} if groups is None or not has_fit_parameter(estimator, "groups") else {"groups": groups}
    if has_fit_parameter(estimator, "validation"):
        fitted = clone(estimator).fit(X, y, **_weighed(weights, slice(None)), **how, validation=validation)
        return Calibration(fitted, labels, fitted.validation_proba(), unseen, excess=LEFT_OUT_EXCESS, rows=numbers)
    fitted = clone(estimator).fit(X, y, **_weighed(weights, slice(None)), **how)
    return Calibration(fitted, labels, proba(fitted, rows), unseen, rows=numbers)


def _held_out(
    estimator: Any, X: Any, y: np.ndarray, weights: np.ndarray | None, group: np.ndarray | None
) -> Calibration:
    """A fifth of the rows is held out, or of the groups."""
    counted = np.arange(len(y)) if weights is None else np.flatnonzero(weights)
    if group is None:
        order = _content_order(X, y)
        places = None if order is None else np.searchsorted(counted, order[np.isin(order, counted)])
        train, held_out, alone = (counted[rows] for rows in hold_out(y[counted], places))
    else:
        train, held_out = (counted[rows] for rows in _folds(HELD_OUT, y[counted], y[counted], group[counted])[0])
        known = np.isin(y[held_out], y[train])
        held_out, alone = held_out[known], held_out[~known]
    fitted = clone(estimator).fit(*_safe_split(estimator, X, y, train), **_weighed(weights, train))
    p = proba(fitted, _safe_split(estimator, X, None, held_out, train)[0])
    unseen, of_group = np.zeros(len(held_out), bool), None if group is None else group[held_out]
    return Calibration(fitted, y[held_out], p, unseen, n_unasked=len(alone), groups=of_group, rows=held_out)


def _near_duplicates(X: Any, y: np.ndarray) -> np.ndarray | None:
    """Groups of near-duplicates in a table of numbers."""
    rows = np.asarray(X)
    if rows.ndim != 2 or rows.dtype.kind not in "fiub":
        raise InputError('groups="auto" compares rows of numbers; name the groups of other rows.')
    return near_duplicate_groups(rows, np.unique(y, return_inverse=True)[1])


def _check_weights(estimator: Any, sample_weight: Any, n_rows: int, is_fitted: bool) -> np.ndarray:
    """How much each row counts where the estimator is fitted; an error where it is not, or takes no weights."""
    if is_fitted:
        raise InputError(
            'sample_weight says how much rows count where the estimator is fitted, and with cv="prefit" it is not.'
            " Fit the estimator with it, and calibrate without."
        )
    if not has_fit_parameter(estimator, "sample_weight"):
        raise InputError(
            f"Rows were given a sample_weight, but the fit of {type(estimator).__name__} takes none."
            " Pass an estimator whose fit takes it, or fit without."
        )
    check_sample_weight(sample_weight, n_rows)
    return np.asarray(sample_weight, dtype=np.float64)  # as given: to some estimators more than proportions matter


def _weighed(weights: np.ndarray | None, rows: Any) -> dict[str, np.ndarray]:
    """Arguments of fit for the weights of these rows."""
    return {} if weights is None else {"sample_weight": weights[rows]}


def _left_out_in_blocks(
    fitted: Any, y: np.ndarray, weights: np.ndarray | None, group: np.ndarray | None
) -> Calibration:
    """The calibration of a classifier whose leave-one-out probabilities are too many to be held."""
    answered = fitted.left_out_numbers()
    answered = answered if weights is None else answered[weights[answered] > 0]
    place = np.full(len(y), -1)
    place[answered] = np.arange(len(answered))
    labels, group = y[answered], None if group is None else group[answered]

    def blocks() -> Iterator[Block]:
        for rows, p in fitted.left_out_blocks():
            counted = place[rows] >= 0
            yield place[rows][counted], p[counted]

    known: dict[str, Any] = {"excess": LEFT_OUT_EXCESS, "in_blocks": blocks, "groups": group}
    return Calibration(fitted, labels, np.empty((0, len(fitted.classes_))), _alone(labels, group), **known)


def _proba_in_blocks(estimator: Any, X: ShardedRows, y: np.ndarray, group: np.ndarray | None) -> Calibration:
    """The calibration of a fitted classifier on other rows in shards, some of them read at a time."""
    numbers = X.live_numbers

    def blocks() -> Iterator[Block]:
        for part in row_blocks(len(numbers), size=ROWS_AT_ONCE):
            yield np.arange(part.start, part.stop), proba(estimator, X.take(numbers[part]))

    nothing, group = np.empty((0, len(estimator.classes_))), None if group is None else group[numbers]
    return Calibration(estimator, y[numbers], nothing, np.zeros(len(numbers), bool), in_blocks=blocks, groups=group)


def other_posteriors(
    calibration: Calibration, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, validation: Any = None
) -> Iterator[Calibration]:
    """The same neighbors with other posteriors, where past cases chose the posterior; otherwise none.

    They chose by log posterior, over all rows. What says the most at a high accuracy may be another one of those that
    weigh neighbors finely; each is calibrated as the one chosen was, with its best number of neighbors.
    """
    estimator = calibration.estimator
    template = estimator
    if isinstance(estimator, FusedClassifier | ShardedClassifier):
        template = NeighborClassifier() if estimator.estimator is None else estimator.estimator
    # Only the pool, which "auto" takes, can combine neighbors with a companion model.
    if not isinstance(template, NeighborClassifier) or not is_auto(template.posterior) or template.beside is not None:
        return
    choices, auto = estimator.choices_, template.posterior
    tried = {one.posterior: one for one in reversed(choices)}  # of each, the best is kept
    tried.pop(choices.chosen.posterior, None)
    for name in [name for name in FINE_POSTERIORS if name in tried]:
        other: Any = clone(template).set_params(posterior=auto.posterior(name) if isinstance(auto, Auto) else name)
        if tried[name].n_neighbors is not None:
            other.set_params(n_neighbors=tried[name].n_neighbors)
        if template is not estimator:
            other = clone(estimator).set_params(estimator=other)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NearDuplicateWarning)  # given when the first one was fitted
            yield calibrate(other, X, y, None, sample_weight, groups, validation)


def _check_rows(estimator: Any, X: Any, y: Any) -> tuple[Any, np.ndarray]:
    if y is None:
        raise InputError("fit requires y to be passed, but the target y is None. Pass a label for every row.")
    if not hasattr(estimator, "predict_proba"):
        raise InputError(
            f"A promise is read from probabilities, but {type(estimator).__name__} has no"
            " predict_proba. Wrap it first (sklearn.calibration.CalibratedClassifierCV gives it one)."
        )
    X, y = indexable(X, checked_labels(y))
    assert_all_finite(y, input_name="y")
    y = column_or_1d(y, warn=True)
    check_classification_targets(y)
    return X, y


def _cross_validated(
    estimator: Any, X: Any, y: np.ndarray, cv: Any, weights: np.ndarray | None, group: np.ndarray | None
) -> Calibration:
    counted = np.ones(len(y), np.bool_) if weights is None else weights > 0
    classes = np.unique(y[counted])
    models, fitted_on, rows, p, unseen = [], [], [], [], []
    for rest_of_all, fold_of_all in _folds(cv, X, y, group):
        train, fold = rest_of_all[counted[rest_of_all]], fold_of_all[counted[fold_of_all]]
        if not len(fold):
            continue
        model = clone(estimator).fit(*_safe_split(estimator, X, y, train), **_weighed(weights, train))
        models.append(model)
        fitted_on.append(train)
        rows.append(fold)
        p.append(among(classes, model, proba(model, _safe_split(estimator, X, None, fold, train)[0])))
        unseen.append(~np.isin(y[fold], model.classes_))
    judged = np.concatenate(rows)
    parts = (y[judged], np.concatenate(p), np.concatenate(unseen))
    of_group = None if group is None else group[judged]
    together = FoldModels.of(models, fitted_on, classes)
    return Calibration(together, *parts, excess=LEFT_OUT_EXCESS, groups=of_group, rows=judged)


def _content_order(X: Any, y: np.ndarray) -> np.ndarray | None:
    """The rows in an order that content decides, where they are a table of numbers; None for others."""
    try:
        rows = np.asarray(X)
    except ValueError:  # lists of unequal length
        return None
    is_table = rows.ndim == 2 and rows.dtype.kind in "fiub"
    return content_order(rows, np.unique(y, return_inverse=True)[1]) if is_table else None


def hold_out(y: np.ndarray, order: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row numbers to fit on, to hold out, and to count as of an unseen class: of both every fifth.

    They are counted class by class from a random start. The rows of a class are shuffled (the seed is fixed), so those
    held out are a fair sample of it, and every class keeps rows to be fitted on. They are drawn in the ``order`` of
    these row numbers, theirs by default. Rows that are alone in their class come last. Every fifth of them is drawn
    like any other: held out, its class would be unseen, as the classes of some new rows will be. It is only counted,
    and stays to be fitted on.

    >>> y = np.array(list("aaaaaaaaaabbbbbcdefg"))
    >>> train, held_out, alone = hold_out(y)
    >>> len(train), y[held_out].tolist(), y[alone].tolist()
    (17, ['a', 'a', 'b'], ['e'])
    """
    order = np.arange(len(y)) if order is None else order
    _, first, place, counts = np.unique(y[order], return_index=True, return_inverse=True, return_counts=True)
    turn, size = first[place], counts[place]  # classes take their turn as they first come
    random = np.random.default_rng(0)
    drawn = random.permutation(len(y))
    by_class = drawn[np.argsort(turn[drawn], kind="stable")]
    has_others = size[by_class] > 1
    can_go = by_class[has_others]
    if not len(can_go):
        raise InputError(
            f"No row can be held out: none of the classes has two (n_samples={len(y)}). Pass more rows of a class,"
            ' or a classifier that is fitted already, with cv="prefit".'
        )
    in_turn = np.concatenate([can_go, by_class[~has_others]])
    every_fifth = np.sort(in_turn[random.integers(min(HELD_OUT, len(can_go))) :: HELD_OUT])
    alone = size[every_fifth] == 1
    held_out = every_fifth[~alone]
    return order[np.setdiff1d(np.arange(len(y)), held_out)], order[held_out], order[every_fifth[alone]]


def _folds(cv: Any, X: Any, y: np.ndarray, group: np.ndarray | None = None) -> list[tuple[np.ndarray, np.ndarray]]:
    """Row numbers to fit on and to ask about, of every fold; a number of folds of groups leaves each group whole."""
    from sklearn.model_selection import StratifiedGroupKFold, check_cv

    expected = 'cv must be None, "split", "prefit", a number of folds of at least 2, or a splitter'
    if isinstance(cv, str) or (isinstance(cv, int | np.integer) and (isinstance(cv, bool) or cv < 2)):
        raise InputError(f"{expected}; got {cv!r}.")
    if group is not None and isinstance(cv, int | np.integer):
        cv = StratifiedGroupKFold(min(int(cv), len(np.unique(group))))
    try:
        folds = [tuple(fold) for fold in check_cv(cv, y, classifier=True).split(X, y, group)]
        checked = [(check_row_numbers(train, len(y)), check_row_numbers(fold, len(y))) for train, fold in folds]
    except (TypeError, ValueError) as error:
        raise InputError(f"{expected}, that can split these {len(y)} rows; got {cv!r} ({error}).") from error
    if not checked:
        raise InputError(f"{expected}; got {cv!r}, which makes no folds.")
    return checked
