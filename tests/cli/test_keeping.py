"""Commands about whole collections, and what label, evaluate and correct say where it is not sure."""

from __future__ import annotations

import csv
import json
import re
from functools import partial

import numpy as np
import pytest

from nearsay.collection.live import LiveCollection
from tests import command_line

run = partial(command_line.run, columns=120)


@pytest.fixture
def plants(tmp_path, monkeypatch):
    """Two kinds that overlap, in a collection of 80 rows."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    with LiveCollection.create("plants.nearsay", 1) as collection:
        kinds = ["maple" if row % 2 else "linden" for row in range(80)]
        X = rng.normal(size=(80, 1)) + [[1.5 * (row % 2)] for row in range(80)]
        collection.add([f"plant {row}" for row in range(80)], X, kinds)
        collection.learn(posterior="proportional", n_neighbors=9)
    with open("new.csv", "w", newline="") as file:
        csv.writer(file).writerows([["id", "x"], ["low", -2.0], ["between", 0.75], ["high", 3.5]])
    return tmp_path


def test_label_says_where_it_is_not_sure_and_files_always_have_the_set(plants):
    answers = json.loads(run("label", "plants.nearsay", "new.csv", "--json").stdout)["answers"]
    between = next(each for each in answers if each["id"] == "between")
    assert len(between["set"]) == 2
    printed = " ".join(run("label", "plants.nearsay", "new.csv").stdout.split())
    assert f"not sure: {between['set'][0]} or {between['set'][1]}" in printed
    assert "novelty" not in printed
    assert "novelty" in run("label", "plants.nearsay", "new.csv", "--verbose").stdout
    assert run("label", "plants.nearsay", "new.csv", "-o", "answers.csv").exit_code == 0
    with open("answers.csv", newline="") as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    assert {id: row["set"].split("; ") for id, row in rows.items()} == {each["id"]: each["set"] for each in answers}
    assert [*rows["low"]][:4] == ["id", "label", "probability", "set"]


def test_evaluate_and_info_say_the_interval(plants):
    summary = json.loads(run("evaluate", "plants.nearsay", "--json").stdout)
    low, high = summary["accuracy_range"]
    printed = run("evaluate", "plants.nearsay").stdout
    assert f"95 % interval: {100 * low:.0f}–{100 * high:.0f} %" in printed
    assert "mean log posterior" not in printed
    assert "mean log posterior" in run("evaluate", "plants.nearsay", "--verbose").stdout
    known = json.loads(run("info", "plants.nearsay", "--json").stdout)
    accuracy = known["accuracy"]
    assert accuracy["low"] <= accuracy["right"] / accuracy["cases"] <= accuracy["high"]
    assert re.search(r"95 % interval: \d+–\d+ %", run("info", "plants.nearsay").stdout)


def test_a_label_that_is_nearly_one_that_is_there_is_asked_back(plants):
    refused = run("correct", "plants.nearsay", "plant 1", "mapel")
    assert refused.exit_code == 1
    assert "Did you mean 'maple'? Use --new-label" in refused.stderr
    assert run("correct", "plants.nearsay", "plant 1", "mapel", "--new-label").exit_code == 0
    assert run("correct", "plants.nearsay", "plant 2", "oak").exit_code == 0


def test_backup_restore_merge_and_split_by_command(plants):
    assert run("backup", "plants.nearsay", "copy.nearsay").exit_code == 0
    assert run("restore", "copy.nearsay", "again.nearsay").exit_code == 0
    run("correct", "again.nearsay", "plant 4", "maple")
    merged = run("merge", "plants.nearsay", "again.nearsay", "-o", "both.nearsay")
    assert merged.exit_code == 0
    assert "plant 4: 'linden' in the first, 'maple' in the second." in merged.stdout
    split = json.loads(run("split", "both.nearsay", "train.nearsay", "test.nearsay", "--json").stdout)
    assert (split["train"], split["test"]) == (64, 16)
    assert run("backup", "plants.nearsay", "copy.nearsay").exit_code == 1
