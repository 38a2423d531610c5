"""Answers about rows that were held out, and the folds that hold them out."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from nearsay.data.rows import LabeledRows
from nearsay.posterior.choice.choices import CandidateScore

# The rows to learn from, and those to ask about.
Fold = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Answers:
    """What was said about all held-out rows, fold after fold.

    ``probabilities`` is (n, n_classes), ``truth`` (n,) column numbers, ``chosen`` what each fold chose, if it did.
    """

    probabilities: np.ndarray
    truth: np.ndarray
    chosen: list[CandidateScore]


def ask(rows: LabeledRows, folds: Sequence[Fold], classifier: Any) -> Answers:
    """Fit a copy of the classifier to the first part of every fold, and ask it about the second.

    >>> rows = LabeledRows([[0.0], [1.0], [8.0], [9.0]], ["low", "low", "high", "high"])
    >>> halves = [(np.array([0, 2]), np.array([1, 3])), (np.array([1, 3]), np.array([0, 2]))]
    >>> from nearsay.posterior.classifier import NeighborClassifier
    >>> ask(rows, halves, NeighborClassifier(1)).truth        # high is 0, low 1
    array([1, 0, 1, 0])
    """
    y = np.asarray(rows.y)
    classes = np.array(rows.label_names)
    p, truth = [], []
    chosen: list[CandidateScore] = []
    for train, test in folds:
        fitted = clone(classifier)
        with warnings.catch_warnings():
            # scikit-learn takes many classes of few rows for numbers to be predicted; these are species.
            warnings.filterwarnings("ignore", "The number of unique classes")
            fitted.fit(rows.X[train], y[train])
        of_fold = np.zeros((len(test), len(classes)))
        of_fold[:, np.searchsorted(classes, fitted.classes_)] = fitted.predict_proba(rows.X[test])
        p.append(of_fold)
        truth.append(np.searchsorted(classes, y[test]))
        if hasattr(fitted, "choices_"):
            chosen.append(fitted.choices_.chosen)
    return Answers(np.concatenate(p), np.concatenate(truth), chosen)


def chosen_ways(chosen: Sequence[CandidateScore]) -> list[dict[str, Any]]:
    """What was chosen, and in how many folds; the most frequent first.

    >>> way = CandidateScore("rank", None, ("cosine",), ("all",), log_posterior=-0.2, accuracy=0.91)
    >>> chosen_ways([way, way])
    [{'posterior': 'rank', 'k': None, 'distances': ['cosine'], 'groups': ['all'], 'folds': 2}]
    """
    ways = Counter((one.posterior, one.n_neighbors, tuple(sorted(one.distances)), one.groups) for one in chosen)
    return [
        {"posterior": posterior, "k": k, "distances": list(distances), "groups": list(groups), "folds": folds}
        for (posterior, k, distances, groups), folds in ways.most_common()
    ]


def stratified_folds(rows: LabeledRows, *, n_folds: int, repeats: int) -> Iterator[Fold]:
    """Random folds with their share of every class, ``repeats`` times over, seeds from 0.

    The rows to learn from are shuffled too: equal distances go by row number, and in a file that is sorted by class,
    with as many equal measures as Iris has, the first class would win them all.
    """
    from sklearn.model_selection import StratifiedKFold

    for seed in range(repeats):
        shuffle = np.random.default_rng(seed).permutation
        for train, test in StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(rows.X, rows.y):
            yield shuffle(train), test


def leave_one_specimen_out(rows: LabeledRows, n_train: int | None = None) -> Iterator[Fold]:
    """A fold for every position within a class: that row of each class is asked about, the others teach.

    With ``n_train`` only that many rows of each class teach: those that follow, in a circle.

    >>> rows = LabeledRows(np.zeros((6, 1)), list("aaabbb"))
    >>> [train.tolist() for train, _ in leave_one_specimen_out(rows, n_train=1)]
    [[1, 4], [2, 5], [0, 3]]
    """
    position = positions_within_class(np.asarray(rows.y))
    n = int(position.max()) + 1
    for held_out in range(n):
        after = (position - held_out - 1) % n
        teaches = (position != held_out) & (after < (n if n_train is None else n_train))
        yield np.flatnonzero(teaches), np.flatnonzero(position == held_out)


def positions_within_class(y: np.ndarray) -> np.ndarray:
    """How many rows of the same class come before each row.

    >>> positions_within_class(np.array(["b", "a", "b", "b", "a"]))
    array([0, 0, 1, 2, 1])
    """
    n_before: Counter[Any] = Counter()
    position = np.empty(len(y), np.int64)
    for row, label in enumerate(y.tolist()):
        position[row] = n_before[label]
        n_before[label] += 1
    return position
