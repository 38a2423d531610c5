"""Tables and arrays as other programs write them, odd ones and damaged ones: read as meant, or refused."""

from __future__ import annotations

import io
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nearsay.data import LabeledRows, read_rows, write_rows
from nearsay.errors import InputError, NearsayError

ENDINGS = [".csv", ".tsv", ".npz", ".parquet"]
# Anything that UTF-8 can write, and above all what means something to a reader of tables.
AWKWARD = st.text(st.sampled_from('a7 ,;|\t\n\r"\0_.-'), max_size=3)
LOOKS_LIKE_OTHERS = st.sampled_from(
    ["", "7", "007", "1.5", "1e5", "True", "False", "true", "nan", "NA", "?", "1,5", "inf"]
)
# numpy itself drops zero bytes at the end of a text.
TEXTS = (AWKWARD | LOOKS_LIKE_OTHERS | st.text(max_size=2)).filter(
    lambda text: not text.endswith("\0") and text.encode("utf-8", "ignore").decode() == text
)
WHOLE = st.integers(-9, 9) | st.integers(-(2**63), 2**63 - 1) | st.integers(2**63 - 2, 2**64 - 1)
FLOATS = st.floats(allow_nan=False) | st.integers(-3, 3).map(float)
# Bits of a byte that are flipped.
MASKS = [(0x01,), (0x20,), (0xFF,)]
KINDS = {"texts": TEXTS, "whole numbers": WHOLE, "floats": FLOATS, "truth values": st.booleans()}


def values_of(kind: str, n: int) -> st.SearchStrategy[list]:
    return st.lists(KINDS[kind], min_size=n, max_size=n)


@st.composite
def known(draw: st.DrawFn, n: int) -> list | None:
    """Labels or ids of one kind, or none; such that numpy has a type for all of them."""
    kind = draw(st.sampled_from([None, *KINDS]))
    if kind is None:
        return None
    held = values_of(kind, n)
    return draw(
        held.filter(lambda values: min(values) >= 0 or max(values) < 2**63) if kind == "whole numbers" else held
    )


# ------------------------------------------------------------------ there and back


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
@settings(max_examples=60)
@given(data=st.data())
def test_labels_and_ids_come_back_as_what_they_were(
    tmp_path_factory: pytest.TempPathFactory, ending: str, data: st.DataObject
) -> None:
    n = data.draw(st.integers(1, 4))
    X = data.draw(hnp.arrays(st.sampled_from(["f8", "f4", ">f8", "i2", ">u2", "?"]), (n, data.draw(st.integers(1, 3)))))
    rows = LabeledRows(X, data.draw(known(n)), ids=data.draw(known(n)))
    path = tmp_path_factory.getbasetemp() / f"back{ending}"
    write_rows(rows, path)
    back = read_rows(path)
    np.testing.assert_array_equal(back.X.astype(float), rows.X.astype(float))
    for mine, theirs in ((rows.y, back.y), (rows.ids, back.ids)):
        assert (mine is None) == (theirs is None)
        if mine is not None:
            assert theirs.tolist() == mine.tolist()
            assert {type(value) for value in theirs.tolist()} == {type(value) for value in mine.tolist()}


@given(X=hnp.arrays(st.sampled_from(["f8", "f2", ">f4", "i8", "u1", "?"]), hnp.array_shapes(min_dims=2, max_dims=4)))
def test_arrays_come_back_from_npy_as_rows(tmp_path_factory: pytest.TempPathFactory, X: np.ndarray) -> None:
    path = tmp_path_factory.getbasetemp() / "back.npy"
    np.save(path, X)
    np.testing.assert_array_equal(read_rows(path).X, X.reshape(len(X), -1))


def test_an_array_without_rows_has_no_rows(tmp_path: Path) -> None:
    np.save(tmp_path / "none.npy", np.empty((0, 4, 5)))
    assert read_rows(tmp_path / "none.npy").X.shape == (0, 20)


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet"])
def test_what_utf_8_cannot_write_is_refused(tmp_path: Path, ending: str) -> None:
    with pytest.raises(InputError, match="cannot be written as UTF-8"):
        write_rows(LabeledRows([[1.0]], ["\ud800"]), tmp_path / f"rows{ending}")
    assert not list(tmp_path.iterdir())


def test_a_type_that_parquet_does_not_know_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(InputError, match=r"cannot hold all of these types: .*write \.npz"):
        write_rows(LabeledRows(np.ones((2, 2), np.longdouble)), tmp_path / "rows.parquet")


@pytest.mark.parametrize(
    ("text", "y", "ids"),
    [
        # quotes say that a label is a text, unless everything is in quotes
        ('id,a,y\n1,2.5,"7"\n2,3.5,"8"\n', ["7", "8"], [1, 2]),
        ('"id","a","y"\n"1","2.5","7"\n"2","3.5","8"\n', [7, 8], [1, 2]),
        ('id;a;y\n"x";2.5;True\n"";3.5;False\n', [True, False], ["x", ""]),
        ('a,y\n1,""\n2,"b"\n', ["", "b"], None),
        ('a, y\n1, "1"\n2, "2"\n', ["1", "2"], None),
        ("id,a,y\n07,1,True\n08,2,true\n", ["True", "true"], ["07", "08"]),
        ('y,a\n"x ""1"", y\nz",1\n7,2\n', ['x "1", y\nz', "7"], None),
    ],
)
def test_texts_numbers_and_truth_values_are_told_apart(tmp_path: Path, text: str, y: list, ids: list | None) -> None:
    (tmp_path / "table.csv").write_text(text)
    rows = read_rows(tmp_path / "table.csv")
    assert rows.y.tolist() == y
    assert (None if rows.ids is None else rows.ids.tolist()) == ids


@pytest.mark.parametrize("line", ["2,\n", "2, \n", ",\n"])
def test_a_label_that_is_not_there_is_still_an_error(tmp_path: Path, line: str) -> None:
    (tmp_path / "table.csv").write_text(f'a,y\n1,"b"\n{line}')
    with pytest.raises(InputError, match="line 3: the label is missing"):
        read_rows(tmp_path / "table.csv")


# ------------------------------------------------------------------ headers of numbers


@st.composite
def frames(draw: st.DrawFn) -> Any:
    """A data frame whose columns have numbers for names, with some rows, and perhaps a column of words."""
    pandas = pytest.importorskip("pandas")
    n, width = draw(st.integers(2, 5)), draw(st.integers(1, 4))
    numbers = st.integers(0, 9) if draw(st.booleans()) else st.sampled_from([0.0, 0.5, 1.25, -3.0, 1e20])
    frame = pandas.DataFrame([draw(st.lists(numbers, min_size=width, max_size=width)) for _ in range(n)])
    if draw(st.booleans()):
        frame["species"] = draw(st.lists(st.sampled_from(["elm", "oak"]), min_size=n, max_size=n))
    if draw(st.booleans()):
        frame.index = draw(st.permutations(range(10, 10 + n)))
    return frame


@settings(max_examples=100)
@given(frame=frames(), with_index=st.booleans(), header=st.sampled_from([None, True]))
def test_a_data_frame_without_names_is_read_as_it_was_or_the_header_is_asked_for(
    tmp_path_factory: pytest.TempPathFactory, frame: Any, with_index: bool, header: bool | None
) -> None:
    path = tmp_path_factory.getbasetemp() / "frame.csv"
    frame.to_csv(path, index=with_index)
    try:
        rows = read_rows(path, header=header)
    except InputError as error:
        if header is None and "Pass header=True or header=False" in str(error):
            return
        raise
    numbers = frame.drop(columns="species", errors="ignore")
    np.testing.assert_array_equal(rows.X, numbers.to_numpy(float))
    assert (None if rows.y is None else rows.y.tolist()) == (frame["species"].tolist() if "species" in frame else None)
    assert (None if rows.ids is None else rows.ids.tolist()) == (frame.index.tolist() if with_index else None)


@given(frame=frames())
def test_a_data_frame_without_header_is_read_as_it_was_or_the_header_is_asked_for(
    tmp_path_factory: pytest.TempPathFactory, frame: Any
) -> None:
    path = tmp_path_factory.getbasetemp() / "headless.csv"
    frame.to_csv(path, index=False, header=False)
    numbers = frame.drop(columns="species", errors="ignore").to_numpy(float)
    np.testing.assert_array_equal(read_rows(path, header=False).X, numbers)
    try:
        result = read_rows(path).X
    except InputError as error:
        assert "Pass header=True or header=False" in str(error)  # noqa: PT017
        return
    # All that a row can be taken for a header by: 0, 1, … in whole numbers, and nothing of the kind below.
    counts = numbers[0].tolist() == list(range(numbers.shape[1])) and len(result) == len(numbers) - 1
    assert counts or np.array_equal(result, numbers)


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("0,1,2,3,species\n5.1,3.5,1.4,0.2,setosa\n4.9,3.0,1.4,0.2,virginica\n", True),
        (",0,1,species\n0,5,3,setosa\n1,4,2,virginica\n", True),
        (",0,1\n7,5,3\n9,4,2\n", True),
        (",3,1\n0,5,3\n1,4,2\n", True),
        (",0,1\nann,5,3\nbob,4,2\n", True),
        ("0,1,width\n1,2,3\n4,5,6\n", True),
        ("2019,2020,mean\n1,2,3\n4,5,6\n", True),
        ("0,1,species\n5,3,setosa\n4,2,setosa\n", True),
        ("0,1,oak\n5,3,elm\n4,2,oak\n", False),
        ("3,1,oak\n5,3,elm\n4,2,elm\n", False),
        (",2.5,oak\n1.0,3.5,elm\n", False),
        ("0.0,1.0\n1.5,2.5\n", False),
        ("1,2\n3,4\n", False),
        ("0,0\n1,2\n", False),
        ("0,1\n1,0\n", None),
        ("0,1,2\n5,3,1\n", None),
        ("0\n5\n", None),
        ("3,1,species\n5.1,3.5,setosa\n4.9,3.2,setosa\n", None),
    ],
)
def test_a_first_line_of_numbers_is_told_from_a_row_or_asked_about(
    tmp_path: Path, text: str, header: bool | None
) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text)
    n = text.count("\n")
    if header is None:
        assert len(read_rows(path, header=True)) == n - 1
        with pytest.raises(InputError, match=r"may number the columns, .* or be a row itself\. Pass header=True or"):
            read_rows(path)
        assert len(read_rows(path, header=False)) == n
    else:
        assert len(read_rows(path)) == n - header


@pytest.mark.parametrize("name", ["Unnamed: 0", "__index_level_0__"])
def test_row_numbers_of_a_data_frame_are_no_feature(tmp_path: Path, name: str) -> None:
    (tmp_path / "table.csv").write_text(f"{name},width,kind\n0,1.5,oak\n1,2.5,elm\n")
    rows = read_rows(tmp_path / "table.csv")
    assert rows.X.tolist() == [[1.5], [2.5]]
    assert rows.ids.tolist() == [0, 1]


def test_only_text_has_a_header(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.eye(2))
    with pytest.raises(InputError, match="Only a table of text may have a header"):
        read_rows(tmp_path / "a.npy", header=True)


# ------------------------------------------------------------------ arrays that do not belong together


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"group_names": np.array(["a"])}, r"holds group_names of shape \(1,\) .*Save both, or pass groups="),
        ({"group_slices": np.array([[0, 1]])}, r"holds group_slices of shape \(1, 2\)"),
        ({"group_names": np.array(["a", "b"]), "group_slices": np.array([[0, 1]])}, "n group_names and n group_slices"),
        ({"group_names": np.array(["a"]), "group_slices": np.array([0, 1])}, "n group_names and n group_slices"),
        ({"group_names": np.array(["a"]), "group_slices": np.array([[0.0, 1.0]])}, "float64"),
        ({"group_names": np.array("a"), "group_slices": np.array([0, 1])}, "group_names of shape"),
        ({"group_names": np.array([1]), "group_slices": np.array([[0, 1]])}, "needs a name"),
        ({"group_names": np.array(["a"]), "group_slices": np.array([[0, 9]])}, "columns 0 to 9"),
        ({"y": np.array(["a"])}, "y holds 1 labels, but X has 2 rows"),
        ({"y": np.eye(2)}, "one dimension"),
        ({"X": np.array(3.0)}, "two dimensions"),
        ({"X": np.array(["2020-01-01"], "M8[D]")[None]}, "must hold numbers"),
        ({"X": np.zeros(2, "i4,f8")}, "two dimensions"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(tmp_path: Path, arrays: dict[str, Any], says: str) -> None:
    np.savez(tmp_path / "rows.npz", **{"X": np.eye(2), **arrays})
    with pytest.raises(InputError, match=says):
        read_rows(tmp_path / "rows.npz")


def test_groups_that_are_passed_make_up_for_those_that_are_damaged(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", X=np.eye(2), group_names=np.array(["a"]))
    assert read_rows(tmp_path / "rows.npz", groups={}).feature_groups == {}


def test_one_array_and_an_archive_of_them_are_not_mixed_up(tmp_path: Path) -> None:
    archive, array = io.BytesIO(), io.BytesIO()
    np.savez(archive, X=np.eye(2))
    np.save(array, np.eye(2))
    (tmp_path / "archive.npy").write_bytes(archive.getvalue())
    (tmp_path / "array.npz").write_bytes(array.getvalue())
    with pytest.raises(InputError, match=r"is an archive of arrays; .* ending \.npz"):
        read_rows(tmp_path / "archive.npy")
    with pytest.raises(InputError, match=r"is one array; .* ending \.npy"):
        read_rows(tmp_path / "array.npz")
    with zipfile.ZipFile(tmp_path / "note.npz", "w") as other:
        other.writestr("note.txt", "no array")
    with pytest.raises(InputError, match=r"holds 'note\.txt', which is no array"):
        read_rows(tmp_path / "note.npz")


# ------------------------------------------------------------------ damage


def whole(ending: str, folder: Path) -> bytes:
    path = folder / f"whole{ending}"
    if ending == ".npy":
        np.save(path, np.arange(6.0).reshape(3, 2))
    else:
        write_rows(LabeledRows(np.arange(6.0).reshape(3, 2), ["a", "b", ""], {"g": slice(0, 2)}, [1, 2, 3]), path)
    return path.read_bytes()


def read_or_refused(path: Path) -> None:
    with suppress(NearsayError):
        assert isinstance(read_rows(path), LabeledRows)


@pytest.mark.slow
@pytest.mark.parametrize("ending", [*ENDINGS, ".npy"])
@pytest.mark.parametrize("masks", [(0x01, 0x20, 0xFF), *(pytest.param(m, marks=pytest.mark.slowest) for m in MASKS)])
def test_no_flipped_byte_and_no_cut_ends_in_an_error_of_another_library(tmp_path, ending, masks) -> None:
    """A file cut at each place, and with each byte flipped by one mask after the other; before a release by each."""
    content = whole(ending, tmp_path)
    path = tmp_path / f"damaged{ending}"
    for position, byte in enumerate(content):
        flipped = content[:position] + bytes([byte ^ masks[position % len(masks)]]) + content[position + 1 :]
        for damaged in (flipped, content[:position]):
            path.write_bytes(damaged)
            read_or_refused(path)


@pytest.mark.parametrize("ending", [*ENDINGS, ".npy"])
@given(content=st.binary(max_size=40) | TEXTS.map(str.encode))
def test_anything_at_all_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, ending: str, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / f"anything{ending}"
    path.write_bytes(content)
    read_or_refused(path)
