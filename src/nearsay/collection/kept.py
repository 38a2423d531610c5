"""Learned state beside the items: a folder of files for each time something was learned, named by an event.

    kept/000000000042-metric-9f…/…      written by the caller, synced, and only then named with its checksums

Nothing is overwritten. What an event named stays readable as long as the
collection exists, so an undo or an older version finds its own state.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nearsay.collection.database import Database
from nearsay.collection.durable_files import storage_errors, sync_folder, sync_tree
from nearsay.collection.events import read_event, undone_events
from nearsay.errors import InputError

FOLDER = "kept"
KIND = re.compile(r"\w[\w.-]{0,63}", re.ASCII)


def write_kept(folder: Path, kind: str, number: int, write: Callable[[Path], Any]) -> dict[str, Any]:
    """Let ``write`` fill a new folder, sync it, and describe it for the event that will name it."""
    if not isinstance(kind, str) or not KIND.fullmatch(kind):
        raise InputError(f"A kind of learned state is a word of letters, digits, dots and dashes; got {kind!r}.")
    name = f"{number:012d}-{kind}-{secrets.token_hex(4)}"
    new = folder / FOLDER / name
    with storage_errors(f"keep {kind!r} in {new}"):
        new.mkdir()
        write(new)
        files = sync_tree(new)
        sync_folder(new.parent)
    return {"kind": kind, "folder": name, "files": files}


def latest_kept(database: Database, kind: str) -> tuple[int, dict[str, Any]] | None:
    """The newest event that kept something of this kind and was not taken back, with what it kept."""
    undone = undone_events(database)
    for (number,) in database.all("SELECT number FROM events WHERE kind = 'keep' ORDER BY number DESC"):
        event = read_event(database, number)
        if event is not None and number not in undone and event.after["keep"]["kind"] == kind:
            return number, event.after["keep"]
    return None


def all_kept(database: Database) -> list[dict[str, Any]]:
    """What every event of the log kept, those taken back included."""
    numbers = [number for (number,) in database.all("SELECT number FROM events WHERE kind = 'keep' ORDER BY number")]
    events = (read_event(database, number) for number in numbers)
    return [event.after["keep"] for event in events if event is not None]
