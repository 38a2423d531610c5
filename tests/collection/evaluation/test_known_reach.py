"""How far the neighbors of a row reach stays known while rows come and go elsewhere, and is never out of date."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from nearsay.collection.state.collection_state import MOST_CHANGED, NeighborRadiusCache
from nearsay.collection.state.live_views import LiveTransform, LiveView, Voters
from tests.reference import neighbors as reference


def voters(votes):
    votes = np.array(votes, np.bool_)
    return Voters(votes, np.zeros(len(votes), np.int64), 1, np.full(len(votes), -1, np.int8))


def reach(X, votes, k, metric):
    """How far the k-th other voter of each row is; +inf without so many."""
    measure = getattr(reference, metric)
    far = np.array([[measure(a, b) for b in X.tolist()] for a in X.tolist()])
    np.fill_diagonal(far, np.inf)
    far[:, ~votes] = np.inf
    return np.sort(np.column_stack([far, np.full(len(far), np.inf)]), axis=1)[:, k - 1]


@given(st.data())
def test_what_is_still_known_is_what_a_search_would_find(data):
    metric = data.draw(st.sampled_from(["euclidean", "sqeuclidean", "cosine"]))
    n = data.draw(st.integers(3, 14))
    grid = st.tuples(st.integers(1, 4), st.integers(1, 4))
    X = np.array(data.draw(st.lists(grid, min_size=n, max_size=n)), np.float32)
    k = data.draw(st.integers(1, 3))
    n_first = data.draw(st.integers(2, n))
    votes = np.array(data.draw(st.lists(st.booleans(), min_size=n_first, max_size=n_first)))
    view = LiveView(LiveTransform("all", metric), X[:n_first], voters(votes))
    known = NeighborRadiusCache.unknown(view)
    for _ in range(data.draw(st.integers(1, 4))):
        met = data.draw(st.lists(st.integers(0, len(votes) - 1), max_size=6))
        known.values[met] = reach(X[: len(votes)], votes, k, metric)[met]
        before = len(votes)
        changes = data.draw(st.lists(st.integers(0, before - 1), max_size=2, unique=True))
        votes = votes.copy()
        votes[changes] = ~votes[changes]
        more = data.draw(st.integers(0, min(2, n - before)))
        votes = np.append(votes, data.draw(st.lists(st.booleans(), min_size=more, max_size=more))).astype(np.bool_)
        view = view.changed(X[before : before + more], voters(votes))
        known = known.following(view)
        present = np.isfinite(known.values) & votes
        assert_allclose(
            known.values[present], reach(X[: len(votes)], votes, k, metric)[present], rtol=1e-12, atol=1e-12
        )


def test_labels_change_nothing_and_one_row_only_what_is_near_it():
    X = np.arange(40, dtype=np.float32)[:, None] ** 2
    view = LiveView(LiveTransform("all", "euclidean"), X, voters([True] * 40))
    known = NeighborRadiusCache.unknown(view)
    known.values[:] = reach(X, view.voters.votes, 2, "euclidean")
    assert known.following(view.changed(X[:0], voters([True] * 40))) is known
    fewer = known.following(view.changed(X[:0], voters([row != 20 for row in range(40)])))
    unknown = np.flatnonzero(np.isnan(fewer.values))
    assert {19, 21} <= set(unknown) <= {18, 19, 20, 21, 22}
    assert not np.isnan(known.values).any()


@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
def test_where_many_change_or_nothing_can_be_told_quickly_all_is_unknown(metric):
    n_changed = 1 if metric == "manhattan" else MOST_CHANGED + 1
    X = np.arange(80, dtype=np.float32)[:, None]
    view = LiveView(LiveTransform("all", metric), X, voters([True] * 80))
    known = NeighborRadiusCache.unknown(view)
    known.values[:] = 1.0
    other = known.following(view.changed(X[:0], voters([row >= n_changed for row in range(80)])))
    assert np.isnan(other.values).all()
