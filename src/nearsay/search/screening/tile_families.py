"""Which instructions for products of bytes a processor has, and how the packed tile uses them."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from nearsay.errors import unknown_name

ROWS = 16  # side by side
DEEP = 4  # columns together
# The name of a family, to be used instead of the one that is chosen; "none" for none of them.
FORCE = "NEARSAY_TILE"


@dataclass(frozen=True)
class Family:
    """Instructions of some processors.

    Attributes
    ----------
    name : str
    feature : what LLVM calls them.
    lanes : rows in a vector.
    unsigned : whether the query's side has no sign.
    n_queries, n_vectors : how many sums are kept in registers at once.
    """

    name: str
    feature: str
    lanes: int
    unsigned: bool
    n_queries: int
    n_vectors: int

    @property
    def most_columns(self) -> int:
        """So many columns fit into sums of 32 bits, whatever the bytes."""
        largest = 255 * 128 if self.unsigned else 127 * 127
        return (2**31 - 1) // largest // DEEP * DEEP


FAMILIES = (
    Family("AVX-512 VNNI", "avx512vnni", 16, True, 6, 4),
    Family("AVX-VNNI", "avxvnni", 8, True, 4, 2),
    Family("Arm dot products", "dotprod", 4, False, 6, 4),
)


def families_here() -> list[Family]:
    """Those whose instructions this processor has, the fastest first."""
    from llvmlite import binding

    known = dict(binding.get_host_cpu_features())
    with suppress(OSError):  # Linux on Arm tells more than LLVM
        known["dotprod"] = " asimddp" in Path("/proc/cpuinfo").read_text()
    return [each for each in FAMILIES if known.get(each.feature)]


@lru_cache(maxsize=1)
def family() -> Family | None:
    """The one that serves: the first, or the one that is forced by its name; None where there is none.

    On Arm the tile of four rows with four queries is as fast, so that nothing has to be packed there.
    """
    forced = os.environ.get(FORCE)
    if forced == "none":
        return None
    if forced:
        named = {each.name: each for each in FAMILIES}
        if forced not in named:
            raise unknown_name(f"tile in {FORCE}", forced, [*named, "none"])
        return named[forced]
    return next((each for each in families_here() if each.unsigned), None)
