"""L-BFGS for functions with many small kinks, by a line search that tolerates them.

At a kink the slope jumps, so no step has a slope near zero at its end, which
the usual line search looks for. This one asks only that the value has fallen
enough and that the slope is less steep (weak Wolfe conditions, Lewis & Overton
2013), which halving and doubling find on any kink.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from nearsay.learn.linear_map import Tell

# Steps remembered for the curvature.
MEMORY = 20
# A step must bring this share of the fall that the slope promised, and leave less than this share of the slope.
LEAST_FALL, MOST_SLOPE = 1e-4, 0.9
MOST_TRIES = 30
# The last so many steps together must bring less than the tolerance before it is the end.
STEPS_JUDGED = 5

Function = Callable[[np.ndarray], tuple[float, np.ndarray]]


class Descent(NamedTuple):
    """Where it ended (the lowest point seen), the value at the start and after every step, and whether it was done."""

    point: np.ndarray
    curve: list[float]
    converged: bool


def descend(function: Function, start: np.ndarray, *, max_iter: int, tol: float, tell: Tell | None = None) -> Descent:
    """Go down from ``start`` until the last five steps together fell by less than ``tol`` times the value.

    ``function`` gives value and slope at an array. The curve never rises. Where no step brings
    anything any more, which is when rounding outweighs it, that is the end too.

    >>> descend(lambda x: (float(x @ x), 2 * x), np.array([3.0]), max_iter=9, tol=1e-9)
    Descent(point=array([0.]), curve=[9.0, ..., 0.0], converged=True)
    """
    point, (value, slope) = start, function(start)
    curve = [value]
    steps: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=MEMORY)
    while len(curve) <= max_iter:
        step = _step(function, point, value, slope, _direction(slope, steps, point))
        if step is None and steps:
            steps.clear()
            continue
        if step is None:
            return Descent(point, curve, True)
        moved, bent = step.point - point, step.slope - slope
        if np.vdot(moved, bent) > 1e-12 * np.linalg.norm(moved) * np.linalg.norm(bent):
            steps.append((moved, bent))
        point, value, slope = step
        curve.append(value)
        if tell is not None:
            tell(len(curve) - 1, value)
        if len(curve) > STEPS_JUDGED and curve[-1 - STEPS_JUDGED] - value <= tol * abs(value):
            return Descent(point, curve, True)
    return Descent(point, curve, max_iter == 0)


class _Place(NamedTuple):
    point: np.ndarray
    value: float
    slope: np.ndarray


def _direction(slope: np.ndarray, steps: deque[tuple[np.ndarray, np.ndarray]], point: np.ndarray) -> np.ndarray:
    """Minus the slope, times the inverse curvature that the last steps showed (two-loop recursion)."""
    if not steps:
        steepest = np.abs(slope).max(initial=0.0)
        length = 0.1 * (np.abs(point).max() or 1.0)
        return -slope * (length / steepest) if steepest > 0 else -slope
    turned = slope.copy()
    shares = []
    for moved, bent in reversed(steps):
        share = np.vdot(moved, turned) / np.vdot(moved, bent)
        turned -= share * bent
        shares.append(share)
    moved, bent = steps[-1]
    turned *= np.vdot(moved, bent) / np.vdot(bent, bent)
    for (moved, bent), share in zip(steps, reversed(shares), strict=True):
        turned += (share - np.vdot(bent, turned) / np.vdot(moved, bent)) * moved
    return -turned


def _step(
    function: Function, point: np.ndarray, value: float, slope: np.ndarray, direction: np.ndarray
) -> _Place | None:
    """Go along ``direction`` as far as it pays; None where no tried step brings anything."""
    steepness = float(np.vdot(slope, direction))
    if not steepness < 0:
        return None
    length, too_short, too_long = 1.0, 0.0, np.inf
    lowest: _Place | None = None
    for _ in range(MOST_TRIES):
        trial = point + length * direction
        place = _Place(trial, *function(trial))
        if place.value < value and (lowest is None or place.value < lowest.value):
            lowest = place
        if not place.value <= value + LEAST_FALL * length * steepness:
            too_long = length
        elif np.vdot(place.slope, direction) < MOST_SLOPE * steepness:
            too_short = length
        else:
            return place
        length = (too_short + too_long) / 2 if too_long < np.inf else 2 * length
    return lowest
