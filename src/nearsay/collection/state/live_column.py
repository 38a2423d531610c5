"""A column of a living collection: whoever reads it keeps what was there, and a change copies a stretch of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from typing import Any

from nearsay.core.arrays import row_blocks

ROWS_A_STRETCH = 512


class LiveColumn:
    """Values of any kind by row number. Never changes: ``changed`` and ``appended`` give another one.

    What they copy is the stretches concerned, not all rows.

    >>> labels = LiveColumn(["oak", None])
    >>> later = labels.changed([1], ["elm"]).appended(["ash"])
    >>> list(labels), list(later), later[2]
    (['oak', None], ['oak', 'elm', 'ash'], 'ash')
    """

    def __init__(self, values: Iterable[Any]) -> None:
        every = list(values)
        self._stretches = [every[part] for part in row_blocks(len(every), size=ROWS_A_STRETCH)]

    def __len__(self) -> int:
        if not self._stretches:
            return 0
        return ROWS_A_STRETCH * (len(self._stretches) - 1) + len(self._stretches[-1])

    def __getitem__(self, row: int) -> Any:
        return self._stretches[row // ROWS_A_STRETCH][row % ROWS_A_STRETCH]

    def __iter__(self) -> Iterator[Any]:
        for stretch in self._stretches:
            yield from stretch

    def changed(self, rows: Iterable[int], values: Iterable[Any]) -> LiveColumn:
        """With other values in these rows."""
        other = self._copied()
        mine: set[int] = set()
        for row, value in zip(rows, values, strict=True):
            number, place = divmod(row, ROWS_A_STRETCH)
            if number not in mine:
                mine.add(number)
                other._stretches[number] = other._stretches[number].copy()
            other._stretches[number][place] = value
        return other

    def appended(self, values: Iterable[Any]) -> LiveColumn:
        """With more rows."""
        other = self._copied()
        unfinished = len(self) % ROWS_A_STRETCH
        last = other._stretches.pop() if unfinished else []
        other._stretches += LiveColumn([*last, *values])._stretches
        return other

    def _copied(self) -> LiveColumn:
        other = copy(self)
        other._stretches = self._stretches.copy()
        return other
