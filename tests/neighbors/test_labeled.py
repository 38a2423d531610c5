"""The labeled search as it is used: it stays with the rows and labels it was made for, and looks at labels once."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nearsay as ns
from nearsay.core.parallel import thread_count
from nearsay.distances.vectors import Euclidean
from nearsay.neighbors.by_class import labeled as labeled_search
from tests.reference import neighbors as reference

# What it can be asked: the nearest rows, with the classes in order, with members of each, and members by class.
ASKED = {
    "rows": lambda both, Q: [both.query(Q, 4), both.leave_one_out(4)],
    "classes": lambda both, Q: [both.query(Q, 4, ()), both.leave_one_out(4, ())],
    "members": lambda both, Q: [
        both.query(Q, 4, (1, 2)),
        both.leave_one_out(4, (1, 2)),
        both.leave_one_out(4, (1, 2), [1, 0]),
    ],
    "by class": lambda both, Q: [both.query_by_class(Q, 2), both.leave_one_out_by_class(2)],
}


def arrays(tables: list[Any]) -> list[np.ndarray]:
    found = []
    for table in tables:
        found += [table.indices, table.distances]
        if getattr(table, "classes", None) is not None:
            found += table.classes.arrays
    return found


def assert_equal(some: list[Any], others: list[Any]) -> None:
    for one, other in zip(arrays(some), arrays(others), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [3, 20, 300])
@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
@pytest.mark.parametrize("search", ["exact", "kd"])
@pytest.mark.parametrize("prepared", [True, False], ids=["asked before", "not asked before"])
@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_a_labeled_search_answers_for_the_rows_and_labels_it_was_made_for(n_classes, metric, search, prepared, ask):
    rng = np.random.default_rng(7)
    X, labels = rng.integers(0, 9, size=(60, 3)).astype(float), rng.integers(0, 3, 60)
    index, given = ns.NeighborIndex(metric, search).fit(X[:50]), labels[:50].copy()
    changes = [
        lambda: index.add(X[50:]),
        lambda: index.remove([4, 55]),
        lambda: given.fill(2),  # written to in place
        lambda: index.fit(X[::-1]),
    ]
    before = index.with_labels(given, n_classes)
    expected = ask(ns.NeighborIndex(metric, search).fit(X[:50]).with_labels(labels[:50], n_classes), X + 1)
    if prepared:
        assert_equal(ask(before, X + 1), expected)
    for change in changes:
        change()
        assert_equal(ask(before, X + 1), expected)
    assert len(before) == 50


@pytest.mark.parametrize("n_classes", [3, 20, 300])
@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_a_new_labeled_search_knows_every_change(n_classes, ask):
    rng = np.random.default_rng(8)
    X, labels = rng.integers(0, 9, size=(60, 3)).astype(float), rng.integers(0, 3, 60)
    index = ns.NeighborIndex(search="exact").fit(X[:50])
    index.with_labels(labels[:50], n_classes).leave_one_out(4, (1, 2))
    index.add(X[50:])
    index.remove([4, 55])
    fresh = ns.NeighborIndex(search="exact").fit(X).remove([4, 55])
    assert_equal(ask(index.with_labels(labels, n_classes), X + 1), ask(fresh.with_labels(labels, n_classes), X + 1))


def test_no_answer_is_a_mixture_while_other_threads_change_the_index():
    rng = np.random.default_rng(9)
    X, labels = rng.integers(0, 5, size=(400, 3)).astype(float), rng.integers(0, 4, 400)
    index = ns.NeighborIndex(search="exact").fit(X)
    labeled = index.with_labels(labels)
    expected = labeled.leave_one_out(5, (1, 2))
    done = threading.Event()

    def change() -> None:
        while not done.is_set():
            index.remove(index.add(X[:7]))

    writer = threading.Thread(target=change)
    writer.start()
    try:
        for _ in range(20):
            assert_equal([labeled.leave_one_out(5, (1, 2))], [expected])
            assert labeled.query(X, 3).indices.max() < 400
    finally:
        done.set()
        writer.join()


@st.composite
def few_rows(draw: st.DrawFn) -> tuple[np.ndarray, list[int], list[int]]:
    n = draw(st.integers(1, 9))
    X = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=n, max_size=n))
    return np.array(X, float), [0] * n, sorted(draw(st.sets(st.integers(0, n - 1), max_size=n)))


@settings(max_examples=40)
@given(data=few_rows(), k=st.integers(1, 12), search=st.sampled_from(["exact", "kd"]))
def test_rows_alone_are_those_of_a_loop_and_the_rest_of_the_line_is_empty(data, k, search):
    X, labels, removed = data
    labeled = ns.NeighborIndex(search=search).fit(X).remove(removed).with_labels(labels)
    live = [row for row in range(len(X)) if row not in removed]
    for table, left_out in ((labeled.query(X, k), False), (labeled.leave_one_out(k), True)):
        assert table.classes is None
        for line, q in enumerate(X):
            known = [row for row in live if not left_out or (row != line and line in live)]
            (rows,), (far,) = reference.nearest([X[row] for row in known], [q], k, reference.euclidean)
            missing = k - len(rows)
            assert table.indices[line].tolist() == [known[row] for row in rows] + [-1] * missing
            np.testing.assert_allclose(table.distances[line], [*far, *[np.inf] * missing])


def test_labels_are_looked_at_once_however_often_is_asked(monkeypatch):
    looks: list[int] = []
    check = labeled_search.check_labels
    monkeypatch.setattr(
        labeled_search, "check_labels", lambda labels, *rest: looks.append(len(labels)) or check(labels, *rest)
    )
    X, y = np.random.default_rng(0).normal(size=(300, 4)), np.arange(300) % 3
    for posterior in ("pooled", "rank&votesplit", "proportional"):
        clf = ns.NeighborClassifier(5, posterior=posterior).fit(X, y)
        assert looks == [300]
        for _ in range(3):
            clf.predict_proba(X[:2])
        clf.leave_one_out_proba()
        assert looks == [300]
        looks.clear()


@pytest.mark.parametrize("members", [None, (), (1, 2)])
def test_one_query_among_many_rows_reads_no_label_but_those_of_its_neighbors(members):
    """Where only the nearest classes are listed; with few classes every row is looked at."""

    class Watched(np.ndarray):
        def __getitem__(self, rows: Any) -> Any:
            found = super().__getitem__(rows)
            assert np.size(found) < 100
            return found

    X = np.random.default_rng(1).normal(size=(3000, 3))
    labeled = ns.NeighborIndex(search="kd").fit(X).with_labels(np.arange(3000) % 300)
    labeled.lists_all = False
    expected = labeled.query(X[:1], 5, members)
    labeled.labels = labeled.labels.view(Watched)
    assert_equal([labeled.query(X[:1], 5, members)], [expected])


def test_a_classifier_keeps_answering_from_the_rows_it_was_fitted_to():
    X, y = np.arange(30.0)[:, None], np.arange(30) // 10
    for posterior in ("pooled", "proportional"):
        clf = ns.NeighborClassifier(3, posterior=posterior).fit(X, y)
        expected = clf.predict_proba(X + 0.4), clf.leave_one_out_proba(), str(clf.explain(X[:3] + 0.4))
        clf.index_.add(X + 0.4)
        clf.index_.remove([0, 1, 2])
        np.testing.assert_array_equal(clf.predict_proba(X + 0.4), expected[0])
        np.testing.assert_array_equal(clf.leave_one_out_proba(), expected[1])
        assert str(clf.explain(X[:3] + 0.4)) == expected[2]


def test_a_labeled_search_uses_the_threads_of_its_index():
    used: list[int] = []

    class Noting(Euclidean):
        def check(self, items, **named):
            used.append(thread_count())
            return super().check(items, **named)

    X = np.random.default_rng(0).normal(size=(50, 3))
    labeled = ns.NeighborIndex(Noting(), n_jobs=3).fit(X).with_labels(np.arange(50) % 2)
    used.clear()
    with ns.threads(1):
        labeled.query(X, 3, (1,))
        labeled.query_by_class(X)
    assert used == [3, 3]
    assert repr(labeled) == "<LabeledNeighbors: 50 rows in 2 classes>"
