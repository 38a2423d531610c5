"""Exact search on rows of any width and any scale: the rows of a double loop, or a clear error before any answer."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import nearsay as ns
from nearsay.distances.named import as_distance
from nearsay.errors import InputError
from nearsay.neighbors.neighbor_search import leave_one_out, nearest
from nearsay.search.exact import ExactSearch
from nearsay.search.screening.products import PRODUCTS, Int8Products, products_of
from tests.exact_searches import BLOCKS

WIDEST_INT8 = Int8Products().most_columns


def double_loop(X: np.ndarray, Q: np.ndarray, k: int, *, itself: bool = True) -> np.ndarray:
    """The k nearest rows of every query, by squares added up column by column in float64; ties by row number."""
    found = []
    for i, q in enumerate(Q.astype(np.float64)):
        total = np.zeros(len(X))
        for column, value in zip(X.T, q, strict=True):
            total += (column.astype(np.float64) - value) ** 2
        if not itself:
            total[i] = np.inf
        found.append(np.argsort(np.sqrt(total), kind="stable")[:k])
    return np.array(found)


# ---------------------------------------------------------------- width


@pytest.mark.slow
@pytest.mark.parametrize("n_columns", [1, 2, 15, 16, 17, 1000, WIDEST_INT8, WIDEST_INT8 + 1, 140_000, 200_000])
@pytest.mark.parametrize("products", ["auto", "int8", "float32"])
def test_rows_of_any_width_have_their_true_neighbors(n_columns, products):
    """Rows of 0 and 1 and their opposites are all ±127 in 8 bits: a row's product with itself is the largest sum."""
    halves = np.random.default_rng(n_columns).integers(0, 2, size=(6, n_columns)).astype(np.float32)
    X = np.concatenate([halves, 1 - halves])
    table = nearest(ExactSearch(products=products, limits=BLOCKS).fit(X), X[:5], 4)
    squares = ((X[:5, None] - X[None]) ** 2).sum(axis=2, dtype=np.float64)  # of whole numbers: exact in any order
    np.testing.assert_array_equal(table.indices, np.argsort(squares, axis=1, kind="stable")[:, :4])


def test_the_widest_8_bit_sums_fit_32_bits():
    from nearsay.search.screening.tiles.tile_families import tile

    assert WIDEST_INT8 % tile().together == 0  # rows are filled up to whole steps of the tile
    assert 127 * tile().largest * WIDEST_INT8 < 2**31 <= 127 * tile().largest * (WIDEST_INT8 + tile().together)
    products = Int8Products()
    prepared, _ = products.prepare(np.ones((4, WIDEST_INT8), np.float32))
    out = np.empty((4, 4), np.float32)
    products.into(prepared, prepared, out)
    np.testing.assert_allclose(out, WIDEST_INT8, rtol=1e-6)


def test_products_that_would_overflow_are_never_the_fastest():
    assert isinstance(products_of("int8", WIDEST_INT8), Int8Products)
    assert not isinstance(products_of("int8", WIDEST_INT8 + 1), Int8Products)


# ---------------------------------------------------------------- scale

SCALES = [
    *(10.0**power for power in range(-300, 301, 20)),
    *(1e-320, 1e-161, 1e-141, 1e-140, 1e-139, 1e-45, 1e-38, 1e-24, 1e-19, 1e9, 1e10, 1e11, 1e18, 1e19, 1e20, 1e37),
    *(1e38, 1e139, 1e141),
]
POWERS = [-170, -161, -155, -100, -22, -10, 0, 1, 10, 19, 25, 100, 139]
TYPES = [np.float16, np.float32, np.float64]


def cannot_be_squared(X: np.ndarray) -> bool:
    X = X.astype(np.float64)
    if not np.abs(X).max() < 1e140:
        return True
    return bool(X.any()) and np.linalg.norm(X, axis=1).max() < 1e-140


@pytest.mark.parametrize("dtype", TYPES)
def test_rows_of_any_scale_have_their_true_neighbors_or_are_refused(dtype, exact_search):
    rng = np.random.default_rng(0)
    shapes = rng.integers(-4, 5, size=(40, 3)) / 4 + rng.normal(size=3)
    for scale in SCALES:
        with np.errstate(over="ignore", under="ignore"):
            X = (shapes * scale).astype(dtype)
        if cannot_be_squared(X):
            with pytest.raises(InputError, match=r"square|finite"):
                ns.nearest(X, X[:9], k=5, search=exact_search())
            continue
        table, others = (
            ns.nearest(X, X[:9], k=5, search=exact_search()),
            ns.leave_one_out(X, k=5, search=exact_search()),
        )
        np.testing.assert_array_equal(table.indices, double_loop(X, X[:9], 5), err_msg=f"{scale}")
        np.testing.assert_array_equal(others.indices, double_loop(X, X, 5, itself=False), err_msg=f"{scale}")


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64])
def test_integers_up_to_the_largest_of_their_type_have_their_true_neighbors(dtype, exact_search):
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(1)
    for largest in (1, 7, limits.max // 2, limits.max):
        X = rng.integers(max(limits.min, -largest), largest, size=(40, 3), dtype=dtype, endpoint=True)
        np.testing.assert_array_equal(
            ns.nearest(X, X[:9], k=5, search=exact_search()).indices, double_loop(X, X[:9], 5)
        )


@pytest.mark.parametrize("n_queries", [1, 5, 40])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_query_of_any_scale_has_its_true_neighbors(dtype, n_queries, exact_search):
    rng = np.random.default_rng(2)
    X = rng.integers(-4, 5, size=(60, 3)).astype(dtype)
    for scale in (1e-320, 1e-161, 1e-45, 1e-10, 1.0, 1e10, 1e16, 1e20, 1e39, 1e60, 1e139):
        Q = rng.normal(size=(n_queries, 3)) * scale
        table = ns.nearest(X, Q, k=4, search=exact_search())
        np.testing.assert_array_equal(table.indices, double_loop(X, Q, 4), err_msg=f"{scale}")
        assert np.isfinite(table.distances).all()


@given(
    powers=st.lists(st.sampled_from(POWERS), min_size=2, max_size=3),
    small=st.lists(st.tuples(*[st.integers(-2, 2)] * 3), min_size=2, max_size=12),
    dtype=st.sampled_from([np.float32, np.float64]),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_columns_of_different_scales_lose_nothing(powers, small, dtype, exact_search):
    """Where one column is large, differences in a tiny one vanish, in the screen as in the loop."""
    with np.errstate(over="ignore", under="ignore"):
        X = (np.array(small, float)[:, : len(powers)] * 10.0 ** np.array(powers)).astype(dtype)
    assume(not cannot_be_squared(X))
    k = min(3, len(X))
    np.testing.assert_array_equal(ns.nearest(X, X, k).indices, double_loop(X, X, k))


def test_tiny_differences_beside_a_large_constant_column_are_those_of_the_loop():
    for power in (-160, -155, -150, -140):
        rng = np.random.default_rng(-power)
        X = np.column_stack([np.ones(50), rng.integers(1, 9, size=50) * 10.0**power])
        np.testing.assert_array_equal(ns.nearest(X, X, 5).indices, double_loop(X, X, 5))


@pytest.mark.parametrize("search", ["exact", "trees", "auto"])
def test_rows_whose_squares_vanish_are_refused_with_the_remedy(search):
    X = np.arange(1.0, 2001.0)[:, None] * 1e-165
    with pytest.raises(InputError, match=r"Multiply rows and queries by a constant"):
        ns.NeighborIndex(search=search).fit(X)
    index = ns.NeighborIndex(search=search).fit(np.zeros((4, 1)))
    with pytest.raises(InputError, match="squares vanish"):
        index.add(X)
    assert len(index) == 4
    index.add([[1.0]])
    index.add(X)  # beside a row that is not tiny they are as near to zero as can be told
    assert index.query([[0.0]], k=4).indices.tolist() == [[0, 1, 2, 3]]


def test_rows_added_beyond_the_range_of_products_are_found():
    X = np.arange(20, dtype=np.float32)[:, None]
    index = ns.NeighborIndex(search="exact").fit(X)
    index.add(np.array([[1e20], [2e20]], np.float32))
    assert index.query([[1.1e20]], k=3).indices.tolist() == [[20, 21, 0]]
    assert index.query([[3.2]], k=2).indices.tolist() == [[3, 4]]


# ---------------------------------------------------------------- learned and given scales of columns


def positive_definite(d: int, spread: float, rng: np.random.Generator) -> np.ndarray:
    A = rng.normal(size=(d, d))
    units = 10.0 ** rng.uniform(-spread, spread, size=d)
    return (A @ A.T + np.eye(d)) * units * units[:, None]


@pytest.mark.parametrize("spread", [0, 3, 8, 20, 60])
def test_a_positive_definite_matrix_is_used_whole_whatever_the_scales_of_its_columns(spread):
    rng = np.random.default_rng(spread)
    for d in (1, 2, 5, 9):
        M = positive_definite(d, spread, rng)
        X = rng.normal(size=(60, d)) / np.sqrt(np.diag(M))
        distance = as_distance(("mahalanobis", {"M": M}))
        difference = X[:8, None] - X[None]
        truth = np.sqrt(np.einsum("qrj,jl,qrl->qr", difference, M, difference))
        np.testing.assert_allclose(distance.pairwise(X[:8], X), truth, rtol=1e-9)
        np.testing.assert_array_equal(
            nearest(ExactSearch(distance).fit(X), X[:8], 6).indices, np.argsort(truth, axis=1, kind="stable")[:, :6]
        )


def test_the_inverse_covariance_of_columns_in_different_units_gives_the_right_lists():
    rng = np.random.default_rng(0)
    plain = rng.normal(size=(200, 2))
    expected = ns.nearest(plain, plain, 5, metric=("mahalanobis", {"M": np.linalg.inv(np.cov(plain.T))}))
    X = plain * [1.0, 1e8]
    table = ns.nearest(X, X, 5, metric=("mahalanobis", {"M": np.linalg.inv(np.cov(X.T))}))
    np.testing.assert_array_equal(table.indices, expected.indices)


@pytest.mark.parametrize("units", [1.0, 1e-7, 1e7])
def test_a_matrix_of_lower_rank_leaves_out_just_the_directions_it_does_not_have(units):
    rng = np.random.default_rng(3)
    L = rng.normal(size=(2, 5)) * np.array([1.0, units, 1.0, units, 0.0])
    distance = as_distance(("mahalanobis", {"M": L.T @ L}))
    X = rng.normal(size=(20, 5)) / np.array([1.0, units, 1.0, units, 1.0])
    truth = np.linalg.norm((X[:, None] - X[None]) @ L.T, axis=2)
    np.testing.assert_allclose(distance.pairwise(X), truth, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("M", [[[1, 0], [0, -1]], [[0, 1], [1, 0]], [[1, 2], [2, 1]], [[1e-20, 1], [1, 1e-20]]])
def test_a_matrix_with_a_negative_eigenvalue_is_refused(M):
    with pytest.raises(InputError, match="no negative eigenvalue"):
        as_distance(("mahalanobis", {"M": M}))


def test_an_eigenvalue_below_zero_by_rounding_alone_is_cut_and_said():
    M = np.array([[1.0, 1e-17], [1e-17, 1e-40]])
    with pytest.warns(UserWarning, match="taken for 0"):
        distance = as_distance(("mahalanobis", {"M": M}))
    assert distance([0.0, 0.0], [3.0, 4.0]) == 3.0


# ---------------------------------------------------------------- memory


def peak_megabytes(work) -> float:
    tracemalloc.start()
    try:
        with ns.threads(2):  # each has blocks of its own
            work()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("n_columns", [40_000, pytest.param(150_000, marks=pytest.mark.slow)])
def test_wide_rows_take_little_memory_beside_their_own(dtype, n_columns):
    """Blocks are cut by bytes: 150 rows of 150,000 columns are 180 MB as float64, and were held several times over.

    The narrower rows are a small collection, whose products are taken all at once; the wider ones are not.
    """
    n_rows = 6_000_000 // n_columns if n_columns < 100_000 else 150
    X = wide_rows(n_rows, n_columns).astype(dtype)
    y = np.arange(n_rows) % 5
    index = ns.NeighborIndex().fit(X)
    for work in (
        lambda: ns.NeighborIndex().fit(X),
        lambda: index.query(X[:40], k=5),
        lambda: index.with_labels(y).leave_one_out(k=5, members=(1, 2), rows=np.arange(40)),
    ):
        assert peak_megabytes(work) < 150


def wide_rows(n: int, n_columns: int) -> np.ndarray:
    """Bytes; rows of different brightness, so that most are soon told apart."""
    brightness = np.random.default_rng(0).permutation(n) * 200 // n
    texture = np.random.default_rng(1).integers(0, 50, size=n_columns)
    return (brightness[:, None] + texture).astype(np.uint8)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["manhattan", "cosine", "correlation", "chi2"])
def test_wide_rows_take_little_memory_with_any_distance(name):
    X = wide_rows(100, 100_000) + np.uint8(1)
    X[:, :50_000] //= 2
    ns.nearest(X[:, 49_900:50_100], X[:2, 49_900:50_100], k=2, metric=name)  # compiles
    assert peak_megabytes(lambda: ns.nearest(X, X[:20], k=5, metric=name)) < 200


def test_every_kind_of_product_says_how_many_columns_it_can_add_up():
    for (name, make), n_columns in itertools.product(PRODUCTS.items(), [1, 10_000]):
        assert make().most_columns >= n_columns, name


def test_leaving_out_one_of_many_wide_rows_is_still_by_number():
    X = np.zeros((3, 140_000), np.uint8)
    assert leave_one_out(ExactSearch().fit(X), k=2).indices.tolist() == [[1, 2], [0, 2], [0, 1]]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int8, np.uint64, bool])
@pytest.mark.parametrize("of_rows", [np.float16, np.float32, np.float64, np.uint8])
def test_queries_may_be_of_another_type_than_rows(of_rows, kind):
    rng = np.random.default_rng(0)
    X, Q = rng.integers(0, 5, size=(60, 4)).astype(of_rows), rng.integers(0, 2, size=(6, 4)).astype(kind)
    np.testing.assert_array_equal(ns.nearest(X, Q, 5).indices, double_loop(X, Q, 5))
