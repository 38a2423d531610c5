"""The data sets by name: where they are looked for, how they are joined, and what their makers say of them."""

from __future__ import annotations

import gzip
import os
import struct
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from nearsay.data import AnnotatedImages, AnnotatedRows, EmojiPictures, LabeledRows, load_dataset
from nearsay.data.catalog import DATASETS, SMALL_TABLES, TAXONOMIES, data_folders
from nearsay.errors import DatasetNotFound, InputError, SavedFileError
from nearsay.reports.installation import describe_installation
from nearsay.taxonomy import Taxonomy, load_taxonomy

needs_data = pytest.mark.skipif(
    not os.environ.get("NEARSAY_DATA"), reason="NEARSAY_DATA names no folder of data sets; this test reads one"
)


EMBEDDED = [("iris", (150, 4)), ("wine", (178, 13)), ("breast_cancer", (569, 30)), ("digits", (1797, 64))]


@pytest.mark.parametrize(("name", "shape"), EMBEDDED)
def test_embedded_data_sets_need_no_files(monkeypatch: pytest.MonkeyPatch, name: str, shape: tuple) -> None:
    monkeypatch.setenv("NEARSAY_DATA", "/nowhere")
    rows = load_dataset(name)
    assert (rows.X.shape, rows.name) == (shape, name)
    assert len(rows.label_names) == {"digits": 10, "breast_cancer": 2}.get(name, 3)


KINDS = {
    "labeled rows": LabeledRows,
    "annotated rows": AnnotatedRows,
    "annotated images": AnnotatedImages,
    "emoji pictures": EmojiPictures,
    "taxonomy": Taxonomy,
}
EVERY = [(load_dataset, name) for name in DATASETS] + [(load_taxonomy, name) for name in TAXONOMIES]


@pytest.mark.slow
@pytest.mark.parametrize(("load", "name"), EVERY, ids=lambda part: getattr(part, "__name__", part))
def test_every_name_loads_what_the_catalog_says(load, name: str) -> None:
    entry = (DATASETS if load is load_dataset else TAXONOMIES)[name]
    assert callable(entry.read)
    if entry.find() is None:
        pytest.skip(f"{name} is not on this machine")
    assert isinstance(load(name), KINDS[entry.kind])


@pytest.mark.parametrize(("load", "name"), EVERY, ids=lambda part: getattr(part, "__name__", part))
def test_every_name_is_documented_and_listed_where_an_unknown_one_is_refused(load, name: str) -> None:
    assert f"    {name} " in load.__doc__
    page = "datasets.md" if load is load_dataset else "taxonomy.md"
    text = (Path(__file__).parents[2] / "docs" / page).read_text(encoding="utf-8")
    assert f"`{name}`" in text or f'"{name}"' in text
    with pytest.raises(InputError, match=rf"Known names:.*\b{name}\b"):
        load("no such name")


def test_a_table_is_all_columns_but_the_last_and_classes_come_without_their_quotes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NEARSAY_DATA", str(tmp_path))
    (tmp_path / "small").mkdir()
    for name in SMALL_TABLES:
        header = ".,.,c" if name == "satimage" else "a,b,kind"
        (tmp_path / "small" / f"{name}.csv").write_text(f"{header}\n1,2,'wide glass'\n3,4.5,7\n")
        rows = load_dataset(name)
        assert (rows.X.tolist(), rows.y.tolist(), rows.name) == ([[1, 2], [3, 4.5]], ["wide glass", "7"], name)
        assert len(rows.feature_groups) == (0 if name == "satimage" else 2)


def test_the_doctor_shows_every_name_where_its_files_lie() -> None:
    shown = describe_installation()["data_sets"]
    for table, places in ((DATASETS, shown["found"]), (TAXONOMIES, shown["taxonomies"])):
        assert set(places) == set(table)
        for name, entry in table.items():
            result = entry.find() if entry.files else "comes with scikit-learn"
            assert places[name] == (None if result is None else str(result))


def test_unknown_names_options_and_choices_are_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'leafs' \(did you mean 'leaves'\?\)"):
        load_dataset("leafs")
    with pytest.raises(
        InputError, match=r"'leaves' has no option 'joins' \(did you mean 'join'\?\); it takes groups, "
    ):
        load_dataset("leaves", joins="row")
    with pytest.raises(InputError, match="'iris' has no option 'split'; it takes no options"):
        load_dataset("iris", split="train")


@pytest.mark.parametrize("name", [name for name, dataset in DATASETS.items() if dataset.files and not dataset.shipped])
def test_a_missing_data_set_says_where_it_was_looked_for_and_what_to_fetch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.setenv("NEARSAY_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    dataset = DATASETS[name]
    (tmp_path / "data" / dataset.folder).mkdir(parents=True)
    with pytest.raises(DatasetNotFound) as caught:
        load_dataset(name)
    for word in (
        *dataset.files,
        dataset.source,
        *(str(folder / dataset.folder) for folder in data_folders()),
        "lacks",
        "no folder",
    ):
        assert word in str(caught.value)
    monkeypatch.delenv("NEARSAY_DATA")
    with pytest.raises(DatasetNotFound, match="NEARSAY_DATA, which can name another place, is not set"):
        load_dataset(name)


def test_a_damaged_idx_file_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NEARSAY_DATA", str(tmp_path))
    (tmp_path / "mnist").mkdir()
    image = struct.pack(">4B3I", 0, 0, 8, 3, 2, 2, 2) + bytes(range(8))
    label = struct.pack(">4BI", 0, 0, 8, 1, 2) + b"\x07\x03"
    for file in DATASETS["mnist"].files:
        (tmp_path / "mnist" / file).write_bytes(gzip.compress(image if "images" in file else label))
    assert load_dataset("mnist", split="all").X.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]] * 2
    assert load_dataset("mnist", split="all", n=3).ids.tolist() == ["train/0", "train/1", "test/0"]
    path = tmp_path / "mnist" / DATASETS["mnist"].files[0]
    for content, says in [
        (gzip.compress(image)[:-10], "damaged"),
        (gzip.compress(image[:-1]), "cut short"),
        (gzip.compress(image[:6]), "damaged"),
        (gzip.compress(b"\x00"), "not an idx file"),
        (b"no gzip", "damaged"),
    ]:
        path.write_bytes(content)
        with pytest.raises(SavedFileError, match=says):
            load_dataset("mnist")


@pytest.fixture
def small_leaves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Two species of 16; shape lists them the other way round, texture lacks one elm."""
    monkeypatch.setenv("NEARSAY_DATA", str(tmp_path))
    folder = tmp_path / "leaves"
    folder.mkdir()

    def lines(order: list[str], kind: int, lacking: int = 0) -> str:
        kept = [(name, leaf) for name in order for leaf in range(16) if not (lacking and (name, leaf) == ("Elm", 15))]
        return "\n".join(f"{name} Tree,{kind},{'EO'.index(name[0])},{leaf}" for name, leaf in kept)

    (folder / "data_Mar_64.txt").write_text(lines(["Elm", "Oak"], 3))
    (folder / "data_Tex_64.txt").write_text(lines(["Elm", "Oak"], 2, lacking=1))
    (folder / "data_Sha_64.txt").write_text(lines(["Oak", "Elm"], 1))
    return folder


def test_leaves_are_joined_by_species_and_position(small_leaves: Path) -> None:
    rows = load_dataset("leaves", missing_specimen=16)
    assert rows.X[:, [0, 3, 6]][~rows.missing()].tolist() == [[1, 2, 3]] * 31
    for row in np.flatnonzero(~rows.missing()):
        assert len(set(rows.X[row, [1, 4, 7]])) == len(set(rows.X[row, [2, 5, 8]])) == 1
    assert rows.ids[[0, 15, 16]].tolist() == ["Elm_Tree/1", "Elm_Tree/16", "Oak_Tree/1"]
    assert rows.y[[15, 16]].tolist() == ["Elm Tree", "Oak Tree"]
    assert np.flatnonzero(rows.missing("texture")).tolist() == [15]


def test_the_missing_leaf_is_the_first_unless_said_otherwise(small_leaves: Path) -> None:
    assert np.flatnonzero(load_dataset("leaves").missing("texture")).tolist() == [0]
    assert np.flatnonzero(load_dataset("leaves", missing_specimen=3).missing()).tolist() == [2]
    texture = load_dataset("leaves", missing_specimen=3, groups=["texture"]).X
    assert texture[[0, 1, 3, 15], 2].tolist() == [0, 1, 2, 14]


def test_leaves_joined_by_row_mix_the_species(small_leaves: Path) -> None:
    rows = load_dataset("leaves", join="row")
    shape, margin = rows.select("shape").X, rows.select("margin").X
    assert (shape[:, 1] == 1 - margin[:, 1]).all()
    assert rows.y[0] == "Elm Tree"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"join": "line"}, "Unknown join"),
        ({"missing_specimen": 0}, "from 1 to 16"),
        ({"groups": ["hue"]}, "No feature"),
    ],
)
def test_impossible_leaves_are_refused(small_leaves: Path, options: dict, says: str) -> None:
    with pytest.raises(InputError, match=says):
        load_dataset("leaves", **options)


def test_leaves_files_that_do_not_fit_together_are_refused(small_leaves: Path) -> None:
    path = small_leaves / "data_Sha_64.txt"
    whole = path.read_text()
    path.write_text(whole.replace("Oak", "Ash"))
    with pytest.raises(SavedFileError, match="same species: Ash Tree, Oak Tree"):
        load_dataset("leaves")
    path.write_text("\n".join(whole.split("\n")[2:]))
    with pytest.raises(SavedFileError, match="14 leaves of Oak Tree; 16 are expected"):
        load_dataset("leaves")


# ------------------------------------------------------------------ the real ones


def has_no_duplicates(X: np.ndarray) -> bool:
    return len(np.unique(X, axis=0)) == len(X)


@needs_data
def test_the_leaves_are_what_their_makers_say() -> None:
    rows = load_dataset("leaves")
    assert rows.X.shape == (1600, 192)
    assert rows.feature_groups == {"shape": slice(0, 64), "texture": slice(64, 128), "margin": slice(128, 192)}
    assert set(Counter(rows.y.tolist()).values()) == {16}
    assert rows.ids[rows.missing()].tolist() == ["Acer_Campestre/1"]
    assert not rows.missing("shape").any()
    assert not rows.missing("margin").any()
    assert all(has_no_duplicates(rows.select(group).X) for group in rows.feature_groups)
    genera = Counter(name.split()[0] for name in rows.label_names)
    assert (len(genera), genera["Quercus"], genera["Acer"]) == (34, 38, 11)
    assert list(genera.values()).count(1) == 20


def add_one_log10_and_accuracy(rows: LabeledRows, k: int) -> tuple[float, float]:
    """The paper's PROP: 16 folds by position, add-one votes in each feature group, product of the groups."""
    species = np.unique(rows.y, return_inverse=True)[1]
    fold = np.arange(len(rows)) % 16
    scores = np.zeros((len(rows), 100))
    for group in rows.feature_groups:
        X, usable = rows.select(group).X, ~rows.missing(group)
        squares = np.einsum("ij,ij->i", X, X)
        for number in range(16):
            queries, known = np.flatnonzero((fold == number) & usable), np.flatnonzero((fold != number) & usable)
            distances = squares[queries, None] + squares[known] - 2 * X[queries] @ X[known].T
            nearest = known[np.argsort(distances, axis=1, kind="stable")[:, :k]]
            votes = np.zeros((len(queries), 100))
            np.add.at(votes, (np.arange(len(queries))[:, None], species[nearest]), 1)
            scores[queries] += np.log10((votes + 1) / (k + 100))
        scores[~usable] -= 2
    scores -= np.log10((10**scores).sum(axis=1, keepdims=True))
    return float(scores[np.arange(len(rows)), species].mean()), float((scores.round(9).argmax(1) == species).mean())


@pytest.mark.slow
@needs_data
def test_joined_by_row_the_leaves_give_the_figures_of_the_paper() -> None:
    log_posterior, accuracy = add_one_log10_and_accuracy(load_dataset("leaves", join="row"), k=3)
    assert round(log_posterior, 4) == -0.8143
    assert round(100 * accuracy, 2) == 96.81
    assert round(add_one_log10_and_accuracy(load_dataset("leaves"), k=3)[0], 4) == -0.8149
    sixteenth = load_dataset("leaves", join="row", missing_specimen=16)
    assert round(add_one_log10_and_accuracy(sixteenth, k=5)[0], 4) == -0.5692


@needs_data
def test_the_wheat_seeds_are_what_their_makers_say() -> None:
    rows = load_dataset("seeds")
    assert rows.X.shape == (210, 7)
    assert Counter(rows.y.tolist()) == {1: 70, 2: 70, 3: 70}
    assert rows.X[0].tolist() == [15.26, 14.84, 0.871, 5.763, 3.312, 2.221, 5.22]
    assert list(rows.feature_groups)[0::6] == ["area", "groove length"]


@needs_data
def test_mnist_is_what_its_makers_say() -> None:
    rows = load_dataset("mnist", split="all")
    assert rows.X.shape == (70000, 784)
    assert rows.X.dtype == np.uint8
    assert rows.ids[[0, 59999, 60000]].tolist() == ["train/0", "train/59999", "test/0"]
    assert rows.label_names == tuple(range(10))
    assert rows.y[[0, 1, 60000]].tolist() == [5, 0, 7]
    few = load_dataset("mnist", split="test", n=7)
    np.testing.assert_array_equal(few.X, rows.X[60000:60007])
    with pytest.raises(InputError, match=r"Unknown split 'valid'\. Known names: all, test, train"):
        load_dataset("mnist", split="valid")
    with pytest.raises(InputError, match="at least 1"):
        load_dataset("mnist", n=0)


@needs_data
def test_tiny_imagenet_has_a_leaf_of_its_tree_for_every_label() -> None:
    train, test = load_dataset("tin200"), load_dataset("tin200", split="test")
    assert (train.X.shape, test.X.shape) == ((20000, 256), (5000, 256))
    assert train.X.dtype == np.float32
    assert set(Counter(train.y.tolist()).values()) == {100}
    assert set(Counter(test.y.tolist()).values()) == {25}
    assert (train.y[0], train.y[-1]) == ("n01443537", "n12267677")  # goldfish and acorn, the first and last class
    tree = (Path(os.environ["NEARSAY_DATA"]) / "tin200" / "taxonomy.csv").read_text().split()
    assert set(train.label_names) <= {line.split(",")[1] for line in tree}
    assert len(load_dataset("tin200", split="all")) == 25000
