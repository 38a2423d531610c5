"""Distances a user brings along: Python functions of any items, compiled functions, matrices."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numba import njit

import nearsay as ns
from nearsay.distances.functions import _compiled_loop
from nearsay.distances.named import as_distance
from nearsay.errors import InputError
from tests.reference import neighbors as reference

# ---------------------------------------------------------------- Python functions


def edits(a: str, b: str) -> int:
    """Levenshtein's distance."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


WORDS = ["pear", "peas", "bear", "beer", "deer", "dear", "pea", "peat", "heat", "hear", "head", "bead", "bear"]


@pytest.mark.parametrize("rows", [list, tuple, np.array, pd.Series])
def test_words_have_neighbors_by_any_function(rows):
    table = ns.nearest(rows(WORDS), ["fear", "beard"], 5, metric=edits)
    expected = reference.nearest(WORDS, ["fear", "beard"], 5, edits)
    assert (table.indices.tolist(), table.distances.tolist()) == expected


def test_words_can_be_left_out_added_and_removed():
    index = ns.NeighborIndex(edits).fit(WORDS[:6])
    index.add(WORDS[6:])
    assert (
        index.leave_one_out(4).indices.tolist() == reference.nearest(WORDS, WORDS, 4, edits, leave_out_itself=True)[0]
    )
    index.remove([0, 7])
    live = [i for i in range(len(WORDS)) if i not in (0, 7)]
    expected = reference.nearest([WORDS[i] for i in live], ["pear"], 11, edits)[0][0]
    assert index.query(["pear"], 11).indices[0].tolist() == [live[i] for i in expected]
    assert index.leave_one_out(2).indices[0].tolist() == [-1, -1]


def test_longer_words_are_added_uncut_to_an_array_of_words():
    index = ns.NeighborIndex(edits).fit(np.array(["pear", "fig"]))
    index.add(np.array(["persimmon"]))
    assert index.query(["persimmon"], 1).distances.tolist() == [[0.0]]


def test_images_are_compared_whole():
    rng = np.random.default_rng(3)
    images = rng.integers(0, 3, size=(9, 4, 4))
    brightness = lambda a, b: abs(float(a.mean()) - float(b.mean()))  # noqa: E731
    index = ns.NeighborIndex(brightness).fit(images[:5])
    index.add(images[5:])
    expected = reference.nearest(images, images, 3, brightness, leave_out_itself=True)
    assert index.leave_one_out(3).indices.tolist() == expected[0]
    with pytest.raises(InputError, match=r"shape \(4, 4\)"):
        index.add(images[:, :2])
    with pytest.raises(InputError, match=r"shape \(4, 4\)"):
        index.add([images[0], images[0, :2]])


def test_a_data_frame_is_compared_row_by_row():
    frame = pd.DataFrame({"a": [0.0, 5.0, 1.0], "b": [0.0, 5.0, 0.0]})
    table = ns.nearest(frame, frame[:1], 3, metric=lambda a, b: abs(a - b).sum())
    assert table.indices.tolist() == [[0, 2, 1]]


def test_the_query_comes_first():
    assert ns.nearest([10.0, 0.0], [5.0], 2, metric=lambda query, row: 9 + row - query).indices.tolist() == [[1, 0]]


# ---------------------------------------------------------------- compiled functions


@njit
def weighted(a, b):
    total = 0.0
    for j in range(len(a)):
        total += (j + 1) * abs(a[j] - b[j])
    return total


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_a_compiled_function_finds_what_it_finds_uncompiled(dtype):
    X = np.random.default_rng(4).integers(0, 4, size=(60, 3)).astype(dtype)
    fast = ns.leave_one_out(X, 7, metric=weighted)
    slow = ns.leave_one_out(X.astype(float), 7, metric=weighted.py_func)
    np.testing.assert_array_equal(fast.indices, slow.indices)
    np.testing.assert_array_equal(fast.distances, slow.distances)


def test_a_function_is_compiled_once():
    for dtype in (np.float32, np.float64):
        ns.leave_one_out(np.eye(4, dtype=dtype), 2, metric=weighted)
    assert len(_compiled_loop(weighted).signatures) == 1


def test_a_compiled_function_must_give_finite_numbers():
    @njit
    def ratio(a, b):
        return a[0] / b[0]

    @njit
    def pair(a, b):
        return a, b

    with pytest.raises(InputError, match="ratio gave nan"):
        as_distance(ratio)([0.0], [0.0])
    with pytest.raises(InputError, match="pair does not compile as a distance"):
        as_distance(pair)([0.0], [0.0])


# ---------------------------------------------------------------- a matrix of distances


def test_a_matrix_gives_the_neighbors_of_the_distance_it_was_made_with():
    rng = np.random.default_rng(5)
    X, Q = rng.integers(0, 3, size=(50, 3)), rng.integers(0, 3, size=(40, 3))
    distance = as_distance("manhattan")
    matrix, queries = distance.pairwise(X).astype(np.float32), distance.pairwise(Q, X)
    for ours, theirs in (
        (ns.nearest(matrix, queries, 9, metric="precomputed"), ns.nearest(X, Q, 9, metric="manhattan")),
        (ns.leave_one_out(matrix, 9, metric="precomputed"), ns.leave_one_out(X, 9, metric="manhattan")),
    ):
        np.testing.assert_array_equal(ours.indices, theirs.indices)
        np.testing.assert_array_equal(ours.distances, theirs.distances)


def test_a_matrix_is_read_in_blocks_and_never_written_to():
    n = 1500
    X = np.random.default_rng(6).integers(0, 9, size=(n, 1)).astype(float)
    matrix = as_distance("manhattan").pairwise(X)
    before = matrix.copy()
    index = ns.NeighborIndex("precomputed").fit(matrix).remove([3, 1400])
    expected = ns.NeighborIndex("manhattan").fit(X).remove([3, 1400])
    np.testing.assert_array_equal(index.leave_one_out(4).indices, expected.leave_one_out(4).indices)
    np.testing.assert_array_equal(index.query(matrix[:2], 4).indices, expected.query(X[:2], 4).indices)
    np.testing.assert_array_equal(matrix, before)


def test_the_diagonal_of_a_matrix_does_not_matter():
    matrix = as_distance("manhattan").pairwise(np.arange(6.0)[:, None] ** 2)
    expected = ns.leave_one_out(matrix, 5, metric="precomputed")
    for diagonal in (-7.0, 1e9):
        np.fill_diagonal(matrix, diagonal)
        np.testing.assert_array_equal(ns.leave_one_out(matrix, 5, metric="precomputed").indices, expected.indices)


def test_nothing_can_be_added_to_a_matrix():
    index = ns.NeighborIndex("precomputed").fit(np.ones((2, 2)))
    with pytest.raises(InputError, match="distances from the fitted rows to the new ones are missing"):
        index.add(np.ones((1, 2)))


SQUARE = np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0)))
LABELS = [0, 0, 0, 1, 1, 1]
VOTES = ns.NeighborClassifier(2, metric="precomputed", posterior="proportional")
TREE = ns.Taxonomy.from_edges([("all", 0), ("all", 1)])


@pytest.mark.parametrize(
    ("fit", "ask"),
    [
        (ns.NeighborIndex("precomputed").fit, lambda index, Q: index.query(Q, 2)),
        (lambda X: X, lambda X, Q: ns.nearest(X, Q, 2, metric="precomputed")),
        (lambda X: ns.leave_one_out(X, 2, metric="precomputed"), None),
        (lambda X: VOTES.fit(X, LABELS), lambda clf, Q: clf.predict_proba(Q)),
        (lambda X: VOTES.fit(X, LABELS), lambda clf, Q: clf.kneighbors(Q)),
        (lambda X: ns.NeighborClassifier(metric="precomputed").fit(X, LABELS), lambda clf, Q: clf.explain(Q)),
        (lambda X: ns.HedgedClassifier(VOTES, TREE).fit(X, LABELS), lambda clf, Q: clf.predict(Q)),
        (lambda X: ns.ConformalClassifier(VOTES).fit(X, LABELS), lambda clf, Q: clf.predict_set(Q)),
        (
            lambda X: ns.KeywordAnnotator("nearest", n_neighbors=2, features={"all": (slice(None), "precomputed")}).fit(
                X, [["a"], ["b"]] * 3
            ),
            lambda annotator, Q: annotator.annotate(Q),
        ),
    ],
)
def test_precomputed_distances_below_zero_are_refused_wherever_they_come_in(fit, ask):
    similar = SQUARE.copy()
    similar[2, 1] = -0.25
    if ask is not None:
        ask(fit(SQUARE), SQUARE[:3])
        with pytest.raises(ns.InputError, match=r"\[2, 1\] is -0.25\. Similarities look like this"):
            ask(fit(SQUARE), similar)
    with pytest.raises(ns.InputError, match=r"\[2, 1\] is -0.25\. Similarities look like this"):
        fit(similar) if ask is None else ask(fit(similar), SQUARE[:3])
