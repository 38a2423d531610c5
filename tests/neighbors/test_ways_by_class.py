"""Every way of a search by class finds what loops find; the plan says which way is taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nearsay as ns
from nearsay.neighbors.by_class import float64_way
from nearsay.neighbors.by_class.class_means import fill_means
from nearsay.neighbors.by_class.float64_rows import _lowest
from nearsay.neighbors.by_class.labeled import LabeledNeighbors
from nearsay.neighbors.by_class.plan import MakePlan, Plan, SearchShape, plan
from nearsay.search.exact import ExactSearch
from tests.reference import neighbors as reference

# By the way, and whether it finds several members of each class itself; the others are measured afterward.
WAYS = {
    "brute force": True,
    "brute force, members afterward": False,
    "products": True,
    "products, members afterward": False,
    "float64": True,
    "small": True,
    "scan": True,
}


def only(way: str) -> MakePlan:
    """A plan that takes one way, whatever takes less time."""

    def make(shape: SearchShape) -> Plan:
        name, n_found = way.partition(",")[0], WAYS[way]
        if name == "scan" and not shape.k:  # without neighbors there is nothing to scan for
            name = "products"
        if name == "float64" and max(shape.members, default=1) == 1:  # without means there is nothing to be precise for
            name = "products"
        return Plan(name if shape.products else "brute force", shape.members if n_found or not shape.members else (1,))

    return make


def labeled(
    X: np.ndarray, removed: list[int], labels: np.ndarray, n_classes: int, way: str, products: str = "float32"
) -> LabeledNeighbors:
    """Rows that are searched this way, by this kind of product."""
    search = ExactSearch(products=products).fit(X)
    search.remove(removed)
    return LabeledNeighbors(search, labels, n_classes, make_plan=only(way))


MEASURED: dict[tuple[bytes, bytes, str], float] = {}


def euclidean(a: np.ndarray, b: np.ndarray) -> float:
    """The slow distance, measured once for all ways that look at the same rows."""
    key = a.tobytes(), b.tobytes(), a.dtype.char
    if key not in MEASURED:
        MEASURED[key] = reference.euclidean(a.tolist(), b.tolist())
    return MEASURED[key]


def check(labeled: LabeledNeighbors, X: np.ndarray, removed: list[int], k: int, members: tuple[int, ...]) -> None:
    """Queries, and rows left out in turn, against loops, to the last digit; of a large collection the first few."""
    rows = list(range(len(X) if len(X) <= 16 else 4))
    Q = X[:30] + 0.5
    live = [row for row in range(len(X)) if row not in removed]
    for table, items, left_out in (
        (labeled.query(Q, k, members), Q, None),
        (labeled.leave_one_out(k, members), X, rows),
    ):
        expected = reference.nearest_classes(
            X,
            labeled.labels,
            items[: len(rows)],
            members,
            euclidean,
            n_listed=labeled.n_classes,
            left_out=left_out,
            removed=removed,
        )
        for found, by_loop in zip(table.classes[: len(rows)].arrays, expected, strict=True):
            np.testing.assert_array_equal(found, np.reshape(by_loop, found.shape))
        for line in rows:
            if left_out is not None and line in removed:
                assert (table.indices[line] == -1).all()
                continue
            others = [row for row in live if left_out is None or row != line]
            (near,), (far,) = reference.nearest(X[others], items[line : line + 1], k, euclidean)
            np.testing.assert_array_equal(table.indices[line, : len(near)], [others[row] for row in near])
            np.testing.assert_array_equal(table.distances[line, : len(near)], far)


@st.composite
def collections(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Few rows of small whole numbers: ties and duplicates everywhere; some are removed."""
    n = draw(st.integers(1, 16))
    X = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), min_size=n, max_size=n))
    labels = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    return np.array(X, float), np.array(labels), sorted(draw(st.sets(st.integers(0, n - 1), max_size=n - 1)))


@pytest.mark.parametrize("way", WAYS)
@given(
    data=collections(),
    k=st.integers(1, 18),
    members=st.sampled_from([(), (1,), (1, 2), (3,), (1, 4, 6)]),
    products=st.sampled_from(["float32", "int8"]),
)
@settings(max_examples=15)
def test_every_way_finds_the_rows_and_classes_of_a_loop(way, data, k, members, products):
    X, labels, removed = data
    check(labeled(X, removed, labels, 5, way, products), X, removed, k, members)


@pytest.mark.slow
@pytest.mark.parametrize(("n_classes", "products"), [(3, "int8"), (17, "float32"), (128, "float32"), (128, "int8")])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_finds_them_in_more_blocks_and_classes_than_one(way, n_classes, products):
    rng = np.random.default_rng(7)
    X = rng.integers(0, 4, size=(1300, 4)) + 0.1 * rng.integers(0, 3, size=(1300, 4))
    labels, removed = np.where(rng.random(1300) < 0.3, 1, rng.integers(0, n_classes - 1, 1300)), [0, 5, 1299]
    rows = labeled(X, removed, labels, n_classes, way, products)
    for members in ((), (1,), (1, 5)):
        check(rows, X, removed, 4, members)


@pytest.mark.parametrize(("spread", "measured"), [(1.0, 0.0), (1e-4, 0.2), (1e-9, 0.8)])
def test_means_that_products_in_float64_leave_uncertain_are_measured(monkeypatch, spread, measured):
    """Clusters so narrow that squares of distances lose digits in one of five classes, or in all but the empty one."""
    rng = np.random.default_rng(11)
    labels = np.arange(400) % 4
    X = 10 * rng.normal(size=(4, 12))[labels] + spread * rng.normal(size=(400, 12))
    marked = []
    monkeypatch.setattr(float64_way, "fill_means", lambda *a: (marked.append(a[-1].mean()), fill_means(*a)))
    check(labeled(X, [1, 2], labels, 5, "float64"), X, [1, 2], 6, (1, 4, 20))
    assert marked[-1] == pytest.approx(measured, abs=0.011)


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_means_of_products_in_float64_are_the_same_for_any_batch_and_threads(metric):
    rng = np.random.default_rng(12)
    X, labels = rng.normal(size=(3000, 7)), rng.integers(0, 3, 3000)
    rows = LabeledNeighbors(ns.NeighborIndex(metric, search="exact").fit(X).search_, labels, make_plan=only("float64"))
    with ns.threads(1):
        whole = rows.leave_one_out(5, (1, 4, 64))
    with ns.threads(2):
        some = np.array([7, 2999, 4])
        for table, lines in (
            (rows.leave_one_out(5, (1, 4, 64)), slice(None)),
            (rows.leave_one_out(5, (1, 4, 64), some), some),
        ):
            for one, other in zip(table.classes.arrays, whole.classes[lines].arrays, strict=True):
                np.testing.assert_array_equal(one, other)
            np.testing.assert_array_equal(table.indices, whole.indices[lines])


@pytest.mark.parametrize("metric", ["cosine", ("mahalanobis", {"L": np.eye(2, 3) + 0.1})])
@pytest.mark.parametrize("way", ["products", "products, members afterward", "small", "scan"])
def test_other_distances_with_products_are_searched_every_way(way, metric):
    rng = np.random.default_rng(8)
    X, labels = rng.integers(1, 5, size=(400, 3)) + 0.1, rng.integers(0, 20, 400)
    index = ns.NeighborIndex(metric, search="exact").fit(X)
    tables = [
        LabeledNeighbors(index.search_, labels, 20, make_plan=only(each)).query(X[:9] + 0.5, 4, (1, 3))
        for each in ("brute force", way)
    ]
    np.testing.assert_array_equal(tables[1].indices, tables[0].indices)
    for one, other in zip(tables[1].classes.arrays, tables[0].classes.arrays, strict=True):
        np.testing.assert_array_equal(one, other)


# ---------------------------------------------------------------- the plan


def shape(n_rows: int, n_classes: int, n_queries: int, members: tuple[int, ...], **given: Any) -> SearchShape:
    return SearchShape(n_queries, n_rows, n_classes, 10, members, **given)


@pytest.mark.parametrize(
    ("planned", "way"),
    [
        # Members in the pass over the rows: 16 of 625 rows a class, or 128 for one query; in up to 16 classes.
        (shape(6250, 10, 100, (1, 16)), Plan("products", (1, 16))),
        (shape(1000, 10, 100, (1, 17)), Plan("products", (1,))),
        (shape(6260, 10, 100, (1, 16)), Plan("products", (1,))),
        (shape(6260, 10, 8, (1, 16)), Plan("products", (1, 16))),
        (shape(2100, 17, 100, (1, 4)), Plan("products", (1,))),
        (shape(2100, 17, 100, ()), Plan("products", ())),
        # Small collections in up to 128 classes.
        (shape(2048, 17, 100, (1, 4)), Plan("small", (1, 4))),
        (shape(2048, 128, 100, ()), Plan("small", ())),
        (shape(2048, 129, 100, ()), Plan("products", ())),
        (shape(2048, 100, 100, (), n_columns=10_000), Plan("products", ())),
        # In fewer classes the order, and one of each large class, unless rows are few.
        (shape(2000, 16, 100, ()), Plan("small", ())),
        (shape(2000, 3, 100, (1,)), Plan("small", (1,))),
        (shape(2000, 4, 100, (1,)), Plan("products", (1,))),
        (shape(2000, 2, 100, (1, 2)), Plan("products", (1, 2))),
        (shape(1399, 2, 100, ()), Plan("products", ())),
        (shape(2049, 2, 100, ()), Plan("products", ())),
        # Few queries are scanned: more of them as long as rows are not prepared.
        (shape(5000, 10, 64, (1, 4), scans=True), Plan("scan", (1, 4))),
        (shape(5000, 10, 65, (), scans=True), Plan("products", ())),
        (shape(5000, 10, 2, (), scans=True, prepared=True), Plan("scan", ())),
        (shape(5000, 10, 3, (), scans=True, prepared=True), Plan("products", ())),
        (shape(10**6, 10, 65, (), scans=True, prepared=True), Plan("products", ())),
        # Members of few classes in float64, if they have more rows than twice the members, and not too many.
        (shape(10_000, 10, 100, (1, 64), precise=True), Plan("float64", (1, 64))),
        (shape(10_000, 10, 100, (1, 64)), Plan("products", (1,))),
        (shape(1_280, 10, 100, (1, 64), precise=True), Plan("products", (1,))),
        (shape(82_000, 10, 100, (1, 64), precise=True), Plan("products", (1,))),
        (shape(10_000, 17, 100, (1, 64), precise=True), Plan("products", (1,))),
        (shape(4_000, 10, 100, (1, 4), precise=True), Plan("products", (1, 4))),
        # Distances without products, processes that have compiled nothing, and GPUs.
        (shape(5000, 10, 1, (1, 4), products=False), Plan("brute force", (1, 4))),
        (shape(5000, 100, 1, (1, 4), products=False), Plan("brute force", (1,))),
        (shape(500, 10, 1, (1, 4), compiled=False, scans=True), Plan("numpy", (1,))),
        (shape(500, 10, 1, (), compiled=False, scans=True), Plan("numpy", ())),
        (shape(10**6, 1000, 1000, (1, 4), gpu=True), Plan("gpu", (1, 4))),
    ],
)
def test_the_plan_follows_from_shapes(planned, way):
    assert plan(planned) == way


def test_a_search_that_is_used_again_and_again_prepares_its_rows():
    rng = np.random.default_rng(9)
    X = rng.normal(size=(3000, 4))
    rows = ns.NeighborIndex(search="exact").fit(X).with_labels(np.arange(3000) % 10)
    ways = []
    search = rows._by_class
    search._make_plan = lambda given: ways.append(plan(given).way) or plan(given)
    for _ in range(4):
        rows.query(X[:20] + 0.1, 3, (1,))
    assert ways == ["scan", "scan", "scan", "products"]


@pytest.mark.parametrize("spread", [3, 1000])  # with three numbers more are equal than there is room for
@pytest.mark.parametrize(("n_numbers", "n"), [(5, 9), (40, 9), (300, 1), (300, 30), (1001, 64)])
def test_the_lowest_numbers_of_each_line_are_those_that_sorting_gives(spread, n_numbers, n):
    squares = np.random.default_rng(0).integers(0, spread, (20, n_numbers)).astype(np.float64)
    squares[::3, ::2] = np.inf
    squares[1] = np.inf
    low, groups = _lowest(squares.copy(), n)
    np.testing.assert_array_equal(low, np.sort(squares, axis=1)[:, :n])
    for number in range(groups.shape[1]):
        np.testing.assert_array_equal(groups[:, number], squares[:, number :: groups.shape[1]].min(axis=1))
