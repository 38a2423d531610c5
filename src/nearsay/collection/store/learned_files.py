"""Learned state on disk: a folder of files for each time something was learned, named by an event.

    kept/000000000042-metric-9f…/…      written by the caller, synced, and only then named with its checksums

Of each kind the last two that count are kept, so that learning can be undone once. The next writer drops older ones:
first recorded (``let_go`` in ``about``), then removed like all files that nothing names.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nearsay.collection.store.database import Database
from nearsay.collection.store.events import read_event, undone_events
from nearsay.collection.store.files.durable_files import storage_errors, sync_folder, sync_tree
from nearsay.collection.store.files.folder import KEPT, NAMES, WORD, Folder
from nearsay.collection.store.stored_values import from_json, not_as_written
from nearsay.errors import InputError, StorageError

FOLDER = KEPT
LET_GO = "let_go"
KIND = re.compile(WORD, re.ASCII)


def write_kept(collection: Folder, kind: str, number: int, write: Callable[[Path], Any]) -> dict[str, Any]:
    """Let ``write`` fill a new folder, sync it, and describe it for the event that will name it."""
    if not isinstance(kind, str) or not KIND.fullmatch(kind):
        raise InputError(f"A kind of learned state is a word of letters, digits, dots and dashes; got {kind!r}.")
    name = f"{number:012d}-{kind}-{secrets.token_hex(4)}"
    with storage_errors(f"keep {kind!r} in {collection.path / FOLDER / name}"):
        folder = collection.made(FOLDER)
        write(folder.made(name).path)
        files = sync_tree(folder.path / name)
        sync_folder(folder)
    for file in files:
        if not all(NAMES[f"{FOLDER}/*"].fullmatch(part) for part in file.split("/")):
            raise InputError(f"Names of files that are kept have letters, digits, dots and dashes; got {file!r}.")
    return {"kind": kind, "folder": name, "files": files}


def kept_files(collection: Folder, state: dict[str, Any]) -> dict[str, tuple[Folder, str]]:
    """Every file of what is kept: {path within its folder: (the folder it lies in, its name there)}."""
    files: dict[str, tuple[Folder, str]] = {}
    for path in state["files"]:
        folder: Folder | None = collection
        *above, name = str(path).split("/")
        for each in (FOLDER, state["folder"], *above):
            folder = folder.folder(each) if folder is not None else None
        if folder is None:
            missing = collection.path / FOLDER / state["folder"] / path
            raise StorageError(f"The file {missing} is missing. Learn again: it is made from the items.")
        files[path] = folder, name
    return files


def latest_kept(database: Database, kind: str) -> tuple[int, dict[str, Any]] | None:
    """The newest event that kept something of this kind and was not taken back, with what it kept."""
    undone = undone_events(database)
    for (number,) in database.all("SELECT number FROM events WHERE kind = 'keep' ORDER BY number DESC"):
        event = read_event(database, number)
        if event is not None and number not in undone and event.after["keep"]["kind"] == kind:
            return number, event.after["keep"]
    return None


def all_kept(database: Database) -> list[dict[str, Any]]:
    """The states that are still kept, including those of undone events."""
    gone = _dropped(database)
    return [state for number, state in _every_keep(database) if number >= gone.get(state["kind"], 0)]


def drop_old(database: Database) -> list[dict[str, Any]]:
    """Record that states before the last two of their kind are dropped; gives the others."""
    keeps = _every_keep(database)
    if not keeps:
        return []
    gone, undone = _dropped(database), undone_events(database)
    counting: dict[str, list[int]] = {}
    for number, state in keeps:
        if number not in undone:
            counting.setdefault(state["kind"], []).append(number)
    dropped = gone | {
        kind: max(numbers[-2], gone.get(kind, 0)) for kind, numbers in counting.items() if len(numbers) > 1
    }
    if dropped != gone:
        with database.transaction():
            database.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (LET_GO, json.dumps(dropped)))
    return [state for number, state in keeps if number >= dropped.get(state["kind"], 0)]


def check_not_dropped(database: Database, number: int) -> None:
    """Refuse an undo after which the latest state of a kind would be a dropped one."""
    for kind, first in _dropped(database).items():
        latest = latest_kept(database, kind)
        if latest is not None and latest[0] < first:
            raise InputError(
                f"Event {number} cannot be undone: what was learned before it, in event {latest[0]}, is no longer kept."
                " Of what was learned the last two are kept. Learn again instead."
            )


def _every_keep(database: Database) -> list[tuple[int, dict[str, Any]]]:
    numbers = [number for (number,) in database.all("SELECT number FROM events WHERE kind = 'keep' ORDER BY number")]
    events = (read_event(database, number) for number in numbers)
    return [(event.number, event.after["keep"]) for event in events if event is not None]


def _dropped(database: Database) -> dict[str, int]:
    """By kind, the first event whose state is still there."""
    text = database.one("SELECT value FROM about WHERE name = ?", (LET_GO,))
    if text is None:
        return {}
    first_kept = from_json(text, f"{LET_GO!r}")
    if not isinstance(first_kept, dict) or not {*map(type, first_kept.values())} <= {int}:
        raise not_as_written(f"{LET_GO!r}", "it is not numbers of events")
    return first_kept
