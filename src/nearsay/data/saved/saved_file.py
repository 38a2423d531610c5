"""The format of saved files: arrays and JSON, versioned, with checksums, never pickle.

A saved file is an ordinary zip archive without compression::

    arrays/NAME.npy     one for every array, in numpy's own format, rows in C order
    nearsay.json        {"format": 1, "kind": …, "version": …, "header": {…},
                         "arrays": {NAME: {"dtype": …, "shape": […], "sha256": …, "wide": …}}}

Numbers are written in the narrowest type that holds each of them exactly, because a smaller file is checked faster;
``wide`` is the type that they have in memory, where it is another.

``format`` numbers this layout; ``kind`` and ``version`` belong to what is saved (an index, a classifier). The checksum
covers the whole .npy member; the JSON is covered by the archive's own CRC. Saving the same state gives the same bytes.

A file may come from anyone: every size that it states is compared with the bytes that are there before memory is taken,
so that opening it takes no more than a small multiple of its own size.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import struct
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.data.replacing import replacing
from nearsay.errors import InputError, SavedFileError

FORMAT = 1
CONTENTS = "nearsay.json"
CHUNK = 1 << 20
# In an archive, the lengths of a part's name and of what is added to it stand so far behind the start of the part.
LENGTHS_IN_PART = 26
# numpy's mark for .npy version 1.0; two bytes with the length of its header follow.
NPY_START = b"\x93NUMPY\x01\x00"
# No part may start with a dot: unpacking the archive must not write files outside of it.
ARRAY_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*", re.ASCII)
# Booleans, numbers, dates and texts, little-endian. Objects would need pickle.
SAVED_KINDS = "biufcmMSU"
DTYPE = re.compile(r"[<|](b1|[iu][1248]|f[248]|c8|c16|[SU][1-9]\d{0,8}|[mM]8(\[\d{0,9}[a-zA-Z]{1,2}\])?)", re.ASCII)
WIDE = re.compile(r"<([iu][248]|f8)")
MOST_SIDES = 16
# An array without numbers has no bytes that its sides could be compared with.
LONGEST_EMPTY = 1 << 20
# Arrays of more bytes are written in a narrower type where one holds the same numbers.
NARROWED_FROM = 1 << 10
FEW = 16
LAST_CHARACTER = 0x10FFFF
EARLIEST_ZIP_DATE = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, eq=False)
class State:
    """What a saved file holds."""

    header: dict[str, Any]
    arrays: dict[str, np.ndarray]
    version: int


def save_state(
    path: str | os.PathLike[str],
    kind: str,
    version: int,
    header: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    *,
    is_plain: bool = False,
) -> None:
    """Write a file that ``open_state`` reads, completely or not at all: an older file stays until then.

    ``header`` holds plain JSON values (numpy scalars become plain ones, tuples become lists; where it ``is_plain``, it
    is not checked); ``arrays`` any shape of numbers, texts or dates. Arrays are written block by block, so
    memory-mapped ones need not fit in memory.

    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "vote.nearsay"
    >>> save_state(path, "vote", 1, {"k": 3}, {"labels": np.array(["elm", "oak"])})
    >>> open_state(path, "vote", newest=1)
    State(header={'k': 3}, arrays={'labels': array(['elm', 'oak'], dtype='<U3')}, version=1)
    """
    plain_header = header if is_plain else _plain(dict(header), "header")
    checked = {name: _checked_array(name, array) for name, array in arrays.items()}
    with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        listed = {name: _write_array(archive, name, array) for name, array in checked.items()}
        contents = {"format": FORMAT, "kind": kind, "version": version, "header": plain_header, "arrays": listed}
        archive.writestr(zipfile.ZipInfo(CONTENTS, EARLIEST_ZIP_DATE), json.dumps(contents, ensure_ascii=False))


def open_state(path: str | os.PathLike[str], kind: str, newest: int) -> State:
    """Read what ``save_state`` wrote, every byte checked; SavedFileError says what is wrong and what to do.

    ``newest`` is the newest version of this kind that the caller understands.
    """
    with open(path, "rb") as file:
        _check_is_archive(file, path)
        with _naming_damage(path), zipfile.ZipFile(file) as archive:
            members = _members(archive, os.fstat(file.fileno()).st_size)
            contents = _read_contents(archive, members, path)
            _check_readable(contents, kind, newest, path)
            arrays = contents["arrays"]
            expected = {CONTENTS, *map(_member_name, arrays)}
            if set(members) != expected:
                odd = ", ".join(sorted(set(members) ^ expected)[:5])
                raise _Damage(f"its parts do not match its table of contents: {odd}")
            loaded = {name: _read_array(file, members[_member_name(name)], arrays[name]) for name in arrays}
            return State(contents["header"], loaded, contents["version"])


# ------------------------------------------------------------------ writing


def _plain(value: Any, where: str) -> Any:
    """The value as JSON gives it back, or an error that names the place which JSON cannot hold."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(f"{where} is {value}, which JSON cannot hold. Save it in an array.")
        return value
    if isinstance(value, list | tuple):
        return [_plain(item, f"{where}[{number}]") for number, item in enumerate(value)]
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise InputError(f"{where} has the key {key!r}; JSON keys are texts. Use str(key), or a list of pairs.")
        return {str(key): _plain(item, f"{where}[{key!r}]") for key, item in value.items()}
    raise InputError(
        f"{where} is a {type(value).__name__}, which JSON cannot hold. Save numbers as an array, anything else as text."
    )


def _checked_array(name: str, array: Any) -> np.ndarray:
    if not ARRAY_NAME.fullmatch(name):
        raise InputError(f"{name!r} cannot name a saved array: use letters, digits and _ - . (and / between parts).")
    checked: np.ndarray = np.asanyarray(array)
    if checked.dtype.kind not in SAVED_KINDS:
        raise InputError(
            f"The array {name!r} has type {checked.dtype}, which would need pickle to save."
            " Convert it to numbers or texts first (for labels: np.array(labels, dtype=str))."
        )
    # No text is as long as none: numpy takes such a type for any length.
    kind = checked.dtype if checked.dtype.itemsize else np.dtype(f"{checked.dtype.kind}1")
    checked = checked.astype(kind.newbyteorder("<"), copy=False)
    if not DTYPE.fullmatch(checked.dtype.str):
        raise InputError(f"The array {name!r} has type {checked.dtype}, which not every machine has. Convert it first.")
    return checked


def _write_array(archive: zipfile.ZipFile, name: str, array: np.ndarray) -> dict[str, Any]:
    """Write one array block by block; gives its entry in the table of contents."""
    sha256, dtype = hashlib.sha256(), _narrowest(array)
    member = zipfile.ZipInfo(_member_name(name), EARLIEST_ZIP_DATE)
    with archive.open(member, "w", force_zip64=array.nbytes >= 1 << 31) as out:
        pieces = _npy_pieces(array, dtype)
        for piece in pieces if array.nbytes > CHUNK else [b"".join(pieces)]:
            sha256.update(piece)
            out.write(piece)
    listed = {"dtype": dtype.str, "shape": list(array.shape), "sha256": sha256.hexdigest()}
    return listed if dtype == array.dtype else {**listed, "wide": array.dtype.str}


def _narrowest(array: np.ndarray) -> np.dtype[Any]:
    """The narrowest type that gives the same numbers back, bit for bit; its own for few of them."""
    kind, size = array.dtype.kind, array.dtype.itemsize
    if kind not in "iuf" or array.nbytes < NARROWED_FROM:
        return array.dtype
    if kind == "f":
        is_single = size == 8 and all(_is_single(array[rows]) for rows in _blocks(array))
        return np.dtype("<f4") if is_single else array.dtype
    least, most = array.min(), array.max()
    for narrow in ("i1", "<i2", "<i4") if least < 0 else ("u1", "<u2", "<u4"):
        bounds = np.iinfo(narrow)
        if bounds.bits < 8 * size and bounds.min <= least and most <= bounds.max:
            return np.dtype(narrow)
    return array.dtype


def _is_single(numbers: np.ndarray) -> bool:
    """Whether float32 holds these float64 numbers; the first few already tell of most."""
    if numbers.size > FEW and not _is_single(numbers.flat[:FEW]):
        return False
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        again = numbers.astype(np.float32).astype(np.float64)
    return np.array_equal(again.view(np.int64), np.ascontiguousarray(numbers).view(np.int64))


def _npy_pieces(array: np.ndarray, dtype: np.dtype[Any]) -> Iterator[bytes | memoryview]:
    yield npy_header(dtype.str, array.shape)
    lines = array.reshape(1) if array.ndim == 0 else array
    for rows in _blocks(lines):
        block = np.ascontiguousarray(lines[rows], dtype)
        if block.size:
            yield block.reshape(-1).view(np.uint8).data


def _blocks(lines: np.ndarray) -> Iterator[slice]:
    return row_blocks(len(lines), row_bytes=lines.nbytes // max(1, len(lines)))


def npy_header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """The header of an ``.npy`` file of rows in C order, which start at a multiple of 64 bytes."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    length = -(-(len(NPY_START) + 2 + len(text) + 1) // 64) * 64 - len(NPY_START) - 2
    return NPY_START + length.to_bytes(2, "little") + (text.ljust(length - 1) + "\n").encode()


def _member_name(array_name: str) -> str:
    return f"arrays/{array_name}.npy"


# ------------------------------------------------------------------ reading


class _Damage(Exception):
    """Damage found in a file; becomes a SavedFileError with the name of the file and advice."""


# A single wrong byte in an archive can surface as any of these.
DAMAGE = (
    _Damage,
    zipfile.BadZipFile,
    EOFError,
    OSError,
    ValueError,
    TypeError,
    KeyError,
    RuntimeError,
    OverflowError,
    NotImplementedError,
    AttributeError,
    struct.error,
)


@contextmanager
def _naming_damage(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except SavedFileError:
        raise
    except DAMAGE as error:
        what = in_one_line(str(error)) or type(error).__name__
        raise SavedFileError(
            f"{os.fspath(path)} is damaged: {what}. Nothing was loaded. Restore it from a copy, or save it again."
        ) from error


def in_one_line(text: str, most: int = 300) -> str:
    r"""Untrusted text in one line, without control characters.

    >>> print(in_one_line("two" + chr(10) + chr(27) + "lines"))
    two\n\x1blines
    """
    shown = "".join(one if one.isprintable() else repr(one)[1:-1] for one in text[: most + 1])
    return shown if len(shown) <= most else f"{shown[:most]}…"


def _check_is_archive(file: IO[bytes], path: str | os.PathLike[str]) -> None:
    start = file.read(4)
    file.seek(0)
    if start == b"PK\x03\x04" and not zipfile.is_zipfile(file):
        raise SavedFileError(
            f"{os.fspath(path)} is cut short: it starts like a saved file, but its end is missing."
            " Copy it again, or save it again."
        )
    if start != b"PK\x03\x04":
        raise SavedFileError(
            f"{os.fspath(path)} was not saved by nearsay (it is no zip archive). Pass a file that nearsay saved."
        )


def _members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """The parts of an archive by name; together they are no larger than the file."""
    listed = archive.infolist()
    members = {member.filename: member for member in listed}
    if len(members) < len(listed):
        raise _Damage("two of its parts have the same name")
    for member in listed:
        if member.compress_type != zipfile.ZIP_STORED:
            raise _Damage(f"{member.filename} is compressed, which nearsay never does")
        if member.compress_size != member.file_size:
            raise _Damage(f"{member.filename} has two sizes")
    if sum(member.file_size for member in listed) > size:
        raise _Damage("its parts are larger than the file")
    return members


def _read_contents(
    archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], path: str | os.PathLike[str]
) -> dict[str, Any]:
    if CONTENTS not in members:
        raise SavedFileError(
            f"{os.fspath(path)} is a zip archive, but holds no {CONTENTS}: it was not saved by nearsay, or is damaged."
        )
    contents = json.loads(archive.read(members[CONTENTS]), parse_constant=_no_number)
    if not isinstance(contents, dict) or type(contents.get("format")) is not int or contents["format"] >= 1 << 31:
        raise _Damage(f"{CONTENTS} does not name its format")
    return contents


def _no_number(text: str) -> Any:
    raise _Damage(f"{CONTENTS} holds {text}, which is no JSON")


def _check_readable(contents: dict[str, Any], kind: str, newest: int, path: str | os.PathLike[str]) -> None:
    place = os.fspath(path)
    if contents["format"] > FORMAT:
        raise SavedFileError(
            f"{place} has file format {contents['format']}; this nearsay reads formats up to {FORMAT}."
            " Run: pip install --upgrade nearsay"
        )
    expected = {"kind": str, "version": int, "header": dict, "arrays": dict}
    for key, kind_of_value in expected.items():
        if not isinstance(contents.get(key), kind_of_value):
            raise _Damage(f"{CONTENTS} holds no {key}")
    if type(contents["version"]) is not int or contents["version"] >= 1 << 31:
        raise _Damage(f"{CONTENTS} holds no version")
    if contents["kind"] != kind:
        held = in_one_line(contents["kind"], 60)
        raise SavedFileError(f"{place} holds a saved {held!r}; a {kind!r} was expected.")
    if contents["version"] > newest:
        raise SavedFileError(
            f"{place} holds version {contents['version']} of a saved {kind!r}; this nearsay reads versions up to"
            f" {newest}. Run: pip install --upgrade nearsay"
        )


def _read_array(file: IO[bytes], member: zipfile.ZipInfo, listed: dict[str, Any]) -> np.ndarray:
    """An array, read from where its part begins: the checksum of all of it is stricter than the archive's own."""
    dtype, shape, wide = _listed_type(listed, member)
    file.seek(member.header_offset + LENGTHS_IN_PART)
    file.seek(sum(struct.unpack("<HH", file.read(4))), os.SEEK_CUR)
    header = file.read(len(NPY_START) + 2)
    header += file.read(int.from_bytes(header[len(NPY_START) :], "little"))
    # Checked before anything is allocated: a wrong size must not ask for all the memory there is.
    if not header.startswith(NPY_START) or member.file_size != len(header) + dtype.itemsize * math.prod(shape):
        raise _Damage(f"{member.filename} is not the array that its table of contents names")
    array = np.empty(shape, wide)
    # Numbers to be widened are read into the end of the array.
    held = array.reshape(-1).view(np.uint8)[array.nbytes - dtype.itemsize * array.size :]
    sha256 = hashlib.sha256(header)
    for part in row_blocks(len(held), size=CHUNK):
        if file.readinto(held[part].data) < len(held[part]):  # type: ignore[attr-defined]
            raise _Damage(f"{member.filename} ends too early")
        sha256.update(held[part].data)
    if sha256.hexdigest() != listed.get("sha256"):
        raise _Damage(f"the checksum of {member.filename} is wrong")
    _check_values(array, member)
    if wide != dtype:
        flat, narrow = array.reshape(-1), held.view(dtype)
        for part in row_blocks(array.size, size=CHUNK):
            flat[part] = narrow[part].copy()  # which ends before the first number that still waits there
    return array.astype(wide.newbyteorder("="), copy=False)


def _listed_type(listed: Any, member: zipfile.ZipInfo) -> tuple[np.dtype[Any], tuple[int, ...], np.dtype[Any]]:
    """The type and shape of an array in the file, and its type in memory, as far as they can be any."""
    dtype, shape = (listed.get("dtype"), listed.get("shape")) if isinstance(listed, dict) else (None, None)
    if not (isinstance(dtype, str) and DTYPE.fullmatch(dtype) and isinstance(shape, list) and len(shape) <= MOST_SIDES):
        raise _Damage(f"{member.filename} is of no type that is saved")
    wide = listed.get("wide", dtype)
    if wide != dtype and not (
        isinstance(wide, str) and WIDE.fullmatch(wide) and dtype[1] in "iuf" and np.can_cast(dtype, wide)
    ):
        raise _Damage(f"{member.filename} is of no type that is widened")
    if not all(type(side) is int and side >= 0 for side in shape) or (0 in shape and max(shape) > LONGEST_EMPTY):
        raise _Damage(f"{member.filename} is of no shape that is saved")
    return np.dtype(dtype), tuple(shape), np.dtype(wide)


def _check_values(array: np.ndarray, member: zipfile.ZipInfo) -> None:
    """Booleans are 0 or 1, and characters exist in Unicode: numpy relies on both and checks neither."""
    kind = array.dtype.kind
    if kind not in "bU" or not array.size:
        return
    if kind == "b" and array.view(np.uint8).max() > 1:
        raise _Damage(f"{member.filename} holds booleans that are neither true nor false")
    if kind == "U" and array.reshape(-1).view(np.uint32).max() > LAST_CHARACTER:
        raise _Damage(f"{member.filename} holds characters that do not exist")
