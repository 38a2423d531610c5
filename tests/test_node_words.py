"""Nodes are told in words: their own, or those of leaves below them."""

from __future__ import annotations

from hypothesis import given

from nearsay.taxonomy.taxonomy import Taxonomy
from nearsay.taxonomy.words import words_for_nodes
from reference_taxonomy import GRAPHS, leaves_below


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
