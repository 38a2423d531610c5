"""The steps by which CUDA finds the nearest members of classes: launches Triton's kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.search.gpu.bounds import TINY
from nearsay.search.gpu.class_steps import ClassSteps, rooted
from nearsay.search.gpu.kernels import class_kernels as kernels
from nearsay.search.gpu.rows import DeviceQueries

# Lanes for the members of a class: at most so many, and so many for each member that is asked for.
LANES_OF_LINE, LANES_A_MEMBER = 1024, 4
# A line of up to so many numbers is sorted out by one program, and a longer one by torch.
WIDEST_LINE = 4096
# There is room for more rows that may be nearest: at least so many, and one for so many pairs. Where it is too little,
# once more with as much as is needed.
AT_LEAST, PAIRS_A_PLACE = 1 << 16, 16


@dataclass(frozen=True)
class KernelSizes:
    """Sizes of the kernels.

    Attributes
    ----------
    queries, key_warps : for which a program reads the keys of a class, and its warps.
    entries : groups that one warp looks at, one after the other.
    lanes, warps : pairs of a query and a row that a program measures, with so many warps.
    lines, rows, tile_warps : queries that ask for a class, and rows of it, that a program multiplies, and its warps.
    line_warps : of a program that reads the scores of a class for one query.
    """

    queries: int = 32
    key_warps: int = 1
    entries: int = 8
    lanes: int = 256
    warps: int = 8
    lines: int = 32
    rows: int = 128
    tile_warps: int = 4
    line_warps: int = 2


class Appended:
    """Two lists of n whole numbers, and of those that a kernel appends: launched at once, and read later."""

    def __init__(self, torch: Any, n: int, room: int, device: Any, fill: Callable[[Any, Any, Any, int], None]) -> None:
        self.torch, self.n, self.device, self.fill = torch, n, device, fill
        self._launch(room)

    def _launch(self, room: int) -> None:
        torch, self.room = self.torch, room
        one, other = (torch.empty(self.n + room, dtype=torch.int32, device=self.device) for _ in range(2))
        self._lists, self._count = (one, other), torch.zeros(1, dtype=torch.int32, device=self.device)
        self.fill(one, other, self._count, room)

    def lists(self) -> tuple[Any, Any]:
        """Both, after another launch where there was too little room."""
        needed = int(self._count.item())
        if needed > self.room:
            self._launch(needed)
        one, other = (values[: self.n + needed] for values in self._lists)
        return one, other


@dataclass(frozen=True)
class Tiles:
    """Which lines ask for which class, as tensors.

    Attributes
    ----------
    wanted : of each line, the class; one past the last where none is asked for.
    asking : the lines in the order of classes.
    starts : where the rows of each class begin, and of one more, which has none.
    ends : how many lines ask for this class or one before.
    classes, firsts : of each tile, the class, and the first of ``asking``.
    """

    wanted: Any
    asking: Any
    starts: Any
    ends: Any
    classes: Any
    firsts: Any


class TritonClassSteps(ClassSteps):
    """Each step as one kernel."""

    def __init__(self, torch: Any, sizes: KernelSizes | None = None) -> None:
        super().__init__(torch)
        self.sizes = KernelSizes() if sizes is None else sizes

    def nearest_of_classes(
        self, keys: Any, queries: DeviceQueries, classes: Any, own_places: Any
    ) -> tuple[Any, Any, Callable[[], tuple[Any, Any]]]:
        torch, n, bound = self.torch, queries.n, queries.bounds
        n_pairs, n_groups = classes.n_classes * n, keys.shape[2]
        thresholds = torch.empty(n_pairs, dtype=torch.float32, device=keys.device)
        places, others = torch.empty((2, n_pairs), dtype=torch.int32, device=keys.device)

        def fill(pairs: Any, more: Any, n_more: Any, room: int) -> None:
            kernels.nearest_of_class[(-(-n // self.sizes.queries), classes.n_classes)](
                *(keys, *classes.rows.of_groups(classes.size), queries.factors, bound.alpha, bound.beta, bound.gamma),
                *(classes.first_groups, own_places, thresholds, places, others, pairs, more, n_more),
                *(keys.stride(0), n, n_groups, room, bound.eta_of_factor, TINY),
                LEFT_OUT=len(own_places) > 0,
                SIZE=classes.size,
                QUERIES=self.sizes.queries,
                num_warps=self.sizes.key_warps,
            )

        appended = Appended(torch, 0, n_pairs // PAIRS_A_PLACE + AT_LEAST, keys.device, fill)

        def those() -> tuple[Any, Any]:
            more_pairs, more = appended.lists()
            pairs = (others != -1).nonzero()[:, 0].to(torch.int32)
            return torch.cat([pairs, more_pairs]), torch.cat([others[pairs], more])

        return thresholds, places, those

    def rows_of_pairs(
        self, queries: DeviceQueries, classes: Any, thresholds: Any, pairs: Any, groups: Any, own_places: Any
    ) -> tuple[Any, Any]:
        rows, bound, columns = classes.rows, queries.bounds, classes.rows.halves.shape[1]

        def fill(row_pairs: Any, places: Any, n_more: Any, room: int) -> None:
            kernels.rows_of_entries[(-(-len(pairs) // self.sizes.entries),)](
                *(queries.halves, rows.halves, rows.half_norms, rows.errors, rows.lengths, queries.factors),
                *(bound.alpha, bound.beta, bound.gamma, thresholds, own_places, pairs, groups),
                *(row_pairs, places, n_more, len(pairs), queries.n, columns, room, bound.eta_of_factor),
                LEFT_OUT=len(own_places) > 0,
                ENTRIES=self.sizes.entries,
                SIZE=classes.size,
                STEP=128 if columns % 128 == 0 else min(64, columns),
                num_warps=1,
            )

        return Appended(self.torch, len(pairs), len(pairs) + AT_LEAST, pairs.device, fill).lists()

    def measure_pairs(self, kind: str, Q: Any, classes: Any, pairs: Any, places: Any) -> Any:
        torch, rows = self.torch, classes.in_order
        far = torch.empty(len(places), dtype=torch.float64, device=places.device)
        if len(places):
            kernels.squares_of_pairs[(-(-len(places) // self.sizes.lanes),)](
                *(Q.T.contiguous(), rows, places if pairs is None else pairs, places, far),
                *(len(places), len(Q), rows.shape[1]),
                ALL=pairs is None,
                LANES=self.sizes.lanes,
                num_warps=self.sizes.warps,
                enable_fp_fusion=False,
            )
        return rooted(kind, far)

    def members_of_lines(
        self, queries: DeviceQueries, classes: Any, asked: Any, own_places: Any, k: int, room: int
    ) -> tuple[Any, Any]:
        torch, rows, bound, width = self.torch, classes.rows, queries.bounds, classes.largest
        n_lines, n_columns = asked.numel(), rows.halves.shape[1]
        kept = torch.empty((n_lines, room), dtype=torch.int32, device=asked.device)
        counts = torch.empty(n_lines, dtype=torch.int32, device=asked.device)
        scores = torch.empty((n_lines, width), dtype=torch.float32, device=asked.device)
        tiles = self._tiles(classes, asked)
        kernels.scores_of_classes[(len(tiles.firsts), -(-width // self.sizes.rows))](
            *(queries.halves, rows.halves, rows.half_norms, queries.factors, tiles.starts, tiles.asking),
            *(tiles.classes, tiles.firsts, tiles.ends, scores, asked.shape[1], width, n_columns),
            STEP=128 if n_columns % 128 == 0 else min(64, n_columns),
            LINES=self.sizes.lines,
            ROWS=self.sizes.rows,
            num_warps=self.sizes.tile_warps,
        )
        lanes = min(LANES_OF_LINE, _power_of_two(max(32, width)))
        kernels.members_below[(n_lines,)](
            *(scores, rows.errors, rows.lengths, queries.factors, bound.alpha, bound.beta, bound.gamma),
            *(tiles.starts, tiles.wanted, own_places, kept, counts),
            *(asked.shape[1], width, k, room, bound.eta_of_factor),
            LEFT_OUT=len(own_places) > 0,
            LANES=max(lanes, _power_of_two(min(width, LANES_A_MEMBER * k))),
            num_warps=self.sizes.line_warps,
        )
        return kept, counts

    def means(self, far: Any, members: tuple[int, ...]) -> Any:
        torch = self.torch
        means = torch.empty((len(far), len(members)), dtype=torch.float64, device=far.device)
        if len(far):
            kernels.means_of_lines[(-(-len(far) // 128),)](
                *(far, torch.tensor(members, dtype=torch.int32, device=far.device).clamp(max=far.shape[1]), means),
                *(len(far), far.shape[1], len(members)),
                LANES=128,
                num_warps=4,
            )
        return means

    def measure_classes(self, Q: Any, classes: Any, asked: Any, own_places: Any) -> Any:
        torch, width, rows = self.torch, classes.largest, classes.in_order
        far = torch.full((asked.numel(), width), np.inf, dtype=torch.float64, device=asked.device)
        tiles = self._tiles(classes, asked)
        kernels.squares_of_classes[(len(tiles.firsts), -(-width // self.sizes.rows))](
            *(Q.contiguous(), rows, classes.rows.half_norms, tiles.starts, tiles.asking, own_places),
            *(tiles.classes, tiles.firsts, tiles.ends, far, asked.shape[1], width, rows.shape[1]),
            LEFT_OUT=len(own_places) > 0,
            LINES=self.sizes.lines,
            ROWS=self.sizes.rows,
            num_warps=2 * self.sizes.tile_warps,
            enable_fp_fusion=False,
        )
        return far

    def _tiles(self, classes: Any, asked: Any) -> Tiles:
        """Lines by the class they ask for, some of one class at a time."""
        torch, lines, n_classes = self.torch, self.sizes.lines, classes.n_classes
        # Those who ask for nothing come last, as if for one more class, which has no rows.
        wanted = torch.where(asked < 0, n_classes, asked).reshape(-1)
        by_class, asking = wanted.sort()
        ends = torch.searchsorted(by_class, torch.arange(n_classes + 1, device=asked.device), right=True)
        firsts = torch.nn.functional.pad(ends[:-1], (1, 0))
        n_tiles = (ends - firsts + lines - 1) // lines
        tile_ends = n_tiles.cumsum(0)
        tiles = torch.arange(len(wanted) // lines + n_classes + 1, device=asked.device)
        of_class = torch.searchsorted(tile_ends, tiles, right=True).clamp(max=n_classes)
        tile_firsts = firsts[of_class] + (tiles - (tile_ends - n_tiles)[of_class]) * lines
        starts = torch.cat([classes.starts, classes.starts[-1:]])
        return Tiles(wanted, asking, starts, ends, of_class, tile_firsts)

    def lowest(self, far: Any, m: int) -> Any:
        torch, width = self.torch, far.shape[1]
        if width > WIDEST_LINE:
            return super().lowest(far, m)
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
