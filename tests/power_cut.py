"""What a disk holds after a power cut, from the log that ``written_and_synced.c`` keeps.

    file      durable bytes + writes since its last sync
    folder    durable names + names given and taken since its last sync

A sync moves the right side to the left. At a cut the left side is there for
sure, and of the right side nothing, or as much as luck has it: some writes, in
whole or their first half, and the names up to some point. A file that was
synced in a folder that was not has no name, so it is gone.
"""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

OPEN, WRITE, TRUNCATE, SYNC, RENAME, UNLINK, MKDIR, RMDIR, UNKNOWN = range(1, 10)
HEAD = struct.Struct("=iiiqqii")


class Record(NamedTuple):
    operation: int
    descriptor: int
    flags: int
    offset: int
    data: bytes
    path: str
    second: str


@dataclass(eq=False)
class File:
    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)

    def sync(self) -> None:
        for change in self.pending:
            _apply(self.durable, *change)
        self.pending.clear()

    def after_a_cut(self, luck: random.Random | None) -> bytes:
        content = bytearray(self.durable)
        for offset, data in self.pending if luck else ():
            if luck.random() < 0.5:
                torn = data is not None and luck.random() < 0.2
                _apply(content, offset, data[: len(data) // 2] if torn else data)
        return bytes(content)


@dataclass(eq=False)
class Folder:
    now: dict[str, File | Folder] = field(default_factory=dict)
    durable: dict[str, File | Folder] = field(default_factory=dict)
    pending: list[dict[str, File | Folder | None]] = field(default_factory=list)

    def change(self, names: dict[str, File | Folder | None]) -> None:
        """Give and take names, all in one step."""
        _rename(self.now, names)
        self.pending.append(names)

    def sync(self) -> None:
        self.durable = dict(self.now)
        self.pending.clear()

    def after_a_cut(self, luck: random.Random | None) -> dict[str, File | Folder]:
        names = dict(self.durable)
        for change in self.pending[: luck.randint(0, len(self.pending))] if luck else ():
            _rename(names, change)
        return names


class Disk:
    """The folder that was watched, as far as the log was played."""

    def __init__(self, root: Path) -> None:
        self.root = Folder()
        self.path = str(root)
        self.descriptors: dict[int, File | Folder] = {}

    def play(self, record: Record) -> None:
        """One more record of the log."""
        if record.operation == OPEN:
            self._open(record)
        elif record.operation in (WRITE, TRUNCATE):
            node = self.descriptors[record.descriptor]
            node.pending.append((record.offset, record.data if record.operation == WRITE else None))
        elif record.operation == SYNC:
            self.descriptors[record.descriptor].sync()
        elif record.operation == RENAME:
            (old_folder, old), (folder, name) = self._place(record.path), self._place(record.second)
            assert old_folder is folder, "only names within one folder change in one step"
            folder.change({old: None, name: folder.now[old]})
        elif record.operation == MKDIR:
            folder, name = self._place(record.path)
            folder.change({name: Folder()})
        elif record.operation in (UNLINK, RMDIR):
            folder, name = self._place(record.path)
            folder.change({name: None})
        else:
            raise AssertionError(f"the log has no words for {record.path}")

    def _open(self, record: Record) -> None:
        if record.path.rstrip("/") == self.path:
            self.descriptors[record.descriptor] = self.root
            return
        folder, name = self._place(record.path)
        if name not in folder.now:
            folder.change({name: File()})
        node = folder.now[name]
        if record.flags & os.O_TRUNC:
            node.pending.append((0, None))
        self.descriptors[record.descriptor] = node

    def _place(self, path: str) -> tuple[Folder, str]:
        *folders, name = Path(path).relative_to(self.path).parts
        folder = self.root
        for one in folders:
            folder = folder.now[one]
        return folder, name

    def write_after_a_cut(self, to: Path, luck: random.Random | None = None) -> None:
        """Make the files that are there when the power comes back; without luck, only what was synced."""
        _write(self.root, to, luck)


def read_log(path: Path) -> Iterator[Record]:
    """All records, in the order in which things happened."""
    with open(path, "rb") as file:
        while head := file.read(HEAD.size):
            operation, descriptor, flags, offset, size, length, second_length = HEAD.unpack(head)
            name, second = file.read(length).decode(), file.read(second_length).decode()
            data = file.read(size) if operation == WRITE else b""
            yield Record(operation, descriptor, flags, offset, data, name, second)


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    """A write at an offset, or, without data, a cut or a lengthening to there."""
    end = offset + len(data or b"")
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    if data is None:
        del content[offset:]
    else:
        content[offset:end] = data


def _rename(names: dict[str, File | Folder], change: dict[str, File | Folder | None]) -> None:
    for name, node in change.items():
        names.pop(name, None) if node is None else names.__setitem__(name, node)


def _write(folder: Folder, to: Path, luck: random.Random | None) -> None:
    to.mkdir(exist_ok=True)
    for name, node in folder.after_a_cut(luck).items():
        if isinstance(node, Folder):
            _write(node, to / name, luck)
        else:
            (to / name).write_bytes(node.after_a_cut(luck))
