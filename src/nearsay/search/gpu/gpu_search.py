"""Exact search on a graphics card: the same rows, in the same order, as on the CPU, to the last bit.

    queries ──► tensor cores, float16 ──► groups and rows that may count ──► float64 on the card ──► neighbors
                                                     └── near ties without number ──► exact search on the CPU

``card/bounds.py`` proves that nothing is missed, ``card/collection.py`` takes the steps, and ``card/steps.py`` and
``card/triton.py`` are the steps: in plain torch operations, which the CPU can do too, and for CUDA.
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
from nearsay.search.gpu.collection import MEASURED_THERE, MOST_NEIGHBORS, DeviceCollection
from nearsay.search.gpu.rows import bytes_on_card
from nearsay.search.gpu.steps import PlainSteps
from nearsay.search.screening.candidate_tables import join_looks
from nearsay.search.screening.prepared_rows import Geometry

# Where Linux tells of NVIDIA's driver.
DRIVER = "/proc/driver/nvidia/version"
# A batch of so many products is worth bringing to the card; smaller ones are answered sooner by the CPU.
WORTH_THE_TRIP = 1 << 24

T = TypeVar("T")


class GpuSearch(ExactSearch):
    """Looks at every row, on a graphics card; distances with a Euclidean form.

    Parameters
    ----------
    metric : as for ``ExactSearch``.
    device : str, default="cuda"
        "cuda", "cuda:1", …; "cpu" takes the same steps without a card, to try them out.
    products : str, default="auto"
        Those of the CPU, for what the card leaves open.

    >>> search = GpuSearch(device="cpu").fit([[0.0], [2.0], [5.0]])  # doctest: +SKIP
    >>> search.candidates(np.array([[4.0]]), k=1)  # doctest: +SKIP
    array([[2]])
    """

    _from_file = False

    def __init__(self, metric: Any = "euclidean", *, device: str = "cuda", products: str = "auto") -> None:
        super().__init__(metric, products=products)
        self.device = device

    @classmethod
    def _made_again(cls, settings: dict[str, Any]) -> GpuSearch:
        """From a file, on a machine that may have no card: then the processor answers, instead of an error."""
        search = cls(**settings)
        search._from_file = True
        return search

    def fit_checked(self, items: Any, distance: Distance) -> GpuSearch:
        if not distance.has_euclidean_form:
            raise InputError(
                f"A card multiplies rows, so it needs a distance with a Euclidean form; {distance.name!r} has none."
                ' Use search="exact".'
            )
        self._there = There()
        if not self._from_file:
            check_device(require("torch", "torch"), self.device)
        else:
            self._there.usable(self.device)  # it says so if not
        super().fit_checked(items, distance)
        return self

    @property
    def _geometry(self) -> Geometry:
        assert self._screen is not None
        return self._screen._geometry

    @property
    def takes_tensors(self) -> bool:
        """Whether queries can be tensors: rows are floats, and their Euclidean form is the rows."""
        return self._geometry.as_is and type(self.distance_) in MEASURED_THERE

    def serves(self, n_queries: int, k: int) -> bool:
        """Whether these neighbors should be found and measured on the card."""
        return type(self.distance_) in MEASURED_THERE and self.pays(n_queries, k)

    def pays(self, n_queries: int, k: int) -> bool:
        """Whether it is worth asking the card at all, if only for candidates."""
        if k >= MOST_NEIGHBORS:
            return False
        products = n_queries * self.rows_.items.shape[1] * len(self.rows_)
        return (products >= WORTH_THE_TRIP or self.device == "cpu") and self._there.usable(self.device)

    def nearest(self, Q: Any, left_out: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row numbers and distances (n_queries, k), nearest first, and the queries that the CPU has to answer.

        ``left_out`` names the row that each query is itself, or is empty; without ``Q`` these rows are the queries.
        """

        def ask(there: DeviceCollection) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            return there.nearest_in_arrays(there.rows_of(left_out) if Q is None else Q, left_out, k)

        found = self.asked(ask)
        if found is None:
            n = len(left_out) if Q is None else len(Q)
            return np.full((n, k), -1, np.int64), np.full((n, k), np.inf), np.arange(n)
        numbers, distances, undecided = found
        return numbers, distances, np.flatnonzero(undecided)

    def candidates(self, Q: Any, k: int) -> np.ndarray:
        found = self.asked(lambda there: there.candidates(Q, k)) if len(Q) and self.pays(len(Q), k) else None
        if found is None:
            return super().candidates(Q, k)
        undecided = np.flatnonzero(found.undecided.cpu().numpy())
        numbers: np.ndarray = found.numbers.cpu().numpy()
        return join_looks(numbers, undecided, super().candidates(Q[undecided], k)) if len(undecided) else numbers

    def asked(self, ask: Callable[[DeviceCollection], T]) -> T | None:
        """What the card answers; None where it runs out of memory, which is said."""
        torch = require("torch", "torch")
        try:
            return ask(self.on_device())
        except torch.OutOfMemoryError as error:
            warnings.warn(
                f"The graphics card ran out of memory ({str(error).split('. ')[0]}), so the processor answers. Free"
                " memory of the card, or ask fewer queries at a time.",
                stacklevel=2,
            )
        self._there.let_go()
        return None

    def on_cpu(self) -> ExactSearch:
        """The same rows, for a search without the card."""
        twin = object.__new__(ExactSearch)
        twin.__dict__ = self.__dict__
        return twin

    def on_device(self) -> DeviceCollection:
        """The rows on the card, brought there when they are first asked for."""
        return self._there.collection(self.device, self.distance_, self._geometry)


class There:
    """What lies on a device, for the last rows that were asked for. A copy, or one from a file, begins empty."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._last: DeviceCollection | None = None
        self._usable: bool | None = None

    def usable(self, device: str) -> bool:
        """Whether the device can be used here, where a file or a copy of another process may have come to; once said.

        Rows that were given to ``fit`` here found it: the error told otherwise.
        """
        with self._lock:
            if self._usable is None:
                try:
                    check_device(require("torch", "torch"), device)
                    self._usable = True
                except (InputError, MissingExtra) as error:
                    self._usable = False
                    warnings.warn(
                        "This search was made for a graphics card that cannot be used here, so the processor answers,"
                        f" with the same rows and distances. {error}",
                        stacklevel=2,
                    )
            return self._usable

    def collection(self, device: str, distance: Distance, geometry: Geometry) -> DeviceCollection:
        with self._lock:
            last = self._last
            if last is None or last.rows is not geometry.rows:
                last = None if last is None else last.at(geometry)
                self._last = None  # the memory may be needed
                if last is None:
                    torch = require("torch", "torch")
                    last = DeviceCollection(steps_for(torch, device), torch.device(device), distance, geometry)
                self._last = last
            return last

    def let_go(self) -> None:
        """Give the memory of the device back."""
        with self._lock:
            self._last = None
        torch = require("torch", "torch")
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def __reduce__(self) -> tuple[type[There], tuple[()]]:
        return type(self), ()


def steps_for(torch: Any, device: str) -> PlainSteps:
    """Triton's kernels where they can run, plain operations elsewhere."""
    if device.startswith("cuda") and importlib.util.find_spec("triton") is not None:
        from nearsay.search.gpu.triton import OLDEST, TritonSteps, tilings_for

        capability = torch.cuda.get_device_capability(device)
        if capability >= OLDEST:
            return TritonSteps(torch, *tilings_for(capability))
    return PlainSteps(torch)


def card_holds(X: np.ndarray) -> bool:
    """Whether there is a card, and its free memory holds these rows; torch is imported only where a driver is there."""
    if not os.path.exists(DRIVER) or importlib.util.find_spec("torch") is None:
        return False
    torch = require("torch", "torch")
    return bool(torch.cuda.is_available()) and bytes_on_card(X) <= SHARE_FOR_ROWS * torch.cuda.mem_get_info()[0]


def card() -> dict[str, Any] | None:
    """The card that would serve: its name, memory and compute capability, and what runs on it; None without one."""
    if not os.path.exists(DRIVER) or importlib.util.find_spec("torch") is None:
        return None
    torch = require("torch", "torch")
    if not torch.cuda.is_available():
        return None
    of = torch.cuda.get_device_properties(0)
    return {
        "name": of.name,
        "memory_gib": round(of.total_memory / (1 << 30), 1),
        "compute_capability": f"{of.major}.{of.minor}",
        "torch": torch.__version__,
        "kernels": "Triton" if importlib.util.find_spec("triton") is not None else "plain torch operations",
    }


def check_device(torch: Any, device: str) -> None:
    """Say what keeps a search from running on this device."""
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
            "torch finds no card that CUDA can use: there is none, or its driver is too old for CUDA"
            f' {torch.version.cuda} (nvidia-smi tells). Update the driver, or use search="exact".'
        )
    number = int(device.split(":")[1]) if ":" in device else 0
    if number >= torch.cuda.device_count():
        raise InputError(f"There is no {device!r}: torch finds {torch.cuda.device_count()} card(s), from cuda:0 on.")
