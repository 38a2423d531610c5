"""The pages on which a batch is labeled and reviewed."""

from __future__ import annotations

import io
import json
import shutil
import threading
import time
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("starlette")
pytest.importorskip("httpx")
pytest.importorskip("PIL")

from PIL import Image

from nearsay.collection.answers import Answer
from nearsay.collection.indexing import index_source
from nearsay.collection.ingest.image_description import SETTING, Description
from nearsay.collection.ingest.picture_files import UPLOADS, picture_path
from nearsay.collection.live import LiveCollection
from nearsay.errors import InputError
from nearsay.taxonomy.taxonomy import Taxonomy
from nearsay.web.content import uploads
from nearsay.web.content.review_queue import exported, settled, to_review
from nearsay.web.content.uploads import LONGEST_NAME, MOST_FILES, TABLES, safe_name
from nearsay.web.rendering import templates
from tests.ingest.test_damaged_sources import png_that_claims
from tests.served_collections import EVIL, client_of
from tests.web.visits import finished

pytestmark = pytest.mark.slow  # a server and a browser each


def picture_of(red, seed, kind="PNG"):
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 60, (24, 24, 3)).astype(np.uint8)
    pixels[..., 0 if red else 2] += 180
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind)
    return out.getvalue()


@pytest.fixture(scope="session")
def pictures_made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    for red in (True, False):
        for seed in range(6):
            path = folder / "album" / ("red" if red else "blue") / f"{seed}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(picture_of(red, seed))
    index_source(folder / "album", folder / "made", description=Description.choose(["rgb"]))
    return folder / "made"


@pytest.fixture
def album(pictures_made, tmp_path):
    shutil.copytree(pictures_made, tmp_path / "album")
    with LiveCollection.open(tmp_path / "album") as collection:
        yield collection


@pytest.fixture
def leaves(tmp_path):
    with LiveCollection.create(tmp_path / "leaves", 2) as collection:
        X = np.random.default_rng(0).normal(0, 2, (24, 2)) + np.repeat([[0], [8]], 12, axis=0)
        collection.add(list("abcdefghijklmnopqrstuvwx"), X, ["oak"] * 12 + [EVIL] * 12)
        yield collection


@pytest.fixture
def page(album):
    with client_of(album) as found:
        yield found


def sent(*files):
    return [("files", (name, content, "application/octet-stream")) for name, content in files]


def labeled(page, files, keep="yes"):
    """The job when it is over, and what waits of the batch."""
    answer = page.post("/batch.json", files=sent(*files), data={"keep": keep})
    assert answer.status_code == 202, answer.text
    job = finished(page, answer.json()["job"])
    waiting = page.get(job["next"].replace("/review?", "/review.json?")).json() if job["state"] == "done" else None
    return job, waiting


# ------------------------------------------------------------ what is not trusted


@given(st.text(max_size=300))
def test_a_safe_name_is_short_shown_and_leads_nowhere(given_name):
    name = safe_name(given_name)
    assert 0 < len(name.encode()) <= LONGEST_NAME
    assert name.isprintable()
    assert not {"/", "\\"} & set(name)
    assert name not in (".", "..")
    assert safe_name(name) == name


def test_each_bad_file_is_named_with_the_reason_and_the_others_are_labeled(page, album, tmp_path):
    tiff = picture_of(True, 50, "TIFF")
    good = picture_of(True, 51)
    files = [
        ("../../owl.png", good),
        ("same.png", good),
        ("text.png", b"no picture"),
        ("cut.png", picture_of(True, 52)[:200]),
        ("scan.png", tiff),
        ("fine.webp", picture_of(False, 53, "WEBP")),
    ]
    job, waiting = labeled(page, files)
    assert job["state"] == "done"
    assert sorted(line["id"] for line in waiting["items"]) == ["fine.webp", "owl.png"]
    reasons = {problem["id"]: problem["reason"] for problem in waiting["batch"]["problems"]}
    assert set(reasons) == {"same.png", "text.png", "cut.png", "scan.png"}
    assert "same picture as owl.png" in reasons["same.png"]
    assert "not a picture of a known kind" in reasons["scan.png"]
    assert not any("/" in reason for reason in reasons.values())


def test_a_picture_of_too_many_pixels_is_refused_before_it_is_decoded(page):
    _, waiting = labeled(page, [("large.png", png_that_claims(8000, 8000))])
    assert "at most 50 million" in waiting["batch"]["problems"][0]["reason"]


def test_too_many_files_and_none_are_refused(page, album):
    before = album.version
    few = picture_of(True, 61)
    answer = page.post("/batch.json", files=sent(*[("a.png", few)] * (MOST_FILES + 1)), data={"keep": "yes"})
    assert answer.status_code == 400
    assert str(MOST_FILES) in answer.json()["error"]
    assert page.post("/batch.json", data={"keep": "yes"}).status_code == 400
    assert page.post("/batch.json", content=b"x" * (64 * 2**20 + 1)).status_code == 413
    assert album.version == before


def test_an_npz_that_unpacks_to_too_much_is_refused(leaves):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("X.npy", b"")
        archive.filelist[0].file_size = uploads.MOST_UNPACKED + 1  # as the directory at its end says
    with client_of(leaves) as page:
        job, _ = labeled(page, [("rows.npz", out.getvalue())])
        assert (job["state"], "unpacks to" in job["message"]) == ("failed", True)
        job, _ = labeled(page, [("rows.npz", b"no zip")])
        assert job["state"] == "failed"


def array_file(shape, kind="<f8", body=bytes(32)):
    """An .npy file with a header of one's choice."""
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": kind, "fortran_order": False, "shape": shape})
    return out.getvalue() + body


LYING = {
    "more rows than there are": array_file((10, 2)),
    "more than any memory": array_file((2**40, 2)),
    "more than can be counted": array_file((2**62, 2**62)),
    "fewer than none": array_file((-1, 2)),
    "rows of no numbers": array_file((2**50, 0)),
    "objects": array_file((2, 2), "|O"),
    "texts": array_file((2, 2), "<U2"),
    "too many dimensions": array_file((1,) * 70),
    "another kind of file": b"\x93NUMPX" + array_file((2, 2))[6:],
    "cut off": array_file((2, 2))[:20],
    "a header that is a program": array_file((2, 2)).replace(b"{'descr'", b"exit();#"),
    "nothing": b"",
}


@pytest.mark.parametrize("content", LYING.values(), ids=LYING)
def test_arrays_that_lie_about_themselves_are_refused_in_one_line(leaves, content):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("X.npy", content)
    with client_of(leaves) as page:
        for name, uploaded in (("new.npy", content), ("new.npz", out.getvalue())):
            job, _ = labeled(page, [(name, uploaded)])
            assert job["state"] == "failed", name
            assert "Something went wrong" not in job["message"]
            assert "\n" not in job["message"]


def test_a_read_only_collection_keeps_nothing_but_still_answers(album):
    path = album.store.path
    album.close()
    with LiveCollection.open(path, read_only=True) as shown, client_of(shown) as page:
        files = [("new.png", picture_of(True, 70))]
        refused = page.post("/batch.json", files=sent(*files), data={"keep": "yes"})
        assert (refused.status_code, "read-only" in refused.json()["error"]) == (400, True)
        assert 'name="keep" value="yes"' not in page.get("/batch").text
        _, waiting = labeled(page, files, keep="no")
        assert waiting["items"][0]["label"] == "red"
        assert page.post("/review.json", data={"id": "x", "do": "accept"}).status_code == 400
        assert not (path / UPLOADS).exists()


# ------------------------------------------------------------ kept in the collection


def test_pictures_are_kept_by_content_as_what_a_machine_said_in_one_event(page, album):
    before, content = album.version, picture_of(True, 80)
    _, waiting = labeled(page, [("new.png", content), ("other.png", picture_of(False, 81))])
    assert album.version == before + 1
    item = album.store.item("new.png")
    assert (item["label"], item["confirmed"], item["by"]) == ("red", False, "machine")
    assert picture_path(album.store, item["details"]).read_bytes() == content
    assert sorted(path.stat().st_size > 0 for path in (album.store.path / UPLOADS).iterdir()) == [True, True]
    assert page.get("/picture?id=new.png").headers["content-type"] == "image/png"
    assert album.label(album.tracker.all_rows()[-2:])[0].neighbors[0].id != "new.png"  # it does not vote yet
    assert waiting["batch"]["n_items"] == 2


def test_a_name_that_is_taken_gets_another_id_and_the_same_picture_is_not_kept_twice(page, album):
    labeled(page, [("new.png", picture_of(True, 82))])
    _, waiting = labeled(page, [("new.png", picture_of(True, 83))])
    assert waiting["items"][0]["id"].startswith("new-")
    _, again = labeled(page, [("new.png", picture_of(True, 83))])
    assert again["items"] == []
    assert "already" in again["batch"]["problems"][0]["reason"]


def test_what_cannot_be_added_leaves_no_picture_behind(album, tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(picture_of(True, 84))
    describe = Description.recorded(album.store.settings[SETTING], None)
    offered = uploads.read_pictures(album, [("a.png", path)], describe)
    uploads.answer_upload(album, offered)

    def broken(*args, **named):
        raise InputError("no")

    album.store.add = broken
    with pytest.raises(InputError):
        uploads.keep_upload(album, offered)
    assert list((album.store.path / UPLOADS).iterdir()) == []


def test_a_canceled_batch_changes_nothing_and_its_files_are_gone(page, album):
    began, go, describe, folders = threading.Event(), threading.Event(), page.app.state.served.description(), []

    def slow(paths):
        folders.append(paths[0].parent.parent)
        began.set()
        assert go.wait(60)
        return describe(paths)

    page.app.state.served._description = slow
    before = album.version
    job = page.post("/batch.json", files=sent(("n.png", picture_of(True, 85))), data={"keep": "yes"}).json()["job"]
    assert began.wait(60)  # canceled in the middle of its work, not before it
    threading.Timer(0.2, go.set).start()
    assert page.post(f"/jobs/{job['key']}/cancel.json").json()["job"]["state"] == "canceled"
    assert album.version == before
    for _ in range(500):  # the job says that it is over before it has cleared up
        if not folders[0].exists():
            break
        time.sleep(0.01)
    assert not folders[0].exists()
    assert not (album.store.path / UPLOADS).exists()


def test_rows_of_a_table_are_labeled_and_labels_in_it_are_not_looked_at(leaves):
    table = f"id,x,y,label\nnew,0,0,{'elm'}\na,1,1,elm\nbad,wide,1,elm\n".encode()
    with client_of(leaves) as page:
        job, waiting = labeled(page, [("rows.csv", table)])
        assert job["state"] == "done", job
        assert [(line["id"], line["label"]) for line in waiting["items"]] == [("new", "oak")]
        assert {problem["id"] for problem in waiting["batch"]["problems"]} == {"a", "bad"}
        refused, _ = labeled(page, [("rows.exe", table)])
        assert refused["state"] == "failed"
        assert "/" not in refused["message"]


def test_rows_with_huge_numbers_are_named_and_the_others_are_labeled(leaves):
    leaves.learn()
    table = b"id,x,y,label\nnew,0,0,elm\nhuge,1,1e37,elm\nhuger,3e38,1,elm\nlast,1e300,1,elm\n"
    with client_of(leaves) as page:
        job, waiting = labeled(page, [("rows.csv", table)])
        assert job["state"] == "done", job["message"]
        assert [(line["id"], line["label"]) for line in waiting["items"]] == [("new", "oak")]
        assert {problem["id"] for problem in waiting["batch"]["problems"]} == {"huge", "huger", "last"}
        for value in ("1e37", "3e38", "1e300", "nan"):
            pasted = page.post("/ask.json", data={"text": f"1 {value}"})
            assert pasted.status_code == 400, pasted.text
            assert "column 1" in pasted.json()["error"]
    assert leaves.label([[0, 0]])[0].label == "oak"
    leaves.forget(["new"])
    leaves.learn()


# ------------------------------------------------------------ review


def test_the_least_sure_comes_first_and_what_is_decided_waits_no_more(leaves):
    leaves.learn(posterior="pooled")
    leaves.add(["sure", "unsure"], [[0.1, 0.1], [4.0, 4.0]], ["oak", "oak"], by="machine")
    with client_of(leaves) as page:
        found = page.get("/review.json").json()
        assert [line["id"] for line in found["items"]] == ["unsure", "sure"]
        assert found["n_waiting"] == 2
        html = page.get("/review").text
        assert EVIL not in html
        state = {line["id"]: line["state"] for line in found["items"]}
        done = page.post("/review.json", data={"id": "sure", "do": "accept", "state": state["sure"]}).json()
        assert leaves.store.item("sure")["confirmed"]
        stale = page.post("/review.json", data={"id": "sure", "do": "correct", "label": "x", "state": state["sure"]})
        assert stale.status_code == 409
        page.post("/review.json", data={"do": "undo", "event": done["event"]})
        assert not leaves.store.item("sure")["confirmed"]
        shown = page.post("/review", data={"id": "unsure", "do": "correct", "label": EVIL})
        assert leaves.store.item("unsure")["label"] == EVIL
        assert "Undo the last" in shown.text
        assert [line["id"] for line in page.get("/review.json").json()["items"]] == ["sure"]


def test_review_says_no_more_than_anything_by_saying_nothing():
    answer = Answer("new", "oak", 0.4, node="anything", node_path=["anything"], node_probability=1.0)
    wide = {"node": "anything", "node_path": ["anything"], "node_probability": 1.0, "node_word": None}
    tree = {"node": "tree", "node_path": ["anything", "tree"], "node_probability": 0.95, "node_word": None}
    layout = templates.get_template("review.html")
    about = {"name": "c", "items": 1, "read_only": False, "pictures": False, "texts": False, "may_learn": True}
    rest = {"n_waiting": 1, "n_done": 0, "sure": [], "last": None, "labels": [], "here": "", "tab": None, "root": ""}
    for hedge, shown in (({}, False), ({"node": "oak", "wider": wide}, False), ({"node": "oak", "wider": tree}, True)):
        line = {"guesses": [], "suggested": "oak", "cells": None, "neighbors": [], "state": "", "sketch": None}
        item = {**answer.to_dict(), **hedge, **line}
        page = layout.render(about=about, items=[item], batch=None, **rest)
        assert ("At least" in page) == shown


def test_a_batch_that_failed_says_what_is_taken_and_leads_back(leaves):
    with client_of(leaves) as page:
        assert all(ending[1:] in page.get("/batch").text for ending in TABLES)
        failed = page.post("/batch", files=[("files", ("owl.png", b"x"))])
        for _ in range(200):
            if "not a table that is accepted" in failed.text:
                break
            time.sleep(0.05)
            failed = page.get(str(failed.url))
        assert "use one of .csv, .tsv, .txt, .jsonl, .npz, .npy" in failed.text
        assert '<a href="/batch">Try another file</a>' in failed.text


@pytest.mark.parametrize("told", [{"do": "guess"}, {"do": "correct", "label": " "}, {"do": "undo", "event": "x"}])
def test_a_decision_that_is_none_is_refused(leaves, told):
    leaves.add(["new"], [[0.1, 0.1]], ["oak"], by="machine")
    before = leaves.version
    with client_of(leaves) as page:
        assert page.post("/review.json", data={"id": "new", **told}).status_code == 400
        assert page.get("/review.json?batch=unknown").status_code == 400
    assert leaves.version == before


def test_a_label_that_the_neighbors_no_longer_say_comes_before_all_others(leaves):
    leaves.add(["doubted", "unsure"], [[0.1, 0.1], [4.0, 4.0]], [EVIL, "oak"], by="machine")
    lines = to_review(leaves)["items"]
    assert [line["id"] for line in lines] == ["doubted", "unsure"]
    assert lines[0]["suggested"] == "oak"


def test_all_that_wait_are_counted_however_many_are_asked_about(leaves):
    leaves.add([f"new {n}" for n in range(7)], np.zeros((7, 2)), ["oak"] * 5 + [None, "oak"], by="machine")
    leaves.forget(["new 1"])
    leaves.confirm(["new 2"])
    for most in (2, 100):
        found = to_review(leaves, most_queried=most)
        assert (len(found["items"]), found["n_waiting"]) == (min(most, 4), 4)


def test_a_batch_that_is_only_looked_at_is_decided_and_undone_here_and_changes_nothing(page, album):
    before = album.version
    _, waiting = labeled(page, [("one.png", picture_of(True, 90)), ("two.png", picture_of(False, 91))], keep="no")
    key = waiting["batch"]["key"]
    assert page.get(f"/batch/picture?batch={key}&id=one.png").headers["content-type"] == "image/png"
    page.post("/review.json", data={"batch": key, "id": "one.png", "do": "accept"})
    page.post("/review.json", data={"batch": key, "id": "two.png", "do": "correct", "label": "red"})
    assert page.get(f"/review.json?batch={key}").json()["n_waiting"] == 0
    lines = [json.loads(line) for line in page.get(f"/batch/export?batch={key}&format=jsonl").text.splitlines()]
    assert [(line["label"], line["probability"] is None) for line in lines] == [("red", False), ("red", True)]
    second = page.post("/review.json", data={"batch": key, "id": "two.png", "do": "correct", "label": "blue"})
    assert (second.status_code, "it is red" in second.json()["error"]) == (409, True)
    assert page.post("/review.json", data={"batch": key, "do": "undo", "event": 1}).status_code == 409
    assert page.post("/review.json", data={"batch": key, "do": "undo", "event": 2}).status_code == 200
    assert [line["id"] for line in page.get(f"/review.json?batch={key}").json()["items"]] == ["two.png"]
    assert album.version == before
    assert not (album.store.path / UPLOADS).exists()


def test_a_batch_goes_out_with_the_labels_it_has_now(page, album):
    _, waiting = labeled(page, [("one.png", picture_of(True, 92)), ("two.png", picture_of(False, 93))])
    key = waiting["batch"]["key"]
    page.post("/review.json", data={"batch": key, "id": "two.png", "do": "correct", "label": "red"})
    table = page.get(f"/batch/export?batch={key}&format=csv")
    assert "attachment" in table.headers["content-disposition"]
    assert [line.split(",")[1] for line in table.text.splitlines()[1:]] == ['"red"', '"red"']
    with zipfile.ZipFile(io.BytesIO(page.get(f"/batch/export?batch={key}&format=xmp").content)) as packed:
        assert packed.namelist() == ["one.png.xmp", "two.png.xmp"]
        assert b"<rdf:li>red</rdf:li>" in packed.read("two.png.xmp")
    assert page.get(f"/batch/export?batch={key}&format=exe").status_code == 400


def test_what_was_said_of_another_label_does_not_go_out_with_the_one_that_a_person_gave():
    tree = Taxonomy.from_paths([("thing", "bird", "owl"), ("thing", "bird", "hawk")])
    said = Answer("a", "owl", 0.6, {"cases": 5, "right": 4}, ["owl"], "bird", ["thing", "bird"], 0.9)
    assert settled(said, "owl", tree) is said
    now = settled(said, "hawk", tree)
    assert (now.label, now.probability, now.record) == ("hawk", None, None)
    assert (now.node, now.node_path) == ("hawk", ["thing", "bird", "hawk"])
    with pytest.raises(InputError):
        exported([said], "exe")


# ------------------------------------------------------------ in a browser


def test_in_a_browser_a_batch_is_reviewed_by_keyboard_alone(album, tmp_path, browsing):
    files = []
    for seed in range(3):
        path = tmp_path / f"{seed}.png"
        path.write_bytes(picture_of(seed % 2 == 0, 100 + seed))
        files.append(str(path))
    with browsing(album) as (visit, told):
        page = visit("/batch", 390, "dark")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.set_input_files("input[type=file]", files)
        page.get_by_role("button", name="Label them").click()
        page.wait_for_url("**/review**")
        page.locator("#review > li:focus").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        first = page.evaluate("document.activeElement.dataset.item")
        page.keyboard.press("Enter")
        page.locator("#waiting", has_text="2").wait_for()
        assert album.store.item(first)["confirmed"]
        second = page.evaluate("document.activeElement.dataset.item")
        page.keyboard.type("blu")
        page.get_by_text("Enter: blue").wait_for()
        page.keyboard.press("Enter")
        page.locator("#waiting", has_text="1").wait_for()
        assert (album.store.item(second)["label"], album.store.item(second)["confirmed"]) == ("blue", True)
        page.keyboard.press("u")
        page.locator("#waiting", has_text="2").wait_for()
        assert not album.store.item(second)["confirmed"]
        assert page.evaluate("document.activeElement.dataset.item") == second
        page.keyboard.press("ArrowDown")
        assert page.evaluate("document.activeElement.dataset.item") not in (first, second)
        assert told == []


def test_of_very_many_labels_those_that_are_typed_are_asked_for(tmp_path, browsing):
    with LiveCollection.create(tmp_path / "many", 2) as collection:
        n = 700
        labels = [f"label {row:04d}" for row in range(n // 2)] * 2
        collection.add([f"item {row}" for row in range(n)], np.random.default_rng(0).random((n, 2)), labels)
        collection.add(["guess"], [[0.5, 0.5]], ["label 0001"], by="machine")
        collection.learn(posterior="proportional", n_neighbors=1)
        with browsing(collection) as (visit, told):
            page = visit("/review")
            page.locator("#review > li:focus").wait_for()
            assert page.locator("#labels option").count() == 300
            page.keyboard.type("l 0349")
            page.get_by_text("Enter: label 0349").wait_for()
            page.keyboard.press("Enter")
            page.get_by_text("Nothing to review").wait_for()
            assert collection.store.item("guess")["label"] == "label 0349"
            page.goto(page.url.replace("/review", "/items"))
            page.locator(".tile summary").first.click()
            page.keyboard.type("0348")
            page.locator("#labels option[value='label 0348']").wait_for(state="attached")
            assert told == []


def test_without_scripts_forms_do_the_same(album, tmp_path, browsing):
    path = tmp_path / "new.png"
    path.write_bytes(picture_of(True, 110))
    with browsing(album, scripts=False) as (visit, _):
        page = visit("/batch")
        page.set_input_files("input[type=file]", str(path))
        page.get_by_role("button", name="Label them").click()
        while "/review" not in page.url:
            page.get_by_role("link", name="Check again").click()
        page.get_by_role("button", name="Accept red").click()
        assert album.store.item("new.png")["confirmed"]
        page.get_by_role("button", name="Undo the last").click()
        assert not album.store.item("new.png")["confirmed"]


def test_a_batch_unlike_the_collection_is_called_so_in_its_review(leaves):
    with client_of(leaves) as page:
        found = {}
        for name, offset in [("like", 0.0), ("unlike", 40.0)]:
            rows = np.random.default_rng(1).normal(0, 2, (12, 2)) + offset
            table = "\n".join(["a,b", *(f"{a:.3f},{b:.3f}" for a, b in rows)]).encode()
            job, waiting = labeled(page, [(f"{name}.csv", table)], keep="no")
            found[name] = waiting["batch"]["shift"]
            shown = page.get(job["next"]).text
            assert ("promises may not hold" in shown) == (name == "unlike")
    assert found["like"] is None
    assert found["unlike"].startswith("These 12 queries are unlike the collection")
