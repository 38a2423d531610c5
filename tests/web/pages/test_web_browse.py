"""The pages for browsing and the map: they show the figures of the collection, with and without a script."""

from __future__ import annotations

import shutil
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.collection.live import LiveCollection
from nearsay.errors import InputError
from nearsay.neighbors import neighbor_search
from nearsay.search.exact import ExactSearch
from nearsay.web.content import map_layout
from nearsay.web.content.background_cache import BackgroundCache
from nearsay.web.content.item_filters import row_labels
from nearsay.web.content.label_doubts import label_doubts
from nearsay.web.content.map_layout import components, map_of, neighbor_layout
from nearsay.web.pages.browsing import PAGE

pytest.importorskip("starlette")
from starlette.testclient import TestClient

from nearsay.web.app import make_app
from tests.served_collections import served as on_a_port

pytestmark = pytest.mark.slow  # a server and a browser each

TREE = [("thing", "animal"), ("thing", "plant"), ("animal", "cat"), ("animal", "dog"), ("plant", "oak")]
BAD = "<script>alert(1)</script>"
N = 420


def filled(path, n=90, taxonomy=TREE) -> LiveCollection:
    """Three clouds of cats, dogs and oaks, each third row of one; some wrong, waiting, without a label or forgotten."""
    rng = np.random.default_rng(0)
    names = np.array(["cat", "dog", "oak"])[np.arange(n) % 3]
    X = np.eye(3)[np.arange(n) % 3] * 8 + rng.normal(size=(n, 3))
    labels = names.tolist()
    labels[0], labels[4] = "dog", "oak"
    made = LiveCollection.create(path, 3, taxonomy=taxonomy)
    made.add([BAD if row == 7 else f"item {row}" for row in range(n)], X, labels)
    made.add(["new a", "new b"], X[:2] + 0.1, [None, None])
    made.add(["guess"], X[2:3] + 0.1, ["oak"], by="machine")
    made.add(["twin"], X[5:6], ["oak"])
    made.forget(["item 10"])
    made.learn(posterior="weighted", n_neighbors=5)
    return made


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A collection that no test changes, and a visitor of its page."""
    collection = filled(tmp_path_factory.mktemp("shown") / "things")
    with collection:
        yield collection, visitor(collection)


@pytest.fixture
def changing(tmp_path):
    with filled(tmp_path / "things") as collection:
        yield collection, visitor(collection)


def visitor(collection) -> TestClient:
    app = make_app(collection, "secret")
    return TestClient(
        app, "http://localhost", headers={"Authorization": "Bearer secret"}, raise_server_exceptions=False
    )


def told(client, path):
    """What a page says when it is done computing."""
    for _ in range(100):
        answer = client.get(path)
        if answer.status_code != 202:
            assert answer.status_code == 200, answer.text
            return answer.json() if ".json" in path else answer.text
        assert answer.headers.get("Refresh") or answer.headers.get("Retry-After")
    raise AssertionError(f"{path} is never done")


# ---------------------------------------------------------------- what is chosen


def heard(collection):
    return label_doubts(collection.state())


def test_opinions_are_the_answers_about_each_item(shown):
    collection = shown[0]
    said = heard(collection)
    for id in ("item 0", "item 1", "item 4", "new a", "guess"):
        (answer,) = collection.label_items([id])
        found = said.of(collection.store.row_of(id))
        assert found["answer"] == answer.label
        assert found["probability"] == pytest.approx(answer.probability, abs=1e-6)
        has = collection.store.item(id)["label"]
        own = None if has is None else pytest.approx(answer.probabilities[has], abs=1e-6)
        assert found["label_probability"] == own
    assert said.of(10) == {"answer": None, "probability": None, "label_probability": None}


def test_an_opinion_on_a_label_that_nobody_votes_for_is_that_it_is_impossible(tmp_path):
    with filled(tmp_path / "things", taxonomy=None) as collection:
        collection.add(["yak"], [[0.0, 0.0, 0.0]], ["yak"], by="machine")
        assert heard(collection).label_probability[-1] == 0


def test_labels_follow_every_change(changing):
    collection, _ = changing
    for change in (
        lambda: collection.relabel(["item 1", "item 2"], ["cat", None]),
        lambda: collection.forget(["item 3"]),
        lambda: collection.confirm(["guess"]),
        lambda: collection.undo(),
    ):
        change()
        labels, items = row_labels(collection), collection.store.items()
        assert [
            None if number < 0 else labels.names[number] for number in labels.numbers[labels.alive]
        ] == items.labels[items.alive].tolist()
        assert labels.counts.tolist() == sorted(labels.counts.tolist(), reverse=True)
        assert (labels.confirmed == items.confirmed).all()


# ---------------------------------------------------------------- made once


def test_what_takes_long_is_made_once_and_again_when_its_key_changes():
    key, made, go = [1], [], threading.Event()

    def make():
        go.wait(20)
        made.append(key[0])
        return made[-1]

    kept = BackgroundCache(lambda: key[0], make)
    assert kept.get(wait=0.01) is None
    assert kept.get(wait=0.01) is None
    go.set()
    assert kept.get(wait=20) == kept.get(wait=0) == 1
    key[0] = 2
    assert kept.get(wait=20) == 2
    assert made == [1, 2]


def test_what_goes_wrong_while_something_is_made_is_raised_where_it_is_asked_for():
    kept = BackgroundCache(lambda: 1, lambda: [][0])
    for _ in range(2):
        with pytest.raises(IndexError):
            kept.get(wait=20)


# ---------------------------------------------------------------- the layouts


@given(
    rows=st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), min_size=2, max_size=12),
    cut=st.integers(0, 12),
)
def test_components_are_the_two_widest_directions(rows, cut):
    X = np.array(rows, float)
    found = components([X[:cut], X[cut:]], 3).astype(float)
    centered = X - X.mean(axis=0)
    variances = np.linalg.svd(centered, compute_uv=False)[:2] ** 2
    both = np.zeros(2)
    both[: len(variances)] = variances
    np.testing.assert_allclose((found**2).sum(axis=0), both, atol=1e-3)
    np.testing.assert_allclose(found.T @ found, np.diag(both), atol=1e-3)


@pytest.mark.parametrize("width", [1, 2, 7])
def test_components_of_many_columns_are_found_without_their_covariances(width):
    X = np.random.default_rng(0).normal(size=(40, width)) * np.arange(1, width + 1)
    found = components([X], width, most_columns=2, rows_at_once=7)
    np.testing.assert_allclose(found, components([X], width), atol=1e-4)
    if width > 2:
        directions = map_layout._widest(lambda: iter([X]), X.mean(axis=0), np.ones(width), 2)
        assert (directions[np.abs(directions).argmax(axis=0), [0, 1]] > 0).all()


def test_every_feature_group_varies_as_much_as_any_other():
    X = np.random.default_rng(0).normal(size=(50, 4)) * [1000, 1000, 1, 1]
    scaled = X / [1, 1, 1e-3, 1e-3]
    one, other = components([X], 4, [(0, 2), (2, 4)]), components([scaled], 4, [(0, 2), (2, 4)])
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_rows_that_were_forgotten_have_no_place_and_the_others_do_not_notice(shown):
    collection = shown[0]
    placed = map_of(collection)
    alive = collection.store.items().alive
    assert placed.dtype == np.float32
    assert (np.isnan(placed).all(axis=1) == ~alive).all()
    X = collection.store.vectors(np.flatnonzero(alive))
    np.testing.assert_allclose(placed[alive], components([X], 3), atol=1e-4)


def test_a_map_by_neighbors_keeps_neighbors_that_components_lose_and_is_the_same_every_time():
    rng = np.random.default_rng(0)
    X = np.repeat(np.eye(12) * 5, 9, axis=0) + rng.normal(size=(108, 12))
    neighbors = neighbor_search.leave_one_out(ExactSearch().fit(X), 8).indices
    start = components([X], 12)
    placed = neighbor_layout(neighbors, start, rounds=40)
    np.testing.assert_array_equal(placed, neighbor_layout(neighbors, start, rounds=40))

    def kept(points):
        found = neighbor_search.leave_one_out(ExactSearch().fit(points.astype(float)), 8).indices
        return np.mean([np.isin(one, other).mean() for one, other in zip(found, neighbors, strict=True)])

    assert kept(placed) > 1.5 * kept(start)


def test_a_map_by_neighbors_of_too_many_items_is_refused(shown, monkeypatch):
    monkeypatch.setattr(map_layout, "MOST_BY_NEIGHBORS", 50)
    assert "limited to 50 items; there are 93" in shown[1].get("/map?layout=neighbors").text
    with pytest.raises(InputError, match="limited to 50 items"):
        map_of(shown[0], "neighbors")


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_map_of_few_items_is_made(tmp_path, n):
    with LiveCollection.create(tmp_path / "few", 2) as collection:
        collection.add([str(row) for row in range(n)], np.zeros((n, 2)), ["a"] * n)
        for name in map_layout.LAYOUTS:
            assert np.isfinite(map_of(collection, name)).all()


# ---------------------------------------------------------------- pages


def test_pages_of_items_follow_each_other_until_all_were_shown(shown):
    collection, client = shown
    address, rows = "/items.json", []
    while address:
        page = told(client, address)
        assert len(page["items"]) <= PAGE < len(collection)
        rows += [item["row"] for item in page["items"]]
        address = page["next"] and f"/items.json{page['next']}"
    assert rows == np.flatnonzero(collection.store.items().alive).tolist()
    assert page["total"] == len(rows)


def test_the_page_of_items_shows_what_its_twin_says(shown):
    client = shown[1]
    for query in ("", "?label=dog", "?node=animal&state=confirmed", "?below=0.5", "?differs=1", "?rows=3,5", "?row=4"):
        page, twin = told(client, f"/items{query}"), told(client, f"/items.json{query}")
        assert page.count('data-row="') == len(twin["items"]) > 0
        for item in twin["items"]:
            assert f'data-row="{item["row"]}"' in page
            assert "details" not in item
    assert [item["row"] for item in told(client, "/items.json?rows=5,3,10,9999")["items"]] == [5, 3]


def test_a_large_page_comes_packed_to_those_who_can_unpack_it(shown):
    client = shown[1]
    packed = client.get("/items", headers={"Accept-Encoding": "gzip"})
    plain = client.get("/items", headers={"Accept-Encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.text == plain.text
    assert 4 * int(packed.headers["content-length"]) < int(plain.headers["content-length"])


def test_names_are_shown_as_text_and_pages_need_no_inline_script_or_style(shown):
    client = shown[1]
    for path in ("/items", "/items?differs=1", "/mistakes", "/duplicates", "/next", "/map"):
        page = told(client, path)
        assert BAD not in page
        assert "style=" not in page
        assert "<script>" not in page
        assert page.count("<h1") == 1
    assert "&lt;script&gt;alert(1)" in told(client, "/items")


@pytest.mark.parametrize("wrong", ["below=2", "below=x", "after=x", "rows=1,x", "row=-1", "node=bird", "state=dead"])
def test_what_cannot_be_shown_is_said_in_a_sentence(shown, wrong):
    answer = shown[1].get(f"/items.json?{wrong}")
    assert answer.status_code == 400
    assert "/" not in answer.json()["error"]
    assert shown[1].get("/map?layout=x").status_code == 400


def test_lists_of_work_are_those_of_the_collection(shown):
    collection, client = shown
    found = told(client, "/mistakes.json")
    assert [each["text"] for each in found["mistakes"]] == [str(each) for each in collection.likely_mistakes()]
    assert {"item 0", "item 4"} <= {each["id"] for each in found["mistakes"]}
    found = told(client, "/duplicates.json")
    assert [each["text"] for each in found["duplicates"]] == [str(each) for each in collection.near_duplicates()]
    assert ("item 5", "twin") in [(each["id"], each["other"]) for each in found["duplicates"]]
    found = told(client, "/next.json")
    assert [each["text"] for each in found["to_label"]] == [str(each) for each in collection.label_next(12)]


def test_a_suggestion_is_taken_by_a_plain_form_and_the_mistake_is_gone(changing):
    collection, client = changing
    (mistake,) = [each for each in told(client, "/mistakes.json")["mistakes"] if each["id"] == "item 0"]
    page = told(client, "/mistakes")
    assert f'name="state" value="{mistake["item"]["state"]}"' in page
    fields = {"id": "item 0", "state": mistake["item"]["state"], "label": "cat", "do": "relabel", "back": "/mistakes"}
    answer = client.post("/change", data=fields, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/mistakes")
    assert collection.store.item("item 0")["label"] == "cat"
    assert "item 0" not in [each["id"] for each in told(client, "/mistakes.json")["mistakes"]]
    assert client.post("/change.json", data=fields).status_code == 409


def test_a_label_that_is_right_is_not_asked_about_again(changing):
    collection, client = changing
    (mistake,) = [each for each in told(client, "/mistakes.json")["mistakes"] if each["id"] == "item 0"]
    fields = {"id": "item 0", "state": mistake["item"]["state"], "do": "confirm", "back": "/mistakes"}
    assert "<bdi>dog</bdi> is right" in told(client, "/mistakes")
    assert client.post("/change", data=fields, follow_redirects=False).headers["location"] == "/mistakes"
    assert collection.store.item("item 0")["label"] == "dog"
    assert "item 0" not in [each["id"] for each in told(client, "/mistakes.json")["mistakes"]]


def test_many_items_get_a_label_in_one_event_that_is_taken_back_as_one(changing):
    collection, client = changing
    before, version = collection.store.items().labels.tolist(), collection.version
    done = client.post("/label-many.json", data={"id": ["item 0", "item 1"], "rows": "2,1,10", "label": "oak"}).json()
    assert (done["items"], done["label"], done["event"]) == (3, "oak", version + 1)
    assert collection.store.items().labels[:3].tolist() == ["oak"] * 3
    client.post("/undo.json", data={"event": done["event"]})
    assert collection.store.items().labels.tolist() == before


def test_more_than_twenty_items_get_a_label_only_from_somebody_who_is_sure(changing):
    collection, client = changing
    rows = {"rows": ",".join(map(str, range(30))), "label": "oak"}
    version = collection.version
    answer = client.post("/label-many.json", data=rows)
    assert answer.status_code == 400
    assert "29 items" in answer.json()["error"]
    assert collection.version == version
    assert client.post("/label-many.json", data={**rows, "sure": "yes"}).json()["items"] == 29
    for missing in ({"label": "oak"}, {"rows": "1"}):
        assert client.post("/label-many.json", data=missing).status_code == 400


def test_a_collection_that_is_shown_only_takes_no_labels(tmp_path):
    filled(tmp_path / "things").close()
    with LiveCollection.open(tmp_path / "things", read_only=True) as collection:
        client = visitor(collection)
        assert client.post("/label-many.json", data={"rows": "1", "label": "oak"}).status_code == 400
        for path in ("/items", "/mistakes", "/duplicates", "/next", "/map"):
            assert '<form method="post"' not in told(client, path)


@pytest.mark.parametrize(
    "path", ["/mistakes", "/duplicates", "/next", "/groups", "/review", "/map", "/items", "/how-good"]
)
def test_a_collection_in_which_nothing_votes_has_all_its_pages_and_says_why_they_are_empty(tmp_path, path):
    with LiveCollection.create(tmp_path / "young", 2) as collection:
        collection.add(["a"], [[0.0, 1.0]], ["oak"], by="machine")
        page = told(visitor(collection), path)
        assert page.count("<h1") == 1
        assert ("Nothing is labeled yet" in page) == (path in ("/mistakes", "/how-good"))


def drawings(card):
    """How many items a card draws: the one or two it is about, and their neighbors."""
    return len(card.get("items", [0])) + len(card.get("neighbors", []))


def test_items_without_a_picture_are_drawn_and_labels_of_machines_are_accepted_where_they_are_seen(changing):
    collection, client = changing
    page, twin = told(client, "/items?state=waiting"), told(client, "/items.json?state=waiting")
    (item,) = twin["items"]
    assert page.count("<polyline") == 1
    assert len(item["sketch"]) == 3
    assert 'value="confirm"' in page
    client.post("/change", data={"id": item["id"], "state": item["state"], "do": "confirm", "back": "/items"})
    assert collection.store.item("guess")["confirmed"]
    for path, name in (("/mistakes", "mistakes"), ("/duplicates", "duplicates"), ("/next", "to_label")):
        cards = told(client, f"{path}.json")[name]
        assert told(client, path).count("<polyline") == sum(map(drawings, cards)) > 0


def test_keywords_are_shown_and_corrected(tmp_path):
    with LiveCollection.create(tmp_path / "words", 1) as collection:
        collection.add(["a", "b", "c"], [[0.0], [0.1], [0.2]], None, [["sea", "sky"], ["sea"], ["sea"]])
        client = visitor(collection)
        page = told(client, "/items")
        assert "<span>sky</span>" in page
        assert "no label" not in page.partition('id="grid"')[2].replace('alt="no label"', "").replace(
            'label="no label"', ""
        )
        item = told(client, "/ask.json?id=a")["item"]
        assert 'value="sea, sky"' in told(client, "/ask?id=a")
        fields = {"id": "a", "state": item["state"], "do": "keywords", "keywords": "sea, boat", "back": "/ask?id=b"}
        see = client.post("/change.json", data=fields).json()["see"]
        assert "keywords: sea, boat" in told(client, see)
        assert collection.store.item("a")["keywords"] == ["sea", "boat"]


def test_points_travel_as_numbers_with_the_places_of_their_labels(shown):
    collection, client = shown
    while client.get("/map.bin").status_code == 202:
        pass
    content, page = client.get("/map.bin").content, told(client, "/map.json")
    n = collection.store.n_rows
    assert len(content) == 10 * n == 10 * page["rows"]
    np.testing.assert_array_equal(np.frombuffer(content, "<f4", 2 * n).reshape(n, 2), map_of(collection))
    numbers, names = np.frombuffer(content, "<u2", n, 8 * n), [each["label"] for each in page["labels"]]
    items = collection.store.items()
    assert [None if number == 65535 else names[number] for number in numbers[items.alive]] == items.labels[
        items.alive
    ].tolist()
    assert sum(each["items"] for each in page["labels"]) + page["unlabeled"] == len(collection)


def test_a_map_stays_while_labels_change_and_is_made_again_when_an_item_goes(changing):
    collection, client = changing
    made, maps = [], client.app.state.caches.maps["components"]
    make = maps._make
    maps._make = lambda: made.append(1) or make()
    for change, times in ((lambda: None, 1), (lambda: collection.relabel(["item 1"], ["cat"]), 1),
                          (lambda: collection.forget(["item 1"]), 2)):  # fmt: skip
        change()
        assert client.get("/map.bin").status_code == 200
        assert len(made) == times


def test_pages_of_many_labels_stay_small(tmp_path):
    with LiveCollection.create(tmp_path / "many", 2) as collection:
        n = 4000
        collection.add([f"item {row}" for row in range(n)], np.random.default_rng(0).random((n, 2)),
                       [f"a rather long label of the number {row}" for row in range(n)])  # fmt: skip
        client = visitor(collection)
        for path in ("/items", "/map"):
            assert len(told(client, path)) < 150_000
        assert len(told(client, "/map.json")["labels"]) == n


# ---------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A folder with more items than are on a page at once."""
    path = tmp_path_factory.mktemp("many") / "things"
    with filled(path, n=N) as collection:
        collection.state()
    return path


@pytest.fixture(scope="module")
def read(many):
    """Items that no test changes, behind a server."""
    with LiveCollection.open(many) as collection, on_a_port(collection, None) as address:
        yield collection, address


@pytest.fixture
def served(many, tmp_path):
    """The same items, to be changed."""
    shutil.copytree(many, tmp_path / "things")
    with LiveCollection.open(tmp_path / "things") as collection, on_a_port(collection, None) as address:
        yield collection, address


@pytest.fixture
def page(browser):
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    opened = context.new_page()
    wrong: list[str] = []
    opened.set_default_timeout(20_000)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    # What a page was refused, and asks back about, is written there by the browser too.
    refused = "409 (Conflict)"
    opened.on(
        "console", lambda said: wrong.append(said.text) if said.type == "error" and refused not in said.text else 0
    )
    opened.on("request", lambda asked: None if asked.url.startswith("http://127.0.0.1:") else wrong.append(asked.url))
    yield opened
    context.close()
    assert wrong == []


def test_tiles_come_as_one_scrolls_and_those_out_of_sight_are_emptied(page, read):
    page.goto(read[1] + "/items")
    n = len(read[0])
    for _ in range(300):  # as often as a slow machine needs
        page.mouse.wheel(0, 2500)
        page.wait_for_timeout(60)
        assert page.locator(".tile").count() <= 300
        if page.locator("#next").count() == 0:
            break
    assert page.locator("#grid ul").count() == -(-n // 60)
    page.locator(f'.tile[data-row="{N + 3}"]').wait_for()
    page.evaluate("scrollTo(0, 0)")
    page.locator('.tile[data-row="0"]').wait_for()
    page.wait_for_timeout(200)
    assert page.locator(".tile").count() <= 300


def test_selected_items_are_kept_between_pages_and_labeled_together(served, page):
    collection, address = served
    page.goto(address + "/items")
    for row in (3, 4):
        page.locator(f'.tile[data-row="{row}"] .pick input').check()
    page.goto(address + "/items?selected=1")
    page.locator('.tile[data-row="4"]').wait_for()
    assert page.locator(".tile").count() == 2
    page.fill("#bulk [name=label]", "oak")
    page.click("#bulk button:not([type=button])")
    page.locator("#messages", has_text="2 items labeled oak.").wait_for()
    assert collection.store.items().labels[[3, 4]].tolist() == ["oak", "oak"]
    with page.expect_response("**/undo.json"):
        page.click("#messages button")
    assert collection.store.items().labels[3] == "cat"


def ticked(page):
    return page.evaluate(
        "[...document.querySelectorAll('.tile:has(.pick input:checked)')].map((tile) => +tile.dataset.row)"
    )


def test_what_is_selected_is_ticked_after_a_reload_and_on_every_page(served, page):
    page.goto(served[1] + "/items")
    for row in (3, 4):
        page.locator(f'.tile[data-row="{row}"] .pick input').check()
    page.reload()
    page.locator("#picked", has_text="2 items selected.").wait_for()
    assert ticked(page) == [3, 4]
    assert page.locator(".tile.selected").count() == 2
    page.goto(served[1] + "/items?label=cat")
    page.locator("#picked", has_text="2 items selected, 1 of them not on this page.").wait_for()
    assert ticked(page) == [3]
    page.goto(served[1] + "/map")
    page.go_back()
    page.locator("#picked", has_text="2 items selected").wait_for()
    assert ticked(page) == [3]
    page.click("#clear")
    assert ticked(page) == []
    assert not page.locator("#bulk").is_visible()
    page.goto(served[1] + "/items")
    assert ticked(page) == []


def test_items_that_are_not_on_the_page_get_a_label_only_from_somebody_who_is_sure(served, page):
    collection, address = served
    page.goto(address + "/items")
    page.locator('.tile[data-row="3"] .pick input').check()
    page.goto(address + "/items?label=oak")
    page.locator('.tile[data-row="5"] .pick input').check()
    before = collection.version
    page.fill("#bulk [name=label]", "dog")
    page.click("#bulk button:not([type=button])")
    page.locator("#ask-back-words", has_text="Give 2 items the label “dog”? 1 of them is not on this page.").wait_for()
    page.click("#ask-back button[value=no]")
    assert collection.version == before
    page.click("#bulk button:not([type=button])")
    page.click("#ask-back button[value=yes]")
    page.locator("#messages", has_text="2 items labeled dog.").wait_for()
    assert collection.store.items().labels[[3, 5]].tolist() == ["dog", "dog"]


def test_a_mistake_is_mended_in_one_click_and_its_card_goes(served, page):
    collection, address = served
    while "item 0" not in page.content():
        page.goto(address + "/mistakes")
    card = page.locator(".card", has=page.locator("text='item 0'"))
    n = page.locator(".card").count()
    card.locator("button", has_text="It is cat").click()
    page.locator("#messages", has_text="dog → cat").wait_for()
    assert page.locator(".card").count() == n - 1
    assert collection.store.item("item 0")["label"] == "cat"


def test_keys_go_from_card_to_card_mend_undo_and_are_listed(served, page):
    collection, address = served
    while page.locator(".card").count() == 0:
        page.goto(address + "/mistakes")
    first = page.locator(".card .who a").first.get_attribute("href")
    page.keyboard.press("?")
    page.locator("#help[open]").wait_for()
    page.keyboard.press("r")
    page.keyboard.press("Escape")
    version = collection.version
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.getAttribute('href')") == first
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("c")
    page.keyboard.type("ar")
    page.locator(".card").first.locator("[name=label][list]").evaluate("field => field.blur()")
    assert collection.version == version
    page.keyboard.press("j")
    page.keyboard.press("r")
    page.locator("#messages", has_text="is right.").wait_for()
    assert collection.history(version)[-1].kind == "confirm"
    page.keyboard.press("u")
    page.locator("#messages").wait_for(state="hidden")
    assert collection.history(version)[-1].kind == "undo"
    page.goto(address + "/items")
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.locator("#picked", has_text="1 item selected.").wait_for()


def test_items_on_the_map_are_drawn_around_and_more_than_twenty_ask_back(served, page):
    collection, address = served
    page.goto(address + "/map")
    page.locator("#map").wait_for()
    page.locator("#state").wait_for(state="hidden")
    page.click("#lasso")
    box = page.locator("#canvas").bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 8)
    page.mouse.down()
    for x, y in ((0.99, 0.01), (0.99, 0.99), (0.01, 0.99), (0.01, 0.02)):
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
    page.mouse.up()
    page.locator("#picked", has_text=f"{len(collection)} items selected.").wait_for()
    version = collection.version
    page.fill("#bulk [name=label]", "oak")
    for answer in ("No", "Yes, label them"):
        page.click("#bulk button:not([type=button])")
        page.locator("dialog button", has_text=answer).click()
    page.locator("#messages", has_text=f"{N + 3} items labeled oak.").wait_for()
    assert collection.version == version + 1
    assert set(collection.store.items().labels[collection.store.items().alive]) == {"oak"}
    page.locator("#counts td", has_text=str(N + 3)).wait_for()


def test_taking_many_items_out_asks_back_with_their_number(served, page):
    collection, address = served
    collection.add(["many 1", "many 2"], np.zeros((2, 3)), ["cat", "cat"])
    for answer in ("No", "Yes, remove 2 items"):
        page.goto(address + "/history")
        page.locator(".events button").first.click()
        page.locator("dialog[open] p", has_text="removes 2 items from").wait_for()
        assert "many 1" in collection.items.row_of
        page.locator("dialog[open] button", has_text=answer).click()
    page.locator(".events .undone", has_text="add 2 items").wait_for()
    assert "many 1" not in collection.items.row_of


def test_the_map_is_used_with_keys_alone(page, read):
    page.goto(read[1] + "/map")
    page.locator("#map").wait_for()
    page.locator("#state").wait_for(state="hidden")
    page.focus("#canvas")
    for key in ("+", "+", "+", "ArrowLeft", "-"):
        page.keyboard.press(key)
    page.focus("#in-view")
    page.keyboard.press("Enter")
    picked = page.inner_text("#picked")
    assert 0 < int(picked.split()[0]) < len(read[0])


def test_what_lies_under_the_pointer_is_shown(page, read):
    page.goto(read[1] + "/map")
    page.locator("#map").wait_for()
    page.locator("#state").wait_for(state="hidden")
    box = page.locator("#canvas").bounding_box()
    points = map_of(read[0])
    span = np.nanmax(points, axis=0) - np.nanmin(points, axis=0)
    middle = (np.nanmax(points, axis=0) + np.nanmin(points, axis=0)) / 2
    scale = 0.92 * min(box["width"] / span[0], box["height"] / span[1])
    x, y = ((points[20] - middle) * scale).tolist()
    page.mouse.move(box["x"] + box["width"] / 2 + x, box["y"] + box["height"] / 2 - y)
    page.locator("#shown", has_text="item").wait_for()
    near = np.nanargmin(((points - points[20]) ** 2).sum(axis=1))
    assert page.inner_text("#shown .id") == f"item {near}"


def test_browsing_works_without_a_script(browser, served):
    context = browser.new_context(java_script_enabled=False)
    opened = context.new_page()
    opened.goto(served[1] + "/items")
    opened.click("#next")
    assert opened.locator(".tile").first.get_attribute("data-row") == "61"
    opened.locator(".pick input").first.check()
    opened.fill("#bulk [name=label]", "oak")
    opened.click("#bulk button:not([type=button])")
    assert served[0].store.items().labels[61] == "oak"
    opened.goto(served[1] + "/map")
    assert opened.locator("#counts tr").count() > 3
    context.close()


LONG = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"
HEBREW = "כלב גדול מאוד"


@pytest.fixture(scope="module")
def lettered(tmp_path_factory):
    """Items with names that are very long, or written from right to left, behind a server."""
    rng = np.random.default_rng(0)
    with LiveCollection.create(tmp_path_factory.mktemp("lettered") / "names", 2) as collection:
        ids = [f"{LONG}/{LONG}-{row}.png" if row % 3 else f"{HEBREW} {row}" for row in range(30)]
        X = rng.normal(size=(30, 2)) + 3 * (np.arange(30) % 2)[:, None]
        collection.add(ids, X, [(LONG, HEBREW)[row % 2] for row in range(30)], [[LONG]] * 30)
        collection.relabel(ids[:2], [HEBREW, LONG])
        collection.add(["twin", "new"], X[:2], [LONG, None])
        with on_a_port(collection, None) as address:
            yield collection, address


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize(
    "path", ["/ask?id=twin", "/items?differs=1", "/mistakes", "/duplicates", "/next", "/map", "/history"]
)
def test_no_page_is_wider_than_the_window_whatever_the_names(lettered, page, path, width):
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(lettered[1] + path)
    page.locator("main").get_by_text(HEBREW).or_(page.locator(".events")).first.wait_for(state="attached")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_name_from_right_to_left_takes_no_figure_along(lettered, page):
    page.goto(lettered[1] + "/ask?id=" + lettered[0].store.items().ids[3])
    page.locator("#answer").wait_for()
    name, share = page.locator(".big strong").bounding_box(), page.locator(".big .share").bounding_box()
    assert page.inner_text(".big strong") == HEBREW
    assert name["x"] + name["width"] <= share["x"]


@pytest.mark.parametrize("width", [390, 2560])
@pytest.mark.parametrize("path", ["/items", "/items?differs=1", "/mistakes", "/duplicates", "/next", "/map"])
def test_no_page_is_wider_than_the_window(page, read, path, width):
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(read[1] + path)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
