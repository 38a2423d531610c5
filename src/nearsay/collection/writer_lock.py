"""One writer at a time: a lock of the operating system, and a word on who holds it.

The system gives the lock back when a process ends, however it ends, so a crash
never leaves a collection locked. What stands in the file is for people: it is
read only where the lock is taken.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from nearsay.errors import CollectionBusy, StorageError

NAME = "writer.lock"
# Windows locks bytes, and nobody else may read those: one far behind the text is taken.
LOCKED_BYTE = 1 << 20


class WriterLock:
    """Held from ``WriterLock(folder)`` to ``release()``; a second one is refused, in this process too."""

    def __init__(self, folder: Path) -> None:
        path = folder / NAME
        try:
            descriptor = locked(path, os.O_CREAT)
        except OSError as error:
            raise StorageError(
                f"Cannot open the collection {folder} for writing: {error.strerror}."
                " To read it only, open it with read_only=True."
            ) from error
        if descriptor is None:
            raise CollectionBusy(
                f"The collection {folder} is being written to by {_holder(path)}."
                " Wait until that ends, or open it with read_only=True."
            )
        self._descriptor = descriptor
        self._write_holder()

    def _write_holder(self) -> None:
        since = datetime.now(UTC).isoformat(timespec="seconds")
        text = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since}).encode()
        # On a full disk the lock holds all the same; only the word on who has it is missing.
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            os.write(self._descriptor, text)

    def release(self) -> None:
        """Let the next writer in; a second time does nothing."""
        if self._descriptor >= 0:
            with suppress(OSError):
                os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = -1


def locked(path: Path, flags: int = 0) -> int | None:
    """Open a file and lock it until it is closed or this process ends; None where another one has the lock."""
    descriptor = os.open(path, os.O_RDWR | flags | getattr(os, "O_CLOEXEC", 0), 0o666)
    try:
        _take(descriptor)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def holder_of(folder: Path) -> str | None:
    """Who has the collection open for writing, in words; None where nobody has.

    The lock itself is not touched, since a writer that comes at that moment would be refused: what a writer wrote
    down is believed unless its process is gone.
    """
    path = folder / NAME
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        if said["host"] == socket.gethostname() and not _runs(int(said["pid"])):
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None  # empty since the last one closed it
    return _holder(path)


def _runs(pid: int) -> bool:
    if sys.platform == "win32":  # where asking with signal 0 would interrupt it
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # of another user
    return True


def _holder(path: Path) -> str:
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        return f"process {said['pid']} on {said['host']}, since {said['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


if sys.platform == "win32":
    import msvcrt

    def _take(descriptor: int) -> None:
        os.lseek(descriptor, LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
