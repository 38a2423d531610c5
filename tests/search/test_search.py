"""Inside exact search: every path to an answer, and the rules of the house."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nearsay as ns
from nearsay.errors import InputError
from nearsay.neighbors import neighbor_search
from nearsay.neighbors.neighbor_search import leave_one_out, nearest
from nearsay.search.exact import ExactSearch
from nearsay.search.row_store import HeldRows
from nearsay.search.screening import prepared_rows as views
from nearsay.search.screening.products import PRODUCTS
from nearsay.search.screening.shortlist_kernels import Shortlists
from tests.exact_searches import BLOCKS
from tests.public import ROOMS
from tests.reference import neighbors as reference


@pytest.mark.slow
@given(
    scores=st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=60), min_size=1, max_size=3),
    k=st.integers(1, 8),
    block=st.integers(1, 40),
    spare=st.integers(1, 30),
)
@settings(max_examples=100)
def test_a_shortlist_of_final_scores_is_the_first_k_of_a_stable_sort(scores, k, block, spare):
    width = min(len(line) for line in scores)
    table = np.array([line[:width] for line in scores], float)
    k = min(k, width)
    lists = Shortlists(np.zeros(len(table)), k, 2 * k + spare, np.float64)
    for first in range(0, width, block):
        lists.see(slice(None), table[:, first : first + block], first)
    found = lists.finish()
    for line, rows in zip(table, found, strict=True):
        best = np.argsort(line, kind="stable")[:k]
        assert list(rows) == sorted(best)
    assert not lists.crowded.any()


@given(
    scores=st.lists(st.integers(0, 30), min_size=1, max_size=200),
    k=st.integers(1, 8),
    slack=st.floats(0.1, 4),
    block=st.integers(1, 64),
)
@settings(max_examples=100)
def test_a_shortlist_with_slack_keeps_all_that_could_be_among_the_best_or_says_it_is_crowded(scores, k, slack, block):
    k = min(k, len(scores))
    table = np.array([scores], np.float32)
    lists = Shortlists(np.array([slack]), k, 2 * k + 20, np.float32)
    for first in range(0, len(scores), block):
        lists.see(slice(None), table[:, first : first + block], first)
    found = lists.finish()[0]
    if not lists.crowded[0]:
        kth = np.sort(table[0])[k - 1]
        wanted = np.flatnonzero(table[0] <= kth + np.float32(slack))
        assert set(wanted) <= set(found.tolist())


def worst_rows() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    tight = rng.normal(size=(20, 6)).repeat(150, axis=0)
    return {
        "all equal": np.ones((3000, 5)),
        "binary": rng.integers(0, 2, size=(3000, 9)).astype(np.float32),
        "tight clusters far apart": tight * 1e6 + 1e-6 * rng.normal(size=tight.shape),
        "a large offset": (1e4 + 1e-2 * rng.normal(size=(3000, 6))).astype(np.float32),
        "one far row": np.vstack([rng.normal(size=(2999, 4)), np.full((1, 4), 1e9)]),
        "tiny numbers": 1e-30 * rng.normal(size=(3000, 4)),
        "huge numbers": 1e30 * rng.normal(size=(3000, 4)),
    }


with_every_product = pytest.mark.parametrize("products", PRODUCTS)


@with_every_product
@pytest.mark.parametrize("limits", [None, BLOCKS], ids=["few products", "blocks of rows"])
@pytest.mark.parametrize("kind", worst_rows())
@pytest.mark.parametrize("n_queries", [3, 60])
def test_hard_rows_are_searched_exactly(kind, n_queries, products, limits):
    X = worst_rows()[kind]
    Q = np.vstack([X[:: len(X) // n_queries], X[:2].astype(np.float64) * 1e12])
    expected = exactly(X, Q, 20)
    search = ExactSearch(products=products, limits=limits)
    np.testing.assert_array_equal(ns.NeighborIndex(search=search).fit(X).query(Q, 20).indices, expected)


@pytest.mark.parametrize("kind", worst_rows())
def test_hard_rows_are_searched_exactly_one_query_at_a_time(kind):
    X = worst_rows()[kind]
    Q = np.vstack([X[::300], X[:2] * X.dtype.type(1e12)])
    index = ns.NeighborIndex().fit(X)
    for q, expected in zip(Q, exactly(X, Q, 20), strict=True):
        np.testing.assert_array_equal(index.query(q[None], 20).indices[0], expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [1, 2, 3, 4, 5, 6, 7, 8, 33, 1501])
def test_a_query_alone_has_the_neighbors_that_it_has_among_others(n_rows, dtype):
    rng = np.random.default_rng(0)
    X, Q = (rng.integers(-2, 3, size=(n, 7)).astype(dtype) for n in (n_rows, 9))
    k = min(n_rows, 12)
    for rows in (X, np.asfortranarray(X), X[::-1][::-1]):
        for metric in ("euclidean", "sqeuclidean"):
            index = ns.NeighborIndex(metric).fit(rows)
            together, by_column = index.query(Q, k), np.asfortranarray(Q)
            np.testing.assert_array_equal(together.indices, exactly(X, Q, k))
            for q in range(len(Q)):
                for few in (Q[q : q + 2], by_column[q : q + 1], Q[q : q + 1].tolist()):
                    alone = index.query(few, k)
                    np.testing.assert_array_equal(alone.indices, together.indices[q : q + len(few)])
                    np.testing.assert_array_equal(alone.distances, together.distances[q : q + len(few)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e150])
@pytest.mark.parametrize("largest", [1.0, 1e138])
def test_a_query_alone_is_refused_in_the_words_for_many(dtype, bad, largest):
    if bad == 1e150 and dtype is np.float32:
        return
    X = np.eye(5, 3, dtype=dtype) * (largest if dtype is np.float64 else 1)
    index = ns.NeighborIndex().fit(X)
    for n in (1, 2, 9):
        Q = np.ones((n, 3), dtype)
        Q[-1, 1] = bad
        with pytest.raises(InputError, match=rf"Q holds {re.escape(str(bad))} at row {n - 1}, column 1"):
            index.query(Q, 2)
        with pytest.raises(InputError, match="Q has 2 columns, but 3 are expected"):
            index.query(Q[:, :2], 2)
    with pytest.raises(InputError, match="two dimensions"):
        index.query(Q[0], 2)
    far = np.full((1, 3), 1e35 if dtype is np.float32 else 1e100, dtype)
    np.testing.assert_array_equal(index.query(far, 2).indices, exactly(X, far, 2))


@with_every_product
@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (37, 16), (130, 17), (1030, 40)])
def test_products_lie_within_the_errors_they_state(products, shape):
    rng = np.random.default_rng(0)
    X = rng.normal(size=shape).astype(np.float32) * rng.choice([1e-3, 1.0, 50.0], size=(shape[0], 1)).astype(np.float32)
    Q = rng.normal(size=(7, shape[1])).astype(np.float32)
    X[0] = 0
    kind = PRODUCTS[products]()
    (rows, row_errors), (queries, query_errors) = kind.prepare(X), kind.prepare(Q)
    out = np.empty((len(Q), len(X)), np.float32)
    kind.into(queries, rows, out)
    q, x = np.linalg.norm(Q, axis=1)[:, None], np.linalg.norm(X, axis=1)
    bound = q * row_errors + query_errors[:, None] * (x + row_errors) + 1e-6 * shape[1] * q * x
    assert (np.abs(out - Q.astype(float) @ X.T.astype(float)) <= bound).all()


@with_every_product
def test_changed_rows_are_seen_by_prepared_products(products):
    rng = np.random.default_rng(0)
    X, Q = rng.normal(size=(500, 8)), rng.normal(size=(50, 8))
    search = ExactSearch(products=products, limits=BLOCKS).fit(X)
    search.candidates(Q, 5)
    search.add(100 * Q)
    search.remove(np.arange(0, 400, 2))
    rows = np.delete(np.vstack([X, 100 * Q]), np.arange(0, 400, 2), axis=0)
    numbers = np.delete(np.arange(550), np.arange(0, 400, 2))
    np.testing.assert_array_equal(nearest(search, 99 * Q, 5).indices, numbers[exactly(rows, 99 * Q, 5)])


def exactly(X: np.ndarray, Q: np.ndarray, k: int) -> np.ndarray:
    """Sums of squares coordinate by coordinate in float64, as a double loop does them."""
    squares = np.zeros((len(Q), len(X)))
    for x, q in zip(X.T.astype(np.float64), Q.T.astype(np.float64), strict=True):
        squares += (q[:, None] - x) ** 2
    return np.argsort(np.sqrt(squares), axis=1, kind="stable")[:, :k]


SPREADS = {
    "even": lambda rng, n: rng.random(n),
    "many equal": lambda rng, n: rng.integers(0, 5, n).astype(float),
    "all equal": lambda rng, n: np.ones(n),
    "most near one end": lambda rng, n: 1e9 * rng.random(n) ** 40,
    "one far away": lambda rng, n: np.append(rng.random(n - 1), 1e300),
    "some infinite": lambda rng, n: np.where(rng.random(n) < 0.2, np.inf, rng.random(n)),
    "a hair apart": lambda rng, n: 1 + 2.0**-52 * rng.integers(0, 9, n),
    "tiny": lambda rng, n: 5e-324 * rng.integers(0, 9, n),
}


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize(("n", "k"), [(300, 65), (300, 130), (300, 400), (20, 70), (1, 70)])
def test_many_candidates_in_any_order_are_put_in_order_by_distance_and_row(spread, n, k):
    rng = np.random.default_rng(k)
    candidates, left_out = np.empty((3, n), np.int64), np.array([7, 8, n - 1])
    for line in candidates:
        line[:] = rng.permutation(n)
        line[rng.random(n) < 0.1] = -1
    measured = np.array([SPREADS[spread](rng, n) for _ in candidates])
    table = neighbor_search.no_neighbors(3, k)
    neighbor_search.order_measured(candidates, measured, left_out, table)
    for q in range(3):
        there = [
            (far, row) for far, row in zip(measured[q], candidates[q], strict=True) if row not in (-1, left_out[q])
        ]
        expected = sorted(there)[:k]
        np.testing.assert_array_equal(table.indices[q, : len(expected)], [row for _, row in expected])
        np.testing.assert_array_equal(table.distances[q, : len(expected)], [far for far, _ in expected])
        assert (table.indices[q, len(expected) :] == -1).all()


def test_the_screen_alone_misses_nothing_that_it_does_not_give_up(compiled_search):
    for X in worst_rows().values():
        found, undecided = compiled_search().fit(X)._screen.candidates(X[:50], 10)
        decided = np.setdiff1d(np.arange(50), undecided)
        for query, rows in zip(decided, exactly(X, X[decided], 10), strict=True):
            assert set(rows) <= set(found[query].tolist())


def test_a_collection_too_large_to_keep_its_norms_is_searched_exactly_too(monkeypatch, exact_search):
    monkeypatch.setattr(views, "NORMS_UP_TO", 45)
    rng = np.random.default_rng(0)
    X, Q = rng.integers(0, 4, size=(60, 3)).astype(float), rng.integers(0, 4, size=(40, 3)).astype(float)
    for n in (40, 50):  # the first grows past the limit, the second is past it from the start
        search = exact_search().fit(X[:n])
        search.add(X[n:])
        np.testing.assert_array_equal(nearest(search, Q, 7).indices, exactly(X, Q, 7))
        search.remove([0, 59])
        np.testing.assert_array_equal(nearest(search, Q, 7).indices, 1 + exactly(X[1:59], Q, 7))


def test_more_rows_than_can_be_numbered_are_refused():
    with pytest.raises(InputError, match="at most 2,147,483,647 rows; got 2,147,483,648"):
        HeldRows(np.empty((2**31, 0)))
    with pytest.raises(InputError, match="at most 2,147,483,647 rows; got 2,147,483,650"):
        HeldRows(np.empty((3, 0))).appended(np.empty((2**31 - 1, 0)))


class NeverScanned(ExactSearch):
    def _scan(self, Q, k):
        pytest.fail("scanned")


@pytest.mark.parametrize("limits", [None, BLOCKS], ids=["few products", "blocks of rows"])
def test_ordinary_rows_never_need_the_slow_scan(limits):
    rng = np.random.default_rng(0)
    for X in (rng.normal(size=(5000, 32)), rng.normal(size=(5000, 32)).astype(np.float32) + 100):
        NeverScanned(products="int8", limits=limits).fit(X).candidates(X[:100], 10)


def test_importing_nearsay_compiles_nothing_and_leaves_heavy_packages_alone():
    code = (
        "import sys, nearsay; print([m for m in ('numba', 'faiss', 'torch', 'sklearn', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_has_a_home_and_a_type():
    for room in ROOMS:
        assert dir(room) == sorted(room.__all__)
        stub = Path(room.__file__).with_suffix(".pyi").read_text()
        for name in room.__all__:
            home, _, again = re.search(rf"^from (\S+) import {name}( as (\S+))?$", stub, re.MULTILINE).groups()
            assert again == name, "only names that a stub imports as themselves are public to a type checker"
            assert getattr(room, name) is getattr(import_module(home), name)
    with pytest.raises(AttributeError, match="module 'nearsay' has no attribute 'NeighbourIndex'"):
        ns.NeighbourIndex  # noqa: B018
    with pytest.raises(ImportError, match="NeighbourIndex"):
        exec("from nearsay import NeighbourIndex")


@pytest.mark.parametrize("distance", ["euclidean", "sqeuclidean", "cosine"])
@given(data=st.data(), n=st.integers(2, 40), k=st.integers(1, 6))
@settings(max_examples=40)
def test_leaving_one_out_finds_the_others_that_a_loop_finds(distance, data, n, k):
    X = np.array(data.draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), min_size=n, max_size=n)), float)
    removed = sorted(data.draw(st.sets(st.integers(0, n - 1), max_size=n - 2)))
    live = [row for row in range(n) if row not in removed]
    k = min(k, len(live) - 1)
    search = ExactSearch(distance).fit(X)
    search.remove(removed)
    table = leave_one_out(search, k)
    for row in range(n):
        others = [other for other in live if other != row] if row in live else []
        (expected,), (far,) = reference.nearest(X[others], [X[row]], k, getattr(reference, distance))
        assert table.indices[row].tolist() == [others[i] for i in expected] + [-1] * (k - len(expected))
        np.testing.assert_allclose(table.distances[row], far + [np.inf] * (k - len(far)), rtol=1e-12)
