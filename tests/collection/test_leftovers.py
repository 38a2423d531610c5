"""What killed processes leave beside a collection goes with the next run of the same command, and nothing else does."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from pathlib import Path

import pytest

from nearsay.collection import LiveCollection, Store, index_source
from nearsay.collection.store.backup import new_folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are killed by signals")

TABLE = "id,width,species\na,1.5,oak\nb,1.6,oak\nc,7,elm\nd,7.2,elm\n"
MADE = {
    "index": "from nearsay.collection import index_source; index_source('leaves.csv', 'made', learn=False)",
    "create": "from nearsay.collection import Store; Store.create('made', 3).close()",
    "backup": "from nearsay.collection import Store; Store.open('leaves', read_only=True).backup('made')",
}
# The process ends at the moment when all is written, and nothing has its name yet.
KILLED = """
import os, signal
import nearsay.collection.store.backup as backup
backup.sync_tree = lambda folder: os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A table, and a collection made of it."""
    monkeypatch.chdir(tmp_path)
    Path("leaves.csv").write_text(TABLE, encoding="utf-8")
    index_source("leaves.csv", "leaves", learn=False)
    return tmp_path


# Processes that begin with the modules read, which takes most of the time of one that begins with nothing.
PROCESSES = multiprocessing.get_context("spawn" if sys.platform == "win32" else "forkserver")
PROCESSES.set_forkserver_preload(["__main__", "nearsay.collection"])


def begin(code: str) -> multiprocessing.process.BaseProcess:
    begun = PROCESSES.Process(target=exec, args=(f"import os; os.chdir({os.getcwd()!r})\n{code}", {}))
    begun.start()
    return begun


def process(code: str) -> int | None:
    """The exit status of a process that runs this code."""
    begun = begin(code)
    begun.join()
    return begun.exitcode


def hidden() -> list[str]:
    return sorted(path.name for path in Path().iterdir() if path.name.startswith("."))


@pytest.mark.parametrize("command", MADE)
def test_what_a_killed_command_leaves_goes_with_the_next_run_of_it(place, command):
    for killed in (1, 2):
        assert process(KILLED + MADE[command]) == -signal.SIGKILL
        left = [name for name in hidden() if name.endswith(".part")]
        assert len(left) == 1, f"after {killed}: what the one before left is gone"
        assert not Path("made").exists()
    assert process(MADE[command]) == 0
    assert hidden() == []
    with Store.open("made", read_only=True) as made:
        assert made.faults() == []


def test_a_command_that_fails_leaves_nothing(place, monkeypatch):
    def fail(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nearsay.collection.store.backup.sync_tree", fail)
    for make in (
        lambda: index_source("leaves.csv", "made"),
        lambda: Store.create("made", 3),
        lambda: Store.open("leaves", read_only=True).backup("made"),
    ):
        with pytest.raises(OSError, match="No space left"):
            make()
        assert hidden() == []


def test_what_a_living_process_makes_is_left_to_it(place):
    with new_folder(Path("made").absolute()) as making:
        making.mkdir()
        (making / "half").write_text("a collection", encoding="utf-8")
        assert process(MADE["index"]) == 0  # another one was sooner
        assert (making / "half").exists()
        with LiveCollection.open("made", read_only=True) as made:
            assert len(made) == 4
        Path("made").rename("sooner")
    assert hidden() == []
    assert Path("made/half").exists()


def test_other_names_and_links_are_left_alone(place):
    for name in (".made", ".made.zzzzzzzz", ".made.0123", ".other.01234567", ".xmade.01234567", "..made.01234567"):
        Path(f"{name}.part").mkdir()
        Path(f"{name}.lock").touch()
    Path(".made.12345678.part").mkdir()  # without a lock nobody knows whose that is
    Path("elsewhere").mkdir()
    Path("elsewhere/file").touch()
    Path(".made.01234567.part").symlink_to("elsewhere")
    Path(".made.01234567.lock").touch()
    Path("made.lock").touch()
    Path(".made.23456789.lock").symlink_to("made.lock")
    before = hidden()
    index_source("leaves.csv", "made")
    assert hidden() == before
    assert Path("elsewhere/file").exists()


def test_a_link_in_what_was_left_is_not_followed(place):
    Path("elsewhere").mkdir()
    Path("elsewhere/file").touch()
    Path(".made.01234567.part").mkdir()
    Path(".made.01234567.part/link").symlink_to(Path("elsewhere").absolute())
    Path(".made.01234567.lock").touch()
    index_source("leaves.csv", "made")
    assert hidden() == []
    assert Path("elsewhere/file").exists()


def test_a_removal_that_was_cut_short_is_finished_by_the_next_run(place, monkeypatch):
    assert process(KILLED + MADE["index"]) == -signal.SIGKILL

    def killed(path: object, **named: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr("nearsay.collection.store.backup.shutil.rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            index_source("leaves.csv", "made")
    assert hidden()
    index_source("leaves.csv", "made")
    assert hidden() == []


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="this system knows no files without names")
def test_a_killed_snapshot_leaves_nothing(place):
    code = "import nearsay.data.replacing as replacing, os, signal"
    code += "; replacing.os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL)"
    code += "; from nearsay.collection import Store; Store.open('leaves', read_only=True).snapshot('leaves.json')"
    before = sorted(path.name for path in Path().iterdir())
    assert process(code) == -signal.SIGKILL
    assert sorted(path.name for path in Path().iterdir()) == before


def test_many_processes_make_one_collection_and_leave_nothing(place):
    """They remove what the others left while those begin; one of them wins, the others say that it is there."""
    for _ in range(3):
        assert process(KILLED + MADE["create"]) == -signal.SIGKILL
    running = [begin(f"import sys; sys.stderr = open(os.devnull, 'w')\n{MADE['create']}") for _ in range(6)]
    for each in running:
        each.join()
    assert 0 in [each.exitcode for each in running]
    assert hidden() == []
    with Store.open("made") as made:
        assert made.faults() == []
