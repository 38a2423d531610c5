"""Validation rows are the past cases: asked of the training rows alone; then they vote."""

import numpy as np
import pytest

import nearsay as ns
from nearsay.errors import InputError
from nearsay.posterior import Proportional
from tests.saving import saved_and_opened


def shifted(n, seed, shift=0.0):
    """Two classes that overlap, and more where they are shifted."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return rng.normal(size=(n, 3)) + (1.5 - shift) * y[:, None], np.array(["no", "yes"])[y]


TRAIN, FRESH = shifted(120, 0), shifted(40, 1, shift=1.0)
HOW = {}, {"validation": FRESH}


@pytest.mark.parametrize("options", [pytest.param({}, marks=pytest.mark.slow), {"posterior": "pooled"}])
def test_validation_rows_are_asked_about_all_training_rows_and_no_other(options):
    clf = ns.NeighborClassifier(**options).fit(*TRAIN, validation=FRESH)
    fresh = np.arange(120, 160)
    table = clf.model_.leave_one_out(fresh)
    view = clf.model_.views.views[0]
    if view.transform is None:
        expected = ns.NeighborIndex(view.distance).fit(TRAIN[0]).kneighbors(FRESH[0], table.n_neighbors)[1]
        np.testing.assert_array_equal(table.indices, expected)
    assert (table.indices < 120).all()
    assert clf.validation_proba().shape == (40, 2)


def test_votes_about_validation_rows_are_those_of_a_classifier_without_them():
    votes = ns.NeighborClassifier(5, posterior=Proportional())
    alone = ns.NeighborClassifier(5, posterior=Proportional()).fit(*TRAIN)
    votes.fit(*TRAIN, validation=FRESH)
    np.testing.assert_array_equal(votes.validation_proba(), alone.predict_proba(FRESH[0]))
    np.testing.assert_array_equal(votes.neighbors(FRESH[0]).indices[:, 0], np.arange(120, 160))  # now they vote


@pytest.mark.parametrize("posterior", ["weighted", "dist&votesplit", "proportional"])
def test_records_and_novelty_are_those_of_validation_rows(posterior):
    clf = ns.NeighborClassifier(5, posterior=posterior).fit(*TRAIN, validation=FRESH)
    records = [evidence.record["cases"] for evidence in clf.explain(FRESH[0])]
    assert 0 < max(records) <= 40
    assert sorted(clf.model_.past.sample()) == list(range(120, 160))


def test_weights_are_learned_from_validation_rows():
    """Training rows promise more than rows like these get."""
    X, y = shifted(2000, 2, shift=1.0)
    truth = (y == "yes").astype(int)

    def log_loss(clf):
        return -np.log(clf.predict_proba(X)[np.arange(len(y)), truth]).mean()

    of_training, of_fresh = (ns.NeighborClassifier(posterior="pooled").fit(*TRAIN, **how) for how in HOW)
    assert log_loss(of_fresh) < log_loss(of_training)


@pytest.mark.parametrize("groups", [None, "auto", np.repeat(np.arange(60), 2)])
def test_promises_are_read_from_validation_rows(groups):
    hedged = ns.HedgedClassifier(ns.NeighborClassifier(5, posterior="weighted"), accuracy=0.8)
    hedged.fit(*TRAIN, groups=groups, validation=FRESH)
    assert hedged.n_calibration_ == 40
    sets = ns.ConformalClassifier(ns.NeighborClassifier(5, posterior="weighted"), 0.8).fit(*TRAIN, validation=FRESH)
    assert sets.n_calibration_ == 40


def test_any_classifier_is_calibrated_on_validation_rows():
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression().fit(*TRAIN)
    by_hand = ns.HedgedClassifier(fitted, accuracy=0.8, cv="prefit").fit(*FRESH)
    hedged = ns.HedgedClassifier(LogisticRegression(), accuracy=0.8).fit(*TRAIN, validation=FRESH)
    assert hedged.settings_.tolist() == by_hand.settings_.tolist()


def test_fused_groups_of_columns_learn_from_validation_rows():
    fused = ns.FusedClassifier({"left": [0], "right": [1, 2]}, ns.NeighborClassifier(5, posterior="proportional"))
    fused.fit(*TRAIN, validation=FRESH)
    alone = ns.FusedClassifier({"left": [0], "right": [1, 2]}, ns.NeighborClassifier(5, posterior="proportional"))
    np.testing.assert_allclose(fused.validation_proba(), alone.fit(*TRAIN).predict_proba(FRESH[0]))


def test_a_table_with_words_takes_validation_rows():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pandas.DataFrame({"plan": rng.choice(["free", "paid"], 80), "age": rng.normal(size=80)})
    label = np.where(table["plan"] == "paid", "stays", "goes")
    clf = ns.NeighborClassifier(3, posterior="proportional")
    clf.fit(table[:60], label[:60], validation=(table[60:], label[60:]))
    assert clf.validation_proba().shape == (20, 2)
    assert clf.explain(table[60:61])[0].neighbors[0] == 60
    assert clf.explain(table[60:61])[0].compared[0].startswith("same plan")


def test_weights_and_files_keep_validation_rows():
    weight = np.arange(120) % 3
    clf = ns.NeighborClassifier(5, posterior="weighted").fit(*TRAIN, sample_weight=weight, validation=FRESH)
    assert (clf.groups_[120:] == -1).all()
    again = saved_and_opened(clf)
    np.testing.assert_array_equal(again.validation_proba(), clf.validation_proba())
    assert again.groups_.tolist() == clf.groups_.tolist()


def test_neither_order_of_rows_makes_a_difference():
    rng = np.random.default_rng(3)
    pool = ns.NeighborClassifier(posterior="pooled")
    one = pool.fit(*TRAIN, validation=FRESH).predict_proba(FRESH[0] + 0.1)
    mixed, fresh = rng.permutation(120), rng.permutation(40)
    other = pool.fit(TRAIN[0][mixed], TRAIN[1][mixed], validation=(FRESH[0][fresh], FRESH[1][fresh]))
    np.testing.assert_allclose(other.predict_proba(FRESH[0] + 0.1), one, atol=1e-9)


def test_rows_of_weight_0_are_as_if_not_given_beside_validation_rows():
    weight = np.where(np.arange(120) % 3, 1.0 + np.arange(120) % 2, 0.0)
    kept = np.flatnonzero(weight)
    some = ns.NeighborClassifier(5, posterior="weighted").fit(*TRAIN, sample_weight=weight, validation=FRESH)
    whole = ns.NeighborClassifier(5, posterior="weighted")
    whole.fit(TRAIN[0][kept], TRAIN[1][kept], sample_weight=weight[kept], validation=FRESH)
    np.testing.assert_allclose(some.predict_proba(FRESH[0] + 0.1), whole.predict_proba(FRESH[0] + 0.1), atol=1e-12)


def test_validation_rows_that_cannot_be_used_are_refused():
    with pytest.raises(InputError, match=r"validation must be \(rows, labels\)"):
        ns.NeighborClassifier().fit(*TRAIN, validation=FRESH[0])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        ns.NeighborClassifier().fit(*TRAIN, validation=(FRESH[0], FRESH[1][:-1]))
    with pytest.raises(ValueError, match="features"):
        ns.NeighborClassifier().fit(*TRAIN, validation=(FRESH[0][:, :2], FRESH[1]))
    by_distances = ns.NeighborClassifier(metric="precomputed")
    with pytest.raises(InputError, match="takes no validation rows"):
        by_distances.fit(np.zeros((4, 4)), [0, 1, 0, 1], validation=(np.zeros((1, 4)), [0]))
    with pytest.raises(InputError, match="No validation rows were given"):
        ns.NeighborClassifier(3, posterior="proportional").fit(*TRAIN).validation_proba()
    with pytest.raises(InputError, match="cv must be None"):
        ns.HedgedClassifier(ns.NeighborClassifier(3), cv=3).fit(*TRAIN, validation=FRESH)
