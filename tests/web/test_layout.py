"""A map is the same however its rows are cut, sees them as the metric does, and moves points as was written down."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist

from nearsay.collection import LiveCollection
from nearsay.collection.state.feature_groups import FeatureGroups
from nearsay.core.parallel import threads
from nearsay.distances.named import as_distance
from nearsay.web.content.map_layout import components, euclidean_form, map_of
from nearsay.web.content.map_layout_kernels import draw_together, push_apart
from tests.served_collections import client_of

GRID = st.tuples(st.integers(-3, 3), st.integers(-3, 3))


@given(st.lists(st.integers(0, 40), max_size=5), st.sampled_from([1, 3, 8, 100]))
def test_where_blocks_end_changes_no_bit(cuts, at_once):
    X = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    blocks = np.split(X, sorted(cuts))
    for groups in (None, [(0, 2), (2, 5)]):
        one, other = (components(some, 5, groups, rows_at_once=at_once) for some in (blocks, [X]))
        assert_array_equal(one, other)


def test_sealing_and_threads_change_no_bit(tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 6))
    with LiveCollection.create(tmp_path / "c", 6) as collection:
        for start in range(0, 300, 100):
            ids = [str(row) for row in range(start, start + 100)]
            collection.add(ids, X[start : start + 100], ["oak", "elm"] * 50)
            if start == 0:
                collection.store.seal(min_rows=1)
        collection.forget(["7", "150"])
        open_rows = map_of(collection)
        collection.store.seal(min_rows=1)
        with threads(2):
            assert_array_equal(map_of(collection), open_rows)
        assert_array_equal(np.flatnonzero(np.isnan(open_rows[:, 0])), [7, 150])


@pytest.mark.parametrize("metric", ["cosine", "correlation", "hellinger"])
def test_components_see_rows_as_the_metric_does(tmp_path, metric):
    X = np.random.default_rng(0).random((60, 4)) + 0.1
    seen = euclidean_form({"metric": metric})
    between, measured = cdist(seen(X), seen(X)), as_distance(metric).pairwise(X, X)
    pairs = np.triu_indices(60, 1)
    assert_array_equal(np.argsort(between[pairs]), np.argsort(measured[pairs]))
    with LiveCollection.create(tmp_path / "c", 4, metric=metric) as collection:
        collection.add([str(row) for row in range(60)], X, ["oak", "elm"] * 30)
        assert_allclose(map_of(collection), components([X.astype(np.float32)], 4, transform=seen), atol=1e-6)
        assert client_of(collection).get("/map.json").json()["seen_as"] is None


def test_every_feature_group_is_seen_by_its_own_metric():
    X = np.random.default_rng(0).random((30, 5))
    metrics = {"a": "cosine", "b": "euclidean"}
    seen = euclidean_form(FeatureGroups.of_parameters({"a": (0, 2), "b": (2, 5)}, metrics, 5).to_settings())(X)
    assert_allclose(seen[:, :2], X[:, :2] / np.linalg.norm(X[:, :2], axis=1, keepdims=True))
    assert_array_equal(seen[:, 2:], X[:, 2:])


def test_where_a_metric_cannot_be_followed_the_page_says_so(tmp_path):
    with LiveCollection.create(tmp_path / "c", 2, metric="manhattan") as collection:
        collection.add(["a", "b", "c"], [[0.0, 1.0], [1.0, 1.0], [4.0, 2.0]], ["oak", "oak", "elm"])
        client = client_of(collection)
        told = client.get("/map.json").json()["seen_as"]
        assert "manhattan" in told
        assert told in client.get("/map").text


@given(st.lists(GRID, min_size=2, max_size=9), st.data())
def test_points_are_drawn_and_pushed_as_written_down(points, data):
    Y, n = np.array(points, np.float64), len(points)
    edges = data.draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), st.integers(1, 4)), max_size=20))
    others = np.array(data.draw(st.permutations(range(n))))
    drawn, pushed, close = np.zeros((n, 2)), np.zeros((n, 2)), 0.0
    for i, j, share in sorted(edges, key=lambda edge: edge[0]):
        drawn[i] += 3.0 * share / (1 + ((Y[j] - Y[i]) ** 2).sum()) * (Y[j] - Y[i])
    for i, j in enumerate(others):
        near = 1 / (1 + ((Y[i] - Y[j]) ** 2).sum())
        pushed[i] += (Y[i] - Y[j]) * near**2
        close += near
    in_order = sorted(edges, key=lambda edge: edge[0])
    starts = np.searchsorted([edge[0] for edge in in_order], np.arange(n + 1))
    ends, shares = np.array([edge[1] for edge in in_order], np.int64), np.array([edge[2] for edge in in_order], float)
    found, away = np.empty((n, 2)), np.zeros((n, 2))
    draw_together(starts, ends, shares, Y, 3.0, found)
    assert_allclose(found, drawn, atol=1e-12)
    assert_allclose(push_apart(others, Y, away), close)
    assert_allclose(away, pushed, atol=1e-12)
