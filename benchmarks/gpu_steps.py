"""How long each step of a GPU search takes, and which kernel sizes suit the GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.gpu_measured import milliseconds
from nearsay.search.gpu.bounds import ROW_SCALE
from nearsay.search.gpu.collection import GpuCollection
from nearsay.search.gpu.limits import Room
from nearsay.search.gpu.rows import by_group
from nearsay.search.gpu.triton import SHORT, Launch, Tiling

# Sizes worth trying: of tiles for short rows and for long ones, and of kernels that serve one query a program.
SHORT_TILINGS = [Tiling(64, 256, 4, stages, copied=copied) for stages in (2, 3) for copied in (True, False)]
SHORT_TILINGS.append(Tiling(64, 128, 4, 2, copied=True))
LONG_TILINGS = [
    Tiling(lines, rows, warps, stages, copied=True)
    for lines, rows, warps, stages in [
        *((128, 256, 8, 3), (128, 256, 8, 4), (128, 128, 4, 3)),
        *((256, 128, 8, 3), (64, 256, 4, 2), (64, 256, 4, 4)),
    ]
]
LIST_GROUPS = [Launch(1024, 4, 3), Launch(1024, 4), Launch(1024, 1), Launch(2048, 4, 3), Launch(1024, 2, 3)]
LIST_ROWS = [Launch(64, 4), Launch(64, 2), Launch(128, 4), Launch(128, 8)]


class Timed:
    """A collection and several sets of queries, and what each step needs of the ones before."""

    def __init__(self, torch: Any, collection: GpuCollection, queries: list[Any], k: int, device: str) -> None:
        self.torch, self.device, self.k = torch, device, k
        self.collection, self.steps, self.rows = collection, collection.steps, collection.parts[0]
        self.room, self.queries = Room.for_k(k), queries
        self.prepared = [collection._queries(Q) for Q in queries]
        self.limits = torch.full((len(queries[0]),), np.inf, dtype=torch.float32, device=device)

    def time(self, work: Callable[[int], Any]) -> float:
        return milliseconds(self.torch, work, self.device, len(self.queries) - 2)

    def minima(self, run: int) -> Any:
        return self.steps.group_minima(self.prepared[run], self.rows, self.room.size)

    def listed(self, run: int, minima: Any) -> Any:
        size, room = self.room.size, self.room.groups
        return self.steps.list_groups(minima, self.prepared[run], self.rows, size, self.k, self.limits, room)

    def kept(self, run: int, listed: Any) -> Any:
        return self.steps.list_rows(self.prepared[run], self.rows, self.room.size, *listed, self.room.rows)

    def each(self) -> dict[str, Any]:
        """Milliseconds of every step, and how much is left after it."""
        collection, steps, runs = self.collection, self.steps, range(len(self.queries))
        times: dict[str, Any] = {"prepare": self.time(lambda run: collection._queries(self.queries[run]))}
        times["minima"] = self.time(self.minima)
        minima = [self.minima(run) for run in runs]
        times["list groups"] = self.time(lambda run: self.listed(run, minima[run]))
        listed = [self.listed(run, minima[run]) for run in runs]
        minima.clear()
        times["groups"] = _counted(listed[0][1])
        times["list rows"] = self.time(lambda run: self.kept(run, listed[run]))
        kept = [self.kept(run, listed[run]) for run in runs]
        times["kept"] = _counted(kept[0][1])
        kind, exact = collection.kind or "euclidean", [collection._measurable(Q) for Q in self.queries]
        times["measure"] = self.time(lambda run: steps.measure(kind, exact[run], self.rows, *kept[run]))
        far = [steps.measure(kind, exact[run], self.rows, *kept[run]) for run in runs]
        nobody = self.torch.empty(0, dtype=self.torch.int64, device=self.device)
        times["order"] = self.time(lambda run: steps.order(kept[run][0], far[run], kept[run][1], nobody, 0, self.k))
        return {name: round(value, 3) if isinstance(value, float) else value for name, value in times.items()}

    def tune(self) -> None:
        """Let the steps take the sizes that are fastest here."""
        short = self.rows.halves.shape[1] <= SHORT
        self._fastest("short" if short else "long", SHORT_TILINGS if short else LONG_TILINGS, self.minima)
        minima = [self.minima(run) for run in range(len(self.queries))]
        self._fastest("list_groups_launch", LIST_GROUPS, lambda run: self.listed(run, minima[run]))
        listed = [self.listed(run, minima[run]) for run in range(len(self.queries))]
        self._fastest("list_rows_launch", LIST_ROWS, lambda run: self.kept(run, listed[run]))

    def _fastest(self, name: str, sizes: list[Any], work: Callable[[int], Any]) -> None:
        taken = {}
        for size in sizes:
            setattr(self.steps, name, size)
            try:
                taken[size] = self.time(work)
            except Exception as error:  # too large for this GPU: the next one may fit
                print(f"  {name} {size}: {type(error).__name__}", flush=True)
        setattr(self.steps, name, min(taken, key=taken.__getitem__))
        said = "; ".join(f"{_short(size)} {ms:.3f}" for size, ms in taken.items())
        print(f"  {name} (ms): {said}", flush=True)


def _short(size: Any) -> str:
    return "/".join(str(int(value)) for value in vars(size).values())


def _counted(counts: Any) -> str:
    return f"{counts.float().mean().item():.1f} (most {counts.max().item()})"


def share_of_bound(torch: Any, collection: GpuCollection, Q: Any) -> float:
    """The largest error of a score of the GPU, as a share of its bound: of some rows and queries, by float64."""
    rows, size = collection.parts[0], 16
    n_rows = min(4096, rows.n) // (4 * size) * (4 * size)
    n_groups = n_rows // size
    queries, z = collection._queries(Q[:256]), collection.space.moved(Q[:256])
    found = collection.steps.group_minima(queries, rows, size)[: queries.n, :n_groups].double()
    y = collection.space.moved(collection.rows.items[:n_rows])
    scores = ((y * y).sum(dim=1) / 2 - z @ y.T) * (queries.factors[: queries.n, None].double() * ROW_SCALE**2)
    true = by_group(scores, size).amin(dim=2)
    slack = queries.slack(*rows.of_groups(size))
    return float(((found - true).abs() / slack[:, :n_groups].double()).max())
