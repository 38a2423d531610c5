"""Range of the Bayes error, from the error of the nearest neighbor (Cover & Hart 1967)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from nearsay.core.arrays import as_labels
from nearsay.distances.named import Metric
from nearsay.errors import InputError
from nearsay.neighbors.index import NeighborIndex
from nearsay.posterior.past_cases import left_out_blocks


class BayesErrorRange(NamedTuple):
    """Estimated range of the error of the best possible classifier."""

    low: float
    high: float


def bayes_error_range(X: Any, y: Any, *, metric: Metric = "euclidean") -> BayesErrorRange:
    """Estimate the range of the Bayes error R*, the error that no classifier on these features can beat.

    With C classes and enough rows, the error e of the nearest neighbor lies between R* and R*·(2 − C/(C−1)·R*). Turned
    around: (C−1)/C · (1 − √(1 − C/(C−1)·e)) ≤ R* ≤ e, with e the leave-one-out error of the one nearest neighbor.

    It assumes that rows are independent draws from the distribution of future queries, and that there are enough of
    them that a row's nearest neighbor is like the row itself; in many dimensions that takes very many rows, and with
    too few both ends are too high. Near-duplicates in the data (frames of one video, augmented images) make both far
    too low. The range is that of these features and this distance, without the standard error of e, which is about
    √(e(1−e)/n) with n rows.

    An error above chance, (C−1)/C, counts as chance. One class alone gives (0, 0).

    Parameters
    ----------
    X : rows, or other items that ``metric`` compares; at least 2.
    y : (n_rows,) labels.

    >>> bayes_error_range([[0.0], [1.0], [5.0], [6.0], [6.5]], ["a", "a", "b", "b", "a"])
    BayesErrorRange(low=0.276..., high=0.4)
    """
    names, labels = np.unique(as_labels(y), return_inverse=True)
    index = NeighborIndex(metric).fit(X)
    n_rows = index.search_.rows_.n_live
    if labels.ndim != 1 or len(labels) != n_rows:
        raise InputError(f"One label a row is expected: X has {n_rows} rows, y has the shape {labels.shape}.")
    if n_rows < 2:
        raise InputError("The nearest other row is needed, but X has 1 row. Pass at least 2.")
    blocks = left_out_blocks(index.with_labels(labels), 1)
    wrong = sum(int(np.sum(labels[table.indices[:, 0]] != labels[rows])) for rows, table in blocks)
    return _range(wrong / n_rows, len(names))


def _range(error: float, n_classes: int) -> BayesErrorRange:
    if n_classes == 1:
        return BayesErrorRange(0.0, 0.0)
    chance = (n_classes - 1) / n_classes
    error = min(error, chance)
    return BayesErrorRange(chance * (1 - math.sqrt(1 - error / chance)), error)
