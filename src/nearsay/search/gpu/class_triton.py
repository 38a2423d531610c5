"""The steps of a GPU search by class as Triton kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nearsay.search.gpu.bounds import TINY
from nearsay.search.gpu.class_steps import ClassSteps, rooted
from nearsay.search.gpu.kernels import class_kernels as kernels
from nearsay.search.gpu.rows import GpuQueries

# Lanes for each member wanted of a class.
LANES_A_MEMBER = 4
# Room for appended rows: one for so many pairs, besides ``KernelSizes.room``. If it overflows, the kernel runs again.
PAIRS_A_PLACE = 16


@dataclass(frozen=True)
class KernelSizes:
    """Sizes of the kernels.

    Attributes
    ----------
    queries, key_warps : queries and warps of a program that reads the keys of a class.
    entries : groups that one warp scores, one after the other.
    lanes, warps : pairs and warps of a program that measures.
    lines, rows, tile_warps : lines and rows of a class that a program multiplies, and its warps.
    line_warps, line_lanes : warps, and lanes at most, of a program that reads the scores of a class for one query.
    room : for rows that kernels append.
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
    line_lanes: int = 1024
    room: int = 1 << 16


class Appended:
    """Two lists of n integers and those that a kernel appends: launched at once, read later."""

    def __init__(self, torch: Any, n: int, room: int, device: Any, fill: Callable[[Any, Any, Any, int], None]) -> None:
        self.torch, self.n, self.device, self.fill = torch, n, device, fill
        self._launch(room)

    def _launch(self, room: int) -> None:
        torch, self.room = self.torch, room
        one, other = (torch.empty(self.n + room, dtype=torch.int32, device=self.device) for _ in range(2))
        self._lists, self._count = (one, other), torch.zeros(1, dtype=torch.int32, device=self.device)
        self.fill(one, other, self._count, room)

    def lists(self) -> tuple[Any, Any]:
        """Both lists; launches again if they overflowed."""
        needed = int(self._count.item())
        if needed > self.room:
            self._launch(needed)
        one, other = (values[: self.n + needed] for values in self._lists)
        return one, other


@dataclass(frozen=True)
class Tiles:
    """The lines of each class, cut into tiles, as tensors.

    Attributes
    ----------
    wanted : the class of each line; one past the last where it has none.
    asking : the lines sorted by class.
    starts : where the rows of each class begin, and of one more, which has none.
    ends : where the lines of each class end in ``asking``.
    classes, firsts : of each tile, its class and its first place in ``asking``.
    """

    wanted: Any
    asking: Any
    starts: Any
    ends: Any
    classes: Any
    firsts: Any


class TritonClassSteps(ClassSteps):
    """Most steps as Triton kernels; torch averages members, and measures those of classes that are all equally far."""

    def __init__(self, torch: Any, sizes: KernelSizes | None = None) -> None:
        super().__init__(torch)
        self.sizes = KernelSizes() if sizes is None else sizes

    def nearest_of_classes(
        self, keys: Any, queries: GpuQueries, classes: Any, left_out_places: Any
    ) -> tuple[Any, Any, Callable[[], tuple[Any, Any]]]:
        torch, n, bound = self.torch, queries.n, queries.bounds
        n_pairs, n_groups = classes.n_classes * n, keys.shape[2]
        thresholds = torch.empty(n_pairs, dtype=torch.float32, device=keys.device)
        places, others = torch.empty((2, n_pairs), dtype=torch.int32, device=keys.device)

        def fill(pairs: Any, more: Any, n_more: Any, room: int) -> None:
            kernels.nearest_of_class[(-(-n // self.sizes.queries), classes.n_classes)](
                *(keys, *classes.rows.of_groups(classes.size), queries.factors, bound.alpha, bound.beta, bound.gamma),
                *(classes.first_groups, left_out_places, thresholds, places, others, pairs, more, n_more),
                *(keys.stride(0), n, n_groups, room, bound.eta_of_factor, TINY),
                LEFT_OUT=len(left_out_places) > 0,
                SIZE=classes.size,
                QUERIES=self.sizes.queries,
                num_warps=self.sizes.key_warps,
            )

        appended = Appended(torch, 0, n_pairs // PAIRS_A_PLACE + self.sizes.room, keys.device, fill)

        def all_others() -> tuple[Any, Any]:
            more_pairs, more = appended.lists()
            pairs = (others != -1).nonzero()[:, 0].to(torch.int32)
            return torch.cat([pairs, more_pairs]), torch.cat([others[pairs], more])

        return thresholds, places, all_others

    def rows_of_pairs(
        self, queries: GpuQueries, classes: Any, thresholds: Any, pairs: Any, groups: Any, left_out_places: Any
    ) -> tuple[Any, Any]:
        rows, bound, columns = classes.rows, queries.bounds, classes.rows.halves.shape[1]

        def fill(row_pairs: Any, places: Any, n_more: Any, room: int) -> None:
            kernels.rows_of_entries[(-(-len(pairs) // self.sizes.entries),)](
                *(queries.halves, rows.halves, rows.half_norms, rows.errors, rows.lengths, queries.factors),
                *(bound.alpha, bound.beta, bound.gamma, thresholds, left_out_places, pairs, groups),
                *(row_pairs, places, n_more, len(pairs), queries.n, columns, room, bound.eta_of_factor),
                LEFT_OUT=len(left_out_places) > 0,
                ENTRIES=self.sizes.entries,
                SIZE=classes.size,
                STEP=128 if columns % 128 == 0 else min(64, columns),
                num_warps=1,
            )

        return Appended(self.torch, len(pairs), len(pairs) + self.sizes.room, pairs.device, fill).lists()

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
        self, queries: GpuQueries, classes: Any, near: Any, left_out_places: Any, k: int, room: int
    ) -> tuple[Any, Any]:
        torch, rows, bound, width = self.torch, classes.rows, queries.bounds, classes.largest
        n_lines, n_columns = near.numel(), rows.halves.shape[1]
        kept = torch.empty((n_lines, room), dtype=torch.int32, device=near.device)
        counts = torch.empty(n_lines, dtype=torch.int32, device=near.device)
        scores = torch.empty((n_lines, width), dtype=torch.float32, device=near.device)
        tiles = self._tiles(classes, near)
        kernels.scores_of_classes[(len(tiles.firsts), -(-width // self.sizes.rows))](
            *(queries.halves, rows.halves, rows.half_norms, queries.factors, tiles.starts, tiles.asking),
            *(tiles.classes, tiles.firsts, tiles.ends, scores, near.shape[1], width, n_columns),
            STEP=128 if n_columns % 128 == 0 else min(64, n_columns),
            LINES=self.sizes.lines,
            ROWS=self.sizes.rows,
            num_warps=self.sizes.tile_warps,
        )
        lanes = min(self.sizes.line_lanes, _power_of_two(max(32, width)))
        kernels.members_below[(n_lines,)](
            *(scores, rows.errors, rows.lengths, queries.factors, bound.alpha, bound.beta, bound.gamma),
            *(tiles.starts, tiles.wanted, left_out_places, kept, counts),
            *(near.shape[1], width, k, room, bound.eta_of_factor),
            LEFT_OUT=len(left_out_places) > 0,
            LANES=max(lanes, _power_of_two(min(width, LANES_A_MEMBER * k))),
            num_warps=self.sizes.line_warps,
        )
        return kept, counts

    def _tiles(self, classes: Any, near: Any) -> Tiles:
        """Lines sorted by class, cut into tiles of one class."""
        torch, lines, n_classes = self.torch, self.sizes.lines, classes.n_classes
        # Lines without a class come last, as lines of one more class that has no rows.
        wanted = torch.where(near < 0, n_classes, near).reshape(-1)
        by_class, asking = wanted.sort()
        ends = torch.searchsorted(by_class, torch.arange(n_classes + 1, device=near.device), right=True)
        firsts = torch.nn.functional.pad(ends[:-1], (1, 0))
        n_tiles = (ends - firsts + lines - 1) // lines
        tile_ends = n_tiles.cumsum(0)
        tiles = torch.arange(len(wanted) // lines + n_classes + 1, device=near.device)
        of_class = torch.searchsorted(tile_ends, tiles, right=True).clamp(max=n_classes)
        tile_firsts = firsts[of_class] + (tiles - (tile_ends - n_tiles)[of_class]) * lines
        starts = torch.cat([classes.starts, classes.starts[-1:]])
        return Tiles(wanted, asking, starts, ends, of_class, tile_firsts)


def _power_of_two(number: int) -> int:
    """The least power of two that is no less than a number.

    >>> [_power_of_two(number) for number in (1, 5, 64)]
    [1, 8, 64]
    """
    return 1 << max(0, number - 1).bit_length()
