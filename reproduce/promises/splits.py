"""Promises on sets, keywords, renewed hedges and alarms, each in many simulated splits, in trees and in graphs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy.stats import binom

from nearsay.annotate.annotator import KeywordAnnotator
from nearsay.annotate.word_taxonomy import with_implied
from nearsay.data.keywords import Keywords
from nearsay.decision.conformal import ConformalClassifier
from nearsay.decision.hedged import HedgedClassifier
from nearsay.errors import unknown_name
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.taxonomy.taxonomy import Taxonomy
from reproduce.promises.worlds import World

N_CLASSES = (5, 40, 200)
FRESH = 200
PROMISED = 0.9
ALARMS, BATCH, BATCHES = 0.01, 50, 4
# A row of a keyword world has a second class as a word so often.
SECOND_WORD = 0.3
# By chance alone, a line is outside once in a thousand.
INTERVAL = 0.999
VOTES = NeighborClassifier(10, posterior="weighted")

Split = tuple[World, np.random.Generator, int]


def world_of(n_classes: int, *, graph: bool, grouped: bool) -> World:
    """Families of five classes; in a graph each fourth class is of a second family, too."""
    random = np.random.default_rng(n_classes)
    n_families = max(2, n_classes // 5)
    family = np.arange(n_classes) % n_families
    edges: list[tuple[str, Any]] = [("all", f"family {number}") for number in range(n_families)]
    edges += [(f"family {of}", number) for number, of in enumerate(family.tolist())]
    edges += [(f"family {(number + 1) % n_families}", number) for number in range(0, n_classes if graph else 0, 4)]
    centers = 2 * random.normal(size=(n_families, 6))[family] + random.normal(size=(n_classes, 6))
    even, tree = np.ones(n_classes), Taxonomy.from_edges(edges).with_leaves(range(n_classes))
    return World(tree, centers, even / n_classes, even, within=0.5 if grouped else 1.0)


def _node_sets(max_nodes: int, score: str) -> Callable[[Split], list[float]]:
    def covered(split: Split) -> list[float]:
        world, random, n = split
        X, y, groups = world.draw(random, n)
        sets = ConformalClassifier(
            VOTES, PROMISED, taxonomy=world.taxonomy, max_nodes=max_nodes, conformity_score=score
        )
        return _inside(sets.fit(X, y, groups=groups), split)

    return covered


def _flat_sets(split: Split) -> list[float]:
    X, y, groups = split[0].draw(*split[1:])
    return _inside(ConformalClassifier(VOTES, PROMISED, conformity_score="raps").fit(X, y, groups=groups), split)


def _inside(sets: ConformalClassifier, split: Split) -> list[float]:
    """Whether the class of each new row is in its set; never where no row is of that class."""
    Q, truth, _ = split[0].draw_alone(split[1], FRESH)
    inside, place = sets.predict_set(Q), np.searchsorted(sets.classes_, truth).clip(max=len(sets.classes_) - 1)
    known = sets.classes_[place] == truth
    return [float((inside[np.arange(FRESH), place] & known).mean())]


def _strata(split: Split) -> list[float]:
    """Of the stratum in which labels say the least."""
    world, random, n = split

    def drawn(rows: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, Any]:
        X, y, groups = rows
        hard = X[:, 0] > np.median(world.centers[:, 0])
        return np.where(hard[:, None], X + 2 * random.normal(size=X.shape), X), y, hard, groups

    X, y, hard, groups = drawn(world.draw(random, n))
    sets = ConformalClassifier(VOTES, PROMISED).fit(X, y, groups=groups, strata=hard)
    Q, truth, hard, _ = drawn(world.draw_alone(random, 2 * FRESH))
    inside, place = sets.predict_set(Q, hard), np.searchsorted(sets.classes_, truth).clip(max=len(sets.classes_) - 1)
    right = inside[np.arange(len(Q)), place] & (sets.classes_[place] == truth)
    return [float(right[hard].mean())]


def _keywords(promise: str) -> Callable[[Split], list[float]]:
    """The share of true words given, or of given words true, of each item with any."""

    def kept(split: Split) -> list[float]:
        world, random, n = split
        tree = Taxonomy.from_edges([(str(above), str(below)) for above, below in world.taxonomy.to_edges()])

        def drawn(rows: Any) -> tuple[np.ndarray, list[list[Any]], Any]:
            X, y, groups = rows
            second = np.where(random.random(len(y)) < SECOND_WORD, random.integers(tree.n_leaves, size=len(y)), y)
            return X, [[*dict.fromkeys(pair)] for pair in np.column_stack([y, second]).astype(str).tolist()], groups

        X, words, groups = drawn(world.draw(random, n))
        annotator = KeywordAnnotator("nearest", n_neighbors=10, taxonomy=tree).set_params(**{promise: PROMISED})
        annotator.fit(X, words, groups=groups)
        Q, true_words, _ = drawn(world.draw_alone(random, FRESH))
        given = annotator.predict(Q) > 0
        of_items = [set(each) for each in with_implied(Keywords.of(true_words), tree).lists()]
        known = annotator.words_.tolist()
        hits = (given & np.array([[word in each for word in known] for each in of_items])).sum(axis=1)
        size = np.array(list(map(len, of_items))) if promise == "recall" else given.sum(axis=1)
        return [float((hits[size > 0] / size[size > 0]).mean())] if size.any() else []

    return kept


def _renewed(split: Split) -> list[float]:
    """Whether a hedge is as right as asked for in a blurred world, after a few labels from there."""
    world, random, n = split
    X, y, groups = world.draw(random, n)

    def blurred(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
        Q, truth, _ = world.draw_alone(random, n_rows)
        return Q + random.normal(size=Q.shape), truth

    hedged = HedgedClassifier(VOTES, world.taxonomy, PROMISED, confidence=PROMISED).fit(X, y, groups=groups)
    return [float(hedged.recalibrate(*blurred(FRESH)).score(*blurred(10 * FRESH)) >= PROMISED)]


def _alarms(split: Split) -> list[float]:
    """Whether a batch like the rows is called unlike them."""
    world, random, n = split
    X, y, groups = world.draw(random, n)
    classifier = VOTES.fit(X, y, groups=groups)
    return [classifier.shift(world.draw_alone(random, BATCH).X).unlike for _ in range(BATCHES)]


PROMISES: dict[str, tuple[Callable[[Split], Sequence[float]], float]] = {
    "1 node": (_node_sets(1, "lac"), PROMISED),
    "2 nodes": (_node_sets(2, "lac"), PROMISED),
    "2 nodes, aps": (_node_sets(2, "aps"), PROMISED),
    "classes, raps": (_flat_sets, PROMISED),
    "classes, hard stratum": (_strata, PROMISED),
    "keywords, recall": (_keywords("recall"), PROMISED),
    "keywords, precision": (_keywords("precision"), PROMISED),
    "renewed hedge": (_renewed, PROMISED),
    "alarms": (_alarms, ALARMS),
}
# Larger is better, so only a shortfall breaks these: an accuracy with confidence, and precision, which has a maximum.
AT_LEAST = ("renewed hedge", "keywords, precision")


def split_rows(
    names: Sequence[str] = tuple(PROMISES),
    collections: int = 200,
    n_classes: Sequence[int] = N_CLASSES,
    progress: Callable[[str], None] | None = None,
) -> list[dict[str, Any]]:
    """How often each promise was kept: mean, its standard error, and the binomial interval of as many draws."""
    rows = []
    for name in names:
        if name not in PROMISES:
            raise unknown_name("promise", name, PROMISES)
    for name, classes, graph, grouped in _lines(names, n_classes):
        if progress is not None:
            progress(f"{name}, {classes} classes")
        measure, asked = PROMISES[name]
        world, random = (
            world_of(classes, graph=graph, grouped=grouped),
            np.random.default_rng((classes, graph, grouped)),
        )
        found: list[float] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what cannot be promised is answered with everything, and counted
            for _ in range(collections):
                found += measure((world, random, max(300, 5 * classes)))
        n = len(found) if name == "alarms" else collections
        low, high = (float(end) / n for end in binom.interval(INTERVAL, n, asked))
        got = float(np.mean(found))
        rows.append(
            {
                "promise": name,
                "classes": classes,
                "taxonomy": "graph" if graph else "tree",
                "groups": grouped,
                "asked": asked,
                "got": got,
                "error": float(np.std(found) / math.sqrt(len(found))),
                "low": low,
                "high": 1.0 if name in AT_LEAST else high,
                "kept": low <= got <= (1.0 if name in AT_LEAST else high),
            }
        )
    return rows


def _lines(names: Sequence[str], n_classes: Sequence[int]) -> Iterator[tuple[str, int, bool, bool]]:
    for name in names:
        for classes in n_classes:
            for graph in (False, True):
                for grouped in (False, True):
                    yield name, classes, graph, grouped
