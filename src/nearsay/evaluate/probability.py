"""How good answers and their probabilities were, now that the truth is known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nearsay.errors import InputError


def accuracy(predicted: Any, y: Any) -> float:
    """The share of predicted labels that are right.

    >>> accuracy(["a", "b", "b"], ["a", "b", "c"])
    0.6666666666666666
    """
    predicted, y = np.asarray(predicted), np.asarray(y)
    if predicted.shape != y.shape or y.ndim != 1 or len(y) == 0:
        raise InputError(
            f"As many predicted labels as true ones are expected, at least one; {predicted.shape} and {y.shape} came."
        )
    return float(np.mean(predicted == y))


def mean_log_posterior(p: Any, y: Any, *, classes: Any = None, base: float = math.e) -> float:
    """The mean log of the probability that was given to the true class; 0 is perfect, a true class at 0 gives −inf.

    Parameters
    ----------
    p : (n, n_classes) probabilities.
    y : (n,) true classes
        Column numbers of ``p``, or labels where ``classes`` names the columns.
    classes : (n_classes,) labels of the columns, sorted as in ``classifier.classes_``.
    base : the logarithm's base: e by default; 10 is what some papers print.

    >>> round(mean_log_posterior([[0.9, 0.1], [0.5, 0.5]], [0, 1]), 3)       # (ln 0.9 + ln 0.5) / 2
    -0.399
    >>> round(mean_log_posterior([[0.9, 0.1]], ["no"], classes=["no", "yes"], base=10), 3)
    -0.046
    """
    p = np.asarray(p, dtype=np.float64)
    columns = np.asarray(y) if classes is None else _columns(np.asarray(y), np.asarray(classes))
    if p.ndim != 2 or columns.shape != (len(p),) or len(p) == 0:
        raise InputError(
            "Probabilities (n × classes) and n true classes are expected, n at least 1;"
            f" {p.shape} and {columns.shape} came."
        )
    if columns.dtype.kind not in "iu" or columns.min() < 0 or columns.max() >= p.shape[1]:
        raise InputError(
            f"True classes must be column numbers 0 to {p.shape[1] - 1} of the probabilities."
            " For labels pass classes=classifier.classes_ too."
        )
    with np.errstate(divide="ignore"):
        log_p = np.log(p[np.arange(len(p)), columns])
    return float(log_p.mean() / math.log(base))


def _columns(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    columns = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    unknown = y[classes[columns] != y]
    if len(unknown):
        raise InputError(f"The label {unknown[0].item()!r} is none of the {len(classes)} classes.")
    return columns
