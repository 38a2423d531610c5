"""Prediction sets in simulated worlds: how often they hold the class of a new row, and how large they are."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from nearsay.decision.conformal import ConformalClassifier
from nearsay.posterior.classifier import NeighborClassifier
from reproduce.promises.worlds import kinds_and_breeds

FRESH = 1000
COVERAGE = 0.9
SIZES = (300, 1000)
N_CLASSES = (30, 100, 1000)


def long_tail(random: np.random.Generator, n: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Zipf's classes: class c is 1/(c+1) as frequent as the first, so that many have one row, and more have none."""
    share = 1 / np.arange(1, n_classes + 1)
    y = random.choice(n_classes, size=n, p=share / share.sum())
    centers = 3 * np.random.default_rng(0).normal(size=(n_classes, 4))
    return centers[y] + random.normal(size=(n, 4)), y


class Covered(NamedTuple):
    """One collection: the share of new rows whose class is in their set, and whether the model knew it could not be."""

    share: float
    known: float
    out_of_reach: bool
    set_size: float


def coverages(
    estimator: Any, n: int, n_classes: int, coverage: float, collections: int, cv: Any = "split"
) -> list[Covered]:
    """Prediction sets for new rows of a long tail, a new collection each time."""
    random = np.random.default_rng((0, n, n_classes))
    measured = []
    for _ in range(collections):
        X, y = long_tail(random, n, n_classes)
        Q, truth = long_tail(random, FRESH, n_classes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a coverage out of reach is counted
            sets = ConformalClassifier(estimator, coverage, cv=cv).fit(X, y)
        inside = sets.predict_set(Q)
        known = np.isin(truth, sets.classes_)
        places = np.searchsorted(sets.classes_, truth[known])
        covered = inside[np.flatnonzero(known), places].sum() / len(Q)
        out_of_reach = bool(np.isinf(sets.thresholds_).all())
        measured.append(Covered(covered, known.mean(), out_of_reach, inside.sum(axis=1).mean()))
    return measured


def plane_coverages(estimator: Any, n: int, levels: Sequence[float], collections: int) -> np.ndarray:
    """How often sets hold the class of new kinds and breeds: (collections, levels), a new collection each time."""
    random, world = np.random.default_rng((1, n)), kinds_and_breeds()
    covered = np.empty((collections, len(levels)))
    for number in range(collections):
        X, y, _ = world.draw(random, n)
        sets = ConformalClassifier(estimator).fit(X, y)
        Q = world.draw(random, FRESH).X
        likely = world.posterior(Q)[:, sets.classes_]  # without the noise of drawing labels
        for place, coverage in enumerate(levels):
            covered[number, place] = (likely * sets.set_coverage(coverage).predict_set(Q)).sum(axis=1).mean()
    return covered


def set_rows(
    sizes: Sequence[int] = SIZES,
    collections: int = 300,
    progress: Callable[[str], None] | None = None,
    class_counts: Sequence[int] = N_CLASSES,
) -> list[dict[str, Any]]:
    """Coverage and size of sets around votes and around the pool, for each way to calibrate."""
    rows = []
    for name in ("proportional", "pooled"):
        estimator = NeighborClassifier(5, posterior=name)
        for cv in ("split", None, 5):
            for n_classes in class_counts:
                for n in sizes:
                    if progress is not None:
                        progress(f"{name}, cv={cv}, {n_classes} classes, {n} rows")
                    measured = np.array(coverages(estimator, n, n_classes, COVERAGE, collections, cv))
                    share, known, out_of_reach, size = measured.mean(axis=0).tolist()
                    rows.append(
                        {
                            "estimator": name,
                            "cv": cv,
                            "classes": n_classes,
                            "n": n,
                            "unseen": 1 - known,
                            "covered": share,
                            "error": float(measured[:, 0].std() / math.sqrt(collections)),
                            "out_of_reach": out_of_reach,
                            "set_size": size,
                        }
                    )
    return rows
