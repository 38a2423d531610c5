"""Words go by name wherever keywords are held against others; what cannot be matched is refused."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

import nearsay as ns
from nearsay.data.keywords import Keywords
from nearsay.errors import InputError
from tests.reference.annotate import keywords as reference

WORDS = ["bear", "sky", "sun", "tree"]
words = st.sets(st.sampled_from(WORDS))
pairs = st.lists(st.tuples(words, words), min_size=1, max_size=7)
orders = st.permutations(WORDS)


def frame(keywords: list[set[str]], columns: list[str]) -> pd.DataFrame:
    return pd.DataFrame([[int(word in given) for word in columns] for given in keywords], columns=list(columns))


def occurring(*sides: list[set[str]]) -> list[str]:
    return sorted(set().union(*(given for side in sides for given in side)))


def measures(true: list[set[str]], said: list[set[str]], over: list[str]) -> dict[str, float]:
    return (
        reference.measures(true, said, over) if over else dict.fromkeys(ns.metrics.keyword_measures([[1]], [[1]]), 0.0)
    )


# ---------------------------------------------------------------- measures


@given(pairs)
def test_lists_are_measured_over_the_words_of_both_sides(items):
    true, said = [t for t, _ in items], [s for _, s in items]
    found = ns.metrics.keyword_measures([sorted(t) for t in true], [sorted(s, reverse=True) for s in said])
    assert found == pytest.approx(measures(true, said, occurring(true, said)), abs=1e-12)


@given(pairs, orders, orders)
def test_columns_of_frames_may_come_in_any_order(items, one, other):
    true, said = [t for t, _ in items], [s for _, s in items]
    expected = pytest.approx(reference.measures(true, said, WORDS), abs=1e-12)
    assert ns.metrics.keyword_measures(frame(true, one), frame(said, other)) == expected
    assert ns.metrics.keyword_measures(frame(true, one), [list(s) for s in said]) == expected
    assert ns.metrics.keyword_measures([list(t) for t in true], frame(said, other)) == expected


@given(pairs, st.integers(1, 3))
def test_a_word_that_one_side_has_no_column_for_is_never_given_or_never_right(items, kept):
    true, said = [t for t, _ in items], [s for _, s in items]
    expected = reference.measures(true, [s & set(WORDS[:kept]) for s in said], WORDS)
    assert ns.metrics.keyword_measures(frame(true, WORDS), frame(said, WORDS[:kept])) == pytest.approx(
        expected, abs=1e-12
    )


@given(pairs, orders)
def test_scores_of_frames_go_by_name(items, order):
    true = [t for t, _ in items]
    score = pd.DataFrame([[len(s) + len(word) for word in WORDS] for _, s in items], columns=WORDS)
    asked = occurring(true)
    each = [reference.average_precision([word in t for t in true], score[word].tolist()) for word in asked]
    expected = pytest.approx(sum(each) / len(each) if each else 0.0, abs=1e-12)
    assert ns.metrics.mean_average_precision([list(t) for t in true], score[order]) == expected
    assert ns.metrics.mean_average_precision(frame(true, WORDS), score[order]) == expected
    assert ns.metrics.mean_average_precision(frame(true, WORDS).to_numpy(), score.to_numpy()) == expected


def test_words_that_differ_are_all_wrong():
    found = ns.metrics.keyword_measures([["a"], ["b"]], [["x"], ["y"]])
    assert set(found.values()) == {0}


def test_frames_without_names_go_by_position():
    table = np.array([[1, 0], [0, 1]])
    for form in (pd.DataFrame(table), csr_array(table), table.tolist()):
        assert ns.metrics.keyword_measures(table, form)["f1"] == 1.0


TABLE, NAMED, LISTS = np.eye(2), pd.DataFrame(np.eye(2), columns=["a", "b"]), [["a"], ["b"]]


@pytest.mark.parametrize(
    ("work", "says"),
    [
        (
            lambda: ns.metrics.keyword_measures(LISTS, TABLE),
            r"One has words \(such as 'a'\), the other is a table",
        ),
        (lambda: ns.metrics.keyword_measures(TABLE, LISTS), "One has words"),
        (lambda: ns.metrics.keyword_measures(NAMED, TABLE), "One has words"),
        (lambda: ns.metrics.keyword_measures(csr_array(TABLE), NAMED), "One has words"),
        (lambda: ns.metrics.keyword_measures(LISTS, LISTS[:1]), "got 2 and 1"),
        (lambda: ns.metrics.keyword_measures(TABLE, np.ones((2, 3))), "got 2 and 3"),
        (lambda: ns.metrics.keyword_measures(TABLE[:0], TABLE[:0]), "No items"),
        (lambda: ns.metrics.keyword_measures(TABLE * np.nan, TABLE), "zeros and ones; got nan"),
        (lambda: ns.metrics.keyword_measures(NAMED, NAMED.replace(1, np.nan)), "zeros and ones; got nan"),
        (
            lambda: ns.metrics.keyword_measures(NAMED.set_axis(["a", "a"], axis=1), LISTS),
            "Two columns .* are named 'a'",
        ),
        (
            lambda: ns.metrics.keyword_measures(NAMED.astype(object).replace(1, "x"), NAMED),
            "a column of zeros and ones",
        ),
        (lambda: ns.metrics.keyword_measures(None, LISTS), "a list of words for every item, .* got None"),
        (lambda: ns.metrics.keyword_measures("sky", LISTS), "a list of words for every item, .* got 'sky'"),
        (lambda: ns.metrics.keyword_measures([[["a"]], [["b"]]], LISTS), r"got \[\['a'\]\] for item 0"),
        (lambda: ns.metrics.mean_average_precision(LISTS, TABLE), "One has words"),
        (lambda: ns.metrics.mean_average_precision(TABLE, NAMED), "One has words"),
        (lambda: ns.metrics.mean_average_precision(LISTS, NAMED[["a"]]), "no column for 1 of the words, such as 'b'"),
        (lambda: ns.metrics.mean_average_precision(TABLE, [[1.0, np.nan], [0, 0]]), "NaN at row 0, column 1"),
        (lambda: ns.metrics.mean_average_precision(NAMED, NAMED.replace(1, np.nan)), "NaN at row 0, column 0"),
        (lambda: ns.metrics.mean_average_precision(TABLE, [["x", "y"], ["z", "w"]]), "scores must be numbers"),
        (lambda: ns.metrics.mean_average_precision(TABLE, [1.0, 2.0]), "shape of Y_true"),
        (lambda: ns.metrics.mean_average_precision(TABLE, csr_array(TABLE)), "scores must be numbers"),
    ],
)
def test_what_cannot_be_matched_is_refused(work, says):
    with pytest.raises(InputError, match=says):
        work()


def test_tables_that_were_passed_are_not_written_to():
    table = csr_array((np.array([1.0, 0.0, 1.0]), np.array([1, 0, 0]), np.array([0, 2, 3])), shape=(2, 2))
    before = [part.copy() for part in (table.data, table.indices, table.indptr)]
    Keywords.of(table)
    for part, was in zip((table.data, table.indices, table.indptr), before, strict=True):
        np.testing.assert_array_equal(part, was)


# ---------------------------------------------------------------- by the number of neighbors


@given(st.integers(0, 10**6), st.integers(1, 2), orders)
def test_known_keywords_and_those_of_queries_are_matched_by_name(seed, n_keywords, order):
    random = np.random.default_rng(seed)
    known = [{word for word in WORDS[:3] if random.random() < 0.5} | {"bear", "sky"} for _ in range(6)]
    truth = [{word for word in WORDS[1:] if random.random() < 0.5} for _ in range(4)]
    table = ns.nearest(random.integers(0, 4, (6, 2)), random.integers(0, 4, (4, 2)), 5)
    columns = [word for word in order if word in occurring(known)]
    forms = [([sorted(k) for k in known], occurring(known)), (frame(known, columns), columns)]
    for given_known, ties in forms:
        rows = ns.annotate.measures_by_k(
            table, given_known, [list(t) for t in truth], [1, 5], relevance="count", n_keywords=n_keywords
        )
        for row, k in zip(rows, (1, 5), strict=True):
            votes = [{w: sum(w in known[i] for i in near[:k]) for w in ties} for near in table.indices]
            said = [set(sorted(ties, key=lambda w: -vote[w])[:n_keywords]) for vote in votes]
            over = [*ties, *(w for w in occurring(truth) if w not in ties)]
            assert row == pytest.approx({"k": k, **reference.measures(truth, said, over)})


def test_known_keywords_without_names_do_not_match_words():
    table = ns.nearest([[0.0], [1.0]], [[0.2]], 2)
    with pytest.raises(InputError, match="One has words"):
        ns.annotate.measures_by_k(table, [[1, 0], [0, 1]], [["a"]], [1], n_keywords=1)
    with pytest.raises(InputError, match="got 1 and 2"):
        ns.annotate.measures_by_k(table, [[1, 0], [0, 1]], [[1]], [1], n_keywords=1)


@pytest.mark.parametrize("ks", [[1.5], ["a"], [True], [None], [0], "ab", None])
def test_numbers_of_neighbors_are_whole(ks):
    table = ns.nearest([[0.0], [1.0]], [[0.2]], 2)
    with pytest.raises(InputError, match="whole number of at least 1"):
        ns.annotate.measures_by_k(table, [["a"], ["b"]], [["a"]], ks, n_keywords=1)
    with pytest.raises(InputError, match="whole number of at least 1"):
        ns.annotate.cross_validated_by_k(ns.annotate.JointNeighbors(), np.eye(4), [["a"], ["b"]] * 2, ks, n_keywords=1)


# ---------------------------------------------------------------- scores of an annotator


def rows_with_rare_words() -> tuple[np.ndarray, list[list[str]]]:
    """Every fold has a word that no other fold has."""
    X = np.random.default_rng(0).normal(size=(30, 3))
    return X, [
        ["sky"] * (x[0] > 0) + ["sun"] * (x[1] > 0) + [f"rare {i}"] * (i % 5 == 0) for i, x in enumerate(X.tolist())
    ]


def test_a_grid_search_over_lists_of_words_counts_a_word_missing_from_a_fold_as_missed():
    X, Y = rows_with_rare_words()
    settings, folds = {"n_neighbors": [2, 5], "n_keywords": [1, 3]}, KFold(5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search = GridSearchCV(ns.KeywordAnnotator("nearest"), settings, cv=folds, error_score="raise").fit(X, Y)
    for i, chosen in enumerate(search.cv_results_["params"]):
        for fold, (train, test) in enumerate(folds.split(X)):
            annotator = ns.KeywordAnnotator("nearest", **chosen).fit(X[train], [Y[row] for row in train])
            said = [set(answer.words) for answer in annotator.annotate(X[test])]
            truth = [set(Y[row]) for row in test]
            over = [*annotator.words_.tolist(), *(w for w in occurring(truth) if w not in annotator.words_)]
            assert any(word not in annotator.words_ for word in over)
            expected = reference.measures(truth, said, over)["f1"]
            assert search.cv_results_[f"split{fold}_test_score"][i] == pytest.approx(expected)


def test_folds_whose_items_have_no_words_at_all_score_nothing():
    X, Y = rows_with_rare_words()
    Y[:6] = [[]] * 6
    assert cross_val_score(ns.KeywordAnnotator(), X, Y, cv=KFold(5), error_score="raise")[0] == 0.0


def test_the_score_does_not_depend_on_the_form_of_the_keywords():
    X, Y = rows_with_rare_words()
    table = Keywords.of(Y)
    named = pd.DataFrame(table.matrix.toarray(), columns=table.words)
    annotator = ns.KeywordAnnotator().fit(X, Y)
    expected = annotator.score(X, Y)
    assert 0 < expected < 1
    shuffled = named[np.random.default_rng(1).permutation(named.columns)]
    for form in (named, shuffled, table.matrix, table.matrix.toarray(), np.array([*Y, None], object)[:-1]):
        assert annotator.score(X, form) == expected
