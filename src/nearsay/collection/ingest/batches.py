"""Batches of rows that a collection can hold, and a problem for each row that it cannot.

::

    file or folder ──► reader ──► RawRows ──► Checks ──► Batch
                                  (unchecked)    └─────► Problem: row, id, reason
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from nearsay.collection.store.validate_items import LARGEST, name_fault, shown_name
from nearsay.errors import InputError, closest
from nearsay.taxonomy.taxonomy import Taxonomy

# With more names, searching for a similar one takes too long.
MOST_NAMES_COMPARED = 1000
# What a batch holds for each row but its vector.
LISTS = ("rows", "ids", "labels", "keywords", "details")


@dataclass(frozen=True)
class Problem:
    """A row that was left out, and why.

    Attributes
    ----------
    row : its number in the source, from 0; rows that were left out count.
    id : str or None
    reason : str
    line : its line in a table of text, from 1.
    source : the file or folder.

    >>> print(Problem(3, "a7", "the label 'okk' is not in the taxonomy", line=5, source="leaves.csv"))
    leaves.csv, line 5 ('a7'): the label 'okk' is not in the taxonomy
    """

    row: int
    id: str | None
    reason: str
    line: int | None = None
    source: str = ""

    def __str__(self) -> str:
        place = f"row {self.row}" if self.line is None else f"line {self.line}"
        source = f"{self.source}, " if self.source else ""
        return f"{source}{place}{f' ({self.id!r})' if self.id else ''}: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """Everything as values that ``json.dumps`` takes."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows that can be added to a collection.

    Attributes
    ----------
    rows : their numbers in the source.
    ids : each once in the whole source.
    X : (n_rows, n_columns) float32, none beyond ``validate_items.LARGEST``
    labels : None for a row without a label.
    keywords : None for a row of which no keywords are known.
    details : what else the source says: ``path`` of a picture, columns of text.
    """

    rows: list[int]
    ids: list[str]
    X: np.ndarray
    labels: list[str | None]
    keywords: list[list[str] | None]
    details: list[dict[str, str]]

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, places: list[int]) -> Batch:
        """Some of the rows."""
        lists: dict[str, Any] = {name: [getattr(self, name)[place] for place in places] for name in LISTS}
        return Batch(X=self.X[places], **lists)

    @classmethod
    def joined(cls, batches: Sequence[Batch]) -> Batch:
        """The rows of all batches; none at all have no columns."""
        lists: dict[str, Any] = {name: [value for each in batches for value in getattr(each, name)] for name in LISTS}
        X = np.concatenate([batch.X for batch in batches]) if batches else np.empty((0, 0), np.float32)
        return cls(X=X, **lists)


@dataclass(eq=False)
class RawRows:
    """Rows as a reader delivers them: nothing is checked, and some may be refused already.

    Attributes
    ----------
    X : (n_rows, n_columns) undefined in refused rows. What is not described yet has no columns.
    labels, keywords, details : one for each row; by default none has any.
    refused : {place in this block: reason}
    lines : list of int or None
    """

    rows: list[int]
    ids: list[str]
    X: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    labels: list[str | None] = field(default_factory=list)
    keywords: list[list[str] | None] = field(default_factory=list)
    details: list[dict[str, str]] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)
    lines: list[int] | None = None

    def __post_init__(self) -> None:
        n = len(self.ids)
        self.X = self.X if len(self.X) == n else np.zeros((n, 0))
        self.labels, self.keywords = self.labels or [None] * n, self.keywords or [None] * n
        self.details = self.details or [{} for _ in self.ids]

    def take(self, block: slice) -> RawRows:
        """Some of the rows, side by side."""
        cut: dict[str, Any] = {name: getattr(self, name)[block] for name in (*LISTS, "X")}
        places = range(len(self.ids))[block]
        refused = {place - places.start: self.refused[place] for place in places if place in self.refused}
        return RawRows(**cut, refused=refused, lines=None if self.lines is None else self.lines[block])


class Reader:
    """Base of the readers, one for each kind of source.

    Attributes
    ----------
    kind : what the rows are: "numbers", "pictures" or "texts".
    chosen : sentences that say how it is read, and why.
    n_rows : how many rows there are; of a table of text the lines, which may be a few more.
    columns : names of the columns of ``X``, to say which one holds what cannot be used.
    feature_groups : columns that belong together.
    taxonomy : that of folders within folders.
    text_column, group_by : the columns of texts and of groups, as details call them.
    """

    kind = "numbers"
    chosen: list[str]
    n_rows: int
    columns: Sequence[str] = ()
    feature_groups: Mapping[str, slice] = {}
    taxonomy: Taxonomy | None = None
    text_column: str | None = None
    group_by: str | None = None

    def __iter__(self) -> Iterator[RawRows]:
        raise NotImplementedError


class Checks:
    """Separates the rows that a collection can hold from those that it cannot."""

    def __init__(
        self,
        source: str,
        columns: Sequence[str],
        *,
        known_labels: Collection[str] | None,
        taxonomy: Taxonomy | None,
        strict: bool,
    ) -> None:
        self.problems: list[Problem] = []
        self._source, self._columns, self._strict = source, columns, strict
        self._known_labels = None if known_labels is None else frozenset(known_labels)
        self._nodes = None if taxonomy is None else frozenset(map(str, taxonomy.nodes))
        self._verdicts: dict[str, str | None] = {}
        # Where each id occurred first.
        self._first: dict[str, int] = {}

    def passed(self, raw: RawRows) -> Batch | None:
        """The rows that can be added; None where that is none of them."""
        with np.errstate(over="ignore", invalid="ignore"):  # what is too large becomes infinite, and is refused
            X = np.ascontiguousarray(raw.X, dtype=np.float32)
        holdable: list[bool] = (np.abs(X) <= LARGEST).all(axis=1).tolist()  # type: ignore[assignment]
        if self._all_good(raw, holdable):
            self._first.update(zip(raw.ids, raw.rows if raw.lines is None else raw.lines, strict=True))
            return Batch(raw.rows, raw.ids, X, raw.labels, raw.keywords, raw.details)
        kept: list[int] = []
        for place, id in enumerate(raw.ids):
            reason = raw.refused.get(place) or self._fault(raw, place, id, holdable[place])
            if reason is None:
                self._first[id] = (raw.rows if raw.lines is None else raw.lines)[place]
                kept.append(place)
            else:
                self.report(_problem(raw, place, reason, self._source))
        if not kept:
            return None
        return Batch(raw.rows, raw.ids, X, raw.labels, raw.keywords, raw.details).take(kept)

    def report(self, problem: Problem) -> None:
        """Record the problem; if strict, raise it as an error."""
        if self._strict:
            raise InputError(f"{problem}. Nothing was left out, because strict=True; correct it, or drop strict.")
        self.problems.append(problem)

    def _all_good(self, raw: RawRows, holdable: list[bool]) -> bool:
        """Whether nothing is wrong with any of the rows: ten times as fast as a check of each."""
        distinct = set(raw.ids)
        return (
            not raw.refused
            and all(holdable)
            and "" not in distinct
            and all(name_fault(name) is None for name in _names(raw))
            and len(distinct) == len(raw.ids)
            and self._first.keys().isdisjoint(distinct)
            and all(label is None or self._label_fault(label) is None for label in set(raw.labels))
            and all(map(_is_unicode, map("".join, _details(raw))))
        )

    def _fault(self, raw: RawRows, place: int, id: str, holdable: bool) -> str | None:
        if not id:
            return "the id is empty"
        if (fault := name_fault(id)) is not None:
            return f"the id {fault}"
        if id in self._first:
            return f"the id {id!r} was used before, in {'row' if raw.lines is None else 'line'} {self._first[id]}"
        if not holdable:
            return self._out_of_range(raw.X[place])
        label, keywords = raw.labels[place], raw.keywords[place] or []
        for word in keywords:
            if (fault := name_fault(word)) is not None:
                return f"the keyword {shown_name(word)!r} {fault}"
        if not all(map(_is_unicode, raw.details[place].values())):
            return "it holds bytes that are not UTF-8 text"
        return None if label is None else self._label_fault(label)

    def _out_of_range(self, row: np.ndarray) -> str:
        with np.errstate(over="ignore", invalid="ignore"):
            column = int(np.flatnonzero(~(np.abs(row.astype(np.float32)) <= LARGEST))[0])
        name = repr(self._columns[column]) if column < len(self._columns) else str(column)
        if np.isnan(row[column]):
            return f"there is no number in column {name}"
        return f"column {name} holds {row[column]:g}; a collection takes numbers up to {LARGEST:g}"

    def _label_fault(self, label: str) -> str | None:
        if label not in self._verdicts:
            self._verdicts[label] = self._judge(label)
        return self._verdicts[label]

    def _judge(self, label: str) -> str | None:
        if not label.strip():
            return "the label is blank"
        if (fault := name_fault(label)) is not None:
            return f"the label {shown_name(label)!r} {fault}"
        if self._known_labels is not None and label not in self._known_labels:
            return f"the label {label!r} is unknown{_alike(label, self._known_labels)}"
        if self._nodes is not None and label not in self._nodes:
            return f"the label {label!r} is not in the taxonomy{_alike(label, self._nodes)}"
        return None


def _problem(raw: RawRows, place: int, reason: str, source: str) -> Problem:
    line = None if raw.lines is None else raw.lines[place]
    id = shown_name(raw.ids[place].encode("utf-8", "replace").decode())
    return Problem(raw.rows[place], id or None, reason, line, source)


def _names(raw: RawRows) -> Iterator[str]:
    yield from raw.ids
    yield from (word for words in raw.keywords if words for word in words)


def _details(raw: RawRows) -> Iterator[Iterable[str]]:
    yield from (details.values() for details in raw.details if details)


def _alike(label: str, known: frozenset[str]) -> str:
    return closest(label, sorted(known)) if len(known) <= MOST_NAMES_COMPARED else ""


def _is_unicode(text: str) -> bool:
    """Whether UTF-8 can write it; bytes that are not text are read as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
