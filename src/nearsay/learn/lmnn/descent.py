"""L-BFGS for nonsmooth functions, with a weak Wolfe line search.

At a kink the slope jumps, so the usual line search finds no step that ends with a slope near zero. This one requires
only that the value has fallen enough and that the slope is less steep (weak Wolfe conditions, Lewis & Overton 2013);
bisection finds such a step on any kink.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from nearsay.learn.linear_map import Report

# Steps remembered for the curvature.
MEMORY = 20
# Wolfe conditions: share of the fall predicted by the slope that a step must reach, and of the slope it may leave.
LEAST_FALL, MOST_SLOPE = 1e-4, 0.9
MOST_TRIES = 30
# Converged if this many steps together lower the value by less than the tolerance.
STEPS_JUDGED = 5

Function = Callable[[np.ndarray], tuple[float, np.ndarray]]


class Descent(NamedTuple):
    """The lowest point, the value at the start and after every step, and whether the descent converged."""

    point: np.ndarray
    curve: list[float]
    converged: bool


def descend(
    function: Function, start: np.ndarray, *, max_iter: int, tol: float, report: Report | None = None
) -> Descent:
    """Minimize from ``start`` until five steps together lower the value by less than ``tol`` times the value.

    ``function`` gives value and slope at an array. The curve never rises. The descent also ends if no step
    lowers the value, because of rounding.

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
        if report is not None:
            report(len(curve) - 1, value)
        if len(curve) > STEPS_JUDGED and curve[-1 - STEPS_JUDGED] - value <= tol * abs(value):
            return Descent(point, curve, True)
    return Descent(point, curve, max_iter == 0)


class _Place(NamedTuple):
    point: np.ndarray
    value: float
    slope: np.ndarray


def _direction(slope: np.ndarray, steps: deque[tuple[np.ndarray, np.ndarray]], point: np.ndarray) -> np.ndarray:
    """The L-BFGS direction: minus the inverse Hessian estimate times the slope (two-loop recursion)."""
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
    """A step along ``direction`` that meets the weak Wolfe conditions; None if no tried step lowers the value."""
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
