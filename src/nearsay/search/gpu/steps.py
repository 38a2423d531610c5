"""The steps of a GPU search, in plain torch operations: for GPUs without Triton, and for the CPU.

    prepared       queries in float16, and the error bounds of their scores
    group_minima   scores of all rows for all queries; only the lowest of each group is kept
    group_lows     the same with the two lowest, and which rows they are
    list_groups    the groups that may hold one of the k nearest rows
    list_rows      the rows in them that may be one
    measure        their distances in float64
    order          nearest first, ties by row number

``triton.py`` implements the same steps for CUDA, and ``bounds.py`` proves that nothing is missed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nearsay.search.gpu.class_steps import ClassSteps, rooted, square_root
from nearsay.search.gpu.rows import GpuQueries, GpuRows, RowSpace, by_group, members

# Where groups are many, every so-manyth shares a minimum: the k-th lowest of these is nearly that of all, and cheaper.
TOGETHER = 4096
# Numbers of rows that are multiplied at once.
NUMBERS_AT_ONCE = 1 << 24


def written(torch: Any, counts: Any, width: int) -> Any:
    """Which entries of lists (queries, width) may be read: none of a list that overflowed."""
    return (torch.arange(width, device=counts.device) < counts[:, None]) & (counts <= width)[:, None]


class PlainSteps:
    """Each step in plain torch operations."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def of_classes(self) -> ClassSteps:
        """The steps of a search by class."""
        return ClassSteps(self.torch)

    def prepared(self, space: RowSpace, Q: Any, form_error: float) -> GpuQueries:
        """Queries as they are multiplied, and their bounds."""
        return space.queries(Q, form_error)

    def group_minima(self, queries: GpuQueries, rows: GpuRows, size: int) -> Any:
        """The lowest score in each group of ``size`` rows: (queries, groups) float32."""
        return self.torch.cat([scores.amin(dim=2) for scores in self._scores_by_group(queries, rows, size)], dim=1)

    def group_lows(self, queries: GpuQueries, rows: GpuRows, size: int) -> Any:
        """The two lowest scores in each group, as keys: (2, queries, groups) float32.

        The last bits of a key are the place of the row in its group (``rows.members``); padding is +inf.
        """
        torch, lows = self.torch, []
        for scores in self._scores_by_group(queries, rows, size):
            place = torch.arange(size, dtype=torch.int32, device=scores.device)
            keys = ((scores.view(torch.int32) & -size) | place).view(torch.float32)
            keys = torch.where(scores < np.inf, keys, np.inf)
            lows.append(keys.topk(2, dim=2, largest=False).values.sort(dim=2).values)
        return torch.cat(lows, dim=1).permute(2, 0, 1).contiguous()

    def _scores_by_group(self, queries: GpuQueries, rows: GpuRows, size: int) -> Iterator[Any]:
        """Scores (queries, groups, rows of a group), some groups at a time."""
        several = queries.halves[: queries.n].to(self.torch.float32)
        for start in range(0, len(rows.halves), 4096):
            some = slice(start, start + 4096)
            products = several @ rows.halves[some].to(self.torch.float32).T
            yield by_group(rows.half_norms[some] * queries.factors[: queries.n, None] + products, size)

    def list_groups(
        self, minima: Any, queries: GpuQueries, rows: GpuRows, size: int, k: int, limits: Any, room: int
    ) -> tuple[Any, Any, Any]:
        """The groups that may matter, (queries, room) int32, their counts, and the threshold of each query's scores.

        ``limits`` are earlier bounds on the k-th lowest score. A count above ``room`` marks a list that overflowed.
        """
        slack = queries.slack(*rows.of_groups(size))
        highest = minima[: queries.n] + slack
        n_groups = highest.shape[1]
        if n_groups > TOGETHER:
            filled = self.torch.nn.functional.pad(highest, (0, -n_groups % TOGETHER), value=np.inf)
            highest = filled.reshape(queries.n, -1, TOGETHER).amin(dim=1)
        thresholds = limits
        if k <= highest.shape[1]:
            thresholds = self.torch.minimum(limits, highest.kthvalue(k, dim=1).values)
        kept = (minima[: queries.n] - slack <= thresholds[:, None]) & (minima[: queries.n] < np.inf)
        return *self._listed(kept, room), thresholds

    def list_rows(
        self, queries: GpuQueries, rows: GpuRows, size: int, listed: Any, counts: Any, thresholds: Any, width: int
    ) -> tuple[Any, Any]:
        """The rows of the listed groups that may be among the nearest: (queries, width) int32, and their counts."""
        crowded, valid = counts > listed.shape[1], written(self.torch, counts, listed.shape[1])
        query, place = valid.nonzero(as_tuple=True)
        kept_of, kept_rows = [query[:0]], [query[:0]]
        step = max(1, NUMBERS_AT_ONCE // (size * rows.halves.shape[1]))
        for start in range(0, len(query), step):
            few = query[start : start + step]
            numbers = members(self.torch, listed[few, place[start : start + step]].long(), size)
            products = self.torch.einsum(
                "grc,gc->gr", rows.halves[numbers].to(self.torch.float32), queries.halves[few].to(self.torch.float32)
            )
            scores = rows.half_norms[numbers] * queries.factors[few, None] + products
            slack = queries.slack(rows.errors[numbers], rows.lengths[numbers], few)
            near = (scores - slack <= thresholds[few, None]) & (scores < np.inf)
            kept_of.append(few[:, None].expand_as(numbers)[near])
            kept_rows.append(numbers[near])
        of, number = self.torch.cat(kept_of), self.torch.cat(kept_rows)
        kept_counts = self.torch.bincount(of, minlength=queries.n).to(self.torch.int32)
        starts = self.torch.cumsum(kept_counts, 0) - kept_counts
        kept = self.torch.full((queries.n, width), -1, dtype=self.torch.int32, device=of.device)
        place = self.torch.arange(len(of), device=of.device) - starts[of]
        fits = place < width
        kept[of[fits], place[fits]] = number[fits].to(self.torch.int32)
        kept_counts[crowded] = width + 1
        return kept, kept_counts

    def measure(self, kind: str, Q: Any, rows: GpuRows, kept: Any, counts: Any, linear_map: Any = None) -> Any:
        """Distances in float64 of the rows kept, as the loops of ``vector_kernels`` add them up: (queries, width)."""
        chosen, Q = kept.clamp(min=0).long(), Q.to(self.torch.float64)
        valid = written(self.torch, counts, kept.shape[1])
        if linear_map is not None:
            return self.torch.where(valid, square_root(self._mapped_squares(Q, rows, chosen, linear_map)), np.inf)
        total, squares = self.torch.zeros(chosen.shape, dtype=self.torch.float64, device=kept.device), None
        if kind == "cosine":
            squares, length = (
                self.torch.zeros_like(total),
                self.torch.zeros(len(Q), dtype=self.torch.float64, device=kept.device),
            )
        for j in range(rows.exact.shape[1]):
            q, x = Q[:, j, None], rows.exact[:, j][chosen].to(self.torch.float64)
            if squares is None:
                difference = q - x
                total = total + difference * difference
            else:
                total, squares = total + q * x, squares + x * x
                length = length + Q[:, j] * Q[:, j]
        total = rooted(kind, total) if squares is None else self.one_minus_cosine(total, length, squares)
        return self.torch.where(valid, total, np.inf)

    def _mapped_squares(self, Q: Any, rows: GpuRows, chosen: Any, linear_map: Any) -> Any:
        """|L(q − x)|²: difference first, then component by component, as on the CPU."""
        total = self.torch.zeros(chosen.shape, dtype=self.torch.float64, device=chosen.device)
        for weights in linear_map:
            component = self.torch.zeros_like(total)
            for j, weight in enumerate(weights):
                component = component + weight * (Q[:, j, None] - rows.exact[:, j][chosen].to(self.torch.float64))
            total = total + component * component
        return total

    def one_minus_cosine(self, products: Any, length: Any, squares: Any) -> Any:
        """The cosine distance from sums of products and squares, rounded at each step as on the CPU."""
        return (1.0 - products / (square_root(length)[:, None] * square_root(squares))).clamp(0.0, 2.0)

    def order(self, kept: Any, far: Any, counts: Any, left_out: Any, first: int, k: int) -> tuple[Any, Any]:
        """Row numbers and distances of the k nearest of the rows kept, padded with −1 and +inf.

        ``left_out`` is the row that each query is, or empty.
        """
        valid = written(self.torch, counts, kept.shape[1])
        numbers = self.torch.where(valid, kept.long() + first, self.torch.iinfo(self.torch.int64).max)
        if len(left_out):
            itself = numbers == left_out[:, None]
            numbers, far = (
                self.torch.where(itself, self.torch.iinfo(self.torch.int64).max, numbers),
                self.torch.where(itself, np.inf, far),
            )
        numbers, by_row = numbers.sort(dim=1, stable=True)
        far, by_distance = far.gather(1, by_row).sort(dim=1, stable=True)
        numbers = numbers.gather(1, by_distance)
        numbers = self.torch.where(far < np.inf, numbers, -1)
        lack = max(0, k - numbers.shape[1])
        pad = self.torch.nn.functional.pad
        return pad(numbers, (0, lack), value=-1)[:, :k], pad(far, (0, lack), value=np.inf)[:, :k]

    def _listed(self, kept: Any, room: int) -> tuple[Any, Any]:
        """The columns of True in each line, (lines, room) int32, and their counts."""
        counts = kept.sum(dim=1, dtype=self.torch.int32)
        line, column = kept.nonzero(as_tuple=True)
        place = self.torch.arange(len(line), device=kept.device) - (self.torch.cumsum(counts, 0) - counts)[line]
        out = self.torch.zeros((len(kept), room), dtype=self.torch.int32, device=kept.device)
        fits = place < room
        out[line[fits], place[fits]] = column[fits].to(self.torch.int32)
        return out, counts
