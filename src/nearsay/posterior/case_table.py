"""A table of past cases as it can be shown: what it counts, and what is read from each cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class CaseTable:
    """One table of a fitted posterior.

    Attributes
    ----------
    name : str
        What the table is called.
    axes : tuple of str
        What each axis counts, in plain words; one or two of them.
    ticks : tuple of lists
        The values along each axis.
    cases : array, one axis for each of ``axes``
        How many past cases, or how much of them, each cell holds.
    probability : array of the same shape
        What the posterior reads from the cell.

    >>> table = CaseTable("rank", ("rank of the true label",), ([1, 2],), np.array([9, 1]), np.array([0.9, 0.1]))
    >>> table.cases.sum()
    np.int64(10)
    """

    name: str
    axes: tuple[str, ...]
    ticks: tuple[list[Any], ...]
    cases: np.ndarray
    probability: np.ndarray
