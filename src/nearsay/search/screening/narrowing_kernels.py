"""Fast approximate distances of candidates, in the precision of the rows, to measure fewer of them exactly.

A distance that counts is added up term by term in float64. The same sum in any order, several terms at a time, and for
float32 rows in float32, takes a fraction of that; and since nothing cancels in a sum of squares, it is off by a small
*share* of itself (``bounds.squaring``). Imported on first use only (numba).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from nearsay.core.compiling import only_compiled as compiled
from nearsay.search.screening.selection_kernels import kth_smallest
from nearsay.search.screening.tiles.matrix_tile_kernels import BYTE, LONG, fetch_soon

# Of a row that is needed next, so many bytes are asked for; a processor reads on by itself.
LINE_BYTES, PREFETCHED = 64, 512


@intrinsic
def _fetch_row(typing: Any, X: Any, r: Any) -> tuple[Any, Callable[..., Any]]:
    """Prefetch row ``r``, or its first cache lines."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows = context.make_array(signature.args[0])(context, builder, arguments[0])
        start = builder.bitcast(rows.data, BYTE.as_pointer())
        start = builder.gep(start, [builder.mul(arguments[1], builder.extract_value(rows.strides, 0))])
        size = builder.mul(builder.extract_value(rows.shape, 1), rows.itemsize)
        most = ir.Constant(LONG, PREFETCHED)
        size = builder.select(builder.icmp_signed("<", size, most), size, most)
        lines = ir.Constant(LONG, 0), size, ir.Constant(LONG, LINE_BYTES)
        with cgutils.for_range_slice(builder, *lines, LONG) as (line, _):
            fetch_soon(builder, builder.gep(start, [line]))
        return context.get_dummy_value()

    return types.void(X, types.int64), generate


# The bound holds for sums in any order, fused or not.
@partial(compiled, fastmath={"reassoc", "contract", "nsz"})
def squares(Q, X, candidates, first, out):  # type: ignore[no-untyped-def]
    """Squared distances of queries to those of their candidates that are among the rows ``first …``; −1 ends them.

    Four rows at a time, while the next four are on their way from memory.
    """
    n, d = X.shape
    for i in range(candidates.shape[0]):
        q = Q[i]
        for c0 in range(0, candidates.shape[1], 4):
            if candidates[i, c0] < 0:
                break
            for c in range(c0 + 4, min(c0 + 8, candidates.shape[1])):
                if 0 <= candidates[i, c] - first < n:
                    _fetch_row(X, candidates[i, c] - first)
            c3 = min(c0 + 3, candidates.shape[1] - 1)
            c1, c2 = min(c0 + 1, c3), min(c0 + 2, c3)
            r0, r1, r2, r3 = (
                candidates[i, c0] - first,
                candidates[i, c1] - first,
                candidates[i, c2] - first,
                candidates[i, c3] - first,
            )
            # Rows that lie elsewhere are read as row 0 and not written.
            x0, x1 = X[r0 if 0 <= r0 < n else 0], X[r1 if 0 <= r1 < n else 0]
            x2, x3 = X[r2 if 0 <= r2 < n else 0], X[r3 if 0 <= r3 < n else 0]
            s0 = s1 = s2 = s3 = X.dtype.type(0)
            for j in range(d):
                value = q[j]
                d0, d1, d2, d3 = value - x0[j], value - x1[j], value - x2[j], value - x3[j]
                s0 += d0 * d0
                s1 += d1 * d1
                s2 += d2 * d2
                s3 += d3 * d3
            for c, r, total in ((c0, r0, s0), (c1, r1, s1), (c2, r2, s2), (c3, r3, s3)):
                if 0 <= r < n:
                    out[i, c] = total


@compiled
def keep_nearest(candidates, squares, k, share, flushed):  # type: ignore[no-untyped-def]
    """Move the candidates that may be among the k nearest to the front, in order; gives the new width."""
    scratch = np.empty(candidates.shape[1], squares.dtype)
    width = 1
    for i in range(candidates.shape[0]):
        n = 0
        while n < candidates.shape[1] and candidates[i, n] >= 0:
            scratch[n] = squares[i, n]
            n += 1
        if n > k:
            limit = (np.float64(kth_smallest(scratch[:n], k)) * (1 + share) + flushed) * (1 + share) + flushed
            kept = 0
            for c in range(n):
                if not squares[i, c] > limit:
                    candidates[i, kept] = candidates[i, c]
                    kept += 1
            candidates[i, kept:n] = -1
            n = kept
        width = max(width, n)
    return width
