"""How frequent classes are among queries, where that differs from the training rows (Saerens et al. 2002).

    p_new(c | x)  ∝  p(c | x) · share(c) / frequency(c)          share(c)  ←  mean over queries of p_new(c | x)

Repeated until the shares stay, which are then those of largest likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import chi2

ROUNDS = 1000
STILL = 1e-9


@dataclass(frozen=True)
class ClassShares:
    """The estimated shares of the classes among some queries.

    classes : (n_classes,) labels.
    shares, frequencies : (n_classes,) among the queries, and in the probabilities they were estimated from.
    p_value : how often queries with the same frequencies would differ as clearly: of the likelihood ratio.

    >>> p = np.tile([[0.5, 0.5], [0.8, 0.2]], (50, 1))
    >>> estimated = estimated_shares(p, np.array([0.5, 0.5]), np.array(["fake", "real"]))
    >>> print(estimated)
    Shares among 100 queries (in training): fake 1.00 (0.50), real 0.00 (0.50); p = 7.1e-12.
    """

    classes: np.ndarray
    shares: np.ndarray
    frequencies: np.ndarray
    p_value: float
    n_queries: int

    @property
    def priors(self) -> dict[Any, float]:
        """The shares as ``priors`` of a classifier takes them; none is 0."""
        least = 0.5 / (self.n_queries + 1)
        return dict(zip(self.classes.tolist(), np.maximum(self.shares, least).tolist(), strict=True))

    def __str__(self) -> str:
        triples = zip(self.classes.tolist(), self.shares, self.frequencies, strict=True)
        listed = ", ".join(f"{name} {share:.2f} ({known:.2f})" for name, share, known in triples)
        return f"Shares among {self.n_queries:,} queries (in training): {listed}; p = {self.p_value:.3g}."


def estimated_shares(p: np.ndarray, frequencies: np.ndarray, classes: np.ndarray) -> ClassShares:
    """The shares of largest likelihood, for probabilities (n_queries, n_classes) that hold these frequencies."""
    ratios = p / frequencies
    shares = frequencies.copy()
    for _ in range(ROUNDS):
        joint = ratios * shares
        before, shares = shares, (joint / joint.sum(axis=1, keepdims=True)).mean(axis=0)
        if np.abs(shares - before).max() < STILL:
            break
    gain = np.log(ratios @ shares).sum() - np.log(ratios @ frequencies).sum()
    p_value = float(chi2.sf(2 * max(gain, 0.0), max(1, len(classes) - 1)))
    return ClassShares(classes, shares, frequencies, p_value, len(p))
