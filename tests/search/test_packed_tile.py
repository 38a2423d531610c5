"""Products of packed bytes: exact for every kind of instructions that this processor has, and for those of any.

What is compiled holds one tile, so every other one is checked by this file run again in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.hard_rows import nearest_by_loop
from nearsay import NeighborIndex
from nearsay.distances.named import as_distance
from nearsay.errors import InputError
from nearsay.neighbors.neighbor_search import NOBODY
from nearsay.search.exact import ExactSearch
from nearsay.search.row_store import HeldRows
from nearsay.search.screening import bounds, packed_rows, products
from nearsay.search.screening.narrowing_kernels import keep_nearest, squares
from nearsay.search.screening.packed_rows import PackedRows
from nearsay.search.screening.prepared_rows import Geometry
from nearsay.search.screening.products import Int8Products, Quantized
from nearsay.search.screening.tiles import tile_families
from nearsay.search.screening.tiles.tile_families import ANY, FORCE, families_here, tile

OTHERS = [each.name for each in families_here() if each is not tile()]
TESTS = Path(__file__).parents[1]


def quantized(values: np.ndarray) -> Quantized:
    """Bytes as they are prepared: columns in whole steps, rows in whole tiles, filled up with zeros."""
    lines, columns = -(-len(values) // tile().n_queries) * tile().n_queries, products.whole_columns(values.shape[1])
    filled = np.zeros((lines, columns), np.int8)
    filled[: len(values), : values.shape[1]] = values
    return Quantized(filled, np.ones(lines, np.float32), len(values))


def multiplied(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    out = np.full((len(left), len(right)), np.nan, np.float32)
    Int8Products().into(quantized(left), quantized(right), out)
    return out


def packed(X: np.ndarray, kind: type[PackedRows] = PackedRows) -> PackedRows:
    return kind(Geometry(as_distance("euclidean"), HeldRows(X)))


def nearest_rows(X: np.ndarray, Q: np.ndarray, k: int) -> np.ndarray:
    return nearest_by_loop(X, Q, k, NOBODY)[0]


@given(st.integers(1, 20), st.integers(1, 90), st.integers(1, 70), st.integers(0, 2**32 - 1))
def test_packed_products_are_those_of_whole_numbers(n_queries, n_rows, n_columns, seed):
    rng = np.random.default_rng(seed)
    left = rng.integers(-tile().largest, tile().largest + 1, (n_queries, n_columns))
    right = rng.integers(-127, 128, (n_rows, n_columns))
    np.testing.assert_array_equal(multiplied(left, right), left @ right.T)


@pytest.mark.parametrize("n_columns", [1, 4096, 4097, 8192])
@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, 1), (-1, -1)])
def test_the_largest_bytes_neither_overflow_nor_saturate(n_columns, signs):
    most = tile().largest
    left, right = np.full((7, n_columns), most * signs[0]), np.full((17, n_columns), 127 * signs[1])
    expected = np.float32(most * 127 * signs[0] * signs[1] * n_columns)
    np.testing.assert_array_equal(multiplied(left, right), np.full((7, 17), expected))


@pytest.mark.parametrize("sign", [1, -1])
def test_the_widest_rows_fit_into_their_sums(sign):
    n_columns, most = tile().most_columns, tile().largest
    left, right = np.full((1, n_columns), most), np.full((3, n_columns), sign * 127)
    np.testing.assert_array_equal(multiplied(left, right), np.full((1, 3), np.float32(sign * most * 127 * n_columns)))


@pytest.mark.slow
@given(st.integers(1, 6), st.integers(1, 20), st.sampled_from([1e-30, 1.0, 1e12]), st.integers(0, 2**32 - 1))
def test_queries_are_made_ready_as_the_formulas_say(n_queries, n_columns, size, seed):
    """Centered, scaled, rounded to bytes; what that lost, and how far scores are off; one out of reach is nothing."""
    rng = np.random.default_rng(seed)
    X, Q = (rng.integers(-3, 4, (n, n_columns)) + rng.normal(size=n_columns) for n in (9, n_queries))
    X[0] += 1
    Q[0] *= size
    rows = packed(X)
    (values, scales, of_error, of_length), slack, lengths = rows._queries(Q)
    geometry, of = rows.geometry, tile()
    bound = rows._bound(0.0)
    exact = (Q - geometry.center) * geometry.scale
    for q, line in enumerate(exact):
        length = np.sqrt(sum(x * x for x in line.tolist()))
        if length > bounds.farthest(geometry.radius * geometry.scale):
            assert slack[q] == np.inf
            line[:] = length = 0
        else:
            assert slack[q] == pytest.approx(2 * bound.at(np.array(length)), rel=1e-12)
        single = line.astype(np.float32)
        scale = abs(single).max() / np.float32(of.largest)
        wholes = np.rint(single * (np.float32(1) / scale if scale > 0 else np.float32(0)))
        np.testing.assert_array_equal(values[q, :n_columns], of.moved_up(wholes.astype(np.int8)[None])[0])
        assert scales[q] == scale
        lost = np.sqrt(((single.astype(float) - float(scale) * wholes.astype(float)) ** 2).sum())
        assert lengths[q] == pytest.approx(length, rel=1e-12)
        assert of_error[q] >= length
        assert of_length[q] >= lost
        assert of_error[q] == pytest.approx(length, rel=1e-5)
        assert of_length[q] == pytest.approx(lost, rel=1e-5, abs=1e-30)


SHAPES = st.tuples(st.integers(1, 14), st.integers(1, 200), st.integers(1, 40))


@given(SHAPES, st.integers(1, 5), st.integers(0, 2**32 - 1), st.sampled_from([1, 3]))
def test_no_row_that_may_be_among_the_nearest_is_left_out(shape, k, seed, n_threads):
    """All scores and margins of a loop: a row is listed unless k rows are certain to lie nearer."""
    n_queries, n_rows, n_columns = shape
    rng = np.random.default_rng(seed)
    X, Q = (rng.integers(-3, 4, (n, n_columns)).astype(np.float32) for n in (n_rows, n_queries))
    X += 0.01 * rng.normal(size=X.shape).astype(np.float32)
    rows = packed(X)
    rows.pack()
    queries, slack, _ = rows._queries(Q)
    anything = np.full(n_queries, np.inf, np.float32)
    everything = rows.lists(queries, slack, n_rows, 2 * n_rows + 100, 1, anything).arrays()[0]
    few, _, counts, *_ = rows.lists(queries, slack, k, 4 * k + 2000, n_threads, anything).arrays()
    for q in range(n_queries):
        scores, margins, numbers = (everything[q, :n_rows][name] for name in ("score", "margin", "row"))
        if k <= n_rows and np.isfinite(slack[q]):
            certain = np.sort(scores + margins)[k - 1] + slack[q]
            expected = set(numbers[scores - margins <= certain].tolist())
            assert expected <= set(few["row"][q, : counts[q]].tolist())


BLOCK = packed_rows.ROWS_A_BLOCK
FEW_ROWS = [(n_rows, n_queries) for n_rows in (1, 63, 64, 65) for n_queries in (1, 3, 100, 700)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_rows", "n_queries"), [*FEW_ROWS, (BLOCK, 3), (BLOCK + 1, 1), (BLOCK + 1, 100), (9000, 700)]
)
def test_neighbors_are_exact_across_the_edges_of_groups_and_blocks(n_rows, n_queries):
    rng = np.random.default_rng(n_rows)
    X = rng.normal(size=(n_rows, 5)).astype(np.float32)
    X[rng.integers(0, n_rows, n_rows // 2)] = X[0]  # duplicates, to be found by number
    Q = rng.normal(size=(n_queries, 5)).astype(np.float32)
    k = min(n_rows, 7)
    expected = nearest_rows(X, Q, k)
    index = NeighborIndex(search=ExactSearch(products="int8")).fit(X)
    np.testing.assert_array_equal(index.query(Q, k).indices, expected)
    rows = packed(X)
    rows.pack()
    for n_threads in (3, 16):
        found = rows._candidates(Q, k, 2048, n_threads)
        decided = found[:, 0] >= 0  # others have more duplicates than a list holds
        assert decided.any() or n_rows == 1
        for line, nearest in zip(found[decided], expected[decided], strict=True):
            assert set(nearest.tolist()) <= set(line.tolist())


def test_rows_too_many_to_keep_are_packed_anew_and_found_all_the_same():
    class Large(PackedRows):
        fit = False

    rng = np.random.default_rng(0)
    X, Q = rng.normal(size=(5000, 6)).astype(np.float32), rng.normal(size=(50, 6)).astype(np.float32)
    kept, not_kept = packed(X), packed(X, Large)
    np.testing.assert_array_equal(not_kept.candidates(Q, 4, 500), kept.candidates(Q, 4, 500))
    assert kept.are_packed
    assert not not_kept.are_packed


@given(st.integers(1, 6), st.integers(1, 40), st.integers(1, 9), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_narrowing_leaves_what_a_loop_leaves(n_queries, n_rows, width, k, seed):
    """By squares of whole numbers, which are exact: all within the share of the k-th lowest, in their order."""
    rng = np.random.default_rng(seed)
    X, Q = (rng.integers(0, 4, (n, 3)).astype(np.float32) for n in (n_rows, n_queries))
    candidates = np.sort(rng.integers(0, n_rows, (n_queries, width)), axis=1)
    for line in candidates:
        line[rng.integers(1, width + 1) :] = -1
    out = np.empty(candidates.shape, np.float32)
    half = n_rows // 2
    squares(Q, X[:half], candidates, 0, out)
    squares(Q, X[half:], candidates, half, out)
    expected = []
    for q, line in zip(Q, candidates, strict=True):
        far = [sum((a - b) ** 2 for a, b in zip(q.tolist(), X[row].tolist(), strict=True)) for row in line[line >= 0]]
        limit = sorted(far)[min(k, len(far)) - 1] * 1.5**2 if len(far) > k else max(far)
        expected.append([row for row, each in zip(line.tolist(), far, strict=False) if each <= limit])
    new_width = keep_nearest(candidates, out, k, 0.5, 0.0)
    assert [line[line >= 0].tolist() for line in candidates[:, :new_width]] == expected
    assert (candidates[:, new_width:] == -1).all()


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("k", [packed_rows.GUESSED_FROM - 1, packed_rows.GUESSED_FROM, 60])
def test_guesses_are_never_trusted(in_order, k):
    """Rows in order of their distance: every eighth group says little of where the nearest lie."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 3)).astype(np.float32)
    Q = (0.1 * rng.normal(size=(60, 3))).astype(np.float32)
    if in_order:
        X = X[np.argsort((X**2).sum(axis=1))]
        X[: 64 * 15] = X[: 64 * 15][::-1]
    guessed = []

    class Guessing(PackedRows):
        def _guess(self, *given):
            guessed.append(1)
            return super()._guess(*given) - np.float32(in_order)

    found = packed(X, Guessing).candidates(Q, k, 2048)
    assert bool(guessed) == (k >= packed_rows.GUESSED_FROM)
    for line, nearest in zip(found, nearest_rows(X, Q, k), strict=True):
        assert set(nearest.tolist()) <= set(line.tolist())


def test_a_guess_that_lets_just_enough_rows_pass_is_found_out():
    """The k rows that reach lowest need not be the nearest: their margins differ."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(6000, 3)) * rng.choice([0.3, 1, 3], (6000, 1))).astype(np.float32)
    Q = rng.normal(size=(60, 3)).astype(np.float32)

    class Lowest(PackedRows):
        def _guess(self, queries, k, slack, lists):
            super()._guess(queries, k, slack, lists)
            every = self.lists(queries, slack, 6000, 12_100, 1, np.full(len(slack), np.inf, np.float32)).arrays()[0]
            listed = every[: len(slack), :6000]
            return np.nextafter(np.sort(listed["score"] - listed["margin"], axis=1)[:, k - 1], np.float32(np.inf))

    found = packed(X, Lowest).candidates(Q, 50, 2048)
    for line, nearest in zip(found, nearest_rows(X, Q, 50), strict=True):
        assert set(nearest.tolist()) <= set(line.tolist())


@pytest.mark.parametrize("n_threads", [1, 2, 3, 7])
@pytest.mark.parametrize("removed", [False, True])
def test_rows_that_a_guess_was_made_from_are_listed_once(n_threads, removed):
    """However blocks and shares of threads begin: with a group of the sample, or within it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4)).astype(np.float32)
    Q = rng.normal(size=(30, 4)).astype(np.float32)
    held = HeldRows(X)
    if removed:
        held, _ = held.without(np.arange(0, 3000, 3))
    rows = PackedRows(Geometry(as_distance("euclidean"), held))
    rows._packed = [rows._block(first, min(first + 64 * 9, 3000)) for first in range(0, 3000, 64 * 9)]
    found = rows._candidates(Q, 60, 2000, n_threads)
    far = ((Q[:, None].astype(float) - X) ** 2).sum(axis=2)
    if removed:
        far[:, ::3] = np.inf
    for line, nearest in zip(found, np.argsort(far, axis=1)[:, :60], strict=True):
        numbers = line[line >= 0].tolist()
        assert len(numbers) == len(set(numbers))
        assert set(nearest.tolist()) <= set(numbers)
        assert len(numbers) < 1000


def test_a_sample_with_more_near_ties_than_a_list_holds_leaves_no_row_out():
    """Rows of every eighth group are nearly the query: their lists overflow, and others must not stand in for them."""
    rng = np.random.default_rng(0)
    X = 9 + rng.normal(size=(64 * 80, 4)).astype(np.float32)
    near = np.arange(len(X)) // 64 % packed_rows.SAMPLED == 0
    X[near] = 1e-5 * rng.normal(size=(near.sum(), 4)).astype(np.float32)
    rows = packed(X)
    assert (rows.candidates(np.zeros((1, 4), np.float32), 60, 300) == -1).all()
    found = rows.candidates(np.zeros((1, 4), np.float32), 60, 2000)
    assert set(np.flatnonzero(near).tolist()) == set(found[found >= 0].tolist())


def test_a_query_with_more_near_ties_than_its_list_holds_is_left_undecided():
    X = np.zeros((3000, 4), np.float32)
    X[0] = 5
    X[1:] += 1e-4 * np.random.default_rng(0).normal(size=(2999, 4)).astype(np.float32)
    found = packed(X).candidates(np.array([[0.0, 0, 0, 0], [5, 5, 5, 5]], np.float32), 1, 300)
    assert (found[0] == -1).all()
    assert found[1].max() == 0


@pytest.mark.slow
@pytest.mark.skipif(FORCE in os.environ, reason="this process has a tile of its own choice already")
@pytest.mark.parametrize("name", OTHERS)
def test_every_other_tile_of_this_processor_is_as_right(name):
    """The tests above of what differs from tile to tile, and the bounds on what rounding to its bytes loses."""
    of_tiles = "packed_tile and (products or bytes or widest or made_ready or no_row_that or edges)"
    of_rounding = "bounds and (rounding or packed_rows or int8)"
    chosen = ["search/test_packed_tile.py", "search/test_bounds.py", "-k", f"{of_tiles} or {of_rounding}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *chosen],
        cwd=TESTS,
        env={**os.environ, FORCE: name, "PYTEST_XDIST_WORKER": "", "CI": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "[100%]" in done.stdout


def test_the_tile_is_named_and_an_unknown_name_is_refused(monkeypatch):
    def forced(name: str) -> tile_families.Family:
        monkeypatch.setenv(FORCE, name)
        tile_families.tile.cache_clear()
        return tile_families.tile()

    try:
        with pytest.raises(InputError, match="MMX"):
            forced("MMX")
        assert forced("AVX2").name == "AVX2"
        for granted in (True, False):  # without the registers, the first of its instructions would end the process
            monkeypatch.setattr(tile_families, "_lent", lambda granted=granted: granted)
            with nullcontext() if granted else pytest.raises(InputError, match="does not grant"):
                assert forced("AMX") is tile_families.AMX
        assert forced("none") is ANY
        assert not tile_families.pays()
        products._fastest.cache_clear()
        assert products._fastest(64) == "float32"
    finally:
        monkeypatch.undo()
        tile_families.tile.cache_clear()
        products._fastest.cache_clear()


def test_what_serves_can_be_seen():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 64)).astype(np.float32)
    index = NeighborIndex(search="exact").fit(X)
    assert index.chosen_.products is None  # nothing was large enough to find out
    index.query(X[:1000], 3)
    expected = f"8 bits ({tile().name})" if products._fastest(64) == "int8" else "float32"
    assert index.chosen_.products == expected
    assert NeighborIndex(search=ExactSearch(products="int8")).fit(X).chosen_.products == f"8 bits ({tile().name})"
    assert NeighborIndex("manhattan", search="exact").fit(X).chosen_.products is None


def test_with_another_llvm_than_those_tried_float32_serves(monkeypatch):
    monkeypatch.delenv(FORCE, raising=False)
    monkeypatch.setattr(tile_families, "LLVM_VERSIONS", range(3, 4))
    tile_families.tile.cache_clear()
    try:
        assert tile_families.tile() is ANY
        assert not tile_families.pays()
        assert "LLVM" in tile_families.why_no_tile()
    finally:
        monkeypatch.undo()
        tile_families.tile.cache_clear()
