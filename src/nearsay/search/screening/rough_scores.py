"""Scores of all rows for a few queries, in few digits, and how far they can be off.

    rows ──► product with the queries ──► scores |x|²/2 − q·x
                                          │ within the slack of a limit?
                                          └─► measured; every other row is certain to lie beyond

Who asks says what the limit is: the k-th lowest score, or how far a row's own neighbors reach.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearsay.search.screening.prepared_rows import View

ROWS_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class RoughScores:
    """Scores of all rows for a few queries: in the order of their distances, but for what lies within the slack.

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

    @classmethod
    def of(cls, view: View, Q: np.ndarray, n_rows: int, scale: float) -> RoughScores:
        """Multiply all rows, as a view gives them, with these queries."""
        exact, lengths = view.prepare(Q)
        several, errors = view.products.prepare(exact)
        slack = view.slack(lengths, errors, Q)
        scores = np.empty((len(Q), n_rows), exact.dtype)
        with view.products.on_one_thread():
            for first, rows, half_norms in view.blocks(ROWS_AT_ONCE):
                part = scores[:, first : first + len(rows)]
                if len(Q) == 1 or part.shape == scores.shape:
                    view.products.into(several, rows, part)
                else:
                    out = np.empty(part.shape, part.dtype)
                    view.products.into(several, rows, out)
                    part[:] = out
                np.subtract(half_norms, part, out=part)
        lengths = np.where(np.isfinite(lengths), lengths, 0.0)
        return cls(scores, slack, lengths * lengths, scale)
