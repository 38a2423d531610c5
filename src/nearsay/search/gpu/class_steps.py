"""The steps of a GPU search by class, in plain torch operations.

    nearest_of_classes  the row of each class that may be nearest to a query, and the few others that may be
    rows_of_pairs       the rows of groups that may be nearest
    measure_pairs       their distances in float64
    members_of_lines    the rows of a class that may be among the k members nearest to a query
    means               mean distances of the nearest members
    measure_classes     the squared distances of all members of classes

A *pair* is a query and a class, numbered class · queries + query, so that neighboring pairs read the same rows. A
*line* is a query and one of the classes near it. A *place* is the position of a row in the order of classes.
``class_triton.py`` implements most of the steps for CUDA.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nearsay.core.rounding import SPLIT
from nearsay.search.gpu.bounds import TINY
from nearsay.search.gpu.rows import GpuQueries, members, place_of

# Numbers that are handled at once.
AT_ONCE = 1 << 24
NO_PLACE = 1 << 40


class ClassSteps:
    """Each step in plain torch operations; ``classes`` are ``GpuRowsByClass``."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def nearest_of_classes(
        self, keys: Any, queries: GpuQueries, classes: Any, left_out_places: Any
    ) -> tuple[Any, Any, Callable[[], tuple[Any, Any]]]:
        """The threshold of each pair, the place of its lowest key (−1 if unknown), and a function that gives others.

        The threshold is the lowest t + E of the class. Others are pairs, each with a place, or with −2 − g for a group
        g of which more rows than the lowest may be nearest; they are known when the GPU has finished, so they are read
        after other work was launched. ``left_out_places`` are those of the rows that the queries are, or empty.
        ``queries`` have the bound of keys.
        """
        torch, n, size = self.torch, queries.n, classes.size
        slack = queries.slack(*classes.rows.of_groups(size))
        (low, following), of_group = keys[:, :n], classes.class_of_group.long()
        group = torch.arange(low.shape[1], device=keys.device)
        unsure = low.abs() < TINY
        highest = low + slack
        if len(left_out_places):
            itself = (self._places(low, group, size) == left_out_places[:, None]) & ~unsure
            low = torch.where(itself, following, low)
            highest = torch.where(unsure, np.inf, low + slack)
        lowest, thresholds = (
            torch.full((n, classes.n_classes), np.inf, dtype=torch.float32, device=keys.device) for _ in range(2)
        )
        by_class = of_group.expand(n, -1)
        thresholds.scatter_reduce_(1, by_class, highest, "amin")
        lowest.scatter_reduce_(1, by_class, low, "amin")
        place = self._places(low, group, size)
        known = (low == lowest.gather(1, by_class)) & (low.abs() >= TINY) & (low < np.inf)
        nearest = torch.full(lowest.shape, NO_PLACE, dtype=torch.int64, device=keys.device)
        nearest.scatter_reduce_(1, by_class, torch.where(known, place, NO_PLACE), "amin")
        nearest = torch.where(nearest == NO_PLACE, -1, nearest)
        at_most = thresholds.gather(1, by_class) + slack
        near = (low <= at_most) & (low < np.inf)
        is_open = near & (unsure | ((following <= at_most) & (following < np.inf)))
        near = is_open | (near & (place != nearest.gather(1, by_class)))
        query, of = near.nonzero(as_tuple=True)
        others = torch.where(is_open, -2 - group, place)[query, of]
        pairs = (of_group[of] * n + query).to(torch.int32)
        by_pair = thresholds.T.reshape(-1), nearest.T.reshape(-1).to(torch.int32)
        return *by_pair, lambda: (pairs, others.to(torch.int32))

    def _places(self, keys: Any, groups: Any, size: int) -> Any:
        within = (keys.contiguous().view(self.torch.int32) & (size - 1)).long()
        return place_of(groups, within, size)

    def rows_of_pairs(
        self, queries: GpuQueries, classes: Any, thresholds: Any, pairs: Any, groups: Any, left_out_places: Any
    ) -> tuple[Any, Any]:
        """The rows of these groups that may be the nearest of their class: pairs and places (−1: no row)."""
        torch, rows, size = self.torch, classes.rows, classes.size
        kept: list[tuple[Any, Any]] = [(pairs[:0], groups[:0])]
        step = max(1, AT_ONCE // (size * rows.halves.shape[1]))
        for start in range(0, len(pairs), step):
            some = pairs[start : start + step]
            query = some % queries.n
            places = members(torch, groups[start : start + step], size)
            products = torch.einsum(
                "grc,gc->gr", rows.halves[places].to(torch.float32), queries.halves[query].to(torch.float32)
            )
            scores = rows.half_norms[places] * queries.factors[query, None] + products
            slack = queries.slack(rows.errors[places], rows.lengths[places], query)
            near = (scores - slack <= thresholds[some][:, None]) & (scores < np.inf)
            if len(left_out_places):
                near &= places != left_out_places[query][:, None]
            kept.append((some[:, None].expand_as(places)[near], places[near]))
        of, where = (torch.cat(several) for several in zip(*kept, strict=True))
        return of, where

    def measure_pairs(self, kind: str, Q: Any, classes: Any, pairs: Any, places: Any) -> Any:
        """Distances in float64 of the rows at these places from the queries of their pairs; +inf where there is no row.

        Without ``pairs``, place i is of pair i.
        """
        torch = self.torch
        pairs = torch.arange(len(places), device=places.device) if pairs is None else pairs
        far = torch.full(pairs.shape, np.inf, dtype=torch.float64, device=pairs.device)
        for start in range(0, len(pairs), AT_ONCE):
            some = slice(start, start + AT_ONCE)
            query, where = pairs[some].long() % len(Q), places[some].clamp(min=0).long()
            total = torch.zeros(query.shape, dtype=torch.float64, device=pairs.device)
            for j in range(Q.shape[1]):
                difference = Q[query, j] - classes.in_order[where, j].to(torch.float64)
                total = total + difference * difference
            far[some] = torch.where(places[some] >= 0, rooted(kind, total), np.inf)
        return far

    def members_of_lines(
        self, queries: GpuQueries, classes: Any, near: Any, left_out_places: Any, k: int, room: int
    ) -> tuple[Any, Any]:
        """The places of members that may be among the k nearest, (lines, room) int32, and their counts.

        ``near`` (queries, several) are classes, −1 for none. A count above ``room`` marks a list that overflowed.
        """
        torch, rows, several = self.torch, classes.rows, near.shape[1]
        near, width = near.reshape(-1), classes.largest
        kept = torch.zeros((len(near), room), dtype=torch.int32, device=near.device)
        counts = torch.zeros(len(near), dtype=torch.int32, device=near.device)
        if not width:
            return kept, counts
        for start in range(0, len(near), step := max(1, AT_ONCE // (width * rows.halves.shape[1]))):
            lines = slice(start, start + step)
            query = torch.arange(len(near), device=near.device)[lines] // several
            places, valid = self._members(
                classes, near[lines], left_out_places[query] if len(left_out_places) else left_out_places
            )
            halves = rows.halves[places].to(torch.float32)
            products = torch.einsum("lrc,lc->lr", halves, queries.halves[query].to(torch.float32))
            scores = rows.half_norms[places] * queries.factors[query, None] + products
            scores = torch.where(valid, scores, np.inf)
            slack = queries.slack(rows.errors[places], rows.lengths[places], query)
            highest = torch.where(scores < np.inf, scores + slack, np.inf)
            threshold = torch.full((len(query), 1), np.inf, device=near.device)
            if k <= width:
                threshold = highest.kthvalue(k, dim=1, keepdim=True).values
            below = (scores - slack <= threshold) & (scores < np.inf)
            counts[lines] = below.sum(dim=1, dtype=torch.int32)
            line, member = below.nonzero(as_tuple=True)
            at = torch.arange(len(line), device=near.device) - (counts[lines].cumsum(0) - counts[lines])[line]
            fits = at < room
            kept[lines][line[fits], at[fits]] = places[line, member][fits].to(torch.int32)
        return kept, counts

    def _members(self, classes: Any, of_class: Any, left_out_places: Any) -> tuple[Any, Any]:
        """The places of all members of these classes, one line each, and which of them are valid."""
        torch, is_class = self.torch, of_class >= 0
        of_class = of_class.clamp(min=0)
        places = classes.starts[of_class][:, None] + torch.arange(classes.largest, device=of_class.device)
        valid = is_class[:, None] & (places < classes.starts[of_class + 1][:, None])
        if len(left_out_places):
            valid &= places != left_out_places[:, None]
        places = torch.where(valid, places, 0)
        return places, valid & (classes.rows.half_norms[places] < np.inf)

    def means(self, far: Any, members: tuple[int, ...]) -> Any:
        """The mean of the m first numbers of each line, or of all that are finite, rounded: (lines, members).

        Summed from left to right, as on the CPU: another order may change the last bit.
        """
        torch = self.torch
        total = torch.zeros(len(far), dtype=torch.float64, device=far.device)
        added, means = torch.zeros_like(total), []
        for number, column in enumerate(far.T):
            total = torch.where(column < np.inf, total + column, total)
            added += column < np.inf
            if number + 1 in members:
                means.append(total / added)
        means += [total / added] * (len(members) - len(means))
        return torch.stack(
            [mean if m == 1 else self._rounded(mean) for m, mean in zip(members, means, strict=True)], dim=1
        )

    def _rounded(self, means: Any) -> Any:
        """As ``core/rounding.py``."""
        high = SPLIT * means
        return self.torch.where(means < np.inf, high - (high - means), means)

    def measure_classes(self, Q: Any, classes: Any, near: Any, left_out_places: Any) -> Any:
        """Squared distances of all members of a class for each query; ``near`` (queries,) are the classes.

        (queries, most members of a class) float64, +inf where there is no row or it is the query itself.
        """
        torch = self.torch
        places, valid = self._members(classes, near, left_out_places)
        total = torch.zeros(places.shape, dtype=torch.float64, device=near.device)
        for j in range(Q.shape[1]):
            difference = Q[:, j, None] - classes.in_order[places, j].to(torch.float64)
            total = total + difference * difference
        return torch.where(valid, total, np.inf)


def rooted(kind: str, squares: Any) -> Any:
    """The distance from a sum of squares of differences."""
    if kind == "hellinger":
        squares = squares * 0.5
    return squares if kind == "sqeuclidean" else square_root(squares)


def square_root(values: Any) -> Any:
    """The correctly rounded root of float64 numbers: on x86, torch's may differ in the last bit."""
    if values.device.type != "cpu":
        return values.sqrt()
    roots = values.clone()
    np.sqrt(roots.numpy(), out=roots.numpy())
    return roots
