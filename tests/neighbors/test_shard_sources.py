"""Rows in Parquet files, Lance data sets and object stores: the rows that were written, or an error that names one."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nearsay as ns
from nearsay.errors import InputError, MissingExtra, StorageError
from nearsay.neighbors.sharded.sharded_index import ShardedIndex
from nearsay.search.shards import ShardedRows
from nearsay.search.stored import lance as lance_files
from nearsay.search.stored import places
from tests.neighbors.test_shards import same

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

TYPES = ["float16", "float32", "float64", "int8", "int32", "int64", "uint16"]
LAYOUTS = ["fixed lists", "lists", "large lists", "columns", "lists in a struct", "tensors"]


def as_column(X: np.ndarray, layout: str) -> Any:
    """Rows as one Arrow column of lists."""
    flat = pa.array(np.ascontiguousarray(X).ravel())
    offsets = np.arange(len(X) + 1) * X.shape[1]
    if layout == "lists":
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat)
    if layout == "large lists":
        return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), flat)
    fixed = pa.FixedSizeListArray.from_arrays(flat, X.shape[1])
    if layout == "tensors":
        return pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(flat.type, (X.shape[1],)), fixed)
    return pa.StructArray.from_arrays([fixed], ["vector"]) if layout == "lists in a struct" else fixed


def as_table(X: np.ndarray, layout: str = "fixed lists") -> Any:
    """Rows as an Arrow table, beside a name for each."""
    names = pa.array([f"item {row}" for row in range(len(X))])
    if layout == "columns":
        return pa.table({"name": names, **{f"column {place}": pa.array(X[:, place]) for place in range(X.shape[1])}})
    return pa.table({"name": names, "item": as_column(X, layout)})


def numbers(n: int, n_columns: int = 3, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 5, (n, n_columns)).astype(dtype)


def all_rows(rows: ShardedRows) -> np.ndarray:
    return np.concatenate([shard.opened() for shard in rows.shards])


# ---------------------------------------------------------------- Parquet


@pytest.mark.slow
@given(
    n=st.integers(1, 30),
    layout=st.sampled_from(LAYOUTS),
    dtype=st.sampled_from(TYPES),
    cuts=st.lists(st.integers(0, 30), max_size=4),
    group_rows=st.integers(1, 9),
    most=st.integers(1, 12),
)
@settings(max_examples=40, deadline=None)
def test_parquet_gives_the_rows_that_were_written_however_they_lie(n, layout, dtype, cuts, group_rows, most):
    X = numbers(n, dtype=dtype)
    with tempfile.TemporaryDirectory() as folder:
        for number, part in enumerate(np.split(X, sorted(cut % (n + 1) for cut in cuts))):
            within = Path(folder) / f"kind={number // 2}"
            within.mkdir(exist_ok=True)
            parquet.write_table(as_table(part, layout), within / f"{number}.parquet", row_group_size=group_rows)
        rows = ShardedRows.open(folder, shard_bytes=most * X[:1].nbytes)
        np.testing.assert_array_equal(all_rows(rows), X)
        assert rows.dtype == X.dtype.str
        assert all(shard.n_rows <= most or shard.n_groups == 1 for shard in rows.shards)
        np.testing.assert_array_equal(rows.take(np.arange(n)[::-1]), X[::-1])
        same(ShardedIndex().fit(rows).query(X.astype(float), 1), ns.nearest(X.astype(float), X.astype(float), 1))


def test_small_row_groups_that_follow_each_other_are_one_shard(tmp_path):
    X = numbers(30)
    parquet.write_table(as_table(X[:18]), tmp_path / "0.parquet", row_group_size=7)
    parquet.write_table(as_table(X[18:]), tmp_path / "1.parquet", row_group_size=7)
    assert [shard.n_rows for shard in ShardedRows.open(tmp_path).shards] == [18, 12]
    rows = ShardedRows.open(tmp_path, shard_bytes=1)
    assert [shard.n_rows for shard in rows.shards] == [7, 7, 4, 7, 5]
    same(ShardedIndex().fit(rows).leave_one_out(4), ns.leave_one_out(X, 4))


def test_files_of_several_types_are_read_as_one_that_holds_them_all(tmp_path):
    parquet.write_table(as_table(numbers(4, dtype="int64")), tmp_path / "0.parquet")
    parquet.write_table(as_table(numbers(4, dtype="float16", seed=1) + np.float16(0.5)), tmp_path / "1.parquet")
    rows = ShardedRows.open(tmp_path)
    assert rows.dtype == "<f8"
    expected = np.concatenate([numbers(4, dtype="float64"), numbers(4, dtype="float64", seed=1) + 0.5])
    np.testing.assert_array_equal(all_rows(rows), expected)


def test_notes_of_a_writer_and_files_without_rows_are_passed_over(tmp_path):
    X = numbers(5)
    parquet.write_table(as_table(X[:0], "lists"), tmp_path / "0.parquet")
    parquet.write_table(as_table(X, "lists"), tmp_path / "1.parquet")
    (tmp_path / "_metadata.parquet").write_bytes(b"notes")
    (tmp_path / ".hidden.parquet").write_bytes(b"notes")
    (tmp_path / "temporary").mkdir()
    (tmp_path / "temporary" / "2.parquet").write_bytes(b"half a file")
    np.testing.assert_array_equal(all_rows(ShardedRows.open(tmp_path)), X)


def test_columns_can_be_named(tmp_path):
    path = tmp_path / "rows.parquet"
    deep = pa.array([{"size": {"width": 5.0}}, {"size": {"width": 6.0}}])
    parquet.write_table(pa.table({"a": [1.0, 2.0], "b": [3.0, None], "text": ["x", "y"], "deep": deep}), path)
    assert all_rows(ShardedRows.open(path, columns=["a"])).tolist() == [[1.0], [2.0]]
    assert all_rows(ShardedRows.open(path, columns=["deep.size.width", "a"])).tolist() == [[5.0, 1.0], [6.0, 2.0]]
    with pytest.raises(InputError, match=r"no column of numbers \['text'\]"):
        ShardedRows.open(path, columns=["text"])


def with_row(X: np.ndarray, row: int, value: Any, kind: Any = None) -> Any:
    """Rows as lists, one of them another value."""
    lists = X.tolist()
    lists[row] = value
    return pa.table({"item": pa.array(lists, kind or pa.list_(pa.float32()))})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (with_row(numbers(20), 13, None), r"1\.parquet, row 13 \(row group 2\): 'item' has no value"),
        (with_row(numbers(20), 13, None, pa.list_(pa.float32(), 3)), r"row 13 \(row group 2\): 'item' has no value"),
        (with_row(numbers(20), 5, [1.0, None, 2.0]), r"1\.parquet, row 5 .*: number 1 of 'item' is missing"),
        (with_row(numbers(20), 19, [1.0, 2.0]), r"row 19 \(row group 3\): 'item' has 2 numbers, but 3 elsewhere"),
        (with_row(numbers(20), 0, None), r"1\.parquet, row 0: 'item' has no value"),
        (as_table(numbers(20, 4)), r"1\.parquet has 4 columns of <f4, but .*0\.parquet has 3"),
        (as_table(numbers(20), "columns"), r"1\.parquet has no column of numbers \['item'\].*'column 0'"),
        (pa.table({"item": ["a", "b"]}), r"1\.parquet has no column of numbers \['item'\]"),
    ],
    ids=[
        "a row of lists that is null", "a row of fixed lists that is null", "a number that is null", "a short list",
        "the first row is null", "another width", "other columns", "text",
    ],
)  # fmt: skip
def test_a_row_that_is_missing_or_another_is_named_with_its_file(tmp_path, table, message):
    parquet.write_table(as_table(numbers(20)), tmp_path / "0.parquet")
    parquet.write_table(table, tmp_path / "1.parquet", row_group_size=6)
    with pytest.raises(InputError, match=message):
        all_rows(ShardedRows.open(tmp_path))


def test_a_single_number_that_is_missing_is_named_with_its_column(tmp_path):
    table = pa.table({"width": [1.0, 2.0, 3.0], "height": [3, None, 4]})
    parquet.write_table(table, tmp_path / "0.parquet")
    with pytest.raises(InputError, match=r"0\.parquet, row 1 .*: 'height' has no value"):
        all_rows(ShardedRows.open(tmp_path))


def test_as_many_columns_of_other_names_are_not_taken_for_the_same(tmp_path):
    parquet.write_table(pa.table({"width": [1.0], "height": [2.0]}), tmp_path / "0.parquet")
    parquet.write_table(pa.table({"width": [1.0], "weight": [2.0]}), tmp_path / "1.parquet")
    with pytest.raises(InputError, match=r"1\.parquet has no column of numbers \['height'\].*weight"):
        ShardedRows.open(tmp_path)


def test_a_parquet_file_that_is_written_anew_is_refused(tmp_path):
    parquet.write_table(as_table(numbers(20)), tmp_path / "0.parquet")
    rows = ShardedRows.open(tmp_path)
    parquet.write_table(as_table(numbers(20, seed=1)), tmp_path / "0.parquet")
    with pytest.raises(StorageError, match=r"not the file it was|bytes on"):
        all_rows(rows)


# ---------------------------------------------------------------- Lance


@pytest.fixture
def lance() -> Any:
    return pytest.importorskip("lance", reason="Lance data sets come with the extra lance")


@pytest.mark.parametrize("layout", ["fixed lists", "lists", "columns", "lists in a struct"])
def test_a_lance_data_set_gives_its_rows_fragment_by_fragment(tmp_path, lance, layout):
    X, path = numbers(40), tmp_path / "rows.lance"
    lance.write_dataset(as_table(X[:25], layout), path, max_rows_per_file=10)
    lance.write_dataset(as_table(X[25:], layout), path, mode="append")
    rows = ShardedRows.open(path, shard_bytes=6 * X[:1].nbytes)
    assert {shard.fragment for shard in rows.shards} == {(2, number) for number in range(4)}
    assert all(shard.n_rows <= 6 for shard in rows.shards)
    np.testing.assert_array_equal(all_rows(rows), X)
    same(ShardedIndex().fit(rows).leave_one_out(4), ns.leave_one_out(X, 4))
    given = ShardedRows.open(lance.dataset(str(path), version=1))
    np.testing.assert_array_equal(all_rows(given), X[:25])


def test_rows_deleted_from_a_lance_data_set_are_not_there_and_an_opened_version_stays_as_it_is(tmp_path, lance):
    X, path = numbers(20), tmp_path / "rows.lance"
    lance.write_dataset(as_table(X), path, max_rows_per_file=8)
    before = ShardedRows.open(path)
    lance.dataset(str(path)).delete("name in ('item 3', 'item 11', 'item 12')")
    lance.write_dataset(as_table(X[:2]), path, mode="append")
    kept = np.delete(X, [3, 11, 12], axis=0)
    np.testing.assert_array_equal(all_rows(ShardedRows.open(path, shard_bytes=1)), np.concatenate([kept, X[:2]]))
    np.testing.assert_array_equal(all_rows(before), X)


def test_a_lance_file_that_is_missing_or_changed_is_refused(tmp_path, lance):
    path = tmp_path / "rows.lance"
    lance.write_dataset(as_table(numbers(4000)), path)
    (file,) = (path / "data").iterdir()
    rows = ShardedRows.open(path)
    flip(file, 400)
    with pytest.raises(StorageError, match=r"rows\.lance on .* is not the file it was.*version 1 of rows\.lance"):
        all_rows(rows)
    file.unlink()
    with pytest.raises(StorageError, match=r"rows\.lance is missing on .*version 1 of rows\.lance needs it"):
        all_rows(rows)


def test_a_version_that_is_not_there_is_told_in_words(tmp_path, lance):
    path = tmp_path / "rows.lance"
    lance.write_dataset(as_table(numbers(4)), path)
    older = shutil.copytree(path, tmp_path / "older.lance")
    lance.write_dataset(as_table(numbers(4)), path, mode="append")
    rows = ShardedRows.open(path)
    lance_files._at_version.cache_clear()
    shutil.rmtree(path)
    shutil.move(older, path)
    with pytest.raises(StorageError, match=r"Version 2 of .*rows\.lance is not available on .*older"):
        all_rows(rows)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda lance, path: None, "not a Lance data set that can be read"),
        (lambda lance, path: lance.write_dataset(as_table(numbers(3)[:0]), path), "has no rows at version 1"),
        (lambda lance, path: lance.write_dataset(pa.table({"a": ["x"]}), path), "no column of numbers"),
        (
            lambda lance, path: lance.write_dataset(with_row(numbers(9), 7, None), path, max_rows_per_file=5),
            r"rows\.lance, version 1, fragment 1, row 2: 'item' has no value",
        ),
    ],
)
def test_what_lance_cannot_give_is_refused_with_the_reason(tmp_path, lance, make, message):
    make(lance, tmp_path / "rows.lance")
    with pytest.raises(InputError, match=message):
        all_rows(ShardedRows.open(tmp_path / "rows.lance"))


def test_without_lance_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "lance", None)
    with pytest.raises(MissingExtra, match=r"nearsay\[lance\]"):
        ShardedRows.open(tmp_path / "rows.lance")


# ---------------------------------------------------------------- object stores


@pytest.fixture
def store() -> Any:
    """Files in memory, as a store that is reached by URL."""
    fsspec = pytest.importorskip("fsspec", reason="URLs come with the extra remote")
    system = fsspec.filesystem("memory")
    yield system
    if system.exists("/nearsay-test"):
        system.rm("/nearsay-test", recursive=True)


def put(store: Any, name: str, X: np.ndarray) -> None:
    with store.open(f"/nearsay-test/{name}", "wb") as out:
        if name.endswith(".npy"):
            np.save(out, X)
        else:
            parquet.write_table(as_table(X), out, row_group_size=7)


@pytest.mark.parametrize("ending", ["npy", "parquet"])
def test_rows_in_a_store_are_read_by_url(store, ending):
    X = numbers(50)
    for number, part in enumerate(np.array_split(X, 3)):
        put(store, f"rows/part={number}/0.{ending}", part)
    rows = ShardedRows.open("memory://nearsay-test/rows", shard_bytes=5 * X[:1].nbytes)
    assert len(rows.shards) > 5
    np.testing.assert_array_equal(all_rows(rows), X)
    same(ShardedIndex().fit(rows).query(X, 3), ns.nearest(X, X, 3))
    one = ShardedRows.open([f"memory://nearsay-test/rows/part=1/0.{ending}"])
    np.testing.assert_array_equal(all_rows(one), np.array_split(X, 3)[1])


@pytest.mark.parametrize("ending", ["npy", "parquet"])
def test_an_object_that_is_replaced_or_gone_is_refused(store, ending):
    put(store, f"rows/0.{ending}", numbers(50))
    rows = ShardedRows.open("memory://nearsay-test/rows")
    put(store, f"rows/0.{ending}", numbers(50, seed=1))
    with pytest.raises(StorageError, match=r"not the file it was|bytes on"):
        all_rows(rows)
    store.rm(f"/nearsay-test/rows/0.{ending}")
    with pytest.raises(StorageError, match="is missing on"):
        all_rows(rows)


def test_what_is_not_in_the_store_is_told(store):
    with pytest.raises(InputError, match=r"There is no file memory://nearsay-test/rows\.npy"):
        ShardedRows.open("memory://nearsay-test/rows.npy")
    with pytest.raises(InputError, match="There is no snapshot memory://"):
        ShardedRows.open("memory://nearsay-test/snapshot.json")


def test_a_snapshot_in_a_store_finds_its_shards_there(store, tmp_path):
    X = numbers(30)
    with ns.LiveCollection.create(tmp_path / "leaves", n_columns=3) as leaves:
        leaves.add([str(row) for row in range(30)], X)
        leaves.forget(["4"])
        leaves.store.snapshot(tmp_path / "snapshot.json")
    store.put(str(tmp_path), "/nearsay-test/", recursive=True)
    snapshot = next(path for path in store.find("/nearsay-test") if path.endswith("/snapshot.json"))
    rows = ShardedRows.open(f"memory:/{snapshot}")
    assert rows.removed.tolist() == [4]
    np.testing.assert_array_equal(all_rows(rows), X)


# ---------------------------------------------------------------- one byte that changes


def flip(path: Path, place: int) -> None:
    """Change one byte, and nothing that can be told without reading it but when that was."""
    with open(path, "r+b") as file:
        file.seek(place)
        byte = file.read(1)
        file.seek(place)
        file.write(bytes([byte[0] ^ 1]))


@pytest.fixture
def large(tmp_path: Path) -> tuple[Path, int]:
    """A file of which pieces are looked at, and a place in its middle that lies between them."""
    np.save(tmp_path / "rows.npy", numbers(40_000, 8))
    path = tmp_path / "rows.npy"
    size = path.stat().st_size
    pieces = [(size - places.PIECE_BYTES) * piece // (places.PIECES - 1) for piece in range(places.PIECES)]
    place = (pieces[31] + places.PIECE_BYTES + pieces[32]) // 2
    assert pieces[31] + places.PIECE_BYTES < place < pieces[32]
    return path, place


def flip_unseen(path: Path, place: int) -> None:
    """The same, and the file says that it was not written to."""
    status = path.stat()
    flip(path, place)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_one_byte_that_changes_after_the_rows_were_opened_is_noticed_here(large):
    path, place = large
    index = ShardedIndex().fit(path)
    index.query(numbers(1, 8), 1)
    flip(path, place)
    with pytest.raises(StorageError, match=r"rows\.npy on .* is not the file it was"):
        index.query(numbers(1, 8), 1)


def test_one_byte_that_changes_unseen_is_noticed_by_a_full_checksum_alone(large):
    path, place = large
    sampled, full = ShardedRows.open(path), ShardedRows.open(path, verify="full")
    full.check()
    flip_unseen(path, place)
    sampled.check()  # as the page on scale says
    with pytest.raises(StorageError, match=r"rows\.npy on .* is not the file it was"):
        full.check()
    flip_unseen(path, place)
    full.check()


def test_a_copy_with_another_time_is_the_same_to_a_full_checksum(large):
    path, _ = large
    full = ShardedRows.open(path, verify="full")
    path.write_bytes(path.read_bytes())
    full.check()


def test_one_byte_that_changes_between_two_runs_is_noticed_before_work_is_resumed(large):
    path, place = large
    Q, work = numbers(20, 8, seed=1), path.parent / "work"
    ShardedIndex(work_folder=work).fit(path).query(Q, 3)
    (kept,) = work.iterdir()
    flip_unseen(path, place)
    found = ShardedIndex(work_folder=work).fit(path).query(Q, 3)
    same(found, ns.nearest(np.load(path), Q, 3))
    assert len(list(work.iterdir())) == 2
    flip_unseen(path, place)
    written = kept.stat().st_mtime_ns
    ShardedIndex(work_folder=work).fit(path).query(Q, 3)
    assert len(list(work.iterdir())) == 2
    assert kept.stat().st_mtime_ns == written


def test_what_was_done_is_found_again_however_the_rows_are_kept(tmp_path):
    X = numbers(30)
    np.save(tmp_path / "rows.npy", X)
    parquet.write_table(as_table(X), tmp_path / "rows.parquet")
    Q, work = numbers(20, seed=1), tmp_path / "work"
    ShardedIndex(work_folder=work).fit(tmp_path / "rows.npy").query(Q, 3)
    same(ShardedIndex(work_folder=work).fit(tmp_path / "rows.parquet").query(Q, 3), ns.nearest(X, Q, 3))
    assert len(list(work.iterdir())) == 1


def test_another_way_to_verify_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"Unknown way to verify 'all'.*full, sampled"):
        ShardedRows.open(tmp_path, verify="all")


def test_damaged_pages_of_a_table_are_named_with_their_file(tmp_path):
    parquet.write_table(
        as_table(numbers(500), "columns"), tmp_path / "0.parquet", compression="snappy", use_dictionary=False
    )
    file = bytearray((tmp_path / "0.parquet").read_bytes())
    file[4:-1500] = b"\xff" * (len(file) - 1504)  # the footer is whole
    (tmp_path / "0.parquet").write_bytes(file)
    with pytest.raises(InputError, match=r"0\.parquet: row groups 0 to 0 are damaged"):
        all_rows(ShardedRows.open(tmp_path))
