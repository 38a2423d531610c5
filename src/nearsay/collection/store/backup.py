"""Back up a collection into a new folder: the database by ``VACUUM INTO``, then every file that it names.

.NAME.9f….part/          locked by the process that makes it
    owner.lock
    NAME/ ─────────────► NAME/, when it is complete and synced
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nearsay.collection.store import learned_files, shard_files
from nearsay.collection.store.database import NAME, Database
from nearsay.collection.store.files.durable_files import copy_file, storage_errors, sync_folder, sync_tree
from nearsay.collection.store.files.folder import UPLOADS, Folder
from nearsay.collection.store.files.writer_lock import locked
from nearsay.collection.store.shard_files import ShardFile
from nearsay.errors import InputError, StorageError

LOCK = ".lock"
TRIES = 10
SEE = "See faults() for all faults."


def back_up(database: Database, collection: Folder, to: Path) -> None:
    """Copy the collection as it is at this moment; ``to`` appears when the copy is complete and on the disk.

    Files that are named never change, so the copy of the database says which
    ones belong to it, whatever a writer adds meanwhile. Old learned state may be
    removed: it is copied first.
    """
    check_new_folder(to)
    with storage_errors(f"back up to {to}"), new_folder(to) as part:
        part.mkdir()
        database.copy_into(part / NAME)
        made = Folder.open(part)
        copy = Database.open(made, read_only=False)
        try:
            _copy_named(copy, collection, part)
        finally:
            copy.close()
            made.close()


def _copy_named(database: Database, collection: Folder, to: Path) -> None:
    """Copy the files that the database names; a name that is not ours is refused first."""
    for name in (shard_files.FOLDER, learned_files.FOLDER):
        (to / name).mkdir()
    for state in learned_files.all_kept(database):
        for name, (folder, file) in learned_files.kept_files(collection, state).items():
            _copy(folder, file, to / learned_files.FOLDER / state["folder"] / name, state["files"][name])
    sealed = collection.folder(shard_files.FOLDER)
    for stored in database.all("SELECT * FROM shards"):
        shard = ShardFile(*stored)
        if sealed is None or sealed.file(shard.file) is None:
            raise StorageError(f"Cannot back up: {collection.path / shard_files.FOLDER / shard.file} is missing. {SEE}")
        _copy(sealed, shard.file, to / shard_files.FOLDER / shard.file, shard.sha256)
    pictures = collection.folder(UPLOADS)
    if pictures is not None:
        (to / UPLOADS).mkdir()
        for picture in pictures.names():
            copy_file(pictures, picture, to / UPLOADS / picture)


def _copy(folder: Folder, name: str, target: Path, sha256: str) -> None:
    if folder.file(name) is None:
        raise StorageError(f"Cannot back up: {folder.path / name} is missing. {SEE}")
    target.parent.mkdir(parents=True, exist_ok=True)
    if copy_file(folder, name, target) != sha256:
        raise StorageError(f"Cannot back up: {folder.path / name} is damaged. {SEE}")


def check_new_folder(path: Path) -> None:
    """Check that a collection can be made here: the parent exists, and the folder is empty or missing."""
    if not path.parent.is_dir():
        raise InputError(f"The folder {path.parent} does not exist. Create it first.")
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise InputError(f"{path} exists and is not an empty folder. Name a new one, or remove it first.")


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Give a path for a new folder, which becomes ``path`` if, and only if, the block ends without an error.

    It is a hidden sibling of ``path``, ``.NAME.….part``, and this process holds the lock ``.NAME.….lock``. What killed
    processes left for this ``path`` is removed first.
    """
    _remove_abandoned(path)
    part, lock = _hidden(path)
    try:
        yield part
        sync_tree(part)
        if path.exists():
            path.rmdir()
        os.rename(part, path)
        sync_folder(path.parent)
    finally:
        _remove(part, lock)


def _hidden(path: Path) -> tuple[Path, int]:
    """The path of a new hidden folder, and the descriptor of its lock, which is created first."""
    for _ in range(TRIES):
        part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        lock = locked(part.with_suffix(LOCK), os.O_CREAT | os.O_EXCL)
        if lock is not None:
            return part, lock
        # Another process took it for an abandoned one, before it was locked.
        part.with_suffix(LOCK).unlink(missing_ok=True)
    raise StorageError(f"Cannot make {path}: files in {path.parent} cannot be locked. Name a folder on another disk.")


def _remove_abandoned(path: Path) -> None:
    """Remove hidden folders for this path whose process is gone: their locks are free."""
    name, token = re.escape(path.name), r"\.[0-9a-f]{8}"
    # ``index_source`` makes a folder in which a store is made in turn.
    made = re.compile(rf"\.({name}|\.{name}{token}\.part){token}\{LOCK}")
    for file in sorted(path.parent.iterdir()):
        if made.fullmatch(file.name) and file.is_file():
            with suppress(OSError):  # harmless if it stays
                lock = locked(file, getattr(os, "O_NOFOLLOW", 0))
                if lock is not None:
                    _remove(file.with_suffix(".part"), lock)


def _remove(part: Path, lock: int) -> None:
    """Remove a hidden folder whose lock this process holds, then the lock."""
    try:
        shutil.rmtree(part, ignore_errors=True)
    finally:
        os.close(lock)
    if not os.path.lexists(part):  # else the next one tries again
        part.with_suffix(LOCK).unlink(missing_ok=True)
