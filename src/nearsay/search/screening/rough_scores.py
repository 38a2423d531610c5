"""Low-precision scores of all rows for a few queries, with error bounds.

    rows ──► product with the queries ──► scores |x|²/2 − q·x
                                          │ within the slack of a limit?
                                          └─► measured; every other row is certain to lie beyond

The caller sets the limit: the k-th lowest score, or how far a row's own neighbors reach.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearsay.search.screening.prepared_rows import RowsForProducts

ROWS_AT_ONCE = 1 << 18
# Measuring more rows than these would take longer than products of more digits.
MEASURED_UP_TO, SHARE_MEASURED = 256, 0.005


@dataclass(frozen=True)
class RoughScores:
    """Scores of all rows for a few queries: in the order of their distances, except within the slack.

    Attributes
    ----------
    scores : (n_queries, n_rows)
        (t − |q|²) / 2 with t the squared distance in Euclidean form; +inf where a row is removed.
    slack : (n_queries,)
        A row that is measured to be no farther than another, or than a known distance, has a score no higher than
        that one's by more than this; +inf where nothing is certain.
    squares : (n_queries,) |q|² of the queries as they were multiplied.
    scale : what lengths were multiplied by before that.
    """

    scores: np.ndarray
    slack: np.ndarray
    squares: np.ndarray
    scale: float

    @property
    def tell_apart(self) -> bool:
        """Whether few rows are within the slack of the nearest, so that few have to be measured."""
        limits = self.scores.min(axis=1, initial=np.inf) + self.slack
        within = np.count_nonzero(self.scores <= limits[:, None], axis=1)
        return bool((within <= MEASURED_UP_TO + self.scores.shape[1] * SHARE_MEASURED).all())

    @classmethod
    def of(cls, view: RowsForProducts, Q: np.ndarray, n_rows: int, scale: float) -> RoughScores:
        """Multiply all rows, as a view gives them, with these queries."""
        exact, lengths = view.prepare(Q)
        several, errors = view.products.prepare(exact)
        slack = view.slack(lengths, errors, Q)
        scores = np.empty((len(Q), n_rows), exact.dtype)
        for first, rows, half_norms in view.blocks(ROWS_AT_ONCE):
            out = scores[:, first : first + len(rows)]
            if not out.flags.c_contiguous:
                out = np.empty(out.shape, out.dtype)
            view.products.into(several, rows, out)
            np.subtract(half_norms, out, out=scores[:, first : first + len(rows)])
        lengths = np.where(np.isfinite(lengths), lengths, 0.0)
        return cls(scores, slack, lengths * lengths, scale)
