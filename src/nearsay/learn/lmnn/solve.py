"""Minimize the LMNN loss: from the Euclidean metric, over some of the rows first, then over all."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearsay.core.parallel import one_blas_thread
from nearsay.learn.linear_map import Report
from nearsay.learn.lmnn.descent import Descent, Function, descend
from nearsay.learn.lmnn.loss import LMNNLoss, scatter_of_targets

# Steps over a few rows cost little and go most of the way: over one row in 16, then one in 4, then all.
SHARES = (16, 4)
FEWEST_ROWS = 500
# At the start a row's targets are, on average, this many margins away.
TARGETS_AT_START = 4.0
# Ridge, as a share of the mean: rounding would dominate directions in which targets hardly differ.
LEAST_SPREAD = 1e-3


class LMNNProblem(NamedTuple):
    """The arguments of ``LMNNLoss``."""

    X: np.ndarray
    labels: np.ndarray
    targets: np.ndarray
    push: float
    margins: np.ndarray
    groups: np.ndarray | None = None

    def loss(self, X: np.ndarray, n_rows: int | None = None) -> LMNNLoss:
        how: dict[str, Any] = {"push": self.push, "margins": self.margins, "groups": self.groups}
        return LMNNLoss(X, self.labels, self.targets, n_rows=n_rows, **how)


def solve(
    problem: LMNNProblem,
    axes: np.ndarray,
    *,
    max_iter: int,
    tol: float,
    report: Report,
    fewest_rows: int = FEWEST_ROWS,
) -> Descent:
    """The map of least loss, and the loss at the start (``axes``, scaled) and after every step.

    With many rows the first step includes many over some of the rows, at least ``fewest_rows``. Without steps the map
    is ``axes`` itself.
    """
    if max_iter == 0:
        return Descent(axes, [problem.loss(problem.X)(axes)[0]], True)
    with one_blas_thread():
        scale, basis, back = _coordinates(problem)
        X = (problem.X - problem.X.mean(axis=0)) @ basis
        start = scale * axes @ back
        every = _by_map(problem.loss(X))
        ahead = _over_some(problem, X, start, fewest_rows, max_iter=max_iter, tol=tol)
        value = every(start)[0]
        if ahead is not None and every(ahead)[0] < value:
            descent = descend(every, ahead, max_iter=max_iter - 1, tol=tol, report=report)
            descent.curve.insert(0, value)
        else:
            descent = descend(every, start, max_iter=max_iter, tol=tol, report=report)
    return descent._replace(point=descent.point @ basis)


def mixed_with_euclidean(M: np.ndarray, problem: LMNNProblem, share: float) -> np.ndarray:
    """A mixture of M and a ``share`` of the identity, scaled so that targets have the same mean distance in both."""
    spread = scatter_of_targets(problem.X, np.arange(len(problem.X)), problem.targets)
    if not np.trace(spread) > 0:  # targets are duplicates: any scale will do
        spread = np.eye(len(M))
    return (1 - share) * M + share * np.vdot(M, spread) / np.trace(spread) * np.eye(len(M))


def _over_some(
    problem: LMNNProblem, X: np.ndarray, start: np.ndarray, fewest_rows: int, *, max_iter: int, tol: float
) -> np.ndarray | None:
    """The result of a descent over some of the rows; None if there are too few rows."""
    point = None
    for share in SHARES:
        if len(X) // share >= fewest_rows:
            some = _by_map(problem.loss(X, len(X) // share))
            point = descend(some, start if point is None else point, max_iter=max_iter, tol=tol).point
    return point


def _by_map(loss: LMNNLoss) -> Function:
    """The loss with its gradient by L instead of M = LᵀL."""

    def function(L: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = loss(L)
        return value, 2 * L @ slope

    return function


def _coordinates(problem: LMNNProblem) -> tuple[float, np.ndarray, np.ndarray]:
    """The scale to start from, and a basis, with its inverse, in which differences of targets are white.

    In that basis the first sum of the loss is well conditioned, and the descent takes a tenth of the steps.
    """
    X, targets = problem.X, problem.targets
    n_targets = int((targets >= 0).sum())
    spread = scatter_of_targets(X, np.arange(len(X)), targets) / n_targets
    if not np.trace(spread) > 0:  # targets are duplicates
        spread = np.cov(X.T, bias=True).reshape(spread.shape)
    if not np.trace(spread) > 0:  # so are all rows
        spread = np.eye(len(spread))
    values, vectors = np.linalg.eigh(spread)
    values = np.maximum(values, 0.0) + LEAST_SPREAD * values.mean()
    scale = np.sqrt(TARGETS_AT_START * problem.margins.mean() / np.trace(spread))
    basis, back = ((vectors * values**power) @ vectors.T for power in (-0.5, 0.5))
    return float(scale), basis, back
