"""The pages for browsing and the map: they show the figures of the collection, with and without a script."""

from __future__ import annotations

import shutil
import threading
from contextlib import contextmanager
from urllib.parse import urlsplit

import numpy as np
import pytest

pytest.importorskip("starlette")

from nearsay.collection.live import LiveCollection
from nearsay.web.content.background_cache import BackgroundCache
from nearsay.web.content.item_filters import row_labels
from nearsay.web.content.label_doubts import label_doubts
from nearsay.web.content.map_layout import map_of
from nearsay.web.pages.browsing import PAGE
from tests.served_collections import EVIL, client_of
from tests.web.visits import at_rest

pytestmark = pytest.mark.slow  # a server and a browser each

TREE = [("thing", "animal"), ("thing", "plant"), ("animal", "cat"), ("animal", "dog"), ("plant", "oak")]
N = 420


def filled(path, n=90, taxonomy=TREE) -> LiveCollection:
    """Three clouds of cats, dogs and oaks, each third row of one; some wrong, waiting, without a label or forgotten."""
    rng = np.random.default_rng(0)
    names = np.array(["cat", "dog", "oak"])[np.arange(n) % 3]
    X = np.eye(3)[np.arange(n) % 3] * 8 + rng.normal(size=(n, 3))
    labels = names.tolist()
    labels[0], labels[4] = "dog", "oak"
    made = LiveCollection.create(path, 3, taxonomy=taxonomy)
    made.add([EVIL if row == 7 else f"item {row}" for row in range(n)], X, labels)
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
        yield collection, client_of(collection)


@pytest.fixture
def changing(tmp_path):
    with filled(tmp_path / "things") as collection:
        yield collection, client_of(collection)


def told(client, path):
    """What a page says when it is done computing."""
    answer = at_rest(client, path)
    return answer.json() if ".json" in path else answer.text


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
    for row in (10, collection.store.n_rows):  # forgotten, and added since
        assert said.of(row) == {"answer": None, "probability": None, "label_probability": None}


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
        assert EVIL not in page
        assert "style=" not in page
        assert "<script>" not in page
        assert page.count("<h1") == 1
    assert "&lt;script&gt;alert(" in told(client, "/items")


@pytest.mark.parametrize("wrong", ["below=2", "below=x", "after=x", "rows=1,x", "row=-1", "node=bird", "state=dead"])
def test_what_cannot_be_shown_is_said_in_a_sentence(shown, wrong):
    answer = shown[1].get(f"/items.json?{wrong}")
    assert answer.status_code == 400
    assert "/" not in answer.json()["error"]
    assert shown[1].get("/map?layout=x").status_code == 400


def test_lists_of_work_are_those_of_the_collection(shown):
    collection, client = shown
    for name, expected, listed in (
        ("mistakes", collection.likely_mistakes(), {("item 0",), ("item 4",)}),
        ("duplicates", collection.near_duplicates(), {("item 5", "twin")}),
        ("next", collection.label_next(12), {("new a",)}),
    ):
        found = told(client, f"/{name}.json")[{"next": "to_label"}.get(name, name)]
        assert [each["text"] for each in found] == list(map(str, expected))
        assert listed <= {(each["id"], each["other"]) if "other" in each else (each["id"],) for each in found}


@pytest.mark.parametrize(("do", "label"), [("relabel", "cat"), ("confirm", "dog")])
def test_a_mistake_is_mended_or_called_right_by_a_plain_form_and_not_listed_again(changing, do, label):
    collection, client = changing
    (mistake,) = [each for each in told(client, "/mistakes.json")["mistakes"] if each["id"] == "item 0"]
    page = told(client, "/mistakes")
    assert f'name="state" value="{mistake["item"]["state"]}"' in page
    assert "<bdi>dog</bdi> is right" in page
    fields = {"id": "item 0", "state": mistake["item"]["state"], "do": do, "label": label, "back": "/mistakes"}
    answer = client.post("/change", data=fields, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/mistakes")
    assert collection.store.item("item 0")["label"] == label
    assert "item 0" not in [each["id"] for each in told(client, "/mistakes.json")["mistakes"]]
    assert client.post("/change.json", data=fields).status_code == (409 if do == "relabel" else 200)


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
        client = client_of(collection)
        assert client.post("/label-many.json", data={"rows": "1", "label": "oak"}).status_code == 400
        for path in ("/items", "/mistakes", "/duplicates", "/next", "/map"):
            assert '<form method="post"' not in told(client, path)


def test_a_collection_in_which_nothing_votes_has_all_its_pages_and_says_why_they_are_empty(tmp_path):
    with LiveCollection.create(tmp_path / "young", 2) as collection:
        collection.add(["a"], [[0.0, 1.0]], ["oak"], by="machine")
        client = client_of(collection)
        for path in ("/mistakes", "/duplicates", "/next", "/groups", "/review", "/map", "/items", "/how-good"):
            page = told(client, path)
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
        client = client_of(collection)
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
    content, page = at_rest(client, "/map.bin").content, told(client, "/map.json")
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
        client = client_of(collection)
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


@pytest.fixture
def open_many(many, tmp_path, browsing):
    """Opens a page of a copy of these items; gives the page and the collection. The browser must not complain."""

    @contextmanager
    def opened(path, *, scripts=True):
        shutil.copytree(many, tmp_path / "things")
        with LiveCollection.open(tmp_path / "things") as collection:
            with browsing(collection, scripts=scripts, token=None) as (visit, complaints):
                yield visit(path), collection
            assert complaints == []

    return opened


def go(page, path):
    at = urlsplit(page.url)
    page.goto(f"{at.scheme}://{at.netloc}{path}")


def pick(page, row):
    page.locator(f'.tile[data-row="{row}"] .pick input').check()


def ticked(page):
    return page.evaluate(
        "[...document.querySelectorAll('.tile:has(.pick input:checked)')].map((tile) => +tile.dataset.row)"
    )


def label_selected(page, label, answer=None):
    """Label what is selected, and answer what is asked back."""
    page.fill("#bulk [name=label]", label)
    page.click("#bulk button:not([type=button])")
    if answer is not None:
        page.click(f"#ask-back button[value={answer}]")


def test_tiles_come_as_one_scrolls_and_those_out_of_sight_are_emptied(open_many):
    with open_many("/items") as (page, collection):
        for _ in range(300):  # as often as a slow machine needs
            page.mouse.wheel(0, 2500)
            page.wait_for_timeout(60)
            assert page.locator(".tile").count() <= 300
            if page.locator("#next").count() == 0:
                break
        assert page.locator("#grid ul").count() == -(-len(collection) // 60)
        page.locator(f'.tile[data-row="{N + 3}"]').wait_for()
        page.evaluate("scrollTo(0, 0)")
        page.locator('.tile[data-row="0"]').wait_for()
        page.wait_for_timeout(200)
        assert page.locator(".tile").count() <= 300


def test_items_are_selected_on_several_pages_and_labeled_together(open_many):
    with open_many("/items") as (page, collection):
        pick(page, 3)
        pick(page, 4)
        page.reload()
        page.locator("#picked", has_text="2 items selected.").wait_for()
        assert ticked(page) == [3, 4]
        assert page.locator(".tile.selected").count() == 2
        go(page, "/items?selected=1")
        page.locator('.tile[data-row="4"]').wait_for()
        assert page.locator(".tile").count() == 2
        go(page, "/items?label=cat")
        page.locator("#picked", has_text="2 items selected, 1 of them not on this page.").wait_for()
        go(page, "/map")
        page.go_back()
        page.locator("#picked", has_text="2 items selected").wait_for()
        assert ticked(page) == [3]
        before = collection.version
        label_selected(page, "dog", "no")
        asked = page.text_content("#ask-back-words")
        assert asked == "Give 2 items the label “dog”? 1 of them is not on this page."
        assert collection.version == before
        label_selected(page, "dog", "yes")
        page.locator("#messages", has_text="2 items labeled dog.").wait_for()
        assert collection.store.items().labels[[3, 4]].tolist() == ["dog", "dog"]
        with page.expect_navigation():
            page.click("#messages button")
        assert collection.store.items().labels[3] == "cat"
        pick(page, 3)
        page.click("#clear")
        assert ticked(page) == []
        assert not page.locator("#bulk").is_visible()


def test_mistakes_are_mended_by_keys_or_in_one_click_and_their_cards_go(open_many):
    def cards(having=""):
        found = page.locator(".card", has_text=having)
        while found.count() == 0:  # computed anew after each change
            go(page, "/mistakes")
        return found

    with open_many("/mistakes") as (page, collection):
        first = cards().first.locator(".who a").get_attribute("href")
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
        card = cards(having="item 0")
        n = page.locator(".card").count()
        card.locator("button", has_text="It is cat").first.click()
        page.locator("#messages", has_text="dog → cat").wait_for()
        assert page.locator(".card").count() == n - 1
        assert collection.store.item("item 0")["label"] == "cat"
        go(page, "/items")
        page.keyboard.press("j")
        page.keyboard.press("x")
        page.locator("#picked", has_text="1 item selected.").wait_for()


def test_the_map_shows_selects_and_labels_items_by_pointer_and_by_keys(open_many):
    with open_many("/map") as (page, collection):
        page.locator("#state").wait_for(state="hidden")
        box, points = page.locator("#canvas").bounding_box(), map_of(collection)
        low, high = np.nanmin(points, axis=0), np.nanmax(points, axis=0)
        scale = 0.92 * min(box["width"] / (high - low)[0], box["height"] / (high - low)[1])
        x, y = ((points[20] - (high + low) / 2) * scale).tolist()
        page.mouse.move(box["x"] + box["width"] / 2 + x, box["y"] + box["height"] / 2 - y)
        page.locator("#shown", has_text="item").wait_for()
        near = np.nanargmin(((points - points[20]) ** 2).sum(axis=1))
        assert page.inner_text("#shown .id") == f"item {near}"
        page.focus("#canvas")
        for key in ("+", "+", "+", "ArrowLeft", "-"):
            page.keyboard.press(key)
        page.focus("#in-view")
        page.keyboard.press("Enter")
        assert 0 < int(page.inner_text("#picked").split()[0]) < len(collection)
        page.click("#whole")
        page.click("#lasso")
        page.mouse.move(box["x"] + 20, box["y"] + 8)
        page.mouse.down()
        for x, y in ((0.99, 0.01), (0.99, 0.99), (0.01, 0.99), (0.01, 0.02)):
            page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
        page.mouse.up()
        page.locator("#picked", has_text=f"{len(collection)} items selected.").wait_for()
        version = collection.version
        label_selected(page, "oak", "no")
        label_selected(page, "oak", "yes")
        page.locator("#messages", has_text=f"{N + 3} items labeled oak.").wait_for()
        assert collection.version == version + 1
        assert set(collection.store.items().labels[collection.store.items().alive]) == {"oak"}
        page.locator("#counts td", has_text=str(N + 3)).wait_for()


def test_taking_many_items_out_asks_back_with_their_number(open_many):
    with open_many("/history") as (page, collection):
        collection.add(["many 1", "many 2"], np.zeros((2, 3)), ["cat", "cat"])
        for answer in ("No", "Yes, remove 2 items"):
            go(page, "/history")
            page.locator(".events button").first.click()
            page.locator("dialog[open] p", has_text="removes 2 items from").wait_for()
            assert "many 1" in collection.items.row_of
            page.locator("dialog[open] button", has_text=answer).click()
        page.locator(".events .undone", has_text="add 2 items").wait_for()
        assert "many 1" not in collection.items.row_of


def test_browsing_works_without_a_script(open_many):
    with open_many("/items", scripts=False) as (page, collection):
        page.click("#next")
        assert page.locator(".tile").first.get_attribute("data-row") == "61"
        page.locator(".pick input").first.check()
        label_selected(page, "oak")
        assert collection.store.items().labels[61] == "oak"
        go(page, "/map")
        assert page.locator("#counts tr").count() > 3
