"""The report of an evaluation: the right figures, on one page that needs nothing else and runs nothing."""

from __future__ import annotations

import json
import re
from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nearsay as ns
from nearsay.errors import InputError
from nearsay.metrics.specificity import hierarchical_accuracy, information_gain
from nearsay.reports.evaluation import evaluation_summary, hedging_points
from nearsay.reports.report_page import report_html, write_report
from nearsay.taxonomy.taxonomy import Taxonomy

TREE = Taxonomy.from_nested({"thing": {"ab": ["a", "b"], "cd": ["c", "d"]}})
NAMES = ["a", "b", "c", "d"]
AWKWARD = "<script>alert('x')</script>"
PNG = b"\x89PNG\r\n\x1a\n rest"
VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """What is on a page, and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.words = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags[tag] += 1
        self.addresses += [value for name, value in attributes if name in ("src", "href", "xlink:href", "action")]
        self.ids += [value for name, value in attributes if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data if "style" not in self.open else ""


@st.composite
def answers(draw):
    """Labels, and probabilities in quarters: ties everywhere."""
    n = draw(st.integers(1, 12))
    y = draw(st.lists(st.sampled_from(NAMES), min_size=n, max_size=n))
    votes = draw(st.lists(st.lists(st.integers(0, 2), min_size=4, max_size=4).filter(any), min_size=n, max_size=n))
    p = np.array(votes, dtype=float)
    return y, p / p.sum(axis=1, keepdims=True)


@settings(max_examples=40, deadline=None)
@given(given_answers=answers(), asked=st.sampled_from([0.5, 0.8, 0.95, 1.0]))
def test_every_figure_is_what_counting_by_hand_gives(given_answers, asked):
    y, p = given_answers
    result = evaluation_summary(y, p, NAMES, taxonomy=TREE, target=asked)
    answer = [NAMES[list(row).index(max(row))] for row in p.tolist()]
    pairs = list(zip(y, answer, strict=True))
    assert result["n_right"] == sum(a == b for a, b in pairs)
    assert result["accuracy"] == pytest.approx(result["n_right"] / len(y))
    assert {(c["label"], c["predicted"]): c["n_items"] for c in result["confused"]} == Counter(
        pair for pair in pairs if pair[0] != pair[1]
    )
    for each in result["classes"]:
        right = pairs.count((each["label"], each["label"]))
        assert (each["n_items"], each["n_predicted"], each["n_right"]) == (
            y.count(each["label"]),
            answer.count(each["label"]),
            right,
        )
        assert each["recall"] == (right / each["n_items"] if each["n_items"] else None)
    assert sum(b["n_items"] for b in result["reliability"]) == len(y)
    weighted = sum(b["n_items"] * abs(b["confidence"] - b["accuracy"]) for b in result["reliability"]) / len(y)
    assert result["calibration_error"] == pytest.approx(weighted)
    wrong = [row for row, (a, b) in enumerate(pairs) if a != b]
    assert [m["id"] for m in result["mistakes"]] == sorted(wrong, key=lambda row: (-max(p[row]), row))[:12]
    for point in result["hedging"]["points"]:
        assert point["accuracy"] >= point["requested"]
    # Naming only classes is one of the ways to hedge.
    flat = hierarchical_accuracy(y, answer, TREE), information_gain(y, answer, TREE)
    if flat[0] >= asked:
        assert result["hedging"]["at_requested"]["gain"] >= flat[1] - 1e-9
    json.dumps(result, allow_nan=True)


def example() -> dict:
    rng = np.random.default_rng(0)
    names = [AWKWARD, "b", "c", "d"]
    tree = Taxonomy.from_nested({"thing": {"ab": names[:2], "cd": names[2:]}})
    X = rng.integers(0, 4, size=(120, 3)).astype(float)
    y = np.array(names)[X.sum(axis=1).astype(int) % 4]
    clf = ns.NeighborClassifier(3, posterior="proportional").fit(X[:80], y[:80])
    result = clf.explain(X[80:])
    summary = evaluation_summary(
        *(y[80:], result.probabilities, clf.classes_),
        taxonomy=tree,
        keywords=([["sky"], ["sun"]], [["sky"], ["sky"]]),
        ids=[f"<img src=x onerror=alert({row})>" for row in range(40)],
        evidence=result,
        title=f"Leaves {AWKWARD}",
        how="leave-one-out & more",
    )
    summary["mistakes"][0]["picture"] = PNG
    return {**summary, "curve": hedging_points(y[80:], result.probabilities, clf.classes_, tree)}


def test_the_page_is_whole_needs_nothing_from_elsewhere_and_runs_nothing():
    summary = example()
    page = Page(report_html(summary))
    assert page.open == []
    assert page.tags["script"] == page.tags["link"] == page.tags["iframe"] == 0
    assert page.tags["svg"] == 2
    assert page.tags["img"] == 1
    assert all(address.startswith(("data:image/png;base64,", "#")) for address in page.addresses)
    assert AWKWARD in page.words
    assert "<img src=x onerror=alert(" in page.words
    assert "default-src 'none'" in report_html(summary)
    assert not re.search(r"url\((?!#)|@import|https?://(?!www\.w3\.org)", report_html(summary))


def test_every_part_of_the_summary_is_on_the_page_and_what_is_missing_is_left_out():
    summary = example()
    words = Page(report_html(summary)).words
    headings = {
        "reliability": "Calibration of probabilities",
        "hedging": "Accuracy and specificity",
        "classes": "Class by class",
        "confused": "Most confused",
        "keywords": "Keywords",
        "mistakes": "Likely mistakes",
    }
    for part, heading in headings.items():
        assert heading in words
        less = {name: value for name, value in summary.items() if name != part}
        assert f"{heading}" not in Page(report_html(less)).words.replace("Keywords, F1", "")
    assert f"{summary['n_right']} of 40 answers were right" in words
    assert Page(report_html({})).open == []


def test_charts_take_the_colors_of_the_page_so_that_they_can_be_read_in_the_dark():
    text = report_html(example())
    drawn = "".join(re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL))
    assert not re.search(r"style=|#[0-9a-f]{6}", drawn)
    assert "prefers-color-scheme: dark" in text


def test_the_same_report_is_the_same_file(tmp_path):
    for name in ("one.html", "two.html"):
        write_report(tmp_path / name, example())
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def test_a_report_is_not_replaced_unless_asked(tmp_path):
    summary = example()
    path = tmp_path / "report.html"
    path.write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        write_report(path, summary)
    assert path.read_text() == "mine"
    write_report(path, summary, overwrite=True)
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_what_is_no_picture_is_not_put_on_the_page():
    summary = example()
    summary["mistakes"][0]["picture"] = b"<svg>"
    with pytest.raises(InputError, match="not a PNG"):
        report_html(summary)


def test_labels_and_probabilities_of_different_length_are_refused():
    with pytest.raises(InputError, match="one label for each row"):
        evaluation_summary(["a"], [[1.0, 0.0]] * 2, ["a", "b"])
