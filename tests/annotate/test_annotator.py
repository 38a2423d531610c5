"""Keywords from neighbors, end to end: against a plain loop, in every form, with evidence, in folds, on bad input."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV

from nearsay.annotate.annotator import KeywordAnnotator
from nearsay.annotate.scorers.joint_neighbors import JointNeighbors
from nearsay.annotate.scorers.regression import KeywordRegression
from nearsay.annotate.scorers.transformed_neighbors import TransformedNeighbors
from nearsay.annotate.scorers.two_pass_neighbors import TwoPassNeighbors
from nearsay.core.parallel import threads
from nearsay.errors import InputError
from nearsay.learn.keyword_projection import KeywordProjection
from nearsay.learn.rank_boost import RankBoostNeighbors
from tests.reference.annotate import keywords as reference

WORDS = ["bear", "sky", "sun", "tree"]


def photos(n_rows=60, seed=0):
    """Rows in four corners; a corner has a word of its own, and some of its rows the next one's too."""
    random = np.random.default_rng(seed)
    corner = random.integers(0, 4, n_rows)
    X = np.column_stack([corner // 2, corner % 2]) * 4 + random.normal(0, 1, (n_rows, 2))
    Y = np.eye(4, dtype=int)[corner]
    also = random.random(n_rows) < 0.4
    Y[also, (corner[also] + 1) % 4] = 1
    return X.round(2), Y


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sets(st.sampled_from(WORDS))), min_size=3, max_size=8),
    st.lists(st.integers(0, 3), min_size=1, max_size=3),
    st.integers(1, 3),
    st.integers(1, 4),
)
def test_words_by_score_equal_the_loop(items, queries, k, n_keywords):
    if not any(words for _, words in items):
        return
    X = [[float(place)] for place, _ in items]
    Y = np.array([[int(word in words) for word in WORDS] for _, words in items])
    settings = {"n_neighbors": k, "n_keywords": n_keywords}
    annotator = KeywordAnnotator("nearest", relevance="prior", order="score", **settings).fit(X, Y)
    given = annotator.predict([[float(query)] for query in queries])
    for query, said in zip(queries, given, strict=True):
        nearest = sorted(range(len(X)), key=lambda i: (abs(X[i][0] - query), i))[:k]
        scores = [sum(Y[i, w] for i in nearest) - k * Y[:, w].mean() for w in range(4)]
        chosen = sorted((scores[w] for w in np.flatnonzero(said)), reverse=True)
        assert chosen == pytest.approx(sorted(scores, reverse=True)[:n_keywords])  # which of equal ones is rounding


@pytest.mark.parametrize("order", ["probability", "worth"])
def test_answers_are_the_same_in_whatever_form_keywords_come(order):
    X, Y = photos()
    lists = [[WORDS[w] for w in np.flatnonzero(row)] for row in Y]
    forms = [Y, csr_array(Y), pd.DataFrame(Y, columns=WORDS), lists]
    fitted = [KeywordAnnotator("nearest", n_keywords=2, order=order).fit(X, form) for form in forms]
    for annotator in fitted[1:]:
        np.testing.assert_array_equal(annotator.predict_proba(X[:9]), fitted[0].predict_proba(X[:9]))
    assert issparse(fitted[1].predict(X[:9]))
    np.testing.assert_array_equal(fitted[1].predict(X[:9]).toarray(), fitted[0].predict(X[:9]))
    assert fitted[3].words_.tolist() == WORDS
    assert fitted[2].annotate(X[:1])[0].words == fitted[3].annotate(X[:1])[0].words


SPEAKERS = {
    "auto": "auto",
    "nearest": "nearest",
    "euclidean": None,
    "two pass": TwoPassNeighbors(),
    "ranking": RankBoostNeighbors({"x": slice(0, 1), "y": slice(1, 2)}, max_iter=5),
    "projected": TransformedNeighbors(KeywordProjection(2)),
    "regression": KeywordRegression(),
    "several": [(JointNeighbors(), ["prior", "distance"]), KeywordRegression(), (JointNeighbors(), "transfer")],
    "named": {"near": JointNeighbors(), "told": KeywordRegression()},
}


@pytest.mark.slow
@pytest.mark.parametrize("neighbors", SPEAKERS.values(), ids=SPEAKERS)
def test_whoever_speaks_is_right_more_often_than_chance_and_alike_in_any_batch(neighbors):
    X, Y = photos()
    Q, truth = photos(seed=1)
    annotator = KeywordAnnotator(neighbors, n_neighbors=8, n_keywords=1).fit(X, Y)
    p = annotator.predict_proba(Q)
    assert ((p > 0) & (p < 1)).all()
    assert (truth * annotator.predict(Q)).sum() > 0.8 * len(Q)
    loss = -(truth * np.log(p) + (1 - truth) * np.log(1 - p)).mean()
    share = Y.mean(axis=0)
    assert loss < 0.8 * -(truth * np.log(share) + (1 - truth) * np.log(1 - share)).mean()
    with threads(1):
        one_by_one = np.vstack([annotator.predict_proba(Q[i : i + 1]) for i in range(len(Q))])
    np.testing.assert_allclose(one_by_one, p, atol=1e-12)


def test_words_are_given_with_the_neighbors_that_have_them():
    X, Y = photos()
    annotator = KeywordAnnotator("nearest", n_neighbors=7, n_keywords=3).fit(X, Y)
    p = annotator.predict_proba(X[:5])
    for item, answer in enumerate(annotator.annotate(X[:5])):
        assert answer.probabilities == sorted(answer.probabilities, reverse=True)
        assert answer.probabilities == p[item, answer.words].tolist()
        nearest = np.argsort(((X - X[item]) ** 2).sum(axis=1), kind="stable")[:7]
        np.testing.assert_array_equal(np.sort(answer.neighbors), np.sort(nearest))
        for word, rows in zip(answer.words, answer.given_by, strict=True):
            assert rows == [row for row in answer.neighbors.tolist() if Y[row, word]]
        assert len(str(answer).splitlines()) == 3
        shown = [re.findall(r"<td>(.*?)</td>", line) for line in answer._repr_html_().split("<tr>")[2:]]
        known = zip(answer.words, answer.probabilities, strict=True)
        assert [line[:2] for line in shown] == [[str(word), f"{100 * p:.0f} %"] for word, p in known]


class Counted(JointNeighbors):
    """Counts, over all its copies, how often it searches."""

    searches: list = []  # noqa: RUF012

    def neighbors(self, X, k):
        self.searches.append(len(X))
        return super().neighbors(X, k)


def test_an_answer_and_its_evidence_come_from_one_search():
    X, Y = photos()
    annotator = KeywordAnnotator([KeywordRegression(), Counted(), (JointNeighbors(), "count")]).fit(X, Y)
    Counted.searches.clear()
    answers = annotator.annotate(X[:4])
    assert Counted.searches == [4]
    assert [answer.neighbors[0] for answer in answers] == [0, 1, 2, 3]


def test_confidence_can_choose_how_many_words():
    X, Y = photos()
    Q, truth = photos(seed=1)
    likely = KeywordAnnotator("nearest", n_keywords=None).fit(X, Y)
    np.testing.assert_array_equal(likely.predict(Q), (likely.predict_proba(Q) >= 0.5).astype(int))
    sure = KeywordAnnotator("nearest", n_keywords=2, min_probability=0.9).fit(X, Y)
    given = sure.predict(Q)
    assert given.sum(axis=1).max() <= 2
    assert (given <= (sure.predict_proba(Q) >= 0.9)).all()
    assert (truth * given).sum() / given.sum() > 0.8


def test_worth_gives_rare_words_more_often():
    X, Y = photos(400)
    Y[:, 3] *= np.arange(400) % 5 == 0
    by_worth, by_probability = (
        KeywordAnnotator("nearest", n_keywords=1, order=order, recall_weight=2.0).fit(X, Y).predict(X)
        for order in ("worth", "probability")
    )
    assert by_worth[:, 3].sum() > by_probability[:, 3].sum()


def test_recall_is_weighed_anew_without_fitting_again():
    X, Y = photos(200)
    Y[:, 3] *= np.arange(200) % 5 == 0
    annotator = KeywordAnnotator("nearest", n_keywords=1, order="worth").fit(X, Y)
    afresh = KeywordAnnotator("nearest", n_keywords=1, order="worth", recall_weight=3.0).fit(X, Y)
    np.testing.assert_array_equal(annotator.set_recall_weight(3.0).predict(X), afresh.predict(X))
    assert annotator.get_params()["recall_weight"] == 3.0
    assert annotator.held_out_proba_.shape == (200, 4)


class Spy(BaseEstimator):
    """A scorer that remembers, over all its copies, what it was fitted on and asked."""

    seen: list = []  # noqa: RUF012

    def fit(self, X, Y):
        self.known_ = set(X[:, 0].tolist())
        self.n_words_ = Y.shape[1]
        return self

    def scores(self, X):
        self.seen.append((self.known_, set(X[:, 0].tolist())))
        return np.tile(np.arange(self.n_words_), (len(X), 1))


@pytest.mark.parametrize(("cv", "n_groups", "n_folds"), [(None, None, 5), (3, None, 3), (None, 10, 5), (None, 2, 2)])
def test_probabilities_are_learned_from_rows_that_had_no_part_in_their_scores(cv, n_groups, n_folds):
    X, Y = np.arange(30.0)[:, None], np.eye(2, dtype=int)[np.arange(30) % 2]
    groups = None if n_groups is None else np.arange(30) % n_groups
    Spy.seen.clear()
    KeywordAnnotator(Spy(), cv=cv).fit(X, Y, groups=groups)
    if groups is not None:
        assert not any({x % n_groups for x in known} & {x % n_groups for x in asked} for known, asked in Spy.seen)
    assert len(Spy.seen) == n_folds
    assert not any(known & asked for known, asked in Spy.seen)
    assert set.union(*(asked for _, asked in Spy.seen)) == set(X[:, 0].tolist())


def test_odd_but_legal_keywords_are_taken():
    X, Y = photos()
    Y[:5] = 0  # rows without keywords
    Y[:, 2] = 0  # a word that no row has
    Y[:, 3] = 1  # and one that all have
    annotator = KeywordAnnotator("nearest", n_keywords=9, cv=4).fit(X, Y)
    p = annotator.predict_proba(X)
    assert np.isfinite(p).all()
    assert p[:, 2].max() < 0.2 < 0.8 < p[:, 3].min()
    assert annotator.predict(X).sum(axis=1).tolist() == [4] * len(X)
    assert KeywordAnnotator("nearest").fit([[0.0], [1.0]], [["sky"], ["sky"]]).annotate([[0.5]])[0].words == ["sky"]
    assert annotator.predict(X[:0]).shape == (0, 4)
    assert annotator.annotate(X[:0]) == []


@pytest.mark.slow
def test_tens_of_thousands_of_words_are_annotated_in_little_memory():
    random = np.random.default_rng(0)
    X = random.random((300, 3))
    words = random.integers(0, 30_000, (300, 4))
    words[:, 0] = np.where(X[:, 0] < 0.5, 7, 29_999)
    Y = csr_array((np.ones(1200), (np.repeat(np.arange(300), 4), words.ravel())), shape=(300, 30_000))
    Y.sum_duplicates()
    Y.data[:] = 1
    annotator = KeywordAnnotator("nearest", n_keywords=3, relevance="count").fit(X, Y)
    given = annotator.predict([[0.2, 0.5, 0.5], [0.8, 0.5, 0.5]])
    assert given.nnz == 6
    assert given[0, 7] == given[1, 29_999] == 1


def test_it_can_be_cloned_searched_over_and_scored():
    X, Y = photos()
    annotator = KeywordAnnotator("nearest", n_keywords=2)
    assert clone(annotator).get_params()["n_keywords"] == 2
    assert KeywordAnnotator().neighbors == "auto"
    found = GridSearchCV(annotator, {"n_neighbors": [1, 10]}, cv=3).fit(X, Y)
    assert found.best_params_["n_neighbors"] in (1, 10)
    lists = [[WORDS[w] for w in np.flatnonzero(row)] for row in Y]
    fitted = annotator.fit(X, lists)
    said = [{WORDS[w] for w in np.flatnonzero(row)} for row in fitted.predict(X)]
    assert fitted.score(X, lists) == pytest.approx(reference.measures([set(w) for w in lists], said, WORDS)["f1"])


@pytest.mark.parametrize(
    ("settings", "X", "Y", "words"),
    [
        ({}, [[0.0], [1.0]], [[], []], "None of the 2 rows has a keyword"),
        ({}, [[0.0], [1.0]], np.zeros((2, 0)), "None of the 2 rows has a keyword"),
        ({}, [[0.0]], [["sky"]], "at least 2 rows; got 1"),
        ({}, [[0.0], [1.0]], [["sky"]], "every row needs its keywords"),
        ({"order": "best"}, [[0.0], [1.0]], [["a"], ["b"]], "Unknown order 'best'"),
        ({"relevance": "votes"}, [[0.0], [1.0]], [["a"], ["b"]], "Unknown relevance 'votes'"),
        ({"n_keywords": 0}, [[0.0], [1.0]], [["a"], ["b"]], "n_keywords must be a whole number of at least 1; got 0"),
        (
            {"min_probability": 2},
            [[0.0], [1.0]],
            [["a"], ["b"]],
            r"min_probability must be a number in the range \[0, 1\]; got 2",
        ),
        ({"cv": 1}, [[0.0], [1.0]], [["a"], ["b"]], "cv must be a whole number from 2 to 2; got 1"),
        ({"n_neighbors": 0}, [[0.0], [1.0]], [["a"], ["b"]], "at least 1; got 0"),
        ({"neighbors": 3}, [[0.0], [1.0]], [["a"], ["b"]], r"needs fit\(X, Y\).*got 3"),
        ({"neighbors": KeywordProjection()}, [[0.0], [1.0]], [["a"], ["b"]], "neither neighbors"),
        ({"neighbors": (JointNeighbors(), [])}, [[0.0], [1.0]], [["a"], ["b"]], "an empty list of relevances"),
        ({"neighbors": "knn"}, [[0.0], [1.0]], [["a"], ["b"]], "Unknown neighbors 'knn'.*You can also pass estimators"),
        ({"order": "score"}, [[0.0], [1.0]], [["a"], ["b"]], "neighbors='auto' has several. Use 'nearest'"),
        (
            {"recall_weight": "best"},
            [[0.0], [1.0]],
            [["a"], ["b"]],
            "recall_weight must be a number.*or \"auto\"; got 'best'",
        ),
        (
            {"neighbors": JointNeighbors(), "features": {"x": slice(0, 1)}},
            [[0.0], [1.0]],
            [["a"], ["b"]],
            "features is for neighbors='auto'",
        ),
        ({"order": "score", "neighbors": [None, None]}, [[0.0], [1.0]], [["a"], ["b"]], r"needs fit\(X, Y\)"),
        (
            {"order": "score", "neighbors": (JointNeighbors(), ["prior", "count"])},
            [[0.0], [1.0]],
            [["a"], ["b"]],
            "goes by one relevance; got several",
        ),
    ],
)
def test_bad_input_is_said(settings, X, Y, words):
    with pytest.raises(InputError, match=words):
        KeywordAnnotator(**settings).fit(X, Y)


def test_words_never_seen_count_as_missed():
    X, Y = photos()
    annotator = KeywordAnnotator("nearest").fit(X, [[WORDS[w] for w in np.flatnonzero(row)] for row in Y])
    truth = [["sky"], ["moon"], ["moon", "sun"]]
    said = [{WORDS[w] for w in np.flatnonzero(row)} for row in annotator.predict(X[:3])]
    expected = reference.measures([set(words) for words in truth], said, [*WORDS, "moon"])["f1"]
    assert annotator.score(X[:3], truth) == pytest.approx(expected)


def test_a_table_of_other_words_than_those_learned_is_refused():
    X, Y = photos()
    by_name = KeywordAnnotator("nearest").fit(X, [[WORDS[w] for w in np.flatnonzero(row)] for row in Y])
    with pytest.raises(InputError, match="got 3 and 4"):
        by_name.score(X[:1], [[0, 1, 0]])
    with pytest.raises(InputError, match=r"One has words \(such as 'moon'\)"):
        KeywordAnnotator("nearest").fit(X, Y).score(X[:2], [["sky"], ["moon"]])
