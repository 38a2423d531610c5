"""JEC, LASSO, GS, MSC, two-pass k-NN and ML-kNN: against loops, at their optimum, and with bad input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.sparse import csr_array
from sklearn.base import clone

from nearsay.annotate.keyword_pairs import draw_pairs
from nearsay.annotate.scorers.group_lasso import group_lasso
from nearsay.annotate.scorers.joint_neighbors import JointNeighbors
from nearsay.annotate.scorers.lasso_neighbors import GroupLassoNeighbors, LassoNeighbors, weights_that_tell_apart
from nearsay.annotate.scorers.ml_knn import MLkNN
from nearsay.annotate.scorers.relevance import Relevance
from nearsay.annotate.scorers.sparse_coding import SparseCodingAnnotator, keyword_graph, map_that_joins, mixture
from nearsay.annotate.scorers.transfer import transfer_scores
from nearsay.annotate.scorers.two_pass_neighbors import TwoPassNeighbors
from nearsay.core.parallel import threads
from nearsay.errors import InputError
from nearsay.learn.rank_boost import RankBoostNeighbors
from nearsay.neighbors.joint.feature_spaces import HeldSpaces, as_spaces
from nearsay.neighbors.table import NeighborTable
from tests.reference import annotation as reference

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


# ------------------------------------------------------------ pairs, LASSO, GS


@given(keyword_lists, st.integers(1, 2))
def test_pairs_share_enough_keywords_or_none(keywords, least):
    alike = reference.pairs_sharing(keywords, least)
    apart = [pair for pair in reference.pairs_sharing(keywords, 0) if not keywords[pair[0]] & keywords[pair[1]]]
    if not alike:
        with pytest.raises(InputError, match="share"):
            draw_pairs(matrix(keywords), 1000, least)
        return
    if not apart:
        with pytest.raises(InputError, match="known to differ"):
            draw_pairs(matrix(keywords), 1000, least)
        return
    pairs = draw_pairs(matrix(keywords), 1000, least)
    both = list(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True))
    assert [pair for pair, same in zip(both, pairs.alike, strict=True) if same] == alike
    unlike = [pair for pair, same in zip(both, pairs.alike, strict=True) if not same]
    assert len(unlike) <= len(alike)
    assert all(i != j and not keywords[i] & keywords[j] for i, j in unlike)
    assert len(draw_pairs(matrix(keywords), 1, least)) <= 2


@pytest.mark.parametrize("seed", range(20))
def test_the_one_pair_that_shares_nothing_is_found_among_many(seed):
    keywords = [{0}, {1}, *[{0, 1}] * 30]
    pairs = draw_pairs(matrix(keywords), 1, 1, seed)
    assert {int(pairs.first[1]), int(pairs.second[1])} == {0, 1}


@pytest.mark.parametrize("penalty", [0.0, 0.01, 0.1])
def test_weights_of_spaces_are_where_no_step_lowers_the_penalized_loss(penalty):
    random = np.random.default_rng(0)
    alike = random.random(200) < 0.5
    distances = random.random((200, 4)) + np.outer(~alike, [0.5, 0.2, 0.0, -0.3])
    weights = weights_that_tell_apart(distances, alike, penalty)

    def loss(w: np.ndarray) -> float:
        def at(b: np.ndarray) -> float:
            return float(np.logaddexp(0, -np.where(alike, 1, -1) * (b[0] - distances @ w)).mean())

        return minimize(at, [0.0], tol=1e-12).fun + penalty * w.sum()

    best = loss(weights)
    assert (weights >= 0).all()
    assert weights[3] == 0
    for space in range(4):
        for step in (-0.05, 0.05):
            other = weights.copy()
            other[space] = max(other[space] + step, 0.0)
            assert loss(other) >= best - 1e-6


def test_lasso_measures_as_joint_neighbors_do_with_its_weights():
    X = some_rows(60)
    lasso = LassoNeighbors(SPACES, min_shared=2).fit(X, matrix(some_keywords(X)))
    assert lasso.weights_["first"] > lasso.weights_["second"]
    joint = JointNeighbors(SPACES, weights=lasso.weights_).fit(X)
    fresh = some_rows(5, seed=1)
    assert (lasso.neighbors(fresh, k=9).indices == joint.neighbors(fresh, k=9).indices).all()
    np.testing.assert_allclose(lasso.neighbors(fresh, k=9).distances, joint.neighbors(fresh, k=9).distances)


@pytest.mark.parametrize("penalty", [0.01, 0.2, 0.7])
def test_group_lasso_is_where_no_step_lowers_the_objective(penalty):
    random = np.random.default_rng(1)
    D = random.standard_normal((80, 7))
    D -= D.mean(axis=0)
    target = D @ [1.0, 0.5, 0, 0.1, 0, -1.0, 0] + random.standard_normal(80)
    target -= target.mean()
    groups = [slice(0, 2), slice(2, 5), slice(5, 7)]
    most = max(np.linalg.norm(np.maximum(target @ D[:, group], 0)) for group in groups) / 80

    def objective(w: np.ndarray) -> float:
        lengths = sum(np.linalg.norm(w[group]) for group in groups)
        return float(((target - D @ w) ** 2).sum() / 160 + penalty * most * lengths)

    found = group_lasso(D, target, groups, penalty)
    assert (found >= 0).all()
    for _ in range(200):
        other = np.maximum(found + random.choice([1e-3, 1e-2, 0.1]) * random.standard_normal(7), 0)
        assert objective(other) >= objective(found) - 1e-6
    assert not group_lasso(D, target, groups, 1.0).any()


def test_group_lasso_neighbors_are_nearest_by_weighted_differences_and_leave_noise_out():
    X = some_rows(80)
    Y = matrix(some_keywords(X))
    groups = GroupLassoNeighbors({"first": slice(0, 2), "noise": slice(2, 5)}, min_shared=2, penalty=0.3).fit(X, Y)
    assert groups.weights_ == {"first": 1.0, "noise": 0.0}
    weights = np.zeros(5)
    weights[:2] = groups.column_weights_[:2]
    fresh = some_rows(4, seed=2)
    table = groups.neighbors(fresh, k=80)
    for query, indices, distances in zip(fresh, table.indices, table.distances, strict=True):
        np.testing.assert_allclose(distances, (weights * np.abs(query - X[indices])).sum(axis=1), rtol=1e-6)
        assert (np.diff(distances) >= 0).all()
    own = groups.leave_one_out(5)
    assert not (own.indices == np.arange(80)[:, None]).any()


@pytest.mark.parametrize(
    ("learner", "words"),
    [
        (LassoNeighbors(SPACES, min_shared=2, penalty=9.0), "No feature space tells"),
        (LassoNeighbors(SPACES, penalty=-1.0, min_shared=2), r"penalty must be a number in the range \[0, "),
        (GroupLassoNeighbors({"a": (slice(0, 2), "cosine")}, min_shared=2), "'a' asks for cosine"),
        (GroupLassoNeighbors(penalty=0.0), r"in the range \(0, 1\)"),
        (LassoNeighbors(min_shared=9), "No two of the 60 rows share 9 keywords"),
    ],
)
def test_settings_that_cannot_be_learned_with_are_refused_in_words(learner, words):
    X = some_rows(60)
    with pytest.raises(InputError, match=words):
        learner.fit(X, matrix(some_keywords(X)))


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


@pytest.mark.parametrize("learner", [MLkNN(2), TwoPassNeighbors(), LassoNeighbors(), SparseCodingAnnotator()])
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


# ------------------------------------------------------------ sparse coding


@given(keyword_lists)
def test_the_graph_of_keywords_joins_rows_that_share_words_and_no_row_to_itself(keywords):
    graph = keyword_graph(matrix(keywords), n_mixed=3).toarray()
    np.testing.assert_allclose(graph, graph.T)
    assert (graph >= 0).all()
    assert not np.diag(graph).any()
    for i, mine in enumerate(keywords):
        for j, theirs in enumerate(keywords):
            assert graph[i, j] == 0 or mine & theirs
            if i != j and mine and mine == theirs:
                assert graph[i, j] >= 1 / len(keywords)


def test_the_map_joins_no_worse_than_others_of_the_same_spread():
    random = np.random.default_rng(0)
    X = random.standard_normal((40, 6))
    X -= X.mean(axis=0)
    graph = csr_array(np.triu(random.random((40, 40)) < 0.1, 1).astype(float))
    graph = graph + graph.T
    rows, columns = graph.nonzero()

    def apart(P: np.ndarray) -> float:
        return float(((X[rows] @ P - X[columns] @ P) ** 2).sum())

    best = map_that_joins(X, graph, 2)
    for _ in range(50):
        direction = np.linalg.qr(np.linalg.cholesky(X.T @ X).T @ random.standard_normal((6, 2)))[0]
        other = np.linalg.solve(np.linalg.cholesky(X.T @ X).T, direction) * np.sqrt(20)
        assert apart(other) >= apart(best) * (1 - 1e-2)
    assert ((X @ best) ** 2).sum() / 40 == pytest.approx(1, rel=1e-2)


def test_a_mixture_is_where_no_coefficient_gains_by_moving():
    random = np.random.default_rng(0)
    atoms, query = np.asfortranarray(random.standard_normal((8, 20))), random.standard_normal(8)
    found = mixture(atoms, query, 0.05)
    gain = atoms.T @ (query - atoms @ found) - 0.05 * (query @ query)
    assert (found > 0).any()
    assert (found >= 0).all()
    assert (gain <= 0.02).all()
    assert np.abs(gain[found > 0]).max() <= 0.02
    assert not mixture(atoms, np.zeros(8), 0.05).any()


def test_sparse_coding_finds_the_words_of_clear_groups_in_any_batch():
    random = np.random.default_rng(0)
    kind = np.arange(60) % 3
    X = np.column_stack([np.eye(3)[kind] + 0.1 * random.standard_normal((60, 3)), random.standard_normal((60, 3))])
    Y = np.eye(3)[kind]
    annotator = SparseCodingAnnotator({"a": slice(0, 3), "b": slice(3, 6)}, n_dimensions=3).fit(X[6:], Y[6:])
    scores = annotator.scores(X[:6])
    assert (scores.argmax(axis=1) == kind[:6]).all()
    assert (scores >= 0).all()
    np.testing.assert_allclose(np.vstack([annotator.scores(X[i : i + 1]) for i in range(6)]), scores, atol=1e-9)
    assert annotator.scores(X[:0]).shape == (0, 3)
    with pytest.raises(InputError, match="n_mixed must be a whole number of at least 1"):
        SparseCodingAnnotator(n_mixed=0).fit(X, Y)


@pytest.mark.parametrize("kept", [1, 40, 10**6])
def test_rows_among_themselves_are_as_far_as_queries_are_however_many_are_kept(kept, monkeypatch):
    monkeypatch.setattr("nearsay.neighbors.joint.feature_spaces.DISTANCES_KEPT", kept)
    X = np.random.default_rng(0).integers(0, 3, (19, 4)).astype(float)
    joint = JointNeighbors({"a": (slice(0, 2), "manhattan"), "b": slice(2, 4)}).fit(X)
    distances = joint.distances(X)
    np.testing.assert_array_equal(joint.distances(), distances)
    table = joint.leave_one_out(5)
    for row, line in enumerate(distances):
        others = sorted((j for j in range(19) if j != row), key=lambda j: (line[j], j))[:5]
        assert table.indices[row].tolist() == others
    some = joint.leave_one_out(5, rows=np.array([7, 2]))
    np.testing.assert_array_equal(some.indices, table.indices[[7, 2]])
    np.testing.assert_array_equal(joint.leave_one_out(5, rows=np.arange(19)[::-1]).indices, table.indices[::-1])
