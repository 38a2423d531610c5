"""A weight for each rank of a neighbor, never larger than the weight of a nearer one, by maximum likelihood.

Every decreasing weighting is a mixture of "evenly over the first j": the
vectors u_j = (1/j, …, 1/j, 0, …). So the probability of a true label is a
mixture of its shares among the first 1, 2, … k neighbors, and the best
mixture is a concave problem that EM solves. EM slows down near the optimum,
so its steps alternate with Newton steps; both only ever go up, and how far
the optimum can be is known at every step.
"""

from __future__ import annotations

import numpy as np

# Mean log likelihood a case may lie below the optimum.
TOLERANCE = 1e-10
MOST_STEPS = 200
# What keeps the curvature, each component scaled to 1, positive definite: more than rounding takes from it.
RIDGE = 1e-12
# Share of the largest curvature below which a component is taken to have none.
SMALLEST = 1e-30


def decreasing_weights(right: np.ndarray, worth: np.ndarray | None = None) -> np.ndarray:
    """The weights w_1 ≥ … ≥ w_k ≥ 0, summing to 1, that make the true labels of past cases likeliest.

    right : (n_cases, k) bool, whether the neighbor at each rank has the label of its case. A missing neighbor has not.
        Cases without any right neighbor are passed over: no weights could help them.
    worth : (n_cases,) above 0, optional, how much the log likelihood of each case counts; 1 for all by default.

    Without any case all weights are equal.

    >>> cases = [(1, 0)] * 3 + [(0, 1)] + [(1, 1)] * 5 + [(0, 0)] * 2      # only 3 log w₁ + log w₂ matters
    >>> decreasing_weights(np.array(cases, bool)).round(6)
    array([0.75, 0.25])
    >>> cases = [(1, 0)] + [(0, 1)] * 3 + [(1, 1)] * 5                     # free they would be 0.25 and 0.75
    >>> decreasing_weights(np.array(cases, bool)).round(6)
    array([0.5, 0.5])
    """
    n_ranks = right.shape[1]
    helped = right.any(axis=1)
    patterns, n_cases = _distinct(right[helped], None if worth is None else worth[helped])
    if not len(patterns):
        return np.full(n_ranks, 1 / n_ranks)
    first_j = np.arange(1, n_ranks + 1)
    mixture = best_mixture(patterns.cumsum(axis=1) / first_j, n_cases / n_cases.sum())
    return (mixture / first_j)[::-1].cumsum()[::-1]


def best_mixture(likelihood: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The mixture a of components that maximizes Σᵢ shareᵢ·log(likelihoodᵢ·a); a ≥ 0 sums to 1.

    ``likelihood`` (n, n_components) is not negative, and no row of it is all 0.

    >>> best_mixture(np.array([[1.0, 0.5], [0.0, 0.5]]), np.array([0.5, 0.5])).round(6)
    array([0., 1.])
    """
    mixture = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    for _ in range(MOST_STEPS):
        gain = likelihood.T @ (share / (likelihood @ mixture))
        # The mean log likelihood is concave, so no mixture lies higher than this one by more than max(gain) − 1.
        if gain.max() <= 1 + TOLERANCE:
            break
        mixture = _newton_step(likelihood, share, mixture * gain)  # mixture·gain is the step of EM
    return mixture


def _newton_step(likelihood: np.ndarray, share: np.ndarray, mixture: np.ndarray) -> np.ndarray:
    """A mixture at least as likely: the best by the curvature here, or one on the way to it.

    The curve through ``mixture`` is Σ share·(2·r − r²/2) with r the ratio of new to old probability, less the
    sum of the mixture (its multiplier is 1); its largest non-negative argument is a least squares problem.
    """
    from scipy.optimize import nnls

    root = np.sqrt(share)[:, None] * (likelihood / (likelihood @ mixture)[:, None])
    # Least squares on the triangular factor: as many equations as components, however many cases there are.
    curvature = root.T @ root
    # Relative to each component: shares and ratios of cases may differ by many powers of ten.
    diagonal = np.diag(curvature)
    some = diagonal > SMALLEST * diagonal.max()  # a component that explains no case has no place in the best mixture
    units = np.sqrt(diagonal[some])
    curvature = curvature[np.ix_(some, some)] / np.outer(units, units)
    factor = np.linalg.cholesky(curvature + RIDGE * np.eye(len(units))).T
    wanted = np.linalg.solve(factor.T, (2 * (root.T @ np.sqrt(share)) - 1)[some] / units)
    target = np.zeros_like(mixture)
    target[some] = nnls(factor, wanted)[0] / units
    if not target.sum() > 0:
        return mixture
    target /= target.sum()
    here = share @ np.log(likelihood @ mixture)
    for step in 0.5 ** np.arange(20):
        tried = mixture + step * (target - mixture)
        p = likelihood @ tried
        if p.min() > 0 and share @ np.log(p) > here:
            return tried
    return mixture


def _distinct(right: np.ndarray, worth: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The different rows, and how often each occurs, or what its cases are worth: there are few, however many cases."""
    packed = np.packbits(right, axis=1)
    keys = np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[1]))).ravel()
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    return right[first], np.bincount(which, worth, minlength=len(first))
