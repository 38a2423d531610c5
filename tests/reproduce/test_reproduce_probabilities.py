"""The tables behind ``python -m reproduce probabilities``: folds, published figures, tiny runs, known numbers."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearsay.data.datasets import SPECIMENS, load_dataset
from nearsay.data.rows import LabeledRows
from nearsay.errors import InputError
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.methods.named import POSTERIORS
from reproduce.cli import app
from reproduce.held_out import Answers, ask, leave_one_specimen_out, positions_within_class
from reproduce.probabilities import scikit_learn_peers as others
from reproduce.probabilities import tables as paper
from reproduce.probabilities.published import (
    ADD_ONE,
    IRIS_FEATURES,
    JOINS,
    LEAF_FEATURES,
    LEAVES,
    TABLES,
    WHEAT_FEATURES,
    published,
)
from reproduce.probabilities.rendering import draw, size_panels, text_notes, text_tables
from reproduce.probabilities.tables import ESTIMATORS, KS, fused, measures, run
from tests import command_line

few = settings(max_examples=50)
has_data = pytest.mark.skipif(
    "NEARSAY_DATA" not in os.environ, reason="NEARSAY_DATA, the folder of data sets, is not set"
)


def command(*arguments: object, columns: int = 100) -> SimpleNamespace:
    asked = ["probabilities", *(str(argument) for argument in arguments)]
    return command_line.run(*asked, columns=columns, app=app)


# ---------------------------------------------------------------- folds


@few
@given(labels=st.lists(st.integers(0, 3), min_size=1, max_size=30))
def test_a_position_is_the_number_of_rows_of_the_class_before_it(labels):
    expected = [labels[:row].count(label) for row, label in enumerate(labels)]
    assert positions_within_class(np.array(labels)).tolist() == expected


@few
@given(n_classes=st.integers(1, 4), n=st.integers(2, 7), data=st.data())
def test_a_fold_teaches_with_the_rows_that_follow_the_one_held_out_in_each_class(n_classes, n, data):
    order = data.draw(st.permutations(range(n_classes * n)))
    y = np.array([row % n_classes for row in order])
    n_train = data.draw(st.integers(1, n - 1))
    folds = list(leave_one_specimen_out(LabeledRows(np.zeros((len(y), 1)), y), n_train))
    assert len(folds) == n
    for held_out, (train, test) in enumerate(folds):
        for label in range(n_classes):
            own = np.flatnonzero(y == label).tolist()
            assert [row for row in test.tolist() if y[row] == label] == [own[held_out]]
            follows = sorted(own[(held_out + step) % n] for step in range(1, n_train + 1))
            assert [row for row in train.tolist() if y[row] == label] == follows


@few
@given(n_classes=st.integers(1, 4), n=st.integers(2, 7))
def test_every_row_is_held_out_once_and_taught_by_all_the_others(n_classes, n):
    y = np.repeat(np.arange(n_classes), n)
    folds = list(leave_one_specimen_out(LabeledRows(np.zeros((len(y), 1)), y)))
    assert sorted(np.concatenate([test for _, test in folds]).tolist()) == list(range(len(y)))
    for train, test in folds:
        assert sorted([*train.tolist(), *test.tolist()]) == list(range(len(y)))


def test_answers_are_what_a_classifier_fitted_to_the_fold_alone_says():
    rows = load_dataset("iris").take(slice(None, None, 3))
    folds = list(leave_one_specimen_out(rows))[:2]
    classifier = fused(rows, 3, "rank")
    answers = ask(rows, folds, classifier)
    for part, (train, test) in enumerate(folds):
        alone = fused(rows, 3, "rank").fit(rows.X[train], rows.y[train])
        lines = slice(len(test) * part, len(test) * (part + 1))
        np.testing.assert_array_equal(answers.probabilities[lines], alone.predict_proba(rows.X[test]))
        np.testing.assert_array_equal(alone.classes_[answers.truth[lines]], rows.y[test])
    assert not hasattr(classifier, "classes_")


def test_a_class_that_a_fold_never_saw_is_given_no_probability():
    rows = LabeledRows([[0.0], [1.0], [9.0]], ["a", "a", "b"])
    answers = ask(rows, [(np.array([0, 1]), np.array([2]))], NeighborClassifier(1, posterior="proportional"))
    assert answers.probabilities.tolist() == [[1.0, 0.0]]
    assert answers.truth.tolist() == [1]


# ---------------------------------------------------------------- what is published


def test_every_estimator_of_the_paper_has_a_figure_in_every_table():
    assert set(LEAVES) < set(POSTERIORS)
    for estimator in [*LEAVES, ADD_ONE]:
        assert all(published("3", estimator, features, 3) for features in IRIS_FEATURES)
        assert all(published("4", estimator, features, 3) for features in WHEAT_FEATURES)
        for k in KS:
            assert len(published("5", estimator, "&".join(LEAF_FEATURES), k)) == 4
    assert published("5", "rank", "&".join(LEAF_FEATURES), 7) is None
    assert published("size", "rank", "&".join(LEAF_FEATURES), 3) is None


# ---------------------------------------------------------------- tiny runs


@pytest.fixture
def quick_choice(monkeypatch):
    """The estimator that chooses for itself chooses all but the posterior, which takes a hundred times as long."""
    whole = others.fused_by_choice

    def quick(rows):
        return whole(rows).set_params(estimator__posterior="rank")

    monkeypatch.setattr(others, "fused_by_choice", quick)
    monkeypatch.setattr(paper, "fused_by_choice", quick)


@pytest.fixture
def few_leaves(monkeypatch, quick_choice):
    """Six made-up species of five leaves each in the place of the leaves."""
    rng = np.random.default_rng(0)
    y = np.repeat([f"species {number}" for number in range(6)], 5)
    X = rng.normal(size=(6, 6)).repeat(5, axis=0) * 2 + rng.normal(size=(30, 6))
    X[4, 2:4] = np.nan  # one leaf has no texture
    groups = {name: slice(2 * place, 2 * place + 2) for place, name in enumerate(LEAF_FEATURES)}
    asked = []

    def load(name, **options):
        asked.append((name, options))
        return LabeledRows(X, y, groups) if name == "leaves" else load_dataset(name, **options)

    monkeypatch.setattr(paper, "load_dataset", load)
    monkeypatch.setattr(paper, "SIZES", range(1, 4))
    return asked


def check_measures(ours):
    assert list(ours) == [
        "log_posterior",
        "log10_posterior",
        "accuracy_percent",
        "precision_percent",
        "recall_percent",
    ]
    assert ours["log10_posterior"] == pytest.approx(ours["log_posterior"] / np.log(10))
    assert ours["log_posterior"] < 0
    assert all(0 <= ours[name] <= 100 for name in ours if name.endswith("_percent"))


def test_table_3_has_every_estimator_and_feature_set_and_is_plain():
    told = []
    result = run(table="3", n_folds=1, progress=told.append)
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    (table,) = result["tables"]
    assert (table["name"], table["title"]) == ("3", TABLES["3"])
    expected = [(name, features, 3) for name in ESTIMATORS for features in IRIS_FEATURES]
    at = expected.index((ADD_ONE, "PL&PW&SL&SW", 3)) + 1
    expected[at:at] = [(ADD_ONE, features, 5) for features in IRIS_FEATURES]
    assert [(row["estimator"], row["features"], row["k"]) for row in table["rows"]] == expected
    for row in table["rows"]:
        check_measures(row["ours"])
        assert (row["paper"] is None) == (row["estimator"] == "pooled")
    assert told == [f"Table 3: Iris: {name}" for name in ESTIMATORS]


@has_data
def test_table_4_has_every_estimator_and_feature_set():
    (table,) = run(table="4", n_folds=1, k=5)["tables"]
    listed = [(row["estimator"], row["features"], row["k"]) for row in table["rows"]]
    assert listed == [(name, features, 5) for name in ESTIMATORS for features in WHEAT_FEATURES]


@pytest.mark.slow
@pytest.mark.parametrize("join", JOINS)
def test_table_5_has_every_estimator_and_what_was_chosen(few_leaves, join):
    (table,) = run(table="5", join=join, n_folds=2)["tables"]
    assert few_leaves == [("leaves", {"join": join, "missing_specimen": 16})]
    assert table["join"] == join
    *rows, auto = table["rows"]
    assert [(row["estimator"], row["k"]) for row in rows] == [(name, k) for name in ESTIMATORS for k in KS]
    assert (auto["estimator"], auto["k"], auto["paper"]) == ("auto", None, None)
    assert sum(way["folds"] for way in auto["chosen"]) == 2
    assert {way["posterior"] for way in auto["chosen"]} <= set(POSTERIORS)
    for row in table["rows"]:
        check_measures(row["ours"])
        assert row["features"] == "shape&texture&margin"
    json.dumps(table, allow_nan=False)


@pytest.mark.slow
def test_an_estimator_that_reads_no_votes_is_the_same_at_every_k(few_leaves):
    (table,) = run(table="5", auto=False)["tables"]
    by_k = {k: {row["estimator"]: row["ours"] for row in table["rows"] if row["k"] == k} for k in KS}
    same = {name for name in ESTIMATORS if by_k[3][name] == by_k[5][name]}
    assert {"rank", "pooled"} <= same
    assert "proportional" not in same
    assert "auto" not in by_k[3]


def test_sizes_begin_with_votes_alone_and_can_be_drawn(few_leaves, tmp_path):
    result = run(table="size", n_folds=2)
    (table,) = result["tables"]
    counted = [(row["n_per_class"], row["estimator"], row["k"]) for row in table["rows"]]
    assert counted[:2] == [(1, "proportional", 3), (1, "proportional", 5)]
    assert counted[2:] == [(n, name, k) for n in (2, 3) for name in paper.SIZE_ESTIMATORS for k in KS]
    panels = size_panels(table["rows"])
    assert list(panels) == ["K = 3", "K = 5"]
    first = table["rows"][0]["ours"]
    assert panels["K = 3"]["proportional"][0] == (1, first["accuracy_percent"] / 100, first["log_posterior"])
    (picture,) = draw(result, tmp_path / "new" / "folder")
    assert (tmp_path / "new" / "folder" / "training-size-label.png").read_bytes().startswith(b"\x89PNG")
    assert picture == str(tmp_path / "new" / "folder" / "training-size-label.png")


@pytest.mark.filterwarnings("error::UserWarning")
def test_one_leaf_of_each_species_is_no_reason_to_warn(few_leaves, monkeypatch):
    monkeypatch.setattr(paper, "SIZES", [1])
    run(table="size")


@pytest.fixture
def few_others(monkeypatch, quick_choice):
    """A third of Iris alone, few numbers of neighbors to try."""
    rows = load_dataset("iris").take(slice(None, None, 3)).select("sepal width", "petal width")
    monkeypatch.setattr(others, "DATA_SETS", {"iris": lambda: (rows, list(leave_one_specimen_out(rows)))})
    monkeypatch.setattr(others, "NEIGHBORS_TO_TRY", (1, 5))


@pytest.mark.slow
def test_the_others_answer_about_the_same_rows_and_are_judged_alike(few_others):
    (table,) = run(table="others", n_folds=1)["tables"]
    names = [row["estimator"] for row in table["rows"]]
    assert [name for name in names if name.startswith("scikit-learn")] == names[:3]
    assert [name for name in names if name.startswith("auto")] == names[-2:]
    for row in table["rows"]:
        assert row["data"] == "iris"
        assert list(row["measured"]) == [
            "log_loss",
            "brier",
            "calibration_error",
            "accuracy_percent",
            "no_probability_percent",
        ]
        assert ("chosen" in row) == row["estimator"].startswith("auto")
    json.dumps(table, allow_nan=False)


def test_a_true_class_without_probability_is_counted_and_leaves_no_log_loss():
    p, truth = np.array([[1.0, 0.0], [0.25, 0.75], [0.5, 0.5], [1.0, 0.0]]), np.array([1, 1, 0, 0])
    judged = others.judged(Answers(p, truth, []))
    assert (judged["log_loss"], judged["no_probability_percent"], judged["accuracy_percent"]) == (None, 25.0, 75.0)
    judged = others.judged(Answers(p[1:], truth[1:], []))
    assert judged["log_loss"] == pytest.approx(-np.mean(np.log([0.75, 0.5, 1.0])))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"table": "6"}, "Unknown table '6'.*3, 4, 5"),
        ({"join": "name"}, "Unknown join 'name'.*label, row"),
        ({"n_folds": 0}, "n_folds .* at least 1; got 0"),
    ],
)
def test_what_is_not_there_is_refused_before_anything_is_read(asked, message):
    with pytest.raises(InputError, match=message):
        run(**asked)


# ---------------------------------------------------------------- in print


@pytest.mark.slow
def test_every_table_fits_into_100_columns(few_leaves, few_others):
    for table in ("5", "size", "others"):
        result = command("--table", table, "--folds", 1)
        assert result.exit_code == 0
        assert result.stderr == ""
        assert max(map(len, result.stdout.splitlines())) <= 100
        assert "confmat&rank&votesplit" in result.stdout or table in ("size", "others")


def test_the_printed_lines_are_the_rows(few_leaves):
    (table,) = run(table="5", n_folds=1)["tables"]
    (text,) = text_tables(table)
    (lines,) = text.sections
    assert [line[:2] for line in lines[:2]] == [["proportional", "3"], ["proportional", "5"]]
    assert lines[0][2] == "-0.814"
    assert lines[0][4] == f"{table['rows'][0]['ours']['log_posterior']:.4f}"
    assert lines[-1][:3] == ["auto", "", ""]
    assert text_notes(table)[0].startswith("auto, chose: ")
    assert text_notes(table)[1:] == table["notes"]


def test_a_data_set_is_named_once_and_an_infinite_log_loss_is_printed_as_such():
    measured = {
        "log_loss": None,
        "brier": 0.25,
        "calibration_error": 0.125,
        "accuracy_percent": 75,
        "no_probability_percent": 25,
    }
    rows = [{"data": data, "estimator": name, "measured": measured} for data in ("iris", "wheat") for name in "ab"]
    (text,) = text_tables({"name": "others", "title": "Beside", "rows": rows, "notes": []})
    figures = ["∞", "0.2500", "0.1250", "75.00", "25.0 %"]
    assert text.sections == [[[data, "a", *figures], ["", "b", *figures]] for data in ("iris", "wheat")]


def test_json_is_the_dict_itself(few_leaves):
    result = command("--table", "size", "--folds", 1, "--k", 3, "--join", "row", "--json")
    assert json.loads(result.stdout) == run(table="size", n_folds=1, k=3, join="row")


def test_the_picture_is_saved_where_asked(few_leaves, tmp_path):
    result = command("--table", "size", "--folds", 1, "--save", tmp_path)
    assert result.exit_code == 0
    assert "training-size-label.png" in result.stdout.replace("\n", "")
    assert (tmp_path / "training-size-label.png").exists()


# ---------------------------------------------------------------- the known numbers


@pytest.fixture(scope="module")
def leaves():
    return {join: load_dataset("leaves", join=join, missing_specimen=16) for join in JOINS}


def on_leaves(rows, estimator, k):
    folds = list(leave_one_specimen_out(rows))
    assert len(folds) == SPECIMENS
    return measures(ask(rows, folds, fused(rows, k, estimator)))


@has_data
@pytest.mark.parametrize(("k", "log10", "percent"), [(3, -0.8143, 96.81), (5, -0.5692, 98.12)])
def test_add_one_votes_on_leaves_joined_by_row_are_the_papers(leaves, k, log10, percent):
    ours = on_leaves(leaves["row"], ADD_ONE, k)
    assert ours["log10_posterior"] == pytest.approx(log10, abs=0.0002)
    assert ours["accuracy_percent"] == pytest.approx(percent, abs=0.07)  # a leaf is 0.0625
    assert ours["log10_posterior"] == pytest.approx(LEAVES["proportional"][k][0], abs=0.0005)
    assert ours["recall_percent"] == pytest.approx(ours["accuracy_percent"])


@pytest.mark.slow
@has_data
@pytest.mark.parametrize(("join", "percent", "log_posterior"), [("row", 99.3, -0.025), ("label", 98.0, -0.065)])
def test_ranks_on_leaves_are_as_good_as_the_reference(leaves, join, percent, log_posterior):
    ours = on_leaves(leaves[join], "rank", 3)
    assert ours["accuracy_percent"] >= percent
    assert ours["log_posterior"] >= log_posterior


@pytest.mark.slow
@has_data
@pytest.mark.parametrize(("k", "percent"), [(3, 92.2), (5, 90.1)])
def test_the_confusion_matrix_on_leaves_joined_by_row_is_as_right_as_in_the_paper(leaves, k, percent):
    assert on_leaves(leaves["row"], "confmat", k)["accuracy_percent"] == pytest.approx(percent, abs=0.2)
