"""A collection that is changed while it is asked: every answer is that of the collection before or after a change.

These run for half a second a backend; NEARSAY_SOAK=60 makes it so many seconds.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import nearsay as ns
from nearsay.core.growing_array import GrowingArray
from nearsay.core.parallel import _blas, in_parallel, one_blas_thread, thread_count
from nearsay.errors import InputError
from nearsay.search.approximate import ApproximateSearch
from nearsay.search.exact import ExactSearch
from nearsay.search.screening.screen import ScreenLimits

SECONDS = float(os.environ.get("NEARSAY_SOAK", "0.5"))
READERS = 8
N_COLUMNS = 6


@dataclass
class History:
    """What a collection held, version by version: which rows there were, and which of them were removed."""

    rows: np.ndarray
    versions: list[tuple[int, frozenset[int]]] = field(default_factory=list)

    def answers(self, q: np.ndarray, k: int, since: int, until: int) -> list[list[int]]:
        """What a double loop would have answered in each of these versions."""
        distances = np.sqrt(((self.rows - q) ** 2).sum(axis=1))
        found = []
        for n, removed in self.versions[since : until + 1]:
            alive = np.array([row for row in range(n) if row not in removed])
            found.append(alive[np.argsort(distances[alive], kind="stable")[:k]].tolist())
        return found


def ask_and_change(index: ns.NeighborIndex, rows: np.ndarray, n_first: int, batch: int) -> tuple[History, list]:
    """One writer adds and removes for a while as readers ask; gives what was held and what was answered."""
    history = History(rows, [(n_first, frozenset())])
    stop, answers, errors = threading.Event(), [], []

    def read(seed: int) -> None:
        rng = np.random.default_rng(seed)
        while not stop.is_set():
            Q = rng.normal(size=(batch, N_COLUMNS))
            since = len(history.versions) - 1
            try:
                table = index.query(Q, k=4)
            except BaseException as error:
                errors.append(error)
                return
            # A version shows before the writer can write it down.
            answers.append((Q[0], table.indices[0].tolist(), since, len(history.versions)))

    def write() -> None:
        rng = np.random.default_rng(99)
        n, removed = n_first, frozenset()
        try:
            while not stop.is_set():
                if n < len(rows) and rng.random() < 0.7:
                    more = int(rng.integers(1, 40))
                    index.add(rows[n : n + more])
                    n = min(n + more, len(rows))
                else:
                    alive = np.setdiff1d(np.arange(n), list(removed))
                    gone = rng.choice(alive, size=min(8, len(alive) - 10), replace=False) if len(alive) > 20 else []
                    index.remove(gone)
                    removed = removed | {int(row) for row in gone}
                history.versions.append((n, removed))
                time.sleep(0.0005)
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=read, args=(seed,), daemon=True) for seed in range(READERS)]
    workers.append(threading.Thread(target=write, daemon=True))
    for worker in workers:
        worker.start()
    time.sleep(SECONDS)
    stop.set()
    for worker in workers:
        worker.join(timeout=120)
    assert not errors, errors[0]
    return history, answers


@pytest.mark.parametrize("batch", [1, 40])
@pytest.mark.parametrize("search", ["exact", "kd", "ball"])
def test_every_answer_is_that_of_some_version(search, batch):
    rows = np.random.default_rng(0).normal(size=(6000, N_COLUMNS))
    index = ns.NeighborIndex(search=search).fit(rows[:1500])
    history, answers = ask_and_change(index, rows, 1500, batch)
    assert len(history.versions) > 3
    assert len(answers) >= READERS
    for q, found, since, until in answers[:: max(1, len(answers) // 300)]:
        assert found in history.answers(q, 4, since, until)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_every_approximate_answer_names_rows_of_one_version(kind):
    pytest.importorskip("faiss", reason='needs faiss: pip install "nearsay[faiss]"')
    rows = np.random.default_rng(0).normal(size=(6000, N_COLUMNS))
    index = ns.NeighborIndex(search=ApproximateSearch(kind=kind, recall=0.9)).fit(rows[:2100])
    index.search_.late_room = index.search_.removed_room = 64  # so that structures grow and are built anew often
    history, answers = ask_and_change(index, rows, 2100, batch=20)
    assert len(history.versions) > 3
    hits = []
    for q, found, since, until in answers[:: max(1, len(answers) // 300)]:
        assert any(
            all(row < n and row not in removed for row in found) for n, removed in history.versions[since : until + 1]
        )
        hits.append(max(len(set(found) & set(true)) for true in history.answers(q, 4, since, until)) / 4)
    assert np.mean(hits) > 0.85


def at_every_call(work, meanwhile) -> int:
    """Do ``work``, and do something else at every call of a function of nearsay on the way; gives how often."""
    package, count = os.path.dirname(ns.__file__), 0

    def step(frame, event, _) -> None:
        nonlocal count
        if event == "call" and frame.f_code.co_filename.startswith(package):
            sys.setprofile(None)
            count += 1
            meanwhile()
            sys.setprofile(step)

    sys.setprofile(step)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


BACKENDS = ["exact", "kd", "ball", "hnsw", "ivf"]


def small_index(search: str, n: int) -> tuple[ns.NeighborIndex, np.ndarray]:
    if search in ("hnsw", "ivf"):
        pytest.importorskip("faiss", reason='needs faiss: pip install "nearsay[faiss]"')
    X = np.random.default_rng(0).normal(size=(n + 400, 3))
    backend = ExactSearch(limits=ScreenLimits(few_products=0)) if search == "exact" else search
    return ns.NeighborIndex(search=backend).fit(X[:n]), X


def told(index: ns.NeighborIndex, Q: np.ndarray) -> list:
    return index.query(Q, k=3).indices.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("change", ["add", "remove", "add many"])
@pytest.mark.parametrize("search", BACKENDS)
def test_in_the_middle_of_a_change_the_collection_is_as_before_or_after(search, change):
    n = 2050 if search in ("hnsw", "ivf") else 300
    index, X = small_index(search, n)
    index.search_.late_room = 10
    index.add(X[n : n + 5])
    Q = X[n + 5 : n + 8]
    before, seen = told(index, Q), []
    nearest = np.unique(index.query(Q, k=1).indices)
    changes = {
        "add": lambda: index.add(Q),
        "remove": lambda: index.remove(nearest),
        "add many": lambda: index.add(X[n + 5 :]),
    }
    assert at_every_call(changes[change], lambda: seen.append(told(index, Q))) > 5
    after = told(index, Q)
    assert after != before
    assert all(answer in (before, after) for answer in seen)


@pytest.mark.slow
@pytest.mark.parametrize("n_queries", [3, 40])
@pytest.mark.parametrize("search", BACKENDS)
def test_a_change_in_the_middle_of_a_search_does_not_show_in_half(search, n_queries):
    n = 2050 if search in ("hnsw", "ivf") else 1200
    index, X = small_index(search, n)
    Q, answer = X[n : n + n_queries], []
    possible = [told(index, Q)]

    def change() -> None:
        if len(index) < n + 200:  # twins of the queries, which nothing can miss
            index.add(Q) if len(possible) % 2 else index.remove(np.unique(index.query(Q, k=1).indices))
            possible.append(told(index, Q))

    with ns.threads(1):
        assert at_every_call(lambda: answer.append(told(index, Q)), change) > 5
    assert len(possible) > 3
    assert answer[0] in possible


def test_two_writers_at_once_lose_nothing():
    index = ns.NeighborIndex(search="exact").fit(np.zeros((1, 2)))
    with ThreadPoolExecutor(4) as pool:
        given = list(pool.map(lambda i: index.add(np.full((3, 2), float(i))), range(1, 101)))
    numbers = np.concatenate(given)
    np.testing.assert_array_equal(np.sort(numbers), np.arange(1, 301))
    for i, where in enumerate(given, start=1):
        assert index.query(np.full((1, 2), float(i)), k=3).indices[0].tolist() == where.tolist()


@pytest.mark.parametrize("search", ["exact", "kd"])
def test_a_change_that_fails_leaves_the_collection_as_it_was(search):
    X = np.random.default_rng(0).normal(size=(1200, 3))
    index = ns.NeighborIndex(search=search).fit(X)
    before = index.query(X[:20], k=5)
    for wrong in (lambda: index.add([[1.0, 2.0]]), lambda: index.remove([3, 5000]), lambda: index.add([[np.nan] * 3])):
        with pytest.raises(InputError):
            wrong()
    assert len(index) == 1200
    np.testing.assert_array_equal(index.query(X[:20], k=5).indices, before.indices)
    assert index.add([[9.0, 9.0, 9.0]]).tolist() == [1200]


def test_a_snapshot_stays_what_it_was():
    X = np.random.default_rng(0).normal(size=(50, 3))
    for search in ("exact", "kd"):
        live = ns.NeighborIndex(search=search).fit(X).search_
        then = live.snapshot()
        live.add(X[:10] + 0.001)
        live.remove([0, 1])
        assert (len(then.rows_), then.rows_.n_live) == (50, 50)
        assert (len(live.rows_), live.rows_.n_live) == (60, 58)
        assert 0 in then.candidates(X[:1], 1)
        assert 50 in live.candidates(X[:1], 1)


def test_arrays_that_grew_from_the_same_one_do_not_share_what_they_added():
    base = GrowingArray(np.arange(3)).appended(np.array([3]))
    left, right = base.appended(np.array([10, 11])), base.appended(np.array([20]))
    assert base.values.tolist() == [0, 1, 2, 3]
    assert left.values.tolist() == [0, 1, 2, 3, 10, 11]
    assert right.values.tolist() == [0, 1, 2, 3, 20]
    assert left.appended(np.array([12])).values.tolist() == [0, 1, 2, 3, 10, 11, 12]


# ---------------------------------------------------------------- threads of the whole process


def blas_threads() -> dict[str, int]:
    import scipy.linalg  # so that no library is loaded between two looks
    import sklearn.neighbors

    assert scipy.linalg
    assert sklearn.neighbors
    return {library["filepath"]: library["num_threads"] for library in threadpool_info()}


def limited_threads() -> set[int]:
    """Threads of the libraries that nearsay multiplies with, where they are set for the whole process."""
    return {library.num_threads for library in _blas(of_each_thread=False)}


def test_queries_that_overlap_leave_blas_as_they_found_it():
    """A comes in, B comes in, A leaves, B leaves: B must not put back the single thread it found."""
    before = blas_threads()
    inside, leave = threading.Barrier(3, timeout=30), [threading.Event(), threading.Event()]

    def query(number: int) -> None:
        with one_blas_thread():
            inside.wait()
            leave[number].wait(timeout=30)

    workers = [threading.Thread(target=query, args=(number,), daemon=True) for number in (0, 1)]
    for worker in workers:
        worker.start()
    inside.wait()
    assert limited_threads() == {1}
    leave[0].set()
    workers[0].join()
    assert limited_threads() == {1}  # B is still inside
    leave[1].set()
    workers[1].join()
    assert blas_threads() == before


def test_blas_has_as_many_threads_after_many_concurrent_queries_as_before():
    before = blas_threads()
    X = np.random.default_rng(0).normal(size=(3000, 16))
    index = ns.NeighborIndex(search="exact").fit(X)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda start: index.query(X[start : start + 100], k=5), range(0, 2400, 50)))
    assert blas_threads() == before


def test_limits_that_the_user_holds_stay():
    before = blas_threads()
    X = np.random.default_rng(0).normal(size=(3000, 16))
    index = ns.NeighborIndex(search="exact").fit(X)
    with threadpool_limits(1, user_api="blas"):
        held = blas_threads()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda start: index.query(X[start : start + 100], k=5), range(0, 800, 50)))
        index.query(X[:200], k=5)
        assert blas_threads() == held
    assert blas_threads() == before


def test_an_error_inside_puts_the_threads_back():
    before = blas_threads()
    with pytest.raises(ZeroDivisionError):
        in_parallel(lambda item: 1 // item, [1, 0])
    assert blas_threads() == before


def test_threads_asked_for_in_one_thread_do_not_show_in_another():
    entered, leave = threading.Event(), threading.Event()
    usual = thread_count()

    def other() -> None:
        with ns.threads(usual + 3):
            entered.set()
            leave.wait(timeout=30)

    worker = threading.Thread(target=other, daemon=True)
    worker.start()
    entered.wait()
    with ns.threads(usual + 5):
        leave.set()
        worker.join()
        assert thread_count() == usual + 5
    assert thread_count() == usual


def test_workers_know_how_many_threads_were_asked_for():
    with ns.threads(3):
        assert in_parallel(lambda _: thread_count(), range(6)) == [3] * 6
