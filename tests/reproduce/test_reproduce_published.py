"""Beside published results: each command on little data made up for the test, and where its data are at hand."""

from __future__ import annotations

import hashlib
import json
import sys

import numpy as np
import pytest

from nearsay.data.rows import LabeledRows
from reproduce import clinc150, mistakes, tabzilla
from reproduce.cli import app
from tests.command_line import run


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NEARSAY_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def made_up_verdicts(folder, monkeypatch):
    """Sixty rows of three classes; six labels are wrong, and people judged these and four more."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 20)
    X = rng.normal(size=(60, 2)) + 6 * np.array([[0, 0], [1, 0], [0, 1]])[y]
    y[:60:10] = (y[:60:10] + 1) % 3
    judged = [{"id": n, "mturk": {"given": 1 if n % 10 == 0 else 5}} for n in [*range(0, 60, 10), 3, 7, 33, 47]]
    (folder / "label_errors").mkdir()
    (folder / "label_errors" / "mnist_mturk.json").write_text(json.dumps(judged))
    p = np.eye(3)[y] * 0.9 + 0.1 / 3
    p[::10] = np.eye(3)[(y[::10] + 2) % 3]
    np.save(folder / "label_errors" / "mnist_test_set_pyx.npy", p)
    sums = {name: hashlib.sha256((folder / "label_errors" / name).read_bytes()).hexdigest() for name in mistakes.FILES}
    monkeypatch.setattr(mistakes, "FILES", sums)
    monkeypatch.setattr(mistakes, "load_dataset", lambda name, split: LabeledRows(X, y))
    return folder


def test_real_mistakes_come_first(made_up_verdicts, monkeypatch):
    monkeypatch.setitem(sys.modules, "cleanlab.rank", None)
    result = run("mistakes", "--votes", "--json", app=app)
    assert result.exit_code == 0, result.output
    made = json.loads(result.stdout)
    assert made["n_mistakes"] == 6
    assert [row["method"] for row in made["rows"]] == ["likely_mistakes"] * 2
    assert made["rows"][0]["among_all"] == 1
    assert all(row["among_judged"] > 0.9 for row in made["rows"])
    assert "cleanlab is not installed" in made["notes"][-1]


def test_a_file_that_is_not_that_of_the_study_is_refused(made_up_verdicts):
    (made_up_verdicts / "label_errors" / "mnist_mturk.json").write_text("[]")
    result = run("mistakes", app=app)
    assert result.exit_code == 1
    assert "checksum differs" in result.stderr


def test_ours_takes_its_place_among_the_published(folder, monkeypatch):
    lines = ["data_set,openml_task,method,log_loss,accuracy"]
    lines += [f"iris,59,{name},{loss},0.9" for name, loss in [("best", 0.0001), ("KNN", 5.0), ("worst", 9.0)]]
    (folder / "published").mkdir()
    (folder / "published" / "tabzilla.csv").write_text("\n".join(lines))
    monkeypatch.setattr(tabzilla, "OURS", {"votes": {"n_neighbors": 5, "posterior": "proportional"}})
    result = run("tabzilla", "--sets", "iris", "--json", app=app)
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout)["rows"]
    assert (row["place"], row["n_published"], row["knn"]) == (2, 3, 5.0)
    assert row["accuracy"] > 0.9
    assert list(row["best"]) == ["best", "KNN", "worst"]


def test_sentences_of_no_intent_are_told_by_novelty(folder, monkeypatch):
    base = folder / "clinc150"
    base.mkdir()
    asked = {"pay": "please pay the {} bill", "play": "play the song {} loudly"}
    words = ["red", "blue", "green", "old", "new", "long", "short", "warm", "cold", "grand"]
    for part, some in {"train": words, "val": words[:5], "test": words[5:]}.items():
        lines = [f"{text.format(word)},{intent}" for intent, text in asked.items() for word in some]
        (base / f"{part}.csv").write_text("\n".join(["text,intent", *lines]))
    strange = [f"why did {word} whales migrate,{part}" for part in ("train", "val", "test") for word in words]
    (base / "oos.csv").write_text("\n".join(["text,part", *strange]))
    monkeypatch.setattr(clinc150, "OURS", {"votes": {"n_neighbors": 3, "posterior": "weighted"}})
    result = run("clinc150", "--words", "--votes", "--json", app=app)
    assert result.exit_code == 0, result.output
    made = json.loads(result.stdout)
    (row,) = made["rows"]
    assert row["accuracy"] == 100
    assert row["recall"] > 50
    assert (row["alarms_in_scope"], row["alarms_out_of_scope"]) == (0, 0)  # too few, beside 20, to be called so
    assert [one["method"] for one in made["published"]] == list(clinc150.PUBLISHED)
