"""Probabilities beside the search they come from: ``python -m benchmarks.probabilities [--tiny]``.

First, one fold of the leaves as in Mallah and Orwell (section 4.4): 1500 rows,
100 queries, three feature groups, fit and answer together, on one thread,
beside the seconds they print and beside scikit-learn's calibrated k-NN on the
same rows. Without the data set, made-up rows of the same shape.

Then a large collection, on all threads: the whole ``fit`` beside the
leave-one-out search alone, the whole ``predict_proba`` beside the search
alone, each pair taking turns. Every fit searches all rows once more, so this
takes minutes. The rows are class centers and noise, so that neighbors mean
something, but not everything.
"""

from __future__ import annotations

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.neighbors import KNeighborsClassifier
from threadpoolctl import threadpool_limits

import nearsay as ns
from benchmarks.measuring import Rows, best_times, main
from nearsay.data.rows import LabeledRows
from nearsay.errors import DatasetNotFound
from nearsay.posterior.fused import FusedClassifier
from nearsay.posterior.methods.named import POSTERIORS
from nearsay.posterior.methods.proportional import Proportional
from reproduce.held_out import leave_one_specimen_out
from reproduce.probabilities.published import SECONDS_A_FOLD, SECONDS_OTHERS

K_LEAVES, K_LARGE = 3, 10
PEER = "scikit-learn, calibrated"
NOISE = 1.6  # in standard deviations of the centers: the nearest row is of another class for one query in eight
FEW = 2000


def fold_of_leaves(tiny: bool) -> Rows:
    rows = made_up_leaves(n_classes=10, n_groups=3, width=4) if tiny else leaves()
    train, test = next(iter(leave_one_specimen_out(rows)))
    works = {name: lambda name=name: fused_fold(rows, train, test, name) for name in POSTERIORS}
    works[PEER] = lambda: calibrated_fold(rows, train, test)
    with threadpool_limits(1), ns.threads(1):
        times = best_times(works, 2 if tiny else 7)
    return [
        {
            "estimator": name,
            "rows": rows.name,
            "ms": 1000 * time,
            "× scikit-learn": times[PEER] / time,
            "the paper's s": "" if name in (PEER, "pooled") else SECONDS_A_FOLD.get(name, SECONDS_OTHERS),
        }
        for name, time in times.items()
    ]


def fused_fold(rows: LabeledRows, train: np.ndarray, test: np.ndarray, posterior: str) -> None:
    base = ns.NeighborClassifier(K_LEAVES, posterior=posterior)
    FusedClassifier(rows.feature_groups, base).fit(rows.X[train], rows.y[train]).predict_proba(rows.X[test])


def calibrated_fold(rows: LabeledRows, train: np.ndarray, test: np.ndarray) -> None:
    """All columns together: scikit-learn fuses no groups, and takes no row that lacks one."""
    train, test = (part[~np.isnan(rows.X[part]).any(axis=1)] for part in (train, test))
    peer = CalibratedClassifierCV(KNeighborsClassifier(K_LEAVES))
    peer.fit(rows.X[train], rows.y[train]).predict_proba(rows.X[test])


def leaves() -> LabeledRows:
    try:
        return ns.load_dataset("leaves")
    except DatasetNotFound:
        return made_up_leaves(n_classes=100, n_groups=3, width=64)


def made_up_leaves(n_classes: int, n_groups: int, width: int) -> LabeledRows:
    X, y = centers_and_noise(16, n_classes, n_groups * width)
    order = np.argsort(y, kind="stable")
    groups = {f"group {number}": slice(number * width, (number + 1) * width) for number in range(n_groups)}
    return LabeledRows(X[order], y[order], groups, name="made-up")


def large_collection(tiny: bool) -> Rows:
    n_per_class, n_classes, d, n_queries = (10, 30, 8, 40) if tiny else (100, 1000, 128, 2000)
    X, y = centers_and_noise(n_per_class, n_classes, d)
    Q, truth = centers_and_noise(max(1, n_queries // n_classes), n_classes, d, seed=1)
    case = f"{len(X)}×{d}, {n_classes} classes, k={K_LARGE}"
    return [large_row(case, X, y, Q, truth, name, repeats=1 if tiny else 5) for name in POSTERIORS]


def large_row(
    case: str, X: np.ndarray, y: np.ndarray, Q: np.ndarray, truth: np.ndarray, posterior: str, *, repeats: int
) -> dict[str, object]:
    classifier = ns.NeighborClassifier(K_LARGE, posterior=posterior)
    classifier.fit(X[:FEW], y[:FEW]).predict_proba(Q[:FEW])  # compiles
    fit = best_times({"whole": lambda: classifier.fit(X, y), "search": lambda: search_alone(X)}, 1)
    index = classifier.index_
    asked = best_times(
        {"whole": lambda: classifier.predict_proba(Q), "search": lambda: index.query(Q, K_LARGE)}, repeats
    )
    learns = POSTERIORS[posterior] is not Proportional  # votes alone: nothing is searched
    return {
        "case": case,
        "posterior": posterior,
        "fit s": fit["whole"],
        "fit ÷ leave-one-out search": fit["whole"] / fit["search"] if learns else "",
        "predict_proba ms": 1000 * asked["whole"],
        "predict_proba ÷ search": asked["whole"] / asked["search"],
        "accuracy": float(np.mean(classifier.predict(Q) == truth)),
    }


def search_alone(X: np.ndarray) -> None:
    ns.NeighborIndex().fit(X).leave_one_out(K_LARGE)


def centers_and_noise(n_per_class: int, n_classes: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows around class centers, so wide that some lie nearer to others; the centers are the same for every seed."""
    centers = np.random.default_rng(0).normal(size=(n_classes, d)).astype(np.float32)
    y = np.tile(np.arange(n_classes), n_per_class)
    noise = np.random.default_rng((seed, n_per_class)).normal(size=(len(y), d)).astype(np.float32)
    return centers[y] + NOISE * noise, y


if __name__ == "__main__":
    main(f"One fold of leaves, fit and predict_proba, K={K_LEAVES}, one thread", fold_of_leaves)
    main("A large collection, all threads", large_collection)
