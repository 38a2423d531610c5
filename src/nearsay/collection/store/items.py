"""The items of a collection at one version: read as they are now, and put back to what they were.

    items now ──── newest event ──── … ──── event v + 1 ────► items at version v
                   its ``before``           its ``before``

Putting back costs as much as happened since, so recent versions come quickly.
``replayed`` goes the other way, from nothing and forward, and must end at the
same items: that is how a damaged table is found.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.collection.store.database import Database
from nearsay.collection.store.events import Event, read_events, says_one_thing
from nearsay.collection.store.stored_values import all_from_json, check_column, not_as_written

# Columns of an item that events change. ``id`` is given once, with the row.
CHANGING = ("label", "keywords", "details", "confirmed", "by", "alive")
AS_JSON = ("keywords", "details")
# SQLite takes 32,766 values in a statement.
AT_ONCE = 300
READ_AT_ONCE = 4096
AS_BOOL = ("confirmed", "alive")


@dataclass(frozen=True, eq=False)
class Items:
    """Everything known about the items but their vectors, by row number.

    Attributes
    ----------
    ids : (n_rows,) object
        Strings. An id names one living item; forgotten rows may have the same.
    labels : (n_rows,) object
        A string, or None where there is none.
    keywords, details : (n_rows,) object
        A list of strings; a dict; None where nothing was said.
    confirmed : (n_rows,) bool
        Whether a label may count: a guess of a machine does not, before a person has agreed.
    by : (n_rows,) object
        Who gave the label: ``person``, ``machine`` or ``import``.
    alive : (n_rows,) bool
        False for rows that were forgotten. Their numbers are never used again.
    version : int
        The last event that is counted in.
    """

    ids: np.ndarray
    labels: np.ndarray
    keywords: np.ndarray
    details: np.ndarray
    confirmed: np.ndarray
    by: np.ndarray
    alive: np.ndarray
    version: int

    def __len__(self) -> int:
        return len(self.ids)


def items_at(database: Database, version: int) -> Items:
    """The items right after an event; the caller holds one state of the database."""
    columns = _columns_now(database)
    for event in read_events(database, version, newest_first=True):
        if event.kind == "add":
            columns = {name: said[: event.rows[0]] for name, said in columns.items()}
        else:
            _put(columns, event, event.before)
    return _as_items(columns, version)


def replayed(events: Iterable[Event]) -> Items:
    """The items that all these events, from the first on, add up to."""
    columns: dict[str, list[Any]] = {name: [] for name in ("id", *CHANGING)}
    version = 0
    for event in events:
        if event.kind == "add":
            n = len(columns["id"])
            if event.rows[0] != n:
                raise not_as_written(f"event {event.number}", f"it adds row {event.rows[0]}, and the next one is {n}")
            for name, said in columns.items():
                said += event.after[name]
        else:
            _put(columns, event, event.after)
        version = event.number
    return _as_items(columns, version)


def check_reach(event: Event, n_rows: int) -> None:
    """Refuse an event about rows that are not there."""
    if event.rows and max(event.rows) >= n_rows:
        raise not_as_written(f"event {event.number}", f"it is about row {max(event.rows)}, and there are {n_rows:,}")


def different(ours: Items, theirs: Items) -> list[int]:
    """Rows that the two do not agree on, those that only one has included."""
    n = min(len(ours), len(theirs))
    names = ("ids", "labels", "keywords", "details", "confirmed", "by", "alive")
    pairs = [(getattr(ours, name), getattr(theirs, name)) for name in names]
    unlike = [row for row in range(n) if any(one[row] != other[row] for one, other in pairs)]
    return unlike + list(range(n, max(len(ours), len(theirs))))


def add_items(database: Database, rows: list[int], columns: dict[str, list[Any]]) -> None:
    """Write new items, within the transaction that the caller holds."""
    stored = {"row": rows, **{name: _stored(name, said) for name, said in columns.items()}}
    # Many rows per statement, and one value for a column that says the same of all: four times as fast.
    shared = {name: said[0] for name, said in stored.items() if says_one_thing(said)}
    own = {name: said for name, said in stored.items() if name not in shared}
    marks = ", ".join([*(f"?{number}" for number in range(1, len(shared) + 1)), *("?" for _ in own)])
    for start in range(0, len(rows), AT_ONCE):
        some = zip(*(said[start : start + AT_ONCE] for said in own.values()), strict=True)
        values = [*shared.values(), *(value for row in some for value in row)]
        lines = "), (".join([marks] * len(rows[start : start + AT_ONCE]))
        database.execute(f"INSERT INTO items ({', '.join([*shared, *own])}) VALUES ({lines})", values)


def change_items(database: Database, rows: list[int], columns: dict[str, list[Any]]) -> None:
    """Give items new values, within the transaction that the caller holds."""
    values = zip(*(_stored(name, said) for name, said in columns.items()), rows, strict=True)
    setting = ", ".join(f"{name} = ?" for name in columns)
    database.execute_many(f"UPDATE items SET {setting} WHERE row = ?", values)


def columns_of(database: Database, rows: list[int], names: Iterable[str]) -> dict[str, list[Any]]:
    """Columns of some items as they are now, in the order of ``rows``."""
    names = list(names)
    statement = f"SELECT {', '.join(names)} FROM items WHERE row = ?"
    found = [database.execute(statement, (row,)).fetchone() for row in rows]
    if None in found:
        raise not_as_written("the table 'items'", f"row {rows[found.index(None)]} is missing")
    return {name: _read(name, [said[place] for said in found]) for place, name in enumerate(names)}


def _columns_now(database: Database) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {name: [] for name in ("id", *CHANGING)}
    found = database.execute(f"SELECT {', '.join(columns)} FROM items ORDER BY row")
    while some := found.fetchmany(READ_AT_ONCE):
        for column, values in zip(columns.values(), zip(*some, strict=True), strict=True):
            column.extend(values)
    return {name: _read(name, said) for name, said in columns.items()}


def _put(columns: dict[str, list[Any]], event: Event, said: dict[str, Any]) -> None:
    if not event.rows:
        return
    check_reach(event, len(columns["id"]))
    for name, values in said.items():
        column = columns[name]
        for row, value in zip(event.rows, values, strict=True):
            column[row] = value


def _stored(name: str, values: list[Any]) -> list[Any]:
    if name in AS_JSON:
        written = json.JSONEncoder(ensure_ascii=False).encode
        return [None if value is None else written(value) for value in values]
    return values


def _read(name: str, values: list[Any]) -> list[Any]:
    if name in AS_JSON:
        values = all_from_json(values, f"the column {name!r} of the items")
    elif name in AS_BOOL and {*values} <= {0, 1}:
        values = [*map(bool, values)]
    check_column(name, values)
    return values


def _as_items(columns: dict[str, list[Any]], version: int) -> Items:
    ids, labels, keywords, details, by = (
        _object_array(columns[name]) for name in ("id", "label", "keywords", "details", "by")
    )
    confirmed, alive = (np.array(columns[name], dtype=bool) for name in AS_BOOL)
    return Items(ids, labels, keywords, details, confirmed, by, alive, version)


def _object_array(values: list[Any]) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
