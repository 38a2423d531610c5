"""Weighted votes and past cases against loops: what each row counts for, and what a case takes with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nearsay.neighbors.index import NeighborIndex
from nearsay.posterior.choice.k_curve import WeightedPastVotes
from nearsay.posterior.choice.model_choice import mean_and_error
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.methods.pool.log_linear import Cases, add_cases, failure_share, fit_weights
from nearsay.posterior.methods.pooled import Pooled
from nearsay.posterior.methods.proportional import SMOOTHINGS, Proportional
from nearsay.posterior.methods.rank_weights import decreasing_weights
from nearsay.posterior.methods.weighted import Weighted
from nearsay.posterior.row_weights import RowWeights
from nearsay.posterior.votes import TIE_RULES, winners
from tests.estimators.test_weighted import decreasing_grid
from tests.labeled import SMOOTHED, labeled_rows, queries_for
from tests.neighbors.test_left_out import COUNTS, one_by_one, past_cases
from tests.posterior.methods.test_tables import BY_LOOP, collections, left_out, query_table
from tests.reference import fusion as reference_fusion
from tests.reference import posteriors as loops

pytestmark = pytest.mark.filterwarnings("ignore:Every class has one row")

WEIGHTS = st.lists(st.sampled_from([0.5, 1.0, 2.0, 3.0]), min_size=14, max_size=14).map(np.array)


def weighed(posterior: Any, weights: np.ndarray) -> Any:
    posterior.weights = RowWeights.of(weights)
    return posterior


@settings(max_examples=60, deadline=None)
@given(data=labeled_rows(), weights=WEIGHTS, smoothed=SMOOTHED, k=st.integers(1, 6))
def test_a_vote_counts_what_its_row_weighs(data: Any, weights: np.ndarray, smoothed: Any, k: int) -> None:
    (X, y), (smoothing, model_failure) = data, smoothed
    weights, n_classes, k = weights[: len(y)], int(y.max()) + 1, min(k, len(y))
    votes = weighed(Proportional(smoothing=smoothing, model_failure=model_failure), weights).fit(None, y, n_classes)
    Q, counts_for = queries_for(X), loops.relative(weights)
    for row, q in zip(votes.proba(NeighborIndex().fit(X).query(Q, k)), Q, strict=True):
        said = np.array(loops.votes(loops.line(X, y, q, k, 1, None), counts_for, n_classes), float)
        expected = SMOOTHINGS[smoothing](said, said.sum(), n_classes, model_failure)
        np.testing.assert_allclose(row, expected, atol=1e-12)
        assert (row == row.max()).tolist() == np.isclose(said, said.max(), rtol=1e-12).tolist()  # ties stay ties


@pytest.mark.parametrize(("make", "loop"), BY_LOOP)
@settings(max_examples=40, deadline=None)
@given(collection=collections(), weights=WEIGHTS)
def test_a_past_case_counts_what_its_row_weighs(make: Any, loop: Any, collection: Any, weights: np.ndarray) -> None:
    X, y, k, n_classes, n_listed = collection
    weights = weights[: len(y)]
    past = loops.past_lines(X, y, k, n_listed, weights)
    if not past:
        return
    Q = queries_for(X)
    found = weighed(make(model_failure=0.01), weights).fit(left_out(X, y, k, n_listed), y, n_classes)
    for row, q in zip(found.proba(query_table(X, y, Q, k, n_listed)), Q, strict=True):
        expected = loop(past, loops.line(X, y, q, k, n_listed, None), y, k, n_classes)
        np.testing.assert_allclose(row, loops.with_failure(expected, 0.01), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("make", COUNTS.values(), ids=COUNTS)
@settings(max_examples=40, deadline=None)
@given(cases=past_cases(), weights=WEIGHTS, digits=st.booleans())
def test_a_case_taken_out_takes_its_weight_with_it(make: Any, cases: Any, weights: np.ndarray, digits: bool) -> None:
    table, y, n_classes, rows = cases
    weights = weights[: len(y)] * (np.pi / np.arange(3, 3 + len(y)) if digits else 1.0)
    fitted = weighed(make(), weights).fit(table, y, n_classes, rows)
    expected = one_by_one(lambda: weighed(make(), weights), table, y, n_classes, rows)
    np.testing.assert_allclose(fitted.leave_one_out_proba(table, rows), expected, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4).flatmap(lambda k: st.lists(st.lists(st.booleans(), min_size=k, max_size=k), max_size=12)))
@example([[False, False, True, True], [False, False, True, False]])  # what "the first 1 or 2" say helps nobody
def test_no_decreasing_weights_make_weighted_cases_likelier(right: list[list[bool]]) -> None:
    k, worth = (len(right[0]) if right else 3), [1.0 + i % 3 for i in range(len(right))]
    found = decreasing_weights(np.array(right, bool).reshape(-1, k), np.array(worth)).tolist()
    here = loops.log_likelihood(found, right, worth)
    assert all(loops.log_likelihood(other, right, worth) <= here + 1e-7 for other in decreasing_grid(k, 12))


@pytest.mark.parametrize("by", ["rank", "row"])
@settings(max_examples=30, deadline=None)
@given(data=labeled_rows(smallest=3), weights=WEIGHTS)
def test_learned_weights_multiply_those_of_the_rows(by: str, data: Any, weights: np.ndarray) -> None:
    X, y = data
    weights, n_classes, k = weights[: len(y)], int(y.max()) + 1, 2
    found = weighed(Weighted(by=by, model_failure=0.0), weights).fit(left_out(X, y, k, 1), y, n_classes)
    Q = queries_for(X)
    for row, q in zip(found.proba(query_table(X, y, Q, k, 1)), Q, strict=True):
        seen = loops.line(X, y, q, k, 1, None)
        both = [found.weights_[i if by == "row" else j] * weights[i] for j, i in enumerate(seen.rows)]
        np.testing.assert_allclose(row, loops.weighted(seen.said, both, n_classes), atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(data=labeled_rows(smallest=4), weights=WEIGHTS)
def test_a_pool_of_weighted_rows_equals_the_loop(data: Any, weights: np.ndarray) -> None:
    X, y = data
    weights = weights[: len(y)]
    if np.bincount(y).max() == 1:
        return
    Q = queries_for(X)
    clf = NeighborClassifier(1, posterior=Pooled(members=(1, 4))).fit(X, y, weights)
    expected, p = reference_fusion.pooled([X], y, [Q], (1, 4), largest=0.01, row_weights=weights)
    np.testing.assert_allclose(clf.posterior_._all_weights, expected, atol=5e-4)
    np.testing.assert_allclose(clf.predict_proba(Q), p, atol=2e-4)


@pytest.mark.parametrize("n_cases", [30, 1200])  # from 1,000 on, a few of them lead near the minimum
def test_a_case_that_counts_twice_teaches_what_two_cases_teach(n_cases: int) -> None:
    random = np.random.default_rng(0)
    features, truth = random.normal(size=(n_cases, 4, 2)), random.integers(0, 4, n_cases)
    twice = np.arange(n_cases) % 3
    one = Cases(features, np.zeros((n_cases, 4)), truth, worth=twice.astype(float))
    both = Cases(features.repeat(twice, axis=0), np.zeros((twice.sum(), 4)), truth.repeat(twice))
    np.testing.assert_allclose(fit_weights(one, 0.0)[0], fit_weights(both, 0.0)[0], atol=1e-6)
    sums = [
        (add_cases(cases, np.ones(2), np.empty(len(cases.truth)), g, h), g, h)
        for cases, g, h in ((one, np.zeros(2), np.zeros((2, 2))), (both, np.zeros(2), np.zeros((2, 2))))
    ]
    for once, repeated in zip(*sums, strict=True):
        np.testing.assert_allclose(once, repeated, atol=1e-9)
    p = random.random(n_cases)
    assert failure_share(p, 4, twice.astype(float)) == pytest.approx(failure_share(p.repeat(twice), 4))
    mean, error = mean_and_error(p, np.full(n_cases, 7.0))
    assert (mean, error) == pytest.approx(mean_and_error(p, None))


@pytest.mark.parametrize("tie_break", TIE_RULES)
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@settings(max_examples=20, deadline=None)
@given(data=labeled_rows(smallest=2), weights=WEIGHTS)
def test_the_k_curve_is_that_of_weighted_votes(tie_break: str, smoothing: str, data: Any, weights: np.ndarray) -> None:
    (X, y), k = data, min(5, len(data[1]) - 1)
    kept, n_classes = RowWeights.of(weights[: len(y)]), int(y.max()) + 1
    if kept is None:
        return
    table, worth = NeighborIndex().fit(X).leave_one_out(k), kept.relative
    past = WeightedPastVotes(k, n_classes, kept, smoothing=smoothing, tie_break=tie_break, seed=3)
    curve = past.add(table, y, np.arange(len(y))).curve()
    for each in range(1, k + 1):
        votes = weighed(Proportional(smoothing=smoothing), weights[: len(y)]).fit(None, y, n_classes)
        p = votes.proba(table.first(each))
        right = winners(p, table.first(each), y, tie_break, seed=3) == y
        assert curve.accuracy[each - 1] == pytest.approx(np.average(right, weights=worth))
        expected = np.average(np.log(p[np.arange(len(y)), y]), weights=worth)
        assert curve.log_posterior[each - 1] == pytest.approx(expected)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=40), st.randoms())
def test_sums_of_weights_are_exact_in_any_order(given_weights: list[float], order: Any) -> None:
    weights = RowWeights.of(np.array(given_weights) / max(given_weights))
    if weights is None:
        return
    values = weights.values.tolist()
    assert min(values) > 0
    order.shuffle(values)
    assert sum(values) == weights.total
    assert sum(values) - values[0] == sum(values[1:])
    assert weights.relative.mean() == pytest.approx(1)
    assert 1 <= weights.total / weights.n_rows <= 2
