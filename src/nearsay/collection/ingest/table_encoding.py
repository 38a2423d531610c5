"""Tables with words and gaps as sources: encoded as rows of numbers, with the cells kept as details.

    index:  reader ──► all cells ──► TableEncoder, fitted ──► rows         stored with the collection
    query:  reader ──► cells, by the names of the columns ──► the stored encoder ──► rows

A table of numbers without gaps, and without words that come again, is left as it is.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nearsay.collection.ingest.batches import RawRows, Reader
from nearsay.collection.ingest.table_sources import TableReader
from nearsay.collection.store.validate_items import LARGEST
from nearsay.data.tables.columns import COMPARED, KEPT, PART_NAMES
from nearsay.data.tables.text_format import is_missing
from nearsay.encode.comparisons import comparison
from nearsay.encode.encoded_columns import NumberColumn, WordColumn
from nearsay.encode.table_columns import NUMBERS, UNUSED, WORDS, TableColumns, columns_of_cells, date_of, gaps_of
from nearsay.encode.table_encoder import TableEncoder
from nearsay.errors import InputError, closest
from nearsay.taxonomy.edges import few

NAMES_SHOWN = 6


class EncodedRows(Reader):
    """The rows of a table, encoded; with an encoder that is not fitted yet, the first pass fits it, if it is needed.

    Attributes
    ----------
    encoder : the fitted encoder; None where the table is left as it is, or before the first pass.
    chosen, n_rows, columns, feature_groups : as of any reader, of the encoded rows.
    """

    def __init__(self, reader: TableReader, encoder: TableEncoder) -> None:
        self._reader = reader
        self._new = None if hasattr(encoder, "columns_") else encoder
        self.encoder: TableEncoder | None = None if self._new else encoder
        self.n_rows, self.chosen = reader.n_rows, list(reader.chosen)
        self.columns, self.feature_groups, self.group_by = reader.columns, reader.feature_groups, reader.group_by
        self._words = words_of(reader)
        if self.encoder is not None:
            self._use(self.encoder)

    def __iter__(self) -> Iterator[RawRows]:
        if self._new is None:
            for raw in self._reader:
                yield raw if self.encoder is None else self._encoded(self.encoder, self._within_range(raw))
            return
        blocks = [self._within_range(raw) for raw in self._reader]
        self._learn(self._new, blocks)
        self._new = None
        if self.encoder is None and not self.columns:
            raise InputError(
                f"{self._reader.path.name} has neither a column of numbers, nor one of words that come again, nor one"
                " that names pictures (path, image, file …). Items are compared by these: add one."
            )
        while blocks:  # let go of what is encoded, so that the cells are never held twice
            raw = blocks.pop(0)
            yield raw if self.encoder is None else self._encoded(self.encoder, raw)

    def _learn(self, encoder: TableEncoder, blocks: Sequence[RawRows]) -> None:
        """Fit the encoder to all rows that can be read, and use it where there are words or gaps."""
        gaps = any(np.isnan(raw.X).any() for raw in blocks)
        if not (gaps or self._words) or not blocks:
            return
        names = self._in_order([*self._reader.columns, *self._words])
        parts = [self._cells(raw, names) for raw in blocks]
        kept = np.concatenate([~np.isin(np.arange(len(raw.ids)), list(raw.refused)) for raw in blocks])
        cells = {name: np.concatenate([part[name] for part in parts])[kept] for name in names}
        if not kept.any():
            return
        try:
            encoder.fit_columns(columns_of_cells(cells))
        except InputError:  # nothing to compare by: numbers that are all equal, words that all differ
            return
        if not gaps and not any(isinstance(column, WordColumn) or column.is_date for column in encoder.columns_):
            return
        encoder.feature_names_in_, encoder.n_features_in_ = np.array(names, dtype=object), len(names)
        self._use(encoder)
        self.chosen += report_of(encoder)

    def _within_range(self, raw: RawRows) -> RawRows:
        """Rows of which those with a number that no collection takes are refused."""
        for place, column in np.argwhere(np.abs(raw.X) > LARGEST).tolist():
            holds = f"column {self._reader.columns[column]!r} holds {raw.X[place, column]:g}"
            raw.refused.setdefault(place, f"{holds}; a collection takes numbers up to {LARGEST:g}")
            raw.X[place, column] = 0.0
        return raw

    def _in_order(self, names: list[str]) -> list[str]:
        """Columns as they stand in the table; those of a list of numbers stand where the list does."""
        roles, name_of = self._reader.roles, self._reader.column_name
        place = {name_of(column): column for column in (*roles.features, *roles.details)}
        return sorted(names, key=lambda name: place[name if name in place else name.rpartition("[")[0]])

    def _use(self, encoder: TableEncoder) -> None:
        self.encoder = encoder
        self.columns, self.feature_groups = encoder.get_feature_names_out().tolist(), {}
        self.chosen = [sentence for sentence in self.chosen if not sentence.startswith((COMPARED, KEPT))]
        given = {*self._reader.columns, *self._words}
        missing = [column.name for column in encoder.columns_ if column.name not in given]
        if missing:
            raise InputError(
                f"{self._reader.path.name} has other columns than this collection: it lacks {few(missing)}."
                " Add them; a cell may be empty."
            )

    def _encoded(self, encoder: TableEncoder, raw: RawRows) -> RawRows:
        """The rows as numbers; all cells become details, by which people compare them."""
        names = list(encoder.feature_names_in_)
        given = self._cells(raw, [name for name in names if name in self._reader.columns or name in self._words])
        cells = {name: given.get(name, np.full(len(raw.ids), None)) for name in names}
        kinds = dict(zip(names, encoder.kinds_, strict=True))
        for name, kind in kinds.items():
            if kind not in (WORDS, UNUSED):
                cells[name] = _numbers(raw, name, kind, cells[name])
        columns = columns_of_cells(cells, kinds)
        raw.X = encoder.transform_columns(columns)
        for place, details in enumerate(raw.details):
            raw.details[place] = {**details, **_details(encoder, columns, place)}
        return raw

    def _cells(self, raw: RawRows, names: Sequence[str]) -> dict[str, np.ndarray]:
        """The cells of some columns: floats, or texts with None for a gap."""
        numbers = {name: place for place, name in enumerate(self._reader.columns)}
        cells: dict[str, np.ndarray] = {}
        for name in names:
            if name in numbers:
                cells[name] = np.asarray(raw.X[:, numbers[name]], np.float64)
            else:
                cells[name] = np.empty(len(raw.ids), object)
                texts = (details.get(name, "") for details in raw.details)
                cells[name][:] = [None if is_missing(text) else text.strip() for text in texts]
        return cells


def words_of(reader: TableReader) -> list[str]:
    """The columns of words by which rows may be compared: the details, but for the part of the data and the group."""
    named = [reader.column_name(column) for column in reader.roles.details if column != reader.roles.group]
    return [name for name in named if name.strip().lower() not in PART_NAMES]


def _numbers(raw: RawRows, name: str, kind: str, cells: np.ndarray) -> np.ndarray:
    """Cells of a column of numbers or dates; a row in which it holds something else is refused."""
    if cells.dtype.kind == "f" and kind == NUMBERS:
        return cells
    gaps, cells = gaps_of(cells), cells.astype(object)
    cells[gaps] = None
    for place, cell in enumerate(cells):
        if cell is None:
            continue
        try:
            columns_of_cells({name: [cell]}, {name: kind})
        except InputError:
            raw.refused[place] = f"column {name!r}: {cell!r} is not a {'number' if kind == NUMBERS else 'date'}"
            cells[place] = None
    return cells


def _details(encoder: TableEncoder, columns: TableColumns, row: int) -> dict[str, str]:
    """The cells of a row as texts that are read again as the same cells."""
    details = {}
    for column, place in zip(encoder.columns_, encoder.places_, strict=True):
        cell = columns.cells[place][row]
        if isinstance(column, WordColumn):
            details[column.name] = cell
        elif cell == cell:
            details[column.name] = date_of(cell) if column.is_date else f"{cell:.15g}"
    return {name: text for name, text in details.items() if text is not None}


def report_of(encoder: TableEncoder) -> list[str]:
    """What was made of the columns, in sentences: nothing is left out without a word."""
    numbers = [column for column in encoder.columns_ if isinstance(column, NumberColumn)]
    words = [column for column in encoder.columns_ if isinstance(column, WordColumn)]
    kinds = [f"{len(numbers)} of numbers"] * bool(numbers) + [f"{len(words)} of words"] * bool(words)
    sentences = [f"items are compared by {len(encoder.columns_)} columns: {' and '.join(kinds)}"]
    dates: dict[str, list[str]] = {}
    for column, place in zip(encoder.columns_, encoder.places_, strict=True):
        if encoder.kinds_[place] not in (NUMBERS, WORDS):
            dates.setdefault(encoder.kinds_[place], []).append(column.name)
    sentences += [f"{kind}: {few(names)}" for kind, names in dates.items()]
    by_ranks = [column.name for column in numbers if column.quantiles is not None]
    if by_ranks:
        sentences.append(f"skewed, so compared by ranks: {few(by_ranks)}")
    rare = [column.name for column in words if column.has_rare]
    if rare:
        sentences.append(f"rare words count as one value: {few(rare)}")
    gaps = {name: n for name, n in encoder.n_gaps_.items() if n}
    if gaps:
        shown = [f"{name!r} {n:,}" for name, n in sorted(gaps.items(), key=lambda each: -each[1])]
        more = f" and {len(shown) - NAMES_SHOWN} more columns" if len(shown) > NAMES_SHOWN else ""
        total = sum(gaps.values())
        cells = f"{total:,} cell{'s are' if total != 1 else ' is'} missing ({', '.join(shown[:NAMES_SHOWN])}{more})"
        sentences.append(f"{cells}: no row is dropped; a gap counts as evidence of its own")
    sentences += [f"column {name!r} is left out: it {why}" for name, why in encoder.dropped_.items()]
    return sentences


class StoredTable:
    """Rows of a collection that was made of a table with words and gaps: encoded, and compared in words."""

    def __init__(self, encoder: TableEncoder) -> None:
        self.encoder = encoder
        self._kinds = dict(zip(encoder.feature_names_in_, encoder.kinds_, strict=True))

    def columns(self, details: Sequence[Mapping[str, Any] | None]) -> TableColumns:
        """Rows whose cells are given as texts."""
        cells = {
            name: [None if each is None or is_missing(str(each.get(name, ""))) else each[name] for each in details]
            for name in self._kinds
        }
        return columns_of_cells(cells, self._kinds)

    def encoded(self, details: Sequence[Mapping[str, Any] | None]) -> np.ndarray:
        """The same as rows of numbers."""
        return self.encoder.transform_columns(self.columns(details))

    def compared(self, one: Mapping[str, Any] | None, others: Sequence[Mapping[str, Any] | None]) -> list[str]:
        """How each of the others is like one row, in words."""
        columns = self.columns([one, *others])
        rows = [[columns.cells[place][row] for place in self.encoder.places_] for row in range(len(columns))]
        return [comparison(self.encoder, rows[0], row) for row in rows[1:]]


def parsed_row(text: str, names: Sequence[str]) -> dict[str, str]:
    """The cells of a row that is typed on one line, by column.

    >>> parsed_row("22, male", ["age", "sex"]), parsed_row("sex=male", ["age", "sex"])
    ({'age': '22', 'sex': 'male'}, {'sex': 'male'})
    """
    cells = next(csv.reader([text.strip()], skipinitialspace=True), [])
    if cells and all("=" in cell for cell in cells):
        given = {name.strip(): cell.strip() for name, cell in (each.split("=", 1) for each in cells)}
        unknown = [name for name in given if name not in names]
        if unknown:
            raise InputError(
                f"There is no column {unknown[0]!r}{closest(unknown[0], names)}. The columns: {', '.join(names)}."
            )
        return given
    if len(cells) != len(names):
        raise InputError(
            f"Got {len(cells)} cell{'s' * (len(cells) != 1)}; a row of this collection has {len(names)}:"
            f" {', '.join(names[:20])}."
            " Leave a cell empty where a value is missing, or name those you know: age=38,sex=female."
        )
    return {name: cell.strip() for name, cell in zip(names, cells, strict=True)}
