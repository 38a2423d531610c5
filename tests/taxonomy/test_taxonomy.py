"""Taxonomies against loops over their pairs: who is above whom, what a node says, and back from every form."""

from __future__ import annotations

import copy
import json
import math
import os
import pickle
from itertools import pairwise

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, clone

from nearsay.data.catalog import TAXONOMIES
from nearsay.errors import DatasetNotFound, InputError, SavedFileError
from nearsay.taxonomy.named import load_taxonomy
from nearsay.taxonomy.taxonomy import Taxonomy
from nearsay.taxonomy.text import MOST_LINES
from tests.reference.decision.taxonomy import DAG, GRAPHS, ILSVRC65_SHAPE, ODD_NAMES, T1, TREES, leaves_below, walked_up

needs_data = pytest.mark.skipif(
    not os.environ.get("NEARSAY_DATA"), reason="NEARSAY_DATA names no folder of data sets; this test reads one"
)


pytestmark = pytest.mark.usefixtures("strict_and_tidy")


# ---------------------------------------------------------------- examples done by hand


def test_the_tree_of_the_hand_checked_examples():
    tree = Taxonomy.from_nested(T1)
    assert tree.nodes == ("a1", "a2", "b1", "b2", "A", "B", "R")
    assert tree.information.tolist() == [2, 2, 2, 2, 1, 1, 0]
    np.testing.assert_allclose(np.array([0.4, 0.3, 0.2, 0.1]) @ tree.covers, [0.4, 0.3, 0.2, 0.1, 0.7, 0.3, 1.0])
    assert (tree.leaves, tree.n_leaves, tree.n_nodes, tree.root) == (("a1", "a2", "b1", "b2"), 4, 7, "R")
    assert tree.parents == ((4,), (4,), (5,), (5,), (6,), (6,), ())
    assert (tree.path("b2"), tree.ancestors("b2"), tree.depth("b2")) == (("R", "B", "b2"), ("B", "R"), 2)
    assert [tree.lca(*two) for two in (("a1", "a2"), ("a1", "b1"), ("A", "a1"), ("b1", "b1"))] == ["A", "R", "A", "b1"]


def test_a_leaf_with_two_parents_is_counted_once():
    graph = Taxonomy.from_edges(DAG)
    assert graph.nodes == ("a", "b", "c", "P", "Q", "R")
    np.testing.assert_allclose(np.array([0.2, 0.5, 0.3]) @ graph.covers, [0.2, 0.5, 0.3, 0.7, 0.8, 1.0])
    assert graph.information[3] == graph.information[4] == math.log2(3) - 1
    assert graph.to_paths() == [("R", "P", "a"), ("R", "P", "b"), ("R", "Q", "b"), ("R", "Q", "c")]
    assert (graph.path("b"), graph.ancestors("b"), graph.lca("a", "b"), graph.lca("b", "c")) == (
        ("R", "P", "b"),
        ("P", "Q", "R"),
        "P",
        "Q",
    )


def test_the_information_of_the_ilsvrc65_shape():
    tree = Taxonomy.from_nested(ILSVRC65_SHAPE)
    expected = {"bird": 3.025535, "cat": 3.510962, "dog": 0.878694, "boat": 3.510962, "car": 2.662965}
    expected |= {"vehicle": 2.025535, "animal": 0.406625, "object": 0.0, "bird 3": 5.832890}
    for name, bits in expected.items():
        assert tree.information[tree.number(name)] == pytest.approx(bits, abs=5e-7)
    assert (tree.n_leaves, tree.n_nodes) == (57, 65)


# ---------------------------------------------------------------- against loops


@given(edges=GRAPHS)
def test_leaves_come_first_children_before_parents_and_the_root_last(edges):
    graph = Taxonomy.from_edges(edges)
    names, inner = {name for edge in edges for name in edge}, {parent for parent, _ in edges}
    assert set(graph.nodes) == names
    assert len(graph.nodes) == len(names)
    assert graph.leaves == tuple(dict.fromkeys(child for _, child in edges if child not in inner))
    assert all(parent > child for child, above in enumerate(graph.parents) for parent in above)
    assert [node for node, above in enumerate(graph.parents) if not above] == [graph.n_nodes - 1]
    assert set(graph.to_edges()) == set(edges)
    assert len(graph.to_edges()) == len(set(edges))


@given(edges=GRAPHS)
def test_covers_and_information_are_those_of_walking_up_from_each_leaf(edges):
    graph = Taxonomy.from_edges(edges)
    expected = [[float(node in walked_up(edges, leaf)) for node in graph.nodes] for leaf in graph.leaves]
    assert graph.covers.toarray().tolist() == expected
    assert graph.covers.dtype == np.float64
    counts = [len(leaves_below(edges, node)) for node in graph.nodes]
    np.testing.assert_array_equal(graph.information, math.log2(graph.n_leaves) - np.log2(counts))
    assert [set(graph.leaves_under(node)) for node in graph.nodes] == [leaves_below(edges, n) for n in graph.nodes]


@given(edges=GRAPHS, weights=st.lists(st.integers(1, 9), min_size=9, max_size=9))
def test_with_a_prior_the_information_is_that_of_the_mass_below(edges, weights):
    graph = Taxonomy.from_edges(edges)
    prior = dict(zip(graph.leaves, weights, strict=False))
    weighed = graph.with_prior(prior)
    mass = [sum(prior[leaf] for leaf in leaves_below(edges, node)) for node in graph.nodes]
    np.testing.assert_allclose(weighed.information, -np.log2(np.array(mass) / sum(prior.values())), atol=1e-12)
    assert weighed.information[-1] == 0
    # Exactly, not to within rounding: a node that says less than its parent would upset every tie.
    assert all(
        weighed.information[child] >= weighed.information[parent]
        for child, above in enumerate(graph.parents)
        for parent in above
    )
    assert weighed.with_prior(None) == graph
    assert weighed == graph.with_prior([prior[leaf] for leaf in graph.leaves])


@given(edges=GRAPHS)
def test_a_node_covers_a_label_that_is_it_or_below_it(edges):
    graph = Taxonomy.from_edges(edges)
    every = np.arange(graph.n_nodes)
    expected = [[node in walked_up(edges, label) for node in graph.nodes] for label in graph.nodes]
    assert graph.covers_label(every[None, :], every[:, None]).tolist() == expected
    assert graph.ancestry.toarray().tolist() == np.array(expected, float).tolist()


@given(edges=GRAPHS, weights=st.none() | st.lists(st.integers(1, 3), min_size=9, max_size=9))
def test_the_lca_is_the_first_of_the_most_informative_common_nodes(edges, weights):
    graph = Taxonomy.from_edges(edges)
    graph = graph.with_prior(None if weights is None else weights[: graph.n_leaves])
    every = np.arange(graph.n_nodes)
    found = graph.lca_numbers(every[:, None], every[None, :])
    for a, first in enumerate(graph.nodes):
        for b, second in enumerate(graph.nodes):
            common = walked_up(edges, first) & walked_up(edges, second)
            best = max(common, key=lambda name: (graph.information[graph.number(name)], -graph.number(name)))
            assert graph.nodes[found[a, b]] == best
    assert graph.lca(*graph.nodes[:2]) == graph.nodes[found[0, 1]]


@given(edges=GRAPHS)
def test_paths_depths_and_ancestors_are_those_of_walking_up(edges):
    graph = Taxonomy.from_edges(edges)
    for node in graph.nodes:
        path = graph.path(node)
        assert (path[0], path[-1]) == (graph.root, node)
        assert all(next(edge for edge in edges if edge[1] == low) == (high, low) for high, low in pairwise(path))
        assert graph.depth(node) == len(path) - 1
        above = graph.ancestors(node)
        assert set(above) == walked_up(edges, node) - {node}
        steps = [networkx.shortest_path_length(networkx.DiGraph(edges), name, node) for name in above]
        assert steps == sorted(steps)
        assert len(above) == len(set(above))


@given(edges=GRAPHS, weights=st.none() | st.lists(st.integers(1, 9), min_size=9, max_size=9))
def test_a_label_is_shared_out_among_the_leaves_below_it(edges, weights):
    graph = Taxonomy.from_edges(edges)
    graph = graph.with_prior(None if weights is None else weights[: graph.n_leaves])
    prior = dict(zip(graph.leaves, weights or [1] * 9, strict=False))
    labels = [*graph.nodes, graph.root]
    for label, row in zip(labels, graph.leaf_mass(labels).toarray(), strict=True):
        below = leaves_below(edges, label)
        whole = sum(prior[leaf] for leaf in below)
        np.testing.assert_allclose(row, [prior[leaf] / whole if leaf in below else 0 for leaf in graph.leaves])


# ---------------------------------------------------------------- there and back


@given(edges=GRAPHS)
def test_every_form_that_holds_a_graph_gives_it_back(edges):
    graph = Taxonomy.from_edges(edges)
    assert Taxonomy.from_edges(graph.to_edges()) == graph
    assert Taxonomy.from_paths(graph.to_paths()) == graph
    assert Taxonomy.from_networkx(graph.to_networkx()) == graph
    weighed = graph.with_prior(np.arange(graph.n_leaves) + 1)
    for one in (graph, weighed):
        for again in (
            Taxonomy.from_dict(json.loads(json.dumps(one.to_dict()))),
            pickle.loads(pickle.dumps(one)),
            copy.deepcopy(one),
        ):
            assert again == one
            assert hash(again) == hash(one)
            np.testing.assert_array_equal(again.information, one.information)
    assert weighed != graph


@given(edges=TREES)
def test_nested_dicts_give_a_tree_back(edges):
    tree = Taxonomy.from_edges(edges)
    assert Taxonomy.from_nested(tree.to_nested(), leaves=tree.leaves) == tree
    assert Taxonomy.from_nested(json.loads(json.dumps(tree.to_nested())), leaves=tree.leaves) == tree


@given(edges=ODD_NAMES, tabs=st.booleans())
def test_a_file_gives_the_graph_back_with_and_without_its_header(edges, tabs, tmp_path_factory):
    path = tmp_path_factory.mktemp("csv") / ("tree.tsv" if tabs else "tree.csv")
    graph = Taxonomy.from_edges(edges)
    graph.to_csv(path)
    assert Taxonomy.from_csv(path) == graph
    header, lines = path.read_text(encoding="utf-8").split("\n", 1)
    assert header.split("\t" if tabs else ",") == ["parent", "child"]
    path.write_text(lines, encoding="utf-8")
    assert Taxonomy.from_csv(path) == graph


@given(edges=GRAPHS, random=st.randoms())
def test_the_order_of_nodes_depends_on_the_graph_and_its_leaves_alone(edges, random):
    graph = Taxonomy.from_edges(edges)
    shuffled = random.sample(edges, len(edges))
    assert Taxonomy.from_edges(shuffled, leaves=graph.leaves).nodes == graph.nodes
    leaves = random.sample(graph.leaves, graph.n_leaves)
    other = graph.with_prior(np.arange(graph.n_leaves) + 1).with_leaves(leaves)
    assert other.leaves == tuple(leaves)
    assert set(other.to_edges()) == set(edges)
    for name in graph.nodes:
        number = graph.with_prior(np.arange(graph.n_leaves) + 1).information[graph.number(name)]
        assert other.information[other.number(name)] == pytest.approx(number)


def test_ancestors_equally_near_come_with_the_first_parents_first():
    graph = Taxonomy.from_edges([("b", "x"), ("c", "b"), ("d", "b"), ("R", "c"), ("R", "d"), ("a", "x"), ("R", "a")])
    assert graph.ancestors("x") == ("b", "a", "c", "d", "R")


def test_inner_nodes_over_the_same_first_leaf_stand_by_name():
    names = list("hcfbgaed")
    graph = Taxonomy.from_edges([("R", name) for name in names] + [(name, f"leaf {n}") for name in names for n in "01"])
    assert graph.nodes == ("leaf 0", "leaf 1", *sorted(names), "R")


def test_children_stand_in_the_order_of_their_leaves_deep_or_not():
    nested = {"r": {"b": {"x": {}}, "a": {}, "c": {"y": {"z": {}}}}}
    tree = Taxonomy.from_nested(nested)
    assert [tree.nodes[child] for child in tree.children[-1]] == ["b", "a", "c"]
    assert list(tree.to_nested()["r"]) == ["b", "a", "c"]


def test_other_leaves_in_front_leave_the_inner_nodes_where_they_are():
    tree = Taxonomy(["a", "b", "B", "A", "R"], [[3], [2], [4], [4], []], [0.25, 0.75])
    turned = tree.with_leaves(["b", "a"])
    assert turned == Taxonomy(["b", "a", "B", "A", "R"], [[2], [3], [4], [4], []], [0.75, 0.25])
    assert turned.with_leaves(np.array(["a", "b"])) == tree
    with pytest.raises(InputError, match="left out: 'a'"):
        tree.with_leaves(["b"])


def test_a_file_may_name_its_columns_in_any_order_and_have_others(tmp_path):
    path = tmp_path / "tree.csv"
    path.write_text("\ufeffChild, rank ,PARENT\ndog,genus, pet\n\ncat,genus,pet\n", encoding="utf-8")
    assert Taxonomy.from_csv(path).to_edges() == [("pet", "dog"), ("pet", "cat")]


def test_names_may_be_numbers_and_come_from_arrays():
    tree = Taxonomy.from_edges(np.array([[9, 1], [9, 2]]), leaves=np.array([2, 1]))
    assert tree.nodes == (2, 1, 9)
    assert all(type(name) is int for name in tree.nodes)
    assert tree.check_labels(np.array([1.0, 9.0, 2.0])).tolist() == [1, 2, 0]
    assert Taxonomy.from_edges([("even", 0), ("even", 2), ("odd", 1)], root="digit").leaves == (0, 2, 1)


def test_one_node_is_a_taxonomy():
    only = Taxonomy.from_paths([("all",)])
    assert (only.nodes, only.n_leaves, only.parents, str(only)) == (("all",), 1, ((),), "all")
    assert only.information.tolist() == [0.0]
    assert only == Taxonomy.from_nested({"all": None}) == Taxonomy.from_dict(only.to_dict())
    assert only.with_leaves(["all"]) == only
    assert repr(only) == "<Taxonomy all: 1 leaf, 1 nodes, a tree of depth 0>"


def test_depths_may_differ_and_a_path_may_end_inside():
    tree = Taxonomy.from_paths([("r", "a"), ("r", "b"), ("r", "b", "c", "d")])
    assert tree.leaves == ("a", "d")
    assert [tree.depth(leaf) for leaf in tree.leaves] == [1, 3]
    assert tree.lca("d", "d") == "d"


def test_a_path_in_one_text_is_refused_with_the_list_to_pass():
    split = r"""Pass \['pet', 'dog'\]: from_paths\(\[path.split\("/"\) for path in paths\]\)"""
    for paths in (["pet/dog", "pet/cat"], "pet/dog", np.array(["pet/dog", "pet/cat"])):
        with pytest.raises(InputError, match=rf"a list of names from the root down; got the text 'pet/dog'. {split}"):
            Taxonomy.from_paths(paths)
    with pytest.raises(InputError, match=r"got the text 'dog'. Pass \['dog'\] for a node without a parent."):
        Taxonomy.from_paths(["dog"])
    assert Taxonomy.from_paths([path.split("/") for path in ("pet/dog", "pet/cat")]).leaves == ("dog", "cat")


def test_the_same_name_in_two_branches_is_one_node_or_told_apart_by_path():
    nested = {"fruit": ["orange"], "color": ["orange", "red"]}
    shared = Taxonomy.from_nested(nested, root="word")
    assert not shared.is_tree
    assert shared.ancestors("orange") == ("fruit", "color", "word")
    apart = Taxonomy.from_nested(nested, root="word", by_path=True)
    assert apart.is_tree
    assert apart.nodes == ("fruit/orange", "color/orange", "color/red", "fruit", "color", "word")
    with pytest.raises(InputError, match="'a/b' holds one"):
        Taxonomy.from_paths([("a/b", "c")], by_path=True)


def test_a_very_deep_taxonomy_is_built_drawn_and_turned_into_every_form():
    deep = Taxonomy.from_edges([(n, n + 1) for n in range(3000)])
    assert deep.depth(3000) == 3000
    assert len(str(deep).splitlines()) <= MOST_LINES
    assert len(deep.to_paths()[0]) == 3001
    assert Taxonomy.from_nested(deep.to_nested()) == deep


# ---------------------------------------------------------------- as a value


def test_nothing_in_a_taxonomy_can_be_changed():
    tree = Taxonomy.from_nested(T1).with_prior([1, 2, 3, 4])
    with pytest.raises(AttributeError):
        tree.nodes = ()
    for array in (tree.prior, tree.information, tree.depths, tree.covers.data, tree.covers.indices):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7


def test_a_prior_of_the_user_is_neither_kept_nor_changed():
    weights = np.array([1.0, 2.0, 3.0, 4.0])
    tree = Taxonomy.from_nested(T1).with_prior(weights)
    weights[0] = 100
    assert tree.prior.tolist() == [0.1, 0.2, 0.3, 0.4]
    shares = np.full(4, 0.25)
    again = Taxonomy(tree.nodes, tree.parents, shares)
    shares[0] = 7
    assert again.prior.tolist() == [0.25] * 4


def test_scikit_learn_clones_an_estimator_that_holds_one():
    class Holding(BaseEstimator):
        def __init__(self, taxonomy=None):
            self.taxonomy = taxonomy

    assert clone(Holding(Taxonomy.from_nested(T1))).taxonomy == Taxonomy.from_nested(T1)
    assert Taxonomy.from_nested(T1) != T1
    assert len({Taxonomy.from_nested(T1), Taxonomy.from_nested(T1), Taxonomy.from_edges(DAG)}) == 2


def test_a_small_graph_is_drawn_in_full_and_a_shared_node_once():
    assert str(Taxonomy.from_edges(DAG)).splitlines() == [
        "R",
        "├─ P",
        "│  ├─ a",
        "│  └─ b",
        "└─ Q",
        "   ├─ b (as under P)",
        "   └─ c",
    ]
    assert repr(Taxonomy.from_edges(DAG)) == "<Taxonomy R: 3 leaves, 6 nodes, a graph of depth 2>"
    html = Taxonomy.from_nested({"a<b": ["c&d"]})._repr_html_()
    assert "a&lt;b" in html
    assert "c&amp;d" in html


def test_a_large_tree_is_drawn_from_the_top_and_says_what_is_left_out():
    tree = Taxonomy.from_nested({"r": {f"n{i}": [f"n{i}.{j}" for j in range(30)] for i in range(30)}})
    lines = str(tree).splitlines()
    assert len(lines) <= MOST_LINES
    assert lines[:6] == ["r", "├─ n0", "│  ├─ n0.0", "│  ├─ n0.1", "│  ├─ n0.2", "│  ├─ n0.3"]
    assert lines[6] == "│  └─ … 26 more"
    assert lines[-1] == "└─ … 26 more"
    wide = Taxonomy.from_nested({"r": {f"n{i}": {f"n{i}.{j}": [f"x{i}.{j}.{k}" for k in range(5)] for j in range(5)}
                                       for i in range(5)}})  # fmt: skip
    assert "│  ├─ n0.0" in str(wide)
    assert "(5 leaves)" in str(wide)


@given(edges=GRAPHS)
def test_every_node_is_drawn_below_each_of_its_parents(edges):
    graph = Taxonomy.from_edges(edges)
    assert len(str(graph).splitlines()) == 1 + len(set(edges))


# ---------------------------------------------------------------- real ones


@needs_data
def test_the_tree_of_the_hedging_paper_stands_in_the_order_of_its_authors():
    tree = load_taxonomy("ilsvrc65")
    assert tree.nodes[57:] == ("domestic cat", "dog", "boat", "car", "bird", "vehicle", "animal", "object")
    assert tree.nodes[:2] == ("English setter", "Australian terrier")
    expected = Taxonomy.from_nested(ILSVRC65_SHAPE)
    for name in ("dog", "boat", "car", "bird", "vehicle", "animal", "object"):
        assert tree.information[tree.number(name)] == expected.information[expected.number(name)]


@needs_data
def test_the_tree_of_tiny_imagenet_has_its_classes_as_leaves():
    tree = load_taxonomy("tin200")
    assert (tree.n_leaves, tree.n_nodes, tree.is_tree) == (200, 413, True)
    depths = tree.depths[:200]
    assert (depths.min(), depths.max()) == (3, 14)


@needs_data
def test_ten_thousand_species_stay_sparse():
    tree = load_taxonomy("inat21")
    assert (tree.n_leaves, tree.n_nodes, tree.is_tree) == (10_000, 16_344, True)
    assert tree.covers.nnz == 80_000
    species = np.arange(10_000)
    assert tree.covers_label(tree.number("Aves"), species).sum() == len(tree.leaves_under("Aves")) == 1486
    assert (tree.lca_numbers(species, species) == species).all()


def test_a_taxonomy_that_is_not_there_says_where_it_was_looked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("NEARSAY_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, entry in TAXONOMIES.items():
        if name.startswith("emoji"):  # comes with the package
            continue
        with pytest.raises(DatasetNotFound) as told:
            load_taxonomy(name)
        for words in (str(tmp_path / entry.folder), *entry.files, entry.source):
            assert words in str(told.value)
    (tmp_path / "ilsvrc65").mkdir()
    for damage in ("[", "[{}]", '[{"words": "a", "children": [2]}]', '[{"words": "a", "children": [1]}]'):
        (tmp_path / "ilsvrc65" / "ilsvrc65_hierarchy.json").write_text(damage)
        with pytest.raises(SavedFileError, match="does not hold the ILSVRC65 tree"):
            load_taxonomy("ilsvrc65")
