"""What two rows of a table have in common, and where they differ, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nearsay.encode.encoded_columns import NumberColumn
from nearsay.encode.table_columns import date_of
from nearsay.encode.table_encoder import TableEncoder

# So many equal columns are named, and so many different ones with both values.
SAME_SHOWN, DIFFERENT_SHOWN = 3, 3


def comparison(encoder: TableEncoder, one: Sequence[Any], other: Sequence[Any]) -> str:
    """Two rows in a sentence: columns that are equal, then those that differ, the farthest apart first, then gaps.

    one, other : the cells of a row each, in the columns that the encoder keeps: a number, a text, or None for a gap.

    >>> encoder = TableEncoder(min_rows=1).fit([["basic", 39500.0, 3.0], ["gold", 41000.0, 4.0], ["basic", 900.0, 9.0]])
    >>> comparison(encoder, ["basic", 41000.0, 3.0], ["basic", 39500.0, None])
    'same x0, x1 41,000 against 39,500, x2 3 against nothing'
    """
    same, different = [], []
    for column, a, b in zip(encoder.columns_, one, other, strict=True):
        a, b = (None if _is_gap(value) else value for value in (a, b))
        if a == b:
            if a is not None:
                same.append(column.name)
            continue
        apart = float(np.square(np.subtract(*(column.encode(_cells(column, value)) for value in (a, b)))).sum())
        shown = f"{column.name} {shown_cell(column, a)} against {shown_cell(column, b)}"
        different.append((a is None or b is None, -apart, shown))
    different.sort(key=lambda each: each[:2])
    parts = [f"same {_listed(same)}"] if same else []
    parts += [shown for *_, shown in different[:DIFFERENT_SHOWN]]
    more = len(different) - DIFFERENT_SHOWN
    return ", ".join([*parts, *([f"{more} more"] if more > 0 else [])])


def shown_cell(column: Any, value: Any) -> str:
    """A cell as people read it: 41,000, 3.5, 2024-05-01, red, or nothing.

    >>> shown_cell(None, 41000.0), shown_cell(None, 0.123456), shown_cell(None, "red"), shown_cell(None, None)
    ('41,000', '0.1235', 'red', 'nothing')
    """
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return value
    if isinstance(column, NumberColumn) and column.is_date:
        return date_of(value)
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e15 else f"{value:,.4g}"


def _listed(names: list[str]) -> str:
    shown = names[:SAME_SHOWN]
    more = len(names) - len(shown)
    if more:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def _is_gap(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))


def _cells(column: Any, value: Any) -> np.ndarray:
    if isinstance(column, NumberColumn):
        return np.array([np.nan if value is None else value])
    cells = np.empty(1, object)
    cells[0] = value
    return cells
