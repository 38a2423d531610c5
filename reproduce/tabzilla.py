"""Ours on tables of the TabZilla study (NeurIPS 2023), beside its 18 tuned methods."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from nearsay.data.catalog import data_folders
from nearsay.data.datasets import load_dataset
from nearsay.errors import DatasetNotFound, unknown_name
from nearsay.posterior.classifier import NeighborClassifier

# The study's name: ours.
SETS = {
    "glass": "glass",
    "iris": "iris",
    "vowel": "vowel",
    "vehicle": "vehicle",
    "satimage": "satimage",
    "breast_cancer": "breast_cancer",
}
FOLDS = 10
OURS = {"NeighborClassifier()": {}, 'NeighborClassifier(metric="auto")': {"metric": "auto"}}
TITLE = "Tables of the TabZilla study: log loss and accuracy, means of ten folds"
NOTES = (
    "Theirs: 18 methods, each tuned by up to 30 random settings on a validation part of each of ten OpenML folds"
    " (McElfresh et al. 2023). They published log loss as the smallest, the largest and values between 0 and 1, from"
    " which it is put together again.",
    "Ours: ten stratified folds with a fixed seed, not those of OpenML; columns standardized by the rows to learn from,"
    " no setting tuned. The place is the one ours would have among their 18 methods, by the mean log loss.",
)


def published() -> dict[str, dict[str, tuple[float, float]]]:
    """{data set: {method: (log loss, accuracy)}} of the study."""
    for folder in data_folders():
        place = Path(folder) / "published" / "tabzilla.csv"
        if place.is_file():
            figures: dict[str, dict[str, tuple[float, float]]] = {}
            with place.open(encoding="utf-8", newline="") as file:
                for line in csv.DictReader(file):
                    of_set = figures.setdefault(line["data_set"], {})
                    of_set[line["method"]] = float(line["log_loss"]), float(line["accuracy"])
            return figures
    raise DatasetNotFound(f"There is no published/tabzilla.csv in {', '.join(map(str, data_folders()))}.")


def run(sets: Sequence[str] = (), progress: Callable[[str], Any] | None = None) -> dict[str, Any]:
    """Ours by default and with metric="auto" on each set, and the published methods.

    Returns
    -------
    dict with "title", "rows" (one for each set and method of ours: log loss, accuracy, place, and the best three
    published ones) and "notes".
    """
    for name in sets:
        if name not in SETS:
            raise unknown_name("data set", name, SETS)
    theirs, rows = published(), []
    for name in sets or SETS:
        loaded = load_dataset(SETS[name])
        loaded = loaded.take(~loaded.missing())
        X, y = np.asarray(loaded.X, np.float64), np.asarray(loaded.y)
        by_loss = sorted(theirs[name].items(), key=lambda one: one[1][0])
        for method, settings in OURS.items():
            if progress is not None:
                progress(f"{name}: {method}")
            loss, right = _measured(X, y, settings)
            better = sum(figures[0] < loss for _, figures in by_loss)
            best = {who: figures[0] for who, figures in by_loss[:3]}
            knn = theirs[name].get("KNN", (None, None))[0]
            rows.append(
                {
                    "data": name,
                    "method": method,
                    "log_loss": loss,
                    "accuracy": right,
                    "place": better + 1,
                    "n_published": len(by_loss),
                    "best": best,
                    "knn": knn,
                    "best_accuracy": max(figures[1] for _, figures in by_loss),
                }
            )
    return {"title": TITLE, "rows": rows, "notes": list(NOTES)}


def _measured(X: np.ndarray, y: np.ndarray, settings: dict[str, Any]) -> tuple[float, float]:
    measured = []
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(X, y):
        scaler = StandardScaler().fit(X[train])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of near-duplicates among the rows
            model = NeighborClassifier(**settings).fit(scaler.transform(X[train]), y[train])
        p = model.predict_proba(scaler.transform(X[test]))
        right = np.mean(model.classes_[p.argmax(axis=1)] == y[test])
        measured.append((log_loss(y[test], p, labels=model.classes_), right))
    loss, accuracy = np.mean(measured, axis=0).tolist()
    return loss, accuracy
