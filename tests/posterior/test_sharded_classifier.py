"""A classifier over shards says what one over an array says: tables, probabilities, mistakes, hedged labels."""

from __future__ import annotations

import itertools
import tempfile
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.naive_bayes import GaussianNB

import nearsay as ns
from nearsay.errors import InputError
from nearsay.neighbors.sharded.sharded_index import ShardedIndex
from nearsay.posterior import past_cases
from nearsay.posterior.choice import model_fit
from nearsay.posterior.methods.dist_votesplit import DistVotesplit
from nearsay.posterior.methods.named import POSTERIORS
from nearsay.posterior.methods.past_case_table import Tabulated
from nearsay.posterior.sharded import ShardedClassifier, count_past_cases
from nearsay.posterior.views import model_beside, row_transforms
from nearsay.reports.evaluation import evaluation_summary, left_out_summary
from nearsay.search.shards import ShardedRows
from tests.neighbors.test_shards import collections, written, written_at

HALVES = True

CLOSE = {"rtol": 0, "atol": 1e-12}


def rows_and_labels(n: int, n_classes: int, seed: int = 0, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n)
    X = rng.integers(0, 4, (n, d)) + labels[:, None] % 5 + rng.integers(0, 2, (n, 1)) * 0.5
    return X.astype(np.float32), np.array([f"class {label:02}" for label in labels])


@pytest.mark.parametrize("posterior", [name for name in POSTERIORS if name != "auto"])
def test_every_posterior_gives_the_same_from_shards(tmp_path, posterior):
    X, y = rows_and_labels(150, 6)
    Q = X[:40] + 0.25
    files = written(X, [30, 31, 90, 140], str(tmp_path))
    some = ShardedClassifier(ns.NeighborClassifier(4, posterior=posterior)).fit(files, y)
    whole = ns.NeighborClassifier(4, posterior=posterior).fit(X, y)
    np.testing.assert_array_equal(some.neighbors(Q).indices, whole.neighbors(Q).indices)
    np.testing.assert_array_equal(some.predict(Q), whole.predict(Q))
    np.testing.assert_allclose(some.predict_proba(Q), whole.predict_proba(Q), **CLOSE)
    np.testing.assert_allclose(some.leave_one_out_proba(), whole.leave_one_out_proba(), **CLOSE)
    np.testing.assert_allclose(some.novelty(Q), whole.novelty(Q), **CLOSE)
    assert [str(one) for one in some.explain(Q[:5])] == [str(one) for one in whole.explain(Q[:5])]


@given(case=collections(), posterior=st.sampled_from(["pooled", "rank&votesplit", "weighted"]))
@settings(max_examples=15, deadline=None)
@pytest.mark.filterwarnings("ignore:Every class has one row")
def test_however_rows_are_cut_the_probabilities_are_those_of_the_whole(case, posterior):
    X, labels, cuts, removed = case
    left = np.setdiff1d(np.arange(len(X)), removed)
    whole = ns.NeighborClassifier(2, posterior=posterior).fit(X[left], labels[left])
    with tempfile.TemporaryDirectory() as folder:
        rows = ShardedRows.open(written(X, cuts, folder)).without(removed)
        some = ShardedClassifier(ns.NeighborClassifier(2, posterior=posterior)).fit(rows, labels)
        np.testing.assert_allclose(some.predict_proba(X + 0.5), whole.predict_proba(X + 0.5), **CLOSE)
        np.testing.assert_array_equal(some.neighbors(X).indices, left[whole.neighbors(X).indices])
        np.testing.assert_allclose(some.leave_one_out_proba()[left], whole.leave_one_out_proba(), **CLOSE)


BY_DEFAULT = pytest.param({}, marks=pytest.mark.slow)
PLAIN = {"n_neighbors": 4, "posterior": "rank&votesplit"}


@pytest.mark.slow
@pytest.mark.parametrize("options", [BY_DEFAULT, PLAIN])
def test_rows_of_one_group_are_not_asked_about_each_other_in_shards_either(tmp_path, options):
    X, y = rows_and_labels(160, 4)
    groups = np.array(["ann", "bob", *range(40)], object)[np.random.default_rng(1).integers(0, 42, len(X))].astype(str)
    weight = np.ones(len(X))
    weight[::7] = 0
    files = written(X, [30, 31, 140], str(tmp_path))
    some = ShardedClassifier(ns.NeighborClassifier(**options)).fit(files, y, weight, groups=groups)
    whole = ns.NeighborClassifier(**options).fit(X, y, weight, groups=groups)
    np.testing.assert_array_equal(some.groups_, whole.groups_)
    np.testing.assert_allclose(some.predict_proba(X + 0.25), whole.predict_proba(X + 0.25), **CLOSE)
    np.testing.assert_allclose(some.leave_one_out_proba(), whole.leave_one_out_proba(), **CLOSE)
    np.testing.assert_allclose(some.novelty(X), whole.novelty(X), **CLOSE)
    if options == PLAIN:
        alone = ShardedClassifier(ns.NeighborClassifier(**options)).fit(files, y, weight)
        assert np.abs(alone.leave_one_out_proba() - some.leave_one_out_proba()).max() > 0.01


def validated(seed: int) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Rows and labels, some of them in a class of its own, and others, not in float32 and shifted, to validate with."""
    X, y = rows_and_labels(200, 4, seed)
    fresh, of_fresh = rows_and_labels(45, 4, seed + 1)
    return X, y, (fresh.astype(np.float64) + 0.37, of_fresh)


@pytest.mark.slow
@pytest.mark.parametrize("options", [BY_DEFAULT, PLAIN, {"posterior": "pooled"}])
@pytest.mark.parametrize("grouped", [False, True], ids=["alone", "in groups"])
def test_validation_rows_are_asked_of_all_shards_as_of_one_array(tmp_path, options, grouped):
    X, y, fresh = validated(2)
    groups = np.random.default_rng(1).integers(0, 70, len(X)) if grouped else None
    files = written(X, [30, 31, 140], str(tmp_path))
    some = ShardedClassifier(ns.NeighborClassifier(**options)).fit(files, y, groups=groups, validation=fresh)
    whole = ns.NeighborClassifier(**options).fit(X, y, groups=groups, validation=fresh)
    same_with_validation(some, whole, X)
    if options == PLAIN:
        without = ns.NeighborClassifier(**options).fit(X, y, groups=groups)
        assert np.abs(without.predict_proba(X) - whole.predict_proba(X)).max() > 0.01


def same_with_validation(some: ShardedClassifier, whole: ns.NeighborClassifier, Q: np.ndarray) -> None:
    """Both learned the same from their validation rows, which vote now."""
    np.testing.assert_array_equal(some.groups_, whole.groups_)
    assert some.n_neighbors_ == whole.n_neighbors_
    np.testing.assert_array_equal(some.neighbors(Q).indices, whole.neighbors(Q).indices)
    np.testing.assert_allclose(some.validation_proba(), whole.validation_proba(), **CLOSE)
    np.testing.assert_allclose(some.predict_proba(Q + 0.2), whole.predict_proba(Q + 0.2), **CLOSE)
    np.testing.assert_allclose(some.leave_one_out_proba(), whole.leave_one_out_proba(), **CLOSE)
    np.testing.assert_allclose(some.novelty(Q + 0.2), whole.novelty(Q + 0.2), **CLOSE)
    assert [str(one) for one in some.explain(Q[:5])] == [str(one) for one in whole.explain(Q[:5])]


def test_validation_rows_names_weights_and_removed_rows_go_together_in_shards(tmp_path):
    X, y, fresh = validated(4)
    removed, weight = np.arange(3, 200, 9), np.where(np.arange(200) % 2, 1.0, 2.0)
    left, ids = np.setdiff1d(np.arange(200), removed), np.arange(1000, 1245)
    rows = ShardedRows.open(written(X, [50, 110], str(tmp_path))).without(removed)
    some = ShardedClassifier(ns.NeighborClassifier(5, posterior="pooled"))
    some.fit(rows, y, weight, validation=fresh, ids=ids)
    whole = ns.NeighborClassifier(5, posterior="pooled")
    whole.fit(X[left], y[left], weight[left], validation=fresh, ids=np.delete(ids, removed))
    np.testing.assert_allclose(some.validation_proba(), whole.validation_proba(), **CLOSE)
    np.testing.assert_allclose(some.predict_proba(X), whole.predict_proba(X), **CLOSE)
    assert [one.ids for one in some.explain(fresh[0][:5])] == [one.ids for one in whole.explain(fresh[0][:5])]
    assert any(id >= 1200 for one in some.explain(fresh[0][:5]) for id in one.ids)


def test_promises_of_shards_are_read_from_validation_rows(tmp_path):
    X, y, fresh = validated(6)
    files, inner = written(X, [90], str(tmp_path)), ns.NeighborClassifier(5, posterior="weighted")
    some = ns.HedgedClassifier(ShardedClassifier(inner), accuracy=0.8).fit(files, y, validation=fresh)
    whole = ns.HedgedClassifier(inner, accuracy=0.8).fit(X, y, validation=fresh)
    assert some.n_calibration_ == whole.n_calibration_ == 45
    np.testing.assert_array_equal(some.predict(X), whole.predict(X))


def same_answers(some: ShardedClassifier, whole: ns.NeighborClassifier, Q: np.ndarray) -> None:
    """Both chose the same, and answer queries and their own rows the same."""
    chosen, expected = (replace(one.choices_.chosen, seconds=0.0) for one in (some, whole))
    assert chosen.distances == expected.distances
    assert (chosen.posterior, chosen.n_neighbors) == (expected.posterior, expected.n_neighbors)
    assert len(some.choices_) == len(whole.choices_)
    assert some.n_neighbors_ == whole.n_neighbors_
    np.testing.assert_array_equal(some.neighbors(Q).indices, whole.neighbors(Q).indices)
    np.testing.assert_allclose(some.predict_proba(Q), whole.predict_proba(Q), **CLOSE)
    np.testing.assert_allclose(some.leave_one_out_proba(), whole.leave_one_out_proba(), **CLOSE)


@pytest.mark.parametrize(
    "unequal",
    [pytest.param(False, marks=pytest.mark.slow, id="columns of one scale"), pytest.param(True, id="unequal columns")],
)
def test_by_default_shards_answer_as_one_array_does(tmp_path, unequal):
    X, y = rows_and_labels(120, 4, seed=1)
    if unequal:  # a wide column that tells nothing
        X[:, 2] = np.random.default_rng(0).normal(0, 1000, 120)
    files = written(X, [40, 41, 93], str(tmp_path))
    some, whole = ShardedClassifier().fit(files, y), ns.NeighborClassifier().fit(X, y)
    same_answers(some, whole, X[:60] + 0.3)
    members = {one.name for one in some.summary_.members}
    assert {"whitened, pull 1", "Gaussian", "Gaussian ranks", "line", "forest"} < members
    assert ("standardized" in some.choices_.chosen.distances) == unequal
    assert [str(one) for one in some.explain(X[:3])] == [str(one) for one in whole.explain(X[:3])]


@pytest.mark.slow
@given(case=collections())
@settings(max_examples=8, deadline=None)
@pytest.mark.filterwarnings("ignore:Every class has one row")
def test_by_default_it_makes_no_difference_how_rows_are_cut_or_which_are_removed(case):
    X, labels, cuts, removed = case
    X[:, 0] *= 7
    left = np.setdiff1d(np.arange(len(X)), removed)
    whole = ns.NeighborClassifier().fit(X[left], labels[left])
    with tempfile.TemporaryDirectory() as folder:
        some = ShardedClassifier().fit(ShardedRows.open(written(X, cuts, folder)).without(removed), labels)
        np.testing.assert_allclose(some.predict_proba(X + 0.5), whole.predict_proba(X + 0.5), **CLOSE)
        np.testing.assert_allclose(some.leave_one_out_proba()[left], whole.leave_one_out_proba(), **CLOSE)


def views_tried(clf: Any) -> set[str]:
    return {name for one in clf.choices_ for name in one.distances}


@pytest.mark.slow
def test_all_views_of_shards_are_those_of_one_array(tmp_path):
    X, y = rows_and_labels(80, 3, seed=6)
    X += 1
    files = written(X, [20, 45], str(tmp_path))
    some, whole = (
        ShardedClassifier(ns.NeighborClassifier(metric="auto")).fit(files, y),
        ns.NeighborClassifier(metric="auto").fit(X, y),
    )
    same_answers(some, whole, X[:40] + 0.3)
    assert {"cosine", "hellinger"} < views_tried(some) == views_tried(whole)


@pytest.mark.slow
@pytest.mark.parametrize(("odd", "no_view"), [(0.0, {"cosine", "hellinger"}), ([-3.0, 1.0, 1.0], {"hellinger"})])
def test_a_distance_that_one_row_of_a_shard_does_not_have_is_no_view(tmp_path, odd, no_view):
    X, y = rows_and_labels(60, 3, seed=6)
    X += 1
    X[40] = odd
    clf = ShardedClassifier(ns.NeighborClassifier(metric="auto")).fit(written(X, [20, 50], str(tmp_path)), y)
    assert {"cosine", "hellinger"} - views_tried(clf) == no_view


@pytest.mark.slow
@pytest.mark.parametrize("fitted", [False, True], ids=["fitted by folds", "fitted already"])
def test_a_model_beside_shards_is_heard_as_beside_one_array(tmp_path, fitted):
    X, y = rows_and_labels(100, 3, seed=7)
    files = written(X, [20, 45], str(tmp_path))
    model, more = GaussianNB(), {}
    if fitted:
        model, more = model.fit(X, y), {"beside_proba": GaussianNB().fit(X[::2], y[::2]).predict_proba(X)}
    weights = np.where(np.arange(100) % 50 == 3, 0.0, 1.0 + np.arange(100) % 2)
    some = ShardedClassifier(ns.NeighborClassifier(5, beside=model)).fit(files, y, weights, **more)
    whole = ns.NeighborClassifier(5, beside=model).fit(X, y, weights, **more)
    assert type(model).__name__ in some.choices_.chosen.distances
    same_answers(some, whole, X[:40] + 0.3)


def test_rows_are_learned_from_and_asked_a_part_at_a_time(tmp_path, monkeypatch):
    class Few(ShardedClassifier):
        rows_at_once = 50

    monkeypatch.setattr(model_beside.ModelBeside, "most_rows", 60)
    monkeypatch.setattr(row_transforms, "ROWS_TO_LEARN_FROM", 60)
    for module in (past_cases, model_beside):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", 50)
    monkeypatch.setattr(model_fit, "CASES_TO_SCALE_BY", 50)
    X, y = rows_and_labels(400, 3, seed=8)
    X[:, 1] *= 30
    rows = ShardedRows.open(written(X, [150], str(tmp_path)))
    taken: list[int] = []
    vars(rows)["take"] = lambda numbers: taken.append(len(numbers)) or ShardedRows.take(rows, numbers)
    clf = Few(ns.NeighborClassifier(beside=GaussianNB(), posterior=ns.posterior.Auto(max_past_cases=40))).fit(rows, y)
    clf.model_ = replace(clf.model_, nested=None)  # to choose anew, few rows are read at once
    answered = np.concatenate([numbers for numbers, _ in clf.left_out_blocks()])
    assert sorted(answered) == list(range(400))
    assert 50 <= max(taken) <= 60
    assert clf.score(X, y) > 0.5


def test_what_was_done_for_the_default_is_not_done_again(tmp_path):
    X, y = rows_and_labels(120, 3, seed=9)
    files = written(X, [50], str(tmp_path))
    first = ShardedClassifier(work_folder=tmp_path / "work").fit(files, y)
    searched = written_at(tmp_path / "work")
    again = ShardedClassifier(work_folder=tmp_path / "work").fit(files, y)
    assert written_at(tmp_path / "work") == searched != {}
    np.testing.assert_array_equal(first.predict_proba(X), again.predict_proba(X))


class SmallBlocks(ShardedClassifier):
    """Leaves few rows out at a time, so that most are answered in blocks."""

    rows_at_once = 17


@pytest.mark.parametrize("judged", [None, 60], ids=["all rows judged", "some rows judged"])
def test_likely_mistakes_are_found_block_by_block(tmp_path, judged):
    X, y = rows_and_labels(200, 4, seed=2)
    weights = np.ones(200)
    weights[[3, 77]] = 0.0
    files = written(X, [64, 128], str(tmp_path))
    some = SmallBlocks(ns.NeighborClassifier(5, posterior=ns.posterior.Pooled(max_past_cases=judged))).fit(
        files, y, weights
    )
    whole = ns.NeighborClassifier(5, posterior=ns.posterior.Pooled(max_past_cases=judged)).fit(X, y, weights)
    p = np.full((200, 4), np.nan)
    for rows, some_p in some.left_out_blocks():
        assert np.isnan(p[rows]).all()
        p[rows] = some_p
    np.testing.assert_allclose(p, whole.leave_one_out_proba(), **CLOSE)
    found, expected = some.label_scores(), whole.label_scores()
    np.testing.assert_array_equal(found.suggested, expected.suggested)
    np.testing.assert_allclose(found.margin, expected.margin, **CLOSE)
    np.testing.assert_allclose(found.probability[found.order], expected.probability[expected.order], **CLOSE)


TREE = ns.Taxonomy.from_nested(
    {"all": {"low": ["class 00", "class 01"], "high": {"class 02": {}, "top": ["class 03", "class 04"]}}}
)


LIMITED = {"pooled": ns.posterior.Pooled(max_past_cases=60), "auto": ns.posterior.Auto(max_past_cases=60)}


@pytest.mark.parametrize(
    ("posterior", "branches"),
    [
        pytest.param("pooled", None, id="one promise"),
        pytest.param("pooled", ["low", "high"], id="a promise for each branch"),
        pytest.param("auto", ["low", "high"], id="by default", marks=pytest.mark.slow),
    ],
)
def test_hedged_labels_are_those_of_one_array(tmp_path, posterior, branches):
    X, y = rows_and_labels(120, 5, seed=3)
    files = written(X, [30, 90], str(tmp_path))
    known = {"posterior": LIMITED[posterior]}
    asked = {"taxonomy": TREE, "accuracy": 0.8, "branches": branches}
    some = ns.HedgedClassifier(SmallBlocks(ns.NeighborClassifier(5, **known)), **asked).fit(files, y)
    whole = ns.HedgedClassifier(ns.NeighborClassifier(5, **known), **asked).fit(X, y)
    np.testing.assert_array_equal(some.predict(X + 0.4), whole.predict(X + 0.4))
    assert len(set(some.predict(X + 0.4))) > 2
    assert some.rule_ == whole.rule_
    np.testing.assert_allclose(some.settings_, whole.settings_, **CLOSE)
    for name in ("settings", "n_right", "gain"):
        np.testing.assert_allclose(getattr(some.curve(), name), getattr(whole.curve(), name), **CLOSE)
    assert [one.text for one in some.explain(X[:9])] == [one.text for one in whole.explain(X[:9])]


def test_a_promise_needs_no_more_in_memory_than_a_few_numbers_a_row(tmp_path):
    X, y = rows_and_labels(200, 5, seed=3)
    held: list[int] = []

    class Watched(SmallBlocks):
        leave_one_out_proba = None

        def left_out_blocks(self):
            for rows, p in super().left_out_blocks():
                held.append(len(p))
                yield rows, p

    files = written(X, [50], str(tmp_path))
    ns.HedgedClassifier(Watched(ns.NeighborClassifier(5, posterior=ns.posterior.Pooled(max_past_cases=60))), TREE).fit(
        files, y
    )
    ns.ConformalClassifier(Watched(ns.NeighborClassifier(5, posterior=ns.posterior.Pooled(max_past_cases=60)))).fit(
        files, y
    )
    assert sum(held) == 400
    assert max(held) <= 60


@pytest.mark.parametrize("as_files", [False, True], ids=["rows of an array", "rows of files"])
def test_a_classifier_that_is_fitted_is_calibrated_on_other_rows(tmp_path, as_files):
    X, y = rows_and_labels(300, 5, seed=3)
    (tmp_path / "other").mkdir()
    fitted = ShardedClassifier(ns.NeighborClassifier(5, posterior="pooled")).fit(
        written(X[:200], [90], str(tmp_path)), y[:200]
    )
    written(X[200:], [40], str(tmp_path / "other"))
    others = str(tmp_path / "other") if as_files else X[200:]
    some = ns.HedgedClassifier(fitted, TREE, accuracy=0.8, cv="prefit").fit(others, y[200:])
    whole = ns.NeighborClassifier(5, posterior="pooled").fit(X[:200], y[:200])
    whole = ns.HedgedClassifier(whole, TREE, accuracy=0.8, cv="prefit").fit(X[200:], y[200:])
    assert some.n_calibration_ == 100
    np.testing.assert_allclose(some.settings_, whole.settings_, **CLOSE)
    np.testing.assert_array_equal(some.predict(X), whole.predict(X))


def test_prediction_sets_are_those_of_one_array(tmp_path):
    X, y = rows_and_labels(200, 4, seed=3)
    files = written(X, [50, 150], str(tmp_path))
    for score in ("lac", "aps"):
        some = ns.ConformalClassifier(
            SmallBlocks(ns.NeighborClassifier(5, posterior="pooled")), conformity_score=score
        ).fit(files, y)
        whole = ns.ConformalClassifier(ns.NeighborClassifier(5, posterior="pooled"), conformity_score=score).fit(X, y)
        np.testing.assert_allclose(some.thresholds_, whole.thresholds_, **CLOSE)
        np.testing.assert_array_equal(some.predict_set(X + 0.4), whole.predict_set(X + 0.4))


@pytest.mark.slow
def test_a_promise_that_was_interrupted_searches_no_shard_again(tmp_path):
    X, y = rows_and_labels(120, 5, seed=3)
    files = written(X, [30, 90], str(tmp_path))
    done = itertools.count(1)

    def interrupt(*progress: int) -> None:
        if next(done) == 40:
            raise KeyboardInterrupt

    def hedged(on_progress: Any = None) -> ns.HedgedClassifier:
        posterior = ns.posterior.Auto(max_past_cases=60)
        clf = SmallBlocks(
            ns.NeighborClassifier(posterior=posterior), work_folder=tmp_path / "work", on_progress=on_progress
        )
        return ns.HedgedClassifier(clf, TREE, accuracy=0.8).fit(files, y)

    with pytest.raises(KeyboardInterrupt):
        hedged(interrupt)
    kept = written_at(tmp_path / "work")
    some = hedged()
    searched = written_at(tmp_path / "work")
    assert len(searched) > 80 > len(kept) > 20
    assert kept.items() <= searched.items()
    np.testing.assert_array_equal(hedged().settings_, some.settings_)
    assert written_at(tmp_path / "work") == searched


def test_rows_that_were_removed_are_neither_promised_for_nor_suspected(tmp_path):
    X, y = rows_and_labels(200, 5, seed=3)
    gone = np.arange(5, 200, 9)
    left = np.setdiff1d(np.arange(200), gone)
    told = y.copy()
    told[gone] = "class 00"  # whatever is said of them
    rows = ShardedRows.open(written(X, [50, 150], str(tmp_path))).without(gone)
    some = ns.HedgedClassifier(SmallBlocks(ns.NeighborClassifier(5, posterior="pooled")), TREE, accuracy=0.8).fit(
        rows, told
    )
    whole = ns.HedgedClassifier(ns.NeighborClassifier(5, posterior="pooled"), TREE, accuracy=0.8).fit(X[left], y[left])
    assert some.n_calibration_ == len(left)
    np.testing.assert_allclose(some.settings_, whole.settings_, **CLOSE)
    np.testing.assert_array_equal(some.predict(X), whole.predict(X))
    found, expected = some.estimator_.label_scores(), whole.estimator_.label_scores()
    np.testing.assert_array_equal(found.order, left[expected.order])
    np.testing.assert_allclose(found.margin[left], expected.margin, **CLOSE)
    assert np.isnan(found.margin[gone]).all()
    assert left_out_summary(some.estimator_)["n_items"] == len(left)


def test_how_good_the_answers_are_is_summed_up_as_from_all_probabilities(tmp_path):
    X, y = rows_and_labels(200, 4, seed=5)
    files = written(X, [64, 128], str(tmp_path))
    found = left_out_summary(
        SmallBlocks(ns.NeighborClassifier(5, posterior=ns.posterior.Pooled(max_past_cases=60))).fit(files, y)
    )
    whole = ns.NeighborClassifier(5, posterior=ns.posterior.Pooled(max_past_cases=60)).fit(X, y)
    expected = evaluation_summary(y, whole.leave_one_out_proba(), whole.classes_)
    assert 0 < found["n_right"] < 200
    assert set(expected) - set(found) == {"title", "mistakes"}
    for name in set(found) - {"how", "reliability"}:
        of_items = name in ("classes", "confused")
        assert found[name] == (expected[name] if of_items else pytest.approx(expected[name], abs=1e-12))
    for mine, theirs in zip(found["reliability"], expected["reliability"], strict=True):
        assert mine == pytest.approx(theirs, abs=1e-12)


@pytest.mark.slow
def test_what_looks_at_all_rows_of_a_thousand_classes_never_holds_all_probabilities(tmp_path):
    n, n_classes = 3000, 1000
    labels, rng = np.arange(n) % n_classes, np.random.default_rng(0)
    X = (3 * rng.normal(size=(n_classes, 4))[labels] + rng.normal(size=(n, 4))).astype(np.float32)
    files = written(X, [n // 2], str(tmp_path))
    clf = SmallBlocks(ns.NeighborClassifier(3, posterior=ns.posterior.Rank(max_past_cases=100))).fit(files, labels)
    clf.rows_at_once = 50
    asked = {
        "mistakes": clf.label_scores,
        "summary": lambda: left_out_summary(clf),
        "hedge": lambda: ns.HedgedClassifier(clf).fit(files, labels),
        "sets": lambda: ns.ConformalClassifier(clf).fit(files, labels),
    }
    peaks = {}
    for name, ask in asked.items():
        tracemalloc.start()
        ask()
        peaks[name] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert max(peaks.values()) < 0.75 * 8 * n * n_classes, peaks


TABLES = [name for name, kind in POSTERIORS.items() if issubclass(kind, Tabulated)]


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("at_once", [7, 64, 500])
def test_tables_of_past_cases_are_sums_over_blocks(tmp_path, name, at_once):
    X, y = rows_and_labels(130, 5, seed=4)
    labels = np.unique(y, return_inverse=True)[1]
    labels[7] = 5  # alone in its class: nothing can be learned from it
    labeled = ShardedIndex().fit(written(X, [40, 100], str(tmp_path))).with_labels(labels)
    summed = count_past_cases(POSTERIORS[name](), labeled, 4, at_once=at_once)
    whole, posterior = ns.NeighborIndex().fit(X).with_labels(labels), POSTERIORS[name]()
    once = posterior.fit(whole.leave_one_out(4, posterior.members), labels, 6)
    assert summed.n_cases_ == once.n_cases_ == 129
    for counted in ("counts_", "low_", "width_"):
        both = [getattr(each, counted, 0) for each in (summed, once)]
        np.testing.assert_array_equal(*(counts.toarray() if hasattr(counts, "toarray") else counts for counts in both))
    table = whole.query(X + 0.3, 4, posterior.members)
    np.testing.assert_allclose(summed.proba(table), once.proba(table), **CLOSE)


@given(case=collections(), at_once=st.integers(1, 9), k=st.integers(1, 3))
@settings(max_examples=15, deadline=None)
@pytest.mark.filterwarnings("ignore:Every class has one row")
def test_distances_are_counted_in_the_bins_of_the_whole(case, at_once, k):
    X, labels, cuts, _ = case
    whole = ns.NeighborIndex().fit(X).with_labels(labels, 5)
    once = DistVotesplit().fit(whole.leave_one_out(k), labels, 5)
    with tempfile.TemporaryDirectory() as folder:
        labeled = ShardedIndex().fit(written(X, cuts, folder)).with_labels(labels, 5)
        summed = count_past_cases(DistVotesplit(), labeled, k, at_once=at_once)
    assert (summed.low_, summed.width_, summed.n_cases_) == (once.low_, once.width_, once.n_cases_)
    np.testing.assert_array_equal(summed.counts_, once.counts_)
    np.testing.assert_array_equal(summed.reading_, once.reading_)


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda rows: ShardedClassifier().fit(rows, ["a", "b"]), "a label for each of the 6 rows; got 2"),
        (lambda rows: ShardedClassifier().fit(np.zeros((6, 1)), list("aabbcc")), "an array of shape"),
        (lambda rows: ShardedClassifier().fit(rows, list("aabbcc"), groups="auto"), "Pass a number or a name"),
        (lambda rows: ShardedClassifier().fit(rows, list("aabbcc"), groups=[1, 2]), "2 groups, but X has 6 rows"),
        (
            lambda rows: ShardedClassifier().fit(rows, list("aabbcc"), validation=np.ones((2, 1))),
            r"validation must be \(rows, labels\)",
        ),
        (
            lambda rows: ShardedClassifier().fit(rows, list("aabbcc"), validation=(np.ones((2, 3)), ["a", "b"])),
            "validation has 3 columns",
        ),
        (
            lambda rows: ShardedClassifier().fit(rows, list("aabbcc"), validation=([[1.0], [np.nan]], ["a", "b"])),
            "validation holds nan at row 1",
        ),
        (
            lambda rows: ShardedClassifier().fit(rows, list("aabbcc"), validation=([[1.0]], [3])),
            "Labels of validation rows",
        ),
        (lambda rows: ns.HedgedClassifier(ShardedClassifier(), cv=3).fit(rows, list("aabbcc")), "leaving each out"),
        (lambda rows: ShardedClassifier().fit(rows, list("aabbcc"), beside_proba=np.ones((6, 3))), "there is none"),
        (
            lambda rows: ShardedClassifier(ns.NeighborClassifier(metric="auto", metric_params={"p": 1})).fit(
                rows, list("aabbcc")
            ),
            "takes no metric_params",
        ),
        (lambda rows: ShardedClassifier(ns.NeighborClassifier(9)).fit(rows, list("aabbcc")), "n_neighbors=9"),
        (
            lambda rows: ShardedClassifier(ns.NeighborClassifier(1)).fit(rows.without(range(6)), list("aabbcc")),
            "sample_weight|removed",
        ),
    ],
)
def test_what_shards_cannot_serve_is_refused_with_the_reason(tmp_path, fit, message):
    rows = ShardedRows.open(written(np.arange(6.0)[:, None], [3], str(tmp_path)))
    with pytest.raises(InputError, match=message):
        fit(rows)
