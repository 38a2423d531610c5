"""Taking an event back: an event of its own, which puts back what stood there before.

An event can be taken back as long as everything it changed still is as it left
it. Taking back an undo is doing the thing again. What takes items out is refused
while later events changed these items, and asks first where it takes several.
"""

from __future__ import annotations

from typing import Any

from nearsay.collection.store.database import Database
from nearsay.collection.store.events import Event, read_event, read_events, undone_events
from nearsay.collection.store.items import columns_of
from nearsay.errors import InputError, NotSure

# So many of the events that stand in the way are named; the rest is counted.
NAMED = 5


def event_to_undo(database: Database, number: int | None) -> Event:
    """The event asked for, or the last one that is neither an undo nor taken back; learning again is no such change."""
    undone = undone_events(database)
    if number is None:
        for event in read_events(database, newest_first=True):
            if event.kind not in ("undo", "keep") and event.number not in undone:
                return event
        raise InputError("There is nothing to undo. To do again what was undone, name the undo's event number.")
    found = read_event(database, number)
    if found is None:
        raise InputError(f"There is no event {number!r}; see events() for the log.")
    if number in undone:
        by = undone[number]
        raise InputError(f"Event {number} is undone already, by event {by}. To do it again, undo event {by}.")
    return found


def turned_back(
    database: Database, event: Event, about: dict[str, Any], *, sure: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """``before`` and ``after`` of the undo, where nothing that came later stands in the way.

    ``NotSure`` where it takes several items out and nobody said that they are ``sure``.
    """
    if not event.changes_items:
        changed = {name: said for name, said in event.after.items() if name in about}
        if any(about[name] != said for name, said in changed.items()):
            raise InputError(
                f"Event {event.number} ({event.kind}) cannot be undone: {' and '.join(changed)} changed again since."
                " Undo the later events first, newest first."
            )
        return event.after, event.before
    after, before = ({"alive": side} for side in ([True] * len(event.rows), [False] * len(event.rows)))
    if event.kind != "add":
        after, before = event.after, event.before
    taken_out = {
        row for row, lives in zip(event.rows, before.get("alive", [True] * len(event.rows)), strict=True) if not lives
    }
    if taken_out:
        _check_nothing_depends(database, event, taken_out)
    now = columns_of(database, event.rows, ("id", "alive", *(name for name in after if name != "alive")))
    _check_unchanged(database, event, after, now)
    if "alive" in before:
        _check_ids_are_free(database, event, before["alive"], now)
    if len(taken_out) > 1 and not sure:
        what = f"Undoing event {event.number} ({event.text}) takes {len(taken_out):,} items out of the collection."
        raise NotSure(what, event.number, len(taken_out))
    return after, before


def _check_nothing_depends(database: Database, event: Event, rows: set[int]) -> None:
    """Items that would go must not have been changed since by anything that still counts."""
    undone = undone_events(database)
    # An undo that counts and the event it took back leave an item as it was; of any other pair the event is listed.
    later = [
        each
        for each in read_events(database, event.number)
        if each.kind != "undo" and each.number not in undone and not rows.isdisjoint(each.rows)
    ]
    if later:
        named = ", ".join(f"event {each.number} ({each.text})" for each in later[:NAMED])
        more = f" and {len(later) - NAMED:,} more" if len(later) > NAMED else ""
        raise InputError(
            f"Event {event.number} ({event.text}) cannot be undone: its items were changed since, by {named}{more}."
            " Undo these first, newest first."
        )


def _check_unchanged(database: Database, event: Event, after: dict[str, Any], now: dict[str, Any]) -> None:
    for place, row in enumerate(event.rows):
        changed = [name for name in after if now[name][place] != after[name][place]]
        # What is forgotten cannot be changed, by an undo no more than otherwise.
        if "alive" not in after and not now["alive"][place]:
            changed = ["alive"]
        if changed:
            later = _last_change(database, event.number, row, changed)
            raise InputError(
                f"Event {event.number} ({event.kind}) cannot be undone: event {later} changed {now['id'][place]!r}"
                " since. Undo the later events first, newest first."
            )


def _check_ids_are_free(database: Database, event: Event, alive: list[bool], now: dict[str, Any]) -> None:
    for id, lives in zip(now["id"], alive, strict=True):
        if lives and database.one("SELECT row FROM items WHERE id = ? AND alive", (id,)) is not None:
            raise InputError(
                f"Event {event.number} ({event.kind}) cannot be undone: {id!r} was added anew since."
                " Forget that one first."
            )


def _last_change(database: Database, number: int, row: int, names: list[str]) -> int:
    """The newest event after ``number`` that changed one of these columns of a row."""
    for event in read_events(database, number, newest_first=True):
        if row in event.rows and any(name in event.after for name in names):
            return event.number
    raise AssertionError("a value changed without an event")
