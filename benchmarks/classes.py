"""What listing all classes costs, and what it saves: ``python -m benchmarks.classes [--tiny]``.

First the nearest rows with all classes by their nearest member, and the means of up to 64 members of the 16 nearest,
beside the same search for the nearest rows alone, each row left out of its own neighbors: CPU time of one thread, so
that other work on the machine does not count, and CPU time of two. Then what ``NeighborClassifier()`` and
``metric="auto"`` take to fit, in searches for the neighbors of 10,000 rows, and with the answers to 1,000 queries, in
searches for both. Then accuracy and log loss of the pool and of the
ranks as the number of classes grows, for the same queries and the same first hundred classes: no cliff.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from threadpoolctl import threadpool_limits

import nearsay as ns
from benchmarks.measuring import Rows, best_times, main, print_table
from nearsay.metrics.probability import accuracy, mean_log_posterior

K = 10
MEMBERS = (1, 4, 16, 64)
N_COLUMNS = 128
# Kind of rows, rows, classes, rows asked.
CASES = [
    ("noise", 100_000, 10, 2_000),
    ("noise", 100_000, 1_000, 10_000),
    ("clusters", 100_000, 1_000, 10_000),
    ("noise", 100_000, 10_000, 2_000),
]
TINY_CASES = [("noise", 3_000, 200, 300), ("clusters", 3_000, 200, 300)]
# Metric, rows, classes, columns, rows searched, queries. "auto" holds the rows of nine views, so fewer of them.
FITS = [
    ("euclidean", 20_000, 1_000, 128, 10_000, 1_000),
    ("euclidean", 100_000, 10, 128, 10_000, 1_000),
    ("euclidean", 100_000, 1_000, 128, 10_000, 1_000),
    ("euclidean", 400_000, 1_000, 128, 10_000, 1_000),
    ("auto", 2_000, 20, 50, 2_000, 1_000),
    ("auto", 20_000, 1_000, 128, 10_000, 1_000),
    ("auto", 100_000, 1_000, 128, 10_000, 1_000),
]
TINY_FITS = [("euclidean", 300, 20, 8, 60, 20), ("auto", 120, 5, 8, 60, 20)]
SWEEP = [100, 128, 129, 200, 1_000, 10_000]
TINY_SWEEP = [128, 129]


def run(tiny: bool) -> Rows:
    with threadpool_limits(1):
        costs = [case(*shape, repeats=1 if tiny else 3) for shape in (TINY_CASES if tiny else CASES)]
        print_table("Fitting, one thread", [fit_times(*shape) for shape in (TINY_FITS if tiny else FITS)])
    print_table("As the number of classes grows, k=15", [answers(n) for n in (TINY_SWEEP if tiny else SWEEP)])
    return costs


def case(kind: str, n: int, n_classes: int, n_asked: int, *, repeats: int) -> dict[str, object]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n)
    X = rng.random((n, N_COLUMNS), dtype=np.float32)
    if kind == "clusters":
        X += 0.5 * rng.standard_normal((n_classes, N_COLUMNS), dtype=np.float32)[y]
    rows = np.sort(rng.choice(n, n_asked, replace=False))
    labeled = ns.NeighborIndex(search="exact").fit(X).with_labels(y, n_classes)
    works = {
        "rows": lambda: labeled.leave_one_out(K, rows=rows),
        "classes": lambda: labeled.leave_one_out(K, MEMBERS, rows=rows),
    }
    labeled.leave_one_out(K, MEMBERS, rows=rows[:100])  # compiles, and prepares the rows
    with ns.threads(1):
        alone = best_times(works, repeats, time.process_time)
    with ns.threads(2):
        both = best_times(works, repeats, time.process_time)
    return {
        "rows, classes": f"{n}×{N_COLUMNS} {kind}, {n_classes}",
        "rows alone, CPU µs per query": 1e6 * alone["rows"] / n_asked,
        "with classes": 1e6 * alone["classes"] / n_asked,
        "×": alone["classes"] / alone["rows"],
        "two threads ×": both["classes"] / both["rows"],
    }


def fit_times(metric: str, n: int, n_classes: int, n_columns: int, n_asked: int, n_queries: int) -> dict[str, object]:
    rng = np.random.default_rng(0)
    centers = 0.5 * rng.standard_normal((n_classes, n_columns), dtype=np.float32)
    y = rng.integers(0, n_classes, n)
    X = rng.random((n, n_columns), dtype=np.float32) + centers[y]
    Q = rng.random((n_queries, n_columns), dtype=np.float32) + centers[rng.integers(0, n_classes, n_queries)]
    rows = np.sort(rng.choice(n, n_asked, replace=False))
    ns.NeighborClassifier(metric=metric).fit(X[:600], y[:600]).predict_proba(Q[:50])  # compiles
    index = ns.NeighborIndex(search="exact").fit(X)
    index.query(Q[:100], K)
    classifier = ns.NeighborClassifier(metric=metric)
    with ns.threads(1):
        works = {
            "rows": lambda: index.leave_one_out(K, rows),
            "queries": lambda: index.query(Q, K),
            "fit": lambda: classifier.fit(X, y),
            "answers": lambda: classifier.predict_proba(Q),
        }
        took = best_times(works, 1, time.process_time)
    return {
        "metric, rows, classes": f"{metric}, {n}×{n_columns}, {n_classes}",
        "search, CPU s": took["rows"],
        "fit": took["fit"],
        "×": took["fit"] / took["rows"],
        "answers": took["answers"],
        "both, × searching rows and queries": (took["fit"] + took["answers"]) / (took["rows"] + took["queries"]),
    }


def answers(n_classes: int, posteriors: Sequence[str] = ("pooled", "rank")) -> dict[str, float]:
    """Six rows of each class in 12 columns; ten queries of each of the first hundred."""
    centers = np.random.default_rng(7).normal(size=(n_classes, 12))
    y, truth = np.repeat(np.arange(n_classes), 6), np.repeat(np.arange(100), 10)
    X = centers[y] + 0.8 * np.random.default_rng(8).normal(size=(len(y), 12))
    Q = centers[truth] + 0.8 * np.random.default_rng(9).normal(size=(len(truth), 12))
    row: dict[str, float] = {"classes": n_classes}
    for posterior in posteriors:
        p = ns.NeighborClassifier(15, posterior=posterior).fit(X, y).predict_proba(Q)
        row[f"{posterior}: accuracy"] = accuracy(p.argmax(axis=1), truth)
        row[f"{posterior}: log loss"] = -mean_log_posterior(p, truth)
    return row


if __name__ == "__main__":
    main("All classes beside the nearest rows", run)
