"""The tour of the emoji: what it tells is what the collection says, and it leaves the collection as it should be."""

from __future__ import annotations

import contextlib
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import nearsay as ns
from nearsay.collection import Answer, LiveCollection
from nearsay.errors import InputError
from nearsay.tour import emoji_tour as tours
from nearsay.tour.answer_cards import Bar, class_bars
from nearsay.tour.pick_examples import most_telling_hedge, sister_mistakes, surest_keywords, unusual_but_sure
from tests.command_line import run

pytest.importorskip("PIL.Image", reason="pictures need pillow")

# A tour of few pictures: kinds that are easy, alike, and under several groups.
KINDS = (
    "heart",
    "time",
    "animal-bird",
    "animal-mammal",
    "person-sport",
    "transport-water",
    "food-fruit",
    "plant-flower",
)
STEPS = [
    *("index", "ask", "answer", "hedged", "keywords", "correct", "again", "mistakes", "picture"),
    *("text", "table", "end"),
]


def few(split):
    every = ns.load_dataset("emoji", split=split)
    return every.take(np.isin(every.y, KINDS))


@pytest.fixture(scope="module")
def toured(tmp_path_factory):
    """The tour by its command, of few pictures: what is printed, what it gives, and each passage as it comes."""
    folder, told, take_tour = tmp_path_factory.mktemp("tour"), [], tours.take_tour
    shown = SimpleNamespace(folder=folder, told=told, train=few("train"), asked=few("test"))

    def watched(picture, *, keep, tell):
        shown.seen = take_tour(picture, keep=keep, tell=lambda passage: (told.append(passage), tell(passage)))
        return shown.seen

    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(folder):
        for extra in ("faiss", "networkx", "onnxruntime", "pywt", "skimage"):
            patch.setitem(sys.modules, extra, None)  # the tour needs no extra
        patch.setattr(tours, "take_tour", watched)
        patch.setattr(tours, "load_dataset", lambda name, split: {"train": shown.train, "test": shown.asked}[split])
        shown.result = run("tour", "--keep", "emoji")
    assert (shown.result.exit_code, shown.result.stderr) == (0, ""), shown.result.exception
    shown.steps = {passage["step"]: passage for passage in shown.seen["passages"]}
    return shown


@pytest.mark.slow
def test_every_passage_is_told_as_it_comes_in_plain_values(toured):
    assert [passage["step"] for passage in toured.told] == STEPS
    assert toured.told == toured.seen["passages"]
    assert json.loads(json.dumps(toured.seen, allow_nan=False)) == toured.seen
    assert all(passage["text"] and passage["title"] for passage in toured.told)


def test_what_is_told_is_what_the_collection_says(toured):
    index, ask = toured.steps["index"], toured.steps["ask"]
    assert (index["pictures"], index["classes"]) == (len(toured.train), len(KINDS))
    assert ask["questions"] == len(toured.asked)
    Q = np.hstack(list(tours.describe(toured.asked.images).values()))
    names = toured.asked.names.tolist()
    with LiveCollection.open(toured.folder / "emoji") as collection:
        # All that was changed is taken back but for the correction.
        labels = dict(zip(collection.store.items().ids, collection.store.items().labels, strict=True))
        corrected = toured.steps["correct"]
        row = names.index(corrected["question"])
        assert labels.pop(str(toured.asked.ids[row])) == corrected["true_label"] == toured.asked.y[row]
        assert labels == dict(zip(toured.train.ids.tolist(), toured.train.y.tolist(), strict=True))
        again = toured.steps["again"]
        sister = names.index(again["question"])
        after = collection.label(Q[[sister]])[0]
        assert (after.label, after.probabilities[str(toured.asked.y[sister])]) == (again["label_after"], again["after"])
        collection.undo(corrected["event"])
        answers = collection.label(Q, accuracy=0.9)
        assert (
            np.mean([reply.label == label for reply, label in zip(answers, toured.asked.y, strict=True)])
            == (ask["accuracy"])
        )
        before = answers[sister]
        assert (before.label, before.probabilities[str(toured.asked.y[sister])]) == (
            again["label_before"],
            again["before"],
        )
        for step in ("answer", "hedged"):
            reply = answers[names.index(toured.steps[step]["question"])].to_dict()
            changes = {"version": None, "id": None}
            assert {**reply, **changes} == {**toured.steps[step]["answer"], **changes}


def test_the_steps_show_what_they_are_to_show(toured):
    answer, hedged, again, mistakes = (toured.steps[step] for step in ("answer", "hedged", "again", "mistakes"))
    assert answer["answer"]["probability"] >= 0.9
    assert hedged["answer"]["label"] != hedged["true_label"]
    assert hedged["answer"]["node"] in ns.load_taxonomy("emoji").path(hedged["true_label"])
    assert again["after"] > again["before"]
    assert 0 < mistakes["n_matches"] <= mistakes["flipped"] == 10
    assert f"{answer['answer']['record']['right']} of {answer['answer']['record']['cases']}" in answer["text"]


def test_the_command_prints_each_passage_in_80_columns_and_leaves_what_is_kept_and_the_picture(toured):
    printed = toured.result.stdout
    words = "A collection", "right in", "Not sure which, but", "Keywords", "Mistakes found", "nearsay-tour.png"
    for shown in (*words, "Sentences, too", "fish", "And rows of a table", "The tour took"):
        assert shown in printed
    assert max(map(len, printed.splitlines())) <= 80
    assert "\x1b" not in printed
    assert sorted(path.name for path in toured.folder.iterdir()) == ["emoji", "nearsay-tour.png"]
    assert (toured.folder / "nearsay-tour.png").read_bytes().startswith(b"\x89PNG")
    with tours._folder(None) as folder:
        folder.mkdir()
    assert not folder.parent.exists()


def test_a_folder_that_is_not_new_is_refused_and_untouched(tmp_path, monkeypatch):
    monkeypatch.setattr(tours, "load_dataset", lambda name, split: few(split))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="mine"):
        tours.take_tour(keep=tmp_path / "mine")
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"


@pytest.mark.slowest
def test_the_whole_tour_is_as_good_as_the_docs_say(tmp_path):
    result = run("tour", "--json", "--picture", tmp_path / "tour.svg")
    steps = {passage["step"]: passage for passage in json.loads(result.stdout)["passages"]}
    assert list(steps) == STEPS
    assert steps["table"]["accuracy"] > 0.9
    # Other processors round otherwise.
    assert steps["ask"]["accuracy"] == pytest.approx(0.695, abs=0.01)
    assert steps["ask"]["hedged_accuracy"] == pytest.approx(0.917, abs=0.01)
    assert steps["again"]["after"] > steps["again"]["before"] + 0.5
    assert steps["mistakes"]["n_matches"] >= 4
    assert (tmp_path / "tour.svg").read_text().startswith("<?xml")


# ---------------------------------------------------------------- which answers are looked at

TREE = ns.Taxonomy.from_nested({"thing": {"animal": ["cat", "dog"], "tool": ["axe", "saw"]}})


def said(label, probability, *, near=("cat",) * 3, novelty=0.5, **more):
    neighbors = [(str(place), each, 1.0, 0.3) for place, each in enumerate(near)]
    return Answer("q", label, probability, neighbors=neighbors, novelty=novelty, **more)


def test_the_sure_answer_is_the_most_unusual_whose_neighbors_agree():
    answers = [
        said("cat", 0.95, novelty=0.2),
        said("cat", 0.92, novelty=0.6),
        said("cat", 0.99, novelty=0.9, near=("cat", "dog")),
        said("cat", 0.97, novelty=0.8, twin_of="another"),
        said("cat", 0.80, novelty=0.9),
        said("cat", 0.99, novelty=0.9),
    ]
    right = np.array([True, True, True, True, True, False])
    assert unusual_but_sure(answers, right, 0.9) == 1
    assert unusual_but_sure(answers, ~right, 0.999) is None


def test_the_hedged_answer_is_right_where_the_class_is_wrong():
    def hedge(label, node, p):
        return said(label, 0.5, node=node, node_path=list(TREE.path(node)), node_probability=p)

    answers = [hedge("cat", "animal", 0.9), hedge("cat", "animal", 0.8), hedge("axe", "thing", 1.0)]
    answers += [hedge("cat", "animal", 0.85), hedge("cat", "animal", 0.99)]
    assert most_telling_hedge(answers, ["cat", "dog", "saw", "dog", "axe"], TREE) == 3
    assert most_telling_hedge(answers[:1], ["cat"], TREE) is None


def test_keywords_shown_are_the_most_that_are_right():
    answers = [
        None,
        said("cat", 1.0, keywords=[("sea", 0.9), ("sky", 0.2)]),
        said("cat", 1.0, keywords=[("sea", 0.9), ("sky", 0.4)]),
        said("cat", 1.0, keywords=[("road", 1.0), ("car", 1.0)]),
    ]
    assert surest_keywords(answers, [{"sea", "sky"}] * 4) == 2
    assert surest_keywords([None], [set()]) is None


def test_sisters_are_mistakes_of_one_class_that_are_nearest_to_each_other():
    answers = [said("cat", 0.9) for _ in range(4)]
    far = np.array([[0.0, 0.4, 0.1], [0.4, 0.0, 0.2], [0.1, 0.2, 0.0]])
    assert sister_mistakes(answers, [0, 1, 3], ["dog", "dog", "cat", "axe"], far) == (0, 1)
    assert sister_mistakes(answers, [0, 1, 3], ["dog", "dog", "cat", "dog"], far) == (0, 3)
    assert sister_mistakes(answers, [0, 1, 3], ["dog", "axe", "cat", "saw"], far) is None


def test_bars_show_the_likeliest_classes_and_always_the_true_one():
    state = said("a", 0.5, probabilities={"a": 0.5, "b": 0.2, "c": 0.1, "d": 0.08, "e": 0.07, "f": 0.001})
    assert [bar.word for bar in class_bars(state, "e")] == ["a", "b", "c", "d", "e"]
    assert [bar.word for bar in class_bars(state, "a")] == ["a", "b", "c", "d"]
    before = said("z", 0.9, probabilities={"z": 0.9, "a": 0.1})
    assert class_bars(state, "a", before)[:2] == [Bar("z", 0.0, 0.9, False), Bar("a", 0.5, 0.1, True)]
