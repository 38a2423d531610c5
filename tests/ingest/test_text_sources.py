"""Sources of texts, whole and damaged: what cannot be used is named by line or file, the rest is read."""

from __future__ import annotations

import json

import pytest

from nearsay.collection.ingest.sources import read_source
from nearsay.describe.texts.text_descriptor import LONGEST_TEXT
from nearsay.errors import InputError

GOOD = [("where is my card", "card"), ("block this card", "card"), ("will it rain", "rain")]


def written(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(path, **options):
    """(texts, labels, problems as lines and reasons) of a source."""
    source = read_source(path, **options)
    batches = list(source)
    texts = [details["text"] for batch in batches for details in batch.details]
    labels = [label for batch in batches for label in batch.labels]
    return texts, labels, [(problem.line, problem.reason) for problem in source.problems]


# (the damaged line or lines of a csv file, what the problem says)
BAD_LINES = {
    "empty": (b",card", "the text is empty"),
    "blank": (b'"   ",card', "the text is empty"),
    "blank in unicode": ("\u2003\u00a0,card".encode(), "the text is empty"),
    "NUL": (b"a\0b,card", "U+0000"),
    "NUL at the end": (b"where is it\0,card", "U+0000"),
    "latin-1": (b"caf\xe9 is closed,card", "not UTF-8"),
    "cut UTF-8": (b"caf\xc3,card", "not UTF-8"),
    "a surrogate": (b"\xed\xa0\x80 text,card", "not UTF-8"),
    "too long": (b"x" * (LONGEST_TEXT + 1) + b",card", "100,001 characters"),
    "10 MB": (b"word " * 2_000_000 + b",card", "field limit"),
    "10 MB in quotes": (b'"' + b"word " * 2_000_000 + b'",card', "field limit"),
    "too few cells": (b"where is it", "it has 1 cells, the table 2 columns"),
    "too many cells": (b"where, is, it", "it has 3 cells, the table 2 columns"),
    "a quote that stays open": (b'"where is it,card', "a quoted cell is not closed"),
    "a quote within": (b'"where" is it,card', "expected after"),
    "a label that is a control character": (b"where is it,\x07", "control character U+0007"),
    "a label that is too long": (b"where is it," + b"y" * 5000, "5,000 characters"),
    "a label that is not UTF-8": (b"where is it,\xff", "not UTF-8"),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_damaged_line_of_a_table_is_named_and_the_rest_is_read(tmp_path, name):
    bad, reason = BAD_LINES[name]
    lines = [b"text,intent", *(f"{text},{label}".encode() for text, label in GOOD[:2]), bad, b"will it rain,rain"]
    texts, labels, problems = read(written(tmp_path / "t.csv", b"\n".join(lines) + b"\n"), text_column="text")
    assert list(zip(texts, labels, strict=True)) == GOOD
    assert [line for line, _ in problems] == [4]
    assert reason in problems[0][1]


def test_a_damaged_line_is_an_error_if_strict(tmp_path):
    path = written(tmp_path / "t.csv", "text,intent\na card,card\n,card\n")
    with pytest.raises(InputError, match=r"t\.csv, line 3 .*the text is empty"):
        read(path, strict=True)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_a_file_in_another_encoding_is_refused_as_a_whole(tmp_path, encoding):
    content = ("\ufeff" * (encoding != "utf-16") + "text,intent\na card,card\n").encode(encoding)
    with pytest.raises(InputError, match="is UTF-16 text"):
        read(written(tmp_path / "t.csv", content))


def test_a_byte_order_mark_windows_line_ends_and_quotes_are_no_damage(tmp_path):
    content = '\ufefftext,intent\r\n"is it ""mine"", or\r\nnot",card\r\n\r\n'
    assert read(written(tmp_path / "t.csv", content))[:2] == (['is it "mine", or\r\nnot'], ["card"])


@pytest.mark.parametrize(
    ("header", "options", "said"),
    [
        ("words,intent", {"text_column": "text"}, "no column 'text'"),
        ("words,intent", {}, "Name the column of texts"),
        ("text,intent", {"text_column": "intent", "label_column": "intent"}, "cannot be two things"),
        ("text,intent", {"text_column": 7}, "no column 7"),
    ],
)
def test_a_missing_column_is_named(tmp_path, header, options, said):
    with pytest.raises(InputError, match=said):
        read(written(tmp_path / "t.csv", f"{header}\na card to block,card\nwill it rain,rain\n"), **options)


def test_the_column_of_texts_is_known_by_name_wherever_it_is_and_numbers_beside_it_are_details(tmp_path):
    path = written(tmp_path / "t.csv", "intent,text\ncard,block it\nrain,will it rain\n")
    assert read(path)[:2] == (["block it", "will it rain"], ["card", "rain"])
    path = written(tmp_path / "n.csv", "intent,text,score\ncard,block it,3\nrain,will it rain,4.5\n")
    source = read_source(path, text_column="text")
    assert [batch.details for batch in source] == [
        [{"score": "3", "text": "block it"}, {"score": "4.5", "text": "will it rain"}]
    ]
    assert source.kind == "texts"
    assert read_source(path).kind == "numbers"  # as before: numbers go first unless texts are asked for


def test_a_number_in_a_column_of_texts_is_a_text_in_a_table_and_none_in_json(tmp_path):
    path = written(tmp_path / "t.csv", "text,intent\n42,a\nforty two,a\n")
    assert read(path, text_column="text")[0] == ["42", "forty two"]
    lines = '{"text": 42, "label": "a"}\n{"text": "forty two", "label": "a"}\n'
    assert read(written(tmp_path / "t.jsonl", lines)) == (
        ["forty two"], ["a"], [(1, "the text is a number (42)")],
    )  # fmt: skip


BAD_OBJECTS = {
    "no JSON": (b"{text: no}", "not JSON"),
    "cut": (b'{"text": "where', "not JSON"),
    "a list": (b'["where is it"]', "no JSON object"),
    "a text": (b'"where is it"', "no JSON object"),
    "null": (b"null", "no JSON object"),
    "no text": (b'{"intent": "card"}', "the text is missing"),
    "null text": (b'{"text": null}', "the text is missing"),
    "a number": (b'{"text": 7}', "a number"),
    "a huge number": (b'{"text": ' + b"9" * 10_000 + b"}", "not JSON"),
    "a list as text": (b'{"text": ["a", "b"]}', "a list"),
    "an object": (b'{"text": {"a": "b"}}', "an object"),
    "true": (b'{"text": true}', "true or false"),
    "NaN": (b'{"text": NaN}', "missing"),
    "deep": (b'{"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deep"),
    "latin-1": (b'{"text": "caf\xe9"}', "not UTF-8"),
    "a lone surrogate": (rb'{"text": "\ud800"}', "not UTF-8"),
    "NUL": (rb'{"text": "a\u0000b"}', "U+0000"),
    "empty": (b'{"text": " "}', "the text is empty"),
    "too long": (b'{"text": "' + b"x" * (LONGEST_TEXT + 1) + b'"}', "100,001 characters"),
    "17 MB": (b'{"text": "' + b"x" * (17 << 20) + b'"}', "more than 16,777,216 bytes"),
}


@pytest.mark.parametrize("name", BAD_OBJECTS)
def test_a_damaged_line_of_json_is_named_and_the_rest_is_read(tmp_path, name):
    bad, reason = BAD_OBJECTS[name]
    good = [json.dumps({"text": text, "intent": label}).encode() for text, label in GOOD]
    path = written(tmp_path / "t.jsonl", b"\n".join([*good[:2], bad, b"", good[2]]) + b"\n")
    texts, labels, problems = read(path, label_column="intent")
    assert list(zip(texts, labels, strict=True)) == GOOD
    assert [line for line, _ in problems] == [3]
    assert reason in problems[0][1]


def test_json_lines_have_ids_keywords_and_details(tmp_path):
    lines = '{"id": 7, "message": "block it", "tags": ["card", "bank"], "label": "card", "at": {"page": 1}}\n'
    source = read_source(written(tmp_path / "t.ndjson", lines))
    (batch,) = source
    assert (batch.ids, batch.labels, batch.keywords) == (["7"], ["card"], [["card", "bank"]])
    assert batch.details == [{"at": '{"page": 1}', "text": "block it"}]
    with pytest.raises(InputError, match="Name the column of texts"):
        read_source(written(tmp_path / "w.jsonl", '{"words": "block it"}\n'))
    with pytest.raises(InputError, match="no JSON objects"):
        read_source(written(tmp_path / "e.jsonl", "[1]\n"))


def test_parquet_has_a_column_of_texts(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = {"text": ["block it", None, " ", "will it rain"], "intent": ["card", "card", "rain", "rain"]}
    parquet.write_table(pyarrow.table(table), tmp_path / "t.parquet")
    source = read_source(tmp_path / "t.parquet")
    assert [details["text"] for batch in source for details in batch.details] == ["block it", "will it rain"]
    assert [(problem.row, problem.reason) for problem in source.problems] == [
        (1, "the text is empty"), (2, "the text is empty"),
    ]  # fmt: skip
    parquet.write_table(pyarrow.table({"text": [["a"]], "n": [1.0]}), tmp_path / "l.parquet")
    with pytest.raises(InputError, match="holds lists"):
        read_source(tmp_path / "l.parquet", text_column="text")
    parquet.write_table(pyarrow.table({"text": [b"\xff", b"fine"], "intent": ["a", "b"]}), tmp_path / "b.parquet")
    source = read_source(tmp_path / "b.parquet")
    assert [details["text"] for batch in source for details in batch.details] == ["fine"]
    assert "not UTF-8" in source.problems[0].reason


def test_a_folder_of_text_files_is_labeled_by_its_folders(tmp_path):
    for name, content in {
        "bank/card/1.txt": b"block my card", "bank/rate.md": b"\xef\xbb\xbf# rates", "sky/rain.TXT": b"will it rain",
        "sky/empty.txt": b"", "sky/latin.txt": b"caf\xe9", "sky/nul.txt": b"a\0b", "sky/wide.txt": b"\xff\xfea\0",
        "sky/long.txt": b"x" * 500_000, ".git/no.txt": b"hidden", "sky/other.doc": b"not a text",
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "sky/link.txt").symlink_to("/etc/hostname")
    source = read_source(tmp_path)
    rows = {id: label for batch in source for id, label in zip(batch.ids, batch.labels, strict=True)}
    assert rows == {"bank/card/1.txt": "card", "bank/rate.md": "bank", "sky/rain.TXT": "sky"}
    assert {problem.id: problem.reason for problem in source.problems} == {
        "sky/empty.txt": "the text is empty",
        "sky/latin.txt": "the text holds bytes that are not UTF-8",
        "sky/nul.txt": "the text holds the control character U+0000",
        "sky/wide.txt": "it is UTF-16 text; save it as UTF-8",
        "sky/long.txt": "it has more than 100,000 characters; split it into several files",
        "sky/link.txt": "the path leaves the folder, by a link",
    }
    assert source.taxonomy is not None
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="holds no texts"):
        read_source(tmp_path / "none", of_texts=True)


def test_lines_are_texts_where_texts_are_wanted(tmp_path):
    path = written(tmp_path / "new.txt", "block my card\n\nwill it rain, do you think\n")
    assert read(path, of_texts=True)[0] == ["block my card", "will it rain, do you think"]
    assert read(["block my card", " ", "a\0b"])[::2] == (
        ["block my card"], [(3, "the text holds the control character U+0000")],
    )  # fmt: skip
