"""``python -m reproduce novelty``: what is measured, on which rows, and how it is told."""

from __future__ import annotations

import json

import numpy as np
import pytest

from nearsay.data.rows import LabeledRows
from nearsay.errors import InputError
from reproduce.cli import app
from reproduce.novelty import measures
from reproduce.novelty.measures import flipped_labels, held_out_classes, near_copies, nearest_other_labels, run
from reproduce.novelty.parts import PARTS
from reproduce.novelty.rendering import text_tables
from tests import command_line


def blobs(n_classes: int = 5, seed: int = 0, apart: float = 6.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), 60)
    return rng.normal(size=(len(y), 4)) + apart * rng.normal(size=(n_classes, 4))[y], y


@pytest.fixture
def made_up(monkeypatch):
    """Blobs in place of every data set."""
    monkeypatch.setattr(measures, "read", lambda name: LabeledRows(*blobs()))


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_every_part_gives_a_plain_dict_with_a_row_for_each_data_set_and_their_mean(made_up, part):
    told = []
    result = run(part=part, sets=["wine", "wheat"], draws=2, progress=told.append)
    assert json.loads(json.dumps(result)) == result
    assert list(result["rows"]) == ["wine", "wheat", "mean"]
    assert all(0 <= figure <= 1 for row in result["rows"].values() for figure in row.values())
    assert result["rows"]["mean"] == pytest.approx(result["rows"]["wine"])  # both are the same blobs
    assert len(told) == 2
    for table in text_tables(result):
        assert len(table.sections[0][0]) == 1 + len(table.numbers)
    said = command_line.run("novelty", "--part", part, "--sets", "wine", "--draws", "1", app=app)
    assert said.exit_code == 0
    assert PARTS[part].title in said.stdout


def test_classes_that_lie_apart_are_found_when_they_are_held_out():
    figures = held_out_classes(*blobs(), np.random.default_rng(0))
    assert set(figures) == {"ours", "by class", "nearest", "5th", "LOF 5", "LOF 10", "LOF 20", "LOF 35"}
    assert min(figures.values()) > 0.9


def test_copies_are_twins_and_further_rows_are_not():
    figures = near_copies(*blobs(), np.random.default_rng(0))
    assert figures["noise 0"] == 1.0
    assert figures["further rows"] < 0.02


def test_a_look_alike_has_the_label_of_the_nearest_row_of_another_class():
    X, y = blobs(apart=1.0)
    rows = np.arange(0, len(y), 7)
    for row, label in zip(rows, nearest_other_labels(X, y, rows), strict=True):
        others = np.flatnonzero(y != y[row])
        assert label == y[others[np.linalg.norm(X[others] - X[row], axis=1).argmin()]]


def test_cleanlabs_scores_are_those_of_its_formulas():
    X, y = blobs(apart=2.0)
    scores = measures.label_scores(X, y)
    assert (scores["LR margin"] <= scores["LR p"]).all()
    assert (scores["margin"] <= scores["p"]).all()
    figures = flipped_labels(*blobs(), np.random.default_rng(0))
    assert figures["any, margin, AUROC"] > 0.98


@pytest.mark.parametrize(
    ("options", "says"),
    [({"part": "rows"}, "Unknown part 'rows'"), ({"sets": ["whine"]}, "did you mean 'wine'"), ({"draws": 0}, "got 0")],
)
def test_what_is_not_known_is_refused(options, says):
    with pytest.raises(InputError, match=says):
        run(**options)
