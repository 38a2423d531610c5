"""Processor families by their instructions for products of bytes, and how the packed tile uses them."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from nearsay.core.arrays import in_cache_lines
from nearsay.errors import InputError, unknown_name

ROWS = 16  # side by side
DEEP = 4  # columns of a row together, as the instructions take them
TOGETHER = 16  # columns that a step of most tiles takes; rows are filled up with zeros to a multiple of it
# The name of a family, to be used instead of the one that is chosen; "none" for none of them.
FORCE = "NEARSAY_TILE"
# Versions of LLVM whose names for the instructions are those used here.
LLVM_VERSIONS = range(15, 23)
# Linux grants the AMX registers to a process by this x86 system call, with this request and component number.
ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA = 158, 0x1023, 18


@dataclass(frozen=True)
class Family:
    """Instructions of some processors.

    Attributes
    ----------
    name : str
    feature : what LLVM calls them.
    lanes : rows in a vector.
    moved : what is added to the bytes of a query, whose side has no sign; 0 where it has one.
    largest : of the numbers that a byte of a query holds; rows reach to ±127.
    n_queries, n_vectors : how many sums are kept in registers at once.
    together : how many columns a step takes.
    held : of how many queries sums are read at once, where an instruction leaves those of ``n_queries`` in memory;
        0 where they stay in registers.
    """

    name: str
    feature: str
    lanes: int
    moved: int
    largest: int
    n_queries: int
    n_vectors: int
    together: int = TOGETHER
    held: int = 0

    @property
    def by_lane(self) -> bool:
        """Whether the instruction takes the four bytes of a query out of a vector of sixteen."""
        return self.lanes == TOGETHER // DEEP

    def moved_up(self, values: np.ndarray) -> np.ndarray:
        """Bytes of queries as the instruction takes them."""
        if not self.moved:
            return values
        shift = np.int8(self.moved - 256 if self.moved > 127 else self.moved)
        moved = in_cache_lines(values.shape, np.int8)
        np.add(values, shift, out=moved)
        return moved

    @property
    def most_columns(self) -> int:
        """So many columns fit into sums of 32 bits; on the way to them, sums may run over and back."""
        return (2**31 - 1) // (self.largest * 127) // self.together * self.together


FAMILIES = (
    AMX := Family("AMX", "amx-int8", 16, 128, 127, 16, 4, together=64, held=2),
    Family("AVX-512 VNNI", "avx512vnni", 16, 128, 127, 6, 4),
    Family("AVX-VNNI", "avxvnni", 8, 128, 127, 6, 2),
    # Two products of 127 × 127 are added in 16 bits, where nothing larger would fit.
    Family("AVX2", "avx2", 8, 64, 63, 6, 2),
    Family("Arm dot products", "dotprod", 4, 0, 127, 4, 4),
    # For tests, or if forced: slower than products of float32. Holds sums in memory, like AMX.
    ANY := Family("any processor", "", 4, 0, 127, 16, 16, held=2),
)


def families_here() -> list[Family]:
    """Families that this processor supports, the fastest first; the last one is supported by all."""
    from llvmlite import binding

    known = dict(binding.get_host_cpu_features())
    with suppress(OSError):  # on Arm, Linux reports more features than LLVM
        cpuinfo = Path("/proc/cpuinfo").read_text()
        known["dotprod"] = " asimddp" in cpuinfo
    if known.get(AMX.feature):
        known[AMX.feature] = _lent()
    return [each for each in FAMILIES if each is ANY or known.get(each.feature)]


@lru_cache(maxsize=1)
def _lent() -> bool:
    """Whether Linux grants the AMX registers to this process and all its threads."""
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None).syscall(ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA) == 0)


@lru_cache(maxsize=1)
def tile() -> Family:
    """The family in use: the fastest, or the one forced by name."""
    forced = os.environ.get(FORCE)
    if forced and forced != "none":
        named = {each.name: each for each in FAMILIES}
        if forced not in named:
            raise unknown_name(f"tile in {FORCE}", forced, [*named, "none"])
        if named[forced] is AMX and not _lent():
            raise InputError(f"The system does not grant the AMX registers that {FORCE}={forced} needs. Unset it.")
        return named[forced]
    return families_here()[0] if forced != "none" and not why_no_tile() else ANY


def why_no_tile() -> str:
    """Why the instructions of this processor cannot be used; empty if they can."""
    from llvmlite import binding

    version = binding.llvm_version_info[0]
    if version not in LLVM_VERSIONS:
        return f"numba brings LLVM {version}, which the 8-bit tile has not been tried with"
    return ""


def pays() -> bool:
    """Whether products of bytes can be faster than others here."""
    return os.environ.get(FORCE) != "none" and tile() is not ANY
