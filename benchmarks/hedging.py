"""Hedged answers beside the probabilities they come from: ``python -m benchmarks.hedging [--tiny]``.

First, ``HedgedClassifier.predict`` beside the wrapped ``predict_proba``, taking
turns, on all threads: around neighbors, a forest and a support vector machine,
where probabilities take their time, and around a logistic regression, which
gives them in a few microseconds a row. On Tiny-ImageNet with its tree of 413
nodes, and on made-up rows of the 10,000 species of iNaturalist 2021; without
these data sets, on made-up rows and trees of the same shape.

Then 1,000 queries of 10,000 leaves: one setting, and all operating points at
once, with the most memory the process has had, probabilities included.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

import nearsay as ns
from benchmarks.measuring import Rows, best_time, best_times, main, peak_megabytes
from benchmarks.probabilities import centers_and_noise
from nearsay.decision.envelope import accuracy_curve, operating_points
from nearsay.errors import DatasetNotFound

K = 30
ACCURACY = 0.9
SVM_CLASSES = 20  # it compares every class with every other


def beside_predict_proba(tiny: bool) -> Rows:
    case, tree, X, y, Q = small_case() if tiny else tiny_imagenet()
    few = np.isin(y, np.unique(y)[:SVM_CLASSES])
    some = slice(None, None, 5)
    repeats = 2 if tiny else 7
    neighbors = ns.NeighborClassifier(min(K, len(X) // 4), posterior=ns.posterior.Proportional(model_failure=0.0))
    rows = [
        hedging_row(case, neighbors.fit(X, y), tree, Q, repeats),
        hedging_row(case, RandomForestClassifier(20, random_state=0).fit(X[some], y[some]), tree, Q, repeats),
        hedging_row(case, platt_scaled().fit(X[few], y[few]), tree, Q[: len(Q) // 5], repeats),
        hedging_row(case, LogisticRegression(max_iter=50).fit(X[some], y[some]), tree, Q, repeats),
        hedging_row(case, neighbors, tree, Q[:1], 10 * repeats),
    ]
    if not tiny:
        rows.append(many_leaves_row(repeats))
    return rows


def platt_scaled() -> CalibratedClassifierCV:
    return CalibratedClassifierCV(SVC(), ensemble=False, cv=3)


def many_leaves_row(repeats: int) -> dict[str, Any]:
    tree = species()
    X, y = centers_and_noise(5, tree.n_leaves, 64)
    Q = centers_and_noise(1, tree.n_leaves, 64, seed=1)[0][:1000]
    neighbors = ns.NeighborClassifier(K, posterior=ns.posterior.Proportional(model_failure=0.0)).fit(
        X, np.array(tree.leaves)[y]
    )
    return hedging_row(f"{tree.n_leaves} leaves, {len(X)}×64", neighbors, tree, Q, repeats)


def hedging_row(case: str, fitted: Any, tree: ns.Taxonomy, Q: np.ndarray, repeats: int) -> dict[str, Any]:
    """The queries calibrate as well, with the labels that the classifier gives them: time is all that is asked here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The number of unique classes")  # ten thousand are many, and classes
        hedged = ns.HedgedClassifier(fitted, tree, ACCURACY, cv="prefit").fit(Q, fitted.predict(Q))
    hedged.predict(Q)  # compiles
    times = best_times({"predict": lambda: hedged.predict(Q), "wrapped": lambda: fitted.predict_proba(Q)}, repeats)
    return {
        "case": case,
        "classifier": type(fitted.estimator if isinstance(fitted, CalibratedClassifierCV) else fitted).__name__,
        "queries": len(Q),
        "predict_proba ms": 1000 * times["wrapped"],
        "hedged predict ms": 1000 * times["predict"],
        "ratio": times["predict"] / times["wrapped"],
        "µs more a query": 1e6 * (times["predict"] - times["wrapped"]) / len(Q),
    }


def ten_thousand_leaves(tiny: bool) -> Rows:
    tree = small_case()[1] if tiny else species()
    n_queries = 20 if tiny else 1000
    p, y = made_up_probabilities(tree, n_queries)
    repeats = 1 if tiny else 5
    works = {
        "darts, one setting": lambda: ns.decision.darts(p, tree, 1.0),
        "all operating points": lambda: operating_points(p, tree),
        "all operating points, and their curve": lambda: accuracy_curve(operating_points(p, tree), y, tree),
        "fit_reward_shift, exact": lambda: ns.decision.fit_reward_shift(p, y, tree, ACCURACY, method="exact"),
    }
    rows = []
    for name, work in works.items():
        work()  # compiles
        rows.append(
            {
                "work": name,
                "queries × leaves": f"{n_queries}×{tree.n_leaves}",
                "s": best_time(work, repeats),
                "peak MB of the process": peak_megabytes(),
            }
        )
    return rows


def made_up_probabilities(tree: ns.Taxonomy, n_queries: int) -> tuple[np.ndarray, np.ndarray]:
    """The nearer a leaf stands to the true one, the more probable it is, and some noise."""
    random = np.random.default_rng(0)
    truth = random.integers(tree.n_leaves, size=n_queries)
    p = (tree.covers[truth] @ tree.covers.T).toarray()  # how many nodes two leaves have above them in common
    p *= 1.5
    for row in p:  # one by one: noise for all at once would be the most memory this process ever had
        row += random.normal(size=len(row))
        np.exp(row, out=row)
        row /= row.sum()
    return p, np.array(tree.leaves)[truth]


def tiny_imagenet() -> tuple[str, ns.Taxonomy, np.ndarray, np.ndarray, np.ndarray]:
    try:
        train, test = (ns.load_dataset("tin200", split=split) for split in ("train", "test"))
        return "tin200, 20000×256", ns.load_taxonomy("tin200"), train.X.astype(np.float32), train.y, test.X
    except DatasetNotFound:
        tree = made_up_tree(8, 25)
        X, y = centers_and_noise(100, tree.n_leaves, 256)
        Q = centers_and_noise(25, tree.n_leaves, 256, seed=1)[0]
        return "made-up, 20000×256", tree, X, np.array(tree.leaves)[y], Q


def small_case() -> tuple[str, ns.Taxonomy, np.ndarray, np.ndarray, np.ndarray]:
    tree = made_up_tree(3, 4)
    X, y = centers_and_noise(15, tree.n_leaves, 8)
    return "made-up, small", tree, X, np.array(tree.leaves)[y], centers_and_noise(4, tree.n_leaves, 8, seed=1)[0]


def species() -> ns.Taxonomy:
    try:
        return ns.load_taxonomy("inat21")
    except DatasetNotFound:
        return made_up_tree(100, 100)


def made_up_tree(n_branches: int, n_each: int) -> ns.Taxonomy:
    branches = range(n_branches)
    return ns.Taxonomy.from_nested(
        {"all": {f"branch {b}": [f"leaf {b}/{number}" for number in range(n_each)] for b in branches}}
    )


if __name__ == "__main__":
    # Memory first: what other work once took would hide what this takes.
    main("One thousand queries, ten thousand leaves, all threads", ten_thousand_leaves)
    main(f"HedgedClassifier.predict beside predict_proba, k={K}, all threads", beside_predict_proba)
