"""Exact search on a GPU: the same rows, in the same order, as on the CPU, to the last bit.

    queries ──► tensor cores, float16 ──► groups and rows that may count ──► float64 on the GPU ──► neighbors
                                                     └── too many near ties ──► exact search on the CPU

``bounds.py`` proves that nothing is missed, ``collection.py`` runs the steps, ``steps.py`` and ``triton.py`` implement
them: in plain torch operations, which run on the CPU too, and for CUDA.
"""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Callable
from threading import RLock
from typing import Any, TypeVar

import numpy as np

from nearsay.distances.distance import Distance
from nearsay.errors import InputError, MissingExtra, require
from nearsay.search.exact import ExactSearch
from nearsay.search.gpu.blocks import SHARE_FOR_ROWS
from nearsay.search.gpu.collection import MEASURED_ON_GPU, MOST_NEIGHBORS, GpuCollection
from nearsay.search.gpu.limits import GpuLimits
from nearsay.search.gpu.rows import gpu_bytes
from nearsay.search.gpu.steps import PlainSteps
from nearsay.search.screening.candidate_tables import replace_lines
from nearsay.search.screening.prepared_rows import Geometry

# This file exists where NVIDIA's driver is loaded (Linux).
DRIVER = "/proc/driver/nvidia/version"

T = TypeVar("T")


class GpuSearch(ExactSearch):
    """Exact search on a GPU; for distances with a Euclidean form.

    Parameters
    ----------
    metric : as for ``ExactSearch``.
    device : str, default="cuda"
        "cuda", "cuda:1", …; "cpu" runs the same steps without a GPU, to try them out.
    products : str, default="auto"
        As for ``ExactSearch``: for queries that the GPU leaves undecided.
    limits, steps : for tests.

    >>> search = GpuSearch(device="cpu").fit([[0.0], [2.0], [5.0]])  # doctest: +SKIP
    >>> search.candidates(np.array([[4.0]]), k=1)  # doctest: +SKIP
    array([[2]])
    """

    least_products = 1 << 24  # batches of fewer are faster on the CPU
    _from_file = False

    def __init__(
        self,
        metric: Any = "euclidean",
        *,
        device: str = "cuda",
        products: str = "auto",
        limits: GpuLimits | None = None,
        steps: PlainSteps | None = None,
    ) -> None:
        super().__init__(metric, products=products)
        self.device = device
        self._gpu_limits, self._steps = limits or GpuLimits(), steps

    @classmethod
    def _made_again(cls, settings: dict[str, Any]) -> GpuSearch:
        """From a file, on a machine that may have no GPU: then the CPU searches, and there is no error."""
        search = cls(**settings)
        search._from_file = True
        return search

    def fit_checked(self, items: Any, distance: Distance) -> GpuSearch:
        if not distance.has_euclidean_form:
            raise InputError(
                f"A GPU multiplies rows, so it needs a distance with a Euclidean form; {distance.name!r} has none."
                ' Use search="exact".'
            )
        self._gpu = GpuState()
        if not self._from_file:
            check_gpu(require("torch", "torch"), self.device)
        else:
            self._gpu.usable(self.device)  # warns if not
        super().fit_checked(items, distance)
        return self

    @property
    def _geometry(self) -> Geometry:
        assert self._screen is not None
        return self._screen._geometry

    @property
    def takes_tensors(self) -> bool:
        """Whether queries can be tensors: rows are floats, and their Euclidean form is the rows."""
        return self._geometry.as_is and type(self.distance_) in MEASURED_ON_GPU

    def serves(self, n_queries: int, k: int) -> bool:
        """Whether to find and measure these neighbors on the GPU."""
        return type(self.distance_) in MEASURED_ON_GPU and self.pays(n_queries, k)

    def pays(self, n_queries: int, k: int) -> bool:
        """Whether the GPU is faster, if only for candidates."""
        if k >= MOST_NEIGHBORS:
            return False
        products = n_queries * self.rows_.items.shape[1] * len(self.rows_)
        return (products >= self.least_products or self.device == "cpu") and self._gpu.usable(self.device)

    def nearest(self, Q: Any, left_out: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row numbers and distances (n_queries, k), nearest first, and the queries that the CPU has to search.

        ``left_out`` is the row that each query is, or empty; without ``Q`` these rows are the queries.
        """

        def search(rows: GpuCollection) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            return rows.nearest_in_arrays(rows.rows_of(left_out) if Q is None else Q, left_out, k)

        result = self.run(search)
        if result is None:
            n = len(left_out) if Q is None else len(Q)
            return np.full((n, k), -1, np.int64), np.full((n, k), np.inf), np.arange(n)
        numbers, distances, undecided = result
        return numbers, distances, np.flatnonzero(undecided)

    def candidates(self, Q: Any, k: int) -> np.ndarray:
        result = self.run(lambda rows: rows.candidates(Q, k)) if len(Q) and self.pays(len(Q), k) else None
        if result is None:
            return super().candidates(Q, k)
        undecided = np.flatnonzero(result.undecided.cpu().numpy())
        numbers: np.ndarray = result.numbers.cpu().numpy()
        return replace_lines(numbers, undecided, super().candidates(Q[undecided], k)) if len(undecided) else numbers

    def run(self, search: Callable[[GpuCollection], T]) -> T | None:
        """The result of a search on the GPU; None, and a warning, if it runs out of memory."""
        torch = require("torch", "torch")
        try:
            return search(self.on_gpu())
        except torch.OutOfMemoryError as error:
            warnings.warn(
                f"The GPU ran out of memory ({str(error).split('. ')[0]}), so the CPU searches. Free memory of the GPU,"
                " or ask fewer queries at a time.",
                stacklevel=2,
            )
        self._gpu.free()
        return None

    def on_cpu(self) -> ExactSearch:
        """The same rows, searched on the CPU."""
        twin = object.__new__(ExactSearch)
        twin.__dict__ = self.__dict__
        return twin

    def on_gpu(self) -> GpuCollection:
        """The rows on the GPU, copied on first use."""
        return self._gpu.collection(self)


class GpuState:
    """The rows on the GPU, at their last version. A copy, or one from a file, starts empty."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._last: GpuCollection | None = None
        self._usable: bool | None = None

    def usable(self, device: str) -> bool:
        """Whether this machine can use the GPU; if not, warns once.

        Only for copies and files from other machines: ``fit`` raises an error instead.
        """
        with self._lock:
            if self._usable is None:
                try:
                    check_gpu(require("torch", "torch"), device)
                    self._usable = True
                except (InputError, MissingExtra) as error:
                    self._usable = False
                    warnings.warn(
                        "This search was made for a GPU that cannot be used here, so the CPU searches, with the same"
                        f" rows and distances. {error}",
                        stacklevel=2,
                    )
            return self._usable

    def collection(self, search: GpuSearch) -> GpuCollection:
        geometry = search._geometry
        with self._lock:
            last = self._last
            if last is None or last.rows is not geometry.rows:
                last = None if last is None else last.at(geometry)
                self._last = None  # the memory may be needed
                if last is None:
                    steps = search._steps or steps_for(require("torch", "torch"), search.device)
                    device, limits = steps.torch.device(search.device), search._gpu_limits
                    last = GpuCollection(steps, device, search.distance_, geometry, limits)
                self._last = last
            return last

    def free(self) -> None:
        """Free the memory of the GPU."""
        with self._lock:
            self._last = None
        torch = require("torch", "torch")
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def __reduce__(self) -> tuple[type[GpuState], tuple[()]]:
        return type(self), ()


def steps_for(torch: Any, device: str) -> PlainSteps:
    """Triton kernels where they run, plain torch operations elsewhere."""
    if device.startswith("cuda") and importlib.util.find_spec("triton") is not None:
        from nearsay.search.gpu.triton import OLDEST, TritonSteps, tilings_for

        capability = torch.cuda.get_device_capability(device)
        if capability >= OLDEST:
            return TritonSteps(torch, *tilings_for(capability))
    return PlainSteps(torch)


def fits_gpu(X: np.ndarray) -> bool:
    """Whether there is a GPU whose free memory holds these rows; imports torch only where there is a driver."""
    if not os.path.exists(DRIVER) or importlib.util.find_spec("torch") is None:
        return False
    torch = require("torch", "torch")
    return bool(torch.cuda.is_available()) and gpu_bytes(X) <= SHARE_FOR_ROWS * torch.cuda.mem_get_info()[0]


def gpu_info() -> dict[str, Any] | None:
    """Name, memory and compute capability of the GPU, and which kernels run on it; None without one."""
    if not os.path.exists(DRIVER) or importlib.util.find_spec("torch") is None:
        return None
    torch = require("torch", "torch")
    if not torch.cuda.is_available():
        return None
    gpu = torch.cuda.get_device_properties(0)
    return {
        "name": gpu.name,
        "memory_gib": round(gpu.total_memory / (1 << 30), 1),
        "compute_capability": f"{gpu.major}.{gpu.minor}",
        "torch": torch.__version__,
        "kernels": "Triton" if importlib.util.find_spec("triton") is not None else "plain torch operations",
    }


def check_gpu(torch: Any, device: str) -> None:
    """Raise an error that says why this device cannot be used."""
    if not isinstance(device, str) or not (device == "cpu" or device.split(":")[0] == "cuda"):
        raise InputError(f'device must be "cuda", "cuda:1" and so on, or "cpu"; got {device!r}.')
    if device == "cpu":
        return
    if torch.version.cuda is None:
        raise InputError(
            f"search='gpu' needs a torch that was built for CUDA; this one ({torch.__version__}) was not. Install one"
            ' from pytorch.org, or use search="exact".'
        )
    if not torch.cuda.is_available():
        raise InputError(
            "torch finds no GPU that CUDA can use: there is none, or its driver is too old for CUDA"
            f' {torch.version.cuda} (nvidia-smi tells). Update the driver, or use search="exact".'
        )
    number = int(device.split(":")[1]) if ":" in device else 0
    if number >= torch.cuda.device_count():
        raise InputError(f"There is no {device!r}: torch finds {torch.cuda.device_count()} GPU(s), from cuda:0 on.")
