"""Keywords for new items from the keywords of labeled ones, with a probability each and the neighbors as evidence.

scorers ──► scores ──► probabilities ──► the few words to give
               ▲             ▲                  ▲
rows left out ─┴─────────────┴──────────────────┘  everything is learned from rows that the scorers have not seen
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator
from sklearn.model_selection import KFold
from sklearn.utils.validation import check_is_fitted

from nearsay.annotate.calibration import KeywordCalibration
from nearsay.annotate.keyword_scorers import KeywordScorer, as_scorers
from nearsay.annotate.word_selection import Worth, most
from nearsay.arrays import as_rows, check_n_neighbors, evenly, row_blocks
from nearsay.data.keywords import Keywords, rows_and_keywords
from nearsay.data.rows import as_ids
from nearsay.errors import InputError
from nearsay.metrics.keywords import keyword_measures
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.evidence import InWords, InWordsList, names_of
from nearsay.settings import check_choice, check_number, check_whole

# By what the words of an item are put in order.
ORDERS = ("score", "probability", "worth")
# Folds where no row can be left out alone.
FOLDS = 5
# Pairs of row and word that probabilities are learned from: with 260 words 8,000 rows, with 100,000 words 20.
MOST_PAIRS = 2**21
GIVERS_SHOWN = 5


@dataclass(frozen=True)
class Annotation(InWords):
    """The keywords of one item, best first, with the neighbors as evidence.

    Attributes
    ----------
    words : list
    probabilities : list of float
    neighbors : (n_neighbors,) row numbers, nearest first
    distances : (n_neighbors,)
    given_by : list of lists of int
        For every word, the row numbers of the neighbors that have it, nearest first.
    ids : list or None
        The names of the neighbors, where ``fit`` was given names.

    >>> print(Annotation(["sky"], [0.75], np.array([4, 7]), np.array([0.1, 0.2]), [[7]]))
    sky    75 %  1 of 2 neighbors: 7
    """

    words: list[Any]
    probabilities: list[float]
    neighbors: np.ndarray
    distances: np.ndarray
    given_by: list[list[int]]
    ids: list[Any] | None = None

    @property
    def text(self) -> str:
        """A line a word: the word, its probability, and how many neighbors have it."""
        width = max((len(str(word)) for word in self.words), default=0)
        lines = []
        for word, p, givers in zip(self.words, self.probabilities, self._givers(), strict=True):
            said = f"{len(givers)} of {len(self.neighbors)} neighbors" + (f": {_few(givers)}" if givers else "")
            lines.append(f"{word!s:<{width}}  {100 * p:4.0f} %  {said}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Everything, the text too, as values that ``json.dumps`` takes."""
        return {**super().to_dict(), "neighbors": self.neighbors.tolist(), "distances": self.distances.tolist()}

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(str(word))}</td><td>{100 * p:.0f} %</td><td>{escape(_few(givers))}</td></tr>"
            for word, p, givers in zip(self.words, self.probabilities, self._givers(), strict=True)
        )
        head = f"<tr><th>word</th><th>probability</th><th>given by, of {len(self.neighbors)} neighbors</th></tr>"
        return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>"

    def _givers(self) -> list[list[Any]]:
        """For every word what the neighbors that have it are called: by name, or by row number."""
        if self.ids is None:
            return list(self.given_by)
        name = dict(zip(self.neighbors.tolist(), self.ids, strict=True))
        return [[name[row] for row in rows] for rows in self.given_by]


def _few(givers: list[Any]) -> str:
    return ", ".join(map(str, givers[:GIVERS_SHOWN])) + (", …" if len(givers) > GIVERS_SHOWN else "")


class KeywordAnnotator(BaseEstimator):
    """Keywords from labeled neighbors.

    Parameters
    ----------
    neighbors : None, an estimator, or a list or dict of them, default=None
        What scores the keywords: ``JointNeighbors``, ``RankBoostNeighbors``, ``TransformedNeighbors``, …, any
        estimator with ``fit(X, Y)`` and ``neighbors(X, k)``; or any with ``fit(X, Y)`` and ``scores(X)``, such as
        ``KeywordRegression``. Several are combined. None finds neighbors in all columns by Euclidean distance.
        An estimator may come with its own relevances: ``(estimator, relevance)`` or ``(estimator, [relevance, …])``.
    relevance : str or Relevance, default="distance"
        How neighbors pass their keywords on: "prior" (the paper's), "count", "rank", "distance", "exp-z", "transfer".
    n_neighbors : int, default=20
        Neighbors that pass keywords on, or all rows if there are fewer.
    n_keywords : int or None, default=5
        Words per item. None gives every word that is likely enough.
    min_probability : float, default=0.0
        Words less likely than this are not given; 0.5 where ``n_keywords`` is None and this is 0.
    order : {"probability", "score", "worth"}, default="probability"
        Which words come first: the most likely ones, those of highest relevance (of a single scorer), or those that are
        expected to add most to precision and recall in the mean over words, which gives rare words more often.
    recall_weight : float, default=1.0
        For "worth": how much recall counts relative to precision.
    cv : int or None, default=None
        How to score the rows that probabilities are learned from. None leaves one row out at a time, and uses five
        folds for estimators that learn from keywords; a number uses that many folds for all.

    Attributes
    ----------
    words_ : (n_words,) array
        The words, in the order of the columns of answers.
    calibration_ : KeywordCalibration
    held_out_rows_, held_out_proba_ : (n_seen,) and (n_seen, n_words)
        Rows, and the probabilities of their words by scorers that had not seen them: what to expect for new
        items. All rows, or as many in even steps as make two million pairs of row and word.
    worth_ : Worth, or None where ``order`` is another
    n_features_in_ : int
    ids_ : (n_rows,) the names of the training rows, or None where none were given to ``fit``.

    Examples
    --------
    >>> X = [[0], [1], [2], [10], [11], [12]]
    >>> Y = [["cat"], ["cat", "milk"], ["cat", "milk"], ["dog"], ["dog", "bone"], ["dog", "bone"]]
    >>> annotator = KeywordAnnotator(n_neighbors=3, n_keywords=2).fit(X, Y)
    >>> answer = annotator.annotate([[11.2]])[0]
    >>> answer.words, answer.given_by
    (['dog', 'bone'], [[4, 5, 3], [4, 5]])
    """

    ids_: np.ndarray | None = None  # files of earlier versions hold none

    def __init__(
        self,
        neighbors: Any = None,
        *,
        relevance: Any = "distance",
        n_neighbors: int = 20,
        n_keywords: int | None = 5,
        min_probability: float = 0.0,
        order: str = "probability",
        recall_weight: float = 1.0,
        cv: int | None = None,
    ) -> None:
        self.neighbors = neighbors
        self.relevance = relevance
        self.n_neighbors = n_neighbors
        self.n_keywords = n_keywords
        self.min_probability = min_probability
        self.order = order
        self.recall_weight = recall_weight
        self.cv = cv

    def fit(self, X: Any, Y: Any, *, ids: Any = None) -> KeywordAnnotator:
        """Store the labeled items, and learn probabilities from scores.

        Parameters
        ----------
        X : (n_rows, n_columns)
        Y : the keywords of every row, a table of zeros and ones (dense or sparse) or lists of words.
            Rows may have none.
        ids : (n_rows,) names of the rows, strings or whole numbers, or None
            What ``annotate`` calls the neighbors by. Rows may share a name.
        """
        rows, keywords = rows_and_keywords(X, Y)
        self._check(rows, keywords)
        named = as_scorers(self.neighbors, self.relevance, self.n_neighbors)
        if self.order == "score" and sum(scorer.n_scores for scorer in named) > 1:
            raise InputError("order='score' goes by one relevance; got several. Use 'probability' or 'worth'.")
        self.ids_ = as_ids(ids, len(rows))
        self.n_features_in_ = rows.shape[1]
        self.words_, self._named = keywords.words, keywords.named
        self._keywords = keywords.matrix
        self._sparse = issparse(Y)
        self._scorers = [scorer.fit(rows, self._keywords) for scorer in named]
        seen = evenly(len(rows), max(2, MOST_PAIRS // len(self.words_)))
        scores = self._past_scores(named, rows, seen)
        past = csr_array(self._keywords[seen])
        share = np.asarray(self._keywords.mean(axis=0)).ravel()
        self.calibration_ = KeywordCalibration.learn(scores, past, share)
        self.held_out_rows_, self.held_out_proba_ = seen, self.calibration_.past(scores, past)
        return self.set_recall_weight(self.recall_weight)

    def set_recall_weight(self, recall_weight: float) -> KeywordAnnotator:
        """Change the weight of recall. Only ``worth_`` is learned again; nothing is searched."""
        check_is_fitted(self, "calibration_")
        check_number("recall_weight", recall_weight, 0)
        self.recall_weight = recall_weight
        self.worth_ = None
        if self.order == "worth":
            self.worth_ = Worth.learn(self.held_out_proba_, self._n_given(), recall_weight=recall_weight)
        return self

    def scores(self, X: Any) -> list[np.ndarray]:
        """The scores that every scorer gives to every word: a list of (n_queries, n_words)."""
        return self._ask(self._rows(X))[0]

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability that each item has each word: (n_queries, n_words)."""
        rows = self._rows(X)
        out = np.empty((len(rows), len(self.words_)))
        for part in self._parts(rows):
            out[part] = self.calibration_.proba(self.scores(rows[part]))
        return out

    def predict(self, X: Any) -> Any:
        """1 for every word an item is given: (n_queries, n_words), sparse where ``Y`` was."""
        rows = self._rows(X)
        columns, starts = [], [0]
        for words, _, _ in self._chosen(rows):
            columns.append(words)
            starts.append(starts[-1] + len(words))
        shape = (len(rows), len(self.words_))
        flat = np.concatenate(columns) if columns else np.empty(0, np.int64)
        table = csr_array((np.ones(len(flat), np.int64), flat, starts), shape=shape)
        table.sort_indices()
        return table if self._sparse else table.toarray()

    def annotate(self, X: Any) -> InWordsList[Annotation]:
        """The words of each item, best first, with probabilities and the neighbors that have them.

        With several scorers, the neighbors shown are those of the first that finds any.
        """
        return InWordsList(self._annotation(*chosen) for chosen in self._chosen(self._rows(X)))

    def score(self, X: Any, Y: Any) -> float:
        """The F1 of precision and recall in the mean over words, as annotation is judged.

        Words of ``Y`` go by name; those that no row had in ``fit`` cannot be given and count as missed. A table
        without names has the columns of ``words_``.
        """
        check_is_fitted(self)
        truth = Keywords.of(Y)
        given = Keywords(csr_array(self.predict(X)), self.words_, named=self._named and truth.named)
        return keyword_measures(truth, given)["f1"]

    # ------------------------------------------------------------ within

    def _check(self, rows: np.ndarray, keywords: Keywords) -> None:
        check_choice("order", self.order, ORDERS)
        check_number("min_probability", self.min_probability, 0, 1)
        check_number("recall_weight", self.recall_weight, 0)
        if self.n_keywords is not None:
            check_whole("n_keywords", self.n_keywords, least=1)
        if self.cv is not None:
            check_whole("cv", self.cv, least=2, most=len(rows))
        check_n_neighbors(self.n_neighbors, np.iinfo(np.int64).max)
        if len(rows) < 2:
            raise InputError(f"Annotation needs at least 2 rows; got {len(rows)}.")
        if not keywords.matrix.nnz:
            raise InputError(f"None of the {len(rows)} rows has a keyword, so there is nothing to pass on. Check Y.")

    def _rows(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "calibration_")
        return as_rows(X, width=self.n_features_in_)

    def _ask(self, rows: np.ndarray) -> tuple[list[np.ndarray], NeighborTable]:
        """The scores of all scorers, and the neighbors of the first that finds any; each searches once."""
        scores: list[np.ndarray] = []
        tables: list[NeighborTable] = []
        for scorer in self._scorers:
            if scorer.finds:
                tables.append(scorer.table(rows))
                scores += scorer.scores_of(tables[-1], self._keywords)
            else:
                scores += scorer.scores(rows, self._keywords)
        nobody = NeighborTable(np.empty((len(rows), 0), np.int64), np.empty((len(rows), 0)))
        return scores, tables[0] if tables else nobody

    def _past_scores(self, named: list[KeywordScorer], rows: np.ndarray, seen: np.ndarray) -> list[np.ndarray]:
        """The scores of the rows ``seen`` by scorers that have not seen them: one (n_seen, n_words) per relevance."""
        in_folds = [one for one in named if self.cv is not None or not one.leaves_out]
        by_folds = iter(self._scores_in_folds(in_folds, rows, seen))
        scores = []
        for unfitted, fitted in zip(named, self._scorers, strict=True):
            if unfitted in in_folds:
                scores += next(by_folds)
            else:
                scores += fitted.left_out_scores(seen, self._keywords)
        return scores

    def _scores_in_folds(
        self, named: list[KeywordScorer], rows: np.ndarray, seen: np.ndarray
    ) -> list[list[np.ndarray]]:
        """For each of these scorers the scores of the rows ``seen``, by copies that learned from other folds."""
        if not named:
            return []
        place = np.full(len(rows), -1)
        place[seen] = np.arange(len(seen))
        shape = (len(seen), len(self.words_))
        scores = [[np.empty(shape) for _ in range(one.n_scores)] for one in named]
        n_folds = min(FOLDS, len(rows)) if self.cv is None else self.cv
        for others, fold in KFold(n_folds, shuffle=True, random_state=0).split(rows):
            asked = fold[place[fold] >= 0]
            known, keywords = rows[others], csr_array(self._keywords[others])
            for one, out in zip(named, scores, strict=True):
                for every, said in zip(out, one.fit(known, keywords).scores(rows[asked], keywords), strict=True):
                    every[place[asked]] = said
        return scores

    def _n_given(self) -> int:
        return len(self.words_) if self.n_keywords is None else min(self.n_keywords, len(self.words_))

    def _parts(self, rows: np.ndarray) -> Iterator[slice]:
        n_arrays = sum(scorer.n_scores for scorer in self._scorers)
        return row_blocks(len(rows), row_bytes=8 * len(self.words_) * (4 * n_arrays + 4))

    def _chosen(self, rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, NeighborTable]]:
        """For every item the words it is given, best first, the probabilities of all words, and its neighbors."""
        least = 0.5 if self.n_keywords is None and self.min_probability == 0 else self.min_probability
        for part in self._parts(rows):
            scores, table = self._ask(rows[part])
            p = self.calibration_.proba(scores)
            order = p
            if self.order == "score":
                order = scores[0]
            elif self.order == "worth" and self.worth_ is not None:
                order = self.worth_.scores(p)
            for i, words in enumerate(most(order, self._n_given())):
                yield words[p[i, words] >= least], p[i], table[i : i + 1]

    def _annotation(self, words: np.ndarray, p: np.ndarray, table: NeighborTable) -> Annotation:
        there = table.indices[0] >= 0
        near = table.indices[0][there]
        has = self._keywords[near][:, words].toarray() > 0
        return Annotation(
            words=self.words_[words].tolist(),
            probabilities=p[words].tolist(),
            neighbors=near,
            distances=table.distances[0][there],
            given_by=[near[column].tolist() for column in has.T],
            ids=names_of(near, self.ids_),
        )
