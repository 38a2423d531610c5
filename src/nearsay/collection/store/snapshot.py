"""Snapshots for other machines: a JSON file with the paths of all vectors at one version, instead of SQLite.

    {"format": 1, "kind": "nearsay snapshot", "event": 42, "digest": "…", "n_rows": 70000, "n_columns": 128,
     "shards": [{"file": "../leaves/shards/000000000000-….npy", "first": 0, "n_rows": 65536, "sha256": "…"},
                {"file": "leaves-rows-65536-70000-….npy", "first": 65536, "n_rows": 4464, "sha256": "…"}],
     "forgotten": [17, 4711]}

Paths are relative to the file itself. The last shard, next to it, holds the rows that were not sealed yet.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.collection.store.database import Database
from nearsay.collection.store.events import last_digest
from nearsay.collection.store.files.durable_files import bytes_of, checksum, storage_errors, sync_folder
from nearsay.collection.store.shard_files import ShardFile, Shards, open_shard
from nearsay.data.replacing import replacing
from nearsay.data.saved.saved_file import npy_header
from nearsay.errors import InputError, StorageError

FORMAT = 1
KIND = "nearsay snapshot"


@dataclass(frozen=True)
class Snapshot:
    """A version of a collection's vectors, as read from the file that ``Store.snapshot`` writes.

    Attributes
    ----------
    event : the version: the number of the last event that is counted in.
    digest : names the whole history up to there; equal digests are equal collections.
    n_rows, n_columns : the size of all shards together.
    shards : file, first row, number of rows and SHA-256 of each, in order; files are full paths here.
    forgotten : rows that are no longer part of the collection.
    """

    event: int
    digest: str
    n_rows: int
    n_columns: int
    shards: list[ShardFile]
    forgotten: list[int]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Snapshot:
        """Read the JSON alone; nothing is opened or checked beyond it."""
        path = Path(os.path.abspath(path))
        try:
            content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            known = content["kind"] == KIND
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is not a snapshot of a collection ({error!r}).") from error
        if not known:
            raise InputError(f"{path} is not a snapshot of a collection.")
        if content.get("format") != FORMAT:
            raise InputError(
                f"The snapshot {path} has format {content.get('format')!r}; this version of nearsay reads {FORMAT}."
                " Install a newer nearsay to read it."
            )
        try:
            shards = [_shard(path, **one) for one in content["shards"]]
            numbers = (content["event"], content["n_rows"], content["n_columns"], *content["forgotten"])
            if not all(type(each) is int and each >= 0 for each in numbers) or type(content["digest"]) is not str:
                raise ValueError("a number is none")
            names = ("event", "digest", "n_rows", "n_columns", "forgotten")
            return cls(shards=shards, **{name: content[name] for name in names})
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"The snapshot {path} is damaged ({error}). Make it again.") from error

    def blocks(self) -> list[np.ndarray]:
        """All rows in order, as read-only memory maps; a file that is missing or of another size is refused."""
        return [open_shard(Path(shard.file), shard.n_rows, self.n_columns) for shard in self.shards]

    def check(self) -> None:
        """Read every file and compare its checksum."""
        for shard in self.shards:
            open_shard(Path(shard.file), shard.n_rows, self.n_columns)
            if checksum(Path(shard.file)) != shard.sha256:
                raise StorageError(f"The shard {shard.file} is not as it was written. Copy it again from its source.")


def write_snapshot(database: Database, vectors: Shards, path: Path) -> Path:
    """Write the snapshot, and next to it the rows not sealed yet; both are on the disk when this returns."""
    with database.one_state():
        shards, tail = vectors.sealed(), vectors.tail()
        event = database.one("SELECT max(number) FROM events") or 0
        digest = last_digest(database)
        forgotten = [row for (row,) in database.all("SELECT row FROM items WHERE NOT alive ORDER BY row")]
    first = shards[-1].end if shards else 0
    files = [_shard_record(shard, os.path.relpath(vectors.folder / shard.file, path.parent)) for shard in shards]
    with storage_errors(f"write the snapshot {path}"):
        if len(tail):
            files.append(_write_tail(tail, first, path))
        content = {
            "format": FORMAT,
            "kind": KIND,
            "event": event,
            "digest": digest,
            "n_rows": first + len(tail),
            "n_columns": vectors.n_columns,
            "shards": files,
            "forgotten": forgotten,
        }
        with replacing(path) as out:
            out.write(json.dumps(content, indent=1).encode())
        sync_folder(path.parent)
    return path


def _write_tail(tail: np.ndarray, first: int, path: Path) -> dict[str, Any]:
    """A file named by the digest of its content: the same rows give the same file."""
    if not path.parent.is_dir():
        raise InputError(f"Cannot write {path}: the folder {path.parent} does not exist. Create it first.")
    content = npy_header("<f4", (len(tail), tail.shape[1])), bytes_of(tail)
    sha256 = hashlib.sha256(b"".join(content)).hexdigest()
    name = f"{path.stem}-rows-{first}-{first + len(tail)}-{sha256[:16]}.npy"
    with replacing(path.with_name(name)) as out:
        out.writelines(content)
    return _shard_record(ShardFile(first, len(tail), name, sha256), name)


def _shard(snapshot: Path, file: str, first: int, n_rows: int, sha256: str) -> ShardFile:
    """A shard as the snapshot describes it; its path is relative to the snapshot."""
    if not (type(file) is type(sha256) is str and type(first) is type(n_rows) is int and min(first, n_rows) >= 0):
        raise ValueError("a shard is described otherwise")
    if os.path.isabs(file):
        raise ValueError(f"{file!r} is no relative path")
    return ShardFile(file=os.path.normpath(snapshot.parent / file), first=first, n_rows=n_rows, sha256=sha256)


def _shard_record(shard: ShardFile, file: str) -> dict[str, Any]:
    return {"file": Path(file).as_posix(), "first": shard.first, "n_rows": shard.n_rows, "sha256": shard.sha256}
