"""Prediction sets: against a loop that counts, coverage as promised, and good manners in scikit-learn's company."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, ShuffleSplit, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from nearsay.data.content_order import content_order
from nearsay.decision.calibration import hold_out
from nearsay.decision.conformal import ConformalClassifier
from nearsay.decision.sets.class_scores import SCORES, aps_scores, class_thresholds, rows_needed, threshold
from nearsay.errors import InputError
from nearsay.posterior.classifier import NeighborClassifier
from tests.decision.samples import Sayer, Spoken, votes
from tests.public import declared

# scikit-learn speaks of the least populated class, of folds of few rows.
pytestmark = pytest.mark.filterwarnings(
    "error", "ignore:A coverage of .* takes at least", "ignore:The least populated class"
)

COVERAGES = st.sampled_from([0.05, 0.1, 0.3, 0.5, 0.55, 0.7, 0.8, 0.9, 0.95, 0.99])
# Eighths add up exactly, and there are few of them: ties everywhere.
PROBABILITIES = st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=1, max_size=25)


class Remembering(Spoken):
    """One that offers leave-one-out probabilities: those of the next row, to be told from its own."""

    def fit(self, X: Any, y: Any) -> Remembering:
        self.rows_ = np.asarray(X, float)
        return super().fit(X, y)

    def leave_one_out_proba(self) -> np.ndarray:
        return np.roll(self.rows_, -1, axis=0)


class EquallyLikely(Spoken):
    """The classes it was fitted on, all equally likely."""

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))


def prefit(coverage: float, **how: Any) -> ConformalClassifier:
    """Around three classes whose probabilities are the rows themselves."""
    return ConformalClassifier(Sayer([0, 1, 2]), coverage, cv="prefit", **how)


def shares(counts: list[list[int]]) -> np.ndarray:
    return np.array(counts) / 8


def sets_by_loop(
    calibration: np.ndarray, labels: list[int], p: np.ndarray, coverage: float, score: str, per_class: bool
) -> list[list[bool]]:
    """A class is in the set unless too many calibration rows fit better than it does: no threshold, only counting."""

    def misfit(row: np.ndarray, label: int) -> float:
        return 1 - row[label] if score == "lac" else sum(other for other in row if other > row[label])

    sets = []
    for row in p:
        inside = []
        for label in range(p.shape[1]):
            others = [i for i, own in enumerate(labels) if own == label or not per_class]
            better = sum(misfit(calibration[i], labels[i]) < misfit(row, label) for i in others)
            # The new row would be number better + 1 of the n + 1; it is refused beyond the covered ones.
            inside.append(better < math.ceil((len(others) + 1) * Fraction(str(coverage))))
        sets.append(inside)
    return sets


# ---------------------------------------------------------------- scores, thresholds, sets


@settings(max_examples=60)
@given(
    counts=PROBABILITIES,
    asked=PROBABILITIES,
    labels=st.lists(st.integers(0, 2), min_size=25, max_size=25),
    coverage=COVERAGES,
    score=st.sampled_from(sorted(SCORES)),
    per_class=st.booleans(),
)
def test_sets_equal_those_of_the_loop_that_counts(counts, asked, labels, coverage, score, per_class):
    p, q, labels = shares(counts), shares(asked), labels[: len(counts)]
    sets = ConformalClassifier(
        Sayer([0, 1, 2]), coverage, conformity_score=score, per_class=per_class, cv="prefit"
    ).fit(p, labels)
    assert sets.predict_set(q).tolist() == sets_by_loop(p, labels, q, coverage, score, per_class)
    assert sets.n_calibration_ == len(labels)


@given(scores=st.lists(st.integers(0, 4), min_size=1, max_size=60), coverage=COVERAGES)
def test_the_threshold_is_the_smallest_score_that_enough_calibration_rows_keep_to(scores, coverage):
    scores = np.array(scores, float)
    wanted = Fraction(str(coverage)) * (len(scores) + 1)
    bound = threshold(scores, coverage)
    if bound == math.inf:
        assert wanted > len(scores)
        assert len(scores) < rows_needed(coverage)
    else:
        assert np.sum(scores <= bound) >= wanted
        assert np.sum(scores < bound) < wanted
        assert len(scores) >= rows_needed(coverage)


def test_a_coverage_is_taken_as_it_is_typed():
    # 0.55 in binary is a little more than 55 / 100, and would ask for row 56 of 99.
    assert threshold(np.arange(1.0, 100.0), 0.55) == 55.0


@given(scores=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=40), coverage=COVERAGES)
def test_the_threshold_of_a_class_is_that_of_its_own_rows(scores, coverage):
    values, labels = np.array(scores).T
    expected = [threshold(values[labels == number].astype(float), coverage) for number in range(5)]
    assert class_thresholds(values.astype(float), labels, 5, coverage).tolist() == expected


@given(counts=PROBABILITIES, order=st.permutations(range(3)), score=st.sampled_from(sorted(SCORES)))
def test_scores_do_not_depend_on_class_order_or_batch(counts, order, score):
    p = np.array(counts) / 7  # sums that round
    scores = SCORES[score](p)
    np.testing.assert_array_equal(SCORES[score](p[:, order]), scores[:, order])
    np.testing.assert_array_equal(np.concatenate([SCORES[score](row[None]) for row in p]), scores)


@given(counts=PROBABILITIES)
def test_the_most_probable_classes_are_in_every_adaptive_set(counts):
    p = shares(counts)
    assert (aps_scores(p)[p == p.max(axis=1, keepdims=True)] == 0).all()


@settings(max_examples=50)
@given(
    counts=PROBABILITIES,
    labels=st.lists(st.integers(0, 2), min_size=25, max_size=25),
    coverages=st.tuples(COVERAGES, COVERAGES),
    score=st.sampled_from(sorted(SCORES)),
    per_class=st.booleans(),
)
def test_a_larger_coverage_holds_the_sets_of_a_smaller_one_and_needs_no_fit(
    counts, labels, coverages, score, per_class
):
    p, labels = shares(counts), labels[: len(counts)]
    model = ConformalClassifier(
        Sayer([0, 1, 2]), min(coverages), conformity_score=score, per_class=per_class, cv="prefit"
    ).fit(p, labels)
    smaller = model.predict_set(p)
    larger = model.set_coverage(max(coverages)).predict_set(p)
    assert (larger >= smaller).all()
    again = ConformalClassifier(
        Sayer([0, 1, 2]), max(coverages), conformity_score=score, per_class=per_class, cv="prefit"
    ).fit(p, labels)
    np.testing.assert_array_equal(larger, again.predict_set(p))
    assert model.get_params()["coverage"] == max(coverages)


def test_labels_of_a_set_come_the_most_probable_first():
    names = ["ash", "elm", "oak"]
    model = ConformalClassifier(Sayer(names), 0.5, cv="prefit").fit([[0.5, 0.25, 0.25]] * 4, ["elm"] * 4)
    assert model.predict_set_labels([[0.3, 0.4, 0.3], [0.9, 0.1, 0.0], [0.2, 0.2, 0.6]]) == [
        ["elm", "ash", "oak"],
        ["ash"],
        ["oak"],
    ]


# ---------------------------------------------------------------- coverage


def three_clouds(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping classes of unequal size, so that the true class is often not the most probable one."""
    y = rng.choice(3, size=n, p=[0.6, 0.3, 0.1])
    return rng.normal(size=(n, 2)) + 1.3 * np.array([[0, 0], [1, 0], [0, 1]])[y], y


def covered(model: ConformalClassifier, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    return model.predict_set(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)]


@pytest.mark.slow
def test_the_mean_coverage_of_many_repetitions_is_what_was_asked_for():
    rng = np.random.default_rng(4)
    hits: dict[str, list[float]] = {score: [] for score in sorted(SCORES)}
    repetitions, fresh = 100, 100
    for _ in range(repetitions):
        X, y = three_clouds(rng, 150)
        asked = three_clouds(rng, fresh)
        for score, found in hits.items():
            model = ConformalClassifier(GaussianNB(), 0.8, conformity_score=score, cv="split").fit(X, y)
            found.append(covered(model, *asked).mean())
    for score, found in hits.items():
        # Three standard errors, from the repetitions themselves: rows of one repetition share a threshold.
        margin = 3 * np.std(found) / math.sqrt(repetitions)
        assert np.mean(found) >= 0.8 - margin, score
        assert np.mean(found) <= 0.8 + 1 / 31 + margin, score  # 30 rows or more calibrate, and scores do not tie


def test_with_per_class_every_class_is_covered_and_without_it_the_rare_one_is_not():
    rng = np.random.default_rng(5)
    hits: dict[bool, list[np.ndarray]] = {True: [], False: []}
    repetitions = 60
    for _ in range(repetitions):
        known = GaussianNB().fit(*three_clouds(rng, 120))
        X, y = three_clouds(rng, 300)
        asked, truth = three_clouds(rng, 400)
        for per_class, found in hits.items():
            inside = covered(ConformalClassifier(known, 0.8, per_class=per_class, cv="prefit").fit(X, y), asked, truth)
            found.append(np.bincount(truth, inside, minlength=3) / np.bincount(truth, minlength=3))
    for_each, over_all = np.mean(hits[True], axis=0), np.mean(hits[False], axis=0)
    margin = 3 * np.std(hits[True], axis=0) / math.sqrt(repetitions)
    assert (for_each >= 0.8 - margin).all()
    assert over_all[2] < 0.7


@pytest.mark.slow
@pytest.mark.parametrize(("cv", "score"), [(None, "aps"), (None, "lac"), (5, "raps")])
def test_left_out_rows_calibrate_nearly_as_well_as_rows_held_out(cv, score):
    rng = np.random.default_rng(6)
    hits = []
    for _ in range(25):
        X, y = three_clouds(rng, 150)
        model = ConformalClassifier(votes(7), 0.8, conformity_score=score, cv=cv).fit(X, y)
        assert model.n_calibration_ == 150
        hits.append(covered(model, *three_clouds(rng, 200)).mean())
    assert np.mean(hits) >= 0.8 - 3 * np.std(hits) / math.sqrt(len(hits))


# ---------------------------------------------------------------- where the calibration rows come from


def test_an_estimator_with_leave_one_out_probabilities_is_asked_for_them():
    p = shares([[8, 0, 0], [0, 8, 0], [0, 0, 8]] * 2)
    model = ConformalClassifier(Remembering(), 0.6).fit(p, [2, 0, 1] * 2)  # row 1 is what row 0 gets, and so on
    assert model.thresholds_.tolist() == [1.0] * 3
    assert ConformalClassifier(Remembering(), 0.6).fit(p, [1, 2, 0] * 2).thresholds_.tolist() == [0.0] * 3


@pytest.mark.parametrize("cv", ["split", None, 5])
def test_rows_alone_in_their_class_count_as_rows_of_unseen_classes(cv):
    rng = np.random.default_rng(12)
    X, y = three_clouds(rng, 90)
    y[::9] = np.arange(3, 13)  # one row in nine is alone in its class
    model = ConformalClassifier(NeighborClassifier(5, posterior="pooled"), 0.8, cv=cv).fit(X, y)
    assert model.unseen_class_rate_ == pytest.approx(1 / 9, abs=0.001 if cv != "split" else 0.5 / 18)
    assert model.n_calibration_ == (18 if cv == "split" else 90)
    assert len(model.classes_) == 13  # all stay known to the estimator
    assert np.isfinite(model.thresholds_).all()
    with pytest.warns(UserWarning, match=r"coverage of 0\.94 cannot be reached: about 11% of new rows") as told:
        model.set_coverage(0.94)
    assert told[0].filename == __file__
    assert model.predict_set(X).all()


def test_a_prefit_estimator_promises_for_rows_of_the_classes_it_knows():
    model = prefit(0.5).fit(shares([[8, 0, 0], [0, 8, 0]]), [0, 1])
    assert model.unseen_class_rate_ == 0
    assert np.isfinite(model.thresholds_).all()


def test_another_estimator_is_calibrated_on_a_fifth_that_it_is_not_fitted_on():
    rng = np.random.default_rng(7)
    X, y = three_clouds(rng, 100)
    model = ConformalClassifier(GaussianNB()).fit(X, y)
    train, held_out, _ = hold_out(y, content_order(X, y))
    assert model.n_calibration_ == len(held_out) == 20
    expected = GaussianNB().fit(X[train], y[train])
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))
    scores = 1 - expected.predict_proba(X[held_out])[np.arange(20), y[held_out]]
    assert (model.thresholds_ == threshold(scores, 0.9)).all()


@given(labels=st.lists(st.integers(0, 4), min_size=2, max_size=60))
def test_held_out_rows_are_a_fifth_of_every_class_and_leave_every_class_to_fit_on(labels):
    y = np.array(labels)
    counts = np.bincount(y, minlength=5)
    if (counts <= 1).all():
        with pytest.raises(InputError, match="none of the classes has two"):
            hold_out(y)
        return
    train, held_out, alone = hold_out(y)
    assert sorted([*train, *held_out]) == list(range(len(y)))
    assert (counts[y[alone]] == 1).all()
    assert abs(len(alone) - (counts == 1).sum() / 5) < 1
    assert np.isin(alone, train).all()
    held = np.bincount(y[held_out], minlength=5)
    assert (held[counts <= 1] == 0).all()
    assert (held < np.maximum(counts, 1)).all()
    assert (np.abs(held - counts / 5) < 1).all()
    assert held.sum() >= 1


def test_folds_are_asked_about_by_models_that_have_not_seen_them():
    rng = np.random.default_rng(8)
    X, y = three_clouds(rng, 60)
    folds = StratifiedKFold(4, shuffle=True, random_state=0)
    model = ConformalClassifier(GaussianNB(), cv=folds).fit(X, y)
    judges = [(GaussianNB().fit(X[train], y[train]), fold) for train, fold in folds.split(X, y)]
    scores = [1 - judge.predict_proba(X[fold])[np.arange(len(fold)), y[fold]] for judge, fold in judges]
    assert (model.thresholds_ == threshold(np.concatenate(scores), 0.9)).all()
    np.testing.assert_allclose(model.predict_proba(X), np.mean([judge.predict_proba(X) for judge, _ in judges], axis=0))
    assert (
        ConformalClassifier(GaussianNB(), cv=ShuffleSplit(2, test_size=5, random_state=0)).fit(X, y).n_calibration_
        == 10
    )


def test_a_class_that_a_fold_has_to_itself_gets_no_probability_there():
    X, y = np.arange(10.0)[:, None], np.array([0] * 9 + [1])
    model = ConformalClassifier(EquallyLikely(), 0.5, cv=ShuffleSplit(4, test_size=2, random_state=0))
    model.fit(X, y)
    assert model.predict_set(X).shape == (10, 2)


def test_a_prefit_estimator_is_neither_copied_nor_fitted():
    known = Sayer([0, 1, 2])
    model = ConformalClassifier(known, 0.5, cv="prefit").fit(shares([[8, 0, 0]] * 3), [0, 0, 0])
    assert model.estimator_ is known
    assert model.classes_.tolist() == [0, 1, 2]


def test_distances_as_a_matrix_are_cut_along_both_sides_for_folds():
    rng = np.random.default_rng(9)
    X, y = three_clouds(rng, 60)
    D = np.abs(X[:, None] - X[None]).sum(axis=2)
    by_matrix = ConformalClassifier(NeighborClassifier(3, metric="precomputed", posterior="proportional"), cv=3).fit(
        D, y
    )
    by_rows = ConformalClassifier(NeighborClassifier(3, metric="manhattan", posterior="proportional"), cv=3).fit(X, y)
    np.testing.assert_array_equal(by_matrix.predict_set(D), by_rows.predict_set(X))


# ---------------------------------------------------------------- words


def test_too_few_rows_are_said_and_every_set_is_full():
    p = shares([[8, 0, 0]] * 8)
    with pytest.warns(
        UserWarning, match=r"coverage of 0\.9 takes at least 9 calibration rows, but there are 8"
    ) as told:
        model = prefit(0.9).fit(p, [0] * 8)
    assert told[0].filename == __file__
    assert model.predict_set(p).all()
    with pytest.warns(UserWarning, match="takes at least 99") as told:
        model.set_coverage(0.99)
    assert told[0].filename == __file__


def test_classes_with_too_few_rows_are_named_with_their_counts():
    names = [f"c{number}" for number in range(8)]
    labels = ["c0"] * 3 + ["c1"] + ["c2"] * 2
    with pytest.warns(
        UserWarning,
        match=r"7 of 8 classes have fewer and are in every set: c1 \(1\), c2 \(2\), c3 \(0\), .* … 2 more\.",
    ):
        model = ConformalClassifier(Sayer(names), 0.75, per_class=True, cv="prefit").fit(np.eye(8)[:6], labels)
    assert np.isinf(model.thresholds_).tolist() == [False] + [True] * 7
    assert model.predict_set(np.eye(8)[:1])[0, 1:].all()


@pytest.mark.parametrize("coverage", [0, 1, 1.5, -0.1, 90, np.nan, "most", None, True])
def test_a_coverage_that_is_no_share_is_refused(coverage):
    with pytest.raises(InputError, match=r"between 0 and 1.* got"):
        ConformalClassifier(GaussianNB(), coverage).fit([[0.0], [1.0]], [0, 1])
    model = prefit(0.5).fit(shares([[8, 0, 0]]), [0])
    with pytest.raises(InputError, match=r"between 0 and 1.* got"):
        model.set_coverage(coverage)
    assert model.coverage == 0.5


@pytest.mark.parametrize("cv", ["leave-one-out", "", 1, 0, -3, True])
def test_an_unknown_way_to_calibrate_is_refused_with_the_known_ones(cv):
    with pytest.raises(InputError, match=r'None, "split", "prefit", a number of folds'):
        ConformalClassifier(GaussianNB(), cv=cv).fit([[0.0], [1.0]], [0, 1])


def test_bad_input_is_refused_with_words():
    X, y = np.arange(20.0)[:, None], np.arange(20) % 2
    with pytest.raises(InputError, match=r"Unknown conformity_score 'rasp'.*aps, lac"):
        ConformalClassifier(GaussianNB(), conformity_score="rasp").fit(X, y)
    with pytest.raises(InputError, match="RidgeClassifier has no predict_proba"):
        ConformalClassifier(RidgeClassifier()).fit(X, y)
    with pytest.raises(InputError, match="requires y"):
        ConformalClassifier(GaussianNB()).fit(X, None)
    with pytest.raises(InputError, match=r"The label 'c' of a calibration row is none of the 2 classes"):
        ConformalClassifier(Sayer(["a", "b"]), cv="prefit").fit([[1.0, 0.0]], ["c"])
    with pytest.raises(NotFittedError):
        ConformalClassifier(GaussianNB(), cv="prefit").fit(X, y)
    for method in ("predict", "predict_proba", "predict_set", "predict_set_labels"):
        with pytest.raises(NotFittedError):
            getattr(ConformalClassifier(GaussianNB()), method)(X)
    with pytest.raises(NotFittedError):
        ConformalClassifier(GaussianNB()).set_coverage(0.5)


# ---------------------------------------------------------------- scikit-learn


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [
        # Around neighbors they pass in tests/estimators.
        ConformalClassifier(LogisticRegression(), per_class=True, conformity_score="aps"),
    ],
    expected_failed_checks=declared,
)
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


def test_it_stands_at_the_end_of_a_pipeline_and_around_one_and_is_searched_over():
    rng = np.random.default_rng(10)
    X, y = three_clouds(rng, 90)
    inside = make_pipeline(StandardScaler(), ConformalClassifier(votes(5))).fit(X, y)
    assert inside[-1].predict_set(X).shape == (90, 3)
    around = ConformalClassifier(make_pipeline(StandardScaler(), votes(5))).fit(X, y)
    assert around.n_features_in_ == 2
    found = GridSearchCV(around, {"estimator__neighborclassifier__n_neighbors": [1, 5], "coverage": [0.8]}, cv=3)
    assert 0 < found.fit(X, y).best_score_ <= 1
    forest = ConformalClassifier(RandomForestClassifier(5, random_state=0)).fit(X, y)
    assert forest.score(X, y) == np.mean(forest.predict(X) == y)


@pytest.mark.parametrize(("library", "cv"), [("pandas", "split"), ("polars", 3)])
def test_data_frames_go_in_and_their_columns_are_remembered(library, cv):
    frames = pytest.importorskip(library)
    rng = np.random.default_rng(11)
    X, y = three_clouds(rng, 60)
    frame = frames.DataFrame({"width": X[:, 0], "height": X[:, 1]})
    names = np.array(["ash", "elm", "oak"])[y]
    model = ConformalClassifier(votes(5), cv=cv).fit(frame, frames.Series(names))
    assert model.feature_names_in_.tolist() == ["width", "height"]
    np.testing.assert_array_equal(
        model.predict_set(frame),
        ConformalClassifier(votes(5), cv=cv).fit(X, names).predict_set(X),
    )
