"""Rough scores are no farther from what is measured than their slack says, whatever has come and gone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.errors import InputError
from nearsay.neighbors import neighbor_search
from nearsay.search.exact import ExactSearch
from nearsay.search.screening.screen import ScreenLimits

POINTS = st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=7)

CHANGES = ["add", "remove", "restore"]


LIMITS = ScreenLimits(fewest_numbers=0, check_every=2)  # few rows in eight bits


def check_scores(search: ExactSearch, Q: np.ndarray) -> None:
    rough, distance = search.rough_scores(Q), search.distance_
    far = distance.block(Q, search.rows_.between(0, len(search.rows_)))
    form = (far if distance.form_squared else far**2) / distance.form_share
    exact = (form * rough.scale**2 - rough.squares[:, None]) / 2
    removed = np.zeros(far.shape[1], bool) if search.rows_.removed is None else search.rows_.removed
    assert (rough.scores[:, removed] == np.inf).all()
    assert (abs(rough.scores - exact)[:, ~removed] <= rough.slack[:, None] / 2).all()


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "cosine"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(
    first=POINTS,
    changes=st.lists(st.tuples(st.sampled_from(CHANGES), POINTS, st.sampled_from([1, 3, 40]))),
    at=st.sampled_from([1.0, 300.0]),
)
def test_scores_are_certain_to_half_their_slack(metric, dtype, first, changes, at):
    def rows(points, scale=1):
        return (np.array(points) * 0.37 * scale + at).astype(dtype)

    search = ExactSearch(metric, limits=LIMITS).fit(rows(first))
    for what, points, scale in changes:
        if what == "add":
            search.add(rows(points, scale))  # longer ones, for which all are prepared again
        elif what == "remove" and search.rows_.n_live > 1:
            search.remove([search.rows_.live_numbers[len(points) % search.rows_.n_live]])
        elif what == "restore" and search.rows_.n_removed:
            search.restore(search.rows_.removed if scale == 1 else np.flatnonzero(search.rows_.removed)[:1])
        check_scores(search, rows(points[:2]))


def test_rows_in_eight_bits_follow_and_are_not_prepared_again():
    X = np.random.default_rng(0).normal(size=(200, 20)).astype(np.float32)
    search = ExactSearch(limits=LIMITS).fit(X[:150])
    prepared = []
    for row in range(150, 160):
        search.add(X[row : row + 1] * np.float32(0.5))
        search.remove([row - 100])
        search.rough_scores(X[:1])
        if row > 150:
            prepared.append(search._screen._packed._packed)
    # Those that came alone are packed with their like, now and then, and never with those before them.
    assert [[block.first for block in blocks] for blocks in prepared] == [
        *[[0], [0, 152], [0, 152], [0, 152, 154], [0, 152], [0, 152, 156], [0, 152, 156], [0, 152, 156, 158], [0, 152]]
    ]
    assert all(blocks[0].values is prepared[0][0].values for blocks in prepared)


def test_rows_that_eight_bits_cannot_tell_apart_are_multiplied_as_they_are():
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(800, 5)) * 1e-3 + rng.choice([-1, 1], (800, 1))).astype(np.float32)
    search = ExactSearch(limits=LIMITS).fit(X)
    for _ in range(4):
        rough = search.rough_scores(X[:1])
    assert rough.scale == 1.0
    assert search._screen._packed is None
    check_scores(search, X[:2])


def test_other_products_that_were_asked_for_stay():
    X = 5 * np.eye(9, dtype=np.float32)
    search = ExactSearch(products="float32", limits=LIMITS).fit(X)
    search.add(X)
    for _ in range(5):
        assert search.rough_scores(X[:1]).scale == 1.0


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan"])
def test_rows_that_were_removed_are_found_again_under_their_numbers(metric):
    X = np.random.default_rng(0).integers(1, 5, (50, 4)).astype(np.float32)
    search, always = ExactSearch(metric, limits=LIMITS).fit(X), ExactSearch(metric, limits=LIMITS).fit(X)
    before = search.snapshot()
    search.remove([3, 4, 20])
    while_gone = search.snapshot()
    search.restore([4, 3, 3])
    always.remove([20])
    expected = neighbor_search.leave_one_out(always, 7)
    found = neighbor_search.leave_one_out(search, 7)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.distances, expected.distances)
    assert [each.rows_.n_live for each in (before, while_gone, search)] == [50, 47, 49]
    with pytest.raises(InputError, match="Row 4 has not been removed"):
        search.restore([20, 4])
    assert search.rows_.n_live == 49
