"""Evidence wherever it is given: as plain values, as a table, as a page, and by the names that rows have."""

from __future__ import annotations

import json
import sys
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import nearsay as ns
from nearsay.annotate.annotation import Annotation
from nearsay.errors import InputError, MissingExtra

EVIL = "<img src=x onerror=alert(1)> & 'co'"
RANDOM = np.random.default_rng(0)
X = RANDOM.integers(0, 5, (40, 4)).astype(float)
Y = np.array([EVIL, "b", "c"])[(X[:, 0] > 1).astype(int) + (X[:, 1] > 2)]
WORDS = [[EVIL, "odd"] if row[0] % 2 else ["even"] for row in X]
NAMES = [f"{EVIL}{number}" for number in range(len(X))]
GROUPS = {EVIL: slice(0, 2), "last": slice(2, 4)}


def classifier(**given: Any) -> Any:
    return ns.NeighborClassifier(5, posterior="proportional").fit(X, Y, **given)


def fused(posterior: str = "proportional", **given: Any) -> Any:
    return ns.FusedClassifier(GROUPS, ns.NeighborClassifier(5, posterior=posterior)).fit(X, Y, **given)


def annotator(**given: Any) -> Any:
    return ns.KeywordAnnotator(n_neighbors=5, n_keywords=3).fit(X, WORDS, **given)


# Every estimator that gives evidence: how it is fitted, and how it is asked.
GIVERS: dict[str, tuple[Any, Any]] = {
    "NeighborClassifier": (classifier, lambda fitted, Q: fitted.explain(Q)),
    "FusedClassifier": (fused, lambda fitted, Q: fitted.explain(Q)),
    "FusedClassifier, pooled": (lambda **given: fused("pooled", **given), lambda fitted, Q: fitted.explain(Q)),
    "KeywordAnnotator": (annotator, lambda fitted, Q: fitted.annotate(Q)),
}


def gives(name: str, Q: np.ndarray = X[:3], **given: Any) -> Any:
    fit, ask = GIVERS[name]
    return ask(fit(**given), Q)


class Reader(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("ids", [None, NAMES, list(range(100, 140))])
@pytest.mark.parametrize("name", GIVERS)
def test_evidence_goes_through_json_whole(name, ids):
    for one in gives(name, ids=ids):
        plain = one.to_dict()
        back = json.loads(json.dumps(plain))
        assert set(back) == {*vars(one), "text"}
        assert back["text"] == str(one)
        # What JSON gives back is what there was, but for the keys that become text.
        assert json.dumps(back) == json.dumps(plain)


@pytest.mark.parametrize("ids", [None, NAMES])
@pytest.mark.parametrize("name", GIVERS)
def test_whatever_is_shown_on_a_page_is_escaped(name, ids):
    found = gives(name, ids=ids)
    page = found._repr_html_()
    assert page == "".join(one._repr_html_() for one in found)
    reader = Reader(page)
    assert set(reader.tags) <= {"div", "p", "strong", "br", "table", "thead", "tbody", "tr", "th", "td"}
    assert EVIL in reader.text
    if ids is not None:
        assert any(name in reader.text for name in NAMES)


def named_neighbors(one: Any) -> list[tuple[list[int], Any]]:
    """(row numbers, names) of every list of neighbors in evidence."""
    parts = one.groups if hasattr(one, "groups") else [one]
    return [(list(part.neighbors), part.ids) for part in parts]


@pytest.mark.parametrize("name", GIVERS)
def test_neighbors_keep_their_numbers_and_have_the_names_given_at_fit(name):
    numbers = [7 * number for number in range(len(X))]
    for kind, ids in zip((list, np.array, pd.Series, pd.Index, pl.Series), (NAMES, numbers) * 3, strict=False):
        for one in gives(name, ids=kind(ids)):
            for rows, names in named_neighbors(one):
                assert names == [ids[row] for row in rows]
    for one in gives(name):
        assert all(names is None for _, names in named_neighbors(one))


@pytest.mark.parametrize("name", GIVERS)
def test_names_are_forgotten_by_a_fit_without_them_and_kept_in_a_file(name, tmp_path):
    fit, ask = GIVERS[name]
    fitted = fit(ids=NAMES)
    ns.save(fitted, tmp_path / "named")
    expected = [one.to_dict() for one in ask(fitted, X[:3])]
    assert [one.to_dict() for one in ask(ns.load(tmp_path / "named"), X[:3])] == expected
    fitted.fit(X, WORDS if name == "KeywordAnnotator" else Y)
    assert fitted.ids_ is None


def test_words_are_said_to_come_from_rows_by_name():
    found = annotator(ids=[f"image {number}" for number in range(40)]).annotate(X[:1])[0]
    assert "neighbors: image " in str(found)
    assert "image " in found._repr_html_()


def test_words_that_are_numbers_are_shown_too():
    found = Annotation([3, 10], [0.5, 0.25], np.array([4]), np.array([0.1]), [[4], []])
    assert str(found).splitlines() == ["3     50 %  1 of 1 neighbors: 4", "10    25 %  0 of 1 neighbors"]


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (["a", "b"], "ids holds 2 ids, but X has 40 rows"),
        (np.zeros((40, 2)), "one dimension"),
        ([None] * 40, "Row 0 has no value in ids"),
        ([0.5] * 40, r"strings or whole numbers; row 0 has 0.5 \(float\)"),
        ([True] * 40, r"row 0 has True \(bool\)"),
        (7, "must be a sequence"),
    ],
)
@pytest.mark.parametrize("name", GIVERS)
def test_names_that_cannot_be_are_refused_in_words(name, ids, words):
    with pytest.raises(InputError, match=words):
        GIVERS[name][0](ids=ids)


# ---------------------------------------------------------------- as a table


def test_the_frame_has_a_line_for_every_neighbor():
    found = classifier(ids=NAMES).explain(X[:3])
    frame = found.to_frame()
    assert frame.columns.tolist() == ["query", "label", "probability", "rank", "row", "id", "says", "distance"]
    expected = [
        (i, one.label, one.probability, rank, row, NAMES[row], Y[row], far)
        for i, one in enumerate(found)
        for rank, (row, far) in enumerate(zip(one.neighbors, one.distances, strict=True), start=1)
    ]
    assert list(frame.itertuples(index=False, name=None)) == expected
    assert classifier().explain(X[:3]).to_frame()["id"].tolist() == frame["row"].tolist()


@pytest.mark.parametrize("posterior", ["proportional", "pooled"])
def test_the_frame_of_groups_says_which_group_found_a_neighbor_and_skips_those_without(posterior):
    Q = X[:2].copy()
    Q[1, :2] = np.nan
    found = fused(posterior, ids=NAMES).explain(Q)
    frame = found.to_frame()
    assert frame.groupby(["query", "group"]).size().to_dict() == {(0, EVIL): 5, (0, "last"): 5, (1, "last"): 5}
    assert frame["row"].tolist() == [row for one in found for group in one.groups for row in group.neighbors]
    assert set(frame["metric"]) == {"euclidean"}


def test_a_list_of_fused_evidence_carries_what_it_was_made_from():
    clf = fused()
    found = clf.explain(X[:4])
    np.testing.assert_array_equal(found.predictions, clf.predict(X[:4]))
    np.testing.assert_array_equal(found.probabilities, clf.predict_proba(X[:4]))
    for one, other in zip(found.table, clf.neighbors(X[:4]), strict=True):
        np.testing.assert_array_equal(one.indices, other.indices)


def test_no_queries_give_an_empty_list_page_and_frame():
    for name in GIVERS:
        found = gives(name, X[:0])
        assert list(found) == []
        assert found._repr_html_() == ""
    assert len(classifier().explain(X[:0]).to_frame()) == 0


def test_without_pandas_the_extra_is_named(monkeypatch):
    found = classifier().explain(X[:1])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r"nearsay\[pandas\]"):
        found.to_frame()
