"""The default annotator: views, ridges and scorers are chosen on past cases; little and odd data are taken."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

from nearsay.annotate.annotator import KeywordAnnotator
from nearsay.annotate.calibration import KeywordCalibration
from nearsay.annotate.keyword_columns import SHAPED, ColumnView, KeywordColumns, leading_directions
from nearsay.annotate.scorer_choice import choose_scorers
from nearsay.annotate.scorers.regression import SHRINKAGES, KeywordRegression
from nearsay.annotate.scorers.relevance import Relevance
from nearsay.data.keywords import annotated_order
from nearsay.errors import InputError
from nearsay.neighbors.table import NeighborTable
from tests.saving import saved_and_opened


def mixed(n_rows=90, n_columns=6, n_words=4, seed=0):
    """Words that columns tell, in part linearly and in part by where rows lie; columns of very different scales."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, n_columns))
    told = X @ random.normal(size=(n_columns, n_words)) + 2 * np.sin(3 * X[:, :1])
    return X * 10.0 ** np.arange(n_columns), (told + random.normal(0, 0.5, told.shape) > 0.5).astype(int)


def log_loss(truth, p):
    return -(truth * np.log(p) + (1 - truth) * np.log(1 - p)).sum(axis=1).mean()


# ---------------------------------------------------------------- in one line


def test_the_default_is_better_than_the_nearest_rows_and_says_why():
    (X, Y), (Q, truth) = mixed(), mixed(seed=0)
    X, Y, Q, truth = X[:60], Y[:60], Q[60:], truth[60:]
    best, plain = KeywordAnnotator().fit(X, Y), KeywordAnnotator("nearest").fit(X, Y)
    assert log_loss(truth, best.predict_proba(Q)) < log_loss(truth, plain.predict_proba(Q))
    assert plain.choices_ is None
    tried = {choice.scorer for choice in best.choices_}
    assert {"nearest", "projection, linear", "regression, linear", "regression, kernel"} <= tried
    assert set(best.choices_.used) <= tried
    lines = str(best.choices_).splitlines()
    assert [line[0] for line in lines[2:]] == ["*" if choice.used else " " for choice in best.choices_]
    assert best.choices_.rows()[0]["used"]
    assert best.choices_.used[0] in best.choices_._repr_html_()


def test_answers_have_evidence_whichever_scorers_are_used(monkeypatch):
    X, Y = mixed()
    every = KeywordAnnotator(n_neighbors=7).fit(X, Y)

    def only_regression(scores, keywords, share):
        chosen = choose_scorers(scores, keywords, share)
        regression = [each for each in chosen if each.scorer == "regression, linear"]
        return type(chosen)([type(regression[0])("regression, linear", 1.0, 2.0)], 1.0, 10)

    monkeypatch.setattr("nearsay.annotate.annotator.choose_scorers", only_regression)
    alone = KeywordAnnotator(n_neighbors=7).fit(X, Y)
    for fitted in (every, alone):
        answers = fitted.annotate(X[:3])
        assert [len(answer.neighbors) for answer in answers] == [7] * 3
    assert [answer.neighbors[0] for answer in answers] == [0, 1, 2]


def test_feature_spaces_of_other_distances_are_searched_and_learned_from():
    X, Y = mixed()
    near = np.abs(X[:, :3])
    spaces = {"vectors": slice(0, 3), "shares": (slice(3, 6), "manhattan")}
    both = KeywordAnnotator(features=spaces).fit(np.hstack([X[:, :3], near]), Y)
    assert {each.scorer for each in both.choices_} >= {"nearest", "nearest, others", "projection, kernel of others"}
    only = KeywordAnnotator(features={"shares": (slice(0, 3), "manhattan")}).fit(near, Y)
    assert {each.scorer for each in only.choices_} == {
        "nearest",
        "projection, kernel of others",
        "regression, kernel of others",
    }
    for fitted, Q in ((both, np.hstack([X[:, :3], near])), (only, near)):
        np.testing.assert_allclose(fitted.predict_proba(Q[:5]), fitted.predict_proba(Q)[:5], atol=1e-9)


def test_a_saved_annotator_answers_alike():
    X, Y = mixed()
    fitted = KeywordAnnotator(order="worth", recall_weight="auto").fit(X, Y)
    again = saved_and_opened(fitted)
    np.testing.assert_array_equal(again.predict_proba(X[:9]), fitted.predict_proba(X[:9]))
    assert str(again.choices_) == str(fitted.choices_)
    assert again.worth_.recall_weight in (1.0, 1.25, 1.5, 2.0, 3.0)


@pytest.mark.slow
def test_lists_of_words_are_cross_validated_to_numbers():
    X, Y = mixed(40)
    words = np.array(["bear", "sky", "sun", "tree"])
    lists = [[*words[row == 1], *([f"rare {i}"] if i % 7 == 0 else [])] for i, row in enumerate(Y)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = cross_val_score(KeywordAnnotator(n_keywords=2), X, lists, cv=KFold(3), error_score="raise")
        search = GridSearchCV(KeywordAnnotator(n_keywords=2), {"n_neighbors": [3, 9]}, cv=2, error_score="raise")
        assert np.isfinite(search.fit(X, lists).best_score_)
    assert ((scores > 0) & (scores < 1)).all()


# ---------------------------------------------------------------- little and odd data

ODD = {
    "ten rows": (np.arange(10.0)[:, None], [["a"], ["b"]] * 5),
    "two rows": (np.arange(2.0)[:, None], [["a"], ["b"]]),
    "one word": (np.arange(10.0)[:, None], [["a"]] * 5 + [[]] * 5),
    "one word once": (np.arange(10.0)[:, None], [["a"]] + [[]] * 9),
    "a word in every row": (np.arange(10.0)[:, None], [["a", "b"], ["a"]] * 5),
    "only a word in every row": (np.arange(10.0)[:, None], [["a"]] * 10),
    "constant columns": (np.column_stack([np.full(12, 0.1), np.arange(12.0), np.zeros(12)]), [["a"], ["b"]] * 6),
    "rows all alike": (np.full((12, 3), 0.1), [["a"], ["b"]] * 6),
    "rows of zeros": (np.zeros((12, 3)), [["a"], ["b"]] * 6),
    "more columns than rows": (np.random.default_rng(0).random((12, 40)), [["a"], ["b"], ["a", "c"]] * 4),
    "rows all alike, many columns": (np.full((6, 30), 0.3), [["a"], ["b"]] * 3),
    "duplicates": (np.repeat(np.arange(4.0), 5)[:, None], [["a"], ["b"], [], ["a", "b"]] * 5),
    "huge": (np.random.default_rng(0).random((12, 3)) * 1e140, [["a"], ["b"]] * 6),
    "tiny": (np.random.default_rng(0).random((12, 3)) * 1e-150, [["a"], ["b"]] * 6),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ODD)
def test_little_and_odd_data_are_taken_without_a_warning(name):
    X, Y = ODD[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = KeywordAnnotator().fit(X, Y)
        p = fitted.predict_proba(X)
        fitted.annotate(X[:2])
    assert ((p >= 0) & (p <= 1)).all()
    np.testing.assert_allclose(fitted.predict_proba(X[:1]), p[:1], atol=1e-8)


@pytest.mark.slow
@given(st.integers(2, 9), st.integers(1, 3), st.integers(1, 3), st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_any_small_table_of_numbers_and_words_is_taken(n_rows, n_columns, n_words, seed):
    random = np.random.default_rng(seed)
    X, Y = random.integers(-2, 3, (n_rows, n_columns)), random.integers(0, 2, (n_rows, n_words))
    Y[0, 0] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(KeywordAnnotator().fit(X, Y).predict_proba(X)).all()


# ---------------------------------------------------------------- past cases


@pytest.mark.parametrize(("most", "n_splits"), [(90, 5), (19, 5), (18, 1), (5, 1)])
def test_rows_asked_about_are_never_learned_from_and_few_of_many_need_one_model(most, n_splits):
    X, Y = mixed(90)
    fitted = KeywordAnnotator(KeywordRegression())
    fitted.most_past_cases = most
    fitted.fit(X, Y)
    folds = fitted._folds(annotated_order(X, csr_array(Y)), fitted.held_out_rows_)
    assert len(fitted.held_out_rows_) == most
    assert len(folds) == n_splits
    for others, asked in folds:
        assert not set(others) & set(asked)
        # By rows that are asked in other folds, or never.
        assert len(others) >= 90 - max(most, 18)
    np.testing.assert_array_equal(
        np.sort(np.concatenate([asked for _, asked in folds])), np.sort(fitted.held_out_rows_)
    )
    scores = np.empty((90, 4))
    for others, asked in folds:
        scores[asked] = KeywordRegression().fit(X[others], Y[others]).scores(X[asked])
    scores = scores[fitted.held_out_rows_]
    past = csr_array(Y[fitted.held_out_rows_])
    expected = KeywordCalibration.learn([scores], past, Y.mean(axis=0)).past([scores], past)
    np.testing.assert_allclose(fitted.held_out_proba_, expected, atol=1e-12)


@pytest.mark.parametrize("n_noise", [1, 3])
def test_a_scorer_is_used_where_it_helps_and_noise_is_not(n_noise):
    wrong = 0
    for seed in range(12):
        random = np.random.default_rng(seed)
        one, two = random.normal(size=(2, 150, 5))
        Y = (one + two + random.normal(size=(150, 5)) > 0).astype(int)
        noise = {f"noise {i}": [random.normal(size=(150, 5))] for i in range(n_noise)}
        chosen = choose_scorers({**noise, "one": [one], "two": [two]}, csr_array(Y), Y.mean(axis=0))
        assert {"one", "two"} <= set(chosen.used)
        wrong += len(chosen.used) > 2
        assert all(each.without > chosen.together for each in chosen if each.scorer in ("one", "two"))
    assert wrong <= 2 * n_noise  # what is better by a standard error is chance now and then


def test_losses_are_the_sums_of_log_losses_over_words():
    random = np.random.default_rng(0)
    scores, Y = [random.normal(size=(30, 4))], random.integers(0, 2, (30, 4))
    learned = KeywordCalibration.learn(scores, csr_array(Y), Y.mean(axis=0))
    p = learned.proba(scores)
    expected = [-sum(np.log(p[i, w] if Y[i, w] else 1 - p[i, w]) for w in range(4)) for i in range(30)]
    np.testing.assert_allclose(learned.losses(scores, csr_array(Y)), expected)


# ---------------------------------------------------------------- columns, ridges, votes, words


@given(st.sampled_from(sorted(SHAPED)), st.floats(1e-3, 1e3), st.integers(2, 9), st.integers(1, 4))
def test_rows_in_a_view_lie_at_distance_one_from_their_mean_on_average(name, scale, n_rows, n_columns):
    X = np.random.default_rng(n_rows).random((n_rows, n_columns)) * scale * 7.0 ** np.arange(n_columns)
    seen = ColumnView.of(name, X).columns(X)
    spread = ((seen - seen.mean(axis=0)) ** 2).sum(axis=1).mean()
    if n_columns > 1 or "unit" not in name:  # a single positive column has one direction
        assert spread == pytest.approx(1.0)
    if name == "standardized":
        np.testing.assert_allclose(seen.std(axis=0), np.sqrt(1 / n_columns))
    constant = np.column_stack([X, np.full(n_rows, 0.1)])
    assert np.isfinite(ColumnView.of(name, constant).columns(constant)).all()


@pytest.mark.parametrize("most", [100, 5])
def test_columns_of_new_rows_are_those_of_the_same_rows_when_fitted(most):
    X = np.random.default_rng(0).random((25, 60))
    Y = (X[:, :2] > 0.5).astype(int)
    columns = KeywordColumns()
    columns.most_directions = most
    made = columns.fit_transform(X, Y)
    np.testing.assert_allclose(columns.transform(X), made, atol=1e-6)
    vectors, linear = made[:, columns.blocks_["vectors"]], made[:, columns.blocks_["linear"]]
    assert (vectors.shape[1], linear.shape[1]) == (60, min(most, 25))
    if most > 25:  # nothing is lost
        gaps = [((block[:, None] - block[None]) ** 2).sum(axis=2) for block in (vectors, linear)]
        np.testing.assert_allclose(*gaps, atol=1e-9)


@pytest.mark.parametrize("factored_whole", [6, 5])
def test_leading_directions_are_those_of_largest_variance(factored_whole):
    X = np.random.default_rng(0).normal(size=(40, 6)) * [9, 5, 3, 1, 0.5, 0.1]
    X -= X.mean(axis=0)
    strongest = np.linalg.eigh(X.T @ X)[1][:, ::-1][:, :3]
    found = leading_directions(X, 3, factored_whole)
    np.testing.assert_allclose(np.abs(found @ strongest), np.eye(3), atol=1e-9)


@given(st.integers(4, 9), st.integers(1, 5), st.booleans(), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_the_ridge_is_the_one_that_misses_least_about_rows_left_out(n_rows, n_columns, weighted, seed):
    random = np.random.default_rng(seed)
    X, Y = random.normal(size=(n_rows, n_columns)), random.integers(0, 2, (n_rows, 2))
    weights = random.integers(1, 4, n_rows).astype(float) if weighted else np.ones(n_rows)
    fitted = KeywordRegression(shrinkage="auto").fit(X, Y, sample_weight=weights if weighted else None)
    mean = np.average(X, axis=0, weights=weights)
    spread = np.average((X - mean) ** 2, axis=0, weights=weights).mean()
    errors = []
    for shrinkage in SHRINKAGES:
        total = 0.0
        for left in range(n_rows):
            keep = np.arange(n_rows) != left
            A = np.column_stack([np.ones(n_rows), X])[keep]
            ridge = np.diag([0.0, *[shrinkage * spread * weights.sum()] * n_columns])
            AW = A.T * weights[keep]
            found = np.linalg.solve(AW @ A + ridge, AW @ Y[keep])
            total += weights[left] * ((np.append(1.0, X[left]) @ found - Y[left]) ** 2).sum()
        errors.append(total)
    assert errors[SHRINKAGES.index(fitted.shrinkage_)] == pytest.approx(min(errors), rel=1e-6)


def test_sharper_votes_fade_by_a_part_of_the_mean_distance():
    table = NeighborTable(np.array([[0, 1, 2]]), np.array([[1.0, 2.0, 5.0]]))
    Y = csr_array(np.eye(3))
    votes = np.exp(-4.0 * np.array([0.0, 1.0, 4.0]) / 2.5)
    expected = votes / votes.sum()
    np.testing.assert_allclose(Relevance("distance", sharpness=4.0).scores(table, Y)[0], expected)
    with pytest.raises(InputError, match="sharpness must be a number"):
        Relevance("distance", sharpness=0).scores(table, Y)


def test_words_name_the_columns_of_a_table_and_fix_those_of_lists():
    X, Y = mixed(30)
    words = ["tree", "sun", "sky", "bear"]
    by_table = KeywordAnnotator("nearest", words=words, n_keywords=2).fit(X, Y)
    lists = [[words[w] for w in np.flatnonzero(row)] for row in Y]
    by_list = KeywordAnnotator("nearest", words=words, n_keywords=2).fit(X, lists)
    assert by_table.words_.tolist() == by_list.words_.tolist() == words
    np.testing.assert_array_equal(by_table.predict_proba(X), by_list.predict_proba(X))
    assert set(by_table.annotate(X[:1])[0].words) < set(words)
    assert by_table.score(X, lists) == by_list.score(X, Y)
    more = KeywordAnnotator("nearest", words=[*words, "never"]).fit(X, lists)
    assert more.predict_proba(X)[:, 4].max() < 0.2
    for named, Y_given, said in (
        (words[:3], Y, "4 columns; got 3 words"),
        (words[:3], lists, "not among words, such as 'bear'"),
        (["sky", "sky"], lists, "lists 'sky' twice"),
        ("sky", lists, "words must be a list"),
    ):
        with pytest.raises(InputError, match=said):
            KeywordAnnotator("nearest", words=named).fit(X, Y_given)
