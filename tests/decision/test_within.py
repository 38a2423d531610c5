"""Answers within a branch: the rule among its nodes alone, by a loop, and probabilities of its classes alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nearsay as ns
from nearsay.decision.hedged import HedgedClassifier
from nearsay.taxonomy.taxonomy import Taxonomy
from tests.decision.samples import Sayer
from tests.reference.decision import hedging as reference
from tests.reference.decision.taxonomy import GRAPHS, leaves_below, walked_up

PETS = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle", "pug"], "cat": ["tabby", "Siamese"]}})


@given(edges=GRAPHS)
def test_a_branch_has_the_nodes_below_and_their_leaves(edges):
    tree = Taxonomy.from_edges(edges)
    for name in tree.nodes:
        branch = tree.branch(name)
        assert set(branch.nodes) == {node for node in tree.nodes if name in walked_up(edges, node)}
        for node in branch.nodes:
            assert set(branch.leaves_under(node)) == (leaves_below(edges, node) or {node})


@given(
    edges=GRAPHS,
    counts=st.lists(st.lists(st.integers(0, 8), min_size=9, max_size=9), min_size=1, max_size=4),
    rule=st.sampled_from(["darts", "fixed-threshold", "climbing"]),
    data=st.data(),
)
def test_the_answer_is_that_of_a_loop_over_the_nodes_of_the_branch(edges, counts, rule, data):
    tree = Taxonomy.from_edges(edges)
    classes = sorted(tree.leaves)
    p = np.array(counts, float)[:, : len(classes)] + 1e-3
    p /= p.sum(axis=1, keepdims=True)
    spoken = Sayer(classes)
    hedged = HedgedClassifier(spoken, tree, 0.5, rule=rule, cv="prefit").fit(p, np.array(classes)[p.argmax(axis=1)])
    hedged.settings_ = np.array([data.draw(st.sampled_from([0.0, 0.3, 0.6, 1.7]))])
    within = data.draw(st.sampled_from(tree.nodes))
    shares = hedged.predict_proba(p, within=within)
    below = leaves_below(edges, within) or {within}
    inside = np.array([name in below for name in classes])
    np.testing.assert_allclose(shares, np.where(inside, p, 0) / p[:, inside].sum(axis=1, keepdims=True))
    numbers = [number for number, name in enumerate(tree.nodes) if within in walked_up(edges, name)]
    by_leaf = dict(zip(classes, shares.T, strict=True))
    gains = reference.information(tree.parents)
    for row, answer in enumerate(hedged.predict(p, within=within)):
        p_node = [
            sum(by_leaf[leaf][row] for leaf in leaves_below(edges, tree.nodes[v]) or {tree.nodes[v]}) for v in numbers
        ]
        at, chosen = hedged.settings_[0], numbers.index(tree.nodes.index(answer))
        if rule == "darts":
            worth = [(gains[v] + at) * share for v, share in zip(numbers, p_node, strict=True)]
            assert worth[chosen] >= max(worth) - 1e-9
        else:
            assert p_node[chosen] >= min(at, 1) - 1e-9


def test_evidence_within_a_branch_has_no_record():
    rng = np.random.default_rng(0)
    places = {"corgi": 0.0, "poodle": 1.0, "pug": 2.0, "tabby": 8.0, "Siamese": 9.0}
    y = np.repeat(list(places), 30)
    X = np.array([[places[name]] for name in y]) + rng.normal(size=(150, 1))
    hedged = HedgedClassifier(ns.NeighborClassifier(15, posterior="weighted"), PETS, 0.8).fit(X, y)
    free, held = hedged.explain([[5.0]])[0], hedged.explain([[5.0]], within="cat")[0]
    assert free.record is not None or free.node == "pet"
    assert held.record is None
    assert held.node in ("cat", "tabby", "Siamese")
    assert "Only classes of cat were considered" in held.text
    assert "Calibrated" not in held.text
    assert [step.node for step in held.path][:2] == ["pet", "cat"]
    assert hedged.predict_proba([[5.0]], within="cat").sum() == pytest.approx(1)
    with pytest.raises(ns.InputError, match=r"'cta'.*did you mean 'cat'"):
        hedged.predict([[5.0]], within="cta")


def test_a_row_without_a_vote_in_the_branch_gets_its_classes_alike():
    spoken = Sayer(["corgi", "tabby"])
    p = np.array([[1.0, 0.0]] * 4)
    hedged = HedgedClassifier(spoken, PETS, 0.5, cv="prefit").fit(p, ["corgi"] * 4)
    assert hedged.predict_proba(p[:1], within="cat").tolist() == [[0.0, 1.0]]
    with pytest.raises(ns.InputError, match="No class is at or below 'pug'"):
        hedged.predict(p, within="pug")
