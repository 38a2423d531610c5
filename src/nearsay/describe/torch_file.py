"""Read weights that torch saved, without torch: arrays by name, and no code of the file is ever run.

                     ┌ before 1.6: five pickles in a row, the last one a list of keys ──► length, numbers; length, ...
file ──► restricted  │
         unpickler ──┴ since 1.6: a zip archive, name/data.pkl ─────────────────────────► name/data/KEY: numbers
             │                                                                                    │
             └──► names, and of each tensor: key, offset, shape, strides ──── looked up in ───────┘ ──► numpy arrays

A pickle is a program that may call whatever it can name. Here it can name ordered dicts, tensors and the types of
numbers; any other name is an error, before anything is imported or called.
"""

from __future__ import annotations

import os
import pickle
import pickletools
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from nearsay.errors import SavedFileError

# What the first pickle of a file without an archive holds.
MAGIC_NUMBER = 0x1950A86A20F9469CFC6C

# The types of numbers, as torch calls them and as numpy does; always little-endian on disk.
STORAGES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "<i1",
    "ByteStorage": "<u1",
    "BoolStorage": "?",
}


class _Storage(NamedTuple):
    """The numbers of one or several tensors, stored elsewhere in the file."""

    kind: str
    key: str
    length: int


class _Tensor(NamedTuple):
    """A view of a storage."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Rebuild:
    """Stands for ``torch._utils._rebuild_tensor_v2``. An object without attributes, so that a pickle cannot set any."""

    __slots__ = ()

    def __call__(self, storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> _Tensor:
        numbers = (offset, *shape, *strides)
        if not isinstance(storage, _Storage) or not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError("a tensor is made of a storage, an offset, a shape and strides")
        if len(shape) != len(strides):
            raise ValueError(f"a tensor has {len(shape)} sides and {len(strides)} strides")
        return _Tensor(storage, offset, tuple(shape), tuple(strides))


# The only names allowed in a file. Types of numbers are strings here: they cannot be called or written to.
ALLOWED: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _Rebuild(),
    **{("torch", name): kind for name, kind in STORAGES.items()},
}


class _Refused(Exception):
    """A file names something other than ordered dicts, tensors and types of numbers."""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise _Refused(f"{module}.{name}")
        return ALLOWED[module, name]

    def persistent_load(self, saved: Any) -> _Storage:
        what, kind, key, _device, length, *view = saved
        if what != "storage" or kind not in STORAGES.values() or not isinstance(key, str):
            raise ValueError("a storage has a known kind and a key")
        if type(length) is not int or length < 0 or any(part is not None for part in view):
            raise ValueError("a storage has a length, and is not a part of another one")
        return _Storage(kind, key, length)


def read_torch_weights(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The tensors of a state dict that ``torch.save`` wrote, by name. Torch is not needed, and no code is run.

    Anything but ordered dicts and tensors in the file is refused with a SavedFileError that names it; so is a file
    that is damaged, cut short, or claims to hold more numbers than it does. Tensors that share numbers in the file
    share them here, as in torch: whatever it says, a file takes no more memory than about twice its size.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    try:
        saved, numbers = _from_archive(path) if zipfile.is_zipfile(path) else _from_stream(path)
        return {name: _view(tensor, numbers) for name, tensor in _named_tensors(saved)}
    except _Refused as error:
        raise SavedFileError(
            f"{path} names {error}, which a state dict does not need. No code was run. Read only files that hold a"
            " state dict, and if this one should, fetch it again from where you trust it."
        ) from error
    except Exception as error:  # a damaged pickle can surface as nearly any of them
        raise SavedFileError(f"{path} is not a state dict saved by torch, or is damaged ({error}).") from error


def _from_stream(path: Path) -> tuple[Any, Callable[[_Storage], np.ndarray]]:
    """What the file holds, and a function that gives the numbers of a storage."""
    with path.open("rb") as file:
        if _unpickled(file) != MAGIC_NUMBER:
            raise ValueError("it does not start as such a file does")
        _version, machine, saved, keys = (_unpickled(file) for _ in range(4))
        if machine["little_endian"] is not True:
            raise ValueError("it was written by a big-endian machine")
        kinds = {tensor.storage.key: tensor.storage.kind for _, tensor in _named_tensors(saved)}
        runs = {}
        for key in keys:
            (length,) = struct.unpack("<q", file.read(8))
            runs[key] = _array(file, kinds[key], length)
        return saved, lambda storage: runs[storage.key]


def _from_archive(path: Path) -> tuple[Any, Callable[[_Storage], np.ndarray]]:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("torch compresses nothing, and this is compressed")
        if sum(member.file_size for member in members) > path.stat().st_size:
            raise ValueError("its parts are larger than the file")
        (listed,) = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        folder = listed.removesuffix("data.pkl")
        if f"{folder}byteorder" in archive.namelist() and archive.read(f"{folder}byteorder") != b"little":
            raise ValueError("it was written by a big-endian machine")
        with archive.open(listed) as file:
            saved = _unpickled(file)
        runs: dict[_Storage, np.ndarray] = {}
        read: dict[str, _Storage] = {}
        for _, tensor in _named_tensors(saved):
            storage = tensor.storage
            # Two kinds of numbers under one key would be read twice; no weights are saved like that.
            if read.setdefault(storage.key, storage) != storage:
                raise ValueError(f"the storage {storage.key} is described in two ways")
            if storage not in runs:
                with archive.open(f"{folder}data/{storage.key}") as file:
                    runs[storage] = _array(file, storage.kind, storage.length)
        return saved, runs.__getitem__


def _unpickled(file: Any) -> Any:
    start = file.tell()
    for count, (opcode, argument, _) in enumerate(pickletools.genops(file)):
        # The memo of a pickle grows to the largest index: one out of order could fill the memory.
        if "PUT" in opcode.name and isinstance(argument, int) and argument > count:
            raise ValueError("its memo is out of order")
    file.seek(start)
    return _Unpickler(file).load()


def _array(file: BinaryIO | Any, kind: str, length: int) -> np.ndarray:
    """The next numbers of the file: as many as there should be, or an error."""
    here = file.tell()
    left = file.seek(0, os.SEEK_END) - here
    file.seek(here)
    size = length * np.dtype(kind).itemsize
    if not 0 <= size <= left:
        raise ValueError(f"it should hold {length:,} more numbers, but ends before")
    run = np.frombuffer(bytearray(file.read(size)), dtype=kind)  # a bytearray, so that it can be written to
    return run.astype(run.dtype.newbyteorder("="), copy=False)


def _named_tensors(saved: Any) -> list[tuple[str, _Tensor]]:
    if not isinstance(saved, dict):
        raise ValueError(f"it holds a {type(saved).__name__} instead of tensors by name")
    for name, value in saved.items():
        if not isinstance(name, str) or not isinstance(value, _Tensor):
            raise ValueError(f"{name!r} is not the name of a tensor in it")
    return list(saved.items())


def _view(tensor: _Tensor, numbers: Callable[[_Storage], np.ndarray]) -> np.ndarray:
    run = numbers(tensor.storage)
    last = tensor.offset + sum((side - 1) * stride for side, stride in zip(tensor.shape, tensor.strides, strict=True))
    size = int(np.prod(tensor.shape, dtype=object))
    # Strides of zero could make a huge tensor of one number; no weights are saved like that.
    if size > len(run) or (size and last >= len(run)) or len(run) != tensor.storage.length:
        raise ValueError(f"a tensor of shape {tensor.shape} reaches over the end of its {len(run):,} numbers")
    bytes_apart = [stride * run.itemsize for stride in tensor.strides]
    return np.lib.stride_tricks.as_strided(run[tensor.offset :], tensor.shape, bytes_apart)
