"""Nothing that a collection holds can steer the terminal in which it is listed."""

from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.collection import LiveCollection
from nearsay.collection.store import validate_items
from nearsay.core.printable import printable, printable_json
from nearsay.core.terminal import print_parts, print_passage
from tests.command_line import run

STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
EVIL = "\x1b]52;c;aGk=\x07\x9b2J\x7f\r\u202e\u2066\u200f\u061c"


@given(st.text())
def test_text_loses_what_steers_and_nothing_else(text):
    shown = printable(text)
    assert not STEERING.search(shown)
    shown.encode()
    if not STEERING.search(text):
        assert shown == text


@given(st.dictionaries(st.text(), st.text()))
def test_json_means_the_same(value):
    shown = printable_json(json.dumps(value, ensure_ascii=False))
    assert not STEERING.search(shown)
    assert json.loads(shown) == value


@pytest.fixture
def evil(made, tmp_path):
    """A copy of it, to change."""
    shutil.copytree(made, tmp_path / "evil")
    return tmp_path / "evil", tmp_path / "evil" / "leaves.nearsay"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A collection with names that are refused today, as one from somewhere else may hold them."""
    folder = tmp_path_factory.mktemp("evil")
    path = folder / "leaves.nearsay"
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3)) + 5 * (np.arange(30) % 2)[:, None]
    X[1], X[29] = X[3], X[0]
    labels = [(f"{EVIL}-oak", "elm")[row % 2] for row in range(30)]
    ids = [f"{EVIL}{row}" for row in range(30)]
    with pytest.MonkeyPatch.context() as patch, LiveCollection.create(path, 3) as collection:
        patch.setattr(validate_items, "CONTROL", re.compile("(?!)"))
        collection.add(ids, X, labels, [[f"{EVIL}-word"]] * 30, by="machine", who=EVIL)
        collection.confirm(ids[:28])
        collection.relabel(ids[2:3], ["elm"])
        collection.learn(posterior="proportional", n_neighbors=5)
    np.savetxt(folder / "new.csv", X[:3], delimiter=",")
    return folder


COMMANDS = {
    "label": ["label", "COLLECTION", "NEW"],
    "mistakes": ["mistakes", "COLLECTION"],
    "duplicates": ["duplicates", "COLLECTION"],
    "next": ["next", "COLLECTION"],
    "history": ["history", "COLLECTION"],
    "doctor": ["doctor", "COLLECTION"],
    "evaluate": ["evaluate", "COLLECTION"],
    "confirm": ["confirm", "COLLECTION", EVIL + "28"],
    "correct": ["correct", "COLLECTION", EVIL + "2", "elm"],
    "forget": ["forget", "COLLECTION", EVIL + "29"],
    "unknown item": ["confirm", "COLLECTION", EVIL + "nobody"],
    "unknown option": ["history", "COLLECTION", "--" + EVIL],
    "unknown command": [EVIL],
    "no collection": ["history", "/nowhere/" + EVIL],
    "undo": ["undo", "COLLECTION"],
    "export": ["export", "COLLECTION", "-o", "OUT.csv"],
}


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_prints_what_steers_a_terminal(evil, name, as_json):
    folder, path = evil
    places = {"COLLECTION": str(path), "NEW": str(folder / "new.csv"), "OUT.csv": str(folder / f"{as_json}.csv")}
    given = [places.get(word, word) for word in COMMANDS[name]]
    done = run(*given, *["--json"] * as_json)
    assert done.output
    assert not STEERING.search(done.output)


@pytest.mark.parametrize("name", ["label", "mistakes", "duplicates", "history"])
def test_names_are_shown_by_the_numbers_of_their_characters(evil, name):
    folder, path = evil
    given = [{"COLLECTION": str(path), "NEW": str(folder / "new.csv")}.get(word, word) for word in COMMANDS[name]]
    done = run(*given, "--json")
    assert done.exit_code == 0, done.output
    assert "\\u001b]52;c;aGk=" in done.output


def test_tables_titles_and_sentences_are_printable(capsys):
    from nearsay.core.terminal import empty_table

    table = empty_table(f"title {EVIL}", f"column {EVIL}")
    table.add_row(f"cell {EVIL}")
    print_parts(table, f"line {EVIL}")
    print_passage(f"passage {EVIL}", EVIL)
    shown = capsys.readouterr().out
    assert not STEERING.search(shown)
    assert "\\x1b]52;c;aGk=" in shown


@pytest.mark.parametrize("column", ["item", "label", "at least", "neighbor"])
def test_ids_and_labels_are_never_shortened_in_a_narrow_table(column, capsys):
    from nearsay.core.terminal import empty_table

    table = empty_table("", column, "remark")
    table.add_row("q" * 60, "w" * 60)
    print_parts(table)
    shown = capsys.readouterr().out
    assert shown.count("q") == 60
    assert shown.count("w") < 60
