"""The Python client gives what the collection itself gives, and sends nothing twice that could count twice."""

from __future__ import annotations

import httpx
import numpy as np
import pytest

pytest.importorskip("starlette")

from starlette.testclient import TestClient

from nearsay.client import RemoteCollection, ServerError
from nearsay.collection.indexing import index_source
from nearsay.collection.ingest.text_description import TextDescription
from nearsay.collection.live import LiveCollection
from nearsay.errors import InputError, NotSure
from nearsay.web.access import AccessToken
from nearsay.web.app import make_app
from tests.served_collections import TOKEN, client_of, numbers_collection, picture_collection, served

pytestmark = pytest.mark.usefixtures("few_trees")


@pytest.fixture
def heaps(tmp_path):
    with numbers_collection(tmp_path) as collection:
        collection.relabel(["row 4"], ["other"])
        collection.add(["new 1", "new 2"], np.array([[0.0] * 4, [4.0] * 4]), [None, None])
        yield collection


def through(client):
    """A transport that hands requests to a test client."""

    def answer(request):
        given = client.request(request.method, str(request.url), content=request.read(), headers=dict(request.headers))
        return httpx.Response(given.status_code, content=given.content, headers={"retry-after": "0"})

    return httpx.MockTransport(answer)


def remote_of(collection):
    return RemoteCollection("http://localhost", TOKEN, transport=through(client_of(collection)))


def test_answers_are_those_of_the_collection(heaps):
    X = np.random.default_rng(0).normal(size=(5, 4)).round(3)
    with remote_of(heaps) as remote:
        assert remote.label(X, accuracy=0.8, ids=list("abcde")) == heaps.label(X, accuracy=0.8, ids=list("abcde"))
        assert remote.label_items(["row 3", "new 1"]) == heaps.label_items(["row 3", "new 1"], accuracy=0.9)
        assert remote.likely_mistakes() == heaps.likely_mistakes() != []
        assert remote.near_duplicates() == heaps.near_duplicates()
        assert remote.label_next(1) == heaps.label_next(12)[:1]
        assert (len(remote), remote.n_columns, remote.version) == (len(heaps), 4, heaps.version)
        assert [each["id"] for each in remote.items(label="low")] == [f"row {n}" for n in range(0, 39, 2) if n != 4]
        assert [each["number"] for each in remote.history(2)] == [event.number for event in heaps.history(2)]
        assert remote.about()["name"] == "heaps"


def test_changes_are_those_of_the_collection_one_event_each(heaps):
    with remote_of(heaps) as remote:
        before = heaps.version
        assert remote.add(["a", "b"], [[1.0, 2, 3, 4], [5, 6, 7, 8]], ["low", None], [["sea"], None]) == before + 1
        assert (heaps.store.vectors([42, 43]) == [[1, 2, 3, 4], [5, 6, 7, 8]]).all()
        remote.relabel(["a", "b"], ["x", "y"])
        remote.set_keywords(["b"], [["sky", "sun"]])
        items = [heaps.store.item(id) for id in "ab"]
        assert [(each["label"], each["keywords"]) for each in items] == [("x", ["sea"]), ("y", ["sky", "sun"])]
        remote.relabel(["a"], [None], [None])
        assert heaps.store.item("a")["label"] is heaps.store.item("a")["keywords"] is None
        assert remote.forget(["a", "b"]) == heaps.version == before + 5
        with pytest.raises(InputError, match="'a'"):
            remote.relabel(["row 1", "a"], ["x", "x"])
        assert remote.undo() == before + 6
        assert heaps.store.item("b")["label"] == "y"
        seen = remote.version
        heaps.relabel(["b"], ["theirs"])
        with pytest.raises(ServerError, match="somebody else") as refused:
            remote.relabel(["b"], ["mine"], version=seen)
        assert refused.value.status == 409
        with pytest.raises(NotSure, match="2 items"):
            remote.undo(4)
        assert remote.undo(heaps.version) == remote.confirm(["row 1"]) - 1
        remote.learn()
        assert heaps.history()[-1].kind == "keep"


def test_what_cannot_be_is_said_before_or_by_the_server(heaps):
    with remote_of(heaps) as remote:
        for wrong, why in (
            (lambda: remote.label([[1.0, 2.0]]), "4"),
            (lambda: remote.label([[1.0, 2.0, 3.0, 1e300]]), "1e"),
            (lambda: remote.label(["a text"]), "no texts"),
            (lambda: remote.label([{"age": 3}]), "column"),
            (lambda: remote.label(np.zeros((2, 4)), ids=["a"]), "2 items and 1 ids"),
            (lambda: remote.label_items(["nobody"]), "nobody"),
            (lambda: remote.label(np.zeros((1, 4)), accuracy=7), "from 0 to 1"),
            (lambda: remote.add(["a"], [[1.0]]), "'a' cannot be added"),
            (lambda: remote.add(["a"], np.zeros((2, 4))), "1 ids and 2 items"),
            (lambda: remote.relabel(["row 1"], []), "1 ids and 0 of label"),
            (lambda: remote.relabel(["row 1"], [3]), "label must be a text or null; got 3"),
            (lambda: remote.items(state="odd").__next__(), "odd"),
        ):
            with pytest.raises(InputError, match=why):
                wrong()
        for described in ({}, {"cells": {}}, {"vector": [0.0] * 4, "cells": {"age": 3}}):
            with pytest.raises(InputError, match="cells"):
                remote._send("POST", "/changes", json={"do": "add", "items": [{"id": "a", **described}]})
        assert "a" not in heaps.items.row_of
    for wrong in ("", "here", "ftp://here", 7):
        with pytest.raises(InputError, match="like http"):
            RemoteCollection(wrong)


def test_the_token_says_what_is_allowed(heaps):
    app = make_app(heaps, [AccessToken("ada", "read", "0123456789abcdef")])
    transport = through(TestClient(app, base_url="http://localhost"))
    with RemoteCollection("http://localhost/?token=0123456789abcdef", transport=transport) as remote:
        assert remote.label(np.zeros((1, 4)))[0].label == "low"
        with pytest.raises(ServerError, match="'ada' may read") as refused:
            remote.confirm(["row 1"])
        assert refused.value.status == 403


def test_sentences_cells_and_pictures_are_asked_about_too(tmp_path):
    lines = [
        f"{word} my card {n},card\nwill it rain {word} {n},rain" for n, word in enumerate(("block", "find", "now"))
    ]
    (tmp_path / "said.csv").write_text("\n".join(["text,intent", *lines]))
    index_source(tmp_path / "said.csv", tmp_path / "said.nearsay", description=TextDescription.choose(["words"]))
    with LiveCollection.open(tmp_path / "said.nearsay") as said, remote_of(said) as remote:
        assert [each.label for each in remote.label(["my card", "rain now"])] == ["card", "rain"]
        remote.add(["mine"], ["rain again"], ["rain"])
        assert said.text_of("mine") == "rain again"
    rows = [f"{'gold' if row % 3 else 'basic'},{row % 17},{'stays' if row % 3 else 'leaves'}" for row in range(40)]
    (tmp_path / "plans.csv").write_text("\n".join(["plan,age,label", *rows]))
    index_source(tmp_path / "plans.csv", tmp_path / "plans.nearsay")
    with LiveCollection.open(tmp_path / "plans.nearsay") as plans, remote_of(plans) as remote:
        cells = {"plan": "gold", "age": np.int64(4)}
        expected = plans.label(plans.table.encoded([{"plan": "gold", "age": "4"}]))
        assert remote.label([cells])[0].probabilities == expected[0].probabilities
        remote.add(["mine"], [{"plan": "basic", "age": None}], ["leaves"])
        assert plans.store.item("mine")["details"] == {"plan": "basic"}
        remote.add(["yours"], [{"plan": "gold", "age": 4}], ["stays"])
        assert plans.store.item("yours")["details"] == {"plan": "gold", "age": "4"}
    with picture_collection(tmp_path) as shades, remote_of(shades) as remote:
        path = tmp_path / "pictures" / "blue" / "blue-3.png"
        for accuracy in (None, 0.99):
            assert remote.label([path], accuracy=accuracy)[0].label == "blue"
        assert remote.label([path])[0].path == str(path)


def test_it_works_over_a_socket_and_in_parts(heaps):
    X = np.random.default_rng(1).normal(size=(1030, 4)).round(2)
    with served(heaps) as address, RemoteCollection(f"{address}/?token={TOKEN}") as remote:
        assert [each.label for each in remote.label(X)] == [each.label for each in heaps.label(X)]
    with pytest.raises(ServerError, match="No answer"):
        RemoteCollection(address, retries=0).about()


def failing(*answers):
    """A client whose server gives these answers, and the paths it was sent."""
    sent, left = [], list(answers)

    def answer(request):
        sent.append(request.url.path)
        given = left.pop(0)
        if isinstance(given, type):
            raise given("it broke", request=request)
        return given

    remote = RemoteCollection("http://here", transport=httpx.MockTransport(answer))
    remote.first_pause = 0.0
    return remote, sent


def test_what_reads_is_tried_again_and_a_change_only_if_it_cannot_have_arrived():
    busy = httpx.Response(503, json={"error": "The server is busy."})
    remote, sent = failing(busy, httpx.ReadTimeout, httpx.ConnectError, httpx.Response(200, json={"version": 7}))
    assert (remote.version, len(sent)) == (7, 4)
    remote, sent = failing(*[busy] * 4)
    with pytest.raises(ServerError, match="The server is busy") as failed:
        remote.label_items(["a"])
    assert (failed.value.status, len(sent)) == (503, 4)
    for broken in (busy, httpx.ReadTimeout, httpx.RemoteProtocolError):
        remote, sent = failing(broken, httpx.Response(200, json={"event": 3}))
        with pytest.raises(ServerError):
            remote.confirm(["a"])
        assert len(sent) == 1
    remote, sent = failing(httpx.ConnectError, httpx.Response(200, json={"event": 3}))
    assert (remote.confirm(["a"]), len(sent)) == (3, 2)


def test_answers_that_are_no_json_are_errors_too():
    for answer, why in (
        (httpx.Response(403, text="Wrong token."), "Wrong token"),
        (httpx.Response(502, text="<html>bad gateway"), "bad gateway"),
        (httpx.Response(200, text="<html>a page"), "a page"),
        (httpx.Response(200, json=[1]), r"\[1\]"),
        (httpx.Response(500), "Internal Server Error"),
    ):
        with pytest.raises(ServerError, match=why):
            failing(answer)[0].about()
