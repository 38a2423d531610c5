"""Exact search on a graphics card: ours beside torch's product and topk, each with its two floors and an audit.

    python -m benchmarks.gpu              the table
    python -m benchmarks.gpu --steps      how long each step takes, and which tilings are fastest
    python -m benchmarks.gpu --audit      100,000 queries of all kinds of rows against a double loop in float64

Times are medians of ten by CUDA events, after a warm-up, with other queries each time. A query counts as wrong where a
row, its place or one bit of its distance differs from the double loop's.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.measuring import Rows, print_table
from nearsay.compiling import start_compiling
from nearsay.neighbors import find
from nearsay.search.exact import ExactSearch
from nearsay.search.gpu import GpuSearch
from nearsay.search.gpu_bounds import ROW_SCALE
from nearsay.search.gpu_collection import DeviceCollection, Found, Room
from nearsay.search.gpu_rows import by_group

# What one H200 was seen to do: float16 products, in operations, and copies, in bytes, a second.
PRODUCTS, BYTES = 790e12, 4.3e12
REPEATS = 10
# (rows, columns, queries, neighbors, kind)
CASES = [
    (1 << 20, 128, 10_000, 10, "normal"),
    (1 << 20, 128, 10_000, 10, "clustered"),
    (1 << 20, 128, 10_000, 200, "normal"),
    (1 << 20, 768, 10_000, 10, "normal"),
    (10_000_000, 128, 2048, 10, "normal"),
]
TINY_CASES = [(2000, 16, 40, 5, "normal"), (1500, 20, 30, 5, "clustered")]
KINDS = ("normal", "clustered", "duplicated", "offset", "tiny", "huge")

Search = Callable[[Any], tuple[Any, Any]]


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
        yield from total.sqrt_()


def wrong(true: tuple[np.ndarray, np.ndarray], numbers: np.ndarray, distances: np.ndarray) -> int:
    """How many queries differ in a row, its place, or a bit of its distance."""
    same = (numbers == true[0]) & (distances == true[1])
    return int((~same.all(axis=1)).sum())


# ---------------------------------------------------------------- rivals


def ours(collection: DeviceCollection, k: int) -> Search:
    def search(Q: Any) -> tuple[Any, Any]:
        found: Found = collection.nearest(Q, np.empty(0, np.int64), k)
        return found.numbers, found.distances

    return search


def torch_topk(torch: Any, X: Any, k: int, tf32: bool) -> Search:
    half_norms = (X * X).sum(dim=1) / 2
    rows = X.T

    def search(Q: Any) -> tuple[Any, Any]:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        parts = Q.split(max(1, (4 << 30) // (4 * len(X))))
        scores = (torch.addmm(half_norms, some, rows, alpha=-1) for some in parts)
        numbers = torch.cat([some.topk(k, largest=False).indices for some in scores])
        torch.backends.cuda.matmul.allow_tf32 = False
        return numbers, torch.zeros(numbers.shape, dtype=torch.float64, device=X.device)

    return search


def flashlib(X: Any, k: int) -> Search | None:
    """FlashLib's search, where it is installed."""
    if find_spec("flashlib") is None:
        return None
    from flashlib import flash_knn

    def search(Q: Any) -> tuple[Any, Any]:
        squares, numbers = flash_knn(Q, X, k)
        return numbers, squares.double().sqrt()

    return search


# ---------------------------------------------------------------- times


def milliseconds(torch: Any, work: Callable[[int], object], device: str, repeats: int = REPEATS) -> float:
    """The median over several runs; ``work`` is told which run it is."""
    times = []
    for run in range(repeats + 2):
        if device == "cpu":
            start = time.perf_counter()
            work(run)
            times.append(1e3 * (time.perf_counter() - start))
            continue
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        before.record()
        work(run)
        after.record()
        torch.cuda.synchronize()
        times.append(before.elapsed_time(after))
    return statistics.median(times[2:])


def floors(n: int, d: int, n_queries: int) -> tuple[float, float]:
    """Milliseconds that the products take at least, and reading rows and queries once."""
    return 1e3 * 2 * n * d * n_queries / PRODUCTS, 1e3 * 2 * d * (n + n_queries) / BYTES


def fitted(X: Any, device: str) -> tuple[GpuSearch, DeviceCollection]:
    search = GpuSearch(device=device).fit(X.cpu().numpy())
    return search, search.on_device()


def table(torch: Any, device: str, tiny: bool) -> Rows:
    lines: Rows = []
    for case in TINY_CASES if tiny else CASES:
        lines += compared(torch, device, *case, repeats=3 if tiny else REPEATS)
    return [*lines, all_rows(torch, device, 1500 if tiny else 1_000_000, 16 if tiny else 128)]


def all_rows(torch: Any, device: str, n: int, d: int, k: int = 10) -> dict[str, Any]:
    """The neighbors of all rows, each without itself, as arrays on the host."""
    X = made_up(torch, "normal", n, d, 1, device)
    search, _ = fitted(X, device)
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        found = find.leave_one_out(search, k)
        taken.append(1e3 * (time.perf_counter() - start))
    few = np.arange(n)[:: max(1, n // 1000)][:1000]
    true = by_double_loop(torch, X, X[torch.from_numpy(few).to(device)], k + 1)
    others = true[0] != few[:, None]  # no two rows are alike, so each is its own nearest
    true = tuple(part[others].reshape(len(few), k) for part in true)
    arithmetic, moving = floors(n, d, n)
    line = {"rows": f"{n}×{d} normal", "queries": "all, left out", "k": k, "search": "ours, numpy out"}
    line |= {"ms": statistics.median(taken), "floor: products": arithmetic, "floor: bytes": moving}
    line |= {"audited": len(few), "wrong": wrong(true, found.indices[few], found.distances[few])}
    print(line, flush=True)
    return line


def compared(torch: Any, device: str, n: int, d: int, n_queries: int, k: int, kind: str, *, repeats: int) -> Rows:
    """All rivals on the same rows and queries."""
    X = made_up(torch, kind, n, d, 1, device)
    queries = [made_up(torch, kind, n_queries, d, 2 + run, device) for run in range(repeats + 2)]
    search, collection = fitted(X, device)
    rivals: dict[str, Search | None] = {
        "ours": ours(collection, k),
        "torch float32 + topk": torch_topk(torch, X, k, tf32=False),
        "torch TF32 + topk": torch_topk(torch, X, k, tf32=True),
        "FlashLib": flashlib(X, k) if device != "cpu" else None,
    }
    few = queries[0][:1000]
    true = by_double_loop(torch, X, few, k)
    arithmetic, moving = floors(n, d, n_queries)
    lines: Rows = []
    for name, rival in rivals.items():
        if rival is None:
            continue
        numbers, distances = (part.cpu().numpy() for part in rival(few))
        line = {
            "rows": f"{n}×{d} {kind}",
            "queries": n_queries,
            "k": k,
            "search": name,
            "ms": milliseconds(torch, lambda run, rival=rival: rival(queries[run]), device, repeats),
            "floor: products": arithmetic,
            "floor: bytes": moving,
            "audited": len(few),
            "same rows in order": f"{(numbers == true[0]).all(axis=1).mean():.2%}",
            "wrong": wrong(true, numbers, distances) if name == "ours" else "",
        }
        lines.append(line)
        print(line, flush=True)
    if device != "cpu":
        on_host = [q.cpu().numpy() for q in queries]
        line = {"rows": f"{n}×{d} {kind}", "queries": n_queries, "k": k, "search": "ours, numpy in and out"}
        lines.append({**line, "ms": _wall(lambda run: find.nearest(search, on_host[run], k))})
        print(lines[-1], flush=True)
    return lines


def _wall(work: Callable[[int], object]) -> float:
    times = []
    for run in range(REPEATS + 2):
        start = time.perf_counter()
        work(run)
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[2:])


# ---------------------------------------------------------------- steps and tilings


def steps(torch: Any, device: str, tiny: bool) -> Rows:
    """How long each step takes, for one case after the other."""
    lines: Rows = []
    for n, d, n_queries, k, kind in TINY_CASES if tiny else CASES:
        X = made_up(torch, kind, n, d, 1, device)
        queries = [made_up(torch, kind, n_queries, d, 2 + run, device) for run in range(7)]
        _, collection = fitted(X, device)
        line: dict[str, Any] = {"rows": f"{n}×{d} {kind}", "k": k}
        if not tiny and kind == "normal" and k == 10 and n == 1 << 20:
            lines += tilings(torch, collection, queries, device)
        line |= _step_times(torch, collection, queries, k, device)
        lines.append(line)
        print(line, flush=True)
        del collection, X
    return lines


def _step_times(torch: Any, collection: DeviceCollection, queries: list[Any], k: int, device: str) -> dict[str, Any]:
    there, rows = collection.steps, collection.parts[0]
    room, nobody = Room.first_look(k), torch.empty(0, dtype=torch.int64, device=device)
    limits = torch.full((len(queries[0]),), np.inf, dtype=torch.float32, device=device)
    prepared = [collection._queries(Q) for Q in queries]
    exact = [collection._measurable(Q) for Q in queries]

    def timed(work: Callable[[int], Any]) -> float:
        return milliseconds(torch, work, device, 5)

    sizes = (64, 32, 16) if device != "cpu" else (room.size,)
    times: dict[str, Any] = {"prepare": timed(lambda run: collection._queries(queries[run]))}
    for size in sizes:
        times[f"minima of {size}"] = timed(lambda run, size=size: there.group_minima(prepared[run], rows, size))
        minima = [there.group_minima(q, rows, size) for q in prepared]
        listed = [
            there.list_groups(m, q, rows, size, k, limits, room.groups) for m, q in zip(minima, prepared, strict=True)
        ]
        times[f"list {size}"] = timed(
            lambda run, size=size, minima=minima: there.list_groups(
                minima[run], prepared[run], rows, size, k, limits, room.groups
            )
        )
        times[f"groups {size}"] = _counted(listed[0][1])
        times[f"look {size}"] = timed(
            lambda run, size=size, listed=listed: there.look(prepared[run], rows, size, *listed[run], room.rows)
        )
        kept = [there.look(q, rows, size, *found, room.rows) for q, found in zip(prepared, listed, strict=True)]
        del minima
    times["kept"] = _counted(kept[0][1])
    kind = collection.kind or "euclidean"
    times["measure"] = timed(lambda run: there.measure(kind, exact[run], rows, *kept[run]))
    far = [there.measure(kind, Q, rows, *found) for Q, found in zip(exact, kept, strict=True)]
    times["order"] = timed(lambda run: there.order(kept[run][0], far[run], kept[run][1], nobody, 0, k))
    times["all"] = timed(lambda run: ours(collection, k)(queries[run]))
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in times.items()}


def _counted(counts: Any) -> str:
    return f"{counts.float().mean().item():.1f} (most {counts.max().item()})"


def tilings(torch: Any, collection: DeviceCollection, queries: list[Any], device: str) -> Rows:
    """The products alone, with tiles of several shapes."""
    from nearsay.search.gpu_triton import SHORT, Tiling, TritonSteps

    rows, prepared = collection.parts[0], [collection._queries(Q) for Q in queries]
    lines: Rows = []

    def tried(tiling: Tiling) -> float:
        size = min(64, tiling.rows // 4)
        there = TritonSteps(torch, tiling, tiling)
        try:
            taken = milliseconds(torch, lambda run: there.group_minima(prepared[run], rows, size), device, 5)
        except Exception as error:  # too much memory for this card: the next one may fit
            print(tiling, type(error).__name__, str(error)[:60], flush=True)
            return np.inf
        rate = 2e-9 * len(rows.halves) * rows.halves.shape[1] * prepared[0].n / taken
        lines.append({"rows": f"{rows.n}×{rows.halves.shape[1]}", "tiling": str(tiling), "ms": taken, "TFLOP/s": rate})
        print(f"{taken:.2f} ms, {rate:.0f} TFLOP/s, groups of {size}: {tiling}", flush=True)
        return taken

    short = rows.halves.shape[1] <= SHORT
    shapes = [(128, 256, 8), (256, 128, 8), (128, 128, 4)]
    every = [Tiling(*shape, stages) for shape in shapes for stages in ((2, 3) if short else (3, 4))]
    if short:
        passing = [(64, 256, 4, 2), (64, 256, 4, 3), (128, 128, 4, 2), (128, 256, 8, 2), (64, 128, 4, 2)]
        every = [Tiling(*shape, 1024, rows_stay=True) for shape in passing] + every
    best = min([one for tiling in every for one in (tiling, replace(tiling, copied=True))], key=tried)
    for more in ((40, 80) if best.rows_stay else (8, 128)) if short else (128,):
        tried(replace(best, tiles_a_program=more) if short else replace(best, step=more, stages=2))
    for kind in ("int8", "float8_e4m3fn"):  # twice as fast on paper; what they would leave to look at is not counted
        if short:
            fewer = getattr(torch, kind)
            rows = replace(rows, halves=(rows.halves / 4).to(fewer))
            prepared = [replace(one, halves=(one.halves / 4).to(fewer)) for one in prepared]
            print(kind)
            tried(replace(best, copied=False))
    return lines


# ---------------------------------------------------------------- audit


def audit(torch: Any, device: str, tiny: bool) -> Rows:
    """Queries of every kind against the double loop; some of them against the CPU's search too."""
    lines: Rows = []
    n, d, n_queries = (1500, 16, 30) if tiny else (200_000, 96, 16_700)
    for number, kind in enumerate(KINDS):
        k = (10, 1, 37)[number % 3]
        X, Q = (made_up(torch, kind, many, d, seed, device) for many, seed in ((n, 1), (n_queries, 2)))
        Q[::5] = X[: len(Q[::5])]  # a fifth of the queries are rows
        search, collection = fitted(X, device)
        found = collection.nearest(Q, np.empty(0, np.int64), k)
        open_still = found.undecided.nonzero()[:, 0]
        whole = find.nearest(search, Q.cpu().numpy(), k)
        few = slice(0, 30 if tiny else 500)
        on_cpu = find.nearest(ExactSearch().fit(X.cpu().numpy()), Q[few].cpu().numpy(), k)
        others = find.leave_one_out(search, k, rows=np.arange(len(Q))[few])
        others_on_cpu = find.leave_one_out(search.on_cpu(), k, rows=np.arange(len(Q))[few])
        line = {
            "rows": f"{n}×{d} {kind}",
            "k": k,
            "queries": n_queries,
            "wrong": wrong(by_double_loop(torch, X, Q, k), whole.indices, whole.distances),
            "left to the CPU": len(open_still),
            "unlike the CPU": sum(
                wrong((there.indices, there.distances), here.indices, here.distances)
                for here, there in ((whole[few], on_cpu), (others, others_on_cpu))
            ),
            "of the bound": f"{share_of_bound(torch, collection, Q):.2f}",
        }
        lines.append(line)
        print(line, flush=True)
    return lines


def share_of_bound(torch: Any, collection: DeviceCollection, Q: Any) -> float:
    """The largest error of a score of the card, as a share of its bound: of some rows and queries, by float64."""
    rows, size = collection.parts[0], 16
    n_rows = min(4096, rows.n) // (4 * size) * (4 * size)
    n_groups = n_rows // size
    queries, z = collection._queries(Q[:256]), collection.space.moved(Q[:256])
    found = collection.steps.group_minima(queries, rows, size)[: queries.n, :n_groups].double()
    y = collection.space.moved(collection.rows.items[:n_rows])
    scores = ((y * y).sum(dim=1) / 2 - z @ y.T) * (queries.factors[: queries.n, None].double() * ROW_SCALE**2)
    true = by_group(scores, size).amin(dim=2)
    bound, (errors, lengths) = queries.bounds, rows.of_groups(size)
    slack = bound.alpha[:, None] * errors + bound.beta[:, None] * lengths + bound.gamma[:, None]
    return float(((found - true).abs() / slack[:, :n_groups].double()).max())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="sizes that only show that it works, without a card too")
    parser.add_argument("--steps", action="store_true", help="the time of each step, and of tiles of several shapes")
    parser.add_argument("--cases", type=int, default=len(CASES), help="how many of the cases, from the first on")
    parser.add_argument("--audit", action="store_true", help="100,000 queries against a double loop in float64")
    given = parser.parse_args()
    del CASES[given.cases :]
    if find_spec("torch") is None:
        print("torch is not installed: nothing measured.")
        return 0
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not given.tiny:
        print("No card that CUDA can use: nothing measured. --tiny takes the same steps on the CPU.")
        return 0
    start_compiling()
    if given.audit:
        lines = audit(torch, device, given.tiny)
        print_table("Exact search on a card: audit", lines)
        return int(any(line["wrong"] or line["unlike the CPU"] for line in lines))
    if given.steps:
        print_table("Exact search on a card: steps", steps(torch, device, given.tiny))
        return 0
    print_table("Exact search on a card", table(torch, device, given.tiny))
    return 0


if __name__ == "__main__":
    sys.exit(main())
