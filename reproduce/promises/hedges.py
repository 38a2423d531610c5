"""Hedged answers in simulated worlds: how often a promise is kept, and how much is answered."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.linear_model import LogisticRegression

from nearsay.decision.guarantee import fit_reward_shift
from nearsay.decision.hedged import HedgedClassifier
from nearsay.decision.rules import darts
from nearsay.errors import InputError, unknown_name
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.fused import FusedClassifier
from nearsay.posterior.methods.named import POSTERIORS
from nearsay.posterior.methods.weighted import Weighted
from reproduce.promises.worlds import WORLDS, World

# So many new rows judge a collection; how likely an answer is right is known, so no noise of drawn labels is added.
FRESH = 1500
ACCURACIES = (0.8, 0.9, 0.95)
# A process draws so many collections at a time.
COLLECTIONS_AT_ONCE = 10
# The seeds of the collections that settings of the bound were chosen on begin elsewhere.
FIRST_SEED = 0

VOTES_IN_TABLES = NeighborClassifier(5, posterior="rank&votesplit")
HALVES = {"first": slice(0, 1), "others": slice(1, None)}
ESTIMATORS: dict[str, Any] = {
    "default": NeighborClassifier(),
    **{name: NeighborClassifier(5, posterior=make()) for name, make in POSTERIORS.items()},
    "weighted, by row": NeighborClassifier(5, posterior=Weighted(by="row")),
    "every view": NeighborClassifier(metric="auto"),
    "beside a model": NeighborClassifier(5, beside=LogisticRegression()),
    "fused, product": FusedClassifier(HALVES, VOTES_IN_TABLES),
    "fused, learned": FusedClassifier(HALVES, VOTES_IN_TABLES, exponents="learned"),
    "fused, pooled": FusedClassifier(HALVES, NeighborClassifier(5, posterior="pooled")),
}


@dataclass(frozen=True)
class Outcome:
    """What hedged answers to new rows were like, over collections: (n_collections, n_accuracies, n_confidences).

    ``right`` is the true accuracy, ``answered`` the share that did not get the root, ``gain`` the mean information of
    an answer in bits, 0 where it is wrong. ``possible`` is the share that DARTS answers where the rows to come
    themselves tell which setting is right as often as asked.
    """

    right: np.ndarray
    answered: np.ndarray
    gain: np.ndarray
    possible: np.ndarray


def outcomes(
    world: World,
    estimator: Any,
    n: int,
    collections: int,
    accuracies: Sequence[float] = ACCURACIES,
    confidences: Sequence[float] = (0.9,),
    *,
    fresh: int = FRESH,
    first_seed: int = FIRST_SEED,
) -> Outcome:
    """Hedge in so many collections of ``n`` rows, each drawn anew; in grouped worlds, with their groups."""
    tree = world.taxonomy
    figures = np.empty((4, collections, len(accuracies), len(confidences)))
    for place in range(collections):
        random = np.random.default_rng((first_seed + place, n))
        X, y, groups = world.draw(random, n)
        Q, truth, _ = world.draw_alone(random, fresh)
        likely = world.posterior(Q) @ tree.covers
        hedged = HedgedClassifier(estimator, tree, accuracies[0], confidence=confidences[0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a promise that cannot be kept is counted: nothing is answered
            hedged.fit(X, y, groups=groups)
            p: dict[int, np.ndarray] = {}  # of each estimator that some accuracy takes
            for i, accuracy in enumerate(accuracies):
                for j, confidence in enumerate(confidences):
                    hedged.confidence = confidence
                    answering = id(hedged.set_accuracy(accuracy).estimator_)
                    if answering not in p:
                        p[answering] = hedged.predict_proba(Q)
                    nodes = tree.check_labels(hedged.names_of(p[answering]).tolist())
                    right, is_answer = likely[np.arange(fresh), nodes], nodes != tree.n_nodes - 1
                    gain = (right * tree.information[nodes]).mean()
                    p_leaf = np.zeros((fresh, tree.n_leaves))
                    p_leaf[:, hedged.classes_] = p[answering]  # classes are the numbers of leaves
                    best = darts(p_leaf, tree, fit_reward_shift(p_leaf, truth, tree, accuracy))
                    possible = (best != tree.n_nodes - 1).mean()
                    figures[:, place, i, j] = right.mean(), is_answer.mean(), gain, possible
    return Outcome(*figures)


def hedge_rows(
    worlds: Sequence[str],
    estimators: Sequence[str],
    sizes: Sequence[int],
    collections: int,
    accuracies: Sequence[float] = ACCURACIES,
    confidence: float = 0.9,
    progress: Callable[[str], None] | None = None,
    n_processes: int = 1,
    at_once: int = COLLECTIONS_AT_ONCE,
) -> list[dict[str, Any]]:
    """For each world, estimator, size and accuracy: how often the promise was kept, and how much was answered.

    "kept" is the share of collections in which new rows got right answers as often as promised, "silent" that in which
    all of them got the root; "answered", "gain" and "possible" are means over collections. Figures do not depend on the
    number of processes, nor on how many collections each draws ``at_once``.
    """
    for given, known, what in ((worlds, WORLDS, "world"), (estimators, ESTIMATORS, "estimator")):
        for name in given:
            if name not in known:
                raise unknown_name(what, name, known)
    if collections < 1 or any(n < 2 for n in sizes):
        raise InputError(
            f"A simulation takes one collection at least, of 2 rows or more; got {collections} of {list(sizes)} rows."
        )
    lines = [(name, estimator, n) for name in worlds for estimator in estimators for n in sizes]
    firsts = range(0, collections, at_once)
    parts = Parallel(n_processes, return_as="generator")(
        delayed(outcomes)(
            WORLDS[name](),
            ESTIMATORS[estimator],
            n,
            min(at_once, collections - first),
            accuracies,
            (confidence,),
            first_seed=FIRST_SEED + first,
        )
        for name, estimator, n in lines
        for first in firsts
    )
    rows = []
    for name, estimator, n in lines:
        if progress is not None:
            progress(f"{name}, {estimator}, {n} rows")
        of_line = [next(parts) for _ in firsts]
        for place, accuracy in enumerate(accuracies):
            right, answered, gain, possible = (
                np.concatenate([getattr(part, figure)[:, place, 0] for part in of_line])
                for figure in ("right", "answered", "gain", "possible")
            )
            rows.append(
                {
                    "world": name,
                    "estimator": estimator,
                    "n": n,
                    "accuracy": accuracy,
                    "confidence": confidence,
                    "kept": float((right >= accuracy).mean()),
                    "right": float(right.mean()),
                    "answered": float(answered.mean()),
                    "gain": float(gain.mean()),
                    "silent": float((answered == 0).mean()),
                    "possible": float(possible.mean()),
                }
            )
    return rows
