"""What holds of every learned metric: a linear map that no unit, thread or order of columns changes; bad input."""

from __future__ import annotations

import math
import pickle
import re
import warnings
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from nearsay.core.parallel import threads
from nearsay.errors import InputError
from nearsay.learn import ITML, LMNN, BoostMetric, WithinClassWhitening
from nearsay.learn.linear_map import LearnedMetric
from nearsay.learn.tuning import neighbor_accuracy
from nearsay.taxonomy.taxonomy import Taxonomy
from tests.learn.samples import leaves, wine

PAPER = {"start": "zero", "near": (3, 10), "validation_fraction": None}  # of BoostMetric
METRICS: dict[str, LearnedMetric] = {
    "ITML": ITML(0.01),
    "ITML, any pairs": ITML(0.01, n_constraints=2000, n_neighbors=None),
    "ITML from the covariance": ITML(0.01, prior="covariance"),
    "ITML from whitening": ITML(0.01, prior="within-class"),
    "LMNN": LMNN(),
    "LMNN, one dimension": LMNN(n_components=1),
    "LMNN, five dimensions": LMNN(n_components=5),
    "BoostMetric": BoostMetric(validation_fraction=None, max_iter=20),
    "BoostMetric as in the paper": BoostMetric(**PAPER, max_iter=20),
    "BoostMetric from zero": BoostMetric(start="zero", max_iter=20),
    "whitening": WithinClassWhitening(),
    "whitening, pulled": WithinClassWhitening(pull=1.0),
}
SYMMETRIC = [name for name in METRICS if not re.search("dimension|BoostMetric", name)]
LEARNERS = [ITML, LMNN, BoostMetric]
PETS = Taxonomy.from_nested({"pet": {"dog": ["corgi", "pug"], "cat": {}}})

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("name", METRICS)
def test_the_learned_distance_is_euclidean_after_a_map_that_pickling_keeps(name):
    X, y = wine()
    learned = clone(METRICS[name]).fit(X, y)
    mapped, M = learned.transform(X), learned.get_mahalanobis_matrix()
    values = np.linalg.eigvalsh(M)
    assert values[0] > -1e-10 * values[-1]
    direct = np.sqrt(np.maximum([[(a - b) @ M @ (a - b) for b in X[:9]] for a in X[:9]], 0))
    np.testing.assert_allclose(cdist(mapped[:9], mapped[:9]), direct, atol=1e-7 * direct.max())
    np.testing.assert_allclose(learned.metric().pairwise(X[:9], X[:9]), direct, atol=1e-7 * direct.max())
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(learned)).transform(X), mapped)
    if name in SYMMETRIC:
        np.testing.assert_allclose(learned.components_, learned.components_.T, atol=1e-12)
    else:
        assert learned.components_.shape[0] <= 13


@pytest.mark.parametrize("unit", [1e-8, 2.0**10])
@pytest.mark.parametrize("name", ["ITML", "LMNN", "BoostMetric"])
def test_the_unit_of_the_rows_does_not_matter(name, unit):
    X, y = wine()
    plain, scaled = clone(METRICS[name]).fit(X, y), clone(METRICS[name]).fit(unit * X, y)
    gram = [rows @ rows.T for rows in (plain.transform(X), scaled.transform(unit * X))]
    if name == "ITML":  # nearest to the identity, so its map grows with the rows
        gram[1] /= unit**2
    np.testing.assert_allclose(gram[1], gram[0], rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(scaled.loss_curve_, plain.loss_curve_, rtol=1e-6)


@pytest.mark.parametrize("name", ["ITML", "ITML, any pairs", "whitening"])
def test_columns_in_another_order_give_the_same_metric_in_that_order(name):
    X, y = wine()
    order = np.random.default_rng(0).permutation(13)
    plain, moved = (clone(METRICS[name]).fit(rows, y).get_mahalanobis_matrix() for rows in (X, X[:, order]))
    np.testing.assert_allclose(moved, plain[np.ix_(order, order)], atol=1e-9)


@pytest.mark.parametrize("learner", [ITML(0.01, max_iter=5), LMNN(max_iter=20), METRICS["BoostMetric"]], ids=repr)
def test_threads_change_no_bit(learner):
    """With more rows than LMNN takes together."""
    X, y = wine()
    X, y = np.tile(X, (4, 1)) + 0.01 * np.random.default_rng(0).normal(size=(712, 13)), np.tile(y, 4)
    maps = []
    for count in (1, 3):
        with threads(count):
            maps.append(clone(learner).fit(X, y).components_)
    np.testing.assert_array_equal(*maps)


def test_another_seed_draws_other_pairs_and_none_draws_anew():
    seeds = (3, 4, None, None)
    maps = [ITML(0.01, n_constraints=50, random_state=seed).fit(*wine()).components_ for seed in seeds]
    assert len({learned.tobytes() for learned in maps}) == len(seeds)


@pytest.mark.parametrize(
    "learner", [ITML(max_iter=0), LMNN(max_iter=0), BoostMetric(max_iter=0), BoostMetric(max_iter=0, start="zero")]
)
def test_without_steps_nothing_is_learned(learner):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learned = clone(learner).fit(*wine())
    np.testing.assert_array_equal(learned.components_, np.eye(13))
    assert (learned.n_iter_, len(learned.loss_curve_)) == (0, 1)


@pytest.mark.parametrize(
    ("learner", "words"),
    [
        (ITML(1.0, max_iter=1), "stopped after 1 sweeps.*Raise max_iter"),
        (LMNN(max_iter=3), "after 3 steps"),
        (BoostMetric(**PAPER, max_iter=4), "still falling"),
    ],
)
@pytest.mark.filterwarnings("default::sklearn.exceptions.ConvergenceWarning")
def test_one_that_stopped_short_says_so_and_shows_its_loss_if_asked(learner, words, capsys):
    learned = clone(learner).set_params(verbose=True)
    with pytest.warns(ConvergenceWarning, match=words):
        learned.fit(*wine())
    assert learned.n_iter_ == learner.max_iter
    assert len(learned.loss_curve_) == learned.n_iter_ + 1
    assert (np.diff(learned.loss_curve_) < 0).all()
    shown = capsys.readouterr()
    assert shown.out == ""
    assert type(learned).__name__ in shown.err
    assert f"loss {learned.loss_curve_[-1]:.6g}" in shown.err


@pytest.mark.parametrize("learner", [ITML(), LMNN(), BoostMetric(), WithinClassWhitening(pull=1.0)], ids=repr)
def test_texture_tells_leaves_apart_better_than_by_euclidean_distance(learner):
    X, y, train = leaves("texture")
    mapped = clone(learner).fit(X[train], y[train]).transform(X)
    plain, learned = (neighbor_accuracy(Z[train], y[train], Z[~train], y[~train], 5) for Z in (X, mapped))
    assert learned >= plain + 0.05


# ---------------------------------------------------------------- odd and bad input

RANDOM = np.random.default_rng(0).normal(size=(13, 30))
ODD = {
    "all rows are one": (np.zeros((6, 2)), [0, 0, 0, 1, 1, 1]),
    "duplicates of one class": (np.repeat([[0.0, 0.0], [1.0, 2.0]], 3, axis=0), [0, 0, 0, 1, 1, 1]),
    "duplicates of two": (np.repeat([[0.0, 1.0], [2.0, 1.0], [5.0, 5.0]], 4, axis=0), [0, 0, 0, 1] * 3),
    "a constant column": (np.column_stack([np.arange(6.0), np.full(6, 7.0)]), [0, 0, 0, 1, 1, 1]),
    "more columns than rows, classes of one row": (RANDOM * (np.arange(30) != 4), [0] * 6 + [1] * 5 + [2, 3]),
    "tiny": (1e-150 * np.arange(12.0).reshape(6, 2), [0, 0, 0, 1, 1, 1]),
    "huge": (1e100 * np.arange(12.0).reshape(6, 2), [0, 0, 0, 1, 1, 1]),
}
# Of rows that are all one, or of pairs of classes that are, only these two learn: nothing.
CANNOT = {ITML: ["all rows are one"], BoostMetric: ["all rows are one"]}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize(
    "learner",
    [
        *(ITML(1.0, n_neighbors=k, prior=prior) for k in (20, None) for prior in ("identity", "covariance")),
        ITML(prior="within-class"),
        LMNN(n_neighbors=2),
        BoostMetric(tol=0.1),
        *(WithinClassWhitening(shrinkage=share) for share in ("auto", 0, 0.1)),
        WithinClassWhitening(pull=1.0),
    ],
    ids=repr,
)
def test_odd_rows_give_a_finite_metric_without_a_warning(learner, name):
    X, y = ODD[name]
    if name in CANNOT.get(type(learner), []):
        pytest.skip("there is nothing to learn from, and an error says so")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        learned = clone(learner).fit(X, y)
    assert np.isfinite(learned.components_).all()
    assert (np.diff(getattr(learned, "loss_curve_", [])) <= 1e-9).all()


@pytest.mark.parametrize("learner", [ITML(), LMNN(), BoostMetric(), WithinClassWhitening()], ids=repr)
def test_one_class_and_a_missing_number_are_refused(learner):
    with pytest.raises(InputError, match="1 class"):
        clone(learner).fit([[0.0], [1.0], [2.0]], [1, 1, 1])
    with pytest.raises(ValueError, match="NaN"):
        clone(learner).fit([[0.0], [np.nan], [2.0], [3.0]], [0, 0, 1, 1])


@pytest.mark.parametrize(
    ("learner", "X", "y", "words"),
    [
        (ITML(), np.ones((4, 2)), [0, 0, 1, 1], "All 4 rows are the same"),
        (LMNN(), [[0.0], [1.0], [2.0]], [0, 1, 2], "single row"),
        (BoostMetric(), [[0.0], [1.0], [2.0]], [0, 1, 2], "two rows of one class"),
        (BoostMetric(), [[1.0], [1.0], [1.0], [1.0]], [0, 0, 1, 1], "no triplet to learn from"),
    ],
)
def test_rows_that_teach_nothing_are_refused(learner, X, y, words):
    with pytest.raises(InputError, match=words):
        learner.fit(X, y)


@pytest.mark.parametrize("kind", LEARNERS)
def test_a_taxonomy_must_be_one_and_hold_every_class(kind):
    X = [[0.0], [1.0], [2.0], [3.0]]
    with pytest.raises(InputError, match="'cow'"):
        kind(taxonomy=PETS).fit(X, ["pug", "pug", "cow", "cow"])
    with pytest.raises(InputError, match="must be a Taxonomy"):
        kind(taxonomy={"pet": []}).fit(X, [0, 0, 1, 1])


@pytest.mark.parametrize(
    ("learner", "words"),
    [
        (ITML(gamma=0), r"gamma must be a number in the range \(0, inf\]; got 0"),
        (ITML(gamma="much"), "gamma"),
        (ITML(tol=math.nan), "tol"),
        (ITML(n_constraints=2.5), "n_constraints"),
        (ITML(n_neighbors=0), "n_neighbors"),
        (ITML(prior="identiy"), "did you mean 'identity'"),
        (ITML(prior=-np.eye(13)), "eigenvalues above 0"),
        (ITML(prior=np.eye(3)), "13"),
        (ITML(bounds=(9.0, 1.0)), "0 < u <= l"),
        (ITML(bounds=3.0), "0 < u <= l"),
        *((kind(max_iter=-1), "max_iter must be a whole number of at least 0; got -1") for kind in LEARNERS),
        (LMNN(n_neighbors=1.5), "n_neighbors"),
        (LMNN(push=0.0), "push"),
        (LMNN(margin=-1.0), "margin"),
        (LMNN(tol=math.nan), "tol"),
        (LMNN(shrinkage=1.5), "shrinkage"),
        (LMNN(shrinkage=0.5, n_components=1), "one of the two"),
        (LMNN(n_components=14), "from 1 to 13"),
        (BoostMetric(start="identiy"), "did you mean 'identity'"),
        (BoostMetric(near=10), "two numbers"),
        (BoostMetric(near=(0, 10)), "at least 1"),
        (BoostMetric(n_triplets=0), "at least 1"),
        (BoostMetric(trace_penalty=-1.0), r"in the range \[0, "),
        (BoostMetric(tol=math.nan), r"in the range \[0, "),
        (BoostMetric(validation_fraction=1.0), r"in the range \(0, 1\)"),
        (WithinClassWhitening(power=-0.5), r"power must be a number in the range \[0, 1\]; got -0.5"),
        (WithinClassWhitening(power=True), "power"),
        (WithinClassWhitening(shrinkage=1.5), r'in the range \[0, 1\], or "auto"; got 1.5'),
        (WithinClassWhitening(shrinkage="some"), "shrinkage"),
        (WithinClassWhitening(pull=-1), r"pull must be a number in the range \[0, .*; got -1"),
    ],
)
def test_bad_settings_are_said(learner: Any, words):
    with pytest.raises(InputError, match=words):
        learner.fit(*wine())
