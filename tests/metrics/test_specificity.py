"""Measures of specificity: the hand examples, loops on small trees and graphs, what must always hold, bad input."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearsay.decision.envelope import accuracy_curve, operating_points
from nearsay.decision.rules import darts, flat, flat_reject
from nearsay.errors import InputError
from nearsay.metrics.specificity import (
    best_f_score,
    breakdown,
    f_scores,
    hierarchical_accuracy,
    information_gain,
    lca_cost,
    semantic_similarities,
    semantic_similarity,
)
from nearsay.taxonomy.taxonomy import Taxonomy
from tests.reference.decision import specificity as reference
from tests.reference.decision.taxonomy import DAG, GRAPHS, ILSVRC65_SHAPE, T1

TREE = Taxonomy.from_nested(T1)
MEASURES = (hierarchical_accuracy, information_gain, semantic_similarity, lca_cost)

# Four images: three alike and one that is clear.
P = [[0.4, 0.3, 0.2, 0.1]] * 3 + [[0.9, 0.05, 0.03, 0.02]]
TRUTH = ["a1", "a2", "b1", "a1"]


def names(numbers: np.ndarray) -> list[str]:
    return [TREE.nodes[number] for number in numbers]


@st.composite
def judged(draw: st.DrawFn) -> tuple[list[tuple[str, str]], list[str], list[str]]:
    """A tree or graph, with labels and answers on any of its nodes."""
    edges = draw(GRAPHS)
    nodes = sorted({node for edge in edges for node in edge})
    rows = draw(st.lists(st.tuples(st.sampled_from(nodes), st.sampled_from(nodes)), min_size=1, max_size=8))
    return edges, [true for true, _ in rows], [said for _, said in rows]


# ---------------------------------------------------------------- by hand


def test_hedged_answers_by_hand():
    said = names(darts(P, TREE, 0.5))
    assert said == ["A", "A", "A", "a1"]
    assert hierarchical_accuracy(TRUTH, said, TREE) == 0.75
    assert information_gain(TRUTH, said, TREE, normalized=False) == 1.0
    assert information_gain(TRUTH, said, TREE) == 0.5
    assert f_scores(0.75, 0.5) == pytest.approx(0.6)
    assert semantic_similarity(TRUTH, said, TREE) == 0.5
    assert lca_cost(TRUTH, said, TREE) == (1 + 1 + 2 + 0) / 4


def test_flat_answers_by_hand():
    said = names(flat(P, TREE))
    assert said == ["a1"] * 4
    assert hierarchical_accuracy(TRUTH, said, TREE) == 0.5
    assert information_gain(TRUTH, said, TREE) == 0.5
    assert semantic_similarities(TRUTH, said, TREE).tolist() == [1, 1 / 2, 0, 1]
    assert semantic_similarity(TRUTH, said, TREE) == 0.625
    assert lca_cost(TRUTH, said, TREE) == (0 + 1 + 2 + 0) / 4


def test_rejected_answers_by_hand():
    said = names(flat_reject(P, TREE, 0.5))
    assert said == ["R", "R", "R", "a1"]
    assert hierarchical_accuracy(TRUTH, said, TREE) == 1.0
    assert information_gain(TRUTH, said, TREE) == 0.25


def test_bars_by_hand():
    bars = breakdown(TRUTH, names(darts(P, TREE, 0.5)), TREE)
    assert bars.wrong == 0.25
    assert bars.information.tolist() == [0, 1, 2]
    assert bars.shares.tolist() == [0, 0.5, 0.25]
    assert bars.names == ("root", "A or B", "leaf")


def test_levels_of_the_papers_tree_by_hand():
    tree = Taxonomy.from_nested(ILSVRC65_SHAPE)
    bars = breakdown(["dog 3"], ["dog"], tree)
    expected = [0, 0.406625, 0.878694, 2.025535, 2.662965, 3.025535, 3.510962, 5.832890]
    np.testing.assert_allclose(bars.information, expected, atol=1e-6)
    assert bars.names == ("root", "animal", "dog", "vehicle", "car", "bird", "cat or boat", "leaf")
    assert bars.shares.tolist() == [0, 0, 1, 0, 0, 0, 0, 0]


def test_similarities_in_the_papers_tree_by_hand():
    tree = Taxonomy.from_nested(ILSVRC65_SHAPE)
    said = ["dog 1", "dog 2", "dog", "cat 1", "boat 1", "object"]
    np.testing.assert_allclose(semantic_similarities(["dog 1"] * 6, said, tree), [1, 2 / 3, 2 / 3, 1 / 3, 0, 0])


def test_a_leaf_under_two_parents_has_both_on_its_path():
    graph = Taxonomy.from_edges(DAG)
    # b: {b, P, Q}; a: {a, P}; P: {P}. The longer path counts.
    assert semantic_similarities(["b", "b"], ["a", "P"], graph).tolist() == [1 / 3, 1 / 3]
    assert hierarchical_accuracy(["b", "b", "a"], ["P", "Q", "Q"], graph) == pytest.approx(2 / 3)


def test_a_node_is_as_high_as_its_longest_way_down():
    tree = Taxonomy(["a", "b", "low", "middle", "other", "R"], [[2], [4], [3], [5], [5], []])
    assert [lca_cost(["a"], [said], tree) for said in ("a", "low", "middle", "b")] == [0, 1, 2, 3]


# ---------------------------------------------------------------- as loops


@settings(max_examples=40, deadline=None)
@given(case=judged())
def test_measures_are_those_of_the_loops_on_trees_and_graphs(case):
    edges, truth, said = case
    graph = Taxonomy.from_edges(edges)
    assert hierarchical_accuracy(truth, said, graph) == pytest.approx(reference.accuracy(edges, truth, said))
    in_bits = reference.gain(edges, truth, said)
    assert information_gain(truth, said, graph, normalized=False) == pytest.approx(in_bits, abs=1e-12)
    most = math.log2(graph.n_leaves) or 1.0
    assert information_gain(truth, said, graph) == pytest.approx(in_bits / most, abs=1e-12)
    assert lca_cost(truth, said, graph) == pytest.approx(reference.lca_cost(edges, truth, said))
    alike = [reference.similarity(edges, *pair) for pair in zip(truth, said, strict=True)]
    assert semantic_similarities(truth, said, graph).tolist() == alike
    assert semantic_similarity(truth, said, graph) == pytest.approx(np.mean(alike))


@settings(max_examples=60, deadline=None)
@given(case=judged())
def test_bars_are_those_of_the_loops_and_sum_to_one(case):
    edges, truth, said = case
    graph = Taxonomy.from_edges(edges)
    bars = breakdown(truth, said, graph)
    wrong, shares = reference.breakdown(edges, truth, said)
    assert bars.wrong == pytest.approx(wrong)
    np.testing.assert_allclose(bars.information, list(shares), atol=1e-9)
    np.testing.assert_allclose(bars.shares, list(shares.values()), atol=1e-12)
    assert bars.wrong + bars.shares.sum() == pytest.approx(1)
    assert bars.shares @ bars.information == pytest.approx(information_gain(truth, said, graph, normalized=False))
    assert len(bars.names) == len(bars.shares)


@given(a=st.integers(0, 6), g=st.integers(0, 6))
def test_an_f_score_is_the_harmonic_mean(a, g):
    expected = 2 / (6 / a + 6 / g) if a and g else 0.0
    assert f_scores(a / 6, g / 6) == pytest.approx(expected)
    assert 0 <= f_scores(a / 6, g / 6) <= 1


# ---------------------------------------------------------------- what must hold


@settings(max_examples=60, deadline=None)
@given(case=judged(), order=st.randoms(use_true_random=False))
def test_the_order_of_classes_and_of_rows_changes_nothing(case, order):
    edges, truth, said = case
    graph = Taxonomy.from_edges(edges)
    other = Taxonomy.from_edges(order.sample(edges, len(edges)), leaves=order.sample(graph.leaves, graph.n_leaves))
    rows = order.sample(range(len(truth)), len(truth))
    shuffled = [truth[row] for row in rows], [said[row] for row in rows]
    for measure in MEASURES:
        assert measure(*shuffled, other) == pytest.approx(measure(truth, said, graph), abs=1e-12)
    one, two = breakdown(truth, said, graph), breakdown(*shuffled, other)
    assert one.wrong == two.wrong
    assert one.shares.tolist() == two.shares.tolist()


@settings(max_examples=40, deadline=None)
@given(case=judged())
def test_gain_is_at_most_what_right_leaves_would_say_and_scores_stay_between_0_and_1(case):
    edges, truth, said = case
    graph = Taxonomy.from_edges(edges)
    accuracy, gain = hierarchical_accuracy(truth, said, graph), information_gain(truth, said, graph)
    assert 0 <= gain <= accuracy + 1e-12
    assert 0 <= f_scores(accuracy, gain) <= 1
    alike = semantic_similarities(truth, said, graph)
    assert ((alike >= 0) & (alike <= 1)).all()
    assert (alike[np.array(truth) == np.array(said)] == 1).all()
    assert semantic_similarities(said, truth, graph).tolist() == alike.tolist()


def test_the_best_score_of_a_curve_is_the_best_of_its_operating_points():
    curve = accuracy_curve(operating_points(P, TREE), TRUTH, TREE)
    one_by_one = []
    for shift in curve.settings:
        said = names(darts(P, TREE, shift))
        one_by_one.append(f_scores(hierarchical_accuracy(TRUTH, said, TREE), information_gain(TRUTH, said, TREE)))
    assert best_f_score(curve) == pytest.approx(max(one_by_one)) == pytest.approx(0.6)
    # The last point is the root: always right, and worth nothing.
    assert f_scores(curve.accuracy, curve.normalized_gain)[-1] == 0


def test_a_prior_changes_what_answers_say():
    tree = TREE.with_prior({"a1": 1, "a2": 2, "b1": 2, "b2": 1})
    bars = breakdown(["a1", "a2"], ["A", "a2"], tree)
    np.testing.assert_allclose(bars.information, [0, 1, math.log2(3), math.log2(6)])
    assert bars.names == ("root", "A or B", "a2 or b1", "a1 or b2")
    assert bars.shares.tolist() == [0, 0.5, 0.5, 0]
    assert information_gain(["a1", "a2"], ["a1", "a2"], tree) == pytest.approx((1 + math.log2(3) / math.log2(6)) / 2)


def test_levels_do_not_split_by_rounding():
    tree = Taxonomy.from_nested({"R": {"A": ["a1", "a2", "a3"], "B": ["b1", "b2", "b3"]}})
    tree = tree.with_prior(np.array([1, 2, 4, 1, 4, 2]) / 10)
    assert tree.information[tree.number("A")] != tree.information[tree.number("B")]
    assert breakdown(["a1"], ["A"], tree).names == ("root", "A or B", "a3 or b2", "a2 or b3", "a1 or b1")


def test_levels_of_many_nodes_are_counted():
    tree = Taxonomy.from_nested({"R": {name: [f"{name}1", f"{name}2"] for name in "ABC"}})
    assert breakdown(["A1"], ["A"], tree).names == ("root", "3 nodes", "leaf")


def test_a_tree_of_one_leaf_has_nothing_to_say():
    tree = Taxonomy.from_edges([("R", "a")])
    assert information_gain(["a"], ["a"], tree) == 0
    bars = breakdown(["a"], ["R"], tree)
    assert (bars.wrong, bars.shares.tolist(), bars.names) == (0, [1], ("root",))


def test_guessing_leaves_in_the_papers_tree_is_as_similar_as_in_the_reference():
    tree = Taxonomy.from_nested(ILSVRC65_SHAPE)
    truth, said = np.repeat(tree.leaves, tree.n_leaves), np.tile(tree.leaves, tree.n_leaves)
    assert semantic_similarity(truth, said, tree) == pytest.approx(0.3327, abs=5e-5)


# ---------------------------------------------------------------- what comes in


@pytest.mark.parametrize("kind", [list, tuple, np.array, lambda labels: np.array(labels, object)])
def test_labels_may_come_as_anything_listed(kind):
    assert hierarchical_accuracy(kind(TRUTH), kind(["a1", "A", "A", "R"]), TREE) == 0.75


def test_numbers_may_be_names():
    tree = Taxonomy.from_nested({0: {1: [2, 3], 4: {}}})
    assert hierarchical_accuracy(np.array([2, 3, 4]), np.array([1, 1, 1]), tree) == pytest.approx(2 / 3)


@pytest.mark.parametrize("measure", [*MEASURES, semantic_similarities, breakdown])
def test_labels_that_do_not_pair_up_are_an_error(measure):
    with pytest.raises(InputError, match="2 answers and 1 labels"):
        measure(["a1"], ["a1", "a2"], TREE)
    with pytest.raises(InputError, match="at least one"):
        measure([], [], TREE)
    with pytest.raises(InputError, match="did you mean"):
        measure(["a1"], ["a11"], TREE)


@pytest.mark.parametrize("gain", [5.8, -0.1, math.nan])
def test_a_gain_in_bits_is_no_share(gain):
    with pytest.raises(InputError, match="normalized_gain: shares from 0 to 1 are expected"):
        f_scores([0.5], [gain])


def test_a_share_just_beyond_one_is_one():
    assert f_scores([1.0], [1 + 1e-12]) == 1
