"""The table behind ``python -m reproduce nearest``: the shortlist, the sizes, and the errors themselves."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nearsay.core.arrays import evenly
from nearsay.data.datasets import load_dataset
from nearsay.data.rows import LabeledRows
from nearsay.errors import InputError
from nearsay.neighbors.neighbor_search import nearest
from nearsay.search.exact import ExactSearch
from reproduce import nearest as paper
from reproduce.nearest import PUBLISHED, Shortlist, error_percent

few = settings(max_examples=25)

rows_with_ties = arrays(np.float64, (9, 3), elements=st.integers(0, 2).map(float))


@few
@given(X=rows_with_ties, Q=rows_with_ties, k=st.integers(1, 9))
def test_a_shortlist_of_all_rows_finds_what_exact_search_finds(X, Q, k):
    expected = nearest(ExactSearch("manhattan").fit(X), Q, k)
    found = nearest(Shortlist("manhattan", n_candidates=9).fit(X), Q, k)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.distances, expected.distances)


@few
@given(X=rows_with_ties, Q=rows_with_ties, n_candidates=st.integers(1, 9))
def test_a_shortlist_holds_the_rows_nearest_by_euclidean_distance(X, Q, n_candidates):
    found = nearest(Shortlist("manhattan", n_candidates).fit(X), Q, n_candidates)
    expected = nearest(ExactSearch("euclidean").fit(X), Q, n_candidates)
    np.testing.assert_array_equal(np.sort(found.indices), np.sort(expected.indices))


def test_a_shortlist_grows_and_forgets_with_its_rows():
    search = Shortlist("manhattan", n_candidates=2).fit([[0.0], [1.0], [5.0]])
    assert search.add([[2.0]]).tolist() == [3]
    search.remove([1])
    assert nearest(search, [[1.9]], 2).indices.tolist() == [[3, 0]]


@few
@given(n=st.integers(1, 200), share=st.floats(0.0, 1.0))
def test_evenly_chosen_numbers_are_different_and_in_range(n, share):
    chosen = evenly(n, round(share * n))
    assert len(chosen) == round(share * n)
    assert (np.diff(chosen) > 0).all()
    assert ((chosen >= 0) & (chosen < n)).all()
    np.testing.assert_array_equal(evenly(n, n), np.arange(n))


@few
@given(X=rows_with_ties, y=arrays(np.int64, 9, elements=st.integers(0, 2)), k=st.sampled_from([1, 3]))
def test_the_error_is_the_share_of_wrong_votes(X, y, k):
    wrong = 0
    for q, truth in zip(X, y, strict=True):
        near = sorted(range(9), key=lambda row: (sum((q - X[row]) ** 2), row))[:k]
        votes = [sum(y[other] == y[row] for other in near) for row in near]
        wrong += y[near[votes.index(max(votes))]] != truth
    assert error_percent(nearest(ExactSearch().fit(X), X, k), y, y) == pytest.approx(100 * wrong / 9)


@pytest.fixture
def small_mnist(monkeypatch):
    """scikit-learn's digits in MNIST's place: 1500 to learn from, 297 to ask about."""
    digits = load_dataset("digits")
    parts = {"train": slice(0, 1500), "test": slice(1500, None)}
    monkeypatch.setattr(
        paper,
        "load_dataset",
        lambda name, split: LabeledRows(digits.X[parts[split]], np.asarray(digits.y)[parts[split]]),
    )


def test_the_table_has_a_row_for_each_published_distance_and_is_plain(small_mnist):
    told = []
    table = paper.run(n_train=400, n_test=40, n_candidates=20, n_shape_test=4, progress=told.append)
    assert json.loads(json.dumps(table)) == table
    assert [(row["method"], row["k"]) for row in table["rows"]] == [(method, k) for method in PUBLISHED for k in (1, 3)]
    assert len(told) == 3
    for row in table["rows"]:
        assert 0 <= row["error_percent"] <= 100
        assert row["n_train"] == 400
        assert row["n_test"] == (4 if row["method"] == "shape_context" else 40)
    assert [row["note"].split(";")[0] for row in table["rows"][::2]] == [
        "every row measured",
        "the 20 rows nearest by L2 measured",
        "the 30 rows nearest by L2 measured",
    ]


def test_all_candidates_and_a_shortlist_as_long_as_the_collection_are_the_same(small_mnist):
    sizes = {"n_train": 60, "n_test": 30, "n_shape_test": 0}
    assert paper.run(n_candidates=None, **sizes) == paper.run(n_candidates=60, **sizes)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"n_train": 1501}, "n_train is how many training images are used, from 3 to 1500; got 1501"),
        ({"n_train": 2}, "from 3 to 1500; got 2"),
        ({"n_test": 0}, "n_test is how many test images"),
        ({"n_test": 2.5}, "got 2.5"),
        ({"n_shape_test": -1}, "from 0 to 297"),
    ],
)
def test_sizes_that_the_data_cannot_serve_are_refused(small_mnist, sizes, message):
    with pytest.raises(InputError, match=message):
        paper.run(**{"n_train": 100, "n_test": 10, "n_shape_test": 1, **sizes})


@pytest.mark.skipif("NEARSAY_DATA" not in os.environ, reason="NEARSAY_DATA, the folder of data sets, is not set")
def test_tangent_distance_is_wrong_less_often_than_euclidean_on_mnist():
    table = paper.run(n_train=3000, n_test=300, n_candidates=30, n_shape_test=0)
    errors = {(row["method"], row["k"]): row["error_percent"] for row in table["rows"]}
    for k in (1, 3):
        assert errors["tangent", k] < 0.75 * errors["euclidean", k]
        assert errors["euclidean", k] < 12
