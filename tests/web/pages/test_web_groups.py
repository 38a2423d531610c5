"""Groups on the page, on the map and in Browse: before anything is labeled, and labeled at a stroke."""

from __future__ import annotations

import numpy as np
import pytest

from nearsay.collection.live import LiveCollection
from tests.served_collections import client_of
from tests.web.visits import at_rest

SPOTS = np.repeat([(0.0, 0.0), (9.0, 0.0), (0.0, 9.0)], [12, 8, 4], axis=0)


@pytest.fixture
def page(tmp_path):
    with LiveCollection.create(tmp_path / "things", 2) as collection:
        collection.add([f"i{row}" for row in range(24)], SPOTS + np.random.default_rng(0).normal(size=(24, 2)))
        yield collection, client_of(collection)


def test_a_group_is_labeled_at_a_stroke_and_then_listed_no_more(page):
    client = page[1]
    before = at_rest(client, "/groups.json").json()
    assert sum(len(group["unlabeled"]) for group in before["groups"]) == 24
    assert 'name="rows"' in at_rest(client, "/groups").text
    largest = before["groups"][0]
    rows = ",".join(map(str, largest["unlabeled"]))
    fields = {"rows": rows, "label": "owl", "sure": "yes", "version": before["version"], "back": "/groups"}
    assert client.post("/label-many.json", data=fields).json()["items"] == len(largest["unlabeled"])
    after = at_rest(client, "/groups.json").json()
    assert (after["total"], after["left"]) == (before["total"], before["left"] - 1)
    assert {item["label"] for item in at_rest(client, f"/items.json?group={largest['number']}").json()["items"]} == {
        "owl"
    }
    assert client.get("/items.json?group=999").status_code == 400


def test_the_map_is_colored_by_groups_while_nothing_has_a_label(page):
    collection, client = page
    about = client.get("/map.json").json()
    assert about["color"] == "groups"
    assert sum(about["groups"]) == 24
    content = at_rest(client, about["points"]).content
    numbers = np.frombuffer(content, "<u2", offset=8 * 24)
    assert sorted(np.bincount(numbers).tolist(), reverse=True) == about["groups"]
    collection.relabel(["i0"], ["owl"])
    assert client.get("/map.json").json()["color"] == "labels"


def test_pages_that_need_no_label_have_their_content_without_any(page):
    for path in ("/duplicates", "/next", "/groups", "/map", "/items", "/ask?id=i3", "/map?layout=neighbors"):
        assert "Nothing is labeled yet" not in at_rest(page[1], path).text or path.startswith("/ask")


def test_an_item_has_its_neighbors_before_anything_is_labeled(page):
    answer = page[1].get("/ask.json?id=i3").json()
    assert answer["answer"]["label"] is None
    assert len(answer["neighbors"]) == 10
    first = at_rest(page[1], "/next.json").json()["to_label"]
    assert first[0]["guess"] is None
    assert sum(each["n_like"] for each in first) == 24
