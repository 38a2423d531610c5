"""What goes out: nothing lost, nothing half-written, nothing that a spreadsheet or a browser would run."""

from __future__ import annotations

import csv
import json
import time
import xml.etree.ElementTree as ElementTree
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearsay.collection.answers import Answer
from nearsay.collection.export.answer_exports import export_answers, flat, safe_cell, to_frame
from nearsay.collection.export.labeling_tools import fiftyone_files, label_studio_config, label_studio_tasks
from nearsay.collection.export.xmp_sidecars import EMPTY, merged, sidecar_of, words_of
from nearsay.errors import InputError
from nearsay.posterior.evidence.records import record_of

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(
    ["=1+1", "+1", "-1", "@x", "\t=1", "\r", " =1", "<script>", "a;b", "a|b", 'q"', "\u2028", "x\ny", ""]
)
SHARE = st.floats(0, 1)
OPTIONAL_SHARE = st.none() | SHARE
WIDER = st.fixed_dictionaries(
    {"node": TEXT, "node_path": st.lists(TEXT, max_size=2), "node_probability": SHARE, "node_word": TEXT}
)
ANSWERS = st.builds(
    Answer,
    id=TEXT,
    label=st.none() | TEXT,
    probability=OPTIONAL_SHARE,
    record=st.none() | st.builds(record_of, st.integers(0, 9), st.just(0)),
    set_=st.lists(TEXT, max_size=2),
    node=st.none() | TEXT,
    node_path=st.lists(TEXT, max_size=3),
    node_probability=OPTIONAL_SHARE,
    wider=st.none() | WIDER,
    keywords=st.lists(st.tuples(TEXT, SHARE), max_size=3),
    neighbors=st.lists(st.tuples(TEXT, st.none() | TEXT, SHARE, SHARE), max_size=2),
    novelty=OPTIONAL_SHARE,
    twin_of=st.none() | TEXT,
    models=st.none() | TEXT,
    version=st.none() | st.integers(0, 9),
    path=st.none() | TEXT,
    hedges=st.lists(
        st.fixed_dictionaries(
            {
                "accuracy": SHARE,
                "set": st.lists(TEXT, max_size=2),
                "set_probability": SHARE,
                "set_nodes": st.lists(TEXT, max_size=2),
                "node": TEXT,
                "node_word": TEXT,
                "node_path": st.lists(TEXT, max_size=2),
                "node_probability": SHARE,
                "node_record": st.none() | st.just(record_of(3, 2)),
                "wider": st.none() | WIDER,
            }
        ),
        max_size=2,
    ),
    tree=st.lists(
        st.fixed_dictionaries(
            {"node": TEXT, "word": TEXT, "parent": st.none() | TEXT, "depth": st.integers(0, 9), "probability": SHARE}
        ),
        max_size=2,
    ),
)
OWL = Answer(
    *("bird/1.png", "owl", 0.9, {"cases": 40, "right": 38}, ["owl", "wren"], "bird", ["anything", "bird"], 0.99),
    keywords=[("sky & sea", 0.75), ("<night>", 0.5)],
    neighbors=[("n1", "owl", 0.25, 0.75), ("n2", "wren", 0.5, 0.25)],
    novelty=0.3,
    version=7,
    path="bird/1.png",
)


# ------------------------------------------------------------------ tables


@settings(max_examples=40, deadline=None)
@given(answers=st.lists(ANSWERS, max_size=3))
def test_json_lines_and_parquet_give_every_answer_back(tmp_path_factory, answers):
    folder = tmp_path_factory.mktemp("out")
    export_answers(answers, folder / "a.jsonl")
    lines = (folder / "a.jsonl").read_text(encoding="utf-8").splitlines()
    assert [Answer.from_dict(json.loads(line)) for line in lines] == answers
    parquet = pytest.importorskip("pyarrow.parquet")
    export_answers(answers, folder / "a.parquet")
    assert [Answer.from_dict(row) for row in parquet.read_table(folder / "a.parquet").to_pylist()] == answers


@settings(max_examples=40, deadline=None)
@given(answers=st.lists(ANSWERS, max_size=3))
def test_no_cell_of_a_csv_file_starts_as_a_formula_and_the_text_is_still_there(tmp_path_factory, answers):
    path = tmp_path_factory.mktemp("out") / "a.csv"
    export_answers(answers, path)
    with open(path, encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert head == list(flat(Answer("")))
    for answer, row in zip(answers, rows, strict=True):
        for value, cell in zip(flat(answer).values(), row, strict=True):
            written = "" if value is None else str(value)
            assert cell in (written, f"'{written}")
            if isinstance(value, str):
                assert not cell.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r", "\n"))


def test_negative_numbers_stay_numbers():
    assert safe_cell(-0.5) == -0.5
    assert safe_cell("-0.5") == "'-0.5"


def test_a_data_frame_has_a_line_for_every_answer():
    pytest.importorskip("pandas")
    frame = to_frame([OWL, Answer("b")])
    assert frame["id"].tolist() == ["bird/1.png", "b"]
    assert frame["keywords"][0] == [("sky & sea", 0.75), ("<night>", 0.5)]
    assert frame["set"][0] == ["owl", "wren"]
    assert len(to_frame([])) == 0


def test_what_is_no_number_is_null_in_json(tmp_path):
    export_answers([Answer("a", "owl", float("nan"), novelty=float("inf"))], tmp_path / "a.jsonl")
    read = json.loads((tmp_path / "a.jsonl").read_text())
    assert read["probability"] is read["novelty"] is None


def test_the_text_says_what_a_person_would_want_to_know():
    assert OWL.text.splitlines() == [
        "'owl' with probability 0.90.",
        "Of 40 past cases with a probability like this, 38 were right (83 to 99%).",
        "Not sure: owl or wren.",
        "Hedged answer: 'bird' (0.99).",
        "Keywords: sky & sea (0.75), <night> (0.50).",
    ]
    assert "&lt;night&gt;" in OWL._repr_html_()
    assert OWL.rows()[1] == {
        "item": "bird/1.png",
        "answer": "owl",
        "probability": 0.9,
        "rank": 2,
        "id": "n2",
        "label": "wren",
        "distance": 0.5,
        "weight": 0.25,
        "text": None,
    }


# ------------------------------------------------------------------ nothing lost, nothing half-written


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet", "a.json", "folder"])
def test_nothing_is_replaced_unless_asked_and_a_failure_leaves_the_old_file(tmp_path, name):
    format = {"a.json": "label-studio", "folder": "fiftyone"}.get(name)
    path = tmp_path / name
    export_answers([OWL], path, format=format)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    with pytest.raises(InputError, match="exists already"):
        export_answers([Answer("b", "wren", path="b.png")], path, format=format)
    if name in ("a.csv", "a.jsonl"):
        with pytest.raises(InputError, match="UTF-8"):
            export_answers([Answer("z" * 9000), Answer("\udcff")], path, format=format, overwrite=True)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before
    export_answers([Answer("b", "wren", path="b.png")], path, format=format, overwrite=True)
    assert {file: file.read_bytes() for file in before} != before


def test_an_unknown_format_is_refused_with_those_that_are_known(tmp_path):
    with pytest.raises(InputError, match=r"known endings are \.csv"):
        export_answers([OWL], tmp_path / "a.docx")
    with pytest.raises(InputError, match="did you mean 'jsonl'"):
        export_answers([OWL], tmp_path / "a", format="jsnl")


# ------------------------------------------------------------------ sidecars

RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
SUBJECT = "{http://purl.org/dc/elements/1.1/}subject"
TREE = "{http://ns.adobe.com/lightroom/1.0/}hierarchicalSubject"


def wrapped(inner: str, rdf: str = "rdf") -> str:
    space = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
    return f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><{rdf}:RDF xmlns:{rdf}="{space}">{inner}</{rdf}:RDF></x:xmpmeta>'


DC, LR = 'xmlns:dc="http://purl.org/dc/elements/1.1/"', 'xmlns:lr="http://ns.adobe.com/lightroom/1.0/"'
SIDECARS = {
    "darktable": '<?xml version="1.0" encoding="UTF-8"?>\n'
    + wrapped(
        '<rdf:Description rdf:about="" xmlns:darktable="http://darktable.sf.net/" darktable:history_end="2"'
        f' darktable:note="a &gt; b > c&#10;d" {DC} {LR}><darktable:history><rdf:Seq><rdf:li darktable:num="0"/>'
        "</rdf:Seq></darktable:history><dc:subject><rdf:Bag><rdf:li>sky</rdf:li></rdf:Bag></dc:subject>"
        "<lr:hierarchicalSubject><rdf:Bag><rdf:li>places|sky</rdf:li></rdf:Bag></lr:hierarchicalSubject>"
        "<dc:creator><rdf:Seq><rdf:li>Me</rdf:li></rdf:Seq></dc:creator></rdf:Description>"
    ),
    "lightroom": '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>\n'
    + wrapped(
        '<rdf:Description rdf:about="" xmlns:xmp="http://ns.adobe.com/xap/1.0/" xmp:Rating="4" xmp:Label="a > b"/>'
        f'<rdf:Description rdf:about="" {DC}><dc:title><rdf:Alt><rdf:li xml:lang="x-default">Owl</rdf:li></rdf:Alt>'
        "</dc:title><dc:subject><rdf:Bag/></dc:subject></rdf:Description>"
    )
    + '\n<?xpacket end="w"?>',
    "other prefixes": wrapped(
        '<r:Description r:about="" xmlns:d="http://purl.org/dc/elements/1.1/">'
        "<d:subject><r:Seq>\n<r:li> a &amp; b </r:li></r:Seq></d:subject></r:Description>",
        "r",
    ),
    "no description": wrapped(""),
    "comments": wrapped(
        '<!-- <dc:subject> is not here --><rdf:Description rdf:about=""><x:note xmlns:x="urn:x">'
        "<![CDATA[<dc:subject><rdf:Bag></rdf:Bag>]]></x:note></rdf:Description>"
    ),
    "inner": wrapped(
        f'<rdf:Description rdf:about="" {DC}><x:part xmlns:x="urn:x"><rdf:Description><dc:subject><rdf:Bag>'
        "<rdf:li>not mine</rdf:li></rdf:Bag></dc:subject></rdf:Description></x:part></rdf:Description>"
    ),
}


def held(content: bytes, name: str) -> list[str]:
    """The words of a list, as another reader of XML finds them."""
    root = ElementTree.fromstring(content)
    results = root.findall(f"./{RDF}RDF/{RDF}Description/{name}")
    assert len(results) <= 1
    return [(item.text or "").strip() for each in results for item in each.iter(f"{RDF}li")]


def without_lists(content: bytes) -> str:
    """All the rest, in canonical form."""
    root = ElementTree.fromstring(content)
    for description in root.findall(f"./{RDF}RDF/{RDF}Description"):
        for name in (SUBJECT, TREE):
            for each in description.findall(name):
                description.remove(each)
        if not list(description) and set(description.attrib) <= {f"{RDF}about"}:
            root.find(f"./{RDF}RDF").remove(description)
    return ElementTree.canonicalize(ElementTree.tostring(root, encoding="unicode"), strip_text=True)


WORDS = st.lists(TEXT.map(str.strip).filter(bool), max_size=3, unique=True)


@pytest.mark.parametrize("kind", SIDECARS)
@settings(max_examples=40, deadline=None)
@given(words=WORDS, paths=WORDS)
def test_a_sidecar_gets_the_new_words_and_keeps_everything_else(kind, words, paths):
    old = SIDECARS[kind].encode()
    new = merged(old, words, paths)
    for name, given_words in ((SUBJECT, words), (TREE, paths)):
        before = held(old, name)
        clean = list(dict.fromkeys(word for word in map(readable, given_words) if word))
        assert held(new, name) == [*before, *(word for word in clean if word not in before)]
    assert without_lists(new) == without_lists(old)
    assert merged(new, words, paths) == new
    # Nothing is taken out: the old bytes are there, in their order.
    rest = iter(new)
    assert all(byte in rest for byte in old.replace(b"<rdf:Bag/>", b"<rdf:Bag"))


def readable(word: str) -> str:
    """The word as XML can hold it: what it cannot is replaced, and white space is one space."""
    kept = "".join(c if c in "\t\n\r" or (c >= " " and c not in "\ufffe\uffff") else "\ufffd" for c in word)
    return " ".join(kept.split())


def make_picture(path: Path) -> bytes:
    pytest.importorskip("PIL.Image").new("RGB", (4, 4), "red").save(path)
    return path.read_bytes()


def test_a_sidecar_is_written_beside_each_picture_and_the_picture_is_not_touched(tmp_path):
    (tmp_path / "bird").mkdir()
    before = make_picture(tmp_path / "bird" / "1.png")
    answers = [OWL, Answer("x", "owl", path="../x.png"), Answer("y", "owl")]
    done = export_answers(answers, pictures=tmp_path, beside_pictures=True)
    assert done.paths == [tmp_path / "bird" / "1.png.xmp"]
    assert [(problem.row, problem.id, problem.reason) for problem in done.problems] == [
        (1, "x", "the path leaves the folder"),
        (2, "y", "no picture is named"),
    ]
    content = done.paths[0].read_bytes()
    assert held(content, SUBJECT) == ["bird", "sky & sea", "<night>"]
    assert held(content, TREE) == ["bird", "sky & sea", "<night>"]
    assert (tmp_path / "bird" / "1.png").read_bytes() == before
    export_answers([OWL], pictures=tmp_path, beside_pictures=True)
    assert done.paths[0].read_bytes() == content


def test_sidecars_go_into_a_folder_of_their_own_unless_they_are_wanted_beside_the_pictures(tmp_path):
    photos, out = tmp_path / "photos", tmp_path / "out"
    (photos / "bird").mkdir(parents=True)
    make_picture(photos / "bird" / "1.png")
    (photos / "bird" / "2.xmp").write_text(SIDECARS["darktable"])
    before = {path: path.read_bytes() for path in photos.rglob("*") if path.is_file()}
    answers = [OWL, Answer("2", "owl", path="bird/2.png"), Answer("3", "owl", path="gone/3.png")]
    bad = [Answer("x", "owl", path="../x.png"), Answer("y", "owl"), Answer("z", "owl", path="/etc/z.png")]
    done = export_answers([*answers, *bad], out, format="xmp", pictures=photos)
    assert [path.relative_to(out).as_posix() for path in done.paths] == [
        "bird/1.png.xmp",
        "bird/2.xmp",
        "gone/3.png.xmp",
    ]
    assert [problem.id for problem in done.problems] == ["x", "y", "z"]
    # What the picture's own sidecar says comes along, so the tree can be copied over the pictures.
    assert held((out / "bird" / "2.xmp").read_bytes(), SUBJECT) == ["sky", "owl"]
    assert b"darktable:history_end" in (out / "bird" / "2.xmp").read_bytes()
    assert {path: path.read_bytes() for path in photos.rglob("*") if path.is_file()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "photos"]
    with pytest.raises(InputError, match="out exists already"):
        export_answers(answers, out, format="xmp", pictures=photos)
    again = [Answer("2", "wren", path="bird/2.png"), Answer("2 too", "tit", path="bird/2.png")]
    export_answers(again, out, format="xmp", pictures=photos, overwrite=True)
    assert held((out / "bird" / "2.xmp").read_bytes(), SUBJECT) == ["sky", "wren", "tit"]


def test_where_sidecars_go_has_to_be_said(tmp_path):
    make_picture(tmp_path / "1.png")
    answers = [Answer("1", "owl", path="1.png")]
    with pytest.raises(InputError, match="one file for each picture"):
        export_answers(answers, tmp_path / "all.xmp")
    with pytest.raises(InputError, match="is the folder of the pictures"):
        export_answers(answers, tmp_path, format="xmp", pictures=tmp_path, overwrite=True)
    with pytest.raises(InputError, match="leave path and format out"):
        export_answers(answers, tmp_path / "out", pictures=tmp_path, beside_pictures=True)
    with pytest.raises(InputError, match="pictures="):
        export_answers(answers, beside_pictures=True)
    with pytest.raises(InputError, match="Pass a path, or beside_pictures"):
        export_answers(answers)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="folder"):
        export_answers(answers, tmp_path / "file", format="xmp", overwrite=True)
    assert not list(tmp_path.glob("**/*.xmp"))


def test_a_sidecar_of_the_short_name_is_added_to(tmp_path):
    make_picture(tmp_path / "1.png")
    (tmp_path / "1.xmp").write_text(SIDECARS["darktable"])
    assert sidecar_of(tmp_path / "1.png") == tmp_path / "1.xmp"
    export_answers([Answer("1", "owl", path="1.png")], pictures=tmp_path, beside_pictures=True)
    assert held((tmp_path / "1.xmp").read_bytes(), SUBJECT) == ["sky", "owl"]
    assert not (tmp_path / "1.png.xmp").exists()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("<x:xmpmeta", "damaged"),
        ("<a/>", "no XMP"),
        ('<!DOCTYPE x [<!ENTITY e "boom">]>' + wrapped(""), "document type"),
        ('<?xml version="1.0" encoding="ISO-8859-1"?>' + wrapped(""), "ISO-8859-1"),
        (wrapped(f"<rdf:Description {DC}><dc:subject>sky</dc:subject></rdf:Description>"), "not a list"),
        ("\udcff", "not UTF-8"),
    ],
)
def test_a_sidecar_that_cannot_be_added_to_is_left_alone_and_reported(tmp_path, content, reason):
    make_picture(tmp_path / "1.png")
    sidecar = tmp_path / "1.png.xmp"
    sidecar.write_bytes(content.encode("utf-8", "surrogateescape"))
    done = export_answers([Answer("1", "owl", path="1.png")], pictures=tmp_path, beside_pictures=True)
    assert reason in done.problems[0].reason
    assert done.paths == []
    assert sidecar.read_bytes() == content.encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("there", [True, False])
def test_a_sidecar_that_is_a_link_out_of_the_folder_is_not_followed(tmp_path, there):
    folder = tmp_path / "photos"
    folder.mkdir()
    make_picture(folder / "1.png")
    outside = tmp_path / "outside.xmp"
    if there:
        outside.write_text(SIDECARS["darktable"])
    (folder / "1.png.xmp").symlink_to(outside)
    done = export_answers([Answer("1", "owl", path="1.png")], pictures=folder, beside_pictures=True)
    assert "link that leaves" in done.problems[0].reason
    done = export_answers([Answer("1", "owl", path="1.png")], tmp_path / "out", format="xmp", pictures=folder)
    assert "link that leaves" in done.problems[0].reason
    assert outside.exists() == there
    assert not there or outside.read_text() == SIDECARS["darktable"]


def test_the_root_of_the_tree_is_not_written_and_a_bar_in_a_name_does_not_make_a_path():
    assert words_of(Answer("a", "owl", node="anything", node_path=["anything"])) == ([], [])
    tree = Answer("a", node="x|y", node_path=["anything", "b", "x|y"])
    assert words_of(tree) == (["b", "x|y"], ["b|x/y"])


# ------------------------------------------------------------------ labeling tools


def test_label_studio_finds_every_value_in_the_interface_made_for_it():
    answers = [OWL, Answer('"<b>', "wren", 0.5, path="w.png", node="wren", node_path=["anything", "<b> & 'c'", "wren"])]
    tasks = label_studio_tasks(answers)
    config = ElementTree.fromstring(label_studio_config(answers, ["heron"]))
    controls = {each.get("name"): each for each in config if each.get("toName") == "item"}
    assert config.find("Image").get("name") == "item"
    for task in tasks:
        assert task["data"]["image"].startswith("/data/local-files/?d=")
        (prediction,) = task["predictions"]
        for result in prediction["result"]:
            control = controls[result["from_name"]]
            assert control.tag.lower() == result["type"]
            values = result["value"][result["type"]]
            if result["type"] == "taxonomy":
                for path in values:
                    below = control
                    for name in path:
                        (below,) = (each for each in below if each.get("value") == name)
            else:
                assert set(values) <= {each.get("value") for each in control}
    assert "heron" in {each.get("value") for each in controls["label"]}
    assert tasks[0]["predictions"][0]["score"] == 0.9
    assert tasks[0]["predictions"][0]["model_version"] == "nearsay 7"


def test_items_without_pictures_are_shown_to_label_studio_by_their_ids():
    answers = [OWL, Answer("no picture", "wren")]
    assert label_studio_tasks(answers)[1]["data"] == {"text": "no picture", "id": "no picture"}
    assert ElementTree.fromstring(label_studio_config(answers)).find("Text").get("value") == "$text"


def test_fiftyone_gets_a_label_and_a_path_for_every_picture(tmp_path):
    answers = [OWL, Answer("b", "wren", 0.5, path="a.b.png"), Answer("c", "wren"), Answer("d", path="d.png")]
    export_answers(answers, tmp_path / "out", format="fiftyone", pictures=tmp_path)
    labels = json.loads((tmp_path / "out" / "labels.json").read_text())["labels"]
    where = json.loads((tmp_path / "out" / "data.json").read_text())
    assert where == {"0": str(tmp_path / "bird" / "1.png"), "1": str(tmp_path / "a.b.png")}
    assert labels.keys() == where.keys()
    assert not any("." in key for key in labels)
    assert labels["0"]["label"] == "owl"
    assert labels["0"]["attributes"]["keywords"] == ["sky & sea", "<night>"]
    assert fiftyone_files([], Path())["labels.json"]["labels"] == {}
    assert np.isclose(labels["1"]["confidence"], 0.5)


def test_a_sidecar_of_any_shape_is_read_or_refused_in_linear_time():
    deep = b"<a>" * 16_000 + b"</a>" * 16_000
    text = b"&#97;\n" * 80_000
    many = b"<a/>" * 200_000
    long = b'<a xmlns="%s">' % (b"x" * 100_000) + b"<b/>" * 100_000 + b"</a>"
    items = b"<rdf:li>x</rdf:li>" * 20_000
    start = time.process_time()
    for inside, refused in ((deep, "deep"), (text, None), (many, None), (long, "namespace"), (b" " * 2**22, "4 MiB")):
        sidecar = EMPTY.replace(b"  </rdf:Description>", inside + b"  </rdf:Description>")
        with pytest.raises(InputError, match=refused) if refused else nullcontext():
            assert b"<rdf:li>owl</rdf:li>" in merged(sidecar, ["owl"], [])
    listed = EMPTY.replace(
        b"  </rdf:Description>",
        b'<dc:subject xmlns:dc="http://purl.org/dc/elements/1.1/"><rdf:Bag>%s<rdf:li>%s</rdf:li></rdf:Bag></dc:subject>'
        b"</rdf:Description>" % (items, text),
    )
    assert merged(listed, ["x"], []) == listed
    assert time.process_time() - start < 5  # before there were limits, 80 kB of depth alone took 7 seconds
