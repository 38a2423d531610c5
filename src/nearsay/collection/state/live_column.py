"""An immutable column of values: a change copies only the blocks concerned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from typing import Any

from nearsay.core.arrays import row_blocks

ROWS_PER_BLOCK = 512


class LiveColumn:
    """Values of any kind by row number; ``changed`` and ``appended`` give new columns that share unchanged blocks.

    >>> labels = LiveColumn(["oak", None])
    >>> later = labels.changed([1], ["elm"]).appended(["ash"])
    >>> list(labels), list(later), later[2]
    (['oak', None], ['oak', 'elm', 'ash'], 'ash')
    """

    def __init__(self, values: Iterable[Any]) -> None:
        every = list(values)
        self._blocks = [every[part] for part in row_blocks(len(every), size=ROWS_PER_BLOCK)]

    def __len__(self) -> int:
        if not self._blocks:
            return 0
        return ROWS_PER_BLOCK * (len(self._blocks) - 1) + len(self._blocks[-1])

    def __getitem__(self, row: int) -> Any:
        return self._blocks[row // ROWS_PER_BLOCK][row % ROWS_PER_BLOCK]

    def __iter__(self) -> Iterator[Any]:
        for block in self._blocks:
            yield from block

    def changed(self, rows: Iterable[int], values: Iterable[Any]) -> LiveColumn:
        """With other values in these rows."""
        other = self._copied()
        mine: set[int] = set()
        for row, value in zip(rows, values, strict=True):
            number, place = divmod(row, ROWS_PER_BLOCK)
            if number not in mine:
                mine.add(number)
                other._blocks[number] = other._blocks[number].copy()
            other._blocks[number][place] = value
        return other

    def appended(self, values: Iterable[Any]) -> LiveColumn:
        """With more rows."""
        other = self._copied()
        unfinished = len(self) % ROWS_PER_BLOCK
        last = other._blocks.pop() if unfinished else []
        other._blocks += LiveColumn([*last, *values])._blocks
        return other

    def _copied(self) -> LiveColumn:
        other = copy(self)
        other._blocks = self._blocks.copy()
        return other
