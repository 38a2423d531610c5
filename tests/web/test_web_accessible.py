"""Every page is usable by those who do not see it, see it badly, or use no mouse: axe finds nothing serious."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette")
pytest.importorskip("multipart")
axe_of = pytest.importorskip("axe_playwright_python.sync_playwright")

from nearsay.collection.indexing import index_source  # noqa: E402
from nearsay.collection.live import LiveCollection  # noqa: E402
from tests.served_collections import numbers_collection, picture_collection  # noqa: E402

pytestmark = pytest.mark.slow  # a server and a browser each

PAGES = (
    "/",
    "/groups",
    "/ask?id=red/red-4.png",
    "/items",
    "/items?differs=1",
    "/items?label=nothing",
    "/mistakes",
    "/duplicates",
    "/next",
    "/map",
    "/how-good",
    "/batch",
    "/review",
    "/history",
    "/nowhere",
)


@pytest.fixture(scope="module")
def shades(tmp_path_factory):
    with picture_collection(tmp_path_factory.mktemp("shades")) as collection:
        collection.add(["new"], collection.store.vectors([3]) + 0.01, [None])
        collection.relabel(["blue/blue-3.png"], ["red"])
        yield collection


@pytest.fixture(scope="module")
def heaps(tmp_path_factory):
    with numbers_collection(tmp_path_factory.mktemp("heaps"), n=12) as collection:
        yield collection


SERIOUS = """async (rules) => {
  const options = { resultTypes: ["violations"], ...(rules && { runOnly: { type: "rule", values: rules } }) };
  const { violations } = await axe.run(document, options);
  const wrong = violations.filter((each) => ["serious", "critical"].includes(each.impact));
  return wrong.map((each) => `${location.pathname} ${innerWidth}: ${each.id}: ${each.nodes[0].html.slice(0, 200)}`);
}"""


def looked_at(page):
    """What axe finds serious or critical, wide and narrow, by day and by night, with all that opens open."""
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page.evaluate(axe_of.Axe().axe_script)
    found = []
    for width, color, rules in (
        (1280, "light", None),
        (1280, "dark", ["color-contrast"]),
        (390, "dark", ["color-contrast"]),
        (390, "light", ["color-contrast", "scrollable-region-focusable", "target-size"]),
    ):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=color)
        found += page.evaluate(SERIOUS, rules)
    return found


def opened(page, path):
    """A page when nothing is being computed any more."""
    page.goto(page.evaluate("location.origin") + path)
    assert (page.inner_text("h1") == "That did not work") == (path == "/nowhere")
    for _ in range(50):
        if page.get_by_text("Being computed").count() + page.locator("[data-job]").count() == 0:
            return page
        page.wait_for_timeout(200)
        page.reload()
    raise AssertionError(f"{page.url} is never done")


def test_nothing_serious_is_found_on_any_page(shades, browsing):
    with browsing(shades) as (visit, _):
        page = visit("/ask")
        assert [wrong for path in PAGES for wrong in looked_at(opened(page, path))] == []
        opened(page, "/ask?id=orange/orange-4.png")
        page.locator(".tiles summary").first.click()
        page.locator(".tiles .chips button").first.click()
        page.wait_for_selector("#changed")
        page.wait_for_load_state()
        assert looked_at(page) == []
        page.keyboard.press("?")
        assert looked_at(page) == []


def test_nothing_serious_is_found_where_items_are_numbers(heaps, browsing):
    with browsing(heaps) as (visit, _):
        page = visit("/ask")
        for path in ("/ask?id=row 1", "/items", "/batch", "/how-good"):
            assert looked_at(opened(page, path)) == []


def test_nothing_serious_is_found_where_items_are_rows_of_a_table(tmp_path, browsing):
    rows = [f"{'gold' if row % 3 else 'basic'},{row % 17},{'stays' if row % 3 else 'leaves'}" for row in range(40)]
    (tmp_path / "plans.csv").write_text("\n".join(["plan,age,label", *rows]))
    index_source(tmp_path / "plans.csv", tmp_path / "plans.nearsay")
    with LiveCollection.open(tmp_path / "plans.nearsay") as collection, browsing(collection) as (visit, _):
        collection.relabel(["plans:3"], ["stays"])
        page = visit("/")
        for path in ("/", "/ask?id=plans:4", "/items", "/mistakes"):
            assert looked_at(opened(page, path)) == []
