"""A store at work, to be interrupted: python store_workload.py COLLECTION SEED ACKNOWLEDGED [--without PROTECTION].

The same seed is the same story, so whoever interrupted it knows what should be
there. It makes the collection or goes on where it was, and writes the number
of every event to ACKNOWLEDGED as soon as it is returned. Protections can be left
out, to see that the tests notice.
"""

from __future__ import annotations

import argparse
import os
import random
import stat
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from nearsay.collection import Store
from nearsay.collection.store import backup, database, learned_files, shard_files
from nearsay.collection.store.files import durable_files
from tests.reference.collection import Notebook, Refused, made_up_change

N_COLUMNS = 4
N_EVENTS = 150
ROWS_PER_SHARD = 64
# Whose call for a folder's sync can be left out.
FOLDERS = {
    "the shards' folder": shard_files,
    "the folder of what is kept": learned_files,
    "the folder of the collection": backup,
}
PROTECTIONS = ["full synchronization", "files", *FOLDERS]


def story(seed: int, notebook: Notebook) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """Calls that the notebook has taken already, with a seal or a reopening now and then."""
    luck = random.Random(seed)
    while notebook.version < N_EVENTS:
        if luck.random() < 0.1:
            yield "seal", (luck.randint(1, 20),), {}
        if luck.random() < 0.03:
            yield "reopen", (), {}
        name, given, more = made_up_change(luck, notebook)
        try:
            getattr(notebook, name)(*given, **more)
        except Refused:
            continue
        yield name, given, more


def whole_story(seed: int) -> Notebook:
    """The notebook at the end; its pages are all versions on the way."""
    notebook = Notebook(N_COLUMNS)
    for _ in story(seed, notebook):
        pass
    return notebook


def work(path: Path, seed: int, acknowledged: int) -> None:
    """Go through the story from where the collection stands."""
    shard_files.Shards.most_rows = ROWS_PER_SHARD
    store = Store.open(path) if path.exists() else Store.create(path, N_COLUMNS)
    os.write(acknowledged, f"{store.version}\n".encode())
    start = store.version
    notebook = Notebook(N_COLUMNS)
    for name, given, more in story(seed, notebook):
        if notebook.version <= start:
            continue
        if name == "reopen":
            store.close()
            store = Store.open(path)
        else:
            number = getattr(store, name)(*given, **more)
            if name != "seal":
                os.write(acknowledged, f"{number}\n".encode())
    store.close()


def work_and_tell(path: Path, seed: int, telling: Connection) -> None:
    """Go through the story and write what is acknowledged to a pipe."""
    work(path, seed, telling.fileno())


def leave_out(protection: str) -> None:
    """Work without one of the things that keep the collection safe."""
    if protection == "full synchronization":
        database.PRAGMAS["synchronous"] = "NORMAL"
    elif protection in FOLDERS:
        FOLDERS[protection].sync_folder = lambda folder: None
    else:
        sync = durable_files.sync_file
        durable_files.sync_file = lambda file: None if stat.S_ISREG(os.fstat(file).st_mode) else sync(file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("path", type=Path)
    parser.add_argument("seed", type=int)
    parser.add_argument("acknowledged")
    parser.add_argument("--without", choices=PROTECTIONS)
    said = parser.parse_args()
    if said.without:
        leave_out(said.without)
    new = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    work(said.path, said.seed, os.open(said.acknowledged, new))
