"""Novelty: three signs measured by past cases, by class where asked; and twins, told apart whatever k is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor

import nearsay as ns
from nearsay.data.datasets import load_dataset
from nearsay.neighbors.index import NeighborIndex
from nearsay.posterior import past_cases
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.evidence import novelty as module
from nearsay.posterior.evidence.novelty import Novelty
from nearsay.posterior.methods.named import POSTERIORS
from nearsay.posterior.past_cases import PastCases
from tests.labeled import count_searches, labeled_rows, queries_for
from tests.reference import neighbors as reference
from tests.saving import saved_and_opened


def votes(k: int | str = 5, **options) -> NeighborClassifier:
    return NeighborClassifier(k, posterior="proportional", **options)


def blobs(n: int, seed: int, *, columns: int = 4, n_classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    return rng.normal(size=(n, columns)) + 3 * y[:, None], y


# ---------------------------------------------------------------- what it is


@settings(max_examples=40)
@given(data=labeled_rows(smallest=2), k=st.integers(1, 14), auto=st.booleans(), by_class=st.booleans())
def test_novelty_equals_the_loop(data, k, auto, by_class):
    X, y = data
    Q = queries_for(X)[:: 1 + len(X) // 5]
    clf = votes("auto" if auto else min(k, len(X))).fit(X, y)
    expected = reference.novelty(X.tolist(), y.tolist(), Q.tolist(), clf.n_neighbors_, by_class=by_class)
    assert clf.novelty(Q, by_class=by_class) == pytest.approx(expected, abs=1e-12)
    if not by_class:
        assert [one.novelty for one in clf.explain(Q)] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("k", [1, 2, 5, 6, 20])
@pytest.mark.parametrize("n_classes", [1, 2])
def test_novelty_by_class_equals_the_loop_where_classes_are_large_enough(k, n_classes):
    X, y = blobs(40, seed=k, n_classes=n_classes)
    Q = X[::7] + 0.4
    clf = votes(k).fit(X, y)
    expected = reference.novelty(X.tolist(), y.tolist(), Q.tolist(), k, by_class=True)
    assert clf.novelty(Q, by_class=True) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_novelty_of_further_rows_of_the_same_kind_is_spread_evenly(posterior):
    X, y = blobs(1000, seed=0)
    Q, _ = blobs(1000, seed=1)
    clf = NeighborClassifier(10, posterior=posterior).fit(X, y)
    for by_class in (False, True):
        found = clf.novelty(Q, by_class=by_class)
        assert np.quantile(found, [0.1, 0.5, 0.9]) == pytest.approx([0.1, 0.5, 0.9], abs=0.05)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("k", [1, 5, 30])
def test_it_is_small_inside_a_cluster_near_one_far_from_everything_and_free_of_units(k, scale):
    X, y = blobs(500, seed=1, columns=2, n_classes=1)
    clf = votes(k).fit(scale * X, y)
    middle, far = clf.explain(scale * np.array([[0.0, 0.0], [30.0, 0.0]]))
    assert middle.novelty < 0.5
    assert far.novelty > 0.999
    assert "Unlike what is known here." in far.text
    assert "Unlike" not in middle.text


def test_what_is_more_unusual_than_every_row_can_still_be_put_in_order():
    X, y = blobs(200, seed=16, columns=2, n_classes=1)
    found = votes(5).fit(X, y).novelty([[x, 0.0] for x in (4.0, 6.0, 8.0, 12.0)])
    assert (np.diff(found) > 0).all()
    assert 1 - 1 / 400 <= found[1] < 1


def test_each_sign_alone_is_seen():
    rng = np.random.default_rng(2)
    dense, wide = rng.normal(size=(300, 2)) * 0.1, rng.normal(size=(300, 2)) * 3 + 30
    clf = votes(10).fit(np.vstack([dense, wide]), [0] * 300 + [1] * 300)
    beside_the_dense, within_the_wide = clf.novelty([[0.8, 0.0], [30.5, 30.0]])
    assert beside_the_dense > 0.95 > within_the_wide
    # Two classes overlap on the right; there the vote is split, but distances are those of the left.
    X = rng.random((2000, 2)) * [2.0, 1.0]
    clf = votes(20).fit(X, np.where(X[:, 0] < 1, 0, rng.integers(0, 2, 2000)))
    left, right = clf.novelty(rng.random((200, 2))), clf.novelty(rng.random((200, 2)) + np.array([1.0, 0.0]))
    assert left.mean() < 0.4 < 0.6 < right.mean()


def test_a_narrow_class_has_its_own_idea_of_what_is_unusual():
    rng = np.random.default_rng(3)
    X = np.vstack([rng.normal(size=(300, 3)) * 0.1, rng.normal(size=(300, 3)) * 5 + 100])
    clf = votes(10).fit(X, [0] * 300 + [1] * 300)
    query = [[0.45, 0.0, 0.0]]
    assert clf.novelty(query, by_class=True)[0] >= clf.novelty(query)[0]
    assert clf.novelty(query, by_class=True)[0] > 0.99


def test_rows_asked_again_are_as_novel_as_the_collection_where_all_are_equal():
    clf = votes(2).fit(np.ones((6, 2)), [0] * 6)
    assert clf.explain(np.ones((1, 2)))[0].novelty == 0.5


def test_a_query_without_neighbors_is_as_novel_as_can_be_and_one_row_says_nothing():
    index = NeighborIndex().fit([[0.0], [1.0], [2.0], [4.0]])
    novelty = Novelty(PastCases(index.with_labels([0, 0, 1, 1])), k=3)
    nobody = ns.NeighborTable(np.full((1, 3), -1), np.full((1, 3), np.inf))
    assert novelty.of(nobody, np.ones(1), past_sureness=lambda: np.ones(4)).tolist() == [1.0]
    assert novelty.twins(nobody).tolist() == [-1]
    alone = votes(1).fit([[0.0]], [0])
    assert np.isnan(alone.novelty([[1.0], [0.0]])).all()
    assert [one.twin for one in alone.explain([[1.0], [0.0]])] == [None, 0]


def test_past_cases_for_which_no_neighbor_was_found_are_left_out():
    X, y = blobs(60, seed=17)
    labeled = NeighborIndex().fit(X).with_labels(y)
    past, whole = PastCases(labeled), PastCases(labeled)
    table = past.sampled(6)
    table.indices[3], table.distances[3] = -1, np.inf
    asked = labeled.query(X + 0.2, 6)
    sure = np.linspace(0.5, 0.9, 60)
    found, expected = (Novelty(one, 6).of(asked, sure, past_sureness=lambda: sure) for one in (past, whole))
    np.testing.assert_allclose(found, expected, atol=0.1)


# ---------------------------------------------------------------- how good it is


@pytest.mark.parametrize("posterior", ["proportional", "pooled"])
def test_held_out_classes_stand_out_more_than_by_local_outlier_factor(posterior):
    rows = load_dataset("digits")
    X, y = rows.X, np.asarray(rows.y)
    gains = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        new = np.isin(y, rng.permutation(10)[:3])
        known = rng.permutation(np.flatnonzero(~new))
        train, test = known[:800], np.r_[known[800:], np.flatnonzero(new)]
        clf = NeighborClassifier(10, posterior=posterior).fit(X[train], y[train])
        outliers = LocalOutlierFactor(n_neighbors=5, novelty=True).fit(X[train])
        ours, theirs = clf.novelty(X[test]), -outliers.score_samples(X[test])
        gains.append(roc_auc_score(new[test], ours) - roc_auc_score(new[test], theirs))
    assert np.mean(gains) > 0


# ---------------------------------------------------------------- twins


@pytest.mark.parametrize("columns", [2, 8, 40])
@pytest.mark.parametrize("k", [1, 5, 50])
def test_near_copies_are_twins_of_the_row_they_copy_and_further_rows_are_nobodys(k, columns):
    X, y = blobs(800, seed=4, columns=columns)
    clf = votes(k).fit(X, y)
    shift = 1e-3 * np.median(clf.kneighbors(n_neighbors=1)[0])
    rng = np.random.default_rng(5)
    for copies in (X[:50], X[:50] + shift * rng.normal(size=(50, columns)) / np.sqrt(columns)):
        found = clf.explain(copies)
        assert [one.twin for one in found] == list(range(50))
        assert all(f"A twin of row {row}: " in one.text for row, one in enumerate(found))
    fresh, _ = blobs(2000, seed=6, columns=columns)
    assert np.mean([one.twin is not None for one in clf.explain(fresh)]) < 0.005


@pytest.mark.parametrize("dimensions", [1, 2, 3, 10])
def test_rows_scattered_evenly_are_taken_for_twins_once_in_800_times_at_most(dimensions):
    rng = np.random.default_rng(7)
    X = rng.random((3000, dimensions))
    clf = votes(5).fit(X, np.zeros(3000, int))
    twins = clf.model_.novelty.twins(clf.neighbors(rng.random((20_000, dimensions))))
    assert np.mean(twins >= 0) < 2 / 800


@pytest.mark.parametrize("share", [0.02, 0.1])
def test_twins_within_the_collection_do_not_hide_another(share):
    X, y = blobs(1000, seed=8, columns=6)
    doubled = int(share * 1000)
    X[:doubled] = X[-doubled:] + 1e-4
    assert votes(3).fit(X, y).explain(X[500:501] + 1e-4)[0].twin == 500


# ---------------------------------------------------------------- what it costs


def test_it_searches_the_collections_own_rows_once_ever(monkeypatch):
    searches = count_searches(monkeypatch)
    X, y = blobs(80, seed=9)
    clf = votes().fit(X, y)
    clf.novelty(X[:9])
    assert searches == {"query": 1, "leave_one_out": 1}
    clf.novelty(X, by_class=True)
    clf.explain(X)
    assert searches == {"query": 3, "leave_one_out": 1}


LARGE = past_cases.SAMPLE_ABOVE + 1


def test_a_large_collection_is_sampled_by_seed_and_the_sample_searched_in_all_of_it():
    rng = np.random.default_rng(10)
    labeled = NeighborIndex().fit(rng.integers(0, 40, (LARGE, 2)).astype(float)).with_labels(np.zeros(LARGE, int))
    everyone = labeled.leave_one_out(3)
    for seed in (0, 1):
        past = PastCases(labeled, seed)
        assert len(set(past.sample().tolist())) == past_cases.SAMPLE_SIZE
        np.testing.assert_array_equal(past.sampled(3).indices, everyone[past.sample()].indices)
    assert (PastCases(labeled, 0).sample() != PastCases(labeled, 1).sample()).any()


def test_in_a_large_collection_a_row_is_searched_when_it_is_first_met(monkeypatch):
    X, y = blobs(LARGE, seed=13)
    clf = votes(6).fit(X, y)
    first = clf.novelty(X[:5])
    searches = count_searches(monkeypatch)
    np.testing.assert_array_equal(clf.novelty(X[:5]), first)
    assert searches == {"query": 1}
    clf.novelty(X[200:205])
    assert searches == {"query": 2, "leave_one_out": 1}


def test_the_pass_that_chooses_k_remembers_the_same_rows():
    rng = np.random.default_rng(3)
    X, y = rng.integers(0, 40, (LARGE, 2)).astype(float), rng.integers(0, 2, LARGE)
    chosen = votes("auto").fit(X, y)
    fixed = votes(chosen.n_neighbors_).fit(X, y)

    def told(clf: NeighborClassifier) -> list[dict]:
        """All but the record: where k was chosen, it is that of a k chosen without each case."""
        return [{**each.to_dict(), "record": None, "text": None} for each in clf.explain(X[::40])]

    assert told(chosen) == told(fixed)


@pytest.mark.parametrize("asked_before", [False, True])
def test_a_saved_classifier_says_the_same(asked_before):
    X, y = blobs(90, seed=14)
    clf = NeighborClassifier(5, posterior="pooled").fit(X, y)
    if asked_before:
        clf.novelty(X[:3])
    opened = saved_and_opened(clf)
    np.testing.assert_array_equal(opened.novelty(X + 0.1), clf.novelty(X + 0.1))
    assert opened.explain(X[:2])[0].to_dict() == clf.explain(X[:2])[0].to_dict()


def test_few_past_cases_of_a_class_are_not_asked_alone():
    X, y = blobs(200, seed=15)
    rare = np.flatnonzero(y == 2)[module.FEWEST_OF_CLASS - 1 :]
    X, y = np.delete(X, rare, axis=0), np.delete(y, rare)
    clf = votes(3).fit(X, y)
    Q = X[y == 2] + 0.1
    np.testing.assert_array_equal(clf.novelty(Q, by_class=True), clf.novelty(Q))
