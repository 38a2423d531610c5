"""Decisions and all operating points at once: against loops, on trees and graphs full of ties."""

from __future__ import annotations

import itertools
import math
import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearsay.core.parallel import threads
from nearsay.decision import rules
from nearsay.decision.envelope import LARGEST_SHIFT, AccuracyCurve, OperatingPoints, accuracy_curve, operating_points
from nearsay.decision.rules import (
    RULES,
    as_probabilities,
    darts,
    fixed_threshold,
    flat,
    flat_reject,
    node_probabilities,
)
from nearsay.errors import InputError
from nearsay.posterior.votes import count_votes
from nearsay.taxonomy.named import load_taxonomy
from nearsay.taxonomy.taxonomy import Taxonomy
from tests.decision.samples import T1, UNSURE, queries, taxonomies
from tests.reference.decision import hedging as reference

needs_data = pytest.mark.skipif(not os.environ.get("NEARSAY_DATA"), reason="NEARSAY_DATA names no folder of data sets")

SETTINGS = st.sampled_from([0.0, 0.125, 0.25, 1 / 3, 0.375, 0.5, 0.75, 0.78, 1.0, 7 / 3, 5.0, 1e6, math.inf])


def names(nodes: np.ndarray, taxonomy: Taxonomy = T1) -> list[Any]:
    return [taxonomy.nodes[node] for node in nodes]


# ---------------------------------------------------------------- by hand (the examples of the spec)


def test_example_1_a_larger_shift_names_a_safer_node():
    shifts = [0, 0.3333, 0.3334, 0.5, 2.3333, 2.3334]
    assert [names(darts([UNSURE], T1, shift))[0] for shift in shifts] == ["a1", "a1", "A", "A", "A", "R"]
    points = operating_points([UNSURE], T1)
    assert names(points.nodes) == ["a1", "A", "R"]
    np.testing.assert_allclose(points.settings, [0, 1 / 3, 7 / 3], rtol=1e-8)


def test_example_2_at_a_tie_the_first_node_wins_and_any_shift_breaks_it_upward():
    p = [[0.5, 0.5, 0, 0]]
    assert names(darts(p, T1, 0)) == ["a1"]
    assert names(darts(p, T1, 1e-6)) == ["A"]
    points = operating_points(p, T1)
    assert names(points.nodes) == ["a1", "A", "R"]
    assert points.settings[0] == 0 < points.settings[1] < 1e-8
    assert points.settings[2] == math.inf  # A holds all there is: only an infinite shift prefers the root


def test_example_5_a_leaf_is_kept_where_it_is_probable_enough():
    p = [UNSURE] * 3 + [[0.9, 0.05, 0.03, 0.02]]
    assert names(flat(p, T1)) == ["a1"] * 4
    assert names(flat_reject(p, T1, 0.5)) == ["R", "R", "R", "a1"]
    assert names(flat_reject(p, T1, 0.4)) == ["a1"] * 4


def test_example_6_a_leaf_with_two_parents_is_counted_once():
    dag = Taxonomy.from_edges([("R", "P"), ("R", "Q"), ("P", "a"), ("P", "b"), ("Q", "b"), ("Q", "c")])
    np.testing.assert_allclose(node_probabilities([[0.2, 0.5, 0.3]], dag), [[0.2, 0.5, 0.3, 0.7, 0.8, 1.0]])
    # b is worth log2(3) · .5 = .79 without a shift; Q, at log2(3/2), wins from λ = (.5 log2(3) − .8 log2(1.5)) / .3 on.
    points = operating_points([[0.2, 0.5, 0.3]], dag)
    assert names(points.nodes, dag) == ["b", "Q", "R"]
    np.testing.assert_allclose(points.settings[1], (0.5 * math.log2(3) - 0.8 * math.log2(1.5)) / 0.3)


def test_example_7_votes_of_neighbors_are_probabilities():
    said = np.array([[0, 0, 2, 1, 0, 3, 1]])
    p = count_votes(said, 4) / 7
    np.testing.assert_array_equal(p, [[3 / 7, 2 / 7, 1 / 7, 1 / 7]])
    assert names(darts(p, T1, 0)) == ["a1"]  # 6/7 bits against 5/7
    assert names(darts(p, T1, 1)) == ["A"]  # 9/7 against 10/7
    weighted = np.bincount(said[0], [4, 3, 2, 1, 1, 1, 0], minlength=4) / 12
    np.testing.assert_allclose(weighted, np.array([8, 1, 2, 1]) / 12)
    assert names(fixed_threshold([weighted], T1)) == ["R"]  # A has .75
    assert names(fixed_threshold([weighted], T1, 0.75)) == ["A"]


# ---------------------------------------------------------------- against loops


@given(case=queries(votes=8), setting=SETTINGS, rule=st.sampled_from(sorted(RULES)))
def test_a_rule_says_what_a_loop_over_nodes_says(case, setting, rule):
    taxonomy, p = case
    expected = [reference.RULES[rule](row, taxonomy.parents, setting) for row in p]
    assert RULES[rule](p, taxonomy, setting).tolist() == expected


@given(case=queries(votes=8))
def test_flat_says_the_first_most_probable_leaf_and_is_where_rejection_begins(case):
    taxonomy, p = case
    said = flat(p, taxonomy)
    assert said.tolist() == [reference.flat(row) for row in p]
    for rule in (flat_reject, fixed_threshold):
        np.testing.assert_array_equal(rule(p, taxonomy, 0.0), said)


def around(points: OperatingPoints, taxonomy: Taxonomy) -> list[float]:
    """Each setting where an answer changes, the numbers just below and above it, and places in between."""
    at = np.unique(points.settings[np.isfinite(points.settings)])
    # Shifts are rounded up to a step, thresholds not at all.
    step = 2e-9 * (at + taxonomy.information.max()) * (points.rule == "darts")
    between = ((at[1:] + at[:-1]) / 2)[np.diff(at) > 2 * step[1:]]
    below = np.nextafter(at - step, -math.inf)
    return [*at, *between, 2 * at[-1] + 1, *below[below >= 0], *np.nextafter(at, math.inf), math.inf]


@settings(max_examples=60)
@given(votes=st.sampled_from([3, 7, 8, 10]), data=st.data(), rule=st.sampled_from(sorted(RULES)))
def test_operating_points_are_what_the_rule_says_at_just_below_and_just_above_each(votes, data, rule):
    taxonomy, p = data.draw(queries(votes))
    points = operating_points(p, taxonomy, rule)
    for setting in around(points, taxonomy):
        np.testing.assert_array_equal(points.at(setting), RULES[rule](p, taxonomy, setting))
    for start, stop in zip(points.starts[:-1], points.starts[1:], strict=True):
        assert (np.diff(points.settings[start:stop]) > 0).all()
        assert points.nodes[stop - 1] == taxonomy.n_nodes - 1


def test_nodes_whose_probabilities_differ_by_rounding_only_make_one_step():
    tree = Taxonomy.from_edges([("R", "A"), ("R", "c"), ("A", "B"), ("A", "a"), ("B", "b1"), ("B", "b2")])
    p = np.zeros((1, 4))
    p[0, [tree.nodes.index(leaf) for leaf in ("b1", "b2", "a", "c")]] = [0.1, 0.2, 0.3, 0.4]
    assert node_probabilities(p, tree)[0, tree.nodes.index("B")] > 0.3
    points = operating_points(p, tree, "fixed-threshold")
    assert (np.diff(points.settings) > 0).all()
    for setting in around(points, tree):
        np.testing.assert_array_equal(points.at(setting), fixed_threshold(p, tree, setting))


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), data=st.data())
def test_operating_points_of_any_probabilities_are_those_of_darts(seed, data):
    taxonomy = data.draw(taxonomies())
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(taxonomy.n_leaves, 0.3), size=20)
    for tree in (taxonomy, taxonomy.with_prior(rng.dirichlet(np.ones(taxonomy.n_leaves)))):
        points = operating_points(p, tree)
        assert points.settings[np.isfinite(points.settings)].max() <= LARGEST_SHIFT
        for setting in [*points.settings[:60], *rng.exponential(3, size=20)]:
            np.testing.assert_array_equal(points.at(setting), darts(p, tree, setting))


def test_answers_that_change_at_shifts_close_together_are_all_found():
    deep = Taxonomy.from_paths([(*(f"level {depth}" for depth in range(leaf + 1)), leaf) for leaf in range(12)])
    p = np.random.default_rng(4).dirichlet(np.arange(1.0, 13.0), size=60)
    points = operating_points(p, deep)
    assert np.diff(points.starts).max() >= 7
    for shift in np.geomspace(0.01, 100, 400):
        np.testing.assert_array_equal(points.at(shift), darts(p, deep, shift))


def test_votes_that_differ_in_their_order_only_change_together():
    p = np.array([[*first, 0.2, 0.1, 0.1] for first in itertools.permutations([0.1, 0.2, 0.3])])
    tree = Taxonomy.from_nested({"R": {"A": ["a1", "a2", "a3"], "B": ["b1", "b2", "b3"]}})
    assert len(np.unique(node_probabilities(p, tree)[:, tree.number("A")])) == 2  # .6, and .6 but for rounding
    points = operating_points(p, tree)
    assert len(np.unique(points.settings)) == 3


@given(case=queries(votes=8), data=st.data(), rule=st.sampled_from(sorted(RULES)))
def test_the_curve_counts_right_answers_and_their_information_at_every_setting(case, data, rule):
    taxonomy, p = case
    labels = data.draw(st.lists(st.integers(0, taxonomy.n_nodes - 1), min_size=len(p), max_size=len(p)))
    curve = accuracy_curve(operating_points(p, taxonomy, rule), [taxonomy.nodes[label] for label in labels], taxonomy)
    assert (np.diff(curve.settings) > 0).all()
    assert (curve.n_right[-1], curve.gain[-1]) == (len(p), 0)
    for setting in [*curve.settings, *(curve.settings[np.isfinite(curve.settings)] + 0.01)]:
        right, gain = reference.right_and_gain(p, labels, taxonomy.parents, rule, setting)
        place = curve.place(setting)
        assert curve.n_right[place] == right
        assert curve.accuracy[place] == right / len(p)
        np.testing.assert_allclose(curve.gain[place], gain, atol=1e-12)
        np.testing.assert_allclose(curve.normalized_gain[place] * np.log2(taxonomy.n_leaves), gain, atol=1e-12)


# ---------------------------------------------------------------- what results do not depend on


TIMES = rules.BLOCK_BYTES // (8 * T1.n_nodes) // 50 + 1  # so often 50 queries are more than a block


def test_results_do_not_depend_on_batch_size_hiclass_159():
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.full(4, 0.5), size=50)
    for rule, decide in RULES.items():
        said, points = decide(p, T1, 0.6), operating_points(p, T1, rule)
        np.testing.assert_array_equal(np.concatenate([decide(row[None], T1, 0.6) for row in p]), said)
        single = [operating_points(row[None], T1, rule) for row in p]
        np.testing.assert_array_equal(np.concatenate([one.settings for one in single]), points.settings)
        many = np.tile(p, (TIMES, 1))
        for count in (1, 3):
            with threads(count):
                np.testing.assert_array_equal(decide(many, T1, 0.6), np.tile(said, TIMES))
                again = operating_points(many, T1, rule)
                np.testing.assert_array_equal(again.settings, np.tile(points.settings, TIMES))
                np.testing.assert_array_equal(again.nodes, np.tile(points.nodes, TIMES))
                np.testing.assert_array_equal(np.diff(again.starts), np.tile(np.diff(points.starts), TIMES))


def test_results_do_not_depend_on_ragged_depth_hiclass_162():
    even = Taxonomy.from_nested({"R": {"A": ["a1", "a2"], "B": ["b"]}})  # B is an only child's parent
    ragged = Taxonomy.from_nested({"R": {"A": ["a1", "a2"], "b": {}}})
    p = np.random.default_rng(2).dirichlet(np.ones(3), size=100)
    for decide in RULES.values():
        for setting in (0.0, 0.3, 0.6, 1.5):
            assert names(decide(p, even, setting), even) == names(decide(p, ragged, setting), ragged)


def test_no_queries_and_a_taxonomy_of_one_level_are_served():
    none = np.empty((0, 4))
    for rule, decide in RULES.items():
        assert decide(none, T1, 0.5).shape == (0,)
        assert len(operating_points(none, T1, rule)) == 0
        assert operating_points(none, T1, rule).at(1.0).shape == (0,)
    level = Taxonomy.from_nested({"R": ["a", "b", "c"]})
    points = operating_points([[0.5, 0.25, 0.25]], level)
    assert names(points.nodes, level) == ["a", "R"]
    np.testing.assert_allclose(points.settings, [0, math.log2(3)])  # (log2(3) + λ) / 2 = λ


@pytest.mark.parametrize("rule", RULES)
def test_a_setting_for_each_query_is_that_of_the_query_alone(rule):
    p = np.random.default_rng(3).dirichlet(np.ones(4), size=6)
    settings_of = np.array([0, 0.3, 0.45, 0.7, 5.0, math.inf])
    one_by_one = [RULES[rule](row[None], T1, setting)[0] for row, setting in zip(p, settings_of, strict=True)]
    assert one_by_one[-1] == T1.number("R")
    for times in (1, 9 * TIMES):
        found = RULES[rule](np.tile(p, (times, 1)), T1, np.tile(settings_of, times))
        np.testing.assert_array_equal(found, np.tile(one_by_one, times))
    with pytest.raises(InputError, match=r"one number or one for each of the 6 queries; got shape \(2,\)"):
        RULES[rule](p, T1, [0.5, 1.0])


@given(case=queries(votes=7), data=st.data(), rule=st.sampled_from(sorted(RULES)))
def test_points_of_some_queries_are_those_found_for_them_alone(case, data, rule):
    taxonomy, p = case
    rows = data.draw(st.lists(st.integers(0, len(p) - 1)))
    taken, alone = operating_points(p, taxonomy, rule).take(rows), operating_points(p[rows], taxonomy, rule)
    for name in ("starts", "settings", "nodes"):
        np.testing.assert_array_equal(getattr(taken, name), getattr(alone, name))
    mask = np.isin(np.arange(len(p)), rows)
    by_mask = operating_points(p, taxonomy, rule).take(mask)
    np.testing.assert_array_equal(by_mask.settings, operating_points(p[mask], taxonomy, rule).settings)


@given(case=queries(votes=8))
def test_probabilities_of_nodes_are_those_of_a_loop_each_leaf_counted_once(case):
    taxonomy, p = case
    expected = [reference.node_probabilities(row, taxonomy.parents) for row in p]
    np.testing.assert_array_equal(node_probabilities(p, taxonomy), expected)


def test_what_was_passed_is_not_written_to_and_types_are_kept_apart():
    p = np.array([UNSURE] * 2, dtype=np.float32)
    p.flags.writeable = False
    assert names(darts(p, T1, 0.5)) == ["A", "A"]
    assert names(darts(np.eye(4, dtype=int), T1, 3)) == ["a1", "a2", "b1", "b2"]
    assert names(darts(np.asfortranarray(np.eye(4)), T1, 3)) == ["a1", "a2", "b1", "b2"]


@needs_data
def test_ten_thousand_leaves_are_served_right():
    taxonomy = load_taxonomy("inat21")
    rng = np.random.default_rng(0)
    truth = rng.integers(taxonomy.n_leaves, size=40)
    shared = (taxonomy.covers[truth] @ taxonomy.covers.T).toarray()  # how far up two species part
    p = np.exp(1.5 * shared + rng.normal(size=shared.shape))
    p /= p.sum(axis=1, keepdims=True)
    points = operating_points(p, taxonomy)
    p_node = node_probabilities(p, taxonomy)
    for shift in (0.0, 0.1, 1.0, 4.0, 20.0, 300.0):
        plain = (p_node * (taxonomy.information + shift)).argmax(axis=1)
        np.testing.assert_array_equal(points.at(shift), plain)
        np.testing.assert_array_equal(darts(p, taxonomy, shift), plain)
    curve = accuracy_curve(points, [taxonomy.leaves[leaf] for leaf in truth], taxonomy)
    assert (np.diff(curve.gain) <= 1e-12).all()


# ---------------------------------------------------------------- words


def test_probabilities_that_are_none_are_refused_with_words():
    with pytest.raises(InputError, match=r"Row 1 of p_leaf sums to 1\.5.*p / p\.sum"):
        as_probabilities([UNSURE, [0.6, 0.3, 0.3, 0.3]], T1)
    with pytest.raises(InputError, match=r"3 columns, but the taxonomy has 4 leaves"):
        darts([[0.5, 0.25, 0.25]], T1, 0)
    with pytest.raises(InputError, match=r"holds -0\.5 at row 0, column 1"):
        flat([[1.0, -0.5, 0.25, 0.25]], T1)
    with pytest.raises(InputError, match="not a finite number"):
        flat([[1.0, math.nan, 0, 0]], T1)
    rounded = np.round(np.random.default_rng(0).dirichlet(np.ones(4), size=9), 5)
    assert not (rounded.sum(axis=1) == 1).all()
    flat(rounded, T1)


@pytest.mark.parametrize("setting", [-0.1, math.nan, "much", None, True])
def test_a_setting_that_is_none_is_refused(setting):
    for decide, name in ((darts, "reward_shift"), (flat_reject, "threshold"), (fixed_threshold, "threshold")):
        with pytest.raises(InputError, match=rf"{name} must be a number of at least 0; got .*"):
            decide([UNSURE], T1, setting)


def test_wrong_shapes_and_names_are_refused_with_words():
    with pytest.raises(InputError, match=r"one for each of the 1 queries; got shape \(2,\)"):
        darts([UNSURE], T1, [0.5, 1.0])
    with pytest.raises(InputError, match=r"Unknown rule 'dart' \(did you mean 'darts'\?\)"):
        operating_points([UNSURE], T1, "dart")
    points = operating_points([UNSURE], T1)
    with pytest.raises(InputError, match=r"one label for each of the 1 rows of p_leaf; got shape \(2,\)"):
        accuracy_curve(points, ["a1", "a2"], T1)
    with pytest.raises(InputError, match="'a3'"):
        accuracy_curve(points, ["a3"], T1)
    with pytest.raises(InputError, match="No rows given"):
        accuracy_curve(operating_points(np.empty((0, 4)), T1), [], T1)


def test_the_normalized_gain_of_a_taxonomy_that_says_nothing_is_zero():
    alone = Taxonomy.from_nested({"R": ["a"]})
    curve = accuracy_curve(operating_points([[1.0]], alone), ["a"], alone)
    assert isinstance(curve, AccuracyCurve)
    assert curve.normalized_gain.tolist() == [0.0] * len(curve.settings)
