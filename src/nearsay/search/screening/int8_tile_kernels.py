"""Products of 8-bit rows, four rows with four queries at a time. Imported on first use only (numba).

Processors have had instructions for this for years (sdot on Arm, VNNI on
x86), made for neural networks: each multiplies and adds sixteen or more pairs of bytes.
BLAS does not offer them. The innermost loop is therefore written in LLVM's own terms,
which every processor understands and the ones with such instructions do best:

    sixteen bytes of each of 4 queries    sixteen bytes of each of 4 rows
                      └──────────── 16 running sums ────────────┘      all in registers

A single query takes the same loop with four sums, which is done as soon as memory brings the rows.
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

from nearsay.compiling import only_compiled as compiled

TILE = 4
CHUNK = 16  # bytes taken at once; rows are filled up with zeros to a multiple of it

BYTE, INT, LONG = ir.IntType(8), ir.IntType(32), ir.IntType(64)
BYTES, WIDE = ir.VectorType(BYTE, CHUNK), ir.VectorType(INT, CHUNK)
SUMS, FLOATS = ir.VectorType(INT, TILE), ir.VectorType(ir.FloatType(), TILE)


def _multiply_tile_of(n_queries: int) -> Any:
    """The innermost loop for so many queries and four rows."""

    @intrinsic
    def multiply_tile(
        typing: Any,
        Q: Any,
        query_scales: Any,
        i: Any,
        R: Any,
        row_scales: Any,
        r: Any,
        out: Any,
        i_out: Any,
        r_out: Any,
    ) -> tuple[Any, Callable[..., Any]]:
        """``out[i_out + a, r_out + b] = (Q[i + a] · R[r + b]) · query_scales[i + a] · row_scales[r + b]``, b < 4."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            def array(number: int) -> Any:
                return context.make_array(signature.args[number])(context, builder, arguments[number])

            def place(data: Any, line: Any, number: int, width: Any, column: Any) -> Any:
                line = builder.add(line, ir.Constant(LONG, number))
                return builder.gep(data, [builder.add(builder.mul(line, width), column)])

            queries, rows, products = array(0), array(3), array(6)
            i, r, i_out, r_out = (arguments[number] for number in (2, 5, 7, 8))
            width, out_width = (builder.extract_value(matrix.shape, 1) for matrix in (queries, products))
            zero, none = ir.Constant(LONG, 0), ir.Constant(SUMS, None)
            add_up = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(SUMS, [SUMS, WIDE]), "llvm.vector.partial.reduce.add.v4i32.v16i32"
            )
            sums = [[cgutils.alloca_once_value(builder, none) for _ in range(TILE)] for _ in range(n_queries)]

            def sixteen(matrix: Any, line: Any, number: int, column: Any) -> Any:
                chunk = builder.bitcast(place(matrix.data, line, number, width, column), BYTES.as_pointer())
                return builder.sext(builder.load(chunk, align=1), WIDE)

            with cgutils.for_range_slice(builder, zero, width, ir.Constant(LONG, CHUNK)) as (column, _):
                left = [sixteen(queries, i, a, column) for a in range(n_queries)]
                right = [sixteen(rows, r, b, column) for b in range(TILE)]
                for a in range(n_queries):
                    for b in range(TILE):
                        longer = builder.call(add_up, [builder.load(sums[a][b]), builder.mul(left[a], right[b])])
                        builder.store(longer, sums[a][b])

            row_scale = builder.load(builder.bitcast(builder.gep(array(4).data, [r]), FLOATS.as_pointer()), align=4)
            for a in range(n_queries):
                whole = builder.sitofp(_add_across(builder, [builder.load(total) for total in sums[a]]), FLOATS)
                query_scale = builder.load(builder.gep(array(1).data, [builder.add(i, ir.Constant(LONG, a))]))
                scale = builder.fmul(row_scale, _repeated(builder, query_scale))
                line = builder.bitcast(place(products.data, i_out, a, out_width, r_out), FLOATS.as_pointer())
                builder.store(builder.fmul(whole, scale), line, align=4)
            return context.get_dummy_value()

        whole_number = types.int64
        arguments = (Q, query_scales, whole_number, R, row_scales, whole_number, out, whole_number, whole_number)
        return types.void(*arguments), generate

    return multiply_tile


_multiply_tile, _multiply_line = _multiply_tile_of(TILE), _multiply_tile_of(1)


def _repeated(builder: Any, value: Any) -> Any:
    vector = builder.insert_element(ir.Constant(FLOATS, ir.Undefined), value, ir.Constant(INT, 0))
    return builder.shuffle_vector(vector, vector, ir.Constant(SUMS, None))


def _add_across(builder: Any, vectors: list[Any]) -> Any:
    """One vector of the sums of each of four: by pairs, twice, as processors like it."""
    while len(vectors) > 1:
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [_add_neighbors(builder, first, second) for first, second in pairs]
    return vectors[0]


def _add_neighbors(builder: Any, first: Any, second: Any) -> Any:
    pick = [ir.Constant(ir.VectorType(INT, TILE), numbers) for numbers in ([0, 2, 4, 6], [1, 3, 5, 7])]
    return builder.add(*(builder.shuffle_vector(first, second, chosen) for chosen in pick))


@compiled
def multiply(Q, query_scales, R, row_scales, out):  # type: ignore[no-untyped-def]
    """``out[i, r] = (Q[i] · R[r]) · query_scales[i] · row_scales[r]``, as large as ``out`` is.

    Q, R and the scales hold whole tiles, filled up with zeros.
    """
    n_queries, n_rows = out.shape
    edge = np.empty((TILE, TILE), np.float32)
    for r in range(0, n_rows, TILE):
        if n_queries == 1 and r + TILE <= n_rows:
            _multiply_line(Q, query_scales, 0, R, row_scales, r, out, 0, r)
            continue
        for i in range(0, n_queries, TILE):
            if i + TILE <= n_queries and r + TILE <= n_rows:
                _multiply_tile(Q, query_scales, i, R, row_scales, r, out, i, r)
            else:
                _multiply_tile(Q, query_scales, i, R, row_scales, r, edge, 0, 0)
                for a in range(min(TILE, n_queries - i)):
                    for b in range(min(TILE, n_rows - r)):
                        out[i + a, r + b] = edge[a, b]


# The errors are sums of squares: adding them in another order moves the last digits (``bounds.ROUNDED_UP``).
@partial(compiled, fastmath={"reassoc", "contract", "nsz"})
def quantize(X, out, scales, errors):  # type: ignore[no-untyped-def]
    """Rows as whole numbers from −127 to 127 times a scale each, and how far (in length) that is from them."""
    for r in range(X.shape[0]):
        row, wholes = X[r], out[r]
        largest = np.float32(0.0)
        for j in range(row.shape[0]):
            largest = max(largest, abs(row[j]))
        scale = largest / np.float32(127.0)
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
