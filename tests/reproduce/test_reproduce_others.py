"""``python -m reproduce others``: splits, peers, what is kept of them, and what is asked of ours."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from nearsay.data.datasets import load_dataset
from nearsay.data.rows import LabeledRows
from nearsay.errors import InputError
from reproduce import data_sets
from reproduce.data_sets import read, splits
from reproduce.others import comparison
from reproduce.others.peers import PEERS, Folds, Peer, SmoothedNeighbors, fitted_to, log_loss, probabilities
from reproduce.others.targets import AUTO, COMPANION, DEFAULT, PLAIN, targets


@pytest.fixture
def few_peers(monkeypatch):
    """Two quick peers in place of seven."""
    quick = {
        PLAIN: Peer(SmoothedNeighbors, {"n_neighbors": (1, 5)}, uses_neighbors=True),
        "logistic regression": Peer(lambda C: LogisticRegression(C=C), {"C": (0.1, 1.0)}),
    }
    monkeypatch.setattr(comparison, "PEERS", quick)
    return quick


def test_a_split_holds_out_its_share_of_every_class_and_standardizes_by_the_other_rows():
    rows = load_dataset("wine")
    for part in splits(rows, 2):
        assert len(part.X) + len(part.Q) == len(rows)
        np.testing.assert_allclose(part.X.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(part.X.std(axis=0), 1)
        np.testing.assert_allclose(np.bincount(part.truth) / np.bincount(part.y), 3 / 7, atol=0.05)
    raw = next(splits(rows, 1, raw=True))
    assert sorted(map(tuple, [*raw.X, *raw.Q])) == sorted(map(tuple, rows.X))


def test_rows_to_learn_from_are_cut_to_at_most_so_many_with_three_of_every_class():
    rows = load_dataset("wine")
    cut, whole = next(splits(rows, 1, most_rows=9)), next(splits(rows, 1))
    assert np.bincount(cut.y).tolist() == [3, 3, 3]
    np.testing.assert_array_equal(cut.truth, whole.truth)
    raw_cut, raw_whole = next(splits(rows, 1, raw=True, most_rows=50)), next(splits(rows, 1, raw=True))
    assert len(raw_cut.X) == 50
    assert set(map(tuple, raw_cut.X)) <= set(map(tuple, raw_whole.X))
    assert next(splits(rows, 1, most_rows=1000)).X.tolist() == whole.X.tolist()


def test_a_data_set_of_too_many_classes_for_so_few_rows_is_left_out(few_peers):
    result = comparison.run(sets=["wine"], n_splits=1, most_rows=8, only="peers")
    assert result["rows"] == []
    assert result["notes"][-1] == "Left out, since they have more classes than a third of the rows: wine."


def test_rows_that_lack_a_feature_group_are_left_out(monkeypatch):
    rows = LabeledRows([[0.0, np.nan], [1.0, 2.0]], ["a", "b"], {"one": slice(0, 1), "two": slice(1, 2)})
    monkeypatch.setattr(data_sets, "load_dataset", lambda name, **options: rows)
    assert read("leaves").X.tolist() == [[1.0, 2.0]]


@pytest.mark.slow
@pytest.mark.parametrize("name", PEERS)
def test_every_peer_answers_about_classes_that_have_fewer_rows_than_there_are_folds(name):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [40, 40, 2])
    X = rng.normal(size=(len(y), 3)) + 3 * y[:, None]
    settings = {setting: values[-1] for setting, values in PEERS[name].grid.items()}
    settings |= {"n_neighbors": 5} if "n_neighbors" in settings else {}
    fitted = fitted_to(PEERS[name].make(**settings), X, y)
    p = probabilities(fitted, X, 4)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert (p[:, 3] == 0).all()
    assert (p.argmax(axis=1) == y).mean() > 0.9


@pytest.mark.slow
def test_peers_learn_from_as_few_rows_as_the_targets_ask():
    part = next(splits(load_dataset("wine"), 1, most_rows=30))
    for name in ("k-NN, isotonic", "gradient boosting"):
        assert 0 < comparison.ask_peer(name, part)["accuracy"] < 1
    assert PEERS["k-NN, isotonic"].choose(part.X, part.y)["n_neighbors"] < 30 * 4 / 9


def test_settings_are_those_with_the_smallest_log_loss_over_the_folds():
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1], 30)
    X = rng.normal(size=(60, 2)) + y[:, None]
    peer = PEERS["k-NN"]
    losses = {}
    for k in peer.grid["n_neighbors"]:
        for pseudo in peer.grid["pseudo_votes"] if k < 60 * 4 / 9 else ():
            of_folds = []
            for train, asked in Folds().split(X, y):
                p = SmoothedNeighbors(k, pseudo_votes=pseudo).fit(X[train], y[train]).predict_proba(X[asked])
                of_folds.append(log_loss(p, y[asked], 1e-3))
            losses[k, pseudo] = np.mean(of_folds)
    chosen = peer.choose(X, y)
    assert (chosen["n_neighbors"], chosen["pseudo_votes"]) == min(losses, key=losses.get)


@pytest.mark.slow
def test_the_result_is_plain_and_has_a_row_for_every_classifier(few_peers):
    told = []
    result = comparison.run(sets=["wine"], n_splits=1, progress=told.append)
    assert json.loads(json.dumps(result)) == result
    names = [row["classifier"] for row in result["rows"]]
    assert names[:4] == [*few_peers, DEFAULT, AUTO]
    assert told[0] == "Reading wine"
    for row in result["rows"]:
        assert 0 < row["log_loss"] < 1.5
        assert 0.8 < row["accuracy"] <= 1


@pytest.mark.slow
def test_figures_of_peers_are_measured_once_and_kept(few_peers, tmp_path, monkeypatch):
    options = {"sets": ["wine"], "n_splits": 1, "cache": tmp_path / "kept"}
    first = comparison.run(only="peers", **options)
    monkeypatch.setattr(comparison, "ask_peer", None)  # calling it would fail
    again = comparison.run(only="ours", **options)
    for before, after in zip(first["rows"], again["rows"], strict=False):
        assert after == before | {"earlier": True}
    assert "Figures and seconds of peers come from an earlier run." in again["notes"]
    alone = comparison.run(only="ours", sets=["wine"], n_splits=1)
    assert {row["kind"] for row in alone["rows"]} == {"ours"}
    assert ["default" in line["asked"] for line in alone["targets"]] == [True]


@pytest.mark.parametrize(
    ("options", "says"), [({"sets": ["whine"]}, r"did you mean 'wine'\?"), ({"only": "us"}, "got 'us'")]
)
def test_what_is_not_known_is_refused(options, says):
    with pytest.raises(InputError, match=says):
        comparison.run(**options)


def test_targets_count_ratios_to_the_best_peer_of_each_data_set():
    def row(data, classifier, kind, loss, accuracy=0.9):
        return {
            "data": data, "classifier": classifier, "kind": kind, "log_loss": loss, "accuracy": accuracy, "n_asked": 100
        }  # fmt: skip

    rows = [
        row("a", PLAIN, "neighbors", 1.0),
        row("a", "k-NN, sigmoid", "neighbors", 0.5),
        row("a", "random forest", "model", 0.2),
        row("a", DEFAULT, "ours", 0.45),
        row("a", AUTO, "ours", 0.3, accuracy=0.84),
        row("a", COMPANION, "ours", 0.2),
        row("b", PLAIN, "neighbors", 1.0),
        row("b", DEFAULT, "ours", 1.0),
        row("b", AUTO, "ours", 0.7),
    ]
    found = [(line["held"], line["of"], line["by_set"]) for line in targets(rows)]
    assert found == [
        (2, 2, {"a": 0.9, "b": 1.0}),
        (1, 2, {"a": 0.6, "b": 0.7}),
        (1, 2, {"a": pytest.approx(2.25), "b": 1.0}),
        (1, 2, {"a": pytest.approx(1.5), "b": 0.7}),
        (2, 2, {"a": pytest.approx(2 / 3), "b": 0.7}),
        (1, 1, {"a": 1.0}),
        (1, 2, {"a": pytest.approx(-2.0), "b": 0.0}),
    ]
