"""Rows and queries as a GPU multiplies them: centered, scaled, rounded to float16, with the rounding errors.

    rows ──► centered, scaled ──► float16 ──► tensor cores
      │             └──► half norms, lengths, rounding errors
      └──► as they are, to measure distances in float64

Rows are multiplied in *tiles* of 256. Four groups share a stretch of rows, pair by pair: with groups of 64, group 0 of
a tile holds rows 0, 1, 8, 9, …, group 1 rows 2, 3, 10, 11, …, as the registers of a tensor core do. So the lowest score
of a group is found within one thread.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.search.gpu.bounds import (
    HIGHEST_POWER,
    LOWEST_POWER,
    QUERY_LENGTH,
    ROUNDED_UP,
    ROW_SCALE,
    QueryBounds,
    query_bounds,
)
from nearsay.search.screening import bounds
from nearsay.search.screening.prepared_rows import Geometry

TILE = 256
QUERY_TILE = 256
# The half norm of padding, where it must be finite; and a score, over its factor, that no row reaches. Rows have
# half norms of at most 2²⁷ and products of at most 2²² with queries, whose factors are at least 2⁻⁶⁸.
NO_ROW, NOTHING = 2.0**100, 2.0**96
# Rows are prepared so many bytes at a time, in float64.
BLOCK_BYTES = 256 << 20
# Columns are filled up with zeros to a multiple of this, or a power of two below.
WIDTHS = (16, 32, 64)


def padded_width(n_columns: int) -> int:
    """Columns after padding with zeros.

    >>> [padded_width(d) for d in (1, 17, 64, 65, 128, 784)]
    [16, 32, 64, 128, 128, 832]
    """
    return next((width for width in WIDTHS if n_columns <= width), -(-n_columns // 64) * 64)


def gpu_bytes(X: np.ndarray) -> int:
    """GPU memory of these rows: float16, norms, lengths, errors, and the rows as they are.

    >>> gpu_bytes(np.zeros((1000, 128), np.float32))
    780000
    """
    return int(len(X) * (2 * padded_width(X.shape[1]) + 12 + X.shape[1] * max(4, X.itemsize)))


@dataclass(frozen=True)
class GpuRows:
    """Rows of a collection on the GPU.

    Attributes
    ----------
    first, n : number of the first row, and how many there are; the tensors are padded to whole tiles.
    halves : (tiles · 256, padded columns) float16
    half_norms : (tiles · 256,) float32; +inf for removed rows and padding.
    errors, lengths : (tiles · 256,) float32: δ and |y| + δ.
    exact : (n, columns), the rows for measuring; None where distances are measured on the CPU.
    """

    torch: Any
    first: int
    n: int
    halves: Any
    half_norms: Any
    errors: Any
    lengths: Any
    exact: Any

    @cached_property
    def finite_norms(self) -> Any:
        """Half norms with a large finite number for padding: sums with it keep their order."""
        return self.half_norms.clamp(max=NO_ROW)

    @cached_property
    def _groups(self) -> dict[int, tuple[Any, Any]]:
        return {}

    def of_groups(self, size: int) -> tuple[Any, Any]:
        """The largest error and length in every group of this size."""
        if size not in self._groups:
            self._groups[size] = tuple(
                by_group(values[None], size).amax(dim=2)[0].contiguous() for values in (self.errors, self.lengths)
            )
        return self._groups[size]

    def without(self, numbers: np.ndarray) -> GpuRows:
        """The same without the rows of these numbers."""
        places = numbers[(numbers >= self.first) & (numbers < self.first + self.n)] - self.first
        half_norms = self.half_norms.clone()
        half_norms[self.torch.from_numpy(places).to(half_norms.device)] = np.inf
        return replace(self, half_norms=half_norms)


def by_group(values: Any, size: int) -> Any:
    """Values of rows (lines, rows) as (lines, groups, rows of the group).

    >>> import numpy as np
    >>> by_group(np.arange(16)[None], 4)[0].tolist()
    [[0, 1, 8, 9], [2, 3, 10, 11], [4, 5, 12, 13], [6, 7, 14, 15]]
    """
    parts = values.reshape(len(values), -1, size // 2, 4, 2)
    parts = parts.permute(0, 1, 3, 2, 4) if hasattr(parts, "permute") else parts.transpose(0, 1, 3, 2, 4)
    return parts.reshape(len(values), -1, size)


def members(torch: Any, groups: Any, size: int) -> Any:
    """The rows of groups: one more axis of ``size``."""
    return place_of(groups[..., None], torch.arange(size, device=groups.device), size)


def place_of(groups: Any, within: Any, size: int) -> Any:
    """Where the rows lie that have these places within their groups.

    >>> place_of(np.array([0, 1, 5]), np.array([3, 0, 1]), size=32).tolist()
    [9, 2, 131]
    """
    return groups // 4 * (4 * size) + within // 2 * 8 + groups % 4 * 2 + within % 2


class RowSpace:
    """Center and scale of all rows of a search: rows and queries are moved there before they are rounded."""

    def __init__(self, torch: Any, device: Any, geometry: Geometry) -> None:
        self.torch, self.device = torch, device
        self.geometry = geometry
        self.scale = geometry.scale
        self.center = torch.from_numpy(np.asarray(geometry.center, np.float64)).to(device)
        self.n_columns = len(geometry.center)
        self.width = padded_width(self.n_columns)

    def at(self, geometry: Geometry) -> RowSpace:
        """The same after rows were added or removed: nothing moves."""
        space = copy.copy(self)
        space.geometry = geometry
        return space

    @property
    def radius(self) -> float:
        return self.geometry.radius * self.scale

    def moved(self, X: Any) -> Any:
        """Rows in Euclidean form, centered and scaled: float64 on the GPU."""
        form = X
        if not self.geometry.as_is:
            form = self.torch.from_numpy(self.geometry.form(np.asarray(X)))
        elif isinstance(X, np.ndarray):
            form = from_numpy(self.torch, X)
        return (form.to(self.device).to(self.torch.float64) - self.center) * self.scale

    def rows(self, X: Any, first: int, exact: Any) -> GpuRows:
        """Rows of numbers ``first …`` as they are multiplied; ``exact`` as in ``GpuRows``."""
        torch, n = self.torch, len(X)
        lines = -(-n // TILE) * TILE
        halves = torch.zeros((lines, self.width), dtype=torch.float16, device=self.device)
        half_norms = torch.full((lines,), np.inf, dtype=torch.float32, device=self.device)
        errors, lengths = torch.zeros_like(half_norms), torch.zeros_like(half_norms)
        for part in row_blocks(n, size=max(1, BLOCK_BYTES // (8 * self.n_columns))):
            y = self.moved(X[part])
            g = (y * ROW_SCALE).to(torch.float16)
            lost = _lengths(torch, y - g.to(torch.float64) / ROW_SCALE)
            squares = (y * y).sum(dim=1)
            halves[part, : self.n_columns] = g
            half_norms[part] = (squares * (ROW_SCALE**2 / 2)).to(torch.float32)
            errors[part] = (lost * ROUNDED_UP).to(torch.float32)
            lengths[part] = ((torch.sqrt(squares) + lost) * ROUNDED_UP).to(torch.float32)
        return GpuRows(torch, first, n, halves, half_norms, errors, lengths, exact)

    def fixed(self, form_error: float) -> bounds.Bound:
        """The terms of measuring, taking the Euclidean form and vanishing squares in the bound of a score."""
        return (
            bounds.screenable(self.geometry.radius)
            + bounds.measuring(self.n_columns, self.radius)
            + bounds.taking_form(self.scale * form_error, self.radius)
        )

    def queries(self, Q: Any, form_error: float) -> GpuQueries:
        """Queries as they are multiplied, padded to whole tiles, and their bounds."""
        torch = self.torch
        z = self.moved(Q)
        lengths = _lengths(torch, z)
        powers = torch.floor(np.log2(QUERY_LENGTH) - torch.log2(lengths)).clamp(LOWEST_POWER, HIGHEST_POWER)
        scales = torch.exp2(powers)
        near = (lengths <= bounds.farthest(self.radius))[:, None]
        p = torch.where(near, z * scales[:, None], 0.0).to(torch.float16)
        errors = _lengths(torch, torch.where(near, z - p.to(torch.float64) / scales[:, None], 0.0))
        made = query_bounds(
            torch, lengths, errors, scales * ROW_SCALE, self.n_columns, self.radius, self.fixed(form_error)
        )
        halves, factors = self.room_for(len(z))
        halves[: len(z), : self.n_columns] = -p
        factors[: len(z)] = (scales / ROW_SCALE).to(torch.float32)
        return GpuQueries(len(z), halves, factors, made)

    def room_for(self, n_queries: int) -> tuple[Any, Any]:
        """Memory for so many queries in whole tiles, and for their factors; padding is 0 and 1."""
        torch, lines = self.torch, -(-n_queries // QUERY_TILE) * QUERY_TILE
        halves = torch.zeros((lines, self.width), dtype=torch.float16, device=self.device)
        return halves, torch.ones(lines, dtype=torch.float32, device=self.device)


@dataclass(frozen=True)
class GpuQueries:
    """Queries on the GPU.

    Attributes
    ----------
    n : how many; the tensors are padded to whole tiles.
    halves : (tiles · 256, padded columns) float16
        Negated, so that scores are sums: a difference would take one operation more.
    factors : (tiles · 256,) float32, 2ᵉ⁻⁸: brings half norms to the scale of the products.
    bounds : QueryBounds of n queries.
    """

    n: int
    halves: Any
    factors: Any
    bounds: QueryBounds

    def with_keys(self, size: int) -> GpuQueries:
        """The same with the bound of keys of groups of this size."""
        return replace(self, bounds=self.bounds.of_keys(size))

    def some(self, part: slice) -> GpuQueries:
        """Some of the queries."""
        bound = self.bounds.some(part)
        return GpuQueries(len(bound.alpha), self.halves[part], self.factors[part], bound)

    def slack(self, errors: Any, lengths: Any, queries: Any = slice(None)) -> Any:
        """E of rows or groups with these errors and lengths, for all queries or those of some numbers."""
        bound, eta = self.bounds, self.bounds.eta_of_factor * self.factors[: self.n][queries, None]
        alpha, beta, gamma = (part[queries, None] for part in (bound.alpha, bound.beta, bound.gamma))
        return alpha * errors + (beta + eta * lengths) * lengths + gamma


def from_numpy(torch: Any, X: np.ndarray) -> Any:
    """A tensor of the same numbers, without a copy where torch has the type and the memory is writable."""
    if X.dtype.kind == "b":
        X = X.view(np.uint8)
    elif X.dtype.kind == "u" and X.itemsize > 1:
        X = X.astype(np.int64 if X.itemsize < 8 else np.float64)
    if not X.flags.writeable or any(step < 0 for step in X.strides):
        X = X.copy()
    return torch.from_numpy(np.ascontiguousarray(X))


def _lengths(torch: Any, rows: Any) -> Any:
    """Euclidean lengths of float64 rows, rounded up."""
    return torch.sqrt((rows * rows).sum(dim=1)) * bounds.ROUNDED_UP
