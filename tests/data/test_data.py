"""Rows, and how they are read and written."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nearsay.data import LabeledRows, read_images, read_rows, write_rows
from nearsay.data.tables.columns import column_names, groups_of
from nearsay.errors import InputError, MissingExtra, SavedFileError

needs_data = pytest.mark.skipif(
    not os.environ.get("NEARSAY_DATA"), reason="NEARSAY_DATA names no folder of data sets; this test reads one"
)
ENDINGS = [".csv", ".tsv", ".npz", ".parquet"]
# Quotes, delimiters, line ends, spaces at the edges, and names that mean something to the reader.
AWKWARD = st.text(st.sampled_from('aé7 ,;|\t\n"_.[]'), min_size=1, max_size=4)
WORDS = AWKWARD | st.sampled_from(["label", "id", "y", "nan", "NA", "1.5", "a[0]", "[0]", "007", "1,5", "True"])


@st.composite
def labeled_rows(draw: st.DrawFn) -> LabeledRows:
    n, width = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    dtype = draw(st.sampled_from([np.float64, np.float32, np.int16, np.uint8, np.bool_]))
    X = draw(hnp.arrays(dtype, (n, width)))
    cuts = sorted(draw(st.sets(st.integers(0, width))))
    names = WORDS.filter(lambda name: name.strip() == name)
    named = draw(st.lists(names, min_size=len(cuts), max_size=len(cuts), unique=True))
    kept = draw(st.lists(st.booleans(), min_size=len(cuts), max_size=len(cuts)))
    spans = zip(named, cuts, cuts[1:], kept[1:], strict=False)
    groups = {name: slice(start, stop) for name, start, stop, keep in spans if keep}
    y = draw(st.none() | st.lists(WORDS, min_size=n, max_size=n) | st.lists(st.integers(-9, 9), min_size=n, max_size=n))
    ids = draw(st.none() | st.lists(WORDS | st.just(""), min_size=n, max_size=n))
    return LabeledRows(X, y, groups, ids)


def table(folder: Path, text: str, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


# ------------------------------------------------------------------ rows


@given(rows=labeled_rows(), data=st.data())
def test_taking_rows_is_taking_each_of_their_parts(rows: LabeledRows, data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=6))
    taken = rows.take(numbers)
    assert len(taken) == len(numbers)
    for position, number in enumerate(numbers):
        np.testing.assert_array_equal(taken.X[position], rows.X[number])
        assert rows.y is None or taken.y[position] == rows.y[number]
        assert rows.ids is None or taken.ids[position] == rows.ids[number]
    assert taken.feature_groups == rows.feature_groups


@given(rows=labeled_rows(), data=st.data())
def test_selected_groups_hold_the_same_columns_in_the_order_asked(rows: LabeledRows, data: st.DataObject) -> None:
    if not rows.feature_groups:
        return
    names = data.draw(st.lists(st.sampled_from(list(rows.feature_groups)), min_size=1, unique=True))
    selected = rows.select(*names)
    assert list(selected.feature_groups) == names
    assert selected.X.shape[1] == sum(part.stop - part.start for part in selected.feature_groups.values())
    for name in names:
        expected = rows.X[:, rows.feature_groups[name]]
        np.testing.assert_array_equal(selected.X[:, selected.feature_groups[name]], expected)


def test_a_slice_of_rows_and_a_single_group_share_memory() -> None:
    rows = LabeledRows(np.eye(4), feature_groups={"a": slice(1, 3)})
    assert np.shares_memory(rows.take(slice(1, 3)).X, rows.X)
    assert np.shares_memory(rows.select("a").X, rows.X)


def test_a_mask_takes_the_rows_where_it_is_true() -> None:
    rows = LabeledRows(np.arange(3)[:, None])
    assert rows.take(np.array([True, False, True])).X.tolist() == [[0], [2]]


def test_a_row_misses_a_group_when_any_of_its_numbers_is_missing() -> None:
    X = np.array([[1.0, np.nan, 1.0], [1.0, 1.0, 1.0], [np.nan, 1.0, 1.0]])
    rows = LabeledRows(X, feature_groups={"a": slice(0, 1), "b": slice(1, 3)})
    assert rows.missing("a").tolist() == [False, False, True]
    assert rows.missing("b").tolist() == [True, False, False]
    assert rows.missing().tolist() == [True, False, True]
    assert not LabeledRows([[1, 2]]).missing().any()


@given(labels=st.lists(st.integers(0, 3), min_size=4, max_size=60), share=st.floats(0.3, 0.7), seed=st.integers(0, 9))
def test_a_split_shares_out_every_label_to_within_one_row(labels: list[int], share: float, seed: int) -> None:
    rows = LabeledRows(np.arange(len(labels))[:, None], labels)
    most, some = rows.split(share, seed=seed)
    assert sorted([*most.X[:, 0], *some.X[:, 0]]) == list(range(len(labels)))
    assert all((np.diff(part.X[:, 0]) > 0).all() for part in (most, some))
    for label, count in Counter(labels).items():
        assert abs((some.y == label).sum() - share * count) < 1 + 1e-9
    again = rows.split(share, seed=seed)[1]
    np.testing.assert_array_equal(again.X, some.X)


def test_a_split_that_leaves_nothing_on_one_side_is_refused() -> None:
    with pytest.raises(InputError, match="leaves one part empty"):
        LabeledRows([[1.0]]).split(0.5)
    with pytest.raises(InputError, match="between 0 and 1"):
        LabeledRows([[1.0]]).split(1.0)


def test_labels_of_any_hashable_kind_stay_themselves() -> None:
    assert LabeledRows(np.eye(2), [(1, 2), (3, 4)]).label_names == ((1, 2), (3, 4))
    assert LabeledRows(np.eye(3), [1, "a", 1]).label_names == (1, "a")
    assert LabeledRows(np.eye(2), np.array(["b", "a"], dtype=object)).y.dtype.kind == "U"
    assert LabeledRows(np.eye(2)).label_names == ()


def test_data_frames_and_series_are_rows_and_labels() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0], "kind": ["x", "y"]})
    rows = LabeledRows(frame[["a", "b"]], frame["kind"])
    assert rows.X.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert rows.label_names == ("x", "y")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"X": [1.0, 2.0]}, r"two dimensions .* shape \(2,\)"),
        ({"X": [["a"]]}, "must hold numbers"),
        ({"X": np.eye(2), "y": ["a"]}, "y holds 1 labels, but X has 2 rows"),
        ({"X": np.eye(2), "ids": ["a"]}, "ids holds 1 ids, but X has 2 rows"),
        ({"X": np.eye(2), "y": np.eye(2)}, r"one dimension; .*\.ravel"),
        ({"X": np.eye(2), "y": 3}, "sequence of labels"),
        ({"X": np.eye(2), "y": ["a", None]}, "Row 1 has no value in y"),
        ({"X": np.eye(2), "y": [1.0, np.nan]}, "Row 1 has no value in y"),
        ({"X": np.eye(2), "y": [["a"], ["b"]]}, "hashable"),
        ({"X": np.eye(2), "feature_groups": {"a": slice(0, 3)}}, "'a' names columns 0 to 3, but X has columns 0 to 2"),
        ({"X": np.eye(2), "feature_groups": {"a": slice(1, 1)}}, "at least one"),
        ({"X": np.eye(2), "feature_groups": {"a": slice(0, 2, 2)}}, "without a step"),
        ({"X": np.eye(2), "feature_groups": {"a": [0, 1]}}, "must be a slice"),
        ({"X": np.eye(2), "feature_groups": {"": slice(0, 1)}}, "needs a name"),
        ({"X": np.eye(2), "feature_groups": {" a": slice(0, 1)}}, "without spaces at its ends"),
        ({"X": np.eye(2), "feature_groups": {"a": slice(0, 2), "b": slice(1, 2)}}, "'a' and 'b' both name column 1"),
    ],
)
def test_parts_that_do_not_fit_are_refused(arguments: dict, says: str) -> None:
    with pytest.raises(InputError, match=says):
        LabeledRows(**arguments)


@pytest.mark.parametrize(
    ("rows", "says"),
    [([3], "number 3: rows are numbered 0 to 2"), ([-1], "number -1"), ([[0]], "shape"), ([0.5], "whole numbers"),
     ([True], "each of the 3 rows; got 1")],
)  # fmt: skip
def test_rows_that_are_not_there_cannot_be_taken(rows: list, says: str) -> None:
    with pytest.raises(InputError, match=says):
        LabeledRows(np.eye(3)).take(rows)


def test_an_unknown_group_is_refused_with_the_known_ones() -> None:
    rows = LabeledRows(np.eye(2), feature_groups={"shape": slice(0, 2)})
    with pytest.raises(InputError, match=r"No feature group 'shap' \(did you mean 'shape'\?\)"):
        rows.select("shap")
    with pytest.raises(InputError, match="at least one"):
        rows.select()
    with pytest.raises(InputError, match="once"):
        rows.select("shape", "shape")
    with pytest.raises(InputError, match="have no feature groups"):
        LabeledRows(np.eye(2)).missing("shape")


def test_the_page_view_escapes_labels_and_stays_short() -> None:
    html = LabeledRows(np.zeros((100, 50)), ["<b>"] * 100, ids=["&"] * 100, name="wide")._repr_html_()
    assert "<b>" not in html
    assert "&lt;b&gt;" in html
    assert html.count("<tr>") == 6
    assert len(html) < 2000


# ------------------------------------------------------------------ files


@pytest.mark.parametrize("ending", ENDINGS)
@given(rows=labeled_rows())
def test_rows_come_back_from_every_kind_of_file(
    tmp_path_factory: pytest.TempPathFactory, ending: str, rows: LabeledRows
) -> None:
    path = tmp_path_factory.getbasetemp() / f"rows{ending}"
    write_rows(rows, path)
    back = read_rows(path, label=None if rows.y is None else {".npz": "y"}.get(ending, "label"))
    if ending in (".npz", ".parquet"):
        assert back.X.dtype == rows.X.dtype
    assert back.X.dtype.kind in "fiub"
    np.testing.assert_array_equal(back.X.astype(np.float64), rows.X.astype(np.float64))
    assert back.feature_groups == rows.feature_groups
    for mine, theirs in ((rows.y, back.y), (rows.ids, back.ids)):
        assert (mine is None) == (theirs is None)
        # In text, a label that looks like a number comes back as that number.
        assert mine is None or list(map(str, mine)) == list(map(str, theirs))


@given(rows=labeled_rows())
def test_column_names_spell_out_the_groups(rows: LabeledRows) -> None:
    names = column_names(rows)
    assert len(set(names)) == len(names) == rows.X.shape[1]
    assert groups_of(names, "") == rows.feature_groups


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", "  ", " \t "])
def test_the_delimiter_and_the_header_are_found(tmp_path: Path, delimiter: str) -> None:
    lines = [["width", "height", "kind"], ["1", "2.5", "oak"], ["-3e2", "?", "elm"]]
    rows = read_rows(table(tmp_path, "\n\n".join(delimiter.join(line) for line in lines)))
    np.testing.assert_array_equal(rows.X, [[1.0, 2.5], [-300.0, np.nan]])
    assert rows.y.tolist() == ["oak", "elm"]
    assert rows.feature_groups == {"width": slice(0, 1), "height": slice(1, 2)}
    headless = read_rows(table(tmp_path, "\n".join(delimiter.join(line) for line in lines[1:])))
    np.testing.assert_array_equal(headless.X, rows.X)
    assert headless.feature_groups == {}


@pytest.mark.parametrize(
    ("text", "options", "X", "y"),
    [
        # a label that happens to be called y is not a header
        ("1,2,y\n3,4,n\n5,6,y\n", {}, [[1, 2], [3, 4], [5, 6]], ["y", "n", "y"]),
        # the row numbers that a data frame writes are no feature
        (",0,1,label\n0,1.5,2.5,a\n1,3.5,4.5,b\n", {}, [[1.5, 2.5], [3.5, 4.5]], ["a", "b"]),
        # numbers without a name: no label
        ("1,2\n3,4\n", {}, [[1, 2], [3, 4]], None),
        ("1,2\n3,4\n", {"label": -1}, [[1], [3]], [2, 4]),
        ("1,2\n3,4\n", {"label": 0}, [[2], [4]], [1, 3]),
        ("a,b\n1,2\n", {"label": "a"}, [[2]], [1]),
        ("a,Class,b\n1,007,2\n3,8,4\n", {}, [[1, 2], [3, 4]], ["007", "8"]),
        ('a,y\n1,"oak, red"\n', {}, [[1]], ["oak, red"]),
        ("a,y\n" + '1,"a\nb"\n' * 40, {}, [[1]] * 40, ["a\nb"] * 40),
        ('a,y\n1,"x;y"\n', {}, [[1]], ["x;y"]),
        # a semicolon would cut the header in two as well, but tear the quotes
        ('y,a;b\n"oak;x",1\n', {}, [[1]], ["oak;x"]),
        ("\ufeffa,y\r\n1,oak\r\n", {}, [[1]], ["oak"]),
        ("5\n6\n", {}, [[5], [6]], None),
    ],
)
def test_the_label_column_is_the_one_a_reader_would_name(
    tmp_path: Path, text: str, options: dict, X: list, y: list | None
) -> None:
    rows = read_rows(table(tmp_path, text), **options)
    assert rows.X.tolist() == X
    assert (None if rows.y is None else rows.y.tolist()) == y


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("", {}, "is empty"),
        ("a,b\n", {}, "no rows"),
        ("a,y\n1,oak\n2\n", {}, r"table\.csv, line 3: it has 1 cells, the table 2 columns"),
        ("a,y\n1,oak\nx,elm\n", {}, r"line 3, column 0 \('a'\): 'x' is not a number"),
        ("a,y\n\n\n1,oak\n1_000,elm\n", {}, r"line 5, column 0 \('a'\): '1_000' is not a number"),
        ("a,y\n1,\n", {}, "line 2: the label is missing"),
        ("a,b,y\nx,1,oak\nz,2,elm\n", {}, r"column 0 \('a'\) does not hold numbers, and the label is column 2 \('y'\)"),
        ("y\noak\nelm\n", {}, "no column of numbers"),
        ("1,5;2;oak\n", {}, "line 1, column 0: '1,5' is not a number. Write numbers with a decimal point"),
        ("1,5;2\n", {}, "decimal point"),
        ("a,y\n1,oak\n", {"label": "yy"}, r"no column 'yy' .*It has: a, y"),
        ("1,2\n", {"label": "y"}, "has no header"),
        ("1,2\n", {"label": 2}, "has 2 columns, numbered from 0; there is no column 2"),
        ("a,a,y\n1,2,oak\n", {}, "column 'a' does not follow on"),
        ("s[0],s[2],y\n1,2,oak\n", {}, r"column 's\[2\]' does not follow on"),
        ('a,y\n1,"oak"s\n', {}, "line 2: ',' expected"),
        ('a,y\n1,"oak\n2,elm\n', {}, "line 2: a quoted cell is not closed"),
        ("a,y\n1,oak\n", {"groups": {"all": slice(0, 9)}}, "columns 0 to 9"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused_at_its_place(
    tmp_path: Path, text: str, options: dict, says: str
) -> None:
    with pytest.raises(InputError, match=says):
        read_rows(table(tmp_path, text), **options)


@pytest.mark.parametrize("groups", [{}, {"all": slice(0, 2)}])
@pytest.mark.parametrize("header", ["a,a,y", "s[0],s[2],y", ".,.,y"])
def test_groups_that_are_passed_serve_where_column_names_make_none(tmp_path: Path, header: str, groups: dict) -> None:
    rows = read_rows(table(tmp_path, f"{header}\n1,2,oak\n"), groups=groups)
    assert (rows.X.tolist(), rows.feature_groups) == ([[1, 2]], groups)


def test_text_of_another_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.csv").write_bytes("1,Möwe\n".encode("latin-1"))
    with pytest.raises(InputError, match="not UTF-8"):
        read_rows(tmp_path / "latin.csv")


def test_labels_beside_an_array_are_found(tmp_path: Path) -> None:
    np.save(tmp_path / "leaves.npy", np.arange(12).reshape(3, 2, 2))
    assert read_rows(tmp_path / "leaves.npy").y is None
    np.save(tmp_path / "leaves_labels.npy", np.array(["a", "b", "c"]))
    np.save(tmp_path / "other.npy", np.array([1, 2, 3]))
    assert read_rows(tmp_path / "leaves.npy").X.shape == (3, 4)
    assert read_rows(tmp_path / "leaves.npy").y.tolist() == ["a", "b", "c"]
    assert read_rows(tmp_path / "leaves.npy", label=str(tmp_path / "other.npy")).y.tolist() == [1, 2, 3]


def test_arrays_of_other_names_are_found_or_asked_for(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", features=np.eye(2), kinds=np.array(["a", "b"]))
    assert read_rows(tmp_path / "a.npz", label="kinds").y.tolist() == ["a", "b"]
    with pytest.raises(InputError, match=r"no array 'kind'\. It holds features, kinds"):
        read_rows(tmp_path / "a.npz", label="kind")
    np.savez(tmp_path / "b.npz", one=np.eye(2), two=np.eye(2))
    with pytest.raises(InputError, match="one, two; none is called X, and 2 could be"):
        read_rows(tmp_path / "b.npz")


@pytest.mark.parametrize("ending", [".npy", ".npz"])
def test_arrays_of_objects_are_never_unpickled(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"objects{ending}"
    objects = np.array([[1, "a"]], dtype=object)
    (np.save if ending == ".npy" else np.savez)(path, objects, allow_pickle=True)
    with pytest.raises(InputError, match="holds Python objects, which nearsay does not load"):
        read_rows(path)


@pytest.mark.parametrize("ending", [".npy", ".npz", ".parquet"])
def test_a_damaged_file_is_refused(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"cut{ending}"
    if ending == ".npy":
        np.save(path, np.eye(9))
    else:
        write_rows(LabeledRows(np.eye(9), np.arange(9)), path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(SavedFileError, match=path.name):
        read_rows(path)


def test_a_parquet_column_of_lists_is_a_group(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    lists = {"embedding": [[1.0, 2.0], [3.0, 4.0]], "size": [7, 8], "kind": ["a", "b"]}
    parquet.write_table(pyarrow.table(lists), tmp_path / "lists.parquet")
    rows = read_rows(tmp_path / "lists.parquet")
    assert rows.X.tolist() == [[1.0, 2.0, 7.0], [3.0, 4.0, 8.0]]
    assert rows.feature_groups == {"embedding": slice(0, 2), "size": slice(2, 3)}
    assert rows.y.tolist() == ["a", "b"]
    parquet.write_table(pyarrow.table({"e": [[1.0, 2.0], [3.0]]}), tmp_path / "ragged.parquet")
    with pytest.raises(InputError, match="row 0: column 'e' holds 2 numbers; most rows have 1"):
        read_rows(tmp_path / "ragged.parquet")


def test_an_unknown_ending_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Cannot read rows\.pkl: known endings are \.csv, "):
        read_rows(table(tmp_path, "", "rows.pkl"))
    with pytest.raises(InputError, match=r"Cannot write rows\.pkl: known endings are \.csv, "):
        write_rows(LabeledRows(np.eye(2)), tmp_path / "rows.pkl")
    with pytest.raises(FileNotFoundError, match="There is no file or folder"):
        read_rows(tmp_path / "nowhere.csv")


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"rows{ending}"
    path.write_text("old")
    with pytest.raises(InputError, match="Convert"):
        write_rows(LabeledRows(np.eye(2), [(1, 2), "a"]), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_parquet_without_its_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtra, match=r"nearsay\[parquet\]"):
        write_rows(LabeledRows(np.eye(2)), tmp_path / "x.parquet")


# ------------------------------------------------------------------ images


@pytest.fixture
def picture_folder(tmp_path: Path) -> Path:
    images = pytest.importorskip("PIL.Image", reason="needs the extra 'images'")
    for label, brightness in (("dark", 10), ("light", 200)):
        (tmp_path / label).mkdir()
        images.new("L", (6, 4), brightness).save(tmp_path / label / "b.png")
        images.new("RGB", (3, 9), (brightness, 0, 0)).save(tmp_path / label / "a.PNG")
    (tmp_path / "dark" / "notes.txt").write_text("not an image")
    (tmp_path / ".hidden").mkdir()
    images.new("L", (2, 2)).save(tmp_path / ".hidden" / "a.png")
    return tmp_path


def test_a_folder_of_images_is_rows_of_one_size(picture_folder: Path) -> None:
    rows = read_images(picture_folder, size=(2, 3))
    assert rows.X.shape == (4, 6)
    assert rows.X.dtype == np.uint8
    assert rows.ids.tolist() == ["dark/a.PNG", "dark/b.png", "light/a.PNG", "light/b.png"]
    assert rows.y.tolist() == ["dark", "dark", "light", "light"]
    assert (rows.X[1] == 10).all()
    assert (rows.X[3] == 200).all()
    color = read_images(picture_folder, size=(2, 3), color="rgb")
    assert (color.X[0].reshape(2, 3, 3) == [10, 0, 0]).all()
    np.testing.assert_array_equal(read_rows(picture_folder).X, read_images(picture_folder, size=(32, 32)).X)


def test_height_comes_before_width(tmp_path: Path) -> None:
    images = pytest.importorskip("PIL.Image", reason="needs the extra 'images'")
    (tmp_path / "stripes").mkdir()
    dark_then_light = np.repeat(np.array([[0, 255]], np.uint8), 30, axis=1)
    images.fromarray(np.repeat(dark_then_light, 20, axis=0)).save(tmp_path / "stripes" / "a.png")
    pixels = read_images(tmp_path, size=(2, 4)).X.reshape(2, 4)
    assert (pixels > 128).tolist() == [[False, False, True, True]] * 2


def test_damaged_images_are_named_and_left_out(picture_folder: Path) -> None:
    whole = (picture_folder / "dark" / "b.png").read_bytes()
    (picture_folder / "dark" / "cut.png").write_bytes(whole[: len(whole) // 2])
    (picture_folder / "light" / "text.jpg").write_text("not an image")
    with pytest.warns(UserWarning, match=r"2 of 6 images .* dark/cut\.png .*light/text\.jpg"):
        rows = read_images(picture_folder)
    assert len(rows) == 4


def test_bad_requests_for_images_are_refused(picture_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(InputError, match=r"Unknown color 'pink'\. Known names: gray, rgb"):
        read_images(picture_folder, color="pink")
    with pytest.raises(InputError, match="height, width"):
        read_images(picture_folder, size=(0, 3))
    with pytest.raises(InputError, match="holds no images"):
        read_images(tmp_path_factory.mktemp("empty"))
    with pytest.raises(InputError, match="names its labels by its folders"):
        read_rows(picture_folder, label="kind")
