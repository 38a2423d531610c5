"""k-NN on MNIST with three distances, compared with the published errors.

Tangent and shape-context distance take microseconds and milliseconds a pair,
too long for 60,000 rows a query. They measure a shortlist instead: the rows
nearest by Euclidean distance. The table says how many those were.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.core.arrays import evenly
from nearsay.data.datasets import load_dataset
from nearsay.data.rows import LabeledRows
from nearsay.distances.distance import Distance
from nearsay.distances.named import as_distance
from nearsay.errors import InputError
from nearsay.neighbors.neighbor_search import nearest
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.votes import count_votes, neighbor_labels, winners
from nearsay.search.exact import ExactSearch
from nearsay.search.protocol import NeighborSearch
from nearsay.search.row_store import HeldRows

N_TRAIN, N_TEST, N_CANDIDATES = 60_000, 2_000, 300
# A pair of shapes takes hundreds of times as long as one of tangent planes.
N_SHAPE_TEST, N_SHAPE_CANDIDATES = 200, 30
KS = (1, 3)
DIGITS = 10

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Published:
    """An error in percent from the literature, and what it was measured on."""

    percent: float
    measured_on: str


PUBLISHED = {
    "euclidean": Published(3.1, "k-NN, L2, about"),
    "tangent": Published(1.1, "LeCun et al. 1998, images of 16×16"),
    "shape_context": Published(0.63, "Belongie et al. 2002, 3-NN, 20,000 prototypes"),
}


class Shortlist:
    """Proposes the ``n_candidates`` rows nearest by Euclidean distance, to be measured by another one.

    By Euclidean distance (3, 3) is nearer to 0 than (0, 5) is; by Manhattan distance, 6 against 5, it is not.

    >>> X = [[3.0, 3.0], [0.0, 5.0]]
    >>> [int(nearest(Shortlist("manhattan", n).fit(X), [[0.0, 0.0]], k=1).indices[0, 0]) for n in (1, 2)]
    [0, 1]
    """

    exact = False

    def __init__(self, distance: Any, n_candidates: int) -> None:
        self.distance = distance
        self.n_candidates = n_candidates

    def fit(self, X: Any) -> Shortlist:
        distance = as_distance(self.distance)
        return self.fit_checked(distance.check(X), distance)

    def fit_checked(self, items: Any, distance: Distance) -> Shortlist:
        self.distance_ = distance
        self._euclidean = ExactSearch("euclidean").fit(items)
        return self

    @property
    def rows_(self) -> HeldRows:
        return self._euclidean.rows_

    def snapshot(self) -> Shortlist:
        twin = copy.copy(self)
        twin._euclidean = self._euclidean.snapshot()
        return twin

    def candidates(self, Q: Any, k: int) -> np.ndarray:
        length = min(max(k, self.n_candidates), self.rows_.n_live)
        return nearest(self._euclidean, Q, length).indices

    def add(self, X: Any) -> np.ndarray:
        return self._euclidean.add(X)

    def remove(self, rows: Any) -> None:
        self._euclidean.remove(rows)


def run(
    *,
    n_train: int = N_TRAIN,
    n_test: int = N_TEST,
    n_candidates: int | None = N_CANDIDATES,
    n_shape_test: int = N_SHAPE_TEST,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Error of 1-NN and 3-NN on MNIST by Euclidean, tangent and shape-context distance, as one plain dict.

    Parameters
    ----------
    n_train, n_test : int
        Rows and queries used: the first training images, and test images in even steps
        (the first half of the test set is easier than the second). All 10,000 are asked
        for by ``n_test=10_000``.
    n_candidates : int or None
        Rows of the Euclidean shortlist that tangent distance measures; None
        measures every row (at 60,000, most of a second a query).
    n_shape_test : int
        Queries for the shape-context distance, on a shortlist of 30; 0 leaves it out.
    progress : function of a str
        Told what is being measured.

    Returns
    -------
    dict with "title" and "rows", each row with "method", "k", "n_train", "n_test", "error_percent",
    "published_percent", "published_as" and "note".
    """
    train, test = load_dataset("mnist", split="train"), load_dataset("mnist", split="test")
    _check_sizes(n_train, len(train), "n_train", "training", least=max(KS))
    _check_sizes(n_test, len(test), "n_test", "test")
    _check_sizes(n_shape_test, len(test), "n_shape_test", "test", least=0)
    X, y = _images_and_digits(train, np.arange(n_train))
    methods: list[tuple[str, int | None, int]] = [("euclidean", None, n_test), ("tangent", n_candidates, n_test)]
    if n_shape_test:
        methods.append(("shape_context", N_SHAPE_CANDIDATES, n_shape_test))
    rows = []
    for method, shortlist, n_queries in methods:
        if progress is not None:
            progress(f"Measuring {n_queries:,} test images by {method.replace('_', '-')} distance")
        search = search_for(method, shortlist, len(X)).fit(X)
        Q, truth = _images_and_digits(test, evenly(len(test), n_queries))
        table = nearest(search, Q, max(KS))
        note = _note(shortlist, len(X), n_queries, len(test))
        rows += [_row(method, k, len(X), n_queries, error_percent(table.first(k), y, truth), note) for k in KS]
    return {"title": "k-NN on MNIST: error in percent, ours beside the published ones", "rows": rows}


def search_for(method: str, n_candidates: int | None, n_train: int) -> NeighborSearch:
    """The search for one line of the table: every row, or a shortlist where that is shorter."""
    if n_candidates is None or n_candidates >= n_train:
        return ExactSearch(method)
    return Shortlist(method, n_candidates)


def error_percent(table: NeighborTable, labels: np.ndarray, truth: np.ndarray) -> float:
    """How many of 100 queries the vote of these neighbors names wrongly; ties go to the nearest.

    >>> table = NeighborTable(np.array([[0, 1, 2], [2, 1, 0]]), np.array([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]]))
    >>> error_percent(table, labels=np.array([3, 3, 7]), truth=np.array([3, 7]))
    50.0
    >>> error_percent(table.first(1), labels=np.array([3, 3, 7]), truth=np.array([3, 7]))
    0.0
    """
    votes = count_votes(neighbor_labels(table, labels), DIGITS)
    return float(100 * np.mean(winners(votes, table, labels) != truth))


def _images_and_digits(rows: LabeledRows, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    # float32 holds every gray value exactly, and is what the Euclidean screen works in.
    return rows.X[chosen].astype(np.float32), np.asarray(rows.y)[chosen]


def _row(method: str, k: int, n_train: int, n_test: int, error: float, note: str) -> dict[str, Any]:
    published = PUBLISHED[method]
    return {
        "method": method,
        "k": k,
        "n_train": n_train,
        "n_test": n_test,
        "error_percent": error,
        "published_percent": published.percent,
        "published_as": published.measured_on,
        "note": note,
    }


def _note(n_candidates: int | None, n_train: int, n_queries: int, n_test: int) -> str:
    measured = "every row measured"
    if n_candidates is not None and n_candidates < n_train:
        measured = f"the {n_candidates} rows nearest by L2 measured"
    if n_queries == n_test:
        return measured
    return f"{measured}; {n_queries:,} of {n_test:,} test images, so one is {100 / n_queries:.2g} %"


def _check_sizes(size: Any, available: int, name: str, kind: str, least: int = 1) -> None:
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or not least <= size <= available:
        raise InputError(f"{name} is how many {kind} images are used, from {least} to {available}; got {size!r}.")
