"""Durable files: written, synced, and named in a synced folder when a function returns.

A name in a folder is data of the folder. A file that was synced while its
folder was not can be gone after a power cut, so every new file needs both.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from nearsay.collection.store.files.folder import Folder
from nearsay.data.saved.saved_file import npy_header
from nearsay.errors import StorageError

try:
    # macOS: there, fsync alone does not reach the disk.
    from fcntl import F_FULLFSYNC, fcntl  # type: ignore[attr-defined,unused-ignore]
except ImportError:
    F_FULLFSYNC = None

CHUNK = 1 << 22
# How a file system says that it knows no such thing. A disk that fails says something else.
NOT_SUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.ENOTTY)
# A file that is new.
WRITE_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


@contextmanager
def storage_errors(doing: str) -> Iterator[None]:
    """Turn OS errors into StorageError with the action and the reason."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"Cannot {doing}: {reason}. The collection is as it was before.") from error


def sync_file(descriptor: int) -> None:
    """Return when what was written is on the disk."""
    if F_FULLFSYNC is not None:
        try:
            fcntl(descriptor, F_FULLFSYNC)
            return
        except OSError as error:  # a network drive, whose server has to do it
            if error.errno not in NOT_SUPPORTED:
                raise
    os.fsync(descriptor)


def sync_names(descriptor: int) -> None:
    """``sync_file`` of an open folder. Some network drives know it for files only, and keep names with them."""
    try:
        sync_file(descriptor)
    except OSError as error:
        if error.errno not in NOT_SUPPORTED:
            raise


def sync_folder(folder: Path | Folder) -> None:
    """Return when the names in the folder are on the disk."""
    if isinstance(folder, Folder):
        folder.sync(sync_names)
        return
    if os.name == "nt":  # Windows opens no folders; there, names are journaled with their files
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        sync_names(descriptor)
    finally:
        os.close(descriptor)


def write_array(folder: Folder, name: str, parts: list[np.ndarray]) -> str:
    """Write the parts, one below the other, as one ``.npy`` file and sync it; returns its SHA-256.

    The folder is left to the caller, who may write several files and sync it
    once.
    """
    digest = hashlib.sha256()
    shape = (sum(len(part) for part in parts), parts[0].shape[1])
    descriptor = folder.descriptor_of(name, WRITE_NEW)
    with open(descriptor, "wb", buffering=0) as file:
        for data in (memoryview(npy_header("<f4", shape)), *(bytes_of(part) for part in parts)):
            digest.update(data)
            _write_all(file, data)
        sync_file(file.fileno())
    return digest.hexdigest()


def bytes_of(rows: np.ndarray) -> memoryview:
    """The bytes of float32 rows, little end first, without a copy where that can be helped."""
    return np.ascontiguousarray(rows, dtype="<f4").reshape(-1).view(np.uint8).data


def checksum(file: Path | BinaryIO) -> str:
    """SHA-256 of a file."""
    if isinstance(file, Path):
        with open(file, "rb") as opened:
            return checksum(opened)
    digest = hashlib.sha256()
    while data := file.read(CHUNK):
        digest.update(data)
    return digest.hexdigest()


def copy_file(folder: Folder, name: str, target: Path) -> str:
    """Copy a file of a collection and sync the copy; returns the SHA-256 of what was read."""
    digest = hashlib.sha256()
    with folder.reading(name) as old, open(target, "xb", buffering=0) as new:
        while data := old.read(CHUNK):
            digest.update(data)
            _write_all(new, memoryview(data))
        sync_file(new.fileno())
    return digest.hexdigest()


def sync_tree(folder: Path) -> dict[str, str]:
    """Sync every file and folder below ``folder``, and itself; returns the SHA-256 of every file by its path within."""
    checksums: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            sync_folder(path)
        else:
            # Windows syncs only what is open for writing.
            descriptor = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
            try:
                sync_file(descriptor)
            finally:
                os.close(descriptor)
            checksums[path.relative_to(folder).as_posix()] = checksum(path)
    sync_folder(folder)
    return checksums


def _write_all(file: Any, data: memoryview) -> None:
    """Write all bytes: a single write may be partial, on a full disk and beyond 2 GiB."""
    done = 0
    while done < len(data):
        done += file.write(data[done : done + (1 << 30)])
