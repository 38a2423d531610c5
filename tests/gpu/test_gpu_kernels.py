"""The GPU kernels, run by numpy: the same rows, classes and bits as exact search, and no access out of bounds."""

from __future__ import annotations

import importlib.util
from unittest import mock

import numpy as np
import pytest

import nearsay as ns
from benchmarks.hard_rows import FAMILIES, rows_and_queries
from nearsay.neighbors import neighbor_search
from nearsay.neighbors.by_class import class_search
from nearsay.search.exact import ExactSearch
from nearsay.search.gpu.class_triton import KernelSizes
from nearsay.search.gpu.gpu_search import GpuSearch
from nearsay.search.gpu.kernels import class_kernels as gpu_class_kernels
from nearsay.search.gpu.kernels import jit as gpu_jit
from nearsay.search.gpu.kernels import product_kernels as gpu_product_kernels
from nearsay.search.gpu.kernels import selection_kernels as gpu_selection_kernels
from nearsay.search.gpu.limits import GpuLimits, Room
from nearsay.search.gpu.triton import Tiling, TritonSteps
from tests.gpu.test_gpu import assert_same
from tests.gpu.test_gpu_classes import assert_same_classes
from tests.triton_in_numpy import kernels_by_numpy

pytestmark = [
    pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="needs torch"),
    pytest.mark.skipif(gpu_jit.tl is not None, reason="Triton is here: benchmarks/gpu.py --audit runs the kernels"),
]
SHORT = LONG = Tiling(32, 64, 4, 2)


def poisoned(make):
    """Memory that nothing has been written to, as a GPU may give it: row numbers past every end, and no numbers."""

    def make_poisoned(*shape, **settings):
        tensor = make(*shape, **settings)
        return tensor.fill_(np.nan if tensor.is_floating_point() else 1 if tensor.element_size() == 1 else 0x7F7F7F7F)

    return make_poisoned


def on_cpu(metric="euclidean", sizes=None, **limits):
    """A GPU search whose kernels numpy runs."""
    steps = TritonSteps(importlib.import_module("torch"), SHORT, LONG, sizes)
    return GpuSearch(metric, device="cpu", limits=GpuLimits(**limits), steps=steps)


@pytest.fixture(autouse=True)
def by_kernels():
    """Numpy runs the kernels, in memory that is poisoned."""
    torch = importlib.import_module("torch")
    with (
        mock.patch.object(torch, "empty", poisoned(torch.empty)),
        mock.patch.object(torch, "empty_like", poisoned(torch.empty_like)),
        kernels_by_numpy(gpu_class_kernels, gpu_product_kernels, gpu_selection_kernels),
    ):
        yield


def rows_and_labels(n=300, d=5, n_classes=7, seed=0):
    """Whole numbers, so that ties and duplicates are everywhere; one class has no rows."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, size=(n, d)).astype(np.float32)
    labels = rng.integers(0, n_classes - 1, size=n)
    return X, labels


@pytest.mark.parametrize(
    "metric", ["euclidean", "cosine", "hellinger", ("mahalanobis", {"L": np.ones((2, 5)) + np.eye(2, 5)})]
)
def test_the_nearest_rows(metric):
    X, _ = rows_and_labels()
    X += 1
    here, there = ExactSearch(metric).fit(X), on_cpu(metric).fit(X)
    assert_same(neighbor_search.nearest(there, X[:9] + 1, 5), neighbor_search.nearest(here, X[:9] + 1, 5))
    assert_same(
        neighbor_search.leave_one_out(there, 4, [3, 2, 250]), neighbor_search.leave_one_out(here, 4, [3, 2, 250])
    )


@pytest.mark.slow
@pytest.mark.parametrize("room", [Room(16, 3, 16), Room(16, 512, 16), Room(4, 8, 256)], ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_hard_rows_whose_lists_overflow(family, room):
    """Lists of groups, of rows, or both: what does not fit is left to the CPU, and no unwritten entry is read."""
    limits = {"room": room, "wide": 32}
    X, Q = rows_and_queries(family, "float32", 300, 5, 9, np.random.default_rng(0))
    linear_map = np.ones((2, 5)) + np.eye(2, 5)
    for metric, k in (("euclidean", 1), ("euclidean", 12), (("mahalanobis", {"L": linear_map}), 3)):
        here, there = ExactSearch(metric).fit(X), on_cpu(metric, **limits).fit(X)
        assert_same(neighbor_search.nearest(there, Q, k), neighbor_search.nearest(here, Q, k))
    labels, searches = np.arange(300) % 4, (ExactSearch(), on_cpu(**limits))
    here, there = (ns.NeighborIndex(search=search).fit(X).with_labels(labels) for search in searches)
    assert_same_classes(there.query(Q, 3, (1, 4)), here.query(Q, 3, (1, 4)))


def test_rows_too_long_to_stay():
    X, _ = rows_and_labels(d=150)
    assert_same(
        neighbor_search.nearest(on_cpu().fit(X), X[:5], 3), neighbor_search.nearest(ExactSearch().fit(X), X[:5], 3)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metric", "members", "size"), [("euclidean", (1, 4), 32), ("sqeuclidean", (), 8), ("hellinger", (3, 100), 4)]
)
def test_classes_in_order_and_means(metric, members, size):
    X, labels = rows_and_labels()
    here, there = (
        ns.NeighborIndex(metric, search=search).fit(X).remove([4, 9]).with_labels(labels, 7)
        for search in (ExactSearch(metric), on_cpu(metric, group_size=size))
    )
    Q = np.vstack([X[:20] + np.float32(0.5), X[40:50]])
    assert_same_classes(there.query(Q, 3, members), here.query(Q, 3, members))
    some = np.array([0, 7, 7, 4, 299])
    assert_same_classes(there.leave_one_out(3, members, some), here.leave_one_out(3, members, some))


def test_more_members_than_lanes():
    X, labels = rows_and_labels(n_classes=4)
    labels[::8] = 3
    searches = ExactSearch(), on_cpu(sizes=KernelSizes(line_lanes=32), group_size=4)
    here, there = (ns.NeighborIndex(search=search).fit(X).with_labels(labels, 5) for search in searches)
    with mock.patch.object(class_search, "fill_means", side_effect=AssertionError("the CPU averaged")):
        found, others = there.query(X[:20] + 1, 3, (1, 4)), there.leave_one_out(3, (1, 4), [7, 3, 8])
    assert_same_classes(found, here.query(X[:20] + 1, 3, (1, 4)))
    assert_same_classes(others, here.leave_one_out(3, (1, 4), [7, 3, 8]))


def test_more_groups_and_rows_than_there_was_room_for():
    X = np.zeros((400, 3), np.float32)  # every row is as near as every other
    labels, searches = np.arange(400) % 3, (ExactSearch(), on_cpu(sizes=KernelSizes(room=1)))
    here, there = (ns.NeighborIndex(search=search).fit(X).with_labels(labels) for search in searches)
    assert_same_classes(there.query(X[:4], 3, (1, 4)), here.query(X[:4], 3, (1, 4)))
    assert_same_classes(there.leave_one_out(3, (1, 4), [5]), here.leave_one_out(3, (1, 4), [5]))
