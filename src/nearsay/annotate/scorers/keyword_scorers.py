"""Estimators that score keywords: by their neighbors and one or several relevances, or directly.

fit, neighbors  ──► neighbor table ──► one relevance or several ──► scores (items × words), each
fit, scores     ──────────────────────────────────────────────────► scores (items × words)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from nearsay.annotate.scorers.joint_neighbors import JointNeighbors
from nearsay.annotate.scorers.relevance import RELEVANCES, Relevance
from nearsay.annotate.scorers.transfer import transfer_scores
from nearsay.core.arrays import check_n_neighbors
from nearsay.errors import InputError, unknown_name
from nearsay.neighbors.other_groups import left_out
from nearsay.neighbors.table import NeighborTable

# JEC's label transfer ranks words and is no weighted vote, so it is not among the relevances.
TRANSFER = "transfer"

Score = Callable[[NeighborTable, csr_array], np.ndarray]


def as_score(relevance: Any) -> Score:
    """The function from neighbors to scores of a relevance, given by name or as an object.

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
class KeywordScorer:
    """An estimator that scores keywords: unfitted as the user passed it, fitted after ``fit``.

    Attributes
    ----------
    estimator : with ``fit(X, Y)`` and either ``neighbors(X, k)`` or ``scores(X)``
    relevances : how neighbors become scores; empty for an estimator with ``scores``
    n_neighbors : the number of neighbors; 0 for an estimator with ``scores``
    sees_columns : whether it is fitted on the columns that an annotator derived from the rows, if any
    """

    estimator: Any
    relevances: tuple[Relevance | str, ...] = ()
    n_neighbors: int = 0
    sees_columns: bool = True

    @property
    def finds(self) -> bool:
        """Whether it finds neighbors."""
        return bool(self.relevances)

    @property
    def n_scores(self) -> int:
        """How many arrays of scores it gives."""
        return len(self.relevances) if self.finds else 1

    @property
    def is_forest(self) -> bool:
        """Whether trees that were grown without a row can score it; not without its group."""
        return hasattr(self.estimator, "out_of_bag_scores")

    @property
    def leaves_out(self) -> bool:
        """Whether its leave-one-out scores are unbiased.

        Not if it learned from the keywords of the row left out. That is assumed of every estimator without
        ``learns_from_keywords = False``, but for forests, of which trees are left out.
        """
        if self.is_forest:
            return True
        blind = not getattr(self.estimator, "learns_from_keywords", True)
        return self.finds and blind and hasattr(self.estimator, "leave_one_out")

    def fit(self, X: np.ndarray, keywords: csr_array, groups: np.ndarray | None = None) -> KeywordScorer:
        """A copy fitted on these rows and their keywords, and their groups where it takes them."""
        k = min(self.n_neighbors, len(X)) if self.finds else 0
        takes = groups is not None and has_fit_parameter(self.estimator, "groups")
        fitted = clone(self.estimator).fit(X, keywords, **({"groups": groups} if takes else {}))
        return replace(self, estimator=fitted, n_neighbors=k)

    def table(self, X: np.ndarray) -> NeighborTable:
        """The neighbors of every query, once fitted."""
        return self.estimator.neighbors(X, self.n_neighbors)

    def scores(self, X: np.ndarray, keywords: csr_array) -> list[np.ndarray]:
        """One (n_queries, n_words) array per relevance, or the one that the estimator gives itself."""
        if not self.finds:
            return [np.asarray(self.estimator.scores(X), dtype=np.float64)]
        return self.scores_of(self.table(X), keywords)

    def left_out_scores(
        self, rows: np.ndarray, keywords: csr_array, groups: np.ndarray | None = None
    ) -> list[np.ndarray]:
        """The same for the rows of these numbers, each left out of its own neighbors, and all rows of its group."""
        if self.is_forest:
            return [self.estimator.out_of_bag_scores(rows)]
        k = check_n_neighbors(min(self.n_neighbors, keywords.shape[0] - 1), keywords.shape[0], left_out=1)
        return self.scores_of(left_out(self.estimator, k, rows, groups), keywords)

    def scores_of(self, table: NeighborTable, keywords: csr_array) -> list[np.ndarray]:
        """The scores that each relevance gives to these neighbors."""
        return [as_score(relevance)(table, keywords) for relevance in self.relevances]


def as_scorers(neighbors: Any, relevance: Any, n_neighbors: int, features: Any = None) -> list[KeywordScorer]:
    """Read the ``neighbors`` parameter of an annotator.

    Parameters
    ----------
    neighbors : "nearest", None, an estimator, or several of them in a list or dict
        An estimator may come with its own relevance, (estimator, relevance), or with several,
        (estimator, [relevance, …]). "nearest", or None, is ``JointNeighbors(features)``.
    relevance : for estimators that find neighbors and come without one.
    n_neighbors : for every estimator that finds neighbors.

    >>> len(as_scorers([JointNeighbors(), (JointNeighbors(), ["prior", "rank"])], "count", 5)[1].relevances)
    2
    """
    if neighbors is None or isinstance(neighbors, str):
        neighbors = JointNeighbors(features)
    elif features is not None:
        raise InputError(
            "features is for neighbors='auto' and neighbors='nearest'; estimators take their own, such as"
            " JointNeighbors(features)."
        )
    return [_as_scorer(one, relevance, n_neighbors) for one in _each(neighbors)]


def _each(neighbors: Any) -> Iterator[Any]:
    if isinstance(neighbors, Mapping):
        yield from neighbors.values()
    elif isinstance(neighbors, list):
        yield from neighbors
    else:
        yield neighbors


def _as_scorer(given: Any, relevance: Any, n_neighbors: int) -> KeywordScorer:
    estimator, relevance = given if isinstance(given, tuple) and len(given) == 2 else (given, relevance)
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise InputError(
            "An estimator that scores keywords needs fit(X, Y) and either neighbors(X, k), such as JointNeighbors(), or"
            f" scores(X); got {estimator!r}."
        )
    if hasattr(estimator, "scores"):
        return KeywordScorer(estimator)
    if not hasattr(estimator, "neighbors"):
        raise InputError(f"{estimator!r} has neither neighbors(X, k) nor scores(X), so it cannot score keywords.")
    return KeywordScorer(estimator, as_relevances("distance" if relevance is None else relevance), n_neighbors)


def as_relevances(relevance: Any) -> tuple[Relevance | str, ...]:
    """One relevance or several, each of them known."""
    several = relevance if isinstance(relevance, Sequence) and not isinstance(relevance, str) else [relevance]
    if not several:
        raise InputError("relevance is an empty list of relevances. Pass at least one, such as 'prior'.")
    for one in several:
        as_score(one)  # fail early on unknown names
    return tuple(several)
