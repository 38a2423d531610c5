"""Damage, two dozen kinds for each reader: it is named by its line, row or file, and everything else is read."""

from __future__ import annotations

import io
import json
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from nearsay.collection.ingest.sources import Source, read_source
from nearsay.describe.texts.text_descriptor import LONGEST_TEXT
from nearsay.errors import InputError, NearsayError
from nearsay.taxonomy.taxonomy import Taxonomy

NUMPY = np.lib.NumpyVersion(np.__version__)
TREE = Taxonomy.from_nested({"tree": {"broad": ["oak", "elm"], "needle": ["fir"]}})
LONG = "y" * 5000
# Files on which reading would wait, or that lead elsewhere.
Make = Callable[[Path], Any]


def delivered(source: Source) -> list[str]:
    return [id for batch in source for id in batch.ids]


def check(source: Source, place: int, reason: str) -> None:
    """One item is named, by its line or row; the three others are delivered."""
    assert delivered(source) == ["a", "b", "c"]
    (problem,) = source.problems
    assert (problem.row if problem.line is None else problem.line) == place
    assert reason in problem.reason


# ------------------------------------------------------------------ tables of text

BAD_NUMBERS = {
    "one cell": ("bad", "it has 1 cells, the table 4 columns"),
    "too few cells": ("bad,1.0,2.0", "it has 3 cells, the table 4 columns"),
    "too many cells": ("bad,1.0,2.0,oak,more", "it has 5 cells"),
    "no number": ("bad,nan,2.0,oak", "there is no number in column 'width'"),
    "empty": ("bad,1.0,,oak", "there is no number in column 'height'"),
    "None": ("bad,None,2.0,oak", "there is no number in column 'width'"),
    "infinite": ("bad,-inf,2.0,oak", "column 'width' holds -inf"),
    "too large": ("bad,1e31,2.0,oak", "column 'width' holds 1e+31"),
    "400 digits": (f"bad,{'9' * 400},2.0,oak", "column 'width' holds inf"),
    "a word": ("bad,1.0,wide,oak", "'wide' is not a number"),
    "a unit": ("bad,5 cm,2.0,oak", "'5 cm' is not a number"),
    "a percentage": ("bad,5%,2.0,oak", "'5%' is not a number"),
    "hexadecimal": ("bad,0x10,2.0,oak", "'0x10' is not a number"),
    "underscores": ("bad,1_000,2.0,oak", "'1_000' is not a number"),
    "a typographic minus": ("bad,−1,2.0,oak", "'−1' is not a number"),
    "complex": ("bad,1+2j,2.0,oak", "'1+2j' is not a number"),
    "two numbers": ("bad,1 2,2.0,oak", "'1 2' is not a number"),
    "a decimal comma": ('bad,1.0,"2,5",oak', "decimal point"),
    "NUL": ("bad,1\0,2.0,oak", "is not a number"),
    "bytes in a number": ("bad,1\udcff,2.0,oak", "is not a number"),
    "a cell of 200,000 digits": (f"bad,{'1' * 200_000},2.0,oak", "a cell has more than 131,072"),
    "an unknown label": ("bad,1.0,2.0,oka", "not in the taxonomy (did you mean 'oak'?)"),
    "a control character as label": ("bad,1.0,2.0,o\x07k", "control character U+0007"),
    "a label that is too long": (f"bad,1.0,2.0,{LONG}", "has 5,000 characters"),
    "a label that is not UTF-8": ("bad,1.0,2.0,o\udcffk", "not UTF-8"),
    "an id twice": ("a,1.0,2.0,oak", "the id 'a' was used before, in line 2"),
    "no id": (" ,1.0,2.0,oak", "the id is empty"),
    "an id that is too long": (f"{LONG},1.0,2.0,oak", "the id has 5,000 characters"),
    "an id that is not UTF-8": ("bad\udcff,1.0,2.0,oak", "not UTF-8"),
    "an open quote": ('"bad,1.0,2.0,oak', "a quoted cell is not closed"),
    "a torn quote": ('"bad"x,1.0,2.0,oak', "expected after"),
}


@pytest.mark.parametrize("kind", BAD_NUMBERS)
def test_a_damaged_line_of_numbers_is_named(tmp_path, kind):
    bad, reason = BAD_NUMBERS[kind]
    lines = ["id,width,height,species", "a,1.5,2,elm", "b,2.5,2,oak", bad, "c,1.5,2,elm"]
    (tmp_path / "t.csv").write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
    check(read_source(tmp_path / "t.csv", taxonomy=TREE), 4, reason)
    with pytest.raises(InputError, match=r"t\.csv, line 4") as error:
        delivered(read_source(tmp_path / "t.csv", taxonomy=TREE, strict=True))
    assert reason in str(error.value)


BAD_TEXTS = {
    "empty": (b",card", "the text is empty"),
    "blank": (b'"   ",card', "the text is empty"),
    "blank in unicode": ("\u2003\u00a0,card".encode(), "the text is empty"),
    "NUL": (b"a\0b,card", "U+0000"),
    "NUL at the end": (b"where is it\0,card", "U+0000"),
    "latin-1": (b"caf\xe9 is closed,card", "not UTF-8"),
    "cut UTF-8": (b"caf\xc3,card", "not UTF-8"),
    "a surrogate": (b"\xed\xa0\x80 text,card", "not UTF-8"),
    "overlong UTF-8": (b"\xc0\xaf text,card", "not UTF-8"),
    "too long": (b"x" * (LONGEST_TEXT + 1) + b",card", "100,001 characters"),
    "10 MB": (b"word " * 2_000_000 + b",card", "a cell has more than 131,072"),
    "10 MB in quotes": (b'"' + b"word " * 2_000_000 + b'",card', "a cell has more than 131,072"),
    "too few cells": (b"where is it", "it has 2 cells, the table 3 columns"),
    "too many cells": (b"where, is, it", "it has 4 cells, the table 3 columns"),
    "a quote that stays open": (b'"where is it,card', "a quoted cell is not closed"),
    "a quote within": (b'"where" is it,card', "expected after"),
    "a label that is a control character": (b"where is it,\x07", "control character U+0007"),
    "a label that is too long": (b"where is it," + LONG.encode(), "5,000 characters"),
    "a label that is not UTF-8": (b"where is it,\xff", "not UTF-8"),
    "empty in quotes": (b'"",card', "the text is empty"),
    "a byte that continues nothing": (b"where \x80 is it,card", "not UTF-8"),
    "beyond Unicode": (b"where \xf4\x90\x80\x80 is it,card", "not UTF-8"),
    "a label that is an escape": (b"where is it,\x1b]52;c;eA==", "control character U+001B"),
    "a line that ends after its id": (b"", "it has 2 cells, the table 3 columns"),
}


@pytest.mark.parametrize("kind", BAD_TEXTS)
def test_a_damaged_line_of_texts_is_named(tmp_path, kind):
    bad, reason = BAD_TEXTS[kind]
    lines = [
        b"id,text,intent",
        b"a,where is my card,card",
        b"b,block this card,card",
        b"bad," + bad,
        b"c,will it rain,rain",
    ]
    (tmp_path / "t.csv").write_bytes(b"\n".join(lines) + b"\n")
    check(read_source(tmp_path / "t.csv", text_column="text"), 4, reason)


# ------------------------------------------------------------------ JSON lines

BAD_OBJECTS = {
    "no JSON": (b"{text: no}", "not JSON"),
    "cut": (b'{"text": "where', "not JSON"),
    "a list": (b'["where is it"]', "no JSON object"),
    "a text": (b'"where is it"', "no JSON object"),
    "null": (b"null", "no JSON object"),
    "no text": (b'{"id": "bad", "intent": "card"}', "the text is missing"),
    "null text": (b'{"id": "bad", "text": null}', "the text is missing"),
    "a number": (b'{"id": "bad", "text": 7}', "a number"),
    "a huge number": (b'{"id": "bad", "text": ' + b"9" * 10_000 + b"}", "not JSON"),
    "a list as text": (b'{"id": "bad", "text": ["a", "b"]}', "a list"),
    "an object": (b'{"id": "bad", "text": {"a": "b"}}', "an object"),
    "true": (b'{"id": "bad", "text": true}', "true or false"),
    "NaN": (b'{"id": "bad", "text": NaN}', "missing"),
    "deep": (b'{"id": "bad", "text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deep"),
    "latin-1": (b'{"id": "bad", "text": "caf\xe9"}', "not UTF-8"),
    "a lone surrogate": (rb'{"id": "bad", "text": "\ud800"}', "not UTF-8"),
    "NUL": (rb'{"id": "bad", "text": "a\u0000b"}', "U+0000"),
    "empty": (b'{"id": "bad", "text": " "}', "the text is empty"),
    "too long": (b'{"id": "bad", "text": "' + b"x" * (LONGEST_TEXT + 1) + b'"}', "100,001 characters"),
    "17 MB": (b'{"id": "bad", "text": "' + b"x" * (17 << 20) + b'"}', "more than 16,777,216 bytes"),
    "no id": (b'{"text": "where is it"}', "the id is empty"),
    "an id twice": (b'{"id": "a", "text": "where is it"}', "the id 'a' was used before, in line 1"),
    "an id that is too long": (b'{"id": "' + LONG.encode() + b'", "text": "where is it"}', "5,000 characters"),
    "a control character as label": (rb'{"id": "bad", "text": "a", "intent": "\u0007"}', "control character U+0007"),
    "a control character as keyword": (rb'{"id": "bad", "text": "a", "tags": ["\u0007"]}', "control character U+0007"),
    "a label that is not UTF-8": (b'{"id": "bad", "text": "a", "intent": "\xff"}', "not UTF-8"),
}


@pytest.mark.parametrize("kind", BAD_OBJECTS)
def test_a_damaged_line_of_json_is_named(tmp_path, kind):
    bad, reason = BAD_OBJECTS[kind]
    good = [{"id": id, "text": "where is my card", "intent": "card", "tags": ["bank"]} for id in "abc"]
    lines = [json.dumps(each).encode() for each in good]
    (tmp_path / "t.jsonl").write_bytes(b"\n".join([*lines[:2], bad, b"", lines[2]]) + b"\n")
    check(read_source(tmp_path / "t.jsonl", label_column="intent"), 3, reason)


# ------------------------------------------------------------------ Parquet

GOOD_ROW = {"id": "a", "v": [1.0, 2.0], "w": 1.0, "label": "oak", "tags": ["x"], "note": "n"}
BAD_ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "no vector": ({"v": None}, "column 'v' holds nothing; most rows have 2 numbers"),
    "a short vector": ({"v": [1.0]}, "column 'v' holds 1 numbers"),
    "a long vector": ({"v": [1.0, 2.0, 3.0]}, "column 'v' holds 3 numbers"),
    "an empty vector": ({"v": []}, "column 'v' holds 0 numbers"),
    "a vector with a gap": ({"v": [1.0, None]}, "there is no number in column 'v[1]'"),
    "NaN in a vector": ({"v": [np.nan, 1.0]}, "there is no number in column 'v[0]'"),
    "infinite in a vector": ({"v": [1.0, np.inf]}, "column 'v[1]' holds inf"),
    "too large in a vector": ({"v": [1e300, 0.0]}, "column 'v[0]' holds 1e+300"),
    "no number": ({"w": None}, "there is no number in column 'w'"),
    "NaN": ({"w": np.nan}, "there is no number in column 'w'"),
    "infinite": ({"w": -np.inf}, "column 'w' holds -inf"),
    "too large": ({"w": -1e31}, "column 'w' holds -1e+31"),
    "no id": ({"id": None}, "the id is empty"),
    "an empty id": ({"id": ""}, "the id is empty"),
    "a blank id": ({"id": "  "}, "the id is empty"),
    "an id twice": ({"id": "a"}, "the id 'a' was used before, in row 0"),
    "NUL in an id": ({"id": "b\0"}, "control character U+0000"),
    "an id that is too long": ({"id": LONG}, "5,000 characters"),
    "an unknown label": ({"label": "oka"}, "not in the taxonomy"),
    "a control character as label": ({"label": "o\x07k"}, "control character U+0007"),
    "a label that is too long": ({"label": LONG}, "5,000 characters"),
    "a control character as keyword": ({"tags": ["x\x1b"]}, "control character U+001B"),
    "a keyword that is too long": ({"tags": [LONG]}, "5,000 characters"),
    "an id that is not UTF-8": ({"id": b"caf\xe9"}, "not UTF-8"),
    "a label that is not UTF-8": ({"label": b"caf\xe9"}, "not UTF-8"),
    "a detail that is not UTF-8": ({"note": b"caf\xe9"}, "not UTF-8"),
}


def parquet_of(rows: list[dict[str, Any]]) -> bytes:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    out, columns = io.BytesIO(), {}
    for name in GOOD_ROW:
        cells = [row[name] for row in rows]
        of_bytes = any(isinstance(cell, bytes) for cell in cells)
        columns[name] = [cell.encode() if of_bytes and isinstance(cell, str) else cell for cell in cells]
    parquet.write_table(pyarrow.table(columns), out)
    return out.getvalue()


@pytest.mark.parametrize("kind", BAD_ROWS)
def test_a_damaged_row_of_parquet_is_named(tmp_path, kind):
    bad, reason = BAD_ROWS[kind]
    given = [{"id": "a"}, {"id": "b"}, {"id": "bad", **bad}, {"id": "c"}]
    (tmp_path / "t.parquet").write_bytes(parquet_of([{**GOOD_ROW, **each} for each in given]))
    check(read_source(tmp_path / "t.parquet", taxonomy=TREE), 2, reason)


# ------------------------------------------------------------------ arrays

X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
ARRAYS = {"X": X, "y": np.array(["oak", "elm", "oak", "elm"]), "ids": np.array(["a", "b", "bad", "c"])}
BAD_CELLS = {
    "NaN": ("X", np.nan, "there is no number in column '1'"),
    "infinite": ("X", np.inf, "column '1' holds inf"),
    "minus infinite": ("X", -np.inf, "column '1' holds -inf"),
    "too large": ("X", 1e31, "column '1' holds 1e+31"),
    "no id": ("ids", "", "the id is empty"),
    "an id twice": ("ids", "a", "the id 'a' was used before, in row 0"),
    "a control character as id": ("ids", "b\x07", "control character U+0007"),
    "an id that is too long": ("ids", LONG, "5,000 characters"),
    "an id that is no text": ("ids", "b\udce9", "not UTF-8"),
    "an unknown label": ("y", "oka", "not in the taxonomy"),
    "a control character as label": ("y", "o\x07", "control character U+0007"),
    "a label that is too long": ("y", LONG, "5,000 characters"),
    "a label of bytes that are not UTF-8": ("y", b"\xff", "not UTF-8"),
    "a control character as keyword": ("keywords", "x\x1b", "control character U+001B"),
}


@pytest.mark.parametrize("kind", BAD_CELLS)
def test_a_damaged_row_of_arrays_is_named(tmp_path, kind):
    name, bad, reason = BAD_CELLS[kind]
    arrays = {**ARRAYS, "keywords": np.array(["x"] * 4)}
    if name == "X":
        arrays["X"] = np.where([[False, False]] * 2 + [[False, True], [False, False]], bad, X)
    else:
        cells = arrays[name].tolist()
        cells = [cell.encode() for cell in cells] if isinstance(bad, bytes) else cells
        arrays[name] = np.array([*cells[:2], bad, cells[3]])
    np.savez(tmp_path / "t.npz", **arrays)
    check(read_source(tmp_path / "t.npz", taxonomy=TREE), 2, reason)


# ------------------------------------------------------------------ files that cannot be read as a whole


def npz_of(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez(out, **{**ARRAYS, **arrays})
    return out.getvalue()


def npy_of(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


PICKLE = b"\x80\x04K\x01."
BAD_FILES: dict[str, dict[str, Callable[[], bytes]]] = {
    "t.npz": {
        "empty": lambda: b"",
        "text": lambda: b"a,b\n1,2\n",
        "cut": lambda: npz_of()[:-30],
        "a flipped byte": lambda: (given := npz_of())[:150] + b"\xff" + given[151:],
        "one array": lambda: npy_of(X),
        "a pickle": lambda: PICKLE,
        "objects": lambda: npz_of(y=np.array(["a", 1, None, 2.0], object)),
        "too few labels": lambda: npz_of(y=ARRAYS["y"][:3]),
        "too few ids": lambda: npz_of(ids=ARRAYS["ids"][:3]),
        "too few keywords": lambda: npz_of(keywords=np.array(["x"])),
        "two labels a row": lambda: npz_of(y=np.array([ARRAYS["y"]] * 2).T),
        "ids that are fractions": lambda: npz_of(ids=np.array([1.5, 2.5, np.nan, 3])),
        "one dimension": lambda: npz_of(X=X[:, 0]),
        "a single number": lambda: npz_of(X=np.float64(3)),
        "texts": lambda: npz_of(X=X.astype(str)),
        "complex numbers": lambda: npz_of(X=X + 1j),
        "no columns": lambda: npz_of(X=X[:, :0]),
        "records": lambda: npz_of(X=np.zeros(4, [("a", "f8")])),
        "groups beyond the columns": lambda: npz_of(group_names=np.array(["a"]), group_slices=np.array([[0, 9]])),
    },
    "t.npy": {
        "empty": lambda: b"",
        "text": lambda: b"a,b\n1,2\n",
        "cut": lambda: npy_of(X)[:-3],
        "cut in the header": lambda: npy_of(X)[:20],
        "an archive": npz_of,
        "more rows than there are": lambda: npy_of(X).replace(b"(4, 2)", b"(9, 2)"),
        # Before 2.3, numpy reads these as the four rows that are there.
        **({"fewer than no rows": lambda: npy_of(X).replace(b"(4, 2)", b"(-4,2)")} if NUMPY >= "2.3.0" else {}),
        "a program as header": lambda: npy_of(X).replace(b"False", b"exit("),
        "an unknown version": lambda: npy_of(X)[:6] + b"\x09" + npy_of(X)[7:],
        "a pickle": lambda: PICKLE,
    },
    "t.parquet": {
        "empty": lambda: b"",
        "text": lambda: b"a,b\n1,2\n",
        "cut": lambda: parquet_of([GOOD_ROW])[:-30],
        "cut at the start": lambda: parquet_of([GOOD_ROW])[10:],
        "another ending": lambda: parquet_of([GOOD_ROW])[:-4] + b"XXXX",
        "zeros in the footer": lambda: (given := parquet_of([GOOD_ROW]))[:-200] + bytes(150) + given[-50:],
        "zeros in a page": lambda: (given := parquet_of([GOOD_ROW]))[:4] + bytes(200) + given[204:],
        "no rows": lambda: parquet_of([]),
    },
    "t.jsonl": {
        "empty": lambda: b"",
        "blank": lambda: b"\n\n",
        "no objects": lambda: b"[1]\n[2]\n",
        "UTF-16": lambda: '{"text": "a"}'.encode("utf-16"),
    },
    "t.csv": {
        "empty": lambda: b"",
        "blank": lambda: b"\n\n",
        "UTF-16": lambda: "a,b\n1,2\n".encode("utf-16"),
    },
}  # fmt: skip


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, kinds in BAD_FILES.items() for kind in kinds])
def test_a_file_that_is_damaged_as_a_whole_is_refused_by_name_in_one_line(tmp_path, name, kind):
    (tmp_path / name).write_bytes(BAD_FILES[name][kind]())
    with pytest.raises(NearsayError) as error:
        delivered(read_source(tmp_path / name))
    assert str(error.value).startswith(name)
    assert "\n" not in str(error.value)


# ------------------------------------------------------------------ folders of texts

BAD_TEXT_FILES: dict[str, tuple[bytes | Make, str]] = {
    "empty": (b"", "the text is empty"),
    "blank": (b" \n", "the text is empty"),
    "blank in unicode": ("\u2003\u00a0".encode(), "the text is empty"),
    "a byte order mark alone": (b"\xef\xbb\xbf", "the text is empty"),
    "NUL": (b"a\0b", "U+0000"),
    "latin-1": (b"caf\xe9", "not UTF-8"),
    "cut UTF-8": (b"caf\xc3", "not UTF-8"),
    "a surrogate": (b"\xed\xa0\x80", "not UTF-8"),
    "overlong UTF-8": (b"\xc0\xaf", "not UTF-8"),
    "beyond unicode": (b"\xf4\x90\x80\x80", "not UTF-8"),
    "five bytes": (b"\xf8\x88\x80\x80\x80", "not UTF-8"),
    "UTF-16": (b"\xff\xfea\0", "UTF-16"),
    "UTF-16, big endian": (b"\xfe\xff\0a", "UTF-16"),
    "UTF-16 without a mark": (b"a\0b\0", "U+0000"),
    "a picture": (b"\x89PNG\r\n\x1a\n\0\0", "U+0000"),
    "an archive": (b"\x1f\x8b\x08\0", "U+0000"),
    "too long": (b"x" * (LONGEST_TEXT + 1), "100,001 characters"),
    "too long in two bytes each": ("é".encode() * (LONGEST_TEXT + 1), "100,001 characters"),
    "10 MB": (b"x" * 10**7, "more than 100,000 characters"),
    "a link out of the folder": (lambda path: path.symlink_to("/etc/hostname"), "leaves the folder, by a link"),
    "a link to nothing": (lambda path: path.symlink_to(path.parent / "gone"), "there is no such file"),
    "a link to itself": (lambda path: path.symlink_to(path), "there is no such file"),
    "a pipe": (os.mkfifo, "there is no such file"),
    "a control character in the name": (lambda path: path.with_name("b\x07.txt").write_text("x"), "U+0007"),
    "a name of two lines": (lambda path: path.with_name("b\n.txt").write_text("x"), "U+000A"),
    "a name that is not UTF-8": (lambda path: path.with_name("b\udce9.txt").write_text("x"), "not UTF-8"),
}


def put(path: Path, content: bytes | Make) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if callable(content):
        content(path)
    else:
        path.write_bytes(content)


@pytest.mark.parametrize("kind", BAD_TEXT_FILES)
def test_a_damaged_file_of_a_folder_of_texts_is_named(tmp_path, kind):
    bad, reason = BAD_TEXT_FILES[kind]
    put(tmp_path / "t/card/a.txt", b"block my card")
    put(tmp_path / "t/card/c.md", b"where is my card")
    put(tmp_path / "t/card/b.txt", bad)
    source = read_source(tmp_path / "t")
    assert delivered(source) == ["card/a.txt", "card/c.md"]
    (problem,) = source.problems
    assert problem.id.startswith("card/b")
    assert reason in problem.reason


# ------------------------------------------------------------------ pictures


def picture(side: int = 6, format: str = "PNG") -> bytes:
    out = io.BytesIO()
    Image.effect_noise((side, side), 90).convert("RGB").save(out, format)
    return out.getvalue()


def png_that_claims(width: int, height: int) -> bytes:
    """A PNG that says it is of that size, and is a few bytes long."""

    def chunk(content: bytes) -> bytes:
        return struct.pack(">I", len(content) - 4) + content + struct.pack(">I", zlib.crc32(content))

    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(header) + chunk(b"IDAT" + zlib.compress(b"\0" * 100))


UNKNOWN, UNREADABLE = "it is no image of a known kind", "it cannot be read as an image"
SMALL = picture()
BAD_PICTURES: dict[str, tuple[str, bytes | Make, str]] = {
    "empty": ("b.png", b"", UNKNOWN),
    "text": ("b.png", b"hello", UNKNOWN),
    "a page": ("b.jpg", b"<html></html>", UNKNOWN),
    "a document": ("b.jpg", b"%PDF-1.4", UNKNOWN),
    "an archive": ("b.png", b"PK\3\4aaa", UNKNOWN),
    "a drawing": ("b.png", b'<svg xmlns="http://www.w3.org/2000/svg"/>', UNKNOWN),
    "zeros": ("b.png", bytes(100), UNKNOWN),
    "any bytes": ("b.jpg", bytes(range(256)) * 9, UNKNOWN),
    "the first bytes of PNG": ("b.png", b"\x89PNG\r\n\x1a\n", UNKNOWN),
    "a cut PNG": ("b.png", picture(64)[:60], "truncated"),
    "a wrong checksum": ("b.png", SMALL[:20] + b"\xff" + SMALL[21:], UNKNOWN),
    "torn pixels": ("b.png", SMALL[:45] + bytes(3) + SMALL[48:], UNREADABLE),
    "no pixels": ("b.png", png_that_claims(0, 5), UNKNOWN),
    "too many pixels": ("b.png", png_that_claims(20_000, 20_000), "too many pixels"),
    "the first bytes of JPEG": ("b.jpg", picture(64, "JPEG")[:20], UNKNOWN),
    "a cut JPEG": ("b.jpg", picture(64, "JPEG")[:900], "truncated"),
    "a cut GIF": ("b.gif", picture(format="GIF")[:20], UNKNOWN),
    "a cut BMP": ("b.bmp", picture(format="BMP")[:40], UNREADABLE),
    "a cut WebP": ("b.webp", picture(64, "WEBP")[:40], UNREADABLE),
    "a TIFF that leads nowhere": ("b.tif", b"II*\0\xff\xff\xff\xff", UNKNOWN),
    "a cut TIFF": ("b.tif", picture(64, "TIFF")[:60], UNKNOWN),
    "a link out of the folder": ("b.png", lambda path: path.symlink_to("/etc/hostname"), "leaves the folder"),
    "a link to nothing": ("b.png", lambda path: path.symlink_to(path.parent / "gone"), "no such picture"),
    "a link to itself": ("b.png", lambda path: path.symlink_to(path), "no such picture"),
    "a pipe": ("b.png", os.mkfifo, "no such picture"),
    "a control character in the name": ("b\x07.png", SMALL, "U+0007"),
    "a name of two lines": ("b\n.png", SMALL, "U+000A"),
    "a name that is not UTF-8": ("b\udce9.png", SMALL, "not UTF-8"),
}


def by_size(paths):
    """Describe pictures by their size, and name those that cannot be read."""
    from nearsay.data.images import read_image
    from nearsay.describe.folder import SkippedImage

    rows, skipped = [], []
    for path in paths:
        try:
            rows.append(read_image(path).shape[:2])
        except Exception as error:
            skipped.append(SkippedImage(path, str(error)))
    return np.array(rows, np.float32).reshape(len(rows), 2), skipped


@pytest.mark.parametrize("kind", BAD_PICTURES)
def test_a_damaged_picture_of_a_folder_is_named(tmp_path, kind):
    name, bad, reason = BAD_PICTURES[kind]
    put(tmp_path / "p/card/a.png", SMALL)
    put(tmp_path / "p/card/c.jpg", picture(format="JPEG"))
    put(tmp_path / "p/card" / name, bad)
    source = read_source(tmp_path / "p", describe=by_size)
    assert delivered(source) == ["card/a.png", "card/c.jpg"]
    (problem,) = source.problems
    assert problem.id.startswith("card/b")
    assert reason in problem.reason
    assert not any("tags" in sentence for sentence in source.chosen)
