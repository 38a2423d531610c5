"""Learned metrics against the Euclidean distance on leaves, handwritten digits and images.

    a set ──► splits ──► settings, by rows held out of those to learn from ──► 20 neighbors of the rows to judge vote

Rows to be judged have no part in what is learned or chosen.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from nearsay.core.arrays import evenly
from nearsay.core.parallel import in_parallel
from nearsay.data.datasets import load_dataset
from nearsay.neighbors.index import nearest
from nearsay.posterior.votes import count_votes, neighbor_labels, winners
from reproduce.data_sets import Split
from reproduce.hedging import tin200
from reproduce.hedging.learned_metrics import METRICS, VOTING_NEIGHBORS, Candidates, tune
from reproduce.hedging.published import LEAVES, MNIST_50, TIN57, TIN200_50
from reproduce.held_out import positions_within_class

# The slow ones, NCA and BoostMetric in the paper's form, are in table1 only.
LEARNERS = {name: tried for name, tried in METRICS.items() if tried is not None and name not in ("NCA", "BoostMetric")}

# Each fourth specimen of a species is judged by the others, in so many turns.
N_LEAF_SPLITS = 4

# With more, LMNN alone would take minutes.
N_DIGITS = 5_000
DIGIT_COLUMNS = 50

# Settings are chosen by at least so many rows, where there are as many. More take longer, fewer leave it to luck.
ENOUGH_TO_CHOOSE_BY = 400
FOLDS = 5

# Points above the Euclidean distance that are counted as a clear gain.
CLEAR_GAIN = 2.0


def leaf_splits(group: str) -> list[Split]:
    """One feature group of the leaves: of every species, each fourth specimen is judged by the others, in turn.

    The leaf without texture is left out there.
    """
    leaves = load_dataset("leaves", groups=[group])
    whole = np.isfinite(leaves.X).all(axis=1)
    X, y = leaves.X[whole], np.asarray(leaves.y)[whole]
    turn = positions_within_class(y) % N_LEAF_SPLITS
    return [Split(X[turn != each], y[turn != each], X[turn == each], y[turn == each]) for each in range(N_LEAF_SPLITS)]


def digit_splits(n_digits: int = N_DIGITS) -> list[Split]:
    """MNIST pixels in 50 principal components of the rows to learn from, which come in even steps; all test rows."""
    from sklearn.decomposition import PCA

    train, test = load_dataset("mnist", split="train"), load_dataset("mnist", split="test")
    train = train.take(evenly(len(train), n_digits))
    pca = PCA(DIGIT_COLUMNS, svd_solver="covariance_eigh").fit(train.X.astype(np.float64))
    X, Q = (pca.transform(rows.X.astype(np.float64)) for rows in (train, test))
    return [Split(X, np.asarray(train.y), Q, np.asarray(test.y))]


def image_splits(data: str) -> list[Split]:
    """One of the sets that are made of tin200."""
    images = tin200.load_images(data)
    X, Q = (rows.X.astype(np.float64) for rows in (images.train, images.test))
    return [Split(X, np.asarray(images.train.y), Q, np.asarray(images.test.y))]


SETS: dict[str, Callable[[], list[Split]]] = {
    **{name: partial(leaf_splits, group) for group, name in LEAVES.items()},
    MNIST_50: digit_splits,
    **{name: partial(image_splits, name) for name in (TIN200_50, TIN57)},
}


def compare(sets: Iterable[str], tell: Callable[[str], None]) -> dict[str, Any]:
    """How many of the judged rows the neighbors name rightly, for every set and metric, as one plain dict.

    Returns
    -------
    dict with "rows", one a set: "data", "n_judged", "euclidean_percent" and "metrics", by name: "accuracy_percent",
    the points above the Euclidean distance ("gain_percent") with their standard error ("error_percent"), and by split,
    what was chosen ("settings", None where the Euclidean distance was kept). And "summary", one a metric: "never_below"
    the Euclidean distance, and how often "clearly_above".
    """
    rows = []
    gains: dict[str, list[float]] = {name: [] for name in LEARNERS}
    for data in sets:
        splits = SETS[data]()
        euclidean = np.concatenate([named_rightly(split, None) for split in splits])
        metrics = {}
        for name, candidates in LEARNERS.items():
            tell(f"Learning {name} ({data})")
            metrics[name] = _compared(euclidean, splits, candidates)
            gains[name].append(metrics[name]["gain_percent"])
        percent = 100 * float(euclidean.mean())
        rows.append({"data": data, "n_judged": len(euclidean), "euclidean_percent": percent, "metrics": metrics})
    summary = [
        {
            "metric": name,
            "never_below": min(of_sets) >= 0,
            "clearly_above": sum(gain >= CLEAR_GAIN for gain in of_sets),
        }
        for name, of_sets in gains.items()
    ]
    return {"rows": rows, "summary": summary}


def _compared(euclidean: np.ndarray, splits: list[Split], candidates: Candidates) -> dict[str, Any]:
    """One metric on one set, beside what the neighbors by Euclidean distance name rightly."""

    def judge(split: Split) -> tuple[dict[str, Any] | None, np.ndarray]:
        chosen = choose(candidates, split.X, split.y)
        metric = None if chosen is None else candidates.learner().set_params(**chosen).fit(split.X, split.y)
        return chosen, named_rightly(split, metric)

    with warnings.catch_warnings():
        # Settings with which a learner stops short are judged like the others: by what they came to.
        warnings.simplefilter("ignore", ConvergenceWarning)
        settings, right = zip(*in_parallel(judge, splits), strict=True)
    learned = np.concatenate(right)
    gains = learned.astype(np.float64) - euclidean
    return {
        "accuracy_percent": 100 * float(learned.mean()),
        "gain_percent": 100 * float(gains.mean()),
        "error_percent": 100 * float(gains.std() / np.sqrt(len(gains))),
        "settings": list(settings),
    }


def choose(candidates: Candidates, X: np.ndarray, y: np.ndarray) -> dict[str, Any] | None:
    """The best settings by the mean over validation folds, or None where the Euclidean distance is as good."""
    tuned = [tune(candidates, X, y, known, held_out) for known, held_out in validation_folds(y)]
    accuracies = np.mean([[row["accuracy"] for row in one.table] for one in tuned], axis=0)
    best = int(accuracies.argmax())  # the Euclidean distance stands first
    return None if best == 0 else tuned[0].table[best]["settings"]


def validation_folds(y: np.ndarray, enough: int = ENOUGH_TO_CHOOSE_BY) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows to learn from and rows to choose by: fifths of every class, as many as it takes to choose by enough rows."""
    from sklearn.model_selection import StratifiedKFold

    n_folds = min(FOLDS, math.ceil(FOLDS * enough / len(y)))
    return list(islice(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(y, y), n_folds))


def named_rightly(split: Split, metric: Any | None, n_neighbors: int = VOTING_NEIGHBORS) -> np.ndarray:
    """Whether the neighbors name each judged row rightly, mapped by a metric or as they are; ties go to the nearest.

    >>> X, y = np.array([[0.0], [1.0], [9.0]]), np.array(["a", "a", "b"])
    >>> named_rightly(Split(X, y, np.array([[0.5], [8.0]]), np.array(["a", "b"])), None)  # all three vote
    array([ True, False])
    """
    X, Q = (split.X, split.Q) if metric is None else (metric.transform(split.X), metric.transform(split.Q))
    names, numbers = np.unique(split.y, return_inverse=True)
    table = nearest(X, Q, min(n_neighbors, len(X)))
    votes = count_votes(neighbor_labels(table, numbers), len(names))
    right: np.ndarray = names[winners(votes, table, numbers)] == split.truth
    return right
