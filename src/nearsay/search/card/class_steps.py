"""The steps by which a device finds the nearest members of classes, in plain torch operations.

    groups_of_classes   the groups that may hold the nearest member of their class, for each query
    rows_of_pairs       the rows in them that may be it
    measure_pairs       their distances in float64
    measure_classes     the squared distances of all members of some classes, each for a query of its own
    lowest              the m lowest numbers of each line
    groups_of_lines     the groups of one class that may hold one of the k nearest members, for a query

A *pair* is a query with a class, and has the number class · queries + query: pairs beside each other look at the same
rows. A *place* is where a row lies in the order of classes. ``class_triton.py`` takes the same steps on CUDA.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearsay.search.card.rows import DeviceQueries, members

# Numbers that are looked at at once.
AT_ONCE = 1 << 24


class ClassSteps:
    """Each step as the operations that torch has for it, on any device; ``classes`` are ``DeviceClasses``."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def groups_of_classes(
        self, minima: Any, queries: DeviceQueries, classes: Any, own_groups: Any
    ) -> tuple[Any, Any, Any]:
        """What scores of each pair must not exceed, and the groups that may matter: their pairs, and their numbers.

        The lowest t + E of the groups of a class is such a threshold. ``own_groups`` name the group that each query,
        left out, lies in (or is empty): its lowest score may be that of the query itself, and tells nothing.
        """
        torch, n, size = self.torch, queries.n, classes.size
        slack = queries.slack(*classes.rows.of_groups(size))
        lowest, of_group = minima[:n], classes.class_of_group
        highest = lowest + slack
        if len(own_groups):
            highest[torch.arange(n, device=minima.device), own_groups.long()] = np.inf
        thresholds = torch.full((classes.n_classes, n), np.inf, dtype=torch.float32, device=minima.device)
        thresholds.scatter_reduce_(0, of_group[:, None].expand(-1, n), highest.T, "amin")
        near = (lowest - slack <= thresholds[of_group].T) & (lowest < np.inf)
        query, group = near.nonzero(as_tuple=True)
        return thresholds.reshape(-1), of_group[group] * n + query, group

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
        """Distances in float64 of these rows from the queries of their pairs; +inf where there is no row."""
        torch = self.torch
        far = torch.full(pairs.shape, np.inf, dtype=torch.float64, device=pairs.device)
        for start in range(0, len(pairs), AT_ONCE):
            some = slice(start, start + AT_ONCE)
            query, where = pairs[some].long() % len(Q), places[some].clamp(min=0).long()
            total = torch.zeros(query.shape, dtype=torch.float64, device=pairs.device)
            for j in range(Q.shape[1]):
                difference = Q[query, j] - classes.columns[j, where].to(torch.float64)
                total = total + difference * difference
            far[some] = torch.where(places[some] >= 0, rooted(kind, total), np.inf)
        return far

    def measure_classes(self, Q: Any, classes: Any, asked: Any, own_places: Any) -> Any:
        """Squared distances of all members of the classes ``asked`` for (queries, several; −1 asks for none).

        (queries · several, most members of a class) float64, +inf where there is no row or it is the query itself.
        """
        torch = self.torch
        several, width = asked.shape[1], classes.largest
        of_class = asked.reshape(-1).clamp(min=0)
        query = torch.arange(len(of_class), device=asked.device) // several
        places = classes.starts[of_class][:, None] + torch.arange(width, device=asked.device)
        there = (asked.reshape(-1) >= 0)[:, None] & (places < classes.starts[of_class + 1][:, None])
        if len(own_places):
            there &= places != own_places[query][:, None]
        places = torch.where(there, places, 0)
        there &= classes.rows.half_norms[places] < np.inf
        total = torch.zeros(places.shape, dtype=torch.float64, device=asked.device)
        for j in range(Q.shape[1]):
            difference = Q[query, j, None] - classes.columns[j, places].to(torch.float64)
            total = total + difference * difference
        return torch.where(there, total, np.inf)

    def groups_of_lines(
        self, minima: Any, queries: DeviceQueries, classes: Any, query: Any, of_class: Any, k: int, room: int
    ) -> tuple[Any, Any, Any]:
        """The groups of a class that may matter for a query, each given by line: as ``PlainSteps.list_groups`` says."""
        torch, n_groups = self.torch, minima.shape[1]
        slack = queries.slack(*classes.rows.of_groups(classes.size))
        listed = torch.zeros((len(query), room), dtype=torch.int32, device=minima.device)
        counts, thresholds = listed[:, 0].clone(), torch.full((len(query),), np.inf, device=minima.device)
        step = max(1, AT_ONCE // n_groups)
        for start in range(0, len(query), step):
            some = slice(start, start + step)
            mine = classes.class_of_group == of_class[some][:, None]
            lowest = torch.where(mine, minima[query[some]], np.inf)
            if k <= n_groups:
                thresholds[some] = (lowest + slack[query[some]]).kthvalue(k, dim=1).values
            near = (lowest - slack[query[some]] <= thresholds[some][:, None]) & (lowest < np.inf)
            counts[some] = near.sum(dim=1, dtype=torch.int32)
            line, group = near.nonzero(as_tuple=True)
            place = torch.arange(len(line), device=minima.device) - (counts[some].cumsum(0) - counts[some])[line]
            fits = place < room
            listed[some][line[fits], place[fits]] = group[fits].to(torch.int32)
        return listed, counts, thresholds

    def lowest(self, far: Any, m: int) -> Any:
        """The ``m`` lowest numbers of each line, lowest first."""
        return far.topk(m, dim=1, largest=False).values.sort(dim=1).values


def rooted(kind: str, squares: Any) -> Any:
    """The distance from a sum of squares of differences."""
    if kind == "hellinger":
        squares = squares * 0.5
    return squares if kind == "sqeuclidean" else squares.sqrt()
