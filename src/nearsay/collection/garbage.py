"""Files in a collection's folder that nothing names: what a crash or a refused change left behind."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from nearsay.collection import kept, shards
from nearsay.collection.database import Database


def unnamed_files(database: Database, folder: Path) -> list[Path]:
    """Files and folders among the shards and the learned state that neither a shard nor an event names.

    The folder is looked at first: what a writer names meanwhile then counts as named.
    """
    found = [path for name in (shards.FOLDER, kept.FOLDER) for path in sorted((folder / name).glob("*"))]
    named = {shards.FOLDER + "/" + file for (file,) in database.all("SELECT file FROM shards")}
    if any(path.parent.name == kept.FOLDER for path in found):
        named |= {kept.FOLDER + "/" + state["folder"] for state in kept.all_kept(database)}
    return [path for path in found if f"{path.parent.name}/{path.name}" not in named]


def remove_garbage(database: Database, folder: Path) -> None:
    """Remove them; only for who holds the writer's lock, since another's new files are not named yet either."""
    for path in unnamed_files(database, folder):
        # What cannot be removed harms nobody, and stands in the list of faults.
        with suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
