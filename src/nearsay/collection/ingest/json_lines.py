"""JSON lines as a source: an object a line, whose keys are the columns of a table.

A list of numbers is a vector; one of words holds keywords. Anything else that is no number is a text.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.collection.ingest.batches import RawRows
from nearsay.collection.ingest.table_sources import ROWS_AT_ONCE, TableReader
from nearsay.data.tables.columns import (
    TEXT_NAMES,
    ColumnChoices,
    choose_roles,
    column_called,
    groups_of,
    separator_of,
    spelled_names,
)
from nearsay.data.tables.text_format import resembles_date
from nearsay.describe.texts.text_descriptor import text_fault
from nearsay.errors import InputError

SAMPLE = 50
# Bytes of a line; more than any text that is described takes.
LONGEST_LINE = 16 << 20

Line = tuple[int, Any]


class JsonLines(TableReader):
    """The objects of a file of JSON lines; the first ones tell what the columns are."""

    names: list[str]

    def __init__(self, path: Path, choices: ColumnChoices) -> None:
        self.path = path
        objects = [each for _, each in islice(self._objects(), SAMPLE) if isinstance(each, dict)]
        if not objects:
            raise InputError(f"{path.name} holds no JSON objects, one a line.")
        self.names = list(dict.fromkeys(name for each in objects for name in each))
        values = [[each[name] for each in objects if each.get(name) is not None] for name in self.names]
        # The length of the vectors of a column; None for a column of single values.
        self._lengths = [_length(cells) for cells in values]
        vectors = [length is not None for length in self._lengths]
        empty = {column for column, cells in enumerate(values) if not cells}
        is_text = [not vector and _are_texts(cells) for vector, cells in zip(vectors, values, strict=True)]
        choices = choices.for_table(self.names, len(self.names))
        if choices.text is None and not any(vectors):
            choices = replace(choices, text=column_called(TEXT_NAMES, self.names))
        dates = [column for column, cells in enumerate(values) if all(resembles_date(str(cell)) for cell in cells)]
        self.roles = choose_roles(self.names, is_text, choices, path.name, empty=empty, dates=dates)
        self.chosen = self.roles.chosen
        with open(path, "rb") as file:
            self.n_rows = sum(1 for _ in file)
        widths = {column: self._lengths[column] or 1 for column in self.roles.features}
        self.columns: list[str] = list(
            chain.from_iterable(spelled_names(self.names[c], width) for c, width in widths.items())
        )
        with suppress(InputError):
            self.feature_groups = groups_of(self.columns, path.name)
        words = [] if self.roles.keywords is None else values[self.roles.keywords]
        self.separator = separator_of([each for each in words if isinstance(each, str)])

    def _objects(self) -> Iterator[Line]:
        """Every line that is not blank: its number, and its value or an InputError."""
        with open(self.path, "rb") as file:
            number = 0
            while line := file.readline(LONGEST_LINE):
                number += 1
                whole = line.endswith(b"\n") or len(line) < LONGEST_LINE
                while not line.endswith(b"\n") and (more := file.readline(LONGEST_LINE)):
                    line = more
                if not whole:
                    yield number, InputError(f"the line has more than {LONGEST_LINE:,} bytes")
                elif line.strip():
                    yield number, _value(line, first=number == 1)

    def __iter__(self) -> Iterator[RawRows]:
        numbered = enumerate(self._objects())
        while block := list(islice(numbered, ROWS_AT_ONCE)):
            yield self._raw_rows(block)

    def _raw_rows(self, block: Sequence[tuple[int, Line]]) -> RawRows:
        refused: dict[int, str] = {}
        X, table = np.zeros((len(block), len(self.columns))), []
        for place, (_, (_, value)) in enumerate(block):
            if isinstance(value, InputError):
                refused[place] = str(value)
            elif not isinstance(value, dict):
                refused[place] = "it is no JSON object, {…}"
            given = value if isinstance(value, dict) else {}
            cells = [given.get(name) for name in self.names]
            table.append(cells)
            try:
                X[place] = self._numbers(cells)
                if self.roles.text is not None and (fault := text_fault(cells[self.roles.text])) is not None:
                    raise InputError(fault)
            except InputError as error:
                refused.setdefault(place, str(error))
        rows, lines = [row for row, _ in block], [line for _, (line, _) in block]
        return self.raw_rows(rows, X, lambda column: [cells[column] for cells in table], refused, lines)

    @staticmethod
    def text_of(cell: Any) -> str:
        """A value as text: what is neither a text nor missing as JSON."""
        if cell is None:
            return ""
        return cell.strip() if isinstance(cell, str) else json.dumps(cell, ensure_ascii=False)

    def _numbers(self, cells: list[Any]) -> list[float]:
        """The numbers of an object, NaN where one is missing; an error names the first column that holds none."""
        numbers: list[float] = []
        for column in self.roles.features:
            cell, length, name = cells[column], self._lengths[column], self.names[column]
            given = cell if isinstance(cell, list) else [] if cell is None else [cell]
            if length is None:
                given = [cell]
            elif len(given) != length:
                holds = f"{len(given)} numbers" if given else "nothing"
                raise InputError(f"column {name!r} holds {holds}; most rows have {length} numbers")
            wrong = next((each for each in given if each is not None and not _is_number(each)), None)
            if wrong is not None:
                raise InputError(f"column {name!r}: {self.text_of(wrong)[:40]!r} is not a number")
            numbers += [_float(each) for each in given]
        return numbers


def _value(line: bytes, *, first: bool) -> Any:
    """The value of a line of JSON, or an InputError that says why it has none."""
    try:
        return json.loads(line.decode("utf-8-sig" if first else "utf-8", "surrogateescape"))
    except (ValueError, RecursionError) as error:
        why = "nested too deep" if isinstance(error, RecursionError) else " ".join(str(error).split())[:80]
        return InputError(f"it is not JSON ({why})")


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float)


def _are_texts(cells: list[Any]) -> bool:
    """Whether most values of a column are no numbers, or there are none."""
    return 2 * sum(map(_is_number, cells)) < len(cells) or not cells


def _length(cells: list[Any]) -> int | None:
    """How many numbers most cells of a column hold, if these are lists of numbers."""
    lengths = [len(cell) for cell in cells if isinstance(cell, list) and cell and any(map(_is_number, cell))]
    if 2 * len(lengths) <= len(cells):
        return None
    return Counter(lengths).most_common(1)[0][0]


def _float(number: float | None) -> float:
    if number is None:
        return np.nan
    try:
        return float(number)
    except OverflowError:  # a whole number of any length: refused later, as too large
        return np.inf
