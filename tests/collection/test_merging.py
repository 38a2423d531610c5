"""Two collections become one, one becomes two: nothing is lost, and what disagrees is listed."""

from __future__ import annotations

from functools import partialmethod

import numpy as np
import pytest

from nearsay.collection.indexing import index_source
from nearsay.collection.information import collection_information
from nearsay.collection.ingest.text_description import TextDescription
from nearsay.collection.live import LiveCollection
from nearsay.collection.merging import merge_collections, restore_collection, split_collection
from nearsay.errors import InputError, NearsayError


@pytest.fixture(autouse=True)
def votes(monkeypatch):
    """What is merged and split learns votes: choosing among all that could answer is not the matter here."""
    monkeypatch.setattr(
        LiveCollection, "learn", partialmethod(LiveCollection.learn, posterior="weighted", n_neighbors=3)
    )


def make(path, items, n_columns=2):
    """A collection of {id: (vector, label)}."""
    with LiveCollection.create(path, n_columns) as collection:
        X = np.array([vector for vector, _ in items.values()], np.float32)
        groups = [{"patient": str(place % 7)} for place in range(len(items))]
        collection.add(list(items), X, [label for _, label in items.values()], details=groups)
    return path


def contents(path):
    with LiveCollection.open(path, read_only=True) as collection:
        rows = collection.items.row_of
        vectors = collection.store.vectors(list(rows.values())).tolist()
        return {id: (vector, collection.store.item(id)["label"]) for id, vector in zip(rows, vectors, strict=True)}


def some(seed, names, labels=("oak", "elm", None)):
    rng = np.random.default_rng(seed)
    return {name: (rng.normal(size=2).astype(np.float32).tolist(), labels[rng.integers(len(labels))]) for name in names}


@pytest.mark.parametrize("seed", range(5))
def test_a_merge_has_every_item_once_and_the_first_label_wins(tmp_path, seed):
    one = some(seed, [f"a{n}" for n in range(12)] + [f"both{n}" for n in range(8)])
    two = some(seed + 100, [f"b{n}" for n in range(9)] + [f"both{n}" for n in range(8)])
    merged = merge_collections(make(tmp_path / "one", one), make(tmp_path / "two", two), tmp_path / "all")
    expected, conflicts = dict(one), []
    for id, (vector, label) in two.items():
        if id not in one:
            expected[id] = (vector, label)
        elif one[id][1] is None:
            expected[id] = (one[id][0], label)
        elif label is not None and label != one[id][1]:
            conflicts.append((id, one[id][1], label))
    assert contents(tmp_path / "all") == expected
    assert [(each.id, each.label, each.other_label) for each in merged.conflicts] == conflicts
    assert (merged.n_added, merged.n_shared) == (9, 8)
    assert contents(tmp_path / "one") == one


def test_texts_are_described_as_those_of_the_first(tmp_path):
    for name, nouns in (("one", ["card", "weather"]), ("two", ["holiday", "beach"])):
        lines = [f"where is my {noun} {place},{noun}" for noun in nouns for place in ("today", "now", "here", "again")]
        (tmp_path / f"{name}.csv").write_text("\n".join(["text,intent", *lines]))
        words = TextDescription.choose(["words"])
        index_source(tmp_path / f"{name}.csv", tmp_path / name, description=words, label_column="intent", learn=False)
    merge_collections(tmp_path / "one", tmp_path / "two", tmp_path / "all")
    with LiveCollection.open(tmp_path / "all", read_only=True) as merged:
        assert len(merged) == 16
        assert {item["label"] for item in (merged.store.item(id) for id in merged.items.row_of)} == {
            "card", "weather", "holiday", "beach",
        }  # fmt: skip


def test_what_is_described_differently_is_not_merged(tmp_path):
    one = make(tmp_path / "one", some(0, ["a", "b"]))
    with LiveCollection.create(tmp_path / "three", 3) as collection:
        collection.add(["c"], [[0.0, 1.0, 2.0]])
    with pytest.raises(InputError, match="describe their items differently"):
        merge_collections(one, tmp_path / "three", tmp_path / "all")
    assert not (tmp_path / "all").exists()


@pytest.mark.parametrize("seed", range(5))
def test_a_split_keeps_groups_whole_and_loses_nothing(tmp_path, seed):
    items = some(seed, [f"a{n}" for n in range(60)], labels=("oak", "elm"))
    path = make(tmp_path / "all", items)
    sizes = split_collection(path, tmp_path / "train", tmp_path / "test", share=0.3, group="patient", seed=seed)
    train, test = contents(tmp_path / "train"), contents(tmp_path / "test")
    assert train | test == items
    assert not set(train) & set(test)
    patients = [{int(id[1:]) % 7 for id in part} for part in (train, test)]
    assert not patients[0] & patients[1]
    assert (len(train), len(test)) == (sizes["train"], sizes["test"])
    assert 0.3 * 60 <= len(test) <= 0.3 * 60 + 9
    with LiveCollection.open(tmp_path / "train", read_only=True) as part:
        assert part.learned.n_rows == len(train)


def test_a_split_names_an_item_without_a_group(tmp_path):
    path = make(tmp_path / "all", some(0, ["a", "b", "c"]))
    with pytest.raises(InputError, match="'a' has no 'farm'"):
        split_collection(path, tmp_path / "train", tmp_path / "test", group="farm")
    assert not (tmp_path / "train").exists()


def test_a_damaged_backup_is_not_restored(tmp_path):
    items = some(0, [f"a{n}" for n in range(20)])
    path = make(tmp_path / "all", items)
    with LiveCollection.open(path) as collection:
        collection.store.seal(min_rows=1)
        collection.store.backup(tmp_path / "backup")
    assert restore_collection(tmp_path / "backup", tmp_path / "restored") == 20
    assert contents(tmp_path / "restored") == items
    shard = next((tmp_path / "backup" / "shards").glob("*.npy"))
    shard.write_bytes(shard.read_bytes()[:-1] + b"\xff")
    with pytest.raises(NearsayError):
        restore_collection(tmp_path / "backup", tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_information_counts_what_is_there(tmp_path):
    items = some(3, [f"a{n}" for n in range(30)])
    known = collection_information(make(tmp_path / "all", items))
    labels = [label for _, label in items.values()]
    assert known["n_items"] == 30
    assert known["n_labeled"] == sum(label is not None for label in labels)
    assert known["n_classes"] == len({label for label in labels if label is not None})
    assert known["n_bytes"] > 0
