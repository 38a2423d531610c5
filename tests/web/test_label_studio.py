"""The backend of Label Studio, by requests that Label Studio 1.23.2 sent (label_studio_requests.json)."""

from __future__ import annotations

import base64
import http.server
import json
import threading
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytest.importorskip("starlette")
pytest.importorskip("multipart")

from nearsay.collection import LiveCollection
from nearsay.collection.answers import Answer, Keyword
from nearsay.collection.export.label_studio_interface import read_interface
from nearsay.collection.indexing import index_source
from nearsay.collection.ingest.text_description import TextDescription
from nearsay.errors import InputError
from nearsay.web.access import ROLES, AccessToken
from nearsay.web.app import make_app
from nearsay.web.schema import check
from tests.served_collections import CheckingClient, as_png, numbers_collection, shade

SENT = json.loads(Path(__file__).with_name("label_studio_requests.json").read_text())
SECRETS = {role: f"secret of {role}".ljust(20, ".") for role in ROLES}
LOST = ("my card was stolen", "someone took my card", "I lost my card", "block my stolen card")
BALANCE = ("how much is in my account", "tell me my balance", "the balance of my account", "money in my account")


@pytest.fixture(scope="module")
def cards_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cards")
    lines = [*(f"{text},lost" for text in LOST), *(f"{text},balance" for text in BALANCE)]
    (folder / "cards.csv").write_text("\n".join(["text,label", *lines]) + "\n")
    index_source(folder / "cards.csv", folder / "cards", description=TextDescription.choose(["words"]))
    return folder / "cards"


@pytest.fixture
def cards(cards_folder):
    with LiveCollection.open(cards_folder) as collection:
        before = collection.version
        yield collection
        while collection.version > before and (last := collection.history()[-1]).undone_by is None:
            if last.kind in ("add", "relabel"):
                collection.undo(last.number, sure=True)
            else:
                break


def studio(collection, role="label", **headers):
    """A client that sends its token as Label Studio does: as the password of its address."""
    app = make_app(collection, [AccessToken("studio", each, secret) for each, secret in SECRETS.items()])
    coded = base64.b64encode(f"anything:{SECRETS[role]}".encode()).decode()
    headers = {"Authorization": f"Basic {coded}", **headers}
    return CheckingClient(app, base_url="http://localhost", headers=headers)


def bearing(client, role="read"):
    return client.get("/label-studio", headers={"Authorization": f"Bearer {SECRETS[role]}"})


def inline(image):
    return "data:image/png;base64," + base64.b64encode(as_png(image)).decode()


def test_what_label_studio_sends_is_answered_and_learned_from(cards):
    client, before = studio(cards), cards.version
    assert client.get("/label-studio/health", headers={"Authorization": ""}).json()["status"] == "UP"
    assert client.post("/label-studio/setup", json=SENT["setup"]).json() == {"model_version": f"nearsay {before}"}
    predicted = client.post("/label-studio/predict", json=SENT["predict"]).json()
    (prediction,) = predicted["results"]
    chosen, why = prediction["result"]
    assert (chosen["from_name"], chosen["to_name"], chosen["type"]) == ("label", "item", "choices")
    assert chosen["value"] == {"choices": ["lost"]}
    (expected,) = cards.label(client.app.state.served.text_description()(["a thief took my card"]))
    assert prediction["score"] == chosen["score"] == pytest.approx(expected.probability)
    assert predicted["model_version"] == prediction["model_version"] == f"nearsay {before}"
    assert why["value"]["text"][0] == expected.text.splitlines()[0]
    assert expected.neighbors[0].id in why["value"]["text"][-1]
    # Somebody submits a wrong label: a new item, which counts at once. The correction is one of the same item.
    created = client.post("/label-studio/webhook", json=SENT["ANNOTATION_CREATED"])
    assert (created.status_code, created.json()["events"]) == (201, [before + 1])
    (event,) = cards.history(before)
    assert (event.who, event.by, event.kind) == ("studio: annotator 1", "person", "add")
    assert client.post("/label-studio/predict", json=SENT["predict"]).json()["model_version"] == f"nearsay {before + 1}"
    assert client.post("/label-studio/webhook", json=SENT["ANNOTATION_UPDATED"]).json()["events"] == [before + 2]
    assert len(cards) == 9
    assert cards.history(before + 1)[0].kind == "relabel"
    # The same again changes nothing, and neither does news that name no label.
    for name in ("ANNOTATION_UPDATED", "ANNOTATIONS_DELETED"):
        assert client.post("/label-studio/webhook", json=SENT[name]).json()["events"] == []
    assert cards.version == before + 2


def test_a_token_may_here_what_it_may_on_the_page(cards):
    version = cards.version
    assert studio(cards, "read").post("/label-studio/predict", json=SENT["predict"]).status_code == 200
    assert studio(cards, "read").post("/label-studio/webhook", json=SENT["ANNOTATION_CREATED"]).status_code == 403
    assert studio(cards, "label").post("/label-studio/webhook", json=SENT["START_TRAINING"]).status_code == 403
    assert cards.version == version
    assert studio(cards, "admin").post("/label-studio/webhook", json=SENT["START_TRAINING"]).status_code == 202


@pytest.mark.parametrize("name", ["Origin", "Referer", "Sec-Fetch-Site", "Cookie"])
def test_a_password_that_a_browser_sends_by_itself_opens_nothing(cards, name):
    sent = studio(cards, **{name: "http://localhost"}).post("/label-studio/webhook", json=SENT["ANNOTATION_CREATED"])
    assert sent.status_code == 403


def test_a_password_opens_nothing_but_the_backend_and_a_wrong_one_not_even_that(cards):
    assert studio(cards, "admin").get("/items").status_code == 403
    for wrong in ("Basic !!!", "Basic " + base64.b64encode(b"no colon").decode(), "Basic"):
        sent = studio(cards, Authorization=wrong).post("/label-studio/predict", json=SENT["predict"])
        assert sent.status_code == 403


def test_a_collection_that_is_open_read_only_predicts_and_learns_nothing(cards_folder):
    with LiveCollection.open(cards_folder, read_only=True) as collection:
        client = studio(collection)
        assert client.post("/label-studio/predict", json=SENT["predict"]).status_code == 200
        refused = client.post("/label-studio/webhook", json=SENT["ANNOTATION_CREATED"])
        assert (refused.status_code, "read-only" in refused.json()["error"]) == (400, True)


def test_the_interface_that_is_offered_holds_every_prediction(shades):
    client = studio(shades)
    config = bearing(client).text
    root = ElementTree.fromstring(config)
    assert {each.get("value") for each in root.find("Choices")} == {"red", "orange", "blue"}
    tasks = [{"data": {"image": inline(shade("red", 50))}}, {"data": {"id": "blue/blue-2.png"}}]
    tasks.append({"data": {"image": "/data/local-files/?d=orange%2Forange-3.png"}})
    got = client.post("/label-studio/predict", json={"tasks": tasks, "label_config": config}).json()["results"]
    assert [each["result"][0]["value"]["choices"] for each in got] == [["red"], ["blue"], ["orange"]]
    assert got[1]["score"] == pytest.approx(shades.label_items(["blue/blue-2.png"])[0].probability)
    assert got[0]["result"][1]["value"] == {"taxonomy": [["anything", "warm", "red"]]}


def test_an_annotated_picture_becomes_an_item_and_an_item_keeps_its_name(shades):
    client = studio(shades)
    config, before, n_items = bearing(client).text, shades.version, len(shades)

    def submit(data, label, **more):
        result = [{"from_name": "label", "to_name": "item", "type": "choices", "value": {"choices": [label]}}]
        body = {"action": "ANNOTATION_CREATED", "annotation": {"task": 1, "result": result, **more}}
        body |= {"task": {"id": 1, "data": data}, "project": {"label_config": config}}
        return client.post("/label-studio/webhook", json=body)

    picture = {"image": inline(shade("blue", 60))}
    assert len(submit(picture, "blue", completed_by={"id": 3, "email": "ada@example.org"}).json()["events"]) == 1
    assert shades.history(before)[0].who == "studio: ada@example.org"
    assert submit(picture, "blue").json()["events"] == []
    assert len(shades) == n_items + 1
    assert submit({"id": "blue/blue-2.png"}, "red").status_code == 201
    assert shades.store.item("blue/blue-2.png")["label"] == "red"
    # A machine's label is confirmed by the same one; what was skipped says nothing.
    assert not shades.store.item("red/red-0.png")["confirmed"]
    assert submit({"id": "red/red-0.png"}, "red", was_cancelled=True).json()["events"] == []
    assert len(submit({"id": "red/red-0.png"}, "red").json()["events"]) == 1
    assert shades.store.item("red/red-0.png")["confirmed"]
    for event in shades.history(before)[::-1]:
        shades.undo(event.number, sure=True)


@contextmanager
def label_studio(picture):
    """A server that gives a picture to those with a key, some of them by way of another address."""
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_POST(self):
            self.answer(json.dumps({"access": "short-lived"}).encode())

        def do_GET(self):
            seen.append((self.path, self.headers.get("Authorization")))
            if self.path.startswith("/moved"):
                self.send_response(302)
                self.send_header("Location", f"http://localhost:{self.server.server_port}/stored.png")
                self.end_headers()
            else:
                self.answer(picture)

        def answer(self, content):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(content)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", seen
        server.shutdown()


def test_pictures_are_read_from_one_label_studio_and_its_key_is_not_sent_on(shades, monkeypatch):
    client = studio(shades)
    config = bearing(client).text

    def predicted(*addresses):
        tasks = [{"data": {"image": address}} for address in addresses]
        sent = client.post("/label-studio/predict", json={"tasks": tasks, "label_config": config})
        return [each["result"][0]["value"]["choices"][0] if each else None for each in sent.json()["results"]]

    with label_studio(as_png(shade("orange", 70))) as (home, seen), label_studio(b"") as (other, visited):
        assert predicted("/data/upload/1/a.png", f"{home}/b.png", "/etc/passwd", "file:///etc/passwd") == [None] * 4
        assert not seen
        monkeypatch.setenv("LABEL_STUDIO_URL", home)
        monkeypatch.setenv("LABEL_STUDIO_API_KEY", "a-key")
        assert predicted("/data/upload/1/a.png", f"{other}/b.png", "file:///etc/passwd") == ["orange", None, None]
        assert not visited
        assert seen == [("/data/upload/1/a.png", "Token a-key")]
        seen.clear()
        monkeypatch.setenv("LABEL_STUDIO_API_KEY", "a.personal.token")
        assert predicted("/moved/c.png") == ["orange"]
        assert seen == [("/moved/c.png", "Bearer short-lived"), ("/stored.png", None)]
        # What is no address harms no other task, and names may hold what addresses do not.
        assert predicted("http://[::1", "/data/upload/an änemone.png", "/a\x7f.png") == [None, "orange", "orange"]


def test_rows_are_asked_by_their_cells_and_choices_of_the_project_alone_are_made(tmp_path):
    with numbers_collection(tmp_path) as heaps:
        config = '<View><Text name="t" value="$a"/><Choices name="c" toName="t"><Choice value="low"/></Choices></View>'
        body = {"tasks": [{"data": {"id": "row 3"}}, {"data": {"0": 1}}, {"data": {}}, 7], "label_config": config}
        first, *rest = studio(heaps).post("/label-studio/predict", json=body).json()["results"]
        assert first["result"][0]["value"] == {"choices": ["low"]}  # though its neighbors say the other one
        assert first["score"] < 0.5
        assert rest == [[], [], []]


def test_an_interface_names_its_controls_and_what_is_none_is_refused():
    node = '<Taxonomy name="n" toName="i"><Choice value="a"><Choice value="b" alias="c"/></Choice></Taxonomy>'
    tags = '<Choices name="t" toName="i" choice="multiple"><Choice value="x"/></Choices>'
    read = read_interface(f'<View><Image name="i" value="$url"/>{node}{tags}</View>')
    assert (read.label, read.field, read.node.choices) == (None, "url", {"a", "c"})
    results = read.results(Answer("1", "c", node="c", node_path=["root", "a", "c"], keywords=[Keyword("x", 1.0)]))
    assert [each["value"] for each in results] == [{"taxonomy": [["a", "c"]]}, {"choices": ["x"]}]
    assert read.submitted(results) == ("c", ["x"])
    for bad in (None, [7], [{}], [{"from_name": "n", "type": "taxonomy", "value": {"taxonomy": [[], 3]}}]):
        assert read.submitted(bad) == (None, [])
    document = f'<!DOCTYPE v [<!ENTITY a "b">]><View>{node}</View>'
    for xml, why in (("", "not XML"), ("<View/>", "nothing"), (tags, "nothing"), (document, "document type")):
        with pytest.raises(InputError, match=why):
            read_interface(xml)
    with pytest.raises(InputError, match="deep"):
        read_interface("<a>" * 200)


def test_what_label_studio_sends_and_gets_is_as_the_document_says(cards):
    """Each request that it sent fits what its route takes, and so does the example of the document, which works."""
    client = studio(cards, "admin")
    routes = {route.path: route for route in client.app.routes}
    for name, sent in SENT.items():
        path = name if name in ("setup", "predict") else "webhook"
        check("body", sent, routes[f"/label-studio/{path}"].takes.body)
    document = client.get("/openapi.json", headers={"Authorization": f"Bearer {SECRETS['admin']}"}).json()["paths"]
    for path in ("setup", "predict", "webhook"):
        example = document[f"/label-studio/{path}"]["post"]["requestBody"]["content"]["application/json"]["example"]
        assert client.post(f"/label-studio/{path}", json=example).status_code < 300, path
    shown = document["/label-studio/predict"]["post"]["responses"]["200"]["content"]["application/json"]["example"]
    check("example", shown, routes["/label-studio/predict"].gives)


@pytest.mark.parametrize("body", [{}, {"tasks": 3}, {"label_config": "<View/>"}, {"action": "ANNOTATION_CREATED"}])
def test_requests_that_make_no_sense_are_refused_with_a_reason(cards, body):
    client = studio(cards)
    for path in ("setup", "predict", "webhook"):
        sent = client.post(f"/label-studio/{path}", json=body)
        assert sent.status_code in (200, 400)
        assert sent.status_code == 200 or sent.json()["error"]
