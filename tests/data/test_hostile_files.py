"""Saved files from a stranger: nothing in them is run, opened, asked or made larger than they are."""

from __future__ import annotations

import inspect
import json
import os
import socket
import tracemalloc
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nearsay as ns
from benchmarks import hostile_files
from benchmarks.hostile_files import LABELS, NAMES, QUERIES, ROWS, Saved
from nearsay.collection.state.learned import Learned
from nearsay.data.saved import saved_objects
from nearsay.data.saved.savable import SAVABLE
from nearsay.data.saved.saved_file import save_state
from nearsay.errors import InputError, SavedFileError
from tests.public import ESTIMATORS


def forged(path: Path, root: Any, *arrays: np.ndarray) -> Path:
    """A file of sound checksums that holds anything."""
    save_state(path, "estimator", 1, {"root": root}, {str(number): array for number, array in enumerate(arrays)})
    return path


def named(name: str, number: int = 0, /, **fields: Any) -> dict[str, Any]:
    """An object as files hold it."""
    return {"object": number, "class": name, "fields": fields}


def by_module(name: str, number: int = 0, /, **state: Any) -> dict[str, Any]:
    """An object as files held it when they named modules, and every class could be made."""
    return {"object": number, "class": f"nearsay.{name}", "state": state}


def an_index(**changed: Any) -> dict[str, Any]:
    """The settings of an index, one of them changed."""
    fields = {"metric": "euclidean", "search": "auto", "recall": None, "metric_params": None, "n_jobs": None}
    return named("NeighborIndex", **{**fields, **changed})


def changed(tmp_path: Path, thing: Any, change: Callable[[Saved], None]) -> Path:
    """An honest file, changed."""
    path = tmp_path / "changed.nearsay"
    ns.save(thing, path)
    saved = Saved(path.read_bytes())
    change(saved)
    path.write_bytes(saved.bytes())
    return path


@pytest.fixture
def visitors():
    """A port that anybody may ask; gives how many did."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)

        def count() -> int:
            came = 0
            with suppress(BlockingIOError):
                while True:
                    server.accept()[0].close()
                    came += 1
            return came

        count.address = f"127.0.0.1:{server.getsockname()[1]}"  # type: ignore[attr-defined]
        yield count


# ---------------------------------------------------------------- classes


FOREIGN = [
    "neighbors.sharded:ShardedIndex",
    "posterior.sharded:ShardedClassifier",
    "search.shards:ShardedRows",
    "search.stored.shard:Shard",
    "neighbors.on_dask:DaskCluster",
    "neighbors.shard_work:OneProcess",
    "search.approximate:Graph",
    "search.approximate:InvertedLists",
    "distances.functions:FunctionDistance",
    "collection.store:Store",
    "collection.live:LiveCollection",
    "collection.sources:Source",
    "describe.encoder_onnx:OnnxEncoder",
]


@pytest.fixture
def imported(monkeypatch):
    """Modules that would have been imported for a file."""
    names = []
    monkeypatch.setattr(saved_objects, "import_module", names.append)
    return names


@pytest.mark.parametrize("where", [*FOREIGN, "os:system", "sklearn.preprocessing:FunctionTransformer"])
def test_no_source_store_worker_or_function_is_made_from_a_file_or_imported_for_it(where, tmp_path, imported):
    for root in (by_module(where), named(where), named(where.partition(":")[2]), an_index(search=by_module(where))):
        with pytest.raises(SavedFileError, match=r"none of those that are saved|unknown entry|expected"):
            ns.load(forged(tmp_path / "foreign.nearsay", root))
    assert not imported
    assert not {where.partition(":")[2]} & set(SAVABLE)


@pytest.mark.parametrize(
    ("number", "accepted"), [(np.int64(2), True), (np.array([2]), False), (np.float64(2.0), False), (np.True_, False)]
)
def test_a_whole_number_may_be_one_of_numpy_but_no_array_and_no_other_number(number, accepted, tmp_path):
    path = forged(tmp_path / "jobs.nearsay", an_index(n_jobs={"scalar": 0}), np.asarray(number))
    if accepted:
        assert ns.load(path).n_jobs == 2
    else:
        with pytest.raises(SavedFileError, match="expected a whole number"):
            ns.load(path)


def test_a_saved_index_over_shards_asks_no_cluster(tmp_path, visitors):
    workers = by_module("neighbors.on_dask:DaskCluster", 1, cluster=f"tcp://{visitors.address}")
    rows = by_module(
        "search.shards:ShardedRows", 2, name="rows", shards={"tuple": []}, n_columns=4, dtype="<f8",
        removed={"array": 0},
    )  # fmt: skip
    euclidean = by_module("distances.vectors:Euclidean", 3)
    root = by_module(
        "neighbors.sharded:ShardedIndex", metric="euclidean", search="exact", recall=None, metric_params=None,
        cluster=None, work_folder=None, memory=1, on_progress=None, _workers=workers, rows_=rows, distance_=euclidean,
    )  # fmt: skip
    opened = None
    with suppress(SavedFileError):
        opened = ns.load(forged(tmp_path / "shards.nearsay", root, np.empty(0, np.int64)))
    assert opened is None
    assert visitors() == 0


def test_a_saved_index_names_no_url(tmp_path, visitors):
    shard = by_module("search.stored.shard:Shard", 1, file=f"http://{visitors.address}/rows.npy")
    rows = by_module("search.shards:ShardedRows", name="rows", shards={"tuple": [shard]}, n_columns=4, dtype="<f8")
    with pytest.raises(SavedFileError):
        ns.load(forged(tmp_path / "url.nearsay", rows)).take(np.arange(1))
    assert visitors() == 0


def test_a_table_of_pictures_names_no_url(tmp_path, visitors):
    (tmp_path / "pictures.csv").write_text(f"path,label\nhttp://{visitors.address}/a.png,owl\n")
    with suppress(InputError):
        source = ns.collection.read_source(tmp_path / "pictures.csv", describe="thumbnail")
        assert not [batch for batch in source if len(batch.X)]
    assert visitors() == 0


@pytest.mark.parametrize("name", ["/etc/rows.npy", "s3://bucket/rows.npy"])
def test_a_snapshot_names_files_beside_it_alone(name, tmp_path):
    answers = {"kind": "nearsay snapshot", "format": 1, "event": 1, "n_columns": 1, "forgotten": []}
    answers["shards"] = [{"file": name, "first": 0, "n_rows": 1, "sha256": ""}]
    (tmp_path / "snapshot.json").write_text(json.dumps(answers))
    with pytest.raises(InputError, match="relative path"):
        ns.search.ShardedRows.open(tmp_path / "snapshot.json")


def test_a_faiss_structure_is_not_read_from_a_file(tmp_path):
    faiss = pytest.importorskip("faiss")
    target = tmp_path / "mine.bin"
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(4), 4, 1)
    index.train(ROWS.astype(np.float32))
    lists = faiss.OnDiskInvertedLists(1, index.code_size, str(target))
    index.replace_invlists(lists)
    index.add(ROWS.astype(np.float32))
    written = faiss.serialize_index(index)
    before = target.read_bytes()
    root = by_module("search.approximate:Graph", _index={"array": 0})
    with pytest.raises(SavedFileError):
        ns.load(forged(tmp_path / "faiss.nearsay", root, written)).add(np.zeros((1, 4), np.float32))
    assert target.read_bytes() == before


def test_a_file_of_another_purpose_is_refused_before_it_is_made(tmp_path, imported):
    ns.save(ns.NeighborClassifier(3, posterior="proportional").fit(ROWS, NAMES), tmp_path / "learned.nearsay")
    with pytest.raises(SavedFileError, match="is a NeighborClassifier; expected NeighborIndex"):
        ns.NeighborIndex.open(tmp_path / "learned.nearsay")
    with pytest.raises(SavedFileError, match="is a NeighborClassifier; expected Learned"):
        Learned.read(tmp_path)
    assert not imported


@pytest.mark.parametrize(
    "thing",
    [
        lambda files: ns.ShardedIndex().fit(files),
        lambda files: ns.search.ShardedRows.open(files),
        lambda files: ns.ShardedClassifier(ns.NeighborClassifier(3, posterior="proportional")).fit(files, NAMES),
        lambda files: ns.HedgedClassifier(ns.ShardedClassifier(ns.NeighborClassifier(3, posterior="proportional"))),
    ],
)
def test_what_lies_in_other_files_is_not_saved_by_name_and_the_error_says_what_to_do(thing, tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    with pytest.raises(InputError, match=r"its rows lie in files elsewhere.*fit again where they are") as raised:
        ns.save(thing([tmp_path / "rows.npy"]), tmp_path / "index.nearsay")
    assert "\n" not in str(raised.value)
    assert os.listdir(tmp_path) == ["rows.npy"]


# ---------------------------------------------------------------- distances and posteriors that are held by name


@pytest.mark.parametrize(
    "metric",
    [
        named("NamedDistance", 1, name="shape_context", n_points=2**40),  # as a class of its own this is refused
        named("NamedDistance", 1, name="function"),
        named("NamedDistance", 1, name="os.system"),
    ],
)
def test_a_distance_whose_fields_are_declared_is_not_held_by_name(metric, tmp_path):
    with pytest.raises(SavedFileError, match="none of those that are saved by name"):
        ns.load(forged(tmp_path / "named.nearsay", an_index(metric=metric)))


def test_a_posterior_whose_fields_are_declared_is_not_held_by_name(tmp_path):
    def by_name(saved: Saved) -> None:
        posterior = saved.contents["header"]["root"]["fields"]["model_"]["fields"]["posterior"]
        posterior["class"], posterior["fields"]["name"] = "NamedPosterior", "rank"

    with pytest.raises(SavedFileError, match="'rank' is none of those that are saved by name"):
        ns.load(changed(tmp_path, ns.NeighborClassifier(3, posterior="rank").fit(ROWS, NAMES), by_name))


def test_what_is_held_by_name_has_no_compiled_loops_which_would_trust_its_fields():
    declared = {savable.where for savable in SAVABLE.values()}
    kinds = [*ns.distances.DISTANCES.values(), *ns.posterior.POSTERIORS.values()]
    assert len([kind for kind in kinds if f"{kind.__module__}:{kind.__qualname__}" in declared]) >= 29
    for kind in kinds:
        if f"{kind.__module__}:{kind.__qualname__}" not in declared:
            assert "_kernels" not in inspect.getsource(inspect.getmodule(kind)), f"declare {kind} in savable.py"


# ---------------------------------------------------------------- fields and containers


@pytest.mark.parametrize(
    ("root", "says"),
    [
        (an_index(_workers=None), "has no field '_workers'"),
        (an_index(__class__="NeighborIndex"), "has no field '__class__'"),
        (named("NeighborIndex", metric="euclidean"), "has no search"),
        (an_index(n_jobs="many"), "n_jobs is a value of the kind 'text'"),
        (an_index(n_jobs=10**6), "n_jobs is too small or too large"),
        (an_index(metric=named("Taxonomy", 1)), "metric is a Taxonomy"),
        (an_index(metric={"tuple": {"dict": []}}), "metric is a tuple without a list"),
        (an_index(metric={"tuple": named("Euclidean", 1)}), "metric is a tuple without a list"),
        (an_index(metric={"set": [[1]]}), "metric"),
        (an_index(metric={"dict": [[[], 1]]}), "a key"),
        (an_index(metric={"again": 0}), "does not hold before"),
        (an_index(metric={"array": 9}), "not in the file"),
        (an_index(search={"snapshot": 0}), "does not hold before"),
        (["NeighborIndex"], "is no object"),
        (None, "is no object"),
    ],
)
def test_a_file_holds_what_is_declared_and_nothing_else(root, says, tmp_path):
    with pytest.raises(SavedFileError, match=says) as raised:
        ns.load(forged(tmp_path / "odd.nearsay", root))
    assert "\n" not in str(raised.value)


def test_what_a_file_says_is_shown_in_one_line_that_no_terminal_obeys(tmp_path):
    with pytest.raises(SavedFileError) as raised:
        ns.load(forged(tmp_path / "odd.nearsay", named("\x1b]52;c;evil\x07\n\u202e")))
    assert str(raised.value).isprintable()


def test_a_pipeline_caches_nothing_in_a_folder_that_a_file_names(tmp_path):
    step = {"tuple": ["scale", named("StandardScaler", 1)]}
    root = named("Pipeline", steps=[step], memory=str(tmp_path), verbose=False)
    with pytest.raises(SavedFileError, match="memory is a value of the kind 'text'"):
        ns.load(forged(tmp_path / "pipeline.nearsay", root))


# ---------------------------------------------------------------- numbers that loops would go by


def _array_of(saved: Saved, *path: Any) -> str:
    value = saved.contents["header"]["root"]
    for key in path:
        value = value["fields"][key] if isinstance(key, str) and "fields" in value else value[key]
    return str(value["array"])


def beyond_the_classes(saved: Saved) -> None:
    saved.arrays[_array_of(saved, "model_", "labels")][3] = 3


def below_zero(saved: Saved) -> None:
    saved.arrays[_array_of(saved, "model_", "labels")][3] = -1


def fewer_labels(saved: Saved) -> None:
    name = _array_of(saved, "model_", "labels")
    saved.arrays[name] = saved.arrays[name][:-1]


def fewer_rows(saved: Saved) -> None:
    rows = next(name for name, array in saved.arrays.items() if array.shape == ROWS.shape)
    saved.arrays[rows] = saved.arrays[rows][:-1]


def beyond_the_rows(saved: Saved) -> None:
    indices = _array_of(saved, "model_", "past", "_kept", "tuple", 0, "indices")
    saved.arrays[indices][0, 0] = len(ROWS)


def more_classes(saved: Saved) -> None:
    saved.contents["header"]["root"]["fields"]["model_"]["fields"]["posterior"]["fields"]["n_classes_"] = 4


@pytest.mark.parametrize(
    "change", [beyond_the_classes, below_zero, fewer_labels, fewer_rows, beyond_the_rows, more_classes]
)
def test_numbers_that_lie_past_the_end_of_what_they_number_are_refused(change, tmp_path):
    fitted = ns.NeighborClassifier(3, posterior="rank&votesplit").fit(ROWS, NAMES)
    with pytest.raises(SavedFileError, match=r"has the number|is made for|expected 0 or more"):
        ns.load(changed(tmp_path, fitted, change))


def test_truth_values_and_characters_are_such(tmp_path):
    index = ns.NeighborIndex().fit(ROWS).remove([1])
    ns.save(index, tmp_path / "index.nearsay")

    def odd(saved: Saved) -> None:
        mask = next(array for array in saved.arrays.values() if array.dtype == bool)
        mask.view(np.uint8)[:] = 7

    with pytest.raises(SavedFileError, match="neither true nor false"):
        ns.load(changed(tmp_path, index, odd))

    def unknown(saved: Saved) -> None:
        texts = next(array for array in saved.arrays.values() if array.dtype.kind == "U")
        texts.view(np.uint32)[:] = 0x110000

    fitted = ns.NeighborClassifier(3, posterior="proportional").fit(ROWS, NAMES)
    with pytest.raises(SavedFileError, match="characters that do not exist"):
        ns.load(changed(tmp_path, fitted, unknown))


# ---------------------------------------------------------------- memory


def said_of_an_array(**listed: Any) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        contents = {"format": 1, "kind": "estimator", "version": 1, "header": {"root": None}}
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("arrays/0.npy", b"\x93NUMPY\x01\x00\x02\x00{}")
            archive.writestr("nearsay.json", json.dumps({**contents, "arrays": {"0": {**listed, "sha256": ""}}}))

    return write


def of_text(text: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("nearsay.json", text)

    return write


def of_root(root: Any, *arrays: np.ndarray) -> Callable[[Path], None]:
    return lambda path: forged(path, root, *arrays) and None


def packed(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("nearsay.json", b" " * (1 << 26))


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


DEEP = '{"format": 1, "kind": "estimator", "version": 1, "arrays": {}, "header": {"root": %s}}'
LARGE = 1 << 28
BOMBS: dict[str, Callable[[Path], None]] = {
    "a range as a tuple": of_root(
        by_module("neighbors.index:NeighborIndex", metric={"tuple": {"range": [0, 10**7, 1]}})
    ),
    "an empty object array": of_root(by_module("x", metric={"objects": [], "shape": [0, LARGE]})),
    "a sparse matrix of many rows": of_root(
        named("TwoPassNeighbors", per_word=1, base=None, _keywords={"sparse": [0, 1, 2], "shape": [2, LARGE],
              "class": "csc_array"}), np.ones(1), np.zeros(1, np.int64), np.array([0, 1, 1])
    ),
    "a sparse matrix of long ago": of_root(
        by_module("neighbors.index:NeighborIndex", metric={"sparse": [0, 1, 2], "shape": [2, 10**7], "class":
                  "csc_array"}), np.ones(1), np.zeros(1, np.int64), np.array([0, 1, 1])
    ),
    "texts of no length": said_of_an_array(dtype="<U0", shape=[LARGE]),
    "an array of arrays": said_of_an_array(dtype="(100000,1000)f8", shape=[0]),
    "more sides than numbers": said_of_an_array(dtype="<f8", shape=[0, LARGE]),
    "a side below zero": said_of_an_array(dtype="<f8", shape=[-1]),
    "deep lists": of_text(DEEP % nested(900)),
    "deeper lists": of_text('{"format":1,"kind":"estimator","version":1,"arrays":{},"header":' + "[" * 10**5),
    "a packed file": packed,
    "a number of many digits": of_text('{"format": ' + "9" * 10**5 + "}"),
}  # fmt: skip


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_small_file_takes_little_memory(bomb, tmp_path):
    BOMBS[bomb](tmp_path / "bomb.nearsay")
    tracemalloc.start()
    try:
        with pytest.raises(SavedFileError) as raised:
            ns.load(tmp_path / "bomb.nearsay")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20
    assert str(raised.value).isprintable()


def test_parts_that_are_larger_than_the_file_are_refused(tmp_path):
    ns.save(ns.NeighborIndex().fit(ROWS), tmp_path / "index.nearsay")
    with zipfile.ZipFile(tmp_path / "index.nearsay", "a") as archive:
        member = archive.infolist()[0]
        member.file_size = member.compress_size = 1 << 30
        archive._didModify = True
    with pytest.raises(SavedFileError, match="larger than the file"):
        ns.load(tmp_path / "index.nearsay")


# ---------------------------------------------------------------- the table


@pytest.mark.slow
@pytest.mark.parametrize("name", SAVABLE)
def test_every_savable_class_is_where_the_table_says_and_is_saved_under_that_name(name):
    if name == "GpuSearch":
        pytest.importorskip("torch")
    kind = saved_objects._class_named(name)
    assert saved_objects.NAMES[saved_objects._name_of(kind)] == name


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_setting_of_an_estimator_is_declared(name):
    kind = ESTIMATORS[name]
    if hasattr(kind, "_get_param_names"):
        assert set(kind._get_param_names()) <= set(SAVABLE[name].fields)


def test_an_attribute_that_is_not_declared_is_an_error_when_saving(tmp_path):
    fitted = ns.NeighborClassifier(3, posterior="proportional").fit(ROWS, NAMES)
    fitted.new_ = 1
    with pytest.raises(InputError, match="has no field 'new_'"):
        ns.save(fitted, tmp_path / "new.nearsay")
    assert not os.listdir(tmp_path)


def test_models_of_arrays_are_saved_beside_the_neighbors(tmp_path):
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
    from sklearn.naive_bayes import GaussianNB

    for model in (LinearDiscriminantAnalysis(), QuadraticDiscriminantAnalysis(reg_param=0.1), GaussianNB()):
        one = ns.NeighborClassifier(3, posterior="pooled", beside=model).fit(ROWS, LABELS)
        ns.save(one, tmp_path / "beside.nearsay")
        np.testing.assert_array_equal(
            ns.load(tmp_path / "beside.nearsay").predict_proba(QUERIES), one.predict_proba(QUERIES)
        )


# ---------------------------------------------------------------- many of them


def test_the_fuzzer_hears_what_it_is_there_for(tmp_path, monkeypatch):
    """Without the checks of sizes and of names, cases that were refused do harm, and the fuzzer says so."""
    from nearsay.core import compiling

    def short(saved: Saved) -> None:
        name = _array_of(saved, "model_", "posterior", "reading_")
        saved.arrays[name] = saved.arrays[name][:, :1]

    fitted = ns.NeighborClassifier(3, posterior="rank").fit(ROWS, NAMES)
    path = changed(tmp_path, fitted, short)
    monkeypatch.setattr(saved_objects, "_check", lambda *given: None)
    raised: dict[str, BaseException] = {}
    with compiling.forced(False):
        hostile_files.asked(ns.load(path), raised)
    assert any(isinstance(error, IndexError) for error in raised.values())


def test_the_fuzzer_lets_inspect_parse_signatures_and_nothing_else():
    ears = hostile_files.Ears("")
    ears.listening = True
    try:
        inspect.signature(len)
        assert ears.heard == []
        compile("def foo(x): pass", "<a file>", "exec")
        assert len(ears.heard) == 1
    finally:
        ears.listening = False


def test_only_a_case_that_is_slow_twice_is_reported(tmp_path, monkeypatch):
    seconds, clock = [], [0.0]
    monkeypatch.setattr(ns, "load", lambda path: clock.__setitem__(0, clock[0] + seconds.pop()))
    monkeypatch.setattr(hostile_files.time, "process_time", lambda: clock[0])
    ears = hostile_files.Ears("")
    for first, second, lines in ((9.0, 0.1, []), (9.0, 9.0, ["takes 9.0 s"])):
        seconds[:] = [second, first]
        assert hostile_files.faults_of(b"", str(tmp_path / "case"), ears) == lines
        assert not seconds


@pytest.mark.slow
def test_two_thousand_changed_files_do_no_harm():
    assert hostile_files.run(2000, seed=7) == []


@pytest.mark.slowest
def test_a_hundred_thousand_changed_files_do_no_harm():
    assert hostile_files.run(100_000, seed=8) == []
    assert hostile_files.run(10_000, seed=9, compiled=True) == []
