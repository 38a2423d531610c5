"""Nodes are told in words: their own, or those of leaves below them."""

from __future__ import annotations

import json
import pickle
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.data.catalog import TAXONOMIES
from nearsay.displays.hedging.hedge_on_tree import hedge_on_tree
from nearsay.errors import InputError, SavedFileError
from nearsay.taxonomy.named import load_taxonomy
from nearsay.taxonomy.taxonomy import Taxonomy
from nearsay.taxonomy.words import words_for_nodes
from reproduce.hedging.displays.hedged_answers import hedged_answers
from tests.reference.decision.taxonomy import GRAPHS, leaves_below


@given(edges=GRAPHS)
def test_every_node_has_a_word_that_names_only_leaves_below_it_and_how_many(edges):
    graph = Taxonomy.from_edges(edges)
    words = words_for_nodes(graph, {leaf: f"<{leaf}>" for leaf in graph.leaves})
    assert set(words) == set(graph.nodes)
    for name in graph.nodes[:-1]:
        below = leaves_below(edges, name) or {name}
        said = {part.strip(" ,…") for part in words[name].rpartition(": ")[2].replace(" or ", ", ").split(",")} - {""}
        assert said <= {f"<{leaf}>" for leaf in below}
        assert len(said) == min(len(below), 2)
        assert words[name].startswith(f"one of {len(below)}: ") == (len(below) > 2)


def test_examples_come_from_the_largest_branches():
    tree = Taxonomy.from_nested(
        {"R": {"x": {"small": ["s"], "large": ["l1", "l2", "l3"], "middle": ["m1", "m2"]}, "y": {}}}
    )
    assert words_for_nodes(tree, {})["x"] == "one of 6: l1, m1, …"


def test_given_words_are_kept_and_synonyms_cut_unless_two_would_be_alike():
    tree = Taxonomy.from_nested({"R": {"D": ["d1", "d2", "d3"], "C": ["c1"]}})
    given_words = {
        "d1": "crane, bird",
        "d2": "crane, machine",
        "c1": "cat, Felis",
        "D": "thing, entity",
        "elsewhere": "?",
    }
    before = dict(given_words)
    words = words_for_nodes(tree, given_words)
    assert words == {"d1": "crane, bird", "d2": "crane, machine", "d3": "d3", "c1": "cat", "D": "thing", "C": "cat",
                     "R": "anything"}  # fmt: skip
    assert given_words == before


def test_one_leaf_alone_keeps_its_word():
    assert words_for_nodes(Taxonomy.from_paths([("all",)]), {"all": "everything, the lot"}) == {"all": "everything"}


@given(words=st.dictionaries(st.sampled_from("abcde"), st.lists(st.sampled_from("xyz"), min_size=1, max_size=3)))
def test_of_synonyms_the_fewest_that_tell_nodes_apart_are_said(words):
    tree = Taxonomy.from_nested({"R": list("abcde")})
    given_words = {name: ", ".join(synonyms) for name, synonyms in words.items()}
    said = words_for_nodes(tree, given_words)
    started = Counter(tuple(of[:length]) for of in words.values() for length in range(1, len(of) + 1))
    for name, synonyms in words.items():
        alone = [length for length in range(1, len(synonyms) + 1) if started[tuple(synonyms[:length])] == 1]
        assert said[name] == ", ".join(synonyms[: min(alone, default=len(synonyms))])


# ---------------------------------------------------------------- words that a taxonomy carries


IDS = Taxonomy.from_nested({0: {1: [11, 12], 2: [21]}})
WORDS = {0: "pet", 1: "dog, domestic dog", 11: "corgi", 12: "pug"}
NAMED = IDS.with_words(WORDS)


def test_words_go_wherever_a_taxonomy_goes():
    assert NAMED.words == WORDS
    assert NAMED != IDS
    assert IDS.with_words(WORDS) == NAMED
    assert hash(NAMED) == hash(IDS.with_words(WORDS))
    same = [
        pickle.loads(pickle.dumps(NAMED)),
        Taxonomy.from_dict(json.loads(json.dumps(NAMED.to_dict()))),
        NAMED.with_prior([1, 2, 3]).with_prior(None),
        NAMED.with_leaves([21, 12, 11]).with_leaves([11, 12, 21]),
    ]
    for one in same:
        assert one == NAMED
        assert one.node_words == words_for_nodes(IDS, WORDS)
    assert IDS.to_dict().keys() == {"nodes", "parents", "prior"}  # as it was written before there were words


@given(edges=GRAPHS)
def test_without_words_nodes_are_called_by_their_names(edges):
    graph = Taxonomy.from_edges(edges)
    assert graph.node_words == {name: str(name) for name in graph.nodes}
    assert str(graph) == str(graph.with_words({name: str(name) for name in graph.nodes}))


def test_whatever_shows_a_node_says_its_word():
    assert str(NAMED) == "pet\n├─ dog\n│  ├─ corgi\n│  └─ pug\n└─ 21\n   └─ 21"
    (row,) = hedged_answers({"hedge": [1]}, [12], NAMED)
    assert (row["hedge"], row["true"]) == ("dog", "pug")
    assert "says dog" in hedge_on_tree([0.5, 0.5, 0.0], NAMED, 3.0).text
    assert "says poodle" in hedge_on_tree([0.5, 0.5, 0.0], NAMED, 3.0, names={1: "poodle"}).text


@pytest.mark.parametrize("words", [["dog"], {1: ""}, {1: 7}])
def test_words_that_are_none_are_refused(words):
    with pytest.raises(InputError, match=r"words is a mapping|a word is a text"):
        IDS.with_words(words)


def test_the_tree_of_tiny_imagenet_reads_its_words_where_they_lie_beside_it(tmp_path, monkeypatch):
    folder = tmp_path / TAXONOMIES["tin200"].folder
    folder.mkdir()
    (folder / "taxonomy.csv").write_text("n1,n2\nn1,n3\n")
    monkeypatch.setenv("NEARSAY_DATA", str(tmp_path))
    assert load_taxonomy("tin200").words == {}
    (folder / "names.csv").write_text('node,words\nn1,thing\nn2,"dog, domestic dog"\n')
    assert load_taxonomy("tin200").node_words == {"n2": "dog", "n3": "n3", "n1": "thing"}
    (folder / "names.csv").write_text("id;word\nn1;thing\n")
    with pytest.raises(SavedFileError, match="node and words"):
        load_taxonomy("tin200")
