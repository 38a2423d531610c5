"""Promises about keywords: thresholds by trying all, promises in simulated splits, and words in a taxonomy."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

import nearsay as ns
from nearsay.annotate.keyword_promise import precision_threshold, recall_threshold
from nearsay.annotate.word_taxonomy import ImpliedWords, with_implied
from nearsay.data.keywords import Keywords
from nearsay.taxonomy.taxonomy import Taxonomy
from tests.reference.annotate.keyword_promise import boldest_precision, boldest_recall
from tests.reference.decision.taxonomy import GRAPHS, walked_up
from tests.saving import saved_and_opened

PETS = Taxonomy.from_nested({"thing": {"dog": ["corgi", "poodle"], "cat": {}, "food": ["milk", "bone"]}})
TABLES = st.integers(1, 6).flatmap(
    lambda n_words: st.lists(
        st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=n_words, max_size=n_words),
        min_size=1,
        max_size=14,
    )
)


def as_arrays(table: list[list[tuple[int, bool]]]) -> tuple[np.ndarray, np.ndarray]:
    p, has = np.array(table, float).transpose(2, 0, 1)
    return p / 4, has > 0


@given(table=TABLES, share=st.sampled_from([0.1, 0.3, 0.5, 0.6, 0.8]), data=st.data())
def test_thresholds_are_those_of_trying_every_one(table, share, data):
    p, has = as_arrays(table)
    known = np.array(data.draw(st.lists(st.booleans(), min_size=p.shape[1], max_size=p.shape[1])))
    assert recall_threshold(p, csr_array(has.astype(int)), share, known) == boldest_recall(p, has, share, known)
    assert precision_threshold(p, csr_array(has.astype(int)), share) == boldest_precision(p, has, share)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.8, 0.9])
@pytest.mark.parametrize("n_items", [100, 400])
def test_both_promises_are_kept_in_two_hundred_splits(n_items, share):
    rng = np.random.default_rng(0)
    kept: dict[str, list[float]] = {"recall": [], "precision": []}
    for _ in range(200):
        odds = np.linspace(-4, -1, 20) + 2 * rng.normal(size=(n_items + 200, 20))
        has, p = rng.random(odds.shape) < 1 / (1 + np.exp(-odds)), 1 / (1 + np.exp(-1.3 * odds))
        past, new, truth = csr_array(has[:n_items].astype(int)), p[n_items:], has[n_items:]
        given_words = new >= recall_threshold(p[:n_items], past, share)
        some = truth.any(axis=1)
        hits = (given_words & truth).sum(axis=1)
        kept["recall"].append(np.where(some, hits / np.maximum(truth.sum(axis=1), 1), 1).mean())
        given_words = new >= precision_threshold(p[:n_items], past, share)
        answered = given_words.any(axis=1)
        if answered.any():
            kept["precision"].append(
                ((given_words & truth).sum(axis=1)[answered] / given_words[answered].sum(axis=1)).mean()
            )
    for values in kept.values():
        assert np.mean(values) >= share - 3 * np.std(values) / math.sqrt(len(values))
        assert np.mean(values) <= share + 1.5 / (n_items * (1 - share)) + 0.01


def annotated_rows(n: int, seed: int = 0) -> tuple[np.ndarray, list[list[str]]]:
    """Corgis and poodles look alike, cats do not; some have milk or a bone."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(["corgi", "poodle", "cat"], n)
    place = {"corgi": (0.0, 0.0), "poodle": (1.0, 0.0), "cat": (9.0, 0.0)}
    X = np.array([place[one] for one in kind]) + rng.normal(size=(n, 2))
    return X, [[one, *(["milk"] if x[1] > 0.5 else [])] for one, x in zip(kind.tolist(), X, strict=True)]


@pytest.mark.parametrize("promise", [{"recall": 0.9}, {"precision": 0.9}])
def test_an_annotator_keeps_its_promise_on_new_items(promise):
    X, Y = annotated_rows(300)
    Q, truth = annotated_rows(600, seed=1)
    annotator = ns.KeywordAnnotator("nearest", n_neighbors=15, n_keywords=1, **promise).fit(X, Y)
    given_words = annotator.predict(Q) > 0
    has = np.array([[word in words for word in annotator.words_] for words in truth])
    hits = (given_words & has).sum(axis=1)
    kept = hits / has.sum(axis=1) if "recall" in promise else (hits / np.maximum(given_words.sum(axis=1), 1))
    kept = kept if "recall" in promise else kept[given_words.any(axis=1)]
    assert 0.86 <= kept.mean() <= 0.95
    assert given_words.sum(axis=1).max() > 1  # whatever n_keywords is


def test_what_cannot_be_promised_is_said():
    X, Y = annotated_rows(12)
    with pytest.warns(
        UserWarning, match=r"recall of 0\.95 cannot be promised here.* 12 past items.*every word"
    ) as caught:
        annotator = ns.KeywordAnnotator("nearest", n_neighbors=3, recall=0.95).fit(X, Y)
    assert caught[0].filename == __file__
    assert annotator.predict(X).all()
    with pytest.warns(UserWarning, match="no word"):
        none = ns.KeywordAnnotator("nearest", n_neighbors=3, precision=0.99).fit(X, Y)
    assert not none.predict(X).any()
    with pytest.raises(ns.InputError, match="One promise at a time"):
        ns.KeywordAnnotator("nearest", recall=0.9, precision=0.9).fit(X, Y)
    with pytest.raises(ns.InputError, match="recall must be"):
        ns.KeywordAnnotator("nearest", recall=90).fit(X, Y)


# ---------------------------------------------------------------- words in a taxonomy


@given(edges=GRAPHS, data=st.data())
def test_words_imply_all_above_them_and_unsure_ones_give_way(edges, data):
    tree = Taxonomy.from_edges(edges)
    below = [node for node in tree.nodes if node != tree.root]
    items = data.draw(st.lists(st.lists(st.sampled_from(below), unique=True, max_size=3), min_size=1, max_size=4))
    if not any(items):
        items[0] = below[:1]
    closed = with_implied(Keywords.of(items), tree)
    for words, more in zip(items, closed.lists(), strict=True):
        assert set(more) == {above for word in words for above in walked_up(edges, word)} - {tree.root}
    implied = ImpliedWords.of(closed.words, tree)
    p = np.array(data.draw(st.lists(st.integers(0, 9), min_size=len(closed.words), max_size=len(closed.words)))) / 9
    names, risen = closed.words.tolist(), implied.rising(p[None])[0]
    for name, highest in zip(names, risen, strict=True):
        assert highest == max(p[names.index(one)] for one in names if name in walked_up(edges, one))
    chosen = np.flatnonzero(risen >= 0.5)
    shown = [names[word] for word in implied.most_specific(chosen)]
    likely = {names[word] for word in chosen}
    least = {one for one in likely if not any(one in walked_up(edges, other) - {other} for other in likely)}
    assert set(shown) == least
    assert {names[word] for word in implied.with_implied(chosen)} == likely


def test_an_unsure_breed_becomes_a_dog():
    X, Y = annotated_rows(300)
    annotator = ns.KeywordAnnotator("nearest", n_neighbors=20, taxonomy=PETS, precision=0.97).fit(X, Y)
    assert annotator.words_.tolist() == ["corgi", "poodle", "cat", "milk", "dog", "food"]
    (sure, unsure) = annotator.annotate([[-2.0, -1.5], [0.5, -1.5]])
    assert sure.words == ["corgi"]
    assert unsure.words == ["dog"]
    assert annotator.predict([[-2.0, -1.5]]).tolist() == [[1, 0, 0, 0, 1, 0]]
    p = annotator.predict_proba(X)
    assert (p[:, 4] >= p[:, :2].max(axis=1)).all()
    assert annotator.score(X, Y) > 0.7
    again = saved_and_opened(annotator)
    assert again.threshold_ == annotator.threshold_
    np.testing.assert_array_equal(again.predict(X), annotator.predict(X))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = ns.KeywordAnnotator("nearest", n_neighbors=20, taxonomy=PETS).fit(X, Y)
    assert plain.annotate([[0.5, -1.5]])[0].words[0] in ("dog", "corgi", "poodle")
    with pytest.raises(ns.InputError, match="is not in the taxonomy"):
        ns.KeywordAnnotator("nearest", taxonomy=PETS).fit(X, [["bird"]] * len(X))
