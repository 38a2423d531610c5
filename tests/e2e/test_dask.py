"""Shards searched by a Dask cluster: the answers of one process, whoever dies on the way; clear words when all do."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import nearsay as ns
from nearsay.errors import ClusterError, InputError, StorageError
from nearsay.neighbors.sharded import dask_cluster, dask_queue, shard_work
from nearsay.neighbors.sharded.sharded_index import ShardedIndex
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.sharded import ShardedClassifier
from nearsay.search.shards import ShardedRows
from tests.neighbors.test_shards import METRICS, SPOILED, collections, same, written

pytest.importorskip("distributed")

X = np.random.default_rng(0).integers(0, 6, (3000, 4)).astype(np.float32)
LABELS = np.random.default_rng(1).integers(0, 5, 3000)
CUTS = list(range(150, 3000, 150))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return written(X, CUTS, str(tmp_path_factory.mktemp("shards")))


@pytest.fixture(scope="module")
def two_workers() -> Iterator[int]:
    yield 2
    dask_cluster.close_clusters()


# ---------------------------------------------------------------- the same answers


def test_two_workers_answer_as_one_process(files, two_workers):
    index = ShardedIndex(cluster=two_workers).fit(files)
    same(index.query(X[:50] + 0.5, 7), ns.nearest(X, X[:50] + 0.5, 7))
    same(index.leave_one_out(3, [5, 2999, 0]), ns.NeighborIndex().fit(X).leave_one_out(3, [5, 2999, 0]))
    some, whole = index.with_labels(LABELS), ns.NeighborIndex().fit(X).with_labels(LABELS)
    same(some.query(X[:20], 3, (1, 4)), whole.query(X[:20], 3, (1, 4)))


NEIGHBORS = ns.NeighborClassifier(5, posterior=ns.posterior.Pooled(max_past_cases=300))


@pytest.mark.slow
def test_a_classifier_on_a_cluster_says_what_one_array_says(files, two_workers):
    some = ShardedClassifier(NEIGHBORS, cluster=two_workers).fit(files, LABELS)
    whole = clone(NEIGHBORS).fit(X, LABELS)
    np.testing.assert_allclose(some.predict_proba(X[:50]), whole.predict_proba(X[:50]), rtol=0, atol=1e-12)


@pytest.mark.slow
def test_by_default_a_cluster_searches_the_views_of_one_array(tmp_path, two_workers):
    few, labels = X[:300] * np.array([1, 30, 1, 1], np.float32), LABELS[:300]
    some = ShardedClassifier(cluster=two_workers).fit(written(few, [100, 200], str(tmp_path)), labels)
    whole = ns.NeighborClassifier().fit(few, labels)
    assert "whitened, pull 1" in {name for one in some.choices_ for name in one.distances}
    np.testing.assert_allclose(some.predict_proba(few[:50]), whole.predict_proba(few[:50]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("grouped", [False, True], ids=["alone", "in groups"])
def test_validation_rows_are_sent_to_workers_and_asked_as_of_one_array(tmp_path, two_workers, grouped):
    few, labels, fresh = X[:300], LABELS[:300], (X[300:340] + 0.3, LABELS[300:340])
    how: Any = {"groups": np.arange(300) // 3 if grouped else None, "validation": fresh}
    some = ShardedClassifier(NEIGHBORS, cluster=two_workers).fit(written(few, [100, 200], str(tmp_path)), labels, **how)
    whole = clone(NEIGHBORS).fit(few, labels, **how)
    np.testing.assert_allclose(some.validation_proba(), whole.validation_proba(), rtol=0, atol=1e-12)
    np.testing.assert_allclose(some.predict_proba(few[:50]), whole.predict_proba(few[:50]), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(some.neighbors(fresh[0]).indices, whole.neighbors(fresh[0]).indices)


@pytest.mark.slow
def test_several_blocks_of_queries_are_in_flight_and_no_more_than_keep_workers_busy(files, two_workers, monkeypatch):
    together: list[int] = []
    receive = dask_queue.PendingSearches._receive

    def counted(self: Any, search: Any, future: Any) -> None:
        together.append(len(self._open))
        n_open = sum(len(each.answers) for each in self._open.values())
        assert n_open < dask_queue.TASKS_A_THREAD * 2 + len(CUTS) + 1
        receive(self, search, future)

    monkeypatch.setattr(dask_queue.PendingSearches, "_receive", counted)
    told: list[tuple[int, int]] = []
    index = ShardedIndex(cluster=two_workers, on_progress=lambda *done: told.append(done)).fit(files)
    index.queries_at_once = 40
    same(index.query(X[:360], 3), ns.nearest(X, X[:360], 3))
    assert 1 < max(together) <= dask_queue.MOST_SEARCHES
    total = (dask_queue.MOST_SEARCHES + 1) * (len(CUTS) + 1)
    assert told == [(done, total) for done in range(1, total + 1)]


@pytest.mark.slow
@pytest.mark.parametrize("n_files", [1, 2, 7])
def test_classes_and_means_in_several_blocks_are_those_of_one_process(tmp_path, two_workers, n_files):
    some_X, some_labels = X[:60], LABELS[:60]
    cuts = list(range(60 // n_files, 60, 60 // n_files))[: n_files - 1]
    index = ShardedIndex(cluster=two_workers).fit(written(some_X, cuts, str(tmp_path)))
    index.queries_at_once = 7 if n_files < 7 else 25  # a task for each block and file
    labeled = index.with_labels(some_labels)
    whole = ns.NeighborIndex().fit(some_X).with_labels(some_labels)
    same(labeled.query(X[:30] + 0.5, 3, (1, 4)), whole.query(X[:30] + 0.5, 3, (1, 4)))
    for members in (None, (), (1, 4)):
        expected, at = whole.leave_one_out(3, members), 0
        for rows, table in labeled.leave_one_out_blocks(3, members):
            assert rows.tolist() == list(range(at, at + len(rows)))
            same(table, expected[rows])
            at += len(rows)
        assert at == 60


@pytest.mark.slow
@given(
    case=collections(),
    metric=METRICS,
    k=st.integers(1, 4),
    most=st.integers(2, 30),
    members=st.sampled_from([(), (1, 2)]),
)
@settings(max_examples=6, deadline=None)
def test_however_rows_and_queries_are_cut_a_cluster_answers_as_one_process(two_workers, case, metric, k, most, members):
    some, labels, cuts, removed = case
    with tempfile.TemporaryDirectory() as folder:
        rows = ShardedRows.open(written(some, cuts, folder)).without(removed)
        index = ShardedIndex(metric, cluster=two_workers).fit(rows)
        index.queries_at_once = most
        whole = ns.NeighborIndex(metric, "exact").fit(some).remove(removed)
        k = min(k, len(whole) - 1)
        same(index.query(some + 0.5, k), whole.query(some + 0.5, k))
        same(index.leave_one_out(k), whole.leave_one_out(k))
        expected = whole.with_labels(labels, 6).query(some + 0.5, k, members)
        same(index.with_labels(labels, 6).query(some + 0.5, k, members), expected)


def test_rows_are_found_by_url_by_workers(tmp_path, two_workers):
    pytest.importorskip("fsspec", reason="URLs come with the extra remote")
    written(X[:300], [100, 200], str(tmp_path))
    index = ShardedIndex(cluster=two_workers).fit(f"file://{tmp_path}")
    same(index.query(X[:50], 3), ns.nearest(X[:300], X[:50], 3))


# ---------------------------------------------------------------- what is wrong is said


def spoiled_width(path: Path) -> None:
    """As many bytes, in rows of another width."""
    np.save(path, np.load(path).reshape(-1, 2))


@pytest.mark.parametrize("message", [*SPOILED, "is not the file it was, another width"])
def test_a_shard_that_is_spoiled_is_told_by_its_worker_and_what_was_done_is_not_done_again(
    tmp_path, two_workers, message
):
    (tmp_path / "rows").mkdir()
    files, work = written(X[:600], [100, 200, 300, 400, 500], str(tmp_path / "rows")), tmp_path / "work"
    index = ShardedIndex(cluster=two_workers, work_folder=work).fit(files)
    before = Path(files[5]).read_bytes(), Path(files[5]).stat()
    SPOILED.get(message, spoiled_width)(Path(files[5]))
    with pytest.raises(StorageError, match=rf"005\.npy.*{message.split(',')[0]}"):
        index.query(X[:50], 2)
    done = {path.name: path.stat().st_mtime_ns for path in work.glob("*.npz")}
    Path(files[5]).write_bytes(before[0])
    os.utime(files[5], ns=(before[1].st_atime_ns, before[1].st_mtime_ns))
    same(index.query(X[:50], 2), ns.nearest(X[:600], X[:50], 2))
    assert len(list(work.glob("*.npz"))) == 6
    assert {name: (work / name).stat().st_mtime_ns for name in done} == done


def test_a_snapshot_newer_than_the_copy_of_the_workers_is_told(tmp_path, two_workers):
    with ns.LiveCollection.create(tmp_path / "c", n_columns=1) as collection:
        collection.add(["a", "b"], [[1.0], [2.0]])
        collection.store.seal(min_rows=1)
        collection.add(["d"], [[3.0]])
        new = collection.store.snapshot(tmp_path / "new.json")
    index = ShardedIndex(cluster=two_workers).fit(new)
    Path(index.rows_.shards[-1].file).unlink()  # as where the workers have the files of an older snapshot
    with pytest.raises(StorageError, match=r"new.json after event \d+ needs it, so the copy on this machine is older"):
        index.query([[1.9]], 1)


def test_no_scheduler_at_the_address_is_told_in_words(files):
    index = ShardedIndex(cluster="tcp://127.0.0.1:9").fit(files)
    index._workers.patience = 0.3
    with pytest.raises(ClusterError, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        index.query(X[:2], 1)


def test_what_is_no_address_is_refused(files):
    with pytest.raises(InputError, match="address"):
        ShardedIndex(cluster=0).fit(files)
    with pytest.raises(InputError, match="address"):
        ShardedIndex(cluster="nonsense://x").fit(files).query(X[:2], 1)


def test_a_task_is_small_besides_its_queries(files):
    import pickle

    from nearsay.neighbors.sharded.shard_search import shard_tasks

    task: Any = shard_tasks(ShardedRows.open(files), X[:0], 3)[0]
    assert len(pickle.dumps(task)) < 3000


def test_work_of_several_threads_in_one_folder_is_whole(files, tmp_path):
    """As of several machines: each finds answers that are whole, whoever wrote them."""
    folder = shard_work.work_folder(tmp_path / "work")

    def ask(_: int) -> NeighborTable:
        return ShardedIndex(work_folder=folder).fit(files).query(X[:30], 4)

    with ThreadPoolExecutor(4) as asking:
        for table in asking.map(ask, range(4)):
            same(table, ns.nearest(X, X[:30], 4))


# ---------------------------------------------------------------- whom a local cluster listens to


def test_a_local_cluster_takes_orders_from_this_process_alone(two_workers):
    distributed = pytest.importorskip("distributed")
    client = dask_cluster.DaskCluster(two_workers).client()
    assert client.scheduler.address.startswith("tls://127.0.0.1:")
    assert all(worker.startswith("tls://127.0.0.1:") for worker in client.scheduler_info()["workers"])
    port = client.scheduler.address.rpartition(":")[2]
    with pytest.raises(OSError, match=r"timed out|Timed out|SSL|ssl|certificate|closed"):
        distributed.Client(f"tcp://127.0.0.1:{port}", timeout=2, set_as_default=False)
    stranger = dask_cluster._credentials(distributed)
    with pytest.raises(OSError, match=r"timed out|Timed out|SSL|ssl|certificate|closed"):
        distributed.Client(client.scheduler.address, security=stranger, timeout=2, set_as_default=False)


def test_a_local_cluster_listens_on_this_machine_only_and_shows_no_pages(two_workers):
    psutil = pytest.importorskip("psutil")
    client = dask_cluster.DaskCluster(two_workers).client()
    processes = [os.getpid(), *client.run(os.getpid).values()]
    listening = [
        one.laddr
        for process in processes
        for one in psutil.Process(process).net_connections("inet")
        if one.status == psutil.CONN_LISTEN
    ]
    assert listening
    assert {address.ip for address in listening} == {"127.0.0.1"}
    for address in listening:
        for page in ("status", "info/main/workers.html", "api/v1", "json/index.html"):
            with pytest.raises(OSError):  # no page of this name, or no pages at all
                urllib.request.urlopen(f"http://127.0.0.1:{address.port}/{page}", timeout=5)


def test_a_cluster_without_credentials_is_not_started(monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(distributed.Security, "temporary", lambda: __import__("no_such_package"))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ClusterError, match="pip install cryptography"):
        dask_cluster._credentials(distributed)


# ---------------------------------------------------------------- who dies on the way


@pytest.mark.slow
def test_workers_answer_as_one_process_about_files_in_another_order(files, two_workers):
    index = ShardedIndex(cluster=two_workers).fit(list(reversed(files)))
    index.queries_at_once = 300
    back = np.vstack([X[start : start + 150] for start in reversed(range(0, 3000, 150))])
    same(index.query(X[:1000] + 0.5, 7), ns.nearest(back, X[:1000] + 0.5, 7))


@pytest.mark.slow
def test_a_worker_that_is_killed_in_the_middle_of_a_query_changes_nothing(files, tmp_path, two_workers):
    index = ShardedIndex(cluster=two_workers, work_folder=tmp_path / "work").fit(files)
    index.queries_at_once = 500
    victim = next(iter(dask_cluster.DaskCluster(two_workers).client().run(os.getpid).values()))
    killed: list[int] = []

    def kill(done: int, total: int) -> None:
        if done >= 3 and not killed:
            os.kill(victim, signal.SIGKILL)
            killed.append(done)

    index.on_progress = kill
    Q = X[:1200] + 0.5
    found = index.query(Q, 10)
    assert killed
    assert killed[0] < 3 * (len(CUTS) + 1)
    same(found, ns.nearest(X, Q, 10))
    dask_cluster.close_clusters()


class Processes:
    """A scheduler at a fixed address and a worker, as they would be started by hand."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, *names: str) -> None:
        """Start those that are not running."""
        shown = {"scheduler": ["--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"]}
        shown["worker"] = [self.address, "--nthreads", "1", "--no-dashboard", "--no-nanny", "--memory-limit", "0"]
        for name in set(names) - set(self.running):
            said = open(self.folder / f"{name}.txt", "ab")  # noqa: SIM115 - held by the process
            command = [sys.executable, "-m", "dask", name, *shown[name]]
            self.running[name] = subprocess.Popen(command, stdout=said, stderr=said, cwd=self.folder)

    def kill(self, *names: str) -> None:
        for name in names:
            process = self.running.pop(name)
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    found = Processes(tmp_path_factory.mktemp("processes"))
    yield found
    found.kill(*list(found.running))


@pytest.fixture
def processes(started: Processes) -> Iterator[Processes]:
    """A scheduler and a worker, those of the test before where it left them running."""
    started.start("scheduler", "worker")
    yield started
    dask_cluster.close_clusters()


@pytest.mark.slow
def test_a_scheduler_that_is_restarted_between_two_batches_changes_nothing(files, tmp_path, processes):
    index = ShardedIndex(cluster=processes.address, work_folder=tmp_path / "work").fit(files)
    same(index.query(X[:40], 5), ns.nearest(X, X[:40], 5))
    processes.kill("scheduler", "worker")
    processes.start("scheduler", "worker")
    same(index.query(X[40:80], 5), ns.nearest(X, X[40:80], 5))


@pytest.mark.slow
def test_a_scheduler_that_is_lost_in_the_middle_is_asked_again_and_nothing_is_done_twice(files, tmp_path, processes):
    work = tmp_path / "work"
    written_at: dict[str, int] = {}
    lost: list[int] = []

    def lose(done: int, total: int) -> None:
        if done >= 2 and not lost:
            lost.append(done)
            processes.kill("scheduler", "worker")
            written_at.update({path.name: path.stat().st_mtime_ns for path in work.iterdir()})
            processes.start("scheduler", "worker")

    index = ShardedIndex(cluster=processes.address, work_folder=work, on_progress=lose).fit(files)
    index.queries_at_once = 500  # so that several blocks are in flight
    same(index.query(X[:1200], 5), ns.nearest(X, X[:1200], 5))
    assert lost
    assert written_at
    assert {name: (work / name).stat().st_mtime_ns for name in written_at} == written_at


@pytest.mark.slow
def test_a_cluster_that_goes_away_is_told_in_words_and_what_was_done_is_kept(files, tmp_path, processes, monkeypatch):
    ShardedIndex(cluster=processes.address).fit(files).query(X[:2], 1)  # when both are there
    monkeypatch.setattr(dask_queue, "CHECK_EVERY", 0.5)
    work = tmp_path / "work"
    index = ShardedIndex(cluster=processes.address, work_folder=work).fit(files)
    index._workers.patience, index._workers.tries = 2.0, 2
    index.on_progress = lambda done, total: processes.kill(*list(processes.running)) if done >= 2 else None
    with pytest.raises(ClusterError, match=r"was lost|No Dask scheduler answers"):
        index.query(X, 5)
    kept = {path.name: path.stat().st_mtime_ns for path in work.iterdir()}
    assert kept
    alone = ShardedIndex(work_folder=work).fit(files)
    same(alone.query(X, 5), ns.nearest(X, X, 5))
    assert {name: (work / name).stat().st_mtime_ns for name in kept} == kept
