"""The steps of a GPU search as Triton kernels, with tile sizes for each kind of GPU."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nearsay.search.gpu.bounds import CUT_OFF, ROUNDED_UP, ROW_SCALE, QueryBounds, summing_units
from nearsay.search.gpu.class_steps import ClassSteps, rooted, square_root
from nearsay.search.gpu.class_triton import KernelSizes, TritonClassSteps
from nearsay.search.gpu.kernels import product_kernels as products
from nearsay.search.gpu.kernels import selection_kernels as selection
from nearsay.search.gpu.rows import NOTHING, TILE, GpuQueries, GpuRows, RowSpace, from_numpy
from nearsay.search.gpu.steps import TOGETHER, PlainSteps, written
from nearsay.search.screening import bounds

# Rows of up to so many columns stay in registers while queries pass.
SHORT = 128
LANES = 64
# One warp per program where every row takes long, or there are many.
FEW_LANES = 32


@dataclass(frozen=True)
class Tiling:
    """Sizes of one kernel.

    Attributes
    ----------
    lines, rows : queries and rows of a tile.
    warps : of 32 threads, that share a tile.
    stages : tiles being loaded at a time.
    tiles_a_program : tiles of queries per tile of rows, for short rows.
    step : columns at a time, for long rows.
    copied : whether the copy engine loads tiles (compute capability 9.0), or threads do.
    """

    lines: int
    rows: int
    warps: int
    stages: int
    tiles_a_program: int = 1024
    step: int = 64
    copied: bool = False


@dataclass(frozen=True)
class Launch:
    """Sizes of a kernel in which one program serves one query: lanes, warps, loads in flight."""

    lanes: int
    warps: int
    stages: int = 1


LIST_GROUPS, LIST_ROWS = Launch(1024, 4, 3), Launch(64, 4)
LANES_A_NEIGHBOR = 8
# GPUs with 227 KB of shared memory a multiprocessor, and all others with tensor cores for float16.
LARGE = Tiling(64, 256, 4, 3), Tiling(128, 256, 8, 3)
SMALL = Tiling(64, 128, 4, 2), Tiling(64, 128, 4, 3)
# Rows and stages of a tile where groups are small enough: for short rows.
FINE = 128, 2
# Compute capabilities: the first that Triton serves well, the first with a copy engine, and those of large GPUs.
OLDEST, COPY_ENGINE, LARGE_GPUS = (8, 0), (9, 0), (9, 10)


def tilings_for(capability: tuple[int, int]) -> tuple[Tiling, Tiling]:
    """Tile sizes for short and for long rows on GPUs of this compute capability.

    >>> tilings_for((9, 0))[0].rows, tilings_for((8, 9))[0].rows
    (256, 128)
    """
    tilings = LARGE if capability[0] in LARGE_GPUS else SMALL
    short, long = (replace(tiling, copied=capability >= COPY_ENGINE) for tiling in tilings)
    return short, long


def descriptor(matrix: Any, lines: int, columns: int) -> Any:
    """The descriptor from which the copy engine loads tiles of a matrix."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    return TensorDescriptor.from_tensor(matrix, [lines, columns])


class TritonSteps(PlainSteps):
    """Each step as one Triton kernel."""

    def __init__(
        self, torch: Any, short: Tiling = LARGE[0], long: Tiling = LARGE[1], class_sizes: KernelSizes | None = None
    ) -> None:
        super().__init__(torch)
        self.short, self.long, self.class_sizes = short, long, class_sizes
        self.list_groups_launch, self.list_rows_launch = LIST_GROUPS, LIST_ROWS
        self._bound_constants: tuple[RowSpace, Any] | None = None

    def of_classes(self) -> ClassSteps:
        return TritonClassSteps(self.torch, self.class_sizes)

    def prepared(self, space: RowSpace, Q: Any, form_error: float) -> GpuQueries:
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
        return GpuQueries(n, halves, factors, QueryBounds(alpha, beta, gamma, certain))

    def _constants(self, space: RowSpace) -> Any:
        """The coefficients of the bounds of queries, on the GPU; computed again after rows were added."""
        cached = self._bound_constants
        if cached is None or cached[0] is not space:
            fixed, summing = space.fixed(0.0), summing_units(space.n_columns) * CUT_OFF
            values = [space.scale, bounds.ROUNDED_UP, bounds.farthest(space.radius), summing]
            values += [fixed.constant, fixed.linear, fixed.quadratic, ROUNDED_UP, ROW_SCALE]
            cached = space, self.torch.tensor(values, dtype=self.torch.float64, device=space.device)
            self._bound_constants = cached  # one assignment: other threads may be searching
        return cached[1]

    def group_minima(self, queries: GpuQueries, rows: GpuRows, size: int) -> Any:
        return self._lowest(queries, rows, rows.half_norms, size, 1)[0]

    def group_lows(self, queries: GpuQueries, rows: GpuRows, size: int) -> Any:
        return self._lowest(queries, rows, rows.finite_norms, size, 2)

    def _lowest(self, queries: GpuQueries, rows: GpuRows, half_norms: Any, size: int, several: int) -> Any:
        """The lowest score of each group, or the two lowest as keys: (several, padded queries, groups)."""
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
            multiplied[0] = descriptor(queries.halves, tiling.lines, width if short else tiling.step)
            if not short:
                multiplied[1] = descriptor(rows.halves, shape, tiling.step)
        given = *multiplied, half_norms, queries.factors, minima, n_query_tiles
        second = len(queries.halves) * n_groups, NOTHING
        sizes: dict[str, Any] = {"LINES": tiling.lines, "ROWS": shape, "SIZE": size, "STAGES": tiling.stages}
        sizes |= {"TWO": several == 2, "COPIED": tiling.copied, "num_warps": tiling.warps}
        if short:
            grid = (n_tiles * -(-n_query_tiles // tiling.tiles_a_program),)
            products.minima_of_short_rows[grid](
                *given, tiling.tiles_a_program, n_groups, *second, COLUMNS=width, **sizes
            )
        else:
            grid = (n_query_tiles * n_tiles,)
            products.minima_of_long_rows[grid](*given, n_groups, width, *second, STEP=tiling.step, **sizes)
        return minima

    def list_groups(
        self, minima: Any, queries: GpuQueries, rows: GpuRows, size: int, k: int, limits: Any, room: int
    ) -> tuple[Any, Any, Any]:
        torch, n_groups, bound = self.torch, minima.shape[1], queries.bounds
        listed = torch.empty((queries.n, room), dtype=torch.int32, device=minima.device)
        counts = torch.zeros(queries.n, dtype=torch.int32, device=minima.device)
        thresholds = torch.empty_like(limits)
        # With many more lanes than neighbors, few neighbors share a lane, so the threshold is hardly too high.
        lanes = min(TOGETHER, max(self.list_groups_launch.lanes, 1 << (LANES_A_NEIGHBOR * k - 1).bit_length()))
        selection.groups_below[(queries.n,)](
            minima,
            *rows.of_groups(size),
            *(queries.factors, bound.alpha, bound.beta, bound.gamma, limits, thresholds, listed, counts),
            *(n_groups, k, room, bound.eta_of_factor),
            TOGETHER=min(lanes, max(32, 1 << (n_groups - 1).bit_length())),
            STAGES=self.list_groups_launch.stages,
            num_warps=self.list_groups_launch.warps,
        )
        return listed, counts, thresholds

    def list_rows(
        self, queries: GpuQueries, rows: GpuRows, size: int, listed: Any, counts: Any, thresholds: Any, width: int
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
            LANES=self.list_rows_launch.lanes,
            num_warps=self.list_rows_launch.warps,
        )
        return kept, kept_counts

    def measure(self, kind: str, Q: Any, rows: GpuRows, kept: Any, counts: Any, linear_map: Any = None) -> Any:
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
            valid = written(torch, counts, width)
            return torch.where(valid, self.one_minus_cosine(totals, query_squares, squares), np.inf)
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
