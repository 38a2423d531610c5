"""Rows and queries rounded to bytes, with what that lost, and rows packed. Imported on first use only (numba).

    a query ──► centered, scaled ──► rounded to 8 bits ──► bytes and their scale
                  └─ its length        └─ its error: with the length, what a score of each row can be off

Queries go all the way in one call: a batch of one would spend as long on a dozen calls of numpy as on the rows
themselves, and sixteen threads would wait for each other to make them.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from nearsay.core.compiling import only_compiled
from nearsay.search.screening.tiles.tile_families import ROWS

# Lengths and errors are sums of squares: adding them in another order moves the last digits (``bounds.ROUNDED_UP``).
summing = partial(only_compiled, fastmath={"reassoc", "contract", "nsz"})


@only_compiled
def pack(values, together, packed, row_sums, moved):  # type: ignore[no-untyped-def]
    """Rows of bytes, sixteen side by side, and what their sums begin with: ``moved`` times the sum of each row.

    ``together`` are the bytes by four, as they stay together.
    """
    for r in range(values.shape[0]):
        group, lane = r // ROWS, r % ROWS
        for j in range(together.shape[1]):
            packed[group, j, lane] = together[r, j]
        total = np.int32(0)
        for j in range(values.shape[1]):
            total += np.int32(values[r, j])
        row_sums[r] = moved * total


@summing
def quantize(X, out, scales, errors, most):  # type: ignore[no-untyped-def]
    """Rows as whole numbers from −most to most times a scale each, and how far (in length) that is from them."""
    for r in range(X.shape[0]):
        row, wholes = X[r], out[r]
        largest = np.float32(0.0)
        for j in range(row.shape[0]):
            largest = max(largest, abs(row[j]))
        scale = largest / np.float32(most)
        # Rows too small to divide by are 0 in eight bits.
        inverse = np.float32(1.0) / scale if scale > np.float32(1e-30) else np.float32(0.0)
        scales[r] = scale
        total = 0.0
        for j in range(row.shape[0]):
            whole = np.int8(np.rint(row[j] * inverse))
            wholes[j] = whole
            off = np.float64(row[j]) - np.float64(scale) * np.float64(whole)
            total += off * off
        errors[r] = np.sqrt(total)


@summing
def make_ready(form, center, scale, farthest, most, bound, values, scales, reached, errors, slack):  # type: ignore[no-untyped-def]
    """Fill in bytes and scales of queries, their lengths, what rounding did to each, and how far their scores are off.

    A query that is too far away is zeros, of length 0, and its slack is +inf. ``bound`` has a constant, a linear and a
    quadratic term (``bounds.Bound``), and half the slack is what it says.
    """
    constant, linear, quadratic = bound
    exact = np.empty(form.shape, np.float32)
    for q in range(form.shape[0]):
        total = 0.0
        for j in range(form.shape[1]):
            moved = (np.float64(form[q, j]) - center[j]) * scale
            total += moved * moved
            exact[q, j] = moved
        length = np.sqrt(total)
        if length <= farthest:
            reached[q] = length
            slack[q] = 2 * (constant + length * (linear + length * quadratic))
        else:
            exact[q] = np.float32(0.0)
            slack[q] = np.inf
    quantize(exact, values, scales, errors, most)
