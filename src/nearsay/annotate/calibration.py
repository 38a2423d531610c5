"""Calibration of keyword scores: sigmoids that turn the scores of one or several scorers into probabilities.

    score by scorer 1 ─► two columns ─┐
    score by scorer 2 ─► two columns ─┼─► one sigmoid for all words ─► a slope and a shift a word ─► probability
    how frequent the word is ──────────┘

All of it is learned from held-out scores. The sigmoid of a word follows TagProp (Guillaumin et al. 2009), but is
regularized toward that of all words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit

from nearsay.annotate.sigmoid_fit import FAINT, RIDGE, Evaluation, least_log_loss, word_sigmoids
from nearsay.core.arrays import row_blocks
from nearsay.data.content_order import as_met
from nearsay.errors import InputError

# Pairs of row and word whose columns are held at once.
PAIRS_AT_ONCE = 2**17
# Numbers in columns that are cached between steps: 128 MB. Those of more pairs are computed at every step.
NUMBERS_KEPT = 2**24
FOLDS = 5


@dataclass(frozen=True)
class KeywordCalibration:
    """Calibrated probabilities of words from their scores.

    usual : (n_scorers,) the mean over rows of the largest score, for each scorer.
    weights : (2 · n_scorers + 2,) for the two columns of every scorer, the log odds of the word, and a constant 1.
    log_odds : (n_words,) of a word for any row.
    slopes, shifts : (n_words,) 1 and 0 if a word has the shared sigmoid.
    """

    usual: np.ndarray
    weights: np.ndarray
    log_odds: np.ndarray
    slopes: np.ndarray
    shifts: np.ndarray

    @classmethod
    def learn(cls, scores: Sequence[np.ndarray], keywords: csr_array, share: np.ndarray) -> KeywordCalibration:
        """Learn from held-out scores.

        scores : one (n_rows, n_words) array per scorer
        keywords : (n_rows, n_words) zeros and ones
        share : (n_words,) of all rows, those that have the word.

        Half of the rows with a score of 1 have the word, and none of those with 0; three scorers agree:

        >>> scores, Y = np.tile([[1.0], [0.0]], (500, 1)), csr_array(np.tile([[1], [0], [0], [0]], (250, 1)))
        >>> learned = KeywordCalibration.learn([scores] * 3, Y, share=np.array([0.25]))
        >>> learned.proba([np.array([[1.0], [0.0]])] * 3).round(2)
        array([[0.5],
               [0. ]])
        """
        return cls.shared(scores, keywords, share)._with_word_sigmoids(scores, keywords)

    @classmethod
    def shared(cls, scores: Sequence[np.ndarray], keywords: csr_array, share: np.ndarray) -> KeywordCalibration:
        """The same with one sigmoid for all words: fast, and enough to compare scorers."""
        if not scores or any(each.shape != keywords.shape for each in scores):
            raise InputError(
                f"Every scorer must score every row and word: arrays of shape {keywords.shape}; got"
                f" {[each.shape for each in scores]}."
            )
        usual = np.array([float(np.abs(each).max(axis=1, initial=0.0).mean()) or 1.0 for each in scores])
        n_rows = keywords.shape[0]
        # Smoothed: a word that all rows have, or none, is not certain for the next one.
        odds = (share * n_rows + 0.5) / ((1 - share) * n_rows + 0.5)
        n_words = keywords.shape[1]
        start = np.append(np.zeros(2 * len(scores)), [1.0, 0.0])
        shared = cls(usual, start, np.log(odds), np.ones(n_words), np.zeros(n_words))
        return replace(shared, weights=shared._best_weights(scores, keywords))

    def proba(self, scores: Sequence[np.ndarray]) -> np.ndarray:
        """The probability of every word: (n_rows, n_words)."""
        return expit(self.slopes * self._logits(scores) + self.shifts)

    def losses(self, scores: Sequence[np.ndarray], keywords: csr_array) -> np.ndarray:
        """The log loss of every row, over all words: (n_rows,)."""
        logits = self.slopes * self._logits(scores) + self.shifts
        has_logits = np.asarray(keywords.multiply(logits).sum(axis=1)).ravel()
        return np.logaddexp(0.0, logits).sum(axis=1) - has_logits

    def past(self, scores: Sequence[np.ndarray], keywords: csr_array, groups: np.ndarray | None = None) -> np.ndarray:
        """Cross-validated probabilities of the training rows: the word sigmoids are those of other folds.

        Otherwise rare words would bias what is learned from them, such as ``Worth``. Rows of one group are in one fold.
        """
        out = np.empty(keywords.shape)
        fold = (np.arange(keywords.shape[0]) if groups is None else as_met(groups)) % FOLDS
        for one in range(FOLDS):
            others, held_out = fold != one, fold == one
            learned = self
            if held_out.any() and others.any():
                learned = self._with_word_sigmoids([each[others] for each in scores], csr_array(keywords[others]))
            out[held_out] = learned.proba([each[held_out] for each in scores])
        return out

    def _columns(self, scores: Sequence[np.ndarray]) -> np.ndarray:
        """The design matrix of the shared sigmoid, a row for each pair: (n_rows · n_words, 2 · n_scorers + 2)."""
        shape = scores[0].shape
        columns = np.empty((*shape, len(self.weights)))
        for m, (each, usual) in enumerate(zip(scores, self.usual, strict=True)):
            columns[..., 2 * m] = each / usual
            columns[..., 2 * m + 1] = np.arcsinh(each / (FAINT * usual))
        columns[..., -2] = self.log_odds
        columns[..., -1] = 1.0
        return columns.reshape(-1, len(self.weights))

    def _logits(self, scores: Sequence[np.ndarray]) -> np.ndarray:
        """The logits of the shared sigmoid: (n_rows, n_words)."""
        out = np.empty(scores[0].shape)
        for part in _blocks(scores[0].shape):
            few = [each[part] for each in scores]
            out[part] = (self._columns(few) @ self.weights).reshape(few[0].shape)
        return out

    def _best_weights(self, scores: Sequence[np.ndarray], keywords: csr_array) -> np.ndarray:
        """The weights of least log loss."""
        blocks = _blocks(keywords.shape)
        kept: list[tuple[np.ndarray, np.ndarray]] = []

        def pairs(number: int) -> tuple[np.ndarray, np.ndarray]:
            """The columns of a block of pairs, and which pairs are a row with a word that it has."""
            if number < len(kept):
                return kept[number]
            part = blocks[number]
            block = self._columns([each[part] for each in scores]), keywords[part].toarray().ravel()
            if number == len(kept) and (number + 1) * PAIRS_AT_ONCE * (len(self.weights) + 1) <= NUMBERS_KEPT:
                kept.append(block)
            return block

        def evaluate(weights: np.ndarray) -> Evaluation:
            pull = RIDGE * keywords.shape[0] * keywords.shape[1]
            loss, gradient, hessian = pull * float(weights @ weights) / 2, pull * weights, pull * np.eye(len(weights))
            for columns, has in map(pairs, range(len(blocks))):
                logits = columns @ weights
                p = expit(logits)
                loss += float(np.logaddexp(0.0, logits).sum() - logits @ has)
                gradient = gradient + columns.T @ (p - has)
                hessian = hessian + (columns * (p * (1 - p))[:, None]).T @ columns
            return loss, gradient, hessian

        return least_log_loss(self.weights, evaluate)

    def _with_word_sigmoids(self, scores: Sequence[np.ndarray], keywords: csr_array) -> KeywordCalibration:
        """The same with a slope and a shift for every word."""
        logits = self._logits(scores)

        def sums(more: np.ndarray, shift: np.ndarray) -> np.ndarray:
            total = np.zeros((5, keywords.shape[1]))
            for part in _blocks(keywords.shape):
                p = expit((1 + more) * logits[part] + shift)
                bend = p * (1 - p)
                bend_logit = bend * logits[part]
                terms = (p, p * logits[part], bend, bend_logit, bend_logit * logits[part])
                total += [term.sum(axis=0) for term in terms]
            return total

        n_has, has_logits = (np.asarray(each.sum(axis=0)).ravel() for each in (keywords, keywords.multiply(logits)))
        slopes, shifts = word_sigmoids(n_has, has_logits, sums)
        return replace(self, slopes=slopes, shifts=shifts)


def _blocks(shape: tuple[int, ...]) -> list[slice]:
    return list(row_blocks(shape[0], size=max(1, PAIRS_AT_ONCE // max(shape[1], 1))))
