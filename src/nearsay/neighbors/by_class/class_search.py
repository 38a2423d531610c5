"""The search for the nearest rows *and* the nearest members of each class: makes a plan, and follows it.

    shapes ──► plan ──► a way: rows, classes in order, means of some members ──► means of more members, if wanted
              (plan.py)  (ways.py, gpu_way.py)                                    (class_means.py)

``labeled.py`` checks the queries, and calls this.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from nearsay.core.arrays import row_width
from nearsay.neighbors import brute_force, neighbor_search
from nearsay.neighbors.by_class.class_means import RowsByClass, fill_means
from nearsay.neighbors.by_class.class_table import ClassTable, no_members
from nearsay.neighbors.by_class.float64_rows import Float64Rows
from nearsay.neighbors.by_class.float64_way import Float64Products
from nearsay.neighbors.by_class.gpu_way import GpuWay
from nearsay.neighbors.by_class.grouped_rows import GroupedRows
from nearsay.neighbors.by_class.plan import SCANNED_UNPREPARED, MakePlan, SearchShape, plan
from nearsay.neighbors.by_class.queries import Queries
from nearsay.neighbors.by_class.ways import (
    BlockProducts,
    BruteForce,
    MemberWay,
    NumpyWay,
    Scan,
    SearchWay,
    SmallProducts,
)
from nearsay.neighbors.class_order import NearestClasses
from nearsay.neighbors.living.query_scan import screens
from nearsay.neighbors.table import NeighborTable
from nearsay.search.gpu.gpu_search import GpuSearch
from nearsay.search.protocol import NeighborSearch


class ClassSearch:
    """The rows of a search, each with a class; all classes are listed.

    ``make_plan`` chooses the way; tests pass their own.
    """

    def __init__(
        self, search: NeighborSearch, labels: np.ndarray, n_classes: int, *, make_plan: MakePlan = plan
    ) -> None:
        self.search = search
        self.labels = labels
        self.n_classes = n_classes
        self._make_plan = make_plan
        self._n_scanned = 0

    # ------------------------------------------------------------ the nearest rows, and all classes in order

    def of_queries(self, Q: Any, k: int, members: tuple[int, ...]) -> NeighborTable:
        """The ``k`` nearest rows of checked queries (no more than there are), and all classes."""
        return self.of(Queries.of_items(Q), k, members)

    def of_rows(self, rows: np.ndarray | None, k: int, members: tuple[int, ...]) -> NeighborTable:
        """The same for all rows, or those of these numbers, and the other rows."""
        return self.of(Queries.of_rows(self.search.rows_, rows), k, members)

    def of(self, queries: Queries, k: int, members: tuple[int, ...]) -> NeighborTable:
        """The same for either."""
        chosen = self._make_plan(self._shape(queries.n, k, members))
        if chosen.way == "gpu":
            table = self._gpu.search(queries, k, members, self._on_cpu.of)
            if table is not None:
                return self._without_removed(table, queries.left_out)
            return self._on_cpu.of(queries, k, members)
        if chosen.way == "scan":
            self._n_scanned += queries.n
        table = self._way(chosen.way).search(queries, k, chosen.members)
        if chosen.members != members:
            table = self._with_means(table, queries, members)
        return self._without_removed(table, queries.left_out)

    def _with_means(self, table: NeighborTable, queries: Queries, members: tuple[int, ...]) -> NeighborTable:
        """The table, with the mean distances of so many members."""
        known = table.classes
        assert known is not None
        means = np.full((*known.means.shape[:2], len(members)), np.inf)
        classes = NearestClasses(known.numbers, known.nearest, means, known.beyond, members)
        fill_means(self.search, self.rows_by_class, queries, classes)
        return NeighborTable(table.indices, table.distances, classes)

    def _without_removed(self, table: NeighborTable, left_out: np.ndarray) -> NeighborTable:
        """Removed rows have no neighbors and no classes."""
        removed = self.search.rows_.removed
        if removed is not None and len(left_out):
            gone = removed[left_out]
            table.indices[gone], table.distances[gone] = -1, np.inf
            assert table.classes is not None
            table.classes.forget(gone)
        return table

    # ------------------------------------------------------------ the nearest members of each class

    def rows_and_members(self, queries: Queries, k: int, n_members: int = 1) -> tuple[NeighborTable, ClassTable]:
        """The ``k`` nearest rows of checked queries, and the nearest members of each class."""
        table, members = neighbor_search.no_neighbors(queries.n, k), no_members(queries.n, self.n_classes, n_members)
        shape = self._shape(queries.n, k, (n_members,))
        way = "numpy" if not shape.compiled else "products" if shape.products else "brute force"
        undecided = None
        if n_members == 1 and not len(queries.left_out) and self._make_plan(shape).way == "gpu":
            undecided = self._gpu.fill_nearest(queries.items, table, members)
        if undecided is not None:
            BruteForce(self.search, self.labels, self.n_classes).fill_lines(queries, undecided, table, members)
        else:
            member_way = self._way(way)
            assert isinstance(member_way, MemberWay)
            member_way.fill(queries, table, members)
        removed = self.search.rows_.removed
        if removed is not None and len(queries.left_out):
            for part in (table, members):
                part.indices[removed[queries.left_out]], part.distances[removed[queries.left_out]] = -1, np.inf
        return table, members

    # ------------------------------------------------------------ ways

    def _shape(self, n_queries: int, k: int, members: tuple[int, ...]) -> SearchShape:
        search = self.search
        return SearchShape(
            n_queries=n_queries,
            n_rows=search.rows_.n_live,
            n_classes=self.n_classes,
            k=k,
            members=members,
            n_columns=row_width(search.rows_.items),
            products=search.distance_.has_euclidean_form and search.rows_.n_live > 0,
            precise=Float64Products.serves(search.distance_),
            scans=screens(search),
            prepared="_grouped" in self.__dict__ or self._n_scanned + n_queries > SCANNED_UNPREPARED,
            compiled=not brute_force.serves(search, n_queries),
            gpu=isinstance(search, GpuSearch) and self._gpu.serves(n_queries, k),
        )

    def _way(self, name: str) -> SearchWay:
        """The way of this name."""
        rows = self.search, self.labels, self.n_classes
        if name == "products":
            return BlockProducts(*rows, self._grouped)
        if name == "float64":
            return Float64Products(*rows, self.rows_by_class, self._in_float64)
        if name == "small":
            return SmallProducts(*rows, self._grouped)
        ways: dict[str, type[NumpyWay | BruteForce | Scan]] = {
            "numpy": NumpyWay,
            "brute force": BruteForce,
            "scan": Scan,
        }
        return ways[name](*rows)

    @cached_property
    def _gpu(self) -> GpuWay:
        assert isinstance(self.search, GpuSearch)
        return GpuWay(self.search, self.labels, self.n_classes)

    @cached_property
    def _on_cpu(self) -> ClassSearch:
        """The same rows, for what a GPU leaves undecided."""
        assert isinstance(self.search, GpuSearch)
        return ClassSearch(self.search.on_cpu(), self.labels, self.n_classes)

    @cached_property
    def _grouped(self) -> GroupedRows:
        return GroupedRows(
            self.search.distance_, self.search.rows_, self.labels, getattr(self.search, "products", "auto")
        )

    @cached_property
    def _in_float64(self) -> Float64Rows:
        return Float64Rows(self._grouped, self.n_classes)

    @cached_property
    def rows_by_class(self) -> RowsByClass:
        """The row numbers of each class."""
        if self.search.distance_.has_euclidean_form and self.search.rows_.n_live > 0:
            return RowsByClass(self._grouped.order, self.labels, self.n_classes, self._grouped)
        live = self.search.rows_.live_numbers
        return RowsByClass(live[np.argsort(self.labels[live], kind="stable")], self.labels, self.n_classes, None)
