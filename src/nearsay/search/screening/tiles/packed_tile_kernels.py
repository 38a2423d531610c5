"""Products of 8-bit rows that lie packed, sixteen rows side by side. Imported on first use only (numba).

Processors multiply bytes for neural networks: one instruction takes four bytes of each of several rows, multiplies
them with four bytes of a query and adds the four products to a running sum for each row.

    packed:  four columns of row 0, of row 1 … of row 15 │ the next four columns of row 0 …
    query:   four bytes ──► repeated for every row of the vector
                                   └─► sums of 4, 8 or 16 rows at once, which are finished products: nothing is
                                       added across a register

The Family defines the instruction and how many rows a vector holds. Some instructions take one side
without a sign: queries are moved up by 128, and sums begin at −128 times the sum of the row, known beforehand.
Sums are exact: whole numbers of 32 bits, of which ``Family.most_columns`` keeps them.
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

from nearsay.core.compiling import only_compiled
from nearsay.search.screening.tiles.matrix_tile_kernels import aligned, multiply_block, release_tiles, set_up_tiles
from nearsay.search.screening.tiles.tile_families import ANY, DEEP, ROWS, TOGETHER, Family, tile

# The processor alone does not tell which tile serves: another one can be forced, and AMX may not be granted.
compiled = partial(only_compiled, variant=f" {tile().name}")

BYTE, INT, LONG, FLOAT = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.FloatType()


def _add_products(builder: Any, of: Family, total: Any, query: Any, rows: Any) -> Any:
    """``total`` and the four products of each lane; ``query`` and ``rows`` are vectors of 32-bit numbers."""
    sums, bytes_ = ir.VectorType(INT, of.lanes), ir.VectorType(BYTE, DEEP * of.lanes)

    def call(name: str, result: Any, given: list[Any]) -> Any:
        kind = ir.FunctionType(result, [each.type for each in given])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), given)

    if of is ANY:
        wide = ir.VectorType(INT, DEEP * of.lanes)
        left, right = (builder.sext(builder.bitcast(side, bytes_), wide) for side in (query, rows))
        product = builder.mul(left, right)
        for column in range(DEEP):
            picked = ir.Constant(sums, [DEEP * lane + column for lane in range(of.lanes)])
            total = builder.add(total, builder.shuffle_vector(product, product, picked))
        return total
    if of.feature == "avx2":
        pairs = ir.VectorType(ir.IntType(16), 2 * of.lanes)
        left, right = (builder.bitcast(side, bytes_) for side in (query, rows))
        two_by_two = call("llvm.x86.avx2.pmadd.ub.sw", pairs, [left, right])
        ones = ir.Constant(pairs, [1] * (2 * of.lanes))
        return builder.add(total, call("llvm.x86.avx2.pmadd.wd", sums, [two_by_two, ones]))
    if of.moved:
        return call(f"llvm.x86.avx512.vpdpbusd.{32 * of.lanes}", sums, [total, query, rows])
    left, right = (builder.bitcast(side, bytes_) for side in (query, rows))
    return call("llvm.aarch64.neon.sdot.v4i32.v16i8", sums, [total, right, left])  # takes the four bytes by lane


def sums_of_tile(builder: Any, of: Family, queries: list[Any], rows: list[Any], width: Any, begin: list[Any]) -> Any:
    """The innermost loop: whole sums [query][vector] of so many queries and vectors of rows.

    ``queries`` and ``rows`` are pointers to the bytes of each query and of each group of rows; ``begin`` has the
    vectors that sums begin with.
    """
    sums = ir.VectorType(INT, of.lanes)
    sixteen = ir.VectorType(INT, TOGETHER // DEEP)

    def add_columns(column: Any, totals: list[Any]) -> list[Any]:
        if of.by_lane:
            lines = [load(builder, builder.gep(query, [column]), sixteen, 1) for query in queries]
        for step in range(0, TOGETHER, DEEP):
            here = builder.add(column, ir.Constant(LONG, step))
            right = _vectors_at(builder, rows, here, len(begin), sums)
            longer = []
            for a, query in enumerate(queries):
                if of.by_lane:
                    lane = ir.Constant(ir.VectorType(INT, of.lanes), [step // DEEP] * of.lanes)
                    left = builder.shuffle_vector(lines[a], lines[a], lane)
                else:
                    left = repeated(builder, load(builder, builder.gep(query, [here]), INT, 1), sums)
                line = totals[a * len(begin) : (a + 1) * len(begin)]
                pairs = zip(line, right, strict=True)
                longer += [_add_products(builder, of, total, left, row) for total, row in pairs]
            totals = longer
        return totals

    flat = _looped(builder, width, begin * len(queries), add_columns)
    return [flat[start : start + len(begin)] for start in range(0, len(flat), len(begin))]


def _vectors_at(builder: Any, rows: list[Any], column: Any, count: int, kind: Any) -> list[Any]:
    """So many vectors of packed rows, from a column on."""
    deep = builder.mul(column, ir.Constant(LONG, ROWS))
    size = kind.count * kind.element.width // 8
    each = count // len(rows)
    offsets = [(start, builder.add(deep, ir.Constant(LONG, part * size))) for start in rows for part in range(each)]
    return [load(builder, builder.gep(start, [offset]), kind, 1) for start, offset in offsets]


def _looped(
    builder: Any, width: Any, begin: list[Any], add_columns: Callable[[Any, list[Any]], list[Any]]
) -> list[Any]:
    """Sums over all columns, some at a time. They live in registers: one value each, carried through the loop."""
    before, loop, after = (builder.append_basic_block(name) for name in ("before", "loop", "after"))
    builder.branch(before)
    builder.position_at_end(before)
    builder.branch(loop)  # rows have a column at least
    builder.position_at_end(loop)
    column = builder.phi(LONG)
    column.add_incoming(ir.Constant(LONG, 0), before)
    totals = [builder.phi(first.type) for first in begin]
    following = add_columns(column, totals)
    next_column = builder.add(column, ir.Constant(LONG, TOGETHER))
    column.add_incoming(next_column, loop)
    for total, first, total_after in zip(totals, begin, following, strict=True):
        total.add_incoming(first, before)
        total.add_incoming(total_after, loop)
    builder.cbranch(builder.icmp_signed("<", next_column, width), loop, after)
    builder.position_at_end(after)
    return following


def load(builder: Any, pointer: Any, kind: Any, align: int) -> Any:
    return builder.load(builder.bitcast(pointer, kind.as_pointer()), align=align)


def repeated(builder: Any, value: Any, kind: Any) -> Any:
    """A vector that holds the value in every lane."""
    vector = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(INT, 0))
    return builder.shuffle_vector(vector, vector, ir.Constant(ir.VectorType(INT, kind.count), None))


class Tile:
    """Where the queries and rows of one tile lie, for the code that is written around its sums."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any, n_queries: int) -> None:
        self.context, self.builder, self.signature, self.arguments = context, builder, signature, arguments
        self.n_queries = n_queries

    def data(self, number: int) -> Any:
        return self.array(number).data

    def array(self, number: int) -> Any:
        return self.context.make_array(self.signature.args[number])(self.context, self.builder, self.arguments[number])

    def held(self, number: int, first: Any) -> Any:
        """Sums that lie in memory already, of the queries from the ``first`` on."""
        builder, sums = self.builder, ir.VectorType(INT, SERVES.lanes)
        start = aligned(builder, self.data(number))
        lines = []
        for a in range(self.n_queries):
            line = builder.mul(builder.add(first, ir.Constant(LONG, a)), ir.Constant(LONG, TILE_ROWS))
            places = [builder.add(line, ir.Constant(LONG, b)) for b in range(0, TILE_ROWS, SERVES.lanes)]
            lines.append([load(builder, builder.gep(start, [place]), sums, 64) for place in places])
        return lines

    def sums(self, Q: int, i: Any, packed: int, row_sums: int, r: Any) -> Any:
        """Products, as whole numbers, of the queries from ``i`` on and the rows from ``r`` on, a multiple of a tile."""
        builder, of = self.builder, SERVES
        width = builder.extract_value(self.array(Q).shape, 1)
        lines = [builder.mul(builder.add(i, ir.Constant(LONG, a)), width) for a in range(self.n_queries)]
        queries = [builder.gep(self.data(Q), [line]) for line in lines]
        starts = [builder.mul(builder.add(r, ir.Constant(LONG, b)), width) for b in range(0, TILE_ROWS, ROWS)]
        rows = [builder.gep(self.data(packed), [start]) for start in starts]
        kind = ir.VectorType(INT, of.lanes)
        begin = self.vectors(row_sums, r, kind)
        if not of.moved:
            begin = [ir.Constant(kind, None)] * len(begin)
        return sums_of_tile(builder, of, queries, rows, width, begin)

    def vectors(self, number: int, r: Any, kind: Any) -> list[Any]:
        """The numbers of an array for the rows of the tile, a vector at a time."""
        builder = self.builder
        places = [builder.add(r, ir.Constant(LONG, b)) for b in range(0, TILE_ROWS, SERVES.lanes)]
        return [load(builder, builder.gep(self.data(number), [place]), kind, 4) for place in places]

    def of_query(self, number: int, i: Any, a: int, kind: Any) -> Any:
        """The number of an array for one query of the tile, in every lane."""
        place = self.builder.add(i, ir.Constant(LONG, a))
        return repeated(self.builder, self.builder.load(self.builder.gep(self.data(number), [place])), kind)


def _multiply_tile_of(n_queries: int, *, held: bool) -> Any:
    @intrinsic
    def multiply_tile(
        typing: Any, Q: Any, query_scales: Any, i: Any, packed: Any, row_sums: Any, row_scales: Any, r: Any, out: Any,
        i_out: Any, r_out: Any, sums: Any, first: Any,
    ) -> tuple[Any, Callable[..., Any]]:  # fmt: skip
        """``out[i_out + a, r_out + b]`` of the queries from ``i`` on and the rows from ``r`` on.

        Where they have been multiplied already, theirs are the ``sums`` from line ``first`` on.
        """

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            tile = Tile(context, builder, signature, arguments, n_queries)
            floats = ir.VectorType(FLOAT, SERVES.lanes)
            i, r, i_out, r_out = (arguments[number] for number in (2, 6, 8, 9))
            sums = tile.held(10, arguments[11]) if held else tile.sums(0, i, 3, 4, r)
            row_scales = tile.vectors(5, r, floats)
            out_width = builder.extract_value(tile.array(7).shape, 1)
            for a in range(n_queries):
                query_scale = tile.of_query(1, i, a, floats)
                line = builder.add(builder.mul(builder.add(i_out, ir.Constant(LONG, a)), out_width), r_out)
                for b, row_scale in enumerate(row_scales):
                    product = builder.fmul(builder.sitofp(sums[a][b], floats), builder.fmul(row_scale, query_scale))
                    place = builder.gep(tile.data(7), [builder.add(line, ir.Constant(LONG, b * SERVES.lanes))])
                    builder.store(product, builder.bitcast(place, floats.as_pointer()), align=4)
            return context.get_dummy_value()

        number = types.int64
        arguments = (Q, query_scales, number, packed, row_sums, row_scales, number, out, number, number, sums, number)
        return types.void(*arguments), generate

    return multiply_tile


# Chosen once.
SERVES = tile()
QUERIES_AT_ONCE = SERVES.n_queries
READ_AT_ONCE = SERVES.held or QUERIES_AT_ONCE
TILE_ROWS = max(ROWS, SERVES.lanes * SERVES.n_vectors)
_multiply_tile = _multiply_tile_of(READ_AT_ONCE, held=SERVES.held > 0)
_multiply_line = _multiply_tile_of(1, held=False)


@compiled
def multiply(Q, query_scales, packed, row_sums, row_scales, out):  # type: ignore[no-untyped-def]
    """``out[i, r] = (Q[i] · row r) · query_scales[i] · row_scales[r]``, as large as ``out`` is.

    Q has been moved and has columns in whole steps; packed rows, their sums and their scales hold whole tiles,
    filled up with zeros.
    """
    n_queries, n_rows = out.shape
    edge = np.empty((QUERIES_AT_ONCE, TILE_ROWS), np.float32)
    sums = room_for_sums()
    set_up_tiles()
    for r in range(0, n_rows, TILE_ROWS):
        whole = r + TILE_ROWS <= n_rows
        i = 0
        while i < n_queries:
            several = i + QUERIES_AT_ONCE <= n_queries
            if several:
                multiply_block(Q, i, packed, row_sums, r, sums, 0)
                for a in range(0, QUERIES_AT_ONCE, READ_AT_ONCE):
                    if whole:
                        _multiply_tile(Q, query_scales, i + a, packed, row_sums, row_scales, r, out, i + a, r, sums, a)
                    else:
                        _multiply_tile(Q, query_scales, i + a, packed, row_sums, row_scales, r, edge, a, 0, sums, a)
            elif whole:
                _multiply_line(Q, query_scales, i, packed, row_sums, row_scales, r, out, i, r, sums, 0)
            else:
                _multiply_line(Q, query_scales, i, packed, row_sums, row_scales, r, edge, 0, 0, sums, 0)
            if not whole:
                for a in range(QUERIES_AT_ONCE if several else 1):
                    for b in range(n_rows - r):
                        out[i + a, r + b] = edge[a, b]
            i += QUERIES_AT_ONCE if several else 1
    release_tiles()


@compiled
def room_for_sums():  # type: ignore[no-untyped-def]
    """Where sums lie of two blocks that are multiplied before they are read."""
    return np.empty(2 * QUERIES_AT_ONCE * TILE_ROWS + ROWS, np.int32)
