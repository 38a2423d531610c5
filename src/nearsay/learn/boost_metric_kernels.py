"""The compiled search for the weight of one round of BoostMetric. Imported on first use only (numba)."""

from __future__ import annotations

import math

from nearsay.core.compiling import only_compiled as compiled

# Largest weight, in units of one over the largest margin: a triplet's weight may have fallen by e^30. Only a
# direction that satisfies every triplet gets here, since its loss has no minimum.
LARGEST_WEIGHT = 30.0

# Share of the weight to which the bracket around it may shrink.
PRECISION = 1e-12

# After a step of Newton that changes the weight by this share, what is still missing is about the square of it.
LAST_STEP = 1e-8


@compiled
def best_weight(log_shares, margins, penalty):  # type: ignore[no-untyped-def]
    """The weight w ≥ 0 at which log Σ shares · exp(−w · margins) + penalty · w is smallest.

    The slope grows with w, so its zero lies between a weight with a negative slope and one without. Newton's step is
    taken where it stays in between; where it does not, the bracket is cut in half.
    """
    largest = 0.0
    for margin in margins:
        largest = max(largest, abs(margin))
    if largest == 0.0:
        return 0.0
    # Weights are counted in one over the largest margin from here on, so that no square overflows.
    margins, penalty = margins / largest, penalty / largest
    low, weight, high, bracketed = 0.0, 0.0, LARGEST_WEIGHT, False
    while high - low > PRECISION * high:
        slope, curvature = slope_and_curvature(log_shares, margins, penalty, weight)
        if slope < 0.0:
            low = weight
        elif weight == 0.0:
            break
        else:
            high, bracketed = weight, True
        step = weight - slope / curvature if curvature > 0.0 else high
        if low < step < high:
            if abs(step - weight) <= LAST_STEP * step:
                return step / largest
            weight = step
        else:
            # The far end is only looked at when a step goes beyond it.
            weight = (low + high) / 2 if bracketed else high
    return weight / largest


@compiled
def slope_and_curvature(log_shares, margins, penalty, weight):  # type: ignore[no-untyped-def]
    """First and second derivative of the loss by the weight: they hold the mean and variance of the margins."""
    highest = -math.inf
    for r in range(len(margins)):
        highest = max(highest, log_shares[r] - weight * margins[r])
    total, first, second = 0.0, 0.0, 0.0
    for r in range(len(margins)):
        share = math.exp(log_shares[r] - weight * margins[r] - highest)
        total += share
        first += share * margins[r]
        second += share * margins[r] * margins[r]
    mean = first / total
    return penalty - mean, second / total - mean * mean


@compiled
def shift_shares(log_shares, margins, weight):  # type: ignore[no-untyped-def]
    """Update the weights of the triplets after a round, in place; returns the log of their sum before normalizing."""
    highest = -math.inf
    for r in range(len(margins)):
        log_shares[r] -= weight * margins[r]
        highest = max(highest, log_shares[r])
    total = 0.0
    for r in range(len(margins)):
        total += math.exp(log_shares[r] - highest)
    change = highest + math.log(total)
    for r in range(len(margins)):
        log_shares[r] -= change
    return change
