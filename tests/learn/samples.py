"""Rows that metrics are learned from in the tests."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_wine

from nearsay.data.datasets import load_dataset
from nearsay.errors import DatasetNotFound


def wine() -> tuple[np.ndarray, np.ndarray]:
    """178 rows of 13 standardized columns, in three classes."""
    X, y = load_wine(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def stripes(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three classes that only the first column tells apart, in a column of little spread beside one of much."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 3, n)
    return np.column_stack([y + random.normal(0, 0.2, n), random.normal(0, 3, n)]), y


def leaves(group: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One feature group of the leaves, their species, and which three in four are learned from."""
    try:
        rows = load_dataset("leaves", groups=[group])
    except DatasetNotFound as missing:
        pytest.skip(str(missing))
    known = np.isfinite(rows.X).all(axis=1)
    X, y = np.asarray(rows.X[known], float), rows.y[known]
    return X, y, np.arange(len(X)) % 4 > 0
