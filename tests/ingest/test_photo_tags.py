"""Tags and ratings that photo managers wrote: read from sidecars and pictures, and written without loss."""

from __future__ import annotations

import random
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from nearsay.collection.answers import Answer
from nearsay.collection.export.item_exports import export_items
from nearsay.collection.export.xmp_sidecars import EMPTY, merged, words_of
from nearsay.collection.indexing import index_source
from nearsay.collection.ingest.image_description import Description
from nearsay.collection.ingest.sources import read_source
from nearsay.collection.live import LiveCollection
from nearsay.data import photo_tags as reading
from nearsay.data.images import image_endings, other_files
from nearsay.data.photo_tags import PhotoTags, photo_tags
from nearsay.data.xmp import DIGIKAM_TREE, FLAT, TREE, read_xmp
from nearsay.errors import InputError
from tests.reference import photo_tags as reference

HEAD = (
    '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
    '<rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:xmp="http://ns.adobe.com/xap/1.0/"'
    ' xmlns:lr="http://ns.adobe.com/lightroom/1.0/" xmlns:digiKam="http://www.digikam.org/ns/1.0/"'
)
TAIL = "</rdf:Description></rdf:RDF></x:xmpmeta>"
LIGHTROOM = (
    f'{HEAD} xmp:Rating="4"><dc:subject><rdf:Bag><rdf:li>owl</rdf:li><rdf:li>bird</rdf:li><rdf:li>night</rdf:li>'
    "</rdf:Bag></dc:subject><lr:hierarchicalSubject><rdf:Bag><rdf:li>bird</rdf:li><rdf:li>bird|owl</rdf:li>"
    f"<rdf:li>night</rdf:li></rdf:Bag></lr:hierarchicalSubject>{TAIL}"
)
DIGIKAM = (
    f"{HEAD}><xmp:Rating>2</xmp:Rating><digiKam:TagsList><rdf:Seq><rdf:li>bird/owl</rdf:li><rdf:li>night</rdf:li>"
    f"</rdf:Seq></digiKam:TagsList>{TAIL}"
)
WORD = st.text("ab|/ é<&", min_size=1, max_size=4).map(lambda word: " ".join(word.split())).filter(bool)


def pixels(color: str = "red") -> Image.Image:
    return Image.new("RGB", (24, 16), color)


def iptc(*words: bytes, utf_8: bool = True) -> bytes:
    """The Photoshop segment of a JPEG with keywords of IPTC."""
    records = b"\x1c\x01\x5a\x00\x03\x1b%G" if utf_8 else b""
    records += b"".join(b"\x1c\x02\x19" + struct.pack(">H", len(word)) + word for word in words)
    block = b"8BIM\x04\x04\x00\x00" + struct.pack(">I", len(records)) + records + b"\0" * (len(records) % 2)
    content = b"Photoshop 3.0\0" + block
    return b"\xff\xed" + struct.pack(">H", len(content) + 2) + content


def with_segment(path: Path, segment: bytes) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:2] + segment + content[2:])


@given(flat=st.lists(WORD, max_size=4), trees=st.lists(WORD, max_size=3), of_digikam=st.lists(WORD, max_size=3))
def test_lists_of_words_are_read_as_a_plain_xml_parser_reads_them(flat, trees, of_digikam):
    from xml.sax.saxutils import escape

    def items(words: list[str]) -> str:
        return "<rdf:Bag>" + "".join(f"<rdf:li>{escape(word)}</rdf:li>" for word in words) + "</rdf:Bag>"

    content = (
        f"{HEAD}><dc:subject>{items(flat)}</dc:subject><lr:hierarchicalSubject>{items(trees)}</lr:hierarchicalSubject>"
        f"<digiKam:TagsList>{items(of_digikam)}</digiKam:TagsList>{TAIL}"
    ).encode()
    xmp = read_xmp(content)
    for what, name in ((FLAT, "subject"), (TREE, "lightroom"), (DIGIKAM_TREE, "digikam")):
        assert xmp.words(what) == reference.words_of(content, name)


@given(path=st.lists(WORD, max_size=3, unique=True), words=st.lists(WORD, max_size=3, unique=True))
def test_what_is_exported_comes_back_as_the_same_label_and_keywords(path, words):
    words = [word for word in words if path != [word]]
    nodes = {"node": path[-1], "node_path": ["anything", *path]} if path else {}
    answer = Answer("a", keywords=[(word, 1.0) for word in words], **nodes)
    subjects, paths = words_of(answer)
    # Steps that look like the path before them are written without it, as a tree that names nodes by path has them.
    if any(step.startswith(f"{above}/") for above, step in pairwise(path)):
        return
    # Two names that differ in the sign between levels only are one in a tree.
    every = [*path, *words]
    if len({word.replace("|", "/") for word in every}) < len(set(every)):
        return
    tags = reading._of_xmp(merged(EMPTY, subjects, paths))
    assert list(tags.label_path) == path
    # A keyword that is a step of the path, too, is written once, with the path.
    in_order = set(path).isdisjoint(words)
    assert tags.keywords == words if in_order else sorted(tags.keywords) == sorted(words)


@pytest.mark.parametrize(("content", "rating"), [(LIGHTROOM, 4), (DIGIKAM, 2)])
@pytest.mark.parametrize("name", ["owl.jpg.xmp", "owl.xmp"])
def test_sidecars_of_lightroom_and_digikam_give_a_tree_keywords_and_stars(tmp_path, content, rating, name):
    pixels().save(tmp_path / "owl.jpg")
    (tmp_path / name).write_text(content)
    tags = photo_tags(tmp_path / "owl.jpg")
    assert (tags.label_path, tags.rating) == (("bird", "owl"), rating)
    assert set(tags.keywords) - {"bird"} == {"night"}


@pytest.mark.parametrize("ending", [".jpg", ".png", ".webp", ".tif"])
def test_tags_within_a_picture_are_read(tmp_path, ending):
    path = tmp_path / f"owl{ending}"
    options: dict[str, Any] = {"xmp": LIGHTROOM.encode()}
    if ending == ".png":
        from PIL.PngImagePlugin import PngInfo

        info = PngInfo()
        info.add_itxt("XML:com.adobe.xmp", LIGHTROOM)
        options = {"pnginfo": info}
    elif ending == ".tif":
        options = {"tiffinfo": {700: LIGHTROOM.encode()}}
    pixels().save(path, **options)
    tags = photo_tags(path)
    assert (tags.label_path, tags.rating, tags.words) == (("bird", "owl"), 4, ("owl", "bird", "night"))


def test_keywords_of_iptc_count_where_xmp_has_none(tmp_path):
    path = tmp_path / "owl.jpg"
    pixels().save(path)
    with_segment(path, iptc("Käuzchen".encode(), b"night"))
    assert photo_tags(path).words == ("Käuzchen", "night")
    with_segment(path, iptc("Käuzchen".encode("latin-1"), utf_8=False))
    (tmp_path / "owl.xmp").write_text(LIGHTROOM)
    assert photo_tags(path).words == ("owl", "bird", "night")


def test_several_tags_of_one_level_are_keywords_and_no_label():
    assert PhotoTags(("owl", "night"), (("owl",), ("night",))).label_path == ()
    assert PhotoTags(("owl",)).label_path == ("owl",)


def folder_of(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    (folder / "a").mkdir(parents=True)
    for number, color in enumerate(["red", "blue", "green", "white"]):
        pixels(color).save(folder / "a" / f"{number}.png")
    (folder / "a" / "0.png.xmp").write_text(LIGHTROOM)
    (folder / "a" / "1.xmp").write_text(LIGHTROOM.replace("owl", "wren"))
    (folder / "a" / "2.png.xmp").write_text(DIGIKAM)
    (folder / "a" / "drawing.svg").write_text("<svg/>")
    return folder


def test_a_folder_is_labeled_by_its_tags_or_by_its_folders(tmp_path):
    folder = folder_of(tmp_path)
    by_folder = read_source(folder)
    assert "1 file is not a picture: 1 .svg" in by_folder.chosen
    assert "tags of 3 pictures are their keywords" in by_folder.chosen
    (batch,) = list(by_folder)
    assert batch.labels == ["a"] * 4
    assert batch.keywords == [["owl", "bird", "night"], ["wren", "bird", "night"], ["owl", "night"], None]
    assert [details.get("rating") for details in batch.details] == ["4", "4", "2", None]
    by_tags = read_source(folder, labels_from="tags")
    (batch,) = list(by_tags)
    assert batch.labels == ["owl", "wren", "owl", None]
    assert by_tags.taxonomy.path("wren") == ("anything", "bird", "wren")
    with pytest.raises(InputError, match="not by column"):
        read_source(folder, labels_from="column")
    with pytest.raises(InputError, match="tags"):
        read_source(folder, labels_from="tag")


def test_labels_keywords_and_trees_survive_an_export_and_a_new_index(tmp_path):
    folder = folder_of(tmp_path)
    thumbnails = Description.choose(["thumbnail"])
    index_source(folder, tmp_path / "first", labels_from="tags", description=thumbnails, learn=False)
    with LiveCollection.open(tmp_path / "first") as first:
        first.relabel(["a/3.png"], ["owl"], [["snow", "a|b"]])
        kept = first.to_frame()
        export_items(first, beside_pictures=True)
    assert "bird/owl" in reference.words_of((folder / "a" / "2.png.xmp").read_bytes(), "digikam")
    index_source(folder, tmp_path / "again", labels_from="tags", description=thumbnails, learn=False)
    with LiveCollection.open(tmp_path / "again") as again:
        frame = again.to_frame()
        assert frame[["id", "label"]].equals(kept[["id", "label"]])
        assert frame["keywords"].tolist() == kept["keywords"].tolist()
        assert set(again.taxonomy.nodes) == {"anything", "bird", "owl", "wren"}


def damaged(content: bytes, rng: random.Random) -> bytes:
    ways = [
        lambda: content[: rng.randrange(len(content))],
        lambda: content[: (at := rng.randrange(len(content)))] + bytes([rng.randrange(256)]) + content[at + 1 :],
        lambda: content[: (at := rng.randrange(len(content)))] + rng.randbytes(20) + content[at:],
    ]
    return rng.choice(ways)()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_a_damaged_sidecar_is_named_and_the_picture_stays(tmp_path, seed):
    folder, rng = folder_of(tmp_path), random.Random(seed)
    (folder / "a" / "0.png.xmp").write_bytes(damaged(LIGHTROOM.encode(), rng))
    path = folder / "a" / "3.jpg"
    pixels().save(path, xmp=LIGHTROOM.encode())
    with_segment(path, damaged(iptc(b"owl", b"night"), rng))
    source = read_source(folder, labels_from="tags")
    (batch,) = list(source)
    assert len(batch) + len(source.problems) == 5
    assert {"a/0.png", "a/1.png", "a/2.png", "a/3.png"} <= set(batch.ids)
    assert batch.labels[batch.ids.index("a/1.png")] == "wren"


XML = LIGHTROOM.encode()
BAD_SIDECARS = {
    "empty": (b"", "no element"),
    "blank": (b"  \n", "no element"),
    "text": (b"hello", "syntax error"),
    "a picture": (b"\x89PNG\r\n\x1a\n", "not UTF-8"),
    "cut in a tag": (XML[:100], "unclosed token"),
    "cut in the middle": (XML[: len(XML) // 2], "damaged"),
    "cut at the end": (XML[:-20], "unclosed token"),
    "two documents": (XML + b"<a/>", "junk after"),
    "bytes behind it": (XML + b"junk", "junk after"),
    "a document type": (b'<!DOCTYPE x [<!ENTITY a "b">]>' + XML, "document type"),
    "an unknown entity": (XML.replace(b"owl", b"&owl;"), "undefined entity"),
    "an open entity": (XML.replace(b"owl", b"o&wl"), "invalid token"),
    "an open tag": (XML.replace(b"owl", b"o<wl"), "invalid token"),
    "NUL": (XML.replace(b"owl", b"o\0wl"), "invalid token"),
    "a control character": (XML.replace(b"owl", b"o\x07wl"), "invalid token"),
    "a character of number 0": (XML.replace(b"owl", b"&#0;"), "invalid character"),
    "a character beyond unicode": (XML.replace(b"owl", b"&#x110000;"), "invalid character"),
    "latin-1": (XML.replace(b"owl", b"o\xe9l"), "not UTF-8"),
    "UTF-16": (LIGHTROOM.encode("utf-16"), "not UTF-8"),
    "another encoding": (b'<?xml version="1.0" encoding="latin-1"?>' + XML, "written in latin-1"),
    "no RDF": (b"<x/>", "holds no rdf:RDF"),
    "too deep": (b"<a>" * 200, "deep in one another"),
    "too large": (XML + b" " * 2**23, "more than 4 MiB"),
    "a wrong end": (XML.replace(b"</rdf:RDF>", b"</rdf:rdf>"), "mismatched tag"),
    "an unknown prefix": (b"<rdf:RDF/>", "unbound prefix"),
    "an attribute twice": (XML.replace(b"<rdf:RDF", b'<rdf:RDF a="1" a="2"', 1), "duplicate attribute"),
    "an attribute without quotes": (XML.replace(b"<rdf:RDF", b"<rdf:RDF a=1", 1), "invalid token"),
    "a long namespace": (b'<a xmlns="' + b"x" * 5000 + b'">' + XML + b"</a>", "namespace of more than"),
}


@pytest.mark.parametrize("kind", BAD_SIDECARS)
def test_damage_of_a_sidecar_is_named_and_all_pictures_and_other_tags_stay(tmp_path, kind):
    content, reason = BAD_SIDECARS[kind]
    for name in "abc":
        pixels().save(tmp_path / f"{name}.png")
        (tmp_path / f"{name}.xmp").write_bytes(content if name == "b" else XML)
    source = read_source(tmp_path, labels_from="tags")
    (batch,) = list(source)
    assert (batch.ids, batch.labels) == (["a.png", "b.png", "c.png"], ["owl", None, "owl"])
    (told,) = [sentence for sentence in source.chosen if "cannot be read" in sentence]
    assert told.startswith("1 picture has tags that cannot be read: 'b.png' (the sidecar ")
    assert reason in told


def test_a_sidecar_that_is_a_link_is_not_read(tmp_path):
    (tmp_path / "photos").mkdir()
    pixels().save(tmp_path / "photos" / "owl.png")
    (tmp_path / "secret.xmp").write_text(LIGHTROOM)
    (tmp_path / "photos" / "owl.xmp").symlink_to(tmp_path / "secret.xmp")
    assert photo_tags(tmp_path / "photos" / "owl.png") == PhotoTags()


def test_files_that_are_no_pictures_are_counted_by_kind(tmp_path):
    for name in ("a.svg", "b.SVG", "c.txt", ".hidden", "d.png", "d.xmp"):
        (tmp_path / name).touch()
    assert other_files(tmp_path) == "3 files are not pictures: 2 .svg, 1 .txt"
    if ".heic" not in image_endings():
        (tmp_path / "e.heic").touch()
        assert 'pip install "nearsay[heic]"' in other_files(tmp_path)


@pytest.mark.parametrize("ending", [".avif", ".heic"])
def test_newer_formats_are_read_where_they_are_installed(tmp_path, ending):
    if ending not in image_endings():
        pytest.skip(f"{ending} needs the extra heic")
    from nearsay.data.images import read_image

    pixels("blue").save(tmp_path / f"owl{ending}", xmp=LIGHTROOM.encode(), quality=95)
    assert abs(read_image(tmp_path / f"owl{ending}")[8, 8].astype(int) - [0, 0, 255]).max() < 12
    assert photo_tags(tmp_path / f"owl{ending}").label_path == ("bird", "owl")
