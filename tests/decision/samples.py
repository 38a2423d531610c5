"""Classifiers, trees and rows that decisions are tested with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin

from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.votes import count_votes
from nearsay.taxonomy.taxonomy import Taxonomy


class Spoken(ClassifierMixin, BaseEstimator):
    """A classifier whose rows are the probabilities it gives, columns in the order of its classes."""

    def fit(self, X: Any, y: Any) -> Spoken:
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.asarray(X, float)

    def predict(self, X: Any) -> np.ndarray:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class Sayer(Spoken):
    """One that is fitted already, with these classes."""

    def __init__(self, classes: Any = ()) -> None:
        self.classes = classes
        self.classes_ = np.array(classes)

    def fit(self, X: Any, y: Any) -> Sayer:
        pytest.fail("fitted again")


def votes(n_neighbors: int = 9) -> NeighborClassifier:
    return NeighborClassifier(n_neighbors, posterior="proportional")


# ---------------------------------------------------------------- trees and rows

T1 = Taxonomy.from_nested({"R": {"A": ["a1", "a2"], "B": ["b1", "b2"]}})
UNSURE = [0.4, 0.3, 0.2, 0.1]
# Ragged: "cat" is a leaf right below the root, the dogs are three levels down.
PETS = Taxonomy.from_nested(
    {"pet": {"dog": {"small dog": ["corgi", "pug"], "large dog": ["poodle", "boxer"]}, "cat": {}}}
)


def pets(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Dogs that are hard to tell apart, small from large less so, and cats far off."""
    centers = {"corgi": 0.0, "pug": 1.0, "poodle": 4.0, "boxer": 5.0, "cat": 30.0}
    random = np.random.default_rng(seed)
    y = random.choice(list(centers), n)
    return np.array([[centers[name] + random.normal()] for name in y]), y


def hard_and_easy(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """What looks like a dog is easy to tell; of what looks like a cat, four in ten are dogs."""
    random = np.random.default_rng(seed)
    dogs = random.random(n) < 0.7
    p = np.where(dogs[:, None], [[0.6, 0.2, 0.05, 0.05, 0.1]], [[0.05, 0.05, 0.05, 0.05, 0.8]])
    p = random.dirichlet(np.ones(5), size=n) * 0.2 + p * 0.8
    likely = np.where(dogs[:, None], [[0.9, 0.1, 0, 0, 0]], [[0.1, 0.1, 0.1, 0.1, 0.6]])
    return p, np.array(PETS.leaves)[[random.choice(5, p=row) for row in likely]]


# ---------------------------------------------------------------- drawn

ACCURACIES = st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.6, 0.75, 0.8, 0.9, 0.99])


@st.composite
def taxonomies(draw: st.DrawFn) -> Taxonomy:
    """Trees and graphs with up to six leaves: ragged, of one level, with only children and shared ones."""
    nodes = [f"leaf {number}" for number in range(draw(st.integers(1, 6)))]
    edges = []
    for number in range(draw(st.integers(0, 4))):
        children = draw(st.sets(st.sampled_from(nodes), min_size=1))
        edges += [(f"inner {number}", child) for child in sorted(children)]
        nodes.append(f"inner {number}")
    below = {child for _, child in edges}
    edges += [("root", node) for node in nodes if node not in below]
    return Taxonomy.from_edges(edges)


@st.composite
def queries(draw: st.DrawFn, votes: int) -> tuple[Taxonomy, np.ndarray]:
    """Shares of so many votes: eighths add up without rounding, sevenths do not."""
    taxonomy = draw(taxonomies())
    said = draw(
        st.lists(
            st.lists(st.integers(0, taxonomy.n_leaves - 1), min_size=votes, max_size=votes), min_size=1, max_size=9
        )
    )
    return taxonomy, count_votes(np.array(said), taxonomy.n_leaves) / votes


@st.composite
def validation_rows(
    draw: st.DrawFn, votes: Sequence[int] = (7, 8)
) -> tuple[Taxonomy, np.ndarray, list[int], list[str]]:
    """Shares of votes with labels, most of them among the voted-for leaves, some on inner nodes.

    Sums of eighths are exact; those of sevenths are rounded, differently in every order.
    """
    taxonomy, p = draw(queries(votes=draw(st.sampled_from(votes))))
    labels = draw(st.lists(st.integers(0, taxonomy.n_nodes - 1), min_size=len(p), max_size=len(p)))
    trusted = draw(st.lists(st.booleans(), min_size=len(p), max_size=len(p)))
    labels = [int(row.argmax()) if trust else label for row, label, trust in zip(p, labels, trusted, strict=True)]
    return taxonomy, p, labels, [taxonomy.nodes[label] for label in labels]
