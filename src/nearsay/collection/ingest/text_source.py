"""Rows of a table of text, line by line: one that cannot be read is refused by itself, and the next one is read.

A quote that opens and never closes would swallow all lines to the end. So a
line that does not come out as it should is refused alone, and reading goes on
with the line after it, even where a quoted cell seemed to reach further.
"""

from __future__ import annotations

import csv
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

from nearsay.collection.ingest.batches import RawRows
from nearsay.collection.ingest.columns import (
    PICTURE_NAMES,
    ColumnChoices,
    Roles,
    choose_roles,
    separator_of,
    split_keywords,
)
from nearsay.data.tables import find_column, groups_of, looks_like_a_number
from nearsay.data.text_tables import (
    WHITE_SPACE,
    cut_at_white_space,
    delimiter_of,
    first_lines,
    has_header,
    is_missing,
    named_columns,
    names_rows_too,
    numbers_of,
)
from nearsay.errors import InputError

ROWS_AT_ONCE = 4096
# A quoted cell may hold line ends, but not as many.
LONGEST_RECORD = 200
UNCLOSED = "unexpected end of data"

# (number of the line, its cells or None, why there are none)
Line = tuple[int, list[str] | None, str]


class TextSource:
    """The rows of a table of text."""

    def __init__(self, path: Path, asked: ColumnChoices) -> None:
        self.path = path
        with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            sample = first_lines(file)
        self._delimiter = delimiter_of(sample)
        cut = [cells for _, cells, _ in _cut(sample, self._delimiter, None) if cells]
        if not cut:
            raise InputError(f"{path.name} is empty. A table needs at least one row.")
        # A header is as wide as the table, or one cell short; without one, most lines are as wide.
        widest = Counter(map(len, cut)).most_common(1)[0][0]
        alike = [cells for cells in cut if len(cells) == widest]
        usual = asked.usual or ColumnChoices()
        header = usual.header if asked.header is None else asked.header
        if header is None:
            hints = (usual.label if asked.label is None else asked.label, usual.id if asked.id is None else asked.id)
            header = names_rows_too(cut) or (len(cut[0]) == widest and has_header(alike, *hints, path.name))
        self.names = named_columns(cut) if header else None
        self._width = widest if self.names is None else len(self.names)
        self._names_rows = self.names is not None and len(self.names) > len(cut[0])
        rows = [cells for cells in cut[bool(header) :] if len(cells) == self._width]
        asked = asked.of(self.names, self._width)
        by_column = [[cells[column] for cells in rows if column < len(cells)] for column in range(self._width)]
        empty = {column for column, cells in enumerate(by_column) if cells and all(map(is_missing, cells))}
        is_text = [column in empty or _mostly_text(cells) for column, cells in enumerate(by_column)]
        self.roles = choose_roles(self.names, is_text, asked, path.name, empty)
        self.chosen = [*self._header_told(), *self.roles.chosen]
        self.columns = _names_of(self.roles.features, self.names)
        self.n_rows = _count_lines(path) - (self.names is not None)
        keywords = self.roles.keywords
        self._separator = None if keywords is None else separator_of([cells[keywords] for cells in rows])

    @property
    def feature_groups(self) -> dict[str, slice]:
        """Columns that belong together by their names; none where the names do not follow on from each other."""
        with suppress(InputError):
            return {} if self.names is None else groups_of(self.columns, self.path.name)
        return {}

    def _header_told(self) -> list[str]:
        if self.names is None:
            return ["no line names the columns: they go by number"]
        besides = " but the first, which names the rows" if self._names_rows else ""
        return [f"the first line names the columns{besides}"]

    def lines(self) -> Iterator[Line]:
        """Every line after the header, cut into as many cells as there are columns, or refused."""
        with open(self.path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            lines = _cut(file, self._delimiter, self._width)
            if self.names is not None:
                next(lines, None)
            yield from lines

    def __iter__(self) -> Iterator[RawRows]:
        lines = enumerate(self.lines())
        while block := [line for _, line in zip(range(ROWS_AT_ONCE), lines, strict=False)]:
            yield self._raw_rows(block)

    def _raw_rows(self, block: list[tuple[int, Line]]) -> RawRows:
        roles = self.roles
        X = np.zeros((len(block), len(roles.features)))
        found = RawRows([row for row, _ in block], [], X, [], [], [], lines=[line for _, (line, _, _) in block])
        for place, (row, (_, cells, reason)) in enumerate(block):
            if cells is None:
                found.refused[place] = reason
                cells = [""] * self._width
            else:
                try:
                    X[place] = numbers_of(cells, roles.features, self.names)
                except InputError as error:
                    found.refused[place] = str(error).rstrip(".")
            found.ids.append(f"{self.path.stem}:{row}" if roles.id is None else cells[roles.id].strip())
            found.labels.append(_or_none(cells, roles.label))
            found.keywords.append(self._keywords(cells))
            found.details.append(self._details(cells))
        return found

    def _keywords(self, cells: list[str]) -> list[str] | None:
        column = self.roles.keywords
        return None if column is None else split_keywords(cells[column], self._separator)

    def _details(self, cells: list[str]) -> dict[str, str]:
        named = {self.names[column] if self.names else str(column): cells[column] for column in self.roles.details}
        picture = _or_none(cells, self.roles.picture)
        return named if picture is None else {**named, "path": picture}


def id_and_labels(path: Path, asked: ColumnChoices) -> TextSource:
    """A table that says of every id its label or keywords: the first column names the item unless another one does."""
    table = TextSource(path, asked)
    roles = table.roles
    id = roles.id
    if id is None:
        id = find_column(None, table.names, table._width, PICTURE_NAMES, path.name)
    id = 0 if id is None else id
    label = None if roles.label == id else roles.label
    if label is None and roles.keywords is None:
        others = [column for column in (*roles.details, *roles.features) if column != id]
        if not others:
            raise InputError(f"{path.name} names items, but neither labels nor keywords. Add a column 'label'.")
        label = others[-1]
    table.roles = Roles(label, roles.keywords, id, None, [], [], [])
    return table


def _cut(lines: Iterable[str], delimiter: str, width: int | None) -> Iterator[Line]:
    """Every line that is not blank, cut into cells; one that cannot be, or not into ``width`` cells, is refused."""
    waiting: deque[tuple[int, str]] = deque()
    numbered = iter(enumerate(lines, start=1))

    def take() -> tuple[int, str] | None:
        return waiting.popleft() if waiting else next(numbered, None)

    while (first := take()) is not None:
        if not first[1].strip():
            continue
        record = [first]
        cells, reason = _cells(record, delimiter)
        while reason == UNCLOSED and len(record) < LONGEST_RECORD and (more := take()) is not None:
            record.append(more)
            if '"' in more[1]:
                cells, reason = _cells(record, delimiter)
        if cells is not None and len(cells) != (width or len(cells)):
            reason = f"it has {len(cells)} cells, the table {width} columns"
            cells = None
        if cells is None:
            waiting.extendleft(reversed(record[1:]))
            reason = "a quoted cell is not closed" if reason == UNCLOSED or len(record) > 1 else reason
        yield first[0], cells, reason


def _cells(record: list[tuple[int, str]], delimiter: str) -> tuple[list[str] | None, str]:
    texts = [text for _, text in record]
    if delimiter == WHITE_SPACE:
        try:
            return cut_at_white_space(texts[0]), ""
        except csv.Error:
            return None, "a quoted cell is not closed"
    try:
        return next(csv.reader(texts, delimiter=delimiter, skipinitialspace=True, strict=True)), ""
    except csv.Error as error:
        return None, str(error)


def _mostly_text(cells: list[str]) -> bool:
    """Whether most cells are no numbers: a word among numbers is a mistake, not a column of words."""
    known = [cell for cell in cells if not is_missing(cell)]
    return sum(not looks_like_a_number(cell) for cell in known) * 2 > len(known)


def _names_of(features: list[int], names: list[str] | None) -> list[str]:
    return [str(column) if names is None else names[column] for column in features]


def _or_none(cells: list[str], column: int | None) -> str | None:
    return None if column is None else cells[column].strip() or None


def _count_lines(path: Path) -> int:
    n_lines, last = 0, b"\n"
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            n_lines += block.count(b"\n")
            last = block[-1:]
    return n_lines + (last != b"\n")
