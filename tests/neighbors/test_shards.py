"""Search over shards: the rows, order and distances of one search over all rows, however they are cut and merged."""

from __future__ import annotations

import gc
import itertools
import json
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nearsay as ns
from nearsay.core.arrays import mapped
from nearsay.data.files import read_rows
from nearsay.errors import InputError, NotFitted, StorageError
from nearsay.neighbors.sharded import shard_work
from nearsay.neighbors.sharded.shard_search import merge, shard_tasks
from nearsay.neighbors.sharded.sharded_index import ShardedIndex
from nearsay.search.shards import ShardedRows
from nearsay.search.stored.mapped import RowMap
from tests.reference import neighbors as reference

METRICS = st.sampled_from(["euclidean", "manhattan", "cosine"])


def written(X: np.ndarray, cuts: list[int], folder: str) -> list[str]:
    """The rows in files, cut before these rows."""
    files = []
    for number, part in enumerate(np.split(X, sorted(cut % (len(X) + 1) for cut in cuts))):
        files.append(f"{folder}/{number:03}.npy")
        np.save(files[-1], part)
    return files


def written_at(work: Path) -> dict[str, int]:
    """When the answers in a work folder were written."""
    return {path.name: path.stat().st_mtime_ns for path in work.iterdir()}


@st.composite
def collections(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, list[int], list[int]]:
    """Few rows of small whole numbers, their classes, where they are cut, and which are removed."""
    n, d = draw(st.integers(3, 20)), draw(st.integers(1, 3))
    X = np.array(draw(st.lists(st.integers(1, 4), min_size=n * d, max_size=n * d)), float).reshape(n, d)
    labels = np.array(draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)))
    cuts = draw(st.lists(st.integers(0, 20), max_size=5))
    removed = draw(st.lists(st.integers(0, n - 1), unique=True, max_size=n - 2))
    return X, labels, cuts, sorted(removed)


def same(one: Any, other: Any) -> None:
    np.testing.assert_array_equal(one.indices, other.indices)
    np.testing.assert_array_equal(one.distances, other.distances)
    if getattr(other, "classes", None) is not None:
        assert one.classes.members == other.classes.members
        for mine, theirs in zip(one.classes.arrays, other.classes.arrays, strict=True):
            np.testing.assert_array_equal(mine, theirs)


# ---------------------------------------------------------------- the same as one search over all rows


@given(case=collections(), metric=METRICS, k=st.integers(1, 6), rows=st.integers(1, 4), queries=st.integers(1, 9))
@settings(max_examples=40, deadline=None)
def test_shards_answer_as_one_index_over_all_rows_however_they_are_cut(case, metric, k, rows, queries):
    X, _, cuts, removed = case
    with tempfile.TemporaryDirectory() as folder:
        files = written(X, cuts, folder)
        held = ShardedRows.open(files, shard_bytes=rows * X[:1].nbytes).without(removed)
        assert all(shard.n_rows <= rows for shard in held.shards)
        index = ShardedIndex(metric).fit(held)
        index.queries_at_once = queries
        whole = ns.NeighborIndex(metric, "exact").fit(X).remove(removed)
        k = min(k, len(whole) - 1)
        Q = np.vstack([X[::-1], X + 0.5])
        same(index.query(Q, k), whole.query(Q, k))
        same(index.leave_one_out(k), whole.leave_one_out(k))
        same(index.leave_one_out(k, [1, 0, 1]), whole.leave_one_out(k, [1, 0, 1]))


@pytest.mark.slow
@given(
    case=collections(),
    metric=METRICS,
    k=st.integers(1, 6),
    members=st.sampled_from([None, (), (1,), (1, 3)]),
    groups=st.lists(st.integers(0, 5), min_size=20, max_size=20),
)
@settings(max_examples=40, deadline=None)
def test_rows_of_one_group_are_left_out_of_each_others_answers(case, metric, k, members, groups):
    X, labels, cuts, removed = case
    whole = ns.NeighborIndex(metric, "exact").fit(X).remove(removed).with_labels(labels, 5)
    with tempfile.TemporaryDirectory() as folder:
        shards = ShardedIndex(metric).fit(ShardedRows.open(written(X, cuts, folder)).without(removed))
        some = shards.with_labels(labels, 5)
        some.groups = whole.groups = np.array(groups[: len(X)])
        same(some.leave_one_out(k, members), whole.leave_one_out(k, members))
        rows = np.arange(len(X))[::2]
        same(some.leave_one_out(k, members, rows), whole.leave_one_out(k, members, rows))
        same(some.query(X + 0.5, k, members), whole.query(X + 0.5, k, members))


@pytest.mark.slow
@given(case=collections(), metric=METRICS, k=st.integers(1, 6), lists_all=st.booleans())
@settings(max_examples=40, deadline=None)
def test_labeled_shards_list_classes_and_means_as_one_labeled_search(case, metric, k, lists_all):
    X, labels, cuts, removed = case
    with tempfile.TemporaryDirectory() as folder:
        shards = ShardedIndex(metric).fit(ShardedRows.open(written(X, cuts, folder)).without(removed))
        shards.queries_at_once = 7
        some = shards.with_labels(labels, 6)
        whole = ns.NeighborIndex(metric, "exact").fit(X).remove(removed).with_labels(labels, 6)
        some.lists_all = whole.lists_all = lists_all
        for members in (None, (), (1,), (1, 2, 5)):
            same(some.query(X + 0.5, k, members), whole.query(X + 0.5, k, members))
            same(some.leave_one_out(k, members), whole.leave_one_out(k, members))
            same(some.leave_one_out(k, members, [2, 0]), whole.leave_one_out(k, members, [2, 0]))
            for rows, table in some.leave_one_out_blocks(k, members, at_once=4):
                assert len(rows) <= 4
                same(table, whole.leave_one_out(k, members, rows))


@given(case=collections(), k=st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_the_nearest_of_all_shards_are_those_of_a_double_loop(case, k):
    X, _, cuts, _ = case
    with tempfile.TemporaryDirectory() as folder:
        found = ShardedIndex().fit(written(X, cuts, folder)).leave_one_out(min(k, len(X) - 1))
    indices, distances = reference.nearest(X, X, min(k, len(X) - 1), reference.euclidean, leave_out_itself=True)
    assert found.indices.tolist() == indices
    np.testing.assert_allclose(found.distances, distances, rtol=1e-15)


@given(case=collections(), k=st.integers(1, 4), data=st.data())
@settings(max_examples=40, deadline=None)
def test_partial_answers_merge_in_any_order_and_grouping(case, k, data):
    X, labels, cuts, removed = case
    with tempfile.TemporaryDirectory() as folder:
        rows = ShardedRows.open(written(X, cuts, folder)).without(removed)
        asked = {"labels": labels, "n_classes": 5}
        parts = [task.answer() for task in shard_tasks(rows, X, k, **asked)]
        near = np.tile(np.arange(5), (len(X), 1))
        parts_far = [task.answer() for task in shard_tasks(rows, X, 0, near=near, n_members=3, **asked)]
    whole = merge(parts).arrays() | merge(parts_far).arrays()
    order = data.draw(st.permutations(range(len(parts))))
    split = data.draw(st.integers(0, len(parts)))
    for some in (parts, parts_far):
        groups = [[some[place] for place in group] for group in (order[:split], order[split:]) if group]
        for name, array in merge([merge(group) for group in groups]).arrays().items():
            np.testing.assert_array_equal(array, whole[name])


def test_a_shard_is_searched_by_its_number_and_answers_with_the_numbers_of_all_rows(tmp_path):
    X = np.array([[3.0], [1.0], [2.0], [9.0]])
    rows = ShardedRows.open(written(X, [2], str(tmp_path)))
    nearest = shard_tasks(rows, [[2.2]], 3, "euclidean")[1].answer().nearest
    assert nearest.indices.tolist() == [[2, 3, -1]]
    assert nearest.distances[0, 2] == np.inf


@pytest.mark.slow
def test_rows_that_are_mapped_when_they_are_opened_answer_as_mapped_rows_do(tmp_path):
    X = np.random.default_rng(7).integers(0, 5, (40, 3)).astype(np.float32)
    rows = ShardedRows.open(written(X, [11, 30], str(tmp_path)))
    turned = X[:, ::-1] * np.float32(3)
    by = RowMap.of(lambda some: some[:, ::-1] * np.float32(3), ["turned"], 3, "<f4", X.dtype.str)
    mapped = rows.mapped(by)
    np.testing.assert_array_equal(mapped.take(np.array([39, 0, 12])), turned[[39, 0, 12]])
    np.testing.assert_array_equal(mapped[:], turned)
    np.testing.assert_array_equal(rows[:], X)
    assert mapped.shards[0].known_by() != rows.shards[0].known_by()
    index = ShardedIndex(work_folder=tmp_path / "work")
    same(index.fit(rows).leave_one_out(4), ns.leave_one_out(X, 4))
    same(index.fit(mapped).leave_one_out(4), ns.leave_one_out(turned, 4))
    same(index.fit(mapped.without([3])).query(turned, 4), ns.NeighborIndex().fit(turned).remove([3]).query(turned, 4))
    narrow = rows.mapped(RowMap.of(lambda some: some[:, :1].astype(float), ["first"], 1, "<f8", X.dtype.str))
    same(ShardedIndex().fit(narrow).query(X[:, :1], 2), ns.nearest(X[:, :1].astype(float), X[:, :1], 2))


def test_rows_in_memory_behind_those_of_files_are_searched_as_one_array_of_all(tmp_path):
    """Some have digits that the files have not, which a map must not lose of either."""
    rng = np.random.default_rng(8)
    X, more = rng.integers(0, 5, (30, 3)).astype(np.float32) / 3, rng.normal(size=(9, 3))
    both = np.concatenate([X, more])
    rows = ShardedRows.open(written(X, [11], str(tmp_path))).with_held(more, "new rows")
    np.testing.assert_array_equal(rows[:], both)
    assert rows.dtype == "<f8"
    same(ShardedIndex(work_folder=tmp_path / "work").fit(rows).leave_one_out(4), ns.leave_one_out(both, 4))
    by = RowMap.of(lambda some: some / 7, ["seventh"], 3, "<f8", rows.dtype)
    same(ShardedIndex().fit(rows.mapped(by)).query(both, 4), ns.nearest(both / 7, both, 4))
    left = np.delete(np.arange(39), [2, 33, 34])
    renumbered = rows.without([2, 33, 34]).renumbered()
    same(ShardedIndex().fit(renumbered).query(both, 3), ns.nearest(both[left], both, 3))
    others = ShardedRows.open(written(X, [11], str(tmp_path))).with_held(more + 1, "new rows")
    assert rows.shards[-1].known_by() != others.shards[-1].known_by()
    assert rows.shards[-1] != others.shards[-1]


def test_every_row_is_looked_at_where_that_is_asked_for(tmp_path):
    X = np.ones((6, 2))
    X[4] = 0.0
    files = written(X, [3], str(tmp_path))
    ShardedIndex().fit(files).check_rows()
    with pytest.raises(InputError, match=r"001.npy, rows from number 3 on: X row 1 .*direction"):
        ShardedIndex("cosine").fit(files).check_rows()


@pytest.mark.slow
def test_an_approximate_search_of_shards_finds_as_many_as_asked_for(tmp_path):
    pytest.importorskip("faiss")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 8)).astype(np.float32)
    files = written(X, [3000], str(tmp_path))
    found = ShardedIndex(search="hnsw", recall=0.9).fit(files).query(X[:300] + 0.1, 10).indices
    true = ns.nearest(X, X[:300] + 0.1, 10).indices
    assert np.mean([np.isin(a, b).mean() for a, b in zip(true, found, strict=True)]) >= 0.9


# ---------------------------------------------------------------- where rows lie


def test_a_snapshot_gives_the_rows_of_its_version_without_those_forgotten(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 3)).astype(np.float32)
    with ns.LiveCollection.create(tmp_path / "leaves", n_columns=3) as leaves:
        leaves.add([f"a{i}" for i in range(30)], X[:30], ["oak", "elm"] * 15)
        leaves.store.seal(min_rows=1)
        leaves.add([f"b{i}" for i in range(10)], X[30:], ["oak", "elm"] * 5)
        leaves.forget(["a4", "b7"])
        path = leaves.store.snapshot(tmp_path / "snapshot.json")
        event = json.loads(path.read_text())["event"]
    rows = ShardedRows.open(path)
    assert len(rows.shards) == 2
    assert rows.removed.tolist() == [4, 37]
    assert all(f"after event {event}" in shard.version and shard.sha256 for shard in rows.shards)
    whole = ns.NeighborIndex(search="exact").fit(X).remove([4, 37])
    same(ShardedIndex().fit(path).query(X, 5), whole.query(X, 5))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder, r"no \.npy or \.parquet file"),
        (lambda folder: [], "No file was named"),
        (lambda folder: folder / "none.npy", "There is no file"),
        (lambda folder: folder / "none", "There is no file"),
        (lambda folder: _text(folder / "rows.csv", "1,2"), r"neither \.npy nor \.parquet"),
        (lambda folder: folder / "none.json", "There is no snapshot"),
        (lambda folder: _saved(folder / "line.npy", np.arange(3.0)), "1 dimensions"),
        (lambda folder: _saved(folder / "words.npy", np.array([["a"]])), "of numbers"),
        (lambda folder: _saved(folder / "none.npy", np.empty((0, 2))), "no rows"),
        (
            lambda folder: [_saved(folder / "a.npy", np.ones((2, 3))), _saved(folder / "b.npy", np.ones((2, 4)))],
            "b.npy has 4 columns of <f8, but .*a.npy has 3",
        ),
        (lambda folder: _text(folder / "a.json", "{}"), "not a snapshot"),
        (lambda folder: _text(folder / "a.json", '{"kind": "nearsay snapshot", "format": 9}'), "newer format"),
        (lambda folder: _text(folder / "a.npy", "no"), "not an .npy file"),
    ],
)
def test_what_cannot_be_opened_is_refused_with_the_reason(tmp_path, make, message):
    with pytest.raises(InputError, match=message):
        ShardedRows.open(make(tmp_path))


def _saved(path: Path, array: np.ndarray) -> Path:
    np.save(path, array)
    return path


def _text(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


# ---------------------------------------------------------------- files that change


def spoiled_missing(path: Path) -> None:
    path.unlink()


def spoiled_longer(path: Path) -> None:
    with open(path, "ab") as file:
        file.write(b"more")


def spoiled_inside(path: Path) -> None:
    with open(path, "r+b") as file:
        file.seek(-3, os.SEEK_END)
        file.write(b"xyz")


SPOILED = {"missing on": spoiled_missing, "bytes": spoiled_longer, "is not the file it was": spoiled_inside}


@pytest.mark.parametrize("message", SPOILED)
@pytest.mark.parametrize("ready", [True, False], ids=["held ready", "not opened before"])
def test_a_shard_that_is_missing_or_has_changed_is_refused(tmp_path, message, ready):
    X = np.random.default_rng(3).normal(size=(30, 4))
    files = written(X, [10, 20], str(tmp_path))
    index = ShardedIndex().fit(files)
    if ready:
        index.query(X, 2)
    SPOILED[message](Path(files[1]))
    with pytest.raises(StorageError, match=rf"001\.npy.*{message}.*"):
        index.query(X, 2)


@pytest.fixture
def threads_change_in_the_middle():
    """Garbage is collected all the time, and each time another thread may go on."""

    def let_others(phase: str, info: dict[str, int]) -> None:
        time.sleep(1e-5)

    before = gc.get_threshold()
    gc.freeze()  # so that there is little to look through
    gc.callbacks.append(let_others)
    gc.set_threshold(20)
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(let_others)
    gc.unfreeze()


@pytest.mark.usefixtures("threads_change_in_the_middle")
@pytest.mark.parametrize("read", [ShardedRows.open, read_rows, mapped], ids=lambda read: read.__qualname__)
def test_several_threads_read_headers_at_a_time(tmp_path, read):
    """Python's parser, with which numpy reads them, fails in two threads at a time in some versions."""
    (file,) = written(np.arange(8.0)[:, None], [], str(tmp_path))
    with ThreadPoolExecutor(4) as reading:
        assert [len(found) for found in reading.map(read, [file] * 100)] == [8] * 100


def test_a_shard_of_another_width_is_refused_by_whoever_opens_it(tmp_path):
    files = written(np.zeros((8, 6)), [4], str(tmp_path))
    rows = ShardedRows.open(files)
    np.save(files[1], np.zeros((6, 4)))  # as many bytes
    with pytest.raises(StorageError):
        ShardedIndex().fit(rows).query(np.zeros((1, 6)), 1)


def test_one_changed_number_in_a_shard_of_a_snapshot_is_noticed_by_its_checksum(tmp_path):
    X = np.random.default_rng(4).normal(size=(9000, 40)).astype(np.float32)
    with ns.LiveCollection.create(tmp_path / "c", n_columns=40) as collection:
        collection.add([str(i) for i in range(len(X))], X)
        path = collection.store.snapshot(tmp_path / "snapshot.json")
    index = ShardedIndex().fit(path)
    shard = index.rows_.shards[0]
    with open(shard.file, "r+b") as file:  # between the pieces that are always looked at
        file.seek(60_000)
        file.write(b"\0\0\0\1")
    with pytest.raises(StorageError, match=r"is not the file it was.*the snapshot snapshot.json after event"):
        index.query(X[:1], 2)


def test_a_snapshot_newer_than_the_files_here_is_refused(tmp_path):
    with ns.LiveCollection.create(tmp_path / "c", n_columns=1) as collection:
        collection.add(["a", "b"], [[1.0], [2.0]])
        old = collection.store.snapshot(tmp_path / "old.json")
        index = ShardedIndex().fit(old)
        collection.add(["d"], [[3.0]])
        new = collection.store.snapshot(tmp_path / "new.json")
    opened_before = ShardedIndex().fit(new)
    Path(opened_before.rows_.shards[-1].file).unlink()
    with pytest.raises(StorageError, match=r"new.json after event 2 needs it, so the copy on this machine is older"):
        opened_before.query([[1.9]], 1)
    with pytest.raises(StorageError, match=r"missing, but the snapshot new.json after event 2 needs it"):
        ShardedRows.open(new)
    assert index.query([[1.9]], 1).indices.tolist() == [[1]]


def test_a_row_that_cannot_be_compared_is_named_with_its_file(tmp_path):
    X = np.zeros((6, 2))
    X[4, 1] = np.nan
    index = ShardedIndex().fit(written(X, [3], str(tmp_path)))
    with pytest.raises(InputError, match=r"001.npy, rows from number 3 on: X holds nan at row 1, column 1"):
        index.query(np.zeros((1, 2)), 1)


# ---------------------------------------------------------------- done once


def test_after_an_interruption_no_shard_is_searched_again(tmp_path):
    X = np.random.default_rng(5).integers(0, 4, (60, 3)).astype(float)
    files, work = written(X, [10, 20, 30, 40, 50], str(tmp_path)), tmp_path / "work"

    def interrupt(done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ShardedIndex(work_folder=work, on_progress=interrupt).fit(files).query(X, 4)
    kept = written_at(work)
    assert len(kept) == 3
    again = ShardedIndex(work_folder=work).fit(files)
    same(again.query(X, 4), ns.nearest(X, X, 4))
    answers = written_at(work)
    assert len(answers) == 6
    assert kept.items() <= answers.items()
    same(again.query(X, 4), ns.nearest(X, X, 4))
    assert written_at(work) == answers
    again.query(X, 3)
    again.query(X + 1, 4)
    assert len(written_at(work)) == 18


def test_an_answer_that_is_damaged_is_found_again_and_one_of_a_changed_shard_is_not_taken(tmp_path):
    X = np.random.default_rng(6).normal(size=(20, 3))
    files = written(X, [10], str(tmp_path))
    index = ShardedIndex(work_folder=tmp_path / "work").fit(files)
    index.query(X, 4)
    for path in (tmp_path / "work").iterdir():
        path.write_bytes(path.read_bytes()[:100])
    same(index.query(X, 4), ns.nearest(X, X, 4))
    spoiled_inside(Path(files[0]))
    with pytest.raises(StorageError):
        index.query(X, 4)


def changes() -> dict[str, Any]:
    """Anything that an answer depends on."""
    return {
        "queries": lambda asked: {**asked, "Q": asked["Q"] + 1},
        "k": lambda asked: {**asked, "k": 3},
        "metric": lambda asked: {**asked, "metric": "manhattan"},
        "left out": lambda asked: {**asked, "left_out": np.arange(4)},
        "labels": lambda asked: {**asked, "labels": np.zeros(8, int)},
        "classes": lambda asked: {**asked, "n_classes": 9},
        "removed": lambda asked: {**asked, "rows": asked["rows"].without([1])},
        "members": lambda asked: {**asked, "near": np.zeros((4, 1), int), "n_members": 2},
        "search": lambda asked: {**asked, "search": ("kd", None)},
        "rows": lambda asked: {**asked, "rows": ShardedRows.open(asked["other"])},
    }


def test_every_part_of_a_question_is_part_of_its_name(tmp_path):
    X = np.arange(8.0)[:, None]
    (tmp_path / "other").mkdir()
    other = written(X + 1, [4], str(tmp_path / "other"))
    asked = {"rows": ShardedRows.open(written(X, [4], str(tmp_path))), "Q": X[:4], "k": 2, "metric": "euclidean"}
    asked |= {"labels": np.arange(8) % 2, "n_classes": 2, "other": other}

    def names(asked: dict[str, Any]) -> list[str]:
        what = {name: value for name, value in asked.items() if name != "other"}
        return [shard_work.fingerprint(task) for task in shard_tasks(**what)]

    found = [names(asked), *(names(change(asked)) for change in changes().values())]
    assert names(asked) == found[0]
    first_shard = [each[0] for each in found]
    assert len(set(first_shard)) == len(first_shard)
    assert len(set(itertools.chain(*found))) >= len(found) * 2 - 1  # "removed" changes the first shard alone


def test_progress_counts_every_shard_and_block_of_queries(tmp_path):
    X = np.arange(12.0)[:, None]
    told: list[tuple[int, int]] = []
    index = ShardedIndex(on_progress=lambda *done: told.append(done)).fit(written(X, [6], str(tmp_path)))
    index.queries_at_once = 5
    index.query(X, 2)
    assert told == [(done, 6) for done in range(1, 7)]
    for members, n_passes in (((), 1), ((1,), 1), ((1, 2), 2)):
        told.clear()
        index.with_labels(np.arange(12) % 3).query(X, 2, members)
        assert told == [(done, 6 * n_passes) for done in range(1, 6 * n_passes + 1)]


# ---------------------------------------------------------------- refused


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda index: index.query([[1.0]], 9), "Ask for at most 6"),
        (lambda index: index.leave_one_out(6), "at most 5"),
        (lambda index: index.query([[1.0, 2.0]], 1), "Q has 2 columns, but 1"),
        (lambda index: index.with_labels([0, 1]), "each of the 6 rows"),
        (lambda index: index.rows_.without([7]), "numbered 0 to 5"),
        (lambda index: ShardedIndex("precomputed").fit(index.rows_), "whole matrix"),
        (lambda index: ShardedIndex(search=ns.search.ExactSearch()).fit(index.rows_), "search is a name"),
        (lambda index: ShardedIndex(cluster=object()).fit(index.rows_), "cluster"),
        (lambda index: merge([]), "nothing to merge"),
        (
            lambda index: (
                ShardedIndex(lambda a, b: 0.0, work_folder=tempfile.mkdtemp()).fit(index.rows_).query([[1.0]], 1)
            ),
            "metric by name",
        ),
    ],
)  # fmt: skip
def test_bad_questions_are_refused_with_the_reason(tmp_path, ask, message):
    index = ShardedIndex().fit(written(np.arange(6.0)[:, None], [3], str(tmp_path)))
    with pytest.raises(InputError, match=message):
        ask(index)


def test_an_index_without_rows_says_so():
    with pytest.raises(NotFitted):
        ShardedIndex().query([[1.0]], 1)
