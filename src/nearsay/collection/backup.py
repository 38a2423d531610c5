"""A copy of a collection in a new folder: the database by ``VACUUM INTO``, then every file that the copy names."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path

from nearsay.collection import kept, shards
from nearsay.collection.database import NAME, Database
from nearsay.collection.durable_files import copy_file, storage_errors, sync_folder, sync_tree
from nearsay.collection.shards import Shard
from nearsay.errors import InputError, StorageError

# Pictures that came through the page lie in this folder of the collection, by content.
UPLOADS = "pictures"


def back_up(database: Database, folder: Path, to: Path) -> None:
    """Copy the collection as it is at this moment; ``to`` appears when the copy is whole and on the disk.

    Files that are named never change, so the copy of the database says which
    ones belong to it, whatever a writer adds meanwhile. Learned state may go, when
    a newer one has been there for a while: it is copied first.
    """
    check_new_folder(to)
    part = to.with_name(f".{to.name}.{secrets.token_hex(4)}.part")
    with storage_errors(f"back up to {to}"):
        try:
            part.mkdir()
            database.copy_into(part / NAME)
            copy = Database.open(part / NAME, read_only=False)
            try:
                _copy_named(copy, folder, part)
            finally:
                copy.close()
            put_in_place(part, to)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise


def _copy_named(database: Database, folder: Path, to: Path) -> None:
    for name in (shards.FOLDER, kept.FOLDER):
        (to / name).mkdir()
    files: dict[str, str] = {}
    for state in kept.all_kept(database):
        own = f"{kept.FOLDER}/{state['folder']}"
        (to / own).mkdir()
        files |= {f"{own}/{name}": sha256 for name, sha256 in state["files"].items()}
    for found in database.all("SELECT * FROM shards"):
        shard = Shard(*found)
        files[f"{shards.FOLDER}/{shard.file}"] = shard.sha256
    for name, sha256 in files.items():
        if not (folder / name).is_file():
            raise StorageError(f"Cannot back up: {folder / name} is missing. See faults() for all that is wrong.")
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        if copy_file(folder / name, to / name) != sha256:
            raise StorageError(f"Cannot back up: {folder / name} is damaged. See faults() for all that is wrong.")
    if (folder / UPLOADS).is_dir():
        (to / UPLOADS).mkdir()
        for picture in sorted((folder / UPLOADS).iterdir()):
            copy_file(picture, to / UPLOADS / picture.name)


def check_new_folder(path: Path) -> None:
    """A folder that a collection may be put at: its parent is there, and it is empty or not there."""
    if not path.parent.is_dir():
        raise InputError(f"The folder {path.parent} does not exist. Create it first.")
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise InputError(f"{path} exists and is not an empty folder. Name a new one, or remove it first.")


def put_in_place(part: Path, path: Path) -> None:
    """Sync all of a folder that is ready, and give it its name."""
    sync_tree(part)
    if path.exists():
        path.rmdir()
    os.rename(part, path)
    sync_folder(path.parent)
