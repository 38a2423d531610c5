"""Sources of texts, whole and damaged: what cannot be used is named by line or file, the rest is read."""

from __future__ import annotations

import pytest

from nearsay.collection.ingest.sources import read_source
from nearsay.errors import InputError


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
        ".git/no.txt": b"hidden", "sky/other.doc": b"not a text",
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    source = read_source(tmp_path)
    rows = {id: label for batch in source for id, label in zip(batch.ids, batch.labels, strict=True)}
    assert rows == {"bank/card/1.txt": "card", "bank/rate.md": "bank", "sky/rain.TXT": "sky"}
    assert source.problems == []
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
