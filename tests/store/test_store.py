"""The store against a notebook: whatever happens to it, in whatever order, it says what the notebook says."""

from __future__ import annotations

import random
import shutil
import sqlite3
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings as how
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nearsay.collection import Snapshot, Store
from nearsay.collection.store.shard_files import Shards
from nearsay.errors import InputError
from tests.reference.collection import Notebook, Refused, assert_equal, made_up_change, write_state

# To sync a disk thousands of times takes long and shows nothing here: crashes have tests of their own.
IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


class StoreAndNotebook(RuleBasedStateMachine):
    """Both are told the same."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=IN_MEMORY))
        self.rows_per_shard, Shards.most_rows = Shards.most_rows, 16
        self.store = Store.create(self.folder / "collection", 3, {"a": 0})
        self.notebook = Notebook(3, {"a": 0})

    def teardown(self):
        self.store.close()
        Shards.most_rows = self.rows_per_shard
        shutil.rmtree(self.folder)

    @rule(seed=st.integers(0, 1 << 30), n=st.integers(1, 8))
    def change(self, seed, n):
        luck = random.Random(seed)
        for _ in range(n):
            self.tell_both(*made_up_change(luck, self.notebook))

    @precondition(lambda self: self.notebook.version)
    @rule(seed=st.integers(0, 1 << 30), n=st.integers(1, 8))
    def undo_some_events(self, seed, n):
        luck = random.Random(seed)
        for _ in range(n):
            recent = max(1, self.notebook.version - luck.choice([3, 10, 100]))
            self.tell_both("undo", (luck.randint(recent, self.notebook.version),), {"sure": luck.random() < 0.8})

    def tell_both(self, name, given, more):
        try:
            number = getattr(self.notebook, name)(*given, **more)
        except Refused:
            with pytest.raises(InputError):
                getattr(self.store, name)(*given, **more)
        else:
            assert getattr(self.store, name)(*given, **more) == number

    @rule(kind=st.sampled_from(["metric", "posterior"]), n=st.integers(1, 3))
    def learn(self, kind, n):
        for _ in range(n):
            self.tell_both("keep", (kind, write_state), {})

    @rule(min_rows=st.integers(1, 5))
    def seal(self, min_rows):
        self.store.seal(min_rows)

    @rule()
    def reopen(self):
        self.store.close()
        self.store = Store.open(self.folder / "collection")
        self.notebook.open_to_write()
        for kind in ("metric", "posterior"):
            there = [n for n in self.notebook.keeps(kind) if n >= self.notebook.first_there.get(kind, 0)]
            folders = sorted((self.folder / "collection" / "kept").glob(f"*-{kind}-*"))
            assert [int(folder.name[:12]) for folder in folders] == there

    @rule()
    def look_from_elsewhere(self):
        with Store.open(self.folder / "collection", read_only=True) as reader:
            assert_equal(reader, self.notebook)

    @rule()
    def take_a_snapshot(self):
        snapshot = Snapshot.read(self.store.snapshot(self.folder / "snapshot.json"))
        snapshot.check()
        assert snapshot.event == self.notebook.version
        assert snapshot.forgotten == [row for row, item in enumerate(self.notebook.items) if not item["alive"]]
        assert snapshot.n_rows == len(self.notebook.items)
        found = b"".join(block.tobytes() for block in snapshot.blocks())
        assert found == b"".join(vector.tobytes() for vector in self.notebook.vectors)

    @rule()
    def back_up(self):
        copy = self.folder / "copy"
        self.store.backup(copy)
        with Store.open(copy) as store:
            assert_equal(store, self.notebook)
            assert store.faults() == []
        shutil.rmtree(copy)

    @rule()
    def look_at_every_version(self):
        for version in range(self.notebook.version + 1):
            assert_equal(self.store, self.notebook, version)

    @precondition(lambda self: self.notebook.items)
    @rule(seed=st.integers(0, 1 << 30))
    def read_some_vectors(self, seed):
        rows = random.Random(seed).choices(range(len(self.notebook.items)), k=5)
        assert self.store.vectors(rows).tolist() == [self.notebook.vectors[row].tolist() for row in rows]
        ids = self.notebook.living()
        assert [self.store.row_of(id) for id in ids] == [self.notebook.row_of(id) for id in ids]

    @rule()
    def look_for_faults(self):
        assert self.store.faults() == []

    @invariant()
    def same_now(self):
        assert_equal(self.store, self.notebook)
        assert self.store.confirmed_again() == self.notebook.confirmed_again()
        for kind in ("metric", "posterior"):
            kept = self.store.latest_kept(kind)
            assert (kept and kept[0]) == self.notebook.latest_kept(kind)
            assert kept is None or any(kept[1].iterdir())


def test_learning_can_be_undone_once_and_what_is_older_goes(tmp_path):
    path = tmp_path / "collection"
    with Store.create(path, 1) as store:
        first, second, third = (store.keep("metric", write_state) for _ in range(3))
        assert len(list((path / "kept").iterdir())) == 3  # nobody takes away what a reader may be reading
    with Store.open(path) as store:
        assert [int(folder.name[:12]) for folder in sorted((path / "kept").iterdir())] == [second, third]
        store.undo(third)
        assert store.latest_kept("metric")[0] == second
        with pytest.raises(InputError, match=f"Event {second} cannot be undone.*event {first}, is no longer kept"):
            store.undo(second)
        assert (store.latest_kept("metric")[0], store.faults()) == (second, [])
        store.undo(4)
        assert store.latest_kept("metric")[0] == third
    store.close()


TestStoreAndNotebook = StoreAndNotebook.TestCase
TestStoreAndNotebook.settings = how(max_examples=20, stateful_step_count=30, deadline=None)


def test_a_backup_has_the_pictures_that_came_through_the_page(tmp_path):
    with Store.create(tmp_path / "c", 1) as store:
        name = f"{'0' * 64}.png"
        store.add(["a"], [[1.0]], details=[{"upload": name}])
        (tmp_path / "c" / "pictures").mkdir()
        (tmp_path / "c" / "pictures" / name).write_bytes(b"pixels")
        store.backup(tmp_path / "copy")
    assert (tmp_path / "copy" / "pictures" / name).read_bytes() == b"pixels"


@pytest.mark.parametrize("written_to", [True, False])
def test_a_reader_backs_up_what_it_sees_and_changes_nothing(tmp_path, written_to):
    with Store.create(tmp_path / "c", 1) as store:
        store.add(["a", "b"], [[1.0], [2.0]], ["oak", "elm"])
        store.seal(min_rows=1)
        store.add(["c"], [[3.0]], ["ash"])
        if not written_to:
            store.close()
        with Store.open(tmp_path / "c", read_only=True) as reader:
            reader.backup(tmp_path / "copy")
            expected = reader.items()
            with pytest.raises(sqlite3.OperationalError, match="readonly"):  # it is a reader as before
                reader._database.execute("DELETE FROM items")
    with Store.open(tmp_path / "copy") as copy:
        assert not copy.faults()
        assert copy.items().labels.tolist() == expected.labels.tolist() == ["oak", "elm", "ash"]
        assert copy.vectors([0, 1, 2]).ravel().tolist() == [1.0, 2.0, 3.0]
        copy.add(["d"], [[4.0]])


def test_a_closed_collection_and_an_unknown_event_are_named_with_what_to_do(tmp_path):
    with Store.create(tmp_path / "c", 1) as store:
        store.add(["a"], [[1.0]])
        with pytest.raises(InputError, match=r"There is no event 99. The last is 1; the history lists all"):
            store.undo(99)
    for late in (lambda: store.add(["b"], [[2.0]]), lambda: store.undo()):
        with pytest.raises(InputError, match=r"The collection .*c is closed. Open it again."):
            late()
