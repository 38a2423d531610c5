"""Review: one of the guesses by a key, all that are sure at once, and the undo of both."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from nearsay.collection.live import LiveCollection
from nearsay.web.content.review_queue import SURE
from tests.served_collections import client_of


@pytest.fixture
def waiting(tmp_path):
    """Two heaps, and machine labels: most right, some wrong, some between the heaps."""
    rng = np.random.default_rng(0)
    with LiveCollection.create(tmp_path / "heaps.nearsay", 2) as collection:
        X = rng.normal(size=(60, 2)) + 6 * (np.arange(60) % 2)[:, None]
        collection.add([f"row {n}" for n in range(60)], X, [("low", "high")[n % 2] for n in range(60)])
        collection.learn(posterior="proportional", n_neighbors=5)
        new = np.vstack([rng.normal(size=(6, 2)), rng.normal(size=(6, 2)) + 6, [[3.0, 3.0], [3.1, 2.9]]])
        labels = ["low"] * 5 + ["high"] + ["high"] * 5 + ["low"] + ["low", "high"]
        collection.add([f"new {n}" for n in range(14)], new, labels, by="machine")
        yield collection


def sure_by_hand(collection):
    """Ids whose label is the answer of the others, and so probable."""
    ids = [id for id in collection.items.row_of if id.startswith("new")]
    return {
        id
        for id, answer in zip(ids, collection.label_items(ids), strict=True)
        if answer.label == collection.store.item(id)["label"] and answer.probability >= SURE
    }


def test_all_that_are_sure_are_accepted_in_one_event_and_undone(waiting):
    client = client_of(waiting)
    data, sure = client.get("/review.json").json(), sure_by_hand(waiting)
    assert set(data["sure"]) == sure
    assert 0 < len(sure) < 14
    assert f"Accept all {len(sure)} above 95 %" in client.get("/review").text
    done = client.post("/review.json", data={"do": "accept-sure", "version": data["version"]}).json()
    assert done["n_items"] == len(sure)
    confirmed = {id for id in waiting.items.row_of if id.startswith("new") and waiting.store.item(id)["confirmed"]}
    assert confirmed == sure
    assert waiting.history(done["event"] - 1)[0].kind == "confirm"
    client.post("/review.json", data={"do": "undo", "event": done["event"]})
    assert not any(waiting.store.item(id)["confirmed"] for id in sure)


def test_what_somebody_else_changed_is_not_accepted_with_the_rest(waiting):
    client = client_of(waiting)
    version, one = client.get("/review.json").json()["version"], min(sure_by_hand(waiting))
    waiting.set_keywords([one], [["changed"]])
    refused = client.post("/review.json", data={"do": "accept-sure", "version": version})
    assert refused.status_code == 409
    assert not waiting.store.item(one)["confirmed"]


def test_a_guess_is_taken_in_one_click_also_without_a_script(waiting):
    client = client_of(waiting)
    line = next(each for each in client.get("/review.json").json()["items"] if each["id"] == "new 5")
    assert line["label"] == "high"
    assert line["guesses"][0][0] == "low"
    assert re.search(r'<button name="guess" value="low"', client.get("/review").text)
    done = client.post("/review.json", data={"id": "new 5", "state": line["state"], "guess": "low"}).json()
    assert (done["after"]["label"], done["after"]["confirmed"]) == ("low", True)


def test_a_batch_that_is_not_kept_is_accepted_and_undone_step_by_step(waiting):
    client = client_of(waiting)
    table = "\n".join(f"{x:.2f},{y:.2f}" for x, y in [(0, 0), (6, 6), (0.3, 0.1), (3, 3)])
    client.post("/batch", data={"keep": "no"}, files={"files": ("new.csv", table.encode())})
    key = re.search(r"/review\?batch=([\w-]+)", client.get("/batch").text)[1]
    before = client.get(f"/review.json?batch={key}").json()
    done = client.post("/review.json", data={"batch": key, "do": "accept-sure"}).json()
    assert done["n_items"] == len(before["sure"]) > 0
    after = client.get(f"/review.json?batch={key}").json()
    assert (after["n_done"], after["n_waiting"]) == (done["n_items"], before["n_waiting"] - done["n_items"])
    client.post("/review.json", data={"batch": key, "do": "undo", "event": done["event"]})
    assert client.get(f"/review.json?batch={key}").json()["n_waiting"] == before["n_waiting"]
