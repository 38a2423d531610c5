"""A collection of rows with words and gaps on the page: typed rows are taken, and neighbors say what they share."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from nearsay.collection.indexing import index_source
from nearsay.collection.live import LiveCollection
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
        assert "A row: plan, age" in client.get("/ask").text
        posted = client.post("/ask.json", data={"numbers": "gold,33"}).json()
        assert posted["answer"]["label"] == "stays"
        assert posted["answer"]["compared"][0].startswith("same plan")
        page = client.get(f"/ask?question={posted['question']['key']}").text
        assert '<p class="compared">same plan' in page
        assert client.get("/ask?id=plans:3").text.count('<p class="compared">') > 0
        assert "<b>basic" not in client.get("/ask?id=plans:4").text


def test_a_row_that_cannot_be_read_is_refused_in_words(plans):
    with client_of(plans) as client:
        refused = client.post("/ask.json", data={"numbers": "gold"})
        assert refused.status_code == 400
        assert "Got 1 cell; a row of this collection has 2: plan, age" in refused.text
