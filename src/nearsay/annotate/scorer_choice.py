"""Forward selection of scorers: the best one, then those that clearly lower the log loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from nearsay.annotate.calibration import KeywordCalibration
from nearsay.core.arrays import evenly
from nearsay.core.tables import ShownAsTable, Table

# Pairs of row and word by which scorers are compared: with 260 words 1,000 rows.
MOST_PAIRS_JUDGED = 2**18

Scores = Sequence[np.ndarray]


@dataclass(frozen=True)
class ScorerChoice:
    """A scorer that was tried.

    alone : the log loss of past cases, in nats per item over all words, by this scorer alone.
    without : the log loss if this one were left out of those that are used; None for one that is not used.
    """

    scorer: str
    alone: float
    without: float | None = None

    @property
    def used(self) -> bool:
        return self.without is not None


class ScorerChoices(ShownAsTable, Sequence[ScorerChoice]):
    """All scorers that were tried: those in use first, by importance. Prints as a table.

    >>> used = [ScorerChoice("nearest", 1.9, 1.5), ScorerChoice("regression", 1.6, 1.7)]
    >>> print(ScorerChoices([*used, ScorerChoice("projection", 2.0)], together=1.4, n_cases=120))
    log loss of 120 past cases, per item: 1.4000
      scorer       alone  without it
    * regression  1.6000      1.7000
    * nearest     1.9000      1.5000
      projection  2.0000           -
    """

    def __init__(self, tried: Sequence[ScorerChoice], together: float, n_cases: int) -> None:
        self._tried = sorted(tried, key=lambda one: (not one.used, -(one.without or 0.0), one.alone))
        self.together = together
        self.n_cases = n_cases

    def __len__(self) -> int:
        return len(self._tried)

    def __getitem__(self, number: Any) -> Any:
        return self._tried[number]

    @property
    def used(self) -> list[str]:
        """The names of the scorers that are used."""
        return [one.scorer for one in self if one.used]

    @property
    def why(self) -> str:
        """The criterion, in a line."""
        return f"log loss of {self.n_cases} past cases, per item: {self.together:.4f}"

    def rows(self) -> list[dict[str, Any]]:
        """Plain values, for JSON and for tables."""
        return [{"scorer": one.scorer, "alone": one.alone, "without": one.without, "used": one.used} for one in self]

    def _table(self) -> Table:
        return self.why, ("scorer", "alone", "without it"), [*map(_cells, self)], [one.used for one in self]


def _cells(one: ScorerChoice) -> tuple[str, ...]:
    return one.scorer, f"{one.alone:.4f}", "-" if one.without is None else f"{one.without:.4f}"


def choose_scorers(scores: Mapping[str, Scores], keywords: csr_array, share: np.ndarray) -> ScorerChoices:
    """Choose scorers by their scores of held-out rows.

    Forward selection: start with the scorer of least log loss, and add the one that lowers it most, as long as it does
    so by more than a standard error, and by more than one nat over all rows for each of its weights (overfitting).

    scores : {name: [(n_rows, n_words), …]}
    keywords : (n_rows, n_words) zeros and ones
    share : (n_words,) of all rows, those that have the word.
    """
    cases = evenly(keywords.shape[0], max(2, MOST_PAIRS_JUDGED // keywords.shape[1]))
    known = csr_array(keywords[cases])
    shown = {name: [one[cases] for one in each] for name, each in scores.items()}

    def losses(names: Sequence[str]) -> np.ndarray:
        combined = [one for name in names for one in shown[name]]
        if not combined:  # the frequency of a word is information by itself
            combined = [np.zeros(known.shape)]
        return KeywordCalibration.shared(combined, known, share).losses(combined, known)

    alone = {name: losses([name]) for name in scores}
    used = [min(alone, key=lambda name: float(alone[name].mean()))]
    loss = alone[used[0]]
    while len(used) < len(scores):
        tried = {name: losses([*used, name]) for name in scores if name not in used}
        best = min(tried, key=lambda name: float(tried[name].mean()))
        gain = loss - tried[best]
        by_chance = 2 * len(shown[best])
        if not gain.sum() > by_chance + np.sqrt(len(gain)) * gain.std():
            break
        used.append(best)
        loss = tried[best]
    without = {name: float(losses([one for one in used if one != name]).mean()) for name in used}
    tried_all = [ScorerChoice(name, float(alone[name].mean()), without.get(name)) for name in scores]
    return ScorerChoices(tried_all, float(loss.mean()), len(cases))
