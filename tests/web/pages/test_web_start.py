"""The first page: what the collection is, what to do next, and one box for a question; the same without labels."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from nearsay.collection.live import LiveCollection
from nearsay.web.content.served_collection import headline
from tests.served_collections import as_png, client_of, shade
from tests.web.visits import finished

PAGES = (
    "/", "/ask", "/items", "/items?differs=1", "/items?below=0.5", "/map", "/map?color=groups", "/groups", "/next",
    "/mistakes", "/duplicates", "/batch", "/review", "/how-good", "/history",
)  # fmt: skip


@pytest.fixture
def unlabeled(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 3))
    with LiveCollection.create(tmp_path / "nothing.nearsay", 3) as collection:
        collection.add([f"row {number}" for number in range(30)], X)
        yield collection


def all_of(client, address):
    """The data of a page when nothing is being counted any more."""
    for _ in range(100):
        data = client.get(address).json()
        if not data["counting"]:
            return data
    raise AssertionError("never done")


def test_it_says_what_the_collection_is_and_what_to_do(shades):
    client = client_of(shades)
    data = all_of(client, "/ask.json")
    assert data["figures"]["n_items"] == len(shades) == 36
    assert (data["figures"]["n_waiting"], data["figures"]["n_classes"]) == (1, 3)
    todo = {each["page"]: each["what"] for each in data["todo"]}
    assert todo["/review"] == "Review 1 label"
    mistakes, pairs = shades.likely_mistakes(500), shades.near_duplicates()
    assert ("/mistakes" in todo, "/duplicates" in todo) == (bool(mistakes), bool(pairs))
    assert {each["label"]: each["n_items"] for each in data["strip"]} == {"red": 12, "orange": 12, "blue": 12}
    assert all(item["label"] == each["label"] for each in data["strip"] for item in each["items"])
    record = data["accuracy"]
    assert record["low"] <= record["right"] / record["cases"] <= record["high"]
    page = client.get("/").text
    assert "Review 1 label" in page
    assert f"{100 * record['low']:.0f}–{100 * record['high']:.0f} %" in page


def test_typical_items_are_the_nearest_to_the_mean_of_their_class(shades):
    for each in all_of(client_of(shades), "/ask.json")["strip"]:
        rows = [row for id, row in shades.items.row_of.items() if shades.store.item(id)["label"] == each["label"]]
        X = shades.store.vectors(sorted(rows)).astype(float)
        far = {row: float(((x - X.mean(axis=0)) ** 2).sum()) for row, x in zip(sorted(rows), X, strict=True)}
        assert [item["row"] for item in each["items"]] == sorted(far, key=lambda row: far[row])[: len(each["items"])]


def test_an_item_is_found_by_a_part_of_its_name(shades):
    client = client_of(shades)
    one = client.post("/ask", data={"text": "blue-11"}, follow_redirects=False)
    assert parse_qs(urlsplit(one.headers["location"]).query) == {"id": ["blue/blue-11.png"]}
    several = client.post("/ask", data={"text": "blue-1"}, follow_redirects=False)
    assert several.headers["location"] == "/items?name=blue-1"
    named = client.get("/items.json?name=blue-1").json()
    assert {item["id"] for item in named["items"]} == {id for id in shades.items.row_of if "blue-1" in id}
    nothing = client.post("/ask.json", data={"text": "zebra"})
    assert nothing.status_code == 400
    assert "No item is called like 'zebra'" in nothing.json()["error"]


def test_every_page_of_a_collection_without_labels_can_be_used(unlabeled):
    client = client_of(unlabeled)
    for path in PAGES:
        page = client.get(path)
        assert page.status_code in (200, 202), (path, page.text)
        assert 'aria-label="Sections"' in page.text
    assert [each["page"] for each in client.get("/ask.json").json()["todo"]] == ["/next", "/groups"]
    for path in ("/ask?id=row 3", "/items?differs=1", "/mistakes", "/how-good"):
        page = client.get(path).text
        assert re.search(r'<a class="button" href="/next">', page), path


def test_every_page_of_an_empty_collection_can_be_shown(tmp_path):
    with LiveCollection.create(tmp_path / "nothing.nearsay", 3) as collection:
        client = client_of(collection)
        for path in PAGES:
            assert client.get(path).status_code in (200, 202), path
        assert "nearsay index" in client.get("/").text


def test_an_error_keeps_the_menu(shades):
    client = client_of(shades)
    for path, status in (("/ask?id=nobody", 400), ("/nowhere", 404), ("/items?below=2", 400)):
        page = client.get(path)
        assert page.status_code == status
        assert 'aria-label="Sections"' in page.text
        assert "shades" in page.text


def test_the_first_page_and_how_good_say_the_same_accuracy(tmp_path):
    """The only item of a class, and a sample of cases, make what was learned differ from what is judged."""
    X = np.random.default_rng(0).normal(size=(40, 2)) + 3 * (np.arange(40) % 2)[:, None]
    labels = [*(["low", "high"] * 20)[:38], "alone", "single"]
    with LiveCollection.create(tmp_path / "c", 2) as collection:
        collection.add([f"i{row}" for row in range(40)], X, labels)
        collection.learn()
        client = client_of(collection)
        learned = collection.learned.record
        assert all_of(client, "/ask.json")["accuracy"] == {**learned, "of": 40}
        assert f"in {learned['cases']} of 40 past cases" in client.get("/").text
        client.app.state.judgements.patience = 60.0
        judged = client.get("/how-good.json").json()["judged"]
        shown = all_of(client, "/ask.json")["accuracy"]
        assert (shown["right"], shown["cases"], shown["of"]) == (judged["n_right"], judged["n_items"], 40)
        assert shown["right"] / shown["cases"] == judged["accuracy"] != learned["right"] / learned["cases"]
        assert [shown["low"], shown["high"]] == [round(end, 3) for end in judged["accuracy_range"]]
        assert "in 40 past cases" in client.get("/").text
        collection.add(["late"], [[0.0, 0.0]], ["low"])
        collection.learn()  # newer than what was judged
        assert all_of(client, "/ask.json")["accuracy"] == {**collection.learned.record, "of": 41}


def test_the_headline_is_what_is_sure(heaps):
    client = client_of(heaps)
    answer = client.get("/ask.json?id=row 4&accuracy=0.99").json()["answer"]
    assert [hedge["accuracy"] for hedge in answer["hedges"]] == sorted(hedge["accuracy"] for hedge in answer["hedges"])
    for hedge in answer["hedges"]:
        assert hedge["is_sure"] == (len(hedge["set"]) == 1)
        assert all(label in hedge["words"] for label in hedge["set"][:5])
    assert headline({"set": ["a", "b", "c"], "set_probability": 0.9}, "a")["words"] == "a, b or c"


def test_the_history_names_items_and_links_them(heaps):
    client = client_of(heaps)
    event = heaps.relabel(["row 2"], [heaps.store.item("row 2")["label"]])
    told = next(each for each in client.get("/history.json").json()["events"] if each["number"] == event)
    assert told["items"] == ["row 2"]
    assert told["what"] == "confirm 'low' of 1 item"
    assert '<a href="/ask?id=row%202"' in client.get("/history").text


def test_what_is_stale_is_learned_again_and_answers_go_on(tmp_path):
    rng = np.random.default_rng(0)
    with LiveCollection.create(tmp_path / "c", 2) as collection:
        X = rng.normal(size=(60, 2)) + 4 * (np.arange(60) % 2)[:, None]
        collection.add([f"i{n}" for n in range(40)], X[:40], [("low", "high")[n % 2] for n in range(40)])
        collection.learn(posterior="proportional", n_neighbors=3)
        collection.add([f"i{n}" for n in range(40, 60)], X[40:], [("low", "high")[n % 2] for n in range(20)])
        client = client_of(collection)
        assert None in [each["page"] for each in client.get("/ask.json").json()["todo"]]
        before = collection.learned.version
        job = finished(client, client.post("/learn.json").json()["job"])
        assert job["state"] == "done", job
        assert (collection.learned.version > before, collection.learned.n_rows) == (True, 60)


def test_a_picture_that_was_asked_about_is_added_under_its_name_and_shown(shades):
    client, before = client_of(shades), len(shades)
    upload = {"picture": ("../new sky.png", as_png(shade("blue", 77)))}
    key = client.post("/ask.json", files=upload).json()["question"]["key"]
    assert "It is <bdi>blue</bdi>: add it" in client.get(f"/ask?question={key}").text
    kept = client.post("/keep.json", data={"question": key, "label": "blue"}).json()
    assert kept["id"] == "new sky.png"
    assert (len(shades), shades.store.item("new sky.png")["label"]) == (before + 1, "blue")
    assert client.get("/picture?id=new sky.png").headers["content-type"] == "image/png"
    client.post("/undo.json", data={"event": kept["event"]})
    assert len(shades) == before


def test_the_first_page_begins_no_learning(tmp_path):
    with LiveCollection.create(tmp_path / "c", 1) as collection:
        collection.add([f"i{n}" for n in range(30)], [[float(n)] for n in range(30)], ["low", "high"] * 15)
        client = client_of(collection)
        assert not all_of(client, "/ask.json")["counting"]
        assert client.get("/").status_code == 200
        assert collection.learned is None
