"""Processor time of fit and of 1,000 questions, beside scikit-learn: ``python -m benchmarks.fit [--tiny]``.

    made-up rows ──► each model in turn, one thread ──► seconds of fit, of questions, log loss of fresh rows

``--shapes rows,columns,classes …`` names other sizes, and ``--only`` models whose name holds a word. Rows are drawn by
scikit-learn's ``make_classification``: two clusters a class, a tenth of the columns informative. *Bare searches* are
exact searches for ten neighbors in as many views as the default pools; *ours / it* is the time of the default over
that of a line.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import nearsay as ns
from benchmarks.measuring import Rows, print_table
from nearsay.core.compiling import start_compiling

# Rows, columns, classes.
SHAPES = [(4_000, 20, 10), (4_000, 300, 10), (3_000, 1_000, 10), (4_000, 1_000, 10), (10_000, 64, 10)]
TINY_SHAPES = [(200, 8, 3)]
QUESTIONS = 1_000
K = 10
SEED = 0
OURS = "nearsay default"

Make = Callable[[bool], Any]
MODELS: dict[str, Make] = {
    OURS: lambda tiny: ns.NeighborClassifier(),
    'nearsay metric="auto"': lambda tiny: ns.NeighborClassifier(metric="auto"),
    "logistic regression, C of 5 by 3 folds": lambda tiny: make_pipeline(
        StandardScaler(), LogisticRegressionCV(Cs=5, cv=3, scoring="neg_log_loss", max_iter=300)
    ),
    "gradient boosting (histograms)": lambda tiny: HistGradientBoostingClassifier(
        max_iter=5 if tiny else 100, random_state=SEED
    ),
    "extra trees, 300": lambda tiny: ExtraTreesClassifier(10 if tiny else 300, random_state=SEED),
    "15 neighbors, calibrated by 3 folds": lambda tiny: make_pipeline(
        StandardScaler(), CalibratedClassifierCV(KNeighborsClassifier(15), cv=3)
    ),
}


def made_up(n: int, n_columns: int, n_classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows with labels, and questions with the truth."""
    corners = int(np.ceil(np.log2(2 * n_classes)))  # each class has two, of a cube of as many dimensions
    informative = min(n_columns, max(10, n_columns // 10, corners))
    X, y = make_classification(
        n + QUESTIONS,
        n_columns,
        n_informative=informative,
        n_redundant=min(n_columns // 5, 50) if n_columns >= 30 else 0,
        n_repeated=0,
        n_classes=n_classes,
        class_sep=1.5,
        random_state=SEED,
    )
    return X[:n], y[:n], X[n:], y[n:]


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor time, and what was made."""
    start = time.process_time()
    made = work()
    return time.process_time() - start, made


def line(name: str, model: Any, data: tuple[np.ndarray, ...]) -> dict[str, Any]:
    """What one model takes, and how good its probabilities are."""
    X, y, Q, truth = data
    fit, model = seconds(lambda: model.fit(X, y))
    ask, p = seconds(lambda: model.predict_proba(Q))
    lost = -np.log(np.clip(p[np.arange(len(Q)), np.searchsorted(model.classes_, truth)], 1e-6, 1)).mean()
    return {"model": name, "fit s": fit, "ask s": ask, "log loss": float(lost)}


def bare_searches(model: ns.NeighborClassifier, data: tuple[np.ndarray, ...]) -> dict[str, Any]:
    """As many exact searches as the model pools views."""
    X, _, Q, _ = data
    n_views = len(model.model_.views.views)
    index = ns.NeighborIndex(search="exact").fit(X)
    index.query(Q[:2], K)  # what is prepared once
    ask = seconds(lambda: [index.query(Q, K) for _ in range(n_views)])[0]
    return {"model": f"bare searches, {n_views} view{'s' if n_views > 1 else ''}", "ask s": ask}


def run(shapes: list[tuple[int, ...]], only: str = "", *, tiny: bool = False) -> Rows:
    """A line for each model and size; one small fit of ours comes first, so that compiling is not counted."""
    rows: Rows = []
    for shape in shapes:
        data = made_up(*shape)
        small = made_up(400, *shape[1:])
        lines = []
        for name, make in MODELS.items():
            if only not in name and name != OURS:
                continue
            if "nearsay" in name:
                make(tiny).fit(*small[:2]).predict_proba(small[2])
            model = make(tiny)
            lines.append(line(name, model, data))
            if name == OURS:
                lines.append(bare_searches(model, data))
        ours = lines[0]
        for each in lines:
            for what in ("fit", "ask"):
                if f"{what} s" in each and each is not ours:
                    each[f"ours / it, {what}"] = ours[f"{what} s"] / each[f"{what} s"]
            rows.append({"rows×columns, classes": f"{shape[0]}×{shape[1]}, {shape[2]}"} | each)
    return rows


def main() -> None:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="sizes that only show that it works")
    parser.add_argument("--shapes", nargs="*", default=[], help="rows,columns,classes")
    parser.add_argument("--only", default="", help="models whose name holds this, beside the default")
    options = parser.parse_args()
    shapes = [tuple(map(int, shape.split(","))) for shape in options.shapes]
    start_compiling()
    with warnings.catch_warnings(), threadpool_limits(1), ns.threads(1):
        warnings.simplefilter("ignore")  # what did not converge, and parameters that scikit-learn will drop
        rows = run(shapes or (TINY_SHAPES if options.tiny else SHAPES), options.only, tiny=options.tiny)
    print_table("Fit and 1,000 questions, processor time of one thread", rows)


if __name__ == "__main__":
    main()
