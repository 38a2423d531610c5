"""A collection of texts: indexed, asked, corrected, exported, and opened again; its vocabulary lies with it."""

from __future__ import annotations

import csv
import json
import shutil

import numpy as np
import pytest

from nearsay.collection import LiveCollection
from nearsay.collection.export.item_exports import export_items
from nearsay.collection.indexing import add_source, index_source, query_source
from nearsay.collection.ingest.text_description import CachedEncoder, TextDescription
from nearsay.collection.labeling import label_rows, label_source
from nearsay.collection.store.files.folder import Folder
from nearsay.errors import InputError, NearsayError
from tests.command_line import run

CARD = [
    "block my {} card",
    "where is my {} card",
    "i lost the {} card",
    "stop the {} card please",
    "freeze {} card now",
]
RAIN = ["will it rain {}", "what is the weather {}", "is it going to snow {}", "how cold is it {}", "sunny {} or rain"]
EDGES = "parent,child\nanything,bank\nanything,sky\nbank,card\nsky,rain\n"


def sentences():
    cards = [(each.format(kind), "card") for each in CARD for kind in ("credit", "debit", "red", "blue")]
    rains = [(each.format(day), "rain") for each in RAIN for day in ("today", "tomorrow", "on monday", "tonight")]
    return cards + rains


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a table of sentences, a taxonomy, and the collection of them."""
    folder = tmp_path_factory.mktemp("texts")
    lines = [f"{text},{label}" for text, label in sentences()]
    (folder / "tickets.csv").write_text("\n".join(["text,intent", *lines, ",card"]) + "\n")
    (folder / "tree.csv").write_text(EDGES)
    indexed = index_source(
        folder / "tickets.csv", folder / "tickets", description=TextDescription.choose(["words"]),
        text_column="text", label_column="intent", taxonomy=folder / "tree.csv",
    )  # fmt: skip
    return folder, indexed


@pytest.fixture
def tickets(made, tmp_path):
    shutil.copytree(made[0] / "tickets", tmp_path / "tickets")
    with LiveCollection.open(tmp_path / "tickets") as collection:
        yield collection


def test_a_table_of_texts_is_indexed_and_says_how(made):
    _, indexed = made
    assert (indexed.n_items, indexed.n_labels) == (40, 2)
    assert [problem.line for problem in indexed.problems] == [42]
    assert "column 'text' is the text: as requested" in indexed.chosen
    assert "texts are described by words and character n-grams, as requested" in indexed.chosen


def test_an_answer_quotes_its_neighbors(tickets):
    answer = label_source(tickets, ["please block the card"]).answers[0]
    assert (answer.label, answer.item_text) == ("card", "please block the card")
    assert all(neighbor.text in dict(sentences()) for neighbor in answer.neighbors)
    assert "Nearest: “" in answer.text
    assert "<mark>card</mark>" in answer._repr_html_()
    again = type(answer).from_dict(json.loads(json.dumps(answer.to_dict())))
    assert again.neighbors == answer.neighbors
    item = tickets.label_items(["tickets:0"])[0]
    assert item.item_text == "block my credit card" == tickets.text_of("tickets:0")


def test_items_are_compared_in_the_space_of_the_collection(tickets):
    source = query_source(tickets, ["block my credit card"])
    (batch,) = source
    np.testing.assert_allclose(batch.X, tickets.store.vectors([0]), atol=1e-6)


def test_new_texts_are_added_from_tables_lines_and_folders(tickets, tmp_path):
    (tmp_path / "more.csv").write_text("id,score,text,intent\na,1,block it,card\nb,2,rain again,rain\n")
    assert add_source(tickets, tmp_path / "more.csv", label_column="intent").n_items == 2  # the column is remembered
    assert tickets.text_of("a") == "block it"
    label_source(tickets, ["snow tonight", "snow tonight"], add=True)
    assert sum(tickets.text_of(id) == "snow tonight" for id in tickets.items.row_of) == 1
    (tmp_path / "notes/rain").mkdir(parents=True)
    (tmp_path / "notes/rain/1.md").write_text("rain in the north")
    assert add_source(tickets, tmp_path / "notes").n_items == 1
    (tmp_path / "numbers.csv").write_text("width,kind\n1.5,card\n")
    with pytest.raises(InputError, match="has rows of numbers, and the items of this collection are texts"):
        label_source(tickets, tmp_path / "numbers.csv")
    assert "are texts. Pass one with --text instead of --row" in str(label_rows(tickets, ["1,2"]).problems[0])


def test_mistakes_and_duplicates_of_texts(tickets):
    tickets.relabel(["tickets:0"], ["rain"])
    (mistake,) = tickets.likely_mistakes(1)
    assert mistake.id == "tickets:0"
    assert all(neighbor.text for neighbor in mistake.neighbors)
    tickets.add(["twin"], tickets.store.vectors([3]), ["card"], details=[{"text": "block my blue card!"}])
    assert {tickets.near_duplicates()[0].id, tickets.near_duplicates()[0].other} == {"tickets:3", "twin"}


def test_exports_hold_the_texts_and_can_be_indexed_again(tickets, tmp_path):
    for ending in ("csv", "jsonl"):
        export_items(tickets, tmp_path / f"items.{ending}")
    indexed = index_source(tmp_path / "items.csv", tmp_path / "again", description=TextDescription.choose(["words"]))
    assert (indexed.n_items, indexed.n_labels) == (40, 2)
    label_source(tickets, ["block it"], tmp_path / "answers.csv")
    with open(tmp_path / "answers.csv", newline="") as file:
        (line,) = csv.DictReader(file)
    assert line["item_text"] == "block it"
    assert line["nearest_text"] in dict(sentences())
    export_items(tickets, tmp_path / "tasks.json", format="label-studio")
    assert json.loads((tmp_path / "tasks.json").read_text())[0]["data"]["text"] == "block my credit card"
    pytest.importorskip("pyarrow")
    label_source(tickets, ["block it"], tmp_path / "answers.parquet")


def test_the_vocabulary_is_checked_backed_up_and_never_followed_elsewhere(tickets, tmp_path):
    tickets.store.backup(tmp_path / "copy")
    event, folder = tickets.store.latest_kept("words")
    assert "learn the vocabulary" in str(next(each for each in tickets.history() if each.number == event))
    with LiveCollection.open(tmp_path / "copy", read_only=True) as copy:
        assert label_source(copy, ["block it"]).answers[0].label == "card"
    (folder / "words.nearsay").write_bytes(b"something else")
    with pytest.raises(NearsayError):
        label_source(tickets, ["block it"])
    assert tickets.store.faults()
    (folder / "words.nearsay").unlink()
    (folder / "words.nearsay").symlink_to("/etc/hostname")
    with pytest.raises(NearsayError, match="link"):
        label_source(tickets, ["block it"])
    tickets.undo(event)
    with pytest.raises(InputError, match="the event that kept it was undone"):
        label_source(tickets, ["block it"])


def test_other_descriptors_are_refused_where_they_do_not_fit(made, tmp_path):
    folder, _ = made
    with pytest.raises(InputError, match="Unknown text descriptor"):
        TextDescription.choose(["words", "gist"])
    (tmp_path / "numbers.csv").write_text("width,kind\n1.5,oak\n2,elm\n")
    with pytest.raises(InputError, match="has rows of numbers, and this describes texts"):
        index_source(tmp_path / "numbers.csv", tmp_path / "c", description=TextDescription.choose(["words"]))
    from nearsay.collection.ingest.image_description import Description

    with pytest.raises(InputError, match="has texts, and this describes pictures"):
        index_source(folder / "tickets.csv", tmp_path / "c", description=Description.choose(["thumbnail"]))
    assert not (tmp_path / "c").exists()


def test_vectors_of_sentences_are_cached_by_content(tmp_path):
    class Counting:
        name, metric, n = "universal_sentence_encoder", "euclidean", 0

        def encode(self, texts):
            self.n += len(texts)
            return np.array([np.full(512, len(text)) for text in texts], np.float32)

    counting = Counting()
    first = CachedEncoder(counting, Folder.open(tmp_path)).encode(["a", "bb", "a"])
    again = CachedEncoder(counting, Folder.open(tmp_path)).encode(["bb", "ccc"])
    assert counting.n == 3
    assert first[:, 0].tolist() == [1, 2, 1]
    assert again[:, 0].tolist() == [2, 3]


# ------------------------------------------------------------------ the command line


def test_texts_on_the_command_line(made, tmp_path):
    folder, _ = made
    result = run("label", folder / "tickets", "--text", "please block the card")
    assert result.exit_code == 0, result.output
    assert "Neighbors of “please block the card”" in result.stdout
    result = run("label", folder / "tickets", "-", "--json", input="block it\n\nwill it rain\n")
    answers = json.loads(result.stdout)["answers"]
    assert [(each["item_text"], each["label"]) for each in answers] == [("block it", "card"), ("will it rain", "rain")]
    assert "Name what to label" in run("label", folder / "tickets").output
    assert "Name what to label" in run("label", folder / "tickets", "-", "--text", "a").output
    result = run("duplicates", folder / "tickets", "--distance", 2, "-n", 1)
    assert "“" in result.stdout
    result = run(
        "index", folder / "tickets.csv", "-o", tmp_path / "t", "--text-column", "text", "--label-column", "intent",
        "--describe", "words", "--no-learn",
    )  # fmt: skip
    assert result.exit_code == 1  # one line is empty
    assert "line 42" in result.output
    assert "40 items" in result.stdout
