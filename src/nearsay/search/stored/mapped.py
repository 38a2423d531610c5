"""Row maps: rows of shards are transformed when they are opened, and never written.

    file ──► rows ──► map ──► rows as they are measured
                       └─ travels with the shard, and is part of its identity

A map gives a row the same digits in any batch, so it makes no difference which rows are opened together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nearsay.core.arrays import as_rows


@dataclass(frozen=True)
class RowMap:
    """A transform of rows when they are opened.

    Attributes
    ----------
    of_rows : function of (n_rows, n_columns) numbers, which gives as many mapped rows.
    known_by : identifies this map on any machine.
    n_columns, dtype : of the mapped rows.
    of_dtype : what rows are before they are mapped; those of some shards may have fewer digits.

    >>> doubled = RowMap.of(lambda rows: rows * 2, [np.array([2.0])], n_columns=1, dtype="<f8", of_dtype="<f8")
    >>> doubled(np.array([[1.0], [4.0]])).ravel()
    array([2., 8.])
    """

    of_rows: Callable[[np.ndarray], np.ndarray] = field(compare=False, repr=False)
    known_by: str
    n_columns: int
    dtype: str
    of_dtype: str

    @classmethod
    def of(
        cls,
        of_rows: Callable[[np.ndarray], np.ndarray],
        made_of: Sequence[Any],
        n_columns: int,
        dtype: str,
        of_dtype: str,
    ) -> RowMap:
        """A map that is known by what it is made of: arrays and plain values."""
        digest = hashlib.sha256(of_dtype.encode())
        for part in made_of:
            array = np.ascontiguousarray(part)
            digest.update(f"{array.dtype.str} {array.shape}".encode())
            digest.update(array.tobytes())
        return cls(of_rows, digest.hexdigest(), n_columns, dtype, of_dtype)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """The mapped rows; an error where one of them holds what is not a finite number."""
        return self.of_rows(as_rows(rows.astype(self.of_dtype, copy=False)))
