"""The columns of a table as they are given: numbers, dates or words, with gaps.

pandas, polars, Arrow, arrays ──► one array a column: float64 with NaN for a gap, or texts with None for one
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

from nearsay.errors import InputError

NUMBERS, DATES, WORDS = "numbers", "dates", "words"
# Of queries: of a column that no row is compared by, nothing is read.
UNUSED = "unused"
# How texts spell dates: all of a column in one way. Where days and months could be either, they are words.
DATE_FORMATS = {
    DATES: "",
    "dates as 2024/12/31": "%Y/%m/%d",
    "dates as 31.12.2024": "%d.%m.%Y",
    "dates as 31/12/2024": "%d/%m/%Y",
    "dates as 12/31/2024": "%m/%d/%Y",
}
DAY = np.timedelta64(1, "D")
EPOCH = np.datetime64("1970-01-01")
ISO_DATE = re.compile(r"\s*\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?\s*")
OTHER_DATE = re.compile(r"\s*(\d{4}/\d\d?/\d\d?|\d\d?([./])\d\d?\2\d{4})( +\d\d?:\d\d(:\d\d)?)?\s*")
# Of a column of booleans that came as numbers.
TRUTH = {"true": 1.0, "false": 0.0}
MISSING_TYPES = ("NAType", "NaTType")  # of pandas, which need not be installed


@dataclass(frozen=True, eq=False)
class TableColumns:
    """The columns of a table.

    names : list of str
    kinds : list of str, "numbers", "words", "dates" or another of ``DATE_FORMATS``, "unused".
    cells : numbers, and dates as days since 1970, as float64 with NaN for a gap; words as texts with None for one.
    """

    names: list[str]
    kinds: list[str]
    cells: list[np.ndarray]

    def __len__(self) -> int:
        return len(self.cells[0]) if self.cells else 0

    def take(self, rows: Any) -> TableColumns:
        """Some of the rows."""
        return TableColumns(self.names, self.kinds, [cells[rows] for cells in self.cells])

    def used_as(self, kinds: Sequence[str]) -> TableColumns:
        """The same without the cells of unused columns."""
        nothing = np.full(len(self), np.nan)
        cells = [nothing if kind == UNUSED else column for kind, column in zip(kinds, self.cells, strict=True)]
        return TableColumns(self.names, list(kinds), cells)

    def gaps(self, column: int) -> np.ndarray:
        """Where a column has no value: (n_rows,) bool."""
        return gaps_of(self.cells[column])


def gaps_of(cells: np.ndarray) -> np.ndarray:
    """Where there is no value: NaN among numbers, None among words."""
    return np.isnan(cells) if cells.dtype.kind == "f" else np.array([cell is None for cell in cells], np.bool_)


def is_data_frame(X: Any) -> bool:
    """Whether X has named columns, each of a type of its own: pandas, polars, an Arrow table."""
    return any(hasattr(X, method) for method in ("iloc", "get_columns", "itercolumns")) and len(X.shape) == 2


def needs_encoding(X: Any) -> bool:
    """Whether a data frame holds words, dates or gaps, or an array words or dates, so that it is no table of numbers.

    Arrays of numbers are measured as they are: a gap in one is an error. Cells of other kinds are left for others to
    refuse.

    >>> needs_encoding([[1.0, 2.0]]), needs_encoding([["red", 2.0]]), needs_encoding([[None, 2.0]])
    (False, True, False)
    """
    framed = is_data_frame(X)
    if framed and not all(X.shape):
        return False
    if not framed:
        if hasattr(X, "nnz"):
            return False
        array = X if isinstance(X, np.ndarray) else np.asarray(X)
        if array.ndim != 2 or not array.size or array.dtype.kind not in "OUTMm":
            return False
    try:
        columns = read_columns(X)
    except (InputError, TypeError, ValueError):
        return False
    if any(kind != NUMBERS for kind in columns.kinds):
        return True
    return framed and any(np.isnan(cells).any() for cells in columns.cells)


def read_columns(X: Any, kinds: Sequence[str] | None = None) -> TableColumns:
    """The columns of a data frame or a two-dimensional array; of queries as the ``kinds`` that ``fit`` read.

    A column of texts that all spell numbers holds numbers, and one of dates in one of the ``DATE_FORMATS`` dates,
    unless its type says that they are categories.

    >>> columns = read_columns([["red", "1.5", None], ["blue", "2", 7]])
    >>> columns.kinds, columns.cells[2]
    (['words', 'numbers', 'numbers'], array([nan,  7.]))
    """
    names, read, cells = [], [], []
    for place, (name, values, is_category) in enumerate(_given_columns(X)):
        kind = None if kinds is None else kinds[place]
        names.append(name)
        kind, column = _column(name, values, is_category, kind)
        read.append(kind)
        cells.append(column)
    return TableColumns(names, read, cells)


def columns_of_cells(cells: Mapping[str, Any], kinds: Mapping[str, str] | None = None) -> TableColumns:
    """The columns of a table that is given as {name: cells}."""
    read = [_column(name, values, False, None if kinds is None else kinds[name]) for name, values in cells.items()]
    return TableColumns(list(cells), [kind for kind, _ in read], [column for _, column in read])


# ------------------------------------------------------------------ what libraries have


def _given_columns(X: Any) -> Iterator[tuple[str, Any, bool]]:
    """(name, values, whether their type says that they are categories) of every column."""
    if hasattr(X, "iloc"):  # pandas
        for place, name in enumerate(X.columns):
            series = X.iloc[:, place]
            kind = getattr(series.dtype, "kind", "O")
            if kind in "fiumM" and isinstance(series.dtype, np.dtype):
                yield str(name), series.to_numpy(), False
            else:
                yield str(name), series.astype(object).tolist(), series.dtype.name == "category"
    elif hasattr(X, "get_columns"):  # polars
        for series in X.get_columns():
            yield series.name, series.to_list(), str(series.dtype).startswith(("Categorical", "Enum"))
    elif hasattr(X, "itercolumns"):  # Arrow
        for name, column in zip(X.column_names, X.itercolumns(), strict=True):
            yield name, column.to_pylist(), str(column.type).startswith("dictionary")
    else:
        array = X if isinstance(X, np.ndarray) else np.array(X, dtype=object)
        if array.ndim != 2:
            raise InputError(f"A table has rows and columns; got shape {array.shape}.")
        for place in range(array.shape[1]):
            yield f"x{place}", array[:, place], False


# ------------------------------------------------------------------ cells


def _column(name: str, values: Any, is_category: bool, kind: str | None) -> tuple[str, np.ndarray]:
    """(kind, cells) of one column."""
    if kind == UNUSED:
        return kind, np.full(len(values), np.nan)
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiumM":
        if values.dtype.kind in "mM":
            of_dates = values.dtype.kind == "M"
            days = (values - EPOCH.astype(values.dtype) if of_dates else values) / DAY
            read = (DATES if of_dates else NUMBERS), days.astype(np.float64)
        else:
            read = NUMBERS, values.astype(np.float64)
        if kind != WORDS:
            return _check_kind(name, *read, kind)
    cells = [None if _is_gap(cell) else cell for cell in (values.tolist() if hasattr(values, "tolist") else values)]
    known = [cell for cell in cells if cell is not None]
    if kind is None:
        kind = WORDS if is_category else _kind_of(name, known)
    if kind == WORDS:
        words = np.empty(len(cells), object)
        words[:] = [None if cell is None else word_of(cell) for cell in cells]
        return WORDS, words
    numbers = np.empty(len(cells))
    for row, cell in enumerate(cells):
        try:
            numbers[row] = np.nan if cell is None else _number_of(cell) if kind == NUMBERS else _day_of(cell, kind)
        except (ValueError, OverflowError):
            what = {NUMBERS: "a number", DATES: "a date as 2024-12-31"}.get(kind, kind.replace("dates", "a date"))
            raise InputError(
                f"Column {name!r} holds {repr(cell)[:60]} at row {row}, where {what} is expected, as in the other rows."
                " Correct it, or leave the cell empty."
            ) from None
    return _check_kind(name, kind, numbers, kind)


def _check_kind(name: str, kind: str, numbers: np.ndarray, expected: str | None) -> tuple[str, np.ndarray]:
    """The numbers of a column, none infinite and of the kind that is expected."""
    if expected is not None and (kind in DATE_FORMATS) != (expected in DATE_FORMATS) and not np.isnan(numbers).all():
        raise InputError(f"Column {name!r} holds {kind}, and held {expected} in the rows given to fit.")
    if np.isinf(numbers).any():
        row = int(np.isinf(numbers).argmax())
        raise InputError(
            f"Column {name!r} holds {numbers[row]} at row {row}, which is not a finite number. Leave the cell empty"
            " (NaN) if the number is unknown."
        )
    return expected or kind, numbers


def _kind_of(name: str, cells: list[Any]) -> str:
    """What the cells of a column are, all of them."""
    if all(_is_number(cell) for cell in cells):
        return NUMBERS
    if all(isinstance(cell, date | np.datetime64) or _spells_date(cell) for cell in cells):
        return DATES
    if all(isinstance(cell, timedelta | np.timedelta64) for cell in cells):
        return NUMBERS
    if all(isinstance(cell, str | bytes) and _spells_number(cell) for cell in cells):
        return NUMBERS
    if all(isinstance(cell, str) and OTHER_DATE.fullmatch(cell) for cell in cells):
        formats = [kind for kind in DATE_FORMATS if all(_spells_date(cell, kind) for cell in cells)]
        return formats[0] if len(formats) == 1 else WORDS
    for cell in cells:
        if not isinstance(cell, str | bytes | bool | np.bool_ | date | timedelta) and not _is_number(cell):
            try:
                float(cell)
            except TypeError as error:  # which names the type
                raise TypeError(
                    f"Column {name!r} holds {str(cell)[:40]!r}: {error}. Convert it, or leave it out."
                ) from None
    return WORDS


def _is_gap(cell: Any) -> bool:
    """Whether a cell holds nothing: None, NaN, NA, NaT, or a text without a letter."""
    if cell is None or type(cell).__name__ in MISSING_TYPES:
        return True
    if isinstance(cell, str):
        return not cell.strip()
    if isinstance(cell, np.datetime64 | np.timedelta64):
        return bool(np.isnat(cell))
    return isinstance(cell, float | np.floating | Decimal) and bool(cell != cell)


def _is_number(cell: Any) -> bool:
    return isinstance(cell, int | float | np.number | Decimal) and not isinstance(cell, bool | np.timedelta64)


def _spells_number(cell: str | bytes) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in str(cell)


def _spells_date(cell: Any, kind: str = DATES) -> bool:
    """Whether a text is a date as 2024-05-01, or of another kind, perhaps with a time."""
    if not isinstance(cell, str) or not (ISO_DATE if kind == DATES else OTHER_DATE).fullmatch(cell):
        return False
    try:
        _day_of(cell, kind)
    except ValueError:
        return False
    return True


def word_of(cell: Any) -> str:
    """A cell as a word; whole numbers are written the same in any type of number.

    >>> word_of(3.0), word_of(True), word_of(" red ")
    ('3', 'True', 'red')
    """
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "replace").strip()
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        return str(int(cell))
    return str(cell).strip()


def date_of(days: float) -> str:
    """A date as a text that ``read_columns`` reads, with the time of day where there is one.

    >>> date_of(19844.0), date_of(19844.5)
    ('2024-05-01', '2024-05-01T12:00:00')
    """
    return str(np.datetime64(round(days * 86_400), "s")).removesuffix("T00:00:00")


def _number_of(cell: Any) -> float:
    if isinstance(cell, timedelta | np.timedelta64):
        return float(np.timedelta64(cell) / DAY)
    return float(TRUTH.get(cell.strip().lower(), cell) if isinstance(cell, str) else cell)


def _day_of(cell: Any, kind: str) -> float:
    if isinstance(cell, str | bytes):
        text = str(cell).strip()
        if kind == DATES or ISO_DATE.fullmatch(text):
            cell = datetime.fromisoformat(text)
        else:
            time = ("", " %H:%M", " %H:%M:%S")[min(text.count(":"), 2)]
            cell = datetime.strptime(" ".join(text.split()), DATE_FORMATS[kind] + time)
    if isinstance(cell, datetime) and cell.tzinfo is not None:
        cell = (cell - cell.utcoffset()).replace(tzinfo=None)  # type: ignore[operator]
    if not isinstance(cell, date | np.datetime64):
        raise ValueError(f"{cell!r} is no date")
    return float((np.datetime64(cell) - EPOCH) / DAY)
