"""Keywords by a forest: the rows that share leaves with an item vote, by trees grown without it for past cases."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.ensemble import RandomForestRegressor

from nearsay.annotate.annotator import KeywordAnnotator
from nearsay.annotate.auto_scorers import auto_scorers
from nearsay.annotate.scorers.keyword_forest import KeywordForest
from nearsay.data.keywords import annotated_order, rows_and_keywords
from nearsay.learn.linear_map import distinct_columns
from tests.reference import forest as reference
from tests.saving import saved_and_opened


def moods(n=150, seed=0):
    """Words by thresholds on a few of eight columns, which neither lines nor near rows see well."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 8))
    Y = np.column_stack([X[:, 0] * X[:, 1] > 0, X[:, 2] > 0.5, (X[:, 3] > 0) & (X[:, 4] < 0)])
    return X, Y.astype(int)


@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=5, max_size=12),
    words=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=12, max_size=12),
)
@settings(max_examples=20, deadline=None)
def test_scores_are_the_votes_of_the_rows_in_the_leaves(rows, words):
    X, Y = np.array(rows, float), np.array(words[: len(rows)])
    Y[0] = 1
    forest = KeywordForest(n_trees=7).fit(X, Y)
    checked, keywords = rows_and_keywords(X, Y)
    order = annotated_order(checked[:, distinct_columns(checked)], keywords.matrix)
    columns = forest._columns(X[order])
    trees = reference.forest(columns, [np.flatnonzero(words).tolist() for words in Y[order]], 7)
    scores, past = forest.scores(X), forest.out_of_bag_scores(np.arange(len(X)))
    for place, row in enumerate(order):
        for p, case in ((scores[row], None), (past[row], place)):
            weights = reference.forest_weights(trees, len(X), columns[place], case)
            total = weights.sum() or 1.0
            assert_allclose(p, weights @ Y[order] / total, atol=1e-12)


@pytest.mark.parametrize("column", range(8))
def test_a_forest_of_one_column_is_that_of_scikit_learn(column):
    X, Y = moods()
    X = np.sort(X[:, [column]], axis=0)
    forest = KeywordForest(n_trees=30).fit(X, Y)
    order = forest._row
    theirs = RandomForestRegressor(30, random_state=0).fit(forest._columns(X)[order], Y[order])
    assert_allclose(forest.scores(X), theirs.predict(forest._columns(X)), atol=1e-12)


def test_past_cases_do_not_know_their_own_words():
    random = np.random.default_rng(0)
    X, Y = random.normal(size=(200, 5)), random.integers(0, 2, (200, 3))  # nothing to learn
    forest = KeywordForest(n_trees=50).fit(X, Y)
    assert ((forest.scores(X) > 0.5) == Y).mean() > 0.95
    assert ((forest.out_of_bag_scores(np.arange(200)) > 0.5) == Y).mean() < 0.6
    some = np.array([7, 3, 100])
    assert_array_equal(forest.out_of_bag_scores(some), forest.out_of_bag_scores(np.arange(200))[some])


def test_neither_the_order_of_rows_nor_useless_columns_change_a_score():
    X, Y = moods()
    Q = moods(20, 1)[0]
    scores = KeywordForest(n_trees=10).fit(X, Y).scores(Q)
    order = np.random.default_rng(0).permutation(len(X))
    assert_array_equal(KeywordForest(n_trees=10).fit(X[order], Y[order]).scores(Q), scores)
    wide, wide_queries = (np.column_stack([rows, np.full(len(rows), 7.0), rows[:, 0]]) for rows in (X, Q))
    assert_array_equal(KeywordForest(n_trees=10).fit(wide, Y).scores(wide_queries), scores)


@pytest.mark.slow
@pytest.mark.parametrize("grouped", [False, True])
def test_the_default_takes_a_forest_where_it_helps(grouped):
    X, Y = moods(300)
    annotator = KeywordAnnotator().fit(X, Y, groups=np.arange(300) // 2 if grouped else None)
    assert "forest" in annotator.choices_.used
    Q, truth = moods(300, 1)
    p = annotator.predict_proba(Q)
    assert -np.log(np.where(truth == 1, p, 1 - p)).mean() < 0.55
    again = saved_and_opened(annotator)
    assert_array_equal(again.predict_proba(Q), p)


@pytest.mark.parametrize(
    ("n_rows", "n_words", "is_grown"), [(19, 2, False), (20, 2, True), (2**5, 2**15, True), (2**5 + 1, 2**15, False)]
)
def test_a_forest_is_grown_of_twenty_rows_and_up_to_a_million_annotations(n_rows, n_words, is_grown):
    keywords = csr_array(np.ones((n_rows, n_words)))
    no_blocks = SimpleNamespace(blocks_={}, others_=())  # for nothing else to be fitted
    scorers = auto_scorers(no_blocks, np.empty((n_rows, 0)), keywords, ("distance",), 5, can_project=False)
    assert list(scorers) == ["forest"] * is_grown
