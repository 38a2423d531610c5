"""JEC, two-pass k-NN and ML-kNN: against loops, and with bad input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone

from nearsay.annotate.scorers.joint_neighbors import JointNeighbors
from nearsay.annotate.scorers.ml_knn import MLkNN
from nearsay.annotate.scorers.relevance import Relevance
from nearsay.annotate.scorers.transfer import transfer_scores
from nearsay.annotate.scorers.two_pass_neighbors import TwoPassNeighbors
from nearsay.core.parallel import threads
from nearsay.errors import InputError
from nearsay.learn.rank_boost import RankBoostNeighbors
from nearsay.neighbors.joint.feature_spaces import HeldSpaces, as_spaces
from nearsay.neighbors.table import NeighborTable
from tests.reference.annotate import annotation as reference

N_WORDS = 5
SPACES = {"first": slice(0, 2), "second": (slice(2, 5), "manhattan")}
keyword_lists = st.lists(st.sets(st.integers(0, N_WORDS - 1), max_size=4), min_size=3, max_size=9)


def matrix(keywords: list[set[int]]) -> csr_array:
    return csr_array([[float(word in words) for word in range(N_WORDS)] for words in keywords])


def some_rows(n: int, seed: int = 0) -> np.ndarray:
    """Small whole numbers, full of ties and duplicates."""
    return np.random.default_rng(seed).integers(0, 4, (n, 5))


def some_keywords(X: np.ndarray) -> list[set[int]]:
    """Words that follow the first space, and one that follows nothing."""
    return [{w for w, has in enumerate((x[0] > 1, x[0] == 0, x[1] == 3, x[0] <= 1, sum(x) % 4 == 0)) if has} for x in X]


# ------------------------------------------------------------ JEC


@settings(deadline=None)
@given(st.integers(0, 50), st.sampled_from([None, {"first": 3.0, "second": 1.0}, {"second": 2.0}]))
def test_joint_neighbors_are_those_of_a_loop_with_ties_by_row_number(seed, weights):
    X, Q = some_rows(12, seed), some_rows(3, seed + 1)
    joint = JointNeighbors(SPACES, weights=weights).fit(X)
    held = HeldSpaces(X, as_spaces(SPACES, 5))
    by_space = [joint.weights_["first"], joint.weights_["second"]]
    assert sum(by_space) == pytest.approx(1)
    table, own = joint.neighbors(Q, k=12), joint.leave_one_out(11)
    for queries, found, left_out in ((Q, table, None), (X, own, range(12))):
        for i, query in enumerate(queries):
            expected = reference.joint_order(
                [held.distances(space, query[None])[0] for space in range(2)], held.scales, by_space
            )
            expected = [(d, row) for d, row in expected if left_out is None or row != i]
            np.testing.assert_allclose(found.distances[i], [d for d, _ in expected], atol=1e-11)
            rounded = sorted(zip(found.distances[i].round(12), found.indices[i], strict=True))
            assert [row for _, row in rounded] == [row for _, row in expected]


def test_batches_threads_and_some_rows_alone_give_the_same_neighbors():
    X = some_rows(50)
    with threads(1):
        whole = JointNeighbors(SPACES).fit(X).neighbors(X, k=7)
    with threads(2):
        joint = JointNeighbors(SPACES).fit(X)
        assert (joint.neighbors(X, k=7).indices == whole.indices).all()
    singly = [joint.neighbors(X[i : i + 1], k=7) for i in range(50)]
    assert (np.concatenate([one.indices for one in singly]) == whole.indices).all()
    assert (np.concatenate([one.distances for one in singly]) == whole.distances).all()
    some = np.array([30, 2])
    assert (joint.leave_one_out(4, rows=some).indices == joint.leave_one_out(4).indices[some]).all()


def test_equally_far_rows_come_by_number():
    table = JointNeighbors().fit([[1.0], [-1.0], [1.0], [0.0]]).neighbors([[0.0]], k=3)
    assert table.indices.tolist() == [[3, 0, 1]]


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({"thrid": 1.0}, "Unknown feature space 'thrid'"),
        ({"first": -1.0}, "at least 0"),
        ({"first": 0.0}, "one of them above"),
        ([1.0, 2.0], "must map names"),
    ],
)
def test_weights_that_are_none_are_refused_in_words(weights, words):
    with pytest.raises(InputError, match=words):
        JointNeighbors(SPACES, weights=weights).fit(some_rows(5))


@pytest.mark.parametrize("kept", [1, 40, 10**6])
def test_rows_among_themselves_are_as_far_as_queries_are_however_many_are_kept(kept):
    X = np.random.default_rng(0).integers(0, 3, (19, 4)).astype(float)
    joint = JointNeighbors({"a": (slice(0, 2), "manhattan"), "b": slice(2, 4)}).fit(X)
    joint._index.distance.held.distances_kept = kept
    distances = joint.distances(X)
    np.testing.assert_array_equal(joint.distances(), distances)
    table = joint.leave_one_out(5)
    for row, line in enumerate(distances):
        others = sorted((j for j in range(19) if j != row), key=lambda j: (line[j], j))[:5]
        assert table.indices[row].tolist() == others
    some = joint.leave_one_out(5, rows=np.array([7, 2]))
    np.testing.assert_array_equal(some.indices, table.indices[[7, 2]])
    np.testing.assert_array_equal(joint.leave_one_out(5, rows=np.arange(19)[::-1]).indices, table.indices[::-1])


# ------------------------------------------------------------ transfer


@settings(deadline=None)
@given(keyword_lists, st.data())
def test_keywords_are_transferred_as_in_the_paper_however_many_are_taken(keywords, data):
    rows = data.draw(st.lists(st.integers(0, len(keywords) - 1), min_size=1, max_size=5, unique=True))
    rows += [-1] * data.draw(st.integers(0, 2))
    n = data.draw(st.integers(1, N_WORDS))
    table = NeighborTable(np.array([rows]), np.where(np.array([rows]) < 0, np.inf, 1.0))
    scores = transfer_scores(table, matrix(keywords))
    top = np.argsort(-scores[0], kind="stable")[:n].tolist()
    assert top == reference.transferred(rows, keywords, N_WORDS, n)


def test_a_frequent_word_of_the_nearest_does_not_decide_alone_what_goes_with_it():
    # The nearest has 0 (in every row) and 1 (in two). By counts 2 goes with them best, by shares 3.
    keywords = [{0, 1}, {0, 1, 3}, {0, 2}, {0, 2}, {0}, {0}, {0, 2, 3}]
    table = NeighborTable(np.array([[0, 6]]), np.array([[0.0, 1.0]]))
    scores = transfer_scores(table, matrix(keywords))[0]
    assert np.argsort(-scores, kind="stable").tolist() == [0, 1, 3, 2, 4]
    assert reference.transferred([0, 6], keywords, N_WORDS, 3) == [0, 1, 3]


def test_queries_are_answered_alike_alone_and_together():
    random = np.random.default_rng(0)
    Y = csr_array((random.random((30, 40)) < 0.1).astype(float))
    table = NeighborTable(random.integers(-1, 30, (20, 5)), np.ones((20, 5)))
    together = transfer_scores(table, Y)
    assert (np.vstack([transfer_scores(table[i : i + 1], Y) for i in range(20)]) == together).all()


# ------------------------------------------------------------ two-pass neighbors


@settings(deadline=None)
@given(st.integers(0, 30), st.integers(1, 3), st.integers(1, 11))
def test_two_pass_neighbors_are_the_nearest_of_each_word(seed, per_word, k):
    X, Q = some_rows(12, seed), some_rows(3, seed + 1)
    keywords = some_keywords(X)
    base = JointNeighbors(SPACES)
    two_pass = TwoPassNeighbors(base, per_word=per_word).fit(X, matrix(keywords))
    base.fit(X)
    for found, every in (
        (two_pass.neighbors(Q, k), base.neighbors(Q, 12)),
        (two_pass.leave_one_out(k), base.leave_one_out(11)),
    ):
        for indices, distances, rows, far in zip(
            found.indices, found.distances, every.indices, every.distances, strict=True
        ):
            expected = reference.first_pass(rows.tolist(), keywords, N_WORDS, per_word)[:k]
            assert indices.tolist() == expected + [-1] * (k - len(expected))
            assert distances.tolist() == [far[list(rows).index(r)] for r in expected] + [np.inf] * (k - len(expected))


def test_the_second_pass_is_a_vote_that_falls_with_distance():
    X, Y = np.array([[0.0], [1.0], [2.0], [9.0]]), [{"sky"}, {"sky"}, {"sky"}, {"sun"}]
    two_pass = TwoPassNeighbors(per_word=2).fit(X, Y)
    table = two_pass.neighbors([[0.0]], k=4)
    scores = Relevance("distance", bandwidth=0.5).scores(table, csr_array([[1.0, 0], [1, 0], [1, 0], [0, 1]]))
    weights = np.exp(-np.array([0, 1 / 9, 1]) / 0.5)  # the largest distance is 9
    np.testing.assert_allclose(scores[0], [weights[:2].sum() / weights.sum(), weights[2] / weights.sum()])


def test_two_pass_neighbors_follow_a_learned_ranking_too():
    X = some_rows(40)
    Y = matrix(some_keywords(X))
    ranking = RankBoostNeighbors(SPACES, max_iter=8, n_pairs=10, depth=5)
    two_pass = TwoPassNeighbors(ranking, per_word=3).fit(X, Y)
    table, own = two_pass.neighbors(X[:4], k=15), two_pass.leave_one_out(15)
    every = clone(ranking).fit(X, Y)
    some = np.array([7, 3])
    assert (every.leave_one_out(9, rows=some).indices == every.leave_one_out(9).indices[some]).all()
    for found, rows in zip(
        [*table.indices, *own.indices],
        [*every.neighbors(X[:4], 40).indices, *every.leave_one_out(39).indices],
        strict=True,
    ):
        assert found[found >= 0].tolist() == reference.first_pass(rows.tolist(), some_keywords(X), N_WORDS, 3)[:15]


# ------------------------------------------------------------ ML-kNN


@settings(deadline=None)
@given(st.integers(0, 30), st.integers(1, 6), st.sampled_from([0.5, 1.0]), st.booleans())
def test_ml_knn_gives_the_probabilities_of_the_paper(seed, k, smoothing, joint):
    X, Q = some_rows(10, seed), some_rows(4, seed + 1)
    keywords = some_keywords(X)
    base = JointNeighbors(SPACES) if joint else None
    ml = MLkNN(k, base=base, smoothing=smoothing).fit(X, matrix(keywords))
    by = JointNeighbors(SPACES if joint else None).fit(X)
    expected = reference.ml_knn(
        by.leave_one_out(k).indices.tolist(), by.neighbors(Q, k).indices.tolist(), keywords, N_WORDS, smoothing
    )
    np.testing.assert_allclose(ml.predict_proba(Q), expected, rtol=1e-12)
    assert (ml.predict(Q) == (ml.predict_proba(Q) >= 0.5)).all()
    assert (np.vstack([ml.predict_proba(Q[i : i + 1]) for i in range(4)]) == ml.predict_proba(Q)).all()


def test_a_hundred_thousand_words_are_no_trouble():
    random = np.random.default_rng(0)
    n, n_words = 60, 100_000
    Y = csr_array((np.ones(3 * n), (np.repeat(np.arange(n), 3), random.integers(0, n_words, 3 * n))), (n, n_words))
    Y.data[:] = 1
    X = random.random((n, 3))
    assert MLkNN(5).fit(X, Y).predict_proba(X[:2]).shape == (2, n_words)
    table = TwoPassNeighbors(per_word=1).fit(X, Y).neighbors(X[:2], k=20)
    assert transfer_scores(table, Y).shape == (2, n_words)


@pytest.mark.parametrize("learner", [MLkNN(2), TwoPassNeighbors()])
def test_every_row_needs_its_keywords(learner):
    with pytest.raises(InputError, match="X has 5 rows, Y 4"):
        learner.fit(some_rows(5), np.ones((4, 2)))


def test_ml_knn_refuses_what_it_cannot_count_in_words():
    with pytest.raises(InputError, match="Asked for k=10 neighbors"):
        MLkNN().fit(some_rows(5), np.ones((5, 2)))
    with pytest.raises(InputError, match=r"smoothing must be a number in the range \(0, "):
        MLkNN(2, smoothing=0.0).fit(some_rows(5), np.ones((5, 2)))
    with pytest.raises(InputError, match="per_word must be a whole number of at least 1"):
        TwoPassNeighbors(per_word=0).fit(some_rows(5), np.ones((5, 2)))
