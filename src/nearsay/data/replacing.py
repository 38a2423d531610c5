"""Atomic file writes: the old content stays until the new is complete."""

from __future__ import annotations

import io
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO

from nearsay.errors import InputError

# Permissions of a new file, before the umask; an existing file keeps its own.
ANYONE = 0o666
OWNER_ALONE = 0o600


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Give a file to write that replaces ``path`` if, and only if, the block ends without an error.

    A concurrent reader of ``path`` sees the old content or the new, never a part. A link stays a link, and the file it
    leads to is replaced; its owner and permissions are kept. What is not a file (a folder, a device, a pipe) is
    refused.

    What is written has no name until it is whole, so a process that is killed leaves nothing behind. Where the system
    knows no files without names, that is a hidden file ``.NAME.….part``.
    """
    # Where a link leads: to rename a file over the link itself would leave the file behind it as it was.
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise InputError(f"Cannot write {path}: the folder {target.parent} does not exist. Create it first.")
    try:
        old = os.stat(path)
    except FileNotFoundError:
        old = None
    if old is not None and not stat.S_ISREG(old.st_mode):
        raise InputError(
            f"Cannot write {path}: it is a {_kind(old.st_mode)}, and only a file can be replaced as a whole."
            " Name a file, and copy it from there."
        )
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    mode = ANYONE if old is None else OWNER_ALONE
    nameless = _open_nameless(target.parent, mode)
    descriptor = os.open(part, _WRITE_NEW, mode) if nameless is None else nameless
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            if old is not None:
                _give_rights(descriptor, old)
            # Without this a power cut could leave the new name with none of the content.
            os.fsync(descriptor)
            if nameless is not None:
                # A directory descriptor, of no use with a full path, makes Python follow the link to the open file.
                os.link(f"/proc/self/fd/{descriptor}", part, src_dir_fd=descriptor)
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def as_text(out: IO[bytes]) -> Iterator[IO[str]]:
    """Write text, as UTF-8 and with line ends as they are, to a file that the caller closes."""
    text = io.TextIOWrapper(out, encoding="utf-8", newline="")
    try:
        yield text
    finally:
        text.detach()


# A file that is new, and bytes as they are (elsewhere than on Windows they always are).
_WRITE_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def _open_nameless(folder: Path, mode: int) -> int | None:
    """An unnamed temporary file (O_TMPFILE, Linux only), or None."""
    if not hasattr(os, "O_TMPFILE") or not os.path.isdir("/proc/self/fd"):
        return None
    try:
        return os.open(folder, os.O_TMPFILE | os.O_WRONLY, mode)
    except OSError:  # not on every file system; whatever else is wrong, the next attempt will say
        return None


def _give_rights(descriptor: int, old: os.stat_result) -> None:
    if hasattr(os, "fchown"):
        with suppress(PermissionError):  # only the system's administrator can give a file away
            os.fchown(descriptor, old.st_uid, old.st_gid)
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _kind(mode: int) -> str:
    kinds = {"folder": stat.S_ISDIR, "pipe": stat.S_ISFIFO, "socket": stat.S_ISSOCK}
    return next((kind for kind, is_kind in kinds.items() if is_kind(mode)), "device")
