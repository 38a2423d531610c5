"""Classes on a graphics card: the search by class, its steps, and class probabilities, beside the search for rows.

``python -m benchmarks.gpu --classes`` prints it. An audit compares order, means and bits with the processor's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import nearsay as ns
from benchmarks.gpu_measured import made_up, milliseconds, wall_milliseconds
from benchmarks.measuring import Rows
from nearsay.neighbors import find
from nearsay.neighbors.index import NeighborIndex
from nearsay.neighbors.labeled import LabeledNeighbors
from nearsay.neighbors.table import NeighborTable
from nearsay.search.card.class_triton import Sizes, TritonClassSteps
from nearsay.search.card.classes import DeviceClasses
from nearsay.search.exact import ExactSearch
from nearsay.search.gpu import GpuSearch

# What the pooled posterior asks for: means of so many nearest members, of the 16 nearest classes.
MEMBERS, NEAR = (1, 4, 16, 64), 16
# Sizes of groups and of kernels, to be compared with those that are used: by what tells which kernel they are of.
OTHER_SIZES = (8, 32)
OTHER_LAUNCHES: list[tuple[str, dict[str, int]]] = [
    *(("queries", {"queries": many}) for many in (16, 32, 64)),
    *(("entries", {"entries": many}) for many in (2, 4, 8, 16)),
    *(("lanes", {"lanes": lanes, "warps": warps}) for lanes, warps in ((128, 4), (512, 8), (512, 16), (1024, 8))),
    *(
        ("lines", {"lines": lines, "rows": rows, "tile_warps": warps})
        for lines, rows, warps in ((16, 64, 4), (32, 64, 4), (64, 64, 4), (64, 64, 8), (32, 128, 4))
    ),
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
    line |= on_the_card(torch, device, index.search_, Q, labels, n_classes, members)
    print(line, flush=True)
    labeled = index.with_labels(labels, n_classes)
    line["nearest rows, numpy, ms"] = wall_milliseconds(lambda run: index.query(Q, 10), 5)
    line["and all classes, numpy, ms"] = wall_milliseconds(lambda run: labeled.query(Q, 10, members), 3)
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


def on_the_card(
    torch: Any, device: str, search: Any, Q: np.ndarray, labels: np.ndarray, n_classes: int, members: tuple[int, ...]
) -> dict[str, Any]:
    """Milliseconds of the search for rows, of that by class, and of its steps; queries and results stay there."""
    collection = search.on_device()
    asked = torch.from_numpy(Q).to(device)

    def timed(work: Callable[[], object]) -> float:
        return round(milliseconds(torch, lambda run: work(), device, 5), 3)

    def all_of_it(there: DeviceClasses, members: tuple[int, ...]) -> None:
        for _ in there.found(asked, find.NOBODY, 10, members, NEAR):
            pass

    for size in OTHER_SIZES:
        there = DeviceClasses(collection, labels, n_classes, size=size)
        print(f"  groups of {size}: {timed(partial(all_of_it, there, members))} ms", flush=True)
    there = DeviceClasses(collection, labels, n_classes)
    kind, steps, nobody = collection.kind, there.steps, asked[:0, 0].long()
    rows = timed(lambda: collection.nearest(asked, find.NOBODY, 10))
    line: dict[str, Any] = {"nearest rows, ms": rows, "by class, ms": timed(lambda: all_of_it(there, members))}
    line["over nearest rows, there"] = round(line["by class, ms"] / rows, 2)
    line["order alone, ms"] = timed(lambda: all_of_it(there, ()))
    queries, exact = collection._queries(asked), collection._measurable(asked).double()
    line["minima"] = timed(lambda: collection.steps.group_minima(queries, there.rows, there.size))
    minima = collection.steps.group_minima(queries, there.rows, there.size)
    line["rows of all"] = timed(lambda: there._nearest_rows(queries, exact, minima, nobody, 10))
    line["groups"] = timed(lambda: steps.groups_of_classes(minima, queries, there, nobody))
    thresholds, pairs, groups = steps.groups_of_classes(minima, queries, there, nobody)
    line["look"] = timed(lambda: steps.rows_of_pairs(queries, there, thresholds, pairs, groups, nobody))
    row_pairs, places = steps.rows_of_pairs(queries, there, thresholds, pairs, groups, nobody)
    line["groups a pair"] = round(len(pairs) / len(thresholds), 3)
    line["rows a pair"] = round(int((places >= 0).sum()) / len(thresholds), 3)
    line["measure"] = timed(lambda: steps.measure_pairs(kind, exact, there, row_pairs, places))
    nearest = there._nearest_of_each(queries, exact, minima, nobody)
    line["order"] = timed(lambda: there._in_order(*nearest))
    numbers = there._in_order(*nearest)[0][:, :NEAR].contiguous()
    line["means"] = timed(lambda: there._means(exact, numbers, nobody, members))
    if isinstance(steps, TritonClassSteps):
        works = {
            "queries": lambda: steps.groups_of_classes(minima, queries, there, nobody),
            "entries": lambda: steps.rows_of_pairs(queries, there, thresholds, pairs, groups, nobody),
            "lanes": lambda: steps.measure_pairs(kind, exact, there, row_pairs, places),
            "lines": lambda: steps.measure_classes(exact, there, numbers, nobody),
        }
        for name, given in OTHER_LAUNCHES:
            steps.sizes = replace(Sizes(), **given)
            try:
                print(f"  {given}: {timed(works[name])} ms", flush=True)
            except Exception as error:  # too large for this card: the next one may fit
                print(f"  {given}: {type(error).__name__}", flush=True)
        steps.sizes = Sizes()
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
        pool.proba_there(table)
        if device != "cpu":
            torch.cuda.synchronize()

    start = time.perf_counter()
    classifier = ns.NeighborClassifier(10, posterior="pooled", search=GpuSearch(device=device)).fit(X, labels)
    line: dict[str, Any] = {"fit, s": time.perf_counter() - start}
    line["predict_proba, ms"] = wall_milliseconds(lambda run: classifier.predict_proba(Q), 5)
    pool = classifier.posterior_
    members, few = tuple(pool.members_.tolist()), Q[:200]
    line["without the copy, ms"] = wall_milliseconds(lambda run: there(classifier._neighbors(Q)), 5)
    p, expected = classifier.predict_proba(Q)[: len(few)], pool.proba(here.query(few, 10, members))
    line["largest error of p"] = f"{np.abs(p / expected - 1).max():.1e}"
    return line
