"""Prediction sets beside MAPIE's: ``python -m benchmarks.prediction_sets [--tiny]``.

Half of the rows, drawn anew in each of fifty splits, are learned from and calibrated on; the other half is asked
about, 90 % coverage asked for. ``ConformalClassifier(NeighborClassifier())`` as it comes stands beside MAPIE (without
it, alone) around scikit-learn's k-NN, k and smoothing chosen by cross-validated log loss on the same rows, and around
our classifier: a fifth of the rows held out to calibrate on, or five folds. In each cell the share of sets that hold
the true class, its standard error over splits, and how many classes a set holds, in the mean.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.datasets import make_blobs
from sklearn.utils import shuffle

import nearsay as ns
from benchmarks.measuring import Rows, main
from nearsay.decision.calibration import hold_out
from nearsay.errors import DatasetNotFound
from reproduce.data_sets import read
from reproduce.others.peers import PEERS

COVERAGE = 0.9
SPLITS = 50
MOST_ROWS = 1000
MADE_UP = "blobs"
DATA_SETS = ("vowel", "yeast", "segment", "digits", "satimage", "leaves", MADE_UP)
OURS = "nearsay"
FOLDS = 5

# By MAPIE's names. A third, "raps", refuses classes of which one row is held out.
SCORES = ("lac", "aps")

# Of each query, which classes its set holds, in the order of the classes learned from.
Sets = np.ndarray


def run(tiny: bool) -> Rows:
    with_mapie = find_spec("mapie") is not None
    if not with_mapie:
        print("MAPIE is not installed (pip install mapie): nearsay's sets stand alone.", file=sys.stderr)
    rows = []
    for name, X, y in data_sets((MADE_UP,), 300) if tiny else data_sets():
        found: dict[str, list[tuple[float, float]]] = {}
        for seed in range(2 if tiny else SPLITS):
            known, asked = np.array_split(np.random.default_rng(seed).permutation(len(X))[:MOST_ROWS], 2)
            for method, sets in sets_of_methods(X[known], y[known], X[asked], with_mapie):
                found.setdefault(method, []).append(covered_and_size(sets, np.unique(y[known]), y[asked]))
        rows.append({"data": name, **{method: as_cell(np.array(measured)) for method, measured in found.items()}})
    return rows


def data_sets(
    names: tuple[str, ...] = DATA_SETS, n_made_up: int = MOST_ROWS
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Rows and class numbers, as they are: nothing is standardized."""
    for name in names:
        if name == MADE_UP:
            X, y = make_blobs(n_made_up, 4, centers=12, cluster_std=3.0, random_state=4)
            yield name, *shuffle(X, y, random_state=0)
            continue
        try:
            rows = read(name)
        except DatasetNotFound as absent:
            print(f"{name}: left out. {absent}", file=sys.stderr)
            continue
        yield name, np.asarray(rows.X, np.float64), np.unique(np.asarray(rows.y), return_inverse=True)[1]


def sets_of_methods(X: np.ndarray, y: np.ndarray, Q: np.ndarray, with_mapie: bool) -> Iterator[tuple[str, Sets]]:
    yield OURS, ns.ConformalClassifier(ns.NeighborClassifier(), COVERAGE).fit(X, y).predict_set(Q)
    if not with_mapie:
        return
    votes = PEERS["k-NN"].make(**PEERS["k-NN"].choose(X, y))
    for around, classifier in (("k-NN", votes), ("ours", ns.NeighborClassifier())):
        for score, sets in split_by_mapie(classifier, X, y, Q):
            yield f"MAPIE, {around}, {score}", sets
    yield f"MAPIE, k-NN, lac, {FOLDS} folds", folds_by_mapie(votes, X, y, Q)


def split_by_mapie(classifier: Any, X: np.ndarray, y: np.ndarray, Q: np.ndarray) -> Iterator[tuple[str, Sets]]:
    """One classifier, fitted without a fifth of every class, and each score calibrated on these."""
    from mapie.classification import SplitConformalClassifier

    train, held_out, _ = hold_out(y)
    fitted = classifier.fit(X[train], y[train])
    for score in SCORES:
        mapie = SplitConformalClassifier(fitted, COVERAGE, score, prefit=True, random_state=0)
        yield score, asked_quietly(lambda mapie=mapie: mapie.conformalize(X[held_out], y[held_out]).predict_set(Q))


def folds_by_mapie(classifier: Any, X: np.ndarray, y: np.ndarray, Q: np.ndarray) -> Sets:
    from mapie.classification import CrossConformalClassifier

    mapie = CrossConformalClassifier(classifier, COVERAGE, "lac", cv=FOLDS, random_state=0)
    return asked_quietly(lambda: mapie.fit_conformalize(X, y).predict_set(Q))


def asked_quietly(work: Callable[[], Any]) -> Sets:
    """MAPIE gives (labels, sets × confidence levels), and warns of small classes and of empty sets."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, sets = work()
    return np.asarray(sets[:, :, 0], bool)


def covered_and_size(sets: Sets, classes: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """The share of queries whose class is in their set, and the mean size; a class not learned from is in none."""
    known = np.flatnonzero(np.isin(truth, classes))
    covered = sets[known, np.searchsorted(classes, truth[known])].sum() / len(truth)
    return float(covered), float(sets.sum(axis=1).mean())


def as_cell(measured: np.ndarray) -> str:
    (covered, size), error = measured.mean(axis=0), measured[:, 0].std(ddof=1) / np.sqrt(len(measured))
    return f"{covered:.3f} ± {error:.3f} · {size:.3f}"


if __name__ == "__main__":
    main(f"Prediction sets, {COVERAGE:.0%} asked for, {SPLITS} splits: coverage ± standard error · size", run)
