"""What is sure: the fewest labels that hold the true one as often as asked for, with a taxonomy and without."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.cli.answer_tables import _label, answer_tables
from nearsay.collection.answers import Answer
from nearsay.collection.export.answer_exports import flat
from nearsay.collection.live import LiveCollection
from nearsay.collection.state.build_answers import _hedges
from nearsay.collection.state.learned import Learned, set_shares
from nearsay.decision.hedge_evidence import hedge_evidence
from nearsay.decision.sets.node_sets import covering_nodes
from nearsay.taxonomy.taxonomy import Taxonomy
from tests.reference.decision.node_sets import nodes_that_hold
from tests.reference.decision.taxonomy import GRAPHS, TREES


def reference_share(ahead, accuracy_in_percent):
    """By the definition: as many cases as asked for, one more for the new one, sorted one by one."""
    place = math.ceil((len(ahead) + 1) * accuracy_in_percent / 100 - 1e-9)
    needed = sorted(ahead)[place - 1] if place <= len(ahead) else 0.0
    return max(accuracy_in_percent / 100, needed)


@pytest.mark.parametrize("seed", range(20))
def test_a_set_holds_what_past_cases_needed(seed):
    rng = np.random.default_rng(seed)
    ahead = np.where(rng.random(150) < 0.6, 0.0, rng.random(150).round(2))[: rng.integers(1, 150)]
    shares = set_shares(ahead)
    for percent in range(1, 100):
        expected = reference_share(ahead.tolist(), percent)
        assert shares[percent - 1] == pytest.approx(expected, abs=1e-12)
        place = math.ceil((len(ahead) + 1) * percent / 100 - 1e-9)
        if place <= len(ahead):  # a class is in a set while those before it hold less than the share
            assert (ahead < shares[percent - 1]).sum() >= place


def reference_set(p, share):
    """Classes from the most probable on, until they hold the share; the first of equals first."""
    chosen, total = [], 0.0
    for number in sorted(range(len(p)), key=lambda number: (-p[number], number)):
        chosen.append(number)
        total += p[number]
        if total >= share - 1e-12:
            break
    return chosen


@pytest.mark.parametrize("seed", range(20))
def test_a_set_is_the_smallest_that_holds_its_share(seed):
    rng = np.random.default_rng(seed)
    p = rng.integers(0, 5, size=6) + 1e-3
    p = p / p.sum()
    learned = Learned()
    learned.set_shares = np.arange(1, 100) / 100
    for accuracy in (0.5, 0.62, 0.9, 0.955, 0.99):
        share = math.ceil(100 * accuracy - 1e-9) / 100
        assert learned.prediction_set(p, accuracy).tolist() == reference_set(p.tolist(), share)


def test_sets_of_new_items_hold_their_labels_as_often_as_asked(tmp_path):
    rng = np.random.default_rng(0)

    def drawn(n):
        labels = rng.integers(0, 4, n)
        return rng.normal(size=(n, 3)) + labels[:, None] * [0.9, -0.6, 0.4], [f"class {label}" for label in labels]

    X, labels = drawn(600)
    Q, truth = drawn(600)
    with LiveCollection.create(tmp_path / "c", 3) as collection:
        collection.add([f"i{row}" for row in range(600)], X, labels)
        collection.learn(posterior="pooled", n_neighbors=10)
        sizes = []
        for accuracy in (0.6, 0.8, 0.95):
            answers = collection.label(Q, accuracy=accuracy)
            right = np.mean([label in answer.set_ for answer, label in zip(answers, truth, strict=True)])
            assert right >= accuracy - 3 * math.sqrt(accuracy * (1 - accuracy) / 300)
            sizes.append(np.mean([len(answer.set_) for answer in answers]))
            for answer in answers[:50]:
                shown = [*answer.probabilities][: len(answer.set_)]
                assert answer.set_[: len(shown)] == shown
                assert answer.set_probability >= accuracy - 1e-9
        assert sizes == sorted(sizes)
        assert sizes[0] < sizes[-1]


def test_an_answer_says_in_words_that_it_is_not_sure(tmp_path):
    with LiveCollection.create(tmp_path / "c", 1) as collection:
        X = [[0.1 * row] for row in range(40)]
        collection.add([f"i{row}" for row in range(40)], X, [("oak", "elm")[row % 2] for row in range(40)])
        answer = collection.label([[2.05]], accuracy=0.99)[0]
        assert set(answer.set_) == {"oak", "elm"}
        assert f"Not sure: {answer.set_[0]} or {answer.set_[1]}." in answer.text
        assert not answer.is_sure


@given(
    edges=st.one_of(TREES, GRAPHS), places=st.lists(st.integers(0, 99), min_size=1, max_size=5), most=st.integers(1, 3)
)
def test_the_nodes_that_hold_a_set_are_those_of_trying_all(edges, places, most):
    tree = Taxonomy.from_edges(edges)
    labels = list(dict.fromkeys(tree.nodes[place % tree.n_nodes] for place in places))
    numbers = [tree.number(name) for name in covering_nodes(labels, tree, most)]
    covered, size = nodes_that_hold([tree.number(label) for label in labels], tree.parents, most)
    assert sum(len(tree.leaves_under(tree.nodes[node])) for node in numbers) == covered
    assert len(numbers) == size
    assert tree.nodes[numbers[0]] in (labels[0], *tree.ancestors(labels[0]))


def test_where_no_node_is_sure_a_set_of_many_labels_is_given_in_two_words(tmp_path):
    """Three breeds and a wolf that nothing tells apart, and a fish far off."""
    breeds = ["corgi", "poodle", "beagle"]
    edges = [("thing", "animal"), ("animal", "dog"), *(("dog", breed) for breed in breeds), ("thing", "wolf")]
    labels = [[*breeds, "wolf"][row % 4] for row in range(80)] + ["fish"] * 20
    X = np.random.default_rng(0).normal(size=(100, 2)) + 30 * (np.arange(100) >= 80)[:, None]
    with LiveCollection.create(tmp_path / "c", 2, taxonomy=[*edges, ("thing", "fish")]) as collection:
        collection.add([f"i{row}" for row in range(100)], X, labels)
        collection.learn(posterior="weighted", n_neighbors=10)
        answers = collection.label([[0.0, 0.0]], accuracy=0.95, hedges_at=[0.95])
    (answer,) = answers
    assert set(answer.set_) == {*breeds, "wolf"}
    assert sorted(answer.set_nodes) == ["dog", "wolf"]
    assert _label(answer) == f"not sure: {' or '.join(answer.set_nodes)}"
    assert f"Not sure: {' or '.join(answer.set_nodes)}." in answer.text
    assert answer.hedges[0]["set_nodes"] == answer.set_nodes


LIFE = Taxonomy.from_nested(
    {"thing": {"animal": {"bird": ["owl", "hawk"], "fish": ["trout", "carp"]}, "fruit": ["plum", "fig"]}}
)


@given(
    node=st.sampled_from(LIFE.nodes),
    labels=st.lists(st.sampled_from(LIFE.nodes[: LIFE.n_leaves]), min_size=1, max_size=4, unique=True),
)
def test_the_hedge_shown_is_the_lowest_node_above_the_hedge_and_its_set(node, labels):
    """By the definition: of all nodes that hold the hedge and every label, the one with the fewest leaves."""
    p_node = np.linspace(0.1, 1.0, LIFE.n_nodes)[None]
    (hedged,) = hedge_evidence(np.array([LIFE.number(node)]), p_node, LIFE, 0.9, None, None, None)
    other = {"set": list(LIFE.nodes[: LIFE.n_leaves])}
    _, hedge = _hedges([hedged, hedged], [other, {"set": labels}], LIFE)
    shown = hedge["wider"] or hedge
    holds = [name for name in LIFE.nodes if all(name in LIFE.path(each) for each in (node, *labels))]
    fewest = min(holds, key=lambda name: len(LIFE.leaves_under(name)))
    assert (shown["node"], shown["node_path"]) == (fewest, list(LIFE.path(fewest)))
    assert shown["node_probability"] == p_node[0, LIFE.number(fewest)]
    assert (hedge["wider"] is None) == (fewest == node)
    assert (hedge["node"], hedge["node_path"]) == (node, list(LIFE.path(node)))


def unsure_collection(folder):
    """Mostly owls and hawks that nothing tells apart, and a few trout among them; plums are far off."""
    labels = [["owl", "hawk", "owl", "hawk", "trout"][row % 5] for row in range(120)] + ["plum"] * 40
    X = np.random.default_rng(0).normal(size=(160, 2)) + 30 * (np.arange(160) >= 120)[:, None]
    collection = LiveCollection.create(folder / "c", 2, taxonomy=LIFE)
    collection.add([f"i{row}" for row in range(160)], X, labels)
    collection.learn(posterior="weighted", n_neighbors=10)
    return collection


def test_a_hedge_and_a_prediction_set_that_are_shown_together_agree(tmp_path):
    points = np.random.default_rng(1).normal(size=(40, 2))
    with unsure_collection(tmp_path) as collection:
        answers = collection.label(points, accuracy=0.8, hedges_at=[0.5, 0.7, 0.8, 0.9])
    assert any(answer.wider for answer in answers)
    for answer in answers:
        for hedge, labels in ((answer.hedge_shown, answer.set_), *((each, each["set"]) for each in answer.hedges)):
            at = hedge.get("wider") or hedge
            assert all(at["node"] in LIFE.path(label) for label in labels)
        at_least = answer.hedge_shown["node"]
        columns = answer_tables([answer, answer])[0].columns
        assert next([*column.cells] for column in columns if column.header == "at least") == [at_least] * 2
        assert flat(answer)["at_least"] == at_least
        assert flat(answer)["node"] == answer.node  # the promise's own answer stays what it is
        if "Hedged answer" in answer.text:
            assert f"Hedged answer: {at_least}" in answer.text.replace("'", "")
        assert Answer.from_dict(answer.to_dict()) == answer
