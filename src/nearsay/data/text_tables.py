"""Tables of text (csv, tsv): delimiter, header and types are found, and every cell is read or refused.

A quoted cell in a table whose numbers are not quoted is a text, whatever it looks like;
where all cells are quoted, quotes mean nothing.
"""

from __future__ import annotations

import csv
import itertools
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import numpy as np

from nearsay.core.arrays import as_labels, row_blocks
from nearsay.data.replacing import as_text
from nearsay.data.rows import LabeledRows
from nearsay.data.tables import (
    DECIMAL_COMMA,
    LABEL_NAMES,
    Column,
    called,
    choose_columns,
    column_names,
    groups_of,
    is_number,
    known_columns,
    looks_like_a_number,
)
from nearsay.errors import InputError

MISSING_NUMBERS = frozenset({"", "?", "na", "n/a", "nan", "none", "null"})
# Comma last: where a decimal comma or a list is written, the lines are cut by something else.
DELIMITERS = ("\t", ";", "|", ",")
WHITE_SPACE = " "
SAMPLE_LINES = 50
WHOLE = re.compile(r"\s*\d+\s*")
TRUTH = {"True": True, "False": False}
Record = tuple[int, list[str], str]


def read_text(
    path: Path,
    label: Column | None,
    id: Column | None,
    groups: Mapping[str, slice] | None,
    header: bool | None = None,
) -> LabeledRows:
    """Rows of a text table: delimiter and header are found, and an unreadable cell is named by line and column."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            numbers, labels, ids, names = _read_lines(file, path.name, label, id, header)
    except UnicodeDecodeError as error:
        raise InputError(f"{path.name} is not UTF-8 text ({error}). Save it again as UTF-8.") from error
    if groups is None:
        groups = groups_of(names, path.name)
    return LabeledRows(numbers, labels, groups, ids, path.stem)


def _read_lines(
    file: IO[str], source: str, label: Column | None, id: Column | None, header: bool | None
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None, list[str]]:
    """(numbers, labels, ids, names of the columns of numbers) of a text table; no names where it has no header."""
    sample = first_lines(file)
    file.seek(0)
    delimiter = delimiter_of(sample)
    first = [cells for _, cells, _ in _records(sample, delimiter, source)]
    if not first:
        raise InputError(f"{source} is empty. A table needs at least one row.")
    if header is None:
        header = names_rows_too(first) or has_header(first, label, id, source)
    names = named_columns(first) if header else None
    first = first[1:] if header else first
    width = len(names or first[0])
    columns = choose_columns(names, [_is_text(column, first) for column in range(width)], label, id, source)

    numbers, labels, ids = array("d"), [], []
    quoted: list[bool] = []
    records = _records(file, delimiter, source)
    for line, cells, raw in itertools.islice(records, names is not None, None):
        if len(cells) != width:
            raise InputError(f"{source}, line {line}: got {len(cells)} cells; the table has {width} columns.")
        try:
            numbers.extend(numbers_of(cells, columns.features, names))
        except InputError as error:
            raise InputError(
                f"{source}, line {line}, {error} Correct it, leave the cell empty if it is unknown, or pass the column"
                " as label= or id=."
            ) from None
        # Programs that quote by type do so in every line, so the first says it for all.
        quoted = quoted or _in_quotes(raw, cells, delimiter)
        if columns.label is not None:
            if not cells[columns.label] and not _in_quotes(raw, cells, delimiter)[columns.label]:
                raise InputError(f"{source}, line {line}: the label is missing. Fill it in, or drop the line.")
            labels.append(cells[columns.label])
        if columns.id is not None:
            ids.append(cells[columns.id])
    if not numbers:
        raise InputError(f"{source} has a header, but no rows.")
    return (
        np.frombuffer(numbers).reshape(-1, len(columns.features)),
        None if columns.label is None else _values(labels, columns.label, quoted),
        None if columns.id is None else _values(ids, columns.id, quoted),
        [] if names is None else [names[column] for column in columns.features],
    )


def first_lines(lines: Iterable[str]) -> list[str]:
    """Enough lines to see what the table is like, ended where no quoted cell is open."""
    first: list[str] = []
    quotes = 0
    for line in lines:
        first.append(line)
        quotes += line.count('"')
        if len(first) >= SAMPLE_LINES and (quotes % 2 == 0 or len(first) >= 10 * SAMPLE_LINES):
            break
    return first


def delimiter_of(sample: list[str]) -> str:
    """What cuts every line into the same number of cells; the first such, or the one that agrees most often."""

    def agreeing(delimiter: str) -> tuple[int, int]:
        widths: list[int] = []
        torn = False
        try:
            widths.extend(len(cells) for _, cells, _ in _records(sample, delimiter, ""))
        except InputError:  # a quoted cell goes on after its closing quote
            torn = True
        if _one_short(widths) and len(set(widths[1:])) == 1 and not torn:
            # A single name above two cells tells little: a list of keywords in the last column looks like that.
            return (1, 0) if widths[0] > 1 else (0, 1)
        same = sum(width == widths[0] for width in widths) if widths and widths[0] > 1 else 0
        return (2, 0) if 0 < same == len(widths) and not torn else (0, same)

    return max((*DELIMITERS, WHITE_SPACE), key=agreeing)


def names_rows_too(sample: list[list[str]]) -> bool:
    """Whether the first line names all columns but the first, which names the rows, as R's ``write.table`` writes it.

    >>> names_rows_too([["width", "kind"], ["1", "5.1", "oak"], ["2", "4.9", "elm"]])
    True
    >>> names_rows_too([["width", "kind"], ["5.1", "oak", ""], ["4.9", "elm", ""]])  # a delimiter at the end
    False
    """
    first, *others = sample
    if not _one_short([len(cells) for cells in sample]) or any(map(looks_like_a_number, first)):
        return False
    return any(cells[-1].strip() for cells in others if len(cells) == len(first) + 1)


def named_columns(sample: list[list[str]]) -> list[str]:
    """Names of the columns, of a table whose first line has them; a column of row names has an empty one."""
    names = [name.strip() for name in sample[0]]
    return ["", *names] if _one_short([len(cells) for cells in sample]) else names


def _one_short(widths: list[int]) -> bool:
    """Whether the first line has one cell fewer than most others."""
    return len(widths) > 1 and Counter(widths[1:]).most_common(1)[0][0] == widths[0] + 1


def cut_at_white_space(line: str) -> list[str]:
    """The cells of a line; one in quotes may hold spaces. csv.Error where a quote is not closed."""
    if '"' not in line:
        return line.split()
    return next(csv.reader([line.strip()], delimiter=WHITE_SPACE, skipinitialspace=True, strict=True))


def _records(lines: Iterable[str], delimiter: str, source: str) -> Iterator[Record]:
    """(line number, cells, the text itself) of every line that is not blank."""
    if delimiter == WHITE_SPACE:
        for number, line in enumerate(lines, 1):
            try:
                if line.strip():
                    yield number, cut_at_white_space(line), line
            except csv.Error as error:
                raise InputError(f"{source}, line {number}: {error}.") from error
        return
    taken: list[str] = []

    def watched() -> Iterator[str]:
        for line in lines:
            taken.append(line)
            yield line

    reader = csv.reader(watched(), delimiter=delimiter, skipinitialspace=True, strict=True)
    try:
        for cells in reader:
            if len(cells) > 1 or (cells and cells[0].strip()):
                yield reader.line_num, cells, "".join(taken)
            taken.clear()
    except csv.Error as error:
        raise InputError(f"{source}, line {reader.line_num}: {error}.") from error


def _in_quotes(raw: str, cells: list[str], delimiter: str) -> list[bool]:
    """Which cells of a line are written in quotes; Python's reader does not tell.

    >>> _in_quotes('1, "a, b", c', ["1", "a, b", "c"], ",")
    [False, True, False]
    """
    if delimiter == WHITE_SPACE:
        return [False] * len(cells)
    quoted, at = [], 0
    for cell in cells:
        while raw.startswith(" ", at):
            at += 1
        quoted.append(raw.startswith('"', at))
        at += len(cell) + (2 + cell.count('"') if quoted[-1] else 0) + len(delimiter)
    return quoted


def has_header(sample: list[list[str]], label: Column | None, id: Column | None, source: str) -> bool:
    """Whether the first line names the columns; an error where it may as well be a row."""
    first, *others = sample
    if not any(map(looks_like_a_number, first)):
        return True
    known = {*LABEL_NAMES, *(asked.strip().lower() for asked in (label, id) if isinstance(asked, str))}
    if any(
        cell.strip().lower() in known and all(cell not in cells[column : column + 1] for cells in others)
        for column, cell in enumerate(first)
    ):
        return True
    found = _names_by_number(first, others)
    if found is None:
        raise InputError(
            f"{source}: the first line ({', '.join(first[:5])}{', …' * (len(first) > 5)}) may number the columns, as"
            " data frames without names do, or be a row itself. Pass header=True or header=False."
        )
    return found


def _names_by_number(first: list[str], others: list[list[str]]) -> bool | None:
    """Whether a line with numbers in it numbers the columns; None where that cannot be told.

    Data frames without names write 0, 1, 2, …, beside an empty cell above their
    row numbers and the names that some columns may have.

    >>> _names_by_number(["0", "1", "kind"], [["5.1", "3.5", "oak"], ["4.9", "3.0", "elm"]])
    True
    >>> _names_by_number(["0", "1", "oak"], [["5", "3", "elm"], ["4", "2", "oak"]])
    False
    """
    below = [[cells[column].strip() for cells in others if column < len(cells)] for column in range(len(first))]
    names = [name.strip() for name in first]
    numbered = [column for column, name in enumerate(names) if WHOLE.fullmatch(name)]
    worded = [column for column, name in enumerate(names) if not looks_like_a_number(name) and not is_missing(name)]
    empty = [column for column, name in enumerate(names) if not name]
    if not others or len({names[column] for column in numbered}) < len(numbered):
        return False
    if any(looks_like_a_number(name) and not WHOLE.fullmatch(name) for name in names):
        return False
    if any(names[column] in below[column] for column in worded):
        return False  # a label that comes again

    counted = [int(names[column]) for column in numbered] == list(range(len(numbered)))
    if any(_all_numbers(below[column]) for column in worded):
        return True  # a word above numbers
    if any(_are_row_numbers(below[column], any_order=counted) for column in empty):
        return True
    decimal = all(_all_numbers(below[column]) and not any(map(WHOLE.fullmatch, below[column])) for column in numbered)
    # A word that never comes again, where others do.
    odd_word = any(len(set(below[column])) < len(below[column]) for column in worded)
    if counted and len(numbered) > 1 and (decimal or odd_word):
        return True
    return None if counted or (decimal and odd_word) else False


def _all_numbers(cells: list[str]) -> bool:
    known = [cell for cell in cells if not is_missing(cell)]
    return bool(known) and all(map(looks_like_a_number, known))


def _are_row_numbers(cells: list[str], *, any_order: bool) -> bool:
    """0, 1, 2, …; in any order: names of rows, none of them missing or twice."""
    if any_order:
        return all(cells) and len(set(cells)) == len(cells)
    return cells == [str(number) for number in range(len(cells))]


def _is_text(column: int, sample: list[list[str]]) -> bool:
    """Whether the first cell that is not missing is not a number: one further down is an error, not a label."""
    cells = (cells[column] for cells in sample if column < len(cells))
    return next((not looks_like_a_number(cell) for cell in cells if not is_missing(cell)), False)


def is_missing(cell: str) -> bool:
    return cell.strip().lower() in MISSING_NUMBERS


def numbers_of(cells: list[str], features: list[int], names: Sequence[str] | None) -> list[float]:
    """The numbers of a line, NaN where one is missing; an error names the first cell that holds none.

    >>> numbers_of(["1.5", "NA", "oak"], [0, 1], None)
    [1.5, nan]
    """
    chosen = [cells[column] for column in features]
    try:
        if "_" not in "".join(chosen):
            return [float(cell) for cell in chosen]
    except ValueError:
        pass
    for column, cell in zip(features, chosen, strict=True):
        if not is_missing(cell) and not is_number(cell):
            comma = " Write numbers with a decimal point." if DECIMAL_COMMA.fullmatch(cell) else ""
            raise InputError(f"column {called(column, names)}: {cell!r} is not a number.{comma}")
    return [np.nan if is_missing(cell) else float(cell) for cell in chosen]


def _values(texts: list[str], column: int, quoted: list[bool]) -> np.ndarray:
    """Labels or ids: texts where they, but not all cells, are in quotes; otherwise what they are written as."""
    return np.array(texts) if quoted[column] and not all(quoted) else _plain_values(texts)


def _plain_values(texts: list[str]) -> np.ndarray:
    """Truth values or numbers where all are written as such and would be again ("007" and "nan" stay texts)."""
    if all(text in TRUTH for text in texts):
        return np.array([TRUTH[text] for text in texts])
    for number in (int, float):
        try:
            converted = [number(text) for text in texts]
        except ValueError:
            continue
        if all(str(value) == text != "nan" for value, text in zip(converted, texts, strict=True)):
            numbers = as_labels(converted)
            if numbers.dtype.kind != "O":
                return numbers
    return np.array(texts)


def write_text(rows: LabeledRows, out: IO[bytes], delimiter: str) -> None:
    """Write a table that ``read_text`` reads back: every number to the last bit, texts in quotes."""
    known = known_columns(rows)
    with as_text(out) as text:
        writer = csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
        writer.writerow([*known, *column_names(rows)])
        for block in row_blocks(len(rows), row_bytes=64 * rows.X.shape[1]):
            numbers = rows.X[block].astype(np.uint8) if rows.X.dtype.kind == "b" else rows.X[block]
            beside = (column[block].tolist() for column in known.values())
            writer.writerows([*cells, *values] for *cells, values in zip(*beside, numbers.tolist(), strict=True))
