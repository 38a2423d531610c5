"""Value differences: words compared by the classes behind them, honestly towards the rows they are learned from."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import nearsay as ns
from nearsay.posterior.views.value_differences import SHRINKAGE, value_difference_matrix
from tests.reference.tables import value_difference

ROWS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.integers(0, 2)), min_size=3, max_size=20)


def one_hot(words: list[str], values: str) -> np.ndarray:
    return np.array([[float(word == value) for value in values] for word in words])


@settings(max_examples=60)
@given(rows=ROWS, height=st.sampled_from([0.5, 1.0, 3.0]))
def test_distances_are_those_of_the_value_difference_metric(rows, height):
    first, second, labels = (list(column) for column in zip(*rows, strict=True))
    X = height * np.hstack([one_hot(first, "abc"), one_hot(second, "xyz")])
    mapped = X @ value_difference_matrix(X, np.array(labels), ((0, 3), (3, 6)))
    measured = ((mapped[:, None] - mapped[None]) ** 2).sum(axis=2)
    by_hand = [
        [
            value_difference(first, labels, a[0], b[0], SHRINKAGE)
            + value_difference(second, labels, a[1], b[1], SHRINKAGE)
            for b in rows
        ]
        for a in rows
    ]
    assert np.allclose(measured, by_hand)


def test_past_cases_learn_nothing_from_words_that_say_nothing():
    """A word that few rows share would give its label away, were the row among those that taught its value."""
    rng = np.random.default_rng(0)
    words = rng.choice([f"w{i}" for i in range(60)], size=(240, 3))
    y = rng.integers(0, 2, 240)
    classifier = ns.NeighborClassifier(5).fit(words, y)
    p = classifier.leave_one_out_proba()
    loss = -np.mean(np.log(p[np.arange(240), y]))
    assert loss > np.log(2) - 0.02
