"""Leftover files in a collection's folder, after a crash or a refused change."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from nearsay.collection.store import learned_files, shard_files
from nearsay.collection.store.database import Database
from nearsay.collection.store.files.folder import Folder

Unnamed = tuple[Folder, str]


def unnamed_files(database: Database, collection: Folder, states: list[dict[str, Any]] | None = None) -> list[Unnamed]:
    """Files and folders among the shards and the learned state that neither a shard nor an event names.

    Only files with names of this program; anything else is left alone. The folder is listed first:
    what a writer names meanwhile then counts as named. ``states`` is the learned state that is still kept, where the
    writer has just read it.
    """
    folders = [collection.folder(name) for name in (shard_files.FOLDER, learned_files.FOLDER)]
    entries = [(folder, name) for folder in folders if folder is not None for name in folder.names()]
    named = {(shard_files.FOLDER, file) for (file,) in database.all("SELECT file FROM shards")}
    if any(folder.path.name == learned_files.FOLDER for folder, _ in entries):
        kept = learned_files.all_kept(database) if states is None else states
        named |= {(learned_files.FOLDER, state["folder"]) for state in kept}
    return [(folder, name) for folder, name in entries if (folder.path.name, name) not in named]


def remove_garbage(database: Database, collection: Folder, states: list[dict[str, Any]] | None = None) -> None:
    """Remove them; requires the writer lock, since the new files of another writer are not named yet."""
    for folder, name in unnamed_files(database, collection, states):
        # What cannot be removed is harmless, and listed among the faults.
        with suppress(OSError):
            folder.remove(name)
