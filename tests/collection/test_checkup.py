"""The checkup finds what is wrong with a collection and says what to do; what is whole is said to be."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

from nearsay.collection import LiveCollection
from nearsay.collection.doctor import LEARN, REOPEN, RESTORE, RESTORE_ROWS, Checkup, checkup
from nearsay.collection.store.database import NAME
from nearsay.errors import InputError
from nearsay.neighbors.table import NeighborTable


@pytest.fixture(scope="module")
def pets(tmp_path_factory):
    """Thirty items: some sealed, some guessed by a machine, one without a label, one forgotten; and learned."""
    X = np.random.default_rng(0).normal(size=(30, 2)) + np.repeat([[0, 0], [4, 0], [0, 4]], 10, axis=0)
    path = tmp_path_factory.mktemp("made") / "pets"
    with LiveCollection.create(path, n_columns=2) as collection:
        collection.add([f"p{row}" for row in range(26)], X[:26], np.repeat(["cat", "dog", "fox"], 10)[:26].tolist())
        collection.store.seal(1)
        collection.add(["m1", "m2"], X[26:28], ["fox", "fox"], by="machine")
        collection.add(["n1", "gone"], X[28:], [None, "cat"])
        collection.forget(["gone"])
        collection.learn()
    return path


@pytest.fixture
def path(pets, tmp_path):
    """A copy of them."""
    return Path(shutil.copytree(pets, tmp_path / "pets"))


@contextmanager
def direct(path):
    """The database itself, past the store."""
    with closing(sqlite3.connect(path / NAME)) as connection, connection:
        yield connection


def test_a_whole_collection_is_ok_and_everything_in_it_is_counted(path):
    result = checkup(path)
    assert (result.ok, result.faults) == (True, [])
    assert result.items == {
        "rows": 30,
        "items": 29,
        "voters": 26,
        "unconfirmed": 2,
        "unlabeled": 1,
        "forgotten": 1,
        "shards": 1,
        "tail": 4,
    }
    assert result.versions["format"] == 1
    assert result.versions["sqlite"] == sqlite3.sqlite_version
    assert result.learned.startswith("Learned from 26 rows.")
    assert (result.stale, result.writer, result.stored["n_left_behind"], result.stored["learned_folders"]) == (
        False,
        None,
        0,
        1,
    )
    assert result.stored["vectors"] >= 26 * 2 * 4
    assert json.loads(json.dumps(result.to_dict()))["ok"] is True
    assert "no faults" in str(result)


@pytest.mark.parametrize(("posterior", "n_tables"), [("auto", 0), ("rank", 1)])
def test_a_living_collection_is_compared_with_one_opened_afresh(path, posterior, n_tables):
    with LiveCollection.open(path) as collection:
        collection.learn(posterior=posterior)
        collection.likely_mistakes()
        collection.relabel(["p3"], ["fox"])
        collection.add(["late"], [[1.0, 1.0]], ["dog"])
        result = checkup(collection)
        assert result.ok
        assert f"the neighbors of 27 items, {n_tables} tables" in result.compared
        assert result.writer.startswith(f"process {os.getpid()} on")
        table = collection.tracker._living.table()
        swapped = NeighborTable(table.indices[::-1].copy(), table.distances)
        collection.tracker._living.table = lambda: swapped
        wrong = checkup(collection)
    assert [fault.what.split(" differs ")[0] for fault in wrong.faults] == ["The leave-one-out table"]
    assert wrong.faults[0].advice == REOPEN
    assert ": 1 fault.\n" in str(wrong)


def test_a_table_of_past_cases_that_differs_is_a_fault(path):
    with LiveCollection.open(path) as collection:
        collection.learn(posterior="rank")
        collection.label([[0.0, 0.0]])
        collection.state().classifier.posterior_.tables()[0].cases[:] += 1
        result = checkup(collection)
    assert "A table of past cases" in result.faults[0].what


def test_answers_that_differ_are_a_fault(path):
    with LiveCollection.open(path) as collection:
        collection.label([[0.0, 0.0]])
        collection.state().voting.ids[:] = "someone else"
        result = checkup(collection)
    assert [fault.what for fault in result.faults] == ["Some answers differ from those of the collection opened again."]


@pytest.mark.parametrize(
    ("change", "what", "advice"),
    [
        ("UPDATE items SET label = 'z' WHERE row = 2", "not what the log adds up to", RESTORE),
        ("UPDATE tail SET vector = zeroblob(8) WHERE row = 27", "vectors of event 2 are not those", RESTORE_ROWS),
        ("UPDATE shards SET sha256 = 'x'", "checksum does not match", RESTORE_ROWS),
        ("DROP TABLE tail", "tables or triggers are not as nearsay makes them ('tail')", RESTORE),
        ("UPDATE items SET row = 4711 WHERE row = 3", "Items have row numbers 4, 4711", RESTORE),
        ("UPDATE items SET alive = 1 WHERE id = 'gone'", "not what the log adds up to, in row 29", RESTORE),
        ("DELETE FROM items WHERE id = 'gone'", "not what the log adds up to, in row 29", RESTORE),
        ("UPDATE tail SET vector = zeroblob(7) WHERE row = 27", "does not have 2 values", RESTORE),
        ("DELETE FROM tail WHERE row = 27", "30 items, but vectors for 29", RESTORE),
        ("DELETE FROM shards", "30 items, but vectors for 4", RESTORE),
    ],
)
def test_damage_in_the_database_comes_with_what_to_do(path, change, what, advice):
    with direct(path) as connection:
        connection.execute(change)
    result = checkup(path)
    assert not result.ok
    assert any(what in fault.what and fault.advice == advice for fault in result.faults)
    assert advice in str(result)


def test_damaged_files_come_with_what_to_do(path):
    (learned,) = (path / "kept").glob("*/*")
    learned.write_bytes(learned.read_bytes()[:-3])
    (fault,) = checkup(path).faults
    assert "not as it was written" in fault.what
    assert fault.advice == LEARN
    (shard,) = (path / "shards").iterdir()
    shard.unlink()
    assert RESTORE_ROWS in [fault.advice for fault in checkup(path).faults]
    (path / NAME).write_bytes(b"SQLite format 3\x00" + b"?" * 5000)
    (fault,) = checkup(path).faults
    assert fault.what.startswith("It cannot be opened")
    assert fault.advice == RESTORE


def test_what_was_left_behind_is_no_fault_and_the_next_writer_removes_it(path):
    (path / "shards" / f"{12:012d}-{'0' * 16}.npy").write_bytes(b"." * 100)
    result = checkup(path)
    assert result.ok
    assert (result.stored["n_left_behind"], result.stored["left_behind"]) == (1, 100)
    assert any("interrupted change" in note for note in result.notes)
    LiveCollection.open(path).close()
    assert checkup(path).stored["n_left_behind"] == 0


def test_it_says_when_to_learn_again(path):
    with LiveCollection.open(path) as collection:
        collection.add([f"l{row}" for row in range(20)], np.zeros((20, 2)), ["cat"] * 20)
    result = checkup(path)
    assert result.stale
    assert any("learn again" in note for note in result.notes)


def test_a_collection_where_nothing_is_learned_is_not_changed(tmp_path):
    with LiveCollection.create(tmp_path / "c", n_columns=1) as collection:
        assert checkup(collection).ok
        collection.add(["a"], [[0.0]], ["x"])
        assert checkup(collection).learned is None
        assert collection.version == 1


def test_what_is_no_collection_is_an_error_not_a_fault(tmp_path):
    with pytest.raises(InputError, match="not a collection"):
        checkup(tmp_path)


def test_sqlite_versions_are_told_apart():
    affected = Checkup("c", [], versions={"nearsay": "1", "sqlite": "3.45.1", "sqlite_affected": True, "format": 1})
    assert "3.7.0 to 3.51.2" in affected.notes[0]
