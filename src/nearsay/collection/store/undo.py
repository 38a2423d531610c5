"""Undo an event, by a new event that restores the values before it.

An event can be undone as long as everything it changed is as it left it. To undo
an undo is to redo the change. An undo that removes items is refused while later
events changed these items, and needs a confirmation where it removes several.
"""

from __future__ import annotations

from typing import Any

from nearsay.collection.store.database import Database
from nearsay.collection.store.events import Event, read_event, read_events, undone_events
from nearsay.collection.store.items import columns_of
from nearsay.errors import InputError, NotSure

# Conflicting events that are listed; the rest is counted.
NAMED = 5


def event_to_undo(database: Database, number: int | None) -> Event:
    """The given event, or the last one that is neither an undo, nor undone, nor learning."""
    undone = undone_events(database)
    if number is None:
        for each in read_events(database, newest_first=True):
            if each.kind not in ("undo", "keep") and each.number not in undone:
                return each
        raise InputError("There is nothing to undo. To redo what was undone, name the event number of the undo.")
    event = read_event(database, number)
    if event is None:
        last = max((each.number for each in read_events(database, newest_first=True)), default=0)
        raise InputError(f"There is no event {number!r}. The last is {last}; the history lists all.")
    if number in undone:
        by = undone[number]
        raise InputError(f"Event {number} is undone already, by event {by}. To redo it, undo event {by}.")
    return event


def turned_back(
    database: Database, event: Event, about: dict[str, Any], *, sure: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """``before`` and ``after`` of the undo; an error where later events conflict with it.

    ``NotSure`` where it removes several items and the caller is not ``sure``.
    """
    if not event.changes_items:
        changed = {name: value for name, value in event.after.items() if name in about}
        if any(about[name] != value for name, value in changed.items()):
            raise InputError(
                f"Event {event.number} ({event.kind}) cannot be undone: {' and '.join(changed)} changed again since."
                " Undo the later events first, newest first."
            )
        return event.after, event.before
    after, before = ({"alive": side} for side in ([True] * len(event.rows), [False] * len(event.rows)))
    if event.kind != "add":
        after, before = event.after, event.before
    removed = {
        row for row, lives in zip(event.rows, before.get("alive", [True] * len(event.rows)), strict=True) if not lives
    }
    if removed:
        _check_nothing_depends(database, event, removed)
    current = columns_of(database, event.rows, ("id", "alive", *(name for name in after if name != "alive")))
    _check_unchanged(database, event, after, current)
    if "alive" in before:
        _check_ids_are_free(database, event, before["alive"], current)
    if len(removed) > 1 and not sure:
        what = f"Undoing event {event.number} ({event.text}) removes {len(removed):,} items from the collection."
        raise NotSure(what, event.number, len(removed))
    return after, before


def _check_nothing_depends(database: Database, event: Event, rows: set[int]) -> None:
    """Items that would be removed must not have been changed since by an event that counts."""
    undone = undone_events(database)
    # An undo that counts and the event it undid leave an item as it was; of any other pair the event is listed.
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


def _check_unchanged(database: Database, event: Event, after: dict[str, Any], current: dict[str, Any]) -> None:
    for place, row in enumerate(event.rows):
        changed = [name for name in after if current[name][place] != after[name][place]]
        # Forgotten items cannot be changed, not even by an undo.
        if "alive" not in after and not current["alive"][place]:
            changed = ["alive"]
        if changed:
            later = _last_change(database, event.number, row, changed)
            raise InputError(
                f"Event {event.number} ({event.kind}) cannot be undone: event {later} changed {current['id'][place]!r}"
                " since. Undo the later events first, newest first."
            )


def _check_ids_are_free(database: Database, event: Event, alive: list[bool], current: dict[str, Any]) -> None:
    for id, lives in zip(current["id"], alive, strict=True):
        if lives and database.one("SELECT row FROM items WHERE id = ? AND alive", (id,)) is not None:
            raise InputError(
                f"Event {event.number} ({event.kind}) cannot be undone: {id!r} was added again since."
                " Forget that one first."
            )


def _last_change(database: Database, number: int, row: int, names: list[str]) -> int:
    """The newest event after ``number`` that changed one of these columns of a row."""
    for event in read_events(database, number, newest_first=True):
        if row in event.rows and any(name in event.after for name in names):
            return event.number
    raise AssertionError("a value changed without an event")
