"""The index: what it holds, how it changes, what it refuses, and how it is saved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nearsay as ns
from nearsay.errors import InputError, NotFitted, SavedFileError
from nearsay.neighbors.neighbor_search import no_neighbors, order_measured
from tests.reference import neighbors as reference

small = st.integers(0, 3)


@st.composite
def changes(draw: st.DrawFn) -> tuple[np.ndarray, list[tuple[str, np.ndarray]]]:
    """Rows full of ties, and a sequence of additions and removals that leaves at least two rows."""
    rows = lambda n: np.array(draw(st.lists(st.tuples(small, small), min_size=n, max_size=n)), float)  # noqa: E731
    first = rows(draw(st.integers(2, 8)))
    live, given_out, steps = list(range(len(first))), len(first), []
    for _ in range(draw(st.integers(1, 6))):
        if draw(st.booleans()) and len(live) > 2:
            gone = draw(st.lists(st.sampled_from(live), min_size=1, max_size=len(live) - 2, unique=True))
            live = [row for row in live if row not in gone]
            steps.append(("remove", np.array(gone)))
        else:
            more = rows(draw(st.integers(1, 4)))
            live += range(given_out, given_out + len(more))
            given_out += len(more)
            steps.append(("add", more))
    return first, steps


@pytest.mark.parametrize("distance", ["euclidean", "manhattan"])
@given(changed=changes(), k=st.integers(1, 5))
@settings(max_examples=40)
def test_an_index_that_was_changed_answers_as_one_built_anew(distance, changed, k):
    first, steps = changed
    index = ns.NeighborIndex(distance, search="exact").fit(first)
    rows, live = list(first), set(range(len(first)))
    for step, what in steps:
        if step == "add":
            numbers = index.add(what)
            assert list(numbers) == list(range(len(rows), len(rows) + len(what)))
            rows += list(what)
            live |= set(numbers.tolist())
        else:
            index.remove(what)
            live -= set(what.tolist())
    order = sorted(live)
    k = min(k, len(order) - 1)
    slow = getattr(reference, distance)
    kept = [rows[row] for row in order]
    found, far = reference.nearest(kept, rows, k, slow)
    table = index.query(np.array(rows), k)
    np.testing.assert_array_equal(table.indices, [[order[i] for i in line] for line in found])
    np.testing.assert_allclose(table.distances, far, rtol=1e-12)
    left_out, _ = reference.nearest(kept, kept, k, slow, leave_out_itself=True)
    own = index.leave_one_out(k)
    np.testing.assert_array_equal(own.indices[order], [[order[i] for i in line] for line in left_out])
    gone = [row for row in range(len(rows)) if row not in live]
    assert (own.indices[gone] == -1).all()
    assert np.isposinf(own.distances[gone]).all()
    assert len(index) == len(live)


def test_rows_given_to_fit_are_neither_copied_nor_written_to():
    X = np.arange(12.0).reshape(6, 2)
    before = X.copy()
    index = ns.NeighborIndex().fit(X)
    index.add([[1.0, 1.0]])
    index.remove([0])
    index.query(X, 3)
    assert np.shares_memory(index.search_.rows_.items, X)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (lambda: ns.nearest([[0.0], [np.nan]], [[1.0]], 1), "X holds nan at row 1, column 0"),
        (lambda: ns.nearest([[0.0]], [[np.inf]], 1), "Q holds inf at row 0"),
        (lambda: ns.nearest([[1e200]], [[1.0]], 1), "too large to square"),
        (lambda: ns.nearest([[0.0]], [[1.0]], 2), "k=2 neighbors, but the collection has 1 row"),
        (lambda: ns.leave_one_out([[0.0], [1.0]], 2), "so 1 besides the row itself"),
        (lambda: ns.nearest([[0.0]], [[1.0]], 0), "at least 1; got 0"),
        (lambda: ns.nearest([[0.0]], [[1.0]], 1.5), "whole number; got 1.5"),
        (lambda: ns.nearest([[0.0]], [[1.0]], True), "whole number; got True"),
        (lambda: ns.nearest([[0.0, 1.0]], [[1.0]], 1), "Q has 1 columns, but 2 are expected"),
        (lambda: ns.nearest([0.0, 1.0], [[1.0]], 1), "two dimensions"),
        (lambda: ns.nearest(np.empty((0, 3)), np.empty((1, 3)), 1), "at least one row"),
        (lambda: ns.nearest(np.empty((3, 0)), np.empty((1, 0)), 1), "no columns"),
        (lambda: ns.nearest([["a"]], [["b"]], 1), "must hold numbers"),
        (lambda: ns.nearest([[0.0]], [[1.0]], 1, metric="euclid"), "did you mean 'euclidean'"),
        (lambda: ns.nearest([[0.0]], [[1.0]], 1, search="fast"), "Unknown search 'fast'"),
        (lambda: ns.nearest([[0.0, 0.0]], [[1.0, 0.0]], 1, metric="cosine"), "row 0"),
        (lambda: ns.NeighborIndex().fit([[0.0]]).remove([3]), "No row has the number 3"),
        (lambda: ns.NeighborIndex().fit([[0.0], [1.0]]).remove([1]).remove([1]), "No row has the number 1"),
        (lambda: ns.NeighborIndex().fit([[0.0]]).remove([0.5]), "whole numbers .* got float64, such as 0.5"),
        (lambda: ns.NeighborIndex().fit([[0.0]]).add([[1.0, 2.0]]), "columns"),
        (lambda: ns.NeighborIndex().fit([[0]]).add([[0.5]]), "without loss"),
    ],
)
def test_bad_input_is_answered_in_words(work, words):
    with pytest.raises(InputError, match=words):
        work()


def test_an_index_asked_before_fit_says_so():
    with pytest.raises(NotFitted, match="Call fit"):
        ns.NeighborIndex().query([[0.0]], 1)


def test_a_failed_removal_removes_nothing():
    index = ns.NeighborIndex().fit([[0.0], [1.0]])
    with pytest.raises(InputError):
        index.remove([0, 7])
    assert len(index) == 2


def test_removing_nothing_removes_nothing():
    index = ns.NeighborIndex().fit([[0.0], [1.0]])
    assert len(index.remove([]).remove([0]).remove([])) == 1


@pytest.mark.parametrize("search", ["exact", "kd"])
@pytest.mark.parametrize("distance", ["euclidean", "cosine", "manhattan"])
def test_no_queries_give_an_empty_table(distance, search):
    table = ns.nearest([[1.0, 0.0], [1.0, 2.0]], np.empty((0, 2)), 2, metric=distance, search=search)
    assert table.indices.shape == table.distances.shape == (0, 2)


@pytest.mark.parametrize(
    "distance", ["euclidean", "cosine", ("minkowski", {"p": 3}), ("mahalanobis", {"M": np.diag([1.0, 2.0, 3.0])})]
)
def test_a_saved_index_gives_the_same_answers_and_row_numbers(tmp_path: Path, distance):
    rng = np.random.default_rng(0)
    X, Q = rng.normal(size=(40, 3)), rng.normal(size=(9, 3))
    index = ns.NeighborIndex(distance, search="exact").fit(X)
    index.add(rng.normal(size=(5, 3)))
    index.remove([2, 41])
    index.save(tmp_path / "index.nearsay")
    opened = ns.NeighborIndex.open(tmp_path / "index.nearsay")
    for one, other in zip(
        (index.query(Q, 7), index.leave_one_out(3)), (opened.query(Q, 7), opened.leave_one_out(3)), strict=True
    ):
        np.testing.assert_array_equal(one.indices, other.indices)
        np.testing.assert_array_equal(one.distances, other.distances)
    assert list(opened.add([[0.0, 0.0, 1.0]])) == list(index.add([[0.0, 0.0, 1.0]])) == [45]


def test_an_index_with_a_function_as_distance_says_why_it_is_not_saved(tmp_path: Path):
    index = ns.NeighborIndex(lambda a, b: abs(len(a) - len(b))).fit(["a", "bb"])
    with pytest.raises(InputError, match=r"metric is the function .* not data"):
        index.save(tmp_path / "index.nearsay")
    assert not list(tmp_path.iterdir())


def test_another_kind_of_file_does_not_open_as_an_index(tmp_path: Path):
    (tmp_path / "x").write_bytes(b"hello")
    with pytest.raises(SavedFileError, match="not saved by nearsay"):
        ns.NeighborIndex.open(tmp_path / "x")


@pytest.mark.parametrize("k", [70, 200])
@given(seed=st.integers(0, 1000), n=st.integers(1, 300), scale=st.sampled_from([0, 1, 9, 1000, np.inf]))
def test_long_lists_are_in_order_ties_by_row_number(k, seed, n, scale):
    """Also where most distances are the same, or far beyond the others."""
    rng = np.random.default_rng(seed)
    candidates = rng.permutation(n)
    distances = rng.choice([0.0, 1.0, 1 / 3, 1e300, scale, *rng.random(n)], n)
    table = no_neighbors(1, k)
    order_measured(candidates[None], distances[None], np.array([0]), table)
    order = np.lexsort([candidates, distances])
    order = order[candidates[order] != 0][:k]
    assert table.indices[0].tolist() == [*candidates[order], *[-1] * (k - len(order))]
    assert table.distances[0].tolist() == [*distances[order], *[np.inf] * (k - len(order))]
