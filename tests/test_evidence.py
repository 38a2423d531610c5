"""Evidence: what an answer rests on, in plain values, in words, and from one search."""

from __future__ import annotations

import json
from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from labeled import count_searches, labeled_rows, queries_for
from nearsay.neighbors.index import NeighborIndex
from nearsay.posterior import past_cases
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.evidence import Evidence
from nearsay.posterior.novelty import Novelty
from nearsay.posterior.past_cases import PastCases
from nearsay.posterior.votes import TIE_RULES


def example(**changes) -> Evidence:
    plain = {
        "label": "cat",
        "probability": 0.66,
        "probabilities": {"cat": 0.66, "dog": 0.34},
        "votes": {"cat": 2, "dog": 1},
        "neighbors": [7, 2, 4],
        "distances": [0.25, 0.5, 1.0],
        "labels": ["cat", "dog", "cat"],
        "novelty": 0.4,
        "record": {"cases": 40, "right": 31},
    }
    return Evidence(**{**plain, **changes})


# ---------------------------------------------------------------- the same answers, from one search


@settings(max_examples=60)
@given(data=labeled_rows(), k=st.integers(1, 14), rule=st.sampled_from(list(TIE_RULES)))
def test_evidence_says_what_predict_and_predict_proba_and_the_loop_say(data, k, rule):
    X, y = data
    k = min(k, len(X))
    Q = queries_for(X)
    clf = NeighborClassifier(k, tie_break=rule).fit(X, y)
    found = clf.explain(Q)
    p = clf.predict_proba(Q)
    indices, distances = reference.nearest(X, Q, k, reference.euclidean)
    np.testing.assert_array_equal(found.predictions, clf.predict(Q))
    np.testing.assert_array_equal(found.probabilities, p)
    np.testing.assert_array_equal(found.table.indices, indices)
    for i, one in enumerate(found):
        said = [int(y[row]) for row in indices[i]]
        assert (one.neighbors, one.distances, one.labels) == (indices[i], distances[i], said)
        assert one.votes == Counter(said)
        assert list(one.votes.values()) == sorted(one.votes.values(), reverse=True)
        assert one.label == found.predictions[i]
        assert one.probability == p[i].max() == max(one.probabilities.values())
        assert next(iter(one.probabilities)) == one.label
        assert all(p[i, label] == value for label, value in one.probabilities.items())


def test_explain_searches_once_and_the_usual_distances_are_searched_once_ever(monkeypatch):
    searches = count_searches(monkeypatch)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 2)), rng.integers(0, 3, 80)
    clf = NeighborClassifier().fit(X, y)
    assert searches == {}
    found = clf.explain(X[:9])
    assert searches == {"query": 1, "leave_one_out": 1}  # the queries, and once the collection's own rows
    clf.explain(X[9:])
    assert searches == {"query": 2, "leave_one_out": 1}
    assert found.predictions.shape == (9,)
    assert found.probabilities.shape == (9, 3)
    clf.predict(X)
    clf.predict_proba(X)
    assert searches == {"query": 4, "leave_one_out": 1}


def test_only_the_most_probable_labels_are_listed_and_the_answer_leads():
    clf = NeighborClassifier(2).fit([[float(i)] for i in range(9)], list("ihgfedcba"))
    found = clf.explain([[0.1]])[0]
    assert found.label == "i"
    assert list(found.probabilities) == ["i", "h", "a", "b", "c"]


# ---------------------------------------------------------------- novelty


@settings(max_examples=60)
@given(data=labeled_rows(smallest=2), k=st.integers(1, 14), auto=st.booleans())
def test_novelty_equals_the_loop(data, k, auto):
    X, y = data
    Q = queries_for(X)
    clf = NeighborClassifier("auto" if auto else min(k, len(X))).fit(X, y)
    expected = [reference.novelty(X, q, clf.n_neighbors_) for q in Q]
    assert [one.novelty for one in clf.explain(Q)] == pytest.approx(expected, abs=1e-12)


def test_novelty_is_small_inside_a_cluster_and_one_far_from_everything():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(500, 2)), np.zeros(500, int)
    clf = NeighborClassifier().fit(X, y)
    middle, far = clf.explain([[0.0, 0.0], [30.0, 0.0]])
    assert middle.novelty < 0.5
    assert far.novelty == 1.0
    assert "Unusually far" in far.text
    assert "Unusually far" not in middle.text


def test_rows_asked_again_are_as_novel_as_the_collection_where_all_are_equal():
    clf = NeighborClassifier(2).fit(np.ones((6, 2)), [0, 1] * 3)
    assert clf.explain(np.ones((1, 2)))[0].novelty == 0.5


def test_a_large_collection_is_sampled_by_seed_and_the_sample_searched_in_all_of_it(monkeypatch):
    monkeypatch.setattr(past_cases, "SAMPLE_ABOVE", 100)
    monkeypatch.setattr(past_cases, "SAMPLE_SIZE", 50)
    rng = np.random.default_rng(2)
    X = rng.integers(0, 9, (300, 2)).astype(float)
    labeled = NeighborIndex().fit(X).with_labels(np.zeros(300, int))
    kth = labeled.leave_one_out(3).distances[:, 2]
    for seed in (0, 1):
        past = PastCases(labeled, seed)
        rows = past.sample()
        assert len(set(rows.tolist())) == 50
        np.testing.assert_array_equal(Novelty(past, 3).usual, np.sort(kth[rows]))
    assert (PastCases(labeled, 0).sample() == PastCases(labeled, 0).sample()).all()
    assert (PastCases(labeled, 0).sample() != PastCases(labeled, 1).sample()).any()


def test_the_pass_that_chooses_k_remembers_the_same_usual_distances(monkeypatch):
    monkeypatch.setattr(past_cases, "SAMPLE_ABOVE", 100)
    monkeypatch.setattr(past_cases, "SAMPLE_SIZE", 50)
    monkeypatch.setattr(past_cases, "ROWS_AT_ONCE", 64)
    rng = np.random.default_rng(3)
    X, y = rng.integers(0, 9, (300, 2)).astype(float), rng.integers(0, 2, 300)
    chosen = NeighborClassifier("auto").fit(X, y)
    fixed = NeighborClassifier(chosen.n_neighbors_).fit(X, y)
    assert [e.to_dict() for e in chosen.explain(X)] == [e.to_dict() for e in fixed.explain(X)]


# ---------------------------------------------------------------- in words, as a dict, as a page


def test_the_text_tells_the_vote_the_nearest_and_the_novelty():
    X, y = [[0.0], [1.0], [2.0], [3.0], [9.0]], ["setosa"] * 4 + ["virginica"]
    found = NeighborClassifier(5).fit(X, y).explain([[0.14]])[0]
    assert str(found).splitlines() == [
        "'setosa' with probability 0.80.",
        "4 of 5 neighbors say 'setosa', the nearest too (0.14 away); 1 says 'virginica'.",
        # Left out, each "setosa" has three of four votes; the only "virginica" is no past case.
        "Of 4 past cases with a probability like this, 4 were right.",
        # Its 4th neighbor is 2.86 away; the rows' own 4th neighbors are 9, 8, 7, 6 and 9 away.
        "Novelty 0.00: it lies farther from its neighbors than about 0% of the rows here.",
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "2 of 3 neighbors say 'cat', the nearest too (0.25 away); 1 says 'dog'."),
        (
            {"labels": ["dog", "cat", "cat"]},
            "2 of 3 neighbors say 'cat', but the nearest says 'dog' (0.25 away); 1 says 'dog'.",
        ),
        ({"votes": {"cat": 3}, "labels": ["cat"] * 3}, "All 3 neighbors say 'cat'; the nearest is 0.25 away."),
        (
            {"votes": {"cat": 1}, "neighbors": [7], "labels": ["cat"], "distances": [0.25]},
            "The nearest neighbor says 'cat' (0.25 away).",
        ),
        (
            {"votes": {"dog": 2, "cow": 1}, "labels": ["dog", "cow", "dog"]},
            "None of 3 neighbors say 'cat', but the nearest says 'dog' (0.25 away); 2 say 'dog', 1 says 'cow'.",
        ),
        (
            {"votes": dict.fromkeys(["cat", *"abcde"], 1), "neighbors": [1] * 6, "labels": ["cat", *"abcde"]},
            "1 of 6 neighbors says 'cat', the nearest too (0.25 away);"
            " 1 says 'a', 1 says 'b', 1 says 'c', 2 something else.",
        ),
        ({"votes": {}, "neighbors": [], "labels": [], "distances": []}, "No neighbor was found."),
        ({"novelty": None}, "The collection has one row, so nothing says what distance is usual."),
    ],
)
def test_every_kind_of_vote_reads_as_a_sentence(changes, said):
    assert said in example(**changes).text.splitlines()


def test_the_dict_goes_through_json_and_holds_everything():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(30, 2)).astype(np.float32), rng.integers(0, 3, 30)
    one = NeighborClassifier(4).fit(X, y).explain(X[:1])[0]
    back = json.loads(json.dumps(one.to_dict()))
    assert set(back) == {*vars(one), "text"}
    assert (back["neighbors"], back["distances"], back["labels"]) == (one.neighbors, one.distances, one.labels)
    assert back["votes"] == {str(label): count for label, count in one.votes.items()}
    assert back["text"] == str(one)


def test_the_page_escapes_labels_and_shows_every_neighbor():
    evil = "<script>alert('x')</script>"
    clf = NeighborClassifier(2).fit([[0.0], [1.0]], [evil, "b & c"])
    found = clf.explain([[0.2], [0.9]])

    class Reader(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.tags: list[str] = []
            self.text = ""

        def handle_starttag(self, tag, attrs):
            self.tags.append(tag)

        def handle_data(self, data):
            self.text += data

    reader = Reader()
    reader.feed(found._repr_html_())
    assert "script" not in reader.tags
    assert reader.tags.count("tr") == 2 * 3
    assert evil in reader.text
    assert "b & c" in reader.text
    assert found._repr_html_() == "".join(one._repr_html_() for one in found)
