"""The pool's forest beside scikit-learn's: ``python -m benchmarks.forest [--tiny]``.

A hundred trees, each grown from as many rows, drawn with replacement, as there are, or from 2,000 where there are more,
with the square root of the columns tried at each node; both on one thread, in turn. Ours are grown to the end and then
cut back to the smallest split by which past cases are answered best, within the time shown. ``fit`` and ``ask`` are
ours, in milliseconds, and the ratios how many times as long scikit-learn takes; ``ask`` is of 1,000 rows. Beside them
the log loss of 2,000 further rows by both, 1 % of each answer spread evenly.
"""

from __future__ import annotations

from functools import partial
from time import process_time
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

from benchmarks.measuring import Rows, best_times, main
from nearsay.core.parallel import threads
from nearsay.posterior.views.forest import FOREST_SPREAD, ForestClasses

# rows, columns, classes
SHAPES = ((150, 4, 3), (1000, 20, 3), (4000, 20, 10), (4000, 300, 10), (10_000, 64, 10), (15_000, 512, 150))
TREES, ROWS_A_TREE, QUERIES, FRESH = 100, 2000, 1000, 2000


def run(tiny: bool) -> Rows:
    return [row_of(*shape, repeats=1 if tiny else 3) for shape in (SHAPES[:1] if tiny else SHAPES)]


def row_of(n_rows: int, n_columns: int, n_classes: int, *, repeats: int) -> dict[str, Any]:
    X, y = make_classification(
        n_rows + FRESH, n_columns, n_informative=min(n_columns, 20), n_redundant=0, n_classes=n_classes,
        n_clusters_per_class=1, random_state=0,
    )  # fmt: skip
    fresh, truth, X, y = X[n_rows:], y[n_rows:], X[:n_rows], y[:n_rows]
    drawn = ROWS_A_TREE if n_rows > ROWS_A_TREE else None
    ours = ForestClasses(n_trees=TREES, rows_a_tree=ROWS_A_TREE)
    theirs = RandomForestClassifier(TREES, max_samples=drawn, random_state=0)
    with threads(1):
        forests = {"ours": ours.fit(X, y), "theirs": theirs.fit(X, y)}
        lost = {name: log_loss(forest.predict_proba(fresh), truth) for name, forest in forests.items()}
        fitting = {name: partial(clone(forest).fit, X, y) for name, forest in forests.items()}
        asking = {name: partial(forest.predict_proba, fresh[:QUERIES]) for name, forest in forests.items()}
        fit, ask = (best_times(works, repeats, process_time) for works in (fitting, asking))
    return {
        "shape": f"{n_rows}×{n_columns}, {n_classes} classes",
        "fit, ms": round(1000 * fit["ours"]),
        "fit ratio": round(fit["theirs"] / fit["ours"], 1),
        "ask, ms": round(1000 * ask["ours"]),
        "ask ratio": round(ask["theirs"] / ask["ours"], 1),
        "log loss": f"{lost['ours']:.3f} ({lost['theirs']:.3f})",
    }


def log_loss(proba: np.ndarray, truth: np.ndarray) -> float:
    p = (1 - FOREST_SPREAD) * proba[np.arange(len(truth)), truth] + FOREST_SPREAD / proba.shape[1]
    return -float(np.log(p).mean())


if __name__ == "__main__":
    main("The pool's forest beside scikit-learn's, 100 trees, one thread", run)
