"""What a source must deliver, row by row and as plainly as it can be said; slow."""

from __future__ import annotations

import math
import struct
import unicodedata


def delivered(rows: list[list[str]], width: int, leaves: set[str]) -> tuple[list[tuple], list[int]]:
    """(id, numbers, label) of the rows that can be used, and the numbers of the others.

    Columns are id, numbers …, label.
    """
    good: list[tuple] = []
    bad: list[int] = []
    for number, cells in enumerate(rows):
        values = _row(cells, width, leaves, {id for id, _, _ in good})
        bad.append(number) if values is None else good.append(values)
    return good, bad


def _row(cells: list[str], width: int, leaves: set[str], before: set[str]) -> tuple | None:
    if len(cells) != width:
        return None
    id, *numbers, label = (cell.strip() for cell in cells)
    if not id or id in before or (label and label not in leaves):
        return None
    if any(unicodedata.category(character) == "Cc" for character in id + label):
        return None
    values = []
    for number in numbers:
        try:
            value = struct.unpack("f", struct.pack("f", float(number)))[0]
        except (ValueError, OverflowError):
            return None
        if not math.isfinite(value) or "_" in number:
            return None
        values.append(value)
    return id, tuple(values), label or None
