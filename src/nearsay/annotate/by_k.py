"""Quality of keywords by number of neighbors: one search for every k."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.model_selection import KFold

from nearsay.annotate.scorers.keyword_scorers import as_score
from nearsay.annotate.word_selection import as_table, most
from nearsay.core.settings import check_estimator, check_randomness, check_whole
from nearsay.data.keywords import Keywords, annotated_order, rows_and_keywords
from nearsay.errors import InputError
from nearsay.metrics.keywords import keyword_measures
from nearsay.neighbors.table import NeighborTable


def measures_by_k(
    table: NeighborTable, known: Any, Y: Any, ks: Iterable[int], *, relevance: Any = "prior", n_keywords: int = 5
) -> list[dict[str, float]]:
    """``keyword_measures`` of the votes of the first k neighbors of a table, for several k.

    Parameters
    ----------
    table : the neighbors of the queries, the largest k of them.
    known : the keywords of the rows they were found among.
    Y : the keywords of the queries. Words go by name, as in ``keyword_measures``; one that no row has is never given.
    ks : numbers of neighbors.
    relevance : how neighbors vote for keywords; a name or a ``Relevance``.
    n_keywords : words that every query gets.

    Returns
    -------
    One dict for each k: ``k``, and what ``keyword_measures`` gives.

    The nearest neighbor of the query has its word, the next two have another:

    >>> table = NeighborTable(np.array([[0, 1, 2]]), np.array([[1.0, 2.0, 3.0]]))
    >>> rows = measures_by_k(table, [[1, 0], [0, 1], [0, 1]], [[1, 0]], [1, 3], relevance="count", n_keywords=1)
    >>> [(row["k"], row["recall"]) for row in rows]
    [(1, 1.0), (3, 0.0)]
    """
    if not isinstance(table, NeighborTable):
        raise InputError(f"table must be a NeighborTable, as nearest or an index gives it; got {table!r}.")
    score, rows, truth = as_score(relevance), Keywords.of(known), Keywords.of(Y)
    check_whole("n_keywords", n_keywords, least=1, most=len(rows.words))
    measures = []
    for k in _as_numbers(ks):
        words = most(score(table.first(k), rows.matrix), n_keywords)
        predicted = replace(rows, matrix=as_table(words, len(rows.words)))
        measures.append({"k": k, **keyword_measures(truth, predicted)})
    return measures


def cross_validated_by_k(
    neighbors: Any,
    X: Any,
    Y: Any,
    ks: Iterable[int],
    *,
    relevance: Any = "prior",
    n_keywords: int = 5,
    cv: int = 5,
    random_state: int | None = 0,
) -> list[dict[str, float]]:
    """The same by cross-validation: each row is queried once, by an estimator fitted without its fold.

    Neighbors are learned and searched once a fold, with the largest k. The measures are those of all rows together.

    >>> from nearsay.annotate.scorers.joint_neighbors import JointNeighbors
    >>> X, Y = [[0], [1], [2], [10], [11], [12]], [["cat"]] * 3 + [["dog"]] * 3
    >>> rows = cross_validated_by_k(JointNeighbors(), X, Y, [1, 4], relevance="count", n_keywords=1, cv=3)
    >>> [(row["k"], round(row["f1"], 2)) for row in rows]
    [(1, 1.0), (4, 0.14)]
    """
    check_estimator("neighbors", neighbors, "fit", "neighbors")
    rows, keywords = rows_and_keywords(X, Y)
    order = annotated_order(rows, keywords.matrix)  # folds are drawn by place, in this order
    rows, keywords = rows[order], replace(keywords, matrix=csr_array(keywords.matrix[order]))
    ks = sorted(set(_as_numbers(ks)))
    check_whole("cv", cv, least=2, most=len(rows))
    check_whole("n_keywords", n_keywords, least=1, most=len(keywords.words))
    score = as_score(relevance)
    given = {k: np.empty((len(rows), n_keywords), np.int64) for k in ks}
    for others, fold in KFold(cv, shuffle=True, random_state=check_randomness(random_state)).split(rows):
        known = csr_array(keywords.matrix[others])
        table = clone(neighbors).fit(rows[others], known).neighbors(rows[fold], ks[-1])
        for k, words in given.items():
            words[fold] = most(score(table.first(k), known), n_keywords)
    n_words = len(keywords.words)
    return [{"k": k, **keyword_measures(keywords.matrix, as_table(words, n_words))} for k, words in given.items()]


def _as_numbers(ks: Any) -> list[int]:
    numbers = list(ks) if isinstance(ks, Iterable) else [ks]
    for k in numbers:
        check_whole("A number of neighbors", k, least=1)
    if not numbers:
        raise InputError("No number of neighbors given: pass some, such as [5, 10, 20].")
    return [int(k) for k in numbers]
