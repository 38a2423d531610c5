"""Each distance has one definition: every kernel that evaluates it gives the same bits."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from nearsay.core import compiling
from nearsay.distances.named import as_distance
from nearsay.neighbors import neighbor_search
from nearsay.neighbors.joint.held_space import HeldSpace
from nearsay.search.exact import ExactSearch
from nearsay.search.gpu.collection import MEASURED_ON_GPU
from nearsay.search.gpu.gpu_search import GpuSearch
from tests.search.test_exactness import NAMES, parameters, proper


def by_kernel(name: str, X: np.ndarray, Q: np.ndarray) -> dict[str, np.ndarray]:
    """All distances of queries to rows, as each kernel computes them."""
    distance, pairs = as_distance(name, **parameters(name, X.shape[1])), np.tile(np.arange(len(X)), (len(Q), 1))
    measured = {}
    for kind, compiled in (("compiled", True), ("uncompiled", False)):
        with compiling.forced(compiled):
            measured[kind] = distance.block(Q, X)
    for kind, candidates in (("all pairs", pairs), ("few pairs", pairs[:, :3])):
        measured[kind] = np.empty(candidates.shape)
        distance.measure(Q, X, candidates, 0, measured[kind])
    space = HeldSpace(X, distance)
    measured["feature space"], measured["pairs of it"] = space.distances(Q, slice(0, len(X))), space.pairs(Q, pairs)
    searches = {"exact search": ExactSearch(distance)}
    if type(distance) in MEASURED_ON_GPU and importlib.util.find_spec("torch"):
        searches["GPU search"] = GpuSearch(distance, device="cpu")
    for kind, search in searches.items():
        table = neighbor_search.nearest(search.fit(X), Q, len(X))
        measured[kind] = np.empty((len(Q), len(X)))
        np.put_along_axis(measured[kind], table.indices, table.distances, axis=1)
    return measured


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_of_a_distance_gives_the_same_bits(name, dtype):
    rng = np.random.default_rng(0)
    X, Q = (proper(name, rng.normal(size=(n, 7)).astype(dtype)) for n in (40, 9))
    measured = by_kernel(name, X, Q)
    for kind, distances in measured.items():
        np.testing.assert_array_equal(distances, measured["compiled"][:, : distances.shape[1]], err_msg=kind)
