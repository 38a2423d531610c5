"""The event log of a collection: every change, with time, author, and the values before and after.

    rows        [7, 9]                              the items concerned
    before      {"label": ["oak", None]}            their columns as they were …
    after       {"label": ["elm", "elm"]}           … and as they became

So a version can be reached forward by replaying, or backward by undoing. The digest of an event covers all before it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nearsay.collection.store.database import Database, database_errors
from nearsay.collection.store.event_summary import event_in_words, label_changes
from nearsay.collection.store.stored_values import check_event, check_rows, from_json

COLUMNS = "number, kind, at, by, who, undoes, rows, before, after, vectors, digest"
PAGE, PAGE_SIZE = 200, 1 << 22


@dataclass(frozen=True)
class Event:
    """One acknowledged change.

    Attributes
    ----------
    number : int
        1 for the first; the version of the collection right after it.
    kind : str
        ``add``, ``relabel``, ``keywords``, ``confirm``, ``forget``, ``undo``, ``settings``, ``taxonomy`` or ``keep``.
    when : time in UTC, ISO 8601.
    by, who : the kind of author (``person``, ``machine``, ``import``), and their name.
    rows : row numbers of the items concerned; empty where the event is about the whole collection.
    before, after : dict
        Columns of these items, a list in the order of ``rows`` each; for settings, taxonomy and learned state
        the value itself, under that name. Before an ``add`` the items were not alive.
    undoes : the event that an ``undo`` undid.
    vectors : SHA-256 of the vectors an ``add`` brought.
    undone_by : the undo that undid this event, in ``LiveCollection.history``.

    >>> print(Event(12, "relabel", "2026-03-04T05:06:07.8+00:00", "person", "ada", [3, 4],
    ...             {"label": ["owl", "owl"]}, {"label": ["chick", "chick"]}, undone_by=14))
    12  2026-03-04 05:06:07  ada  relabel 2 items 'owl' → 'chick' (undone by 14)
    """

    number: int
    kind: str
    when: str
    by: str
    who: str
    rows: list[int]
    before: dict[str, Any]
    after: dict[str, Any]
    undoes: int | None = None
    vectors: str | None = None
    undone_by: int | None = None

    @property
    def changes_items(self) -> bool:
        """Whether the event is about items, not about the collection as a whole."""
        return bool(self.rows)

    @property
    def text(self) -> str:
        """A short description."""
        return event_in_words(self.kind, len(self.rows), self.before, self.after, self.undoes)

    def __str__(self) -> str:
        when = self.when[:19].replace("T", " ")
        undone = "" if self.undone_by is None else f" (undone by {self.undone_by})"
        return f"{self.number}  {when}  {self.who or self.by}  {self.text}{undone}"

    def to_dict(self) -> dict[str, Any]:
        """A summary as values that ``json.dumps`` takes; ``before`` and ``after``, which may be long, are left out."""
        changes = label_changes(len(self.rows), self.before, self.after) if self.changes_items else []
        return {
            **{name: getattr(self, name) for name in ("number", "kind", "when", "by", "who", "undoes", "undone_by")},
            "n_items": len(self.rows),
            "labels": [{"before": old, "after": new, "n_items": n} for old, new, n in changes],
            "text": self.text,
        }


def append_event(database: Database, event: Event) -> None:
    """Append an event, within the transaction that the caller holds."""
    stored = _stored(event)
    digest = _digest(last_digest(database), stored)
    marks = ", ".join("?" * (len(stored) + 1))
    database.execute(f"INSERT INTO events ({COLUMNS}) VALUES ({marks})", (*stored, digest))


def read_event(database: Database, number: int) -> Event | None:
    """One event, or None where there is none of that number."""
    if not 0 < number < 2**63:  # SQLite's integers end there
        return None
    stored = database.all(f"SELECT {COLUMNS} FROM events WHERE number = ?", (number,))
    return _event(stored[0]) if stored else None


def read_events(database: Database, after: int = 0, *, newest_first: bool = False) -> Iterator[Event]:
    """All events after a number, a page at a time, so that reading a long log does not block others."""
    way, beyond = ("DESC", "<") if newest_first else ("ASC", ">")
    last = 2**63 - 1 if newest_first else after
    while page := _page(database, f"number > ? AND number {beyond} ? ORDER BY number {way}", (after, last)):
        yield from map(_event, page)
        last = page[-1][0]


def _page(database: Database, which: str, values: tuple[int, ...]) -> list[tuple[Any, ...]]:
    """The next events as they are stored: a few hundred small ones, or one that brought thousands of items."""
    page: list[tuple[Any, ...]] = []
    size = 0
    with database.turn, database_errors(database.file):
        cursor = database.execute(f"SELECT {COLUMNS} FROM events WHERE {which} LIMIT {PAGE}", values)
        for stored in cursor:
            page.append(stored)
            size += sum(len(field) for field in stored if isinstance(field, str))
            if size > PAGE_SIZE:
                break
        cursor.close()
    return page


def rows_of_events(database: Database, which: str, *values: int) -> list[int]:
    """Numbers of the rows that some events are about, event by event; ``which`` is a condition of SQL."""
    events = database.all(f"SELECT number, rows FROM events WHERE {which} ORDER BY number", values)
    return [row for number, rows in events for row in check_rows(f"event {number}", from_json(rows, f"event {number}"))]


def undone_events(database: Database) -> dict[int, int]:
    """The events that are undone at present, and by which undo.

    An undo that was undone itself does not count, so the newest are taken first.
    """
    undone: dict[int, int] = {}
    undos = "SELECT number, undoes FROM events WHERE undoes IS NOT NULL ORDER BY number DESC"
    for number, undoes in database.all(undos):
        if number not in undone:
            undone[undoes] = number
    return undone


def rows_confirmed_again(database: Database, machines_vote: bool) -> set[int]:
    """Rows whose label a person confirmed although it counted already, and that kept this label since.

    An unconfirmed label counts where ``machines_vote``.
    """
    undone = undone_events(database)
    chosen = f"SELECT {COLUMNS} FROM events WHERE kind IN ('confirm', 'relabel') ORDER BY number"
    right: set[int] = set()
    for event in map(_event, database.all(chosen)):
        if event.number in undone:
            continue
        if event.kind == "relabel":
            same = zip(event.before["label"], event.after["label"], strict=True)
            right -= {row for row, (old, new) in zip(event.rows, same, strict=True) if old != new}
        elif event.by == "person":
            right |= {
                row for row, was in zip(event.rows, event.before["confirmed"], strict=True) if was or machines_vote
            }
    return right


def digest_faults(database: Database) -> list[str]:
    """Faults of the log: missing numbers, or events that do not match their digests."""
    faults, last, digest = [], 0, ""
    while page := _page(database, "number > ? ORDER BY number", (last,)):
        for *stored, expected in page:
            if stored[0] != last + 1:
                faults.append(f"Events {last + 1} to {stored[0] - 1} are missing from the log.")
            digest = _digest(digest, stored)
            if digest != expected:
                faults.append(f"Event {stored[0]} was changed: its digest does not match.")
                digest = expected
            last = stored[0]
    return faults


def last_digest(database: Database) -> str:
    """The digest of the last event, which identifies the whole history."""
    return database.one("SELECT digest FROM events ORDER BY number DESC LIMIT 1") or ""


def _stored(event: Event) -> list[Any]:
    columns = [_shortened(side, len(event.rows)) for side in (event.before, event.after)]
    head = (event.number, event.kind, event.when, event.by, event.who, event.undoes)
    return [*head, _json(event.rows), *map(_json, columns), event.vectors]


def _event(stored: tuple[Any, ...]) -> Event:
    number, kind, when, by, who, undoes, rows, before, after, vectors, _ = stored
    numbers, was, became = (from_json(text, f"event {number}") for text in (rows, before, after))
    check_event(number, (kind, when, by, who), undoes, numbers, {"before": was, "after": became})
    was, became = (_lengthened(side, len(numbers)) for side in (was, became))
    return Event(number, kind, when, by, who, numbers, was, became, undoes, vectors)


def _shortened(columns: dict[str, Any], n: int) -> dict[str, Any]:
    """Columns with one value for all rows store it once."""
    if n < 2:
        return columns
    return {name: values[:1] if is_one_value(values) else values for name, values in columns.items()}


def is_one_value(values: list[Any]) -> bool:
    """Whether all are one object: 1 and True are equal, but not the same."""
    return values[0] is values[-1] and len(set(map(id, values))) == 1


def _lengthened(columns: dict[str, Any], n: int) -> dict[str, Any]:
    if n < 2:
        return columns
    return {name: values * n if len(values) == 1 else values for name, values in columns.items()}


def _digest(before: str, stored: list[Any]) -> str:
    """Digest of the previous digest and all fields; long texts by their own digests, which is faster than joining."""
    short = [hashlib.sha256(field.encode()).hexdigest() if isinstance(field, str) else field for field in stored]
    return hashlib.sha256(_json([before, *short]).encode()).hexdigest()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
