"""Thresholds of promises about keywords, by trying every one."""

from __future__ import annotations

import math

import numpy as np


def boldest_recall(p: np.ndarray, has: np.ndarray, share: float, known: np.ndarray) -> float:
    """The largest threshold at which the mean share of missed words, with one more of all missed, is small enough."""
    best = -math.inf
    for threshold in [*p.ravel(), math.inf]:
        losses = []
        for row, true in zip(p, has, strict=True):
            words = np.flatnonzero(true)
            missed = [word for word in words if row[word] < threshold or not known[word]]
            losses.append(len(missed) / len(words) if len(words) else 0.0)
        if sum(losses) + 1 <= (1 - share) * (len(p) + 1) + 1e-9:
            best = max(best, threshold)
    return float(best)


def boldest_precision(p: np.ndarray, has: np.ndarray, share: float) -> float:
    """The smallest threshold at which the mean share of wrong words given, with one more of all wrong, is small enough.

    Over items that are given words.
    """
    best = math.inf
    for threshold in p.ravel():
        losses = []
        for row, true in zip(p, has, strict=True):
            words = np.flatnonzero(row >= threshold)
            if len(words):
                losses.append(float(np.mean(~true[words])))
        if sum(losses) + 1 - (len(losses) + 1) * (1 - share) <= 1e-9:
            best = min(best, threshold)
    return float(best)
