"""Files by path or URL: change detection, reading bytes, and listing folders.

/rows/0.npy, rows/            a disk
s3://bucket/rows, gs://…      whatever fsspec reaches (extra ``remote``)
"""

from __future__ import annotations

import hashlib
import os
import socket
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import IO, Any

from nearsay.errors import require

# Pieces of a file, evenly spaced, in its digest: enough to detect nearly any change, and fast to read.
PIECES, PIECE_BYTES = 64, 4096


@dataclass(frozen=True)
class Stamp:
    """Metadata of a file, by which a change is detected without reading it.

    Attributes
    ----------
    size : in bytes.
    modified : when it was last written, in nanoseconds; for a URL, the tag or time that the store reports, as text.
    changed : anything else that differs after the file was replaced or written to.
    """

    size: int
    modified: int | str
    changed: tuple[int, ...] = ()


def is_url(path: str | os.PathLike[str]) -> bool:
    """Whether fsspec opens this path.

    >>> is_url("s3://bucket/rows"), is_url("rows/0.npy")
    (True, False)
    """
    return "://" in os.fspath(path)


def full_path(path: str | os.PathLike[str]) -> str:
    """The path from the root, so that a worker that was started elsewhere finds it; a URL as it is."""
    return os.fspath(path) if is_url(path) else os.path.abspath(path)


def relative_to(path: str, name: str) -> str:
    """The path of ``name`` relative to the folder of a file.

    >>> relative_to("s3://bucket/all/snapshot.json", "../rows/0.npy")
    's3://bucket/rows/0.npy'
    """
    if not is_url(path):
        return os.path.normpath(os.path.join(os.path.dirname(os.path.realpath(path)), name))
    protocol, rest = path.split("://", 1)
    return f"{protocol}://{os.path.normpath(PurePosixPath(rest).parent / name)}"


def stamp_of(path: str) -> Stamp:
    """The stamp of a file; raises FileNotFoundError."""
    if is_url(path):
        system, inner = _system(path)
        info = system.info(inner)
        if info["type"] == "directory":
            raise FileNotFoundError(path)
        return Stamp(int(info["size"]), str(system.ukey(inner)))
    status = os.stat(path)
    return Stamp(status.st_size, status.st_mtime_ns, (status.st_ctime_ns, status.st_ino))


def open_file(path: str) -> IO[bytes]:
    """A seekable file."""
    if is_url(path):
        system, inner = _system(path)
        return system.open(inner, "rb")
    return open(path, "rb")


def read_bytes(path: str, start: int, length: int) -> bytes:
    """Some bytes of a file."""
    if is_url(path):
        system, inner = _system(path)
        return system.cat_file(inner, start=start, end=start + length)
    with open(path, "rb") as file:
        file.seek(start)
        return file.read(length)


def is_folder(path: str) -> bool:
    """Whether it is a folder."""
    if is_url(path):
        system, inner = _system(path)
        return bool(system.isdir(inner))
    return os.path.isdir(path)


def files_within(folder: str) -> list[str]:
    """The files of a folder in order of their names, those of its partitions (folders named ``key=value``) too.

    Hidden files (``.name``, ``_name``) are skipped.
    """
    listed: list[str] = []
    for name, is_inner in sorted(_entries(folder)):
        if name.startswith((".", "_")):
            continue
        path = f"{folder.rstrip('/')}/{name}" if is_url(folder) else os.path.join(folder, name)
        if not is_inner:
            listed.append(path)
        elif "=" in name:
            listed += files_within(path)
    return listed


def _entries(folder: str) -> list[tuple[str, bool]]:
    """(name, whether it is a folder) of what lies in a folder."""
    if is_url(folder):
        system, inner = _system(folder)
        listed = system.ls(inner, detail=True)
        return [(each["name"].rstrip("/").rsplit("/", 1)[-1], each["type"] == "directory") for each in listed]
    with os.scandir(folder) as entries:
        return [(each.name, each.is_dir()) for each in entries]


def sampled_digest(path: str, stamp: Stamp) -> str:
    """A digest of a file: SHA-256 of its size and of pieces of it; of a URL, of the metadata of its store."""
    if is_url(path):
        return hashlib.sha256(f"{stamp.size} {stamp.modified}".encode()).hexdigest()
    return _sampled(path, stamp)


@lru_cache(maxsize=1 << 14)
def _sampled(path: str, stamp: Stamp) -> str:
    digest = hashlib.sha256(str(stamp.size).encode())
    with open_file(path) as content:
        if stamp.size <= PIECES * PIECE_BYTES:
            digest.update(content.read())
        else:
            for piece in range(PIECES):
                content.seek((stamp.size - PIECE_BYTES) * piece // (PIECES - 1))
                digest.update(content.read(PIECE_BYTES))
    return digest.hexdigest()


def file_checksum(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a whole file, which a process reads once as long as the file stays the same."""
    return _checksum(os.fspath(path), stamp_of(os.fspath(path)))


@lru_cache(maxsize=1 << 14)
def _checksum(path: str, stamp: Stamp) -> str:
    with open_file(path) as content:
        return hashlib.file_digest(content, "sha256").hexdigest()  # type: ignore[arg-type]


@lru_cache(maxsize=1)
def machine() -> str:
    """The name of this machine."""
    return socket.gethostname()


def _system(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it; listings are not cached."""
    return require("fsspec", "remote").core.url_to_fs(url, use_listings_cache=False)
