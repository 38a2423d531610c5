"""``python -m reproduce``: what it prints, where, with which exit code, and that it stays out of the package."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

import pytest

from nearsay.errors import DatasetNotFound
from reproduce.cli import app
from tests import command_line

ROOT = Path(__file__).parents[2]


run = partial(command_line.run, app=app)


TABLE = {
    "title": "k-NN on MNIST",
    "rows": [
        {
            "method": "euclidean [raw]",
            "k": 3,
            "n_train": 60000,
            "n_test": 10000,
            "error_percent": 2.95,
            "published_percent": 3.1,
            "published_as": "LeCun et al. 1998",
            "note": "",
        },
        {
            "method": "tangent",
            "k": 1,
            "n_train": 60000,
            "n_test": 1000,
            "error_percent": 1.0,
            "published_percent": None,
            "published_as": "",
            "note": "a note",
        },
    ],
}


@pytest.fixture
def runs(monkeypatch):
    """The paper's run, replaced by one that only remembers its options."""
    calls = []

    def remember(**options):
        calls.append(options)
        return TABLE

    monkeypatch.setattr("reproduce.nearest.run", remember)
    return calls


def test_the_table_stands_beside_the_published_figures(runs):
    result = run("nearest")
    assert result.exit_code == 0
    assert runs == [{"progress": None}]
    assert re.search(r"euclidean \[raw\] +3 +60,000 +10,000 +2\.95 +3\.1 ", result.stdout)
    assert re.search(r"tangent +1 +60,000 +1,000 +1\.00 *$", result.stdout, flags=re.MULTILINE)
    assert "euclidean [raw]: published: LeCun et al. 1998\ntangent: here: a note\n" in result.stdout


def test_sizes_are_passed_on_and_json_is_the_dict_itself(runs):
    result = run("nearest", "--n-train", 500, "--n-test", 20, "--n-shape-test", 0, "--json")
    assert json.loads(result.stdout) == TABLE
    assert runs == [{"n_train": 500, "n_test": 20, "n_shape_test": 0, "progress": None}]


@pytest.mark.skipif("NEARSAY_DATA" not in os.environ, reason="NEARSAY_DATA names no folder with the data set mnist")
def test_the_command_runs_on_the_real_images():
    result = run("nearest", "--n-train", 300, "--n-test", 20, "--n-shape-test", 0)
    assert result.exit_code == 0
    assert re.search(r"euclidean +3 +300 +20 ", result.stdout)
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_no_progress_is_shown_where_stderr_is_no_terminal_even_in_forced_color(runs, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert run("nearest").stderr == ""
    assert runs == [{"progress": None}]


# ---------------------------------------------------------------- exit codes


@pytest.mark.parametrize("arguments", [["--help"], ["nearest", "-h"], ["hedging", "--help"]])
def test_help_is_exit_code_0(arguments):
    result = run(*arguments)
    assert result.exit_code == 0
    assert "Usage" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("dance", ""),
        ("nearest --dance", ""),
        ("nearest extra", ""),
        ("nearest --n-train 0", ""),
        ("nearest --n-test many", ""),
        ("probabilities --table 6", "none of 3, 4, 5"),
        ("probabilities --join name", "none of label, row"),
        ("probabilities --k 0", ""),
        ("probabilities --table 3 --save somewhere", "only the training-size curves are drawn"),
        ("hedging --figure 2", "none of"),
        ("hedging --figure lambda --save somewhere", "are drawn"),
        ("annotation --figure 2", "none of table1"),
        ("annotation --features gist", "none of seven"),
        ("annotation --save somewhere", "are drawn"),
        ("keywords --data scene", "none of emotions"),
        ("tables --sets titanic,scene", "none of"),
        ("promises --sizes many", "Whole numbers separated by commas"),
    ],
)
def test_what_is_not_understood_is_exit_code_2(runs, arguments, words):
    result = run(*arguments.split())
    assert (result.exit_code, result.stdout, runs) == (2, "", [])
    assert words in " ".join(re.sub("[│╭╮╰╯─]", " ", result.stderr).split())


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("mistakes", "mnist_mturk.json"),
        ("tabzilla", "tabzilla.csv"),
        ("clinc150", "train.csv"),
        ("tables --sets german", "german.csv"),
        ("hedging --figure lambda", "ilsvrc65_clf_outputs_val.mat"),
        ("annotation --features embeddings", "corel5k"),
    ],
)
def test_a_file_that_is_absent_is_named_with_where_it_was_looked_for(tmp_path, monkeypatch, command, file):
    monkeypatch.setenv("NEARSAY_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    result = run(*command.split())
    assert (result.exit_code, result.stdout) == (1, "")
    assert file in result.stderr
    assert str(tmp_path) in result.stderr.replace("\n", "")


def test_an_error_a_user_can_act_on_is_one_line_and_exit_code_1(monkeypatch):
    def fail(**options):
        raise DatasetNotFound("No 'mnist' here.")

    monkeypatch.setattr("reproduce.nearest.run", fail)
    result = run("nearest", "--json")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "reproduce: No 'mnist' here.\n")


def test_help_is_there_at_once_and_names_every_command_when_run_as_a_module():
    code = (
        "import runpy, sys\n"
        "sys.argv = ['reproduce', '--help']\n"
        "try: runpy.run_module('reproduce', run_name='__main__', alter_sys=True)\n"
        "except SystemExit: print([name for name in ('matplotlib', 'numba', 'sklearn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert all(command.callback.__name__ in done.stdout for command in app.registered_commands)
    assert done.stdout.endswith("[]\n")


# ---------------------------------------------------------------- what is installed


def test_the_wheel_holds_nothing_but_the_package():
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel == {"packages": ["src/nearsay"]}
    assert not list((ROOT / "src" / "nearsay").rglob("reproduce*"))
