"""The items of a collection at any version: the current ones, with later events undone.

    items now ──── newest event ──── … ──── event v + 1 ────► items at version v
                   its ``before``           its ``before``

``replayed`` goes forward from nothing and must end at the same items, which detects a damaged table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.collection.store.database import Database
from nearsay.collection.store.events import Event, is_one_value, read_events
from nearsay.collection.store.stored_values import all_from_json, check_column, not_as_written
from nearsay.errors import require

# Columns of an item as they are shown, and those that events change: ``id`` is given once, with the row.
COLUMNS = ("id", "label", "keywords", "confirmed", "by", "details")
CHANGING = ("label", "keywords", "details", "confirmed", "by", "alive")
AS_JSON = ("keywords", "details")
# SQLite takes 32,766 values in a statement.
AT_ONCE = 300
READ_AT_ONCE = 4096
AS_BOOL = ("confirmed", "alive")


@dataclass(frozen=True, eq=False)
class Items:
    """The items without their vectors, by row number.

    Attributes
    ----------
    ids : (n_rows,) object, strings. An id names one living item; forgotten rows may have the same.
    labels : (n_rows,) object, a string, or None where there is none.
    keywords, details : (n_rows,) object, a list of strings; a dict; None without any.
    confirmed : (n_rows,) bool, whether a label may count: a machine's guess has to be confirmed by a person first.
    by : (n_rows,) object, the author of the label: ``person``, ``machine`` or ``import``.
    alive : (n_rows,) bool, False for rows that were forgotten. Their numbers are never used again.
    version : the last event that is included.
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

    def to_dicts(self) -> list[dict[str, Any]]:
        """What is known of each item, in the order they were added; those forgotten are left out."""
        every = (self.ids, self.labels, self.keywords, self.confirmed, self.by, self.details)
        columns = [column[self.alive].tolist() for column in every]
        return [dict(zip(COLUMNS, values, strict=True)) for values in zip(*columns, strict=True)]

    def to_frame(self) -> Any:
        """The same as a pandas DataFrame; keywords are lists in it, details dicts."""
        return require("pandas", "pandas").DataFrame(self.to_dicts(), columns=list(COLUMNS))


def items_at(database: Database, version: int) -> Items:
    """The items right after an event; the caller holds one state of the database."""
    columns = _current_columns(database)
    for event in read_events(database, version, newest_first=True):
        if event.kind == "add":
            columns = {name: values[: event.rows[0]] for name, values in columns.items()}
        else:
            _put(columns, event, event.before)
    return _as_items(columns, version)


def replayed(events: Iterable[Event]) -> Items:
    """The items after all these events, from the first on."""
    columns: dict[str, list[Any]] = {name: [] for name in ("id", *CHANGING)}
    version = 0
    for event in events:
        if event.kind == "add":
            n = len(columns["id"])
            if event.rows[0] != n:
                raise not_as_written(f"event {event.number}", f"it adds row {event.rows[0]}, and the next one is {n}")
            for name, values in columns.items():
                values += event.after[name]
        else:
            _put(columns, event, event.after)
        version = event.number
    return _as_items(columns, version)


def different(ours: Items, theirs: Items) -> list[int]:
    """Rows that differ, including those that only one has."""
    n = min(len(ours), len(theirs))
    names = ("ids", "labels", "keywords", "details", "confirmed", "by", "alive")
    pairs = [(getattr(ours, name), getattr(theirs, name)) for name in names]
    unlike = [row for row in range(n) if any(one[row] != other[row] for one, other in pairs)]
    return unlike + list(range(n, max(len(ours), len(theirs))))


def add_items(database: Database, rows: list[int], columns: dict[str, list[Any]]) -> None:
    """Write new items, within the transaction that the caller holds."""
    stored = {"row": rows, **{name: _stored(name, values) for name, values in columns.items()}}
    # Many rows per statement, and a constant column once: four times as fast.
    shared = {name: values[0] for name, values in stored.items() if is_one_value(values)}
    varying = {name: values for name, values in stored.items() if name not in shared}
    for start in range(0, len(rows), AT_ONCE):
        some = list(zip(*(values[start : start + AT_ONCE] for values in varying.values()), strict=True))
        tables = [_values(1, len(shared))] * bool(shared) + [_values(len(some), len(varying))] * bool(varying)
        database.execute(
            f"INSERT INTO items ({', '.join([*shared, *varying])}) SELECT * FROM {', '.join(tables)}",
            [*shared.values(), *(value for line in some for value in line)],
        )


def _values(n_rows: int, n_columns: int) -> str:
    line = ", ".join("?" * n_columns)
    return f"(VALUES ({'), ('.join([line] * n_rows)}))"


def change_items(database: Database, rows: list[int], columns: dict[str, list[Any]]) -> None:
    """Give items new values, within the transaction that the caller holds."""
    values = zip(*(_stored(name, column) for name, column in columns.items()), rows, strict=True)
    setting = ", ".join(f"{name} = ?" for name in columns)
    database.execute_many(f"UPDATE items SET {setting} WHERE row = ?", values)


def columns_of(database: Database, rows: list[int], names: Iterable[str]) -> dict[str, list[Any]]:
    """Columns of some items as they are now, in the order of ``rows``."""
    names = list(names)
    statement = f"SELECT {', '.join(names)} FROM items WHERE row = ?"
    lines = [database.execute(statement, (row,)).fetchone() for row in rows]
    if None in lines:
        raise not_as_written("the table 'items'", f"row {rows[lines.index(None)]} is missing")
    return {name: _read(name, [line[place] for line in lines]) for place, name in enumerate(names)}


def _current_columns(database: Database) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {name: [] for name in ("id", *CHANGING)}
    cursor = database.execute(f"SELECT {', '.join(columns)} FROM items ORDER BY row")
    while some := cursor.fetchmany(READ_AT_ONCE):
        for column, values in zip(columns.values(), zip(*some, strict=True), strict=True):
            column.extend(values)
    return {name: _read(name, column_values) for name, column_values in columns.items()}


def _put(columns: dict[str, list[Any]], event: Event, columns_before: dict[str, Any]) -> None:
    if not event.rows:
        return
    if max(event.rows) >= len(columns["id"]):
        why = f"it is about row {max(event.rows)}, and there are {len(columns['id']):,}"
        raise not_as_written(f"event {event.number}", why)
    for name, values in columns_before.items():
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
