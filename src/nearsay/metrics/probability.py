"""Evaluation measures for predicted labels and probabilities."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from nearsay.core.arrays import as_labels, places_among
from nearsay.core.settings import check_whole
from nearsay.errors import InputError


def accuracy(predicted: Any, y: Any) -> float:
    """The share of predicted labels that are right.

    >>> accuracy(["a", "b", "b"], ["a", "b", "c"])
    0.6666666666666666
    """
    predicted, y = _paired_labels(predicted, y)
    return float(np.mean(predicted == y))


def macro_precision(predicted: Any, y: Any) -> float:
    """Mean precision over classes; 0 for a class that is never predicted.

    Classes are all labels that occur, predicted or true.

    >>> macro_precision(["a", "a", "b", "b"], ["a", "a", "a", "c"])      # a: 2 of 2, b: 0 of 2, c: never predicted
    0.3333333333333333
    """
    right, predicted, _ = _counts_by_class(*_paired_labels(predicted, y))
    return float(np.mean(right / np.maximum(predicted, 1)))


def macro_recall(predicted: Any, y: Any) -> float:
    """Mean recall over classes; 0 for a class that is predicted but never true.

    >>> macro_recall(["a", "a", "b", "b"], ["a", "a", "a", "c"])         # a: 2 of 3, b: never true, c: 0 of 1
    0.2222222222222222
    """
    right, _, true = _counts_by_class(*_paired_labels(predicted, y))
    return float(np.mean(right / np.maximum(true, 1)))


def _counts_by_class(predicted: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For every class: how often it was rightly predicted, predicted at all, and true."""
    # Compared in Python: numpy would convert int64 and uint64 to float64, in which large ones become equal.
    names = list(dict.fromkeys([*predicted.tolist(), *y.tolist()]))
    number = {name: at for at, name in enumerate(names)}
    predicted, true = (np.array([number[label] for label in labels.tolist()]) for labels in (predicted, y))
    right, n_predicted, n_true = (
        np.bincount(which, minlength=len(names)) for which in (predicted[predicted == true], predicted, true)
    )
    return right, n_predicted, n_true


def _paired_labels(predicted: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    predicted, y = as_labels(predicted), as_labels(y)
    if predicted.shape != y.shape or y.ndim != 1 or len(y) == 0:
        raise InputError(
            f"As many predicted labels as true ones are expected, at least one; got {predicted.shape} and {y.shape}."
        )
    return predicted, y


def mean_log_posterior(p: Any, y: Any, *, classes: Any = None, base: float = math.e) -> float:
    """The mean log probability of the true class: 0 is perfect, a true class of probability 0 gives −inf.

    Parameters
    ----------
    p : (n, n_classes) probabilities.
    y : (n,) true classes
        Column numbers of ``p``, or labels where ``classes`` names the columns.
    classes : (n_classes,) labels of the columns, sorted as in ``classifier.classes_``.
    base : the base of the logarithm, e by default; some papers use 10.

    >>> round(mean_log_posterior([[0.9, 0.1], [0.5, 0.5]], [0, 1]), 3)       # (ln 0.9 + ln 0.5) / 2
    -0.399
    >>> round(mean_log_posterior([[0.9, 0.1]], ["no"], classes=["no", "yes"], base=10), 3)
    -0.046
    """
    p, columns = _check_probabilities(p, y, classes)
    with np.errstate(divide="ignore"):
        log_p = np.log(p[np.arange(len(p)), columns])
    return float(log_p.mean() / math.log(base))


def brier(p: Any, y: Any, *, classes: Any = None) -> float:
    """The Brier score: mean squared distance of the probabilities from 1 for the true class and 0 for the others.

    From 0 (perfect) to 2 (certain and wrong). Parameters as in ``mean_log_posterior``.

    >>> round(brier([[0.9, 0.1], [0.5, 0.5]], [0, 1]), 3)                   # (0.01 + 0.01 + 0.25 + 0.25) / 2
    0.26
    """
    p, columns = _check_probabilities(p, y, classes)
    true = p[np.arange(len(p)), columns]
    return float(np.mean((p**2).sum(axis=1) - 2 * true + 1))


def expected_calibration_error(p: Any, y: Any, *, classes: Any = None, n_bins: int = 15) -> float:
    """Expected calibration error: mean |confidence − accuracy| over bins of equal size; 0 is perfect.

    The answer to a row is its most probable class (the first at ties), the confidence its probability. Rows are sorted
    by confidence and cut into ``n_bins`` bins of equal size, which are less noisy than bins of equal width. Right
    answers of equal confidence are distributed evenly over their bins, so the order of rows does not matter.

    >>> p = [[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.6, 0.4]]
    >>> round(expected_calibration_error(p, [0, 0, 0, 1], n_bins=2), 3)    # |1 − 0.9| and |0.5 − 0.6|
    0.1
    """
    confidence, accuracy, n_rows = reliability_bins(p, y, classes=classes, n_bins=n_bins)
    return float(n_rows @ np.abs(accuracy - confidence)) / int(n_rows.sum())


class ReliabilityBins(NamedTuple):
    """Mean confidence, accuracy and number of rows in bins of confidence: (n_bins,) each."""

    confidence: np.ndarray
    accuracy: np.ndarray
    n_rows: np.ndarray


def reliability_bins(p: Any, y: Any, *, classes: Any = None, n_bins: int = 10) -> ReliabilityBins:
    """The reliability curve: mean confidence and accuracy in the bins of ``expected_calibration_error``.

    Neighboring bins of one and the same confidence are merged: votes give few
    levels of confidence, and each is one point of the curve.

    Parameters
    ----------
    p : (n, n_classes) probabilities.
    y : (n,) true classes: column numbers of ``p``, or labels where ``classes`` names the columns.

    >>> p = [[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.6, 0.4]]
    >>> reliability_bins(p, [0, 0, 0, 1], n_bins=4)
    ReliabilityBins(confidence=array([0.6, 0.9]), accuracy=array([0.5, 1. ]), n_rows=array([2, 2]))
    """
    p, columns = _check_probabilities(p, y, classes)
    return bins_of(p.max(axis=1), p.argmax(axis=1) == columns, n_bins)


def bins_of(confidence: np.ndarray, right: np.ndarray, n_bins: int) -> ReliabilityBins:
    """The same, from the confidence in each answer and whether it was right; (n,) each, n at least 1.

    >>> bins_of(np.array([0.9, 0.6, 0.9, 0.6]), np.array([True, False, True, True]), n_bins=2)
    ReliabilityBins(confidence=array([0.6, 0.9]), accuracy=array([0.5, 1. ]), n_rows=array([2, 2]))
    """
    check_whole("n_bins", n_bins, least=1)
    levels, level = np.unique(confidence, return_inverse=True)
    share_right = np.bincount(level, right, minlength=len(levels)) / np.bincount(level, minlength=len(levels))

    level = np.sort(level)
    sizes = [len(part) for part in np.array_split(level, min(n_bins, len(level)))]
    start = np.cumsum([0, *sizes[:-1]])
    stop = start + sizes
    one_level_goes_on = level[start[:-1]] == level[stop[1:] - 1]
    start = start[np.concatenate([[True], ~one_level_goes_on])]
    n_rows = np.diff([*start, len(level)])
    predicted, accuracy = (np.add.reduceat(values[level], start) / n_rows for values in (levels, share_right))
    return ReliabilityBins(predicted, accuracy, n_rows)


def _check_probabilities(p: Any, y: Any, classes: Any) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities, and the column of each row's true class."""
    p = np.asarray(p, dtype=np.float64)
    columns = np.asarray(y) if classes is None else _columns(as_labels(y), as_labels(classes))
    if p.ndim != 2 or columns.shape != (len(p),) or len(p) == 0:
        raise InputError(
            "Probabilities (n × classes) and n true classes are expected, n at least 1;"
            f" got {p.shape} and {columns.shape}."
        )
    if columns.dtype.kind not in "iu" or columns.min() < 0 or columns.max() >= p.shape[1]:
        raise InputError(
            f"True classes must be column numbers 0 to {p.shape[1] - 1} of the probabilities."
            " For labels pass classes=classifier.classes_ too."
        )
    return p, columns


def _columns(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    columns = places_among(classes, y)
    unknown = y[columns < 0].tolist()
    if unknown:
        raise InputError(f"The label {unknown[0]!r} is none of the {len(classes)} classes.")
    return columns
