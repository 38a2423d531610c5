"""Distances between histograms: rows without negative numbers."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from nearsay.distances.vectors import VectorDistance, first_row_where, sums_in_order
from nearsay.errors import InputError


class HistogramDistance(VectorDistance):
    """Base of distances between rows without negative numbers."""

    # Whether rows are divided by their sums, so that a row of zeros is refused.
    needs_total: ClassVar[bool] = False

    def check(self, items: Any, *, name: str = "X", like: Any = None) -> Any:
        rows = super().check(items, name=name, like=like)
        if rows.dtype.kind in "fi":
            row = first_row_where(lambda some: (some < 0).any(axis=1), rows)
            if row is not None:
                raise InputError(
                    f"{name} row {row} has a negative entry ({rows[row].min()}); {self.name} compares histograms,"
                    " which hold amounts. Use a vector distance (euclidean, manhattan, …), or shift the values."
                )
        if self.needs_total:
            row = first_row_where(lambda some: ~some.any(axis=1), rows)
            if row is not None:
                raise InputError(
                    f"{name} row {row} is an empty histogram (all zeros), and {self.name} compares shares of the total."
                    " Drop such rows, or use chi2, hellinger or manhattan."
                )
        return rows


class ChiSquare(HistogramDistance):
    """½ Σ (a−b)² / (a+b), with 0/0 = 0: differences in small bins weigh more.

    >>> ChiSquare()([1.0, 0.0, 3.0], [3.0, 0.0, 1.0])  # (4/4 + 4/4) / 2
    1.0
    """

    name = "chi2"
    symmetric = True
    kernel = "chi2"


class Hellinger(HistogramDistance):
    """sqrt(½ Σ (√a−√b)²): euclidean between the roots; at most 1 if rows sum to 1.

    Rows are not normalized; divide them by their sums to compare shapes only.

    >>> Hellinger()([1.0, 0.0], [0.0, 1.0])
    1.0
    """

    name = "hellinger"
    symmetric = True
    kernel = "root_of_half_squares"
    has_euclidean_form = True
    form_share = 0.5
    measures_formed = True

    def form(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(np.sqrt(super().form(X)))

    def measure_formed(self, Q: np.ndarray, X: np.ndarray, candidates: np.ndarray, first: int, out: np.ndarray) -> None:
        from nearsay.distances import vector_kernels as kernels

        kernels.measure_euclidean(Q, X, candidates, first, False, 0.5, out)

    # Screening and measuring use the same roots, so `form_rounding` is 0.
    euclidean_form = form


class Intersection(HistogramDistance):
    """1 − Σ min(a, b) / max(Σa, Σb): the share of the larger histogram that the other does not have.

    >>> Intersection()([1.0, 0.0, 3.0], [3.0, 0.0, 1.0])  # 2 of 4 shared
    0.5
    """

    name = "intersection"
    symmetric = True
    kernel = "intersection"
    needs_total = True


class ShareDistance(HistogramDistance):
    """Base of distances between rows divided by their sums."""

    needs_total = True

    def form(self, X: np.ndarray) -> np.ndarray:
        rows = super().form(X)
        return np.asarray(rows / sums_in_order(rows)[:, None])


class JensenShannon(ShareDistance):
    """sqrt(½ Σ p log(p/m) + ½ Σ q log(q/m)) with m = (p+q)/2, where p and q are the rows divided by their sums.

    From 0 to sqrt(log 2); a metric.

    >>> round(JensenShannon()([1.0, 0.0], [0.0, 4.0]) ** 2, 6)  # log 2
    0.693147
    """

    name = "jensen_shannon"
    symmetric = True
    kernel = "jensen_shannon"


class KullbackLeibler(ShareDistance):
    """Σ p log(p/x), where p is the query and x the row (relative entropy).

    **Not symmetric**: the first item is the query. Both are divided by their sums and smoothed, p ← (p + smoothing) /
    (1 + smoothing · bins), so that a bin that is empty in the row only does not make it infinitely far away.

    Parameters
    ----------
    smoothing : float, default=1e-9
        Added to every bin, as a share of the total; from 1e-300 to 1.

    >>> round(KullbackLeibler()([1.0, 1.0], [3.0, 1.0]), 6)  # (log(2/3) + log 2) / 2
    0.143841
    """

    name = "kullback_leibler"
    kernel = "kullback_leibler"

    def __init__(self, smoothing: float = 1e-9) -> None:
        number = isinstance(smoothing, int | float | np.integer | np.floating) and not isinstance(smoothing, bool)
        if not number or not 1e-300 <= smoothing <= 1:
            raise InputError(
                f"kullback_leibler needs a smoothing from 1e-300 to 1; got {smoothing!r}."
                " Without it a single bin that is empty in the row alone makes it infinitely far away."
            )
        self.smoothing = float(smoothing)

    def form(self, X: np.ndarray) -> np.ndarray:
        shares = super().form(X)
        return np.asarray((shares + self.smoothing) / (1 + self.smoothing * shares.shape[1]))

    def parameters(self) -> dict[str, Any]:
        return {"smoothing": self.smoothing}
