"""Matrix products of the screen: in float32, or in 8-bit integers.

Fewer digits make a product several times as fast where the processor has instructions for them, and a screen can
afford it: the rounding error of each row is known, and rows that cannot be separated are measured anyway. So
the choice changes the time, never the answer.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Protocol

import numpy as np

from nearsay.core.arrays import in_cache_lines
from nearsay.core.parallel import one_blas_thread
from nearsay.search.screening import bounds
from nearsay.search.screening.tiles import tile_families
from nearsay.search.screening.tiles.tile_families import DEEP, ROWS, tile

# Rows that cannot be separated cost time too: a small gain does not pay.
WORTH_IT = 0.75


class Products(Protocol):
    """Matrix products of prepared queries and rows."""

    # Bytes a number takes in prepared rows, where it pays to keep them; 0: never.
    kept_bytes: int

    # Sums over more columns would not fit the numbers they are added up in.
    @property
    def most_columns(self) -> int: ...

    def prepare(self, X: np.ndarray) -> tuple[Any, np.ndarray]:
        """Float32 rows in the form that is multiplied, and the length of each row's rounding error."""
        ...

    def into(self, left: Any, right: Any, out: np.ndarray) -> None:
        """Write ``left · rightᵀ`` to the float32 array ``out``."""
        ...

    def copied(self, rows: Any) -> Any:
        """Prepared rows to be kept."""
        ...


class Float32Products:
    """numpy's float32 products."""

    kept_bytes = 0
    most_columns = sys.maxsize

    def prepare(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return X, np.zeros(len(X))

    def into(self, left: np.ndarray, right: np.ndarray, out: np.ndarray) -> None:
        np.matmul(left, right.T, out=out)

    def copied(self, rows: np.ndarray) -> np.ndarray:
        return rows.copy()  # they lie in the memory that the next block will use


@dataclass(frozen=True)
class Quantized:
    """Rows as whole numbers times a scale each, filled up with zeros to whole tiles."""

    values: np.ndarray
    scales: np.ndarray
    n_rows: int

    def __len__(self) -> int:
        return self.n_rows

    @cached_property
    def packed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same sixteen side by side, what their sums begin with, and the scales; filled up to whole tiles."""
        from nearsay.search.screening.tiles.packed_tile_kernels import TILE_ROWS

        lines = -(-len(self.values) // TILE_ROWS) * TILE_ROWS
        scales = np.zeros(lines, np.float32)
        scales[: len(self.scales)] = self.scales
        return *pack_rows(self.values, lines), scales


def pack_rows(values: np.ndarray, lines: int) -> tuple[np.ndarray, np.ndarray]:
    """Bytes of rows, sixteen side by side and filled up with zeros to so many; and what their sums begin with."""
    from nearsay.search.screening.rounding_kernels import pack
    from nearsay.search.screening.tiles.packed_tile_kernels import SERVES

    packed = in_cache_lines((lines // ROWS, values.shape[1] // DEEP, ROWS), np.int32)
    sums = in_cache_lines((lines,), np.int32)
    pack(values, values.view(np.int32), packed, sums, -SERVES.moved)
    return packed.view(np.int8).reshape(-1), sums


def whole_columns(n_columns: int) -> int:
    """Columns filled up to what a step of the tile takes."""
    return -(-n_columns // tile().together) * tile().together


class Int8Products:
    """Rows as 8-bit integers times a scale each, multiplied by integer dot-product instructions."""

    kept_bytes = 1

    @property
    def most_columns(self) -> int:
        """Of the largest products in sums of 32 bits; filled up with zeros to whole steps."""
        return tile().most_columns

    def prepare(self, X: np.ndarray) -> tuple[Quantized, np.ndarray]:
        from nearsay.search.screening.rounding_kernels import quantize
        from nearsay.search.screening.tiles.packed_tile_kernels import QUERIES_AT_ONCE

        lines = -(-len(X) // QUERIES_AT_ONCE) * QUERIES_AT_ONCE
        rows = Quantized(
            in_cache_lines((lines, whole_columns(X.shape[1])), np.int8), np.zeros(lines, np.float32), len(X)
        )
        errors = np.empty(len(X))
        quantize(X, rows.values, rows.scales, errors, tile().largest)
        return rows, errors * bounds.ROUNDED_UP

    def into(self, left: Quantized, right: Quantized, out: np.ndarray) -> None:
        from nearsay.search.screening.tiles.packed_tile_kernels import multiply

        multiply(tile().moved_up(left.values), left.scales, *right.packed, out)

    def copied(self, rows: Quantized) -> Quantized:
        return rows


PRODUCTS: dict[str, Callable[[], Products]] = {"float32": Float32Products, "int8": Int8Products}


def fastest_products(n_columns: int) -> Products:
    """The fastest kind of product on this machine, measured once for rows of about this width."""
    return products_of(_fastest(1 << max(4, n_columns - 1).bit_length()), n_columns)


def products_of(kind: str, n_columns: int) -> Products:
    """This kind of product; float32 for wider rows than it takes."""
    products = PRODUCTS[kind]()
    return products if n_columns <= products.most_columns else Float32Products()


@lru_cache(maxsize=16)
def _fastest(n_columns: int) -> str:
    if not tile_families.pays():
        return "float32"
    seconds = product_seconds(min(n_columns, 1024))
    return "int8" if seconds["int8"] < WORTH_IT * seconds["float32"] else "float32"


def product_seconds(n_columns: int) -> dict[str, float]:
    """The fastest of a few products of 256 queries and 512 rows in each kind, on one thread, after one that compiles.

    >>> sorted(product_seconds(16))
    ['float32', 'int8']
    """
    X = np.random.default_rng(0).standard_normal((512, n_columns), dtype=np.float32)
    out = np.empty((256, 512), np.float32)
    seconds = {}
    with one_blas_thread():
        for name, kind in PRODUCTS.items():
            products = kind()
            rows, queries = products.prepare(X)[0], products.prepare(X[:256])[0]
            taken = []
            for _ in range(5):
                start = time.perf_counter()
                products.into(queries, rows, out)
                taken.append(time.perf_counter() - start)
            seconds[name] = min(taken[1:])
    return seconds
