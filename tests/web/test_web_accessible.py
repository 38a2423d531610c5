"""Every page is usable by those who do not see it, see it badly, or use no mouse, and fits every window."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("multipart")
axe_of = pytest.importorskip("axe_playwright_python.sync_playwright")

from nearsay.collection.indexing import index_source  # noqa: E402
from nearsay.collection.live import LiveCollection  # noqa: E402
from tests.served_collections import EVIL, picture_collection  # noqa: E402

pytestmark = pytest.mark.slow  # a server and a browser each

PAGES = (
    *("/", "/groups", "/ask?id=red/red-4.png", "/items", "/items?differs=1", "/items?label=nothing", "/mistakes"),
    *("/duplicates", "/next", "/map", "/how-good", "/batch", "/review", "/history", "/nowhere"),
)
LONG = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"
HEBREW = "כלב גדול מאוד"

SERIOUS = """async (rules) => {
  const options = { resultTypes: ["violations"], ...(rules && { runOnly: { type: "rule", values: rules } }) };
  const { violations } = await axe.run(document, options);
  const wrong = violations.filter((each) => ["serious", "critical"].includes(each.impact));
  return wrong.map((each) => `${location.pathname} ${innerWidth}: ${each.id}: ${each.nodes[0].html.slice(0, 200)}`);
}"""


def faults(page):
    """What axe finds serious or critical, and what is wider than the window: by day and by night, all opened."""
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page.evaluate(axe_of.Axe().axe_script)
    found = []
    for width, color, rules in (
        (390, "dark", ["color-contrast", "scrollable-region-focusable", "target-size"]),
        (2560, "dark", []),
        (1280, "light", None),
    ):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=color)
        if page.evaluate("document.documentElement.scrollWidth") > width:
            found.append(f"{page.url} is wider than {width}")
        found += page.evaluate(SERIOUS, rules) if rules != [] else []
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


def test_no_page_of_pictures_has_a_fault(tmp_path, browsing):
    with picture_collection(tmp_path) as shades, browsing(shades) as (visit, _):
        shades.add(["new"], shades.store.vectors([3]) + 0.01, [None])
        shades.relabel(["blue/blue-3.png"], ["red"])
        page = visit("/ask")
        assert [fault for path in PAGES for fault in faults(opened(page, path))] == []
        opened(page, "/ask?id=orange/orange-4.png")
        page.locator(".tiles summary").first.click()
        page.locator(".tiles .chips button").first.click()
        page.wait_for_selector("#changed")
        page.wait_for_load_state()
        assert faults(page) == []
        page.keyboard.press("?")
        assert faults(page) == []


def test_no_page_has_a_fault_where_names_are_long_or_from_right_to_left_or_scripts(tmp_path, browsing):
    """Items are numbers; the name of one, and a label, would be run if they were not shown as text."""
    rng = np.random.default_rng(0)
    with LiveCollection.create(tmp_path / "names", 2) as collection:
        ids = [f"{LONG}/{LONG}-{row}.png" if row % 3 else f"{HEBREW} {row}" for row in range(30)]
        X = rng.normal(size=(30, 2)) + 3 * (np.arange(30) % 2)[:, None]
        labels = [(LONG, HEBREW)[row % 2] for row in range(30)]
        collection.add(ids, X, labels, [[LONG]] * 30)
        collection.relabel(ids[:2], [HEBREW, LONG])
        collection.add([EVIL, "new"], X[:2], [LONG, None], [[EVIL]] * 2)
        with browsing(collection) as (visit, complaints):
            page = visit("/")
            for path in ("/ask?id=new", "/items?differs=1", "/mistakes", "/duplicates", "/next", "/map", "/history"):
                opened(page, path)
                page.locator("main").get_by_text(HEBREW).or_(page.locator(".events")).first.wait_for(state="attached")
                assert faults(page) == []
            assert faults(opened(page, f"/ask?id={EVIL.replace('/', '%2F')}")) == []
            assert EVIL in page.inner_text("main")
            page.focus("#typed")
            page.keyboard.type("<scr")
            page.wait_for_selector("#ids option", state="attached")
            opened(page, f"/ask?id={ids[3]}")
            name, share = page.locator(".big strong").bounding_box(), page.locator(".big .share").bounding_box()
            assert page.inner_text(".big strong") == HEBREW
            assert name["x"] + name["width"] <= share["x"]  # its direction takes no figure along
        assert complaints == []


def test_no_page_of_rows_of_a_table_has_a_fault(tmp_path, browsing):
    rows = [f"{'gold' if row % 3 else 'basic'},{row % 17},{'stays' if row % 3 else 'leaves'}" for row in range(40)]
    (tmp_path / "plans.csv").write_text("\n".join(["plan,age,label", *rows]))
    index_source(tmp_path / "plans.csv", tmp_path / "plans.nearsay", learn=False)
    with LiveCollection.open(tmp_path / "plans.nearsay") as collection, browsing(collection) as (visit, _):
        collection.learn(posterior="proportional", n_neighbors=5)
        collection.relabel(["plans:3"], ["stays"])
        page = visit("/")
        for path in ("/", "/ask?id=plans:4", "/items", "/mistakes", "/batch"):
            assert faults(opened(page, path)) == []
