"""A line and a forest that are pooled with the neighbors."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import nearsay as ns
from nearsay.annotate.scorers.keyword_forest import KeywordForest
from nearsay.core.arrays import evenly
from nearsay.core.compiling import forced
from nearsay.errors import InputError, SavedFileError
from nearsay.posterior.views import tree_growth
from nearsay.posterior.views.boosted_classes import STEP, STEPS, BoostedClasses
from nearsay.posterior.views.forest import ForestClasses
from nearsay.posterior.views.linear_classes import RIDGES, LinearClasses, fit_softmax
from nearsay.posterior.views.model_beside import (
    COMPANIONS,
    FEWEST_ROWS,
    FOREST_SPREAD,
    SPREAD,
    ForestBeside,
    ModelBeside,
    companion_models,
)
from nearsay.posterior.views.tree_growth import at_most_in_float32, codes_of, leaves_of_trees
from tests.reference import forest as reference
from tests.saving import saved_and_opened

WHOLE_FORESTS = True


@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=6, max_size=14),
    labels=st.lists(st.integers(0, 2), min_size=14, max_size=14),
    smallest=st.sampled_from([2, 4, 6, None]),
)
@settings(max_examples=25, deadline=None)
def test_a_forest_votes_by_the_rows_in_its_leaves(rows, labels, smallest):
    X, y = np.array(rows, float), np.unique(labels[: len(rows)], return_inverse=True)[1]
    if y.max() == 0:
        return
    forest = ForestClasses(n_trees=7, smallest_split=smallest).fit(X, y)
    smallest = forest.smallest_split_
    columns = forest._columns(X)
    trees = reference.forest(columns, [[label] for label in y], 7)
    past, fresh = forest.predict_proba(X, np.arange(len(X))), forest.predict_proba(X)
    for row in range(len(X)):
        left_out, weights = (
            reference.forest_weights(trees, len(X), columns[row], case, smallest) for case in (row, None)
        )
        for p, voting in ((past[row], left_out), (fresh[row], weights)):
            votes = np.bincount(y, voting, minlength=y.max() + 1)
            expected = votes if votes.sum() else np.full(len(votes), 1 / len(votes))
            np.testing.assert_allclose(p, expected, atol=1e-12)
        neighbors = forest.neighbors(X[row : row + 1], len(X))
        n_voters = (neighbors.indices[0] >= 0).sum()
        numbers, shares = neighbors.indices[0, :n_voters], -neighbors.distances[0, :n_voters]
        np.testing.assert_allclose(shares, weights[numbers], atol=1e-12)
        assert shares.sum() == pytest.approx(1)
        np.testing.assert_array_equal(numbers, np.lexsort((np.arange(len(X)), -weights.round(10)))[:n_voters])


@pytest.mark.slow
@pytest.mark.parametrize("column", range(13))
def test_a_forest_of_one_column_is_that_of_scikit_learn(column):
    """Nothing is drawn but rows, and each node has one column to be cut by."""
    X, y = load_wine(return_X_y=True)
    X = X[:, [column]]
    forest = ForestClasses(n_trees=150, smallest_split=2).fit(X, y)
    theirs = RandomForestClassifier(150, oob_score=True, random_state=0).fit(forest._columns(X), y)
    np.testing.assert_allclose(forest.predict_proba(X, np.arange(len(X))), theirs.oob_decision_function_, atol=1e-12)
    np.testing.assert_allclose(forest.predict_proba(X), theirs.predict_proba(forest._columns(X)), atol=1e-12)
    beside = ForestBeside(ForestClasses(n_trees=150, smallest_split=2), np.arange(3), "forest").fit(X, y, y)
    logs = np.log((1 - FOREST_SPREAD) * theirs.oob_decision_function_ + FOREST_SPREAD / 3)
    np.testing.assert_allclose(beside.past_cases(np.array([3, 1])), logs[[3, 1]], rtol=1e-5)
    in_blocks = ForestBeside(ForestClasses(n_trees=150, smallest_split=2), np.arange(3), "forest")
    in_blocks.bytes_at_once = 200  # of eight rows
    np.testing.assert_array_equal(in_blocks.fit(X, y, y).past_cases(), beside.past_cases())


@pytest.mark.parametrize("read", [load_wine, load_breast_cancer])
def test_a_forest_answers_as_well_as_that_of_scikit_learn(read):
    X, y = read(return_X_y=True)
    forest = ForestClasses(smallest_split=2).fit(X, y)
    theirs = RandomForestClassifier(100, oob_score=True, random_state=0).fit(X, y)
    lost, lost_by_theirs = (
        -np.log(0.99 * p[np.arange(len(y)), y] + 0.01 / p.shape[1]).mean()
        for p in (forest.predict_proba(X, np.arange(len(y))), theirs.oob_decision_function_)
    )
    assert lost == pytest.approx(lost_by_theirs, rel=0.15)


@given(
    values=st.lists(st.sampled_from([-3.5, 0.0, 0.25, 1e-30, 7.0, 1e30]), min_size=1, max_size=40),
    n_different=st.sampled_from([0, 1, 254, 255, 256, 257, 300]),
)
@settings(max_examples=40, deadline=None)
def test_values_of_a_column_get_ascending_numbers(values, n_different):
    columns = np.array([[*values, *range(10, 10 + n_different)], [*range(n_different), *values]], np.float32)
    np.testing.assert_array_equal(codes_of(columns.T), [reference.codes(column) for column in columns])


def test_columns_are_numbered_alike_in_blocks():
    """Of 20,000 rows, five columns are numbered at once."""
    columns = np.random.default_rng(0).normal(size=(20_000, 7)).astype(np.float32)
    np.testing.assert_array_equal(codes_of(columns)[4:], codes_of(columns[:, 4:]))
    assert (np.bincount(codes_of(columns)[6], minlength=256) >= 78).all()


HARD_ROWS = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "lattice": lambda rng, shape: rng.integers(0, 3, shape).astype(float),
    "lognormal, sigma 8": lambda rng, shape: np.exp(rng.normal(0, 8, shape)),
    "scale 1e-100": lambda rng, shape: 1e-100 * rng.normal(size=shape),
    "scale 1e100": lambda rng, shape: 1e100 * rng.normal(size=shape),
    "each four times": lambda rng, shape: np.repeat(rng.normal(size=shape), 4, axis=0)[: shape[0]],
    "all equal": lambda _, shape: np.ones(shape),
}


@pytest.mark.slow
@pytest.mark.parametrize("family", HARD_ROWS)
@pytest.mark.parametrize("shape", [(2, 1), (3, 4), (60, 9), (256, 2), (257, 3), (400, 30)])
def test_trees_of_hard_rows_are_the_same_both_ways(family, shape):
    """Also run with bounds checked, by ``test_hard_rows.py``."""
    rng = np.random.default_rng(0)
    X, y = HARD_ROWS[family](rng, shape), rng.integers(0, 40, shape[0])
    y[:2] = 0, 1
    grown = []
    for compile_all in (False, True):
        with forced(compile_all):
            forest = ForestClasses(n_trees=4).fit(X, y, np.arange(len(X)) // 7 if shape == (60, 9) else None)
            words = KeywordForest(n_trees=3).fit(X, np.eye(3, dtype=int)[y % 3] | np.eye(3, dtype=int)[y % 2])
        grown.append([forest, forest.predict_proba(X, np.arange(len(X))), words.scores(X)])
    (one, past, scores), (other, *answers) = grown
    for name in ("_feature", "_threshold", "_right", "_starts", "_members", "_counts"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(past, answers[0])
    np.testing.assert_array_equal(scores, answers[1])
    np.testing.assert_allclose(past.sum(axis=1), 1)


@pytest.mark.parametrize("compile_all", [False, True])
def test_equal_rows_of_many_columns_are_not_compared_column_by_column(compile_all, monkeypatch):
    """Nothing divides them; otherwise every node of theirs would look at 20,000 columns."""
    looked = []
    monkeypatch.setattr(tree_growth._Level, "_cuts", lambda *given: looked.append(given))
    columns = np.tile(np.arange(20_000, dtype=np.float32), (30, 1))
    with forced(compile_all):
        trees = tree_growth.grow_trees(
            columns, [(np.arange(30), np.ones(30, np.int64))], np.arange(31), np.arange(30) % 2, [1]
        )
    assert len(trees.right) == 1
    assert trees.members.tolist() == list(range(30))
    assert not looked


@pytest.mark.parametrize(("n_rows", "n_columns", "n_classes"), [(40, 5, 3), (300, 9, 2), (300, 1, 12)])
def test_trees_are_the_same_compiled_and_in_python_and_those_of_the_reference(n_rows, n_columns, n_classes):
    """More than 256 rows with as many values share numbers; some columns have few values, one has one."""
    rng = np.random.default_rng(n_rows)
    X = rng.normal(size=(n_rows, n_columns))
    X[:, 2::3] = rng.integers(0, 3, X[:, 2::3].shape)
    X[:, 4::9] = 1.0
    X[1:6] = X[0]  # equal rows of several classes
    y = (X[:, 0] > 0) + rng.integers(0, n_classes, n_rows)
    grown = []
    for compile_all in (False, True):
        with forced(compile_all):
            grown.append(ForestClasses(n_trees=3, smallest_split=2).fit(X, y))
    for name in ("_feature", "_threshold", "_right", "_starts", "_members", "_counts"):
        np.testing.assert_array_equal(getattr(grown[0], name), getattr(grown[1], name))
    columns = grown[0]._columns(X)
    labels = np.unique(y, return_inverse=True)[1]
    trees = reference.forest(columns, [[label] for label in labels], 3)
    for root, tree in zip(grown[0]._roots, trees, strict=True):
        waiting, node = [tree], root
        while waiting:
            one = waiting.pop()
            assert (grown[0]._right[node] > 0) == (one.below is not None)
            if one.below is not None:
                assert grown[0]._feature[node] == one.column
                assert grown[0]._threshold[node] == at_most_in_float32(np.array([one.threshold]))[0]
                waiting += [one.above, one.below]
            node += 1


@given(at=st.floats(-1e30, 1e30), ulps=st.integers(-2, 2))
def test_thresholds_in_float32_divide_float32_numbers_as_before(at, ulps):
    number = np.float32(at)
    for _ in range(abs(ulps)):
        number = np.nextafter(number, np.float32(np.sign(ulps) * np.inf))
    narrow = at_most_in_float32(np.array([at]))
    assert narrow.dtype == np.float32
    assert (number <= narrow[0]) == (np.float64(number) <= at)


def test_a_forest_stops_at_the_splits_by_which_past_cases_are_answered_best():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    noisy = (X[:, 0] + 2 * rng.normal(size=300) > 0).astype(int)
    losses = {}
    for smallest in (2, 5, 10, 20, 40, 80, 160):
        p = ForestClasses(smallest_split=smallest).fit(X, noisy).predict_proba(X, np.arange(300))
        losses[smallest] = -np.log((1 - FOREST_SPREAD) * p[np.arange(300), noisy] + FOREST_SPREAD / 2).mean()
    rising = next(one for one, after in pairwise(losses) if losses[after] >= losses[one])
    chosen = ForestClasses().fit(X, noisy)
    assert chosen.smallest_split_ == rising > 2
    assert ForestClasses().fit(X[:, :1], (X[:, 0] > 0).astype(int)).smallest_split_ == 2


def test_every_tree_draws_whole_groups_and_past_cases_are_asked_of_trees_without_theirs():
    X, y = load_wine(return_X_y=True)
    groups = 50 - np.random.default_rng(0).integers(0, 45, len(X))
    groups[::9] = -1  # validation rows are one group
    beside = ForestBeside(ForestClasses(n_trees=30, smallest_split=2), np.arange(3), "forest").fit(
        X, y, y, groups=groups
    )
    forest = beside.model_
    drawn = forest._has_drawn(np.arange(len(X)))
    for group in np.unique(groups):
        assert (drawn[groups == group] == drawn[groups == group][0]).all()
    assert 0.2 < drawn.mean() < 0.9
    assert len(np.unique(drawn, axis=0)) > 30
    theirs = ForestClasses(n_trees=30, smallest_split=2).fit(X, y, groups)
    p = theirs.predict_proba(X, np.arange(len(X)))  # of trees that were grown without the row, and so its group
    np.testing.assert_allclose(beside.past_, np.log((1 - FOREST_SPREAD) * p + FOREST_SPREAD / 3), rtol=1e-5)
    fewer = ForestBeside(ForestClasses(n_trees=30, smallest_split=2), np.arange(3), "forest")
    fewer.most_rows = 120
    fewer.fit(X, y, y, groups=groups)
    place = np.array([np.append(np.flatnonzero(groups[fewer.rows_] == group), -1)[0] for group in groups])
    p = fewer.model_.predict_proba(X, place)  # a row that was not drawn may have others of its group in a tree
    np.testing.assert_allclose(fewer.past_, np.log((1 - FOREST_SPREAD) * p + FOREST_SPREAD / 3), rtol=1e-5)
    renamed = ForestClasses(n_trees=30, smallest_split=2).fit(X, y, 7 * groups % 101)
    np.testing.assert_array_equal(renamed.predict_proba(X), theirs.predict_proba(X))


@pytest.mark.parametrize("read", [load_wine, load_breast_cancer])
def test_boosted_trees_answer_as_scikit_learns(read):
    X, y = read(return_X_y=True)
    X, y = X[::-1], y[::-1]  # the last class is met first
    boosted = BoostedClasses().fit(X, y)
    theirs = HistGradientBoostingClassifier(
        learning_rate=STEP, max_iter=STEPS, max_leaf_nodes=4, min_samples_leaf=10, l2_regularization=1.0,
        early_stopping=False, random_state=0,
    )  # fmt: skip
    expected = theirs.fit(X, y).predict_proba(X)
    np.testing.assert_allclose(boosted.predict_proba(X), expected, atol=1e-9)
    some = BoostedClasses(most_rows=50).fit(X, y)
    even = evenly(len(X), 50)
    np.testing.assert_array_equal(some.predict_proba(X), BoostedClasses().fit(X[even], y[even]).predict_proba(X))


@pytest.mark.slow
def test_only_a_table_with_words_or_gaps_is_boosted():
    X, y = load_iris(return_X_y=True)
    words = np.array(X, dtype=object)
    words[:, 0] = np.where(X[:, 0] > 6, "long", "short")
    clf = ns.NeighborClassifier(posterior="pooled", metric="auto").fit(words, y)
    assert "boosting" not in ns.NeighborClassifier(metric="auto").fit(X, y).choices_.chosen.distances
    names = [member.name for member in clf.summary_.members]
    assert "boosting" in names
    np.testing.assert_array_equal(saved_and_opened(clf).predict_proba(words), clf.predict_proba(words))


def test_thresholds_of_words_and_numbers_together_are_answered_better_with_boosted_trees():
    rng = np.random.default_rng(0)
    words, numbers = rng.choice(["a", "b", "c"], 900), rng.normal(size=(900, 6))
    y = (numbers[np.arange(900), np.unique(words, return_inverse=True)[1]] > 0.5).astype(int)
    table = np.column_stack([words.astype(object), numbers])
    clf = ns.NeighborClassifier().fit(table[:600], y[:600])
    lost = next(member for member in clf.summary_.members if member.name == "boosting").without
    assert lost > 1.2 * clf.summary_.log_loss


def test_a_forest_of_many_rows_draws_some_for_each_tree():
    X, y = load_wine(return_X_y=True)
    forest = ForestClasses(n_trees=20, rows_a_tree=50).fit(X, y)
    assert forest._counts.sum() == 20 * 50
    assert len(np.unique(forest._members)) > 100
    assert (forest.predict_proba(X).argmax(axis=1) == y).mean() > 0.9


def test_a_line_is_the_logistic_regression_of_its_ridge():
    X, y = load_iris(return_X_y=True)
    line = LinearClasses(ridge=0.5).fit(X, y)
    columns = (X - X.mean(axis=0)) / X.std(axis=0)
    theirs = LogisticRegression(C=2, tol=1e-8, max_iter=1000).fit(columns, y)
    np.testing.assert_allclose(line.predict_proba(X), theirs.predict_proba(columns), atol=2e-3)


def test_the_ridge_is_the_one_that_answers_other_rows_best():
    rng = np.random.default_rng(0)
    noise, clear = rng.normal(size=(90, 20)), rng.normal(size=(90, 2))
    y = np.arange(90) % 2
    assert LinearClasses().fit(noise, y).ridge_ == RIDGES[0]
    assert LinearClasses().fit(clear + 4 * y[:, None], y).ridge_ < RIDGES[1]
    chosen = LinearClasses().fit(clear, y)
    assert chosen.of_other_rows(chosen.mapped(clear[:40]), y[:40]).ridge_ == chosen.ridge_


def test_a_line_learns_from_some_rows_where_a_step_would_take_too_many_products():
    X, y = load_wine(return_X_y=True)
    some = LinearClasses(ridge=3.0, most_products=60 * 13 * 3).fit(X, y)
    even = np.arange(60) * len(X) // 60
    np.testing.assert_allclose(some.predict_proba(X), LinearClasses(ridge=3.0).fit(X[even], y[even]).predict_proba(X))


def test_a_line_takes_principal_directions_of_many_columns():
    X, y = load_wine(return_X_y=True)
    line = LinearClasses()
    line.most_directions = 3
    line.fit(X, y)
    assert line._basis.shape == (13, 3)
    assert (line.predict_proba(X).argmax(axis=1) == y).mean() > 0.9


@pytest.mark.parametrize("make", [LinearClasses, BoostedClasses, ForestClasses])
def test_a_row_is_answered_alike_in_any_batch_and_wherever_it_lies(make):
    X, y = load_wine(return_X_y=True)
    model = make().fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X)[5:6], model.predict_proba(X[5:6]))
    shifted = make().fit(1e6 * X + 1e3, y)
    np.testing.assert_allclose(shifted.predict_proba(1e6 * X + 1e3), model.predict_proba(X), atol=1e-3)
    far = np.full((1, 13), 1e300)
    assert np.isfinite(model.predict_proba(far)).all()


@pytest.mark.slow
@pytest.mark.parametrize("settings_", [{}, {"metric": "auto"}])
def test_order_of_rows_and_names_of_classes_make_no_difference(settings_):
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    one = ns.NeighborClassifier(**settings_).fit(X, y).predict_proba(X + 0.05)
    renamed = np.array([7, 1, 4])[y]
    other = ns.NeighborClassifier(**settings_).fit(X[order], renamed[order]).predict_proba(X + 0.05)
    np.testing.assert_allclose(other[:, [2, 0, 1]], one, atol=1e-9)


def test_rows_in_rules_are_answered_better_with_a_forest():
    """Boxes along the axes among columns that say nothing: neighbors blur what one tree sees at once."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(900, 12))
    y = 2 * (X[:, 0] > 0) + (X[:, 1] > 0)
    clf = ns.NeighborClassifier().fit(X[:400], y[:400])
    neighbors = ns.NeighborClassifier(posterior="pooled").fit(X[:400], y[:400])
    lost, lost_by_neighbors = (
        -np.log(each.predict_proba(X[400:])[np.arange(500), y[400:]]).mean() for each in (clf, neighbors)
    )
    assert lost < 0.5 * lost_by_neighbors
    assert clf.posterior_.model_weights_[-1] == max(clf.posterior_.model_weights_)


def test_copies_of_a_line_take_the_ridge_that_all_rows_chose():
    X, y = load_wine(return_X_y=True)
    beside = ModelBeside(LinearClasses(), np.arange(3), "line").fit(X, y, y)
    fixed = ModelBeside(LinearClasses(ridge=beside.model_.ridge_), np.arange(3), "line").fit(X, y, y)
    np.testing.assert_array_equal(beside.past_, fixed.past_)
    assert beside.past_.min() >= np.log(SPREAD / 3) - 1e-6


def test_a_saved_forest_whose_trees_never_end_is_refused(tmp_path):
    X, y = load_iris(return_X_y=True)
    clf = ns.NeighborClassifier().fit(X, y)
    forest = clf.model_.views.models[-1].model_
    again = saved_and_opened(clf)
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    node = int(np.flatnonzero(forest._right)[3])
    forest._right[node] = node
    ns.save(clf, tmp_path / "circle.nearsay")
    with pytest.raises(SavedFileError, match="its own ancestor"):
        ns.load(tmp_path / "circle.nearsay")


@pytest.mark.parametrize("make", [ForestClasses, BoostedClasses])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [("_feature", "column -1000000000"), ("_roots", "no trees")],
)
def test_saved_trees_that_lead_out_of_their_arrays_are_refused(tmp_path, make, wrong, message):
    X, y = load_iris(return_X_y=True)
    model = make().fit(X, y)
    if wrong == "_feature":
        model._feature[0] = -(10**9)
    else:
        model._roots = model._roots[:0]
    ns.save(model, tmp_path / "model.nearsay")
    with pytest.raises(SavedFileError, match=message):
        ns.load(tmp_path / "model.nearsay")


@pytest.mark.parametrize("compile_all", [False, True])
@pytest.mark.parametrize("kind", [np.uint8, np.uint64, np.int16])
def test_leaves_are_found_by_numbers_of_any_kind(kind, compile_all):
    """As a file of somebody else may hold them."""
    X, y = load_iris(return_X_y=True)
    forest = ForestClasses(n_trees=3).fit(X, y)
    columns = forest._columns(X)
    roots, feature, right = (each.astype(kind) for each in (forest._roots, forest._feature, forest._right))
    with forced(compile_all):
        leaves = leaves_of_trees(columns, roots, feature, forest._threshold.astype(np.float16), right)
    expected = leaves_of_trees(
        columns, forest._roots, forest._feature, forest._threshold.astype(np.float16), forest._right
    )
    np.testing.assert_array_equal(leaves, expected)


def test_trees_that_compare_a_column_that_is_not_there_are_refused():
    X, y = load_iris(return_X_y=True)
    forest = ForestClasses(n_trees=3).fit(X, y)
    forest._feature[0] = 4
    with pytest.raises(InputError, match="4 columns"):
        forest.predict_proba(X)


def test_weights_are_those_of_the_smallest_loss():
    rng = np.random.default_rng(0)
    rows, labels = np.hstack([rng.normal(size=(40, 3)), np.ones((40, 1))]), np.arange(40) % 3
    weights = fit_softmax(rows, labels, 3, ridge=1.0)

    def loss(at: np.ndarray) -> float:
        scores = rows @ at
        return float(
            (np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(40), labels]).sum() + 0.5 * (at[:-1] ** 2).sum()
        )

    for _ in range(20):
        assert loss(weights) <= loss(weights + 0.05 * rng.normal(size=weights.shape)) + 1e-3


@pytest.mark.parametrize(("n", "n_models"), [(FEWEST_ROWS - 1, 0), (FEWEST_ROWS, len(COMPANIONS) - 1)])
def test_very_few_rows_teach_no_model(n, n_models):
    X, y = np.random.default_rng(0).normal(size=(n, 3)), np.arange(n) % 2
    assert len(companion_models(X, y, 2)) == n_models
    assert ns.NeighborClassifier().fit(X, y).predict_proba(X).shape == (n, 2)


@pytest.mark.parametrize("most", [99, 100])
def test_of_very_many_rows_some_teach_and_the_others_are_fresh(most):
    X, y = load_wine(return_X_y=True)
    X, y = X[:100], y[:100]
    forest = ForestBeside(ForestClasses(n_trees=9), np.arange(2), "forest")
    forest.most_rows = most
    forest.fit(X, y, y)
    assert len(forest.rows_) == most
    left = np.setdiff1d(np.arange(100), forest.rows_)
    np.testing.assert_allclose(forest.past_cases(left), forest.log_proba(X[left]), rtol=1e-6)
    assert forest.model_.n_rows == most


def test_copies_are_kept_only_where_they_are_asked_for():
    X, y = load_iris(return_X_y=True)
    assert not any(model.copies_ for model in companion_models(X, y, 3))
    kept = companion_models(X, y, 3, keep_copies=True)
    assert [len(model.copies_) for model in kept] == [5, 5, 5, 0]


def test_a_saved_forest_with_a_row_that_was_never_drawn_is_refused(tmp_path):
    X, y = load_iris(return_X_y=True)
    clf = ns.NeighborClassifier().fit(X, y)
    clf.model_.views.models[-1].model_._counts[4] = 0
    ns.save(clf, tmp_path / "none.nearsay")
    with pytest.raises(SavedFileError, match="drawn 0 times"):
        ns.load(tmp_path / "none.nearsay")
