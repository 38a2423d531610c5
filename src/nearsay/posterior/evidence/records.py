"""Records: how many past cases of about the same probability were right.

    past cases, in order of their probability   · · · ·|· · · · p · · · ·|· ·
                                                       └── like p ───────┘

Whatever a probability is about (the answer of a classifier, a node of a tree), it and the truth of past cases are all
that is needed, so one record serves every posterior.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearsay.posterior.priors import Priors
from nearsay.posterior.row_weights import RowWeights, relative_weights

# How far a case may be from p, as an angle: arcsin √p is as uncertain at every p, by 1/(2√n) after n cases. 0.1 is ±0.1
# around 0.5, ±0.06 around 0.9, and from 0.99 up at 1. Cases may crowd on one side (most are sure), so reaches are tried
# from the widest down, until the mean of what is within is p to half of what chance leaves open. On made-up past cases
# of calibrated probabilities (100 to 10,000, from mostly sure to mostly unsure, and in lumps) that comes nearer to the
# truth than any fixed number of nearest cases, which is off by up to three times as much where there are few.
REACHES = (*(0.1 * 0.5 ** (step / 2) for step in range(9)), 0.0)
OF_CHANCE = 0.5
# Of fewer cases, any share of right ones says next to nothing.
FEWEST_TO_SAY = 5
# Standard errors to either side that hold 19 of 20 draws.
NINETEEN_IN_TWENTY = 1.96


class Records:
    """How many past cases had a probability like the one given, and how many of them were right.

    Like p are the cases around it, as far as 0.1 in arcsin √p, or less where
    they crowd on one side: their mean is p as far as chance can tell. Cases of
    equal probability are counted all or none. There may be few, or none, but
    they are like p.

    Build it with :meth:`of`.

    >>> records = Records.of([0.58, 0.6, 0.6, 0.62, 0.9, 0.99], [True, False, True, True, True, True])
    >>> records.like([0.6, 0.91, 0.2])                  # (cases, right ones)
    (array([4, 1, 0]), array([3, 1, 0]))
    """

    def __init__(self, angles: np.ndarray, sums: np.ndarray) -> None:
        self.angles = angles
        self.sums = sums

    @classmethod
    def of(cls, probabilities: np.ndarray, right: np.ndarray, weight: np.ndarray | None = None) -> Records:
        """Records of past cases.

        Parameters
        ----------
        probabilities : (n_cases,) what was said, from 0 to 1.
        right : (n_cases,) bool, whether it was so.
        weight : (n_cases,) positive numbers, or None where each case counts once
            How much a case counts, for cases that are not as frequent as what
            is to come. ``like`` then says how many even cases tell as much,
            and what share of them was right, in whole numbers.
        """
        angles = _angle(probabilities)
        order = np.argsort(angles, kind="stable")
        w = np.ones(len(angles)) if weight is None else np.asarray(weight, dtype=np.float64)[order]
        counted = np.stack([w, w**2, w * np.asarray(right, dtype=np.bool_)[order], angles[order]])
        return cls(angles[order], np.concatenate([np.zeros((4, 1)), counted.cumsum(axis=1)], axis=1))

    def __len__(self) -> int:
        return len(self.angles)

    def like(self, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(cases, right ones) with a probability like each p: whole numbers of the shape of ``p``."""
        start, stop = self._window(_angle(p))
        weight, squares, right = self.sums[:3, stop] - self.sums[:3, start]
        # Even weights are worth as many cases as there are; uneven ones fewer (Kish's effective sample size).
        cases = np.rint(np.divide(weight**2, squares, out=np.zeros_like(weight), where=stop > start))
        share = np.divide(right, weight, out=np.zeros_like(weight), where=stop > start)
        return cases.astype(np.int64), np.rint(cases * share).astype(np.int64)

    def of_all(self) -> tuple[int, int]:
        """(cases, right ones) of all probabilities.

        >>> Records.of([0.58, 0.6, 0.9], [True, False, True]).of_all()
        (3, 2)
        """
        weight, squares, right = self.sums[:3, -1].tolist()
        cases = round(weight**2 / squares) if squares else 0
        return cases, round(cases * right / weight) if weight else 0

    def probabilities(self) -> tuple[np.ndarray, np.ndarray]:
        """What was said of each case, and how much it counts; smallest first.

        >>> Records.of([0.5, 0.25], [True, False]).probabilities()
        (array([0.25, 0.5 ]), array([1., 1.]))
        """
        return np.sin(self.angles) ** 2, np.diff(self.sums[0])

    def _window(self, angle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first case like each angle, and the first beyond the last one."""
        start, stop = np.zeros((2, *angle.shape), np.int64)
        undecided = np.ones(angle.shape, np.bool_)
        for reach in REACHES:
            first = np.searchsorted(self.angles, angle - reach, side="left")
            last = np.searchsorted(self.angles, angle + reach, side="right")
            n = last - first
            off = np.abs(self.sums[3, last] - self.sums[3, first] - n * angle)  # n times that of the mean
            takes = undecided & ((2 * off <= OF_CHANCE * np.sqrt(n)) | (reach == REACHES[-1]))
            start[takes], stop[takes] = first[takes], last[takes]
            undecided &= ~takes
            if not undecided.any():
                break
        return start, stop


def records_of_answers(
    p: np.ndarray, labels: np.ndarray, rows: np.ndarray, priors: Priors | None, weights: RowWeights | None = None
) -> Records:
    """Records of the leave-one-out answers to some rows of a collection with these class numbers.

    The only row of a class is left aside: without it no answer could be
    right. Past cases count as much as their rows do: a
    probability that was learned from weighted cases is true of these. With
    priors, they count as often as these say.
    """
    judged = np.bincount(labels)[labels[rows]] > 1
    p, rows = p[judged], rows[judged]
    truth = labels[rows]
    weight = relative_weights(weights, rows)
    if priors is not None:
        weight = priors.case_weights(truth) * (1.0 if weight is None else weight)
    return Records.of(p.max(axis=1, initial=0.0), p.argmax(axis=1) == truth, weight)


def _angle(p: np.ndarray) -> np.ndarray:
    """Where a probability lies on the scale on which chance blurs all of them alike.

    Rounded, so that a tie that was broken by one rounding step stays a tie.
    """
    angle: np.ndarray = np.arcsin(np.sqrt(np.clip(np.asarray(p, dtype=np.float64), 0.0, 1.0)))
    return angle.round(9)


def likely_range(share: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the true share lies, nineteen times in twenty, if ``share`` of ``count`` were seen (Wilson's interval).

    >>> low, high = likely_range(np.array([1.0]), np.array([10]))
    >>> low.round(2), high.round(2)
    (array([0.72]), array([1.]))
    """
    z2 = NINETEEN_IN_TWENTY**2
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = np.sqrt(share * (1 - share) * z2 / count + (z2 / (2 * count)) ** 2) / (1 + z2 / count)
    return middle - half, middle + half


def record_of(cases: int, right: int) -> dict[str, Any]:
    """The record of some past cases, in plain values, with the range in which the true share lies.

    >>> record_of(8, 8)
    {'cases': 8, 'right': 8, 'low': 0.676, 'high': 1.0}
    """
    low, high = (float(np.round(end, 3)) for end in _range_of(cases, right))
    return {"cases": int(cases), "right": int(right), "low": low, "high": high}


def range_in_words(cases: int, right: int) -> str:
    """Where the true share of right answers lies, in percent.

    >>> range_in_words(8, 8), range_in_words(40, 31)
    ('68 to 100%', '62 to 88%')
    """
    low, high = _range_of(cases, right)
    return f"{100 * low:.0f} to {100 * high:.0f}%"


def _range_of(cases: int, right: int) -> tuple[float, float]:
    """0 to 1 where there was no case."""
    if cases == 0:
        return 0.0, 1.0
    low, high = likely_range(np.array(right / cases), np.array(cases))
    return float(low), min(float(high), 1.0)
