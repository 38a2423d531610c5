"""``KeywordAnnotator``: keywords for new items, with calibrated probabilities and the neighbors as evidence.

scorers ──► those that help ──► scores ──► probabilities ──► the few words to give
                  ▲               ▲             ▲                  ▲
past cases ───────┴───────────────┴─────────────┴──────────────────┘  rows held out from the scorers
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.model_selection import GroupKFold, KFold
from sklearn.utils.validation import check_is_fitted

from nearsay.annotate.annotation import Annotation
from nearsay.annotate.auto_scorers import RELEVANCES, auto_scorers
from nearsay.annotate.calibration import KeywordCalibration
from nearsay.annotate.keyword_columns import KeywordColumns
from nearsay.annotate.keyword_promise import precision_threshold, recall_threshold
from nearsay.annotate.scorer_choice import ScorerChoices, choose_scorers
from nearsay.annotate.scorers.keyword_scorers import KeywordScorer, as_relevances, as_scorers
from nearsay.annotate.word_selection import Worth, best_recall_weight, most
from nearsay.annotate.word_taxonomy import ImpliedWords, with_implied
from nearsay.core.arrays import as_rows, check_n_neighbors, evenly, row_blocks
from nearsay.core.documented import DocumentedEstimator
from nearsay.core.settings import check_choice, check_number, check_whole
from nearsay.data.content_order import as_met
from nearsay.data.keywords import Keywords, annotated_order, rows_and_keywords
from nearsay.data.rows import as_groups, as_ids
from nearsay.errors import InputError
from nearsay.learn.keyword_projection import some_words
from nearsay.metrics.keywords import keyword_measures
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.evidence.evidence import EvidenceList, names_of
from nearsay.taxonomy.taxonomy import Taxonomy

# Orders of the words of an item.
ORDERS = ("score", "probability", "worth")
# Named sets of scorers.
AUTO, NEAREST = "auto", "nearest"
# Folds for scorers without leave-one-out. If past cases are no more than a fold, one model answers all of them.
FOLDS = 5
# Pairs of row and word that probabilities are learned from: with 260 words 8,000 rows, with 100,000 words 20.
MOST_PAIRS = 2**21

# Rows to learn from, and rows to answer.
Fold = tuple[np.ndarray, np.ndarray]


class KeywordAnnotator(DocumentedEstimator):
    """Keywords from labeled neighbors, combined with a projection and a regression where they help.

    Parameters
    ----------
    neighbors : "auto", "nearest", an estimator, or a list or dict of them, default="auto"
        What scores the keywords. "auto" tries the nearest rows, the nearest after canonical correlation with keywords
        and ridge regression, and uses what helps on past cases; ``choices_`` shows it. "nearest" (or None) takes the
        nearest rows alone. Or ``JointNeighbors``, ``RankBoostNeighbors``, ``TransformedNeighbors``, …, any
        estimator with ``fit(X, Y)`` and ``neighbors(X, k)``; or any with ``fit(X, Y)`` and ``scores(X)``, such as
        ``KeywordRegression``. Several are combined.
        An estimator may come with its own relevances: ``(estimator, relevance)`` or ``(estimator, [relevance, …])``.
    features : None, {name: columns} or {name: (columns, distance)}, default=None
        The feature spaces of "auto" and "nearest"; None is one, all columns by Euclidean distance.
    relevance : None, str, Relevance or a list of them, default=None
        How neighbors vote for keywords: "prior" (the paper's), "count", "rank", "distance", "exp-z", "transfer".
        None is "distance", and in "auto" the same at two sharpnesses.
    n_neighbors : int, default=20
        Neighbors that vote for keywords, or all rows if there are fewer.
    n_keywords : int or None, default=5
        Words per item. None gives every word that is likely enough.
    min_probability : float, default=0.0
        Words less likely than this are not given; 0.5 where ``n_keywords`` is None, or there is a taxonomy, and this is
        0.
    recall, precision : float or None, default=None
        A promise about new items, on average: the words given hold this share of an item's true words, or this share
        of the words given to an item is true. An item then gets all words of at least ``threshold_``, whatever
        ``n_keywords`` and ``min_probability`` are. One of the two; a warning says if it cannot be kept.
    taxonomy : Taxonomy or None, default=None
        Its nodes include every word. A word implies all above it but the root, in ``fit`` and in ``predict``;
        ``annotate`` gives the most specific ones that are likely enough, so that the word above stands for an unsure
        one.
    order : {"probability", "score", "worth"}, default="probability"
        Which words come first: the most likely ones, those of highest relevance (of a single scorer), or those that are
        expected to add most to precision and recall in the mean over words, which gives rare words more often.
    recall_weight : float or "auto", default=1.0
        For "worth": how much recall counts relative to precision. "auto" takes, from 1 to 3, what gives past cases the
        highest F1.
    cv : int or None, default=None
        How to score the rows that probabilities are learned from. None leaves one row out at a time, and uses five
        folds for estimators that learn from keywords; a number uses that many folds for all.
    words : None or list, default=None
        The names of the columns where keywords come as a table without names; where they come as lists, all words that
        may occur, in the order of the columns of answers. None takes what there is.

    Attributes
    ----------
    words_ : (n_words,) array
        The words, in the order of the columns of answers.
    choices_ : ScorerChoices, or None where ``neighbors`` is not "auto"
        The scorers that were tried, their log losses, and which are used; prints as a table.
    calibration_ : KeywordCalibration
    held_out_rows_, held_out_proba_ : (n_cases,) and (n_cases, n_words)
        Past cases, and the probabilities of their words by scorers without them: what to expect for new
        items. All rows, or 10,000 of them, or as many as make two million pairs of row and word; content decides which
        and in what order.
    worth_ : Worth, or None where ``order`` is another
    threshold_ : float or None
        The least probability of a word that is given, where a recall or precision was asked for. −inf: all words.
    n_features_in_ : int
    ids_ : (n_rows,) the names of the training rows, or None where none were given to ``fit``.

    Examples
    --------
    >>> X = [[0], [1], [2], [10], [11], [12]]
    >>> Y = [["cat"], ["cat", "milk"], ["cat", "milk"], ["dog"], ["dog", "bone"], ["dog", "bone"]]
    >>> annotator = KeywordAnnotator("nearest", n_neighbors=3, n_keywords=2).fit(X, Y)
    >>> answer = annotator.annotate([[11.2]])[0]
    >>> answer.words, answer.given_by
    (['dog', 'bone'], [[4, 5, 3], [4, 5]])
    """

    most_past_cases = 10_000  # rows that are asked about the others
    ids_: np.ndarray | None = None
    _columns: KeywordColumns | None = None
    _finder: KeywordScorer | None = None

    def __init__(
        self,
        neighbors: Any = AUTO,
        *,
        features: Any = None,
        relevance: Any = None,
        n_neighbors: int = 20,
        n_keywords: int | None = 5,
        min_probability: float = 0.0,
        recall: float | None = None,
        precision: float | None = None,
        taxonomy: Taxonomy | None = None,
        order: str = "probability",
        recall_weight: float | str = 1.0,
        cv: int | None = None,
        words: Any = None,
    ) -> None:
        self.neighbors = neighbors
        self.features = features
        self.relevance = relevance
        self.n_neighbors = n_neighbors
        self.n_keywords = n_keywords
        self.min_probability = min_probability
        self.recall = recall
        self.precision = precision
        self.taxonomy = taxonomy
        self.order = order
        self.recall_weight = recall_weight
        self.cv = cv
        self.words = words

    def fit(self, X: Any, Y: Any, groups: Any = None, *, ids: Any = None) -> KeywordAnnotator:
        """Store the labeled items, and learn probabilities from scores.

        Parameters
        ----------
        X : (n_rows, n_columns)
        Y : the keywords of every row, a table of zeros and ones (dense or sparse) or lists of words.
            Rows may have none.
        groups : (n_rows,) hashable names, optional
            The group of each row, such as a photographer or an album: no past case is answered by rows of its group,
            so that probabilities are those for items of new groups. Queries are answered by all rows.
        ids : (n_rows,) names of the rows, strings or whole numbers, or None
            What ``annotate`` calls the neighbors by. Rows may share a name.
        """
        given = Keywords.of(Y)
        rows, keywords = rows_and_keywords(X, given if self.words is None else given.with_words(self.words))
        self._check(rows, keywords)
        if self.taxonomy is not None:
            keywords = with_implied(keywords, self.taxonomy)
        self.ids_ = as_ids(ids, len(rows))
        self.n_features_in_ = rows.shape[1]
        self.words_, self._named = keywords.words, keywords.named
        self._keywords = keywords.matrix
        self._sparse = issparse(Y)
        # Past cases and folds depend on the content of rows, not on their order.
        order = annotated_order(rows, self._keywords)
        cases = order[evenly(len(rows), max(2, min(self.most_past_cases, MOST_PAIRS // len(self.words_))))]
        past, share = csr_array(self._keywords[cases]), np.asarray(self._keywords.mean(axis=0)).ravel()
        groups = as_groups(groups, len(rows))
        folds = self._folds(order, cases, groups)
        shown, tried = self._tried(rows, folds)
        # Scorers with leave-one-out are fitted once, for past cases and for new items.
        ready = [
            one.fit(shown[one.sees_columns], self._keywords, groups) if self._leaves_out(one, groups) else None
            for one in tried.values()
        ]
        past_scores = self._past_scores(list(tried.values()), ready, shown, cases, folds, groups)
        self.choices_: ScorerChoices | None = None
        if self._columns is not None:
            self.choices_ = choose_scorers(dict(zip(tried, past_scores, strict=True)), past, share)
        self._scorers, scores, first_finder = [], [], None
        for (name, one), fitted, each in zip(tried.items(), ready, past_scores, strict=True):
            if self.choices_ is None or name in self.choices_.used:
                self._scorers.append(fitted or one.fit(shown[one.sees_columns], self._keywords, groups))
                scores += each
            if one.finds and first_finder is None:
                first_finder = fitted
        # Where no scorer that is used finds neighbors, the nearest rows are the evidence.
        self._finder = None if any(one.finds for one in self._scorers) else first_finder
        self.calibration_ = KeywordCalibration.learn(scores, past, share)
        kept = None if groups is None else groups[cases]
        self.held_out_rows_, self.held_out_proba_ = cases, self.calibration_.past(scores, past, kept)
        if self._implied is not None:
            self.held_out_proba_ = self._implied.rising(self.held_out_proba_)
        self._read_threshold(past)
        return self.set_recall_weight(self.recall_weight)

    def set_recall_weight(self, recall_weight: float | str) -> KeywordAnnotator:
        """Change the weight of recall. Only ``worth_`` is learned again; nothing is searched."""
        check_is_fitted(self, "calibration_")
        _check_recall_weight(recall_weight)
        self.recall_weight = recall_weight
        self.worth_ = None
        if self.order == "worth":
            p, n_given = self.held_out_proba_, self._n_given()
            if isinstance(recall_weight, str):
                recall_weight = best_recall_weight(p, csr_array(self._keywords[self.held_out_rows_]), n_given)
            self.worth_ = Worth.learn(p, n_given, recall_weight=recall_weight)
        return self

    def scores(self, X: Any) -> list[np.ndarray]:
        """The scores that every scorer gives to every word: a list of (n_queries, n_words)."""
        return self._ask(self._rows(X))[0]

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability that each item has each word: (n_queries, n_words)."""
        rows = self._rows(X)
        out = np.empty((len(rows), len(self.words_)))
        for part in self._parts(rows):
            out[part] = self._proba(self.scores(rows[part]))
        return out

    def predict(self, X: Any) -> Any:
        """1 for every word an item is given: (n_queries, n_words), sparse where ``Y`` was."""
        rows = self._rows(X)
        columns, starts, implied = [], [0], self._implied
        for words, _, _ in self._chosen(rows):
            words = words if implied is None else implied.with_implied(words)
            columns.append(words)
            starts.append(starts[-1] + len(words))
        shape = (len(rows), len(self.words_))
        flat = np.concatenate(columns) if columns else np.empty(0, np.int64)
        table = csr_array((np.ones(len(flat), np.int64), flat, starts), shape=shape)
        table.sort_indices()
        return table if self._sparse else table.toarray()

    def annotate(self, X: Any) -> EvidenceList[Annotation]:
        """The words of each item, best first, with probabilities and the neighbors that have them.

        With several scorers, the neighbors shown are those of the first that finds any.
        """
        return EvidenceList(self._annotation(*chosen) for chosen in self._chosen(self._rows(X)))

    def score(self, X: Any, Y: Any) -> float:
        """The F1 of mean precision and mean recall over words, as usual in image annotation.

        Words of ``Y`` go by name; those that no row had in ``fit`` cannot be given and count as missed. A table
        without names has the columns of ``words_``.
        """
        check_is_fitted(self)
        truth = Keywords.of(Y) if self.taxonomy is None else with_implied(Keywords.of(Y), self.taxonomy)
        given = Keywords(csr_array(self.predict(X)), self.words_, named=self._named and truth.named)
        return keyword_measures(truth, given)["f1"]

    # ------------------------------------------------------------ internal

    def _check(self, rows: np.ndarray, keywords: Keywords) -> None:
        check_choice("order", self.order, ORDERS)
        check_number("min_probability", self.min_probability, 0, 1)
        self._check_promise()
        _check_recall_weight(self.recall_weight)
        if isinstance(self.neighbors, str):
            check_choice("neighbors", self.neighbors, (AUTO, NEAREST), " You can also pass estimators.")
        if self.n_keywords is not None:
            check_whole("n_keywords", self.n_keywords, least=1)
        if self.cv is not None:
            check_whole("cv", self.cv, least=2, most=len(rows))
        check_n_neighbors(self.n_neighbors, np.iinfo(np.int64).max)
        if len(rows) < 2:
            raise InputError(f"Annotation needs at least 2 rows; got {len(rows)}.")
        if not keywords.matrix.nnz:
            raise InputError(f"None of the {len(rows)} rows has a keyword, so there is nothing to learn. Check Y.")

    def _check_promise(self) -> None:
        for name in ("recall", "precision"):
            share = getattr(self, name)
            if share is not None:
                check_number(name, share, 0, 1)
        if self.recall is not None and self.precision is not None:
            raise InputError("One promise at a time: recall or precision. A threshold cannot keep any two of them.")
        if self.taxonomy is not None and not isinstance(self.taxonomy, Taxonomy):
            raise InputError(f"taxonomy must be a Taxonomy, or None; got {self.taxonomy!r}.")

    def _read_threshold(self, past: csr_array) -> None:
        """The least probability of a word to give, from past items."""
        self.threshold_: float | None = None
        p, n_items = self.held_out_proba_, past.shape[0]
        if self.recall is not None:
            known = np.asarray(self._keywords.sum(axis=0)).ravel() > 1
            self.threshold_ = recall_threshold(p, past, self.recall, known)
        elif self.precision is not None:
            self.threshold_ = precision_threshold(p, past, self.precision)
        if self.threshold_ is not None and np.isinf(self.threshold_):
            name, share = ("recall", self.recall) if self.precision is None else ("precision", self.precision)
            given = "every word" if self.threshold_ < 0 else "no word"
            warnings.warn(
                f"A {name} of {share:g} cannot be promised here: no threshold keeps it on {n_items} past items, where"
                f" words that one item alone has count as not known. Each item is given {given}. Pass more items, or"
                " ask for less.",
                UserWarning,
                stacklevel=3,
            )

    def _proba(self, scores: list[np.ndarray]) -> np.ndarray:
        """The probabilities of words, which do not fall from a word to what it implies."""
        p, implied = self.calibration_.proba(scores), self._implied
        return p if implied is None else implied.rising(p)

    @property
    def _implied(self) -> ImpliedWords | None:
        return None if self.taxonomy is None else ImpliedWords.of(self.words_, self.taxonomy)

    def _rows(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "calibration_")
        return as_rows(X, width=self.n_features_in_)

    def _ask(self, rows: np.ndarray) -> tuple[list[np.ndarray], NeighborTable]:
        """The scores of all scorers, and the neighbors of the first that finds any; each searches once."""
        shown = [rows, rows if self._columns is None else self._columns.transform(rows)]
        scores: list[np.ndarray] = []
        tables: list[NeighborTable] = []
        for scorer in self._scorers:
            if scorer.finds:
                tables.append(scorer.table(shown[scorer.sees_columns]))
                scores += scorer.scores_of(tables[-1], self._keywords)
            else:
                scores += scorer.scores(shown[scorer.sees_columns], self._keywords)
        if self._finder is not None:
            tables.append(self._finder.table(shown[self._finder.sees_columns]))
        no_neighbors = NeighborTable(np.empty((len(rows), 0), np.int64), np.empty((len(rows), 0)))
        return scores, tables[0] if tables else no_neighbors

    def _tried(self, rows: np.ndarray, folds: list[Fold]) -> tuple[list[np.ndarray], dict[str, KeywordScorer]]:
        """The rows, the columns derived from them (each scorer uses one of the two), and the scorers by name."""
        self._columns = None
        if isinstance(self.neighbors, str) and self.neighbors == AUTO:
            if self.order == "score":
                raise InputError("order='score' goes by one relevance; neighbors='auto' has several. Use 'nearest'.")
            relevances = RELEVANCES if self.relevance is None else as_relevances(self.relevance)
            self._columns = KeywordColumns(self.features)
            columns = self._columns.fit_transform(rows, self._keywords)
            can_project = all(some_words(csr_array(self._keywords[others])).nnz for others, _ in folds)
            made = self._columns, columns, self._keywords, relevances, self.n_neighbors
            return [rows, columns], auto_scorers(*made, can_project=can_project)
        given = as_scorers(self.neighbors, self.relevance, self.n_neighbors, self.features)
        if self.order == "score" and sum(scorer.n_scores for scorer in given) > 1:
            raise InputError("order='score' goes by one relevance; got several. Use 'probability' or 'worth'.")
        return [rows, rows], {str(number): scorer for number, scorer in enumerate(given)}

    def _leaves_out(self, scorer: KeywordScorer, groups: np.ndarray | None) -> bool:
        return self.cv is None and scorer.leaves_out and (groups is None or not scorer.is_forest)

    def _folds(self, order: np.ndarray, cases: np.ndarray, groups: np.ndarray | None = None) -> list[Fold]:
        """Cross-validation folds: rows to learn from, and rows to answer; each of the ``cases`` is answered once."""
        n_rows = len(order)
        if self.cv is None and FOLDS * len(cases) <= n_rows and groups is None:
            return [(np.setdiff1d(order, cases), cases)]
        n_folds = min(FOLDS, n_rows) if self.cv is None else self.cv
        made = KFold(n_folds, shuffle=True, random_state=0).split(order)
        if groups is not None:
            of_order = as_met(groups[order])  # whatever their names
            n_folds = min(n_folds, int(of_order.max()) + 1)
            made = GroupKFold(n_folds, shuffle=True, random_state=0).split(order, groups=of_order)
        return [(np.sort(order[others]), np.intersect1d(order[fold], cases)) for others, fold in made]

    def _past_scores(
        self,
        tried: list[KeywordScorer],
        ready: list[KeywordScorer | None],
        shown: list[np.ndarray],
        cases: np.ndarray,
        folds: list[Fold],
        groups: np.ndarray | None,
    ) -> list[list[np.ndarray]]:
        """For each scorer the held-out scores of the past ``cases``: one (n_cases, n_words) per relevance."""
        shape = (len(cases), len(self.words_))
        scores = [
            fitted.left_out_scores(cases, self._keywords, groups)
            if fitted
            else [np.empty(shape) for _ in range(one.n_scores)]
            for one, fitted in zip(tried, ready, strict=True)
        ]
        in_folds = [(one, out) for one, fitted, out in zip(tried, ready, scores, strict=True) if fitted is None]
        by_number = np.argsort(cases)
        for others, queries in folds if in_folds else ():
            keywords = csr_array(self._keywords[others])
            place = by_number[np.searchsorted(cases, queries, sorter=by_number)]
            for one, out in in_folds:
                rows = shown[one.sees_columns]
                of_others = None if groups is None else groups[others]
                fold_scores = one.fit(rows[others], keywords, of_others).scores(rows[queries], keywords)
                for every, some in zip(out, fold_scores, strict=True):
                    every[place] = some
        return scores

    def _n_given(self) -> int:
        return len(self.words_) if self.n_keywords is None else min(self.n_keywords, len(self.words_))

    def _parts(self, rows: np.ndarray) -> Iterator[slice]:
        n_arrays = sum(scorer.n_scores for scorer in self._scorers)
        return row_blocks(len(rows), row_bytes=8 * len(self.words_) * (4 * n_arrays + 4))

    def _chosen(self, rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, NeighborTable]]:
        """For every item the words it is given, best first, the probabilities of all words, and its neighbors."""
        implied = self._implied
        needs_half = self.min_probability == 0 and (self.n_keywords is None or implied is not None)
        least, n_given = 0.5 if needs_half else self.min_probability, self._n_given()
        if self.threshold_ is not None:
            least, n_given = self.threshold_, len(self.words_)
        for part in self._parts(rows):
            scores, table = self._ask(rows[part])
            p = self._proba(scores)
            order = p
            if self.order == "score":
                order = scores[0]
            elif self.order == "worth" and self.worth_ is not None:
                order = self.worth_.scores(p)
            for i, words in enumerate(most(order, n_given if implied is None else len(self.words_))):
                words = words[p[i, words] >= least]
                if implied is not None:
                    words = implied.most_specific(words)[:n_given]
                yield words, p[i], table[i : i + 1]

    def _annotation(self, words: np.ndarray, p: np.ndarray, table: NeighborTable) -> Annotation:
        exists = table.indices[0] >= 0
        near = table.indices[0][exists]
        has = self._keywords[near][:, words].toarray() > 0
        return Annotation(
            words=self.words_[words].tolist(),
            probabilities=p[words].tolist(),
            neighbors=near,
            distances=table.distances[0][exists],
            given_by=[near[column].tolist() for column in has.T],
            ids=names_of(near, self.ids_),
        )


def _check_recall_weight(given: Any) -> None:
    if not (isinstance(given, str) and given == AUTO):
        check_number("recall_weight", given, 0, otherwise=', or "auto"')
