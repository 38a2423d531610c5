"""Vectors of pictures that were described before, by the content of the file: nothing is described twice.

A cache and nothing more: it may be deleted at any time, a damaged line is described again,
and where it cannot be opened or written to, everything is described.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.collection.picture_sources import Describe
from nearsay.data.images import content_hash
from nearsay.describe.folder import SkippedImage

NAME = "described.sqlite"


class CachedDescribe:
    """Describes pictures, those that it has not seen before.

    Parameters
    ----------
    describe : what describes them.
    folder : where the cache lies, or None for none.
    record : what is known of how they are described; vectors of another record are not taken.
    """

    def __init__(self, describe: Describe, folder: Path | None, record: Mapping[str, Any]) -> None:
        self.name = getattr(describe, "name", "")
        self.n_known = 0
        self._describe = describe
        self._path = None if folder is None else folder / NAME
        self._key = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()

    def __call__(self, paths: list[Path]) -> tuple[np.ndarray, list[SkippedImage]]:
        """A row for each picture that could be described, and those that could not."""
        contents = [content_hash(path) if path.is_file() else "" for path in paths]
        known = self._known(contents)
        new = [path for path, content in zip(paths, contents, strict=True) if content not in known]
        X, skipped = self._describe(new) if new else (np.empty((0, 0), np.float32), [])
        gone = {Path(each.path) for each in skipped}
        fresh = iter(X)
        rows, found = [], {}
        for path, content in zip(paths, contents, strict=True):
            if content in known:
                rows.append(known[content])
            elif path not in gone:
                rows.append(next(fresh))
                found[content] = rows[-1]
        self.n_known += len(paths) - len(new)
        self._keep(found)
        return (np.stack(rows) if rows else np.empty((0, 0), np.float32)), list(skipped)

    def _known(self, contents: list[str]) -> dict[str, np.ndarray]:
        known: dict[str, np.ndarray] = {}
        if self._path is None or not self._path.is_file():
            return known
        try:
            with closing(sqlite3.connect(f"{self._path.as_uri()}?mode=ro", uri=True, timeout=1)) as database:
                for content in dict.fromkeys(contents):
                    line = database.execute(
                        "SELECT vector, digest FROM described WHERE content = ? AND key = ?", (content, self._key)
                    ).fetchone()
                    if line is not None and zlib.crc32(line[0]) == line[1]:
                        known[content] = np.frombuffer(line[0], "<f4").astype(np.float32)
        except sqlite3.Error:
            return known
        return known

    def _keep(self, found: Mapping[str, np.ndarray]) -> None:
        if self._path is None or not found:
            return
        lines = [(content, self._key, np.asarray(vector, "<f4").tobytes()) for content, vector in found.items()]
        try:
            with closing(sqlite3.connect(self._path, timeout=1)) as database, database:
                database.execute("PRAGMA synchronous=OFF")
                database.execute(
                    "CREATE TABLE IF NOT EXISTS described"
                    " (content TEXT, key TEXT, vector BLOB, digest INTEGER, PRIMARY KEY (content, key)) WITHOUT ROWID"
                )
                database.executemany(
                    "INSERT OR REPLACE INTO described VALUES (?, ?, ?, ?)",
                    [(*line, zlib.crc32(line[2])) for line in lines],
                )
        except sqlite3.DatabaseError as error:
            if not isinstance(error, sqlite3.OperationalError):  # damaged: begin again next time
                self._path.unlink(missing_ok=True)
