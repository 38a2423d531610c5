"""Many at once: every answer comes, every correction counts at once and is kept, and nobody waits for who is slow."""

from __future__ import annotations

import re
import tempfile
import threading
import time

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearsay.collection import LiveCollection
from nearsay.core.compiling import forced
from nearsay.neighbors.by_class.class_search import ClassSearch
from nearsay.web import rendering
from nearsay.web.app import STATIC
from nearsay.web.content.background_cache import BackgroundCache
from nearsay.web.content.served_collection import ServedCollection
from tests.served_collections import TOKEN, client_of, numbers_collection, served

HEADERS = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def heaps(tmp_path):
    with numbers_collection(tmp_path, n=60) as collection:
        yield collection


def at_once(*works):
    """Run all of them in threads, and raise what any of them raised."""
    wrong = []

    def run(work):
        try:
            work()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if wrong:
        raise wrong[0]
    assert not any(thread.is_alive() for thread in threads)


def test_while_many_ask_every_correction_is_kept_and_counts_in_the_next_answer(heaps):
    acknowledged, answered = {}, []

    def asking(seed):
        rng = np.random.default_rng(seed)
        with httpx.Client(base_url=address, headers=HEADERS, timeout=30) as client:
            for _ in range(12):
                since = max(acknowledged, default=0)
                numbers = " ".join(map(str, rng.normal(size=4)))
                answer = client.post("/ask.json", data={"text": numbers})
                assert answer.status_code == 200
                answered.append((since, answer.json()["answer"]["version"]))

    def correcting(first):
        with httpx.Client(base_url=address, headers=HEADERS, timeout=30) as client:
            for row in range(first, first + 24, 2):
                done = client.post("/change.json", data={"id": f"row {row}", "label": f"label {row}"})
                assert done.status_code == 200
                acknowledged[done.json()["event"]] = row
                time.sleep(0.01)

    with served(heaps) as address:
        askers = [lambda seed=seed: asking(seed) for seed in range(6)]
        at_once(*askers, lambda: correcting(0), lambda: correcting(1))
    kept = {event.number: event.rows for event in heaps.history()}
    assert len(acknowledged) == 24
    assert all(kept[number] == [row] for number, row in acknowledged.items())
    assert all(heaps.store.item(f"row {row}")["label"] == f"label {row}" for row in acknowledged.values())
    assert len(answered) == 72
    assert all(version >= since for since, version in answered)


def test_after_a_correction_no_rows_are_grouped_for_those_who_wait(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)).astype(np.float32)
    with LiveCollection.create(tmp_path / "c", 4) as collection:
        collection.add([str(row) for row in range(300)], X, [f"class {row % 5}" for row in range(300)])
        collection.learn(posterior="pooled")
        collection.label(X[:16])
        grouped = property(lambda self: pytest.fail("all rows were grouped by class"))
        monkeypatch.setattr(ClassSearch, "_grouped", grouped)
        collection.relabel(["7"], ["class 1"])
        with forced(compile_all=True):
            assert len(collection.label(X[:16] + 0.1)) == 16
            assert len(collection.label_items(["7", "8"])) == 2


def test_pages_tell_of_the_collection_while_it_is_still_being_read(tmp_path):
    with numbers_collection(tmp_path) as made:
        told = ServedCollection(made).about()
    with LiveCollection.open(tmp_path / "heaps.nearsay") as opened:
        go_on, state = threading.Event(), opened.state
        opened.state = lambda: go_on.wait(30) and state()
        behind = ServedCollection(opened)
        reading = behind.warm_up()
        assert behind.about() == told
        assert not opened.tracker.is_loaded
        go_on.set()
        reading.join(30)
        assert opened.tracker._state is not None
        opened.relabel(["row 3"], ["other"])
        assert behind.about() == {**told, "version": told["version"] + 1}


def test_nothing_is_learned_by_opening_the_page(tmp_path):
    with LiveCollection.create(tmp_path / "c", 1) as collection:
        collection.add(["a", "b"], [[0.0], [1.0]], ["oak", "elm"])
        assert ServedCollection(collection).warm_up() is None
        assert collection.version == 1


def test_every_page_is_compiled_beforehand():
    rendering.templates.cache.clear()
    rendering.prepare_pages()
    assert len(rendering.templates.cache) == len(rendering.templates.list_templates())


def test_scripts_are_kept_by_the_browser_until_they_change(heaps):
    client = client_of(heaps)
    first = client.get("/static/nearsay.js")
    assert (first.status_code, first.headers["content-type"].partition(";")[0]) == (200, "text/javascript")
    assert first.content == (STATIC / "nearsay.js").read_bytes()
    tag = {"If-None-Match": first.headers["etag"]}
    again = client.get("/static/nearsay.js", headers=tag)
    assert (again.status_code, again.content) == (304, b"")
    assert client.get("/static/nearsay.css", headers=tag).status_code == 200
    assert "no-store" not in first.headers["cache-control"]


def test_what_a_phone_must_load_before_it_shows_a_page_takes_less_than_a_second(heaps):
    """On a slow line (200 kB and 7 round trips a second): the page, and beside each other the style sheets it names."""
    client = client_of(heaps)
    for path in ("/", "/ask?id=row 3", "/items", "/next", "/history"):
        page = client.get(path)
        sheets = re.findall(r'<link rel="stylesheet" href="([^"]+)"', page.text)
        assert sheets
        assert '<script src="' not in page.text, "scripts that are no modules hold the page up"
        n_bytes = sum(int(client.get(each).headers["content-length"]) for each in (path, *sheets))
        round_trips = 3  # the connection, the page, the style sheets
        assert round_trips * 0.15 + n_bytes / 200_000 < 1, path


def test_nothing_but_the_files_of_the_page_is_to_be_had(heaps):
    client = client_of(heaps)
    for name in ("nowhere.js", "../app.py", "..%2Fapp.py", "%2Fetc%2Fpasswd", ""):
        assert client.get(f"/static/{name}").status_code == 404


def test_a_neighbor_that_is_forgotten_while_mistakes_are_listed_is_left_out(heaps):
    heaps.relabel(["row 4"], ["other"])
    client = client_of(heaps)
    (listed,) = [each for each in heaps.likely_mistakes() if each.id == "row 4"]
    client.app.state.caches.mistakes = BackgroundCache(lambda: 0, lambda: [listed])
    gone, *left = [each.id for each in listed.neighbors]
    heaps.forget([gone])
    (shown,) = client.get("/mistakes.json").json()["mistakes"]
    assert [each["id"] for each in shown["neighbors"]] == left
    assert client.get("/mistakes").status_code == 200


# ------------------------------------------------------------------ two tabs


def test_many_items_get_a_label_only_where_nobody_changed_one_of_them_since_they_were_shown(heaps):
    client = client_of(heaps)
    version = client.get("/items.json").json()["version"]
    assert version == client.get("/map.json").json()["version"] == heaps.version
    sent = {"rows": "1,2,3", "label": "mine", "version": version}
    client.post("/change.json", data={"id": "row 2", "label": "theirs"})
    client.post("/change.json", data={"id": "row 3", "label": "theirs"})
    before = heaps.version
    for path in ("/label-many.json", "/label-many"):
        answer = client.post(path, data=sent)
        assert answer.status_code == 409
        assert "row 2" in answer.text
        assert "1 more" in answer.text
    assert heaps.version == before
    others = client.post("/label-many.json", data={**sent, "rows": "4,5"})
    assert (others.status_code, others.json()["version"]) == (200, version)  # what else happened was not seen
    now = client.post("/label-many.json", data={**sent, "version": heaps.version}).json()
    assert now["version"] == now["event"] == heaps.version
    again = client.post("/label-many.json", data={**sent, "label": "mine too", "version": now["version"]})
    assert again.status_code == 200


def test_forms_without_a_script_say_what_was_seen(heaps):
    for path in ("/items", "/map"):
        page = client_of(heaps).get(path).text
        form = page.partition('action="/label-many"')[2].partition("</form>")[0]
        assert f'name="version" value="{heaps.version}"' in form


def test_the_last_change_is_taken_back_only_where_it_is_the_last_that_was_seen(heaps):
    client = client_of(heaps)
    client.post("/change.json", data={"id": "row 1", "label": "mine"})
    seen = heaps.version
    client.post("/change.json", data={"id": "row 2", "label": "theirs"})
    assert client.post("/undo.json", data={"version": seen}).status_code == 409
    assert heaps.version == seen + 1
    assert client.post("/undo.json", data={"event": seen, "version": seen}).status_code == 200
    assert client.post("/undo.json", data={"version": heaps.version}).status_code == 200
    assert heaps.store.item("row 2")["label"] != "theirs"


@pytest.mark.parametrize("wrong", ["x", "-1", "²", "1e3", "9" * 30])
def test_numbers_that_are_none_are_refused(heaps, wrong):
    client, sent = client_of(heaps), {"event": wrong, "version": wrong, "do": "undo", "rows": "1", "label": "x"}
    for path in ("/undo.json", "/label-many.json", "/review.json"):
        assert client.post(path, data=sent).status_code == 400
    assert client.get("/review", params={"last": wrong}).status_code == 400


@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True), max_size=6), st.integers(0, 7))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_changed_since_are_those_of_every_later_event(tmp_path, changes, after):
    with tempfile.TemporaryDirectory(dir=tmp_path) as folder, LiveCollection.create(f"{folder}/c", 1) as collection:
        collection.add(list("abcdef"), np.arange(6.0)[:, None], ["oak"] * 6)
        for number, rows in enumerate(changes):
            collection.relabel(["abcdef"[row] for row in rows], [f"label {number}"] * len(rows))
        later = [set(range(6)), *map(set, changes)][after:]
        assert collection.store.rows_changed(after) == set().union(*later)
