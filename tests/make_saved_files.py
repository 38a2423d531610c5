"""Files that every later version must open: python tests/make_saved_files.py, once for each release."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

import nearsay as ns

FOLDER = Path(__file__).parent / "saved_files"
X, Y = load_iris(return_X_y=True)
X, Y = X[::5], np.array(["setosa", "versicolor", "virginica"])[Y[::5]]
QUERIES = X[::4] + 0.1
TREE = ns.Taxonomy.from_nested({"iris": {"late": ["versicolor", "virginica"], "setosa": {}}})
WORDS = [["sky", "sea"] if label == "setosa" else ["sky", "grass"] for label in Y]

MADE: dict[str, Callable[[], Any]] = {
    "votes": lambda: ns.NeighborClassifier(3, posterior="proportional").fit(X, Y),
    "ranks": lambda: ns.NeighborClassifier(3, posterior="rank&votesplit", metric="cosine").fit(X, Y),
    "pool": lambda: ns.NeighborClassifier(3, posterior="pooled").fit(X, Y),
    "fused": lambda: ns.FusedClassifier({"a": slice(0, 2), "b": slice(2, 4)}).fit(X, Y),
    "hedged": lambda: ns.HedgedClassifier(ns.NeighborClassifier(3, posterior="proportional"), TREE, accuracy=0.8).fit(
        X, Y
    ),
    "hedged-model": lambda: ns.HedgedClassifier(LogisticRegression(), TREE, accuracy=0.8).fit(X, Y),
    "sets": lambda: ns.ConformalClassifier(ns.NeighborClassifier(3, posterior="proportional"), 0.8).fit(X, Y),
    "metric": lambda: ns.WithinClassWhitening().fit(X, Y),
    "keywords": lambda: ns.KeywordAnnotator("nearest", n_neighbors=3, n_keywords=2).fit(X, WORDS),
}


def answers(thing: Any) -> np.ndarray:
    """Numbers that a thing answers with."""
    ask = thing.transform if hasattr(thing, "transform") else thing.predict_proba
    return np.asarray(ask(QUERIES), dtype=np.float64)


if __name__ == "__main__":
    to = FOLDER / ns.__version__
    to.mkdir(parents=True, exist_ok=True)
    made = {name: make() for name, make in MADE.items()}
    for name, thing in made.items():
        ns.save(thing, to / f"{name}.nearsay")
    np.savez(to / "answers.npz", **{name: answers(thing) for name, thing in made.items()})
