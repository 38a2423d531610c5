"""The ask page: every answer as data and as a page, by hand, by keyboard, on a phone, and without a script."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager

import numpy as np
import pytest

from nearsay.collection import LiveCollection
from nearsay.collection.answers import in_words
from nearsay.posterior.evidence.evidence import UNUSUAL
from nearsay.taxonomy.taxonomy import Taxonomy
from nearsay.web.content.served_collection import ACCURACIES
from tests.collection.evaluation.test_prediction_sets import LIFE, unsure_collection
from tests.served_collections import (
    as_png,
    client_of,
    shade,
)

# ------------------------------------------------------------------ as data


def test_the_page_and_its_twin_show_the_same_answer(shades):
    client = client_of(shades)
    asked = {"id": "blue/blue-3.png", "accuracy": "0.8"}
    data, page = client.get("/ask.json", params=asked).json(), client.get("/ask", params=asked).text
    assert data["answer"]["label"] == "blue"
    shown = dict.fromkeys(("unusual", "lead", "words", "share", "is_sure", "hedges"))
    assert (
        data["answer"] | shown
        == shades.label_items(["blue/blue-3.png"], accuracy=0.8, hedges_at=data["accuracies"])[0].to_dict() | shown
    )
    for said in data["neighbors"]:
        assert f'title="{said["id"]}"' in page
        assert said["state"] in page
    for node in data["answer"]["tree"]:
        assert f'data-node="{node["node"]}"' in page


def test_the_page_says_a_node_that_holds_the_whole_prediction_set(tmp_path):
    """In the headline, the path below it and the tree; where only the root does, it lists the set."""
    with unsure_collection(tmp_path) as collection:
        client, wider = client_of(collection), 0
        for row in range(40):
            asked = {"id": f"i{row}", "accuracy": "0.8"}
            answer, page = client.get("/ask.json", params=asked).json()["answer"], client.get("/ask", params=asked).text
            *above, last = re.findall(r"<li>(\w+)</li>", page.split('id="path"')[1].split("</ol>")[0])
            assert all([*above, last] == list(LIFE.path(label))[: len(above) + 1] for label in answer["set"])
            assert answer["words"] == (last if above else in_words(answer["set"]))
            assert re.search(f'<g class="here" data-node="{last}">', page)
            record = page.split('id="hedged-record">')[1].split("<")[0]  # of the node alone
            assert bool(record) == (answer["wider"] is None and len(answer["node_path"]) > 1), record
            wider += answer["wider"] is not None
        assert 0 < wider < 40


def test_numbers_are_drawn_and_a_new_kind_of_them_is_told(heaps):
    client = client_of(heaps)
    near = client.post("/ask.json", data={"text": "0 0 0 0"}).json()
    far = client.post("/ask.json", data={"text": "90 -90 90 -90"}).json()
    assert (near["answer"]["unusual"], far["answer"]["unusual"]) == (near["answer"]["novelty"] >= UNUSUAL, True)
    page = client.get("/ask", params={"question": far["question"]["key"]}).text
    assert "Unlike almost everything here" in page
    assert page.count("<polyline") == 1 + len(far["answer"]["neighbors"])
    assert "Unlike almost" not in client.get("/ask", params={"id": "row 4"}).text


def test_ids_and_labels_are_suggested_by_what_is_typed(shades):
    client = client_of(shades)
    assert client.get("/find.json?q=blue/blue-1").json()["ids"][0] == "blue/blue-1.png"
    assert client.get("/find.json?q=e-11.png").json()["ids"] == ["blue/blue-11.png", "orange/orange-11.png"]
    assert client.get("/labels.json?q=R").json()["labels"] == ["red", "orange", "warm"]


def test_a_correction_tells_what_it_did_and_is_taken_back(shades):
    client = client_of(shades)
    asked = {"id": "red/red-4.png"}
    before = client.get("/ask.json", params=asked).json()
    near = before["neighbors"][0]
    sent = {"id": near["id"], "state": near["state"], "label": "blue", "back": "/ask?id=red/red-4.png"}
    done = client.post("/change.json", data=sent).json()
    after = client.get(done["see"].replace("/ask?", "/ask.json?")).json()
    told = {name: (was, now) for name, was, now in after["changed"]["shares"]}
    assert {name: was for name, (was, _) in told.items() if was is not None} == before["answer"]["probabilities"]
    assert {name: now for name, (_, now) in told.items() if now is not None} == after["answer"]["probabilities"]
    assert before["answer"]["probabilities"] != after["answer"]["probabilities"]
    page = client.get(done["see"]).text
    assert "Before and after" in page
    assert client.get("/ask.json", params={"id": "red/red-5.png", "event": done["event"]}).json()["changed"] is None
    client.post("/undo.json", data={"event": done["event"]})
    assert client.get("/ask.json", params=asked).json()["answer"]["probabilities"] == before["answer"]["probabilities"]


def test_a_correction_answers_before_and_after_once_each_and_parses_the_taxonomy_once(shades, monkeypatch):
    asked, parsed, label_items, from_edges = [], [], shades.label_items, Taxonomy.from_edges
    monkeypatch.setattr(
        shades, "label_items", lambda ids, **o: asked.append(o.get("hedges_at")) or label_items(ids, **o)
    )
    client = client_of(shades)
    client.get("/ask.json", params={"id": "red/red-4.png"})  # what was learned is there
    asked.clear()
    sent = {"id": "red/red-5.png", "label": "blue", "back": "/ask?id=red/red-4.png"}
    done = client.post("/change.json", data=sent).json()
    assert done["answers"]["after"]["label"] == client.get(done["see"].replace("?", ".json?")).json()["answer"]["label"]
    assert client.get(done["see"]).status_code == 200
    assert asked == [(), ACCURACIES]
    monkeypatch.setattr(Taxonomy, "from_edges", lambda edges: parsed.append(edges) or from_edges(edges))
    with LiveCollection.open(shades.store.path, read_only=True) as opened:
        another = client_of(opened)
        for page in ("/items", "/items", "/labels.json?q=b", "/review"):
            assert another.get(page).status_code == 200
    assert len(parsed) == 1
    client.post("/undo.json", data={"event": done["event"]})


def test_a_label_and_keywords_that_are_sent_together_are_one_event(shades):
    client, before = client_of(shades), shades.store.item("red/red-4.png")
    sent = {"id": "red/red-4.png", "do": "relabel", "label": "blue", "keywords": "dark, calm"}
    done = client.post("/change.json", data=sent).json()
    assert done["event"] == shades.version
    assert [done["after"][name] for name in ("label", "keywords")] == ["blue", ["dark", "calm"]]
    client.post("/undo.json", data={"event": done["event"]})
    assert shades.store.item("red/red-4.png") == before


def test_what_a_machine_said_is_accepted_in_one_click(shades):
    client = client_of(shades)
    page = client.get("/ask", params={"id": "red/red-0.png"}).text
    assert "A machine's label, unconfirmed" in page or "A machine&#39;s label, unconfirmed" in page
    sent = {"id": "red/red-0.png", "do": "confirm", "back": "/ask?id=red/red-0.png"}
    assert client.post("/change", data=sent).status_code == 200
    assert shades.store.item("red/red-0.png")["confirmed"]
    shades.undo()


def test_an_undo_that_takes_many_items_out_asks_back_also_in_a_plain_form(heaps):
    client = client_of(heaps)
    event = heaps.add(["many 1", "many 2", "many 3"], np.zeros((3, 4)))
    assert "Undo" in client.get("/history").text
    answer = client.post("/undo.json", data={"event": event})
    assert (answer.status_code, answer.json()["n_items"], answer.json()["event"]) == (409, 3, event)
    page = client.post("/undo", data={"event": event, "back": "/history"})
    assert page.status_code == 409
    assert "removes 3 items from" in page.text
    assert "sure=True" not in page.text
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.text))
    assert fields == {"event": str(event), "back": "/history", "sure": "yes"}
    elsewhere = client.post("/undo", data={"event": event, "back": "javascript:alert(1)"}).text
    assert "javascript:" not in elsewhere
    changed = heaps.relabel(["many 2"], ["x"])
    answer = client.post("/undo.json", data=fields)
    assert answer.status_code == 400
    assert f"event {changed} (relabel 1 item no label → 'x')" in answer.json()["error"]
    heaps.undo(changed)
    assert "many 1" in heaps.items.row_of
    assert client.post("/undo", data=fields, follow_redirects=False).status_code == 303
    assert "many 1" not in heaps.items.row_of


# ------------------------------------------------------------------ in a browser


@pytest.fixture
def opened(browsing):
    """Opens a collection in the browser; a complaint of the browser fails the test."""

    @contextmanager
    def open_(collection, path="/", width=1280, **options):
        with browsing(collection, **options) as (visit, complaints):
            yield visit(path, width)
        assert complaints == []

    return open_


def test_ask_slide_correct_and_undo_on_a_phone(shades, opened):
    version = shades.version
    with opened(shades, width=390) as page:
        page.set_input_files(
            "input[type=file]", {"name": "x.png", "mimeType": "image/png", "buffer": as_png(shade("red", 99))}
        )
        page.wait_for_selector("#answer")
        page.wait_for_load_state()
        assert page.inner_text(".big strong") == "red"
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        page.fill("#accuracy", "0.5")
        first = page.inner_text("#hedged strong")
        assert page.get_attribute("#tree .here", "data-node") == first
        assert page.inner_text("#path li:last-child") == first
        record = json.loads(page.get_attribute("#answer", "data-hedges"))[0]["node_record"]
        low, high = (round(100 * record[end]) for end in ("low", "high"))
        told = f"Right in {record['right']} of {record['cases']} hedged answers like this ({low} to {high} %)."
        assert page.inner_text("#hedged-record") == told
        page.click(".tiles li:first-child summary")
        page.locator(".tiles li:first-child .chips button").first.click()
        page.wait_for_selector("#changed")
        page.wait_for_load_state()
        assert "→" in page.inner_text("#changed")
        assert shades.version == version + 1
        page.click("#changed button")
        page.wait_for_selector("#changed", state="detached")
        page.wait_for_load_state("networkidle")
        assert shades.version == version + 2
        assert shades.history(version)[-1].kind == "undo"


def test_a_slider_moved_before_the_script_arrived_is_heard_when_it_does(shades, opened):
    with opened(shades) as page:
        held = []
        page.route("**/nearsay.js", lambda request: held.append(request))
        page.goto(f"{page.url}ask?id=red%2Fred-4.png", wait_until="commit")
        page.wait_for_selector("#answer")
        page.fill("#accuracy", "0.5")
        assert page.inner_text("#requested") != "50 %"
        held.pop().continue_()
        page.wait_for_load_state()
        assert page.inner_text("#requested") == "50 %"
        page.unroute_all()


def test_by_keyboard_alone(shades, opened):
    with opened(shades) as page:
        page.focus("#typed")
        page.keyboard.type("orange/orange-2.png")
        page.keyboard.press("Enter")
        page.wait_for_selector("#answer")
        page.wait_for_load_state()
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("c")
        page.wait_for_selector(".query .chips button:focus")
        label = page.evaluate("document.activeElement.value")
        page.keyboard.press("Enter")
        page.wait_for_selector("#changed")
        page.wait_for_load_state()
        assert shades.store.item("orange/orange-2.png")["label"] == label
        page.wait_for_selector("#changed:focus")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_selector("#changed", state="detached")
        page.wait_for_load_state("networkidle")
    assert shades.store.item("orange/orange-2.png")["label"] == "orange"


def test_without_a_script(shades, opened):
    with opened(shades, scripts=False) as page:
        page.set_input_files(
            "input[type=file]", {"name": "x.png", "mimeType": "image/png", "buffer": as_png(shade("blue", 9))}
        )
        page.click("#question button")
        assert page.inner_text(".big strong") == "blue"
        page.fill("#typed", "red/red-7.png")
        page.click("#question button")
        assert page.inner_text(".big strong") == "red"
        page.click(".query summary")
        page.fill(".query input[name=label]", "orange")
        page.click(".query .correct form:last-child button")
        assert "orange" in page.inner_text("#changed")
        page.click("#changed button")
        page.wait_for_load_state("networkidle")
    assert shades.store.item("red/red-7.png")["label"] == "red"


def test_of_two_tabs_the_second_is_told_on_its_page(heaps, opened):
    with opened(heaps, "/ask?id=row 6") as page:
        heaps.relabel(["row 6"], ["meanwhile"])
        page.evaluate("document.querySelector('.query details').open = true")
        with page.expect_response("**/change.json") as told:
            page.click(".query .correct form:last-child button")
        assert told.value.status == 409
        page.wait_for_selector("#messages:has-text('meanwhile')")
    assert heaps.store.item("row 6")["label"] == "meanwhile"
