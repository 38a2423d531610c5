"""Files that every later version must open: python tests/make_saved_files.py, once for each release."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

import nearsay as ns
from nearsay.collection import Store

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


def make_collection(path: Path) -> None:
    """A collection with something in every table and folder."""
    with Store.create(path, X.shape[1], {"metric": "euclidean"}) as store:
        store.add([f"iris {row}" for row in range(20)], X[:20], Y[:20].tolist(), WORDS[:20], by="import")
        store.seal(min_rows=1)
        rest = [f"iris {row}" for row in range(20, len(X))]
        store.add(rest, X[20:], details=[{"row": row} for row in range(20, len(X))], by="machine", confirmed=False)
        store.relabel(rest[:2], ["setosa", None], who="ada")
        store.forget(rest[-1:])
        store.undo()
        store.set_taxonomy([("iris", "late"), ("iris", "setosa"), ("late", "versicolor"), ("late", "virginica")])
        store.keep("metric", lambda folder: (folder / "weights.txt").write_text("1 2 3 4"))


if __name__ == "__main__":
    to = FOLDER / ns.__version__
    to.mkdir(parents=True, exist_ok=True)
    make_collection(to / "collection")
    made = {name: make() for name, make in MADE.items()}
    for name, thing in made.items():
        ns.save(thing, to / f"{name}.nearsay")
    np.savez(to / "answers.npz", **{name: answers(thing) for name, thing in made.items()})
