"""How often a pool may fail: the share of the probability that is spread evenly over all classes."""

from __future__ import annotations

import numpy as np

# Worth of the belief that the pool may fail, in cases; below one, so that past cases decide.
BELIEF = 0.1
HALVINGS = 50


def failure_share(p_true: np.ndarray, n_classes: int, worth: np.ndarray | None = None) -> float:
    """How much probability should be spread evenly, judged by what past cases gave to the truth.

    The share Δ that makes (1−Δ)·p + Δ/C most likely, with a tenth of a case
    of belief that the model may fail. ``worth`` is how much each case counts.

    >>> failure_share(np.array([0.9] * 99 + [1e-6]), n_classes=10) > 0.01 > failure_share(np.full(100, 0.9), 10) > 0
    True
    """
    even = 1 / n_classes
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):  # the log likelihood is concave in Δ: where it rises, the best lies above
        share = (low + high) / 2
        rises = (even - p_true) / ((1 - share) * p_true + share * even)
        rise = float(np.sum(rises if worth is None else worth * rises))
        rise += BELIEF / share - BELIEF / (1 - share)
        low, high = (share, high) if rise > 0 else (low, share)
    return high
