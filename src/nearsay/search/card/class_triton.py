"""The steps by which CUDA finds the nearest members of classes: launches Triton's kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.search.card import class_kernels as kernels
from nearsay.search.card.bounds import ETA_OF_FACTOR
from nearsay.search.card.class_steps import ClassSteps, rooted
from nearsay.search.card.rows import DeviceQueries

# The most groups of a class that a program reads at a time.
MOST_GROUPS = 128
# Lanes for the groups of a large class: at least so many, and so many for each member that is asked for.
LANES_OF_LINE, LANES_A_MEMBER = 512, 4
# Beside one for each pair, there is room for a share of so many more groups and rows; where it is too little, once
# more with as much as is needed.
MORE, AT_LEAST = 4, 1 << 16


@dataclass(frozen=True)
class Sizes:
    """Sizes of the kernels.

    Attributes
    ----------
    queries : for which a program reads the lowest scores of a class.
    entries : groups that one warp looks at, one after the other.
    lanes : pairs of a query and a row that a program measures, with so many warps.
    lines, rows, tile_warps : queries, and rows of a class, that a program measures, and its warps.
    """

    queries: int = 32
    entries: int = 8
    lanes: int = 512
    warps: int = 8
    lines: int = 32
    rows: int = 64
    tile_warps: int = 4


class TritonClassSteps(ClassSteps):
    """Each step as one kernel."""

    def __init__(self, torch: Any, sizes: Sizes | None = None) -> None:
        super().__init__(torch)
        self.sizes = Sizes() if sizes is None else sizes

    def groups_of_classes(
        self, minima: Any, queries: DeviceQueries, classes: Any, own_groups: Any
    ) -> tuple[Any, Any, Any]:
        torch, n, bound = self.torch, queries.n, queries.bounds
        n_pairs, n_groups = classes.n_classes * n, minima.shape[1]
        thresholds = torch.empty(n_pairs, dtype=torch.float32, device=minima.device)
        usual = classes.largest // classes.size

        def fill(pairs: Any, groups: Any, n_more: Any, room: int) -> None:
            kernels.groups_of_class[(-(-n // self.sizes.queries), classes.n_classes)](
                *(minima, *classes.rows.of_groups(classes.size), queries.factors, bound.alpha, bound.beta, bound.gamma),
                *(classes.first_groups, own_groups, thresholds, pairs, groups, n_more),
                *(n, n_pairs, n_groups, room, ETA_OF_FACTOR),
                LEFT_OUT=len(own_groups) > 0,
                QUERIES=self.sizes.queries,
                GROUPS=min(MOST_GROUPS, max(16, _power_of_two(usual))),
                num_warps=4,
            )

        pairs, groups = self._with_more(n_pairs, minima.device, fill)
        return thresholds, pairs, groups

    def rows_of_pairs(
        self, queries: DeviceQueries, classes: Any, thresholds: Any, pairs: Any, groups: Any, own_places: Any
    ) -> tuple[Any, Any]:
        rows, bound, columns = classes.rows, queries.bounds, classes.rows.halves.shape[1]

        def fill(row_pairs: Any, places: Any, n_more: Any, room: int) -> None:
            kernels.rows_of_entries[(-(-len(pairs) // self.sizes.entries),)](
                *(queries.halves, rows.halves, rows.half_norms, rows.errors, rows.lengths, queries.factors),
                *(bound.alpha, bound.beta, bound.gamma, thresholds, own_places, pairs, groups),
                *(row_pairs, places, n_more, len(pairs), queries.n, columns, room, ETA_OF_FACTOR),
                LEFT_OUT=len(own_places) > 0,
                ENTRIES=self.sizes.entries,
                SIZE=classes.size,
                STEP=128 if columns % 128 == 0 else min(64, columns),
                num_warps=1,
            )

        return self._with_more(len(pairs), pairs.device, fill)

    def _with_more(self, n: int, device: Any, fill: Any) -> tuple[Any, Any]:
        """Two lists of n whole numbers, and of those that a kernel appends: as many as there turn out to be."""
        torch, room = self.torch, n // MORE + AT_LEAST
        while True:
            one, other = (torch.empty(n + room, dtype=torch.int32, device=device) for _ in range(2))
            n_more = torch.zeros(1, dtype=torch.int32, device=device)
            fill(one, other, n_more, room)
            needed = int(n_more.item())
            if needed <= room:
                return one[: n + needed], other[: n + needed]
            room = needed

    def measure_pairs(self, kind: str, Q: Any, classes: Any, pairs: Any, places: Any) -> Any:
        torch, columns = self.torch, classes.columns
        far = torch.empty(len(pairs), dtype=torch.float64, device=pairs.device)
        if len(pairs):
            kernels.squares_of_pairs[(-(-len(pairs) // self.sizes.lanes),)](
                *(Q.T.contiguous(), columns, pairs, places, far, len(pairs), len(Q), columns.shape[1], len(columns)),
                LANES=self.sizes.lanes,
                num_warps=self.sizes.warps,
                enable_fp_fusion=False,
            )
        return rooted(kind, far)

    def measure_classes(self, Q: Any, classes: Any, asked: Any, own_places: Any) -> Any:
        torch, width, columns = self.torch, classes.largest, classes.columns
        lines, rows = self.sizes.lines, self.sizes.rows
        n_classes, n_lines = classes.n_classes, asked.numel()
        far = torch.full((n_lines, width), np.inf, dtype=torch.float64, device=asked.device)
        # Those who ask for nothing come last, as if for one more class, which has no rows.
        wanted = torch.where(asked < 0, n_classes, asked).reshape(-1)
        by_class, asking = wanted.sort()
        ends = torch.searchsorted(by_class, torch.arange(n_classes + 1, device=asked.device), right=True)
        firsts = torch.nn.functional.pad(ends[:-1], (1, 0))
        n_tiles = (ends - firsts + lines - 1) // lines
        tile_ends = n_tiles.cumsum(0)
        tiles = torch.arange(n_lines // lines + n_classes + 1, device=asked.device)
        of_class = torch.searchsorted(tile_ends, tiles, right=True).clamp(max=n_classes)
        tile_firsts = firsts[of_class] + (tiles - (tile_ends - n_tiles)[of_class]) * lines
        starts = torch.cat([classes.starts, classes.starts[-1:]])
        kernels.squares_of_classes[(len(tiles), -(-width // rows))](
            *(Q.contiguous(), columns, classes.rows.half_norms, starts, asking, own_places),
            *(of_class, tile_firsts, ends, far, asked.shape[1], width, columns.shape[1], len(columns)),
            LEFT_OUT=len(own_places) > 0,
            LINES=lines,
            ROWS=rows,
            num_warps=self.sizes.tile_warps,
            enable_fp_fusion=False,
        )
        return far

    def groups_of_lines(
        self, minima: Any, queries: DeviceQueries, classes: Any, query: Any, of_class: Any, k: int, room: int
    ) -> tuple[Any, Any, Any]:
        torch, bound = self.torch, queries.bounds
        listed = torch.empty((len(query), room), dtype=torch.int32, device=minima.device)
        counts = torch.zeros(len(query), dtype=torch.int32, device=minima.device)
        thresholds = torch.empty(len(query), dtype=torch.float32, device=minima.device)
        kernels.groups_of_line[(len(query),)](
            *(minima, *classes.rows.of_groups(classes.size), queries.factors, bound.alpha, bound.beta, bound.gamma),
            *(classes.first_groups, query, of_class, thresholds, listed, counts),
            *(minima.shape[1], k, room, ETA_OF_FACTOR),
            LANES=max(LANES_OF_LINE, _power_of_two(LANES_A_MEMBER * k)),
            num_warps=4,
        )
        return listed, counts, thresholds

    def lowest(self, far: Any, m: int) -> Any:
        torch, width = self.torch, far.shape[1]
        lowest = torch.empty((len(far), m), dtype=torch.float64, device=far.device)
        lanes = max(32, _power_of_two(width))
        kernels.lowest_of_line[(len(far),)](far, lowest, width, m, LANES=lanes, num_warps=8 if lanes > 1024 else 4)
        return lowest.sort(dim=1).values


def _power_of_two(number: int) -> int:
    """The least power of two that is no less than a number.

    >>> [_power_of_two(number) for number in (1, 5, 64)]
    [1, 8, 64]
    """
    return 1 << max(0, number - 1).bit_length()
