"""The page of a collection of texts: a text is asked, neighbors are quoted, shared words marked, nothing is run."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette")
pytest.importorskip("multipart")

from nearsay.collection import LiveCollection
from nearsay.collection.indexing import index_source
from nearsay.collection.ingest.text_description import TextDescription
from tests.served_collections import EVIL, client_of


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    cards = [f"block my {kind} card" for kind in ("red", "blue", "new", EVIL.replace('"', "'"))]
    rains = [f"will it rain {day}" for day in ("today", "tomorrow", "tonight", "again")]
    lines = [*(f"{text},card" for text in cards), *(f"{text},rain" for text in rains)]
    (folder / "t.csv").write_text("\n".join(["text,intent", *lines]) + "\n")
    index_source(folder / "t.csv", folder / "t", description=TextDescription.choose(["words"]))
    with LiveCollection.open(folder / "t") as collection, client_of(collection) as client:
        yield client


def test_a_text_is_asked_and_its_neighbors_are_quoted_with_shared_words_marked(client):
    page = client.post("/ask", data={"text": "please block the card"})
    assert page.status_code == 200
    assert '<q class="text">' in page.text
    assert "<mark>block</mark>" in page.text
    assert "It is <bdi>card</bdi>: add it" in page.text
    assert EVIL not in page.text
    assert "<script>alert" not in page.text
    answer = client.post("/ask.json", data={"text": "please block the card"}).json()["answer"]
    assert answer["label"] == "card"
    assert answer["neighbors"][0]["text"].startswith("block my")


def test_what_is_no_text_is_refused(client):
    assert client.post("/ask.json", data={"text": "a\0b"}).status_code == 400
    assert client.post("/ask.json", data={"text": " "}).status_code == 400
    assert client.post("/ask.json", data={"text": "x" * 200_000}).status_code == 400


@pytest.mark.parametrize("path", ["/items", "/ask?id=t:0", "/duplicates", "/mistakes", "/next", "/review", "/batch"])
def test_every_page_of_texts_can_be_shown(client, path):
    page = client.get(path)
    assert page.status_code in (200, 202), page.text
    assert "<script>alert" not in page.text
    if path in ("/items", "/ask?id=t:0"):
        assert "block my red card" in page.text.replace("<mark>", "").replace("</mark>", "")


def test_a_batch_of_texts_is_answered_and_reviewed(client):
    files = {"files": ("new.txt", b"block this card\nwill it rain soon\n")}
    page = client.post("/batch", data={"keep": "no"}, files=files)
    assert page.status_code == 200
    assert "this" in page.text
    assert "soon" in page.text
