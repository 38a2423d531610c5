"""Whether a batch of queries is unlike the collection: tests on their novelty, and on labels that came later."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

from nearsay.core.settings import check_number
from nearsay.errors import InputError
from nearsay.posterior.evidence.records import Records

RATE = 0.01
# Fewer queries than these are judged by their own novelty alone.
FEWEST = 10


@dataclass(frozen=True)
class ShiftTest:
    """Whether queries are more unusual than past cases, all of them together.

    mean_novelty : about a half where queries are like the rows of the collection.
    p_value : how often as many queries like the rows would be at least as novel, in the mean.
    rate : how often such a batch is called unlike the collection although it is not.

    >>> print(ShiftTest(50, 0.93, 1e-9, 0.01))
    These 50 queries are unlike the collection (mean novelty 0.93): promises may not hold.
    """

    n_queries: int
    mean_novelty: float
    p_value: float
    rate: float

    @property
    def unlike(self) -> bool:
        """Whether the queries are called unlike the collection."""
        return self.p_value <= self.rate

    def __str__(self) -> str:
        these = f"These {self.n_queries:,} queries are"
        if self.unlike:
            return f"{these} unlike the collection (mean novelty {self.mean_novelty:.2f}): promises may not hold."
        return f"{these} like the collection (mean novelty {self.mean_novelty:.2f})."


def shift_test(novelty: Any, n_past: int, rate: float = RATE) -> ShiftTest:
    """Compare the novelty of queries with past cases: the rank-sum test of Mann and Whitney, one-sided.

    Novelty is the share of past cases that are less unusual. So its mean over a batch is the rank sum, which is about
    normal for queries like the rows: 1/2 with variance (n + m + 1) / (12 n m), for m queries and n past cases.

    novelty : (n_queries,) from 0 to 1; NaN is left out.
    n_past : how many past cases novelty compares with.
    rate : the share of batches like the rows that are called unlike them.

    >>> shift_test([0.9, 0.8, 0.95, 0.99, 0.7, 0.85], n_past=200).unlike
    True
    >>> shift_test([0.1, 0.8, 0.5, 0.99, 0.3, 0.6], n_past=200).unlike
    False
    """
    check_number("rate", rate, 0, 1)
    values = np.asarray(novelty, np.float64)
    values = values[~np.isnan(values)]
    if values.ndim != 1 or not len(values) or n_past < 1:
        raise InputError(f"The novelty of at least one query, and a past case, are needed; got {novelty!r}, {n_past}.")
    n_queries, mean = len(values), float(values.mean())
    spread = math.sqrt((n_past + n_queries + 1) / (12 * n_past * n_queries))
    return ShiftTest(n_queries, mean, float(norm.sf((mean - 0.5) / spread)), float(rate))


def batch_shift(novelty: Sequence[float | None], n_past: int) -> ShiftTest | None:
    """The test of a batch of answers; None of fewer than ten, or where novelty is not known.

    >>> batch_shift([0.9] * 9, n_past=50) is None, batch_shift([0.9] * 10, n_past=50).unlike
    (True, True)
    """
    known = [each for each in novelty if each is not None and not math.isnan(each)]
    return shift_test(known, n_past) if len(known) >= FEWEST and n_past else None


@dataclass(frozen=True)
class DriftTest:
    """Whether answers are right less often than their probabilities say, more so than those of past cases.

    expected : how many would be right by their probabilities, and by how far past cases were off.
    p_value : how often as many answers that are like past cases would be right so seldom.
    rate : how often such answers are called drifted.

    >>> print(DriftTest(50, 31, 44.6, 1e-5, 0.01))
    31 of these 50 answers are right, where 45 were to be expected: their probabilities are too high.
    """

    n_answers: int
    n_right: int
    expected: float
    p_value: float
    rate: float

    @property
    def drifted(self) -> bool:
        """Whether the probabilities are called too high."""
        return self.p_value <= self.rate

    def __str__(self) -> str:
        known = f"{self.n_right:,} of these {self.n_answers:,} answers are right, where {self.expected:,.0f}"
        return f"{known} were to be expected: their probabilities are {'too high' if self.drifted else 'fine'}."


def drift_test(sureness: np.ndarray, right: np.ndarray, past: Records, rate: float = RATE) -> DriftTest:
    """Compare right answers less probability with the same of past cases, one-sided.

    Each answer is right with its probability, corrected by how far answers are off altogether; a mean over n of them
    varies by the mean of p (1 − p), over n.

    sureness : (n,) the probability of each answer.
    right : (n,) bool
    past : of the answers to past cases.

    >>> past = Records.of(np.full(200, 0.8), np.arange(200) % 5 > 0)
    >>> sure, right = np.full(50, 0.8), np.arange(50)
    >>> drift_test(sure, right < 40, past).drifted, drift_test(sure, right < 30, past).drifted
    (False, True)
    """
    n, (n_past, n_past_right) = len(right), past.of_all()
    past_p, weights = past.probabilities()
    past_surplus = n_past_right / n_past - float(np.average(past_p, weights=weights)) if n_past else 0.0
    surplus = float(np.mean(right - sureness))
    together = (n_past * past_surplus + n * surplus) / (n_past + n)
    variance, third = _moments(sureness + together, n)
    if n_past:
        past_variance, past_third = _moments(past_p + together, n_past, weights)
        variance, third = variance + past_variance, third - past_third
    p_value = _chance_below(surplus - past_surplus, variance, third)
    return DriftTest(n, int(np.sum(right)), float(np.sum(sureness)) + n * past_surplus, p_value, float(rate))


def _moments(p: np.ndarray, n: int, weights: np.ndarray | None = None) -> tuple[float, float]:
    """Variance and third moment of a mean over n answers that are right with these probabilities."""
    p = np.clip(p, 0.0, 1.0)
    each = p * (1 - p)
    variance, third = (float(np.average(moment, weights=weights)) for moment in (each, each * (1 - 2 * p)))
    return variance / n, third / n**2


def _chance_below(difference: float, variance: float, third: float) -> float:
    """How often a difference of mean 0 is no larger: normal, with the first correction for skewness (Edgeworth)."""
    if variance == 0:
        return float(difference >= 0)
    z = difference / math.sqrt(variance)
    skewness = third / variance**1.5
    return float(np.clip(norm.cdf(z) - norm.pdf(z) * skewness * (z**2 - 1) / 6, 0.0, 1.0))
