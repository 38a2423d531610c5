"""The steps by which a device finds the nearest members of classes, in plain torch operations.

    nearest_of_classes  the row of each class that may be the nearest for a query, and the few others that may be
    rows_of_pairs       the rows of groups that may be it
    measure_pairs       their distances in float64
    members_of_lines    the rows of one class that may be among the k nearest members, for a query
    means               of the nearest members
    measure_classes     the squared distances of all members of some classes, each for a query of its own
    lowest              the m lowest numbers of each line

A *pair* is a query with a class, and has the number class · queries + query: pairs beside each other look at the same
rows. A *line* is a query with one of several classes that it asks for. A *place* is where a row lies in the order of
classes. ``class_triton.py`` takes the same steps on CUDA.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nearsay.search.gpu.bounds import TINY
from nearsay.search.gpu.rows import DeviceQueries, members, place_of

# Numbers that are looked at at once.
AT_ONCE = 1 << 24
NO_PLACE = 1 << 40


class ClassSteps:
    """Each step as the operations that torch has for it, on any device; ``classes`` are ``DeviceClasses``."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def nearest_of_classes(
        self, keys: Any, queries: DeviceQueries, classes: Any, own_places: Any
    ) -> tuple[Any, Any, Callable[[], tuple[Any, Any]]]:
        """What scores of each pair must not exceed; the place of its lowest key; and what tells the others.

        The lowest t + E of a class is such a threshold. The place is −1 where no row is known. Others come as pairs,
        each with a place, or with −2 − g for group g, of which more than the lowest may be the nearest; a card must
        have come so far before they are known, so one asks for them after other work was given to it. ``own_places``
        name the row that each query is itself, left out, or are empty. ``queries`` have the bound of keys.
        """
        torch, n, size = self.torch, queries.n, classes.size
        slack = queries.slack(*classes.rows.of_groups(size))
        (low, following), of_group = keys[:, :n], classes.class_of_group.long()
        group = torch.arange(low.shape[1], device=keys.device)
        unsure = low.abs() < TINY
        highest = low + slack
        if len(own_places):
            itself = (self._places(low, group, size) == own_places[:, None]) & ~unsure
            low = torch.where(itself, following, low)
            highest = torch.where(unsure, np.inf, low + slack)
        lowest, thresholds = (
            torch.full((n, classes.n_classes), np.inf, dtype=torch.float32, device=keys.device) for _ in range(2)
        )
        by_class = of_group.expand(n, -1)
        thresholds.scatter_reduce_(1, by_class, highest, "amin")
        lowest.scatter_reduce_(1, by_class, low, "amin")
        place = self._places(low, group, size)
        told = (low == lowest.gather(1, by_class)) & (low.abs() >= TINY) & (low < np.inf)
        nearest = torch.full(lowest.shape, NO_PLACE, dtype=torch.int64, device=keys.device)
        nearest.scatter_reduce_(1, by_class, torch.where(told, place, NO_PLACE), "amin")
        nearest = torch.where(nearest == NO_PLACE, -1, nearest)
        at_most = thresholds.gather(1, by_class) + slack
        near = (low <= at_most) & (low < np.inf)
        is_open = near & (unsure | ((following <= at_most) & (following < np.inf)))
        near = is_open | (near & (place != nearest.gather(1, by_class)))
        query, of = near.nonzero(as_tuple=True)
        others = torch.where(is_open, -2 - group, place)[query, of]
        pairs = (of_group[of] * n + query).to(torch.int32)
        told_of = thresholds.T.reshape(-1), nearest.T.reshape(-1).to(torch.int32)
        return *told_of, lambda: (pairs, others.to(torch.int32))

    def _places(self, keys: Any, groups: Any, size: int) -> Any:
        within = (keys.contiguous().view(self.torch.int32) & (size - 1)).long()
        return place_of(groups, within, size)

    def rows_of_pairs(
        self, queries: DeviceQueries, classes: Any, thresholds: Any, pairs: Any, groups: Any, own_places: Any
    ) -> tuple[Any, Any]:
        """The rows of these groups that may be the nearest of their class: their pairs, and their places.

        ``own_places`` name the row that each query is itself, or are empty. A place of −1 means no row.
        """
        torch, rows, size = self.torch, classes.rows, classes.size
        found: list[tuple[Any, Any]] = [(pairs[:0], groups[:0])]
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
            if len(own_places):
                near &= places != own_places[query][:, None]
            found.append((some[:, None].expand_as(places)[near], places[near]))
        of, where = (torch.cat(several) for several in zip(*found, strict=True))
        return of, where

    def measure_pairs(self, kind: str, Q: Any, classes: Any, pairs: Any, places: Any) -> Any:
        """Distances in float64 of these rows from the queries of their pairs; +inf where there is no row.

        Without ``pairs``, there is a place for each.
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
        self, queries: DeviceQueries, classes: Any, asked: Any, own_places: Any, k: int, room: int
    ) -> tuple[Any, Any]:
        """The places of members that may be among the k nearest of the classes ``asked`` for, and how many there are.

        ``asked`` is (queries, several), and −1 asks for none; what is given is (lines, room) int32. Where there are
        more than there is room for, the count says so, and what is listed means nothing.
        """
        torch, rows, several = self.torch, classes.rows, asked.shape[1]
        asked, width = asked.reshape(-1), classes.largest
        kept = torch.zeros((len(asked), room), dtype=torch.int32, device=asked.device)
        counts = torch.zeros(len(asked), dtype=torch.int32, device=asked.device)
        if not width:
            return kept, counts
        for start in range(0, len(asked), step := max(1, AT_ONCE // (width * rows.halves.shape[1]))):
            lines = slice(start, start + step)
            query = torch.arange(len(asked), device=asked.device)[lines] // several
            places, there = self._members(classes, asked[lines], own_places[query] if len(own_places) else own_places)
            halves = rows.halves[places].to(torch.float32)
            products = torch.einsum("lrc,lc->lr", halves, queries.halves[query].to(torch.float32))
            scores = rows.half_norms[places] * queries.factors[query, None] + products
            scores = torch.where(there, scores, np.inf)
            slack = queries.slack(rows.errors[places], rows.lengths[places], query)
            highest = torch.where(scores < np.inf, scores + slack, np.inf)
            threshold = torch.full((len(query), 1), np.inf, device=asked.device)
            if k <= width:
                threshold = highest.kthvalue(k, dim=1, keepdim=True).values
            near = (scores - slack <= threshold) & (scores < np.inf)
            counts[lines] = near.sum(dim=1, dtype=torch.int32)
            line, member = near.nonzero(as_tuple=True)
            at = torch.arange(len(line), device=asked.device) - (counts[lines].cumsum(0) - counts[lines])[line]
            fits = at < room
            kept[lines][line[fits], at[fits]] = places[line, member][fits].to(torch.int32)
        return kept, counts

    def _members(self, classes: Any, of_class: Any, own_places: Any) -> tuple[Any, Any]:
        """The places of all members of these classes, one line each, and which of them there are."""
        torch, asked = self.torch, of_class >= 0
        of_class = of_class.clamp(min=0)
        places = classes.starts[of_class][:, None] + torch.arange(classes.largest, device=of_class.device)
        there = asked[:, None] & (places < classes.starts[of_class + 1][:, None])
        if len(own_places):
            there &= places != own_places[:, None]
        places = torch.where(there, places, 0)
        return places, there & (classes.rows.half_norms[places] < np.inf)

    def means(self, far: Any, members: tuple[int, ...]) -> Any:
        """The mean of the m first numbers of each line, or of all that are finite: (lines, members).

        Added from left to right, as ``neighbors.class_means`` adds: a sum made in another order may end in another
        digit.
        """
        torch = self.torch
        total = torch.zeros(len(far), dtype=torch.float64, device=far.device)
        added, means = torch.zeros_like(total), []
        for number, column in enumerate(far.T):
            total = torch.where(column < np.inf, total + column, total)
            added += column < np.inf
            if number + 1 in members:
                means.append(total / added)
        return torch.stack([*means, *[total / added] * (len(members) - len(means))], dim=1)

    def measure_classes(self, Q: Any, classes: Any, asked: Any, own_places: Any) -> Any:
        """Squared distances of all members of the classes ``asked`` for (queries, several; −1 asks for none).

        (queries · several, most members of a class) float64, +inf where there is no row or it is the query itself.
        """
        torch = self.torch
        query = torch.arange(asked.numel(), device=asked.device) // asked.shape[1]
        places, there = self._members(classes, asked.reshape(-1), own_places[query] if len(own_places) else own_places)
        total = torch.zeros(places.shape, dtype=torch.float64, device=asked.device)
        for j in range(Q.shape[1]):
            difference = Q[query, j, None] - classes.in_order[places, j].to(torch.float64)
            total = total + difference * difference
        return torch.where(there, total, np.inf)

    def lowest(self, far: Any, m: int) -> Any:
        """The ``m`` lowest numbers of each line, lowest first."""
        return far.topk(m, dim=1, largest=False).values.sort(dim=1).values


def rooted(kind: str, squares: Any) -> Any:
    """The distance from a sum of squares of differences."""
    if kind == "hellinger":
        squares = squares * 0.5
    return squares if kind == "sqeuclidean" else square_root(squares)


def square_root(values: Any) -> Any:
    """The root of float64 numbers, rounded correctly: on x86 processors, torch's may end in another digit."""
    if values.device.type != "cpu":
        return values.sqrt()
    roots = values.clone()
    np.sqrt(roots.numpy(), out=roots.numpy())
    return roots
