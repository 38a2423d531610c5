"""The compiled loops that turn matrix products into distances. Imported on first use only (numba)."""

from __future__ import annotations

import math

import numpy as np

from nearsay.core.compiling import only_compiled as compiled


@compiled
def add_squares(products, half_norms, squares, unit, total):  # type: ignore[no-untyped-def]
    """Add ``unit`` times |q|² + |x|² − 2 q·x to ``total``; ``squares`` are those of the queries' lengths."""
    two, zero = np.float32(2), np.float32(0)
    for q in range(products.shape[0]):
        square = squares[q]
        for r in range(products.shape[1]):
            length = square + two * (half_norms[r] - products[q, r])
            total[q, r] += unit * max(length, zero)


@compiled
def add_lengths(products, half_norms, squares, unit, total):  # type: ignore[no-untyped-def]
    """The same with the roots of these squares."""
    two, zero = np.float32(2), np.float32(0)
    for q in range(products.shape[0]):
        square = squares[q]
        for r in range(products.shape[1]):
            length = square + two * (half_norms[r] - products[q, r])
            total[q, r] += unit * math.sqrt(max(length, zero))
