"""Tables of text (csv, tsv): one reader, used line by line, or as a whole by ``read_text``."""

from __future__ import annotations

import csv
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import IO

import numpy as np

from nearsay.core.arrays import as_labels, row_blocks
from nearsay.data.replacing import as_text
from nearsay.data.rows import LabeledRows
from nearsay.data.tables.columns import (
    Column,
    ColumnChoices,
    choose_roles,
    column_names,
    groups_of,
    id_and_label_columns,
)
from nearsay.data.tables.text_format import (
    Record,
    cut_lines,
    delimiter_of,
    first_lines,
    has_header,
    has_row_names,
    header_names,
    is_missing,
    is_mostly_text,
    numbers_of,
    quoted_cells,
    resembles_date,
)
from nearsay.errors import InputError

TRUTH = {"True": True, "False": False}


class TextTable:
    """The lines of a table of text, with its delimiter, header and column roles guessed from the first ones.

    names : list of str, or None where no line names the columns
    width : int, the number of columns
    sample : list of list of str, cells of the first rows.
    """

    def __init__(self, path: Path, choices: ColumnChoices, *, strict: bool = False) -> None:
        self.path = path
        self._errors = "strict" if strict else "surrogateescape"
        with self._open() as file:
            lines = first_lines(file)
        self.delimiter = delimiter_of(lines)
        records = [(cells, text) for _, cells, _, text in cut_lines(lines, self.delimiter) if cells]
        if not records:
            raise InputError(f"{path.name} is empty. A table needs at least one row.")
        cut = [cells for cells, _ in records]
        # A header is as wide as the table, or one cell short; without one, most lines are as wide.
        widest = Counter(map(len, cut)).most_common(1)[0][0]
        usual = choices.usual or ColumnChoices()
        header = usual.header if choices.header is None else choices.header
        if header is None:
            known = (choices.label, choices.id, usual.label, usual.id)
            alike = [cells for cells in cut if len(cells) == widest]
            header = has_row_names(cut) or (len(cut[0]) == widest and has_header(alike, known, path.name))
        self.names = header_names(cut) if header else None
        if any("\udc80" <= character <= "\udcff" for name in self.names or () for character in name):
            raise InputError(f"{path.name} is not UTF-8 text: see the names in its first line. Save it again as UTF-8.")
        self.width = widest if self.names is None else len(self.names)
        self.has_row_names = self.names is not None and len(self.names) > len(cut[0])
        self.sample = [cells for cells in cut[header:] if len(cells) == self.width]
        self._first_record = records[header] if len(records) > header else None
        by_column = [[cells[column] for cells in self.sample] for column in range(self.width)]
        empty = {column for column, cells in enumerate(by_column) if cells and all(map(is_missing, cells))}
        empty = set() if strict else empty
        is_text = [column in empty or is_mostly_text(cells) for column, cells in enumerate(by_column)]
        dates = {
            column for column, cells in enumerate(by_column) if all(is_missing(c) or resembles_date(c) for c in cells)
        }
        choices = choices.for_table(self.names, self.width)
        self.roles = choose_roles(
            self.names, is_text, choices, path.name, empty=empty, dates=dates - empty, strict=strict
        )

    def _open(self) -> IO[str]:
        return open(self.path, encoding="utf-8-sig", errors=self._errors, newline="")

    def records(self) -> Iterator[Record]:
        """Every line after the header, cut into as many cells as there are columns, or refused."""
        with self._open() as file:
            records = cut_lines(file, self.delimiter, self.width)
            if self.names is not None:
                next(records, None)
            yield from records

    @property
    def columns(self) -> list[str]:
        """Names of the feature columns, or their numbers."""
        return [str(column) if self.names is None else self.names[column] for column in self.roles.features]

    @property
    def feature_groups(self) -> dict[str, slice]:
        """The groups that the names spell out; none where they contradict each other."""
        with suppress(InputError):
            return {} if self.names is None else groups_of(self.columns, self.path.name)
        return {}

    @cached_property
    def quoted_columns(self) -> list[bool]:
        """Which columns are in quotes: programs that quote by type do so in every line, so the first one tells."""
        if self._first_record is None:
            return [False] * self.width
        cells, text = self._first_record
        return quoted_cells(text, cells, self.delimiter)

    def count_rows(self) -> int:
        """How many lines there are after the header, blank ones included."""
        n_lines, last = 0, b"\n"
        with open(self.path, "rb") as file:
            while block := file.read(1 << 20):
                n_lines += block.count(b"\n")
                last = block[-1:]
        return n_lines + (last != b"\n") - (self.names is not None)


def read_text(
    path: Path, label: Column | None, id: Column | None, groups: Mapping[str, slice] | None, header: bool | None = None
) -> LabeledRows:
    """Rows of a text table; an unreadable cell is an error that names its line and column."""
    try:
        table = TextTable(path, ColumnChoices(label, id=id, header=header), strict=True)
        numbers, labels, ids = array("d"), [], []
        for line, cells, fault, text in table.records():
            where = f"{path.name}, line {line}"
            if cells is None:
                raise InputError(f"{where}: {fault}.")
            try:
                numbers.extend(numbers_of(cells, table.roles.features, table.names))
            except InputError as error:
                raise InputError(
                    f"{where}, {error} Correct it, leave the cell empty if it is unknown, or pass the column"
                    " as label= or id=."
                ) from None
            if table.roles.label is not None:
                labels.append(cells[table.roles.label])
                if not labels[-1] and not quoted_cells(text, cells, table.delimiter)[table.roles.label]:
                    raise InputError(f"{where}: the label is missing. Fill it in, or drop the line.")
            if table.roles.id is not None:
                ids.append(cells[table.roles.id])
    except UnicodeDecodeError as error:
        raise InputError(f"{path.name} is not UTF-8 text ({error}). Save it again as UTF-8.") from error
    if not numbers:
        raise InputError(f"{path.name} has a header, but no rows.")
    if groups is None:
        groups = {} if table.names is None else groups_of(table.columns, path.name)
    return LabeledRows(
        np.frombuffer(numbers).reshape(-1, len(table.roles.features)),
        None if table.roles.label is None else _values(labels, table.roles.label, table.quoted_columns),
        groups,
        None if table.roles.id is None else _values(ids, table.roles.id, table.quoted_columns),
        path.stem,
    )


def _values(texts: list[str], column: int, quoted: list[bool]) -> np.ndarray:
    """Labels or ids: texts where they, but not all cells, are in quotes; otherwise what they are written as."""
    return np.array(texts) if quoted[column] and not all(quoted) else _plain_values(texts)


def _plain_values(texts: list[str]) -> np.ndarray:
    """Booleans or numbers where all are written as such and would be again ("007" and "nan" stay texts)."""
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
    known = id_and_label_columns(rows)
    with as_text(out) as text:
        writer = csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
        writer.writerow([*known, *column_names(rows)])
        for block in row_blocks(len(rows), row_bytes=64 * rows.X.shape[1]):
            numbers = rows.X[block].astype(np.uint8) if rows.X.dtype.kind == "b" else rows.X[block]
            first = (column[block].tolist() for column in known.values())
            writer.writerows([*cells, *values] for *cells, values in zip(*first, numbers.tolist(), strict=True))
