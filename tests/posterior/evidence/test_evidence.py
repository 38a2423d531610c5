"""Evidence: what an answer rests on, in plain values, in words, and from one search."""

from __future__ import annotations

import json
from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.evidence.evidence import Evidence
from nearsay.posterior.votes import TIE_RULES
from tests.labeled import count_searches, labeled_rows, queries_for
from tests.reference import neighbors as reference


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


@settings(max_examples=40)
@given(data=labeled_rows(), k=st.integers(1, 14), rule=st.sampled_from(list(TIE_RULES)))
def test_evidence_says_what_predict_and_predict_proba_and_the_loop_say(data, k, rule):
    X, y = data
    k = min(k, len(X))
    Q = queries_for(X)
    clf = NeighborClassifier(k, tie_break=rule, posterior="proportional").fit(X, y)
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
    clf = NeighborClassifier(5, posterior="proportional").fit(X, y)
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
    clf = NeighborClassifier(2, posterior="proportional").fit([[float(i)] for i in range(9)], list("ihgfedcba"))
    found = clf.explain([[0.1]])[0]
    assert found.label == "i"
    assert list(found.probabilities) == ["i", "h", "a", "b", "c"]


# ---------------------------------------------------------------- in words, as a dict, as a page


def test_the_text_tells_the_vote_the_nearest_and_the_novelty():
    X, y = [[0.0], [1.0], [2.0], [3.0], [9.0]], ["setosa"] * 4 + ["virginica"]
    found = NeighborClassifier(5, posterior="proportional").fit(X, y).explain([[0.14]])[0]
    assert str(found).splitlines() == [
        "'setosa' with probability 0.80.",
        "4 of 5 neighbors say 'setosa', the nearest too (0.14 away); 1 says 'virginica'.",
        # Left out, each "setosa" has three of four votes; the only "virginica" is no past case.
        "Of 4 past cases with a probability like this, 4 were right (51 to 100%).",
        f"Novelty {found.novelty:.2f}: about {found.novelty:.0%} of the rows here are less unusual.",
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
        ({"novelty": None}, "The collection has one row, so nothing says what is usual."),
        ({"novelty": 0.97}, "Novelty 0.97: about 97% of the rows here are less unusual. Unlike what is known here."),
        ({"twin": 7}, "A twin of row 7: far nearer to it than rows here are to each other."),
        ({"twin": 7, "distances": [0.0, 0.5, 1.0]}, "A twin of row 7: at distance 0."),
    ],
)
def test_every_kind_of_vote_reads_as_a_sentence(changes, said):
    assert said in example(**changes).text.splitlines()


def test_the_dict_goes_through_json_and_holds_everything():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(30, 2)).astype(np.float32), rng.integers(0, 3, 30)
    one = NeighborClassifier(4, posterior="proportional").fit(X, y).explain(X[:1])[0]
    back = json.loads(json.dumps(one.to_dict()))
    assert set(back) == {*vars(one), "text"}
    assert (back["neighbors"], back["distances"], back["labels"]) == (one.neighbors, one.distances, one.labels)
    assert back["votes"] == {str(label): count for label, count in one.votes.items()}
    assert back["text"] == str(one)


def test_the_page_escapes_labels_and_shows_every_neighbor():
    evil = "<script>alert('x')</script>"
    clf = NeighborClassifier(2, posterior="proportional").fit([[0.0], [1.0]], [evil, "b & c"])
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
