"""What is no taxonomy, no order of leaves, no prior, no label of it: refused, with the names of the nodes."""

from __future__ import annotations

import math
import sys

import networkx
import numpy as np
import pytest

from nearsay.errors import InputError, MissingExtra
from nearsay.taxonomy.taxonomy import Taxonomy
from tests.reference.decision.taxonomy import DAG, T1

pytestmark = pytest.mark.usefixtures("strict_and_tidy")


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ([], "at least one node"),
        ([("a", "b"), ("b", "c"), ("c", "b")], "form a cycle.*(b → c → b|c → b → c)"),
        ([("a", "b"), ("b", "a")], "form a cycle"),
        ([("a", "a")], "'a' is given as its own parent"),
        ([("a", "b"), ("c", "d")], "2 nodes have no parent: 'a', 'c'.*root="),
        ([("a", "b", "c")], r"pairs of names; got \('a', 'b', 'c'\)"),
        (["ab"], "pairs of names; got 'ab'"),
        ([("a", None)], "named by a text or a number.* got None"),
        ([("a", math.nan)], "named by a text or a number.* got nan"),
        ([("", "a")], "not empty; got ''"),
        ([(("a", "b"), "c")], r"got \('a', 'b'\)"),
    ],
)
def test_what_is_no_taxonomy_is_refused_with_the_names(edges, words):
    with pytest.raises(InputError, match=words):
        Taxonomy.from_edges(edges)


def test_a_long_circle_and_many_roots_are_cut_short():
    with pytest.raises(InputError, match=r"→ … →") as told:
        Taxonomy.from_edges([(n, (n + 1) % 5000) for n in range(5000)])
    assert len(str(told.value)) < 300
    with pytest.raises(InputError, match="0, 2, 4, 6, 8 … 45 more"):
        Taxonomy.from_edges([(2 * n, 2 * n + 1) for n in range(50)])


def test_a_root_goes_above_several_and_above_others_of_its_name():
    loose = [("a", "b"), ("c", "d")]
    assert Taxonomy.from_edges(loose, root="r").ancestors("b") == ("a", "r")
    assert Taxonomy.from_edges(loose, root="a").ancestors("d") == ("c", "a")
    assert Taxonomy.from_edges(loose[:1], root="a") == Taxonomy.from_edges(loose[:1])
    with pytest.raises(InputError, match="root='b' must be above all nodes, but it is under 'a'"):
        Taxonomy.from_edges(loose, root="b")


def test_an_order_of_leaves_must_hold_each_leaf_once():
    with pytest.raises(InputError, match="listed twice: 'a'; not in the tree: 'x'; inner nodes: 'P'; left out: 'b'"):
        Taxonomy.from_edges(DAG, leaves=["a", "a", "x", "P", "c"])


def test_labels_missing_from_the_tree_are_named_with_names_like_them():
    tree = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"]}})
    assert tree.check_labels(np.array(["dog", "corgi"])).tolist() == [tree.number("dog"), tree.number("corgi")]
    assert tree.check_labels([]).tolist() == []
    with pytest.raises(
        InputError, match=r"3 of 4 labels are not in the taxonomy 'pet': 'cogri' \(did you mean 'corgi'"
    ):
        tree.check_labels(["cogri", "dog", "cogri", "x"])
    with pytest.raises(InputError, match=r"pass the labels as texts, as y\.astype\(str\)"):
        Taxonomy.from_nested({"digit": ["0", "1"]}).check_labels(np.array([0, 1]))
    for wrong in ("dog", 3, [["dog"]], np.array("dog"), np.array([["dog"]])):
        with pytest.raises(InputError, match="A list of names of nodes is expected"):
            tree.check_labels(wrong)


@pytest.mark.parametrize(
    ("prior", "words"),
    [
        ([1, 2], r"one number for each of 3 leaves; got shape \(2,\)"),
        ([1, 0, 1], "that of leaf 'b' is 0.0.*add 1 to counts"),
        ([1, math.nan, 1], "that of leaf 'b' is nan"),
        ({"a": 1, "b": 1}, "'c' is missing or no leaf"),
        ({"a": 1, "b": 1, "c": 1, "P": 1}, "'P' is missing or no leaf"),
    ],
)
def test_a_prior_that_is_none_is_refused(prior, words):
    with pytest.raises(InputError, match=words):
        Taxonomy.from_edges(DAG).with_prior(prior)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"nodes": ["a", "b", "c", "P", "P", "R"]}, "got 'P' more than once"),
        ({"nodes": ["a"]}, "got 1 nodes and 6"),
        ({"parents": [[3], [3, 4], [4], [5], [5], [0]]}, r"Node 5 \('R'\) has the parents \[0\]"),
        ({"parents": [[3], [3, 3], [4], [5], [5], []]}, "all different"),
        ({"parents": [[3], [3, 4], [4], [5], [], []]}, "Each node but the last needs some"),
        ({"parents": [[2], [2], [5], [5], [5], []]}, "inner node 'c' comes before a leaf"),
        ({"prior": [0.5, 0.5, 0.5]}, "must sum to 1, not 1.5"),
    ],
)
def test_damaged_saved_state_is_refused(changed, words):
    with pytest.raises(InputError, match=words):
        Taxonomy.from_dict(Taxonomy.from_edges(DAG).to_dict() | changed)
    with pytest.raises(InputError, match="a dict with nodes, parents and prior; got list"):
        Taxonomy.from_dict([])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "tree.csv is empty"),
        ("a,b\na\n", r"tree.csv, line 2: a parent and a child are expected; got \['a'\]"),
        ("a,b\na,b,c\n", "tree.csv, line 2"),
        ("parent,child\na,\n", "tree.csv, line 2"),
        ('a,b\na,"c"d\n', "tree.csv, line 2: .*expected after"),
        ("parent,child\n", "at least one node"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_the_line(tmp_path, text, words):
    (tmp_path / "tree.csv").write_text(text)
    with pytest.raises(InputError, match=words):
        Taxonomy.from_csv(tmp_path / "tree.csv")
    (tmp_path / "tree.csv").write_bytes(b"caf\xe9,b\n")
    with pytest.raises(InputError, match="is not UTF-8"):
        Taxonomy.from_csv(tmp_path / "tree.csv")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", ", "])
@pytest.mark.parametrize("header", ["", "parent{}child\n"])
def test_a_file_is_cut_as_a_table_is(tmp_path, delimiter, header):
    (tmp_path / "tree.csv").write_text(header.format(delimiter) + f"pet{delimiter}dog\n\npet{delimiter}my cat\n")
    assert Taxonomy.from_csv(tmp_path / "tree.csv").leaves == ("dog", "my cat")


def test_other_bad_input_is_refused_with_words(monkeypatch):
    tree, graph = Taxonomy.from_nested(T1), Taxonomy.from_edges(DAG)
    with pytest.raises(InputError, match="these nodes have several parents: 'b'"):
        graph.to_nested()
    with pytest.raises(InputError, match=r"Under 'pet': .* got 'dog'"):
        Taxonomy.from_nested({"pet": "dog"})
    with pytest.raises(InputError, match=r"As the tree itself: .* got 'dog'"):
        Taxonomy.from_nested("dog")
    with pytest.raises(InputError, match=r"a list of names from the root down; got the text 'dog'. Pass \['dog'\] for"):
        Taxonomy.from_paths(["dog"])
    with pytest.raises(InputError, match="Pass a DiGraph"):
        Taxonomy.from_networkx(networkx.Graph([("a", "b")]))
    for numbers in ([-1], [7], [0, 99]):
        with pytest.raises(InputError, match="numbered from 0 to 6"):
            tree.covers_label(numbers, [0])
        with pytest.raises(InputError, match="numbered from 0 to 6"):
            tree.lca_numbers([0], numbers)
    with pytest.raises(InputError, match="given by number here; got <U2"):
        tree.covers_label(["a1"], [0])
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingExtra, match=r"nearsay\[networkx\]"):
        tree.to_networkx()
