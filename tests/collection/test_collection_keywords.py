"""Keywords of a collection: passed on by neighbors where items with like words are near, with odds that hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import label_ranking_average_precision_score as rank_precision

from nearsay.collection import LiveCollection
from nearsay.collection.state.build_answers import votes_of
from nearsay.collection.state.keywords import learned_keywords
from nearsay.collection.state.keywords.learned_keywords import LearnedKeywords
from nearsay.collection.state.keywords.word_odds import WordOdds, WordPairs
from nearsay.collection.state.live_views import LiveTransform
from nearsay.neighbors.table import NeighborTable
from tests.reference.collection import answer_keywords

WORDS = ["sea", "sky", "road", "tree"]
PLAIN = LiveTransform("euclidean", "euclidean")


def made_up(n=120, seed=0, scale=100.0):
    """Two columns say which words an item has, a third one of large scale says nothing."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 4, size=n)
    centers = np.array([[0, 0], [2, 0], [0, 2], [2, 2]])
    X = np.column_stack([centers[kind] + 0.4 * rng.normal(size=(n, 2)), scale * rng.normal(size=n)]).astype(np.float32)
    words = [[WORDS[each]] + (["new"] if rng.random() < 0.2 else []) for each in kind]
    return X, words


def collected(path, X, words, labels=None):
    collection = LiveCollection.create(path, n_columns=X.shape[1])
    collection.add([f"i{row}" for row in range(len(X))], X, labels, words)
    return collection


@pytest.fixture(scope="module")
def learned():
    X, words = made_up()
    return LearnedKeywords.from_rows(X, words, np.arange(len(X)), len(X), PLAIN)


@st.composite
def neighbors(draw):
    """Neighbors at a few distances, some missing, with words that were known and one that was not."""
    k = draw(st.integers(1, 6))
    n_there = draw(st.integers(0, k))
    far = sorted(draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=n_there, max_size=n_there)))
    indices = draw(st.permutations(range(8)))[:n_there] + [-1] * (k - n_there)
    words = st.one_of(st.none(), st.lists(st.sampled_from([*WORDS, "unheard", "sea"]), max_size=3))
    keywords = draw(st.lists(words, min_size=8, max_size=8))
    return np.array([indices]), np.array([far + [np.inf] * (k - n_there)]), keywords


@settings(max_examples=60, deadline=None)
@given(found=neighbors())
def test_words_are_said_as_counting_them_one_by_one_says(learned, found):
    indices, distances, keywords = found
    (answers,) = learned.ranked(NeighborTable(indices, distances), keywords)
    expected = answer_keywords(learned.odds, indices[0].tolist(), distances[0].tolist(), keywords)
    assert {word for word, _ in answers} == set(expected)
    for word, p in answers:
        assert p == pytest.approx(expected[word], abs=1e-9)
    assert [p for _, p in answers] == sorted((p for _, p in answers), reverse=True)


def test_no_other_weights_have_less_loss():
    rng = np.random.default_rng(0)
    votes = rng.random((400, 2))
    word = rng.integers(0, 3, 400)
    pairs = WordPairs(votes, word, rng.random(400) < votes[:, 0], n_others=1000, n_missed=30)
    odds = WordOdds.shared(pairs, np.array(["a", "b", "c"]), np.array([0.2, 0.5, 0.1]), 300)
    least = odds.loss(pairs)
    for place in range(len(odds.weights)):
        for step in (-1e-3, 1e-3):
            moved = odds.weights.copy()
            moved[place] += step
            other = WordOdds(odds.usual, moved, odds.words, odds.log_odds, odds.slopes, odds.shifts)
            assert other.loss(pairs) > least - 1e-6
    original = odds.with_word_sigmoids(pairs)
    assert original.loss(pairs) < least
    assert (original.slopes[-1], original.shifts[-1]) == (1.0, 0.0)  # of a word that was not known


def test_a_word_that_is_always_right_is_believed_and_one_that_never_is_is_not():
    votes, word = np.full((400, 1), 0.5), np.arange(400) % 2
    pairs = WordPairs(votes, word, word == 0, n_others=0, n_missed=0)
    odds = WordOdds.shared(pairs, np.array(["yes", "no"]), np.array([0.5, 0.5]), 400)
    assert odds.proba(["yes", "no"], votes[:2]) == pytest.approx([0.5, 0.5], abs=0.01)
    yes, no = odds.with_word_sigmoids(pairs).proba(["yes", "no"], votes[:2])
    assert yes > 0.9
    assert no < 0.1


def test_probabilities_hold_what_they_say(learned):
    X, words = made_up(600, seed=1)
    known, queries = made_up(120, seed=0)[0], X
    from nearsay.neighbors import neighbor_search
    from nearsay.search.exact import ExactSearch

    table = neighbor_search.nearest(
        ExactSearch().fit(learned.transform.apply(known)), learned.transform.apply(queries), 20
    )
    answers = learned.ranked(table, made_up(120, seed=0)[1])
    pairs = [(p, word in truth) for some, truth in zip(answers, words, strict=True) for word, p in some]
    for low, high in ((0.0, 0.2), (0.2, 0.5), (0.8, 1.01)):
        here = [(p, right) for p, right in pairs if low <= p < high]
        assert len(here) > 20
        assert np.mean([p for p, _ in here]) == pytest.approx(np.mean([right for _, right in here]), abs=0.12)


def test_words_are_far_better_than_a_vote_where_columns_hide_them(tmp_path):
    X, words = made_up(240)
    every = sorted({word for some in words for word in some})
    with collected(tmp_path / "c", X[:160], words[:160]) as collection:
        state = collection.state()
        assert state.learned.keywords.transform.name != "euclidean"
        ours = [answer.keywords for answer in collection.label(X[160:], n_keywords=9)]
        rows = [[int(answers.id[1:]) for answers in answer.neighbors] for answer in collection.label(X[160:])]
        voted = votes_of(state, rows)
    truth = np.array([[word in some for word in every] for some in words[160:]])

    def precision(answers):
        scores = np.array([[dict(some).get(word, 0.0) for word in every] for some in answers])
        return rank_precision(truth, scores)

    assert precision(ours) > precision(voted) + 0.2
    assert precision(ours) > 0.85


def test_one_at_a_time_or_all_at_once(tmp_path):
    X, words = made_up(160)
    with collected(tmp_path / "c", X[:100], words[:100]) as collection:
        at_once = [answer.keywords for answer in collection.label(X[100:])]
        assert at_once == [collection.label(X[row : row + 1])[0].keywords for row in range(100, 160)]


def test_changes_of_keywords_count_in_the_next_answer(tmp_path):
    X, words = made_up(100)
    with collected(tmp_path / "c", X, words) as collection:
        before = collection.label(X[:1])[0].keywords
        sea = [f"i{row}" for row, some in enumerate(words) if before[0].word in some]
        collection.set_keywords(sea, [["ocean"]] * len(sea))
        assert collection.label(X[:1])[0].keywords[0].word == "ocean"
        collection.undo()
        assert collection.label(X[:1])[0].keywords == before
        collection.forget(sea)
        assert before[0].word not in [word for word, _ in collection.label(X[:1])[0].keywords]


def test_items_with_keywords_and_no_label_pass_them_on_and_guesses_of_machines_do_not(tmp_path):
    X, words = made_up(60)
    with collected(tmp_path / "c", X, words, ["thing"] * 60) as collection:
        collection.add(["bare"], X[:1], keywords=[["sky", "moon"]])
        collection.add(["guess"], X[:1], keywords=[["ufo"]], by="machine")
        answers = [word for word, _ in collection.label(X[:1], n_keywords=99)[0].keywords]
    assert "moon" in answers
    assert "ufo" not in answers


@pytest.mark.slow
def test_where_all_labels_are_taken_away_keywords_still_answer(tmp_path):
    X, words = made_up(60)
    ids, labels = [f"i{row}" for row in range(60)], [["cat", "dog"][row % 2] for row in range(60)]
    with LiveCollection.create(tmp_path / "c", n_columns=3, taxonomy=[("pet", "cat"), ("pet", "dog")]) as collection:
        collection.add(ids, X, labels, words)
        before = collection.label(X[:1])[0]
        collection.relabel(ids, [None] * 60)
        after = collection.label(X[:1])[0]
    assert (after.label, after.node, after.keywords) == (None, None, before.keywords)


def test_a_row_has_no_part_in_its_own_keywords(tmp_path):
    X, words = made_up(100)
    words[7] = ["unique"]
    with collected(tmp_path / "c", X, words) as collection:
        answers = collection.state().words.of_rows(np.arange(100))
        assert "unique" not in [word for word, _ in answers[7]]
        assert any("unique" in [word for word, _ in some] for some in answers)
        # Of a projection, the row is seen by a map that had not seen it.
        transform, fold = collection.state().learned.keywords.transform, collection.state().learned.keywords.fold
        assert len(transform.without) in (0, learned_keywords.FOLDS)
        assert_array_equal(np.bincount(fold[fold >= 0]), [20] * 5)


def test_few_items_vote_as_they_are(tmp_path):
    X, words = made_up(learned_keywords.FEWEST - 1)
    with collected(tmp_path / "c", X, words) as collection:
        assert collection.state().words is None
        answer = collection.label(X[:1])[0]
        rows = [int(answers.id[1:]) for answers in answer.neighbors]
        assert answer.keywords == votes_of(collection.state(), [rows])[0][:5]


def test_where_all_have_the_same_words_there_is_nothing_to_project_to():
    X, _ = made_up(40)
    learned = LearnedKeywords.from_rows(X, [["sea"]] * 40, np.arange(40), 40, PLAIN)
    assert learned.transform.without == ()
    table = NeighborTable(np.array([[0, 1]]), np.array([[0.0, 1.0]]))
    assert_allclose([p for _, p in learned.ranked(table, [["sea"]] * 40)[0]], [1.0], atol=1e-3)
