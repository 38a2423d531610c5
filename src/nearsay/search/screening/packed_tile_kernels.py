"""Products of 8-bit rows that lie packed, sixteen rows side by side. Imported on first use only (numba).

Processors multiply bytes for neural networks: one instruction takes four bytes of each of several rows, multiplies
them with four bytes of a query and adds the four products to a running sum for each row.

    packed:  four columns of row 0, of row 1 … of row 15 │ the next four columns of row 0 …
    query:   four bytes ──► repeated for every row of the vector
                                   └─► sums of 4, 8 or 16 rows at once, which are finished products: nothing is
                                       added across a register

Which instruction that is, and how many rows a vector holds, is told by a Family. Some instructions take one side
without a sign: queries are moved up by 128, and 128 times the sum of a row, known beforehand, is taken off again.
Sums are exact: whole numbers of 32 bits, of which ``Family.most_columns`` keeps them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from nearsay.compiling import only_compiled as compiled
from nearsay.search.screening.tile_families import DEEP, FAMILIES, ROWS, Family, family

BYTE, INT, LONG, FLOAT = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.FloatType()
MOVED = -0x7F7F7F80  # 0x80808080: the sign of four bytes turned around adds 128 to each


def _add_products(builder: Any, of: Family, total: Any, query: Any, rows: Any) -> Any:
    """``total`` and the four products of each lane; ``query`` and ``rows`` are vectors of 32-bit numbers."""
    sums, bytes_ = ir.VectorType(INT, of.lanes), ir.VectorType(BYTE, DEEP * of.lanes)
    if of.unsigned:
        name = f"llvm.x86.avx512.vpdpbusd.{32 * of.lanes}"
        kind = ir.FunctionType(sums, [sums, sums, sums])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [total, query, rows])
    kind = ir.FunctionType(sums, [sums, bytes_, bytes_])
    dot = cgutils.get_or_insert_function(builder.module, kind, "llvm.aarch64.neon.sdot.v4i32.v16i8")
    return builder.call(dot, [total, builder.bitcast(query, bytes_), builder.bitcast(rows, bytes_)])


def _tile_of(of: Family, n_queries: int) -> Any:
    """The innermost loop for so many queries and ``n_vectors`` vectors of rows."""
    sums, floats = ir.VectorType(INT, of.lanes), ir.VectorType(FLOAT, of.lanes)
    per_group = ROWS // of.lanes
    n_groups = max(1, of.n_vectors // per_group)

    @intrinsic
    def multiply_tile(
        typing: Any,
        Q: Any,
        query_scales: Any,
        i: Any,
        packed: Any,
        row_sums: Any,
        row_scales: Any,
        g: Any,
        out: Any,
        i_out: Any,
        r_out: Any,
    ) -> tuple[Any, Callable[..., Any]]:
        """``out[i_out + a, r_out + b]`` of the queries from ``i`` on and the groups of rows from ``g`` on."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            def array(number: int) -> Any:
                return context.make_array(signature.args[number])(context, builder, arguments[number])

            def long(number: int) -> Any:
                return ir.Constant(LONG, number)

            def vector(pointer: Any, kind: Any, align: int) -> Any:
                return builder.load(builder.bitcast(pointer, kind.as_pointer()), align=align)

            queries, rows, products = array(0), array(3), array(7)
            i, g, i_out, r_out = (arguments[number] for number in (2, 6, 8, 9))
            width, out_width = builder.extract_value(queries.shape, 1), builder.extract_value(products.shape, 1)
            group_bytes = builder.mul(width, long(ROWS))
            starts = [builder.mul(builder.add(g, long(group)), group_bytes) for group in range(n_groups)]
            lines = [builder.mul(builder.add(i, long(a)), width) for a in range(n_queries)]
            # The sums live in registers: one value each, carried through the loop.
            before, loop, after = (builder.append_basic_block(name) for name in ("before", "loop", "after"))
            builder.branch(before)
            builder.position_at_end(before)
            builder.cbranch(builder.icmp_signed("<", long(0), width), loop, after)
            builder.position_at_end(loop)
            column = builder.phi(LONG)
            column.add_incoming(long(0), before)
            totals = [[builder.phi(sums) for _ in range(n_groups * per_group)] for _ in range(n_queries)]
            nothing = ir.Constant(sums, None)
            deep = builder.mul(column, long(ROWS))
            right = [
                vector(
                    builder.gep(rows.data, [builder.add(builder.add(start, deep), long(part * DEEP * of.lanes))]),
                    sums,
                    1,
                )
                for start in starts
                for part in range(per_group)
            ]
            following = []
            for a in range(n_queries):
                four = vector(builder.gep(queries.data, [builder.add(lines[a], column)]), INT, 1)
                if of.unsigned:
                    four = builder.xor(four, ir.Constant(INT, MOVED))
                left = _repeated(builder, four, sums)
                following.append([_add_products(builder, of, totals[a][b], left, right[b]) for b in range(len(right))])
            next_column = builder.add(column, long(DEEP))
            column.add_incoming(next_column, loop)
            for line, sums_after in zip(totals, following, strict=True):
                for total, total_after in zip(line, sums_after, strict=True):
                    total.add_incoming(nothing, before)
                    total.add_incoming(total_after, loop)
            builder.cbranch(builder.icmp_signed("<", next_column, width), loop, after)
            builder.position_at_end(after)
            ends = [[builder.phi(sums) for _ in sums_after] for sums_after in following]
            for line, sums_after in zip(ends, following, strict=True):
                for end, total_after in zip(line, sums_after, strict=True):
                    end.add_incoming(nothing, before)
                    end.add_incoming(total_after, loop)
            first_row = builder.mul(g, long(ROWS))
            for b in range(n_groups * per_group):
                place = builder.add(first_row, long(b * of.lanes))
                row_scale = vector(builder.gep(array(5).data, [place]), floats, 4)
                moved = vector(builder.gep(array(4).data, [place]), sums, 4) if of.unsigned else None
                for a in range(n_queries):
                    whole = ends[a][b] if moved is None else builder.sub(ends[a][b], moved)
                    query_scale = builder.load(builder.gep(array(1).data, [builder.add(i, long(a))]))
                    scale = builder.fmul(row_scale, _repeated(builder, query_scale, floats))
                    line = builder.mul(builder.add(i_out, long(a)), out_width)
                    column_out = builder.add(builder.add(line, r_out), long(b * of.lanes))
                    pointer = builder.bitcast(builder.gep(products.data, [column_out]), floats.as_pointer())
                    builder.store(builder.fmul(builder.sitofp(whole, floats), scale), pointer, align=4)
            return context.get_dummy_value()

        number = types.int64
        arguments = (Q, query_scales, number, packed, row_sums, row_scales, number, out, number, number)
        return types.void(*arguments), generate

    return multiply_tile


def _repeated(builder: Any, value: Any, kind: Any) -> Any:
    vector = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(INT, 0))
    return builder.shuffle_vector(vector, vector, ir.Constant(ir.VectorType(INT, kind.count), None))


# Chosen once: what is compiled is kept by processor. Elsewhere nobody calls it.
SERVES = family() or FAMILIES[-1]
QUERIES_AT_ONCE = SERVES.n_queries
ROWS_AT_ONCE = max(ROWS, SERVES.lanes * SERVES.n_vectors)
_multiply_tile, _multiply_line = _tile_of(SERVES, QUERIES_AT_ONCE), _tile_of(SERVES, 1)


@compiled
def multiply(Q, query_scales, packed, row_sums, row_scales, out):  # type: ignore[no-untyped-def]
    """``out[i, r] = (Q[i] · row r) · query_scales[i] · row_scales[r]``, as large as ``out`` is.

    Q has columns in whole fours; packed rows, their sums and their scales hold whole tiles, filled up with zeros.
    """
    n_queries, n_rows = out.shape
    edge = np.empty((QUERIES_AT_ONCE, ROWS_AT_ONCE), np.float32)
    for r in range(0, n_rows, ROWS_AT_ONCE):
        g = r // ROWS
        whole = r + ROWS_AT_ONCE <= n_rows
        i = 0
        while i < n_queries:
            several = i + QUERIES_AT_ONCE <= n_queries
            if several and whole:
                _multiply_tile(Q, query_scales, i, packed, row_sums, row_scales, g, out, i, r)
            elif whole:
                _multiply_line(Q, query_scales, i, packed, row_sums, row_scales, g, out, i, r)
            else:
                if several:
                    _multiply_tile(Q, query_scales, i, packed, row_sums, row_scales, g, edge, 0, 0)
                else:
                    _multiply_line(Q, query_scales, i, packed, row_sums, row_scales, g, edge, 0, 0)
                for a in range(QUERIES_AT_ONCE if several else 1):
                    for b in range(n_rows - r):
                        out[i + a, r + b] = edge[a, b]
            i += QUERIES_AT_ONCE if several else 1


@compiled
def pack(values, packed, row_sums):  # type: ignore[no-untyped-def]
    """Rows (n, columns) of bytes, sixteen side by side; and 128 times the sum of each row."""
    n_rows, n_columns = values.shape
    for r in range(n_rows):
        group, lane = r // ROWS, r % ROWS
        total = np.int32(0)
        for j in range(n_columns):
            packed[group, j // DEEP, lane, j % DEEP] = values[r, j]
            total += np.int32(values[r, j])
        row_sums[r] = 128 * total
