"""GPU search, its steps run on the CPU: the same rows, order and bits as exact search.

``python -m benchmarks.gpu --audit`` runs the same comparisons on a GPU.
"""

from __future__ import annotations

import copy
import importlib.util
import pickle
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nearsay as ns
from nearsay.distances.named import as_distance
from nearsay.neighbors import neighbor_search
from nearsay.search import choose
from nearsay.search.exact import ExactSearch
from nearsay.search.gpu import bounds as gpu_bounds
from nearsay.search.gpu import collection as gpu_collection
from nearsay.search.gpu import rows as gpu_rows
from nearsay.search.gpu.gpu_search import GpuSearch
from nearsay.search.gpu.limits import GpuLimits, Room
from tests.reference import neighbors as reference
from tests.search.test_search import worst_rows

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="needs torch")

L = np.array([[1.0, 0.5, 0.0], [0.0, 2.0, -1.0]])
METRICS = ["euclidean", "sqeuclidean", "cosine", "correlation", "hellinger", ("mahalanobis", {"L": L})]
# Groups of rows and lists of candidates: as for few and many neighbors, and so short that most queries stay open.
ROOMS = [Room(64, 256, 64), Room(16, 256, 64), Room(4, 8, 16), Room(2, 3, 4)]


def on_cpu(metric: object = "euclidean", **limits: object) -> GpuSearch:
    """A GPU search whose steps run on the CPU."""
    return GpuSearch(metric, device="cpu", limits=GpuLimits(**limits))


def assert_same(one: ns.NeighborTable, other: ns.NeighborTable) -> None:
    np.testing.assert_array_equal(one.indices, other.indices)
    np.testing.assert_array_equal(one.distances, other.distances)


@st.composite
def rows_and_queries(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Few different numbers, so that ties and duplicates are everywhere; around any offset, in any unit."""
    n, d = draw(st.integers(2, 150)), 3
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    few = rng.integers(0, draw(st.sampled_from([2, 4, 50])), size=(n + 6, d)).astype(float)
    if draw(st.booleans()):
        few[::2] += 1e-5 * rng.normal(size=few[::2].shape)  # nearer to each other than float16 can tell
    few = (few + draw(st.sampled_from([0.0, 1000.0]))) * draw(st.sampled_from([1.0, 1e-30, 1e30]))
    few = few.astype(draw(st.sampled_from([np.float32, np.float64])))
    return few[:n], few[n:]


def usable(metric: object, *several: np.ndarray) -> list[np.ndarray]:
    """The rows that a distance can compare."""
    distance = as_distance(metric)
    kept = []
    for X in several:
        if distance.name == "hellinger":
            X = np.abs(X) + X.dtype.type(0)
        if hasattr(distance, "_has_no_direction"):
            X = X[~distance._has_no_direction(X)]
        kept.append(X)
    return kept


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric if isinstance(metric, str) else metric[0])
@given(data=st.data(), given_rows=rows_and_queries())
def test_the_same_rows_places_and_bits_as_exact_search(metric, given_rows, data):
    X, Q = usable(metric, *given_rows)
    if len(X) < 2 or not len(Q):
        return
    k = data.draw(st.integers(1, len(X)))
    room = data.draw(st.sampled_from(ROOMS))
    wide = data.draw(st.sampled_from([8, 4096]))
    here, there = ExactSearch(metric).fit(X), on_cpu(metric, room=room, wide=wide).fit(X)
    assert_same(neighbor_search.nearest(there, Q, k), neighbor_search.nearest(here, Q, k))
    k = min(k, len(X) - 1)
    assert_same(neighbor_search.leave_one_out(there, k), neighbor_search.leave_one_out(here, k))


@given(given_rows=rows_and_queries(), data=st.data())
@settings(max_examples=20)
def test_the_same_rows_as_a_double_loop(given_rows, data):
    X, Q = given_rows
    k = data.draw(st.integers(1, len(X)))
    indices, distances = reference.nearest(X.tolist(), Q.tolist(), k, reference.euclidean)
    table = neighbor_search.nearest(on_cpu().fit(X), Q, k)
    assert table.indices.tolist() == indices
    assert table.distances.tolist() == distances


@pytest.mark.parametrize("kind", worst_rows())
@pytest.mark.parametrize("k", [1, 20, 70])
def test_hard_rows_are_searched_exactly(kind, k):
    X = worst_rows()[kind]
    Q = np.vstack([X[:: len(X) // 20], X[:2].astype(np.float64) * 1e12])
    assert_same(neighbor_search.nearest(on_cpu().fit(X), Q, k), neighbor_search.nearest(ExactSearch().fit(X), Q, k))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "uint16", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_rows_of_any_type(dtype, metric):
    X = (np.random.default_rng(0).integers(0, 5, size=(300, 20)) + 1).astype(dtype)
    assert_same(
        neighbor_search.nearest(on_cpu(metric).fit(X), X[:40], 5),
        neighbor_search.nearest(ExactSearch(metric).fit(X), X[:40], 5),
    )


@given(given_rows=rows_and_queries(), size=st.sampled_from([2, 16, 64]))
def test_scores_lie_within_their_bound(given_rows, size):
    torch = importlib.import_module("torch")
    X, Q = given_rows
    there = on_cpu().fit(X).on_gpu()
    queries, rows = there._queries(Q), there.parts[0]
    found = there.steps.group_minima(queries, rows, size).double()
    y, z = there.space.moved(X), there.space.moved(Q)
    scores = torch.full((len(Q), len(rows.halves)), torch.inf, dtype=torch.float64)
    scale = queries.factors[: len(Q), None].double() * gpu_bounds.ROW_SCALE**2
    scores[:, : len(X)] = ((y * y).sum(dim=1) / 2 - z @ y.T) * scale
    true = gpu_rows.by_group(scores, size).amin(dim=2)
    slack = queries.slack(*rows.of_groups(size))
    there_are = true < torch.inf
    assert ((found - true).abs() <= slack.double())[there_are].all()
    assert (found[~there_are] == torch.inf).all()


def test_without_its_bound_the_screen_would_miss_rows():
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(1, 32)) + 3e-5 * rng.normal(size=(2000, 32))).astype(np.float32)
    X[0] += 1  # so that the scale is not that of the differences
    expected = neighbor_search.nearest(ExactSearch().fit(X), X[5:25], 5)
    assert_same(neighbor_search.nearest(on_cpu().fit(X), X[5:25], 5), expected)

    def nothing(*given):
        bound = gpu_bounds.query_bounds(*given)
        return gpu_bounds.QueryBounds(0 * bound.alpha, 0 * bound.beta, 0 * bound.gamma, bound.certain, 0.0)

    with mock.patch.object(gpu_rows, "query_bounds", nothing):
        assert (neighbor_search.nearest(on_cpu().fit(X), X[5:25], 5).indices != expected.indices).any()


def test_a_far_row_makes_no_other_less_certain():
    rng = np.random.default_rng(0)
    X, Q = (rng.normal(size=(n, 32)).astype(np.float32) for n in (5000, 50))
    kept = []
    for far in (1, 1000):
        X[0] *= far
        there = on_cpu().fit(X).on_gpu()
        ((_, _, counts),) = there._listed_rows(there._queries(Q), 10, Room.for_k(10))
        kept.append(int(counts.sum()))
    assert kept[1] < 1.1 * kept[0]


def test_most_rows_are_ruled_out_and_most_queries_decided():
    rng = np.random.default_rng(0)
    X, Q = (rng.normal(size=(n, 64)).astype(np.float32) for n in (20_000, 50))
    there = on_cpu().fit(X).on_gpu()
    queries, room = there._queries(Q), Room.for_k(10)
    ((_, _, counts),) = there._listed_rows(queries, 10, room)
    assert counts.max() < 20
    assert not there.nearest(Q, np.empty(0, np.int64), 10).undecided.any()


@pytest.mark.slow
@given(data=st.data(), given_rows=rows_and_queries(), metric=st.sampled_from(["euclidean", ("mahalanobis", {"L": L})]))
@settings(max_examples=20)
def test_added_removed_and_restored_rows(data, given_rows, metric):
    X, Q = given_rows
    here, there = ExactSearch(metric).fit(X), on_cpu(metric).fit(X)
    before, was = there.snapshot(), neighbor_search.nearest(there, Q, 2)
    live = np.arange(len(X))
    for change in data.draw(st.lists(st.sampled_from(["add", "remove", "restore"]), max_size=4)):
        if change == "add":
            for search in (here, there):
                live = np.union1d(live, search.add(Q))
        elif len(live) > 3:
            gone = live[:: data.draw(st.integers(2, 5))]
            for search in (here, there):
                search.remove(gone)
                if change == "restore":
                    search.restore(gone[:2])
            live = np.setdiff1d(live, gone if change == "remove" else gone[2:])
        assert_same(neighbor_search.nearest(there, Q, 2), neighbor_search.nearest(here, Q, 2))
        assert_same(neighbor_search.leave_one_out(there, 1), neighbor_search.leave_one_out(here, 1))
    assert_same(neighbor_search.nearest(before, Q, 2), was)


def test_a_row_far_beyond_the_others_can_be_added():
    X = np.random.default_rng(0).normal(size=(500, 4)).astype(np.float32)
    here, there = ExactSearch().fit(X), on_cpu().fit(X)
    for search in (here, there):
        neighbor_search.nearest(search, X[:3], 2)
        search.add(1e6 * X[:2])
    Q = np.vstack([X[:7], 1e6 * X[:2]])
    assert_same(neighbor_search.nearest(there, Q, 3), neighbor_search.nearest(here, Q, 3))


@pytest.mark.parametrize(("bytes_at_once", "queries_at_once"), [(1 << 16, 16384), (2 << 30, 256)])
def test_answers_do_not_depend_on_how_many_queries_are_asked_at_once(bytes_at_once, queries_at_once):
    rng = np.random.default_rng(0)
    X, Q = (rng.integers(0, 3, size=(n, 5)).astype(np.float32) for n in (700, 600))
    there = on_cpu().fit(X)
    whole = neighbor_search.nearest(there, Q, 9)
    other = on_cpu(minima_bytes=bytes_at_once, queries_at_once=queries_at_once).fit(X)
    assert_same(neighbor_search.nearest(other, Q, 9), whole)


@pytest.mark.slow
@given(data=st.data(), given_rows=rows_and_queries(), metric=st.sampled_from(["euclidean", ("mahalanobis", {"L": L})]))
@settings(max_examples=20)
def test_rows_that_do_not_fit_are_copied_to_the_gpu_in_blocks(data, given_rows, metric):
    X, Q = np.concatenate([given_rows[0]] * 9), given_rows[1]
    k = data.draw(st.integers(1, 40))
    here = ExactSearch(metric).fit(X)
    there = on_cpu(metric, free_bytes=gpu_rows.gpu_bytes(X) // 2).fit(X)
    if len(X) > gpu_rows.TILE:
        with pytest.warns(UserWarning, match="copied to the GPU in [2-9] blocks"):
            there.on_gpu()
        assert len(there.on_gpu().parts) > 1
    k = min(k, len(X) - 1)
    assert_same(neighbor_search.nearest(there, Q, k), neighbor_search.nearest(here, Q, k))
    assert_same(
        neighbor_search.leave_one_out(there, k, rows=[0, 5]), neighbor_search.leave_one_out(here, k, rows=[0, 5])
    )


def test_no_queries_have_no_neighbors():
    table = neighbor_search.nearest(on_cpu().fit([[0.0], [1.0]]), np.empty((0, 1)), 2)
    assert table.indices.shape == table.distances.shape == (0, 2)


def test_more_neighbors_than_a_gpu_lists_are_found_by_the_cpu():
    X = np.random.default_rng(0).normal(size=(1500, 3))
    there = on_cpu().fit(X)
    assert not there.serves(5, gpu_collection.MOST_NEIGHBORS)
    assert_same(neighbor_search.nearest(there, X[:5], 1500), neighbor_search.nearest(ExactSearch().fit(X), X[:5], 1500))


def test_copies_and_saved_ones_answer_alike(tmp_path, monkeypatch):
    monkeypatch.setitem(choose.SEARCHES, "gpu", lambda distance, recall: on_cpu(distance))
    X = np.random.default_rng(0).normal(size=(300, 3))
    index = ns.NeighborIndex(search="gpu").fit(X)
    assert isinstance(index.search_, GpuSearch)
    answer = index.query(X[:7], 3)
    index.save(tmp_path / "index.nearsay")
    copies = [pickle.loads(pickle.dumps(index)), copy.copy(index), copy.deepcopy(index)]
    for one in [*copies, ns.NeighborIndex.open(tmp_path / "index.nearsay")]:
        assert_same(one.query(X[:7], 3), answer)
    copies[1].add(X[:7])
    copies[0].add(X[7:14])
    assert copies[1].query(X[:7], 2).indices[:, 1].tolist() == list(range(300, 307))
    assert copies[0].query(X[7:14], 2).indices[:, 1].tolist() == list(range(300, 307))
