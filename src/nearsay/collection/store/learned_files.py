"""Learned state beside the items: a folder of files for each time something was learned, named by an event.

    kept/000000000042-metric-9f…/…      written by the caller, synced, and only then named with its checksums

Nothing is overwritten. Of each kind the latest that counts stays, and the one
before it, so that learning can be undone once. Who opens the collection for
writing lets go of what is older: that is written down first (``let_go`` in
``about``), then the folders are removed as everything is that nothing names. An
undo that would need one of them is refused.
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
    found: dict[str, tuple[Folder, str]] = {}
    for path in state["files"]:
        folder: Folder | None = collection
        *above, name = str(path).split("/")
        for each in (FOLDER, state["folder"], *above):
            folder = folder.folder(each) if folder is not None else None
        if folder is None:
            missing = collection.path / FOLDER / state["folder"] / path
            raise StorageError(f"The file {missing} is missing. Learn again: it is made from the items.")
        found[path] = folder, name
    return found


def latest_kept(database: Database, kind: str) -> tuple[int, dict[str, Any]] | None:
    """The newest event that kept something of this kind and was not taken back, with what it kept."""
    undone = undone_events(database)
    for (number,) in database.all("SELECT number FROM events WHERE kind = 'keep' ORDER BY number DESC"):
        event = read_event(database, number)
        if event is not None and number not in undone and event.after["keep"]["kind"] == kind:
            return number, event.after["keep"]
    return None


def all_kept(database: Database) -> list[dict[str, Any]]:
    """What events of the log kept and is still there, those taken back included."""
    gone = _let_go(database)
    return [state for number, state in _every_keep(database) if number >= gone.get(state["kind"], 0)]


def let_go_of_old(database: Database) -> list[dict[str, Any]]:
    """Write down that what was kept before the last two of its kind that count is no longer needed; gives the rest."""
    keeps = _every_keep(database)
    if not keeps:
        return []
    gone, undone = _let_go(database), undone_events(database)
    counting: dict[str, list[int]] = {}
    for number, state in keeps:
        if number not in undone:
            counting.setdefault(state["kind"], []).append(number)
    now = gone | {kind: max(numbers[-2], gone.get(kind, 0)) for kind, numbers in counting.items() if len(numbers) > 1}
    if now != gone:
        with database.transaction():
            database.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (LET_GO, json.dumps(now)))
    return [state for number, state in keeps if number >= now.get(state["kind"], 0)]


def check_there(database: Database, number: int) -> None:
    """Refuse the undo of an event after which the latest state of a kind would be one that is gone."""
    for kind, first in _let_go(database).items():
        latest = latest_kept(database, kind)
        if latest is not None and latest[0] < first:
            raise InputError(
                f"Event {number} cannot be undone: what was kept before it, in event {latest[0]}, is no longer there."
                " Of what was learned the last two are kept. Learn again instead."
            )


def _every_keep(database: Database) -> list[tuple[int, dict[str, Any]]]:
    numbers = [number for (number,) in database.all("SELECT number FROM events WHERE kind = 'keep' ORDER BY number")]
    events = (read_event(database, number) for number in numbers)
    return [(event.number, event.after["keep"]) for event in events if event is not None]


def _let_go(database: Database) -> dict[str, int]:
    """By kind, the first event whose state is still there."""
    said = database.one("SELECT value FROM about WHERE name = ?", (LET_GO,))
    if said is None:
        return {}
    found = from_json(said, f"{LET_GO!r}")
    if not isinstance(found, dict) or not {*map(type, found.values())} <= {int}:
        raise not_as_written(f"{LET_GO!r}", "it is not numbers of events")
    return found
