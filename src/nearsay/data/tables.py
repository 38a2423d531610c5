"""Tables with named columns, as text (csv, tsv) or parquet: which column is what, and every cell read or refused.

Rules that text and parquet share:

- the label is the column the caller names, else one of LABEL_NAMES, else the last column of text;
- the id is the column the caller names, else one of ID_NAMES (spreadsheets and
  data frames write their row numbers as a first column without a name, and
  call it so when they read it again);
- every other column must hold numbers, and one with a name is a feature group
  of its own; columns ``shape[0]``, ``shape[1]``, … side by side are one group
  ``shape``, and ``[0]``, ``[1]``, … belong to no group.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from nearsay.data.rows import LabeledRows
from nearsay.errors import InputError, SavedFileError, closest, require

LABEL_NAMES = ("label", "class", "target", "y")
ID_NAMES = ("id", "ids", "", "unnamed: 0", "__index_level_0__")
DECIMAL_COMMA = re.compile(r"\s*[-+]?\d*,\d+\s*")
NUMBERED = re.compile(r"(?P<group>.*)\[(?P<number>\d+)\]", re.DOTALL)

Column = str | int


@dataclass(frozen=True)
class Columns:
    """Which column is the label, which the id, and which hold the numbers."""

    label: int | None
    id: int | None
    features: list[int]


def choose_columns(
    names: Sequence[str] | None, is_text: Sequence[bool], label: Column | None, id: Column | None, source: str
) -> Columns:
    """Say what each column is, by the rules at the top of this module.

    >>> choose_columns(["id", "width", "kind"], [True, False, True], None, None, "leaves.csv")
    Columns(label=2, id=0, features=[1])
    """
    width = len(is_text)
    label_column = find_column(label, names, width, LABEL_NAMES, source)
    id_column = find_column(id, names, width, ID_NAMES, source, besides=label_column)
    texts = [column for column in range(width) if is_text[column] and column not in (label_column, id_column)]
    if label_column is None and texts:
        label_column = texts.pop()
    if texts:
        raise InputError(
            f"{source}: column {called(texts[0], names)} does not hold numbers, and the label is column"
            f" {called(label_column, names)}. Pass it as id= or label=, or take it out of the file."
        )
    features = [column for column in range(width) if column not in (label_column, id_column)]
    if not features:
        raise InputError(f"{source} has no column of numbers besides labels and ids.")
    return Columns(label_column, id_column, features)


def find_column(
    asked: Column | None,
    names: Sequence[str] | None,
    width: int,
    known: tuple[str, ...],
    source: str,
    besides: int | None = None,
) -> int | None:
    """The number of the column that was asked for by name or number, else of one with a known name, else None."""
    if isinstance(asked, str) and names is None and asked.removeprefix("-").isdecimal():
        asked = int(asked)  # a command line has no other way to say a number
    if isinstance(asked, str):
        if names is None:
            raise InputError(f"{source} has no header, so no column is called {asked!r}. Pass its number, from 0.")
        if asked not in names:
            raise InputError(
                f"{source} has no column {asked!r}{closest(asked, names)}. It has: {', '.join(names[:20])}."
            )
        return list(names).index(asked)
    if asked is not None:
        if not -width <= asked < width:
            raise InputError(f"{source} has {width} columns, numbered from 0; column {asked} was asked for.")
        return asked % width
    lowered = [name.strip().lower() for name in names or ()]
    return next((lowered.index(name) for name in known if name in lowered and lowered.index(name) != besides), None)


def called(column: int | None, names: Sequence[str] | None) -> str:
    if column is None:
        return "none"
    return f"{column}" if names is None else f"{column} ({names[column]!r})"


def groups_of(names: Sequence[str], source: str) -> dict[str, slice]:
    """The feature groups that column names spell out.

    >>> groups_of(["size", "hue[0]", "hue[1]", "[3]"], "leaves.csv")
    {'size': slice(0, 1, None), 'hue': slice(1, 3, None)}
    """
    groups: dict[str, slice] = {}
    for column, name in enumerate(names):
        match = NUMBERED.fullmatch(name)
        group, number = (match["group"].strip(), int(match["number"])) if match else (name.strip(), 0)
        if not group:
            continue
        start = groups[group].start if group in groups else column
        if column != start + number or (number and groups[group].stop != column):
            raise InputError(
                f"{source}: column {name!r} does not follow on from the other columns of {group!r}."
                " Give each column its own name, or pass groups={name: slice} (groups={} for none)."
            )
        groups[group] = slice(start, column + 1)
    return groups


def column_names(rows: LabeledRows) -> list[str]:
    """Names of the feature columns from which ``groups_of`` finds the groups again."""
    names = [f"[{column}]" for column in range(rows.X.shape[1])]
    for group, part in rows.feature_groups.items():
        width = part.stop - part.start
        names[part] = [group] if _is_plain(group) and width == 1 else [f"{group}[{n}]" for n in range(width)]
    return names


def _is_plain(name: str) -> bool:
    """Whether a column can be called this without being taken for a label, an id, a number or part of a group."""
    return not (NUMBERED.fullmatch(name) or name.strip().lower() in LABEL_NAMES + ID_NAMES or looks_like_a_number(name))


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python reads 1_000 as a number, and an id like 12_3 with it


def looks_like_a_number(cell: str) -> bool:
    """A number, or one with a decimal comma: refused as a number, but no label either."""
    return is_number(cell) or DECIMAL_COMMA.fullmatch(cell) is not None


def known_columns(rows: LabeledRows) -> dict[str, np.ndarray]:
    known = {name: values for name, values in (("id", rows.ids), ("label", rows.y)) if values is not None}
    for name, values in known.items():
        if values.dtype.kind not in "Uiufb":
            raise InputError(
                f"The {name}s are of type {values.dtype}, which a table cannot hold. Convert them to texts or numbers."
            )
    return known


# ------------------------------------------------------------------ parquet


def read_parquet(
    path: Path, label: Column | None, id: Column | None, groups: Mapping[str, slice] | None
) -> LabeledRows:
    """Rows of a parquet file; a column of equally long lists is a feature group."""
    columns = _parquet_columns(path)
    names = list(columns)
    chosen = choose_columns(names, [c.dtype.kind not in "fiub" for c in columns.values()], label, id, path.name)
    y, ids = (None if column is None else columns[names[column]][:, 0] for column in (chosen.label, chosen.id))

    features = [names[column] for column in chosen.features]
    widths = [columns[name].shape[1] for name in features]
    X = np.empty((len(columns[names[0]]), sum(widths)), np.result_type(*(columns[name] for name in features)))
    for name, stop, width in zip(features, np.cumsum(widths), widths, strict=True):
        X[:, stop - width : stop] = columns.pop(name)  # let go of what is copied: the numbers are never held twice
    if groups is None:
        spelled = (
            [name] if w == 1 else [f"{name}[{n}]" for n in range(w)] for name, w in zip(features, widths, strict=True)
        )
        groups = groups_of(list(itertools.chain.from_iterable(spelled)), path.name)
    return LabeledRows(X, y, groups, ids, path.stem)


def _parquet_columns(path: Path) -> dict[str, np.ndarray]:
    parquet = require("pyarrow.parquet", "parquet")
    try:
        file = parquet.ParquetFile(path)
        names = file.schema_arrow.names
        read = {name: file.read(columns=[name]).column(0).to_numpy() for name in names}
    except Exception as error:  # pyarrow has errors of many kinds, not all of one family
        raise SavedFileError(f"{path.name} cannot be read as parquet: {error}. Copy or write it again.") from error
    if len({len(values) for values in read.values()}) > 1:
        raise SavedFileError(f"{path.name} is damaged: its columns are not equally long. Copy or write it again.")
    if len(read) < len(names):
        raise InputError(f"{path.name} has two columns of the same name. Its columns: {', '.join(names[:20])}.")
    return {name: _as_block(values, name, path.name) for name, values in read.items()}


def _as_block(values: np.ndarray, name: str, source: str) -> np.ndarray:
    """A column as a block of columns: a column of lists is as wide as its lists."""
    if len(values) == 0 or not isinstance(values[0], np.ndarray):
        return values[:, None]
    try:
        return np.stack(values)  # type: ignore[call-overload, no-any-return]
    except (ValueError, TypeError) as error:
        raise InputError(f"{source}: the lists in column {name!r} are not equally long ({error}).") from error


def write_parquet(rows: LabeledRows, out: IO[bytes]) -> None:
    """Write one column per feature, with the names that ``read_parquet`` takes groups from."""
    parquet = require("pyarrow.parquet", "parquet")
    pyarrow = require("pyarrow", "parquet")
    columns = {**known_columns(rows), **dict(zip(column_names(rows), rows.X.T, strict=True))}
    # Parquet knows one order of bytes only.
    native = {name: np.ascontiguousarray(values, values.dtype.newbyteorder("=")) for name, values in columns.items()}
    try:
        # From an array of texts pyarrow takes what stands before a zero byte.
        arrays = {name: pyarrow.array(v.tolist() if v.dtype.kind == "U" else v) for name, v in native.items()}
    except NotImplementedError as error:
        types = ", ".join(sorted({str(values.dtype) for values in native.values()}))
        raise InputError(
            f"A parquet file cannot hold all of these types: {types} ({error})."
            " Convert X to float64 first, or write .npz."
        ) from error
    parquet.write_table(pyarrow.table(arrays), out)
