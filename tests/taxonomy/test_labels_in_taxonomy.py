"""The taxonomy of a collection has every label that an item has, whatever was changed or undone."""

from __future__ import annotations

import numpy as np
import pytest

from nearsay.collection import LiveCollection
from nearsay.errors import InputError
from tests.cli.test_commands import run, write

LABELS = [label for label in ("oak", "elm", "fir") for _ in range(10)]
IDS = [f"leaf {row}" for row in range(30)]
EDGES = [("tree", "oak"), ("tree", "elm"), ("tree", "fir")]


@pytest.fixture
def leaves(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 1)) + np.repeat([[0.0], [5.0], [10.0]], 10, axis=0)
    with LiveCollection.create(tmp_path / "leaves", 1) as collection:
        collection.add(IDS, X, LABELS)
        yield collection
        # Whatever was refused: it learns, and answers.
        collection.learn()
        assert collection.label([[0.0]])[0].label == "oak"


@pytest.mark.parametrize("level", ["collection", "store"])
def test_a_taxonomy_without_labels_in_use_is_refused_by_their_names(leaves, level):
    leaves.add(["waits"], [[3.0]], ["ash"], by="machine")
    before = leaves.version
    changed = leaves if level == "collection" else leaves.store
    with pytest.raises(InputError, match=r"lacks labels that items have: 'ash', 'fir'\. Add them"):
        changed.set_taxonomy(EDGES[:2])
    assert (leaves.version, leaves.taxonomy) == (before, None)
    leaves.forget(["waits"])
    changed.set_taxonomy(EDGES)


def test_a_label_may_be_an_inner_node(leaves):
    leaves.set_taxonomy([("tree", "oak"), ("oak", "elm"), ("tree", "fir")])


def test_a_label_that_the_taxonomy_lacks_is_refused_by_the_store_too(leaves):
    leaves.set_taxonomy(EDGES)
    for change in (
        lambda: leaves.store.relabel(IDS[:1], ["ash"]),
        lambda: leaves.store.add(["new"], [[1.0]], ["ash"]),
        lambda: leaves.relabel(IDS[:1], ["ash"]),
    ):
        before = leaves.version
        with pytest.raises(InputError, match="'ash' is not in the taxonomy"):
            change()
        assert leaves.version == before


def test_no_undo_brings_a_label_back_that_the_taxonomy_lacks(leaves):
    leaves.relabel(IDS[:1], ["ash"])
    other = leaves.relabel(IDS[:1], ["oak"])
    leaves.add(["gone"], [[1.0]], ["ash"])
    forgotten = leaves.forget(["gone"])
    leaves.set_taxonomy(EDGES)
    for event in (other, forgotten):
        with pytest.raises(InputError, match=r"cannot be undone.* 'ash'"):
            leaves.undo(event)
    leaves.set_taxonomy([*EDGES, ("tree", "ash")])
    leaves.undo(other)
    leaves.undo(forgotten)


def test_no_undo_brings_a_taxonomy_back_that_lacks_labels(leaves):
    leaves.set_taxonomy(EDGES)
    without = leaves.set_taxonomy(None)
    leaves.relabel(IDS[:1], ["ash"])
    with pytest.raises(InputError, match=r"cannot be undone.* 'ash'"):
        leaves.undo(without)
    leaves.relabel(IDS[:1], ["oak"])
    leaves.undo(without)
    assert leaves.taxonomy is not None


def test_rows_whose_labels_a_new_taxonomy_lacks_are_left_out_and_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("leaves.csv", [["id", "x", "species"], *([id, row, LABELS[row]] for row, id in enumerate(IDS))])
    write("trees.csv", [["parent", "child"], *EDGES[:2]])
    made = run("index", "leaves.csv", "-o", "leaves.nearsay", "--taxonomy", "trees.csv")
    assert made.exit_code == 1
    assert made.stderr.count("the label 'fir' is not in the taxonomy") == 10
    assert run("learn", "leaves.nearsay").exit_code == 0
