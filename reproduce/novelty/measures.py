"""Held-out classes, near-copies and flipped labels on many data sets, as one plain dict."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import LocalOutlierFactor
from sklearn.preprocessing import StandardScaler

from nearsay.errors import InputError, unknown_name
from nearsay.neighbors.neighbor_search import nearest
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.search.exact import ExactSearch
from reproduce.data_sets import DATA_SETS, read
from reproduce.novelty.parts import PARTS

# Two classes leave one when one is held out, and tin200 takes long.
USUAL_SETS = tuple(name for name in DATA_SETS if name not in ("breast-cancer", "tin200"))
NEW_CLASSES = 0.3
KNOWN_ROWS = 0.7
N_NEIGHBORS = 10
# 20 is scikit-learn's default.
OUTLIER_NEIGHBORS = (5, 10, 20, 35)
# Noise of a copy, in standard deviations of each column.
NOISE = (0.0, 0.01, 0.03)
COPIES = 200
FLIPPED = 0.05
FOLDS = 5

Rows = tuple[np.ndarray, np.ndarray]
Figures = dict[str, float]


def run(
    *,
    part: str = "classes",
    sets: Sequence[str] = (),
    draws: int = 3,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """One part of ``PARTS`` on data sets, means over random draws.

    Returns
    -------
    dict with "part", "title", "rows" (data set → figure by name) with a last one for the "mean", and "notes".
    """
    if part not in PARTS:
        raise unknown_name("part", part, PARTS)
    for name in sets:
        if name not in DATA_SETS:
            raise unknown_name("data set", name, DATA_SETS)
    if draws < 1:
        raise InputError(f"draws is how often each data set is drawn from, at least 1; got {draws}.")
    rows: dict[str, Figures] = {}
    for name in sets or USUAL_SETS:
        if progress is not None:
            progress(f"{PARTS[part].title}: {name}")
        loaded = read(name)
        X, y = np.asarray(loaded.X, np.float64), np.unique(np.asarray(loaded.y), return_inverse=True)[1]
        drawn = [MEASURE[part](X, y, np.random.default_rng(seed)) for seed in range(draws)]
        rows[name] = _mean(drawn)
    rows["mean"] = _mean(list(rows.values()))
    title = f"{PARTS[part].title}, {draws} draw{'s' if draws != 1 else ''}"
    return {"part": part, "title": title, "rows": rows, "notes": list(PARTS[part].notes)}


def _mean(drawn: Sequence[Figures]) -> Figures:
    return {name: float(np.mean([figures[name] for figures in drawn])) for name in drawn[0]}


def ours() -> NeighborClassifier:
    return NeighborClassifier(N_NEIGHBORS, posterior="pooled")


def held_out_classes(X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> Figures:
    """AUROC of rows of held-out classes against rows held out of the others."""
    n_classes = int(y.max()) + 1
    new = np.isin(y, rng.permutation(n_classes)[: max(1, round(NEW_CLASSES * n_classes))])
    known = rng.permutation(np.flatnonzero(~new))
    train = known[: round(KNOWN_ROWS * len(known))]
    queries = np.concatenate([known[len(train) :], np.flatnonzero(new)])
    scaled = StandardScaler().fit(X[train])
    known_rows, Q, is_new = scaled.transform(X[train]), scaled.transform(X[queries]), new[queries]
    clf = ours().fit(known_rows, y[train])
    distances = clf.neighbors(Q).distances
    measures = {"ours": clf.novelty(Q), "by class": clf.novelty(Q, by_class=True)}
    measures |= {"nearest": distances[:, 0], "5th": distances[:, 4]}
    for k in OUTLIER_NEIGHBORS:
        outliers = LocalOutlierFactor(min(k, len(train) - 1), novelty=True).fit(known_rows)
        measures[f"LOF {k}"] = -outliers.score_samples(Q)
    return {name: float(roc_auc_score(is_new, scores)) for name, scores in measures.items()}


def near_copies(X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> Figures:
    """The share of noisy copies named as twins of the row they copy, and of further rows that are named so wrongly."""
    order = rng.permutation(len(X))
    train, queries = np.split(order, [round(KNOWN_ROWS * len(order))])
    scaled = StandardScaler().fit(X[train])
    rows, Q = scaled.transform(X[train]), scaled.transform(X[queries])
    clf = ours().fit(rows, y[train])
    copied = rng.choice(len(rows), min(COPIES, len(rows)), replace=False)
    spread = rows.std(axis=0)
    figures = {}
    for noise in NOISE:
        copies = rows[copied] + noise * spread * rng.normal(size=(len(copied), X.shape[1]))
        twins = [evidence.twin for evidence in clf.explain(copies)]
        # A copy of a row that is there twice may be named after the other.
        named = zip(twins, copied, strict=True)
        equal = [twin is not None and np.array_equal(rows[twin], rows[row]) for twin, row in named]
        figures[f"noise {noise:g}"] = float(np.mean(equal))
    # A further row at distance 0 is there twice, and rightly named.
    fresh = [evidence.twin is not None and evidence.distances[0] > 0 for evidence in clf.explain(Q)]
    return {**figures, "further rows": float(np.mean(fresh))}


def flipped_labels(X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> Figures:
    """AUROC and average precision of 5 % flipped labels: to any other class, and to that of the nearest other row."""
    X = StandardScaler().fit_transform(X)
    flipped = rng.choice(len(y), max(1, round(FLIPPED * len(y))), replace=False)
    any_other = (y[flipped] + rng.integers(1, int(y.max()) + 1, len(flipped))) % (int(y.max()) + 1)
    figures = {}
    for kind, labels in (("any", any_other), ("alike", nearest_other_labels(X, y, flipped))):
        given = y.copy()
        given[flipped] = labels
        wrong = np.isin(np.arange(len(y)), flipped)
        for name, scores in label_scores(X, given).items():
            figures[f"{kind}, {name}, AUROC"] = float(roc_auc_score(wrong, -scores))
            figures[f"{kind}, {name}, AP"] = float(average_precision_score(wrong, -scores))
    return figures


def label_scores(X: np.ndarray, given: np.ndarray) -> dict[str, np.ndarray]:
    """How much each label is believed: ours, and cleanlab's scores by logistic regression out of fold."""
    scores = ours().fit(X, given).label_scores()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p = cross_val_predict(LogisticRegression(max_iter=300), X, given, cv=FOLDS, method="predict_proba")
    rows = np.arange(len(given))
    labels = np.unique(given, return_inverse=True)[1]
    p_label = p[rows, labels]
    p[rows, labels] = 0.0
    place = np.argsort(scores.order)
    figures = {"order": place, "p": scores.probability, "margin": scores.margin}
    return {**figures, "LR p": p_label, "LR margin": p_label - p.max(axis=1)}


def nearest_other_labels(X: np.ndarray, y: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The class of the nearest row of another class, for each of these rows."""
    labels = np.empty(len(rows), np.int64)
    for label in np.unique(y[rows]):
        of_label, others = y[rows] == label, np.flatnonzero(y != label)
        table = nearest(ExactSearch().fit(X[others]), X[rows[of_label]], 1)
        labels[of_label] = y[others[table.indices[:, 0]]]
    return labels


MEASURE: dict[str, Callable[[np.ndarray, np.ndarray, np.random.Generator], Figures]] = {
    "classes": held_out_classes,
    "copies": near_copies,
    "labels": flipped_labels,
}
