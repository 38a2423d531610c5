"""All rows in eight bits and in one piece, for queries that come one by one while rows come and go.

rows ──► centered, scaled, rounded to 8 bits ──► kept: a quarter of the memory to go over for each query
          └─ rows that are added are prepared, those before them stay; a removed row scores +inf
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any

import numpy as np

from nearsay.arrays import GrowingArray, row_blocks
from nearsay.search.screening.prepared_rows import KEEP_UP_TO, ROWS_AT_ONCE, Block, Geometry, PreparedView
from nearsay.search.screening.products import Int8Products, Quantized, has_int8_tile

# Fewer numbers are soon multiplied as they are.
FEWEST_NUMBERS = 1 << 20


class CompactView(PreparedView):
    """Rows of one geometry. Never changes: other rows give another one, which shares the memory."""

    def __init__(self, geometry: Geometry) -> None:
        super().__init__(geometry, Int8Products())
        self._values: GrowingArray | None = None  # none are prepared yet
        self._scales = self._half_norms = GrowingArray(np.empty(0, np.float32))
        self._largest_error = 0.0
        for part in row_blocks(len(geometry.rows), size=geometry.rows.block_size(4 * ROWS_AT_ONCE)):
            self._append(part.start, part.stop)
        if geometry.rows.removed is not None:
            self._half_norms.values[geometry.rows.removed] = np.inf

    @staticmethod
    def serves(geometry: Geometry) -> bool:
        """Whether these rows can be kept so."""
        n_columns = len(geometry.center)
        fits = (
            FEWEST_NUMBERS <= len(geometry.rows) * n_columns <= KEEP_UP_TO and n_columns <= Int8Products().most_columns
        )
        return fits and has_int8_tile()

    def with_rows(self, geometry: Geometry) -> CompactView | None:
        """For more rows; None where these are so long that all would have to be prepared again."""
        if geometry.scale != self.geometry.scale or not self.serves(geometry):
            return None
        if len(geometry.rows) == len(self.geometry.rows):
            return self
        following = copy(self)
        following.geometry = geometry
        following._append(len(self.geometry.rows), len(geometry.rows))
        return following

    def without(self, geometry: Geometry, numbers: np.ndarray) -> CompactView:
        """For the same rows, of which those of some numbers have been removed."""
        return self._changed(geometry, numbers, np.inf)

    def restored(self, geometry: Geometry, numbers: np.ndarray) -> CompactView:
        """For the same rows, of which those of some numbers are there again."""
        return self._changed(geometry, numbers, self._exact(geometry.rows.take(numbers))[1])

    def _changed(self, geometry: Geometry, numbers: np.ndarray, half_norms: Any) -> CompactView:
        following = copy(self)
        following.geometry = geometry
        following._half_norms = GrowingArray(self._half_norms.values.copy())
        following._half_norms.values[numbers] = half_norms
        return following

    @property
    def row_error(self) -> float:
        return self._largest_error

    def blocks(self, size: int) -> Iterator[Block]:
        from nearsay.search.screening.int8_tile_kernels import TILE

        if self._values is None:
            return
        values, scales, half_norms = self._values.values, self._scales.values, self._half_norms.values
        whole = len(values) // TILE * TILE
        if whole:
            yield 0, Quantized(values[:whole], scales[:whole], whole), half_norms[:whole]
        if len(values) > whole:
            last, of_last = np.zeros((TILE, values.shape[1]), np.int8), np.zeros(TILE, np.float32)
            last[: len(values) - whole], of_last[: len(values) - whole] = values[whole:], scales[whole:]
            yield whole, Quantized(last, of_last, len(values) - whole), half_norms[whole:]

    def _exact(self, block: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows before they are rounded, and half their squared norms."""
        exact = np.empty((len(block), len(self.geometry.center)), np.float32)
        half_norms = np.empty(len(block), np.float32)
        self.center(block, exact, half_norms)
        return exact, half_norms

    def _append(self, start: int, stop: int) -> None:
        n = stop - start
        exact, half_norms = self._exact(self.geometry.rows.between(start, stop))
        rows, errors = self.products.prepare(exact)
        if self._values is None:
            self._values = GrowingArray(np.empty((0, rows.values.shape[1]), np.int8))
        self._values, self._scales, self._half_norms = (
            before.appended(more)
            for before, more in (
                (self._values, rows.values[:n]),
                (self._scales, rows.scales[:n]),
                (self._half_norms, half_norms),
            )
        )
        self._largest_error = max(self._largest_error, float(errors.max(initial=0.0)))
