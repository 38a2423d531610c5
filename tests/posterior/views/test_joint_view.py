"""Feature groups and all columns together in one pool."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

import nearsay as ns
from nearsay.errors import InputError
from nearsay.posterior import nested
from nearsay.posterior.views.joint_view import NAME, JointView
from tests.saving import saved_and_opened

HALVES = True

GROUPS = {"sepal": slice(0, 2), "petal": slice(2, 4)}
X, y = load_iris(return_X_y=True)


def across_groups(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Classes that no group tells apart: the sign of a product across two of them, and a difference."""
    rows = np.random.default_rng(seed).normal(size=(n, 6))
    return rows, 2 * (rows[:, 0] * rows[:, 3] > 0) + (rows[:, 1] > rows[:, 4])


@pytest.fixture(scope="module")
def partly() -> tuple[ns.FusedClassifier, np.ndarray, np.ndarray]:
    """Fitted to rows of which some lack a group."""
    rows, labels = X[::2].copy(), y[::2]
    rows[::10, :2] = np.nan
    rows[5::10, 2:] = np.nan
    return ns.FusedClassifier(GROUPS).fit(rows, labels), rows, labels


def lost(clf, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return -np.log(clf.predict_proba(rows)[np.arange(len(labels)), labels])


@pytest.mark.slow
def test_what_groups_say_together_is_heard():
    rows, labels = across_groups(500, 0)
    Q, truth = across_groups(1500, 1)
    groups = {"left": slice(0, 3), "right": slice(3, 6)}
    fused = lost(ns.FusedClassifier(groups).fit(rows, labels), Q, truth)
    product = lost(ns.FusedClassifier(groups, fusion="product").fit(rows, labels), Q, truth)
    whole = lost(ns.NeighborClassifier().fit(rows, labels), Q, truth)
    assert fused.mean() < 0.5 * product.mean()
    assert fused.mean() <= whole.mean() + (fused - whole).std() / np.sqrt(len(Q))


def test_the_joint_view_is_a_classifier_of_the_rows_that_lack_nothing(partly):
    fused, rows, labels = partly
    joint = fused.views_[0]
    assert isinstance(joint, JointView)
    assert joint.name.startswith(NAME)
    complete = np.flatnonzero(~np.isnan(rows).any(axis=1))
    alone = ns.NeighborClassifier().fit(rows[complete], labels[complete])
    of_alone = alone.model_.views
    members = fused.model_.members
    table = joint.neighbors(rows, 5, members)
    expected = of_alone.query(rows[complete], 5, members)
    np.testing.assert_array_equal(table.indices[complete], complete[expected.indices])
    np.testing.assert_array_equal(table.model_log_p[complete], expected.model_log_p)
    lacking = np.setdiff1d(np.arange(len(rows)), complete)
    assert (table.indices[lacking] == -1).all()
    np.testing.assert_allclose(table.model_log_p[lacking], -np.log(3))
    some = np.array([8, 1, 2, 0])
    past = joint.past_cases(5, members, some)
    for line, row in enumerate(some):
        if row in complete:
            one = of_alone.leave_one_out(5, members, np.flatnonzero(complete == row))
            np.testing.assert_array_equal(past.indices[line], complete[one.indices[0]])
            np.testing.assert_allclose(past.model_log_p[line], one.model_log_p[0])
            for given, by_hand in zip(past.further, one.further, strict=True):
                np.testing.assert_allclose(given[line : line + 1].nearest, by_hand.nearest)
        else:
            assert (past.indices[line] == -1).all()


def test_rows_that_lack_groups_are_answered_by_those_they_have(partly):
    fused, rows, labels = partly
    p = fused.predict_proba(rows)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert (p.argmax(axis=1) == labels).mean() > 0.9
    nothing = np.full((1, 4), np.nan)
    np.testing.assert_allclose(fused.predict_proba(nothing), 1 / 3, rtol=1e-9)
    np.testing.assert_allclose(fused.predict_proba(rows[4:9]), p[4:9], rtol=1e-12)


@pytest.mark.slow
def test_past_cases_of_rows_that_lack_groups_are_answered_by_choices_made_without_them(partly):
    fused, _, labels = partly
    left_out = fused.leave_one_out_proba()
    assert len(fused.model_.nested.answers) == nested.NESTED_FOLDS
    np.testing.assert_allclose(left_out.sum(axis=1), 1)
    assert (left_out.argmax(axis=1) == labels).mean() > 0.85


@pytest.mark.slow
def test_evidence_has_a_line_for_all_columns_and_for_every_group(partly):
    fused, rows, _ = partly
    lines = fused.explain(rows[1:2])[0].text.splitlines()
    names = [view.name.partition(" (")[0] for view in fused.views_]
    assert [line.partition(" (")[0] for line in lines[1 : 1 + len(names)]] == names
    assert names[0] == NAME
    assert {"sepal", "petal"} & set(names)


def test_a_pool_of_groups_is_saved(partly):
    fused, rows, _ = partly
    np.testing.assert_array_equal(saved_and_opened(fused).predict_proba(rows), fused.predict_proba(rows))


def test_a_product_multiplies_and_never_pools():
    fused = ns.FusedClassifier(GROUPS, fusion="product").fit(X, y)
    assert {view.group for view in fused.views_} <= set(GROUPS)
    assert "pooled" not in {one.posterior for one in fused.choices_}
    with pytest.raises(InputError, match='Pass fusion="pool"'):
        ns.FusedClassifier(GROUPS, ns.NeighborClassifier(5, posterior="pooled"), fusion="product").fit(X, y)
    with pytest.raises(InputError, match="did you mean 'product'"):
        ns.FusedClassifier(GROUPS, fusion="produkt").fit(X, y)


def test_too_few_complete_rows_leave_the_groups_to_answer():
    rows = X.copy()
    rows[::2, :2] = np.nan
    rows[1::2, 2:] = np.nan
    assert {view.group for view in ns.FusedClassifier(GROUPS).fit(rows, y).views_} <= set(GROUPS)
