"""Rows that break searches, and an audit of exact search on them: heavy tails, duplicates, zeros, extreme scales.

    python -m benchmarks.hard_rows                     10,000 random queries against a double loop in float64
    python -m benchmarks.hard_rows --queries 100000    more of them

Every case draws a family of rows, a type, a shape, a number of neighbors and a backend. A query counts as wrong where a
row, its place or one bit of its distance differs from the double loop's. ``tests/search/test_hard_rows.py`` runs the
same cases with bounds checks in every compiled loop, and ``benchmarks/gpu.py --audit`` on a GPU.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.measuring import print_table
from nearsay.core.compiling import start_compiling
from nearsay.neighbors import neighbor_search
from nearsay.search.exact import ExactSearch
from nearsay.search.gpu.gpu_search import GpuSearch
from nearsay.search.trees import TreeSearch

Draw = Callable[[np.random.Generator, int, int], np.ndarray]


def _lognormal(rng: np.random.Generator, n: int, d: int, *, sigma: float) -> np.ndarray:
    return rng.lognormal(0, sigma, (n, d))


def _scaled(rng: np.random.Generator, n: int, d: int, *, scale: float) -> np.ndarray:
    return scale * rng.normal(size=(n, d))


def _duplicated(rng: np.random.Generator, n: int, d: int, *, share: float) -> np.ndarray:
    """Normal rows, of which a share are copies of others."""
    X = rng.normal(size=(n, d))
    copies = rng.permutation(n)[: int(share * n)]
    X[copies] = X[rng.integers(0, n, len(copies))]
    return X


def _equal(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Normal rows, of which half are one and the same."""
    X = rng.normal(size=(n, d))
    X[rng.permutation(n)[: n // 2]] = X[0]
    return X


def _zeros(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    X = rng.normal(size=(n, d))
    X[rng.permutation(n)[: n // 6]] = 0
    return X


def _huge_row(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    X = rng.normal(size=(n, d))
    X[rng.integers(n)] *= 1e30
    return X


def _huge_column(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    X = rng.normal(size=(n, d))
    X[:, rng.integers(d)] *= 1e15
    return X


def _constant_columns(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    X = rng.normal(size=(n, d))
    X[:, : d // 2] = 1e6
    return X


FAMILIES: dict[str, Draw] = {
    "normal": partial(_scaled, scale=1.0),
    **{f"lognormal, sigma {sigma}": partial(_lognormal, sigma=sigma) for sigma in range(1, 9)},
    "Student t, 1.5": lambda rng, n, d: rng.standard_t(1.5, (n, d)),
    **{f"{share:.0%} duplicates": partial(_duplicated, share=share) for share in (0.05, 0.2, 0.5)},
    "half equal": _equal,
    "zero rows": _zeros,
    "one huge row": _huge_row,
    "one huge column": _huge_column,
    "lattice": lambda rng, n, d: rng.integers(0, 3, (n, d)).astype(float),
    "constant columns": _constant_columns,
    **{f"scale {scale:g}": partial(_scaled, scale=scale) for scale in (1e-30, 1e-15, 1e15, 1e30)},
}
DTYPES = ("float64", "float32", "uint8")
NEIGHBORS = (1, 10, 47, 48, 49, 200, sys.maxsize)  # the last: all rows
SHAPES = ((1, 3), (2, 1), (60, 2), (300, 64), (1600, 5), (7000, 16), (7000, 40))
BACKENDS: dict[str, Callable[[], Any]] = {
    "exact, 8 bits": lambda: ExactSearch(products="int8"),
    "exact, float32": lambda: ExactSearch(products="float32"),
    "exact, chosen": ExactSearch,
    "kd tree": lambda: TreeSearch(kind="kd"),
    "ball tree": lambda: TreeSearch(kind="ball"),
    **({"GPU steps": lambda: GpuSearch(device="cpu")} if find_spec("torch") else {}),
}


def rows_and_queries(
    family: str, dtype: str, n: int, d: int, n_queries: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a family, and queries: some are rows, some nearly rows, and some new."""
    drawn = FAMILIES[family](rng, n + n_queries, d)
    X, Q = drawn[:n], drawn[n:]
    nearly, rows = Q[::3], Q[1::3]
    nearly[:] = X[rng.integers(0, n, len(nearly))] * 1.0001
    rows[:] = X[rng.integers(0, n, len(rows))]
    X, Q = (_as_type(part, dtype) for part in (X, Q))
    return X, Q


def _as_type(X: np.ndarray, dtype: str) -> np.ndarray:
    return np.clip(np.rint(X), 0, 255).astype(np.uint8) if dtype == "uint8" else X.astype(dtype)


def nearest_by_loop(X: np.ndarray, Q: np.ndarray, k: int, left_out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest rows by a sum over columns in float64, in order; ties by row number."""
    columns, k = X.T.astype(np.float64, order="C"), min(k, len(X))
    numbers, distances = np.empty((len(Q), k), np.int64), np.empty((len(Q), k))
    for line, query in enumerate(Q.astype(np.float64)):
        far = np.zeros(len(X))
        for x, q in zip(columns, query, strict=True):
            difference = q - x
            far += difference * difference
        far = np.sqrt(far)
        if len(left_out):
            far[left_out[line]] = np.inf
        near = np.flatnonzero(far <= np.partition(far, k - 1)[k - 1])
        numbers[line] = near[np.argsort(far[near], kind="stable")[:k]]
        distances[line] = far[numbers[line]]
    return numbers, distances


@dataclass(frozen=True)
class Case:
    """One batch of queries among rows of one family."""

    family: str
    dtype: str
    shape: tuple[int, int]
    k: int
    backend: str
    seed: int
    leave_out: bool = False

    def n_wrong(self, n_queries: int) -> int:
        """Ask, and count the answers unlike the double loop's."""
        rng = np.random.default_rng(self.seed)
        X, Q = rows_and_queries(self.family, self.dtype, *self.shape, n_queries, rng)
        k, left_out = min(self.k, len(X) - self.leave_out), neighbor_search.NOBODY
        if self.leave_out:
            left_out = rng.integers(0, len(X), n_queries)
            Q = X[left_out]
        search = BACKENDS[self.backend]().fit(X)
        table = (
            neighbor_search.leave_one_out(search, k, left_out)
            if self.leave_out
            else neighbor_search.nearest(search, Q, k)
        )
        numbers, distances = nearest_by_loop(X, Q, k, left_out)
        same = (table.indices == numbers) & (table.distances == distances)
        return int((~same.all(axis=1)).sum())


def random_cases(seed: int, backends: tuple[str, ...] = tuple(BACKENDS)) -> Iterator[Case]:
    """Cases without end; the families take turns, so that none is left out."""
    rng = np.random.default_rng(seed)
    while True:
        for family in FAMILIES:
            shape = SHAPES[rng.integers(len(SHAPES))]
            yield Case(
                family,
                str(rng.choice(DTYPES, p=[0.5, 0.4, 0.1])),
                shape,
                int(rng.choice(NEIGHBORS)),
                str(rng.choice(backends)),
                int(rng.integers(1 << 31)),
                leave_out=shape[0] > 1 and bool(rng.random() < 0.25),
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tiny", action="store_true", help="a few queries, to show that it works")
    given = parser.parse_args()
    n_cases, at_once = (5, 6) if given.tiny else (-(-given.queries // 40), 40)
    start_compiling()
    asked: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for _, case in zip(range(n_cases), random_cases(given.seed), strict=False):
        n_wrong = case.n_wrong(at_once)
        asked[case.family] += at_once
        wrong[case.family] += n_wrong
        if n_wrong:
            print(f"{n_wrong} wrong: {case}", flush=True)
    lines = [{"rows": family, "queries": asked[family], "wrong": wrong[family]} for family in asked]
    print_table("Exact search among hard rows", lines)
    print(f"{asked.total()} queries, {wrong.total()} wrong")
    return int(wrong.total() > 0)


if __name__ == "__main__":
    sys.exit(main())
