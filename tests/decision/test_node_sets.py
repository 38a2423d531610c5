"""Sets of nodes: against trying all of them, and their promise in trees and graphs."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import nearsay as ns
from nearsay.core import compiling
from nearsay.decision.conformal import ConformalClassifier
from nearsay.decision.sets.best_sets import best_sets
from nearsay.decision.sets.node_sets import SET_POINTS, NodeSets
from nearsay.errors import InputError
from nearsay.taxonomy.taxonomy import Taxonomy
from tests.decision.samples import Sayer
from tests.reference.decision import node_sets as reference
from tests.reference.decision.taxonomy import DAG, GRAPHS, TREES
from tests.saving import saved_and_opened

HALVES = True

SIXTEENTHS = st.lists(st.integers(0, 16), min_size=9, max_size=9)
PETS = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}, "bird": ["owl", "crow"]}})


def shares(counts: list[int], tree: Taxonomy) -> tuple[list[Fraction], np.ndarray]:
    """Exact shares of the leaves, and the same in float64; the first leaf gets what is left of a power of two."""
    given = counts[: tree.n_leaves]
    total = 2 ** math.ceil(math.log2(sum(given) + 1))
    given[0] += total - sum(given)
    exact = [Fraction(count, total) for count in given]
    return exact, np.array([[float(share) for share in exact]])


@settings(max_examples=500)
@given(edges=st.one_of(TREES, GRAPHS), counts=SIXTEENTHS, most=st.integers(1, 4))
def test_sets_are_those_of_trying_all(edges, counts, most):
    tree = Taxonomy.from_edges(edges)
    exact, p = shares(counts, tree)
    sets = best_sets(p, tree, most)
    wanted = reference.best_by_leaves(exact, tree.parents, most)
    got = {}
    for n_leaves, probability, nodes in zip(sets.n_leaves.tolist(), sets.p[0], sets.nodes[0], strict=True):
        chosen = tuple(nodes[nodes >= 0].tolist())
        assert chosen in reference.all_sets(tree.parents, most)
        if probability > 0:
            got[n_leaves] = (Fraction(probability), len(chosen))
            covered = tree.covers[:, list(chosen)].sum(axis=1)
            assert covered.sum() == n_leaves
            assert math.isclose(p[0] @ covered, probability)
    assert got == wanted


@settings(max_examples=100)
@given(
    edges=st.one_of(TREES, GRAPHS),
    counts=SIXTEENTHS,
    most=st.integers(1, 3),
    setting=st.integers(0, 40).map(lambda n: n / 16),
)
def test_rules_choose_among_all_sets(edges, counts, most, setting):
    tree = Taxonomy.from_edges(edges)
    exact, p = shares(counts, tree)
    sets = best_sets(p, tree, most)
    levels = {rule: int(SET_POINTS[rule](sets).at(setting)[0]) for rule in SET_POINTS}
    wanted = reference.fewest_leaves(exact, tree.parents, most, setting)
    smallest = sets.n_leaves[levels["aps"]], Fraction(max(sets.p[0, levels["aps"]], 0.0)) or Fraction(1)
    assert smallest == wanted
    of_most = sets.p[0, levels["lac"]] * (math.log2(tree.n_leaves / sets.n_leaves[levels["lac"]]) + setting)
    assert of_most == pytest.approx(reference.largest_reward(exact, tree.parents, most, setting), abs=1e-7)


def test_one_node_of_equal_worth_is_preferred_to_its_children():
    sets = best_sets([[0.4, 0.3, 0.3, 0.0, 0.0]], PETS, 2)
    assert [[PETS.nodes[v] for v in nodes if v >= 0] for nodes in sets.nodes[0][:2]] == [["corgi"], ["dog"]]


def test_sets_do_not_depend_on_the_batch():
    p = np.random.default_rng(0).dirichlet(np.full(5, 0.5), 50)
    together = best_sets(p, PETS, 2)
    for row in range(50):
        np.testing.assert_array_equal(best_sets(p[[row]], PETS, 2).nodes[0], together.nodes[row])


@settings(max_examples=60)
@given(
    edges=st.one_of(TREES, GRAPHS),
    rows=st.lists(SIXTEENTHS, min_size=1, max_size=8),
    most=st.integers(1, 3),
    score=st.sampled_from(sorted(SET_POINTS)),
)
def test_a_score_is_the_smallest_setting_from_which_on_the_class_is_covered(edges, rows, most, score):
    tree = Taxonomy.from_edges(edges)
    p = np.concatenate([shares(list(row), tree)[1] for row in rows])
    labels = np.arange(len(p)) % tree.n_leaves
    rule = NodeSets(tree, np.array(tree.leaves), most, score)
    scores = rule.true_scores(p, labels)
    points = SET_POINTS[score](best_sets(p, tree, most))
    every = np.unique(points.settings)
    covered = np.array([rule.inside(rule.nodes(p, np.full(len(p), at)))[np.arange(len(p)), labels] for at in every])
    for row, of_row in enumerate(covered.T):
        misses = np.flatnonzero(~of_row)
        from_here = every[misses[-1] + 1 :] if len(misses) else every
        assert scores[row] == from_here[0]


# ---------------------------------------------------------------- the promise


def random_tree(rng: np.random.Generator, n_leaves: int, *, graph: bool) -> Taxonomy:
    """Leaves under inner nodes that are put under each other at random; in a graph some have two parents."""
    n_inner = max(2, n_leaves // 3)
    edges = [(f"inner {rng.integers(node)}" if node else "root", f"inner {node}") for node in range(n_inner)]
    edges += [(f"inner {leaf % n_inner}", f"leaf {leaf}") for leaf in range(n_leaves)]
    edges += [(f"inner {rng.integers(n_inner)}", f"leaf {leaf}") for leaf in range(n_leaves) if graph and leaf % 4 == 0]
    return Taxonomy.from_edges(edges)


def made_up(rng: np.random.Generator, tree: Taxonomy, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities that are too sure, and labels that were drawn from milder ones."""
    noise = rng.normal(size=(n, tree.n_nodes)) @ tree.covers.T
    mild = np.exp(noise)
    mild /= mild.sum(axis=1, keepdims=True)
    truth = (mild.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    sure = np.exp(1.5 * noise)
    return sure / sure.sum(axis=1, keepdims=True), truth


@pytest.mark.slow
@pytest.mark.parametrize("score", sorted(SET_POINTS))
@pytest.mark.parametrize(("n_leaves", "graph"), [(5, True), (200, False)])
def test_sets_cover_as_often_as_promised_in_two_hundred_splits(n_leaves, graph, score):
    rng = np.random.default_rng(n_leaves)
    tree = random_tree(rng, n_leaves, graph=graph)
    leaves = np.array(tree.leaves)
    splits, known, fresh = 200, 60, 20
    p, truth = made_up(rng, tree, splits * (known + fresh))
    of_split, is_known = np.divmod(np.arange(len(p)), known + fresh)
    is_known = is_known < known
    rule = NodeSets(tree, leaves, 2, score)
    with compiling.forced(True):
        scores = np.sort(rule.true_scores(p[is_known], truth[is_known]).reshape(splits, known), axis=1)
        thresholds = scores[:, math.ceil((known + 1) * 0.9) - 1]
        inside = rule.inside(rule.nodes(p[~is_known], thresholds[of_split[~is_known]]))
    hits = inside[np.arange(splits * fresh), truth[~is_known]].sum()
    # Rows of a split share a threshold: as if each counted a little more than once.
    assert hits >= binom.ppf(0.001, splits * fresh, 0.9) - 40


def test_the_classifier_covers_in_each_stratum_and_without_strata_does_not():
    rng = np.random.default_rng(3)
    tree = random_tree(rng, 12, graph=False).with_leaves(sorted(f"leaf {n}" for n in range(12)))
    hits: dict[bool, list[list[float]]] = {True: [], False: []}
    for _ in range(40):
        p, truth = made_up(rng, tree, 600)
        hard = rng.random(600) < 0.3
        truth[hard] = rng.integers(12, size=hard.sum())  # where probabilities say nothing
        y, names = np.array(tree.leaves)[truth], np.where(hard, "night", "day")
        for by_stratum, shares_covered in hits.items():
            model = ConformalClassifier(Sayer(sorted(tree.leaves)), 0.8, taxonomy=tree, cv="prefit")
            model.fit(p[:300], y[:300], strata=names[:300] if by_stratum else None)
            inside = model.predict_set(p[300:], strata=names[300:] if by_stratum else None)
            right = inside[np.arange(300), truth[300:]]
            shares_covered.append([right[names[300:] == name].mean() for name in ("day", "night")])
    each, over_all = np.mean(hits[True], axis=0), np.mean(hits[False], axis=0)
    assert (each > 0.79).all()
    assert over_all[1] < 0.7


def test_flat_sets_keep_to_strata_too():
    p = np.tile([[0.9, 0.1]], (40, 1))
    y = np.array(["a"] * 20 + ["b"] * 20)
    names = np.array(["day"] * 20 + ["night"] * 20)
    spoken = Sayer(["a", "b"])
    model = ConformalClassifier(spoken, 0.9, cv="prefit").fit(p, y, strata=names)
    assert model.thresholds_.round(3).tolist() == [[0.1, 0.1], [0.9, 0.9]]
    assert model.predict_set(p[:2], strata=["day", "night"]).tolist() == [[True, False], [True, True]]
    for strata, words in [(None, "name one for each of 2 rows"), (["day", "dawn"], "stratum 'dawn'")]:
        with pytest.raises(InputError, match=words):
            model.predict_set(p[:2], strata=strata)
    with pytest.raises(InputError, match="fitted without strata"):
        ConformalClassifier(spoken, 0.9, cv="prefit").fit(p, y).predict_set(p[:1], strata=["day"])
    with pytest.warns(UserWarning, match=r"1 of 2 strata have fewer.*night"):
        ConformalClassifier(spoken, 0.9, cv="prefit").fit(p[:25], y[:25], strata=names[:25])


def test_a_larger_coverage_covers_more_of_the_calibration_rows():
    rng = np.random.default_rng(5)
    tree = random_tree(rng, 20, graph=True)
    p, truth = made_up(rng, tree, 300)
    p, y = p[:, np.argsort(tree.leaves)], np.array(tree.leaves)[truth]
    for score in sorted(SET_POINTS):
        model = ConformalClassifier(Sayer(sorted(tree.leaves)), 0.5, taxonomy=tree, conformity_score=score, cv="prefit")
        model.fit(p, y)
        column, covered = np.searchsorted(model.classes_, y), []
        for coverage in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99):
            covered.append(model.set_coverage(coverage).predict_set(p)[np.arange(300), column].mean())
            assert covered[-1] >= coverage
        assert covered == sorted(covered)


def test_sets_explain_themselves_by_nodes_and_are_saved():
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.normal(place, 1.0, (30, 1)) for place in (0.0, 2.0, 10.0, 20.0, 22.0)])
    y = np.repeat(["corgi", "poodle", "cat", "owl", "crow"], 30)
    votes = ns.NeighborClassifier(15, posterior="weighted")
    model = ConformalClassifier(votes, 0.9, taxonomy=PETS, max_nodes=2).fit(X, y)
    evidence = model.explain([[6.0]])
    (names,) = model.predict_set_labels([[6.0]])
    assert evidence[0].labels == names
    assert evidence[0].n_inside == evidence.sets.sum()
    first = str(evidence[0]).splitlines()[0]
    assert ", or " in first
    assert f": {evidence[0].n_inside} of 5 classes" in first
    again = saved_and_opened(model)
    np.testing.assert_array_equal(again.predict_set(X), model.predict_set(X))
    assert again.predict_set_labels(X) == model.predict_set_labels(X)


def test_settings_that_do_not_go_together_are_refused():
    X, y = np.arange(20.0)[:, None], ["corgi", "cat"] * 10
    for settings_, words in [
        ({"per_class": True}, "per_class=True takes no taxonomy"),
        ({"conformity_score": "raps"}, "With a taxonomy conformity_score is one of lac, aps; got 'raps'"),
        ({"max_nodes": 0}, "from 1 to 7; got 0"),
        ({"taxonomy": "pets"}, "must be a Taxonomy"),
    ]:
        with pytest.raises(InputError, match=words):
            ConformalClassifier(ns.NeighborClassifier(3), **{"taxonomy": PETS, **settings_}).fit(X, y)


def test_a_class_that_is_an_inner_node_is_covered_by_it_and_by_nodes_above():
    tree = Taxonomy.from_edges(DAG)
    spoken = Sayer(["P", "c"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ConformalClassifier(spoken, 0.9, taxonomy=tree, max_nodes=1, cv="prefit")
        model.fit(np.array([[0.9, 0.1]] * 20), ["P"] * 20)
    assert model.predict_set_labels([[0.9, 0.1]]) == [["P"]]
    assert model.predict_set([[0.9, 0.1]]).tolist() == [[True, False]]
