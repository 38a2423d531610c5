"""The base class of distances: checking rows, measuring pairs, and the Euclidean form for fast search.

A distance compares items of any kind. Most compare vectors, and of those many have a *Euclidean form*: a map of the
rows after which the order by this distance is the order by Euclidean distance (cosine: rows scaled to length one).
Searching can then use matrix products to rule rows out, and the rows that remain are measured by the distance itself,
in float64, one pair at a time, always in the same order of operations. So a distance never depends on how many rows
were measured together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from nearsay.core.arrays import as_rows, row_blocks, row_width
from nearsay.errors import InputError


class Distance(ABC):
    """Base class of distances between two items."""

    name: str
    has_euclidean_form: bool = False
    # The distance of two rows is form_share · t, or its root, where t is their squared Euclidean distance in that form.
    form_share: ClassVar[float] = 1.0
    form_squared: ClassVar[bool] = False
    # Whether b is as far from a as a from b, to the last bit. Collections take such distances only.
    symmetric: ClassVar[bool] = False
    # Whether chosen pairs take no longer to measure, each, than all pairs of a block do.
    pairs_are_quick: ClassVar[bool] = False

    def check(self, items: Any, *, name: str = "X", like: Any = None) -> Any:
        """The items as this distance needs them; an error says what is wrong.

        ``like`` holds items already accepted; the new ones must fit them (same number of columns).
        """
        return as_rows(items, name=name, width=None if like is None else like.shape[1])

    def check_added(self, items: Any, like: Any) -> Any:
        """The same for items to be added to those already accepted."""
        return self.check(items, like=like)

    @abstractmethod
    def block(self, Q: Any, X: Any, first: int = 0) -> np.ndarray:
        """Measure every item of ``Q`` against every item of ``X``: (len(Q), len(X)) float64.

        ``first`` is the row number of ``X[0]`` in the collection; only a precomputed matrix needs it.
        """

    def uncompiled_ns(self, n_columns: int) -> float:
        """Nanoseconds per pair in numpy or Python, to decide whether compiling pays off."""
        return 0.0

    def measure(self, Q: Any, X: Any, candidates: np.ndarray, first: int, out: np.ndarray) -> None:
        """Measure query i against rows ``candidates[i]``; write only where the row lies in ``X``.

        Row numbers count from ``first``, the number of ``X[0]``. Numbers outside ``X`` (−1 too) leave ``out`` as it is.
        """
        for i, rows in enumerate(candidates):
            inside = np.flatnonzero((rows >= first) & (rows < first + len(X)))
            for part in row_blocks(len(inside), row_bytes=8 * row_width(X)):
                here = inside[part]
                numbers = rows[here] - first
                chosen = X[numbers] if isinstance(X, np.ndarray) else [X[number] for number in numbers]
                out[i, here] = self.block(Q[i : i + 1], chosen, first)[0]

    def pairwise(self, Q: Any, X: Any | None = None) -> np.ndarray:
        """Distances of every item of ``Q`` to every item of ``X`` (to ``Q`` itself by default)."""
        Q = self.check(Q, name="Q")
        X = Q if X is None else self.check(X, like=Q)
        return self.block(Q, X)

    def paired(self, A: Any, B: Any) -> np.ndarray:
        """Distance of ``A[i]`` to ``B[i]`` for every i."""
        A = self.check(A, name="A")
        B = self.check(B, name="B", like=A)
        if len(A) != len(B):
            raise InputError(f"Paired distances need as many items on both sides; got {len(A)} and {len(B)}.")
        out = np.empty((len(A), 1))
        self.measure(A, B, np.arange(len(A))[:, None], 0, out)
        return out[:, 0]

    def euclidean_form(self, X: np.ndarray) -> np.ndarray:
        """Rows whose Euclidean order is this distance's order (only where ``has_euclidean_form``)."""
        raise TypeError(f"{self.name} has no Euclidean form.")

    def form_rounding(self, largest_norm: float, n_columns: int) -> float:
        """Bound of the rounding error of the Euclidean form (a length), for rows up to this norm and so many columns.

        With f the Euclidean form and r this bound: the scores |f(x)|²/2 − f(q)·f(x) may differ by
        2r·(|f(q)| + |f(x)| + 2r), either way, from scores in the order of the *measured* distance.
        """
        return 0.0

    def parameters(self) -> dict[str, Any]:
        """What is needed besides the name to build this distance again, as plain JSON values and arrays."""
        return {}

    def _to_saved(self) -> dict[str, Any]:
        """The state to save, besides the class."""
        return self.parameters()

    @classmethod
    def _from_saved(cls, fields: dict[str, Any]) -> Distance:
        return cls(**fields)

    def __call__(self, a: Any, b: Any) -> float:
        """Distance between two single items."""
        return float(self.paired([a], [b])[0])

    def __repr__(self) -> str:
        given = ", ".join(
            f"{key}={value!r}" for key, value in self.parameters().items() if not isinstance(value, np.ndarray)
        )
        return f"<distance {self.name}{' ' + given if given else ''}>"
