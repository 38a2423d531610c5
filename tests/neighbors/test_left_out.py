"""Past cases are judged by what the others taught: a case left out equals a fit without it, for every posterior."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from nearsay.core.parallel import threads
from nearsay.neighbors.index import NeighborIndex
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior import base
from nearsay.posterior.base import splits
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.fused import FusedClassifier
from nearsay.posterior.methods import pooled
from nearsay.posterior.methods.confusion import Confmat, ConfmatRank, ConfmatRankVotesplit
from nearsay.posterior.methods.dist_votesplit import DistVotesplit
from nearsay.posterior.methods.fusion import Fusion
from nearsay.posterior.methods.named import POSTERIORS
from nearsay.posterior.methods.pooled import Pooled
from nearsay.posterior.methods.proportional import Proportional
from nearsay.posterior.methods.rank import Rank, RankVotesplit
from nearsay.posterior.methods.weighted import Weighted
from tests.labeled import labeled_rows

pytestmark = pytest.mark.filterwarnings("ignore:Every class has one row")

COUNTS: dict[str, Callable[[], Any]] = {
    "rank": Rank,
    "rank&votesplit": RankVotesplit,
    "confmat": Confmat,
    "confmat, by column": lambda: Confmat(normalize="column"),
    "confmat&rank": ConfmatRank,
    "confmat&rank&votesplit": ConfmatRankVotesplit,
    "dist&votesplit": DistVotesplit,
}


@st.composite
def past_cases(draw: st.DrawFn) -> tuple[NeighborTable, np.ndarray, int, np.ndarray]:
    """A leave-one-out table, its labels, the number of classes, and the rows that its lines are about."""
    X, y = draw(labeled_rows(smallest=2))
    n_classes = int(y.max()) + 1 + draw(st.integers(0, 1))
    k, shift = draw(st.integers(1, 6)), draw(st.sampled_from([0.0, 2.5]))
    table = NeighborIndex().fit(X).with_labels(y, n_classes).leave_one_out(min(k, len(X) - 1), (1, 4))
    table = NeighborTable(table.indices, table.distances - shift, table.classes)  # below 0, as learned scores are
    rows = np.flatnonzero(draw(st.lists(st.sampled_from([True, True, True, False]), min_size=len(X), max_size=len(X))))
    return table[rows], y, n_classes, rows


def one_by_one(
    make: Callable[[], Any], table: NeighborTable, y: np.ndarray, n_classes: int, rows: np.ndarray
) -> np.ndarray:
    """The slow reference: fitted without each case in turn, and asked about it."""
    p = np.empty((len(table), n_classes))
    for line in range(len(table)):
        others = np.arange(len(table)) != line
        p[line] = make().fit(table[others], y, n_classes, rows[others]).proba(table[line : line + 1])[0]
    return p


@pytest.mark.parametrize("make", COUNTS.values(), ids=COUNTS)
@settings(max_examples=40, deadline=None)
@given(cases=past_cases())
def test_a_case_taken_out_of_the_counts_leaves_those_of_a_fit_without_it(make: Any, cases: Any) -> None:
    table, y, n_classes, rows = cases
    fitted = make().fit(table, y, n_classes, rows)
    before = fitted.proba(table)
    p = fitted.leave_one_out_proba(table, rows)
    np.testing.assert_allclose(p, one_by_one(make, table, y, n_classes, rows), atol=1e-12)
    np.testing.assert_array_equal(fitted.proba(table), before)  # and the posterior is as it was


@pytest.mark.slow
@pytest.mark.parametrize("make", [Weighted, lambda: Weighted(by="row"), lambda: Pooled(members=(1,))])
@settings(max_examples=40, deadline=None)
@given(cases=past_cases())
def test_what_cannot_be_taken_back_is_learned_from_the_other_folds_and_sizes_are_those_without_the_case(
    make: Any, cases: Any
) -> None:
    table, y, n_classes, rows = cases
    # The usual distance tells nothing of labels, so the pool keeps that of all cases; here any cases have the same.
    with patch.object(pooled, "usual_distance", return_value=1.0):
        p = make().fit(table, y, n_classes, rows).leave_one_out_proba(table, rows)
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)
        if np.bincount(y).max() < 2:
            return
        for taught, asked in splits(y[rows], base.FOLDS_LEFT_OUT):
            others = make().fit(table[taught], y, n_classes, rows[taught])
            for line in asked:
                expected = one_row_less(others, y[rows[line]]).proba(table[[line]])[0]
                np.testing.assert_allclose(p[line], expected, atol=1e-5)  # what the searches leave


def one_row_less(posterior: Any, label: int) -> Any:
    """The same posterior where a class has one row less; only the pool looks at how many there are."""
    if not isinstance(posterior, Pooled):
        return posterior
    sizes = np.bincount(posterior.labels_, minlength=posterior.n_classes_)
    usual = np.median(sizes[sizes > 1])
    sizes[label] -= 1
    other = copy(posterior)
    other._far_by_size = np.array([-np.log(size if size > 1 else usual) for size in sizes])
    return other


GROUPS = {"one": slice(0, 1), "two": slice(1, 2)}


@pytest.mark.parametrize("name", [*COUNTS, "proportional"])
def test_groups_multiply_what_each_says_without_the_case(name: str) -> None:
    make = COUNTS.get(name, Proportional)
    random = np.random.default_rng(0)
    y = random.integers(0, 3, 40)
    X = y[:, None] + random.normal(size=(40, 2))
    X[::7, 0] = np.nan
    views = FusedClassifier(GROUPS, NeighborClassifier(3, posterior="rank")).fit(X, y).views_
    tables = [view.past_cases(3, (1, 4)) for view in views]
    fusion = Fusion(make()).fit(tables, y, 3)
    p = fusion.leave_one_out_proba(tables)
    for line in range(len(y)):
        others = np.flatnonzero(np.arange(len(y)) != line)
        without = Fusion(make()).fit([table[others] for table in tables], y, 3, others)
        np.testing.assert_allclose(p[[line]], without.proba([table[[line]] for table in tables]), atol=1e-12)


class ByRote:
    """Knows the label of every case it was taught by the distances of its neighbors, and nothing else."""

    def fit(self, table: NeighborTable, labels: np.ndarray, n_classes: int) -> ByRote:
        assert len(table) == len(labels)
        assert table.indices.max() < len(labels)
        self.known = {distances.tobytes(): label for distances, label in zip(table.distances, labels, strict=True)}
        self.n_classes = n_classes
        return self

    def proba(self, table: NeighborTable) -> np.ndarray:
        p = np.full((len(table), self.n_classes), 1 / self.n_classes)
        for line, distances in enumerate(table.distances):
            if distances.tobytes() in self.known:
                p[line] = np.eye(self.n_classes)[self.known[distances.tobytes()]]
        return p


class ByRoteOfRows(ByRote):
    """The same, for who says which rows the lines are about."""

    def fit(self, table: NeighborTable, labels: np.ndarray, n_classes: int, rows: Any = None) -> ByRote:  # type: ignore[override]
        truth = labels if rows is None else labels[rows]
        self.known = {distances.tobytes(): label for distances, label in zip(table.distances, truth, strict=True)}
        self.n_classes = n_classes
        return self


ESTIMATORS: dict[str, Any] = {
    **{name: NeighborClassifier(5, posterior=name) for name in POSTERIORS},
    "weighted, by row": NeighborClassifier(5, posterior=Weighted(by="row")),
    "confmat, by column": NeighborClassifier(5, posterior=Confmat(normalize="column")),
    "by rote": NeighborClassifier(5, posterior=ByRote()),
    "by rote of rows": NeighborClassifier(5, posterior=ByRoteOfRows()),
    "auto": NeighborClassifier("auto", posterior="auto"),
    "fused, product": FusedClassifier(GROUPS, NeighborClassifier(5, posterior="dist&votesplit")),
    "fused, learned": FusedClassifier(GROUPS, NeighborClassifier(5, posterior="confmat"), exponents="learned"),
    "fused, pooled": FusedClassifier(GROUPS, NeighborClassifier(5, posterior="pooled")),
    "fused, by rote": FusedClassifier(GROUPS, NeighborClassifier(5, posterior=ByRote())),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name != "auto"])  # that is in test_nested.py
def test_labels_drawn_by_lot_are_not_known(name: str) -> None:
    """By the log posterior: one that knows nothing can do no better than to find all classes alike."""
    repetitions, n = 8, 100
    random = np.random.default_rng(0)
    log_p = []
    for _ in range(repetitions):
        X, y = random.normal(size=(n, 2)), random.integers(0, 2, n)
        p = clone(ESTIMATORS[name]).fit(X, y).leave_one_out_proba()
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)
        log_p.append(np.log(np.maximum(p[np.arange(n), y], 1e-300)).mean())
    assert np.mean(log_p) < np.log(0.5) + 3 * np.std(log_p) / np.sqrt(repetitions) + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_left_out_answers_do_not_depend_on_threads(name: str) -> None:
    random = np.random.default_rng(1)
    y = random.integers(0, 4, 150)
    X = y[:, None] + random.normal(size=(150, 2))
    answers = []
    for count in (1, 3):
        with threads(count):
            answers.append(clone(ESTIMATORS[name]).fit(X, y).leave_one_out_proba())
    np.testing.assert_array_equal(*answers)


def test_a_posterior_that_learned_nothing_from_cases_answers_as_ever() -> None:
    table = NeighborTable(np.array([[1], [0]]), np.ones((2, 1)))
    posterior = Proportional().fit(None, np.array([0, 1]), 2)
    np.testing.assert_array_equal(posterior.leave_one_out_proba(table), posterior.proba(table))
    alone = Weighted().fit(table, np.array([0, 1]), 2)  # every class has one row: no case taught anything
    np.testing.assert_array_equal(alone.leave_one_out_proba(table), alone.proba(table))


def test_many_cases_are_left_out_in_blocks() -> None:
    """Of 1,638 rows: the tables of all the others answer for rows of both."""
    random = np.random.default_rng(2)
    y = random.integers(0, 3, 1700)
    table = NeighborIndex().fit(y[:, None] + random.normal(size=(1700, 2))).leave_one_out(4)
    whole = DistVotesplit().fit(table, y, 3).leave_one_out_proba(table)
    for row in (0, 1637, 1638, 1699):
        others = np.delete(np.arange(1700), row)
        without = DistVotesplit().fit(table[others], y, 3, others)
        np.testing.assert_allclose(whole[row], without.proba(table[row : row + 1])[0], rtol=1e-12)


@pytest.mark.parametrize("n_classes", [100, 150])
def test_a_case_is_taken_out_where_all_classes_are_listed_and_where_only_the_nearest_are(
    n_classes: int,
) -> None:
    random = np.random.default_rng(3)
    y = np.repeat(np.arange(n_classes), 3)
    X = 3 * random.normal(size=(n_classes, 3))[y] + random.normal(size=(len(y), 3))
    labeled = NeighborIndex().fit(X).with_labels(y, n_classes)
    labeled.lists_all = n_classes <= 128
    table = labeled.leave_one_out(4, ())
    assert (table.classes.numbers.shape[1] == n_classes) == (n_classes <= 128)
    for make in COUNTS.values():
        p = make().fit(table, y, n_classes).leave_one_out_proba(table)
        for line in range(0, len(y), 29):
            others = np.flatnonzero(np.arange(len(y)) != line)
            without = make().fit(table[others], y, n_classes, others).proba(table[[line]])
            np.testing.assert_allclose(p[[line]], without, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(cases=past_cases(), some=st.integers(0, 13))
def test_cases_taken_back_leave_the_counts_of_those_that_stay(cases: Any, some: int) -> None:
    table, y, n_classes, rows = cases
    for make in (Rank, RankVotesplit, Confmat):
        fitted = make().fit(table, y, n_classes, rows)
        less = fitted.without(table[:some], rows[:some])
        stay = make().fit(table[some:], y, n_classes, rows[some:])
        np.testing.assert_allclose(less.proba(table), stay.proba(table), atol=1e-12)
