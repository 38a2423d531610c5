"""Selection of the words to give, from the probabilities of all words.

The most probable words are frequent ones. Annotation is measured by means over
words, to which a frequent word adds little: one more right "water" is one of a
hundred, one more right "cougar" is one of four. The worth of a word for an item
is its expected contribution to the mean precision and the mean recall over words::

    worth = (p − precision) / given  +  recall_weight · p / had

with p the word's probability for the item, the share of items that are given the word, the share that have it, and
its precision. These are learned from past items by a damped fixed-point iteration: words are given by worth, counted,
and their worth is computed again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from nearsay.errors import InputError
from nearsay.metrics.keywords import keyword_measures

ROUNDS = 60
# Damping of the iteration: without it the counts would oscillate.
STEP = 0.3
# Weights of recall that "auto" tries, and the number of parts of the past items it tries them on.
RECALL_WEIGHTS = (1.0, 1.25, 1.5, 2.0, 3.0)
PARTS = 9
# Words of fewer past items are treated as if they had this many: less is too noisy.
FEWEST_ITEMS = 10


def most(scores: np.ndarray, n_keywords: int) -> np.ndarray:
    """The words of highest score for every item, highest first, ties by number: (n_items, n_keywords).

    >>> most(np.array([[0.1, 0.7, 0.2, 0.7]]), 3)
    array([[1, 3, 2]])
    """
    n_words = scores.shape[1]
    if not 1 <= n_keywords <= n_words:
        raise InputError(f"n_keywords must be from 1 to the {n_words} words there are; got {n_keywords!r}.")
    kth = np.partition(scores, n_words - n_keywords, axis=1)[:, n_words - n_keywords]
    enough = scores >= kth[:, None]
    for item in np.flatnonzero(enough.sum(axis=1) > n_keywords):  # of tied words the first are taken
        tied = np.flatnonzero(scores[item] == kth[item])
        enough[item, tied[n_keywords - np.sum(scores[item] > kth[item]) :]] = False
    words = np.nonzero(enough)[1].reshape(-1, n_keywords)
    by_score = np.argsort(-np.take_along_axis(scores, words, axis=1), axis=1, kind="stable")
    return np.take_along_axis(words, by_score, axis=1)


def as_table(words: np.ndarray, n_words: int) -> csr_array:
    """Word numbers as a table of zeros and ones: (n_items, n_words).

    >>> as_table(np.array([[2, 0]]), 3).toarray()
    array([[1, 0, 1]])
    """
    n_items, n_keywords = words.shape
    starts = np.arange(n_items + 1) * n_keywords
    return csr_array((np.ones(words.size, np.int64), words.ravel(), starts), shape=(n_items, n_words))


@dataclass(frozen=True)
class Worth:
    """The expected contribution of a word to mean precision and recall over words, learned from past items.

    precision, given, had : (n_words,) how often the word is right when given; the shares of items it is given to, and
        that have it.
    """

    precision: np.ndarray
    given: np.ndarray
    had: np.ndarray
    recall_weight: float

    @classmethod
    def learn(cls, p: Any, n_keywords: int, *, recall_weight: float = 1.0) -> Worth:
        """Learn from the held-out probabilities of past items, (n_items, n_words).

        n_keywords : how many words an item is given.
        recall_weight : float, default=1.0, weight of recall relative to precision: a larger one gives rare words more
            often.
        """
        p = np.asarray(p, dtype=np.float64)
        if p.ndim != 2 or not len(p) or not ((p >= 0) & (p <= 1)).all():
            raise InputError(f"Probabilities (items × words) from 0 to 1 are expected; got shape {p.shape}.")
        if not recall_weight >= 0:
            raise InputError(f"recall_weight must be a number not below 0; got {recall_weight!r}.")
        n_items = len(p)
        had = p.sum(axis=0)
        right, given = had / 2, 1.5 * had  # a start near the solution: half of the words given are right
        for _ in range(ROUNDS):
            words = most(cls._of_counts(right, given, had, n_items, recall_weight).scores(p), n_keywords)
            new_right = np.bincount(words.ravel(), np.take_along_axis(p, words, axis=1).ravel(), minlength=p.shape[1])
            new_given = np.bincount(words.ravel(), minlength=p.shape[1])
            right, given = right + STEP * (new_right - right), given + STEP * (new_given - given)
        return cls._of_counts(right, given, had, n_items, recall_weight)

    @classmethod
    def _of_counts(
        cls, right: np.ndarray, given: np.ndarray, had: np.ndarray, n_items: int, recall_weight: float
    ) -> Worth:
        precision = np.divide(right, given, out=np.zeros(len(given)), where=given > 0)
        at_least = np.maximum([given, had], FEWEST_ITEMS) / n_items
        return cls(precision, at_least[0], at_least[1], recall_weight)

    def scores(self, p: Any) -> np.ndarray:
        """The worth of each word for each item: (n_items, n_words).

        Of two words that are right every other time, the second is ten times as rare:

        >>> half = np.array([0.5, 0.5])
        >>> Worth(half, given=np.array([0.5, 0.05]), had=np.array([0.4, 0.04]), recall_weight=1.0).scores([[0.9, 0.7]])
        array([[ 3.05, 21.5 ]])
        """
        p = np.asarray(p, dtype=np.float64)
        return (p - self.precision) / self.given + self.recall_weight * p / self.had


def measures_by_recall_weight(p: np.ndarray, keywords: csr_array, n_keywords: int) -> list[dict[str, float]]:
    """Measures of words given by worth to past items, for each weight of recall.

    Items are measured in nine random parts: precision and recall over words depend on the number of items, and there
    are usually fewer new items than past ones.

    One dict for each weight: ``recall_weight``; ``precision``, ``recall`` and ``words_found`` in the mean over parts;
    and ``f1`` of these.
    """
    part = np.random.default_rng(0).permutation(len(p)) % min(PARTS, len(p))
    rows = []
    for weight in RECALL_WEIGHTS:
        worth = Worth.learn(p, n_keywords, recall_weight=weight)
        predicted = as_table(most(worth.scores(p), n_keywords), p.shape[1])
        measured = [keyword_measures(keywords[part == one], predicted[part == one]) for one in range(part.max() + 1)]
        mean = {
            name: float(np.mean([one[name] for one in measured])) for name in ("precision", "recall", "words_found")
        }
        total = mean["precision"] + mean["recall"]
        mean["f1"] = 2 * mean["precision"] * mean["recall"] / total if total else 0.0
        rows.append({"recall_weight": weight, **mean})
    return rows


def best_recall_weight(p: np.ndarray, keywords: csr_array, n_keywords: int) -> float:
    """The weight of recall with the highest F1 on past items."""
    rows = measures_by_recall_weight(p, keywords, n_keywords)
    return max(rows, key=lambda row: row["f1"])["recall_weight"]
