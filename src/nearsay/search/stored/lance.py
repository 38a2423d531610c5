"""Rows of a Lance data set: fragments of one version of it, which stays as it is while others are written.

rows.lance, version 7 ──► fragment 0, fragment 1, … without the rows that are deleted
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from nearsay.errors import InputError, StorageError, require
from nearsay.search.stored import arrow_rows
from nearsay.search.stored.places import full_path, is_url, machine, sampled_digest, stamp_of

LANCE = ".lance"


@dataclass(frozen=True)
class LanceFragment:
    """A fragment of a Lance data set."""

    path: str
    version: int
    number: int
    n_rows: int
    n_columns: int
    dtype: str
    columns: tuple[str, ...]


def is_lance(where: Any) -> bool:
    """Whether it is a Lance data set, or the path or URL of one."""
    if isinstance(where, str | os.PathLike):
        return os.fspath(where).rstrip("/\\").endswith(LANCE)
    return type(where).__module__.split(".")[0] == "lance" and hasattr(where, "get_fragments")


def lance_fragments(where: Any, columns: Sequence[str] | None) -> list[LanceFragment]:
    """The fragments of a data set at its newest version, or of one that was opened at some version."""
    path = full_path(where if isinstance(where, str | os.PathLike) else where.uri)
    try:
        data = newest_version(path) if isinstance(where, str | os.PathLike) else where
    except (ValueError, OSError) as error:
        raise InputError(f"{path} is not a Lance data set that can be read ({_first_line(error)}).") from error
    schema = arrow_rows.flat_schema(data.schema)
    chosen = arrow_rows.number_columns(path, schema, columns)
    dtype = arrow_rows.common_type(schema, chosen)
    fragments = [(fragment, fragment.count_rows()) for fragment in data.get_fragments()]
    filled = [(fragment, n_rows) for fragment, n_rows in fragments if n_rows]
    if not filled:
        raise InputError(f"{path} has no rows at version {data.version}.")
    width = arrow_rows.width_of(path, schema, chosen, lambda: filled[0][0].to_table(columns=list(chosen), limit=1))
    return [
        LanceFragment(path, data.version, fragment.fragment_id, n_rows, width, dtype, chosen)
        for fragment, n_rows in filled
    ]


def read_fragment(part: Any, n_rows: int) -> np.ndarray:
    """Some rows of a fragment."""
    version, number = part.fragment
    fragment, columns = _fragment(part.file, version, number), list(part.columns)
    try:
        table = fragment.to_table(columns=columns, offset=part.skipped, limit=n_rows)
    except (ValueError, OSError) as error:
        raise StorageError(
            f"Fragment {number} of {part.file}, version {version}, cannot be read on {machine()}"
            f" ({_first_line(error)}). Copy the data set again, or open the rows anew."
        ) from error

    def place(row: int) -> str:
        return f"{part.file}, version {version}, fragment {number}, row {part.skipped + row}"

    return arrow_rows.as_rows(table, columns, part.n_columns, part.dtype, place)


def fragment_digest(path: str, version: int, number: int) -> tuple[int, str]:
    """The size of the files of a fragment, and a digest of its manifest and of pieces of them.

    Lance never writes to a file again.
    """
    described = _fragment(path, version, number).metadata.to_json()
    digest, size = hashlib.sha256(json.dumps([version, described], sort_keys=True).encode()), 0
    for each in described["files"]:
        file = os.path.join(path, "data", each["path"])
        if is_url(path) or each.get("base_id") is not None:
            size += each.get("file_size_bytes") or 0
            continue
        stamp = stamp_of(file)
        size += stamp.size
        digest.update(sampled_digest(file, stamp).encode())
    return size, digest.hexdigest()


def _fragment(path: str, version: int, number: int) -> Any:
    try:
        fragment = _at_version(path, version).get_fragment(number)
    except (ValueError, OSError) as error:
        raise StorageError(
            f"Version {version} of {path} is not available on {machine()} ({_first_line(error)}): the copy here is"
            " older, or old versions were cleaned up. Copy the data set again, or open the rows anew."
        ) from error
    if fragment is None:
        raise StorageError(f"Version {version} of {path} has no fragment {number} on {machine()}. Open the rows anew.")
    return fragment


def newest_version(path: str) -> Any:
    """A data set, opened at its newest version: a ``pyarrow.dataset.Dataset``."""
    return require("lance", "lance").dataset(path)


@lru_cache(maxsize=8)
def _at_version(path: str, version: int) -> Any:
    return require("lance", "lance").dataset(path, version=version)


def _first_line(error: Exception) -> str:
    return str(error).split("\n")[0].split(", /")[0]
