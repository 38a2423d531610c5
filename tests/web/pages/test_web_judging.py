"""The page that says how good a collection is, and the jobs that work for it."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from nearsay.collection.evaluation.evaluate import evaluate
from nearsay.collection.evaluation.judgement import Judgement
from nearsay.collection.live import LiveCollection
from nearsay.errors import InputError
from nearsay.posterior.methods.past_case_table import CaseTable
from nearsay.reports.evaluation import MOST_CELLS, PAIRS_SHOWN, confusion_by_level, plain_tables
from nearsay.reports.svg_charts import curve_svg, heat_map_svg, reliability_svg
from nearsay.taxonomy.taxonomy import Taxonomy
from nearsay.web.app import make_app
from nearsay.web.content.served_collection import Overloaded
from nearsay.web.server.jobs import MOST_UNFINISHED, Jobs
from tests.served_collections import EVIL, TOKEN, client_of
from tests.web.visits import finished

pytestmark = pytest.mark.slow  # a server and a browser each

EDGES = [("thing", "bird"), ("thing", "fish"), ("bird", "owl"), ("bird", EVIL), ("fish", "cod"), ("fish", "eel")]
LEAVES = ["owl", EVIL, "cod", "eel"]


@pytest.fixture
def birds(tmp_path):
    rng = np.random.default_rng(0)
    labels = [leaf for leaf in LEAVES for _ in range(8)]
    centers = np.array([[0, 0], [1.2, 0], [6, 6], [7, 6]])[[LEAVES.index(label) for label in labels]]
    collection = LiveCollection.create(tmp_path / "birds", 2, taxonomy=EDGES)
    ids = [f"{place}" for place in range(len(labels))]
    words = [["wings"] if place < 16 else ["fins", "water"] for place in range(32)]
    collection.add(ids, centers + rng.normal(0, 0.5, (32, 2)), labels, words)
    collection.learn(posterior="pooled", n_neighbors=5)
    with collection:
        yield collection


@pytest.fixture
def page(birds):
    with client(birds) as found:
        yield found


def client(collection):
    """However busy the machine is, it waits for an answer, not for a page that tells how far it is."""
    found = client_of(collection)
    found.app.state.judgements.patience = 60
    return found


# ------------------------------------------------------------ what is computed for the page


def reference_level(tree, y, said, level):
    def above(name):
        path = tree.path(name)
        return path[level] if level < len(path) else path[-1]

    return Counter((above(a), above(b)) for a, b in zip(y, said, strict=True))


@given(pairs=st.lists(st.tuples(st.sampled_from([*LEAVES, "bird", "fish"]), st.sampled_from(LEAVES)), min_size=1))
def test_each_level_counts_what_it_sees_of_the_paths(pairs):
    tree = Taxonomy.from_edges(EDGES)
    y, said = ([pair[side] for pair in pairs] for side in (0, 1))
    levels = confusion_by_level(y, said, tree)
    assert [level["level"] for level in levels] == [1, 2]
    for level in levels:
        wanted = reference_level(tree, y, said, level["level"])
        nodes = level["nodes"]
        got = {(a, b): level["counts"][i][j] for i, a in enumerate(nodes) for j, b in enumerate(nodes)}
        assert {pair: n for pair, n in got.items() if n} == dict(wanted)
        assert level["n_right"] == sum(n for (a, b), n in wanted.items() if a == b)
        wrong = {pair: n for pair, n in wanted.items() if pair[0] != pair[1]}
        most = sorted(wrong.items(), key=lambda each: (-each[1], str(each[0])))[:PAIRS_SHOWN]
        assert [((c["label"], c["predicted"]), c["n_items"]) for c in level["confused"]] == most


def test_a_judgement_says_what_evaluate_says_at_every_accuracy(birds):
    judgement = Judgement.of(birds)
    for accuracy in (0.8, 0.95):
        shown = judgement.shown(accuracy)
        assert {**shown, **evaluate(birds, accuracy=accuracy)} == shown
        json.dumps(shown, allow_nan=False)


@pytest.mark.parametrize("holdout", [None, 0.5])
def test_a_judgement_that_would_take_too_much_memory_is_of_a_sample(birds, holdout):
    everyone = Judgement.of(birds, holdout=holdout)
    n, line = len(everyone.items.ids), 8 * len(everyone.items.state.voting.classes)
    some = Judgement.of(birds, holdout=holdout, most_bytes=5 * line + 1)
    assert (len(some.items.ids), some.n_bytes) == (5, 5 * line)
    places = [everyone.items.ids.index(id) for id in some.items.ids]
    assert places == sorted(places)
    assert_array_equal(some.judged.probabilities, everyone.judged.probabilities[places])
    told = some.summary(0.9)
    assert told["not_judged"]["not in the sample"] == n - 5
    assert any("sample of 5 items" in note for note in told["notes"])
    assert Judgement.of(birds, holdout=holdout, most_bytes=n * line).summary(0.9) == everyone.summary(0.9)


def test_judgements_are_kept_up_to_so_many_bytes(page, birds):
    kept = page.app.state.judgements
    kept.most_bytes = 32 * 4 * 8 + 1
    for path in ("/how-good.json", "/how-good.json?holdout=0.25", "/how-good.json?holdout=0.5"):
        assert page.get(path).json()["judged"] is not None
    assert (kept.last(None), kept.last(0.5).n_bytes) == (None, 16 * 4 * 8)
    assert kept._n_bytes <= kept.most_bytes


def test_the_curve_has_the_points_that_are_listed(birds):
    shown = Judgement.of(birds).shown(0.95)
    points = {(point["accuracy"], point["gain"]) for point in shown["curve"]}
    assert {(point["accuracy"], point["gain"]) for point in shown["hedging"]["points"]} <= points


def test_tables_of_past_cases_are_plain_and_none_is_too_large(birds):
    birds.learn(posterior="confmat&rank", n_neighbors=3)
    tables = Judgement.of(birds).shown(0.95)["tables"]
    assert tables
    for table in tables:
        assert np.shape(table["probability"]) == np.shape(table["cases"]) == tuple(map(len, table["ticks"]))
    n = MOST_CELLS + 1
    large = CaseTable("large", ("class",), (list(range(n)),), np.ones(n), np.full(n, 1 / n))
    assert plain_tables([large])[0]["too_large"] is True


def test_charts_have_no_style_and_show_names_as_text():
    drawn = heat_map_svg([EVIL], [EVIL], [[1.0]], [[EVIL]], EVIL)
    drawn += reliability_svg([{"confidence": 1.0, "accuracy": 1.0, "n_items": 3}]) + reliability_svg([])
    drawn += curve_svg([{"accuracy": 1.0, "gain": 0.0}], 1.0, {"accuracy": 1.0, "gain": 0.0})
    assert "<script" not in drawn
    assert "style" not in drawn
    assert "nan" not in drawn


# ------------------------------------------------------------ jobs


def test_one_job_of_a_kind_runs_at_a_time_and_the_next_waits():
    jobs, go, at_once, most = Jobs(), threading.Event(), [0], [0]

    def work(job):
        at_once[0] += 1
        most[0] = max(most[0], at_once[0])
        assert go.wait(5)
        at_once[0] -= 1

    started = [jobs.start("judging", "some work", "/", work) for _ in range(3)]
    other = jobs.start("batch", "other work", "/", lambda job: None)
    assert other.wait(5)
    assert [job.over for job in started] == [False] * 3
    go.set()
    assert all(job.wait(5) for job in started)
    assert most == [1]
    assert {job.state for job in started} == {"done"}


def test_a_canceled_job_says_so_and_one_that_waits_is_never_begun():
    jobs, begun = Jobs(), []

    def endless(job):
        begun.append(job.key)
        while True:
            job.progress(1, 2)
            time.sleep(0.001)

    first, second = (jobs.start("judging", "endless", "/", endless) for _ in range(2))
    second.cancel()
    assert second.wait(5)
    assert second.state == "canceled"
    first.cancel()
    assert first.wait(5)
    assert first.to_dict()["message"] == "Canceled; nothing was changed."
    assert begun == [first.key]


def test_a_failed_job_tells_a_visitor_what_to_do_and_nothing_else():
    def wrong(job):
        raise InputError("Give it a label.")

    def broken(job):
        raise RuntimeError("/secret/path")

    jobs = Jobs()
    first, second = jobs.start("a", "a", "/", wrong), jobs.start("b", "b", "/", broken)
    assert first.wait(5)
    assert second.wait(5)
    assert (first.state, first.message) == ("failed", "Give it a label.")
    assert second.state == "failed"
    assert "secret" not in second.message


def test_few_jobs_wait_and_closing_ends_them_all():
    def endless(job):
        while True:
            job.progress(0, 1)
            time.sleep(0.001)

    jobs = Jobs()
    started = [jobs.start("judging", "endless", "/", endless) for _ in range(MOST_UNFINISHED)]
    with pytest.raises(Overloaded):
        jobs.start("judging", "one too many", "/", endless)
    jobs.close()
    assert all(job.wait(5) for job in started)
    with pytest.raises(Overloaded):
        jobs.start("judging", "late", "/", endless)


def test_events_tell_of_a_job_until_it_is_over(page):
    go = threading.Event()

    def work(job):
        job.progress(1, 2)
        assert go.wait(5)
        job.progress(2, 2)

    job = page.app.state.jobs.start("judging", "some work", "/how-good", work)
    threading.Timer(0.3, go.set).start()
    told = [
        json.loads(line[6:]) for line in page.get(f"/jobs/{job.key}/events").text.splitlines() if line[:6] == "data: "
    ]
    assert told[-1]["state"] == "done"
    assert (told[-1]["n_done"], told[-1]["n_all"]) == (2, 2)
    assert len({json.dumps(each) for each in told}) == len(told) > 1


def test_a_stream_ends_before_a_server_that_is_to_end_loses_patience(page):
    page.app.state.jobs.stream_lasts = 0.05
    go = threading.Event()
    job = page.app.state.jobs.start("judging", "some work", "/how-good", lambda job: go.wait(5))
    told = page.get(f"/jobs/{job.key}/events").text
    assert not job.over
    assert told.startswith("retry: ")
    assert '"state": "running"' in told
    assert page.app.state.jobs.listeners == 0
    go.set()


def test_a_job_is_canceled_by_a_form_and_the_page_says_so(page):
    def endless(job):
        while True:
            job.progress(1, 2)
            time.sleep(0.001)

    job = page.app.state.jobs.start("judging", "some work", "/how-good", endless)
    assert '<progress id="job-' in page.get(f"/jobs/{job.key}").text
    told = page.post(f"/jobs/{job.key}/cancel")
    assert told.url.path == f"/jobs/{job.key}"
    assert "Canceled; nothing" in told.text
    assert page.get("/jobs/unknown.json").status_code == 400


# ------------------------------------------------------------ the page


def test_the_page_shows_what_evaluate_gives_and_its_twin_the_same(page, birds):
    wanted = json.loads(json.dumps(evaluate(birds, accuracy=0.9)))
    found = page.get("/how-good.json?accuracy=0.9").json()
    assert {**found["judged"], **wanted} == found["judged"]
    html = page.get("/how-good?accuracy=0.9").text
    assert f"{wanted['n_right']} of {wanted['n_items']} answers" in html
    assert html.count("<svg") == 4
    assert EVIL not in html
    assert "&lt;script&gt;alert(" in html
    assert not re.search(r"\sstyle=|<style|\bon\w+=", html)
    assert "N+" in html


def test_another_accuracy_asks_about_no_item_again(page, birds):
    page.get("/how-good.json")
    page.app.state.judgements.judge = None
    judged = [page.get(f"/how-good.json?accuracy={accuracy}").json()["judged"] for accuracy in (0.6, 0.99)]
    reached = [each["hedging"]["reached"] for each in judged]
    assert reached[0]["gain"] >= reached[1]["gain"]
    assert [each["requested"] for each in reached] == [0.6, 0.99]


def test_after_a_change_the_page_says_what_it_was_judged_at_until_it_is_judged_again(page, birds):
    first = page.get("/how-good.json").json()
    judged_at = first["judged"]["version"]
    birds.forget(["0"])
    html = page.get("/how-good").text
    assert f"Judged at event {judged_at}, now {birds.version}" in html
    assert page.get("/how-good.json").json()["judged"] == first["judged"]
    assert finished(page, page.post("/how-good.json").json()["job"])["state"] == "done"
    again = page.get("/how-good.json").json()["judged"]
    assert again["version"] == birds.version
    assert again["n_items"] == first["judged"]["n_items"] - 1


def test_held_out_items_are_judged_apart(page, birds):
    found = page.get("/how-good.json?holdout=0.25").json()
    assert found["judged"]["n_items"] == 8
    assert page.get("/how-good.json").json()["judged"]["n_items"] == 32


def slow_judgements(app, go, began):
    """Judgements take long in this app, until they may go on."""

    def slow(*args, on_progress, **named):
        began.append(1)
        on_progress(3, 32)
        assert go.wait(60)
        return Judgement.of(*args, **named)

    app.state.judgements.judge, app.state.judgements.patience = slow, 0.05


def test_what_takes_long_is_told_with_its_progress_and_not_begun_twice(page, birds):
    go, began = threading.Event(), []
    slow_judgements(page.app, go, began)
    answer = page.get("/how-good.json")
    assert (answer.status_code, answer.json()["judged"]) == (202, None)
    assert answer.json()["job"]["n_done"] == 3
    assert "3 of 32" in page.get("/how-good").text
    page.post("/how-good")
    go.set()
    assert finished(page, answer.json()["job"])["next"] == "/how-good?accuracy=0.95"
    assert page.get("/how-good.json").json()["judged"]["n_items"] == 32
    assert began == [1]


def test_a_failed_judgement_is_reported_and_restarted_on_request_alone(page, birds):
    began = []

    def wrong(*args, **named):
        began.append(1)
        raise InputError("There is nothing to judge.")

    page.app.state.judgements.judge = wrong
    assert "There is nothing to judge." in page.get("/how-good").text
    assert "There is nothing to judge." in page.get("/how-good").text
    assert began == [1]
    page.post("/how-good")
    assert began == [1, 1]


@pytest.mark.parametrize("query", ["accuracy=much", "accuracy=2", "accuracy=nan", "holdout=0.9", "holdout=x"])
def test_what_is_no_share_is_refused(page, query):
    answer = page.get(f"/how-good.json?{query}")
    assert answer.status_code == 400
    assert query.split("=")[0] in answer.json()["error"]


def test_a_collection_of_keywords_alone_has_its_measures(tmp_path):
    with LiveCollection.create(tmp_path / "words", 1) as words:
        words.add(
            [f"{n}" for n in range(8)], [[n // 4 * 9.0 + n / 9] for n in range(8)], None, [["sky"]] * 4 + [["sea"]] * 4
        )
        with client(words) as page:
            assert page.get("/how-good.json").json()["judged"]["keywords"]["words_found"] == 2
            html = page.get("/how-good").text
            assert "precision" in html
            assert "<figure" not in html


def test_without_an_item_that_votes_the_page_says_why(tmp_path):
    with LiveCollection.create(tmp_path / "empty", 1) as empty, client(empty) as page:
        html = page.get("/how-good").text
        assert all("This collection is empty" in page.get(path).text for path in ("/how-good", "/items", "/map"))
        assert "data-job" not in html
        assert str(tmp_path) not in html


# ------------------------------------------------------------ in a browser


def test_in_a_browser_progress_leads_to_charts_in_every_width_and_color(birds, browsing):
    go, app = threading.Event(), make_app(birds, TOKEN)
    slow_judgements(app, go, [])
    with browsing(birds, app=app) as (visit, told):
        page = visit("/how-good", 390, "dark")
        page.get_by_text("3 of 32").wait_for()
        go.set()
        page.locator("svg.chart").first.wait_for()
        page.wait_for_load_state()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        wide = visit("/how-good", 1280, "light")
        assert wide.locator("svg[role=img]").count() == 4
        wide.get_by_text("As a table").first.focus()
        wide.keyboard.press("Enter")
        assert wide.locator("details[open] table").first.is_visible()
        assert told == []
