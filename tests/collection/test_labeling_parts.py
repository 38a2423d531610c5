"""A folder of tables answered file by file: the answers of one table, each file once, on a cluster too."""

from __future__ import annotations

import itertools
import json
import shutil
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import nearsay as ns
from nearsay.collection import distributed, labeling, labeling_parts
from nearsay.collection.answers import Answer
from nearsay.collection.distributed import DistributedView, PastCasesTask, learned_on, past_cases_part
from nearsay.collection.evaluation.evaluate import evaluate
from nearsay.collection.indexing import index_source
from nearsay.collection.ingest.image_description import Description
from nearsay.collection.labeling_parts import LabeledParts, label_part, label_parts
from nearsay.collection.state.learned import FILE, Learned
from nearsay.collection.state.live_views import LiveTransform
from nearsay.errors import InputError, StorageError
from nearsay.neighbors.sharded import dask_cluster
from nearsay.neighbors.sharded.dask_cluster import workers_of
from tests.cli.test_commands import picture, run

HALVES = True

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection, and a folder of three files to be asked about."""
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    kinds = np.array(["oak", "elm", "fir"])[rng.integers(0, 3, 90)]
    X = (rng.normal(size=(90, 2)) + 3 * np.searchsorted(["elm", "fir", "oak"], kinds)[:, None]).astype(np.float32)
    table = {"id": [f"leaf {row}" for row in range(90)], "width": X[:, 0], "height": X[:, 1]}
    parquet.write_table(pa.table({**table, "label": kinds}), folder / "leaves.parquet")
    index_source(folder / "leaves.parquet", folder / "leaves.nearsay")
    (folder / "new").mkdir()
    for number in range(3):
        part = slice(30 * number, 30 * number + 30)
        queries = {"id": table["id"][part], "width": X[part, 0] + 0.1, "height": X[part, 1]}
        parquet.write_table(pa.table(queries), folder / f"new/{number}.parquet")
    return folder


@pytest.fixture
def place(made_once: Path, tmp_path: Path) -> Path:
    """A copy of them, to be changed."""
    return Path(shutil.copytree(made_once, tmp_path, dirs_exist_ok=True))


def answered(place: Path, **given: object) -> LabeledParts:
    return label_parts(place / "leaves.nearsay", place / "new", place / "answers", **given)


def told(path: Path) -> list[dict[str, object]]:
    return parquet.read_table(path).to_pylist()


def test_every_file_has_the_answers_that_it_has_by_itself(place):
    result = answered(place)
    assert result.n_answers == 90
    assert [Path(path).name for path in result.paths] == ["0.parquet", "1.parquet", "2.parquet"]
    with ns.LiveCollection.open(place / "leaves.nearsay", read_only=True) as leaves:
        queries = parquet.read_table(place / "new/1.parquet").to_pydict()
        X = np.stack([queries["width"], queries["height"]], axis=1)
        expected = leaves.label(X, ids=queries["id"])
    rows = told(place / "answers/1.parquet")
    assert [row["id"] for row in rows] == queries["id"]
    assert [row["label"] for row in rows] == [answer.label for answer in expected]
    assert [row["probability"] for row in rows] == [answer.probability for answer in expected]


def test_after_an_interruption_no_file_is_answered_again(place, monkeypatch):
    calls: list[str] = []
    export = labeling.export_answers

    def interrupted(answers, path, **given):
        if len(calls) == 2:
            raise KeyboardInterrupt
        calls.append(Path(path).name)
        return export(answers, path, **given)

    monkeypatch.setattr(labeling, "export_answers", interrupted)
    with pytest.raises(KeyboardInterrupt):
        answered(place)
    assert not (place / "answers/2.done.json").exists()
    calls.append("the third is not interrupted")
    result = answered(place)
    assert calls == ["0.parquet", "1.parquet", "the third is not interrupted", "2.parquet"]
    assert (result.n_kept, result.n_answers) == (2, 90)


def test_answers_to_another_question_are_not_taken_and_not_replaced_unasked(place):
    answered(place)
    with pytest.raises(InputError, match="answers to another question"):
        answered(place, n_keywords=3)
    with ns.LiveCollection.open(place / "leaves.nearsay") as leaves:
        leaves.relabel(["leaf 3"], ["elm"])
    with pytest.raises(InputError, match="another version of the collection"):
        answered(place)
    assert answered(place, overwrite=True).n_kept == 0
    assert answered(place).n_kept == 3


def test_a_worker_with_another_version_or_another_file_says_so(place):
    with ns.LiveCollection.open(place / "leaves.nearsay", read_only=True) as leaves:
        version = leaves.version
    source = str(place / "new/0.parquet")
    queries = {"collection": str(place / "leaves.nearsay"), "source": source, "out": str(place / "0.parquet")}
    queries |= {"accuracy": None, "n_keywords": 5, "id_column": None}
    newer = labeling_parts.PartTask(**queries, version=version + 1, source_digest=labeling_parts.file_checksum(source))
    with pytest.raises(StorageError, match=rf"is at event {version}, but event {version + 1}"):
        label_part(newer)
    with pytest.raises(StorageError, match="is missing or has changed"):
        label_part(labeling_parts.PartTask(**queries, version=version, source_digest="another"))


def test_what_another_process_learned_is_kept_as_if_it_were_learned_here(place):
    queries = {"posterior": "rank&votesplit", "n_neighbors": 4}
    X = np.random.default_rng(9).normal(size=(20, 2)) * 4
    with ns.LiveCollection.open(place / "leaves.nearsay") as leaves:
        learned = learned_on(None, leaves, **queries)
        assert leaves.learn(learned=learned).n_neighbors == 4
        elsewhere = [(answer.label, answer.probability) for answer in leaves.label(X)]
        with pytest.raises(InputError, match="Learn again"):
            leaves.learn(learned=learned)
        leaves.learn(**queries)
        assert [(answer.label, answer.probability) for answer in leaves.label(X)] == elsewhere
        version = leaves.version
    visited = LiveTransform("euclidean", "euclidean")
    task = PastCasesTask(str(place / "leaves.nearsay"), version + 1, visited, 3, None, np.arange(5))
    with pytest.raises(StorageError, match=f"is at event {version}, but event {version + 1}"):
        past_cases_part(task)


def contents(learned: Learned, folder: Path) -> dict[str, bytes]:
    """All that is written of what was learned."""
    folder.mkdir()
    learned.write(folder)
    with zipfile.ZipFile(folder / FILE) as file:
        return {name: file.read(name) for name in file.namelist()}


class SmallTasks(DistributedView):
    rows_a_task = 7


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "view"),
    [
        *(("unequal columns", SmallTasks), ("feature groups", SmallTasks), ("one posterior", SmallTasks)),
        ("one posterior", DistributedView),
    ],
)
def test_learned_in_parts_is_learned_as_a_whole(tmp_path, made, view):
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 4, 80)
    X = (rng.integers(0, 5, (80, 4)) + labels[:, None]).astype(np.float32)
    X[:, 2] = rng.normal(0, 500, 80)  # tells nothing
    settings = {"feature_groups": {"a": (0, 2), "b": (2, 4)}} if made == "feature groups" else {}
    queries = {"posterior": "rank&votesplit"} if made == "one posterior" else {}
    words = [["green"] if label % 2 else ["red", "small"] for label in labels]
    tree = ns.Taxonomy.from_nested({"all": {"low": ["0", "1"], "high": ["2", "3"]}})
    with ns.LiveCollection.create(tmp_path / "rows", n_columns=4, **settings) as rows:
        rows.add([f"row {i}" for i in range(80)], X, [str(label) for label in labels], keywords=words)
        rows.set_taxonomy(tree)
        rows.forget(["row 5", "row 77"])
        posterior = queries.get("posterior", "auto")
        whole = rows.tracker.learn(posterior, "auto")
        known = workers_of(None), str(rows.store.path.resolve()), rows.version
        parts = rows.tracker.learn(posterior, "auto", make=partial(view, *known))
    expected = contents(whole, tmp_path / "whole")
    assert contents(parts, tmp_path / "parts") == expected
    assert any(transform.without for transform in whole.transforms) == (made == "unequal columns")


def test_rows_that_cannot_be_used_are_named_with_their_file_each_time(place):
    parquet.write_table(
        pa.table({"id": ["x", "y"], "width": [1.0, None], "height": [1.0, 2.0]}), place / "new/3.parquet"
    )
    for kept in (0, 4):
        result = answered(place)
        assert result.n_kept == kept
        assert [problem.id for problem in result.problems] == ["y"]
        assert "3.parquet" in str(result.problems[0])


def test_the_command_answers_a_folder_and_goes_on_where_it_was(place):
    queries = ("label", place / "leaves.nearsay", place / "new", "-o", place / "answers")
    first = run(*queries)
    assert first.exit_code == 0, first.output
    assert "90 answers in 3 files in" in first.output.replace("\n", " ")
    again = json.loads(run(*queries, "--json").stdout)
    assert (again["answers"], again["kept"]) == (90, 3)
    assert run("label", place / "leaves.nearsay", place / "new").exit_code != 0
    assert run(*queries, "--add").exit_code != 0
    assert (
        run("label", place / "leaves.nearsay", place / "leaves.parquet", "--cluster", "local", "-o", "a").exit_code != 0
    )


def test_files_in_partitions_are_answered_in_folders_of_the_same_names(place):
    alone = {number: told(place / f"answers/{number}.parquet") for number in range(3) if answered(place)}
    for number in range(3):
        within = place / f"new/day={number % 2}"
        within.mkdir(exist_ok=True)
        (place / f"new/{number}.parquet").rename(within / "same name.parquet" if number else within / "0.parquet")
    result = label_parts(place / "leaves.nearsay", place / "new", place / "others")
    names = ["day=0/0.parquet", "day=0/same name.parquet", "day=1/same name.parquet"]
    assert [Path(path).relative_to(place / "others").as_posix() for path in result.paths] == names
    for name, number in zip(names, (0, 2, 1), strict=True):
        assert told(place / "others" / name) == alone[number]
    assert json.loads(run("label", place / "leaves.nearsay", place / "new", "-o", place / "others", "--json").stdout)[
        "kept"
    ] == 3  # fmt: skip


def test_one_byte_that_changes_in_a_file_is_another_question(place):
    large = place / "new/9.parquet"
    n = 50_000
    X = np.random.default_rng(5).normal(size=(n, 2))
    table = pa.table({"id": [f"new {row}" for row in range(n)], "width": X[:, 0], "height": X[:, 1]})
    parquet.write_table(table, large, compression="none", use_dictionary=False)
    task = labeling_parts.PartTask("", 1, str(large), labeling_parts.file_checksum(large), "", None, 5, None)
    with open(large, "r+b") as file:
        file.seek(large.stat().st_size // 2 + 5000)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 1]))
    changed = labeling_parts.PartTask("", 1, str(large), labeling_parts.file_checksum(large), "", None, 5, None)
    assert changed.fingerprint != task.fingerprint
    with pytest.raises(StorageError, match="is missing or has changed"):
        label_part(labeling_parts.PartTask(**{**task.__dict__, "out": str(place / "9.parquet")}))


@pytest.fixture(scope="module")
def two_workers() -> Iterator[None]:
    """A local cluster for several tests: to start one takes longer than what they ask of it."""
    yield
    dask_cluster.close_clusters()


@pytest.mark.slow
def test_a_cluster_answers_and_evaluates_as_one_process(place, two_workers, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(distributed, "LEFT_OUT_A_TASK", 40)
    with ns.LiveCollection.open(place / "leaves.nearsay") as leaves:
        leaves.learn(posterior="weighted", n_neighbors=5)  # else few items are judged by other choices, made here
    answered(place)
    alone = [told(place / f"answers/{number}.parquet") for number in range(3)]
    result = label_parts(place / "leaves.nearsay", place / "new", place / "others", cluster=2)
    assert result.n_answers == 90
    assert [told(place / f"others/{number}.parquet") for number in range(3)] == alone
    with ns.LiveCollection.open(place / "leaves.nearsay", read_only=True) as leaves:
        assert "with what was learned" in evaluate(leaves)["how"]
        assert evaluate(leaves, cluster=2) == evaluate(leaves)
        with pytest.raises(InputError, match="either holdout or cluster"):
            evaluate(leaves, holdout=0.2, cluster=2)
        both = leaves.tracker.learn("auto", "auto"), learned_on(2, leaves)
        assert contents(both[0], place / "here") == contents(both[1], place / "there")
    command = run("evaluate", place / "leaves.nearsay", "--cluster", "2", "--json")
    assert json.loads(command.stdout)["n_items"] == 90
    learned = run("learn", place / "leaves.nearsay", "--k", "7", "--cluster", "2", "--json")
    assert json.loads(learned.stdout)["n_neighbors"] == 7


@pytest.mark.slow
def test_pictures_described_by_workers_make_the_collection_that_one_process_makes(tmp_path, two_workers):
    for kind, number in itertools.product(("owl", "wren"), range(20)):
        picture(tmp_path / f"birds/{kind}/{number}.png", kind, number)
    (tmp_path / "birds/owl/broken.png").write_text("no picture")
    description = Description.choose(["rgb", "haar"], None, None)
    made = {
        name: index_source(tmp_path / "birds", tmp_path / name, description=description, learn=False, cluster=cluster)
        for name, cluster in (("alone", None), ("shared", 2))
    }
    assert made["shared"].n_items == 40
    assert [str(problem) for problem in made["shared"].problems] == [str(problem) for problem in made["alone"].problems]
    assert len(made["shared"].problems) == 1
    rows = []
    for name in made:
        with ns.LiveCollection.open(tmp_path / name, read_only=True) as birds:
            rows.append(birds.store.vectors(np.arange(40)))
    np.testing.assert_array_equal(*rows)
    queries = ("index", tmp_path / "birds", "-o", tmp_path / "typed", "--describe", "rgb", "--describe", "haar")
    command = run(*queries, "--cluster", "2", "--no-learn", "--json")
    assert (command.exit_code, json.loads(command.stdout)["n_items"]) == (1, 40)  # 1: a picture was left out


def test_a_notebook_shows_the_first_answers_as_a_table_and_counts_the_others():
    answers = [Answer(f"<{row}>", "oak", 0.25) for row in range(22)]
    shown = labeling.LabeledSource(answers, [])._repr_html_()
    assert shown.count("<tr>") == 21
    assert "<td>&lt;0&gt;</td><td>oak</td><td>0.25</td>" in shown
    assert shown.endswith("<p>2 more</p>")
    assert labeling.LabeledSource(answers[:1], [])._repr_html_().endswith("</table>")
