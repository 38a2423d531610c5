"""A cache of the vectors of pictures and texts, by their content: nothing is described twice.

It may be deleted at any time. A damaged entry is described again, and where the cache cannot be opened or written to,
everything is.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import zlib
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.collection.ingest.picture_sources import Describe
from nearsay.collection.store.files.folder import CACHE, JOURNAL, LOG, LOG_INDEX, Folder
from nearsay.collection.store.files.sqlite_files import check_schema, connected, raise_interruption
from nearsay.data.images import content_hash
from nearsay.describe.folder import SkippedImage
from nearsay.errors import StorageError

NAME = CACHE
SCHEMA = """CREATE TABLE described
    (content TEXT, key TEXT, vector BLOB, digest INTEGER, PRIMARY KEY (content, key)) WITHOUT ROWID;"""
SECONDS_TO_WAIT = 1.0


# What describes pictures, its record, the folder of the cache or None, and why they are described so.
Loaded = tuple[Describe, Mapping[str, Any], Folder | None, str]


class CachedDescribe:
    """Describes pictures, unless their vectors are in the cache.

    Parameters
    ----------
    load : gives what describes the others, with the first picture: an encoder takes seconds.
    why : why they are described so, in a sentence, where that is known before.
    """

    def __init__(self, load: Callable[[], Loaded], why: str | None = None) -> None:
        self._load, self._why = load, why

    @cached_property
    def _loaded(self) -> Loaded:
        return self._load()

    @property
    def record(self) -> Mapping[str, Any]:
        """How pictures are described."""
        return self._loaded[1]

    @property
    def why(self) -> str:
        """Why pictures are described so."""
        return self._loaded[3] if self._why is None else self._why

    def __call__(self, paths: list[Path]) -> tuple[np.ndarray, list[SkippedImage]]:
        """A row for each picture that could be described, and those that could not."""
        describe, record, folder, _ = self._loaded
        cache = VectorCache(folder, record)
        contents = [content_hash(path) if path.is_file() else "" for path in paths]
        known = cache.known(contents)
        new = [path for path, content in zip(paths, contents, strict=True) if content not in known]
        X, skipped = describe(new) if new else (np.empty((0, 0), np.float32), [])
        gone = {Path(each.path) for each in skipped}
        fresh = iter(X)
        rows, added = [], {}
        for path, content in zip(paths, contents, strict=True):
            if content in known:
                rows.append(known[content])
            elif path not in gone:
                rows.append(next(fresh))
                added[content] = rows[-1]
        cache.keep(added)
        return (np.stack(rows) if rows else np.empty((0, 0), np.float32)), list(skipped)


class VectorCache:
    """Vectors by the content they were made from.

    Parameters
    ----------
    folder : the folder of the cache, or None for no cache.
    record : how vectors are made; those of another record are not used.
    """

    def __init__(self, folder: Folder | None, record: Mapping[str, Any]) -> None:
        self._folder, self._n_columns = folder, record["columns"][-1][1]
        self._key = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()

    def known(self, contents: list[str]) -> dict[str, np.ndarray]:
        """The vectors that are in the cache, by content."""
        known: dict[str, np.ndarray] = {}

        def read(database: sqlite3.Connection) -> None:
            query = "SELECT vector, digest FROM described WHERE content = ? AND key = ?"
            for content in dict.fromkeys(contents):
                line = database.execute(query, (content, self._key)).fetchone()
                whole = line is not None and isinstance(line[0], bytes) and len(line[0]) == 4 * self._n_columns
                if whole and zlib.crc32(line[0]) == line[1]:
                    known[content] = np.frombuffer(line[0], "<f4").astype(np.float32)

        self._in_cache("ro", read)
        return known

    def keep(self, added: Mapping[str, np.ndarray]) -> None:
        """Put vectors into the cache, by content."""
        if not added:
            return
        lines = [(content, self._key, np.asarray(vector, "<f4").tobytes()) for content, vector in added.items()]

        def write(database: sqlite3.Connection) -> None:
            database.execute("BEGIN IMMEDIATE")
            database.executemany(
                "INSERT OR REPLACE INTO described VALUES (?, ?, ?, ?)",
                [(*line, zlib.crc32(line[2])) for line in lines],
            )
            database.execute("COMMIT")

        self._in_cache("rwc", write)

    def _in_cache(self, mode: str, work: Callable[[sqlite3.Connection], None]) -> None:
        """Work with the cache, where it can be used; a damaged one is removed."""
        folder = self._folder
        if folder is None or not _is_usable(folder, may_be_missing=mode != "ro"):
            return
        try:
            with closing(connected(folder.path / NAME, mode, timeout=SECONDS_TO_WAIT)) as database:
                # No journal file, which could name other files: what a crash leaves half written counts as damaged.
                database.execute("PRAGMA journal_mode = MEMORY")
                database.execute("PRAGMA synchronous = OFF")
                if mode == "rwc" and not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    database.execute(SCHEMA)
                check_schema(database, SCHEMA, folder.path / NAME)
                work(database)
        except (StorageError, sqlite3.DatabaseError) as error:
            if str(error) == "interrupted":
                raise_interruption()
            if not isinstance(error, sqlite3.OperationalError):
                with suppress(OSError):
                    folder.remove(NAME)


def _is_usable(folder: Folder, *, may_be_missing: bool) -> bool:
    """Whether SQLite may open it: a plain file without journals that SQLite would follow."""
    try:
        alone = all(folder.stat(NAME + side) is None for side in (JOURNAL, LOG, LOG_INDEX))
        return alone and (folder.file(NAME) is not None or may_be_missing)
    except OSError:  # no plain file: it is left alone
        return False


def cache_folder(path: Path) -> Folder | None:
    """The folder for the cache of a collection that is being made; None where something else has its name."""
    path.mkdir(exist_ok=True)
    return None if path.is_symlink() else Folder.open(path)


def move_cache(partial: Path, part: Path) -> None:
    """Put the cache into the folder of the collection that is being made, and remove its own."""
    if partial.is_symlink() or not partial.is_dir():
        return
    folder = Folder.open(partial)
    with suppress(OSError):
        if folder.file(NAME) is not None:
            os.replace(folder.path / NAME, part / NAME)
    folder.close()
    with suppress(OSError):
        partial.rmdir()
