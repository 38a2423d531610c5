"""Products of packed bytes by AMX, whose registers are whole matrices. Imported on first use only (numba).

    16 queries × 64 columns    ─┐
                                ├─► one instruction: 16 × 16 sums, of 64 products each
    64 columns of 16 rows, as  ─┘
    they lie packed

Sums are left in memory, and read from there a few queries at a time. It takes a while until they are there, so the next
block is multiplied before one is read. The registers are set up and given back by each
loop that uses them, as everyone else in the process does who uses them.
On processors without AMX, registers need nothing; where sums are to be held all the same, a plain loop makes them.
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
from nearsay.search.screening.tiles.tile_families import AMX, DEEP, ROWS, tile

BYTE, LONG = ir.IntType(8), ir.IntType(64)
SERVES = tile().name == AMX.name
# Of the eight registers the first four hold sums, the next queries, and the last three take turns in holding rows.
N_REGISTERS, N_SUMS, QUERIES, FIRST_ROWS = 8, 4, 4, 5
LINES, LINE_BYTES = 16, 64  # of every register


def aligned(builder: Any, pointer: Any) -> Any:
    """The first place from there on that begins a line of the cache."""
    place = builder.add(builder.ptrtoint(pointer, LONG), ir.Constant(LONG, LINE_BYTES - 1))
    return builder.inttoptr(builder.and_(place, ir.Constant(LONG, -LINE_BYTES)), pointer.type)


def _do(builder: Any, name: str, *given: Any) -> None:
    """Emit an instruction; integer arguments are register numbers."""
    values = [ir.Constant(BYTE, each) if isinstance(each, int) else each for each in given]
    kind = ir.FunctionType(ir.VoidType(), [each.type for each in values])
    builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.{name}"), values)


def fetch_soon(builder: Any, place: Any) -> None:
    """Prefetch a cache line."""
    given = [place, *(ir.Constant(ir.IntType(32), each) for each in (0, 3, 1))]  # to read, for long, no instructions
    kind = ir.FunctionType(ir.VoidType(), [each.type for each in given])
    builder.call(builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind), given)


@intrinsic
def set_up_tiles(typing: Any) -> tuple[Any, Callable[..., Any]]:
    """Let every register hold 16 lines of 64 bytes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if SERVES:
            config = [0] * 64
            config[0] = 1  # the one way there is to lay registers out
            config[16 : 16 + 2 * N_REGISTERS : 2] = [LINE_BYTES] * N_REGISTERS
            config[48 : 48 + N_REGISTERS] = [LINES] * N_REGISTERS
            kind = ir.ArrayType(BYTE, 64)
            place = cgutils.alloca_once(builder, kind)
            builder.store(ir.Constant(kind, config), place)
            _do(builder, "ldtilecfg", builder.bitcast(place, BYTE.as_pointer()))
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def release_tiles(typing: Any) -> tuple[Any, Callable[..., Any]]:
    """Release the tile registers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if SERVES:
            _do(builder, "tilerelease")
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def _multiply_block(
    typing: Any, Q: Any, i: Any, packed: Any, row_sums: Any, r: Any, sums: Any, first: Any
) -> tuple[Any, Callable[..., Any]]:
    """Sums (16, 64) of the queries from ``i`` on and the rows from ``r`` on: the ``sums`` from line ``first`` on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if not SERVES:
            return context.get_dummy_value()

        def array(number: int) -> Any:
            return context.make_array(signature.args[number])(context, builder, arguments[number])

        def at(pointer: Any, *offsets: Any) -> Any:
            for offset in offsets:
                pointer = builder.gep(pointer, [ir.Constant(LONG, offset) if isinstance(offset, int) else offset])
            return pointer

        def as_bytes(pointer: Any) -> Any:
            return builder.bitcast(pointer, BYTE.as_pointer())

        i, r = arguments[1], arguments[4]
        width = builder.extract_value(array(0).shape, 1)
        queries = at(array(0).data, builder.mul(i, width))
        rows = [
            at(array(2).data, builder.mul(builder.add(r, ir.Constant(LONG, ROWS * b)), width)) for b in range(N_SUMS)
        ]
        for b in range(N_SUMS):  # the same line, over and over
            _do(builder, "tileloadd64", b, as_bytes(at(array(3).data, r, ROWS * b)), ir.Constant(LONG, 0))
        with cgutils.for_range_slice(builder, ir.Constant(LONG, 0), width, ir.Constant(LONG, LINE_BYTES), LONG) as (
            column,
            _,
        ):
            _do(builder, "tileloadd64", QUERIES, at(queries, column), width)
            deep = builder.mul(column, ir.Constant(LONG, ROWS))
            with builder.if_then(builder.icmp_signed("==", i, ir.Constant(LONG, 0)), likely=False):
                # These instructions wait for their rows longer than others do.
                ahead = builder.mul(width, ir.Constant(LONG, ROWS * N_SUMS))
                for start in rows:
                    for line in range(0, LINES * LINE_BYTES, LINE_BYTES):
                        fetch_soon(builder, at(start, deep, ahead, line))
            for b in range(N_SUMS):
                register = FIRST_ROWS + b % (N_REGISTERS - FIRST_ROWS)
                _do(builder, "tileloadd64", register, at(rows[b], deep), ir.Constant(LONG, LINE_BYTES))
                _do(builder, "tdpbusd", b, QUERIES, register)
        start = at(aligned(builder, array(5).data), builder.mul(arguments[6], ir.Constant(LONG, ROWS * N_SUMS)))
        for b in range(N_SUMS):
            _do(builder, "tilestored64", b, as_bytes(at(start, ROWS * b)), ir.Constant(LONG, 4 * ROWS * N_SUMS))
        return context.get_dummy_value()

    number = types.int64
    return types.void(Q, number, packed, row_sums, number, sums, number), generate


@partial(only_compiled, variant=f" {tile().name}")
def _multiply_by_loop(Q, i, packed, row_sums, r, sums, first):  # type: ignore[no-untyped-def]
    """The same for any processor."""
    n_rows, width = ROWS * N_SUMS, Q.shape[1]
    start = (-sums.ctypes.data % LINE_BYTES) // sums.itemsize + first * n_rows
    for a in range(LINES):
        for b in range(n_rows):
            group = (r + b) // ROWS * ROWS * width + (r + b) % ROWS * DEEP
            total = row_sums[r + b]
            for j in range(width):
                total += np.int32(Q[i + a, j]) * np.int32(packed[group + j // DEEP * DEEP * ROWS + j % DEEP])
            sums[start + a * n_rows + b] = total


multiply_block = _multiply_by_loop if tile().held and not SERVES else _multiply_block
