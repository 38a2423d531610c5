"""Rule rows out by a matrix product, with a bound on what its rounding can do.

    rows ──► block ──► product with the queries ──► shortlist ──► candidates
              │              (float32)                  ▲
              └─ centered, scaled                       └─ slack: how wrong two scores can be

The score |r|²/2 − q·r orders rows as their distance to q does. Computed in
float32 it is off by at most

    E = (d + 8) · u · (|q|·R + R²),   u = 2⁻²⁴,  R = the largest |r|,

(conversion to float32, any order of summation, fused or not), plus what
float64 loses when the candidates are measured later. If the k-th best computed
score is s, the k-th best true score is at most s + E, and a row with a computed
score above s + 2E cannot be among the k nearest. So everything up to s + 2E is
kept, and nothing else has to be.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nearsay.arrays import GrowingArray, in_parallel, row_blocks, thread_count
from nearsay.distances.distance import Distance
from nearsay.search.held import HeldRows

QUERIES_AT_ONCE = 512  # in one product
QUERIES_A_TASK = 1024  # a block of rows is prepared once for all of them
ROWS_AT_ONCE = 1024
# Below this many queries the rows are taken as they are: preparing them would cost more than the product.
FEW_QUERIES = 32
# How many near ties a second look can hold before all rows are measured instead.
WIDE_LIST = 1024

Block = tuple[int, np.ndarray, np.ndarray]  # number of the first row, rows, half their squared norms


class Screen:
    """Proposes candidates by Euclidean form. A query that stays undecided gets −1 throughout."""

    def __init__(self, distance: Distance, rows: HeldRows) -> None:
        self._distance = distance
        self._rows = rows
        sample = rows.items[:1]
        self._as_is = rows.items.dtype in (np.float32, np.float64) and distance.euclidean_form(sample) is sample
        self._center = self._mean_of_some_rows()
        self._radius = 0.0  # largest norm of a centered row
        self._plain_radius = 0.0  # largest norm of a row as it is
        self._raw_radius = 0.0  # the same before the Euclidean form was taken
        self._half_norms = GrowingArray(np.empty(0, rows.items.dtype if self._as_is else np.float32))
        self.add(np.arange(len(rows)))

    def add(self, numbers: np.ndarray) -> None:
        """Take note of rows that the collection now holds."""
        from nearsay.search.select import norms

        if not len(numbers):
            return
        for part in row_blocks(len(numbers), size=ROWS_AT_ONCE * 4):
            block = self._rows.between(int(numbers[part.start]), int(numbers[part.stop - 1]) + 1)
            form = self._form(block)
            half = np.empty(len(form), self._half_norms.values.dtype)
            plain, centered = norms(form, self._center, half)
            self._plain_radius = max(self._plain_radius, plain)
            self._radius = max(self._radius, centered)
            if not self._as_is:
                self._raw_radius = max(
                    self._raw_radius, float(np.sqrt((block.astype(np.float64) ** 2).sum(axis=1)).max())
                )
            if self._as_is:
                self._half_norms.append(half)
        # A power of two: scaling by it rounds nothing.
        self._scale = 1.0 if self._radius == 0 else 2.0 ** -np.frexp(self._radius)[1]

    def remove(self, numbers: np.ndarray) -> None:
        if self._as_is:
            self._half_norms.values[numbers] = np.inf

    def candidates(self, Q: np.ndarray, k: int) -> np.ndarray:
        narrow = list_length(k)
        plain = self._as_is and (len(Q) < FEW_QUERIES or self._plain_serves)
        found = self._look(Q, k, plain, narrow)
        for length in (narrow, narrow + WIDE_LIST) if plain else (narrow + WIDE_LIST,):
            crowded = np.flatnonzero(found[:, 0] < 0)
            if not len(crowded):
                break
            found = join_looks(found, crowded, self._look(Q[crowded], k, False, length))
        return found

    @property
    def _plain_serves(self) -> bool:
        """Whether centering and scaling would gain nothing worth a pass over the rows."""
        return (
            self._rows.items.dtype == np.float32
            and self._plain_radius <= 2 * self._radius
            and 1e-10 < self._plain_radius < 1e10
        )

    def _mean_of_some_rows(self) -> np.ndarray:
        step = -(-len(self._rows) // 1024)
        mean: np.ndarray = self._form(self._rows.items[:: max(step, 1)]).mean(axis=0, dtype=np.float64)
        return mean

    def _form(self, X: np.ndarray) -> np.ndarray:
        return X if self._as_is else np.ascontiguousarray(self._distance.euclidean_form(X), dtype=np.float64)

    def _look(self, Q: np.ndarray, k: int, plain: bool, length: int) -> np.ndarray:
        """One pass over all rows for these queries."""
        from nearsay.search.select import Shortlists

        queries, slack = self._prepare_queries(Q, plain)

        def look(task: slice) -> np.ndarray:
            some = queries[task]
            lists = Shortlists(slack[task], k, length, queries.dtype)
            rows_at_once = max(ROWS_AT_ONCE, (1 << 18) // len(some))
            products = np.empty(min(QUERIES_AT_ONCE, len(some)) * rows_at_once, queries.dtype)
            for first, rows, half_norms in self._blocks(plain, rows_at_once):
                for part in row_blocks(len(some), size=QUERIES_AT_ONCE):
                    several = some[part]
                    product = products[: len(several) * len(rows)].reshape(len(several), len(rows))
                    np.matmul(several, rows.T, out=product)
                    lists.see_products(part, product, half_norms, first)
            return lists.finish()

        if len(Q) < FEW_QUERIES:
            return look(slice(None))
        share = -(-len(Q) // thread_count())
        size = min(QUERIES_A_TASK if length < WIDE_LIST else QUERIES_A_TASK // 4, share)
        return stack_looks(in_parallel(look, row_blocks(len(Q), size=size)))

    def _prepare_queries(self, Q: np.ndarray, plain: bool) -> tuple[np.ndarray, np.ndarray]:
        """The queries as the rows will come, and how far apart two of their scores must be to be certain."""
        if plain:
            exact = np.asarray(Q, dtype=np.float64)
            dtype, radius, unit = self._rows.items.dtype, self._plain_radius, 1.0
        else:
            exact = (np.asarray(self._form(Q), dtype=np.float64) - self._center) * self._scale
            dtype, radius, unit = np.dtype(np.float32), self._radius * self._scale, self._scale
        lengths = np.sqrt(np.einsum("ij,ij->i", exact, exact))
        error = (exact.shape[1] + 8) * (
            np.finfo(dtype).eps * (lengths * radius + radius**2) + 2.0**-50 * (lengths + radius) ** 2
        )
        if not self._as_is:
            raw = max(self._raw_radius, float(np.sqrt((np.asarray(Q, np.float64) ** 2).sum(axis=1)).max(initial=0.0)))
            lost = 2 * unit * self._distance.form_rounding(raw)
            error += lost * (lengths + radius + lost)
        # What float32 flushes to zero, and queries so far away that their products could overflow.
        slack = np.where(lengths < 1e15 * max(radius, 1e-15), 2 * error + 1e-37, np.inf)
        return np.ascontiguousarray(np.where(np.isfinite(slack)[:, None], exact, 0.0), dtype=dtype), slack

    def _blocks(self, plain: bool, size: int) -> Iterator[Block]:
        if plain:
            for first, block in self._rows.blocks(size):
                yield first, block, self._half_norms.values[first : first + len(block)]
            return
        from nearsay.search.select import center_and_scale

        size = min(size, ROWS_AT_ONCE * 4)
        prepared = np.empty((size, len(self._center)), np.float32)
        half_norms = np.empty(size, np.float32)
        removed = self._rows.removed
        for first, block in self._rows.blocks(size):
            n = len(block)
            center_and_scale(self._form(block), self._center, self._scale, prepared, half_norms)
            if removed is not None:
                half_norms[:n][removed[first : first + n]] = np.inf
            yield first, prepared[:n], half_norms[:n]


def list_length(k: int) -> int:
    """How many candidates a shortlist holds: twice what is needed, so that it is cut back seldom."""
    return 2 * k + 64


def stack_looks(looks: list[np.ndarray]) -> np.ndarray:
    """Candidate tables of different queries, filled up with −1 to one width."""
    width = max(look.shape[1] for look in looks)
    out = np.full((sum(len(look) for look in looks), width), -1, np.int64)
    start = 0
    for look in looks:
        out[start : start + len(look), : look.shape[1]] = look
        start += len(look)
    return out


def join_looks(found: np.ndarray, queries: np.ndarray, again: np.ndarray) -> np.ndarray:
    """Put a second look at some of the queries in place of the first."""
    if again.shape[1] > found.shape[1]:
        found = np.pad(found, ((0, 0), (0, again.shape[1] - found.shape[1])), constant_values=-1)
    found[queries] = -1
    found[queries, : again.shape[1]] = again
    return found
