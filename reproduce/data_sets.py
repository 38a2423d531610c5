"""Data sets for comparisons, and how each is split."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.data.datasets import load_dataset
from nearsay.data.rows import LabeledRows

MNIST_ROWS = 5000
HELD_OUT = 0.3
# Of every class, where the rows to learn from are cut: peers choose by three folds.
FEWEST_A_CLASS = 3

# The name here: the name for ``load_dataset``, and its options.
DATA_SETS: dict[str, tuple[str, dict[str, Any]]] = {
    "vehicle": ("vehicle", {}),
    "vowel": ("vowel", {}),
    "segment": ("segment", {}),
    "satimage": ("satimage", {}),
    "yeast": ("yeast", {}),
    "glass": ("glass", {}),
    "wine": ("wine", {}),
    "breast-cancer": ("breast_cancer", {}),
    "digits": ("digits", {}),
    "leaves": ("leaves", {}),
    "wheat": ("seeds", {}),
    "mnist": ("mnist", {"n": MNIST_ROWS}),
    "tin200": ("tin200", {}),
}
# These take long, so they are measured only where they are named.
ONLY_WHERE_NAMED = ("tin200",)


@dataclass(frozen=True)
class Split:
    """Rows to learn from, ``X`` labeled ``y``, and rows to ask about, ``Q`` with their true labels."""

    X: np.ndarray
    y: np.ndarray
    Q: np.ndarray
    truth: np.ndarray


def read(name: str) -> LabeledRows:
    """All rows of a data set that lack nothing, feature groups side by side as columns."""
    loaded, options = DATA_SETS[name]
    rows = load_dataset(loaded, **options)
    return rows.take(~rows.missing())


def splits(rows: LabeledRows, n_splits: int, *, raw: bool = False, most_rows: int | None = None) -> Iterator[Split]:
    """Random splits with 30 % of every class held out, seeds from 0; columns standardized by the rows to learn from.

    Labels are class numbers. At most ``most_rows`` teach: ``FEWEST_A_CLASS`` of every class, and others at random.
    """
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    X = np.asarray(rows.X, np.float64)
    _, y = np.unique(np.asarray(rows.y), return_inverse=True)
    for seed in range(n_splits):
        train, test = train_test_split(np.arange(len(X)), test_size=HELD_OUT, stratify=y, random_state=seed)
        if most_rows is not None:
            train = _cut(train, y, most_rows, np.random.default_rng(seed))
        scaled = X if raw else StandardScaler().fit(X[train]).transform(X)
        yield Split(scaled[train], y[train], scaled[test], y[test])


def too_many_classes(rows: LabeledRows, most_rows: int | None) -> bool:
    """Whether so few rows cannot hold ``FEWEST_A_CLASS`` of every class."""
    return most_rows is not None and most_rows < FEWEST_A_CLASS * len(np.unique(np.asarray(rows.y)))


def _cut(rows: np.ndarray, y: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """At most so many of the rows, as they are ordered: in a random order the first few of every class, then any."""
    drawn = rng.permutation(rows)
    by_class = np.argsort(y[drawn], kind="stable")
    sizes = np.bincount(y[drawn])
    place = np.empty(len(drawn), np.intp)
    place[by_class] = np.arange(len(drawn)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    taken = drawn[np.argsort(place >= FEWEST_A_CLASS, kind="stable")[:most]]
    return rows[np.isin(rows, taken)]
