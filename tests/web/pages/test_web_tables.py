"""A collection of rows with words and gaps on the page: typed rows are taken, and neighbors say what they share."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from nearsay.collection.indexing import index_source
from nearsay.collection.live import LiveCollection
from nearsay.web.content.table_rows import TableRows
from tests.served_collections import client_of


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plans")
    lines = [
        f"{'gold' if row % 3 else '<b>basic'},{'' if row % 4 == 0 else row},{'stays' if row % 3 else 'leaves'}"
        for row in range(40)
    ]
    (folder / "plans.csv").write_text("\n".join(["plan,age,label", *lines]))
    index_source(folder / "plans.csv", folder / "plans.nearsay")
    with LiveCollection.open(folder / "plans.nearsay") as collection:
        yield collection


def test_a_typed_row_is_answered_and_its_neighbors_are_compared(plans):
    with client_of(plans) as client:
        assert 'name="cell:plan"' in client.get("/ask").text
        assert 'placeholder="plan=gold, age=…"' in client.get("/ask").text
        posted = client.post("/ask.json", data={"text": "gold,33"}).json()
        assert posted["answer"]["label"] == "stays"
        assert posted["answer"]["compared"][0].startswith("same plan")
        page = client.get(f"/ask?question={posted['question']['key']}").text
        assert 'title="same plan' in page
        assert client.get("/ask?id=plans:3").text.count('title="same plan') > 0
        assert "<b>basic" not in client.get("/ask?id=plans:4").text


def test_a_row_that_cannot_be_read_is_refused_in_words(plans):
    with client_of(plans) as client:
        refused = client.post("/ask.json", data={"text": "gold,1,2"})
        assert refused.status_code == 400
        assert "Got 3 cells; a row of this collection has 2: plan, age" in refused.text


def test_a_row_is_asked_by_its_fields_and_differences_are_marked(plans):
    with client_of(plans) as client:
        by_line = client.post("/ask.json", data={"text": "gold,33"}).json()["answer"]
        fields = {"cell:plan": "gold", "cell:age": "33"}
        posted = client.post("/ask.json", data=fields).json()
        assert posted["answer"]["probabilities"] == by_line["probabilities"]
        data = client.get(f"/ask.json?question={posted['question']['key']}").json()
        assert [each["text"] for each in data["comparison"]["first"]] == ["gold", "33"]
        for neighbor, cells in zip(data["neighbors"], data["comparison"]["rows"], strict=True):
            details = plans.store.item(neighbor["id"])["details"]
            plan, age = cells
            assert plan["text"] == details["plan"]
            assert plan["differs"] == (details["plan"] != "gold")
            assert age["differs"] == ("age" not in details or abs(float(details["age"]) - 33) > 2)
        assert 'value="33"' in client.get(f"/ask?question={posted['question']['key']}").text
        refused = client.post("/ask.json", data={"cell:color": "red"})
        assert refused.status_code == 400
        assert "There is no column 'color'" in refused.json()["error"]


def test_an_answer_is_kept_with_its_label_and_undone(plans):
    with client_of(plans) as client:
        key = client.post("/ask.json", data={"cell:plan": "gold", "cell:age": "33"}).json()["question"]["key"]
        before = len(plans)
        kept = client.post("/keep.json", data={"question": key, "label": "maybe"}).json()
        item = plans.store.item(kept["id"])
        assert (item["label"], item["confirmed"], item["details"]) == ("maybe", True, {"plan": "gold", "age": "33"})
        assert client.post("/ask.json", data={"text": "gold,33"}).json()["answer"]["neighbors"][0]["id"] == kept["id"]
        again = client.post("/keep.json", data={"question": key, "label": "maybe"})
        assert again.status_code == 400
        assert "already" in again.json()["error"]
        page = client.get(f"/ask?id={kept['id']}&event={kept['event']}").text
        assert "Added as" in page
        assert f'name="event" value="{kept["event"]}"' in page
        client.post("/undo.json", data={"event": kept["event"]})
        assert len(plans) == before


def test_every_row_is_compared_with_every_other_by_the_range_of_its_columns(plans):
    table = TableRows.of(plans)
    rows = sorted(plans.items.row_of.values())
    cells = table.cells_of(rows)
    ages = [float(each["age"]) for each in cells if "age" in each]
    low, high = np.quantile(ages, [0.02, 0.98])

    def place(each):
        return min(max((float(each["age"]) - low) / (high - low), 0.0), 1.0) if "age" in each else None

    marked = 0
    for one in cells[:8]:
        compared = table.comparison(one, cells)
        for other, row in zip(cells, compared["rows"], strict=True):
            by_name = dict(zip(compared["columns"], row, strict=True))
            assert by_name["plan"]["differs"] == (one["plan"] != other["plan"])
            here, away = place(one), place(other)
            far = (here is None) != (away is None) or (here is not None and abs(here - away) > 0.05 + 0.001)
            near = here is away or (here is not None and away is not None and abs(here - away) < 0.05 - 0.001)
            assert by_name["age"]["differs"] if far else not near or not by_name["age"]["differs"]
            marked += by_name["age"]["differs"]
    assert marked > 50
