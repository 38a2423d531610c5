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
from nearsay.errors import InputError
from nearsay.neighbors import neighbor_search
from nearsay.search.exact import ExactSearch
from nearsay.web.content import map_layout
from nearsay.web.content.map_layout import components, euclidean_form, map_of, neighbor_layout
from nearsay.web.content.map_layout_kernels import draw_together, push_apart
from tests.served_collections import client_of

GRID = st.tuples(st.integers(-3, 3), st.integers(-3, 3))


@given(
    rows=st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), min_size=2, max_size=12),
    cut=st.integers(0, 12),
)
def test_components_are_the_two_widest_directions(rows, cut):
    X = np.array(rows, float)
    found = components([X[:cut], X[cut:]], 3).astype(float)
    centered = X - X.mean(axis=0)
    variances = np.linalg.svd(centered, compute_uv=False)[:2] ** 2
    both = np.zeros(2)
    both[: len(variances)] = variances
    assert_allclose((found**2).sum(axis=0), both, atol=1e-3)
    assert_allclose(found.T @ found, np.diag(both), atol=1e-3)


@pytest.mark.parametrize("width", [1, 2, 7])
def test_components_of_many_columns_are_found_without_their_covariances(width):
    X = np.random.default_rng(0).normal(size=(40, width)) * np.arange(1, width + 1)
    found = components([X], width, most_columns=2, rows_at_once=7)
    assert_allclose(found, components([X], width), atol=1e-4)
    if width > 2:
        directions = map_layout._widest(lambda: iter([X]), X.mean(axis=0), np.ones(width), 2)
        assert (directions[np.abs(directions).argmax(axis=0), [0, 1]] > 0).all()


def test_every_feature_group_varies_as_much_as_any_other():
    X = np.random.default_rng(0).normal(size=(50, 4)) * [1000, 1000, 1, 1]
    scaled = X / [1, 1, 1e-3, 1e-3]
    one, other = components([X], 4, [(0, 2), (2, 4)]), components([scaled], 4, [(0, 2), (2, 4)])
    assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@given(st.lists(st.integers(0, 40), max_size=5), st.sampled_from([1, 3, 8, 100]))
def test_where_blocks_end_changes_no_bit(cuts, at_once):
    X = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    blocks = np.split(X, sorted(cuts))
    for groups in (None, [(0, 2), (2, 5)]):
        one, other = (components(some, 5, groups, rows_at_once=at_once) for some in (blocks, [X]))
        assert_array_equal(one, other)


def test_forgotten_rows_have_no_place_and_sealing_and_threads_change_no_bit(tmp_path):
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
        assert open_rows.dtype == np.float32
        assert_array_equal(np.flatnonzero(np.isnan(open_rows).all(axis=1)), [7, 150])
        living = np.delete(np.arange(300), [7, 150])
        assert_allclose(open_rows[living], components([X[living]], 6), atol=1e-4)


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


def test_a_map_by_neighbors_keeps_neighbors_that_components_lose_and_is_the_same_every_time():
    rng = np.random.default_rng(0)
    X = np.repeat(np.eye(12) * 5, 9, axis=0) + rng.normal(size=(108, 12))
    neighbors = neighbor_search.leave_one_out(ExactSearch().fit(X), 8).indices
    start = components([X], 12)
    placed = neighbor_layout(neighbors, start, rounds=40)
    assert_array_equal(placed, neighbor_layout(neighbors, start, rounds=40))

    def kept(points):
        found = neighbor_search.leave_one_out(ExactSearch().fit(points.astype(float)), 8).indices
        return np.mean([np.isin(one, other).mean() for one, other in zip(found, neighbors, strict=True)])

    assert kept(placed) > 1.5 * kept(start)


def test_a_map_of_few_items_is_made_and_one_by_neighbors_of_too_many_refused(tmp_path, monkeypatch):
    with LiveCollection.create(tmp_path / "few", 2) as collection:
        for row in range(3):
            collection.add([str(row)], np.zeros((1, 2)), ["a"])
            assert all(np.isfinite(map_of(collection, name)).all() for name in map_layout.LAYOUTS)
        monkeypatch.setattr(map_layout, "MOST_BY_NEIGHBORS", 2)
        assert "limited to 2 items; there are 3" in client_of(collection).get("/map?layout=neighbors").text
        with pytest.raises(InputError, match="limited to 2 items"):
            map_of(collection, "neighbors")


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
