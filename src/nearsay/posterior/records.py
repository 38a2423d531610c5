"""What became of past cases that were about as sure: the count beside a probability that says how far to trust it.

    past cases, in order of their probability   · · · ·|· · · · p · · · ·|· ·
                                                       └── like p ───────┘

Whatever a probability is about (the answer of a classifier, a node of a tree), it and the truth of past cases are all
that is needed, so one record serves every posterior.
"""

from __future__ import annotations

import numpy as np

from nearsay.posterior.priors import Priors

# How unlike a case may be, as an angle: arcsin √p is as uncertain at every p, by 1/(2√n) after n cases. 0.1 is ±0.1
# around 0.5, ±0.06 around 0.9, and from 0.99 up at 1. And of so many that are like p, only the nearest on either side.
# Made-up past cases of calibrated probabilities (100 to 10,000, from mostly sure to mostly unsure) come nearest to the
# truth with 0.1 to 0.15, and 200 to 500; without a bound, 100 cases are off by three times as much.
REACH = 0.1
CASES_EITHER_SIDE = 500


class Records:
    """How many past cases had a probability like the one given, and how many of them were right.

    Like p are the cases of the same probability, and of those next to it on
    either side the nearest 500, as far as they are no farther from p than
    chance could tell apart (0.1 in arcsin √p). Cases of equal probability are
    counted all or none. So there may be few, or none, but they are like p.

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
        counted = np.stack([w, w**2, w * np.asarray(right, dtype=np.bool_)[order]])
        return cls(angles[order], np.concatenate([np.zeros((3, 1)), counted.cumsum(axis=1)], axis=1))

    def __len__(self) -> int:
        return len(self.angles)

    def like(self, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(cases, right ones) with a probability like each p: whole numbers of the shape of ``p``."""
        start, stop = self._window(_angle(p))
        weight, squares, right = self.sums[:, stop] - self.sums[:, start]
        # Even weights are worth as many cases as there are; uneven ones fewer (Kish's effective sample size).
        cases = np.rint(np.divide(weight**2, squares, out=np.zeros_like(weight), where=stop > start))
        share = np.divide(right, weight, out=np.zeros_like(weight), where=stop > start)
        return cases.astype(np.int64), np.rint(cases * share).astype(np.int64)

    def _window(self, angle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first case like each angle, and the first beyond the last one."""
        first, last = self._equal_to(angle)
        start = np.maximum(first - CASES_EITHER_SIDE, np.searchsorted(self.angles, angle - REACH, side="left"))
        stop = np.minimum(last + CASES_EITHER_SIDE, np.searchsorted(self.angles, angle + REACH, side="right"))
        if len(self):  # those equal to the farthest one are in
            some = stop > start
            start = np.where(some, self._equal_to(self.angles[np.minimum(start, len(self) - 1)])[0], start)
            stop = np.where(some, self._equal_to(self.angles[stop - 1])[1], stop)
        return start, stop

    def _equal_to(self, angle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first, last = (np.searchsorted(self.angles, angle, side) for side in ("left", "right"))
        return first, last


def records_of_answers(p: np.ndarray, truth: np.ndarray, class_sizes: np.ndarray, priors: Priors | None) -> Records:
    """Records of the leave-one-out answers to some rows, from their probabilities and true class numbers.

    The only row of its class is left aside: without it nobody could have
    given the right answer. With priors, past cases count as often as these say.
    """
    tells = class_sizes[truth] > 1
    p, truth = p[tells], truth[tells]
    weight = None if priors is None else priors.case_weights(truth)
    return Records.of(p.max(axis=1, initial=0.0), p.argmax(axis=1) == truth, weight)


def _angle(p: np.ndarray) -> np.ndarray:
    """Where a probability lies on the scale on which chance blurs all of them alike.

    Rounded, so that a tie that was broken by one rounding step stays a tie.
    """
    angle: np.ndarray = np.arcsin(np.sqrt(np.clip(np.asarray(p, dtype=np.float64), 0.0, 1.0)))
    return angle.round(9)
