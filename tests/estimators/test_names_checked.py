"""Ids, labels, keywords and nodes are checked alike at every entrance: Python, the command line, files and the page."""

from __future__ import annotations

import json

import numpy as np
import pytest

from nearsay.collection.ingest.sources import read_source
from nearsay.collection.live import LiveCollection
from nearsay.collection.store.validate_items import LONGEST_NAME, checked_labels
from nearsay.errors import InputError
from nearsay.web.content.uploads import read_rows
from tests.command_line import run

LONG = "x" * (LONGEST_NAME + 1)
# Control characters of both blocks, the first and the last of each, and where they stand.
BAD = ["oak\0", "\0", "oak\nelm", "\x1b[31moak", "oak\x7f", "\x80oak", "oak\x9f", LONG, "oak\ud800"]
# Marks of writing from right to left are part of names; what prints them shows them as such.
GOOD = ["x" * LONGEST_NAME, "עץ \u200foak", "a\u202eb", "ü", "日本", "=1+1", "<b>"]
X = np.arange(6.0)[:, None]


def short(name):
    return ascii(name[:12])


@pytest.fixture
def leaves(tmp_path):
    with LiveCollection.create(tmp_path / "leaves", n_columns=1) as collection:
        collection.add(list("abcdef"), X, ["oak", "oak", "oak", "elm", "elm", "elm"])
        yield collection


@pytest.mark.slow
@pytest.mark.parametrize("bad", BAD, ids=short)
@pytest.mark.parametrize(
    "change",
    [
        lambda leaves, bad: leaves.add([bad], X[:1]),
        lambda leaves, bad: leaves.add(["new"], X[:1], [bad]),
        lambda leaves, bad: leaves.add(["new"], X[:1], keywords=[["green", bad]]),
        lambda leaves, bad: leaves.add(["new"], X[:1], who=bad),
        lambda leaves, bad: leaves.relabel(["a"], [bad]),
        lambda leaves, bad: leaves.set_keywords(["a"], [[bad]]),
        lambda leaves, bad: leaves.confirm([bad]),
        lambda leaves, bad: leaves.forget([bad]),
        lambda leaves, bad: leaves.set_taxonomy([("tree", "oak"), ("tree", "elm"), ("tree", bad)]),
        lambda leaves, bad: leaves.store.set_taxonomy([("tree", "oak"), ("tree", "elm")], {"oak": bad}),
    ],
)
def test_a_name_that_is_too_long_or_holds_control_characters_is_refused_in_a_short_line(leaves, change, bad):
    version = leaves.version
    with pytest.raises(InputError, match=r"control character|4,096|UTF-8") as error:
        change(leaves, bad)
    assert len(str(error.value)) < 300
    assert str(error.value).isprintable()
    assert leaves.version == version


@pytest.mark.parametrize("good", GOOD, ids=short)
def test_other_names_are_kept_as_they_are(leaves, good):
    leaves.add([good], X[:1], [good], [[good]], who=good)
    item = leaves.store.item(good)
    assert (item["label"], item["keywords"]) == (good, [good])


@pytest.mark.parametrize("empty", ["", " ", "\u2003 "])
def test_an_empty_label_is_no_label_and_never_a_class(leaves, empty):
    leaves.add(["new"], [[0.1]], [empty])
    leaves.relabel(["a"], [empty])
    assert leaves.store.item("new")["label"] is None
    assert leaves.store.item("a")["label"] is None
    assert leaves.state().voting.classes.tolist() == ["elm", "oak"]
    leaves.set_taxonomy([("tree", "oak"), ("tree", "elm")])
    leaves.relabel(["b"], [empty])
    assert leaves.store.item("b")["label"] is None


@pytest.mark.parametrize("empty", ["", " "])
def test_what_has_to_be_named_is_not_named_nothing(leaves, empty):
    with pytest.raises(InputError, match="An id must not be empty"):
        leaves.add(["new", empty], X[:2])
    with pytest.raises(InputError, match="A node must not be empty"):
        leaves.store.set_taxonomy([("tree", empty)])
    leaves.set_keywords(["a"], [["green", empty]])
    assert leaves.store.item("a")["keywords"] == ["green"]


def test_a_collection_whose_taxonomy_is_refused_is_not_made(tmp_path):
    with pytest.raises(InputError, match="control character"):
        LiveCollection.create(tmp_path / "c", n_columns=1, taxonomy=[("tree", "oak\0"), ("tree", "elm")])
    assert not list(tmp_path.iterdir())


def test_a_label_of_numpy_is_a_plain_string():
    assert [type(label) for label in checked_labels(np.array(["oak", "elm"]), 2)] == [str, str]


# ------------------------------------------------------------------ the command line


def test_an_empty_label_on_the_command_line_takes_the_label_away_and_says_so(leaves):
    path = leaves.store.path
    leaves.close()
    result = run("correct", path, "a", "")
    assert result.exit_code == 0, result.stderr
    assert "'oak' → no label" in result.stdout
    with LiveCollection.open(path) as again:
        assert again.store.item("a")["label"] is None
        assert again.state().voting.classes.tolist() == ["elm", "oak"]
    told = json.loads(run("correct", path, "b", " ", "--json").stdout)
    assert (told["before"]["label"], told["after"]["label"]) == ("oak", None)


@pytest.mark.parametrize("bad", ["oak\nelm", "oak\x1b[31m", LONG], ids=short)
def test_bad_names_on_the_command_line_are_an_error_in_a_line(leaves, bad):
    path = leaves.store.path
    leaves.close()
    for arguments in (("correct", path, "a", bad), ("correct", path, "a", "--keywords", f"green,{bad}")):
        result = run(*arguments)
        assert result.exit_code == 1
        assert len(result.stderr.strip().splitlines()) == 1
        assert len(result.stderr) < 400


# ------------------------------------------------------------------ files


@pytest.mark.parametrize("ending", [".csv", ".npz", ".parquet"])
def test_rows_with_bad_names_are_left_out_of_every_kind_of_file(tmp_path, ending):
    ids = ["a", "b\x07", "c", "d", "e", "f"]
    labels = ["oak", "oak", "el\x85m", LONG, "elm", "elm"]
    words = ["green", "green", "green", "green", f"large;{LONG}", "sm\x02all"]
    path = tmp_path / f"leaves{ending}"
    if ending == ".csv":
        cells = enumerate(zip(ids, labels, words, strict=True))
        lines = [f'"{id}",{row},"{label}","{word}"' for row, (id, label, word) in cells]
        path.write_text("\n".join(["id,width,label,keywords", *lines, ""]), encoding="utf-8")
    elif ending == ".npz":
        np.savez(path, X=X, y=labels, ids=ids, keywords=words)
    else:
        pandas = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
        frame = pandas.DataFrame({"id": ids, "width": X[:, 0], "label": labels, "keywords": words})
        frame.to_parquet(path, index=False)
    source = read_source(path)
    assert [id for batch in source for id in batch.ids] == ["a"]
    reasons = [problem.reason for problem in source.problems]
    assert [reason.split()[1] for reason in reasons] == ["id", "label", "label", "keyword", "keyword"]
    assert all("control character" in reasons[place] for place in (0, 1, 4))
    assert all("4,097 characters" in reasons[place] for place in (2, 3))
    assert all(len(str(problem)) < 300 and str(problem).isprintable() for problem in source.problems)


def test_folders_with_bad_names_are_left_out_and_the_others_are_labels(tmp_path):
    Image = pytest.importorskip("PIL.Image")
    for name in ("tree/oak/1.png", "tree/el\x02m/2.png", "tree/elm/3.png", "tree/ /4.png"):
        (tmp_path / "pictures" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4)).save(tmp_path / "pictures" / name)
    result = run("index", tmp_path / "pictures", "-o", tmp_path / "c", "--describe", "thumbnail", "--no-learn")
    assert result.exit_code == 1
    assert "2 rows left out" in result.stdout
    with LiveCollection.open(tmp_path / "c") as collection:
        assert sorted(collection.items.row_of) == ["tree/elm/3.png", "tree/oak/1.png"]
        assert set(collection.taxonomy.leaves) == {"oak", "elm"}


def test_a_missing_word_in_a_list_of_keywords_is_no_word(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"id": ["a"], "width": [1.0], "keywords": [["green", None, " large ", ""]]})
    parquet.write_table(table, tmp_path / "leaves.parquet")
    (batch,) = read_source(tmp_path / "leaves.parquet")
    assert batch.keywords == [["green", "large"]]


# ------------------------------------------------------------------ the page


@pytest.mark.parametrize("bad", ["oak\0", "oak\nelm", LONG], ids=short)
def test_the_page_takes_no_bad_name(leaves, bad):
    testclient = pytest.importorskip("starlette.testclient")
    pytest.importorskip("multipart")
    from nearsay.web.app import make_app

    client = testclient.TestClient(make_app(leaves, None), "http://localhost", headers={"Origin": "http://localhost"})
    leaves.add(["guess"], [[0.1]], ["oak"], by="machine")
    version = leaves.version
    for path, fields in (
        ("/change.json", {"id": "a", "label": bad}),
        ("/change.json", {"id": "a", "do": "keywords", "keywords": f"green, {bad}"}),
        ("/label-many.json", {"id": "a", "label": bad}),
        ("/review.json", {"id": "guess", "do": "correct", "label": bad}),
    ):
        answer = client.post(path, data=fields)
        assert answer.status_code == 400, (path, fields)
        assert len(answer.json()["error"]) < 300
    assert leaves.version == version
    assert client.post("/change.json", data={"id": "a", "label": "  "}).json()["after"]["label"] is None


def test_rows_that_are_uploaded_under_bad_names_are_left_out(leaves, tmp_path):
    table = tmp_path / "rows.csv"
    table.write_text(f'id,width\nnew 1,0.1\n"new\x022",0.2\n"{LONG}",0.3\n')
    offered = read_rows(leaves, table)
    assert offered.ids == ["new 1"]
    assert [problem.row for problem in offered.problems] == [1, 2]
    assert all(len(problem.id) < 100 for problem in offered.problems)
