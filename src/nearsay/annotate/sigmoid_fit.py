"""Newton's method for the sigmoids that turn keyword scores into probabilities.

columns of a pair (row, word) ──► one sigmoid for all words ──► a slope and a shift for each word
                                    least_log_loss                  word_sigmoids
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# A score has two columns: itself, and its logarithm, offset by this share of the usual largest score. Votes are best
# separated by the logarithm, regression scores without it.
FAINT = 0.002
# Regularization of a word's slope and shift toward those of all words: equivalent to so many rows with the word.
HELD_SLOPE, HELD_SHIFT = 20.0, 4.0
# Ridge, against large weights of opposite sign for collinear columns.
RIDGE = 1e-6
NEWTON_STEPS = 30

Evaluation = tuple[float, np.ndarray, np.ndarray]


def least_log_loss(weights: np.ndarray, evaluate: Callable[[np.ndarray], Evaluation]) -> np.ndarray:
    """The minimum of a convex function by Newton's method with step halving.

    weights : (n,) where to start.
    evaluate : weights to value, gradient (n,) and Hessian (n, n).

    >>> least_log_loss(np.zeros(1), lambda w: (float((w[0] - 3) ** 2), 2 * (w - 3), np.array([[2.0]])))
    array([3.])
    """
    loss, gradient, hessian = evaluate(weights)
    for _ in range(NEWTON_STEPS):
        step = np.linalg.solve(hessian, gradient)
        size = 1.0
        trial = evaluate(weights - step)
        while trial[0] > loss and size > 1e-6:
            size /= 2
            trial = evaluate(weights - size * step)
        if not trial[0] < loss:
            break
        converged = loss - trial[0] <= 1e-9 * abs(loss)
        weights, (loss, gradient, hessian) = weights - size * step, trial
        if converged:
            break
    return weights


def word_sigmoids(
    n_has: np.ndarray, has_logits: np.ndarray, sums: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """The slope and shift of every word, (n_words,) each, by Newton's method for all words at once.

    n_has : (n_words,) how many rows have each word.
    has_logits : (n_words,) the sum of the shared sigmoid's logits s over these rows.
    sums : (slope − 1, shift) to (5, n_words) sums over the pairs of a word, of p, p·s, p(1 − p), p(1 − p)·s and p(1 −
        p)·s², where p = sigmoid(slope · s + shift).
    """
    more, shift = np.zeros(len(n_has)), np.zeros(len(n_has))
    for _ in range(NEWTON_STEPS):
        p, p_logit, bend, bend_logit, bend_square = sums(more, shift)
        to_shift, to_more = n_has - p - HELD_SHIFT * shift, has_logits - p_logit - HELD_SLOPE * more
        bend_shift, bend_more = bend + HELD_SHIFT, bend_square + HELD_SLOPE
        determinant = bend_shift * bend_more - bend_logit**2
        steps = np.array([bend_more * to_shift - bend_logit * to_more, bend_shift * to_more - bend_logit * to_shift])
        steps = np.clip(steps / determinant, -1.0, 1.0)  # far from the end a full step may overshoot
        shift, more = shift + steps[0], more + steps[1]
        if np.abs(steps).max(initial=0.0) < 1e-8:
            break
    return 1 + more, shift
