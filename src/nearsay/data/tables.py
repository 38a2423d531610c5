"""Tables with named columns, as text (csv, tsv) or parquet: which column is what, and every cell read or refused.

Rules that text and parquet share:

- the label is the column the caller says, else one of LABEL_NAMES, else the last column of text;
- the id is the column the caller says, else one of ID_NAMES (spreadsheets and
  data frames write their row numbers as a first column without a name);
- every other column must hold numbers, and one with a name is a feature group
  of its own; columns ``shape[0]``, ``shape[1]``, … side by side are one group
  ``shape``, and ``[0]``, ``[1]``, … belong to no group.
"""

from __future__ import annotations

import csv
import itertools
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from nearsay.arrays import as_labels, row_blocks
from nearsay.data.replacing import as_text
from nearsay.data.rows import LabeledRows
from nearsay.errors import InputError, SavedFileError, closest, require

LABEL_NAMES = ("label", "class", "target", "y")
ID_NAMES = ("id", "ids", "")
MISSING_NUMBERS = frozenset({"", "?", "na", "n/a", "nan", "none", "null"})
# Comma last: where a decimal comma or a list is written, the lines are cut by something else.
DELIMITERS = ("\t", ";", "|", ",")
WHITE_SPACE = " "
SAMPLE_LINES = 50
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
    label_column = _column(label, names, width, LABEL_NAMES, source)
    id_column = _column(id, names, width, ID_NAMES, source, besides=label_column)
    texts = [column for column in range(width) if is_text[column] and column not in (label_column, id_column)]
    if label_column is None and texts:
        label_column = texts.pop()
    if texts:
        raise InputError(
            f"{source}: column {_called(texts[0], names)} does not hold numbers, and the label is column"
            f" {_called(label_column, names)}. Pass it as id= or label=, or take it out of the file."
        )
    features = [column for column in range(width) if column not in (label_column, id_column)]
    if not features:
        raise InputError(f"{source} has no column of numbers besides labels and ids.")
    return Columns(label_column, id_column, features)


def _column(
    asked: Column | None,
    names: Sequence[str] | None,
    width: int,
    known: tuple[str, ...],
    source: str,
    besides: int | None = None,
) -> int | None:
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


def _called(column: int | None, names: Sequence[str] | None) -> str:
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
    return not (
        NUMBERED.fullmatch(name) or name.strip().lower() in LABEL_NAMES + ID_NAMES or _looks_like_a_number(name)
    )


# ------------------------------------------------------------------ text


def read_text(path: Path, label: Column | None, id: Column | None, groups: Mapping[str, slice] | None) -> LabeledRows:
    """Rows of a text table: delimiter and header are found, and an unreadable cell is named by line and column."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            numbers, labels, ids, found = _read_lines(file, path.name, label, id)
    except UnicodeDecodeError as error:
        raise InputError(f"{path.name} is not UTF-8 text ({error}). Save it again as UTF-8.") from error
    return LabeledRows(numbers, labels, found if groups is None else groups, ids, path.stem)


def _read_lines(
    file: IO[str], source: str, label: Column | None, id: Column | None
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None, dict[str, slice]]:
    """(numbers, labels, ids, feature groups) of a text table."""
    sample = _first_lines(file)
    file.seek(0)
    delimiter = _delimiter(sample)
    first = [cells for _, cells in _records(sample, delimiter, source)]
    if not first:
        raise InputError(f"{source} is empty. A table needs at least one row.")
    width = len(first[0])
    names = [name.strip() for name in first.pop(0)] if _is_header(first, label, id) else None
    columns = choose_columns(names, [_is_text(column, first) for column in range(width)], label, id, source)

    numbers, labels, ids = array("d"), [], []
    records = _records(file, delimiter, source)
    for line, cells in itertools.islice(records, names is not None, None):
        if len(cells) != width:
            raise InputError(f"{source}, line {line}: {len(cells)} cells came; the first line has {width}.")
        numbers.extend(_numbers(cells, columns.features, names, f"{source}, line {line}"))
        if columns.label is not None:
            if not cells[columns.label]:
                raise InputError(f"{source}, line {line}: the label is missing. Fill it in, or drop the line.")
            labels.append(cells[columns.label])
        if columns.id is not None:
            ids.append(cells[columns.id])
    if not numbers:
        raise InputError(f"{source} has a header, but no rows.")
    return (
        np.frombuffer(numbers).reshape(-1, len(columns.features)),
        None if columns.label is None else _plain_labels(labels),
        None if columns.id is None else np.array(ids),
        {} if names is None else groups_of([names[column] for column in columns.features], source),
    )


def _first_lines(lines: Iterable[str]) -> list[str]:
    """Enough lines to see what the table is like, ended where no quoted cell is open."""
    first: list[str] = []
    quotes = 0
    for line in lines:
        first.append(line)
        quotes += line.count('"')
        if len(first) >= SAMPLE_LINES and (quotes % 2 == 0 or len(first) >= 10 * SAMPLE_LINES):
            break
    return first


def _delimiter(sample: list[str]) -> str:
    """What cuts every line into the same number of cells; the first such, or the one that agrees most often."""

    def agreeing(delimiter: str) -> tuple[bool, int]:
        widths: list[int] = []
        torn = False
        try:
            widths.extend(len(cells) for _, cells in _records(sample, delimiter, ""))
        except InputError:  # a quoted cell goes on after its closing quote
            torn = True
        same = sum(width == widths[0] for width in widths) if widths and widths[0] > 1 else 0
        return (True, 0) if 0 < same == len(widths) and not torn else (False, same)

    # Cut at white space, a quoted cell would come apart.
    quoted = any('"' in line for line in sample)
    return max(DELIMITERS if quoted else (*DELIMITERS, WHITE_SPACE), key=agreeing)


def _records(lines: Iterable[str], delimiter: str, source: str) -> Iterator[tuple[int, list[str]]]:
    """(line number, cells) of every line that is not blank."""
    if delimiter == WHITE_SPACE:
        yield from ((number, line.split()) for number, line in enumerate(lines, 1) if line.strip())
        return
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
    try:
        for cells in reader:
            if len(cells) > 1 or (cells and cells[0].strip()):
                yield reader.line_num, cells
    except csv.Error as error:
        raise InputError(f"{source}, line {reader.line_num}: {error}.") from error


def _is_header(sample: list[list[str]], label: Column | None, id: Column | None) -> bool:
    """Whether the first line names the columns: it has no number, or the name of a label that is no label itself."""
    first, *others = sample
    if not any(map(_looks_like_a_number, first)):
        return True
    known = {*LABEL_NAMES, *(asked.strip().lower() for asked in (label, id) if isinstance(asked, str))}
    return any(
        cell.strip().lower() in known and all(cell not in cells[column : column + 1] for cells in others)
        for column, cell in enumerate(first)
    )


def _is_text(column: int, sample: list[list[str]]) -> bool:
    """Whether the first cell that is not missing is no number: a slip further down is an error, not a label."""
    cells = (cells[column] for cells in sample if column < len(cells))
    return next((not _looks_like_a_number(cell) for cell in cells if not _is_missing(cell)), False)


def _is_missing(cell: str) -> bool:
    return cell.strip().lower() in MISSING_NUMBERS


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python reads 1_000 as a number, and an id like 12_3 with it


def _looks_like_a_number(cell: str) -> bool:
    """A number, or one with a decimal comma: refused as a number, but no label either."""
    return _is_number(cell) or DECIMAL_COMMA.fullmatch(cell) is not None


def _numbers(cells: list[str], features: list[int], names: Sequence[str] | None, place: str) -> list[float]:
    chosen = [cells[column] for column in features]
    try:
        if "_" not in "".join(chosen):
            return [float(cell) for cell in chosen]
    except ValueError:
        pass
    for column, cell in zip(features, chosen, strict=True):
        if not _is_missing(cell) and not _is_number(cell):
            comma = " Write numbers with a decimal point." if DECIMAL_COMMA.fullmatch(cell) else ""
            raise InputError(
                f"{place}, column {_called(column, names)}: {cell!r} is not a number.{comma}"
                " Correct it, leave the cell empty if it is unknown, or pass the column as label= or id=."
            )
    return [np.nan if _is_missing(cell) else float(cell) for cell in chosen]


def _plain_labels(labels: list[str]) -> np.ndarray:
    """Numbers where every label is written as one and would be written the same again ("007" and "nan" stay text)."""
    for number in (int, float):
        try:
            converted = [number(label) for label in labels]
        except ValueError:
            continue
        if all(str(value) == label != "nan" for value, label in zip(converted, labels, strict=True)):
            numbers = as_labels(converted)
            if numbers.dtype.kind != "O":
                return numbers
    return np.array(labels)


def write_text(rows: LabeledRows, out: IO[bytes], delimiter: str) -> None:
    """Write a table that ``read_text`` reads back: every number to the last bit, texts in quotes."""
    known = _known_columns(rows)
    with as_text(out) as text:
        writer = csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
        writer.writerow([*known, *column_names(rows)])
        for block in row_blocks(len(rows), row_bytes=64 * rows.X.shape[1]):
            numbers = rows.X[block].astype(np.uint8) if rows.X.dtype.kind == "b" else rows.X[block]
            beside = (column[block].tolist() for column in known.values())
            writer.writerows([*cells, *values] for *cells, values in zip(*beside, numbers.tolist(), strict=True))


def _known_columns(rows: LabeledRows) -> dict[str, np.ndarray]:
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
    except (ValueError, OSError) as error:
        raise SavedFileError(f"{path.name} cannot be read as parquet: {error}. Copy or write it again.") from error
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
    """Write one column a feature, with the names that ``read_parquet`` takes groups from."""
    parquet = require("pyarrow.parquet", "parquet")
    pyarrow = require("pyarrow", "parquet")
    columns = {**_known_columns(rows), **dict(zip(column_names(rows), rows.X.T, strict=True))}
    arrays = {name: pyarrow.array(np.ascontiguousarray(values)) for name, values in columns.items()}
    parquet.write_table(pyarrow.table(arrays), out)
