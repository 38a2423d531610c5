"""Past cases of a large collection are those of as many rows as fit into memory, and say what those of all rows say."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import nearsay as ns
from nearsay.posterior import past_cases
from nearsay.posterior.base import Posterior
from nearsay.posterior.methods.named import POSTERIORS
from nearsay.posterior.past_cases import rows_judged, rows_not_judged


def blobs(n: int, n_classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    centers = np.random.default_rng(7).normal(size=(n_classes, 3))
    return centers[y] * 2 + rng.normal(size=(n, 3)), y


def judging(posterior: str, most: int) -> Posterior:
    """The posterior of this name, which is taught by so many rows."""
    made = POSTERIORS[posterior]()
    if made.needs_past_cases:
        made.max_past_cases = most
    return made


def test_all_rows_are_judged_while_their_table_fits():
    known = {"n_classes": 10, "table_bytes": 1000 * (16 * 5 + 8 * (2 * 10 + 2 * 10 + 1))}
    assert rows_judged(1000, 5, (1, 4), **known) is None
    assert len(rows_judged(1001, 5, (1, 4), **known)) == 1000
    assert len(rows_judged(1001, 5, (1, 4), **known, n_groups=2)) == 500
    assert rows_judged(1001, 5, None, **known) is None


@pytest.mark.parametrize("period", [2, 3, 5, 10])
def test_rows_that_are_judged_are_of_all_classes_however_these_alternate(period):
    labels = np.arange(900) % period
    rows = rows_judged(900, 5, (1, 4), n_classes=4, max_past_cases=300)
    assert (np.diff(rows) > 0).all()
    assert np.bincount(labels[rows]).min() > 0.6 * len(rows) / period


class Spied:
    """Views that remember which rows they were asked about."""

    def __init__(self, views):
        self._views, self.rows = views, []

    def __getattr__(self, name):
        return getattr(self._views, name)

    def __len__(self):
        return len(self._views)

    def leave_one_out(self, k, members=None, rows=None):
        self.rows.append(rows)
        return self._views.leave_one_out(k, members, rows)


@pytest.mark.slow
@pytest.mark.parametrize("members", [None, (1, 4)])
@pytest.mark.parametrize("metric", ["euclidean", "auto"])
def test_rows_that_were_judged_are_not_asked_again_for_novelty(members, metric):
    X, y = blobs(120, 4)
    X = np.round(X)  # ties
    clf = ns.NeighborClassifier(3, posterior="auto", metric=metric).fit(X, y)
    asked = Spied(clf.model_.views)
    past = past_cases.PastCases(asked, max_past_cases=50)
    judged = past.judged(6, (1, 4))[1]
    assert 40 < len(judged) < 60
    found = past.sampled(3, members)
    assert sorted([*judged, *asked.rows[1]]) == list(range(120))
    expected = clf.model_.views.leave_one_out(6, members)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.distances, expected.distances)
    np.testing.assert_array_equal(found.model_log_p, expected.model_log_p)
    views, others = ((t.classes, *t.further) if members else () for t in (found, expected))
    for view, other in zip(views, others, strict=True):
        for mine, theirs in zip(view.arrays, other.arrays, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    assert past.sampled(3) is past.sampled(2)


def test_every_row_is_judged_or_not():
    rows = np.array([1, 5, 6])
    others = np.concatenate(list(rows_not_judged(rows, 9)))
    assert sorted([*rows, *others]) == list(range(9))
    assert not list(rows_not_judged(None, 9))


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_what_is_learned_from_some_rows_is_nearly_what_is_learned_from_all(posterior):
    X, y = blobs(900, 4)
    Q, truth = blobs(400, 4, seed=1)
    whole = ns.NeighborClassifier(5, posterior=posterior).fit(X, y)
    part = ns.NeighborClassifier(5, posterior=judging(posterior, 450)).fit(X, y)
    lost = [-np.log(clf.predict_proba(Q)[np.arange(400), truth]).mean() for clf in (whole, part)]
    assert abs(lost[1] - lost[0]) < 0.05


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_a_row_that_taught_nothing_is_answered_as_a_query_without_it_would_be(posterior):
    X, y = blobs(900, 4)
    clf = ns.NeighborClassifier(5, posterior=judging(posterior, 300)).fit(X, y)
    p = clf.leave_one_out_proba()
    np.testing.assert_allclose(p.sum(axis=1), 1)
    members = clf.model_.members
    _, rows = clf.model_.past.judged(5, members)
    others = np.concatenate([[], *rows_not_judged(rows, 900)]).astype(int)
    table = clf.model_.views.leave_one_out(5, members, others)
    np.testing.assert_allclose(p[others], clf.posterior_.proba(table), atol=1e-12)
    # Those that taught are answered by what the others taught.
    taught, _ = clf.model_.past.judged(5, members)
    np.testing.assert_allclose(
        p[slice(None) if rows is None else rows],
        clf.posterior_.leave_one_out_proba(taught, rows),
        atol=1e-12,
    )


def test_groups_are_judged_on_the_same_rows():
    X, y = blobs(900, 4)
    X[::7, 2] = np.nan  # a group that some rows lack
    groups = {"first": slice(0, 2), "last": [2]}
    for posterior in ("pooled", "rank&votesplit", "proportional"):
        clf = ns.FusedClassifier(groups, estimator=ns.NeighborClassifier(5, posterior=judging(posterior, 300)))
        p = clf.fit(X, y).leave_one_out_proba()
        assert p.shape == (900, 4)
        np.testing.assert_allclose(p.sum(axis=1), 1)
        assert (p.argmax(axis=1) == y).mean() > 0.5


def test_a_posterior_that_knows_nothing_of_rows_is_taught_by_all():
    class Counting:
        max_past_cases = 300

        def fit(self, table, labels, n_classes):
            self.n_cases, self.n_classes = len(table), n_classes
            return self

        def proba(self, table):
            return np.full((len(table), self.n_classes), 1 / self.n_classes)

    X, y = blobs(900, 4)
    assert ns.NeighborClassifier(5, posterior=Counting()).fit(X, y).posterior_.n_cases == 900


def test_many_classes_take_little_memory():
    """4 members of each of 128 classes are 5 kB a row: 100 MB for 20,000 rows, and three times that on the way."""
    X, y = blobs(20_000, 128)
    ns.NeighborClassifier(5, posterior=judging("pooled", 800)).fit(X[:3000], y[:3000])  # compiles
    tracemalloc.start()
    ns.NeighborClassifier(5, posterior=judging("pooled", 800)).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 80e6
