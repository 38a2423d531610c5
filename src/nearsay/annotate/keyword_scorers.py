"""Who speaks for keywords: neighbors of some kind with a relevance, or anything else that scores words.

finder  (fit, neighbors)  ──► neighbor table ──► one relevance or several ──► scores (items × words), each
scorer  (fit, scores)     ──────────────────────────────────────────────────► scores (items × words)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import clone

from nearsay.annotate.joint_neighbors import JointNeighbors
from nearsay.annotate.relevance import RELEVANCES, Relevance
from nearsay.annotate.transfer import transfer_scores
from nearsay.arrays import check_n_neighbors
from nearsay.errors import InputError, unknown_name
from nearsay.neighbors.table import NeighborTable

# Makadia's transfer orders words and is no weighted vote, so it is not among the relevances.
TRANSFER = "transfer"

Score = Callable[[NeighborTable, csr_array], np.ndarray]


def as_score(relevance: Any) -> Score:
    """How a relevance, by name or as an object, turns neighbors into scores.

    >>> as_score("transfer").__name__
    'transfer_scores'
    """
    if isinstance(relevance, Relevance):
        return relevance.scores
    if isinstance(relevance, str) and relevance == TRANSFER:
        return transfer_scores
    if isinstance(relevance, str) and relevance in RELEVANCES:
        return Relevance(relevance).scores
    raise unknown_name("relevance", relevance, [*RELEVANCES, TRANSFER])


@dataclass(frozen=True, eq=False)
class Witness:
    """An estimator that scores keywords; unfitted as a user names it, fitted after ``fit``.

    Attributes
    ----------
    estimator : with ``fit(X, Y)`` and either ``neighbors(X, k)`` or ``scores(X)``
    relevances : how the neighbors of a finder become scores; empty for a scorer
    n_neighbors : of a finder
    """

    estimator: Any
    relevances: tuple[Score, ...] = ()
    n_neighbors: int = 0

    @property
    def finds(self) -> bool:
        """Whether it has neighbors to show."""
        return bool(self.relevances)

    @property
    def n_scores(self) -> int:
        """How many arrays of scores it gives."""
        return len(self.relevances) if self.finds else 1

    @property
    def leaves_out(self) -> bool:
        """Whether it can score the rows it was fitted on, each without itself, as if it were new.

        Who learns from keywords has learned from those of the row left out; unless it says that it does not
        (``learns_from_keywords = False``), an estimator is taken to.
        """
        blind = not getattr(self.estimator, "learns_from_keywords", True)
        return self.finds and blind and hasattr(self.estimator, "leave_one_out")

    def fit(self, X: np.ndarray, keywords: csr_array) -> Witness:
        """The same, fitted on these rows and their keywords; itself it is not changed."""
        k = min(self.n_neighbors, len(X)) if self.finds else 0
        return Witness(clone(self.estimator).fit(X, keywords), self.relevances, k)

    def table(self, X: np.ndarray) -> NeighborTable:
        """The neighbors of every query, of a fitted finder."""
        found: NeighborTable = self.estimator.neighbors(X, self.n_neighbors)
        return found

    def scores(self, X: np.ndarray, keywords: csr_array) -> list[np.ndarray]:
        """One (n_queries, n_words) array for every relevance, or of a scorer the one it gives."""
        if not self.finds:
            return [np.asarray(self.estimator.scores(X), dtype=np.float64)]
        return self.said(self.table(X), keywords)

    def left_out_scores(self, rows: np.ndarray, keywords: csr_array) -> list[np.ndarray]:
        """The same for the rows of these numbers, each left out of its own neighbors."""
        k = check_n_neighbors(min(self.n_neighbors, keywords.shape[0] - 1), keywords.shape[0], left_out=1)
        return self.said(self.estimator.leave_one_out(k, rows=rows), keywords)

    def said(self, table: NeighborTable, keywords: csr_array) -> list[np.ndarray]:
        """What every relevance makes of these neighbors."""
        return [score(table, keywords) for score in self.relevances]


def as_witnesses(neighbors: Any, relevance: Any, n_neighbors: int) -> list[Witness]:
    """Read who speaks.

    Parameters
    ----------
    neighbors : None, an estimator, or several of them in a list or dict
        An estimator may come with a relevance of its own, (estimator, relevance), or with several of them,
        (estimator, [relevance, …]). None is ``JointNeighbors()``.
    relevance : of finders that come without one.
    n_neighbors : of every finder.

    >>> len(as_witnesses([JointNeighbors(), (JointNeighbors(), ["prior", "rank"])], "count", 5)[1].relevances)
    2
    """
    return [_as_witness(one, relevance, n_neighbors) for one in _each(neighbors)]


def _each(neighbors: Any) -> Iterator[Any]:
    if neighbors is None:
        yield JointNeighbors()
    elif isinstance(neighbors, Mapping):
        yield from neighbors.values()
    elif isinstance(neighbors, list):
        yield from neighbors
    else:
        yield neighbors


def _as_witness(given: Any, relevance: Any, n_neighbors: int) -> Witness:
    estimator, relevance = given if isinstance(given, tuple) and len(given) == 2 else (given, relevance)
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise InputError(
            "Who speaks for keywords has fit(X, Y) and either neighbors(X, k), such as JointNeighbors(), or scores(X);"
            f" got {estimator!r}."
        )
    if hasattr(estimator, "scores"):
        return Witness(estimator)
    if not hasattr(estimator, "neighbors"):
        raise InputError(f"{estimator!r} has neither neighbors(X, k) nor scores(X): it cannot speak for keywords.")
    several = relevance if isinstance(relevance, Sequence) and not isinstance(relevance, str) else [relevance]
    if not several:
        raise InputError(f"{estimator!r} came with no relevance: its neighbors would say nothing.")
    return Witness(estimator, tuple(as_score(one) for one in several), n_neighbors)
