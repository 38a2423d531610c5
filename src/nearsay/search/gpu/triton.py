"""The steps of a search on CUDA: launches Triton's kernels with the sizes that suit a card."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nearsay.search.gpu.bounds import CUT_OFF, ROUNDED_UP, ROW_SCALE, QueryBounds, summing_units
from nearsay.search.gpu.class_steps import ClassSteps, rooted, square_root
from nearsay.search.gpu.class_triton import TritonClassSteps
from nearsay.search.gpu.kernels import product_kernels as products
from nearsay.search.gpu.kernels import selection_kernels as selection
from nearsay.search.gpu.rows import NOTHING, TILE, DeviceQueries, DeviceRows, RowSpace, from_numpy
from nearsay.search.gpu.steps import TOGETHER, PlainSteps, written
from nearsay.search.screening import bounds

# Rows up to so many columns are multiplied beside queries that stay in fast memory.
SHORT = 128
LANES = 64
# Where every row takes long, or there are many, a warp has one each.
FEW_LANES = 32


@dataclass(frozen=True)
class Tiling:
    """Sizes of one kernel.

    Attributes
    ----------
    lines, rows : queries and rows of a tile.
    warps : of 32 threads, that share a tile.
    stages : tiles of rows on their way at a time.
    tiles_a_program : tiles that pass one of the other kind, for short rows.
    step : columns at a time, for long rows.
    rows_stay : whether queries pass by a tile of rows, or rows by a tile of queries, for short rows.
    copied : whether the card's copy engine brings tiles (compute capability 9.0), or threads do.
    """

    lines: int
    rows: int
    warps: int
    stages: int
    tiles_a_program: int = 32
    step: int = 64
    rows_stay: bool = False
    copied: bool = False


@dataclass(frozen=True)
class Launch:
    """Sizes of a kernel in which one program serves one query: lanes it works on at a time, warps, loads under way."""

    lanes: int
    warps: int
    stages: int = 1


LISTING, LOOKING = Launch(1024, 4, 3), Launch(64, 4)
LANES_A_NEIGHBOR = 8
# Cards with 227 KB of fast memory a processor, and all others that have tensor cores for float16.
LARGE = Tiling(64, 256, 4, 3, 1024, rows_stay=True), Tiling(128, 256, 8, 3)
SMALL = Tiling(64, 128, 4, 2, 1024, rows_stay=True), Tiling(64, 128, 4, 3)
# Rows, and tiles on their way, where groups are so small that they allow for it: for short rows.
FINE = 128, 2
# Compute capabilities: the first that Triton serves well, the first with a copy engine, and those of large cards.
OLDEST, COPY_ENGINE, LARGE_CARDS = (8, 0), (9, 0), (9, 10)


def tilings_for(capability: tuple[int, int]) -> tuple[Tiling, Tiling]:
    """Tiles for short and for long rows on cards of this compute capability.

    >>> tilings_for((9, 0))[0].rows, tilings_for((8, 9))[0].rows
    (256, 128)
    """
    tilings = LARGE if capability[0] in LARGE_CARDS else SMALL
    short, long = (replace(tiling, copied=capability >= COPY_ENGINE) for tiling in tilings)
    return short, long


def described(matrix: Any, lines: int, columns: int) -> Any:
    """What the copy engine needs to know to bring tiles of a matrix."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    return TensorDescriptor.from_tensor(matrix, [lines, columns])


class TritonSteps(PlainSteps):
    """Each step as one kernel."""

    def __init__(self, torch: Any, short: Tiling = LARGE[0], long: Tiling = LARGE[1]) -> None:
        super().__init__(torch)
        self.short, self.long = short, long
        self.listing, self.looking = LISTING, LOOKING
        self._made: tuple[RowSpace, Any] | None = None

    def of_classes(self) -> ClassSteps:
        return TritonClassSteps(self.torch)

    def prepared(self, space: RowSpace, Q: Any, form_error: float) -> DeviceQueries:
        torch = self.torch
        queries = from_numpy(torch, Q).to(space.device) if isinstance(Q, np.ndarray) else Q.to(space.device)
        if not space.geometry.as_is or queries.dtype not in (torch.float32, torch.float64):
            return super().prepared(space, Q, form_error)
        n = len(queries)
        halves, factors = space.room_for(n)
        alpha, beta, gamma = torch.empty((3, n), dtype=torch.float32, device=space.device)
        certain = torch.empty(n, dtype=torch.bool, device=space.device)
        products.forms_of_queries[(n,)](
            *(queries.contiguous(), space.center, self._constants(space), halves, factors, alpha, beta, gamma, certain),
            *(space.n_columns, space.width),
            COLUMNS=1 << (space.n_columns - 1).bit_length(),
            num_warps=1 if space.n_columns <= 256 else 4,
        )
        return DeviceQueries(n, halves, factors, QueryBounds(alpha, beta, gamma, certain))

    def _constants(self, space: RowSpace) -> Any:
        """What the bounds of queries are made of, on the device; made anew where rows were added."""
        made = self._made
        if made is None or made[0] is not space:
            fixed, summing = space.fixed(0.0), summing_units(space.n_columns) * CUT_OFF
            known = [space.scale, bounds.ROUNDED_UP, bounds.farthest(space.radius), summing]
            known += [fixed.constant, fixed.linear, fixed.quadratic, ROUNDED_UP, ROW_SCALE]
            made = space, self.torch.tensor(known, dtype=self.torch.float64, device=space.device)
            self._made = made  # in one step: other threads may be asking
        return made[1]

    def group_minima(self, queries: DeviceQueries, rows: DeviceRows, size: int) -> Any:
        return self._lowest(queries, rows, rows.half_norms, size, 1)[0]

    def group_lows(self, queries: DeviceQueries, rows: DeviceRows, size: int) -> Any:
        return self._lowest(queries, rows, rows.finite_norms, size, 2)

    def _lowest(self, queries: DeviceQueries, rows: DeviceRows, half_norms: Any, size: int, several: int) -> Any:
        """The lowest score of each group, or the two lowest as keys: (several, queries in whole tiles, groups)."""
        torch, width = self.torch, rows.halves.shape[1]
        n_groups = len(rows.halves) // size
        minima = torch.empty((several, len(queries.halves), n_groups), dtype=torch.float32, device=rows.halves.device)
        short = width <= SHORT and width & (width - 1) == 0
        tiling = self.short if short else self.long
        if short and 4 * size <= FINE[0] < tiling.rows:
            tiling = replace(tiling, rows=FINE[0], stages=FINE[1])
        shape = max(tiling.rows, 4 * size)
        assert shape <= TILE
        n_query_tiles, n_tiles = -(-queries.n // tiling.lines), len(rows.halves) // shape
        multiplied = [queries.halves, rows.halves]
        if tiling.copied:
            step = width if short else tiling.step
            if not short or not tiling.rows_stay:
                multiplied[1] = described(rows.halves, shape, step)
            if not short or tiling.rows_stay:
                multiplied[0] = described(queries.halves, tiling.lines, step)
        given = *multiplied, half_norms, queries.factors, minima, n_query_tiles
        second = len(queries.halves) * n_groups, NOTHING
        sizes: dict[str, Any] = {"LINES": tiling.lines, "ROWS": shape, "SIZE": size, "STAGES": tiling.stages}
        sizes |= {"TWO": several == 2, "COPIED": tiling.copied, "num_warps": tiling.warps}
        if short and tiling.rows_stay:
            grid = (n_tiles * -(-n_query_tiles // tiling.tiles_a_program),)
            products.minima_while_rows_stay[grid](
                *given, tiling.tiles_a_program, n_groups, *second, COLUMNS=width, **sizes
            )
        elif short:
            grid = (n_query_tiles * -(-n_tiles // tiling.tiles_a_program),)
            products.minima_of_short_rows[grid](
                *given, n_tiles, tiling.tiles_a_program, n_groups, *second, COLUMNS=width, **sizes
            )
        else:
            grid = (n_query_tiles * n_tiles,)
            products.minima_of_long_rows[grid](*given, n_groups, width, *second, STEP=tiling.step, **sizes)
        return minima

    def list_groups(
        self, minima: Any, queries: DeviceQueries, rows: DeviceRows, size: int, k: int, limits: Any, room: int
    ) -> tuple[Any, Any, Any]:
        torch, n_groups, bound = self.torch, minima.shape[1], queries.bounds
        listed = torch.empty((queries.n, room), dtype=torch.int32, device=minima.device)
        counts = torch.zeros(queries.n, dtype=torch.int32, device=minima.device)
        thresholds = torch.empty_like(limits)
        # With many more lanes than neighbors, few neighbors share a lane, and the threshold is hardly too high.
        lanes = min(TOGETHER, max(self.listing.lanes, 1 << (LANES_A_NEIGHBOR * k - 1).bit_length()))
        selection.groups_below[(queries.n,)](
            minima,
            *rows.of_groups(size),
            *(queries.factors, bound.alpha, bound.beta, bound.gamma, limits, thresholds, listed, counts),
            *(n_groups, k, room, bound.eta_of_factor),
            TOGETHER=min(lanes, max(32, 1 << (n_groups - 1).bit_length())),
            STAGES=self.listing.stages,
            num_warps=self.listing.warps,
        )
        return listed, counts, thresholds

    def look(
        self,
        queries: DeviceQueries,
        rows: DeviceRows,
        size: int,
        listed: Any,
        counts: Any,
        thresholds: Any,
        width: int,
    ) -> tuple[Any, Any]:
        torch, bound, columns = self.torch, queries.bounds, rows.halves.shape[1]
        kept = torch.empty((queries.n, width), dtype=torch.int32, device=listed.device)
        kept_counts = torch.zeros(queries.n, dtype=torch.int32, device=listed.device)
        selection.rows_below[(queries.n,)](
            *(queries.halves, rows.halves, rows.half_norms, rows.errors, rows.lengths, queries.factors),
            *(bound.alpha, bound.beta, bound.gamma, thresholds, listed, counts, kept, kept_counts),
            *(listed.shape[1], width, columns, bound.eta_of_factor),
            STEP=128 if columns % 128 == 0 else min(64, columns),
            SIZE=size,
            LANES=self.looking.lanes,
            num_warps=self.looking.warps,
        )
        return kept, kept_counts

    def measure(self, kind: str, Q: Any, rows: DeviceRows, kept: Any, counts: Any, linear_map: Any = None) -> Any:
        torch, width = self.torch, kept.shape[1]
        totals = torch.full(kept.shape, np.inf, dtype=torch.float64, device=kept.device)
        if linear_map is not None:
            lanes = min(FEW_LANES, width)
            selection.mapped_squares_of_kept[(len(Q), -(-width // lanes))](
                *(Q, rows.exact, linear_map, kept, counts, totals, width, *linear_map.shape),
                LANES=lanes,
                num_warps=1,
                enable_fp_fusion=False,
            )
            return square_root(totals)
        cosine = kind == "cosine"
        squares = torch.ones_like(totals) if cosine else totals
        query_squares = torch.ones(len(Q), dtype=torch.float64, device=kept.device) if cosine else totals
        lanes = width if width <= LANES else FEW_LANES
        selection.squares_of_kept[(len(Q), -(-width // lanes))](
            *(Q, rows.exact, kept, counts, totals, squares, query_squares, width, rows.exact.shape[1]),
            COSINE=cosine,
            LANES=lanes,
            num_warps=max(1, lanes // 32),
            enable_fp_fusion=False,
        )
        if cosine:
            there = written(torch, counts, width)
            return torch.where(there, self.one_minus_cosine(totals, query_squares, squares), np.inf)
        return rooted(kind, totals)

    def order(self, kept: Any, far: Any, counts: Any, left_out: Any, first: int, k: int) -> tuple[Any, Any]:
        torch, width = self.torch, kept.shape[1]
        numbers = torch.full((len(kept), k), -1, dtype=torch.int64, device=kept.device)
        distances = torch.full((len(kept), k), np.inf, dtype=torch.float64, device=kept.device)
        lanes = min(LANES, width)
        selection.places_of_kept[(len(kept), -(-width // lanes))](
            *(kept, far, counts, left_out, numbers, distances, width, k, first),
            LEFT_OUT=len(left_out) > 0,
            LANES=lanes,
            num_warps=max(1, lanes // 32),
        )
        return numbers, distances
