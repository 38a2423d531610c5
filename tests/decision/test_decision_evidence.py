"""Hedged answers and prediction sets explain themselves: in words, JSON and HTML, by their record and the neighbors."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from nearsay.decision.conformal import ConformalClassifier
from nearsay.decision.envelope import OperatingPoints, operating_points
from nearsay.decision.hedged import HedgedClassifier
from nearsay.decision.records import CASES_KEPT, PastAnswers, alike, cases_kept, past_answers, probabilities_of
from nearsay.decision.rules import RULES
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.evidence.records import record_of
from nearsay.posterior.fused import FusedClassifier
from nearsay.taxonomy.taxonomy import Taxonomy
from tests.decision.samples import PETS, hard_and_easy, pets, validation_rows, votes
from tests.reference.decision import hedging as reference

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

VOTES = votes(9)
AROUND = {
    "votes": (VOTES, None),
    "pooled": (NeighborClassifier(9, posterior="pooled"), None),
    "folds of votes": (VOTES, 3),
    "a linear model": (LogisticRegression(), 3),
    "fused": (FusedClassifier({"x": slice(0, 1)}, VOTES), None),
}


@pytest.mark.parametrize("branches", [None, ["dog", "cat"]])
@pytest.mark.parametrize("around", AROUND)
def test_a_hedge_explains_what_it_predicts(around, branches):
    estimator, cv = AROUND[around]
    hedged = HedgedClassifier(estimator, PETS, 0.9, cv=cv, branches=branches).fit(*pets(200))
    Q, _ = pets(25, seed=1)
    found = hedged.explain(Q)
    assert [one.node for one in found] == found.predictions.tolist() == hedged.predict(Q).tolist()
    np.testing.assert_array_equal(found.probabilities, hedged.predict_proba(Q))
    p_node = dict(zip(PETS.nodes, hedged.predict_proba_nodes(Q).T, strict=True))
    for i, (one, path) in enumerate(zip(found, hedged.predict_path(Q), strict=True)):
        assert tuple(step.node for step in one.path) == path
        assert [step.probability for step in one.path] == [p_node[name][i] for name in path]
        assert one.probability == one.path[-1].probability
        assert one.most_probable.probability == max(p_node[leaf][i] for leaf in PETS.leaves)
        assert (one.record is None) == (one.node == "pet")
        assert one.record is None or 0 <= one.record["right"] <= one.record["cases"]
        assert one.text.startswith(f"{one.word} with probability")
        assert json.loads(json.dumps(one.to_dict(), allow_nan=False))["text"] == one.text == str(one)
        assert one.word in one._repr_html_()
    assert found._repr_html_().count("<tbody>") >= len(Q)
    assert around == "a linear model" or hedged.explain(Q[:0]) == []  # scikit-learn takes no empty table


@pytest.mark.parametrize("around", ["votes", "pooled"])
def test_the_neighbors_that_agree_are_those_whose_label_the_answer_covers(around):
    X, y = pets(200)
    hedged = HedgedClassifier(AROUND[around][0], PETS, 0.9).fit(X, y)
    for one in hedged.explain(pets(25, seed=1)[0]):
        assert one.evidence.neighbors
        assert sum(one.votes.values()) == len(one.evidence.neighbors)
        assert one.n_agree == sum(one.node in PETS.path(label) for label in y[one.evidence.neighbors])
        assert f" of {len(one.evidence.neighbors)} neighbors" in one.text or "All 9 neighbors" in one.text


def test_explanations_speak_in_the_words_of_the_tree():
    ids = Taxonomy.from_nested({"n0": {"n1": ["n11", "n12"], "n2": {}}})
    words = {"n0": "pet", "n1": "dog, domestic dog", "n11": "corgi", "n12": "pug", "n2": "cat"}
    X, y = pets(200)
    y = np.select([np.isin(y, ["corgi", "poodle"]), y == "cat"], ["n11", "n2"], "n12")
    found = HedgedClassifier(VOTES, ids.with_words(words), 0.95).fit(X, y).explain([[0.5], [30.0]])
    for one in found:
        assert one.word in words.values() or one.word == "dog"
        assert not {"n0", "n1", "n11", "n12", "n2"} & set(one.text.replace("(", " ").replace(":", " ").split())
    assert found[1].text.startswith("cat with probability")
    assert found.predictions.tolist()[1] == "n2"


# ---------------------------------------------------------------- the record


def past_answers_of(
    points: OperatingPoints, p: np.ndarray, names: Any, taxonomy: Taxonomy, most: int = CASES_KEPT
) -> PastAnswers:
    """What is kept of rows whose probabilities are all there."""
    kept = cases_kept(len(points), most)
    points = points.take(kept)
    p_points = probabilities_of(points, np.asarray(p)[kept], taxonomy)
    return past_answers(points, p_points, np.asarray(names)[kept], np.zeros(len(kept), int), taxonomy)


@given(rows=validation_rows(), rule=st.sampled_from(sorted(RULES)), place=st.integers(0, 10))
def test_a_record_counts_past_answers_whose_probability_is_like_this(rows, rule, place):
    taxonomy, p, labels, names = rows
    points = operating_points(p, taxonomy, rule)
    finite = np.unique(points.settings[np.isfinite(points.settings)])
    setting = float(finite[place % len(finite)]) if len(finite) else 0.0
    past = past_answers_of(points, p, names, taxonomy)
    answers = [reference.RULES[rule](row, taxonomy.parents, setting) for row in p.tolist()]
    if answers != points.at(setting).tolist():  # a shift is rounded up: see operating_points
        return
    p_of = [reference.node_probabilities(row, taxonomy.parents)[node] for row, node in zip(p, answers, strict=True)]
    root = taxonomy.n_nodes - 1
    told = past.record(np.array([setting]), np.array(answers), np.array(p_of))
    for asked, node, record in zip(p_of, answers, told, strict=True):
        like = [j for j, other in enumerate(p_of) if abs(other - asked) <= 0.05 + 1e-12 and answers[j] != root]
        right = [j for j in like if answers[j] in reference.at_or_above(taxonomy.parents, labels[j])]
        assert record == (None if node == root else record_of(len(like), len(right)))


@pytest.mark.parametrize("n", [60, 99, 100, 101, 5000])
def test_a_record_of_many_tells_of_a_hundred_on_both_sides(n):
    past = np.linspace(0.5, 0.6, n)
    ((first,), (last,)) = alike(past, [0.55])
    assert last - first == pytest.approx(min(n, 100), abs=1)
    assert past[first] + past[last - 1] == pytest.approx(1.1, abs=0.11 / n)


def test_equally_probable_cases_are_all_told_of():
    past = np.repeat([0.2, 0.4, 0.6], [500, 300, 5])
    for p, count in ((0.2, 500), (0.4, 300), (0.6, 5), (0.5, 0)):
        first, last = alike(past, [p])
        assert (last - first)[0] == count


@pytest.mark.parametrize("kept", [50, 299, 300, 301])
def test_of_many_past_cases_some_are_kept(kept):
    X, y = hard_and_easy(300, seed=0)
    points = operating_points(X, PETS)
    past = past_answers_of(points, X, y, PETS, kept)
    assert len(past.points) == min(kept, 300)


@pytest.mark.slow
@pytest.mark.parametrize("posterior", ["weighted", "pooled"])
def test_a_record_is_what_new_rows_show(posterior):
    X, y = pets(2000)
    hedged = HedgedClassifier(NeighborClassifier(15, posterior=posterior), PETS, 0.8).fit(X, y)
    Q, truth = pets(3000, seed=1)
    found = hedged.explain(Q)
    told = np.array([np.nan if one.record is None else one.record["right"] / one.record["cases"] for one in found])
    right = PETS.covers_label(PETS.check_labels(found.predictions.tolist()), PETS.check_labels(truth))
    for low, high in ((0.0, 0.75), (0.75, 0.9), (0.9, 1.01)):
        here = (told >= low) & (told < high)
        if here.sum() > 100:
            # The record itself is a share of about a hundred cases, many of them the same from row to row.
            assert right[here].mean() == pytest.approx(told[here].mean(), abs=0.06)


# ---------------------------------------------------------------- prediction sets


@pytest.mark.slow
@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.999])
@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize("around", AROUND)
def test_a_set_explains_what_it_holds(around, per_class, coverage):
    estimator, cv = AROUND[around]
    sets = ConformalClassifier(estimator, coverage, per_class=per_class, cv=cv).fit(*pets(150))
    Q, _ = pets(20, seed=1)
    found = sets.explain(Q)
    assert [one.labels for one in found] == sets.predict_set_labels(Q)
    np.testing.assert_array_equal(found.sets, sets.predict_set(Q))
    np.testing.assert_array_equal(found.probabilities, sets.predict_proba(Q))
    for i, one in enumerate(found):
        by_label = dict(zip(sets.classes_.tolist(), found.probabilities[i], strict=True))
        assert one.probabilities == [by_label[label] for label in one.labels]
        assert len(one.labels) + bool(one.left_out) <= one.n_classes == 5
        assert all(p == max(by_label[c] for c in by_label if c not in one.labels) for p in one.left_out.values())
        assert f"{100 * coverage:g}% of cases" in one.text
        assert ("neighbors say" in one.text) == (around in ("votes", "pooled", "fused")) or "All" in one.text
        assert json.loads(json.dumps(one.to_dict(), allow_nan=False))["text"] == one.text
        assert "<table>" in one._repr_html_()
    assert around == "a linear model" or sets.explain(Q[:0]) == []
