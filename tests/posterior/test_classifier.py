"""Algorithm 1: votes, ties, probabilities, posteriors as objects, and items of any kind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from nearsay.errors import InputError
from nearsay.neighbors.index import NeighborIndex
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.methods.proportional import Proportional
from nearsay.posterior.votes import TIE_RULES, count_votes, neighbor_labels, winners
from tests.labeled import (
    RULES_WITHOUT_CHANCE,
    SMOOTHED,
    count_searches,
    labeled_rows,
    letters_apart,
    queries_for,
    said_by_loop,
)
from tests.reference import neighbors as reference


@settings(max_examples=40)
@given(said=st.lists(st.lists(st.integers(-1, 3), min_size=3, max_size=3), min_size=0, max_size=6))
def test_votes_equal_counting_one_by_one(said):
    counted = count_votes(np.array(said, np.int64).reshape(-1, 3), n_classes=4)
    assert counted.tolist() == [reference.votes(labels, 4) for labels in said]


@settings(max_examples=40)
@given(data=labeled_rows(), k=st.integers(1, 14), smoothed=SMOOTHED, rule=RULES_WITHOUT_CHANCE)
def test_probabilities_and_labels_equal_the_loop(data, k, smoothed, rule):
    X, y = data
    k, (smoothing, model_failure) = min(k, len(X)), smoothed
    Q = queries_for(X)
    clf = NeighborClassifier(
        k, tie_break=rule, posterior=Proportional(smoothing=smoothing, model_failure=model_failure)
    ).fit(X, y)
    p = clf.predict_proba(Q)
    n_classes = len(clf.classes_)
    said = said_by_loop(X, y, Q, k)
    expected = [reference.proportional(labels, n_classes, model_failure, smoothing) for labels in said]
    np.testing.assert_allclose(p, expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)
    by_votes = [reference.winner(reference.votes(labels, n_classes), labels, rule) for labels in said]
    assert clf.predict(Q).tolist() == by_votes
    assert p.argmax(axis=1).tolist() == by_votes


def test_a_tie_goes_to_the_nearest_neighbor_to_the_first_class_or_to_a_lot():
    X, y = [[0.0], [1.0], [2.0], [3.0]], ["z", "a", "z", "a"]
    by_rule = {
        rule: NeighborClassifier(4, tie_break=rule, posterior="proportional").fit(X, y).predict([[-1.0]])[0]
        for rule in TIE_RULES
    }
    assert (by_rule["nearest"], by_rule["first"]) == ("z", "a")
    assert by_rule["random"] in ("a", "z")


@settings(max_examples=40)
@given(data=labeled_rows(), seed=st.integers(0, 2**31 - 1))
def test_a_lot_is_always_drawn_among_the_tied_classes(data, seed):
    X, y = data
    k = min(4, len(X))
    Q = queries_for(X)
    drawn = NeighborClassifier(k, tie_break="random", random_state=seed, posterior="proportional").fit(X, y).predict(Q)
    for label, said in zip(drawn, said_by_loop(X, y, Q, k), strict=True):
        votes = reference.votes(said, int(y.max()) + 1)
        assert votes[label] == max(votes)


def test_lots_are_fair_and_depend_on_the_seed_and_on_nothing_else():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.arange(300) % 3
    Q = rng.normal(size=(3000, 3))

    def answers(seed: int | None) -> np.ndarray:
        return (
            NeighborClassifier(3, tie_break="random", random_state=seed, posterior="proportional").fit(X, y).predict(Q)
        )

    clf = NeighborClassifier(3, tie_break="random", random_state=7, posterior="proportional").fit(X, y)
    votes = count_votes(neighbor_labels(clf.neighbors(Q), y), 3)
    three_way = (votes == 1).all(axis=1)
    shares = np.bincount(answers(7)[three_way], minlength=3) / three_way.sum()
    assert three_way.sum() > 400
    assert np.abs(shares - 1 / 3).max() < 0.08  # 3.5 standard deviations at 400
    assert (answers(7) == answers(7)).all()
    assert (answers(None) != answers(None)).any()
    assert 0.4 < (answers(7) != answers(8))[three_way].mean() < 0.9
    assert (clf.predict(Q[::-1])[::-1] == answers(7)).all()


@pytest.mark.parametrize("rule", TIE_RULES)
def test_answers_do_not_depend_on_which_queries_are_asked_together(rule):
    rng = np.random.default_rng(1)
    X, y = rng.integers(0, 4, (60, 3)).astype(float), rng.integers(0, 5, 60)
    Q = rng.integers(0, 4, (40, 3)).astype(float)
    clf = NeighborClassifier(4, tie_break=rule, random_state=3, posterior="proportional").fit(X, y)
    together, one_by_one = clf.predict_proba(Q), np.vstack([clf.predict_proba(q[None]) for q in Q])
    np.testing.assert_array_equal(together, one_by_one)
    np.testing.assert_array_equal(clf.predict(Q), np.concatenate([clf.predict(q[None]) for q in Q]))
    assert [e.to_dict() for e in clf.explain(Q)] == [clf.explain(q[None])[0].to_dict() for q in Q]


@pytest.mark.parametrize("rule", TIE_RULES)
def test_blocks_of_queries_give_the_same_answers(rule):
    rng = np.random.default_rng(2)
    X, y = rng.integers(0, 4, (60, 2)).astype(float), rng.integers(0, 5, 60)
    clf = NeighborClassifier(4, tie_break=rule, posterior="proportional").fit(X, y)
    n_blocks = len(list(clf.model_._blocks(240 * len(X))))
    assert n_blocks > 1
    np.testing.assert_array_equal(clf.predict(np.tile(X, (240, 1))), np.tile(clf.predict(X), 240))
    np.testing.assert_array_equal(clf.predict_proba(np.tile(X, (240, 1))), np.tile(clf.predict_proba(X), (240, 1)))


def test_a_missing_neighbor_casts_no_vote():
    table = NeighborTable(np.array([[1, -1, -1], [-1, -1, -1]]), np.array([[1.0, np.inf, np.inf], [np.inf] * 3]))
    labels = np.array([0, 1, 2])
    for smoothing, expected in (("model_failure", [0, 1, 0]), ("add-one", [0.25, 0.5, 0.25])):
        p = Proportional(model_failure=0.0, smoothing=smoothing).fit(None, labels, 3).proba(table)
        np.testing.assert_allclose(p, [expected, [1 / 3] * 3])
    assert winners(p, table, labels, "nearest").tolist() == [1, 0]


def test_the_vote_agrees_with_scikit_learn_where_there_are_no_ties():
    rng = np.random.default_rng(3)
    X, Q = rng.normal(size=(200, 5)), rng.normal(size=(100, 5))
    y = (X[:, 0] + rng.normal(size=200) > 0).astype(int)
    ours = NeighborClassifier(7, posterior=Proportional(model_failure=0.0)).fit(X, y)
    theirs = KNeighborsClassifier(7).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(Q), theirs.predict_proba(Q), atol=1e-12)
    assert (ours.predict(Q) == theirs.predict(Q)).all()


# ---------------------------------------------------------------- posteriors as objects


class NearestAlone:
    """All probability to the nearest neighbor's class; remembers what fit was given."""

    def fit(self, table: NeighborTable, labels: np.ndarray, n_classes: int) -> NearestAlone:
        self.table, self.labels, self.n_classes = table, labels, n_classes
        return self

    def proba(self, table: NeighborTable) -> np.ndarray:
        return np.eye(self.n_classes)[self.labels[table.indices[:, 0]]]


def test_a_posterior_object_is_given_the_leave_one_out_table_and_is_not_written_to():
    X, y = [[0.0], [1.0], [5.0], [6.0]], ["a", "a", "b", "a"]
    mine = NearestAlone()
    clf = NeighborClassifier(2, posterior=mine).fit(X, y)
    assert vars(mine) == {}
    expected = NeighborIndex().fit(X).leave_one_out(2)
    np.testing.assert_array_equal(clf.posterior_.table.indices, expected.indices)
    np.testing.assert_array_equal(clf.posterior_.labels, [0, 0, 1, 0])
    assert clf.predict([[4.0]]) == ["b"]
    assert clf.explain([[4.0]])[0].probabilities == {"b": 1.0, "a": 0.0}


def test_a_posterior_object_sees_missing_neighbors_when_k_is_all_rows():
    clf = NeighborClassifier(3, posterior=NearestAlone()).fit([[0.0], [1.0], [5.0]], [0, 1, 1])
    assert clf.posterior_.table.indices[:, -1].tolist() == [-1, -1, -1]
    assert NeighborClassifier(1, posterior=NearestAlone()).fit([[0.0]], [4]).predict([[9.0]]) == [4]


def test_auto_with_a_posterior_object_makes_one_leave_one_out_table(monkeypatch):
    searches = count_searches(monkeypatch)
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(50, 2)), rng.integers(0, 2, 50)
    clf = NeighborClassifier("auto", posterior=NearestAlone()).fit(X, y)
    assert searches == {"leave_one_out": 1}
    assert clf.posterior_.table.n_neighbors == clf.n_neighbors_
    plain = NeighborClassifier("auto", posterior="proportional").fit(X, y)
    for a, b in zip(clf.k_curve_, plain.k_curve_, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_posterior_of_the_wrong_shape_is_named():
    class Flat(NearestAlone):
        def proba(self, table: NeighborTable) -> np.ndarray:
            return np.ones(len(table))

    with pytest.raises(InputError, match=r"shape \(1,\); \(1, 2\) \(queries × classes\)"):
        NeighborClassifier(1, posterior=Flat()).fit([[0.0], [1.0]], [0, 1]).predict([[0.0]])


# ---------------------------------------------------------------- items of any kind


@pytest.mark.parametrize("container", [list, np.array, lambda words: np.array(words, dtype=object)])
def test_words_with_a_function_as_distance_are_classified_and_explained(container):
    words = ["cat", "rat", "hat", "dogs", "fogs", "logs"]
    clf = NeighborClassifier(3, metric=letters_apart, posterior="proportional").fit(
        container(words), ["c", "c", "c", "d", "d", "d"]
    )
    assert clf.predict(container(["bat", "bogs"])).tolist() == ["c", "d"]
    found = clf.explain(container(["bat"]))[0]
    assert (found.neighbors, found.distances) == ([0, 1, 2], [1.0, 1.0, 1.0])
    auto = NeighborClassifier("auto", metric=letters_apart, posterior="proportional").fit(
        container(words), list("cccddd")
    )
    assert auto.k_curve_.accuracy[0] == 1.0
    assert auto.predict(container(["bat"])).tolist() == ["c"]


def test_a_function_on_rows_of_numbers_checks_them_as_usual():
    clf = NeighborClassifier(1, metric=lambda a, b: abs(a[0] - b[0]), posterior="proportional").fit(
        np.array([[0.0, 9.0], [5.0, 9.0]]), [0, 1]
    )
    assert clf.n_features_in_ == 2
    assert clf.predict(np.array([[4.0, 0.0]])) == [1]
    with pytest.raises(ValueError, match="3 features"):
        clf.predict(np.ones((1, 3)))


def test_items_without_labels_or_with_too_few_are_refused():
    with pytest.raises(InputError, match="y is None"):
        NeighborClassifier(1, metric=letters_apart, posterior="proportional").fit(["a", "b"], None)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        NeighborClassifier(1, metric=letters_apart, posterior="proportional").fit(["a", "b"], [0])


@pytest.mark.parametrize("options", [{"n_neighbors": 3, "posterior": "pooled"}, {"posterior": "weighted"}])
def test_precomputed_distances_give_the_answers_of_the_rows_they_came_from(options):
    rng = np.random.default_rng(8)
    X, Q, y = rng.normal(size=(40, 3)), rng.normal(size=(15, 3)), rng.integers(0, 3, 40)
    between = np.array([[reference.euclidean(a, b) for b in X] for a in X])
    across = np.array([[reference.euclidean(q, x) for x in X] for q in Q])
    by_rows = NeighborClassifier(**options).fit(X, y)
    by_matrix = NeighborClassifier(metric="precomputed", **options).fit(between, y)
    assert by_matrix.n_neighbors_ == by_rows.n_neighbors_
    np.testing.assert_allclose(by_matrix.predict_proba(across), by_rows.predict_proba(Q), atol=1e-9)
    np.testing.assert_array_equal(by_matrix.neighbors(across).indices, by_rows.neighbors(Q).indices)
    scores = [cross_val_score(c, M, y, cv=4) for c, M in ((by_rows, X), (by_matrix, between))]
    np.testing.assert_array_equal(*scores)
    with pytest.raises(ValueError, match="features"):
        by_matrix.predict(across[:, :-1])
