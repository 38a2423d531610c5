"""What the figures on hedging are made of: the methods by loops, neighbors by any metric, machines."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.svm import LinearSVC

from nearsay.decision.calibration import hold_out
from nearsay.decision.envelope import AccuracyCurve
from nearsay.learn.tuning import neighbor_accuracy
from nearsay.neighbors.index import NeighborIndex
from reproduce.hedging import tin200
from reproduce.hedging.learned_metrics import METRICS, Candidates, learn
from reproduce.hedging.linear_svm import OneAgainstAll, platt_scaled
from reproduce.hedging.methods import (
    METHODS,
    PROMISED,
    Outputs,
    Part,
    best_of,
    breakdown_rows,
    compared_with_fixed_threshold,
    curve_rows,
    flat_measures,
    largest_gain_at,
    promise_rows,
    trade_off,
)
from tests.made_up_images import N_LEAVES, TREE, made_up_images
from tests.reference.decision import hedging as slow

few = settings(max_examples=40, deadline=None)


@st.composite
def parts(draw):
    """Votes of a few neighbors: small whole numbers, full of ties."""
    n = draw(st.integers(1, 8))
    votes = draw(st.lists(st.lists(st.integers(0, N_LEAVES - 1), min_size=4, max_size=4), min_size=n, max_size=n))
    p = np.array([np.bincount(row, minlength=N_LEAVES) / 4 for row in votes])
    labels = draw(st.lists(st.sampled_from(TREE.leaves), min_size=n, max_size=n))
    return Part(p, np.array(labels))


# ---------------------------------------------------------------- the methods, by loops


SLOWLY = {
    "FLAT-REJ": slow.flat_reject,
    "FLAT-REJ, calibrated": slow.flat_reject,
    "fixed threshold": slow.fixed_threshold,
    "DARTS": slow.darts,
}


@few
@given(past=parts(), judged=parts(), name=st.sampled_from(list(METHODS)), asked=st.sampled_from((0.0, 0.25, 0.5, 0.8)))
def test_a_figure_is_what_a_loop_over_rows_counts_at_the_setting(past, judged, name, asked):
    trade = trade_off(Outputs(TREE, past, judged), name)
    row = trade.at(asked)
    setting = trade.setting(asked)
    if not METHODS[name].searched:
        assert setting == asked
    said = [SLOWLY[name](p.tolist(), TREE.parents, setting) for p in judged.p]
    assert trade.answers(asked).tolist() == said
    gains = slow.information(TREE.parents)
    right = [v in slow.at_or_above(TREE.parents, TREE.number(y)) for v, y in zip(said, judged.labels, strict=True)]
    accuracy = np.mean(right)
    gain = np.mean([gains[v] * r for v, r in zip(said, right, strict=True)]) / max(gains)
    assert row["accuracy"] == pytest.approx(accuracy)
    assert row["normalized_gain"] == pytest.approx(gain)
    assert row["f"] == pytest.approx(2 * accuracy * gain / (accuracy + gain) if accuracy + gain else 0.0)
    assert row["setting"] == (setting if np.isfinite(setting) else None)


@few
@given(part=parts())
def test_a_searched_method_keeps_the_accuracy_on_the_rows_it_was_read_from(part):
    for name in ("DARTS", "FLAT-REJ, calibrated"):
        for row in curve_rows(Outputs(TREE, part, part), [name]):
            assert row["accuracy"] >= row["asked"] - 1e-12
    empirical = [row for row in promise_rows(Outputs(TREE, part, part)) if row["confidence"] is None]
    assert [row["asked"] for row in empirical] == list(PROMISED)
    assert all(row["accuracy"] >= row["asked"] - 1e-12 for row in empirical)


@few
@given(part=parts())
def test_the_bars_sum_to_one_and_the_flat_one_has_only_leaves(part):
    rows = breakdown_rows(Outputs(TREE, part, part), (0.5, 0.9))
    assert [(row["method"], row["asked"]) for row in rows] == [
        ("FLAT", 0.0),
        ("FLAT-REJ", 0.5),
        ("FLAT-REJ", 0.9),
        ("DARTS", 0.5),
        ("DARTS", 0.9),
    ]
    for row in rows:
        assert row["wrong"] + sum(row["shares"]) == pytest.approx(1)
    assert sum(rows[0]["shares"][:-1]) == 0
    assert rows[0]["shares"][-1] == pytest.approx(flat_measures(Outputs(TREE, part, part))["accuracy_percent"] / 100)


@few
@given(
    points=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=6),
    asked=st.integers(0, 4),
)
def test_the_most_said_at_an_accuracy_is_the_largest_gain_of_points_that_reach_it(points, asked):
    right, gain = np.array(points).T
    curve = AccuracyCurve("darts", np.arange(len(points)) * 1.0, right, gain / 4, 4, 1.0)
    reaches = [g / 4 for r, g in points if r >= asked]
    expected = max(reaches) if asked in right else None
    found = float(largest_gain_at(curve, asked / 4))
    if expected is not None:
        assert found == expected
    elif asked > right.max():
        assert found == max(g / 4 for r, g in points if r == right.max())
    else:
        assert max(reaches, default=0.0) <= found <= gain.max() / 4


def test_darts_is_compared_with_a_fixed_threshold_where_that_says_something():
    p = np.array([[0.4, 0.3, 0.0, 0.2, 0.1, 0.0]] * 3 + [[0.9, 0.05, 0.0, 0.03, 0.02, 0.0]])
    part = Part(p, np.array(["a1", "a2", "b1", "a1"]))
    outputs = Outputs(TREE, part, part)
    found = compared_with_fixed_threshold(outputs)
    fixed = outputs.curve(part, "fixed-threshold")
    assert found["points"] == int((fixed.normalized_gain > 0).sum())
    darts = outputs.curve(part, "darts")
    points = zip(fixed.accuracy, fixed.normalized_gain, strict=True)
    by_hand = [largest_gain_at(darts, a) - g for a, g in points if g > 0]
    assert found["least"] == pytest.approx(min(by_hand))
    assert found["less_specific"] == sum(more < -1e-9 for more in by_hand)
    assert found["best_less_specific"] == 0


def test_the_best_row_is_the_first_with_the_largest_f():
    rows = [{"m": "a", "k": k, "f": f} for k, f in ((1, 0.2), (2, 0.4), (3, 0.4))]
    assert best_of(rows, "m") == [rows[1]]
    assert best_of(rows, "m", "k") == rows


# ---------------------------------------------------------------- neighbors


def test_fewer_neighbors_are_the_first_columns_of_one_search():
    images = made_up_images()
    wide = tin200.neighborhoods(images, None, 40)
    for posterior in tin200.POSTERIORS:
        narrow = tin200.neighborhoods(images, None, 7)
        one = tin200.neighbor_outputs(images, wide, posterior, 7)
        other = tin200.neighbor_outputs(images, narrow, posterior, 7)
        np.testing.assert_array_equal(one.past.p, other.past.p)
        np.testing.assert_array_equal(one.judged.p, other.judged.p)


def test_without_a_metric_every_training_row_is_left_out_once():
    images = made_up_images()
    near = tin200.neighborhoods(images, None, 5)
    assert near.rows.tolist() == list(range(len(images.train)))
    assert not (near.past.indices == near.rows[:, None]).any()
    votes = tin200.neighbor_outputs(images, near, "votes", 5)
    for row in (0, 17):
        said = np.asarray(images.train.y)[near.past.indices[row]].tolist()
        shares = [said.count(leaf) / 5 for leaf in images.taxonomy.leaves]
        np.testing.assert_allclose(votes.past.p[row], shares, atol=1e-12)


def test_equal_votes_go_to_the_leaf_of_the_nearest_neighbor():
    images = made_up_images()
    near = tin200.neighborhoods(images, None, 2)
    outputs = tin200.neighbor_outputs(images, near, "votes", 2)
    nearest = np.asarray(images.train.y)[near.queries.indices[:, 0]]
    assert (np.array(images.taxonomy.leaves)[outputs.judged.p.argmax(axis=1)] == nearest).all()


class Stretched(BaseEstimator):
    """Tells what it was fitted on, and multiplies."""

    def __init__(self, by=2.0, seen=None):
        self.by = by
        self.seen = seen

    def __sklearn_clone__(self):
        return Stretched(self.by, self.seen)  # the same list

    def fit(self, X, y):
        self.seen.append((self.by, len(X), np.unique(y).tolist()))
        return self

    def transform(self, X):
        return self.by * np.asarray(X)


def test_a_learned_metric_is_judged_by_rows_whose_labels_it_has_not_seen():
    images = made_up_images()
    seen: list = []
    near = tin200.neighborhoods(images, Candidates(lambda: Stretched(seen=seen)), 3)
    known, held_out, _ = hold_out(np.asarray(images.train.y))
    assert near.rows.tolist() == held_out.tolist()
    assert np.isin(near.past.indices, known).all()
    assert [n_rows for _, n_rows, _ in seen] == [len(known), len(images.train)]
    X = np.asarray(images.train.X)
    true = 2 * np.linalg.norm(X[near.rows][:, None] - X[near.past.indices], axis=2)
    np.testing.assert_allclose(near.past.distances, true)
    plain = NeighborIndex().fit(X).query(images.test.X, 3)
    np.testing.assert_array_equal(near.queries.indices, plain.indices)
    outputs = tin200.neighbor_outputs(images, near, "Atiya", 3)
    assert outputs.past.labels.tolist() == np.asarray(images.train.y)[held_out].tolist()


def test_settings_are_chosen_on_held_out_rows_of_some_classes_and_learned_from_all():
    images = made_up_images()
    X, y = np.asarray(images.train.X), np.asarray(images.train.y)
    known, held_out, _ = hold_out(y)
    seen: list = []
    learned = learn(Candidates(lambda: Stretched(seen=seen), {"by": (0.0, 3.0)}, most_classes=2), X, y, known, held_out)
    assert learned.metric.by == learned.blind.by == 3.0  # at one point all rows look alike
    few, every = np.unique(y)[[0, 3]].tolist(), np.unique(y).tolist()
    n_few = int(np.isin(y[known], few).sum())
    assert seen == [(0.0, n_few, few), (3.0, n_few, few), (3.0, len(known), every), (3.0, len(y), every)]
    asked = held_out[np.isin(y[held_out], few)]
    near = known[np.isin(y[known], few)]
    assert learned.tuned.accuracy == neighbor_accuracy(X[near], y[near], X[asked], y[asked], 20)
    assert learned.words.startswith("by = 3.0; ")


def test_every_metric_of_the_table_is_learned_and_maps_rows():
    images = made_up_images()
    X, y = np.asarray(images.train.X), np.asarray(images.train.y)
    for name, candidates in METRICS.items():
        if candidates is None:
            continue
        fitted = candidates.learner().fit(X, y)
        assert np.isfinite(fitted.transform(images.test.X)).all(), name
        for setting, values in candidates.grid.items():
            assert setting in fitted.get_params()
            assert len(set(values)) == len(values) > 1


def test_some_classes_keep_their_rows_and_what_leads_to_them():
    images = made_up_images()
    some = tin200.some_classes(images, ["b2", "a1", "a2"])
    assert some.taxonomy.leaves == ("a1", "a2", "b2")
    assert set(some.taxonomy.nodes) == {"a1", "a2", "b2", "a", "A", "B", "R"}
    kept = np.isin(images.train.y, ["a1", "a2", "b2"])
    np.testing.assert_array_equal(some.train.X, images.train.X[kept])
    np.testing.assert_array_equal(some.train.y, images.train.y[kept])
    assert len(tin200.first_columns(some, 2).test.X.T) == 2


def test_principal_columns_are_those_of_the_training_rows():
    images = made_up_images()
    found = tin200.principal_columns(images, 3)
    distances = [np.linalg.norm(X[0] - X[1]) for rows in (images, found) for X in (rows.train.X, rows.test.X)]
    np.testing.assert_allclose(distances[:2], distances[2:])
    covariance = np.cov(found.train.X.T)
    np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-9)


# ---------------------------------------------------------------- support vector machines


def test_machines_learned_together_are_those_learned_one_by_one():
    images = made_up_images()
    X = np.asarray(images.train.X) / 4
    ours = OneAgainstAll().fit(X, images.labels)
    theirs = LinearSVC(C=1.0, dual=False, tol=1e-8, max_iter=10_000).fit(X, images.labels)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=0.01)
    np.testing.assert_array_equal(ours.predict(X), ours.classes_[ours.decision_function(X).argmax(axis=1)])


def test_platt_scaled_rows_are_judged_by_machines_that_have_not_seen_them():
    rng = np.random.default_rng(0)
    X, labels, Q = rng.normal(size=(90, 100)), np.arange(90) % 3, rng.normal(size=(5, 100))
    past, asked = platt_scaled(OneAgainstAll(C=100.0), X, labels, Q)
    assert past.shape == (90, 3)
    assert asked.shape == (5, 3)
    np.testing.assert_allclose(past.sum(axis=1), 1)
    # Noise can be learned by heart in so many columns, but not foretold.
    assert (OneAgainstAll(C=100.0).fit(X, labels).predict(X) == labels).all()
    assert (past.argmax(axis=1) == labels).mean() < 0.6
