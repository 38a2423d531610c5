"""Folders that FiftyOne exported, in its two formats, and what goes there and back."""

from __future__ import annotations

import json

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="pictures need pillow")

from nearsay import read_source  # noqa: E402
from nearsay.errors import InputError  # noqa: E402


@pytest.fixture
def folder(tmp_path):
    for number, name in enumerate(("owl 1.png", "wren.2.png", "more/trout.png", "unlabeled.png")):
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8, 3), 40 * number, np.uint8)).save(path)
    return tmp_path


def write(folder, name, content):
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))


def read(folder):
    source = read_source(folder)
    rows = {}
    for batch in source:
        rows |= {id: (label, words) for id, label, words in zip(batch.ids, batch.labels, batch.keywords, strict=True)}
    return source, rows


EXPECTED = {
    "data/owl 1.png": ("owl", ["night", "wise"]),
    "data/wren.2.png": ("wren", None),
    "data/more/trout.png": ("trout", None),
    "data/unlabeled.png": (None, None),
}


@pytest.mark.parametrize("numbered", [True, False])
def test_classifications_are_read_by_the_names_of_their_pictures(folder, numbered):
    classes = ["trout", "owl", "wren"]
    labels = {"owl 1": {"label": "owl", "attributes": {"keywords": ["night", "wise"]}}}
    labels |= {"wren.2": 2, "more/trout": 0} if numbered else {"wren.2": "wren", "more/trout": {"label": "trout"}}
    write(folder, "labels.json", {"classes": classes if numbered else None, "labels": {**labels, "gone": "owl"}})
    source, rows = read(folder)
    assert rows == EXPECTED
    assert source.taxonomy is None
    assert "labels are those of labels.json; what it does not list has none" in source.chosen
    assert [problem.id for problem in source.problems] == ["data/gone"]


def test_samples_are_read_with_their_tags_or_further_labels_as_keywords(folder):
    def one(label, kind="Classification"):
        return {"_id": {"$oid": "1"}, "_cls": kind, "tags": [], "label": label}

    several = {"_cls": "Classifications", "classifications": [one("night"), one("wise")]}
    owl, wren = one("owl"), one("wren")
    samples = [
        {"filepath": "data/owl 1.png", "tags": ["train"], "guess": wren, "ground_truth": owl, "w": several},
        {"filepath": "data/wren.2.png", "tags": [], "guess": one("wren"), "boxes": {"_cls": "Detections"}},
        {"filepath": "data/more/trout.png", "label": one("trout")},
        {"filepath": "data/unlabeled.png", "metadata": None},
        7,
    ]  # fmt: skip
    write(folder, "metadata.json", {"name": "birds"})
    write(folder, "samples.json", {"samples": samples})
    source, rows = read(folder)
    assert rows == EXPECTED
    assert source.problems == []


def test_other_folders_with_files_of_such_names_are_read_as_before(folder, tmp_path):
    write(folder, "samples.json", {"samples": []})  # no metadata.json
    assert read(folder)[1]["data/owl 1.png"][0] == "data"
    write(folder, "labels.json", {"classes": None, "labels": {}})
    assert read_source(folder, labels_from="folder").taxonomy is not None


@pytest.mark.parametrize(
    ("content", "why"), [("{", "not JSON"), ("[]", "no 'labels'"), ('{"labels": []}', "no 'labels'")]
)
def test_a_file_that_is_none_of_fiftyone_is_named(folder, content, why):
    write(folder, "labels.json", content)
    with pytest.raises(InputError, match=why):
        read_source(folder)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "data/../../secret"])
def test_names_that_lead_out_of_the_folder_name_no_picture(folder, name):
    write(folder.parent, "secret.png", "x")
    write(folder, "labels.json", {"labels": {name: "owl"}})
    source, rows = read(folder)
    assert {label for label, _ in rows.values()} == {None}
    assert len(source.problems) == 1
