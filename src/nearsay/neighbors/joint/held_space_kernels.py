"""The compiled loops that turn matrix products into distances. Imported on first use only (numba)."""

from __future__ import annotations

import math

import numpy as np

from nearsay.core.compiling import only_compiled as compiled


@compiled
def add_distances(products, half_norms, squares, unit, squared, total):  # type: ignore[no-untyped-def]
    """Add ``unit`` times |q|² + |x|² − 2 q·x, or its root, to ``total``; ``squares`` are those of queries' lengths."""
    two, zero = np.float32(2), np.float32(0)
    for q in range(products.shape[0]):
        square = squares[q]
        for r in range(products.shape[1]):
            length = max(square + two * (half_norms[r] - products[q, r]), zero)
            total[q, r] += unit * (length if squared else math.sqrt(length))
