"""Past cases of very many classes: few candidates stand for all, and nothing as large as cases × classes is held."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nearsay.posterior.choice.many_classes as many_classes
import nearsay.posterior.model as model
import nearsay.posterior.views.gaussian_classes as gaussian_classes
from nearsay.core.steps import Steps
from nearsay.neighbors.index import NeighborIndex
from nearsay.posterior.choice.candidate_views import transformed_views
from nearsay.posterior.choice.many_classes import candidate_tables
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.methods.pool.candidates import candidates_of
from nearsay.posterior.methods.pooled import Pooled
from nearsay.posterior.past_cases import MANY_CLASSES
from nearsay.posterior.views.feature_group import View
from nearsay.posterior.views.gaussian_classes import GaussianClasses
from nearsay.posterior.views.model_beside import ModelBeside
from nearsay.posterior.views.row_transforms import WHITENED_BESIDE
from tests.saving import saved_and_opened


def clusters(n_classes: int, rows_each: int = 2, seed: int = 0, spread: float = 1.5) -> tuple[np.ndarray, np.ndarray]:
    """A few rows around the center of each class."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_classes * rows_each) % n_classes
    return 2 * rng.normal(size=(n_classes, 8))[y] + spread * rng.normal(size=(len(y), 8)), y


@given(seed=st.integers(0, 50), n_classes=st.sampled_from([40, 150, 700]), n_models=st.integers(0, 2))
@settings(max_examples=25, deadline=None)
def test_candidates_stand_for_every_class_once_and_the_near_ones_are_among_them(seed, n_classes, n_models):
    rng = np.random.default_rng(seed)
    X, y = rng.integers(0, 4, size=(2 * n_classes, 3)).astype(float), rng.integers(0, n_classes, 2 * n_classes)
    views = [
        NeighborIndex(metric).fit(X).with_labels(y, n_classes).leave_one_out(1, (1,), np.arange(20)).classes
        for metric in ("euclidean", "manhattan")
    ]
    log_proba = [np.log(rng.dirichlet(np.ones(n_classes), 20)) for _ in range(n_models)]
    some = candidates_of(views, log_proba, y[:20], n_classes)
    np.testing.assert_allclose(np.exp(some.offsets).sum(axis=1), n_classes)
    np.testing.assert_array_equal(some.numbers[np.arange(20), some.truth], y[:20])
    np.testing.assert_array_equal(some.numbers < 0, some.offsets == -np.inf)
    for line in range(20):
        of_one = some.numbers[line, some.numbers[line] >= 0]
        assert len(set(of_one)) == len(of_one)
        alone = set(some.numbers[line, some.offsets[line] == 0])
        for near in views:
            assert set(near.numbers[line, :16]) - {-1} <= alone
        for log_p in log_proba:
            assert set(np.argsort(-log_p[line], kind="stable")[:8]) <= alone


def tables_of(n_classes: int, X: np.ndarray, y: np.ndarray, rows: np.ndarray, members: tuple[int, ...]):
    """The table of candidates, and that of all classes."""
    view = View("all", None, "euclidean").fit(X, y, n_classes)
    [few], _ = candidate_tables({"one": (view, 3)}, [], rows, y, n_classes, members, Steps())
    return few, view.past_cases(3, members, rows)


@pytest.mark.parametrize("rows_each", [2, 5])
def test_what_a_pool_reads_of_candidates_is_what_it_reads_of_all_classes(rows_each):
    X, y = clusters(150, rows_each)
    rows, members = np.arange(0, len(y), 3), (1,) if rows_each == 2 else (1, 4)
    few, every = tables_of(150, X, y, rows, members)
    np.testing.assert_array_equal(few.indices, every.indices)
    pools = [Pooled(members=members).fit(table, y, 150, rows) for table in (few, every)]
    assert pools[0].floors_ == pools[1].floors_
    np.testing.assert_array_equal(pools[0].gaps_, pools[1].gaps_)
    some = few.candidates
    assert some is not None
    of_few, of_all = (pool._features([table], slice(None)) for pool, table in zip(pools, (few, every), strict=True))
    there = some.numbers >= 0
    of_candidates = np.take_along_axis(of_all, np.maximum(some.numbers, 0)[:, :, None], axis=1)
    np.testing.assert_array_equal(of_few[there], of_candidates[there])
    # A few dozen classes tell nearly as much about the weights, and about the truth, as all of them.
    np.testing.assert_allclose(pools[0].weights_, pools[1].weights_, rtol=0.05)
    p_few = pools[1].proba(few)[np.arange(len(rows)), some.truth]
    p_all = pools[1].proba(every)[np.arange(len(rows)), y[rows]]
    assert abs(np.log(p_few).mean() - np.log(p_all).mean()) < 0.02


def test_answers_to_candidates_with_one_row_less_in_the_true_class_are_those_to_all_classes():
    X, y = clusters(60, 3)
    y[y % 4 == 1] -= 1  # classes of six rows beside those of three
    rows = np.arange(len(y))
    few, every = tables_of(60, X, y, rows, (1,))
    pool = Pooled(members=(1,)).fit(every, y, 60)
    pool.size_weight_ = 2.0
    p_few, p_all = (pool.without_the_case(pool.proba(table), [table], rows) for table in (few, every))
    assert few.candidates is not None
    of_truth = p_few[rows, few.candidates.truth]
    # Four stand for the last of them.
    np.testing.assert_allclose(of_truth, p_all[rows, y], rtol=0.1)
    assert not np.allclose(of_truth, pool.proba(every)[rows, y], rtol=0.1)


def test_cases_are_asked_fold_by_fold_and_come_back_in_their_order():
    X, y = clusters(90, 4)
    given = X, y, 90
    views = list(transformed_views([WHITENED_BESIDE], *given, search="auto", n_jobs=None, make=View))
    rows = np.random.default_rng(0).permutation(len(y))[:200]
    model = ModelBeside(GaussianClasses(), np.arange(90), "Gaussian").fit(X, y, y)
    [table], [log_p] = candidate_tables({"one": (views[0], 2)}, [model], rows, y, 90, (1,), Steps())
    every = views[0].past_cases(2, (1,), rows)
    np.testing.assert_array_equal(table.indices, every.indices)
    some = table.candidates
    assert some is not None
    np.testing.assert_array_equal(some.numbers[np.arange(200), some.truth], y[rows])
    np.testing.assert_array_equal(log_p[some.numbers >= 0], some.take(model.past_cases(rows))[some.numbers >= 0])
    assert "_of_fold" not in vars(views[0])


def small_classifier(metric: str = "euclidean") -> tuple[NeighborClassifier, np.ndarray]:
    X, y = clusters(MANY_CLASSES + 40)
    return NeighborClassifier(metric=metric).fit(X, y), X[:50] + 0.1


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["euclidean", "auto"])
def test_answers_do_not_depend_on_how_many_cases_or_queries_are_held_at_once(metric, monkeypatch):
    clf, Q = small_classifier(metric)
    p = clf.predict_proba(Q)
    monkeypatch.setattr(many_classes, "PAIRS_AT_ONCE", 37 * MANY_CLASSES)
    monkeypatch.setattr(model, "PAIRS_AT_ONCE", 7 * MANY_CLASSES)
    again, _ = small_classifier(metric)
    np.testing.assert_array_equal(again.predict_proba(Q), p)
    np.testing.assert_array_equal(again.predict(Q), clf.classes_[p.argmax(axis=1)])
    np.testing.assert_allclose(again.model_.posterior._all_weights, clf.model_.posterior._all_weights, rtol=0)


@pytest.mark.slow
def test_a_classifier_of_very_many_classes_answers_past_cases_and_files_as_ever():
    clf, Q = small_classifier()
    assert clf.model_.posterior.model_weights_.size  # a model is pooled, whose copies answer past cases
    opened = saved_and_opened(clf)
    np.testing.assert_array_equal(opened.predict_proba(Q), clf.predict_proba(Q))
    p = clf.leave_one_out_proba()
    np.testing.assert_array_equal(opened.leave_one_out_proba(), p)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert clf.explain(Q[:2])[0].record is not None
    # What was chosen by candidates is as good as all classes say.
    y = clf.labels_
    of_truth = np.log(p[np.arange(len(y)), y]).mean()
    assert abs(of_truth - clf.choices_.chosen.log_posterior) < 0.1


def peak_of_fit(n_classes: int) -> int:
    X, y = clusters(n_classes)
    tracemalloc.start()
    try:
        NeighborClassifier().fit(X, y).predict_proba(X[:100])
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_twice_as_many_classes_take_no_more_than_twice_the_memory():
    """A table of all classes of 2,000 cases alone would take 64 MB in each of the two views."""
    small_classifier()  # whatever is loaded once
    few, many = peak_of_fit(1000), peak_of_fit(2000)
    assert many < 60 << 20
    assert many < 2 * few


@given(seed=st.integers(0, 30), n_columns=st.integers(1, 9), scale=st.sampled_from([1.0, 1e30]))
@settings(max_examples=20, deadline=None)
def test_many_gaussians_are_the_densities_of_few(seed, n_columns, scale):
    """Classes of one row, of fewer rows than columns, and of more."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(30), rng.integers(0, 12, 90)])
    X = rng.normal(size=(len(y), n_columns)) + rng.normal(size=(30, n_columns))[y]
    p = []
    for most in (29, 30):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(gaussian_classes, "MANY_CLASSES", most)
            p.append(GaussianClasses().fit(scale * X, y).predict_proba(scale * (X + 0.1)))
    np.testing.assert_allclose(*p, rtol=1e-9, atol=1e-15)
