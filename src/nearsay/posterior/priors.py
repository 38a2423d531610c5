"""Class priors: exchange the class frequencies of the training rows for those expected among the queries.

    p(c | x)  ∝  p_train(c | x) · prior(c) / frequency(c)                                            (Bayes, twice)

Probabilities that are learned from training rows hold the frequencies of these. They are divided out, as often as
they are in a product, before the priors are put in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from nearsay.errors import InputError
from nearsay.posterior.methods.fusion import normalized
from nearsay.posterior.row_weights import RowWeights

UNIFORM = "uniform"
PriorsLike: TypeAlias = Literal["uniform"] | Mapping[Any, float] | ArrayLike | None


class Priors:
    """How often each class is expected, and how often it is among the training rows.

    log_priors, log_frequencies : (n_classes,) natural logs of shares that sum to 1.

    >>> priors = Priors.of("uniform", np.array(["fake", "real"]), labels=np.array([0, 1, 1, 1]))
    >>> p = np.array([[0.25, 0.75], [0.5, 0.5]])            # as likely as in training; three times as likely
    >>> priors.put_in(p)
    >>> p
    array([[0.5 , 0.5 ],
           [0.75, 0.25]])
    """

    def __init__(self, log_priors: np.ndarray, log_frequencies: np.ndarray) -> None:
        self.log_priors = log_priors
        self.log_frequencies = log_frequencies

    @classmethod
    def of(
        cls, given: PriorsLike, classes: np.ndarray, labels: np.ndarray, weights: RowWeights | None = None
    ) -> Priors | None:
        """What an estimator was given, checked; None leaves probabilities as training rows taught them."""
        if given is None:
            return None
        return cls(np.log(_shares(given, classes)), log_frequencies(labels, len(classes), weights))

    def put_in(self, p: np.ndarray, log_frequencies: np.ndarray | None = None) -> None:
        """Exchange the frequencies in probabilities (n_queries, n_classes) for the priors, in place.

        ``log_frequencies`` (n_queries, n_classes) says what is in them, where
        that is not the training frequencies once for every query.
        """
        known = self.log_frequencies if log_frequencies is None else log_frequencies
        with np.errstate(divide="ignore"):  # a class without any probability stays without
            np.log(p, out=p)
        p += self.log_priors - known
        normalized(p)

    def case_weights(self, truth: np.ndarray) -> np.ndarray:
        """How often past cases of these classes are to be counted, to be as frequent as the priors say."""
        return np.exp(self.log_priors - self.log_frequencies)[truth]


def log_frequencies(labels: np.ndarray, n_classes: int, weights: RowWeights | None = None) -> np.ndarray:
    """The log share of each class among the labels; 0, which changes nothing, for a class that is not there.

    Where rows have weights, it is the share of these.
    """
    counts = np.bincount(labels, None if weights is None else weights.values, minlength=n_classes)
    return np.log(np.where(counts > 0, counts, counts.sum()) / (counts.sum() or 1))


def _shares(given: Any, classes: np.ndarray) -> np.ndarray:
    names = classes.tolist()
    if isinstance(given, str) and given == UNIFORM:
        return np.full(len(names), 1 / len(names))
    values = given
    if isinstance(given, Mapping):
        if set(given) != set(names):
            raise InputError(f"priors must name every class once: {names}; got {list(given)}.")
        values = [given[name] for name in names]
    try:
        shares = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):  # no numbers: said below
        shares = np.empty(0)
    if shares.shape != classes.shape or not np.isfinite(shares).all() or (shares <= 0).any():
        raise InputError(
            f"priors must be one number above 0 for each of the {len(names)} classes, in the order of classes_"
            f' (or {{label: number}}, or "{UNIFORM}"); got {given!r}.'
        )
    shares /= shares.sum()
    return shares
