"""Learned keyword prediction of a collection: a view in which items with similar words are near, and calibrated votes.

learn:   items with keywords ──► as they are, one scale, projected to keywords ──► the view of least log loss
         held-out items ──► how votes of neighbors become probabilities
answer:  the nearest items in that view now ──► their words, by distance ──► a probability each
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from nearsay.annotate.scorers.relevance import Relevance
from nearsay.collection.answers import Keyword
from nearsay.collection.state.keywords.word_odds import WordOdds, WordPairs
from nearsay.collection.state.live_views import LiveTransform, LiveView, Voters
from nearsay.core.arrays import evenly, within_range
from nearsay.core.parallel import one_blas_thread
from nearsay.data.content_order import as_met
from nearsay.data.keywords import Keywords
from nearsay.distances.named import as_distance
from nearsay.learn.keyword_projection import KeywordProjection, some_words
from nearsay.neighbors import neighbor_search
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.views.row_transforms import LinearMap
from nearsay.search.exact import ExactSearch

# With fewer items with keywords nothing is learned, and neighbors vote.
FEWEST = 20
NEIGHBORS = 20
FOLDS = 5
# Past cases, at most.
MOST_CASES = 2000
# Words that rows are projected to, the most frequent of those that so many items have.
PROJECTED_TO, OF_ITEMS = 500, 3
# Projections hold the square of the number of columns.
MOST_COLUMNS = 2000
# Votes that decay slowly, and fast.
DECAYS = (Relevance("distance"), Relevance("distance", sharpness=4.0))


@dataclass(frozen=True)
class LearnedKeywords:
    """The learned view and calibration by which neighbors vote for keywords.

    Attributes
    ----------
    transform : of the view; where it was learned from keywords, also without each fold.
    fold : (n_rows,) the fold of each row of the store; −1 for those it was not learned from.
    odds : from the votes of neighbors to probabilities.
    n_neighbors : how many vote.
    """

    transform: LiveTransform
    fold: np.ndarray
    odds: WordOdds
    n_neighbors: int = NEIGHBORS

    @classmethod
    def from_rows(
        cls,
        X: np.ndarray,
        keywords: Sequence[Sequence[str]],
        numbers: np.ndarray,
        n_store_rows: int,
        first: LiveTransform,
        row_groups: np.ndarray | None = None,
    ) -> LearnedKeywords | None:
        """Learn from rows that have keywords, with their row ``numbers`` in the store. None if they are too few.

        ``first`` is the first transform of the collection. Rows of one of ``row_groups`` are in one fold, so that they
        are not asked about each other.
        """
        group = np.arange(len(X)) if row_groups is None else as_met(row_groups)
        if len(X) < FEWEST or not group.any():
            return None
        known = Keywords.of([list(words) for words in keywords])
        matrix, place = known.matrix, group % FOLDS
        cases, share = evenly(len(X), MOST_CASES), np.asarray(matrix.mean(axis=0)).ravel()
        words = known.words.astype(np.str_)
        tried = []
        with one_blas_thread():  # the same digits on any number of threads
            for transform in _transforms(X, matrix, place, first):
                pairs = _past_pairs(transform, X, matrix, place, cases)
                odds = WordOdds.shared(pairs, words, share, len(X))
                tried.append((odds.loss(pairs), transform, pairs, odds))
        _, transform, pairs, odds = min(tried, key=lambda each: each[0])
        fold = np.full(n_store_rows, -1, np.int8)
        fold[numbers] = place
        return cls(transform, fold, odds.with_word_sigmoids(pairs))

    def ranked(self, table: NeighborTable, keywords: Any) -> list[list[Keyword]]:
        """The words of the neighbors of every query, and their probabilities, the largest first.

        Of equal ones the word of the nearer neighbor comes first. ``keywords`` are those of every row.
        """
        ranking: list[list[Keyword]] = []
        for weights, neighbors in zip(_weights(table).transpose(1, 0, 2), table.indices.tolist(), strict=True):
            given = [dict.fromkeys(keywords[row] or ()) if row >= 0 else () for row in neighbors]
            number: dict[str, int] = {}
            numbers = [number.setdefault(word, len(number)) for words in given for word in words]
            if not number:
                ranking.append([])
                continue
            giver = np.repeat(np.arange(len(given)), [len(words) for words in given])
            votes = [np.bincount(numbers, weights=each[giver], minlength=len(number)) for each in weights]
            p = self.odds.proba(list(number), np.stack(votes, axis=1)).tolist()
            ranking.append([Keyword(*pair) for pair in sorted(zip(number, p, strict=True), key=lambda each: -each[1])])
        return ranking


@dataclass(frozen=True)
class OneScale:
    """Columns brought to one scale.

    >>> OneScale(np.array([1.0, 0.0]), np.array([2.0, 0.5]))(np.array([[2.0, 3.0]]))
    array([[2. , 1.5]])
    """

    center: np.ndarray
    scale: np.ndarray

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """The rows, float32 where they are."""
        return within_range((rows - self.center) * self.scale, rows.dtype)

    def largest_mapped(self, largest: float) -> float:
        """No number of a scaled row is larger than this, where none of the rows is larger than ``largest``."""
        return float(((largest + np.abs(self.center)) * self.scale).max(initial=0.0))


def _transforms(X: np.ndarray, keywords: csr_array, place: np.ndarray, first: LiveTransform) -> Iterable[LiveTransform]:
    """The transforms to try: that of the collection, one scale, and projections to keywords."""
    yield replace(first, without=())
    standardized: Any = OneScale(*_scales(X))
    yield LiveTransform("standardized", "sqeuclidean", standardized)
    for name, learn in PROJECTIONS.items() if X.shape[1] <= MOST_COLUMNS else ():
        whole = learn(X, keywords)
        without = [learn(X[place != fold], csr_array(keywords[place != fold])) for fold in range(FOLDS)]
        if whole is not None and all(without):
            yield LiveTransform(name, "sqeuclidean", whole, tuple(each for each in without if each is not None))


def _past_pairs(
    transform: LiveTransform, X: np.ndarray, keywords: csr_array, place: np.ndarray, cases: np.ndarray
) -> WordPairs:
    """The votes of neighbors in other folds for some rows."""
    distance = as_distance(transform.metric)
    votes, words, has = [], [], []
    for fold in np.unique(place[cases]).tolist():
        rest, here = np.flatnonzero(place != fold), cases[place[cases] == fold]
        search = ExactSearch().fit_checked(distance.check(transform.apply(X[rest], fold)), distance)
        Q = distance.check(transform.apply(X[here], fold), like=search.rows_.items)
        table = neighbor_search.nearest(search, Q, min(NEIGHBORS, len(rest)))
        starts = np.arange(len(here) + 1) * table.n_neighbors
        sums = []
        for weights in _weights(table):
            by_row = csr_array((weights.ravel(), table.indices.ravel(), starts), shape=(len(here), len(rest)))
            summed = by_row @ keywords[rest]
            summed.sort_indices()
            sums.append(summed)
        line = np.repeat(np.arange(len(here)), np.diff(sums[0].indptr))
        votes.append(np.stack([each.data for each in sums], axis=1))
        words.append(sums[0].indices)
        has.append(_holds(csr_array(keywords[here]), line, sums[0].indices))
    all_has = np.concatenate(has)
    n_others = len(cases) * keywords.shape[1] - len(all_has)
    n_missed = int(keywords[cases].sum()) - int(all_has.sum())
    return WordPairs(np.concatenate(votes), np.concatenate(words), all_has, n_others, n_missed)


def _holds(keywords: csr_array, lines: np.ndarray, words: np.ndarray) -> np.ndarray:
    n_words = keywords.shape[1]
    known = np.repeat(np.arange(keywords.shape[0]), np.diff(keywords.indptr)) * n_words + keywords.indices
    return np.isin(lines.astype(np.int64) * n_words + words, known)


def _weights(table: NeighborTable) -> np.ndarray:
    """The weight of each neighbor by each decay; they sum to 1: (n_votes, n_queries, k)."""
    every = np.stack([decay.weights(table) for decay in DECAYS])
    # Column by column: the rounding of a sum could depend on the other queries.
    total = np.zeros(every.shape[:2])
    for column in range(every.shape[2]):
        total += every[:, :, column]
    return every / np.where(total > 0, total, 1.0)[:, :, None]


def _projected(X: np.ndarray, keywords: csr_array) -> LinearMap | None:
    counts = np.asarray(keywords.sum(axis=0)).ravel()
    few = np.argsort(-counts, kind="stable")[:PROJECTED_TO]
    frequent = csr_array(keywords[:, np.sort(few[counts[few] >= OF_ITEMS])])
    if not some_words(frequent).nnz:
        return None  # no word tells items apart
    learned = KeywordProjection().fit(X, frequent)
    return LinearMap(learned.mean_, np.ascontiguousarray(learned.components_.T), unit=True)


def _projected_from_one_scale(X: np.ndarray, keywords: csr_array) -> LinearMap | None:
    center, scale = _scales(X)
    projected = _projected((X - center) * scale, keywords)
    if projected is None:
        return None
    # Both maps as one: a column without scale is constant.
    moved = np.divide(projected.center, scale, out=np.zeros_like(scale), where=scale > 0)
    return LinearMap(center + moved, scale[:, None] * projected.matrix, unit=True)


def _scales(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean of every column, and what brings it to a spread of 1; 0 for one that hardly differs."""
    center, spread = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
    rounding = np.finfo(np.float32).eps * np.maximum(np.abs(X).max(axis=0), np.finfo(np.float32).tiny)
    return center, np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 8 * rounding)


# Each learns a map from rows and keywords; None where no word tells items apart.
PROJECTIONS: dict[str, Callable[[np.ndarray, csr_array], LinearMap | None]] = {
    "projected to keywords": _projected,
    "standardized, projected to keywords": _projected_from_one_scale,
}


class KeywordState:
    """Answers with keywords at one version.

    Parameters
    ----------
    learned : LearnedKeywords
    gives : (n_rows,) bool, the rows that pass their keywords on.
    keywords : the keywords of every row.
    all_rows : function that gives all rows.
    before : KeywordState of an earlier version, optional; what did not change is reused.
    groups : (n_rows,) int, or None
        Rows of one group are never asked about each other.
    """

    def __init__(
        self,
        learned: LearnedKeywords,
        gives: np.ndarray,
        keywords: Any,
        all_rows: Any,
        before: KeywordState | None,
        groups: np.ndarray | None,
    ) -> None:
        self._learned, self._keywords, self._all_rows = learned, keywords, all_rows
        voters = Voters.of(gives, np.zeros(len(gives), np.int64), 1, learned.fold, groups)
        if before is None:
            self.view = LiveView(learned.transform, all_rows(), voters)
        else:
            self.view = before.view.changed(all_rows()[len(before.view.voters.votes) :], voters)

    def of_queries(self, X: np.ndarray) -> list[list[Keyword]]:
        """The keywords of new items, the most probable first."""
        return self._learned.ranked(self.view.query(X, self._k(), None), self._keywords)

    def of_rows(self, rows: np.ndarray) -> list[list[Keyword]]:
        """The same for rows that vote for keywords, each answered by the others."""
        table = self.view.leave_one_out(self._k(), None, rows, self._all_rows)
        return self._learned.ranked(table, self._keywords)

    def _k(self) -> int:
        return max(1, min(self._learned.n_neighbors, int(np.count_nonzero(self.view.voters.votes))))
