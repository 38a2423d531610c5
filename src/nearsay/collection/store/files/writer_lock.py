"""The writer lock: one writer at a time, by a lock of the operating system.

The system releases the lock when a process ends, however it ends, so a crash
never leaves a collection locked. The text in the file names the holder; it is
read only to report that the lock is taken.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nearsay.collection.store.files.folder import LOCK, Folder
from nearsay.errors import CollectionBusy, StorageError

NAME = LOCK
# Windows locks bytes, which others cannot read: lock one far beyond the text.
LOCKED_BYTE = 1 << 20
# Longer texts were not written here.
LONGEST_TEXT = 4096


class WriterLock:
    """Held from ``WriterLock(folder)`` to ``release()``; a second one is refused, in this process too."""

    def __init__(self, folder: Folder) -> None:
        try:
            descriptor = _taken(folder.descriptor_of(NAME, os.O_RDWR | os.O_CREAT))
        except StorageError:
            raise
        except OSError as error:
            raise StorageError(
                f"Cannot open the collection {folder.path} for writing: {error.strerror}."
                " To read it only, open it with read_only=True."
            ) from error
        if descriptor is None:
            raise CollectionBusy(
                f"The collection {folder.path} is being written to by {_in_words(_holder_in(folder))}."
                " Wait until that ends, or open it with read_only=True."
            )
        self._descriptor = descriptor
        folder.watch(NAME, os.fstat(descriptor))
        self._write_holder()

    def _write_holder(self) -> None:
        since = datetime.now(UTC).isoformat(timespec="seconds")
        text = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since}).encode()
        # On a full disk the lock holds all the same; only the name of its holder is missing.
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            os.write(self._descriptor, text)

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._descriptor >= 0:
            with suppress(OSError):
                os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = -1


def locked(path: Path, flags: int = 0) -> int | None:
    """Open a file and lock it until it is closed or this process ends; None where another one has the lock."""
    return _taken(os.open(path, os.O_RDWR | flags | getattr(os, "O_CLOEXEC", 0), 0o666))


def _taken(descriptor: int) -> int | None:
    """The descriptor, locked; None, and closed, where another process has the lock."""
    try:
        _take(descriptor)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def holder_of(folder: Folder) -> str | None:
    """The process that has the collection open for writing, in words; None without one.

    The lock itself is not tried, since a writer that starts at that moment would be refused: the text in the file is
    believed unless its process is gone.
    """
    holder = _holder_in(folder)
    if holder is None or (holder["host"] == socket.gethostname() and not _runs(holder["pid"])):
        return None
    return _in_words(holder)


def _holder_in(folder: Folder) -> dict[str, Any] | None:
    """The holder that the file names; None where it is empty, as it is after a writer closes."""
    try:
        with folder.reading(NAME) as file:
            holder = json.loads(file.read(LONGEST_TEXT))
        if type(holder["pid"]) is int and all(isinstance(holder[name], str) for name in ("host", "since")):
            return dict(holder)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    return None


def _in_words(holder: dict[str, Any] | None) -> str:
    if holder is None:
        return "another process"
    return f"process {holder['pid']} on {holder['host'][:80]}, since {holder['since'][:40]}"


def _runs(pid: int) -> bool:
    if sys.platform == "win32":  # where asking with signal 0 would interrupt it
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass  # of another user
    return True


if sys.platform == "win32":
    import msvcrt

    def _take(descriptor: int) -> None:
        os.lseek(descriptor, LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
