"""Evaluation measures for keywords: averaged over words, as usual in image annotation, and over items."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from nearsay.data.keywords import Keywords, aligned, check_both_named, column_words
from nearsay.errors import InputError


def keyword_measures(Y_true: Any, Y_pred: Any) -> dict[str, float]:
    """Precision, recall and the number of words found, averaged over words; and precision per item.

    Parameters
    ----------
    Y_true, Y_pred : lists of words, or (n_items, n_words) zeros and ones, dense, sparse or a DataFrame
        The keywords that items have, and those they were given. Words (in lists, or as columns of a DataFrame) go by
        name, in any order; one that the other side lacks counts as never given, or as never right. Tables without
        names go by position.

    Returns
    -------
    dict
        ``precision``: of the items given a word, the share that has it, in the
        mean over all words (all columns, or those that occur in lists); a
        word never given counts 0. ``recall``: of
        the items that have a word, the share given it, in the mean over words
        that some item has. ``f1``: the harmonic mean of these two.
        ``words_found``: words that were right at least once (N+).
        ``precision_per_item``: the share of right words among those given, in
        the mean over items.

    Three items, three words:

    >>> measures = keyword_measures([[1, 0, 0], [1, 0, 1], [0, 1, 0]], [[1, 1, 0], [1, 0, 1], [1, 1, 0]])
    >>> {name: round(value, 4) for name, value in measures.items()}
    {'precision': 0.7222, 'recall': 1.0, 'f1': 0.8387, 'words_found': 3, 'precision_per_item': 0.6667}
    >>> keyword_measures([["sky"], ["sun"]], [["sky"], ["moon"]])["recall"]
    0.5
    """
    true, predicted = _alike(Y_true, Y_pred)
    right = true.multiply(predicted)
    n_right, n_predicted, n_true = (np.asarray(part.sum(axis=0)).ravel() for part in (right, predicted, true))
    precision = float(np.mean(n_right / np.maximum(n_predicted, 1))) if len(n_predicted) else 0.0
    some_have = n_true > 0
    recall = float(np.mean(n_right[some_have] / n_true[some_have])) if some_have.any() else 0.0
    given = np.asarray(predicted.sum(axis=1)).ravel()
    per_item = np.asarray(right.sum(axis=1)).ravel() / np.maximum(given, 1)
    return {
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / (precision + recall) if precision + recall else 0.0,
        "words_found": int((n_right > 0).sum()),
        "precision_per_item": float(per_item.mean()),
    }


def mean_average_precision(Y_true: Any, scores: Any) -> float:
    """Mean average precision: of the ranking of items by a word's score, averaged over words.

    A word's average precision is the mean of the precision at the rank of each item that has it. Items of equal score
    share the last of their ranks. Words that no item has are left out.

    Parameters
    ----------
    Y_true : lists of words, or (n_items, n_words) zeros and ones, dense, sparse or a DataFrame
    scores : (n_items, n_words)
        Higher for more likely words. If ``Y_true`` has words, a DataFrame with those words as columns, in any
        order; otherwise an array with the columns of ``Y_true``.

    >>> mean_average_precision([[1], [0], [1]], [[0.9], [0.8], [0.7]])     # (1/1 + 2/3) / 2
    0.8333333333333333
    """
    truth = Keywords.of(Y_true)
    true, scores = truth.matrix.toarray() > 0, _scores_of(truth, scores)
    words = np.flatnonzero(true.any(axis=0))
    return float(np.mean([_average_precision(true[:, word], scores[:, word]) for word in words])) if len(words) else 0.0


def _scores_of(truth: Keywords, scores: Any) -> np.ndarray:
    """The scores as an array with the columns of the true keywords."""
    try:
        values = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"scores must be numbers (items × words); got something else ({error}).") from error
    if values.ndim != 2 or len(values) != len(truth):
        raise InputError(f"scores must have the shape of Y_true, {truth.matrix.shape}; got {values.shape}.")
    if np.isnan(values).any():
        item, word = np.argwhere(np.isnan(values))[0]
        raise InputError(f"scores hold NaN at row {item}, column {word}: it cannot be put in order.")
    words, named = column_words(scores, values.shape[1])
    check_both_named(truth.words, truth.named, words, named)
    if not named:
        if values.shape != truth.matrix.shape:
            raise InputError(f"scores must have the shape of Y_true, {truth.matrix.shape}; got {values.shape}.")
        return values
    place = {word: column for column, word in enumerate(words.tolist())}
    missing = [word for word in truth.words.tolist() if word not in place]
    if missing:
        raise InputError(f"scores have no column for {len(missing)} of the words, such as {missing[0]!r}.")
    return values[:, [place[word] for word in truth.words.tolist()]]


def _average_precision(has: np.ndarray, score: np.ndarray) -> float:
    order = np.argsort(-score, kind="stable")
    n_right = np.cumsum(has[order])
    # Items of equal score share the last of their ranks.
    last = np.searchsorted(-score[order], -score[order], side="right") - 1
    return float((n_right[last] / (last + 1))[has[order]].mean())


def _alike(Y_true: Any, Y_pred: Any) -> tuple[csr_array, csr_array]:
    true, predicted = Keywords.of(Y_true), Keywords.of(Y_pred)
    if len(true) != len(predicted):
        raise InputError(
            f"Every item needs both the keywords it has and those it was given; got {len(true)} and {len(predicted)}."
        )
    if not len(true):
        raise InputError("No items given: there is nothing to measure.")
    return aligned(true, predicted)
