"""A distance times a factor."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearsay.distances.distance import Distance


class ScaledDistance(Distance):
    """``factor`` times another distance: the same neighbors, except for ties by rounding.

    Searches support it like the other one: their error bounds cover one more multiplication many times over.

    >>> from nearsay.distances.named import as_distance
    >>> ScaledDistance(as_distance("euclidean"), 0.1)([0.0, 0.0], [3.0, 4.0])
    0.5
    """

    def __init__(self, distance: Distance, factor: float) -> None:
        self.distance = distance
        self.factor = factor
        self.name = distance.name
        self.has_euclidean_form = distance.has_euclidean_form

    def check(self, items: Any, *, name: str = "X", like: Any = None) -> Any:
        return self.distance.check(items, name=name, like=like)

    def check_added(self, items: Any, like: Any) -> Any:
        return self.distance.check_added(items, like)

    def block(self, Q: Any, X: Any, first: int = 0) -> np.ndarray:
        return np.asarray(self.factor * self.distance.block(Q, X, first))

    def measure(self, Q: Any, X: Any, candidates: np.ndarray, first: int, out: np.ndarray) -> None:
        here = (candidates >= first) & (candidates < first + len(X))
        measured = np.zeros(out.shape)
        self.distance.measure(Q, X, candidates, first, measured)
        np.multiply(measured, self.factor, out=out, where=here)

    def euclidean_form(self, X: np.ndarray) -> np.ndarray:
        return self.distance.euclidean_form(X)

    def form_rounding(self, largest_norm: float, n_columns: int) -> float:
        return self.distance.form_rounding(largest_norm, n_columns)

    def parameters(self) -> dict[str, Any]:
        return self.distance.parameters()

    def _to_saved(self) -> dict[str, Any]:
        return {"distance": self.distance, "factor": self.factor}
