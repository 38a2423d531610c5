"""The picture of one hedged answer on the tree shows what the plain function gives."""

from __future__ import annotations

import json

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from sklearn.linear_model import LogisticRegression

from nearsay.data.datasets import load_dataset
from nearsay.decision.hedged import HedgedClassifier
from nearsay.decision.rules import RULES, darts
from nearsay.displays.drawing import AGREES, DISAGREES
from nearsay.displays.hedging.hedge_on_tree import hedge_on_tree
from nearsay.displays.hedging.hedge_picture import HedgeDisplay
from nearsay.errors import DatasetNotFound, InputError
from nearsay.posterior import Proportional
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.taxonomy.named import load_taxonomy
from nearsay.taxonomy.taxonomy import Taxonomy
from tests.displays.drawn import texts
from tests.reference.decision.taxonomy import DAG, GRAPHS, T1, leaves_below, walked_up

pytestmark = pytest.mark.usefixtures("strict_and_tidy")

PETS = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}}})
TREE = Taxonomy.from_nested(T1)
P = [0.4, 0.3, 0.2, 0.1]


def pet_rows() -> tuple[np.ndarray, np.ndarray]:
    X = np.array([[0.0], [1.0], [2.0], [6.0], [6.5], [10.0], [11.0], [12.0], [50.0], [51.0], [52.0]])
    return X, np.array(["corgi"] * 3 + ["poodle", "corgi"] + ["poodle"] * 3 + ["cat"] * 3)


def color_of(display: object, words: str) -> str:
    (color,) = {to_hex(text.get_color()) for text in display.ax_.texts if text.get_text() == words}
    return color


# ---------------------------------------------------------------- one query on the tree


@given(edges=GRAPHS, data=st.data())
def test_nodes_carry_the_sums_and_rewards_of_a_slow_walk(edges, data):
    graph = Taxonomy.from_edges(edges)
    counts = data.draw(st.lists(st.integers(0, 3), min_size=graph.n_leaves, max_size=graph.n_leaves))
    counts[0] += 1  # somebody says something
    votes = {leaf: count for leaf, count in zip(graph.leaves, counts, strict=True) if count}
    p = np.array(counts) / sum(counts)
    shift = data.draw(st.sampled_from([0.0, 0.5, 2.0]))
    share = data.draw(st.sampled_from([0.0, 0.2, 0.9]))
    true = data.draw(st.sampled_from(graph.nodes))
    hedge = hedge_on_tree(p, graph, shift, votes=votes, true_label=true, share=share)
    assert hedge.answer == graph.nodes[darts(p[None], graph, shift)[0]]
    assert hedge.right == (hedge.answer in walked_up(edges, true))
    best = max(hedge.nodes, key=lambda node: node.reward)
    assert hedge[hedge.answer].reward == pytest.approx(best.reward)
    for node in hedge.nodes:
        below = leaves_below(edges, node.name) or {node.name}
        assert node.votes == sum(votes.get(leaf, 0) for leaf in below)
        assert node.probability == pytest.approx(node.votes / sum(counts))
        assert node.gain == pytest.approx(np.log2(graph.n_leaves / len(below)))
        assert node.reward == pytest.approx((node.gain + shift) * node.probability)
        assert set(node.parents) < walked_up(edges, node.name)


@given(edges=GRAPHS, data=st.data())
def test_whatever_is_probable_is_shown_once_below_its_parents_and_nothing_else(edges, data):
    graph = Taxonomy.from_edges(edges)
    counts = data.draw(st.lists(st.integers(0, 3), min_size=graph.n_leaves, max_size=graph.n_leaves))
    counts[-1] += 1
    p = np.array(counts) / sum(counts)
    share = data.draw(st.sampled_from([0.0, 0.2, 0.9]))
    true = data.draw(st.none() | st.sampled_from(graph.nodes))
    hedge = hedge_on_tree(p, graph, 0.3, true_label=true, share=share)
    names = [node.name for node in hedge.nodes]
    assert len(names) == len(set(names))
    assert names[0] == graph.root
    for at, node in enumerate(hedge.nodes[1:], start=1):
        assert node.parents[0] in names[:at]
        assert node.depth == hedge[node.parents[0]].depth + 1
        if node.parents[1:]:
            assert set(node.parents[1:]) <= set(names)
    named = {hedge.answer, hedge.flat, *([] if true is None else [true])}
    assert named <= set(names)
    p_node = dict(zip(graph.nodes, p @ graph.covers, strict=True))
    below = {name: frozenset(leaves_below(edges, name) or {name}) for name in graph.nodes}
    leading = {above for name in named for above in walked_up(edges, name)}
    expected = {name for name in graph.nodes if p_node[name] >= share} | leading
    # Of nodes over the same leaves one is enough, but each set of leaves is there.
    assert {below[name] for name in expected} == {below[name] for name in names}
    assert set(names) <= expected
    twice = [name for name in names if name not in named | {graph.root} and name not in graph.leaves]
    assert len({below[name] for name in twice}) == len(twice) or not graph.is_tree


def test_the_hand_checked_example_is_told():
    hedge = hedge_on_tree(P, TREE, 0.5, votes={"a1": 4, "a2": 3, "b1": 2, "b2": 1}, true_label="a2", share=0.15)
    assert str(hedge).splitlines() == [
        "says A (p = 0.70, 1.00 of 2.00 bits) · most probable is a1 (p = 0.40) · right, really a2",
        "R       10 votes  1.00 × (0.00 + 0.50) = 0.50",
        "  A      7 votes  0.70 × (1.00 + 0.50) = 1.05  ← answer",
        "    a1   4 votes  0.40 × (2.00 + 0.50) = 1.00  ← most probable",
        "    a2   3 votes  0.30 × (2.00 + 0.50) = 0.75  ← true",
        "  B      3 votes  0.30 × (1.00 + 0.50) = 0.45",
        "    b1   2 votes  0.20 × (2.00 + 0.50) = 0.50",
    ]
    plain = hedge.to_dict()
    assert json.loads(json.dumps(plain))["nodes"][1]["parents"] == ["R"]
    assert plain["text"] == hedge.text


def test_nodes_that_say_the_same_are_passed_over_unless_they_are_named():
    tree = Taxonomy.from_paths([("R", "all", "all again", "fish", "goldfish"), ("R", "all", "all again", "frog")])
    hedge = hedge_on_tree([0.6, 0.4], tree, 0.0)
    assert [(node.name, node.parents) for node in hedge.nodes] == [("R", ()), ("goldfish", ("R",)), ("frog", ("R",))]
    named = hedge_on_tree([0.6, 0.4], tree, 0.0, true_label="fish")
    assert [node.name for node in named.nodes] == ["R", "fish", "goldfish", "frog"]
    assert named["goldfish"].parents == ("fish",)


def test_a_vote_for_an_inner_node_counts_there_and_above_and_each_once_in_a_graph():
    graph = Taxonomy.from_edges(DAG)
    hedge = hedge_on_tree([0.2, 0.5, 0.3], graph, 0.0, votes={"b": 5, "Q": 2}, share=0.0)
    assert {node.name: node.votes for node in hedge.nodes} == {"R": 7, "P": 5, "Q": 7, "a": 0, "b": 5, "c": 0}
    assert hedge["b"].parents == ("P", "Q")


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("setting", [0.6, np.inf])
def test_other_rules_and_settings_without_a_finite_reward_are_told_too(rule, setting):
    hedge = hedge_on_tree(P, TREE, setting, rule=rule)
    assert hedge.answer == TREE.nodes[RULES[rule]([P], TREE, setting)[0]]
    assert (hedge.nodes[0].reward is None) == (rule != "darts" or setting == np.inf)
    json.dumps(hedge.to_dict(), allow_nan=False)
    display = HedgeDisplay(hedge=hedge).plot()
    assert any(text.startswith("reward") for text in texts(display)) == (hedge.nodes[0].reward is not None)


@pytest.mark.parametrize("paths", [[("all",)], [("root", "only")]])
def test_a_tree_of_one_leaf_is_drawn(paths):
    tree = Taxonomy.from_paths(paths)
    display = HedgeDisplay(hedge=hedge_on_tree([1.0], tree, 0.0)).plot()
    assert display.hedge.flat == tree.leaves[0]
    assert set(tree.nodes) <= {text.removesuffix(" (most probable)") for text in texts(display)}


def test_the_picture_writes_what_the_plain_object_holds():
    X, y = pet_rows()
    hedged = HedgedClassifier(NeighborClassifier(5, posterior=Proportional(model_failure=0.0)), PETS, accuracy=1.0).fit(
        X, y
    )
    words = {"dog": "some dog", "poodle": "a $poodle$"}
    display = HedgeDisplay.from_estimator(hedged, [6.2], "poodle", names=words)
    hedge = display.hedge
    assert hedge.answer == hedged.predict([[6.2]])[0] == "dog"
    votes = hedged.estimator_.explain([[6.2]])[0].votes
    assert {leaf: hedge[leaf].votes for leaf in votes} == votes
    for name, p in zip(PETS.nodes, hedged.predict_proba_nodes([[6.2]])[0], strict=True):
        assert p < 0.05 or hedge[name].probability == p
    written = texts(display)
    for node in hedge.nodes:
        numbers = [f"{node.votes}", f"{node.probability:.2f}", f"{node.gain:.2f}", f"{node.reward:.2f}"]
        assert set(numbers) <= set(written)
    assert "some dog" in written
    assert any(text.startswith(r"a \$poodle\$ (") for text in written)
    assert color_of(display, "some dog") == AGREES.lower()
    bars = [patch.get_width() for patch in display.ax_.patches]
    rewards = [node.reward for node in hedge.nodes]
    np.testing.assert_allclose(np.array(bars) / max(bars), np.array(rewards) / max(rewards))


def test_a_wrong_answer_is_orange_and_another_classifier_has_no_votes():
    X, y = pet_rows()
    hedged = HedgedClassifier(LogisticRegression(), PETS, accuracy=0.5, cv=3).fit(X, y)
    display = HedgeDisplay.from_estimator(hedged, [0.0], "cat")
    assert display.hedge.nodes[0].votes is None
    assert "votes" not in texts(display)
    assert display.hedge.right is False
    bold = [text for text in display.ax_.texts if text.get_fontweight() == "bold"]
    assert [to_hex(text.get_color()) for text in bold] == [DISAGREES.lower()]


def test_with_a_promise_for_each_branch_the_setting_is_that_of_the_query():
    random = np.random.default_rng(0)
    y = random.choice(["corgi", "poodle", "cat"], 120)
    X = random.normal(size=(120, 1)) + np.where(y == "cat", 3.0, 0.0)[:, None]
    hedged = HedgedClassifier(NeighborClassifier(7, posterior="proportional"), PETS, 0.7, branches=["dog", "cat"]).fit(
        X, y
    )
    assert hedged.settings_[0] != hedged.settings_[1]
    for query in X[:30]:
        hedge = HedgeDisplay.from_estimator(hedged, query).hedge
        assert hedge.answer == hedged.predict([query])[0]
        assert hedge.setting == hedged.settings_[int(hedge.flat == "cat")]
        plt.close("all")


def test_the_tree_refuses_what_it_cannot_show():
    with pytest.raises(InputError, match="not in the taxonomy 'R': 'a3'"):
        hedge_on_tree(P, TREE, 0.5, true_label="a3")
    with pytest.raises(InputError, match="not in the taxonomy 'R': 'a3'"):
        hedge_on_tree(P, TREE, 0.5, votes={"a3": 1})
    with pytest.raises(InputError, match=r"one number a leaf; got shape \(1, 4\)"):
        hedge_on_tree([P], TREE, 0.5)
    with pytest.raises(InputError, match=r"Unknown rule 'dart'.*did you mean 'darts'"):
        hedge_on_tree(P, TREE, 0.5, rule="dart")
    with pytest.raises(InputError, match="'b2' is not among the 3 nodes shown here"):
        hedge_on_tree([1.0, 0.0, 0.0, 0.0], TREE, 0.5)["b2"]
    with pytest.raises(InputError, match="NeighborClassifier names no nodes"):
        HedgeDisplay.from_estimator(NeighborClassifier(5, posterior="proportional"), [0.0])


def test_of_ten_thousand_leaves_only_what_matters_is_shown():
    tree = Taxonomy.from_nested({"r": {f"n{i}": [f"n{i}.{j}" for j in range(100)] for i in range(100)}})
    p = np.zeros(10_000)
    p[[0, 1, 250]] = 0.5, 0.3, 0.2
    hedge = hedge_on_tree(p, tree, 3.0, true_label="n99.99")
    assert {node.name for node in hedge.nodes} == {"r", "n0", "n0.0", "n0.1", "n2", "n2.50", "n99", "n99.99"}
    texts(HedgeDisplay(hedge=hedge).plot())


def test_real_classes_are_told_in_words():
    try:
        tree, rows = load_taxonomy("tin200"), load_dataset("tin200", split="test")
    except DatasetNotFound as absent:
        pytest.skip(str(absent))
    names = tree.node_words
    assert names["n02084071"] == "dog"
    assert "ungulate" in names.values()
    assert len(set(names.values())) == tree.n_nodes
    knn = NeighborClassifier(30, posterior="proportional")
    hedged = HedgedClassifier(knn, tree, 0.7).fit(rows.X[::4], rows.y[::4])
    display = HedgeDisplay.from_estimator(hedged, rows.X[1], rows.y[1])
    shown = " ".join(texts(display))
    assert names[display.hedge.answer] in shown
    assert not set(tree.nodes) & set(shown.split())
    assert display.hedge.nodes[0].votes == 30
