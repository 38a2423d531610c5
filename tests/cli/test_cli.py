"""The command line: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from functools import partial
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from sklearn.datasets import load_iris

import nearsay
from nearsay.data.catalog import DATASETS
from nearsay.errors import DatasetNotFound
from nearsay.posterior import Confmat, Proportional
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.methods.named import POSTERIORS
from nearsay.reports.installation import NOT_A_CAPABILITY, describe_installation, requirements
from nearsay.reports.summary import summarize
from nearsay.tour.digits_tour import example_queries
from tests.command_line import run

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def quick_tour():
    """The tour by weighted votes: no test here is about the answers."""
    quick = partial(NeighborClassifier, posterior="weighted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nearsay.tour.digits_tour.NeighborClassifier", quick)
        yield


@pytest.fixture(scope="module")
def toured(quick_tour, tmp_path_factory):
    picture = tmp_path_factory.mktemp("tour") / "digits.png"
    return SimpleNamespace(picture=picture, result=run("tour", "--data", "digits", "--picture", picture))


# ---------------------------------------------------------------- the tour


def test_the_tour_prints_how_good_it_is_and_three_answers_and_saves_a_picture(toured):
    out = toured.result.stdout
    assert toured.result.exit_code == 0
    for word in ("accuracy", "mean log posterior", "search", "easy", "contested", "wrong"):
        assert word in out
    assert toured.picture.read_bytes().startswith(b"\x89PNG")
    assert str(toured.picture) in out.replace("\n", "")


def test_the_tour_fits_into_80_columns_and_has_no_color_in_a_pipe(toured):
    lines = toured.result.stdout.split("The picture is in")[0].splitlines()
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in toured.result.stdout
    # Each neighbor's label stands above its distance: a row of the table is two lines.
    start = next(i for i, line in enumerate(lines) if line.strip().startswith("easy"))
    assert lines[start + 2].strip().startswith("contested")


def test_the_tour_as_json_is_json_and_nothing_else_even_in_forced_color(toured, tmp_path, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    result = run("tour", "--data", "digits", "--json", "--picture", tmp_path / "p.svg")
    visited = json.loads(result.stdout)
    assert (result.exit_code, result.stderr, toured.result.stderr) == (0, "", "")  # no progress without a terminal
    assert visited["summary"]["accuracy"] > 0.95
    assert [query["why"] for query in visited["queries"]] == ["easy", "contested", "wrong"]
    assert all(len(query["neighbors"]) == visited["summary"]["k"] for query in visited["queries"])
    assert Path(visited["picture"]).read_text().startswith("<?xml")


@pytest.mark.parametrize("data", ["emoji", "digits"])
@pytest.mark.parametrize("name", ["no/such/folder/p.png", "p.nonsense"])
def test_a_picture_that_cannot_be_saved_is_one_line_and_exit_code_1(tmp_path, name, data):
    result = run("tour", "--data", data, "--picture", tmp_path / name)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert re.fullmatch(r"nearsay: The picture cannot be saved as .+ ending in \.png\.\n", result.stderr)


def test_the_three_queries_are_the_surest_the_most_contested_and_the_surest_wrong_one():
    probability = [0.9, 0.5, 0.9, 0.7, 0.8, 0.5]
    novelty = [0.4, 0.1, 0.3, 0.2, None, 0.6]
    explained = [SimpleNamespace(probability=p, novelty=n) for p, n in zip(probability, novelty, strict=True)]

    class Answers(list):
        predictions = np.array([0, 0, 0, 1, 1, 0])

    y = np.array([0, 0, 0, 0, 0, 0])
    assert example_queries(Answers(explained), y) == {"easy": 2, "contested": 5, "wrong": 4}
    assert "wrong" not in example_queries(Answers(explained), Answers.predictions)


def test_a_summary_is_what_a_loop_over_the_answers_finds():
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    clf = NeighborClassifier(n_neighbors=3, posterior=Proportional(model_failure=0.1)).fit(X[:30], y[:30])
    summary = summarize(clf, X[30:], y[30:])
    p = [row[label] for row, label in zip(clf.predict_proba(X[30:]).tolist(), y[30:], strict=True)]
    assert summary["accuracy"] == np.mean(clf.predict(X[30:]) == y[30:])
    assert summary["mean_log_posterior"] == pytest.approx(np.mean(np.log(p)))
    assert summary["mean_log10_posterior"] == pytest.approx(np.mean(np.log10(p)))
    assert (summary["rows"], summary["columns"], summary["classes"], summary["queries"]) == (30, 3, 2, 10)
    assert (summary["k"], summary["k_chosen"], summary["metric"]) == (3, False, "euclidean")
    assert (summary["posterior"], summary["chosen_by"], summary["views"]) == ("proportional", None, ["euclidean"])
    json.dumps(summary, allow_nan=False)


@pytest.mark.parametrize(
    ("k", "posterior", "metric"),
    [
        ("auto", "auto", "auto"),
        (3, "auto", "euclidean"),
        ("auto", "rank", "euclidean"),
        (3, "rank", "auto"),
        (3, Confmat(normalize="column"), "euclidean"),
    ],
)
def test_the_summary_says_what_was_chosen_and_never_that_a_choice_was_left_open(k, posterior, metric):
    X, y = load_iris(return_X_y=True)
    clf = NeighborClassifier(k, posterior=posterior, metric=metric).fit(X[::2], y[::2])
    summary = summarize(clf, X[1::2], y[1::2])
    assert summary["posterior"] in (["rank", "confmat"] if posterior != "auto" else POSTERIORS)
    assert (summary["chosen_by"] is None) == (posterior != "auto" and metric != "auto")
    assert summary["k_chosen"] == (k == "auto")
    assert "auto" not in [summary["posterior"], *summary["views"]]


# ---------------------------------------------------------------- the doctor


def test_the_doctor_lists_what_the_project_file_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    def names(lines):
        return sorted(re.split(r"[^\w.-]", line)[0].lower() for line in lines)

    assert sorted(map(str.lower, requirements()[""])) == names(project["dependencies"])
    extras = set(project["optional-dependencies"]) - set(NOT_A_CAPABILITY)
    assert set(describe_installation()["extras"]) == extras
    for extra in extras:
        assert sorted(map(str.lower, requirements()[extra])) == names(project["optional-dependencies"][extra])


def test_the_doctor_also_looks_at_what_is_only_found_on_the_path(monkeypatch):
    def nowhere(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", nowhere)
    result = run("doctor", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["packages"] == {}
    assert run("doctor").exit_code == 0


def test_the_doctor_finds_what_is_here():
    result = run("doctor", "--json")
    results = json.loads(result.stdout)
    assert result.exit_code == 0
    assert results["nearsay"] == nearsay.__version__
    assert results["packages"]["numpy"] == np.__version__
    with nearsay.threads(1):
        assert describe_installation()["threads"] == 1


def test_the_doctor_tells_how_to_get_an_extra_that_is_missing(monkeypatch):
    monkeypatch.setattr("nearsay.reports.installation.installed_version", lambda package: None)
    assert 'pip install "nearsay[faiss]"' in run("doctor", columns=120).stdout


def test_the_doctor_finds_a_data_set_only_where_all_its_files_lie(monkeypatch, tmp_path):
    monkeypatch.setenv("NEARSAY_DATA", str(tmp_path))
    monkeypatch.setattr("nearsay.data.catalog._user_cache", lambda: tmp_path / "cache")
    first, *others = DATASETS["mnist"].files
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / first).touch()
    data_sets = describe_installation()["data_sets"]
    assert data_sets["looked_in"] == [str(tmp_path), str(tmp_path / "cache")]
    assert data_sets["found"]["mnist"] is None
    assert data_sets["found"]["iris"] == "comes with scikit-learn"
    assert "not in" in run("doctor").stdout
    for file in others:
        (tmp_path / "mnist" / file).touch()
    assert describe_installation()["data_sets"]["found"]["mnist"] == str(tmp_path / "mnist")


def test_the_doctor_fits_into_80_columns():
    result = run("doctor")
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 80


# ---------------------------------------------------------------- exit codes


@pytest.mark.parametrize("arguments", [["--help"], ["tour", "-h"], ["doctor", "--help"]])
def test_help_is_exit_code_0(arguments):
    result = run(*arguments)
    assert result.exit_code == 0
    assert "Usage" in result.stdout


@pytest.mark.parametrize("arguments", [["dance"], ["tour", "--dance"], ["tour", "extra"]])
def test_what_is_not_understood_is_exit_code_2(arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""


def test_the_version_is_the_packages():
    assert run("--version").stdout == f"nearsay {nearsay.__version__}\n"


@pytest.mark.parametrize(
    ("error", "exit_code", "words"),
    [
        (DatasetNotFound("No 'mnist' here."), 1, "No 'mnist' here."),
        (KeyboardInterrupt(), 130, "interrupted"),
        (ZeroDivisionError("ours"), 1, ""),
    ],
)
def test_an_error_a_user_can_act_on_is_one_line_and_an_exit_code(monkeypatch, error, exit_code, words):
    monkeypatch.setattr("nearsay.tour.emoji_tour.take_tour", Mock(side_effect=error))
    result = run("tour", "--json")
    if isinstance(error, ZeroDivisionError):  # a mistake of our own is not hidden
        assert result.exception is error
    else:
        assert (result.exit_code, result.stdout, result.stderr) == (exit_code, "", f"nearsay: {words}\n")
        assert isinstance(result.exception, SystemExit)


def test_the_command_runs_as_a_module_too_and_its_help_imports_nothing_heavy():
    command = [sys.executable, "-X", "importtime", "-m", "nearsay", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Usage:" in done.stdout
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "nearsay.cli" in imported
    assert not imported & {"matplotlib", "numba", "faiss", "torch"}
