"""Keywords in every form they come in, how good they are, and what neighbors say about them, against loops."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from nearsay.annotate.scorers.relevance import RELEVANCES, Relevance
from nearsay.data.keywords import Keywords
from nearsay.errors import InputError
from nearsay.neighbors.table import NeighborTable
from tests.reference.annotate import keywords as reference

WORDS = ["bear", "sky", "sun", "tree"]
some_keywords = st.lists(st.sets(st.sampled_from(WORDS)), min_size=1, max_size=7)


def table_of(keywords: list[set[str]]) -> np.ndarray:
    return np.array([[int(word in given) for word in WORDS] for given in keywords])


@given(some_keywords)
def test_keywords_are_the_same_in_whatever_form_they_come(keywords):
    table = table_of(keywords)
    frame = Keywords.of(pd.DataFrame(table, columns=WORDS))
    for form in (table, table.astype(bool), table.astype(float), csr_array(table), table.tolist()):
        np.testing.assert_array_equal(Keywords.of(form).matrix.toarray(), table)
    assert frame.lists() == [sorted(given) for given in keywords]
    assert Keywords.of([sorted(given) for given in keywords]).lists() == [sorted(given) for given in keywords]


def test_a_word_named_twice_counts_once():
    assert Keywords.of([["sky", "sky"]]).matrix.toarray().tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["sky", "sun"], r"For one word pass \['sky'\]"),
        (np.array(["sky", "sun"]), r"got 'sky' for item 0. For one word pass \['sky'\]"),
        ([["sky"], 3], "got 3 for item 1"),
        ([["sky", 3]], "Pass all as text"),
        ([[0, 2]], "zeros and ones; got 2"),
        (csr_array([[0.5]]), "zeros and ones; got 0.5"),
    ],
)
def test_what_is_no_keywords_is_refused_in_words(given, words):
    with pytest.raises(InputError, match=words):
        Keywords.of(given)


@st.composite
def neighborhoods(draw: st.DrawFn) -> tuple[list[set[str]], np.ndarray, np.ndarray]:
    keywords = draw(st.lists(st.sets(st.sampled_from(WORDS)), min_size=2, max_size=6))
    k = draw(st.integers(1, len(keywords)))
    indices, distances = [], []
    for _ in range(draw(st.integers(1, 3))):
        rows = draw(st.permutations(range(len(keywords))))[:k]
        found = draw(st.integers(0, k))
        far = sorted(draw(st.lists(st.integers(0, 3), min_size=k, max_size=k)))
        indices.append([*rows[:found], *[-1] * (k - found)])
        distances.append([*far[:found], *[np.inf] * (k - found)])
    return keywords, np.array(indices), np.array(distances, dtype=float)


@pytest.mark.parametrize("kind", RELEVANCES)
@given(neighborhoods())
def test_relevance_equals_the_loops(kind, neighborhood):
    keywords, indices, distances = neighborhood
    Y = csr_array(table_of(keywords).astype(float))
    found = Relevance(kind, decay=0.7).scores(NeighborTable(indices, distances), Y)
    expected = [
        [reference.relevance(kind, list(rows), list(far), keywords, word, 0.7) for word in WORDS]
        for rows, far in zip(indices, distances, strict=True)
    ]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_the_scaled_prior_makes_random_neighbors_say_nothing_on_average():
    random = np.random.default_rng(0)
    Y = csr_array((random.random((50, 6)) < [0.02, 0.1, 0.3, 0.5, 0.9, 1.0]).astype(float))
    rows = np.stack([random.permutation(50)[:10] for _ in range(4000)])
    scores = Relevance("prior").scores(NeighborTable(rows, np.zeros(rows.shape)), Y)
    assert abs(scores.mean(axis=0)).max() < 0.1


def test_relevance_with_impossible_settings_is_refused():
    table, Y = NeighborTable(np.array([[0]]), np.array([[0.0]])), csr_array([[1.0]])
    for relevance, words in (
        (Relevance("votes"), "Unknown relevance"),
        (Relevance("rank", decay=0.0), r"decay must be a number in the range \(0, 1\]"),
        (Relevance("distance", bandwidth=-1.0), r"bandwidth must be a number in the range \(0, .*, or None"),
    ):
        with pytest.raises(InputError, match=words):
            relevance.scores(table, Y)
    assert Relevance("distance", bandwidth=2.0).scores(table, Y).tolist() == [[1.0]]
