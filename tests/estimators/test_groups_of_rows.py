"""Rows of one group are no pairs, targets, impostors, triplets, preferences or past cases of each other."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn import config_context
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline

import nearsay as ns
from nearsay.annotate.annotator import KeywordAnnotator
from nearsay.annotate.scorers.ml_knn import MLkNN
from nearsay.errors import InputError
from nearsay.learn.boost_metric import BoostMetric
from nearsay.learn.constraints import near_pairs, sample_pairs
from nearsay.learn.itml import ITML
from nearsay.learn.lmnn.lmnn import LMNN
from nearsay.learn.lmnn.loss import LMNNLoss
from nearsay.learn.lmnn.targets import target_neighbors
from nearsay.learn.preferences import draw_preferences
from nearsay.learn.rank_boost import RankBoostNeighbors
from nearsay.learn.triplets import near_triplets
from nearsay.learn.tuning import held_out_rows, tune_metric
from nearsay.neighbors.other_groups import nearest_among, others
from nearsay.search.shards import ShardedRows
from tests.reference import groups as reference

LEARNERS = {
    "ITML": ITML(max_iter=5),
    "LMNN": LMNN(max_iter=3),
    "BoostMetric": BoostMetric(max_iter=3),
    "RankBoostNeighbors": RankBoostNeighbors(max_iter=3),
    "KeywordAnnotator": KeywordAnnotator("nearest"),
    "MLkNN": MLkNN(3),
}


def is_about_keywords(learner):
    return not hasattr(learner, "transform")


@st.composite
def grouped(draw, least=2):
    n = draw(st.integers(least, 14))
    X = np.array(draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=n, max_size=n)), float)
    labels = np.array([0, 1, *draw(st.lists(st.integers(0, 1), min_size=n - 2, max_size=n - 2))])
    groups = np.array(draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)))
    return X, labels, groups


def writers(n_writers=8, each=4, seed=0):
    """Rows of eight writers; what tells two classes apart lies beside what tells writers apart."""
    random = np.random.default_rng(seed)
    y = np.tile([0, 1], n_writers * each // 2)
    group = np.repeat(np.arange(n_writers), each)
    X = random.normal(size=(len(y), 4)) * 0.3
    X[:, 0] += y
    X[:, 1] += 3 * random.normal(size=n_writers)[group]
    return X, y, group


@given(case=grouped(), k=st.integers(1, 5))
def test_neighbors_of_other_groups_are_those_of_a_loop(case, k):
    X, labels, groups = case
    some = labels == 0
    among = nearest_among(X[some], X[~some], k, groups[~some], groups[some])
    expected = reference.nearest_of_other_groups(X[some], X[~some], k, groups[~some], groups[some])
    assert_array_equal(among, expected[:, : among.shape[1]])
    assert (expected[:, among.shape[1] :] < 0).all()
    every = others(X, k, groups)
    assert_array_equal(every, reference.nearest_of_other_groups(X, X, k, groups, groups)[:, : every.shape[1]])


@given(case=grouped(), n_pairs=st.integers(1, 60), seed=st.integers(0, 3))
def test_no_pair_is_of_one_group_and_all_others_can_be_drawn(case, n_pairs, seed):
    X, labels, groups = case
    for pairs in (
        sample_pairs(labels, n_pairs, np.random.RandomState(seed), groups),
        near_pairs(X, labels, n_pairs, 3, np.random.RandomState(seed), groups),
    ):
        assert (groups[pairs.first] != groups[pairs.second]).all()
        assert_array_equal(pairs.similar, labels[pairs.first] == labels[pairs.second])
    every = sample_pairs(labels, 1000, np.random.RandomState(seed), groups)
    apart = {(a, b) for a in range(len(X)) for b in range(a + 1, len(X)) if groups[a] != groups[b]}
    assert set(zip(every.first.tolist(), every.second.tolist(), strict=True)) == apart
    assert len(every.first) == len(apart)


@given(case=grouped(), n=st.integers(1, 40))
def test_triplets_are_of_other_groups_than_their_anchor(case, n):
    X, labels, groups = case
    triplets = near_triplets(X, labels, n, (2, 3), np.random.RandomState(0), groups)
    same, other = others(X, len(X), groups), groups[triplets.anchor]
    assert (groups[triplets.same] != other).all()
    assert (groups[triplets.other] != other).all()
    for anchor, row in zip(triplets.anchor, triplets.same, strict=True):
        assert row in [near for near in same[anchor] if near >= 0 and labels[near] == labels[anchor]][:2]


@given(case=grouped(), push=st.sampled_from([0.25, 1.0]))
def test_the_loss_of_lmnn_has_no_targets_and_impostors_of_the_own_group(case, push):
    X, labels, groups = case
    targets = target_neighbors(X, labels, 2, groups)
    for row, near in enumerate(targets):
        allowed = [i for i in range(len(X)) if labels[i] == labels[row] and groups[i] != groups[row]]
        allowed.sort(key=lambda i: (((X[i] - X[row]) ** 2).sum(), i))
        assert near[near >= 0].tolist() == allowed[:2]
    loss = LMNNLoss(X, labels, targets, push=push, margins=np.ones((2, 2)), groups=groups)
    expected = reference.hinge_loss(X, labels, targets, groups, push, 1.0)
    assert loss(np.eye(2))[0] == pytest.approx(expected, abs=1e-9)


@given(case=grouped(4))
def test_preferences_leave_out_the_group_of_their_row(case):
    X, labels, groups = case
    Y = csr_array(np.column_stack([labels, X[:, 0] > 1, X[:, 1] > 1]).astype(int))
    drawn = draw_preferences(Y, 20, groups=groups)
    assert (groups[drawn.query] != groups[drawn.better]).all()
    assert (groups[drawn.query] != groups[drawn.worse]).all()


def test_ranks_do_not_count_rows_of_the_own_group():
    X, y, group = writers()
    grouped = RankBoostNeighbors(max_iter=0, n_pairs=10)
    Y = np.column_stack([y, 1 - y])
    ranks = {}

    def watched(preferences, order, groups):
        ranks["preferences"] = order[np.stack([preferences.query, preferences.better])]
        ranks["better"], worse = RankBoostNeighbors._ranks(grouped, preferences, order, groups)
        return ranks["better"], worse

    grouped._ranks = watched
    grouped.fit(X, Y, groups=group)
    for query, row, rank in zip(*ranks["preferences"], ranks["better"][0], strict=True):
        far = ((X - X[query]) ** 2).sum(axis=1)
        assert rank == 1 + np.count_nonzero((far < far[row]) & (group != group[query]))


@given(case=grouped(), share=st.sampled_from([0.2, 0.5, 0.9]))
def test_whole_groups_are_held_out_and_every_class_stays(case, share):
    _, labels, groups = case
    held_out = held_out_rows(labels, share, np.random.RandomState(0), groups)
    assert not set(groups[held_out]) & set(groups[~held_out])
    assert set(labels[~held_out]) == set(labels)
    assert held_out.sum() <= share * len(labels)


def test_tuning_holds_out_groups_and_hands_them_to_the_learner():
    X, y, group = writers()
    given = []

    class Watching(LMNN):
        def fit(self, X, y, groups=None):
            given.append(None if groups is None else len(set(np.asarray(groups).tolist())))
            return super().fit(X, y, groups)

    Watching.__init__ = LMNN.__init__
    tune_metric(Watching(), X, y, {"n_neighbors": [1, 2]}, groups=group, random_state=0, n_neighbors=3)
    assert given[:2] == [6, 6]  # a third of eight writers, and no more, are held out
    given.clear()
    tune_metric(Watching(), X, y, {"n_neighbors": [1]}, random_state=0, n_neighbors=3)
    assert given[0] is None


def test_past_votes_for_keywords_are_those_of_other_groups():
    X, y, group = writers()
    Y = np.column_stack([y, 1 - y])
    record = MLkNN(3).fit(X, Y, groups=group).record_
    near = reference.nearest_of_other_groups(X, X, 3, group, group)
    votes = Y[near].sum(axis=1)
    expected = [np.bincount(votes[Y[:, word] == 1, word], minlength=4) for word in range(2)]
    assert_array_equal(record.has, expected)


@pytest.mark.slow
@pytest.mark.parametrize("neighbors", ["nearest", "auto"])
@pytest.mark.parametrize("cv", [None, 3])
def test_keywords_that_a_group_shares_make_no_past_case_sure(neighbors, cv):
    random = np.random.default_rng(0)
    album = np.repeat(np.arange(60), 4)
    X = random.normal(size=(60, 3))[album] + 0.01 * random.normal(size=(240, 3))
    Y = (random.random((60, 2)) < 0.5)[album].astype(int)  # drawn by lot for each album
    alone = KeywordAnnotator(neighbors, cv=cv, n_neighbors=5).fit(X, Y)
    grouped = KeywordAnnotator(neighbors, cv=cv, n_neighbors=5).fit(X, Y, groups=album)

    def loss(annotator):
        p, truth = annotator.held_out_proba_, Y[annotator.held_out_rows_]
        return -np.log(np.where(truth == 1, p, 1 - p)).mean()

    assert loss(alone) < 0.35
    assert loss(grouped) > 0.6
    fresh, words = random.normal(size=(200, 3)), random.random((200, 2)) < 0.5
    p = grouped.predict_proba(fresh)
    assert -np.log(np.where(words, p, 1 - p)).mean() < 0.85
    p = alone.predict_proba(fresh)
    assert -np.log(np.where(words, p, 1 - p)).mean() > 1.0


def test_names_of_groups_make_no_difference():
    X, y, group = writers()
    names = np.array([f"writer {9 - number}" for number in group])
    for learner in LEARNERS.values():
        Y = np.column_stack([y, 1 - y]) if is_about_keywords(learner) else y
        fitted = [type(learner)(**learner.get_params()).fit(X, Y, groups=each) for each in (group, names.tolist())]
        one, other = (
            each.transform(X)
            if hasattr(each, "transform")
            else each.neighbors(X, 3).distances
            if isinstance(each, RankBoostNeighbors)
            else each.predict_proba(X)
            for each in fitted
        )
        assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("name", LEARNERS)
def test_groups_are_checked(name):
    X, y, _ = writers()
    learner = LEARNERS[name]
    Y = np.column_stack([y, 1 - y]) if is_about_keywords(learner) else y
    with pytest.raises(InputError, match="groups holds 3 groups, but X has 32 rows"):
        learner.fit(X, Y, groups=[1, 2, 3])
    with pytest.raises(InputError, match="All 32 rows are of one group, 'ann'"):
        learner.fit(X, Y, groups=["ann"] * 32)


@pytest.mark.parametrize(
    "around", [ns.HedgedClassifier, partial(ns.ConformalClassifier, coverage=0.5)], ids=["hedged", "conformal"]
)
def test_promises_about_rows_in_shards_leave_out_their_groups_as_in_memory(around, tmp_path):
    X, y, group = writers()
    y[group == 0] = 2  # which nobody else writes
    np.save(tmp_path / "0.npy", X[:10])
    np.save(tmp_path / "1.npy", X[10:])
    votes = ns.NeighborClassifier(3, posterior="weighted")
    some = around(ns.ShardedClassifier(votes)).fit(tmp_path, y, groups=group)
    whole = around(votes).fit(X, y, groups=group)
    without = around(votes).fit(X, y)
    learned = "settings_" if around is ns.HedgedClassifier else "thresholds_"
    assert str(getattr(some, learned)) == str(getattr(whole, learned)) != str(getattr(without, learned))
    assert some.n_calibration_ == whole.n_calibration_ == len(X)
    unseen = [getattr(fitted, "unseen_class_rate_", 0) for fitted in (some, whole, without)]
    assert unseen == ([1 / 8, 1 / 8, 0] if around is not ns.HedgedClassifier else [0, 0, 0])


def test_a_fitted_classifier_is_calibrated_on_groups_in_shards_as_in_memory(tmp_path):
    X, y, group = writers(16)
    votes = ns.NeighborClassifier(3, posterior="weighted").fit(*writers(seed=1)[:2])
    np.save(tmp_path / "0.npy", X)
    rows = ShardedRows.open(tmp_path)
    some, whole, without = (
        ns.HedgedClassifier(votes, cv="prefit", accuracy=0.8, confidence=0.9).fit(given, y, groups=groups)
        for given, groups in ((rows, group), (X, group), (X, None))
    )
    assert str(some.settings_) == str(whole.settings_) != str(without.settings_)


@pytest.mark.parametrize(
    "classifier",
    [
        ns.NeighborClassifier(3, posterior="weighted"),
        ns.HedgedClassifier(ns.NeighborClassifier(3, posterior="weighted")),
        ns.ConformalClassifier(ns.NeighborClassifier(3, posterior="weighted"), 0.5),
        make_pipeline(LMNN(max_iter=2), ns.NeighborClassifier(3, posterior="weighted")),
    ],
)
def test_groups_are_routed_as_metadata(classifier):
    X, y, group = writers()
    with config_context(enable_metadata_routing=True):
        for each in dict(classifier.steps).values() if hasattr(classifier, "steps") else [classifier]:
            each.set_fit_request(groups=True)
        scores = cross_val_score(classifier, X, y, cv=GroupKFold(4), params={"groups": group})
    assert len(scores) == 4
    assert np.isfinite(scores).all()
