"""Approximate search while rows come and go: recall measured on what is asked, a rebuild that nobody waits for."""

from __future__ import annotations

import copy
import pickle
import threading
import time

import numpy as np
import pytest

import nearsay as ns
from nearsay.errors import InputError
from nearsay.search.approximate import ApproximateSearch
from nearsay.search.rebuilding import Background
from nearsay.search.running_recall import REMEMBERED, RunningRecall

pytest.importorskip("faiss")

KINDS = pytest.mark.parametrize("kind", ["hnsw", "ivf"])


def rows(n: int, seed: int = 0, d: int = 6) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


def true_recall(index: ns.NeighborIndex, X: np.ndarray, alive: np.ndarray, Q: np.ndarray, k: int) -> float:
    found = index.query(Q, k).indices
    true = np.flatnonzero(alive)[ns.nearest(X[alive], Q, k).indices]
    return float(np.mean([np.isin(a, b).mean() for a, b in zip(true, found, strict=True)]))


# ---------------------------------------------------------------- recall on a running sample


@pytest.mark.slow
@KINDS
def test_the_running_recall_is_that_of_the_queries_which_were_looked_at(kind):
    X, Q = rows(4000), rows(300, seed=1)
    index = ns.NeighborIndex(search=ApproximateSearch(kind=kind, recall=0.8, checked_share=1.0)).fit(X)
    share = true_recall(index, X, np.ones(4000, bool), Q, 5)
    told = index.search_.running_recall_
    assert told.n_queries == 300
    assert told.recall == pytest.approx(share, abs=1e-12)
    assert 0 < told.standard_error < 0.1
    assert f"recall {told.recall:.3f}" in repr(index)
    assert "on 300 queries" in repr(index)


@pytest.mark.slow
def test_looking_at_queries_changes_no_answer():
    X, Q = rows(2200), rows(400, seed=1)
    tables = [
        ns.NeighborIndex(search=ApproximateSearch(recall=0.8, checked_share=share)).fit(X).query(Q, 7).indices
        for share in (0.0, 0.25, 1.0)
    ]
    np.testing.assert_array_equal(tables[0], tables[1])
    np.testing.assert_array_equal(tables[0], tables[2])


def test_the_recall_falls_where_queries_lie_elsewhere_than_the_rows_it_was_tuned_on():
    """A number that is only measured at the build would not show it."""
    X = rows(6000, d=16)
    search = ApproximateSearch(kind="ivf", recall=0.9, checked_share=1.0).fit(X)
    effort = search.settings_[5]
    search.settings_[5] = type(effort)(1, effort.recall, effort.standard_error)  # as if tuned on easier queries
    search.candidates(rows(200, seed=2, d=16), 5)
    assert search.running_recall_.recall < 0.8 < search.settings_[5].recall


@pytest.mark.parametrize("batches", [[1] * 30, [30], [7, 7, 16], [29, 1]])
def test_every_tenth_query_is_looked_at_however_they_come(batches):
    running, seen, before = RunningRecall(0.1), [], 0
    for batch in batches:
        seen += [before + place for place in running.chosen(batch).tolist()]
        before += batch
    assert seen == [9, 19, 29]


def test_only_the_last_queries_are_told():
    running = RunningRecall(1.0)
    running.tell(np.zeros(500))
    running.tell(np.ones(REMEMBERED))
    assert running.measured().recall == 1.0
    assert running.measured().n_queries == REMEMBERED
    assert pickle.loads(pickle.dumps(running)).measured().n_queries == 0
    assert str(RunningRecall(0.0).measured()) == "recall not measured yet"


def test_a_share_that_is_none_is_refused():
    with pytest.raises(InputError, match="checked_share"):
        ApproximateSearch(checked_share=2.0).fit(rows(10))


# ---------------------------------------------------------------- built anew in the background


@pytest.mark.slow
@KINDS
def test_rows_that_come_and_go_during_a_rebuild_are_found_and_not_found_after_it(kind):
    X = rows(5000)
    building, go_on = threading.Event(), threading.Event()

    class Slow(ApproximateSearch):
        def build(self, numbers):
            building.set()
            assert go_on.wait(30)
            return super().build(numbers)

    go_on.set()
    index = ns.NeighborIndex(search=Slow(kind=kind, recall=0.9, background=True)).fit(X[:3000])
    building.clear()
    go_on.clear()
    search = index.search_
    assert search.rebuild(wait=False)
    assert building.wait(30)
    assert search.rebuilding
    assert not search.rebuild(wait=False)
    index.add(X[3000:])
    index.remove(np.arange(0, 3000, 7))
    index.remove([4000])
    old = search._structure
    alive = np.ones(5000, bool)
    alive[::7][: len(range(0, 3000, 7))] = False
    alive[4000] = False
    assert true_recall(index, X, alive, X[:200], 5) > 0.85
    go_on.set()
    assert search._rebuilding.wait(60)
    assert search._structure is not old
    assert len(search._numbers) == 3000
    found = index.query(X, 5).indices
    assert alive[found].all()
    assert true_recall(index, X, alive, X[::17], 5) > 0.85
    assert (index.query(X[3000:4000], 1).indices[:, 0] == np.arange(3000, 4000)).mean() > 0.98


def test_many_changes_start_a_rebuild_by_themselves_and_no_change_waits_for_it():
    go_on = threading.Event()

    class Slow(ApproximateSearch):
        late_room = 50

        def build(self, numbers):
            assert go_on.wait(30)
            return super().build(numbers)

    go_on.set()
    X = rows(2600)
    index = ns.NeighborIndex(search=Slow(kind="hnsw", recall=0.9, background=True)).fit(X[:2200])
    go_on.clear()
    for row in X[2200:]:
        index.add(row[None])
    assert index.search_.rebuilding
    assert index.search_._late.n_live == 400
    go_on.set()
    assert index.search_._rebuilding.wait(60)
    assert index.search_._late.n_live < 400
    assert (index.query(X, 1).indices[:, 0] == np.arange(2600)).mean() > 0.98


@pytest.mark.slow
def test_answers_come_all_the_time_while_rows_change_and_the_structure_is_built_anew():
    X = rows(20_000, d=16)
    index = ns.NeighborIndex(search=ApproximateSearch(kind="hnsw", recall=0.9, background=True)).fit(X[:15_000])
    stop, errors, counts = threading.Event(), [], [0]

    def ask() -> None:
        while not stop.is_set():
            try:
                found = index.query(X[:20], 5).indices
                assert (found >= 0).all()
                counts[0] += 1
            except BaseException as error:
                errors.append(error)
                return

    asking = threading.Thread(target=ask)
    asking.start()
    before_swap = index.search_._structure
    index.search_.rebuild(wait=False)
    start, asked = time.monotonic(), 0
    while index.search_.rebuilding and time.monotonic() - start < 60:
        index.add(X[15_000 + asked : 15_010 + asked])
        asked += 10
        if asked >= 4000:
            break
    during = counts[0]
    index.search_._rebuilding.wait(60)
    stop.set()
    asking.join()
    assert not errors
    assert during > 5
    assert index.search_._structure is not before_swap
    alive = np.arange(20_000) < 15_000 + asked
    assert true_recall(index, X, alive, X[:300], 5) > 0.85


def test_a_rebuild_that_fails_is_told_and_the_old_structure_answers_on():
    class Full(ApproximateSearch):
        full = False

        def build(self, numbers):
            if self.full:
                raise MemoryError("no room")
            return super().build(numbers)

    X = rows(3000)
    index = ns.NeighborIndex(search=Full(recall=0.9, background=True)).fit(X)
    before = index.query(X[:50], 5).indices
    index.search_.full = True
    with pytest.raises(MemoryError, match="no room"):
        index.search_.rebuild()
    np.testing.assert_array_equal(index.query(X[:50], 5).indices, before)


@pytest.mark.slow
@pytest.mark.parametrize("way", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))], ids=["copied", "pickled"])
def test_a_copy_answers_the_same_and_has_work_of_its_own(way):
    X = rows(2100)
    index = ns.NeighborIndex(search=ApproximateSearch(recall=0.9, background=True)).fit(X)
    other = way(index)
    np.testing.assert_array_equal(other.query(X, 4).indices, index.query(X, 4).indices)
    assert other.search_._rebuilding is not index.search_._rebuilding
    other.search_.rebuild()
    np.testing.assert_array_equal(other.query(X, 4).indices, index.query(X, 4).indices)


def test_background_work_is_done_one_at_a_time():
    work, go_on = Background(), threading.Event()
    assert work.start(go_on.wait)
    assert not work.start(go_on.wait)
    assert not work.wait(timeout=0.01)
    go_on.set()
    assert work.wait()
    assert work.start(lambda: None)
