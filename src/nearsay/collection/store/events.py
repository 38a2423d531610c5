"""The log of a collection: what changed, when, by whom, and what stood there before.

    rows        [7, 9]                              the items concerned
    before      {"label": ["oak", None]}            their columns as they were …
    after       {"label": ["elm", "elm"]}           … and as they became

Every event says both, so a version of the collection can be reached from either
side: forward by replaying, backward by putting back. The digest of an event
covers all events before it, so it names one history and no other.
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
    when : str
        Time in UTC, ISO 8601.
    by, who : str
        What kind of author (``person``, ``machine``, ``import``), and which one.
    rows : list of int
        Row numbers of the items concerned; empty where the event is about the whole collection.
    before, after : dict
        Columns of these items, a list in the order of ``rows`` each; for settings, taxonomy and learned state
        the value itself, under that name. What an added item was before is only that it was not alive.
    undoes : int or None
        The event whose change an ``undo`` took back.
    vectors : str or None
        SHA-256 of the vectors an ``add`` brought.
    undone_by : int or None
        The undo that has taken this event back, at the time of asking; only ``LiveCollection.history`` says so.

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
        """What happened, in a few words."""
        return event_in_words(self.kind, len(self.rows), self.before, self.after, self.undoes)

    def __str__(self) -> str:
        when = self.when[:19].replace("T", " ")
        undone = "" if self.undone_by is None else f" (undone by {self.undone_by})"
        return f"{self.number}  {when}  {self.who or self.by}  {self.text}{undone}"

    def to_dict(self) -> dict[str, Any]:
        """What people want to know, as values that ``json.dumps`` takes.

        What stood in each of the items before and after, which may be long, is in ``before`` and ``after`` alone.
        """
        changes = label_changes(len(self.rows), self.before, self.after) if self.changes_items else []
        return {
            **{name: getattr(self, name) for name in ("number", "kind", "when", "by", "who", "undoes", "undone_by")},
            "n_items": len(self.rows),
            "labels": [{"before": old, "after": new, "n_items": n} for old, new, n in changes],
            "text": self.text,
        }


def append_event(database: Database, event: Event) -> None:
    """Write the event behind the last one, within the transaction that the caller holds."""
    stored = _stored(event)
    last = database.execute("SELECT digest FROM events ORDER BY number DESC LIMIT 1").fetchone()
    digest = _digest("" if last is None else last[0], stored)
    marks = ", ".join("?" * (len(stored) + 1))
    database.execute(f"INSERT INTO events ({COLUMNS}) VALUES ({marks})", (*stored, digest))


def read_event(database: Database, number: int) -> Event | None:
    """One event, or None where there is none of that number."""
    if not 0 < number < 2**63:  # SQLite's integers end there
        return None
    found = database.all(f"SELECT {COLUMNS} FROM events WHERE number = ?", (number,))
    return _event(found[0]) if found else None


def read_events(database: Database, after: int = 0, *, newest_first: bool = False) -> Iterator[Event]:
    """All events after a number, a page at a time: a reader of a long log holds up nobody."""
    before = None
    while True:
        if newest_first:
            bounds = "number > ?" if before is None else "number > ? AND number < ?"
            page = _page(database, f"{bounds} ORDER BY number DESC", (after,) if before is None else (after, before))
        else:
            page = _page(database, "number > ? ORDER BY number", (after,))
        if not page:
            return
        yield from map(_event, page)
        if newest_first:
            before = page[-1][0]
        else:
            after = page[-1][0]


def _page(database: Database, which: str, values: tuple[int, ...]) -> list[tuple[Any, ...]]:
    """The next events as they are stored: a few hundred small ones, or one that brought thousands of items."""
    page: list[tuple[Any, ...]] = []
    size = 0
    with database.turn, database_errors(database.file):
        found = database.execute(f"SELECT {COLUMNS} FROM events WHERE {which} LIMIT {PAGE}", values)
        for stored in found:
            page.append(stored)
            size += sum(len(said) for said in stored if isinstance(said, str))
            if size > PAGE_SIZE:
                break
        found.close()
    return page


def rows_changed(database: Database, after: int) -> set[int]:
    """Numbers of the rows that events after a number are about."""
    found = database.all("SELECT number, rows FROM events WHERE number > ?", (after,))
    return {row for number, rows in found for row in check_rows(f"event {number}", from_json(rows, f"event {number}"))}


def undone_events(database: Database) -> dict[int, int]:
    """The events that are taken back at present, and by which undo.

    An undo that was undone itself counts for nothing, so the newest are heard
    first: nobody can have taken those back yet.
    """
    undone: dict[int, int] = {}
    undos = "SELECT number, undoes FROM events WHERE undoes IS NOT NULL ORDER BY number DESC"
    for number, undoes in database.all(undos):
        if number not in undone:
            undone[undoes] = number
    return undone


def rows_said_right(database: Database, machines_vote: bool) -> set[int]:
    """Rows whose label a person confirmed although it counted already, and that have had no other label since.

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
    """What is wrong with the log itself: numbers left out, or an event that is not what was once written."""
    faults, last, digest = [], 0, ""
    while page := _page(database, "number > ? ORDER BY number", (last,)):
        for *stored, said in page:
            if stored[0] != last + 1:
                faults.append(f"Events {last + 1} to {stored[0] - 1} are missing from the log.")
            digest = _digest(digest, stored)
            if digest != said:
                faults.append(f"Event {stored[0]} is not as it was written: its digest does not match.")
                digest = said
            last = stored[0]
    return faults


def last_digest(database: Database) -> str:
    """The digest of the last event: it names the whole history."""
    return database.one("SELECT digest FROM events ORDER BY number DESC LIMIT 1") or ""


def _stored(event: Event) -> list[Any]:
    columns = [_shortened(side, len(event.rows)) for side in (event.before, event.after)]
    told = (event.number, event.kind, event.when, event.by, event.who, event.undoes)
    return [*told, _json(event.rows), *map(_json, columns), event.vectors]


def _event(stored: tuple[Any, ...]) -> Event:
    number, kind, when, by, who, undoes, rows, before, after, vectors, _ = stored
    numbers, was, became = (from_json(text, f"event {number}") for text in (rows, before, after))
    check_event(number, (kind, when, by, who), undoes, numbers, {"before": was, "after": became})
    was, became = (_lengthened(side, len(numbers)) for side in (was, became))
    return Event(number, kind, when, by, who, numbers, was, became, undoes, vectors)


def _shortened(columns: dict[str, Any], n: int) -> dict[str, Any]:
    """Columns that say the same of every row say it once: an import of many items is one ``by``, not thousands."""
    if n < 2:
        return columns
    return {name: said[:1] if says_one_thing(said) else said for name, said in columns.items()}


def says_one_thing(values: list[Any]) -> bool:
    """Whether all are one object: 1 and True are equal, and yet they are not the same."""
    return values[0] is values[-1] and len(set(map(id, values))) == 1


def _lengthened(columns: dict[str, Any], n: int) -> dict[str, Any]:
    if n < 2:
        return columns
    return {name: said * n if len(said) == 1 else said for name, said in columns.items()}


def _digest(before: str, stored: list[Any]) -> str:
    """Over the digest before and each field; long texts by digests of their own, which is quicker than joining them."""
    short = [hashlib.sha256(said.encode()).hexdigest() if isinstance(said, str) else said for said in stored]
    return hashlib.sha256(_json([before, *short]).encode()).hexdigest()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
