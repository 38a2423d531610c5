"""Around GPU search: tensors in and out, what "auto" chooses, what the doctor reports, and error messages."""

from __future__ import annotations

import importlib.util
import pickle
import sys
import warnings
from unittest import mock

import numpy as np
import pytest

import nearsay as ns
from nearsay.cli import judging
from nearsay.distances.named import as_distance
from nearsay.errors import InputError, MissingExtra
from nearsay.neighbors import neighbor_search
from nearsay.search import choose
from nearsay.search.exact import ExactSearch
from nearsay.search.gpu import gpu_search
from nearsay.search.gpu import steps as gpu_steps
from nearsay.search.gpu.gpu_search import GpuSearch
from nearsay.search.gpu.kernels import selection_kernels as gpu_selection_kernels
from tests.gpu.test_gpu import assert_same, on_cpu

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="needs torch")


# ---------------------------------------------------------------- tensors


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "cosine"])
@pytest.mark.parametrize("search", ["exact", "gpu"])
@pytest.mark.parametrize("k", [4, 299])
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_tensors_are_answered_by_tensors(metric, search, k, dtype, monkeypatch):
    torch = importlib.import_module("torch")
    # Some queries are left to the CPU.
    monkeypatch.setitem(choose.SEARCHES, "gpu", lambda distance, recall: on_cpu(distance, wide=64))
    X = np.random.default_rng(0).integers(1, 4, size=(300, 5)).astype(dtype)
    index = ns.NeighborIndex(metric, search=search).fit(X)
    table = index.query(X[:50], k)
    for Q in (torch.from_numpy(X[:50]), X[:50]):  # numpy hands arrays over by DLPack
        numbers, distances = index.query_tensors(Q, k)
        np.testing.assert_array_equal(numbers.numpy(), table.indices)
        np.testing.assert_array_equal(distances.numpy(), table.distances)


@pytest.mark.parametrize(
    ("Q", "words"),
    [
        ([[0.0, 1.0]], "1 columns"),
        ([0.0], "two dimensions"),
        ([[0.0], [float("nan")]], "row 1, column 0, which is not a finite"),
        ([[1e200]], "too large to square"),
        ([[1j]], "real numbers"),
    ],
)
def test_what_is_wrong_with_a_tensor_is_said(Q, words):
    torch = importlib.import_module("torch")
    index = ns.NeighborIndex(search=on_cpu()).fit([[0.0], [1.0]])
    dtype = torch.complex64 if isinstance(Q[0], list) and isinstance(Q[0][0], complex) else torch.float64
    with pytest.raises(InputError, match=words):
        index.query_tensors(torch.tensor(Q, dtype=dtype), 1)


# ---------------------------------------------------------------- words


def test_a_distance_without_a_euclidean_form_is_refused():
    with pytest.raises(InputError, match=r"'manhattan' has none.*search=\"exact\""):
        on_cpu("manhattan").fit([[0.0], [1.0]])


def test_a_row_that_is_not_a_number_is_named():
    with pytest.raises(InputError, match="row 1, column 0"):
        on_cpu().fit([[0.0], [np.nan]])
    with pytest.raises(InputError, match="row 0, column 0"):
        neighbor_search.nearest(on_cpu().fit([[0.0], [1.0]]), [[np.inf]], 1)


@pytest.mark.parametrize("device", ["gpu", 0, None, "cuda 1"])
def test_an_unknown_device_is_refused(device):
    with pytest.raises(InputError, match="device must be"):
        GpuSearch(device=device).fit([[0.0]])


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match="torch"):
        ns.NeighborIndex(search="gpu").fit([[0.0]])


class Torch:
    """A torch of which only what is asked about GPUs is there."""

    __version__ = "9.9"

    def __init__(self, cuda, n_gpus):
        self.version = mock.Mock(cuda=cuda)
        self.cuda = mock.Mock(is_available=lambda: n_gpus > 0, device_count=lambda: n_gpus)


@pytest.mark.parametrize(
    ("torch", "device", "words"),
    [
        (Torch(None, 0), "cuda", "built for CUDA; this one .9.9. was not"),
        (Torch("13.0", 0), "cuda", "driver is too old for CUDA 13.0"),
        (Torch("13.0", 1), "cuda:1", "There is no 'cuda:1'"),
    ],
)
def test_the_reason_why_no_gpu_serves_is_reported(torch, device, words):
    with pytest.raises(InputError, match=words):
        gpu_search.check_gpu(torch, device)


@pytest.mark.parametrize("metric", ["euclidean", "hellinger"])
def test_a_gpu_that_runs_out_of_memory_leaves_the_answer_to_the_cpu_and_says_so(metric):
    torch = importlib.import_module("torch")
    X = np.random.default_rng(0).random((300, 4))
    there = on_cpu(metric).fit(X)
    full = torch.OutOfMemoryError("Tried to allocate 2.00 GiB. GPU 0 has …")
    with (
        mock.patch.object(gpu_steps.PlainSteps, "group_minima", side_effect=full),
        pytest.warns(UserWarning, match="Tried to allocate 2.00 GiB.*so the CPU searches"),
    ):
        found = neighbor_search.nearest(there, X[:20], 3)
    assert_same(found, neighbor_search.nearest(ExactSearch(metric).fit(X), X[:20], 3))
    assert_same(neighbor_search.nearest(there, X[:20], 3), found)


@pytest.mark.parametrize("missing", ["GPU", "torch"])
def test_a_saved_index_opens_without_a_gpu_and_the_cpu_searches(tmp_path, monkeypatch, missing):
    monkeypatch.setitem(choose.SEARCHES, "gpu", lambda distance, recall: GpuSearch(distance))
    X = np.random.default_rng(0).normal(size=(300, 3))
    with mock.patch.object(gpu_search, "check_gpu"):
        index = ns.NeighborIndex(search="gpu").fit(X)
        index.remove([3])
        index.save(tmp_path / "index.nearsay")
        copied = pickle.dumps(index)
    if missing == "torch":
        monkeypatch.setitem(sys.modules, "torch", None)
    words = "package 'torch'" if missing == "torch" else "CUDA"
    with pytest.warns(UserWarning, match=f"CPU searches.*{words}"):
        opened = ns.NeighborIndex.open(tmp_path / "index.nearsay")
    exact = ns.NeighborIndex(search="exact").fit(X).remove([3])
    opened.search_.least_products = 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it has been said
        assert_same(opened.query(X[:20], 4), exact.query(X[:20], 4))
        assert_same(opened.leave_one_out(4), exact.leave_one_out(4))
        labels = np.arange(300) % 7
        found = opened.with_labels(labels).query(X[:20], 4, (1, 2))
        assert_same(found, exact.with_labels(labels).query(X[:20], 4, (1, 2)))
    from_elsewhere = pickle.loads(copied)
    from_elsewhere.search_.least_products = 1
    with pytest.warns(UserWarning, match="CPU searches"):
        assert_same(from_elsewhere.query(X[:20], 4), exact.query(X[:20], 4))
    del opened.search_.least_products
    opened.save(tmp_path / "again.nearsay")
    with mock.patch.object(gpu_search, "check_gpu"), mock.patch.object(gpu_search, "require"):
        again = ns.NeighborIndex.open(tmp_path / "again.nearsay").search_
        again.least_products = 1
        assert again.serves(20, 4)  # where there is a GPU again


def test_kernels_can_be_read_without_triton():
    assert callable(gpu_selection_kernels.groups_below)


class Gpu(Torch):
    """A torch that finds one GPU, with so much memory free."""

    def __init__(self, free):
        super().__init__("13.0", 1)
        self.cuda.mem_get_info = lambda: (free, free)
        self.cuda.get_device_properties = lambda number: mock.Mock(
            total_memory=139 << 30, major=9, minor=0, spec=["total_memory", "major", "minor", "name"]
        )


@pytest.fixture
def gpu_here(monkeypatch, tmp_path):
    """A machine with a driver, and a GPU with half a gigabyte free."""
    (tmp_path / "version").write_text("NVRM")
    monkeypatch.setattr(gpu_search, "DRIVER", str(tmp_path / "version"))
    monkeypatch.setattr(gpu_search, "require", lambda module, extra: Gpu(512 << 20))


def shaped(n: int, d: int) -> np.ndarray:
    """Rows of this shape that take no memory."""
    return np.broadcast_to(np.float32(0), (n, d))


@pytest.mark.usefixtures("gpu_here")
def test_auto_takes_the_gpu_for_many_rows_that_fit_on_it():
    euclidean = as_distance("euclidean")
    assert choose.choose("auto", euclidean, shaped(400_000, 128)).name == "gpu"
    assert "400000 × 128" in choose.choose("auto", euclidean, shaped(400_000, 128)).why
    assert choose.choose("auto", euclidean, shaped(1_000_000, 128)).name == "exact"  # too large
    assert choose.choose("auto", euclidean, shaped(10_000, 128)).name == "exact"  # too few
    assert choose.choose("auto", as_distance("manhattan"), shaped(400_000, 128)).name == "exact"
    assert choose.choose("auto", euclidean, shaped(1_000_000, 4)).name == "trees"


def test_auto_takes_no_gpu_where_there_is_none(monkeypatch):
    monkeypatch.setattr(gpu_search, "DRIVER", "/nowhere")
    assert gpu_search.gpu_info() is None
    assert choose.choose("auto", as_distance("euclidean"), shaped(400_000, 128)).name == "exact"


@pytest.mark.usefixtures("gpu_here")
def test_the_doctor_names_the_gpu():
    found = gpu_search.gpu_info()
    assert (found["memory_gib"], found["compute_capability"], found["torch"]) == (139.0, "9.0", "9.9")
    assert "139.0 GiB, compute capability 9.0" in judging._gpu(found)
    assert "none that torch and CUDA can use" in judging._gpu(None)
