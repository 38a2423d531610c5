"""For the benchmark of search on a GPU: rows of several kinds, a double loop in float64, times by events."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from nearsay.search.gpu.class_steps import square_root
from nearsay.search.gpu.collection import GpuCollection
from nearsay.search.gpu.gpu_search import GpuSearch

# What one H200 was seen to do: float16 products, in operations, and copies, in bytes, a second.
PRODUCTS, BYTES = 790e12, 4.3e12
REPEATS = 10
KINDS = ("normal", "clustered", "duplicated", "offset", "tiny", "huge")


def made_up(torch: Any, kind: str, n: int, d: int, seed: int, device: str) -> Any:
    """Rows of a kind, float32 on the device. Queries of the same kind are rows with another seed."""
    random, shared = torch.Generator(device).manual_seed(seed), torch.Generator(device).manual_seed(0)
    X = torch.randn((n, d), generator=random, device=device)
    if kind == "clustered":
        centers = torch.randn((1000, d), generator=shared, device=device)
        X = centers[torch.randint(1000, (n,), generator=random, device=device)] + 0.3 * X
    elif kind == "duplicated":
        few = torch.randn((max(1, n // 8), d), generator=shared, device=device)
        X = few[torch.randint(len(few), (n,), generator=random, device=device)]
        X[::3] += 0.01 * torch.randn((len(X[::3]), d), generator=random, device=device)
    elif kind == "offset":
        X += 1000.0
    elif kind == "tiny":
        X *= 2.0**-70
    elif kind == "huge":
        X *= 2.0**50
    return X


def fitted(X: Any, device: str) -> tuple[GpuSearch, GpuCollection]:
    search = GpuSearch(device=device).fit(X.cpu().numpy())
    return search, search.on_gpu()


# ---------------------------------------------------------------- the double loop


def by_double_loop(torch: Any, X: Any, Q: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest rows by a sum over columns in float64, in order, on the device; ties by row number."""
    numbers, distances = np.empty((len(Q), k), np.int64), np.empty((len(Q), k))
    for i, far in enumerate(_distances(torch, X, Q)):
        edge = far.topk(k, largest=False).values.max()
        near = (far <= edge).nonzero()[:, 0]
        values, rows = far[near].cpu().numpy(), near.cpu().numpy()
        first = np.lexsort((rows, values))[:k]
        numbers[i], distances[i] = rows[first], values[first]
    return numbers, distances


def _distances(torch: Any, X: Any, Q: Any) -> Iterator[Any]:
    at_once = max(1, (1 << 28) // len(X))
    columns = X.T.contiguous()
    for start in range(0, len(Q), at_once):
        some = Q[start : start + at_once].double()
        total = torch.zeros((len(some), len(X)), dtype=torch.float64, device=X.device)
        for j in range(X.shape[1]):
            difference = some[:, j, None] - columns[j].double()
            difference *= difference
            total += difference
        yield from square_root(total)


def wrong(true: tuple[np.ndarray, np.ndarray], numbers: np.ndarray, distances: np.ndarray) -> int:
    """How many queries differ in a row, its place, or a bit of its distance."""
    same = (numbers == true[0]) & (distances == true[1])
    return int((~same.all(axis=1)).sum())


# ---------------------------------------------------------------- times


def milliseconds(torch: Any, work: Callable[[int], object], device: str, repeats: int = REPEATS) -> float:
    """The median over several runs by CUDA events; ``work`` is told which run it is."""
    if device == "cpu":
        return wall_milliseconds(work, device, repeats)
    times = []
    for run in range(repeats + 2):
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        before.record()
        work(run)
        after.record()
        torch.cuda.synchronize()
        times.append(before.elapsed_time(after))
    return statistics.median(times[2:])


def wall_milliseconds(work: Callable[[int], object], device: str, repeats: int = REPEATS) -> float:
    """The same by the clock on the wall; without a GPU, where nothing is measured, of one run."""
    times = []
    for run in range(1 if device == "cpu" else repeats + 2):
        start = time.perf_counter()
        work(run)
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[2:] or times)


def floors(n: int, d: int, n_queries: int) -> tuple[float, float]:
    """Milliseconds that the products take at least, and reading rows and queries once."""
    return 1e3 * 2 * n * d * n_queries / PRODUCTS, 1e3 * 2 * d * (n + n_queries) / BYTES
