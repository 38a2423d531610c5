"""Which way a search by class goes: all find what loops find, and constants say where one gives way to another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nearsay as ns
from nearsay.neighbors.by_class import class_means, class_search, class_table
from nearsay.neighbors.by_class.labeled import LabeledNeighbors
from nearsay.neighbors.by_class.small_collections import AllAtOnce
from nearsay.search.by_class import grouped
from nearsay.search.by_class import small as small_collections
from nearsay.search.by_class.grouped import GroupedRows
from nearsay.search.screening import screen
from nearsay.search.screening.products import Float32Products, Int8Products
from tests.reference import neighbors as reference

ALWAYS, NEVER = 1 << 40, -1

MEMBERS_WITH_ROWS = [
    (class_search, "MEMBERS_WITH_ROWS", ALWAYS),
    (class_search, "MEMBERS_TIMES_ROWS", ALWAYS),
    (small_collections, "SMALL", 0),
]
SECOND_LOOK = [
    (class_search, "MEMBERS_TIMES_ROWS", NEVER),
    (class_search, "MEMBERS_TIMES_QUERIES", NEVER),
    (small_collections, "SMALL", 0),
]
WAYS: dict[str, list[tuple[Any, str, int]]] = {
    "members with rows": MEMBERS_WITH_ROWS,
    "members with rows, all at once": MEMBERS_WITH_ROWS[:2],
    "second look, in one go": [*SECOND_LOOK, (class_means, "DISTANCES_A_CLASS", ALWAYS)],
    "second look, class by class": [*SECOND_LOOK, (class_means, "DISTANCES_A_CLASS", NEVER)],
    "second look, by block": [*SECOND_LOOK, (class_search, "FEW_QUERIES", NEVER)],
    "second look, on one list": [
        *SECOND_LOOK,
        (class_search, "FEW_QUERIES", ALWAYS),
        (class_search, "QUERIES_TIMES_CLASSES", ALWAYS),
    ],
    "classes sorted": [*SECOND_LOOK, (class_table, "COUNT_UP_TO", NEVER)],
    "nearest of each all at once": [(class_search, "ROWS_OF_CLASS_AT_ONCE", NEVER)],
}


@contextmanager
def going(way: str, products: str = "float32") -> Iterator[None]:
    """Search this way, whatever takes less time."""
    kind = Int8Products if products == "8-bit" else Float32Products
    with ExitStack() as changed:
        changed.enter_context(patch.object(screen, "MANY_PRODUCTS", 0))
        changed.enter_context(patch.object(grouped, "fastest_products", lambda n_columns: kind()))
        for module, name, value in WAYS[way]:
            changed.enter_context(patch.object(module, name, value))
        yield


@lru_cache(maxsize=100_000)
def measured(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    return reference.euclidean(a, b)


def euclidean(a: np.ndarray, b: np.ndarray) -> float:
    """The slow distance, measured once for all ways that look at the same rows."""
    return measured(tuple(a.tolist()), tuple(b.tolist()))


def check(both: LabeledNeighbors, X: np.ndarray, removed: list[int], k: int, members: tuple[int, ...]) -> None:
    """Queries, and rows left out in turn, against loops, to the last digit; of a large collection the first few."""
    rows = list(range(len(X) if len(X) <= 16 else 4))
    Q = X[:30] + 0.5
    live = [row for row in range(len(X)) if row not in removed]
    for table, items, left_out in ((both.query(Q, k, members), Q, None), (both.leave_one_out(k, members), X, rows)):
        expected = reference.nearest_classes(
            X,
            both.labels,
            items[: len(rows)],
            members,
            euclidean,
            n_listed=both.n_classes,
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
    products=st.sampled_from(["float32", "8-bit"]),
)
@settings(max_examples=15)
def test_every_way_finds_the_rows_and_classes_of_a_loop(way, data, k, members, products):
    X, labels, removed = data
    with going(way, products):
        check(ns.NeighborIndex(search="exact").fit(X).remove(removed).with_labels(labels, 5), X, removed, k, members)


@pytest.mark.parametrize("products", ["float32", "8-bit"])
@pytest.mark.parametrize("n_classes", [3, 17, 130])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_finds_them_in_more_blocks_and_classes_than_one(way, n_classes, products):
    rng = np.random.default_rng(7)
    X = rng.integers(0, 4, size=(1300, 4)) + 0.1 * rng.integers(0, 3, size=(1300, 4))
    labels, removed = np.where(rng.random(1300) < 0.3, 1, rng.integers(0, n_classes - 1, 1300)), [0, 5, 1299]
    with going(way, products):
        both = ns.NeighborIndex(search="exact").fit(X).remove(removed).with_labels(labels, n_classes)
        for members in ((), (1,), (1, 5)):
            check(both, X, removed, 4, members)


# ---------------------------------------------------------------- where one way gives way to another


def ways_gone(n: int, n_classes: int, n_queries: int, members: tuple[int, ...]) -> set[str]:
    """What is called for some queries in a collection of so many rows of equally large classes."""
    X = np.random.default_rng(8).normal(size=(n, 3))
    both = ns.NeighborIndex(search="exact").fit(X).with_labels(np.arange(n) % n_classes, n_classes)
    called = set()

    def noted(owner: Any, name: str) -> Any:
        original = getattr(owner, name)

        def call(*args: Any) -> Any:
            called.add(name)
            return original(*args)

        return patch.object(owner, name, call)

    with (
        noted(AllAtOnce, "nearest"),
        noted(GroupedRows, "candidates"),
        noted(GroupedRows, "nearest_of_classes"),
        noted(class_means, "_fill_few"),
        noted(class_means, "_distances"),
    ):
        both.query(X[:n_queries], 3, members)
    return called


LIST, BLOCKS, AT_ONCE = {"candidates"}, {"nearest_of_classes"}, {"nearest"}
IN_ONE_GO, BY_CLASS = {"_fill_few"}, {"_distances"}


@pytest.mark.parametrize(
    ("n", "n_classes", "n_queries", "members", "ways"),
    [
        # Members with the rows: 16 of 312 rows a class, or 128 for one query; otherwise a second look.
        (3120, 10, 100, (1, 16), LIST),
        (1000, 10, 100, (1, 16), LIST),
        (1000, 10, 100, (1, 17), BLOCKS | BY_CLASS),
        (3130, 10, 100, (1, 16), BLOCKS | BY_CLASS),
        (3130, 10, 8, (1, 16), LIST),
        (3130, 10, 9, (1, 16), LIST | BY_CLASS),
        (2100, 16, 100, (1, 4), LIST),
        (2100, 17, 100, (1, 4), BLOCKS | BY_CLASS),
        (2048, 17, 100, (1, 4), AT_ONCE),
        # The nearest of each on one list, or block by block: up to 16 queries, and 4,096 times a class.
        (2100, 10, 16, (1,), LIST),
        (2100, 10, 17, (1,), BLOCKS),
        (2100, 512, 8, (1,), LIST),
        (2100, 512, 9, (1,), BLOCKS),
        # The nearest of each all at once: more than 512 rows a class, or 16 queries.
        (1539, 3, 17, (1,), AT_ONCE),
        (1536, 3, 17, (1,), BLOCKS),
        (1536, 3, 16, (1,), AT_ONCE),
        (1536, 3, 17, (), AT_ONCE),
        # A second look in one go: up to 2,048 distances a class of 100 rows.
        (4000, 40, 51, (1, 64), BLOCKS | IN_ONE_GO),
        (4000, 40, 52, (1, 64), BLOCKS),  # from one list of rows, where a call for each class is not worth it
        (4000, 40, 120, (1, 64), BLOCKS | BY_CLASS),
    ],
)
def test_a_search_by_class_goes_the_way_that_takes_less_time(n, n_classes, n_queries, members, ways):
    assert ways_gone(n, n_classes, n_queries, members) == ways
