"""What is known of the items of a collection, in memory: who votes, for which class, under which id.

    event ──► columns of the items concerned ──► voters and classes of this version

Applying an event takes as long as it has items; nothing is read from disk again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.collection.events import Event
from nearsay.collection.items import Items

# The one class of a collection that has keywords only.
NO_LABEL = ""


@dataclass(frozen=True)
class Standing:
    """Who votes, and for what, at one version.

    Attributes
    ----------
    votes : (n_rows,) bool
    labels : (n_rows,) class numbers, places in ``classes``; 0 where a row does not vote.
    classes : (n_classes,) the labels that have a vote, sorted.
    ids : (n_rows,) the ids of all rows.
    """

    votes: np.ndarray
    labels: np.ndarray
    classes: np.ndarray
    ids: np.ndarray


class LiveItems:
    """The items of a collection, changed by one event after another.

    Parameters
    ----------
    items : as the store gives them.
    machines_vote : bool
        Whether labels that nobody confirmed count too.
    """

    def __init__(self, items: Items, *, machines_vote: bool = False) -> None:
        self.version = items.version
        self.machines_vote = machines_vote
        self.columns: dict[str, np.ndarray] = {
            "id": items.ids,
            "label": items.labels,
            "keywords": items.keywords,
            "details": items.details,
            "confirmed": items.confirmed,
            "by": items.by,
            "alive": items.alive,
        }
        self.number_of: dict[str, int] = {}  # labels in the order they were met
        self._numbers = self._numbered(items.labels)
        self.row_of = {id: row for row, id in enumerate(items.ids.tolist()) if items.alive[row]}

    def __len__(self) -> int:
        return len(self._numbers)

    def apply(self, event: Event) -> None:
        """What an event changed."""
        self.version = event.number
        if not event.rows:
            return
        if event.rows[-1] >= len(self):
            self._append(event)
        else:
            rows = np.array(event.rows)
            for name, values in event.after.items():
                column = self.columns[name] = self.columns[name].copy()  # readers keep theirs
                column[rows] = _column(values, column.dtype)
            if "label" in event.after:
                self._numbers = self._numbers.copy()
                self._numbers[rows] = self._numbered(event.after["label"])
        for row in event.rows:
            id = self.columns["id"][row]
            if self.columns["alive"][row]:
                self.row_of[id] = row
            elif self.row_of.get(id) == row:
                del self.row_of[id]

    def _append(self, event: Event) -> None:
        for name, column in self.columns.items():
            values = event.after.get(name, [True] * len(event.rows) if name == "alive" else [None] * len(event.rows))
            self.columns[name] = np.concatenate([column, _column(values, column.dtype)])
        self._numbers = np.concatenate([self._numbers, self._numbered(self.columns["label"][event.rows[0] :])])

    def _numbered(self, labels: Any) -> np.ndarray:
        return np.array(
            [-1 if label is None else self.number_of.setdefault(label, len(self.number_of)) for label in labels],
            np.int64,
        )

    def standing(self) -> Standing:
        """Who votes now, and for what."""
        counts = self.columns["alive"] & (self._numbers >= 0)
        if not self.machines_vote:
            counts &= self.columns["confirmed"]
        if not counts.any():
            return self._of_words()
        has_vote = np.bincount(self._numbers[counts], minlength=len(self.number_of)) > 0
        names = np.array(list(self.number_of), dtype=np.str_)
        order = np.argsort(names, kind="stable")
        order = order[has_vote[order]]
        place = np.zeros(len(names) + 1, np.int64)
        place[order] = np.arange(len(order))
        labels = np.where(counts, place[self._numbers], 0)
        return Standing(counts, labels, names[order], self.columns["id"])

    def gives_keywords(self) -> np.ndarray:
        """(n_rows,) bool: the rows that pass their keywords on."""
        return self._of_words().votes

    def _of_words(self) -> Standing:
        """Where no label counts, those that have keywords give them; they are all of one class, which is no label."""
        counts = self.columns["alive"] & np.array([bool(words) for words in self.columns["keywords"]], np.bool_)
        if not self.machines_vote:
            counts &= self.columns["confirmed"]
        return Standing(counts, np.zeros(len(self), np.int64), np.array([NO_LABEL]), self.columns["id"])


def _column(values: Any, dtype: np.dtype[Any]) -> np.ndarray:
    column = np.empty(len(values), dtype)
    for place, value in enumerate(values):  # one by one: numpy would make an array of lists of one length
        column[place] = value
    return column
