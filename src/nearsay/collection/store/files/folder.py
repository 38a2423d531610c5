"""Access to the files of a collection: an open folder, and only names that this program writes.

    Folder.open(path) ──► descriptor of the folder ──► a name of the table ──► no link ──► a plain file with one name
                                                       else: left alone        else: StorageError

A collection may come from a stranger, and a link, a second name or a pipe among its entries would reach a file
elsewhere or wait forever. So entries are opened relative to the folder's descriptor, without following links. Where
there are no descriptors (Windows), and for SQLite and ``saved_objects``, which take paths (``path_of``), the same is
checked just before and after opening. Who may write to the folder at that very moment is not stopped.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from nearsay.errors import StorageError

DATABASE, LOCK, CACHE = "collection.sqlite", "writer.lock", "described.sqlite"
SHARDS, KEPT, UPLOADS = FOLDERS = "shards", "kept", "pictures"
# Files that SQLite writes next to a database. A journal is not ours: a collection has a write-ahead log instead.
LOG, LOG_INDEX, JOURNAL = "-wal", "-shm", "-journal"

WORD = r"\w[\w.-]{0,63}"
# Names that this program writes, by the folder within the collection; below a folder of ``kept`` it is all one.
NAMES = {
    "": re.compile(rf"({DATABASE}|{CACHE})({LOG}|{LOG_INDEX}|{JOURNAL})?|{LOCK}|{SHARDS}|{KEPT}|{UPLOADS}"),
    SHARDS: re.compile(r"[0-9]{12}-[0-9a-f]{16}\.npy"),
    KEPT: re.compile(rf"[0-9]{{12}}-{WORD}-[0-9a-f]{{8}}", re.ASCII),
    f"{KEPT}/*": re.compile(WORD, re.ASCII),
    UPLOADS: re.compile(r"[0-9a-f]{64}\.[a-z]{1,5}"),
}
LARGE = 1 << 30  # bytes; below that a file of holes does no harm
DEEPEST = 8  # folders below one of ``kept``
# Without these a name is checked by path instead.
BY_DESCRIPTOR = {os.open, os.stat, os.mkdir, os.unlink, os.rmdir} <= os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
# Opening a pipe or a device must not block before it is refused.
NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
CAREFUL = NOFOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
FOLDER_FLAGS = os.O_RDONLY | CAREFUL | getattr(os, "O_DIRECTORY", 0)
BINARY = getattr(os, "O_BINARY", 0)
ADVICE = "A collection holds plain files and folders of its own alone. Use a copy of it without this."


class Folder:
    """A folder of a collection; make the outermost one with ``Folder.open``.

    Attributes
    ----------
    path : for messages, and for what takes paths alone.
    """

    def __init__(self, path: Path, within: str, descriptor: int | None, depth: int = 0) -> None:
        self.path, self._within, self._descriptor, self._depth = path, within, descriptor, depth
        self._ours = NAMES[within].fullmatch
        self._folders: dict[str, Folder] = {}
        self._watched: dict[str, tuple[int, int]] = {}
        self._identity = _identity(os.lstat(path) if descriptor is None else os.fstat(descriptor))

    @classmethod
    def open(cls, path: Path) -> Folder:
        """The folder of a collection. Its own path may contain links: the caller knows where they lead."""
        return cls(path, "", os.open(path, FOLDER_FLAGS & ~NOFOLLOW) if BY_DESCRIPTOR else None)

    def close(self) -> None:
        """Give descriptors back; a second time does nothing."""
        for folder in self._folders.values():
            folder.close()
        self._folders.clear()
        if self._descriptor is not None and self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        with suppress(OSError, AttributeError):
            self.close()

    # ------------------------------------------------------------ looking

    def stat(self, name: str) -> os.stat_result | None:
        """The entry of a name, without following links; None where there is none."""
        if not isinstance(name, str) or self._ours(name) is None:
            raise StorageError(
                f"The collection names a file {name!r} in {self.path}, which no version of nearsay writes."
                " It was changed by something else: restore it from a backup."
            )
        try:
            return os.stat(self._at(name), dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def file(self, name: str) -> os.stat_result | None:
        """A plain file; None where there is none, and ``StorageError`` where there is anything else."""
        entry = self.stat(name)
        fault = None if entry is None else _fault_of_file(entry)
        if fault is not None:
            raise StorageError(f"{self.path / name} is {fault}. {ADVICE}")
        return entry

    def path_of(self, name: str) -> Path:
        """The path of a regular file, or of one not created yet, for functions that take paths only."""
        self.file(name)
        return self.path / name

    def names(self) -> list[str]:
        """Plain files and folders with names that this program writes, in order; all else is left alone."""
        return [name for name, entry in self._entries() if self._ours(name) and self._fault(name, entry) is None]

    def faults(self) -> list[str]:
        """Entries with names that this program writes, but that it never made: links, pipes, second names."""
        return [
            f"{self.path / name} is {self._fault(name, entry)}. {ADVICE}"
            for name, entry in self._entries()
            if self._ours(name) and self._fault(name, entry) is not None
        ]

    def strangers(self) -> list[Path]:
        """Entries with names that this program does not write; they are ignored."""
        return [self.path / name for name, _ in self._entries() if not self._ours(name)]

    def n_bytes(self, name: str) -> int:
        """The size of a file, or of all files in a folder."""
        entry = self.stat(name)
        if entry is None or self._fault(name, entry) is not None:
            return 0
        if not stat.S_ISDIR(entry.st_mode):
            return entry.st_size
        folder = self.folder(name)
        return 0 if folder is None else sum(map(folder.n_bytes, folder.names()))

    # ------------------------------------------------------------ opening and changing

    def folder(self, name: str, *, make: bool = False) -> Folder | None:
        """A folder within this one, kept open; None if it does not exist, unless it is to be made."""
        known = self._folders.get(name)
        if known is not None:
            return known
        entry = self.stat(name)
        if entry is None:
            if not make:
                return None
            os.mkdir(self._at(name), dir_fd=self._descriptor)
        elif not stat.S_ISDIR(entry.st_mode) or _is_link(entry):
            raise StorageError(f"{self.path / name} is {_fault_of_file(entry) or 'a file'}, and no folder. {ADVICE}")
        if self._depth > DEEPEST:
            raise StorageError(f"{self.path / name} lies deeper than {DEEPEST} folders. {ADVICE}")
        within = name if not self._within else f"{KEPT}/*"
        descriptor = os.open(name, FOLDER_FLAGS, dir_fd=self._descriptor) if self._descriptor is not None else None
        opened = Folder(self.path / name, within, descriptor, self._depth + 1)
        self._folders[name] = opened
        return opened

    def made(self, name: str) -> Folder:
        """A folder within this one, created if necessary."""
        folder = self.folder(name, make=True)
        assert folder is not None
        return folder

    def descriptor_of(self, name: str, flags: int = os.O_RDONLY) -> int:
        """Open a regular file; the caller closes the descriptor."""
        before = self.file(name)
        if before is None and not flags & os.O_CREAT:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.path / name))
        descriptor = os.open(self._at(name), flags | CAREFUL | BINARY, 0o666, dir_fd=self._descriptor)
        after = os.fstat(descriptor)
        fault = _fault_of_file(after)
        if fault is None and before is not None and _identity(before) != _identity(after):
            fault = "another file than a moment ago"
        if fault is not None:
            os.close(descriptor)
            raise StorageError(f"{self.path / name} is {fault}. {ADVICE}")
        return descriptor

    def reading(self, name: str) -> BinaryIO:
        """Open a plain file for reading, without a buffer."""
        return open(self.descriptor_of(name), "rb", buffering=0)

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with the files that this program writes; other files stay."""
        entry = self.stat(name)
        if entry is None or self._fault(name, entry) is not None:
            return
        if not stat.S_ISDIR(entry.st_mode):
            os.unlink(self._at(name), dir_fd=self._descriptor)
            return
        folder = self.folder(name)
        if folder is not None:
            for within in folder.names():
                folder.remove(within)
            folder.close()
            del self._folders[name]
        os.rmdir(self._at(name), dir_fd=self._descriptor)

    def sync(self, sync_file: Callable[[int], None]) -> None:
        """Return when the names are on the disk; Windows opens no folders, there they are journaled with the files."""
        if self._descriptor is not None:
            sync_file(self._descriptor)

    # ------------------------------------------------------------ is it still the same?

    def watch(self, name: str, entry: os.stat_result | None = None) -> bool:
        """Let ``check_watched`` check that this file is still the one under its name; False without such a file.

        ``entry`` is the status of the file as it was opened.
        """
        entry = entry or self.file(name)
        if entry is not None:
            self._watched[name] = _identity(entry)
        return entry is not None

    def watches(self, name: str) -> bool:
        """Whether ``check_watched`` checks this file."""
        return name in self._watched

    def check_watched(self) -> None:
        """Raise an error if the folder was moved or replaced, or a watched file was replaced."""
        gone = None
        try:
            if _identity(os.stat(self.path)) != self._identity:
                gone = self.path
            for name, identity in self._watched.items():
                if _identity(os.stat(self._at(name), dir_fd=self._descriptor, follow_symlinks=False)) != identity:
                    gone = self.path / name
        except FileNotFoundError:
            gone = self.path
        if gone is not None:
            raise StorageError(
                f"The collection {self.path} was moved, removed or replaced while it was open ({gone.name}): nothing"
                " more is written. Close it, and open it again where it is now."
            )

    # ------------------------------------------------------------ names

    def _at(self, name: str) -> str | Path:
        return self.path / name if self._descriptor is None else name

    def _fault(self, name: str, entry: os.stat_result) -> str | None:
        """Why an entry is not of the kind that this program writes under this name; None if it is."""
        a_folder = stat.S_ISDIR(entry.st_mode) and not _is_link(entry)
        if not self._within:
            may_be_folder, may_be_file = name in FOLDERS, name not in FOLDERS
        else:
            may_be_folder, may_be_file = self._within not in (SHARDS, UPLOADS), self._within != KEPT
        if a_folder:
            return None if may_be_folder else "a folder"
        return _fault_of_file(entry) or (None if may_be_file else "a file, and no folder")

    def _entries(self) -> list[tuple[str, os.stat_result]]:
        with os.scandir(self.path if self._descriptor is None else self._descriptor) as entries:
            return sorted((entry.name, entry.stat(follow_symlinks=False)) for entry in entries)


def _identity(entry: os.stat_result) -> tuple[int, int]:
    return entry.st_dev, entry.st_ino


def _is_link(entry: os.stat_result) -> bool:
    """A link; on Windows also a junction or a mount point."""
    return stat.S_ISLNK(entry.st_mode) or bool(getattr(entry, "st_reparse_tag", 0))


def _fault_of_file(entry: os.stat_result) -> str | None:
    if _is_link(entry):
        return "a link"
    if stat.S_ISDIR(entry.st_mode):
        return "a folder"
    if not stat.S_ISREG(entry.st_mode):
        return "no plain file (a pipe, a socket or a device)"
    if entry.st_nlink > 1:
        return f"a file with {entry.st_nlink} names (hard links)"
    # A file of holes takes no room until it is read or copied. Disks that compress hold less than a file's size, too.
    hollow = entry.st_size > LARGE and getattr(entry, "st_blocks", entry.st_size) * 512 * 1000 < entry.st_size
    return f"a file of {entry.st_size:,} bytes that holds next to nothing" if hollow else None
