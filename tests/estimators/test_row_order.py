"""What is learned depends on rows and labels: not on the order they are listed in, and not on the names of classes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import nearsay as ns
from nearsay.data.content_order import content_order
from nearsay.posterior.base import folds_by
from nearsay.search.shards import ShardedRows

HALVES = True

NAMES, OTHER_NAMES = np.array(["ash", "elm", "oak"]), np.array(["yew", "fir", "box"])


def clouds(n: int, seed: int, n_columns: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Three classes that overlap, so that many ways of answering do about as well."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return 1.5 * rng.normal(size=(3, n_columns))[y] + rng.normal(size=(n, n_columns)), y


def answers(make, X, y, Q, order=None, names=NAMES):  # type: ignore[no-untyped-def]
    """The probabilities of the classes 0, 1 and 2, learned from rows in an order, under some names."""
    order = np.arange(len(X)) if order is None else order
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p = make().fit(X[order], names[y[order]]).predict_proba(Q)
    return p[:, np.argsort(np.argsort(names))]


@pytest.mark.parametrize(
    ("metric", "n", "seeds"),
    [
        *(("euclidean", n, seeds) for n, seeds in ((60, 2), (100, 1), (150, 1))),
        ("auto", 60, 1),
        *(pytest.param(metric, n, 1, marks=pytest.mark.slow) for metric, n in (("euclidean", 1000), ("auto", 150))),
    ],
)
def test_neither_the_order_of_rows_nor_the_names_of_classes_change_an_answer(metric, n, seeds):
    def make() -> ns.NeighborClassifier:
        return ns.NeighborClassifier(metric=metric)

    for seed in range(seeds):
        X, y = clouds(n, seed)
        Q = np.vstack([clouds(100, seed + 100)[0], X[:50] + 0.1])
        p = answers(make, X, y, Q)
        order = np.random.default_rng(seed).permutation(n)
        np.testing.assert_allclose(answers(make, X, y, Q, order, OTHER_NAMES), p, rtol=0, atol=1e-9)


@pytest.mark.slow
def test_rows_that_are_drawn_from_many_do_not_depend_on_their_order():
    X, y = clouds(700, 0)
    Q = clouds(60, 1)[0]

    def make() -> ns.NeighborClassifier:
        return ns.NeighborClassifier(posterior=ns.posterior.Auto(max_past_cases=150))

    p = answers(make, X, y, Q)
    np.testing.assert_allclose(answers(make, X, y, Q, np.arange(700)[::-1], OTHER_NAMES), p, rtol=0, atol=1e-9)


def edits(a: str, b: str) -> float:
    return float(sum(one != other for one, other in zip(a, b, strict=True)))


@pytest.mark.slow
def test_items_of_any_kind_and_given_distances_do_not_depend_on_their_order():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    words = np.array(["".join(rng.choice(list("abcde"[c:] + "xyz"[c] * 4), 12)) for c in y])
    by_function = ns.NeighborClassifier(metric=edits, posterior="pooled")
    X, y_rows = clouds(80, 2)
    D = np.linalg.norm(X[:, None] - X[None], axis=2)
    by_matrix = ns.NeighborClassifier(metric="precomputed")
    order = rng.permutation(60)
    there, again = (by_function.fit(words[o], y[o]).predict_proba(words) for o in (np.arange(60), order))
    np.testing.assert_allclose(again, there, rtol=0, atol=1e-9)
    order = rng.permutation(80)
    there = by_matrix.fit(D, y_rows).predict_proba(D)
    again = by_matrix.fit(D[np.ix_(order, order)], y_rows[order]).predict_proba(D[:, order])
    np.testing.assert_allclose(again, there, rtol=0, atol=1e-9)


@pytest.mark.slow
def test_a_random_model_beside_is_taught_in_one_order():
    X, y = clouds(120, 3)
    forest = RandomForestClassifier(10, random_state=0)
    p = answers(lambda: ns.NeighborClassifier(beside=forest), X, y, X)
    again = answers(lambda: ns.NeighborClassifier(beside=forest), X, y, X, np.arange(120)[::-1])
    np.testing.assert_allclose(again, p, rtol=0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("exponents", "posterior"), [(None, "auto"), ("learned", "pooled")], ids=["all chosen", "exponents learned"]
)
def test_fused_groups_do_not_depend_on_the_order_of_rows_or_on_names(exponents, posterior):
    X, y = clouds(120, 4)
    X[::9, :3] = np.nan
    Q = clouds(50, 5)[0]

    def make() -> ns.FusedClassifier:
        groups, estimator = {"first": slice(0, 3), "last": slice(3, 6)}, ns.NeighborClassifier(posterior=posterior)
        return ns.FusedClassifier(groups, estimator, exponents=exponents)

    p = answers(make, X, y, Q)
    order = np.random.default_rng(0).permutation(120)
    np.testing.assert_allclose(answers(make, X, y, Q, order, OTHER_NAMES), p, rtol=0, atol=1e-9)


AROUND = [pytest.param(ns.NeighborClassifier(), marks=pytest.mark.slow), LogisticRegression()]


@pytest.mark.slow
@pytest.mark.parametrize("estimator", AROUND)
def test_prediction_sets_depend_neither_on_the_order_of_rows_nor_on_names(estimator):
    X, y = clouds(150, 7)
    Q = clouds(80, 8)[0]
    order = np.random.default_rng(0).permutation(150)
    sets = ns.ConformalClassifier(estimator).fit(X, NAMES[y]).predict_set(Q)
    renamed = ns.ConformalClassifier(estimator).fit(X[order], OTHER_NAMES[y[order]]).predict_set(Q)
    np.testing.assert_array_equal(renamed[:, np.argsort(np.argsort(OTHER_NAMES))], sets)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", AROUND)
def test_hedges_do_not_depend_on_the_order_of_rows(estimator):
    X, y = clouds(150, 9)
    Q = clouds(80, 10)[0]
    order = np.random.default_rng(0).permutation(150)
    trees = ns.Taxonomy.from_nested({"tree": {"broad": ["ash", "elm"], "oak": {}}})
    hedged = ns.HedgedClassifier(estimator, taxonomy=trees, accuracy=0.9)
    names = hedged.fit(X, NAMES[y]).predict(Q)
    assert len(set(names)) > 2
    np.testing.assert_array_equal(hedged.fit(X[order], NAMES[y[order]]).predict(Q), names)


def two_orders(n: int) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(n), np.random.default_rng(0).permutation(n)


def between(mapped: np.ndarray) -> np.ndarray:
    """Distances between mapped queries: a map may turn around without changing any."""
    return np.linalg.norm(mapped[:, None] - mapped[None], axis=2)


TREES = ns.Taxonomy.from_nested({"tree": {"broad": ["ash", "elm"], "oak": {}}})
METRICS_LEARNED = {
    "ITML": ns.ITML(max_iter=5),
    "ITML, drawn from all": ns.ITML(max_iter=5, n_neighbors=None, n_constraints=200),
    "ITML, covariance": ns.ITML(max_iter=5, prior="covariance", n_constraints=100),
    "BoostMetric": ns.BoostMetric(max_iter=20),
    "BoostMetric, as in the paper": ns.BoostMetric(800, start="zero", near=(3, 10), validation_fraction=None),
    "LMNN": ns.LMNN(max_iter=20),
    "LMNN, two dimensions": ns.LMNN(max_iter=20, n_components=2),
    "WithinClassWhitening": ns.WithinClassWhitening(pull=1.0),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", METRICS_LEARNED)
def test_learned_metrics_depend_neither_on_the_order_of_rows_nor_on_names(name):
    X, y = clouds(120, 12)
    Q = clouds(40, 13)[0]
    metric = METRICS_LEARNED[name]
    _, other = two_orders(120)
    there = between(metric.fit(X, NAMES[y]).transform(Q))
    assert np.ptp(there / np.maximum(between(Q), 1e-9)) > 0.1  # something was learned
    np.testing.assert_allclose(between(metric.fit(X[other], NAMES[y[other]]).transform(Q)), there, rtol=0, atol=1e-9)
    np.testing.assert_allclose(between(metric.fit(X, OTHER_NAMES[y]).transform(Q)), there, rtol=0, atol=1e-9)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", [ns.ITML, ns.BoostMetric])
def test_metrics_learned_by_a_taxonomy_do_not_depend_on_the_order_of_rows(kind):
    X, y = clouds(90, 14)
    _, other = two_orders(90)
    some = {"n_constraints": 300} if kind is ns.ITML else {"n_triplets": 300, "validation_fraction": None}
    metric = kind(max_iter=5, taxonomy=TREES, **some)
    there = between(metric.fit(X, NAMES[y]).transform(X))
    np.testing.assert_allclose(between(metric.fit(X[other], NAMES[y[other]]).transform(X)), there, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", [ns.ITML, ns.BoostMetric])
def test_equal_rows_of_several_classes_are_learned_from_in_one_order(kind):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, size=(60, 3)).astype(float), rng.integers(0, 3, 60)
    _, other = two_orders(60)
    metric = kind(max_iter=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        there = between(metric.fit(X, NAMES[y]).transform(X))
        np.testing.assert_allclose(between(metric.fit(X[other], NAMES[y[other]]).transform(X)), there, atol=1e-9)
        np.testing.assert_allclose(between(metric.fit(X, OTHER_NAMES[y]).transform(X)), there, rtol=0, atol=1e-9)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_metric_is_tuned_alike_in_any_order_of_rows_and_under_any_names():
    X, y = clouds(120, 15)
    grid = {"max_iter": [1, 5], "gamma": [0.001, 0.1]}
    first, other = two_orders(120)
    there, again, renamed = (
        ns.tune_metric(ns.ITML(), X[o], names[y[o]], grid, n_neighbors=5, random_state=0).table
        for o, names in ((first, NAMES), (other, NAMES), (first, OTHER_NAMES))
    )
    assert again == there
    assert renamed == there


def annotated(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows with five keywords: three go with their class, two with a column; all rows differ."""
    X, y = clouds(n, seed)
    noise = np.random.default_rng(seed).normal(size=(n, 2))
    return X, np.hstack([np.eye(3, dtype=int)[y], (X[:, :2] + noise > 0.5).astype(int)])


SPACES = {"first": slice(0, 3), "last": (slice(3, 6), "manhattan")}
ANNOTATORS = {
    "auto": ns.KeywordAnnotator(),
    "auto, two kinds of spaces": ns.KeywordAnnotator(features=SPACES),
    "folds": ns.KeywordAnnotator("nearest", cv=3),
    "worth": ns.KeywordAnnotator("nearest", order="worth", recall_weight="auto", n_keywords=2),
    "rank boost": ns.KeywordAnnotator(ns.RankBoostNeighbors(SPACES, max_iter=20)),
    "MLkNN": ns.annotate.MLkNN(n_neighbors=5),
    "regression": ns.annotate.KeywordRegression(shrinkage="auto"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ANNOTATORS)
def test_keywords_do_not_depend_on_the_order_of_rows(name):
    n = 2100 if name == "regression" else 100  # so many that some of them choose the ridge
    X, Y = annotated(n, 16)
    Q = clouds(40, 17)[0]
    there, again = (clone(ANNOTATORS[name]).fit(X[o], Y[o]) for o in two_orders(n))
    ask = "predict_proba" if hasattr(there, "predict_proba") else "scores"
    np.testing.assert_allclose(getattr(again, ask)(Q), getattr(there, ask)(Q), rtol=0, atol=1e-9)
    if hasattr(there, "annotate"):
        assert [one.words for one in again.annotate(Q)] == [one.words for one in there.annotate(Q)]


class FewCases(ns.KeywordAnnotator):
    most_past_cases = 30


def test_past_cases_of_an_annotator_do_not_depend_on_the_order_of_rows():
    """Where there are too many rows to ask about all, content decides which are asked about."""
    X, Y = annotated(100, 18)
    Q = clouds(40, 19)[0]
    (there, cases), (again, same) = (
        (fitted.predict_proba(Q), X[o][fitted.held_out_rows_])
        for o in two_orders(100)
        for fitted in [FewCases().fit(X[o], Y[o])]
    )
    np.testing.assert_array_equal(same, cases)
    np.testing.assert_allclose(again, there, rtol=0, atol=1e-9)


FINDERS = {
    "rank boost": ns.RankBoostNeighbors(SPACES, max_iter=20),
    "rank boost, joint": ns.RankBoostNeighbors(SPACES, max_iter=20, joint=True, top=None),
    "joint": ns.annotate.JointNeighbors(SPACES),
    "two passes": ns.annotate.TwoPassNeighbors(ns.annotate.JointNeighbors(SPACES)),
    "projected": ns.annotate.TransformedNeighbors(ns.annotate.KeywordProjection(2)),
    "landmarks": ns.annotate.TransformedNeighbors(ns.annotate.LandmarkFeatures(SPACES, n_landmarks=20)),
}


# Of 600 rows content decides which say how large distances are.
@pytest.mark.slow
@pytest.mark.parametrize(("name", "n"), [*((name, 100) for name in FINDERS), ("joint", 600)])
def test_neighbors_learned_from_keywords_do_not_depend_on_the_order_of_rows(name, n):
    X, Y = annotated(n, 20)
    Q = clouds(40, 21)[0]
    there, again = ((o, FINDERS[name].fit(X[o], Y[o]).neighbors(Q, 6)) for o in two_orders(n))
    np.testing.assert_array_equal(again[0][again[1].indices], there[0][there[1].indices])
    np.testing.assert_allclose(again[1].distances, there[1].distances, rtol=0, atol=1e-9)


def test_numbers_of_neighbors_are_compared_in_folds_that_content_decides():
    X, Y = annotated(60, 22)
    there, again = (
        ns.annotate.cross_validated_by_k(ns.annotate.JointNeighbors(), X[o], Y[o], [1, 5], n_keywords=2)
        for o in two_orders(60)
    )
    assert [list(one.values()) for one in again] == pytest.approx(
        np.array([list(one.values()) for one in there]), abs=1e-9
    )


def test_constant_and_copied_columns_have_no_say_in_the_order(tmp_path):
    X, y = clouds(60, 11)
    order = content_order(X, y)
    more = np.hstack([np.full((60, 1), 7.0), X[:, :3], X[:, 1:2], X[:, 3:], np.zeros((60, 2)), X[:, :1]])
    np.testing.assert_array_equal(content_order(more, y), order)
    for number, part in enumerate(np.array_split(more, 4)):
        np.save(tmp_path / f"{number}.npy", part)
    np.testing.assert_array_equal(content_order(ShardedRows.open(tmp_path), y), order)


def test_equal_rows_are_ordered_by_class_and_by_no_name():
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 2, size=(40, 2)).astype(float), rng.integers(0, 3, 40)  # equal rows of all classes
    first = content_order(X, y)
    for _ in range(5):
        shuffled, renamed = rng.permutation(40), rng.permutation(3)
        again = content_order(X[shuffled], renamed[y[shuffled]])
        np.testing.assert_array_equal(X[shuffled][again], X[first])
        np.testing.assert_array_equal(y[shuffled][again], y[first])
        np.testing.assert_array_equal(folds_by(again, renamed[y[shuffled]])[again], folds_by(first, y)[first])


def test_the_content_of_a_number_is_its_value():
    X, y = np.array([[0.0, 1.5], [2.0, -3.0], [7.0, 0.5]]), np.array([0, 0, 1])
    order = content_order(X, y)
    np.testing.assert_array_equal(content_order(X.astype(np.float32), y), order)
    np.testing.assert_array_equal(content_order(np.where(X == 0, -0.0, X), y), order)
    whole = np.random.default_rng(0).integers(-5, 5, size=(200, 3))
    labels = np.zeros(200, np.int64)
    np.testing.assert_array_equal(content_order(whole, labels), content_order(whole.astype(float), labels))


def test_rows_that_differ_hardly_ever_share_a_place():
    rng = np.random.default_rng(0)
    for X in (rng.integers(0, 3, size=(3000, 12)).astype(float), rng.normal(size=(3000, 1)), np.eye(500)):
        X = np.unique(X, axis=0)
        order = content_order(X, np.zeros(len(X), np.int64))
        back = content_order(X[::-1], np.zeros(len(X), np.int64))
        np.testing.assert_array_equal(X[order], X[::-1][back])
