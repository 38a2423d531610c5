"""Small labeled collections full of ties and duplicates, and what the loops say about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from nearsay.distances.vectors import Euclidean
from nearsay.neighbors.by_class.labeled import LabeledNeighbors
from nearsay.neighbors.table import NeighborTable
from tests.reference import neighbors as reference

# Smoothing and its model failure; tie rules whose winner a loop can name.
SMOOTHED = st.sampled_from([("model_failure", 0.01), ("model_failure", 0.0), ("model_failure", 0.5), ("add-one", 0.01)])
RULES_WITHOUT_CHANCE = st.sampled_from(["nearest", "first"])


@st.composite
def labeled_rows(draw: st.DrawFn, smallest: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Few rows of few small whole numbers: ties and duplicates everywhere. Every class has a row."""
    n = draw(st.integers(smallest, 14))
    columns = draw(st.integers(1, 2))
    X = draw(st.lists(st.lists(st.integers(0, 3), min_size=columns, max_size=columns), min_size=n, max_size=n))
    y = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    return np.array(X, float), np.unique(y, return_inverse=True)[1]


def said_by_loop(X: np.ndarray, y: np.ndarray, Q: np.ndarray, k: int) -> list[list[int]]:
    indices, _ = reference.nearest(X, Q, k, reference.euclidean)
    return [[int(y[row]) for row in rows] for rows in indices]


def queries_for(X: np.ndarray) -> np.ndarray:
    return np.vstack([X, X + 0.5, X[::-1] * 2])


def letters_apart(a: str, b: str) -> float:
    """How many letters differ: a distance of things that are not vectors."""
    return sum(x != y for x, y in zip(a.ljust(8), b.ljust(8), strict=True))


class Counting(Euclidean):
    """Euclidean distance that counts the pairs of a query and a candidate that it measures."""

    n_measured = 0

    def measure(self, Q: Any, X: Any, candidates: np.ndarray, first: int, out: np.ndarray) -> None:
        self.n_measured += np.count_nonzero(candidates >= 0)
        super().measure(Q, X, candidates, first, out)


def count_searches(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often, from now on, a labeled search is asked for neighbors, by the name of the method."""
    counts: dict[str, int] = {}

    def counted(method: str, original: Callable[..., NeighborTable]) -> Callable[..., NeighborTable]:
        def call(self: LabeledNeighbors, *args: Any, **options: Any) -> NeighborTable:
            counts[method] = counts.get(method, 0) + 1
            return original(self, *args, **options)

        return call

    for method in ("query", "leave_one_out"):
        monkeypatch.setattr(LabeledNeighbors, method, counted(method, getattr(LabeledNeighbors, method)))
    return counts
