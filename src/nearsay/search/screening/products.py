"""How the screen multiplies: in float32, in 8-bit whole numbers, or in bfloat16.

Fewer digits make a product several times as fast where the processor has units
for them, and a screen can afford it: how far each row was moved by rounding is
known, and rows that cannot be told apart are measured anyway. So the choice
changes the time, never the answer.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Protocol

import numpy as np

from nearsay.errors import require
from nearsay.search.screening import bounds
from nearsay.search.screening.tile_families import DEEP, ROWS, family

# The tile of 8-bit products is written for this version of LLVM's language; an older or newer one may not know it.
LLVM_OF_INT8 = (22,)


# Packing rows takes as long as multiplying them with so few queries.
PACKED_FROM = 8


class Products(Protocol):
    """Matrix products of prepared queries and rows."""

    # Unit roundoff of the sums.
    roundoff: float
    # What rounding the product itself adds, relative to |q|·|r|.
    coarseness: float

    # Bytes a number takes in prepared rows, where it pays to keep them; 0: never.
    kept_bytes: int

    # Sums over more columns would not fit the numbers they are added up in.
    @property
    def most_columns(self) -> int: ...

    def prepare(self, X: np.ndarray) -> tuple[Any, np.ndarray]:
        """Float32 rows in the form that is multiplied, and the length of each row's rounding error."""
        ...

    def into(self, queries: Any, rows: Any, out: np.ndarray) -> None:
        """Write ``queries · rowsᵀ`` to the float32 array ``out``."""
        ...

    def kept(self, rows: Any, *, as_rows: bool) -> Any:
        """Prepared rows to be kept; ``as_rows`` says that ``into`` will only ever have them as its rows."""
        ...

    def on_one_thread(self) -> AbstractContextManager[None]:
        """Keep the products of the calling thread on it."""
        ...


class Float32Products:
    """numpy's float32 products."""

    roundoff = bounds.SINGLE_ROUNDOFF
    coarseness = 0.0
    kept_bytes = 0
    most_columns = sys.maxsize

    def prepare(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return X, np.zeros(len(X))

    def into(self, queries: np.ndarray, rows: np.ndarray, out: np.ndarray) -> None:
        np.matmul(queries, rows.T, out=out)

    def kept(self, rows: np.ndarray, *, as_rows: bool) -> np.ndarray:
        return rows.copy()  # they lie in the memory that the next block will use

    def on_one_thread(self) -> AbstractContextManager[None]:
        return nullcontext()


@dataclass(frozen=True)
class Quantized:
    """Rows as whole numbers times a scale each, filled up with zeros to whole tiles."""

    values: np.ndarray
    scales: np.ndarray
    n_rows: int

    def __len__(self) -> int:
        return self.n_rows

    @property
    def is_packed(self) -> bool:
        """Whether they lie packed already."""
        return "packed" in self.__dict__

    def only_packed(self) -> Quantized:
        """The same without the rows as they were, which take as much memory again."""
        bare = Quantized(self.values[:0].copy(), self.scales, self.n_rows)
        bare.__dict__["packed"] = self.packed
        return bare

    @cached_property
    def packed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same sixteen side by side, 128 times the sum of each row, and the scales; filled up to whole tiles."""
        from nearsay.search.screening.packed_tile_kernels import ROWS_AT_ONCE, pack

        lines, columns = -(-len(self.values) // ROWS_AT_ONCE) * ROWS_AT_ONCE, self.values.shape[1]
        packed = np.zeros((lines // ROWS, columns // DEEP, ROWS, DEEP), np.int8)
        sums, scales = np.zeros(lines, np.int32), np.zeros(lines, np.float32)
        pack(self.values, packed, sums)
        scales[: len(self.scales)] = self.scales
        return packed.reshape(-1), sums, scales


class Int8Products:
    """Rows as whole numbers from −127 to 127 times a scale each, multiplied by the instructions made for that."""

    roundoff = bounds.SINGLE_ROUNDOFF
    coarseness = 0.0
    kept_bytes = 1

    @property
    def most_columns(self) -> int:
        """Of the largest products in sums of 32 bits; filled up with zeros to sixteens."""
        most = (2**31 - 1) // 127**2
        packing = family()
        return (most if packing is None else min(most, packing.most_columns)) // 16 * 16

    def prepare(self, X: np.ndarray) -> tuple[Quantized, np.ndarray]:
        from nearsay.search.screening.int8_tile_kernels import CHUNK, TILE, quantize

        lines, columns = (-(-size // step) * step for size, step in zip(X.shape, (TILE, CHUNK), strict=True))
        rows = Quantized(np.zeros((lines, columns), np.int8), np.zeros(lines, np.float32), len(X))
        errors = np.empty(len(X))
        quantize(X, rows.values, rows.scales, errors)
        return rows, errors * bounds.ROUNDED_UP

    def into(self, queries: Quantized, rows: Quantized, out: np.ndarray) -> None:
        if family() is not None and (rows.is_packed or len(queries) >= PACKED_FROM):
            from nearsay.search.screening.packed_tile_kernels import multiply as multiply_packed

            multiply_packed(queries.values, queries.scales, *rows.packed, out)
            return
        from nearsay.search.screening.int8_tile_kernels import multiply

        multiply(queries.values, queries.scales, rows.values, rows.scales, out)

    def kept(self, rows: Quantized, *, as_rows: bool) -> Quantized:
        return rows.only_packed() if as_rows and family() is not None else rows

    def on_one_thread(self) -> AbstractContextManager[None]:
        return nullcontext()


class Bfloat16Products:
    """torch's bfloat16 products, on the CPU. The results are rounded to bfloat16, too."""

    roundoff = bounds.ODD_ROUNDOFF
    # Of vectors that may have become longer by the same share when they were rounded.
    coarseness = bounds.BFLOAT16_ROUNDOFF * (1 + bounds.BFLOAT16_ROUNDOFF) ** 2
    kept_bytes = 2
    most_columns = sys.maxsize

    def __init__(self) -> None:
        self._torch = require("torch", "torch")

    def prepare(self, X: np.ndarray) -> tuple[Any, np.ndarray]:
        exact = self._torch.from_numpy(X)
        rounded = exact.to(self._torch.bfloat16)
        errors = self._torch.linalg.vector_norm(exact - rounded, dim=1, dtype=self._torch.float64)
        return rounded, errors.numpy()

    def into(self, queries: Any, rows: Any, out: np.ndarray) -> None:
        self._torch.from_numpy(out).copy_(queries @ rows.T)

    def kept(self, rows: Any, *, as_rows: bool) -> Any:
        return rows

    @contextmanager
    def on_one_thread(self) -> Iterator[None]:
        before = self._torch.get_num_threads()
        self._torch.set_num_threads(1)
        try:
            yield
        finally:
            self._torch.set_num_threads(before)


PRODUCTS: dict[str, Callable[[], Products]] = {
    "float32": Float32Products,
    "int8": Int8Products,
    "bfloat16": Bfloat16Products,
}


def fastest_products(n_columns: int) -> Products:
    """The fastest kind of product on this machine, measured once for rows of about this width."""
    fastest = PRODUCTS[_fastest(1 << max(4, n_columns - 1).bit_length())]()
    return fastest if n_columns <= fastest.most_columns else Float32Products()


@lru_cache(maxsize=16)
def _fastest(n_columns: int) -> str:
    names = ["float32"]
    if has_int8_tile():
        names.append("int8")
    if has_bfloat16():
        names.append("bfloat16")
    if len(names) == 1:
        return "float32"
    seconds = {name: _seconds(PRODUCTS[name](), min(n_columns, 1024)) for name in names}
    best = min(seconds, key=seconds.__getitem__)
    # Rows that cannot be told apart cost something too: a small gain is none.
    return best if seconds[best] < 0.75 * seconds["float32"] else "float32"


def _seconds(products: Products, n_columns: int) -> float:
    """The fastest of a few products of 256 queries and 512 rows, after one that compiles."""
    X = np.random.default_rng(0).standard_normal((512, n_columns), dtype=np.float32)
    rows, queries, out = products.prepare(X)[0], products.prepare(X[:256])[0], np.empty((256, 512), np.float32)
    taken = []
    with products.on_one_thread():
        for _ in range(5):
            start = time.perf_counter()
            products.into(queries, rows, out)
            taken.append(time.perf_counter() - start)
    return min(taken[1:])


def has_int8_tile() -> bool:
    """Whether the 8-bit tile can be compiled here."""
    from llvmlite import binding

    return binding.llvm_version_info[0] in LLVM_OF_INT8


def has_bfloat16() -> bool:
    """Whether torch is in use already and this processor multiplies bfloat16 in hardware (AMX, AVX-512, Arm).

    torch is not imported just to find out: that would take longer than most searches.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    if platform.machine() in ("aarch64", "arm64"):
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return any(
        getattr(torch.cpu, name, lambda: False)() for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
    )
