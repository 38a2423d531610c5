"""Classes on a GPU: the search by class, its steps, and class probabilities, beside the search for rows.

``python -m benchmarks.gpu --classes`` prints it. An audit compares order, means and bits with the processor's.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import nearsay as ns
from benchmarks.gpu_measured import made_up, milliseconds, wall_milliseconds
from benchmarks.measuring import Rows
from nearsay.neighbors import neighbor_search
from nearsay.neighbors.by_class.labeled import LabeledNeighbors
from nearsay.neighbors.index import NeighborIndex
from nearsay.neighbors.table import NeighborTable
from nearsay.search.exact import ExactSearch
from nearsay.search.gpu.class_triton import KernelSizes, TritonClassSteps
from nearsay.search.gpu.classes import GpuRowsByClass, nearest_classes
from nearsay.search.gpu.gpu_search import GpuSearch

# What the pooled posterior asks for: means of so many nearest members, of the 16 nearest classes.
MEMBERS, NEAR, ROOM = (1, 4, 16, 64), 16, 128
# Sizes of groups and of kernels, to be compared with those that are used: by what tells which kernel they are of.
OTHER_SIZES = (16,)
OTHER_LAUNCHES: list[tuple[str, dict[str, int]]] = [
    *(("keys", {"queries": many, "key_warps": warps}) for many, warps in ((32, 1), (64, 2), (128, 4), (256, 8))),
    *(("pairs", {"lanes": lanes, "warps": warps}) for lanes, warps in ((64, 2), (128, 4), (256, 8), (512, 8))),
    *(("lines", {"line_warps": warps}) for warps in (1, 2, 4)),
    *(("lines", {"lines": lines, "rows": rows}) for lines, rows in ((32, 128), (64, 64), (128, 128))),
]


def classes(torch: Any, device: str, tiny: bool) -> Rows:
    """Rows in clusters and without, labels at random: the hardest case, since every class is everywhere."""
    return [measured(torch, device, tiny, kind) for kind in ("normal", "clustered")]


def measured(torch: Any, device: str, tiny: bool, kind: str) -> dict[str, Any]:
    n, d, n_queries, n_classes = (1500, 16, 30, 10) if tiny else (1 << 20, 128, 10_000, 1000)
    members = (1, 4) if tiny else MEMBERS
    X, Q = (made_up(torch, kind, many, d, seed, device).cpu().numpy() for many, seed in ((n, 1), (n_queries, 2)))
    labels = np.random.default_rng(0).integers(0, n_classes, size=n)
    line: dict[str, Any] = {"rows": f"{n}×{d} {kind}", "queries": n_queries, "classes": n_classes}
    index, on_cpu = (NeighborIndex(search=way()).fit(X) for way in (partial(GpuSearch, device=device), ExactSearch))
    line |= on_gpu_alone(torch, device, index.search_, Q, labels, n_classes, members)
    print(line, flush=True)
    labeled = index.with_labels(labels, n_classes)
    line["nearest rows, numpy, ms"] = wall_milliseconds(lambda run: index.query(Q, 10), device, 5)
    line["and all classes, numpy, ms"] = wall_milliseconds(lambda run: labeled.query(Q, 10, members), device, 3)
    few = np.arange(0, n, max(1, n // (30 if tiny else 200)))
    here = on_cpu.with_labels(labels, n_classes)
    line["audited"] = len(few) + len(Q[: len(few)])
    line["unlike the CPU"] = unlike(*(one.query(Q[: len(few)], 10, members) for one in (labeled, here)))
    line["unlike the CPU"] += unlike(*(one.leave_one_out(10, members, few) for one in (labeled, here)))
    print(line, flush=True)
    line |= probabilities(torch, device, X, Q, labels, here)
    line["over nearest rows"] = line["predict_proba, ms"] / line["nearest rows, numpy, ms"]
    print(line, flush=True)
    return line


def on_gpu_alone(
    torch: Any, device: str, search: Any, Q: np.ndarray, labels: np.ndarray, n_classes: int, members: tuple[int, ...]
) -> dict[str, Any]:
    """Milliseconds of the search for rows, of that by class, and of its steps; queries and results stay on the GPU."""
    collection = search.on_gpu()
    asked = torch.from_numpy(Q).to(device)

    def timed(work: Callable[[], object]) -> float:
        return round(milliseconds(torch, lambda run: work(), device, 5), 3)

    def all_of_it(there: GpuRowsByClass, members: tuple[int, ...]) -> None:
        for _ in there.results(asked, neighbor_search.NOBODY, 10, members, NEAR):
            pass

    for size in OTHER_SIZES:
        resized = copy.copy(collection)
        resized.limits = replace(collection.limits, group_size=size)
        there = GpuRowsByClass(resized, labels, n_classes)
        print(f"  groups of {size}: {timed(partial(all_of_it, there, members))} ms", flush=True)
    there = GpuRowsByClass(collection, labels, n_classes)
    kind, steps, nobody = collection.kind, there.steps, asked[:0, 0].long()
    rows = timed(lambda: collection.nearest(asked, neighbor_search.NOBODY, 10))
    line: dict[str, Any] = {"nearest rows, ms": rows, "by class, ms": timed(lambda: all_of_it(there, members))}
    line["over nearest rows, on the GPU"] = round(line["by class, ms"] / rows, 2)
    line["order alone, ms"] = timed(lambda: all_of_it(there, ()))
    queries, exact = collection._queries(asked), collection._measurable(asked)
    keyed, in_float64 = queries.with_keys(there.size), exact.double()
    line["keys"] = timed(lambda: collection.steps.group_lows(queries, there.rows, there.size))
    keys = collection.steps.group_lows(queries, there.rows, there.size)
    line["rows of all"] = timed(lambda: there._nearest_rows(keyed, exact, keys[0], nobody, 10))
    line["nearest"] = timed(lambda: steps.nearest_of_classes(keys, keyed, there, nobody))
    _, places, all_others = steps.nearest_of_classes(keys, keyed, there, nobody)
    pairs, others = all_others()
    line["others a pair"] = round(len(pairs) / len(places), 4)
    line["groups a pair"] = round(int((others < -1).sum()) / len(places), 4)
    line["measure"] = timed(lambda: steps.measure_pairs(kind, in_float64, there, None, places))
    line["nearest of each"] = timed(lambda: there._nearest_of_each(queries, keyed, in_float64, keys, nobody))
    rows, distances = there._nearest_of_each(queries, keyed, in_float64, keys, nobody)
    line["order"] = timed(lambda: nearest_classes(torch, rows, distances, NEAR))
    near = nearest_classes(torch, rows, distances, NEAR)
    line["members"] = timed(lambda: steps.members_of_lines(queries, there, near, nobody, members[-1], ROOM))
    kept, counts = steps.members_of_lines(queries, there, near, nobody, members[-1], ROOM)
    line["members a line"] = round(float(counts.double().mean()), 2)
    lines, in_order = exact.repeat_interleave(near.shape[1], dim=0), replace(there.rows, exact=there.in_order)
    line["measure members"] = timed(lambda: collection.steps.measure(kind, lines, in_order, kept, counts))
    far = collection.steps.measure(kind, lines, in_order, kept, counts)
    line["order members"] = timed(lambda: collection.steps.order(kept, far, counts, nobody, 0, members[-1]))
    line["means"] = timed(lambda: there._means(queries, exact, near, nobody, members))
    if isinstance(steps, TritonClassSteps):
        works = {
            "keys": lambda: steps.nearest_of_classes(keys, keyed, there, nobody),
            "pairs": lambda: steps.measure_pairs(kind, in_float64, there, None, places),
            "lines": lambda: steps.members_of_lines(queries, there, near, nobody, members[-1], ROOM),
        }
        for name, given in OTHER_LAUNCHES:
            steps.sizes = replace(KernelSizes(), **given)
            try:
                print(f"  {given}: {timed(works[name])} ms", flush=True)
            except Exception as error:  # too large for this GPU: the next one may fit
                print(f"  {given}: {type(error).__name__}", flush=True)
        steps.sizes = KernelSizes()
    return line


def unlike(one: NeighborTable, other: NeighborTable) -> int:
    """How many queries differ in a neighbor, a class, its place, or a bit of a distance or mean."""
    assert one.classes is not None
    assert other.classes is not None
    mine = (one.indices, one.distances, *one.classes.arrays)
    theirs = (other.indices, other.distances, *other.classes.arrays)
    differs = [(a != b).reshape(len(one), -1).any(axis=1) for a, b in zip(mine, theirs, strict=True)]
    return int(np.any(differs, axis=0).sum())


def probabilities(
    torch: Any, device: str, X: np.ndarray, Q: np.ndarray, labels: np.ndarray, here: LabeledNeighbors
) -> dict[str, Any]:
    """Seconds to fit the pooled posterior, milliseconds of its answers, and how far they are from the processor's."""

    def there(table: NeighborTable) -> None:
        pool.proba_on_gpu(table)
        if device != "cpu":
            torch.cuda.synchronize()

    start = time.perf_counter()
    classifier = ns.NeighborClassifier(10, posterior="pooled", search=GpuSearch(device=device)).fit(X, labels)
    line: dict[str, Any] = {"fit, s": time.perf_counter() - start}
    line["predict_proba, ms"] = wall_milliseconds(lambda run: classifier.predict_proba(Q), device, 5)
    pool = classifier.posterior_
    members, few = tuple(pool.members_.tolist()), Q[:200]
    line["without the copy, ms"] = wall_milliseconds(lambda run: there(classifier.model_.query(Q)), device, 5)
    p, expected = classifier.predict_proba(Q)[: len(few)], pool.proba(here.query(few, 10, members))
    line["largest error of p"] = f"{np.abs(p / expected - 1).max():.1e}"
    return line
