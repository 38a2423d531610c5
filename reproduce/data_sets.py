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


def splits(rows: LabeledRows, n_splits: int, *, raw: bool = False) -> Iterator[Split]:
    """Random splits with 30 % of every class held out, seeds from 0; columns standardized by the rows to learn from.

    Labels are class numbers.
    """
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    X = np.asarray(rows.X, np.float64)
    _, y = np.unique(np.asarray(rows.y), return_inverse=True)
    for seed in range(n_splits):
        train, test = train_test_split(np.arange(len(X)), test_size=HELD_OUT, stratify=y, random_state=seed)
        scaled = X if raw else StandardScaler().fit(X[train]).transform(X)
        yield Split(scaled[train], y[train], scaled[test], y[test])
