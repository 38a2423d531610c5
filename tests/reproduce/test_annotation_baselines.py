"""LASSO, GS and MSC, baselines of the annotation paper: at their optimum, and with bad input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.sparse import csr_array

from nearsay.annotate.scorers.joint_neighbors import JointNeighbors
from nearsay.errors import InputError
from reproduce.annotation.baselines.group_lasso import group_lasso
from reproduce.annotation.baselines.keyword_pairs import draw_pairs
from reproduce.annotation.baselines.lasso_neighbors import GroupLassoNeighbors, LassoNeighbors, separating_weights
from reproduce.annotation.baselines.sparse_coding import SparseCodingAnnotator, keyword_graph, map_that_joins, mixture
from tests.annotate.test_keyword_neighbors import SPACES, keyword_lists, matrix, some_keywords, some_rows
from tests.reference.annotate import annotation as reference

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
    weights = separating_weights(distances, alike, penalty)

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
