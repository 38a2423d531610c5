"""The keyword answers of a collection at one version."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearsay.collection.answers import Keyword
from nearsay.collection.state.keywords.learned_keywords import LearnedKeywords
from nearsay.collection.state.live_views import LiveView, Voters


class KeywordState:
    """Answers with keywords at one version.

    Parameters
    ----------
    learned : LearnedKeywords
    gives : (n_rows,) bool
        The rows that pass their keywords on.
    keywords : the keywords of every row.
    all_rows : function that gives all rows.
    before : KeywordState of an earlier version, optional
        What did not change is reused.
    groups : (n_rows,) int, or None
        Rows of one group are never asked about each other.
    """

    def __init__(
        self,
        learned: LearnedKeywords,
        gives: np.ndarray,
        keywords: Any,
        all_rows: Any,
        before: KeywordState | None,
        groups: np.ndarray | None,
    ) -> None:
        self._learned, self._keywords, self._all_rows = learned, keywords, all_rows
        fold = np.full(len(gives), -1, np.int8)
        known = min(len(gives), len(learned.fold))
        fold[:known] = learned.fold[:known]
        voters = Voters(gives, np.zeros(len(gives), np.int64), 1, fold, groups)
        if before is None:
            self.view = LiveView(learned.transform, all_rows(), voters)
        else:
            self.view = before.view.changed(all_rows()[len(before.view.voters.votes) :], voters)

    def of_queries(self, X: np.ndarray) -> list[list[Keyword]]:
        """The keywords of new items, the most probable first."""
        return self._learned.ranked(self.view.query(X, self._k(), None), self._keywords)

    def of_rows(self, rows: np.ndarray) -> list[list[Keyword]]:
        """The same for rows that vote for keywords, each answered by the others."""
        table = self.view.leave_one_out(self._k(), None, rows, self._all_rows)
        return self._learned.ranked(table, self._keywords)

    def _k(self) -> int:
        return max(1, min(self._learned.n_neighbors, int(np.count_nonzero(self.view.voters.votes))))
