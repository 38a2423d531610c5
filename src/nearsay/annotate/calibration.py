"""A probability for every keyword, from the scores of one or several scorers.

    score by scorer 1 ─► two columns ─┐
    score by scorer 2 ─► two columns ─┼─► one sigmoid for all words ─► a slope and a shift a word ─► probability
    how frequent the word is ──────────┘

All of it is learned from scores of rows that had no part in them: each was left out, or was of another fold. A word's
own sigmoid follows TagProp (Guillaumin et al. 2009), but is held near that of all words as far as its rows are few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit

from nearsay.core.arrays import row_blocks
from nearsay.errors import InputError

# Of a scorer's scores one column is the score divided by its usual largest; the other grows like its logarithm, from
# this share of the largest on. Votes are best separated by the logarithm, regression scores as they are.
FAINT = 0.002
# How strongly a word's own slope and shift are held at those of all words: as by so many rows that have the word.
HELD_SLOPE, HELD_SHIFT = 20.0, 4.0
# Keeps columns that say the same thing from large weights of opposite sign.
RIDGE = 1e-6
NEWTON_STEPS = 30
# Pairs of row and word whose columns are held at once.
PAIRS_AT_ONCE = 2**17
# Numbers in columns that are kept from step to step: 128 MB. Those of more pairs are computed at every step.
NUMBERS_KEPT = 2**24
FOLDS = 5


@dataclass(frozen=True)
class KeywordCalibration:
    """From the scores of words to their probabilities.

    Attributes
    ----------
    usual : (n_scorers,)
        The mean over rows of the largest score, for each scorer.
    weights : (2 · n_scorers + 2,)
        For the two columns of every scorer, the log odds of the word, and a constant 1.
    log_odds : (n_words,)
        Of a word for a row of which nothing is known.
    slopes, shifts : (n_words,)
        1 and 0 where a word goes with all others.
    """

    usual: np.ndarray
    weights: np.ndarray
    log_odds: np.ndarray
    slopes: np.ndarray
    shifts: np.ndarray

    @classmethod
    def learn(cls, scores: Sequence[np.ndarray], keywords: csr_array, share: np.ndarray) -> KeywordCalibration:
        """Learn from rows that had no part in their scores.

        Parameters
        ----------
        scores : one (n_rows, n_words) array per scorer
        keywords : (n_rows, n_words) zeros and ones
        share : (n_words,)
            Of all rows, those that have the word.

        Half of the rows with a score of 1 have the word, and none of those with 0; three scorers agree:

        >>> scores, Y = np.tile([[1.0], [0.0]], (500, 1)), csr_array(np.tile([[1], [0], [0], [0]], (250, 1)))
        >>> learned = KeywordCalibration.learn([scores] * 3, Y, share=np.array([0.25]))
        >>> learned.proba([np.array([[1.0], [0.0]])] * 3).round(2)
        array([[0.5],
               [0. ]])
        """
        return cls.shared(scores, keywords, share)._with_own(scores, keywords)

    @classmethod
    def shared(cls, scores: Sequence[np.ndarray], keywords: csr_array, share: np.ndarray) -> KeywordCalibration:
        """The same with one sigmoid for all words: quick, and enough to hold scorers against each other."""
        if not scores or any(said.shape != keywords.shape for said in scores):
            raise InputError(
                f"Every scorer must score every row and word: arrays of shape {keywords.shape}; got"
                f" {[said.shape for said in scores]}."
            )
        usual = np.array([float(np.abs(said).max(axis=1, initial=0.0).mean()) or 1.0 for said in scores])
        n_rows = keywords.shape[0]
        # A word that all rows have, or none, is not certain for the next one.
        odds = (share * n_rows + 0.5) / ((1 - share) * n_rows + 0.5)
        n_words = keywords.shape[1]
        start = np.append(np.zeros(2 * len(scores)), [1.0, 0.0])
        shared = cls(usual, start, np.log(odds), np.ones(n_words), np.zeros(n_words))
        return replace(shared, weights=shared._best_weights(scores, keywords))

    def proba(self, scores: Sequence[np.ndarray]) -> np.ndarray:
        """The probability of every word: (n_rows, n_words)."""
        probability: np.ndarray = expit(self.slopes * self._log_odds(scores) + self.shifts)
        return probability

    def losses(self, scores: Sequence[np.ndarray], keywords: csr_array) -> np.ndarray:
        """The log loss of every row, over all words: (n_rows,)."""
        said = self.slopes * self._log_odds(scores) + self.shifts
        surprise: np.ndarray = (
            np.logaddexp(0.0, said).sum(axis=1) - np.asarray(keywords.multiply(said).sum(axis=1)).ravel()
        )
        return surprise

    def past(self, scores: Sequence[np.ndarray], keywords: csr_array) -> np.ndarray:
        """The probabilities of the rows this was learned from, but no row with a say in the sigmoids of its words.

        What is learned from them, such as ``Worth``, is not fooled by words that few rows have.
        """
        out = np.empty(keywords.shape)
        fold = np.arange(keywords.shape[0]) % FOLDS
        for one in range(FOLDS):
            seen, unseen = fold != one, fold == one
            if unseen.any() and seen.any():
                learned = self._with_own([said[seen] for said in scores], csr_array(keywords[seen]))
                out[unseen] = learned.proba([said[unseen] for said in scores])
            else:
                out[unseen] = self.proba([said[unseen] for said in scores])
        return out

    def _columns(self, scores: Sequence[np.ndarray]) -> np.ndarray:
        """What the shared sigmoid sees of every pair: (n_rows · n_words, 2 · n_scorers + 2)."""
        shape = scores[0].shape
        columns = np.empty((*shape, len(self.weights)))
        for m, (said, usual) in enumerate(zip(scores, self.usual, strict=True)):
            columns[..., 2 * m] = said / usual
            columns[..., 2 * m + 1] = np.arcsinh(said / (FAINT * usual))
        columns[..., -2] = self.log_odds
        columns[..., -1] = 1.0
        return columns.reshape(-1, len(self.weights))

    def _log_odds(self, scores: Sequence[np.ndarray]) -> np.ndarray:
        """What the shared sigmoid says, before it is one: (n_rows, n_words)."""
        out = np.empty(scores[0].shape)
        for part in _blocks(scores[0].shape):
            few = [said[part] for said in scores]
            out[part] = (self._columns(few) @ self.weights).reshape(few[0].shape)
        return out

    def _best_weights(self, scores: Sequence[np.ndarray], keywords: csr_array) -> np.ndarray:
        """The weights of least log loss, by Newton's steps, halved where one goes too far."""
        blocks = _blocks(keywords.shape)
        kept: list[tuple[np.ndarray, np.ndarray]] = []

        def pairs(number: int) -> tuple[np.ndarray, np.ndarray]:
            """The columns of a block, and which of its pairs are of a row and a word it has."""
            if number < len(kept):
                return kept[number]
            part = blocks[number]
            found = self._columns([said[part] for said in scores]), keywords[part].toarray().ravel()
            if number == len(kept) and (number + 1) * PAIRS_AT_ONCE * (len(self.weights) + 1) <= NUMBERS_KEPT:
                kept.append(found)
            return found

        def look(weights: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
            pull = RIDGE * keywords.shape[0] * keywords.shape[1]
            loss, slope, bend = pull * float(weights @ weights) / 2, pull * weights, pull * np.eye(len(weights))
            for columns, has in map(pairs, range(len(blocks))):
                said = columns @ weights
                p = expit(said)
                loss += float(np.logaddexp(0.0, said).sum() - said @ has)
                slope = slope + columns.T @ (p - has)
                bend = bend + (columns * (p * (1 - p))[:, None]).T @ columns
            return loss, slope, bend

        weights = self.weights
        loss, slope, bend = look(weights)
        for _ in range(NEWTON_STEPS):
            step = np.linalg.solve(bend, slope)
            size = 1.0
            now = look(weights - step)
            while now[0] > loss and size > 1e-6:
                size /= 2
                now = look(weights - size * step)
            if not now[0] < loss:
                break
            done = loss - now[0] <= 1e-9 * abs(loss)
            weights, (loss, slope, bend) = weights - size * step, now
            if done:
                break
        return weights

    def _with_own(self, scores: Sequence[np.ndarray], keywords: csr_array) -> KeywordCalibration:
        """The same with a slope and a shift for every word, by Newton's steps, all words at once."""
        said = self._log_odds(scores)
        has = np.asarray(keywords.sum(axis=0)).ravel()
        has_said = np.asarray(keywords.multiply(said).sum(axis=0)).ravel()
        more, shift = np.zeros(keywords.shape[1]), np.zeros(keywords.shape[1])
        for _ in range(NEWTON_STEPS):
            sums = np.zeros((5, keywords.shape[1]))
            for part in _blocks(keywords.shape):
                p = expit((1 + more) * said[part] + shift)
                bend = p * (1 - p)
                by_said = bend * said[part]
                terms = (p, p * said[part], bend, by_said, by_said * said[part])
                sums += [term.sum(axis=0) for term in terms]
            to_shift, to_more = has - sums[0] - HELD_SHIFT * shift, has_said - sums[1] - HELD_SLOPE * more
            bend_shift, bend_both, bend_more = sums[2] + HELD_SHIFT, sums[3], sums[4] + HELD_SLOPE
            determinant = bend_shift * bend_more - bend_both**2
            steps = np.array([bend_more * to_shift - bend_both * to_more, bend_shift * to_more - bend_both * to_shift])
            steps = np.clip(steps / determinant, -1.0, 1.0)  # far from the end a full step may overshoot
            shift, more = shift + steps[0], more + steps[1]
            if np.abs(steps).max(initial=0.0) < 1e-8:
                break
        return replace(self, slopes=1 + more, shifts=shift)


def _blocks(shape: tuple[int, ...]) -> list[slice]:
    return list(row_blocks(shape[0], size=max(1, PAIRS_AT_ONCE // max(shape[1], 1))))
