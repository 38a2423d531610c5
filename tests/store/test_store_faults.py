"""What goes wrong around a store is told in words, and nothing is lost: damage, full disks, two writers, bad input."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

from nearsay.collection import CollectionBusy, Snapshot, StorageError, Store
from nearsay.collection.doctor import checkup
from nearsay.collection.store.database import NAME, SCHEMA, Database
from nearsay.collection.store.files.folder import Folder
from nearsay.collection.store.files.sqlite_files import statements
from nearsay.collection.store.files.writer_lock import holder_of
from nearsay.errors import InputError, NotSure

X = np.arange(40, dtype=np.float64).reshape(10, 4)
IDS = [f"item {number}" for number in range(10)]
NOBODY = 65534


@pytest.fixture(scope="module")
def made_once(tmp_path_factory):
    """Ten items: six in a shard, three in the tail, one forgotten; and something learned."""
    path = tmp_path_factory.mktemp("made") / "collection"
    with Store.create(path, 4, {"metric": "euclidean"}) as store:
        store.add(IDS[:6], X[:6], labels=list("aabbcc"))
        store.seal(1)
        store.add(IDS[6:], X[6:], labels=[None, "a", "b", "c"], by="machine", confirmed=False)
        store.forget(IDS[9:])
        store.keep("metric", lambda folder: (folder / "weights.txt").write_text("1 2 3"))
    return path


@pytest.fixture
def path(made_once, tmp_path):
    """A copy of them."""
    return shutil.copytree(made_once, tmp_path / "collection")


def opened_for_few(path):
    """Eight rows are as many as a shard holds."""
    store = Store.open(path)
    store._shards.most_rows = 8
    return store


def the_shard(path):
    (shard,) = (path / "shards").iterdir()
    return shard


def state(path):
    """All that a reader sees."""
    with Store.open(path, read_only=True) as store:
        items = store.items()
        return store.version, items.ids.tolist(), items.labels.tolist(), items.alive.tolist(), store.faults()


@contextmanager
def direct(path):
    """The database itself, past the store."""
    with closing(sqlite3.connect(path / NAME)) as connection, connection:
        yield connection


# Two at once


def test_a_second_writer_is_told_who_writes(path):
    folder = Folder.open(path)
    with Store.open(path):
        assert holder_of(folder).startswith(f"process {os.getpid()}")
        with pytest.raises(CollectionBusy, match=rf"process {os.getpid()} on .+, since 20\d\d-"):
            Store.open(path)
    assert holder_of(folder) is None
    Store.open(path).close()


def test_a_writer_in_another_process_is_named_and_its_end_frees_the_collection(path):
    script = f"from nearsay.collection import Store; s = Store.open({str(path)!r}); print('open', flush=True); input()"
    other = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert other.stdout.readline() == b"open\n"
    with pytest.raises(CollectionBusy, match=f"process {other.pid} on"):
        Store.open(path)
    other.kill()
    other.communicate()
    assert (path / "writer.lock").read_text() != ""
    assert holder_of(Folder.open(path)) is None
    Store.open(path).close()


def test_a_reader_follows_the_writer_and_changes_no_byte(path):
    with Store.open(path) as writer, Store.open(path, read_only=True) as reader:
        assert writer.relabel(IDS[:1], ["new"]) == reader.version
        assert reader.items().labels[0] == "new"
        files = (path / NAME, path / f"{NAME}-wal")
        before = [file.read_bytes() for file in files]
        Store.open(path, read_only=True).close()
        reader.close()
        assert [file.read_bytes() for file in files] == before


def test_a_reader_refuses_to_change_anything(path):
    before = state(path)
    with Store.open(path, read_only=True) as reader:
        for change in (
            lambda: reader.add(["new"], X[:1]),
            lambda: reader.relabel(IDS[:1], ["z"]),
            reader.undo,
            lambda: reader.seal(1),
            lambda: reader.keep("metric", lambda folder: None),
            lambda: reader.set_settings({"a": 1}),
        ):
            with pytest.raises(InputError, match="open read-only"):
                change()
    assert state(path) == before


def test_threads_share_a_store(path):
    with Store.open(path) as store:
        start, numbers = store.version, []

        def add_some(name):
            for number in range(10):
                numbers.append(store.add([f"{name}-{number}"], X[:1]))
                store.items()

        threads = [threading.Thread(target=add_some, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(numbers) == list(range(start + 1, start + 41))
        assert store.faults() == []


# Damaged files


def test_opening_reads_no_vectors(path):
    the_shard(path).unlink()
    with Store.open(path) as store:
        assert (store.n_rows, store.version) == (10, 4)
        with pytest.raises(StorageError, match=r"shard .* is missing"):
            store.blocks()


@pytest.mark.parametrize("cut", [1, 50, 200])
def test_a_truncated_shard_is_refused_in_words(path, cut):
    shard = the_shard(path)
    shard.write_bytes(shard.read_bytes()[:-cut])
    with Store.open(path) as store:
        with pytest.raises(StorageError, match=r"bytes, but .* were written"):
            store.vectors([0])
        assert any("were written" in fault for fault in store.faults())
        assert store.relabel(IDS[:1], ["still works"]) == 5


@pytest.mark.parametrize("place", [3, 70, 130, 200])
def test_a_flipped_byte_of_a_shard_is_found(path, place):
    shard = the_shard(path)
    data = bytearray(shard.read_bytes())
    data[place] ^= 1
    shard.write_bytes(data)
    (fault,) = state(path)[-1]
    assert "not as it was written" in fault or "does not begin" in fault


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE events SET who = 'someone else' WHERE number = 1",
        "DELETE FROM events WHERE number = 1",
        "DELETE FROM events",
        "INSERT OR REPLACE INTO events SELECT number, kind, at, 'x', who, undoes, rows, before, after, vectors, digest"
        " FROM events WHERE number = 1",
        "UPDATE OR REPLACE events SET number = 2 WHERE number = 1",
    ],
)
def test_nobody_changes_the_log_and_who_does_it_by_force_is_found(path, change):
    with direct(path) as connection, pytest.raises(sqlite3.IntegrityError, match="events are"):
        connection.execute(change)
    assert state(path)[-1] == []
    with direct(path) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(change)
    with pytest.raises(StorageError, match="tables or triggers are not as nearsay makes them"):
        state(path)
    with direct(path) as connection:
        for statement in statements(SCHEMA):
            if "CREATE TRIGGER" in statement:
                connection.execute(statement)
    assert len(checkup(path).faults) > 0


def test_missing_and_changed_and_unknown_files_are_found(path):
    (kept,) = (path / "kept").iterdir()
    left, foreign = path / "shards" / f"{12:012d}-{'0' * 16}.npy", path / "shards" / "notes.txt"
    for file in (left, foreign):
        file.write_bytes(b"...")
    (kept / "weights.txt").write_text("1 2 4")
    changed, unknown, not_ours = state(path)[-1]
    assert "notes.txt does not belong to the collection, and nearsay did not make it" in not_ours
    assert "weights.txt is not as it was written" in changed
    assert f"{left.name} is a leftover that nothing refers to: it can be removed" in unknown
    (kept / "weights.txt").unlink()
    Store.open(path).close()  # who may write removes what nobody names
    missing, _ = state(path)[-1]
    assert "weights.txt is missing" in missing
    assert foreign.exists()


@pytest.mark.parametrize("text", [b"SQLite", b"item 3", b"machine", b"euclidean", b"add", b"sha256", b"weights"])
@pytest.mark.parametrize("find", [bytes.find, bytes.rfind], ids=["first", "last"])
def test_a_flipped_byte_of_the_database_is_a_clear_error_or_found(path, text, find):
    file = path / NAME
    data = bytearray(file.read_bytes())
    data[find(bytes(data), text)] ^= 1
    file.write_bytes(data)
    with suppress(StorageError):
        assert state(path)[-1] != []


def test_a_damaged_file_is_not_backed_up(path, tmp_path):
    shard = the_shard(path)
    shard.write_bytes(shard.read_bytes()[:-1] + b"!")
    with Store.open(path) as store, pytest.raises(StorageError, match="damaged"):
        store.backup(tmp_path / "copy")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["collection"]


def test_a_snapshot_says_which_file_changed(path, tmp_path):
    with Store.open(path) as store:
        snapshot = Snapshot.read(store.snapshot(tmp_path / "snapshot.json"))
    snapshot.check()
    shard = the_shard(path)
    shard.write_bytes(shard.read_bytes()[:-1] + b"!")
    with pytest.raises(StorageError, match=shard.name):
        snapshot.check()


# From elsewhere


def test_a_collection_of_a_newer_format_is_left_alone(path):
    with direct(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    for read_only in (True, False):
        with pytest.raises(InputError, match=r"has format 99.*up to 1.*newer nearsay"):
            Store.open(path, read_only=read_only)


def test_a_snapshot_of_a_newer_format_is_refused(path, tmp_path):
    with Store.open(path) as store:
        file = store.snapshot(tmp_path / "snapshot.json")
    file.write_text(file.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(InputError, match="newer nearsay"):
        Snapshot.read(file)


def test_what_is_no_collection_is_refused(tmp_path):
    for read_only in (True, False):
        with pytest.raises(InputError, match="not a collection"):
            Store.open(tmp_path, read_only=read_only)
    with direct(tmp_path) as connection:
        connection.execute("CREATE TABLE songs (name TEXT)")
    with pytest.raises(InputError, match="another application"):
        Store.open(tmp_path)
    (tmp_path / NAME).write_text("a letter to a friend, longer than the head of a database" * 20)
    with pytest.raises(StorageError, match="not a database"):
        Store.open(tmp_path)


def test_nothing_is_made_where_something_is(path, tmp_path):
    for taken in (path, path / NAME):
        with pytest.raises(InputError, match="not an empty folder"):
            Store.create(taken, 4)
    with pytest.raises(InputError, match="does not exist"):
        Store.create(tmp_path / "no" / "such" / "folder", 4)
    with Store.open(path) as store, pytest.raises(InputError, match="not an empty folder"):
        store.backup(path)
    (tmp_path / "empty").mkdir()
    Store.create(tmp_path / "empty", 4).close()


# A system that refuses


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become nobody and back")
def test_a_read_only_folder_can_be_read_and_says_so_when_written_to(path):
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "collection"
        shutil.copytree(path, copy)
        os.chmod(folder, 0o755)
        os.seteuid(NOBODY)
        try:
            with pytest.raises(StorageError, match=r"writing: Permission denied.*read_only=True"):
                Store.open(copy)
            with pytest.raises(StorageError, match="Permission denied"):
                Store.create(Path(folder) / "another", 4)
            assert state(copy)[0] == 4
        finally:
            os.seteuid(0)
        assert state(copy) == state(path)


@pytest.fixture
def small_disk(tmp_path):
    """A disk of one megabyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("A full disk is a small tmpfs, and this user may not mount one.")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("rows_per_shard", [65_536, 32])
def test_a_full_disk_is_said_and_the_collection_stays_as_it_was(small_disk, rows_per_shard):
    with Store.create(small_disk / "collection", 64) as store:
        store._shards.most_rows = rows_per_shard

        def add_until_full():
            for n in range(200):
                store.add([f"{n}-{place}" for place in range(50)], np.full((50, 64), n))

        with pytest.raises(StorageError, match=r"full|No space"):
            add_until_full()
        assert store.version > 0
        assert store.n_rows == 50 * store.version
    assert Store.open(small_disk / "collection", read_only=True).faults() == []


# Interrupted


def interrupt_commit(monkeypatch, error, *, after):
    """Commits end in this error: before they begin, or when they are done."""
    execute = Database.execute

    def interrupted(self, statement, values=()):
        if statement == "COMMIT" and not after:
            raise error
        result = execute(self, statement, values)
        if statement == "COMMIT":
            raise error
        return result

    monkeypatch.setattr(Database, "execute", interrupted)


def test_an_interruption_right_after_the_commit_takes_nothing_back(path, monkeypatch):
    with opened_for_few(path) as store:
        interrupt_commit(monkeypatch, KeyboardInterrupt, after=True)
        with pytest.raises(KeyboardInterrupt):
            store.add([f"new {number}" for number in range(20)], np.ones((20, 4)))
        with pytest.raises(KeyboardInterrupt):
            store.keep("metric", lambda folder: (folder / "weights.txt").write_text("4 5 6"))
        monkeypatch.undo()
        assert store.version == 6
        assert store.faults() == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interruption_before_the_commit_leaves_nothing(path, monkeypatch, error):
    before = state(path)
    with opened_for_few(path) as store:
        interrupt_commit(monkeypatch, error, after=False)
        with pytest.raises(error):
            store.add([f"new {number}" for number in range(20)], np.ones((20, 4)))
        with pytest.raises(error):
            store.relabel(IDS[:1], ["z"])
        with pytest.raises(error):
            store.keep("metric", lambda folder: (folder / "weights.txt").write_text("4 5 6"))
        monkeypatch.undo()
        assert store.add(["new 0"], np.ones((1, 4))) == 5
        store.undo()
    assert state(path)[-1] == before[-1] == []


def test_learned_state_that_could_not_be_written_leaves_nothing(path):
    def fail(folder):
        (folder / "half").write_text("...")
        raise ZeroDivisionError

    before = state(path)
    with Store.open(path) as store, pytest.raises(ZeroDivisionError):
        store.keep("metric", fail)
    assert state(path) == before


def test_many_rows_at_once_go_straight_into_shards(path):
    with opened_for_few(path) as store:
        store.add([f"new {number}" for number in range(20)], np.ones((20, 4)))
        assert [len(block) for block in store.blocks()] == [6, 8, 8, 8]
        assert all(isinstance(block, np.memmap) and not block.flags.writeable for block in store.blocks())
    with direct(path) as connection:
        assert connection.execute("SELECT count(*) FROM tail").fetchone() == (0,)


# Bad input


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda store: store.add("abc", X[:3]), r"got the string 'abc'"),
        (lambda store: store.add([], X[:0]), "empty"),
        (lambda store: store.add(["a", "a"], X[:2]), "'a' is given twice"),
        (lambda store: store.add([1], X[:1]), r"got 1 \(int\)"),
        (lambda store: store.add([""], X[:1]), "must not be empty"),
        (lambda store: store.add(["\ud800"], X[:1]), "UTF-8"),
        (lambda store: store.add(["new", IDS[0]], X[:2]), "'item 0' is taken already"),
        (lambda store: store.add(["new"], X[:2]), r"4 columns for each of the 1 ids; got shape \(2, 4\)"),
        (lambda store: store.add(["new"], X[:1, :3]), r"got shape \(1, 3\)"),
        (lambda store: store.add(["new"], [[0, 1, np.nan, 3]]), "'new' holds nan in column 2"),
        (lambda store: store.add(["new"], [[0, 1, 1e39, 3]]), "'new' holds 1e.39 in column 2"),
        (lambda store: store.add(["new"], X[:1], labels=["a", "b"]), "as many as ids: 1; got 2"),
        (lambda store: store.add(["new"], X[:1], labels=[7]), "A label must be a string"),
        (lambda store: store.add(["new"], X[:1], labels="a"), "labels must be a list"),
        (lambda store: store.add(["new"], X[:1], keywords=["red"]), "got the string 'red'"),
        (lambda store: store.add(["new"], X[:1], details=["red"]), "must be a dict or None"),
        (lambda store: store.add(["new"], X[:1], details=[{"a": {1, 2}}]), "plain JSON"),
        (lambda store: store.add(["new"], X[:1], details=[{"a": float("nan")}]), "plain JSON"),
        (lambda store: store.add(["new"], X[:1], by="persn"), "did you mean 'person'"),
        (lambda store: store.add(["new"], X[:1], confirmed="no"), "True or False; got 'no'"),
        (lambda store: store.relabel(["nobody"], ["a"]), "No item of .* is called 'nobody'"),
        (lambda store: store.relabel([IDS[9]], ["a"]), "'item 9'.*forgotten"),
        (lambda store: store.forget([IDS[0], "nobody"]), "nobody"),
        (lambda store: store.undo(99), "no event 99"),
        (lambda store: store.set_taxonomy([("a", "b", "c")]), "pairs"),
        (lambda store: store.set_taxonomy([("a", "b")], ["word"]), "dict {node: word}"),
        (lambda store: store.set_taxonomy([("a", "b")], {"a": 1}), "A word"),
        (lambda store: store.set_taxonomy(None, {"a": "word"}), "in addition to its edges"),
        (lambda store: store.set_settings([1]), "must be a dict"),
        (lambda store: store.keep("../up", lambda folder: None), "'../up'"),
        (lambda store: store.seal(0), "at least 1; got 0"),
        (lambda store: store.vectors([10]), "0 to 9; got 10"),
        (lambda store: store.vectors([0.5]), "row numbers"),
        (lambda store: store.items(version=5), r"0 \(empty\) to 4"),
    ],
)
def test_a_mistake_is_said_and_changes_nothing(path, change, said):
    before = state(path)
    with Store.open(path) as store, pytest.raises(InputError, match=said):
        change(store)
    assert state(path) == before


def test_an_undo_in_the_way_of_a_later_change_names_it(path):
    with Store.open(path) as store:
        first = store.relabel(IDS[:2], ["x", "y"])
        later = store.relabel(IDS[1:3], ["z", "z"])
        with pytest.raises(InputError, match=rf"event {later} changed 'item 1' since"):
            store.undo(first)
        undo = store.undo(later)
        with pytest.raises(InputError, match=rf"undone already, by event {undo}"):
            store.undo(later)
        assert store.undo(first) == undo + 1
        assert list(store.items().labels[:3]) == ["a", "a", "b"]
        store.undo(undo + 1)
        assert list(store.items().labels[:3]) == ["x", "y", "b"]


def test_an_undo_that_takes_several_items_out_asks_first(path):
    with Store.open(path) as store:
        event = store.add(["x", "y"], X[:2], labels=["a", "b"])
        before = store.version
        for queries in (None, event):
            with pytest.raises(NotSure, match=r"event 5 \(add 2 items: 1 'a', 1 'b'\) removes 2 items from.*sure=True"):
                store.undo(queries)
        assert store.version == before
        taken = store.undo(sure=True)
        assert not store.items().alive[-2:].any()
        back = store.undo(taken)  # brings items back, and asks nothing
        assert store.items().alive[-2:].all()
        with pytest.raises(NotSure, match="removes 2 items from"):
            store.undo(back)
        with pytest.raises(NotSure, match=rf"event {event} "):
            store.undo()
        forgotten = store.forget(["x", "y"])
        again = store.undo(forgotten)
        with pytest.raises(NotSure, match=rf"event {again} "):
            store.undo(again)
        assert store.undo(store.add(["z"], X[:1])) == store.version  # one item is one step back


def test_an_addition_is_not_undone_while_later_events_depend_on_it(path):
    with Store.open(path) as store:
        event = store.add(["x", "y", "z"], X[:3], labels=["a", "b", "b"], by="machine", confirmed=False)
        changes = [
            store.relabel(["x"], ["c"]),
            store.set_keywords(["y"], [["red"]]),
            store.confirm(["z", IDS[0]]),
            store.forget(["y"]),
        ]
        store.relabel([IDS[1]], ["c"])  # another item
        store.keep("metric", lambda folder: None)
        lines = (
            rf"event {changes[0]} \(relabel 1 item 'a' → 'c'\), event {changes[1]} \(set keywords of 1 item: red\),"
            rf" event {changes[2]} \(confirm 2 items\), event {changes[3]} \(forget 1 item\)"
        )
        with pytest.raises(InputError, match=lines):
            store.undo(event, sure=True)
        for later in reversed(changes):
            with pytest.raises(InputError, match=rf"event {later} \("):
                store.undo(event, sure=True)
            store.undo(later)
        back = store.undo(event, sure=True)
        assert not store.items().alive[-3:].any()
        with pytest.raises(InputError, match=r"forgotten|changed"):
            store.undo(store.undone()[changes[0]])  # to relabel again what is not there
        redone = store.undo(back)
        store.relabel(["x"], ["d"])
        for queries in (event, redone):
            with pytest.raises(InputError, match="relabel 1 item 'a' → 'd'"):
                store.undo(queries, sure=True)
        many = [store.relabel(["z"], [f"label {n}"]) for n in range(20)]
        with pytest.raises(InputError, match=rf"event {many[3]} .*and 16 more") as error:
            store.undo(event, sure=True)
        assert len(str(error.value)) < 800


def test_settings_changed_again_are_not_put_back(path):
    with Store.open(path) as store:
        first = store.set_settings({"metric": "cosine"})
        store.set_settings({"metric": "manhattan"})
        with pytest.raises(InputError, match="settings changed again since"):
            store.undo(first)
        store.undo()
        store.undo(first)
        assert store.settings == {"metric": "euclidean"}


def test_the_log_tells_who_did_what_and_what_was_before(path):
    with Store.open(path) as store:
        store.relabel(IDS[:1], ["z"], by="machine", who="model 7", confirmed=False)
        (event,) = store.events(after=4)
    assert (event.number, event.kind, event.by, event.who, event.rows) == (5, "relabel", "machine", "model 7", [0])
    assert event.before == {"label": ["a"], "confirmed": [True], "by": ["person"]}
    assert event.after == {"label": ["z"], "confirmed": [False], "by": ["machine"]}
