"""Nothing acknowledged is lost: not when the process is killed, and not when the power goes.

A killed process leaves all it wrote to the system, so it shows only that
changes are whole. Whether they are on the disk shows when every write that was
not synced is thrown away.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

from nearsay.collection import Store
from nearsay.errors import NearsayError
from tests.power_cut import SYNC, WRITE, Disk, Record, read_log
from tests.reference.collection import assert_at_its_version
from tests.store_workload import N_EVENTS, PROTECTIONS, whole_story, work_and_tell

HERE = Path(__file__).parents[1]
WORKLOAD = HERE / "store_workload.py"
IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


# With these the workload finds its modules in a process of its own.
PATHS = os.pathsep.join([str(HERE.parent), *filter(None, sys.path)])


@pytest.fixture
def n_crashes(request):
    """Many with the slow tests, else a few."""
    return 50 if request.config.getoption("--slow") or os.environ.get("CI") else 4


@pytest.fixture
def folder():
    """A folder in memory, where nothing waits for a disk; what a sync promises is read from a log."""
    made = Path(tempfile.mkdtemp(dir=IN_MEMORY))
    yield made
    shutil.rmtree(made)


def check(path, notebook, acknowledged):
    """All that was acknowledged is there, perhaps the event under way too, nothing by half; and work can go on."""
    with Store.open(path) as store:
        assert acknowledged <= store.version <= acknowledged + 1
        assert_at_its_version(store, notebook)
        assert store.faults() == []
        before = store.version
        assert store.set_settings({"after": "a crash"}) == before + 1
    with Store.open(path, read_only=True) as store:
        assert store.settings["after"] == "a crash"
        assert store.faults() == []
        return before


@pytest.fixture
def processes(monkeypatch):
    """Processes that are forked from one that has imported the workload, so that each starts at once."""
    monkeypatch.setenv("PYTHONPATH", PATHS)
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(["tests.store_workload"])
    return made


def test_a_killed_process_loses_nothing_it_acknowledged(processes, folder, n_crashes):
    luck = random.Random(n_crashes)
    seed, path = 0, folder / "collection-0"
    notebook = whole_story(seed)
    for number in range(n_crashes):
        text, telling = processes.Pipe(duplex=False)
        process = processes.Process(target=work_and_tell, args=(path, seed, telling))
        process.start()
        telling.close()
        with text, open(text.fileno(), "rb", closefd=False) as lines:
            acknowledged = int(lines.readline())
            for _ in range(luck.randint(0, 25)):
                acknowledged = int(lines.readline() or acknowledged)
            time.sleep(luck.random() * 0.01)
            process.kill()
            rest = lines.read().split(b"\n")[:-1]
        process.join()
        acknowledged = int(rest[-1]) if rest else acknowledged
        # A copy is looked at, so that the next round finds what the crash left.
        copy = folder / f"copy-{number}"
        shutil.copytree(path, copy)
        check(copy, notebook, acknowledged)
        shutil.rmtree(copy)
        if acknowledged >= N_EVENTS - 1:
            shutil.rmtree(path)
            seed, path = seed + 1, folder / f"collection-{seed + 1}"
            notebook = whole_story(seed)


@pytest.fixture(scope="module")
def recorder(tmp_path_factory):
    """The library that keeps the log of what is written and synced."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("A power cut is simulated by a library that needs Linux and a C compiler (cc); one is missing.")
    library = tmp_path_factory.mktemp("library") / "written_and_synced.so"
    source = HERE / "written_and_synced.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl", "-lpthread"], check=True)
    return library


def recorded(recorder, folder, seed, *more) -> list[Record]:
    """The log of the whole story."""
    watched, log = folder / "watched", folder / "log"
    watched.mkdir()
    subprocess.run(
        [sys.executable, WORKLOAD, watched / "collection", str(seed), watched / "acknowledged", *more],
        env={**os.environ, "PYTHONPATH": PATHS, "LD_PRELOAD": recorder, "WATCHED": watched, "WATCHED_LOG": log},
        check=True,
    )
    return list(read_log(log))


def cut_and_check(log, folder, notebook, cuts, luck):
    """Let the power go after each of these numbers of records; says which versions came back."""
    disk, played, acknowledged, came_back = Disk(folder / "watched"), 0, None, []
    for cut in sorted(cuts):
        for record in log[played:cut]:
            disk.play(record)
            if is_acknowledgment(disk, record):
                acknowledged = int(record.data)
        played = cut
        after = folder / "after"
        disk.write_after_a_cut(after, random.Random(luck.random()) if luck.random() < 0.5 else None)
        if acknowledged is not None:
            came_back.append((acknowledged, check(after / "collection", notebook, acknowledged)))
        shutil.rmtree(after)
    return came_back


def is_acknowledgment(disk, record):
    return record.operation == WRITE and disk.descriptors[record.descriptor] is disk.root.now.get("acknowledged")


def test_a_power_cut_loses_nothing_acknowledged(recorder, folder, n_crashes):
    luck = random.Random(n_crashes)
    log = recorded(recorder, folder, seed=n_crashes)
    cuts = luck.sample(range(len(log)), max(n_crashes, 20))
    came_back = cut_and_check(log, folder, whole_story(n_crashes), cuts, luck)
    assert len(came_back) > len(cuts) / 2


def test_every_acknowledged_event_was_synced(recorder, folder):
    log = recorded(recorder, folder, seed=1)
    disk, syncs, acknowledged = Disk(folder / "watched"), 0, []
    for record in log:
        disk.play(record)
        syncs += record.operation == SYNC
        if is_acknowledgment(disk, record):
            acknowledged.append((int(record.data), syncs))
            syncs = 0
    assert [number for number, _ in acknowledged] == list(range(N_EVENTS + 1))
    assert all(syncs >= 1 for _, syncs in acknowledged)


@pytest.mark.slow
@pytest.mark.parametrize("protection", PROTECTIONS)
def test_a_power_cut_is_noticed_without(recorder, folder, protection):
    """The test above can fail: without any one of the syncs something is lost, or the collection is damaged."""
    luck = random.Random(0)
    log = recorded(recorder, folder, 2, "--without", protection)
    notebook = whole_story(2)
    for cut in luck.sample(range(len(log)), 60):
        with suppress(FileNotFoundError):
            shutil.rmtree(folder / "after")
        try:
            cut_and_check(log, folder, notebook, [cut], random.Random(cut))
        except (AssertionError, NearsayError):
            return
    pytest.fail("Nothing was lost.")
