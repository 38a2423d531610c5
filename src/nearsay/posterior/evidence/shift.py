"""Whether a batch of queries is unlike the collection: a test on their novelty."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

from nearsay.core.settings import check_number
from nearsay.errors import InputError

RATE = 0.01


@dataclass(frozen=True)
class ShiftTest:
    """Whether queries are more unusual than past cases, all of them together.

    Attributes
    ----------
    n_queries : int
    mean_novelty : float
        About a half where queries are like the rows of the collection.
    p_value : float
        How often as many queries like the rows would be at least as novel, in the mean.
    rate : float
        How often such a batch is called unlike the collection although it is not.

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

    Parameters
    ----------
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
