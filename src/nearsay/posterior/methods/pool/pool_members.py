"""Which members of a pool pay: the log loss of past cases without each of them.

    weights, and the curvature of their loss ──► the best weights without a member, to second order ──► cases held out

To learn the weights again without each of a dozen members, one after the other, would take longer than all else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nearsay.posterior.methods.pool.log_linear import Cases

# Losses that differ less are equal: sums in another order differ in their last digits.
DIGITS = 9
# A share of the log loss: members that bring less are not worth the time that they take of every query.
MISSED = 0.002


@dataclass(frozen=True)
class TaughtFold:
    """What all cases but those of a fold teach, and the cases of the fold.

    weights : (n_weights,) the most likely.
    curvature : (n_weights, n_weights) the second derivatives of the loss there.
    held_out : the cases of the fold.
    """

    weights: np.ndarray
    curvature: np.ndarray
    held_out: Cases

    def weights_without(self, dropped: np.ndarray) -> np.ndarray:
        """The most likely weights of which some, by number, are 0, as far as the curvature tells."""
        weights = self.weights.copy()
        kept = np.setdiff1d(np.arange(len(weights)), dropped)
        moved = self.curvature[np.ix_(kept, dropped)] @ weights[dropped]
        weights[kept] += np.linalg.solve(self.curvature[np.ix_(kept, kept)], moved)
        weights[dropped] = 0.0
        return weights

    def losses(self, weights: np.ndarray, failure: float, n_classes: int) -> np.ndarray:
        """The log loss of every case held out under each of several weights (n_weights, n_several)."""
        cases = self.held_out
        scores = cases.offsets[:, :, None] - cases.features @ weights
        scores -= scores.max(axis=1, keepdims=True)
        p = np.exp(scores)
        p_true = p[np.arange(len(cases)), cases.truth] / p.sum(axis=1)
        return -np.log((1 - failure) * p_true + failure / n_classes)

    @property
    def worth(self) -> np.ndarray:
        """How much each case held out counts."""
        return np.ones(len(self.held_out)) if self.held_out.worth is None else self.held_out.worth


@dataclass(frozen=True)
class PoolMembers:
    """Which members of a pool pay.

    loss : the mean log loss of past cases, each by weights that others taught, with the members that pay.
    without : {member: float}, the same without each of these.
    idle : members that are not missed, in the order in which they were dropped.
    """

    loss: float
    without: dict[int, float]
    idle: tuple[int, ...]
    n_cases: int


def members_that_pay(
    folds: Sequence[TaughtFold],
    columns: Sequence[np.ndarray],
    failure: float,
    n_classes: int,
    missed: float = MISSED,
) -> PoolMembers:
    """Drop the member that is missed least, as long as all that were dropped together are not missed.

    They are missed where, two standard errors added, past cases lose more than ``missed`` of the log loss without them:
    with few cases it takes much to drop a member. The first one always stays.

    columns : the numbers of the weights of each member.
    failure : the share that the pool spreads evenly.
    """
    worth = np.concatenate([fold.worth for fold in folds])

    def losses(dropped: Sequence[Sequence[int]]) -> np.ndarray:
        """Of every case, without some members, for several choices of these: (n_cases, n_choices)."""
        each = [np.concatenate([np.empty(0, np.int64), *(columns[member] for member in some)]) for some in dropped]
        parts = [
            fold.losses(np.stack([fold.weights_without(some) for some in each], axis=1), failure, n_classes)
            for fold in folds
        ]
        return np.concatenate(parts)

    whole = losses([[]])[:, 0]
    most = missed * float(np.average(whole, weights=worth))
    idle: list[int] = []
    loss = float(np.average(whole, weights=worth))
    while True:
        members = [member for member in range(len(columns)) if member not in idle]
        lost = losses([[*idle, member] for member in members])
        without = dict(zip(members, np.average(lost, axis=0, weights=worth).tolist(), strict=True))
        least = min(members[1:], key=lambda member: (round(without[member], DIGITS), -member), default=None)
        if least is None or _mean_at_most(lost[:, members.index(least)] - whole, worth) > most:
            return PoolMembers(loss, without, tuple(idle), len(whole))
        idle.append(least)
        loss = without[least]


def _mean_at_most(values: np.ndarray, worth: np.ndarray) -> float:
    """The mean of some cases, two standard errors added."""
    mean = float(np.average(values, weights=worth))
    return mean + 2 * float(np.sqrt(((worth * (values - mean)) ** 2).sum()) / worth.sum())
