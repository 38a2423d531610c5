"""The table of keywords beside scikit-learn's models, on a little data set made up for the test."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.io import savemat

from nearsay.data import AnnotatedRows, load_dataset
from nearsay.errors import SavedFileError
from reproduce import keywords
from reproduce.cli import app
from tests.command_line import run


@pytest.fixture
def little_data(tmp_path, monkeypatch):
    """Thirty rows with three words that columns tell, one that all have and one that a single row has."""
    random = np.random.default_rng(0)
    X = random.normal(size=(30, 4))
    Y = np.column_stack([X[:, :3] > 0, np.ones(30), np.arange(30) == 7]).astype(np.uint8)
    (tmp_path / "small").mkdir()
    for name in keywords.DATA:
        savemat(tmp_path / "small" / f"{name}.mat", {"X": X, "Y": Y})
    monkeypatch.setenv("NEARSAY_DATA", str(tmp_path))
    names = "nearsay, nearest rows alone", "ML-kNN (ours)", "nearsay, a living collection"
    quick = {name: keywords.METHODS[name] for name in names}
    forest = {"random forest": lambda: keywords.RandomForestClassifier(5, random_state=0)}
    chain = {"logistic regression, chained": keywords.METHODS["logistic regression, chained"]}
    monkeypatch.setattr(keywords, "METHODS", {**quick, **forest, **chain})
    return tmp_path


@pytest.mark.slow
def test_every_method_is_measured_on_every_set_alike(little_data):
    result = keywords.run(n_splits=2)
    assert [(row["data"], row["method"]) for row in result["rows"]] == [
        (data, method) for data in keywords.DATA for method in keywords.METHODS
    ]
    for row in result["rows"]:
        assert 0.5 < row["rank_precision"] <= 1
        assert 0.5 < row["micro_f1"] <= 1
        assert row["seconds"] > 0
    again = keywords.run(data="emotions", n_splits=2)["rows"]
    measured = ("rank_precision", "micro_f1")
    assert [[row[key] for key in measured] for row in again] == [
        [row[key] for key in measured] for row in result["rows"][: len(again)]
    ]


class Told:
    """Knows what it was told of each row, which stands in the first columns."""

    def fit(self, X, Y):
        self.n_words = Y.shape[1]
        return self

    def predict_proba(self, Q):
        return Q[:, : self.n_words]


def test_a_word_that_all_training_rows_have_is_sure_and_one_that_none_has_is_missed():
    told = np.random.default_rng(0).integers(0, 2, (30, 2))
    told[0] = 1
    for seed in range(5):
        Y = np.column_stack([told, np.ones(30, int), np.zeros(30, int)])
        found = keywords.measure(AnnotatedRows(told.astype(float), Y, "told"), Told(), seed)
        assert (found["rank_precision"], found["micro_f1"]) == (1.0, 1.0)
        Y[:, 3] = 1 - Y[:, 2]
        Y[np.random.RandomState(seed).permutation(30)[:10], 3] = 1  # test rows alone have the last word
        found = keywords.measure(AnnotatedRows(told.astype(float), Y, "told"), Told(), seed)
        n_right = int(Y[np.random.RandomState(seed).permutation(30)[:10], :3].sum())
        assert found["micro_f1"] == pytest.approx(2 * n_right / (2 * n_right + 10))


@pytest.mark.slow
def test_the_command_prints_a_table_and_json(little_data):
    shown = run("keywords", "--splits", "1", "--data", "emotions", app=app)
    assert shown.exit_code == 0
    assert "ML-kNN" in shown.stdout
    result = json.loads(run("keywords", "--splits", "1", "--json", app=app).stdout)
    assert {row["data"] for row in result["rows"]} == set(keywords.DATA)


def test_sets_are_loaded_by_name_and_damaged_files_are_refused(little_data):
    rows = load_dataset("medical")
    assert (len(rows), rows.keywords.shape, rows.name) == (30, (30, 5), "medical")
    assert repr(rows).startswith("<AnnotatedRows medical: 30 rows × 4 columns, 5 words, ")
    for spoil in (
        lambda path: path.write_bytes(b"not MATLAB" * 50),
        lambda path: savemat(path, {"X": np.eye(3)}),
        lambda path: savemat(path, {"X": np.eye(3), "Y": np.eye(2)}),
    ):
        spoil(little_data / "small" / "medical.mat")
        with pytest.raises(SavedFileError, match="Fetch it again"):
            load_dataset("medical")
