"""Learned metrics beside the Euclidean one on sets of many kinds: the splits, the choice, the votes, the table."""

from __future__ import annotations

import json
from collections import Counter
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, TransformerMixin

from nearsay.data.rows import LabeledRows
from nearsay.errors import DatasetNotFound
from nearsay.learn.itml import ITML
from nearsay.learn.lmnn.lmnn import LMNN
from reproduce.cli import app
from reproduce.hedging import figures as hedging
from reproduce.hedging import metric_comparison
from reproduce.hedging.learned_metrics import Candidates
from reproduce.hedging.metric_comparison import LEARNERS, SETS, Split, choose, compare, named_rightly, validation_folds
from reproduce.hedging.published import DATA_OF, EVERY_SET, notes_for
from reproduce.hedging.rendering import text_notes, text_tables
from tests.command_line import run
from tests.labeled import labeled_rows
from tests.made_up_images import made_up_images

# ---------------------------------------------------------------- votes


def slowly_right(X, y, Q, truth, k) -> list[bool]:
    """Most votes of the k nearest, ties to the class of the nearest among them; one query at a time."""
    right = []
    for query, true in zip(Q, truth, strict=True):
        order = sorted(range(len(X)), key=lambda row: (float(((X[row] - query) ** 2).sum()), row))[:k]
        votes = Counter(y[row] for row in order)
        said = next(y[row] for row in order if votes[y[row]] == max(votes.values()))
        right.append(bool(said == true))
    return right


@given(known=labeled_rows(smallest=2), k=st.integers(1, 4), data=st.data())
def test_a_row_is_named_rightly_where_a_loop_over_its_neighbors_says_so(known, k, data):
    X, y = known
    n = data.draw(st.integers(1, 5))
    Q = np.array(
        data.draw(
            st.lists(st.lists(st.integers(0, 3), min_size=X.shape[1], max_size=X.shape[1]), min_size=n, max_size=n)
        ),
        float,
    )
    truth = np.array(data.draw(st.lists(st.sampled_from(sorted(set(y.tolist()))), min_size=n, max_size=n)))
    assert named_rightly(Split(X, y, Q, truth), None, k).tolist() == slowly_right(X, y, Q, truth, k)


# ---------------------------------------------------------------- what is chosen


class Weighted(TransformerMixin, BaseEstimator):
    """Multiplies the first column by a setting, and remembers on which rows it was fitted."""

    seen: ClassVar[list] = []

    def __init__(self, by=1.0):
        self.by = by

    def fit(self, X, y):
        self.seen.append((self.by, {tuple(row) for row in X.tolist()}))
        return self

    def transform(self, X):
        return np.asarray(X) * np.array([self.by, *[1.0] * (np.shape(X)[1] - 1)])


@pytest.fixture
def seen():
    Weighted.seen.clear()
    return Weighted.seen


def told_by_the_first_column(n: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Two classes that the first column tells apart and the second, of much spread, does not."""
    random = np.random.default_rng(0)
    y = np.arange(n) % 2
    return np.column_stack([y + random.normal(0, 0.3, n), random.normal(0, 4, n)]), y


def test_the_setting_with_the_best_votes_on_rows_held_out_is_chosen(seen):
    X, y = told_by_the_first_column()
    assert choose(Candidates(Weighted, {"by": (0.0, 20.0, 0.1)}), X, y) == {"by": 20.0}
    for _, rows in seen:
        assert len(rows) == 80  # a fifth is held out


def test_the_euclidean_distance_is_kept_where_no_setting_is_better(seen):
    X, y = told_by_the_first_column()
    assert choose(Candidates(Weighted, {"by": (0.0, 1.0)}), X, y) is None  # as good is not better


def test_rows_to_choose_by_are_fifths_of_each_class_and_more_where_one_is_few():
    y = np.repeat(np.arange(10), 20)
    folds = validation_folds(y, enough=70)
    assert [len(held_out) for _, held_out in folds] == [40, 40]
    assert len({row for _, held_out in folds for row in held_out.tolist()}) == 80
    for known, held_out in folds:
        assert sorted([*known.tolist(), *held_out.tolist()]) == list(range(200))
        assert np.bincount(y[held_out]).tolist() == [4] * 10
    assert len(validation_folds(y, enough=1000)) == 5
    assert len(validation_folds(y, enough=40)) == 1


# ---------------------------------------------------------------- the sets


def made_up_leaves(name, groups):
    """Three species of 16, one leaf of which has no texture, as in the real set."""
    X = np.random.default_rng(0).normal(size=(48, 2))
    if groups == ["texture"]:
        X[3] = np.nan
    return LabeledRows(X, np.repeat(["ash", "elm", "oak"], 16), {groups[0]: slice(0, 2)})


@pytest.mark.parametrize(("group", "n_leaves"), [("shape", 48), ("texture", 47)])
def test_every_whole_leaf_is_judged_once_by_the_others(group, n_leaves, monkeypatch):
    monkeypatch.setattr(metric_comparison, "load_dataset", made_up_leaves)
    splits = metric_comparison.leaf_splits(group)
    judged = [tuple(row) for split in splits for row in split.Q.tolist()]
    assert len(set(judged)) == len(judged) == n_leaves
    for split in splits:
        assert len(split.X) + len(split.Q) == n_leaves
        assert not {tuple(row) for row in split.X.tolist()} & {tuple(row) for row in split.Q.tolist()}
        assert set(Counter(split.truth.tolist()).values()) <= {3, 4}


def test_the_columns_of_digits_are_learned_from_the_rows_to_learn_from(monkeypatch):
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (300, 60)).astype(np.uint8)

    parts = {"train": pixels, "test": pixels[:40]}

    def made_up_digits(name, split):
        return LabeledRows(parts[split], np.arange(len(parts[split])) % 10)

    monkeypatch.setattr(metric_comparison, "load_dataset", made_up_digits)
    (split,) = metric_comparison.digit_splits(100)
    assert (split.X.shape, split.Q.shape) == ((100, 50), (40, 50))
    assert split.y.tolist() == (np.arange(300)[::3] % 10).tolist()
    np.testing.assert_allclose(split.Q[:40:3], split.X[:14], atol=1e-9)  # the same images in the same columns
    parts["test"] = pixels[:40] // 7
    np.testing.assert_array_equal(metric_comparison.digit_splits(100)[0].X, split.X)


# ---------------------------------------------------------------- the figure


@pytest.fixture
def few_sets(monkeypatch, seen):
    """Six small sets, and two learners: one that helps, and one that only harms."""
    X, y = told_by_the_first_column(240)
    halves = [Split(X[:120], y[:120], X[120:180], y[120:180]), Split(X[:120], y[:120], X[180:], y[180:])]
    monkeypatch.setattr(metric_comparison, "SETS", dict.fromkeys(SETS, lambda: halves))
    few = {"helps": Candidates(Weighted, {"by": (20.0,)}), "harms": Candidates(Weighted, {"by": (0.0,)})}
    monkeypatch.setattr(metric_comparison, "LEARNERS", few)
    return halves


def test_gains_are_those_over_all_judged_rows_with_the_error_of_their_mean(few_sets):
    result = compare(["mnist-50"], lambda words: None)
    (row,) = result["rows"]
    plain = np.concatenate([named_rightly(split, None) for split in few_sets])
    better = np.concatenate([named_rightly(split, Weighted(20.0)) for split in few_sets])
    assert (row["data"], row["n_judged"]) == ("mnist-50", 120)
    assert row["euclidean_percent"] == pytest.approx(100 * plain.mean())
    helps, harms = row["metrics"]["helps"], row["metrics"]["harms"]
    assert helps["accuracy_percent"] == pytest.approx(100 * better.mean())
    gained, lost = int((better & ~plain).sum()), int((plain & ~better).sum())
    mean = (gained - lost) / 120
    assert helps["gain_percent"] == pytest.approx(100 * mean)
    variance = (gained + lost) / 120 - mean**2
    assert helps["error_percent"] == pytest.approx(100 * (variance / 120) ** 0.5)
    assert helps["settings"] == [{"by": 20.0}] * 2
    assert harms == {**harms, "gain_percent": 0.0, "error_percent": 0.0, "settings": [None, None]}
    assert result["summary"] == [
        {"metric": "helps", "never_below": True, "clearly_above": 1},
        {"metric": "harms", "never_below": True, "clearly_above": 0},
    ]


def test_what_is_below_on_one_set_is_not_never_below(few_sets, monkeypatch):
    gains = iter([3.0, 0.0, 2.0, -0.1])
    monkeypatch.setattr(metric_comparison, "_compared", lambda *_: {"gain_percent": next(gains)})
    found = compare(["leaves-margin", "leaves-shape"], lambda words: None)["summary"]  # set by set, both learners
    assert [(one["never_below"], one["clearly_above"]) for one in found] == [(True, 2), (False, 0)]


def test_rows_to_be_judged_are_not_learned_from(few_sets, seen):
    compare(["mnist-50"], lambda words: None)
    judged = {tuple(row) for split in few_sets for row in split.Q.tolist()}
    assert seen
    assert not any(rows & judged for _, rows in seen)


def command(*arguments: str):
    asked = ["hedging", "--figure", "metrics", *arguments]
    return run(*asked, app=app)


def test_the_figure_has_a_line_for_every_set_and_says_what_holds_on_all(few_sets):
    told = []
    (made,) = hedging.run(figure="metrics", progress=told.append)["figures"]
    assert made["data"] == EVERY_SET
    assert [row["data"] for row in made["rows"]] == list(DATA_OF["metrics"]) == list(SETS)
    assert "Learning helps (leaves-shape)" in told
    (table,) = text_tables(made)
    *sets, (never_below, above) = table.sections
    assert len(sets) == 6
    assert never_below == ["never below", "", "yes", "yes", ""]
    assert above == ["2 points above", "", "6 of 6", "0 of 6", ""]
    assert text_notes(made)[0].startswith("harms: the Euclidean distance was kept on leaves-margin, leaves-shape, ")
    assert made["notes"] == notes_for("metrics", EVERY_SET)
    assert len(made["notes"]) == 2 + 4  # the leaves have one note in common


@pytest.mark.slow
def test_the_command_prints_one_set_or_all_within_80_columns_or_as_json(few_sets):
    printed = command()
    assert printed.exit_code == 0
    assert max(map(len, printed.stdout.splitlines())) <= 80
    assert "6 of 6" in printed.stdout
    assert all(data in printed.stdout for data in SETS)  # no name is broken
    alone = command("--data", "leaves-shape")
    assert "never below" not in alone.stdout
    assert "leaves-shape" in alone.stdout
    assert "MNIST" not in alone.stdout
    (made,) = json.loads(command("--data", "tin57", "--json").stdout)["figures"]
    assert [row["data"] for row in made["rows"]] == ["tin57"]
    assert command("--data", "tin200").exit_code == 1


def test_every_learner_maps_images_so_that_neighbors_can_tell():
    images = made_up_images()
    split = Split(images.train.X, np.asarray(images.train.y), images.test.X, np.asarray(images.test.y))
    for name, candidates in LEARNERS.items():
        fitted = candidates.learner().fit(split.X, split.y)
        assert named_rightly(split, fitted).mean() > 0.4, name


# ---------------------------------------------------------------- the real sets

# Near what the command chooses by rows held out, and quick to learn.
CHOSEN = {
    "leaves-margin": (LMNN(tol=1e-3), ITML(0.01, random_state=0)),
    "mnist-50": (LMNN(tol=1e-3), ITML(0.003, random_state=0)),
}


@pytest.mark.parametrize("data", ["leaves-margin", pytest.param("mnist-50", marks=pytest.mark.slow)])
def test_two_learners_are_better_than_the_euclidean_distance(data):
    try:
        splits = metric_comparison.digit_splits(2000) if data == "mnist-50" else SETS[data]()[:2]
    except DatasetNotFound as missing:
        pytest.skip(str(missing))
    euclidean = np.mean([named_rightly(split, None) for split in splits])
    for learner in CHOSEN[data]:
        learned = np.mean([named_rightly(split, learner.fit(split.X, split.y)) for split in splits])
        assert learned > euclidean, learner
