"""How good a collection's answers are: as counting by hand says, and honest about what knew what."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from nearsay.collection import LiveCollection
from nearsay.collection.evaluation.evaluate import evaluate, evaluation_report
from nearsay.collection.evaluation.known_items import brought, held_out, judge, left_out, rows_held_out
from nearsay.collection.ingest.batches import Batch
from nearsay.collection.ingest.sources import read_source
from nearsay.collection.state.learned import fitted_to_rows
from nearsay.errors import InputError
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.reports.evaluation import MISTAKES_SHOWN, evaluation_summary

HALVES = True

EDGES = [("thing", "animal"), ("thing", "tool"), ("animal", "cat"), ("animal", "dog"), ("tool", "axe"), ("tool", "saw")]
LABELS = ["cat", "dog", "axe", "saw"]


def rows(n_each=20, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.repeat(LABELS, n_each)
    centers = np.repeat([[0, 0, 0], [2.5, 0, 0], [6, 6, 0], [6, 8.5, 0]], n_each, axis=0)
    return (rng.normal(size=(len(truth), 3)) + centers).astype(np.float32), truth


@pytest.fixture
def things(tmp_path):
    X, truth = rows()
    with LiveCollection.create(tmp_path / "things", n_columns=3, taxonomy=EDGES) as collection:
        ids = [f"t{row}" for row in range(80)]
        words = [[label, "large" if row % 3 else "small"] for row, label in enumerate(truth)]
        collection.add(ids, X, truth.tolist(), words)
        yield collection, X, truth


@pytest.fixture
def quick(things):
    """The same where nothing is left to be chosen."""
    things[0].learn(posterior="pooled", n_neighbors=5)
    return things


@pytest.mark.slow
@pytest.mark.parametrize("posterior", ["proportional", "auto", "rank"])
def test_what_is_held_out_is_answered_as_by_a_classifier_fitted_to_the_rest(things, posterior):
    collection, X, truth = things
    collection.learn(posterior=posterior, n_neighbors=5 if posterior == "proportional" else "auto")
    version = collection.version
    queries = held_out(collection, 0.25, seed=3)
    p = judge(queries, None).probabilities
    held = np.array([int(id[1:]) for id in queries.ids])
    assert len(held) == 20
    assert np.unique(truth[held], return_counts=True)[1].tolist() == [5] * 4
    rest = np.setdiff1d(np.arange(80), held)
    k = 5 if posterior == "proportional" else "auto"
    clf = fitted_to_rows(X[rest], truth[rest], "euclidean", posterior, k)
    assert_allclose(p, clf.predict_proba(X[held]), rtol=0, atol=1e-12)
    assert collection.version == version


def test_what_is_held_out_leaves_no_trace_in_what_answers(quick, tmp_path):
    collection, X, truth = quick
    queries = held_out(collection, 0.25, seed=0)
    ours = judge(queries, None)
    held = np.array([int(id[1:]) for id in queries.ids])
    rest = np.setdiff1d(np.arange(80), held)
    words = collection.store.items().keywords
    with LiveCollection.create(tmp_path / "rest", n_columns=3, taxonomy=EDGES) as other:
        other.add([f"t{row}" for row in rest], X[rest], truth[rest].tolist(), words[rest].tolist())
        other.learn(posterior="pooled", n_neighbors=5)
        batch = Batch(held.tolist(), queries.ids, X[held], truth[held].tolist(), words[held].tolist(), [{}] * len(held))
        theirs = judge(brought(other, [batch]), None)
    assert_allclose(ours.probabilities, theirs.probabilities, rtol=0, atol=1e-12)
    assert ours.keywords == theirs.keywords


def test_items_are_judged_as_a_classifier_judges_past_cases_by_choices_made_without_them(tmp_path):
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(90, 6)).astype(np.float32), rng.choice(["bolt", "nail", "saw"], 90)
    with LiveCollection.create(tmp_path / "noise", 6) as collection:
        collection.add([f"t{row}" for row in range(90)], X, labels=labels.tolist())
        items = left_out(collection)
        assert "without it" in items.how
        p = judge(items, None).probabilities
    assert_allclose(p, NeighborClassifier().fit(X, labels).leave_one_out_proba(), rtol=0, atol=1e-9)


def test_left_out_is_what_likely_mistakes_are_told_by(things):
    collection, _, truth = things
    collection.learn(posterior="pooled")
    result = evaluate(collection)
    p = judge(left_out(collection), None).probabilities
    by_hand = evaluation_summary(truth, p, sorted(LABELS))
    assert {name: result[name] for name in ("n_right", "accuracy", "mean_log_posterior", "calibration_error")} == {
        name: by_hand[name] for name in ("n_right", "accuracy", "mean_log_posterior", "calibration_error")
    }
    mistakes = {each.id: each for each in collection.likely_mistakes()}
    wrong = np.flatnonzero(p.max(axis=1) > p[np.arange(80), np.searchsorted(sorted(LABELS), truth)] + 1e-9)
    assert set(mistakes) == {f"t{row}" for row in wrong}
    assert 0 < len(result["mistakes"]) <= MISTAKES_SHOWN
    for each in result["mistakes"]:
        told = mistakes[each["id"]]
        assert each["probability"] == told.suggested_probability
        assert (each["label"], each["suggested"]) == (told.label, told.suggested)
        assert each["label_probability"] == told.probability
        assert [n["id"] for n in each["neighbors"]][:5] == [n.id for n in told.neighbors]
        assert each["id"] not in [n["id"] for n in each["neighbors"]]


def test_everything_is_json_and_a_taxonomy_and_keywords_are_judged_too(quick):
    collection, _, _ = quick
    result = json.loads(json.dumps(evaluate(collection, accuracy=0.9)))
    assert result["hedging"]["reached"]["requested"] == 0.9
    assert result["hedging"]["reached"]["accuracy"] >= 0.85
    assert result["hedging"]["points"]
    assert result["keywords"]["words_found"] >= 5
    assert (result["version"], result["title"], result["not_judged"]) == (collection.version, "things", {})
    assert "Leave-one-out" in result["how"]


def test_keywords_are_those_of_the_neighbors_without_the_item_itself(tmp_path):
    with LiveCollection.create(tmp_path / "c", n_columns=1) as collection:
        collection.add(["a", "b", "c"], [[0.0], [0.1], [9.0]], keywords=[["sea"], ["sea"], ["road"]])
        result = evaluate(collection)
    # The road has no other: its neighbors say sea. So of three times "sea", two are right.
    assert result["keywords"]["words_found"] == 1
    assert result["keywords"]["recall"] == 0.5
    assert result["keywords"]["precision_per_item"] == pytest.approx(2 / 3)
    assert "accuracy" not in result


def test_what_cannot_be_judged_is_counted_by_its_reason(quick):
    collection, X, _ = quick
    collection.add(["one"], X[:1] + 3, ["animal"])
    collection.add(["guess", "bare"], X[:2], ["cat", None], by="machine")
    result = evaluate(collection)
    assert result["not_judged"] == {"no label": 1, "not confirmed": 1}
    assert result["n_items"] == 81
    assert any("only one of a class" in note for note in result["notes"])
    assert any("inner node, such as 'animal'" in note for note in result["notes"])
    assert "one" not in held_out(collection, 0.5, 0).ids
    held = evaluate(collection, holdout=0.5)
    assert held["not_judged"] == {"no label": 1, "not confirmed": 1, "only one of a class": 1}
    given = (["x", "y", "z"], X[:3], ["cat", "unicorn", None])
    elsewhere = evaluate(collection, holdout=given)
    assert elsewhere["not_judged"] == {"label unknown here": 1, "no label": 1}
    assert elsewhere["n_items"] == 1
    assert "such as 'unicorn'" in elsewhere["notes"][0]


def test_a_seed_holds_out_the_same_rows_and_never_a_whole_class(quick):
    collection, X, _ = quick
    collection.add(["a1", "a2"], X[:2] + 9, ["animal", "animal"])
    state = collection.state()
    assert (rows_held_out(state, 0.3, 5) == rows_held_out(state, 0.3, 5)).all()
    assert rows_held_out(state, 0.3, 5).tolist() != rows_held_out(state, 0.3, 6).tolist()
    for seed in range(20):
        rest = np.setdiff1d(np.arange(82), rows_held_out(state, 0.95, seed))
        assert len(set(state.voting.labels[rest])) == 5


@pytest.mark.slow
@pytest.mark.parametrize(("posterior", "holdout", "n"), [("auto", None, 80), ("pooled", 0.25, 20)])
def test_blocks_and_other_items_change_nothing(things, monkeypatch, posterior, holdout, n):
    collection, _, _ = things
    collection.learn(posterior=posterior)
    whole = evaluate(collection, holdout=holdout)
    monkeypatch.setattr("nearsay.collection.evaluation.known_items.ROWS_AT_ONCE", 7)
    monkeypatch.setattr("nearsay.collection.state.learned.ROWS_AT_ONCE", 7)
    done = []
    assert evaluate(collection, holdout=holdout, on_progress=lambda *told: done.append(told)) == whole
    assert (done[0], done[-1]) == ((7, n), (n, n))


def test_items_of_a_source_are_judged(quick, tmp_path):
    collection, X, truth = quick
    lines = ["id,a,b,c,label,tags", *(f"q{i},{','.join(map(str, X[i]))},{truth[i]},large" for i in range(0, 80, 8))]
    (tmp_path / "asked.csv").write_text("\n".join(lines) + "\n")
    result = evaluate(collection, holdout=read_source(tmp_path / "asked.csv"))
    given = evaluate(collection, holdout=([f"q{i}" for i in range(0, 80, 8)], X[::8], truth[::8].tolist()))
    assert result["keywords"]["words_found"] == 1
    assert {**result, "keywords": None} == {**given, "keywords": None}


def test_the_report_shows_pictures_of_mistakes(quick, tmp_path):
    from PIL import Image

    collection, X, _ = quick
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (900, 600), "brown").save(tmp_path / "photos" / "odd.png")
    (tmp_path / "secret.png").write_bytes((tmp_path / "photos" / "odd.png").read_bytes())
    details = [{"path": "odd.png"}, {"path": "../secret.png"}, {"path": "absent.png"}]
    collection.add(["odd", "out", "gone"], X[[3, 2, 1]], ["saw", "axe", "saw"], details=details)
    page = tmp_path / "report.html"
    summary = evaluation_report(collection, page, pictures=tmp_path / "photos")
    text = page.read_text()
    assert json.loads(json.dumps(summary))["n_items"] == 83
    assert text.count("data:image/png") == 1
    assert "Accuracy and specificity" in text
    assert "Keywords" in text
    with pytest.raises(InputError, match="exists already"):
        evaluation_report(collection, page)


def test_errors_say_what_to_do(quick):
    collection, X, _ = quick
    with pytest.raises(InputError, match="between 0 and 1; got 2"):
        evaluate(collection, holdout=2)
    with pytest.raises(InputError, match="2 ids, 1 rows and 1 labels"):
        evaluate(collection, holdout=(["a", "b"], X[:1], ["cat"]))
    with pytest.raises(InputError, match="None of these items has a label"):
        evaluate(collection, holdout=(["a"], X[:1], ["unicorn"]))
    with pytest.raises(InputError, match="accuracy"):
        evaluate(collection, accuracy=2.0)
    with pytest.raises(InputError, match="holdout is a share"):
        evaluate(collection, holdout=object())


def test_a_class_for_each_item_cannot_be_held_out(tmp_path):
    with LiveCollection.create(tmp_path / "c", n_columns=1) as collection:
        collection.add(["a", "b"], [[0.0], [1.0]], ["x", "y"])
        with pytest.raises(InputError, match="none can be held out"):
            evaluate(collection, holdout=0.5)


def test_what_was_asked_for_is_learned_again(things):
    collection, _, _ = things
    collection.learn(posterior="proportional", n_neighbors=3)
    assert held_out(collection, 0.25, 0).state.learned.requested == ("proportional", 3)
    assert replace(collection.learned).n_neighbors == 3
