"""Check the integrity of a collection on disk, by reading everything.

SQLite's own check ─ digests of the log ─ items against the log replayed ─ vectors against the digests of their adds
shards and learned state against their checksums ─ rows without a gap ─ files that nothing names
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.collection.store import learned_files, shard_files
from nearsay.collection.store.database import SCHEMA, Database
from nearsay.collection.store.events import digest_faults, read_events
from nearsay.collection.store.files.durable_files import checksum
from nearsay.collection.store.files.folder import FOLDERS, KEPT, Folder
from nearsay.collection.store.files.sqlite_files import check_schema
from nearsay.collection.store.items import different, items_at, replayed
from nearsay.collection.store.learned_files import all_kept, kept_files
from nearsay.collection.store.shard_files import Shards, vectors_digest
from nearsay.collection.store.stored_values import check_settings, check_taxonomy, from_json
from nearsay.errors import StorageError

NAMED = 5
Unnamed = list[tuple[Folder, str]]


def find_faults(database: Database, vectors: Shards, collection: Folder) -> list[str]:
    """All faults, in sentences."""
    # Damage first: with the names first, a file that a writer is about to name would count as garbage.
    faults = find_damage(database, vectors, collection)
    with suppress(StorageError):  # named already, as damage
        left = [folder.path / name for folder, name in unnamed_files(database, collection)]
        faults += [f"{path} is a leftover that nothing refers to: it can be removed." for path in left]
    faults += [
        f"{path} does not belong to the collection, and nearsay did not make it." for path in _strangers(collection)
    ]
    return faults


def find_damage(database: Database, vectors: Shards, collection: Folder) -> list[str]:
    """The same without leftover files, which are harmless."""
    faults: list[str] = []
    with database.one_state():
        for check in (
            lambda: entry_faults(collection),
            lambda: [f"SQLite: {message}" for (message,) in database.all("PRAGMA integrity_check") if message != "ok"],
            lambda: _schema_faults(database),
            lambda: digest_faults(database),
            lambda: _about_faults(database),
            lambda: _row_faults(database),
            lambda: _item_faults(database),
            lambda: [*_gaps(database, vectors), *_shard_faults(vectors)] or _vector_faults(database, vectors),
            lambda: _kept_faults(database, collection),
        ):
            try:
                new = check()
            except (StorageError, ValueError, KeyError, IndexError, TypeError) as error:
                new = [str(error) if isinstance(error, StorageError) else f"The database cannot be read: {error!r}"]
            faults += [fault for fault in new if fault not in faults]
    return faults


def entry_faults(collection: Folder) -> list[str]:
    """Links, pipes and second names where files of the collection should be."""
    faults = collection.faults()
    for name in FOLDERS:
        if not any(fault.startswith(f"{collection.path / name} ") for fault in faults):
            folder = collection.folder(name)
            faults += _entry_faults_below(folder) if folder is not None else []
    return faults


def _entry_faults_below(folder: Folder) -> list[str]:
    within = [folder.folder(name) for name in folder.names() if KEPT in folder.path.parts and _is_folder(folder, name)]
    return [*folder.faults(), *(fault for each in within if each is not None for fault in _entry_faults_below(each))]


def _is_folder(folder: Folder, name: str) -> bool:
    entry = folder.stat(name)
    return entry is not None and stat.S_ISDIR(entry.st_mode)


def _strangers(collection: Folder) -> list[Path]:
    """Unknown files among the shards and the learned state; elsewhere a user may put anything."""
    folders = []
    for name in FOLDERS[:2]:
        with suppress(OSError):
            folders.append(collection.folder(name))
    return [path for folder in folders if folder is not None for path in folder.strangers()]


def _schema_faults(database: Database) -> list[str]:
    """Changed tables or triggers: without its triggers the log would be unprotected."""
    check_schema(database.connection, SCHEMA, database.file)
    return []


def _row_faults(database: Database) -> list[str]:
    """Rows are numbered from 0 on, without a gap."""
    ((first, last, n),) = database.all("SELECT min(row), max(row), count(*) FROM items")
    if not n or (first, last) == (0, n - 1):
        return []
    rows = [row for (row,) in database.all("SELECT row FROM items ORDER BY row")]
    strange = [row for place, row in enumerate(rows) if row not in (place, rows[place - 1] + 1)] or [rows[-1]]
    return [f"Items have row numbers {', '.join(map(str, strange[:NAMED]))}, but rows are numbered from 0 to {n - 1}."]


def _about_faults(database: Database) -> list[str]:
    about = {name: from_json(value, f"{name!r}") for name, value in database.all("SELECT name, value FROM about")}
    for name in ("n_columns", "first_settings", "settings", "taxonomy"):
        if name not in about:
            return [f"The database lacks {name!r}."]
    check_settings(about["settings"])
    check_taxonomy(about["taxonomy"])
    logged = {"settings": about["first_settings"], "taxonomy": None}
    for event in read_events(database):
        logged |= {name: value for name, value in event.after.items() if name in logged}
    return [f"The {name} are not what the log says." for name, value in logged.items() if about[name] != value]


def _item_faults(database: Database) -> list[str]:
    events = read_events(database)
    last = database.one("SELECT max(number) FROM events") or 0
    rows = different(items_at(database, last), replayed(events))
    more = f" and {len(rows) - NAMED} more" * (len(rows) > NAMED)
    named = ", ".join(map(str, rows[:NAMED]))
    return [f"The items are not what the log adds up to, in row {named}{more}."] if rows else []


def _gaps(database: Database, vectors: Shards) -> Iterator[str]:
    """Every row has one vector: in the shards without a gap, then in the tail."""
    first = max((shard.end for shard in vectors.sealed()), default=0)
    ((lowest, highest, n_tail),) = database.all("SELECT min(row), max(row), count(*) FROM tail")
    n_items = database.one("SELECT count(*) FROM items")
    if first + n_tail != n_items or (n_tail and (lowest, highest) != (first, n_items - 1)):
        yield f"There are {n_items:,} items, but vectors for {first + n_tail:,}."


def _shard_faults(vectors: Shards) -> Iterator[str]:
    for shard in vectors.sealed():
        try:
            vectors.opened(shard)
            if vectors.checksum(shard) != shard.sha256:
                yield f"The shard {vectors.folder / shard.file} is not as it was written: its checksum does not match."
        except OSError as error:
            yield str(error)


def _vector_faults(database: Database, vectors: Shards) -> list[str]:
    blocks = vectors.blocks()
    starts = np.cumsum([0, *map(len, blocks)])
    return [
        f"The vectors of event {event.number} are not those that were added."
        for event in read_events(database)
        if event.kind == "add"
        and vectors_digest(_slice(blocks, starts, event.rows[0], event.rows[-1] + 1)) != event.vectors
    ]


def _slice(blocks: list[np.ndarray], starts: np.ndarray, first: int, end: int) -> Iterator[np.ndarray]:
    """Rows ``first`` to ``end``, cut where the blocks are."""
    for number in range(int(np.searchsorted(starts, first, side="right")) - 1, len(blocks)):
        start = int(starts[number])
        if start >= end:
            return
        yield blocks[number][max(first - start, 0) : end - start]


def _kept_faults(database: Database, collection: Folder) -> Iterator[str]:
    for state in all_kept(database):
        try:
            for path, (folder, name) in kept_files(collection, state).items():
                if folder.file(name) is None:
                    yield f"The file {folder.path / name} is missing."
                    continue
                with folder.reading(name) as file:
                    if checksum(file) != state["files"][path]:
                        yield f"The file {folder.path / name} is not as it was written: its checksum does not match."
        except OSError as error:
            yield str(error)


def unnamed_files(database: Database, collection: Folder, states: list[dict[str, Any]] | None = None) -> Unnamed:
    """Files and folders among the shards and the learned state that neither a shard nor an event names.

    Only files with names of this program; anything else is left alone. The folder is listed first: what a writer names
    meanwhile then counts as named. ``states`` is the learned state that is still kept, where that was just read.
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
