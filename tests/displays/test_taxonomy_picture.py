"""The picture of a taxonomy shows its nodes: each in its place, with its name, value and path."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_hex

from nearsay.displays.drawing import AGREES
from nearsay.displays.hedging.taxonomy_picture import TaxonomyDisplay, lay_out
from nearsay.errors import InputError
from nearsay.taxonomy.taxonomy import Taxonomy
from tests.displays.drawn import texts
from tests.reference.decision.taxonomy import DAG, GRAPHS, T1

pytestmark = pytest.mark.usefixtures("strict_and_tidy")


def fills(display: TaxonomyDisplay) -> np.ndarray:
    """How dark each dot is, in the order of the nodes."""
    return 1 - display.ax_.collections[2].get_facecolors()[:, 0]


@given(edges=GRAPHS)
def test_every_leaf_has_a_row_of_its_own_and_parents_stand_left_of_first_children(edges):
    graph = Taxonomy.from_edges(edges)
    layout = lay_out(graph, [str(name) for name in graph.nodes])
    rows = layout.y[: graph.n_leaves]
    assert len(set(rows.round(6))) == graph.n_leaves
    for node, above in enumerate(graph.parents):
        assert 0 < layout.x[node] < layout.width
        assert 0 < layout.y[node] < layout.height
        if above:
            assert layout.x[above[0]] == layout.left[node] < layout.x[node]


@settings(max_examples=10)
@given(edges=GRAPHS, many=st.booleans())
def test_every_node_is_named_once_whatever_the_graph(edges, many):
    graph = Taxonomy.from_edges(edges)
    display = TaxonomyDisplay.from_taxonomy(graph, highlight=list(graph.leaves) if many else graph.root)
    assert sorted(texts(display)) == sorted(graph.nodes)
    assert len(display.ax_.texts) == graph.n_nodes
    plt.close(display.figure_)


def test_an_inner_node_without_children_of_its_own_gets_a_row():
    graph = Taxonomy.from_edges([("R", "P"), ("R", "Q"), ("P", "a"), ("P", "b"), ("Q", "b")])
    layout = lay_out(graph, list(graph.nodes))
    assert len(set(layout.y[[0, 1, graph.number("Q")]])) == 3
    assert layout.y.max() < layout.height


def test_names_do_not_cover_one_another():
    tree = Taxonomy.from_nested(
        {"root": {f"family {i}": {f"kind {i}.{j}": [f"leaf {i}.{j}.{k}" for k in range(j)] for j in range(4)}
                  for i in range(4)}}
    )  # fmt: skip
    display = TaxonomyDisplay.from_taxonomy(tree, values=tree.information)
    boxes = [text.get_window_extent() for text in texts(display).values()]
    overlapping = [
        (a, b)
        for at, a in enumerate(boxes)
        for b in boxes[at + 1 :]
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 3
    ]
    assert overlapping == []


def test_values_are_written_and_the_larger_ones_darker():
    tree = Taxonomy.from_nested(T1)
    shares = np.array([0.4, 0.3, 0.2, 0.1]) @ tree.covers
    display = TaxonomyDisplay.from_taxonomy(tree, values=shares)
    assert {"a1  0.4", "A  0.7", "B  0.3", "R  1"} <= set(texts(display))
    assert (np.argsort(fills(display), kind="stable") == np.argsort(shares, kind="stable")).all()
    partly = TaxonomyDisplay.from_taxonomy(tree, values={"a1": -2, "B": 5})
    assert {"a1  -2", "B  5", "A"} <= set(texts(partly))
    assert fills(partly)[0] == 0
    assert TaxonomyDisplay.from_taxonomy(tree, values=np.zeros(7)).values.tolist() == [0.0] * 7


def test_a_highlighted_node_is_bold_and_its_path_colored():
    display = TaxonomyDisplay.from_taxonomy(Taxonomy.from_nested(T1), highlight="B")
    written = texts(display)
    assert written["B"].get_fontweight() == "bold"
    assert to_hex(written["B"].get_color()) == AGREES.lower()
    assert written["R"].get_fontweight() == "normal"
    branches = [to_hex(color) for color in display.ax_.collections[0].get_colors()]
    assert branches.count(AGREES.lower()) == 2
    assert (fills(display) > 0.5).tolist() == [False] * 5 + [True, False]


def test_a_second_parent_is_joined_by_a_dashed_line():
    display = TaxonomyDisplay.from_taxonomy(Taxonomy.from_edges(DAG))
    across = display.ax_.collections[1]
    assert len(across.get_segments()) == 1
    assert across.get_linestyles()[0][1] is not None


def test_a_large_tree_is_a_shape_in_which_only_the_highlighted_is_named():
    tree = Taxonomy.from_nested({"r": {f"n{i}": [f"n{i}.{j}" for j in range(30)] for i in range(30)}})
    assert list(texts(TaxonomyDisplay.from_taxonomy(tree, highlight="n3"))) == ["n3"]
    assert texts(TaxonomyDisplay.from_taxonomy(tree)) == {}
    assert lay_out(tree, [""] * tree.n_nodes).height < 10  # a row as high as with names would fill a wall


def test_odd_names_are_drawn_as_they_are():
    tree = Taxonomy.from_nested({"$x": ["_y", "z" * 80, "a_{b}^$"]})
    display = TaxonomyDisplay.from_taxonomy(tree)
    assert {r"\$x", " _y", r"a_{b}^\$"} <= set(texts(display))
    assert max(map(len, texts(display))) < 40


def test_one_node_is_drawn():
    assert list(texts(TaxonomyDisplay.from_taxonomy(Taxonomy.from_paths([("all",)])))) == ["all"]


def test_bad_input_is_refused_with_words():
    tree = Taxonomy.from_nested(T1)
    with pytest.raises(InputError, match=r"one number for each of 7 nodes.*shape \(4,\)"):
        TaxonomyDisplay.from_taxonomy(tree, values=[0.4, 0.3, 0.2, 0.1])
    with pytest.raises(InputError, match="not in the taxonomy 'R': 'a3'"):
        TaxonomyDisplay.from_taxonomy(tree, values={"a3": 1})
    with pytest.raises(InputError, match="not in the taxonomy 'R': 'a3'"):
        TaxonomyDisplay.from_taxonomy(tree, highlight="a3")
