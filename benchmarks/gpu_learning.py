"""A learned metric (LMNN) with its impostors listed on a GPU, beside the processor's lists.

``python -m benchmarks.gpu --learning`` prints it. What is learned must be the same to the last bit.
"""

from __future__ import annotations

import time
import warnings
from typing import Any
from unittest.mock import patch

import numpy as np

import nearsay as ns
from benchmarks.measuring import Rows
from nearsay.learn.lmnn import impostors

# Rows, columns, classes, steps.
CASES = [(20_000, 128, 10, 15), (50_000, 64, 100, 8)]
TINY_CASES = [(200, 6, 4, 2)]


def learning(torch: Any, device: str, tiny: bool) -> Rows:
    """Seconds of a fit, both ways, and whether both learned the same."""
    return [learned(device, *case) for case in (TINY_CASES if tiny else CASES)]


def learned(device: str, n: int, d: int, n_classes: int, n_steps: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, n_classes, size=n)
    X = 0.6 * rng.normal(size=(n_classes, d))[labels] + rng.normal(size=(n, d))
    seconds, maps = {}, {}
    for way, least in (("on the processor", 1 << 62), ("on the GPU", 0)):
        with (
            warnings.catch_warnings(),
            patch.object(impostors, "GPU_FROM", least),
            patch.object(impostors, "GPU", device),
            patch.object(impostors, "fits_gpu", lambda X: True),
        ):
            warnings.simplefilter("ignore")  # that it stopped with the loss still falling
            ns.LMNN(max_iter=1).fit(X[: n // 10], labels[: n // 10])
            start = time.perf_counter()
            maps[way] = ns.LMNN(max_iter=n_steps).fit(X, labels).components_
            seconds[way] = time.perf_counter() - start
    here, there = maps.values()
    line: dict[str, Any] = {"rows": f"{n}×{d}", "classes": n_classes, "steps": n_steps}
    line |= {f"{way}, s": taken for way, taken in seconds.items()}
    line["times as fast"] = seconds["on the processor"] / seconds["on the GPU"]
    line["unlike the CPU"] = int((here != there).sum())
    print(line, flush=True)
    return line
