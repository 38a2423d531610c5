"""A posterior of the user's own, of which only fit and proba are asked, goes wherever a built-in one goes."""

from __future__ import annotations

import ast
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nearsay as ns
from nearsay.data.content_order import content_order
from nearsay.displays import CaseTableDisplay
from nearsay.neighbors.index import NeighborIndex
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.base import FOLDS_LEFT_OUT, Posterior, splits
from nearsay.posterior.methods.custom_posterior import CustomPosterior
from nearsay.posterior.methods.named import as_posterior
from nearsay.posterior.methods.past_case_table import CaseTable
from tests.labeled import labeled_rows


class HowOften:
    """Votes times how often neighbors of each class were right in past cases; says nothing of rows."""

    def fit(self, table: NeighborTable, labels: np.ndarray, n_classes: int) -> None:
        assert len(table) == len(labels)
        assert table.indices.max(initial=-1) < len(labels)
        self.labels, self.n_classes, self.n_cases = labels, n_classes, len(table)
        self._count(table, labels)

    def _count(self, table: NeighborTable, truth: np.ndarray) -> None:
        self.right = np.ones(self.n_classes)
        for line, label in zip(table.indices, truth, strict=True):
            self.right[label] += np.count_nonzero(self.labels[line[line >= 0]] == label)

    def proba(self, table: NeighborTable) -> np.ndarray:
        p = np.full((len(table), self.n_classes), 0.01)
        for i, line in enumerate(table.indices):
            for row in line[line >= 0]:
                p[i, self.labels[row]] += self.right[self.labels[row]]
        return p / p.sum(axis=1, keepdims=True)


class HowOftenOfRows(HowOften):
    """The same, for who says which rows the lines are about."""

    def fit(self, table: NeighborTable, labels: np.ndarray, n_classes: int, rows: Any = None) -> None:  # type: ignore[override]
        self.labels, self.n_classes, self.n_cases = labels, n_classes, len(table)
        self._count(table, labels if rows is None else labels[rows])


class WithMore(HowOften):
    """Has a table besides."""

    def tables(self) -> list[CaseTable]:
        return [CaseTable("mine", ("class",), (list(range(self.n_classes)),), self.right, self.right / 100)]


KINDS: list[Any] = [HowOften, HowOftenOfRows]


def blobs(n: int = 90) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    y = random.integers(0, 3, n)
    return y[:, None] + random.normal(size=(n, 4)), y


def wrapped(kind: Any) -> Posterior:
    return as_posterior(kind())


def without_rows(table: NeighborTable, kept: list[int]) -> NeighborTable:
    """The table of a collection of these rows only, by loops."""
    indices, distances = np.full(table.indices.shape, -1), np.full(table.distances.shape, np.inf)
    for i in range(len(table)):
        place = 0
        for row, far in zip(table.indices[i].tolist(), table.distances[i], strict=True):
            if row in kept:
                indices[i, place], distances[i, place] = kept.index(row), far
                place += 1
    return NeighborTable(indices, distances)


@settings(max_examples=40, deadline=None)
@given(data=labeled_rows(smallest=3), k=st.integers(1, 5), lots=st.integers(0, 2**20))
def test_an_object_fitted_to_some_rows_knows_these_rows_only(data, k, lots):
    X, y = data
    rows = np.sort(np.random.default_rng(lots).choice(len(X), 1 + lots % len(X), replace=False))
    table = NeighborIndex().fit(X).with_labels(y).leave_one_out(k)
    n_classes = int(y.max()) + 1
    adapted = wrapped(HowOften)
    adapted.fit(table[rows], y, n_classes, rows)
    known, alone = rows.tolist(), HowOften()
    alone.fit(without_rows(table[rows], known), y[rows], n_classes)
    np.testing.assert_array_equal(adapted.proba(table), alone.proba(without_rows(table, known)))
    # One that takes rows is told of them, and keeps its neighbors.
    taking = wrapped(HowOftenOfRows)
    taking.fit(table[rows], y, n_classes, rows)
    of_rows = HowOftenOfRows()
    of_rows.fit(table[rows], y, n_classes, rows)
    np.testing.assert_array_equal(taking.proba(table), of_rows.proba(table))


@pytest.mark.parametrize("kind", KINDS)
def test_a_case_is_answered_by_what_the_other_folds_taught(kind):
    X, y = blobs()
    clf = ns.NeighborClassifier(5, posterior=kind()).fit(X, y)
    p = clf.leave_one_out_proba()
    table = NeighborIndex().fit(X).leave_one_out(5)
    order = content_order(X, y)
    for taught, asked in splits(y[order], FOLDS_LEFT_OUT):
        taught, asked = order[taught], order[asked]
        others, known = kind(), taught.tolist()
        if kind is HowOftenOfRows:
            others.fit(table[taught], y, 3, taught)
            expected = others.proba(table[asked])
        else:
            others.fit(without_rows(table[taught], known), y[taught], 3)
            expected = others.proba(without_rows(table[asked], known))
        np.testing.assert_allclose(p[asked], expected, atol=1e-12)


@pytest.mark.parametrize("exponents", [None, "learned"])
@pytest.mark.parametrize("kind", KINDS)
def test_groups_that_some_rows_lack_are_no_trouble_for_an_object_of_the_users_own(kind, exponents):
    X, y = blobs()
    X[::7, 0] = np.nan
    X[3::7, 3] = np.nan
    groups = {"first": slice(0, 2), "last": slice(2, 4)}
    fused = ns.FusedClassifier(groups, ns.NeighborClassifier(5, posterior=kind()), exponents=exponents).fit(X, y)
    np.testing.assert_allclose(fused.predict_proba(X).sum(axis=1), 1)
    np.testing.assert_allclose(fused.leave_one_out_proba().sum(axis=1), 1)
    assert (fused.predict(X) == y).mean() > 0.5
    assert fused.explain(X[:2])[0].record["cases"] > 0


def test_what_else_an_object_has_is_used_and_what_it_has_not_is_that_of_a_posterior():
    X, y = blobs()
    clf = ns.NeighborClassifier(5, posterior=WithMore()).fit(X, y)
    assert type(clf.posterior_) is WithMore
    assert [table.name for table in CaseTableDisplay.from_estimator(clf).tables] == ["mine"]
    plain = ns.NeighborClassifier(5, posterior=HowOften()).fit(X, y)
    with pytest.raises(ns.InputError, match="This posterior keeps none"):
        CaseTableDisplay.from_estimator(plain)
    adapted = wrapped(HowOften)
    for name in ("needs_past_cases", "members", "counts_votes"):
        assert getattr(adapted, name) == getattr(Posterior, name)


def test_a_copy_of_an_adapted_object_shares_nothing_with_it():
    mine = HowOften()
    adapted = CustomPosterior(mine)
    assert copy(adapted).custom is not mine  # type: ignore[attr-defined]


def probes(source: Path) -> list[str]:
    """Where a file asks what an object has, of anything but an estimator's own state."""
    calls = [node for node in ast.walk(ast.parse(source.read_text())) if isinstance(node, ast.Call)]
    asks = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id in ("getattr", "hasattr")]
    return [f"{source.name}:{call.lineno}" for call in asks if ast.unparse(call.args[0]) not in ("self", "X")]


def test_only_the_adapter_and_the_check_of_what_was_passed_ask_what_an_object_has():
    folder = Path(ns.__file__).parent / "posterior"
    found = [place for source in sorted(folder.rglob("*.py")) for place in probes(source)]
    assert {place.partition(":")[0] for place in found} == {"custom_posterior.py", "named.py"}
