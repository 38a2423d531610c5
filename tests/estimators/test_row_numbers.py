"""Rows named by a user, wherever they can be: lists, masks and integers of any type work, anything else is refused."""

from __future__ import annotations

import inspect
import tempfile
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nearsay as ns
from nearsay.core.arrays import check_row_numbers
from nearsay.decision.envelope import operating_points
from nearsay.errors import InputError
from nearsay.neighbors.by_class.class_table import ClassTable
from nearsay.neighbors.by_class.labeled import LabeledNeighbors
from nearsay.posterior.base import Posterior
from tests.neighbors.test_shards import written
from tests.public import PUBLIC
from tests.reference import neighbors as reference

N = 40
MASK = np.arange(N) % 3 == 0
RANDOM = np.random.default_rng(0)
X = RANDOM.integers(0, 4, (N, 3)).astype(float)
Y = np.eye(4, dtype=int)[RANDOM.integers(0, 4, N)]
Y[::3, 0] = 1

NAMED = {
    "list": ([3, 0], [3, 0]),
    "tuple": ((3, 0), [3, 0]),
    "range": (range(5, 0, -2), [5, 3, 1]),
    "int8": (np.array([3, 0], np.int8), [3, 0]),
    "big-endian": (np.array([3, 0], ">i4"), [3, 0]),
    "uint64": (np.array([3, 39], np.uint64), [3, 39]),
    "strided": (np.arange(N)[::-7], list(range(N))[::-7]),
    "repeated": ([2, 2, 2], [2, 2, 2]),
    "more than there are": (list(range(N)) * 2, list(range(N)) * 2),
    "mask": (MASK, np.flatnonzero(MASK).tolist()),
    "list of bools": (MASK.tolist(), np.flatnonzero(MASK).tolist()),
    "mask of all": (np.ones(N, bool), list(range(N))),
    "mask of none": (np.zeros(N, bool), []),
    "empty list": ([], []),
    "empty array": (np.empty(0, np.int32), []),
}
REFUSED = {
    "negative": ([0, -1], "No row has the number -1: rows are numbered 0 to 39"),
    "one too large": ([0, N], "No row has the number 40"),
    "far too large": (np.array([2**63 + 1], np.uint64), "No row has the number 9223372036854775809"),
    "beyond 64 bits": ([2**70], "whole numbers .* got object, such as 1180591620717411303424"),
    "float": ([1.0], "got float64, such as 1.0"),
    "NaN": ([np.nan], "got float64, such as nan"),
    "text": (["1"], "got <U1, such as '1'"),
    "objects": (np.array([1, 2], object), "got object, such as 1"),
    "short mask": (MASK[:-1], "each of the 40 rows; got 39"),
    "long mask": ([True] * (N + 1), "each of the 40 rows; got 41"),
    "matrix": ([[0, 1]], r"shape \(1, 2\)"),
    "ragged": ([[0], [1, 2]], "a list of row numbers"),
    "word": ("all", "ow numbers are|row numbers, or"),
}
named = pytest.mark.parametrize("name", NAMED)
refused = pytest.mark.parametrize("name", REFUSED)


def lines(table: Any) -> list[Any]:
    """What a table says about each query, so that tables can be compared line by line."""
    arrays = [table.indices, table.distances]
    if getattr(table, "classes", None) is not None:
        arrays += table.classes.arrays
    return [[array[i].tolist() for array in arrays] for i in range(len(table))]


@cache
def fit_once(kind: Any, **settings: Any) -> Any:
    return kind(**settings).fit(X, Y)


def neighbors(kind: Any, **settings: Any) -> Any:
    fitted = fit_once(kind, **settings)
    return lambda rows: lines(fitted.leave_one_out(3, rows))


def index(distance: str = "euclidean", search: str = "exact") -> Any:
    fitted = ns.NeighborIndex(distance, search).fit(X)
    return lambda rows: lines(fitted.leave_one_out(3, rows))


FOLDER = tempfile.TemporaryDirectory()


def shards() -> Any:
    fitted = ns.ShardedIndex().fit(written(X, [7, 20], FOLDER.name))
    return lambda rows: lines(fitted.leave_one_out(3, rows))


def classes(n_classes: int, members: Any = (2,), distance: str = "euclidean", search: str = "exact") -> Any:
    labeled = ns.NeighborIndex(distance, search).fit(X).with_labels(np.arange(N) % 5, n_classes)
    return lambda rows: lines(labeled.leave_one_out(3, members, rows=rows))


def removing(rows: Any) -> list[Any]:
    """The rows that are gone; a row named twice is gone as if it were named once."""
    fitted = ns.NeighborIndex().fit(X).remove(range(N) if rows is None else rows)
    gone = fitted.search_.rows_.removed
    return [] if gone is None else np.flatnonzero(gone).tolist()


def points() -> Any:
    tree = ns.Taxonomy.from_edges([("all", "a"), ("all", "b")])
    found = operating_points(RANDOM.dirichlet([1, 1], N), tree)
    parts = lambda p: [p.settings[a:b].tolist() for a, b in zip(p.starts[:-1], p.starts[1:], strict=True)]  # noqa: E731
    return lambda rows: parts(found if rows is None else found.take(rows))


def table(kind: str) -> Any:
    labeled = ns.NeighborIndex().fit(X).with_labels(np.arange(N) % 5)
    whole: Any = labeled.leave_one_out_by_class() if kind == "ClassTable" else labeled.leave_one_out(3, (1,))
    return lambda rows: lines(whole[slice(None) if rows is None else rows])


# Who is asked by row number: given rows (None: all of them), a line about each.
ASKED = {
    "NeighborIndex.leave_one_out": index,
    "NeighborIndex.leave_one_out, by loop": lambda: index("manhattan"),
    "NeighborIndex.leave_one_out, by tree": lambda: index(search="kd"),
    "ShardedIndex.leave_one_out": shards,
    "LabeledNeighbors.leave_one_out": lambda: classes(5),
    "LabeledNeighbors.leave_one_out, of rows": lambda: classes(5, None),
    "LabeledNeighbors.leave_one_out, by loop": lambda: classes(5, distance="manhattan"),
    "LabeledNeighbors.leave_one_out, by tree": lambda: classes(5, search="kd"),
    "LabeledNeighbors.leave_one_out, of many": lambda: classes(200),
    "JointNeighbors.leave_one_out": lambda: neighbors(ns.annotate.JointNeighbors),
    "TransformedNeighbors.leave_one_out": lambda: neighbors(ns.annotate.TransformedNeighbors),
    "TwoPassNeighbors.leave_one_out": lambda: neighbors(ns.annotate.TwoPassNeighbors),
    "RankBoostNeighbors.leave_one_out": lambda: neighbors(ns.RankBoostNeighbors, max_iter=5),
    "LabeledRows.take": lambda: lambda rows: (ns.LabeledRows(X) if rows is None else ns.LabeledRows(X).take(rows)).X,
    "NeighborTable.__getitem__": lambda: table("NeighborTable"),
    "ClassTable.__getitem__": lambda: table("ClassTable"),
    "OperatingPoints.take": points,
}
asked = pytest.mark.parametrize("who", ASKED)


def test_every_public_method_that_takes_rows_is_asked_here():
    methods = {
        f"{kind.__name__}.{name}"
        for kind in (*PUBLIC.values(), ClassTable, LabeledNeighbors)
        if isinstance(kind, type) and not issubclass(kind, Posterior)
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if "rows" in inspect.signature(method).parameters and (name == "__getitem__" or not name.startswith("_"))
    }
    here = {who.split(",")[0] for who in ASKED} | {"NeighborIndex.remove"}
    # Backends and posteriors are called through the index and the classifier.
    below = {f"{kind}.remove" for kind in ("ExactSearch", "TreeSearch", "ApproximateSearch", "NeighborSearch")}
    below |= {"ExactSearch.restore"}
    below |= {"Store.vectors", "Store.items_of", "EmojiPictures.take"}  # numbers that only nearsay gives
    assert methods - below == here


@pytest.mark.slow
@asked
@named
def test_rows_can_be_named_in_any_way_that_names_rows(who, name):
    ask = ASKED[who]()
    rows, numbers = NAMED[name]
    everything = list(ask(None))
    np.testing.assert_equal(list(ask(rows)), [everything[i] for i in numbers])


@asked
@refused
def test_what_names_no_rows_is_refused_in_words(who, name):
    rows, words = REFUSED[name]
    with pytest.raises(InputError, match=words):
        ASKED[who]()(rows)


@named
def test_rows_are_removed_however_they_are_named(name):
    rows, numbers = NAMED[name]
    assert removing(rows) == sorted(set(numbers))


@refused
def test_nothing_is_removed_where_a_row_is_not_there(name):
    rows, words = REFUSED[name]
    fitted = ns.NeighborIndex().fit(X)
    with pytest.raises(InputError, match=words):
        fitted.remove(rows)
    assert len(fitted) == N


def test_removed_rows_are_not_removed_again_but_may_be_asked_about():
    fitted = ns.NeighborIndex().fit(X).remove(MASK)
    with pytest.raises(InputError, match="No row has the number 3: rows are numbered 0 to 39, and 14 of them are remo"):
        fitted.remove([1, 3])
    assert fitted.leave_one_out(2, [3, 1]).indices.tolist()[0] == [-1, -1]
    assert fitted.remove(1).leave_one_out(2, [1]).indices.tolist() == [[-1, -1]]


@given(st.lists(st.integers(0, N - 1), max_size=12), st.lists(st.integers(0, N - 1), max_size=9), st.integers(1, 5))
def test_some_rows_have_the_neighbors_that_the_loop_finds(rows, gone, k):
    live = [i for i in range(N) if i not in gone]
    found, _ = reference.nearest(X[live], X[live], k, reference.euclidean, leave_out_itself=True)
    expected = {row: [live[i] for i in line] for row, line in zip(live, found, strict=True)}
    table = ns.NeighborIndex().fit(X).remove(gone).leave_one_out(k, rows)
    assert table.indices.tolist() == [expected.get(row, [-1] * k) for row in rows]


def test_there_is_no_row_among_none():
    assert check_row_numbers([], 0).tolist() == []
    with pytest.raises(InputError, match="No row has the number 0: there are no rows"):
        check_row_numbers([0], 0)


@pytest.mark.parametrize("row", [2, 10**6, 2**62])
@pytest.mark.parametrize("relevance", ["count", "prior", "rank", "distance", "exp-z", "transfer"])
def test_a_neighbor_without_keywords_of_its_own_is_refused(row, relevance):
    neighbors = ns.NeighborTable(np.array([[0, row]]), np.array([[0.0, 1.0]]))
    with pytest.raises(InputError, match=f"row number {row}, but there are keywords for 2 rows"):
        ns.annotate.measures_by_k(neighbors, [[1, 0], [0, 1]], [[1, 0]], [2], relevance=relevance, n_keywords=1)


@pytest.mark.parametrize(
    ("indices", "distances", "words"),
    [
        ([[0]], np.zeros((1, 1)), "indices of a neighbor table are an array of whole numbers; got list"),
        (np.zeros((1, 1)), np.zeros((1, 1)), "whole numbers; got float64"),
        (np.zeros((1, 1), int), np.zeros((1, 1), int), "distances of a neighbor table are an array of floats"),
        (np.zeros((1, 2), int), np.zeros((1, 1)), r"\(1, 2\) and \(1, 1\)"),
    ],
)
def test_a_neighbor_table_is_made_of_numbers_and_distances(indices, distances, words):
    with pytest.raises(InputError, match=words):
        ns.NeighborTable(indices, distances)


@pytest.mark.parametrize("rows", [0, np.int64(0)])
def test_one_row_needs_brackets(rows):
    with pytest.raises(InputError, match=r"For one row pass \["):
        ns.NeighborIndex().fit(X).leave_one_out(1, rows)
