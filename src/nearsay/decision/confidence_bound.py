"""How many answers must be right to show an accuracy, and how much answers that depend on each other show.

A confidence counts independent answers: the tail of the binomial distribution, exactly. Three things make answers
depend on each other, and each has its number:

* rows that both teach and judge (``rows_worth_one``),
* rows of a group that go wrong together (``design_effect``),
* ways to answer that are chosen from, but go wrong about the same rows (``effective_ways``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from scipy.special import betaincinv

# How much more than independent answers those of left-out rows scatter, where a quarter or more is wrong. Measured
# over posteriors, sizes and shapes, with the choice among rules and posteriors (docs/guarantees-measured.md).
LEFT_OUT_EXCESS = 1.0
ALL_OF_IT_FROM = 0.25

# Few wrong answers say little about how groups go wrong: so many more are counted, in groups that are wholly wrong.
WRONG_IN_WHOLE_GROUPS = 0.5


def right_answers_needed(
    n_rows: int, accuracy: float, confidence: float | None = None, *, rows_worth_one: float = 1
) -> int:
    """How many of ``n_rows`` answers must be right to keep an accuracy; n_rows + 1 where even all do not suffice.

    Without ``confidence`` it is their share. With it, the one-sided lower bound of Clopper and Pearson must be above
    the accuracy: were the true accuracy no larger, so many right answers would come up more rarely than 1 − confidence.
    Correlated answers scatter more: ``rows_worth_one`` of them count as one independent answer.

    >>> right_answers_needed(100, 0.55), right_answers_needed(100, 0.55, 0.95), right_answers_needed(6, 5 / 6)
    (55, 64, 5)
    >>> [right_answers_needed(100, 0.9, 0.9, rows_worth_one=worth) for worth in (1, 1.4, 2)]
    [95, 95, 96]
    >>> right_answers_needed(4, 0.5, 0.95)             # 4 of 4 show no more than .05 ** (1/4) = .473
    5
    """
    if accuracy == 0:
        return 0  # always kept
    if confidence is None:
        needed = math.ceil(n_rows * Fraction(repr(float(accuracy))))  # 0.55 as typed: in binary it is a little more
        return needed - ((needed - 1) / n_rows >= accuracy)  # an accuracy that some rows had is kept by as many
    return _fewest(0, n_rows + 1, lambda right: _lower_bound(right, n_rows, confidence, rows_worth_one) > accuracy)


def _fewest(few: int, enough: int, suffices: Callable[[int], bool]) -> int:
    """The fewest that suffice, above ``few`` and up to ``enough``, by bisection."""
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if suffices(middle) else (middle, enough)
    return enough


def _lower_bound(right: int, n_rows: int, confidence: float, rows_worth_one: float) -> float:
    """The accuracy that so many right answers show with this confidence."""
    # Answers of which several are worth one scatter more, but are still counted one by one: half an answer is added
    # as in the bound of Clopper and Pearson, not half of several.
    right_worth = (right - 0.5) / rows_worth_one + 0.5
    wrong_worth = (n_rows - right + 0.5) / rows_worth_one + 0.5
    return float(betaincinv(right_worth, wrong_worth, 1 - confidence))


def rows_needed(accuracy: float, confidence: float, rows_worth_one: float) -> float:
    """The fewest rows that show the accuracy when all answers are right; infinite for an accuracy of 1."""
    if accuracy == 1:
        return math.inf

    def suffice(n_rows: int) -> bool:
        return _lower_bound(n_rows, n_rows, confidence, rows_worth_one) > accuracy

    enough = 1
    while not suffice(enough):
        enough *= 2
    return _fewest(enough // 2, enough, suffice)


def rows_worth_one(accuracy: float, excess: float) -> float:
    """How many answers to left-out rows are worth one independent answer, where this accuracy is promised.

    Rows that vote for each other are right and wrong together, the more often the more is wrong: the share of wrong
    answers scatters around that of new rows with so many times the variance of as many rows held out.

    >>> [round(rows_worth_one(accuracy, excess=1.0), 6) for accuracy in (0.5, 0.75, 0.9, 0.95)]
    [2.0, 2.0, 1.4, 1.2]
    """
    return 1.0 + (excess if excess > 0 else 0.0) * min(1.0, (1.0 - accuracy) / ALL_OF_IT_FROM)


def design_effect(wrong: np.ndarray, groups: np.ndarray, n_rows: int | None = None) -> float:
    """How many answers are worth one independent answer, where rows of a group go wrong together; at least 1.

    The variance of the share of wrong answers, computed from the sums of groups, as a multiple of that of as many
    independent answers (Kish's design effect).

    wrong : (n_cases,) bool
    groups : (n_cases,) numbers of groups, from 0.
    n_rows : int, default: the number of cases, of how many rows these are a sample. A sample of 1 in 10 has 1 in 100 of
        the pairs within a group.

    >>> pairs = np.repeat(np.arange(50), 2)
    >>> round(design_effect(np.isin(pairs, np.arange(20)), pairs), 6)     # both wrong, or both right
    2.0
    >>> round(design_effect(np.arange(100) % 2 == 0, pairs), 2)           # one of each pair: as if they were alone
    1.0
    """
    sizes = np.bincount(groups)
    largest = float((sizes**2).sum() / len(wrong))
    off = wrong - wrong.mean()
    together = float((np.bincount(groups, weights=off) ** 2).sum())
    total = float((off**2).sum())
    effect = (together + WRONG_IN_WHOLE_GROUPS * largest) / (total + WRONG_IN_WHOLE_GROUPS)
    sampled = 1.0 if n_rows is None else n_rows / len(wrong)
    return max(1.0, 1.0 + sampled * (effect - 1.0))


def effective_ways(wrong: np.ndarray) -> float:
    """As how many independent ways to answer these count: from 1, where all are wrong about the same rows.

    1 + (m − 1) · (1 − the mean squared correlation of two of the m ways), the effective number of tests of Nyholt
    (2004). A way that is never wrong counts as independent of the others.

    wrong : (n_ways, n_cases) bool

    >>> effective_ways(np.array([[True, False, False, True]] * 3))
    1.0
    >>> effective_ways(np.array([[True, True, False, False], [True, False, True, False]]))
    2.0
    """
    off = wrong - wrong.mean(axis=1, keepdims=True)
    lengths = np.sqrt((off**2).sum(axis=1))
    off /= np.where(lengths > 0, lengths, 1.0)[:, None]
    squared = (off @ off.T) ** 2
    n_ways = len(wrong)
    pairs = n_ways * (n_ways - 1)
    if not pairs:
        return 1.0
    mean = float(squared.sum() - np.trace(squared)) / pairs
    return float(1 + (n_ways - 1) * (1 - min(mean, 1.0)))
