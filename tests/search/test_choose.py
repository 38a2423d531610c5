"""The choice of a search: fast where it can be, exact unless told otherwise, and with a reason."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest

import nearsay as ns
from nearsay.distances.named import as_distance
from nearsay.errors import InputError, MissingExtra
from nearsay.search import choose as choosing
from nearsay.search.approximate import ApproximateSearch
from nearsay.search.choose import SEARCHES, choose, tree_is_faster
from nearsay.search.exact import ExactSearch
from nearsay.search.gpu.gpu_search import GpuSearch
from nearsay.search.trees import TreeSearch

EUCLIDEAN = as_distance("euclidean")
has_faiss = pytest.mark.skipif(importlib.util.find_spec("faiss") is None, reason="needs faiss")


def shaped(n: int, d: int) -> np.ndarray:
    """Rows of this shape that take no memory."""
    return np.broadcast_to(np.float32(0), (n, d))


@pytest.mark.parametrize(
    ("n", "d", "name"),
    [
        (1, 1, "exact"),
        (999, 2, "exact"),
        (1000, 2, "trees"),
        (10_000, 5, "trees"),
        (10_000, 6, "exact"),
        (1_000_000, 7, "trees"),
        (1_000_000, 64, "exact"),
        (100_000_000, 2, "exact"),  # a tree would take too much memory
    ],
)
def test_auto_takes_a_tree_for_many_rows_of_few_columns_and_says_why(n, d, name):
    choice = choose("auto", EUCLIDEAN, shaped(n, d))
    assert choice.name == name
    assert choice.search.exact
    assert str(n) in choice.why
    assert str(choice) == f"{name}: {choice.why}"


def test_more_columns_never_make_a_tree_faster_nor_fewer_rows():
    faster = np.array([[tree_is_faster(n, d) for d in range(1, 20)] for n in (10, 1000, 10**4, 10**5, 10**6)])
    assert (np.diff(faster.astype(int), axis=1) <= 0).all()
    assert (np.diff(faster.astype(int), axis=0) >= 0).all()


@has_faiss
def test_a_recall_allows_auto_to_be_approximate_where_that_is_faster():
    large = choose("auto", EUCLIDEAN, shaped(100_000, 64), recall=0.9)
    assert (large.name, large.search.recall) == ("approximate", 0.9)
    assert "0.9" in large.why
    for n, distance, recall in [(5000, "euclidean", 0.9), (100_000, "chi2", 0.9), (100_000, "euclidean", 1.0)]:
        assert choose("auto", as_distance(distance), shaped(n, 64), recall).name == "exact"
    assert "gains nothing" in choose("auto", EUCLIDEAN, shaped(5000, 64), 0.9).why
    assert "Euclidean form" in choose("auto", as_distance("chi2"), shaped(100_000, 64), 0.9).why


def test_without_faiss_auto_is_exact_and_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    choice = choose("auto", EUCLIDEAN, shaped(100_000, 64), recall=0.9)
    assert choice.name == "exact"
    assert 'pip install "nearsay[faiss]"' in choice.why


def test_without_faiss_asking_for_approximate_search_is_an_error_that_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtra, match=r"nearsay\[faiss\]"):
        ns.NeighborIndex(search="approximate").fit(np.zeros((10, 2)))


@pytest.mark.parametrize("name", SEARCHES)
def test_every_name_is_served_as_asked(name):
    choice = choose(name, EUCLIDEAN, shaped(10, 2))
    assert (choice.name, choice.why) == (name, "requested")
    expected = {"exact": ExactSearch, "gpu": GpuSearch, "trees": TreeSearch, "kd": TreeSearch, "ball": TreeSearch}
    assert type(choice.search) is expected.get(name, ApproximateSearch)
    if name in ("kd", "ball", "hnsw", "ivf"):
        assert choice.search.kind == name


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(InputError, match="Unknown search 'tree'") as caught:
        choose("tree", EUCLIDEAN, shaped(10, 2))
    assert all(name in str(caught.value) for name in ("auto", *SEARCHES))


@pytest.mark.parametrize("recall", [0.0, -1, 1.5])
def test_a_recall_that_is_no_share_is_refused(recall):
    with pytest.raises(InputError, match="recall"):
        choose("auto", EUCLIDEAN, shaped(10, 2), recall)


def test_a_search_that_is_passed_is_copied_and_never_written_to():
    mine = TreeSearch("manhattan", kind="ball")
    index = ns.NeighborIndex("manhattan", search=mine).fit(np.eye(4))
    assert index.chosen_.why == "you passed it"
    assert index.search_.kind == "ball"
    assert not hasattr(mine, "rows_")


@pytest.mark.parametrize(
    ("mine", "asked"),
    [("euclidean", "manhattan"), (("minkowski", {"p": 3}), ("minkowski", {"p": 4}))],
)
def test_a_search_that_measures_another_distance_is_refused(mine, asked):
    with pytest.raises(InputError, match="Pass the same metric to both"):
        choose(ExactSearch(as_distance(mine)), as_distance(asked), shaped(10, 2))


def test_whatever_exact_search_is_chosen_the_table_is_the_same():
    X = np.random.default_rng(0).integers(0, 9, size=(1500, 3)).astype(np.float32)
    tables = {name: ns.nearest(X, X[:200] + 0.5, 12, search=name) for name in ("auto", "exact", "kd", "ball")}
    assert choosing.choose("auto", EUCLIDEAN, X).name == "trees"
    for table in tables.values():
        np.testing.assert_array_equal(table.indices, tables["exact"].indices)
        np.testing.assert_array_equal(table.distances, tables["exact"].distances)
