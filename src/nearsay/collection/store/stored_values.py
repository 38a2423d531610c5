"""Checks of stored values as they are read: another program may have changed the database.

Every value has a type and range that this program writes, or the error names the place::

    collection.sqlite: the setting 'feature_groups' is invalid (…). It was changed by something else …
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from nearsay.collection.store.validate_items import AUTHORS
from nearsay.errors import StorageError

ADVICE = "It was changed by another program: nearsay doctor lists all faults; restore it from a backup."
MOST_COLUMNS = 1 << 20
NONE = type(None)
# The value at the start of a JSON text, and where it ends.
FIRST_VALUE = json.JSONDecoder().raw_decode

# Types of the settings that nearsay uses; others are the user's.
SETTINGS: dict[str, tuple[type, ...]] = {
    "metric": (str, dict),
    "feature_groups": (dict, NONE),
    "machines_vote": (bool,),
    "group_by": (str,),
    "described": (dict, NONE),
    "pictures": (str, NONE),
    "source": (str, NONE),
    "reading": (dict, NONE),
}
# Columns of items, as they are in memory.
TEXTS: dict[str, set[type]] = {"id": {str}, "label": {str, NONE}, "by": {str}}
LISTS: dict[str, set[type]] = {"keywords": {list, NONE}, "details": {dict, NONE}}
FLAGS = ("confirmed", "alive")


def not_as_written(place: str, why: str) -> StorageError:
    """The error for a value that this program did not write."""
    return StorageError(f"collection.sqlite: {place} is invalid ({why}). {ADVICE}")


def from_json(text: Any, place: str) -> Any:
    """The value of a JSON text."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        why = "it is missing" if text is None else f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
        raise not_as_written(place, why) from error


def all_from_json(texts: list[Any], place: str) -> list[Any]:
    """The values of many JSON texts; None stays None."""
    try:
        return [None if text is None else _quickly(text) for text in texts]
    except (ValueError, TypeError, RecursionError):
        return [None if text is None else from_json(text, place) for text in texts]


def _quickly(text: str) -> Any:
    """Like ``json.loads`` for a text without blanks around it, three times as fast; else an error."""
    value, end = FIRST_VALUE(text)
    if end != len(text):
        raise ValueError
    return value


def check_n_columns(value: Any) -> int:
    """A number of columns that rows can have."""
    if type(value) is not int or not 1 <= value <= MOST_COLUMNS:
        why = f"it is {value!r:.40}, and must be a whole number from 1 to {MOST_COLUMNS:,}"
        raise not_as_written("the number of columns", why)
    return value


def check_settings(settings: Any) -> None:
    """Settings that this program uses are what it writes; their meaning is checked where they are used."""
    if not isinstance(settings, dict):
        raise not_as_written("settings", f"they are {_kind(settings)}")
    for name, kinds in SETTINGS.items():
        if name in settings and type(settings[name]) not in kinds:
            raise not_as_written(f"the setting {name!r}", f"it is {_kind(settings[name])}")
    metric, groups = settings.get("metric"), settings.get("feature_groups")
    if isinstance(metric, dict) and not all(isinstance(each, str) for each in metric.values()):
        raise not_as_written("the setting 'metric'", "its values are not names")
    if isinstance(groups, dict):
        pairs = [type(ends) is list and [type(end) for end in ends] == [int, int] for ends in groups.values()]
        if not isinstance(metric, dict) or set(metric) != set(groups) or not all(pairs):
            raise not_as_written("the setting 'feature_groups'", "it has no columns, or no metric, for each group")
    elif isinstance(metric, dict):
        raise not_as_written("the setting 'metric'", "there are no groups for it")
    for name, value in (settings.get("reading") or {}).items():
        if type(value) not in (str, int, bool, NONE):
            raise not_as_written("the setting 'reading'", f"{name!r:.40} is {_kind(value)}")
    if settings.get("described") is not None:
        _check_described(settings["described"])


def _check_described(record: dict[str, Any]) -> None:
    place = "the setting 'described'"
    if record.get("kind") not in ("pictures", "texts", "numbers"):
        raise not_as_written(place, f"its kind is {record.get('kind')!r:.40}")
    if record["kind"] == "numbers":
        _check_names(record.get("columns"), f"the columns of {place}", may_lack=True)
        return
    _check_names(record.get("by"), f"what describes items in {place}")
    n = len(record["by"])
    probes: Any = record.get("probe")
    right = isinstance(probes, list) and len(probes) == n
    if not right or not all(isinstance(each, list) and {*map(type, each)} <= {float, int} for each in probes):
        raise not_as_written(place, "its probe is not numbers for each descriptor")
    ends, columns = 0, record.get("columns")
    pairs: list[Any] = columns if isinstance(columns, list) and len(columns) == n else [None]
    for pair in pairs:
        if not isinstance(pair, list) or [*map(type, pair)] != [int, int] or pair[0] != ends or pair[1] <= ends:
            raise not_as_written(place, "its columns are not one behind the other, for each descriptor")
        ends = pair[1]
    if len(set(record["by"])) != n:
        raise not_as_written(place, "a descriptor is named twice")
    for name in ("model", "content"):
        if not isinstance(record.get(name), str | None):
            raise not_as_written(place, f"its {name} is {_kind(record[name])}")
    size = record.get("size")
    if size is not None and (type(size) is not int or not 1 <= size <= 10_000):
        raise not_as_written(place, f"its size is {size!r:.40}")


def _check_names(names: Any, place: str, *, may_lack: bool = False) -> None:
    if names is None and may_lack:
        return
    if not isinstance(names, list) or not names or not {*map(type, names)} <= {str}:
        raise not_as_written(place, f"it is {_kind(names)}, and must be names")


def check_taxonomy(kept: Any) -> None:
    """None, pairs of names, or these with words."""
    edges, words = (kept.get("edges"), kept.get("words")) if isinstance(kept, dict) else (kept, {})
    if not isinstance(words, dict) or not {*map(type, words.values())} <= {str}:
        raise not_as_written("the taxonomy", "its words are not texts")
    if edges is None and not isinstance(kept, dict):
        return
    if not isinstance(edges, list) or not all(
        type(edge) is list and len(edge) == 2 and type(edge[0]) is str and type(edge[1]) is str for edge in edges
    ):
        raise not_as_written("the taxonomy", "it is not pairs of names")


def check_column(name: str, values: list[Any]) -> None:
    """Values of a column of items, as ``items.py`` has them in memory."""
    place, kinds = f"the column {name!r} of the items", {*map(type, values)}
    if name in FLAGS:
        if not kinds <= {bool}:
            raise not_as_written(place, "it holds other values than 0 and 1")
        return
    strange = kinds - (TEXTS.get(name) or LISTS[name])
    if strange:
        at = next(at for at, value in enumerate(values) if type(value) in strange)
        raise not_as_written(place, f"in place {at} it is {_kind(values[at])}")
    if name == "by" and (unknown := {*values} - {*AUTHORS}):
        raise not_as_written(place, f"{min(unknown)!r:.40} is no kind of author")
    if name == "keywords" and not _are_texts(chain.from_iterable(filter(None, values))):
        raise not_as_written(place, "a keyword is no text")


def _are_texts(values: Iterable[Any]) -> bool:
    try:
        return {*map(type, {*values})} <= {str}  # no text equals anything else, so each is checked once
    except TypeError:  # a list or an object, which no set takes
        return False


def check_event(number: Any, texts: Sequence[Any], undoes: Any, rows: Any, sides: Mapping[str, Any]) -> None:
    """Rows of an event are row numbers, and its columns are as long as they are many.

    ``texts`` are its kind, time, kind of author and author.
    """
    place, kind = f"event {number!r:.40}", texts[0]
    if not {*map(type, texts)} <= {str} or type(undoes) not in (int, NONE):
        raise not_as_written(place, "its kind, time, author or what it undoes is of another type")
    check_rows(place, rows)
    if kind == "add" and (not rows or rows != list(range(rows[0], rows[0] + len(rows)))):
        raise not_as_written(place, "the rows that it added are not one behind the other")
    for side, columns in sides.items():
        if not isinstance(columns, dict):
            raise not_as_written(place, f"{side!r} is {_kind(columns)}")
        if not rows:
            continue
        for name, values in columns.items():
            if name not in TEXTS and name not in LISTS and name not in FLAGS:
                raise not_as_written(place, f"it changed {name!r:.40}, which items do not have")
            if not isinstance(values, list) or len(values) not in (1, len(rows)):
                raise not_as_written(place, f"{name!r} does not have a value for each of its rows")
            check_column(name, values)
    if kind == "add" and (missing := {*TEXTS, *LISTS, *FLAGS} - {*sides["after"]}):
        raise not_as_written(place, f"the items that it added have no {sorted(missing)[0]!r}")
    if kind == "keep":
        check_keep(place, sides["after"].get("keep"))
    for about, check in (("settings", check_settings), ("taxonomy", check_taxonomy)):
        for side, columns in sides.items():
            if kind == about and about not in columns:
                raise not_as_written(place, f"it does not say what the {about} were {side} it")
            if not rows and about in columns:
                check(columns[about])


def check_rows(place: str, rows: Any) -> list[int]:
    """Row numbers of an event."""
    if not isinstance(rows, list) or not {*map(type, rows)} <= {int} or (rows and min(rows) < 0):
        raise not_as_written(place, "its rows are not row numbers")
    return rows


def check_keep(place: str, state: Any) -> None:
    """Learned state that an event names; names of files are checked where they are opened."""
    if not isinstance(state, dict) or not all(isinstance(state.get(name), str) for name in ("kind", "folder")):
        raise not_as_written(place, "what it keeps has no kind, or no folder")
    files = state.get("files")
    if not isinstance(files, dict) or not {*map(type, files.values())} <= {str}:
        raise not_as_written(place, "what it keeps has no files with checksums")


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", NONE: "missing", bool: "true or false", bytes: "bytes"}
    return names.get(type(value), f"{value!r:.40}")
