"""The record beside a probability: what became of past cases that were about as sure."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from sklearn.datasets import load_breast_cancer, make_blobs
from sklearn.model_selection import train_test_split

import nearsay as ns
from nearsay.errors import DatasetNotFound
from nearsay.neighbors.index import NeighborIndex
from nearsay.posterior.evidence.records import OF_CHANCE, REACHES, Records
from nearsay.posterior.methods.named import as_posterior
from nearsay.posterior.past_cases import SAMPLE_ABOVE, SAMPLE_SIZE
from tests.labeled import count_searches
from tests.saving import saved_and_opened


def angle(p: float) -> float:
    return round(float(np.arcsin(np.sqrt(p))), 9)


def like_by_loop(past: list[float], right: list[bool], p: float) -> tuple[int, int]:
    """Past cases within the widest reach of p whose mean is p as far as chance can tell."""
    here = angle(p)
    for reach in REACHES:
        chosen = [i for i, each in enumerate(past) if here - reach <= angle(each) <= here + reach]
        off = abs(math.fsum(angle(past[i]) - here for i in chosen)) / max(len(chosen), 1)
        if off <= OF_CHANCE / (2 * math.sqrt(max(len(chosen), 1))):
            break
    return len(chosen), sum(right[i] for i in chosen)


# Few values, many of them equal, some at 0, 1 and near each other.
CHANCES = st.sampled_from([0.0, 0.001, 0.2, 0.25, 0.4, 0.41, 0.42, 0.5, 0.6, 0.9, 0.99, 0.995, 1.0])


@settings(max_examples=60)
@given(cases=st.lists(st.tuples(CHANCES, st.booleans()), max_size=60), p=CHANCES)
def test_like_p_are_the_cases_around_it_whose_mean_is_p_as_far_as_chance_can_tell(cases, p):
    past, right = [case[0] for case in cases], [case[1] for case in cases]
    found = Records.of(np.array(past), np.array(right)).like(np.array([p]))
    assert (int(found[0][0]), int(found[1][0])) == like_by_loop(past, right, p)


def test_a_crowd_on_one_side_does_not_drown_the_cases_at_p():
    past, right = np.repeat([0.93, 0.97], [14, 900]), np.repeat([True, False, True], [12, 2, 900])
    cases, found = Records.of(past, right).like(np.array([0.93, 0.97]))
    assert cases.tolist() == [14, 914]
    assert found.tolist() == [12, 912]


def test_with_few_cases_they_are_fewer_and_not_less_alike():
    found = Records.of(np.array([0.99] * 90 + [0.5] * 10), np.array([True] * 90 + [True, False] * 5))
    cases, right = found.like(np.array([0.99, 0.5, 0.75]))
    assert cases.tolist() == [90, 10, 0]
    assert right.tolist() == [90, 5, 0]


def test_weighted_cases_are_worth_as_many_even_ones_and_keep_their_weighted_share():
    p, right = np.full(40, 0.7), np.arange(40) % 4 > 0
    for weight in (np.ones(40), np.full(40, 7.5)):
        assert [int(n[0]) for n in Records.of(p, right, weight).like(np.array([0.7]))] == [40, 30]
    weight = np.where(right, 1.0, 3.0)  # the wrong ones are as likely as the right ones
    cases, share = Records.of(p, right, weight).like(np.array([0.7]))
    assert (int(cases[0]), int(share[0])) == (round(60**2 / (30 + 10 * 9)), 15)


# ---------------------------------------------------------------- the record keeps what it says, on rows held out


def of_dataset(name: str, most: int = 2500) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    def rows() -> tuple[np.ndarray, np.ndarray]:
        try:
            found = ns.load_dataset(name)
        except DatasetNotFound as missing:
            pytest.skip(str(missing))
        known = np.flatnonzero(np.isfinite(found.X).all(axis=1))
        some = np.random.default_rng(0).permutation(known)[:most]
        return found.X[some], found.y[some]

    return rows


def a_rare_class() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(5)
    y = (random.random(3000) < 0.1).astype(int)
    return random.normal(size=(3000, 3)) + 1.2 * y[:, None], y


def blobs(n: int, n_columns: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    return make_blobs(n, n_columns, centers=n_classes, cluster_std=3.0, random_state=n_classes)


SETS: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    **{name: of_dataset(name) for name in ("iris", "wine", "digits", "seeds", "leaves", "mnist")},
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "5 blobs": lambda: blobs(2000, 4, 5),
    "200 blobs": lambda: blobs(3200, 8, 200),
    "a rare class": a_rare_class,
}
BINS = [0.3, 0.5, 0.7, 0.9, 0.97]


def surprise(p: np.ndarray, right: np.ndarray, cases: np.ndarray, past_right: np.ndarray) -> tuple[float, int]:
    """Σ z² over bins of probability, of the share right against that of the records; and how many bins there are."""
    total, n_bins = 0.0, 0
    for here in np.arange(len(BINS) + 1):
        of_bin = (np.digitize(p, BINS) == here) & (cases > 0)
        if of_bin.sum() < 20:
            continue
        share, recorded = right[of_bin].mean(), (past_right[of_bin] / cases[of_bin]).mean()
        n, n_past = of_bin.sum(), cases[of_bin].mean()
        both = (share * n + recorded * n_past + 0.5) / (n + n_past + 1)
        total += (share - recorded) ** 2 / (both * (1 - both) * (1 / n + 1 / n_past))
        n_bins += 1
    return total, n_bins


def explained(estimator: Any, Q: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, ...]:
    found = estimator.explain(Q)
    p, cases, right = (
        np.array([value(one) for one in found])
        for value in (lambda one: one.probability, lambda one: one.record["cases"], lambda one: one.record["right"])
    )
    return p, found.predictions == truth, cases, right


# Every posterior on four of the sets, and every set with four of the posteriors or more.
TOLD = [
    pytest.param(list(SETS)[(number + step) % len(SETS)], posterior, marks=[pytest.mark.slow][: bool(step)])
    for number, posterior in enumerate(ns.posterior.POSTERIORS)
    for step in (0, 3, 5, 8)
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "posterior"), TOLD)
def test_held_out_answers_are_right_as_often_as_their_records_say(name, posterior):
    X, y = SETS[name]()
    X, Q, y, truth = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    clf = ns.NeighborClassifier(5, posterior=posterior).fit(X, y)
    said = explained(clf, Q, truth)
    total, n_bins = surprise(*said)
    assert n_bins > 0
    assert (said[2] > 0).mean() > 0.9
    assert total < chi2.ppf(0.9995, n_bins)


@pytest.mark.slow
@pytest.mark.parametrize(("posterior", "exponents"), [("proportional", None), ("rank", "learned"), ("pooled", None)])
def test_records_of_several_groups_keep_what_they_say(posterior, exponents):
    X, y = blobs(2400, 4, 8)
    X, Q, y, truth = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    base = ns.NeighborClassifier(5, posterior=posterior)
    groups = {"first": slice(0, 2), "last": slice(2, 4)}
    total, n_bins = surprise(*explained(ns.FusedClassifier(groups, base, exponents=exponents).fit(X, y), Q, truth))
    assert n_bins > 2
    assert total < chi2.ppf(0.9995, n_bins)


def test_the_check_finds_records_that_do_not_keep_what_they_say():
    random = np.random.default_rng(0)
    p = random.uniform(0.3, 1, 1000)
    right, cases = random.random(1000) < p, np.full(1000, 100)
    assert surprise(p, right, cases, np.rint(100 * p))[0] < chi2.ppf(0.9995, 5)
    for wrong in (np.full(1000, 65), np.rint(100 * (p - 0.15)), np.rint(100 * p**2)):
        assert surprise(p, right, cases, wrong)[0] > chi2.ppf(0.9995, 5)


# ---------------------------------------------------------------- where records come from, and when


def noisy(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    X = random.normal(size=(n, 2))
    return X, (X[:, 0] + random.normal(size=n) > 0).astype(int)


@pytest.mark.slow
@pytest.mark.parametrize("name", ns.posterior.POSTERIORS)
def test_the_record_counts_past_cases_as_others_answered_them(name):
    X, y = noisy()
    clf = ns.NeighborClassifier(7, posterior=name, tie_break="first").fit(X, y)
    p = clf.leave_one_out_proba()
    if name not in ("proportional", "weighted", "pooled"):  # tables: as a query with these neighbors is answered
        table = NeighborIndex().fit(X).with_labels(y).leave_one_out(7, ())
        p = as_posterior(name).fit(table, y, 2).proba(table)
    right, sure = (p.argmax(axis=1) == y).tolist(), p.max(axis=1).tolist()
    for one in clf.explain(X[:20] + 0.1):
        assert (one.record["cases"], one.record["right"]) == like_by_loop(sure, right, one.probability)


def test_a_record_does_not_tell_right_from_wrong_by_what_leaving_one_out_changes():
    # 40 rows answered alike, 30 of them right: taken back from the counts, a right one leaves 29 of 39, a wrong one 30.
    X, y = np.zeros((40, 1)), np.repeat([0, 1], [30, 10])
    clf = ns.NeighborClassifier(9, posterior="rank", tie_break="first").fit(X, y)
    left_out = clf.leave_one_out_proba()
    assert len({round(float(p), 6) for p in left_out[:30, 0]} & {round(float(p), 6) for p in left_out[30:, 0]}) == 0
    assert clf.explain([[0.0]])[0].record == {"cases": 40, "right": 30, "low": 0.598, "high": 0.858}


def test_the_only_row_of_a_class_is_no_past_case():
    X, y = noisy(60)
    clf = ns.NeighborClassifier(60, posterior="proportional").fit(np.vstack([X, [[9.0, 9.0]]]), [*y.tolist(), 2])
    assert len(clf.explain(X[:1])) == 1
    assert len(clf.model_.records) == 60
    alone = ns.NeighborClassifier(1, posterior="proportional").fit(X[:3], ["a", "b", "c"]).explain(X[:1])[0]
    assert alone.record == {"cases": 0, "right": 0, "low": 0.0, "high": 1.0}
    assert "No past case had a probability like this." in alone.text


@pytest.mark.parametrize("fused", [False, True])
def test_fit_makes_no_record_and_a_second_explain_makes_none_again(monkeypatch, fused):
    X, y = noisy()
    clf = ns.NeighborClassifier(7, posterior="proportional")
    clf = (ns.FusedClassifier({"all": slice(None)}, clf) if fused else clf).fit(X, y)
    searches = count_searches(monkeypatch)
    first = clf.explain(X[:5])[0].record
    assert searches == {"query": 1, "leave_one_out": 1}
    assert clf.explain(X[:5])[0].record == first
    assert searches == {"query": 2, "leave_one_out": 1}
    clf.fit(X[:50], y[:50])
    assert clf.explain(X[:5])[0].record["cases"] <= 50


@pytest.mark.parametrize("fused", [False, True])
def test_a_sample_stands_for_many_rows_that_teach_nothing(fused):
    X, y = noisy(SAMPLE_ABOVE + 1)
    for posterior, n_cases in (("proportional", SAMPLE_SIZE), ("rank", SAMPLE_ABOVE + 1)):
        clf = ns.NeighborClassifier(7, posterior=posterior)
        clf = (ns.FusedClassifier({"all": slice(None)}, clf) if fused else clf).fit(X, y)
        clf.explain(X[:1])
        assert len(clf.model_.records) == n_cases


def test_threads_that_ask_at_once_get_the_same_records():
    X, y = noisy()
    clf = ns.NeighborClassifier(7, posterior="pooled").fit(X, y)
    found: list[Any] = [None] * 4

    def ask(place: int) -> None:
        found[place] = [one.to_dict() for one in clf.explain(X[:30])]

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] is not None
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize("asked_before", [False, True])
@pytest.mark.parametrize("fused", [False, True])
def test_a_saved_classifier_tells_the_same_records(fused, asked_before):
    X, y = noisy()
    clf = ns.NeighborClassifier(7, posterior="rank&votesplit")
    clf = (ns.FusedClassifier({"all": slice(None)}, clf) if fused else clf).fit(X, y)
    expected = [one.to_dict() for one in clf.explain(X[:30])]
    if not asked_before:
        clf = clf.fit(X, y)
    assert [one.to_dict() for one in saved_and_opened(clf).explain(X[:30])] == expected
