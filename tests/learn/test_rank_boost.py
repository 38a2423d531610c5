"""Preferences and the learned order of neighbors, against loops; bounds, ties, and bad input."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone

from nearsay.core.parallel import threads
from nearsay.distances.named import DISTANCES
from nearsay.errors import InputError
from nearsay.learn.preferences import agreement, draw_preferences, ideal_gain, swap_weights
from nearsay.learn.rank_boost import RankBoostNeighbors, rank_boost
from nearsay.learn.rank_boost_kernels import rank_rows
from nearsay.neighbors.joint.feature_spaces import HeldSpaces, as_spaces
from tests.reference import ranking as reference

SYMMETRIC = [name for name, kind in DISTANCES.items() if kind.symmetric]
keyword_lists = st.lists(st.sets(st.integers(0, 4), max_size=4), min_size=2, max_size=8)


def matrix(keywords: list[set[int]]) -> csr_array:
    return csr_array([[int(word in words) for word in range(5)] for words in keywords])


@given(keyword_lists, keyword_lists)
def test_agreement_is_twice_the_shared_words_by_all_of_both(some, others):
    found = agreement(matrix(some), matrix(others))
    expected = [[reference.agreement(y, z) for z in others] for y in some]
    np.testing.assert_allclose(found, expected, rtol=1e-14)


@given(st.lists(st.sampled_from([0.0, 0.4, 0.5, 2 / 3, 1.0]), min_size=2, max_size=9), st.integers(1, 10))
def test_a_preference_weighs_what_swapping_the_two_loses_of_ndcg(agreements, depth):
    agreements = sorted(agreements, reverse=True)
    if agreements[0] == 0:
        return
    ideal = ideal_gain(np.array(agreements), depth)
    for a, b in itertools.combinations(range(1, len(agreements) + 1), 2):
        weight = swap_weights(agreements[a - 1], agreements[b - 1], a, b, ideal, depth, rest=0.0)
        assert weight == pytest.approx(reference.ndcg_lost_by_swapping(agreements, a, b, depth), abs=1e-15)
        assert 0 <= weight <= 1


@given(keyword_lists, st.integers(1, 5), st.sampled_from([None, 1, 3]), st.integers(0, 3))
def test_preferences_name_rows_that_share_more_and_never_the_row_itself(keywords, n_pairs, top, seed):
    Y = matrix(keywords)
    r = agreement(Y, Y)
    found = draw_preferences(Y, n_pairs, top=top, seed=seed)
    assert (r[found.query, found.better] > r[found.query, found.worse]).all()
    assert (found.query != found.better).all()
    assert (found.query != found.worse).all()
    gives = [len(set(np.delete(r[i], i))) > 1 for i in range(len(keywords))]
    if top is None:
        assert np.bincount(found.query, minlength=len(keywords)).tolist() == [n_pairs * g for g in gives]


def test_all_pairs_that_differ_are_drawn_equally_often():
    Y = matrix([{0, 1, 2}, {0, 1, 2}, {0, 1}, {0}, {3}])
    found = draw_preferences(Y, 7000)
    mine = found.query == 0
    _, counts = np.unique(np.column_stack([found.better[mine], found.worse[mine]]), axis=0, return_counts=True)
    assert len(counts) == 6
    assert abs(counts / mine.sum() - 1 / 6).max() < 0.02


def test_the_better_one_is_among_the_top_where_that_is_asked_for():
    Y = matrix([{0, 1, 2}, {0, 1, 2}, {0, 1}, {0}, {3}])
    found = draw_preferences(Y, 50, top=1)
    assert set(found.better[found.query == 0]) == {1}


def test_preferences_below_the_depth_weigh_the_rest_and_equal_ones_all_the_same():
    Y = matrix([{0, 1, 2}, {0, 1, 2}, {0, 1}, {0}, {3}])
    found = draw_preferences(Y, 50, depth=1, rest=1e-3)
    at_top = (found.query != 0) | (found.better == 1)
    assert (found.weight[~at_top] == 1e-3).all()
    assert (found.weight[(found.query == 0) & at_top] > 1e-3).all()
    assert set(draw_preferences(Y, 50, weighting="equal").weight) == {1.0}


pairs_of_ranks = st.integers(1, 3).flatmap(
    lambda n_spaces: st.lists(
        st.tuples(
            st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=n_spaces, max_size=n_spaces),
            st.sampled_from([1.0, 2.0, 5.0]),
        ),
        min_size=1,
        max_size=8,
    )
)


@settings(deadline=None)
@given(pairs_of_ranks, st.integers(1, 6))
def test_rank_boost_equals_the_loops_and_its_bound_holds(pairs, max_iter):
    ranks = np.array([places for places, _ in pairs])
    better, worse = ranks[:, :, 0].T, ranks[:, :, 1].T
    weight = np.array([weight for _, weight in pairs])
    found = rank_boost(better, worse, weight, n_ranks=6, max_iter=max_iter)
    expected = reference.rank_boost(better.tolist(), worse.tolist(), weight.tolist(), 6, max_iter)
    assert [found.spaces.tolist(), found.thresholds.tolist()] == [[r[0] for r in expected], [r[1] for r in expected]]
    for mine, column in ((found.alphas, 2), (found.errors, 3), (found.bounds, 4)):
        np.testing.assert_allclose(mine, [r[column] for r in expected], rtol=1e-9, atol=1e-12)
    assert (found.errors <= found.bounds + 1e-12).all()
    assert (np.diff(found.bounds) <= 1e-12).all()
    by_hand = np.zeros(len(pairs))
    for space in range(len(better)):
        thresholds, values = found.worth(space)
        by_hand += (
            values[np.searchsorted(thresholds, better[space])] - values[np.searchsorted(thresholds, worse[space])]
        )
    if len(found.errors) and abs(by_hand).min() > 1e-9:
        assert found.errors[-1] == pytest.approx(weight[by_hand <= 0].sum() / weight.sum(), abs=1e-12)


def some_rows(n: int, seed: int = 0) -> tuple[np.ndarray, csr_array]:
    """Small whole numbers full of ties; keywords that follow the first space, and one that follows nothing."""
    random = np.random.default_rng(seed)
    X = random.integers(0, 4, (n, 5))
    words = np.column_stack([X[:, 0] > 1, X[:, 0] == 0, X[:, 1] == 3, random.random(n) < 0.2])
    return X, csr_array(words.astype(int))


SPACES = {"first": slice(0, 2), "second": (slice(2, 5), "manhattan")}


@pytest.mark.parametrize("joint", [False, True])
def test_neighbors_are_the_rows_of_highest_score_then_nearest_then_first(joint):
    X, Y = some_rows(30)
    ranking = RankBoostNeighbors(SPACES, max_iter=12, n_pairs=30, depth=8, joint=joint).fit(X, Y)
    fresh, _ = some_rows(5, seed=1)
    held = HeldSpaces(X, as_spaces(SPACES, 5))
    table = ranking.neighbors(fresh, k=30)
    for query, indices, distances in zip(fresh, table.indices, table.distances, strict=True):
        measured = [held.distances(space, query[None])[0] for space in range(2)]
        mean = measured[0] / held.scales[0] + measured[1] / held.scales[1]
        ranks = [reference.ranks(list(d), None) for d in ([*measured, mean] if joint else measured)]
        score = np.zeros(30)
        for space, threshold, alpha in zip(
            ranking.boosted_.spaces, ranking.boosted_.thresholds, ranking.boosted_.alphas, strict=True
        ):
            score += alpha * (np.array(ranks[space]) <= threshold)
        np.testing.assert_allclose(-distances, score[indices], atol=1e-12)
        order = sorted(range(30), key=lambda row: (-round(score[row], 9), mean[row], row))
        assert indices.tolist() == order


@pytest.mark.parametrize("kept", [None, 75, 1])
def test_ranks_in_training_leave_the_row_itself_out_however_many_lines_are_kept(kept):
    X, Y = some_rows(25)
    ranking = RankBoostNeighbors(SPACES, n_pairs=10, depth=5, joint=True).fit(X, Y)
    if kept:
        ranking._held.distances_kept = kept
    preferences = draw_preferences(Y, 10, depth=5, seed=3)
    order = np.random.default_rng(0).permutation(25)
    found = ranking._ranks(preferences, order)
    held = HeldSpaces(X, as_spaces(SPACES, 5))
    measured = [held.distances(space, X) for space in range(2)]
    measured.append(measured[0] / held.scales[0] + measured[1] / held.scales[1])
    for p, i in enumerate(preferences.query):
        for space, distances in enumerate(measured):
            ranks = reference.ranks(list(distances[order[i]]), order[i])
            better, worse = order[preferences.better[p]], order[preferences.worse[p]]
            assert [side[space, p] for side in found] == [ranks[better], ranks[worse]]
    table = ranking.leave_one_out(24)
    assert not (table.indices == np.arange(25)[:, None]).any()
    assert (np.sort(table.indices, axis=1) == [[j for j in range(25) if j != i] for i in range(25)]).all()


awkward_distances = st.lists(
    st.one_of(st.integers(0, 3).map(float), st.sampled_from([1e308, -1e308, 5e-324, 1e-300, 1e9, 1 / 3])),
    min_size=2,
    max_size=12,
)


@settings(deadline=None)
@given(awkward_distances, st.integers(0, 11))
def test_a_rank_is_one_more_than_the_number_of_nearer_rows_whatever_the_distances(distances, itself):
    n, itself = len(distances), itself % len(distances)
    starts = np.where(np.arange(n + 1) > itself, n, 0)
    rows, ranks = np.stack([np.arange(n), np.arange(n)[::-1]]), np.zeros((2, n), np.uint16)
    rank_rows(np.array([distances]), itself, starts, rows, ranks)
    expected = np.array(reference.ranks(distances, itself))
    assert (ranks == expected[rows]).all()


@pytest.mark.parametrize("distance", [*SYMMETRIC, "kullback_leibler", "minkowski", lambda a, b: a @ b])
def test_distances_between_rows_are_those_measured_line_by_line(distance):
    random = np.random.default_rng(0)
    n = 50 if callable(distance) else 150  # more than are in the cache at once
    X = np.hstack([random.random((n, 3)), random.random((n, 30)) * (random.random((n, 30)) < 0.1)])
    held = HeldSpaces(X, as_spaces({"full": slice(0, 3), "mostly empty": slice(2, 33)}, 33, distance))
    for space, lines in itertools.product(range(2), (slice(0, n), slice(13, 37), slice(49, 50))):
        out = np.full((lines.stop - lines.start, n), np.nan)
        held.between_rows(space, lines, out)
        singly = [held.distances(space, X[i : i + 1])[0] for i in range(lines.start, lines.stop)]
        np.testing.assert_array_equal(out, singly)
        np.testing.assert_array_equal(held.distances(space, X[lines], slice(7, 41)), out[:, 7:41])


def test_scales_are_the_same_after_all_rows_were_measured():
    X = np.random.default_rng(0).random((700, 5))
    X[:, 4] = 1
    spaces = as_spaces({**SPACES, "alike": slice(4, 5)}, 5)
    fresh, used = HeldSpaces(X, spaces), HeldSpaces(X, spaces)
    for space in (2, 0):
        used.between_rows(space, slice(0, 700), np.empty((700, 700)))
    assert used.scales.tolist() == fresh.scales.tolist()


def test_one_space_keeps_its_own_order_up_to_ties():
    X, Y = some_rows(40)
    ranking = RankBoostNeighbors({"first": slice(0, 2)}, max_iter=1, depth=5).fit(X, Y)
    plain = HeldSpaces(X, as_spaces({"first": slice(0, 2)}, 5)).distances(0, X[:6])
    table = ranking.neighbors(X[:6], k=40)
    if ranking.boosted_.alphas[0] > 0:
        assert (np.diff(np.take_along_axis(plain, table.indices, axis=1)) >= 0).all()


def test_threads_and_batches_do_not_matter():
    X, Y = some_rows(60)
    with threads(1):
        one = RankBoostNeighbors(SPACES, n_pairs=20).fit(X, Y)
    with threads(2):
        two = RankBoostNeighbors(SPACES, n_pairs=20).fit(X, Y)
    assert (one.boosted_.thresholds == two.boosted_.thresholds).all()
    assert (one.boosted_.alphas == two.boosted_.alphas).all()
    whole = two.neighbors(X, k=9)
    singly = np.concatenate([two.neighbors(X[i : i + 1], k=9).indices for i in range(60)])
    assert (whole.indices == singly).all()
    assert clone(one).get_params() == one.get_params()


@settings(deadline=None)
@given(st.integers(0, 5))
def test_mostly_empty_histograms_are_measured_as_full_ones_are(seed):
    random = np.random.default_rng(seed)
    X = random.integers(0, 4, (12, 40)) * (random.random((12, 40)) < 0.1)
    held = HeldSpaces(X, as_spaces({"counts": (slice(0, 40), "manhattan")}, 40))
    for Q in (X[:3], random.integers(0, 4, (3, 40)), random.integers(-1, 2, (2, 40))):
        np.testing.assert_array_equal(held.distances(0, Q), np.abs(Q[:, None] - X[None]).sum(axis=2))


@pytest.mark.parametrize(
    ("Y", "words"),
    [
        (np.zeros((4, 3)), "give no order"),
        (np.ones((4, 3)), "give no order"),
        (np.ones((3, 3)), "X has 4 rows, Y 3"),
    ],
)
def test_keywords_that_say_nothing_are_refused_in_words(Y, words):
    with pytest.raises(InputError, match=words):
        RankBoostNeighbors().fit(np.arange(8).reshape(4, 2), Y)


@pytest.mark.parametrize("features", [{}, {"a": [0, 1]}, {"a": slice(7, 9)}, ["a"]])
def test_spaces_that_are_none_are_refused_in_words(features):
    X, Y = some_rows(10)
    with pytest.raises(InputError, match=r"features must map|must be a slice|is empty"):
        RankBoostNeighbors(features).fit(X, Y)
