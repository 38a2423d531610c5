"""Few words of many: the highest, and those worth most to precision and recall over words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.annotate.word_selection import Worth, most
from nearsay.errors import InputError
from nearsay.metrics.keywords import keyword_measures


@given(st.lists(st.lists(st.integers(0, 3), min_size=5, max_size=5), min_size=1, max_size=6), st.integers(1, 5))
def test_the_highest_words_come_first_and_the_first_of_equal_ones(scores, n):
    expected = [sorted(range(5), key=lambda word: (-line[word], word))[:n] for line in scores]
    assert most(np.array(scores, dtype=float), n).tolist() == expected


def made_up(seed: int, n_items: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities that are what they say, of forty words from frequent to rare, and what came of them."""
    random = np.random.default_rng(seed)
    share = np.geomspace(0.3, 0.005, 40)
    sharp = random.normal(np.log(share / (1 - share)), 2.0, (n_items, 40))
    p = 1 / (1 + np.exp(-sharp))
    return p, (random.random(p.shape) < p).astype(int)


def as_table(words: np.ndarray, n_words: int) -> np.ndarray:
    table = np.zeros((len(words), n_words), int)
    np.put_along_axis(table, words, 1, axis=1)
    return table


def test_words_chosen_by_worth_are_better_over_words_than_the_most_probable():
    past, _ = made_up(0)
    p, truth = made_up(1)
    worth = Worth.learn(past, 5)
    plain, chosen = (keyword_measures(truth, as_table(most(scores, 5), 40)) for scores in (p, worth.scores(p)))
    assert chosen["f1"] > plain["f1"] + 0.02
    # Over items the most probable words are best, whatever is better over words.
    assert chosen["precision_per_item"] < plain["precision_per_item"]


def test_more_weight_on_recall_finds_more_and_errs_more():
    past, _ = made_up(0)
    p, truth = made_up(1)
    found = [
        keyword_measures(truth, as_table(most(Worth.learn(past, 5, recall_weight=weight).scores(p), 5), 40))
        for weight in (0.5, 2.0)
    ]
    assert found[0]["recall"] < found[1]["recall"]
    assert found[0]["precision"] > found[1]["precision"]


def test_what_is_learned_is_what_happens_on_new_items():
    past, _ = made_up(0)
    p, truth = made_up(1)
    worth = Worth.learn(past, 5)
    table = as_table(most(worth.scores(p), 5), 40)
    often = table.sum(axis=0) > 50
    precision = (table * truth).sum(axis=0)[often] / table.sum(axis=0)[often]
    assert np.abs(precision - worth.precision[often]).mean() < 0.05


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: most(np.zeros((1, 3)), 4), "from 1 to the 3 words"),
        (lambda: most(np.zeros((1, 3)), 0), "from 1 to the 3 words"),
        (lambda: Worth.learn(np.array([[1.5]]), 1), "from 0 to 1"),
        (lambda: Worth.learn(np.zeros((0, 3)), 1), "items × words"),
        (lambda: Worth.learn(np.array([[0.5]]), 1, recall_weight=-1.0), "recall_weight"),
    ],
)
def test_what_cannot_be_chosen_from_is_refused(call, words):
    with pytest.raises(InputError, match=words):
        call()
