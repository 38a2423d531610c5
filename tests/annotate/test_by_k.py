"""Keywords by the number of neighbors: each k as if it had been searched for alone, and folds that see no other."""

from __future__ import annotations

import numpy as np
import pytest

from nearsay.annotate.by_k import cross_validated_by_k, measures_by_k
from nearsay.annotate.scorers.joint_neighbors import JointNeighbors
from nearsay.errors import InputError
from nearsay.neighbors.table import NeighborTable
from reproduce.annotation.baselines.lasso_neighbors import LassoNeighbors


class Watched(JointNeighbors):
    """Remembers, over all its copies, what it was fitted on and asked about."""

    seen: list = []  # noqa: RUF012

    def fit(self, X, Y=None):
        self.known_ = {tuple(row) for row in X.tolist()}
        return super().fit(X, Y)

    def neighbors(self, X, k):
        self.seen.append((self.known_, {tuple(row) for row in X.tolist()}, k))
        return super().neighbors(X, k)


def test_folds_are_searched_once_and_never_see_themselves():
    random = np.random.default_rng(0)
    X, Y = random.random((30, 2)), (random.random((30, 5)) < 0.4).astype(int)
    Watched.seen.clear()
    rows = cross_validated_by_k(Watched(), X, Y, [9, 2, 2], n_keywords=2, cv=3)
    assert [row["k"] for row in rows] == [2, 9]
    assert [k for _, _, k in Watched.seen] == [9, 9, 9]
    assert not any(known & asked for known, asked, _ in Watched.seen)
    assert sum(len(asked) for _, asked, _ in Watched.seen) == 30


def test_learned_neighbors_are_learned_in_every_fold():
    random = np.random.default_rng(1)
    Y = np.eye(3, dtype=int)[np.arange(60) % 3]
    X = np.column_stack([Y @ [0.0, 1.0, 2.0] + random.random(60), random.random((60, 3))])
    features = {"tells": slice(0, 1), **{f"noise {column}": slice(column, column + 1) for column in (1, 2, 3)}}
    plain, learned = (
        cross_validated_by_k(neighbors, X, Y, [5], n_keywords=1)[0]["f1"]
        for neighbors in (JointNeighbors(features), LassoNeighbors(features, min_shared=1, penalty=0.01))
    )
    assert learned > plain


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ks": []}, "No number of neighbors"),
        ({"ks": [0]}, "0"),
        ({"ks": [40]}, "Ask for at most"),
        ({"cv": 1}, "cv must be a whole number from 2 to 30"),
        ({"n_keywords": 9}, "n_keywords must be a whole number from 1 to 5"),
        ({"relevance": "best"}, "Unknown relevance"),
    ],
)
def test_bad_settings_are_said(settings, words):
    X, Y = np.arange(30.0)[:, None], np.ones((30, 5), int)
    with pytest.raises(InputError, match=words):
        cross_validated_by_k(JointNeighbors(), X, Y, **{"ks": [1], "n_keywords": 2, **settings})


def test_no_more_neighbors_than_the_table_has():
    table = NeighborTable(np.array([[0]]), np.array([[0.0]]))
    with pytest.raises(InputError, match="holds 1 neighbors"):
        measures_by_k(table, [[1, 0]], [[1, 0]], [2], n_keywords=1)
