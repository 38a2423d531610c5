"""The items of a collection in memory: ids, labels, and who votes for which class.

    event ──► columns of the items concerned ──► voters and classes of this version

Applying an event takes time in proportion to its items, but for a copy of the voters and
their class numbers; nothing is read from disk again. Earlier versions stay valid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.collection.store.events import Event
from nearsay.collection.store.items import Items
from nearsay.core.arrays import row_blocks
from nearsay.core.growing_array import GrowingArray

# Of a column.
ROWS_PER_BLOCK = 512
# The one class of a collection that has keywords only, or nothing yet.
NO_LABEL = ""


class LiveColumn:
    """Values of any kind by row number; ``changed`` and ``appended`` give new columns that share unchanged blocks.

    >>> labels = LiveColumn(["oak", None])
    >>> later = labels.changed([1], ["elm"]).appended(["ash"])
    >>> list(labels), list(later), later[2]
    (['oak', None], ['oak', 'elm', 'ash'], 'ash')
    """

    def __init__(self, values: Iterable[Any]) -> None:
        every = list(values)
        self._blocks = [every[part] for part in row_blocks(len(every), size=ROWS_PER_BLOCK)]

    def __len__(self) -> int:
        if not self._blocks:
            return 0
        return ROWS_PER_BLOCK * (len(self._blocks) - 1) + len(self._blocks[-1])

    def __getitem__(self, row: int) -> Any:
        return self._blocks[row // ROWS_PER_BLOCK][row % ROWS_PER_BLOCK]

    def __iter__(self) -> Iterator[Any]:
        for block in self._blocks:
            yield from block

    def changed(self, rows: Iterable[int], values: Iterable[Any]) -> LiveColumn:
        """With other values in these rows."""
        other = self._copied()
        mine: set[int] = set()
        for row, value in zip(rows, values, strict=True):
            number, place = divmod(row, ROWS_PER_BLOCK)
            if number not in mine:
                mine.add(number)
                other._blocks[number] = other._blocks[number].copy()
            other._blocks[number][place] = value
        return other

    def appended(self, values: Iterable[Any]) -> LiveColumn:
        """With more rows."""
        other = self._copied()
        unfinished = len(self) % ROWS_PER_BLOCK
        last = other._blocks.pop() if unfinished else []
        other._blocks += LiveColumn([*last, *values])._blocks
        return other

    def _copied(self) -> LiveColumn:
        other = copy(self)
        other._blocks = self._blocks.copy()
        return other


@dataclass(frozen=True)
class VotingState:
    """Which rows vote, for which class, at one version.

    Attributes
    ----------
    votes : (n_rows,) bool
    labels : (n_rows,) class numbers, places in ``classes``; 0 where a row does not vote.
    classes : (n_classes,) the labels that have a vote, sorted.
    ids : (n_rows,) the ids of all rows.
    has_words : whether rows vote because they have keywords, as no row has a label.
    """

    votes: np.ndarray
    labels: np.ndarray
    classes: np.ndarray
    ids: np.ndarray
    has_words: bool = False

    @property
    def has_labels(self) -> bool:
        """Whether any row has a label that votes."""
        return bool((self.classes != NO_LABEL).any())

    @property
    def is_unlabeled(self) -> bool:
        """Whether there is neither a label nor a keyword: all rows are neighbors then, and none answers."""
        return not self.has_labels and not self.has_words


class LiveItems:
    """The items of a collection, updated event by event.

    Parameters
    ----------
    items : as the store gives them.
    machines_vote : whether unconfirmed labels vote, too.
    """

    def __init__(self, items: Items, *, machines_vote: bool = False) -> None:
        self.version = items.version
        self.machines_vote = machines_vote
        # Never written to: readers may hold them.
        self.columns = {
            "label": LiveColumn(items.labels),
            "keywords": LiveColumn(items.keywords),
            "details": LiveColumn(items.details),
        }
        self._ids, self._alive = GrowingArray(items.ids), GrowingArray(items.alive)
        self.number_of: dict[str, int] = {}  # labels in the order of their first use
        # Private: no reader holds these.
        self._numbers = GrowingArray(self._numbered(items.labels))
        self._confirmed = GrowingArray(items.confirmed.copy())
        self._has_words = GrowingArray(_filled(items.keywords))
        self._voting: VotingState | None = None
        self.row_of = {id: row for row, id in enumerate(items.ids.tolist()) if items.alive[row]}

    def __len__(self) -> int:
        return len(self._ids)

    def __repr__(self) -> str:
        return f"<LiveItems: {len(self):,} items, version {self.version}>"

    @property
    def alive(self) -> np.ndarray:
        """(n_rows,) bool: False for rows that were forgotten."""
        return self._alive.values

    def by_row(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Copies of (n_rows,) places in ``number_of``, or −1 without a label; alive; confirmed."""
        return self._numbers.values.copy(), self.alive.copy(), self._confirmed.values.copy()

    def apply(self, event: Event) -> None:
        """Apply an event."""
        self.version = event.number
        if not event.rows:
            return
        rows = np.array(event.rows)
        if rows[-1] >= len(self):
            before = np.full(len(rows), -1)
            self._append(event)
        else:
            before = self._voted(rows)
            self._change(event, rows)
        self._voting = self._follow(rows, before)
        ids, alive = self._ids.values, self.alive
        for row in event.rows:
            if alive[row]:
                self.row_of[ids[row]] = row
            elif self.row_of.get(ids[row]) == row:
                del self.row_of[ids[row]]

    def _append(self, event: Event) -> None:
        nothing = [None] * len(event.rows)
        for name, column in self.columns.items():
            self.columns[name] = column.appended(event.after.get(name, nothing))
        self._ids = self._ids.appended(_column(event.after["id"], np.dtype(object)))
        for array, name, default in (("_alive", "alive", True), ("_confirmed", "confirmed", False)):
            values = np.array(event.after.get(name, [default] * len(event.rows)), np.bool_)
            setattr(self, array, getattr(self, array).appended(values))
        self._numbers = self._numbers.appended(self._numbered(event.after.get("label", nothing)))
        self._has_words = self._has_words.appended(_filled(event.after.get("keywords", nothing)))

    def _change(self, event: Event, rows: np.ndarray) -> None:
        for name in self.columns.keys() & event.after.keys():
            self.columns[name] = self.columns[name].changed(event.rows, event.after[name])
        if "alive" in event.after:
            alive = self.alive.copy()
            alive[rows] = event.after["alive"]
            self._alive = GrowingArray(alive)
        if "confirmed" in event.after:
            self._confirmed.values[rows] = event.after["confirmed"]
        if "label" in event.after:
            self._numbers.values[rows] = self._numbered(event.after["label"])
        if "keywords" in event.after:
            self._has_words.values[rows] = _filled(event.after["keywords"])

    def _numbered(self, labels: Any) -> np.ndarray:
        return np.array(
            [-1 if label is None else self.number_of.setdefault(label, len(self.number_of)) for label in labels],
            np.int64,
        )

    # ------------------------------------------------------------ votes

    def voting(self) -> VotingState:
        """Which rows vote now, for which class."""
        if self._voting is None:
            self._voting = self._counted()
        return self._voting

    def _voted(self, rows: np.ndarray | slice) -> np.ndarray:
        """The numbers of the labels that these rows vote for; −1 where one does not."""
        counts = self.alive[rows]
        if not self.machines_vote:
            counts = counts & self._confirmed.values[rows]
        return np.where(counts, self._numbers.values[rows], -1)

    def _counted(self) -> VotingState:
        voted = self._voted(slice(None))
        votes = voted >= 0
        if not votes.any():
            of_words = self._of_words()
            # Without labels and keywords all living rows vote, so that each has its neighbors.
            return of_words if of_words.votes.any() else self._of_one_class(self.alive.copy(), has_words=False)
        sizes = np.bincount(voted[votes], minlength=len(self.number_of))
        self._sizes = Counter(dict(enumerate(sizes.tolist())))
        names = np.array(list(self.number_of), dtype=np.str_)
        order = np.argsort(names, kind="stable")
        order = order[sizes[order] > 0]
        self._place = np.zeros(len(names) + 1, np.int64)  # the last is that of −1
        self._place[order] = np.arange(len(order))
        self._votes, self._labels = GrowingArray(votes), GrowingArray(self._place[voted])
        return VotingState(votes, self._labels.values, names[order], self._ids.values)

    def _follow(self, rows: np.ndarray, before: np.ndarray) -> VotingState | None:
        """The votes after these rows have changed; None where all have to be counted again."""
        voting, voted = self._voting, self._voted(rows)
        if voting is None or not voting.has_labels:
            return None
        gone, come = before[before >= 0].tolist(), voted[voted >= 0].tolist()
        had_votes = {number: self._sizes[number] > 0 for number in (*gone, *come)}
        self._sizes.subtract(gone)
        self._sizes.update(come)
        if any((self._sizes[number] > 0) != had for number, had in had_votes.items()):
            return None  # there is another class, or one less
        labels = self._place[voted]
        if rows[-1] >= len(voting.votes):
            self._votes, self._labels = self._votes.appended(voted >= 0), self._labels.appended(labels)
        else:
            if not np.array_equal(voted >= 0, before >= 0):
                self._votes = _with(self._votes, rows, voted >= 0)
            if not np.array_equal(voted, before):
                self._labels = _with(self._labels, rows, labels)
        return VotingState(self._votes.values, self._labels.values, voting.classes, self._ids.values)

    def gives_keywords(self) -> np.ndarray:
        """(n_rows,) bool: the rows whose keywords vote."""
        return self._of_words().votes

    def _of_words(self) -> VotingState:
        """Without labels, the rows with keywords, all of one class, which is no label."""
        counts = self.alive & self._has_words.values
        if not self.machines_vote:
            counts &= self._confirmed.values
        return self._of_one_class(counts, has_words=True)

    def _of_one_class(self, votes: np.ndarray, *, has_words: bool) -> VotingState:
        return VotingState(votes, np.zeros(len(self), np.int64), np.array([NO_LABEL]), self._ids.values, has_words)


def _with(array: GrowingArray, rows: np.ndarray, values: np.ndarray) -> GrowingArray:
    copied = array.values.copy()
    copied[rows] = values
    return GrowingArray(copied)


def _filled(keywords: Any) -> np.ndarray:
    return np.array([bool(words) for words in keywords], np.bool_)


def _column(values: Any, dtype: np.dtype[Any]) -> np.ndarray:
    column = np.empty(len(values), dtype)
    for place, value in enumerate(values):  # one by one: numpy would make an array of lists of one length
        column[place] = value
    return column
