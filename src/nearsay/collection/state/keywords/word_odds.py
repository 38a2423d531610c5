"""The probability that an item has a word that some of its neighbors have, learned from past cases.

    votes of neighbors, decaying slowly and fast ► two columns each ┐
    how frequent the word is, and 1 ─────────────────────────────────┴─► one sigmoid ─► a slope and a shift a word

The same fit as ``annotate.calibration``, but only of pairs of an item and a word that a neighbor has: a collection may
have a hundred thousand words.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import expit, xlogy

from nearsay.annotate.sigmoid_fit import FAINT, RIDGE, Evaluation, least_log_loss, word_sigmoids

# A word that was unknown when this was learned counts as a word that a single item has.
NEW = -1


@dataclass(frozen=True)
class WordPairs:
    """Pairs of a past case and a word that a neighbor has.

    Attributes
    ----------
    votes : (n_pairs, n_votes) of the neighbors.
    words : (n_pairs,) numbers of the words.
    has : (n_pairs,) bool, whether the item has the word.
    n_others, n_missed : how many other pairs there are, and in how many of them the item has the word.
    """

    votes: np.ndarray
    words: np.ndarray
    has: np.ndarray
    n_others: int
    n_missed: int


@dataclass(frozen=True)
class WordOdds:
    """From votes to probabilities.

    Attributes
    ----------
    usual : (n_votes,) the mean of each vote over pairs.
    weights : (2 · n_votes + 2,) for the two columns of every vote, the log odds of the word, and a constant 1.
    words : (n_words,) those that were known.
    log_odds, slopes, shifts : (n_words + 1,) of each, and last of one that was not known.
    """

    usual: np.ndarray
    weights: np.ndarray
    words: np.ndarray
    log_odds: np.ndarray
    slopes: np.ndarray
    shifts: np.ndarray

    @classmethod
    def shared(cls, pairs: WordPairs, words: np.ndarray, share: np.ndarray, n_rows: int) -> WordOdds:
        """One sigmoid for all words; ``share`` is of ``n_rows`` items those that have each word.

        A vote of a half was right every second time, a whole one always:

        >>> votes, has = np.array([[0.5], [1.0]] * 100), np.array([True, True, False, True] * 50)
        >>> pairs = WordPairs(votes, np.zeros(200, int), has, n_others=0, n_missed=0)
        >>> odds = WordOdds.shared(pairs, np.array(["sky"]), np.array([0.5]), 400)
        >>> odds.proba(["sky", "sky"], np.array([[0.5], [0.95]])).round(1)
        array([0.5, 1. ])
        """
        usual = np.maximum(pairs.votes.mean(axis=0), np.finfo(np.float64).tiny)
        n_has = np.append(share, 1 / n_rows) * n_rows
        log_odds = np.log((n_has + 0.5) / (n_rows - n_has + 0.5))
        n_columns = 2 * pairs.votes.shape[1] + 2
        flat = np.zeros(len(log_odds))
        start = cls(usual, np.append(np.zeros(n_columns - 2), [1.0, 0.0]), words, log_odds, flat + 1.0, flat)
        return replace(start, weights=start._best_weights(pairs))

    def loss(self, pairs: WordPairs) -> float:
        """The log loss of all pairs, those without a vote included: they go by how many of them were missed."""
        logits = self._logits(pairs.votes, pairs.words)
        of_votes = float(np.logaddexp(0.0, logits).sum() - logits[pairs.has].sum())
        missed, others = pairs.n_missed, pairs.n_others
        rate = missed / max(others, 1)
        return of_votes - float(xlogy(missed, rate) + xlogy(others - missed, 1 - rate))

    def with_word_sigmoids(self, pairs: WordPairs) -> WordOdds:
        """The same with a slope and a shift for every word, held near those of all words as far as pairs are few."""
        logits, word, n = self._shared_logits(pairs.votes, pairs.words), pairs.words, len(self.log_odds)

        def total(values: np.ndarray) -> np.ndarray:
            return np.bincount(word, weights=values, minlength=n)

        def sums(more: np.ndarray, shift: np.ndarray) -> np.ndarray:
            p = expit((1 + more[word]) * logits + shift[word])
            bend = p * (1 - p)
            return np.array([total(each) for each in (p, p * logits, bend, bend * logits, bend * logits * logits)])

        has = pairs.has.astype(np.float64)
        slopes, shifts = word_sigmoids(total(has), total(has * logits), sums)
        return replace(self, slopes=slopes, shifts=shifts)

    def proba(self, words: list[str], votes: np.ndarray) -> np.ndarray:
        """The probability of each of some words, by the votes for it: (n_words,)."""
        numbers = np.array([self._number.get(word, NEW) for word in words])
        p: np.ndarray = expit(self._logits(votes, numbers))
        return p

    @cached_property
    def _number(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words.tolist())}

    def _logits(self, votes: np.ndarray, words: np.ndarray) -> np.ndarray:
        logits: np.ndarray = self.slopes[words] * self._shared_logits(votes, words) + self.shifts[words]
        return logits

    def _shared_logits(self, votes: np.ndarray, words: np.ndarray) -> np.ndarray:
        # Column by column: the rounding of a matrix product may depend on the other rows.
        logits: np.ndarray = self.weights[-1] + self.weights[-2] * self.log_odds[words]
        for number, column in enumerate(self._columns(votes)):
            logits = logits + self.weights[number] * column
        return logits

    def _columns(self, votes: np.ndarray) -> list[np.ndarray]:
        scaled = [votes[:, number] / usual for number, usual in enumerate(self.usual)]
        return [column for each in scaled for column in (each, np.arcsinh(each / FAINT))]

    def _best_weights(self, pairs: WordPairs) -> np.ndarray:
        columns = np.stack([*self._columns(pairs.votes), self.log_odds[pairs.words], np.ones(len(pairs.words))], axis=1)
        has, pull = pairs.has.astype(np.float64), RIDGE * len(pairs.words)

        def evaluate(weights: np.ndarray) -> Evaluation:
            logits = columns @ weights
            p = expit(logits)
            loss = float(np.logaddexp(0.0, logits).sum() - logits @ has + pull * (weights @ weights) / 2)
            hessian = (columns * (p * (1 - p))[:, None]).T @ columns + pull * np.eye(len(weights))
            return loss, columns.T @ (p - has) + pull * weights, hessian

        return least_log_loss(self.weights, evaluate)
