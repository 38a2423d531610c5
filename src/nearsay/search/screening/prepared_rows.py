"""Rows prepared for matrix products, and the error bounds of their scores.

    rows ──► Euclidean form ─┬─► as they are ──────────────────────────► PlainView
                             └─► centered, scaled to length 1 ─┬───────► PreparedView, float32
                                                               └─ rounded to 8 bits

A view gives blocks of rows to multiply, and the *slack* of each query: how far apart two scores must lie for
their order to be certain. ``bounds.py`` derives the terms it is made of.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from nearsay.core.arrays import SINGLE_OR_DOUBLE, as_compiled_for, largest_norm, row_blocks
from nearsay.core.compiling import done_without, worth_compiling
from nearsay.core.growing_array import GrowingArray
from nearsay.distances.distance import Distance
from nearsay.errors import InputError
from nearsay.search.row_store import HeldRows
from nearsay.search.screening import bounds
from nearsay.search.screening.products import Float32Products, Products

# Not a power of two: lines of a product so far apart would crowd into the same places of the cache.
ROWS_AT_ONCE = 960
# Prepared rows are kept up to this many bytes.
KEEP_UP_TO = 64 << 20

# Norms of so many rows are kept (64 MB at most); beyond that they are computed with each block.
NORMS_UP_TO = 1 << 23

Block = tuple[int, Any, np.ndarray]  # number of the first row, rows as they are multiplied, half their squared norms


class Geometry:
    """Center and radius of the rows, in the distance's Euclidean form: the input of every bound.

    Immutable: ``with_rows`` and ``with_removals`` return a new one.
    """

    def __init__(self, distance: Distance, rows: HeldRows) -> None:
        self.distance = distance
        self.rows = rows
        sample = rows.items[:1]
        # Whether the Euclidean form of a row is the row.
        self.as_is = rows.items.dtype.char in SINGLE_OR_DOUBLE and distance.euclidean_form(sample) is sample
        self.center = self._mean_of_some_rows()
        self.radius = 0.0  # largest norm of a centered row
        self.plain_radius = 0.0  # largest norm of a row in Euclidean form
        self.raw_radius = 0.0  # the same before that form was taken
        self.half_norms = GrowingArray(np.empty(0, rows.items.dtype if self.as_is else np.float32))
        self._take_note(0)

    def with_rows(self, rows: HeldRows) -> Geometry:
        """The geometry of these rows, of which the first are those known already."""
        following = copy.copy(self)
        following.rows = rows
        following._take_note(len(self.rows))
        return following

    def with_removals(self, rows: HeldRows, numbers: np.ndarray) -> Geometry:
        """The geometry of these rows, of which those of some numbers were removed or restored."""
        following = copy.copy(self)
        following.rows = rows
        if self.plain:
            half_norms, live = self.half_norms.values.copy(), rows.live_among(numbers)
            again = np.empty(len(live), half_norms.dtype)
            norms(self.form(rows.take(live)), self.center, again)
            half_norms[numbers] = np.inf
            half_norms[live] = again
            following.half_norms = GrowingArray(half_norms)
        return following

    def _take_note(self, first: int) -> None:
        """Update radii and norms with the rows from number ``first`` on."""
        for part in row_blocks(len(self.rows) - first, size=self.rows.block_size(ROWS_AT_ONCE * 4)):
            block = self.rows.between(first + part.start, first + part.stop)
            form = self.form(block)
            half = np.empty(len(form), self.half_norms.values.dtype)
            plain, centered = norms(form, self.center, half)
            self.plain_radius = max(self.plain_radius, plain)
            self.radius = max(self.radius, centered)
            if self.plain:
                self.half_norms = self.half_norms.appended(half)
            if not self.as_is:
                self.raw_radius = max(self.raw_radius, largest_norm(block))
        if self.plain_radius < bounds.SMALLEST_LENGTH:
            self._refuse_vanishing_rows()

    def _refuse_vanishing_rows(self) -> None:
        for _, block in self.rows.blocks(self.rows.block_size(ROWS_AT_ONCE)):
            largest = float(abs(self.form(block)).max(initial=0.0))
            if largest > 0:
                raise InputError(
                    f"All rows are shorter than {bounds.SMALLEST_LENGTH:.0e} (the largest number is {largest:.3g}),"
                    " so their squares vanish and all distances would be 0. Multiply rows and queries by a constant"
                    " first, for example 1 / abs(X).max()."
                )

    @property
    def plain(self) -> bool:
        """Whether rows can be multiplied as they are: their norms are kept, as long as those take little memory."""
        fits = self.rows.items.dtype.char != "f" or self.plain_radius < bounds.LARGEST_PLAIN_SINGLE
        return self.as_is and fits and len(self.rows) <= NORMS_UP_TO

    @property
    def scale(self) -> float:
        """Brings the radius to between 1/2 and 1. A power of two: scaling by it rounds nothing."""
        if self.radius < bounds.SMALLEST_LENGTH:
            return 1.0  # not screened anyway
        return float(np.ldexp(1.0, -int(np.frexp(self.radius)[1])))

    def form(self, X: np.ndarray) -> np.ndarray:
        return X if self.as_is else np.ascontiguousarray(self.distance.euclidean_form(X), dtype=np.float64)

    def form_error(self, Q: np.ndarray) -> float:
        """How far taking the Euclidean form can move a row or one of these queries."""
        if self.as_is:
            return 0.0
        return self.distance.form_rounding(max(self.raw_radius, largest_norm(Q)), Q.shape[1])

    def _mean_of_some_rows(self) -> np.ndarray:
        step = -(-len(self.rows) // 1024)
        some = self.rows.items[:: max(step, 1)]
        blocks = row_blocks(len(some), size=self.rows.block_size(1024))
        total: np.ndarray = sum(self.form(some[part]).sum(axis=0, dtype=np.float64) for part in blocks)
        return total / len(some)


class RowsForProducts(Protocol):
    """Rows and queries in one form, ready to be multiplied."""

    products: Products

    def prepare(self, Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The queries in the number type of the products, and their lengths."""
        ...

    def slack(self, lengths: np.ndarray, errors: np.ndarray, Q: np.ndarray) -> np.ndarray:
        """How far apart two scores of each query must be to be certain; ``errors`` are those of preparing it."""
        ...

    def blocks(self, size: int) -> Iterator[Block]:
        """All rows, in order of their numbers."""
        ...


class PlainView:
    """Rows without preparation; a large common offset costs precision."""

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        self.products: Products = Float32Products()

    @property
    def serves(self) -> bool:
        """Whether preparing the rows is not worth a pass over them."""
        geometry = self.geometry
        return (
            geometry.plain
            and geometry.rows.items.dtype.char == "f"
            and geometry.plain_radius <= 2 * geometry.radius
            and geometry.plain_radius > bounds.SMALLEST_PLAIN_SINGLE
        )

    def prepare(self, Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return _bounded(np.asarray(Q, np.float64), self.geometry.plain_radius, self.geometry.rows.items.dtype)

    @cached_property
    def bound(self) -> bounds.Bound:
        """How far the scores of a query can be off."""
        n_columns, radius = len(self.geometry.center), self.geometry.plain_radius
        dtype = self.geometry.rows.items.dtype
        return (
            bounds.summing(n_columns, radius, bounds.unit_roundoff(dtype))
            + bounds.flushing(n_columns, dtype)
            + bounds.measuring(n_columns, radius)
        )

    def slack(self, lengths: np.ndarray, errors: np.ndarray, Q: np.ndarray) -> np.ndarray:
        return bounds.slack(self.bound, lengths)

    def blocks(self, size: int) -> Iterator[Block]:
        half_norms = self.geometry.half_norms.values
        for first, block in self.geometry.rows.blocks(size):
            yield first, block, half_norms[first : first + len(block)]


class PreparedView:
    """Rows moved to their center and scaled, in float32 or less.

    Distances do not change when every row is moved, and a large common offset would otherwise cost the digits that
    count. ``order`` names the rows to go over, as they should follow each other; None means all, by number.
    """

    def __init__(self, geometry: Geometry, products: Products, order: np.ndarray | None = None) -> None:
        self.geometry = geometry
        self.products = products
        self._order = order
        # Rows in another order have to be gathered, which is worth keeping whatever the products.
        self._kept_bytes = products.kept_bytes if order is None else products.kept_bytes or 4
        # The largest length by which preparing moved a row, and the prepared rows where they are kept.
        self._passed: tuple[float, list[Block] | None] | None = None

    def prepare(self, Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        geometry = self.geometry
        exact = (np.asarray(geometry.form(Q), np.float64) - geometry.center) * geometry.scale
        return _bounded(exact, geometry.radius * geometry.scale, np.dtype(np.float32))

    def slack(self, lengths: np.ndarray, errors: np.ndarray, Q: np.ndarray) -> np.ndarray:
        geometry = self.geometry
        n_columns, radius = len(geometry.center), geometry.radius * geometry.scale
        bound = (
            bounds.screenable(geometry.radius)
            + bounds.summing(n_columns, radius, bounds.SINGLE_ROUNDOFF)
            + bounds.rounding_rows(self.row_error)
            + bounds.measuring(n_columns, radius)
            + bounds.taking_form(geometry.scale * geometry.form_error(Q), radius)
        )
        return bounds.slack(bound, lengths, bounds.rounding_queries(errors, radius, self.row_error))

    @property
    def row_error(self) -> float:
        """The largest length by which preparing moved a row."""
        if not self.products.kept_bytes:
            return 0.0  # the bound allows for float32 itself
        return self._pass_over_rows()[0]

    def _pass_over_rows(self) -> tuple[float, list[Block] | None]:
        """The largest error, and the prepared rows where they are worth their memory; found once."""
        if self._passed is None:
            self._passed = self._prepare_all()
        return self._passed

    def _prepare_all(self) -> tuple[float, list[Block] | None]:
        if not self._kept_bytes:
            return 0.0, None
        size = len(self.geometry.rows) * len(self.geometry.center) * self._kept_bytes
        largest, kept = 0.0, []
        for first, rows, half_norms, errors in self._prepared(ROWS_AT_ONCE):
            largest = max(largest, float(errors.max()))
            if size <= KEEP_UP_TO:
                kept.append((first, self.products.copied(rows), half_norms.copy()))
        return largest, kept or None

    def blocks(self, size: int) -> Iterator[Block]:
        _, kept = self._pass_over_rows()
        if kept is not None:
            yield from kept
        else:
            yield from (block[:3] for block in self._prepared(min(size, ROWS_AT_ONCE * 4)))

    def _prepared(self, size: int) -> Iterator[tuple[int, Any, np.ndarray, np.ndarray]]:
        """Blocks and the errors of their rows; the memory is used again for the next block."""
        rows = self.geometry.rows
        size = rows.block_size(size)
        space = np.empty((size, len(self.geometry.center)), np.float32)
        half_norms = np.empty(size, np.float32)
        for first, block in self._blocks_in_order(size):
            n = len(block)
            self.center(block, space, half_norms)
            if rows.removed is not None and self._order is None:
                half_norms[:n][rows.removed[first : first + n]] = np.inf
            yield first, *self._multipliable(space[:n], half_norms[:n])

    def _blocks_in_order(self, size: int) -> Iterator[tuple[int, np.ndarray]]:
        if self._order is None:
            yield from self.geometry.rows.blocks(size)
        else:
            for part in row_blocks(len(self._order), size=size):
                yield part.start, self.geometry.rows.take(self._order[part])

    def _multipliable(self, rows: np.ndarray, half_norms: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
        prepared, errors = self.products.prepare(rows)
        return prepared, half_norms, errors

    def center(self, block: np.ndarray, out: np.ndarray, half_norms: np.ndarray) -> None:
        """Rows as float32, moved and scaled, and half their squared norms."""
        from nearsay.search.screening.shortlist_kernels import center_and_scale

        center_and_scale(
            as_compiled_for(self.geometry.form(block)), self.geometry.center, self.geometry.scale, out, half_norms
        )


def _bounded(exact: np.ndarray, radius: float, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Queries as they are multiplied, and their lengths; one too far away becomes zeros, of length +inf."""
    lengths = np.sqrt(np.einsum("ij,ij->i", exact, exact))
    lengths[lengths > bounds.farthest(radius)] = np.inf
    return np.ascontiguousarray(np.where(np.isfinite(lengths)[:, None], exact, 0.0), dtype=dtype), lengths


PLAIN_STEP = 5  # nanoseconds that numpy takes for each number of the rows


def norms(X: np.ndarray, center: np.ndarray, half_norms: np.ndarray) -> tuple[float, float]:
    """Fill in half the squared norm of every row; gives the largest norm, as the rows are and after centering.

    The two ways add in different orders, which the bounds allow for.
    """
    cost = PLAIN_STEP * X.size
    if worth_compiling(cost):
        from nearsay.search.screening.shortlist_kernels import norms as compiled_norms

        largest, largest_centered = compiled_norms(as_compiled_for(X), center, half_norms)
        return largest, largest_centered
    done_without(cost)
    rows = np.asarray(X, np.float64)
    centered = rows - center
    squares, from_center = np.einsum("ij,ij->i", rows, rows), np.einsum("ij,ij->i", centered, centered)
    with np.errstate(over="ignore"):  # in float32, where the loop says nothing either
        half_norms[:] = squares / 2
    return math.sqrt(squares.max(initial=0.0)), math.sqrt(from_center.max(initial=0.0))
