"""Items go out as they are: nothing lost, nothing run, forgotten ones left behind."""

from __future__ import annotations

import csv
import json
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from nearsay.collection import LiveCollection, export_items
from nearsay.collection.ingest.sources import read_source
from nearsay.collection.store.items import COLUMNS
from nearsay.errors import InputError

EDGES = [("thing", "animal"), ("thing", "tool"), ("animal", "cat"), ("animal", "=dog")]
# Every event is synced, which takes long on a busy disk: in memory where there is such a folder.
IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=6).filter(str.strip)
ITEMS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.sampled_from(["cat", "=1+1", "a,b\u2028'c", "ü"])),
        st.one_of(st.none(), st.lists(WORDS, max_size=3, unique=True)),
        st.one_of(st.none(), st.dictionaries(WORDS, st.one_of(st.integers(-9, 9), WORDS, st.none()), max_size=2)),
    ),
    min_size=1,
    max_size=6,
)


@pytest.fixture
def pets(tmp_path):
    with LiveCollection.create(tmp_path / "pets", n_columns=1, taxonomy=EDGES) as collection:
        details = [{"path": "a.png", "camera": 3}, {"path": "b.png"}, None, {"path": "d.png"}]
        words = [["furry", "=small"], None, ["sky"], None]
        collection.add(list("abcd"), [[0.0], [1.0], [2.0], [3.0]], ["cat", "=dog", None, "cat"], words, details=details)
        collection.add(["guess"], [[1.5]], ["cat"], details=[{"path": "g.png"}], by="machine")
        collection.forget(["d"])
        yield collection


@settings(max_examples=15, deadline=None)
@given(items=ITEMS)
def test_json_lines_parquet_and_frames_lose_nothing(items):
    parquet = pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("pandas")
    folder = Path(tempfile.mkdtemp(dir=IN_MEMORY))
    expected = []
    with LiveCollection.create(folder / "c", n_columns=1) as collection:
        for by in ("person", "machine"):
            labels, words, details = zip(*items, strict=True)
            ids = [f"{by} {number}" for number in range(len(items))]
            collection.add(ids, [[0.0]] * len(ids), list(labels), list(words), details=list(details), by=by)
            for id, (label, some, more) in zip(ids, items, strict=True):
                expected.append(dict(zip(COLUMNS, (id, label, some, by == "person", by, more), strict=True)))
        collection.forget(["person 0"])
        export_items(collection, folder / "out.jsonl")
        export_items(collection, folder / "out.parquet")
        frame = collection.to_frame()
    del expected[0]
    lines = (folder / "out.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    assert [json.loads(line) for line in lines] == expected
    read = parquet.read_table(folder / "out.parquet").to_pylist()
    assert [{**row, "details": json.loads(row["details"] or "null")} for row in read] == [
        {**row, "details": row["details"] or None} for row in expected
    ]
    records = frame.to_dict("records")
    # Where there is no label, pandas says NaN, which differs from itself.
    assert [{**row, "label": row["label"] if row["label"] == row["label"] else None} for row in records] == expected
    assert list(frame.columns) == list(COLUMNS)
    shutil.rmtree(folder)


def test_a_spreadsheet_runs_nothing_and_the_table_is_a_source_of_labels(pets, tmp_path):
    export_items(pets, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == ["a", "b", "c", "guess"]
    assert rows[1]["label"] == "'=dog"
    assert rows[0]["keywords"] == "furry; =small"
    assert [row["confirmed"] for row in rows] == ["yes", "yes", "yes", "no"]
    assert json.loads(rows[0]["details"]) == {"path": "a.png", "camera": 3}
    numbers = tmp_path / "numbers.csv"
    numbers.write_text("id,x\na,0.5\nguess,0.7\n")
    (batch,) = read_source(numbers, labels=tmp_path / "out.csv")
    assert (batch.labels, batch.keywords[0]) == (["cat", "cat"], ["furry", "=small"])


def test_sidecars_hold_the_way_down_the_tree_of_confirmed_labels(pets, tmp_path):
    photos = tmp_path / "photos"
    photos.mkdir()
    for name in "abg":
        Image.new("RGB", (4, 4)).save(photos / f"{name}.png")
    done = export_items(pets, pictures=photos, beside_pictures=True)
    assert sorted(path.name for path in done.paths) == ["a.png.xmp", "b.png.xmp"]
    assert "animal|cat" in (photos / "a.png.xmp").read_text()
    assert [problem.id for problem in done.problems] == ["c"]


def test_labeling_tools_get_annotations_and_predictions(pets, tmp_path):
    pets.forget(["c"])
    export_items(pets, tmp_path / "tasks.json", format="label-studio")
    tasks = {task["data"]["id"]: task for task in json.loads((tmp_path / "tasks.json").read_text())}
    assert tasks["a"]["annotations"][0]["result"][0]["value"] == {"choices": ["cat"]}
    assert "predictions" not in tasks["a"]
    assert tasks["guess"]["predictions"][0]["result"][0]["value"] == {"choices": ["cat"]}
    assert "annotations" not in tasks["guess"]
    export_items(pets, tmp_path / "fiftyone", format="fiftyone", pictures=tmp_path / "photos")
    labels = json.loads((tmp_path / "fiftyone" / "labels.json").read_text())["labels"]
    assert [label["label"] for label in labels.values()] == ["cat", "=dog"]


def test_pictures_lie_where_the_collection_says(pets, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    Image.new("RGB", (4, 4)).save(tmp_path / "elsewhere" / "a.png")
    pets.store.set_settings({"pictures": str(tmp_path / "elsewhere")})
    done = export_items(pets, beside_pictures=True)
    assert [path.parent.name for path in done.paths] == ["elsewhere"]


def test_sidecars_of_items_from_two_folders_lie_beside_their_own_pictures(pets, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (4, 4)).save(tmp_path / name / "a.png")
    pets.store.set_settings({"pictures": str(tmp_path / "one")})
    pets.add(["a of two"], [[1.0]], ["=dog"], details=[{"path": "a.png", "folder": str(tmp_path / "two")}])
    with pytest.raises(InputError, match="not known on this machine"):
        export_items(pets, beside_pictures=True)
    pets.store.remembered.name_pictures(None, tmp_path / "two")
    done = export_items(pets, beside_pictures=True)
    assert [path.parent.name for path in done.paths] == ["one", "two"]
    assert "=dog" not in (tmp_path / "one" / "a.png.xmp").read_text()
    assert "=dog" in (tmp_path / "two" / "a.png.xmp").read_text()


def test_a_collection_that_does_not_know_its_pictures_asks_where_they_lie(pets, tmp_path):
    with pytest.raises(InputError, match="pictures="):
        export_items(pets, beside_pictures=True)
    done = export_items(pets, tmp_path / "out", format="xmp")
    assert [path.name for path in done.paths] == ["a.png.xmp", "b.png.xmp"]


def test_nothing_is_replaced_unless_asked(pets, tmp_path):
    export_items(pets, tmp_path / "out.csv")
    with pytest.raises(InputError, match="exists already"):
        export_items(pets, tmp_path / "out.csv")
    export_items(pets, tmp_path / "out.csv", overwrite=True)
    with pytest.raises(InputError, match="known endings"):
        export_items(pets, tmp_path / "out.doc")
