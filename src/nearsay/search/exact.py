"""Exact search: a matrix product with all rows rules most of them out.

    Euclidean form? ── yes ──► screen: products in 8 bits or float32 ──► candidates
           │                     └─ too many rows within the rounding bound ──┐
           └── no ────────────────────────────────────────────────────────────┴──► scan: measure all rows in float64

``screening/bounds.py`` proves that the candidates hold the k nearest rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearsay.core.parallel import in_parallel, shares
from nearsay.distances.distance import Distance
from nearsay.errors import unknown_name
from nearsay.search.protocol import SearchWriterLock, Versioned
from nearsay.search.row_store import HeldRows
from nearsay.search.screening.candidate_tables import replace_lines
from nearsay.search.screening.prepared_rows import Geometry
from nearsay.search.screening.products import PRODUCTS
from nearsay.search.screening.rough_scores import RoughScores
from nearsay.search.screening.screen import LIMITS, Screen, ScreenLimits

QUERIES_AT_ONCE = 64
ROWS_AT_ONCE = 1024


class ExactSearch(Versioned):
    """Exact search, for any distance.

    ``products`` is the type of the matrix products that rule rows out: "float32", "int8", or "auto", the faster on this
    machine. It changes the time, never the answer. ``limits`` is for tests.

    >>> search = ExactSearch("manhattan").fit([[0.0], [2.0], [5.0]])
    >>> search.candidates(np.array([[4.0]]), k=1)
    array([[2]])
    """

    exact = True

    def __init__(
        self, metric: Any = "euclidean", *, products: str = "auto", limits: ScreenLimits | None = None
    ) -> None:
        self.metric = metric
        self.products = products
        self._limits = limits or LIMITS

    def fit_checked(self, items: Any, distance: Distance) -> ExactSearch:
        self._writing = SearchWriterLock()
        self.distance_ = distance
        self.rows_ = HeldRows(items)
        self._screen = None
        if self.products not in ("auto", *PRODUCTS):
            raise unknown_name("products", self.products, ["auto", *PRODUCTS])
        if self.distance_.has_euclidean_form:
            self._screen = Screen(Geometry(self.distance_, self.rows_), self.products, self._limits)
        return self

    def add(self, X: Any) -> np.ndarray:
        with self._next_version() as version:
            before = len(version.rows_)
            version.rows_ = version.rows_.appended(version.distance_.check_added(X, like=version.rows_.items))
            if version._screen is not None:
                version._screen = version._screen.with_rows(version.rows_)
        return np.arange(before, len(version.rows_))

    def remove(self, rows: Any) -> None:
        with self._next_version() as version:
            version.rows_, numbers = version.rows_.without(rows)
            if version._screen is not None:
                version._screen = version._screen.with_removals(version.rows_, numbers)

    def restore(self, rows: Any) -> None:
        """Restore removed rows, under their numbers."""
        with self._next_version() as version:
            version.rows_, numbers = version.rows_.restored(rows)
            if version._screen is not None:
                version._screen = version._screen.with_removals(version.rows_, numbers)

    @property
    def products_(self) -> str | None:
        """The kind of products in use; None until a search was large enough to measure which is faster.

        >>> search = ExactSearch(products="float32").fit([[0.0], [2.0]])
        >>> search.products_
        'float32'
        """
        return None if self._screen is None else self._screen.products

    def prepare(self, n_queries: int) -> None:
        """Prepare the rows for so many queries, on all threads, before each thread searches for some."""
        if self._screen is not None:
            self._screen.prepare(n_queries)

    def candidates(self, Q: Any, k: int) -> np.ndarray:
        if self._screen is None:
            return self._scan(Q, k)
        candidates, undecided = self._screen.candidates(Q, k)
        return replace_lines(candidates, undecided, self._scan(Q[undecided], k)) if len(undecided) else candidates

    def products_of_few(self, Q: Any) -> tuple[np.ndarray, ...] | None:
        """``Screen.products_of_few``; None without a Euclidean form."""
        return None if self._screen is None else self._screen.products_of_few(Q)

    def rough_scores(self, Q: Any) -> RoughScores | None:
        """Scores of all rows for a few checked queries; None where a distance has no Euclidean form."""
        return None if self._screen is None else self._screen.rough_scores(Q)

    def _scan(self, Q: Any, k: int) -> np.ndarray:
        """Measure every row: exactly the k nearest, ties by row number."""
        from nearsay.search.screening.shortlist_kernels import Shortlists, list_length

        removed = self.rows_.removed

        def scan(queries: slice) -> np.ndarray:
            few = Q[queries]
            lists = Shortlists(np.zeros(len(few)), k, list_length(k), np.float64)
            for first, block in self.rows_.blocks(self.rows_.block_size(ROWS_AT_ONCE)):
                distances = self.distance_.block(few, block, first)
                if removed is not None:
                    distances[:, removed[first : first + len(block)]] = np.inf
                lists.see(slice(None), distances, first)
            return lists.finish()

        parts = in_parallel(scan, shares(len(Q), most=self.rows_.block_size(QUERIES_AT_ONCE)))
        return np.concatenate([np.empty((0, k), np.int64), *parts])
