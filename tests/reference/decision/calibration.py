"""Calibrated keywords, straight from the formulas: losses pair by pair, minimized by a general method."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize

from nearsay.annotate.sigmoid_fit import FAINT, HELD_SHIFT, HELD_SLOPE, RIDGE


def log_loss_of_one(said: float, has: float) -> float:
    """−log of the probability given to what is true."""
    p = 1 / (1 + math.exp(-said)) if said > -700 else 0.0
    return -math.log(max(p if has else 1 - p, 1e-300))


def log_odds(scores, usual, weights, of_words) -> np.ndarray:
    """What the shared sigmoid says of every pair."""
    n_rows, n_words = scores[0].shape
    out = np.zeros((n_rows, n_words))
    for i in range(n_rows):
        for w in range(n_words):
            said = weights[-1] + weights[-2] * of_words[w]
            for m, table in enumerate(scores):
                said += weights[2 * m] * table[i, w] / usual[m]
                said += weights[2 * m + 1] * math.asinh(table[i, w] / (FAINT * usual[m]))
            out[i, w] = said
    return out


def shared_loss(scores, has, usual, weights, of_words) -> float:
    said = log_odds(scores, usual, weights, of_words)
    pairs = [log_loss_of_one(said[i, w], has[i, w]) for i in range(len(has)) for w in range(has.shape[1])]
    return sum(pairs) + RIDGE * has.size / 2 * sum(float(w) ** 2 for w in weights)


def own_slope_and_shift(said, has) -> tuple[float, float]:
    """Of one word: the slope and the shift of least log loss, held at 1 and 0."""

    def loss(at) -> float:
        more, shift = at
        pairs = [log_loss_of_one((1 + more) * s + shift, h) for s, h in zip(said, has, strict=True)]
        return sum(pairs) + HELD_SLOPE / 2 * more**2 + HELD_SHIFT / 2 * shift**2

    more, shift = minimize(loss, [0.0, 0.0], method="BFGS", options={"gtol": 1e-7}).x
    return 1 + more, shift
