"""HedgedClassifier by default on Tiny ImageNet: its curve, and how often it keeps the accuracy asked for."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from nearsay.decision.envelope import accuracy_curve, operating_points
from nearsay.decision.guarantee import most_specific
from nearsay.decision.hedged import RULES_TO_TRY, HedgedClassifier
from nearsay.decision.rules import RULES
from nearsay.posterior import Proportional
from nearsay.posterior.classifier import NeighborClassifier
from reproduce.hedging.methods import GRID, PROMISE_CONFIDENCE, PROMISED, largest_gain_at
from reproduce.hedging.tin200 import FOLDS, Images, first_columns, some_classes

VOTES = 30
ALONE = 'neighbors, metric="auto"'
COMPANION = "beside logistic regression"

SPLITS = 200
# Rows that settings are read from in a split, where all rows were answered once.
ROWS_TO_LEARN_FROM = 2000
# Where everything is fitted anew in each split: so many classes and columns, and rows to fit on.
FEW_CLASSES, FEW_COLUMNS, ROWS_TO_FIT_ON = 20, 32, 1000

Tell = Callable[[str], None]


def classifiers() -> dict[str, HedgedClassifier]:
    """Neighbors by plain votes, as they come, in every view and beside a linear model; and that model by itself."""
    linear = _linear()
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    return {
        "plain votes": HedgedClassifier(NeighborClassifier(VOTES, posterior=Proportional(model_failure=0.0))),
        "neighbors by default": HedgedClassifier(NeighborClassifier()),
        ALONE: HedgedClassifier(NeighborClassifier(metric="auto")),
        COMPANION: HedgedClassifier(NeighborClassifier(metric="auto", beside=linear)),
        "logistic regression": HedgedClassifier(linear, cv=folds),
    }


def _linear() -> Any:
    return make_pipeline(Normalizer(), LogisticRegression(C=10.0, max_iter=200))


def curve_rows(images: Images, safe: float, tell: Tell) -> dict[str, Any]:
    """What test rows get along the accuracies asked for, and a summary of each classifier where ``safe`` is asked for.

    Settings, rules and posteriors come from the training rows.
    """
    rows, summary = [], []
    for name, hedged in classifiers().items():
        tell(f"Fitting {name}")
        begun = time.perf_counter()
        hedged.set_params(taxonomy=images.taxonomy, accuracy=safe).fit(images.train.X, images.train.y)
        seconds = time.perf_counter() - begun
        truth = images.taxonomy.check_labels(np.asarray(images.test.y))
        for accuracy, p_leaf, nodes in _answers(hedged, images.test.X, dict.fromkeys((*GRID, safe))):
            right = images.taxonomy.covers_label(nodes, truth)
            gain = (images.taxonomy.information[nodes] * right).mean() / images.taxonomy.information.max()
            row = {"classifier": name, "rule": hedged.rule_, "asked": accuracy, "accuracy": float(right.mean())}
            rows.append({**row, "normalized_gain": float(gain)})
            if accuracy == safe:
                curve = accuracy_curve(operating_points(p_leaf, images.taxonomy), images.test.y, images.taxonomy)
                summary.append(
                    {**rows[-1], "judged_gain": float(largest_gain_at(curve, safe)), "seconds": round(seconds, 1)}
                )
    return {"rows": rows, "summary": summary}


def _answers(
    hedged: HedgedClassifier, X: np.ndarray, accuracies: Iterable[float]
) -> Iterator[tuple[float, np.ndarray, np.ndarray]]:
    """Each accuracy, the probabilities of the leaves and the nodes said where it is asked for.

    Several accuracies may call for several classifiers; each is asked once.
    """
    tree = hedged.taxonomy_
    p_of: dict[int, np.ndarray] = {}
    for accuracy in accuracies:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "An accuracy of")
            hedged.set_accuracy(accuracy)
        who = id(hedged.estimator_)
        p_of[who] = p_of[who] if who in p_of else hedged.predict_proba_nodes(X)[:, : tree.n_leaves]
        yield accuracy, p_of[who], RULES[hedged.rule_](p_of[who], tree, hedged.setting_)


def promise_in_splits(images: Images, k: int, tell: Tell, splits: int = SPLITS) -> list[dict[str, Any]]:
    """In how many splits the accuracy asked for with a confidence is kept: by all rows, and by the rows left over.

    First every row is answered once, by training rows other than itself, and a split is some rows to read settings
    from: with the votes of ``k`` neighbors, with every view of them, and with a linear model beside. Then everything is
    fitted anew in each split, on some rows of some classes, which the other rows judge.
    """
    once = {
        f"votes of {k}": NeighborClassifier(k, posterior=Proportional(model_failure=0.0)),
        ALONE: NeighborClassifier(metric="auto"),
        COMPANION: NeighborClassifier(metric="auto", beside=_linear()),
    }
    anew = {
        "weighted votes of 15": NeighborClassifier(15, posterior="weighted"),
        ALONE: NeighborClassifier(metric="auto"),
    }
    rows = []
    for name, classifier in once.items():
        tell(f"Answering every row: {name}")
        rows += _answered_once(images, name, classifier, splits)
    for name, classifier in anew.items():
        rows += _fitted_anew(images, name, classifier, tell, splits)
    return rows


def _answered_once(images: Images, name: str, classifier: NeighborClassifier, splits: int) -> list[dict[str, Any]]:
    tree = images.taxonomy
    y = _all_rows(images)[1]
    classifier.fit(images.train.X, images.train.y)
    p_leaf = np.zeros((len(y), tree.n_leaves))
    p_leaf[:, tree.check_labels(classifier.classes_)] = np.concatenate(
        [classifier.leave_one_out_proba(), classifier.predict_proba(images.test.X)]
    )
    points = [operating_points(p_leaf, tree, rule) for rule in RULES_TO_TRY]
    everyone = [accuracy_curve(of_rule, y, tree) for of_rule in points]
    random, n = np.random.default_rng(0), min(ROWS_TO_LEARN_FROM, len(y) // 2)
    of_all, of_rest = np.empty((2, splits, len(PROMISED)))
    for split in range(splits):
        drawn = random.choice(len(y), n, replace=False)
        known = [accuracy_curve(of_rule.take(drawn), y[drawn], tree) for of_rule in points]
        for place, accuracy in enumerate(PROMISED):
            way, setting = _best_setting(known, accuracy)
            right = everyone[way].n_right[everyone[way].place(setting)]
            of_all[split, place] = right / len(y)
            of_rest[split, place] = (right - known[way].n_right[known[way].place(setting)]) / (len(y) - n)
    return [
        _kept(f"{name}: settings from {n:,} rows", accuracy, all_rows, rest)
        for accuracy, all_rows, rest in zip(PROMISED, of_all.T, of_rest.T, strict=True)
    ]


def _fitted_anew(
    images: Images, name: str, classifier: NeighborClassifier, tell: Tell, splits: int
) -> list[dict[str, Any]]:
    leaves = np.array(images.taxonomy.leaves)
    few_columns = first_columns(images, FEW_COLUMNS)
    got = np.empty((splits, len(PROMISED)))
    for split in range(splits):
        tell(f"Fitting {name} anew, {split + 1} of {splits}")
        random = np.random.default_rng(split)
        chosen = random.choice(leaves, min(FEW_CLASSES, len(leaves)), replace=False)
        few = some_classes(few_columns, chosen.tolist())
        X, y = _all_rows(few)
        order = random.permutation(len(y))
        known, rest = np.split(order, [min(ROWS_TO_FIT_ON, len(y) // 2)])
        hedged = HedgedClassifier(classifier, few.taxonomy, confidence=PROMISE_CONFIDENCE)
        truth = few.taxonomy.check_labels(y[rest])
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "An accuracy of")
            hedged.fit(X[known], y[known])
        for place, (_, _, nodes) in enumerate(_answers(hedged, X[rest], PROMISED)):
            got[split, place] = few.taxonomy.covers_label(nodes, truth).mean()
    what = f"{name}: fitted on {len(known):,} rows"
    return [_kept(what, accuracy, None, rest) for accuracy, rest in zip(PROMISED, got.T, strict=True)]


def _all_rows(images: Images) -> tuple[np.ndarray, np.ndarray]:
    parts = images.train, images.test
    return np.concatenate([part.X for part in parts]), np.concatenate([np.asarray(part.y) for part in parts])


def _best_setting(curves: Sequence[Any], accuracy: float) -> tuple[int, float]:
    """As HedgedClassifier chooses with a confidence, each rule paid for in full, and without its warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "An accuracy of")
        way, (setting,) = most_specific([{"all": curve} for curve in curves], accuracy, PROMISE_CONFIDENCE)
    return way, float(setting)


def _kept(what: str, accuracy: float, of_all: np.ndarray | None, of_rest: np.ndarray) -> dict[str, Any]:
    return {
        "what": what,
        "asked": accuracy,
        "splits": len(of_rest),
        "accuracy": float(of_rest.mean()),
        "kept_by_all": None if of_all is None else float((of_all >= accuracy).mean()),
        "kept_by_rows_left_over": float((of_rest >= accuracy).mean()),
    }
