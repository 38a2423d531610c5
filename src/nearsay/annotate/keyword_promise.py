"""How probable a word must be to be given, so that a promise about the words of an item is kept (risk control).

    past items: probabilities, true words ──► the loss of an item at every threshold ──► the boldest one that keeps it

The loss of an item is the share of its words that are missed (recall), or of the words given that are wrong
(precision). A threshold is chosen where the mean loss of n past items, with one more of the largest loss there
can be, is at most what was asked for (conformal risk control, Angelopoulos et al. 2022).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import csr_array


def recall_threshold(p: np.ndarray, keywords: csr_array, recall: float, known: np.ndarray | None = None) -> float:
    """The largest threshold at which words of at least this probability hold the share ``recall`` of an item's words.

    On average over new items like the past ones. Misses only grow with the threshold, so the promise is exact. Items
    without words miss none. −inf: not even all words keep it.

    p : (n_items, n_words) held-out probabilities of past items.
    keywords : (n_items, n_words) zeros and ones.
    known : (n_words,) bool, optional, False for words that one item alone has. They stand for words that no item has
        yet, and count as missed.

    >>> p, has = np.array([[0.9, 0.2], [0.8, 0.6]] * 10), csr_array([[1, 0], [1, 1]] * 10)
    >>> recall_threshold(p, has, 0.9), recall_threshold(p, has, 0.6), recall_threshold(p, has, 0.96)
    (0.6, 0.8, -inf)
    """
    items, words = keywords.nonzero()
    n_words = np.bincount(items, minlength=len(p))
    weight, reached = 1 / n_words[items], p[items, words]
    if known is not None:
        reached = np.where(known[words], reached, -math.inf)
    budget = (1 - recall) * (len(p) + 1) - 1
    order = np.argsort(reached, kind="stable")
    # What is missed below each of them; equal ones are missed together.
    missed = np.append(0.0, np.cumsum(weight[order]))
    thresholds = np.append(reached[order], math.inf)
    opens = np.append(True, thresholds[1:] > thresholds[:-1])
    kept = np.flatnonzero(opens & (missed <= budget + 1e-9))
    return float(thresholds[kept[-1]]) if len(kept) else -math.inf


def precision_threshold(p: np.ndarray, keywords: csr_array, precision: float) -> float:
    """The smallest threshold at which of the words given to an item the share ``precision`` is true.

    On average over new items that are given words. This loss may fall again where more words are given, so it is
    no theorem, but measured. +inf: no threshold keeps it, and no word is given.

    >>> p, has = np.array([[0.9, 0.5]] * 20), csr_array([[1, 0], [1, 1]] * 10)
    >>> precision_threshold(p, has, 0.9), precision_threshold(p, has, 0.7), precision_threshold(p, has, 0.99)
    (0.9, 0.5, inf)
    """
    order = np.argsort(-p, axis=1, kind="stable")
    falling = np.take_along_axis(p, order, axis=1)
    wrong = 1 - np.take_along_axis(keywords.toarray() > 0, order, axis=1)
    share = np.cumsum(wrong, axis=1) / np.arange(1, p.shape[1] + 1)
    excess = share - (1 - precision)
    step = np.diff(excess, axis=1, prepend=0.0)
    by_probability = np.argsort(-falling, axis=None, kind="stable")
    thresholds, total = falling.ravel()[by_probability], np.cumsum(step.ravel()[by_probability])
    closes = np.append(thresholds[1:] < thresholds[:-1], True)
    kept = np.flatnonzero(closes & (total + precision <= 1e-9))
    return float(thresholds[kept[-1]]) if len(kept) else math.inf
