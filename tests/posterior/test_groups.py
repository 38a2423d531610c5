"""Rows of one group, such as the pictures of one person, are never asked about each other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

import nearsay as ns
from nearsay.errors import InputError, NearDuplicateWarning
from nearsay.neighbors.by_class.labeled import LabeledNeighbors
from nearsay.neighbors.index import NeighborIndex
from nearsay.posterior.base import folds_by
from tests.saving import saved_and_opened

HALVES = True


@st.composite
def grouped(draw):
    n = draw(st.integers(3, 14))
    X = np.array(draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=n, max_size=n)), float)
    labels = np.array(draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    groups = np.array(draw(st.lists(st.integers(0, 5), min_size=n, max_size=n)))
    removed = draw(st.lists(st.integers(0, n - 1), unique=True, max_size=n - 2))
    return X, labels, groups, removed


@given(case=grouped(), members=st.sampled_from([None, (), (1, 2)]))
@settings(max_examples=60, deadline=None)
def test_neighbors_are_those_of_other_groups(case, members):
    X, labels, groups, removed = case
    index = NeighborIndex().fit(X)
    index.remove(removed)
    labeled = LabeledNeighbors(index.search_, labels, 3, groups=groups)
    table = labeled.leave_one_out(2, members)
    for row in range(len(X)):
        others = [i for i in range(len(X)) if groups[i] != groups[row] and i not in removed and row not in removed]
        alone = NeighborIndex().fit(X)
        alone.remove([i for i in range(len(X)) if i not in others])
        expected = alone.with_labels(labels, 3).query(X[row : row + 1], 2, members)
        np.testing.assert_array_equal(table.indices[row], expected.indices[0])
        np.testing.assert_array_equal(table.distances[row], expected.distances[0])
        if members is not None:
            np.testing.assert_array_equal(table.classes.numbers[row], expected.classes.numbers[0])
            np.testing.assert_array_equal(table.classes.means[row], expected.classes.means[0])
    some = np.arange(len(X))[::-2]
    np.testing.assert_array_equal(labeled.leave_one_out(2, members, some).indices, table.indices[some])


@pytest.mark.parametrize(
    "options", [pytest.param({"metric": "auto"}, marks=pytest.mark.slow), {"posterior": "proportional"}]
)
def test_groups_of_one_row_each_change_nothing_that_neighbors_say(options):
    X, y = load_iris(return_X_y=True)
    X, y = X[::2], y[::2]
    plain = ns.NeighborClassifier(**options).fit(X, y)
    alone = ns.NeighborClassifier(**options).fit(X, y, groups=np.arange(len(X)))
    table, of_plain = alone.model_.leave_one_out(np.arange(5)), plain.model_.leave_one_out(np.arange(5))
    np.testing.assert_array_equal(table.distances, of_plain.distances)
    np.testing.assert_array_equal(alone.leave_one_out_proba(), plain.leave_one_out_proba())
    np.testing.assert_array_equal(alone.predict_proba(X), plain.predict_proba(X))


@given(
    groups=st.lists(st.integers(0, 6), min_size=1, max_size=30),
    labels=st.lists(st.integers(0, 2), min_size=30, max_size=30),
    seed=st.integers(0, 9),
)
def test_no_group_is_in_two_folds(groups, labels, seed):
    order = np.random.default_rng(seed).permutation(len(groups))
    fold = folds_by(order, np.array(labels[: len(groups)]), 3, np.array(groups))
    for group in set(groups):
        assert len(np.unique(fold[np.array(groups) == group])) == 1
    alone = folds_by(order, np.array(labels[: len(groups)]), 3, np.arange(len(groups)))
    np.testing.assert_array_equal(alone, folds_by(order, np.array(labels[: len(groups)]), 3))


def writers(n_writers: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each writer has one style and one label, drawn by lot, and six samples that are nearly alike."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(n_writers), 6)
    styles, labels = rng.normal(size=(n_writers, 5)), rng.integers(0, 2, n_writers)
    return styles[who] + 0.05 * rng.normal(size=(len(who), 5)), labels[who], who


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"posterior": "proportional"}])
def test_records_are_those_for_new_writers(options):
    X, y, who = writers(60, 5)
    fooled = ns.NeighborClassifier(**options).fit(X, y)
    honest = ns.NeighborClassifier(**options).fit(X, y, groups=[f"writer {number}" for number in who])
    assert (fooled.leave_one_out_proba().argmax(axis=1) == y).mean() > 0.95
    assert (honest.leave_one_out_proba().argmax(axis=1) == y).mean() < 0.8
    X_new, y_new, _ = writers(60, 1)
    lost, lost_by_fooled = (
        -np.log(each.predict_proba(X_new)[np.arange(len(y_new)), y_new]).mean() for each in (honest, fooled)
    )
    assert lost < 0.8 * lost_by_fooled


def test_the_order_of_rows_and_the_names_of_groups_make_no_difference():
    X, y, who = writers(30, 2)
    order = np.random.default_rng(0).permutation(len(X))
    one = ns.NeighborClassifier().fit(X, y, groups=who).predict_proba(X + 0.1)
    other = ns.NeighborClassifier().fit(X[order], y[order], groups=100 - who[order]).predict_proba(X + 0.1)
    np.testing.assert_allclose(other, one, atol=1e-9)


def test_groups_are_kept_in_a_file():
    X, y, who = writers(12, 3)
    clf = ns.NeighborClassifier(posterior="pooled").fit(X, y, groups=who, sample_weight=np.arange(len(X)) % 3)
    again = saved_and_opened(clf)
    rows = np.arange(5)
    table, before = again.model_.leave_one_out(rows), clf.model_.leave_one_out(rows)
    np.testing.assert_array_equal(table.indices, before.indices)


def test_fused_groups_of_columns_leave_out_groups_of_rows():
    X, y, who = writers(40, 4)
    votes = ns.NeighborClassifier(5, posterior="pooled")
    fused = ns.FusedClassifier({"left": [0, 1], "right": [2, 3, 4]}, votes).fit(X, y, groups=who)
    assert (fused.leave_one_out_proba().argmax(axis=1) == y).mean() < 0.7


@pytest.mark.parametrize("options", [{"posterior": "weighted"}, {"posterior": "pooled"}])
def test_groups_are_found_where_rows_come_in_bunches(options):
    X, y, who = writers(60, 5)
    given = ns.NeighborClassifier(**options).fit(X, y, groups=who)
    with pytest.warns(NearDuplicateWarning, match="of the rows have near-duplicates in their class"):
        auto = ns.NeighborClassifier(**options).fit(X, y, groups="auto")
    np.testing.assert_allclose(auto.predict_proba(X + 0.3), given.predict_proba(X + 0.3))
    assert len(np.unique(auto.groups_)) == 60


def test_of_independent_rows_none_is_left_out():
    X, y = load_iris(return_X_y=True)
    plain, auto = (ns.NeighborClassifier(posterior="pooled").fit(X, y, groups=each) for each in (None, "auto"))
    assert auto.groups_ is None
    np.testing.assert_array_equal(auto.predict_proba(X), plain.predict_proba(X))


def test_rows_of_weight_0_are_in_groups_of_their_own():
    X, y, who = writers(60, 6)
    weight = np.arange(len(X)) % 6 > 0
    clf = ns.NeighborClassifier(5, posterior="weighted").fit(X, y, weight.astype(float), groups=who)
    assert len(np.unique(clf.groups_)) == 120
    assert (clf.groups_[weight] == who[weight]).all()


def test_promises_leave_near_duplicates_out():
    X, y, _ = writers(150, 7)
    X_new, y_new, _ = writers(400, 8)
    votes = ns.NeighborClassifier(9, posterior="weighted")
    with pytest.warns(NearDuplicateWarning):
        hedged = ns.HedgedClassifier(votes, accuracy=0.9).fit(X, y, groups="auto")
    assert hedged.score(X_new, y_new) > 0.85
    assert ns.HedgedClassifier(votes, accuracy=0.9).fit(X, y).score(X_new, y_new) < 0.7
    sets = ns.ConformalClassifier(LogisticRegression(), coverage=0.8).fit(X, y, groups="auto")
    assert sets.n_calibration_ < len(X)  # a fifth of the groups is held out


def test_groups_that_cannot_be_used_are_refused():
    with pytest.raises(InputError, match="be \"auto\"; got 'patient'"):
        ns.NeighborClassifier().fit([[0.0], [1.0], [2.0]], [0, 1, 0], groups="patient")
    with pytest.raises(InputError, match="All 3 rows are of one group, 'ann'"):
        ns.NeighborClassifier().fit([[0.0], [1.0], [2.0]], [0, 1, 0], groups=["ann"] * 3)
    with pytest.raises(InputError, match="compares rows of numbers"):
        ns.HedgedClassifier(DummyClassifier()).fit([["a"], ["b"]], [0, 1], groups="auto")
    with pytest.raises(InputError, match="groups holds 2 groups, but X has 3 rows"):
        ns.NeighborClassifier().fit([[0.0], [1.0], [2.0]], [0, 1, 0], groups=[1, 2])
    with pytest.raises(InputError, match="Row 2 has no value in groups"):
        ns.NeighborClassifier().fit([[0.0], [1.0], [2.0]], [0, 1, 0], groups=["a", "b", None])
