"""Products of packed bytes: exact for every kind of instructions that this processor has, and the same as unpacked."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.errors import InputError
from nearsay.search.screening import products, tile_families
from nearsay.search.screening.products import Int8Products, Quantized
from nearsay.search.screening.tile_families import FAMILIES, FORCE, families_here

HERE = families_here()
NAMES = [each.name for each in HERE]
needs_one = pytest.mark.skipif(not HERE, reason="this processor has no instructions for products of bytes")


def quantized(values: np.ndarray) -> Quantized:
    """Bytes as they are prepared: columns in sixteens, rows in fours, filled up with zeros."""
    lines, columns = -(-len(values) // 4) * 4, -(-values.shape[1] // 16) * 16
    filled = np.zeros((lines, columns), np.int8)
    filled[: len(values), : values.shape[1]] = values
    return Quantized(filled, np.ones(lines, np.float32), len(values))


def multiplied(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    from nearsay.search.screening.packed_tile_kernels import multiply

    queries, rows = quantized(left), quantized(right)
    out = np.full((len(left), len(right)), np.nan, np.float32)
    multiply(queries.values, queries.scales, *rows.packed, out)
    return out


@needs_one
@given(st.integers(1, 20), st.integers(1, 90), st.integers(1, 70), st.integers(0, 2**32 - 1))
def test_packed_products_are_those_of_whole_numbers(n_queries, n_rows, n_columns, seed):
    rng = np.random.default_rng(seed)
    left, right = (rng.integers(-127, 128, (n, n_columns)) for n in (n_queries, n_rows))
    np.testing.assert_array_equal(multiplied(left, right), left @ right.T)


@needs_one
@pytest.mark.parametrize("n_columns", [1, 4096, 16 * 256, 8192])
@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, -1)])
def test_the_largest_bytes_neither_overflow_nor_saturate(n_columns, signs):
    left, right = (np.full((n, n_columns), 127 * sign) for n, sign in zip((7, 17), signs, strict=True))
    expected = np.float32(127 * 127 * signs[0] * signs[1] * n_columns)
    np.testing.assert_array_equal(multiplied(left, right), np.full((7, 17), expected))


@needs_one
def test_the_widest_rows_fit_into_their_sums():
    n_columns = next(each for each in FAMILIES if each.name == NAMES[0]).most_columns // 16 * 16
    left, right = np.full((1, n_columns), 127), np.full((3, n_columns), 127)
    np.testing.assert_array_equal(multiplied(left, right), np.full((1, 3), np.float32(127 * 127 * n_columns)))


@needs_one
@pytest.mark.parametrize("n_queries", [1, products.PACKED_FROM - 1, products.PACKED_FROM, 100])
def test_a_screen_multiplies_the_same_packed_or_not(monkeypatch, n_queries):
    X = np.random.default_rng(1).normal(size=(300, 37)).astype(np.float32)
    apart = []
    for serves in (None, HERE[0]):
        monkeypatch.setattr(products, "family", lambda serves=serves: serves)
        rows, queries = Int8Products().prepare(X)[0], Int8Products().prepare(X[:n_queries])[0]
        out = np.empty((n_queries, len(X)), np.float32)
        Int8Products().into(queries, rows, out)
        assert rows.is_packed == (serves is not None and n_queries >= products.PACKED_FROM)
        apart.append(out)
    np.testing.assert_array_equal(*apart)


@needs_one
@pytest.mark.parametrize("name", NAMES)
def test_neighbors_are_exact_with_every_tile_of_this_processor(name):
    program = """
import numpy as np
from nearsay.search.exact import ExactSearch
from nearsay.search.screening.tile_families import family
rng = np.random.default_rng(0)
X = np.repeat(rng.normal(size=(6000, 24)), 2, axis=0).astype(np.float32)
search = ExactSearch(products="int8").fit(X)
found = search.candidates(X[:300], 7)
far = np.stack([((x.astype(float) - X.astype(float)) ** 2).sum(-1) for x in X[:300]])
order = np.lexsort((np.broadcast_to(np.arange(len(X)), far.shape), far))[:, :7]
assert all(set(right) <= set(some) for right, some in zip(order.tolist(), found.tolist()))
assert all(rows.is_packed for _, rows, _ in search._screen._coarse.blocks(1))
print(family().name)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, FORCE: name}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == name


def test_an_unknown_tile_is_refused_by_name(monkeypatch):
    monkeypatch.setenv(FORCE, "MMX")
    tile_families.family.cache_clear()
    try:
        with pytest.raises(InputError, match="MMX"):
            tile_families.family()
        monkeypatch.setenv(FORCE, "none")
        tile_families.family.cache_clear()
        assert tile_families.family() is None
    finally:
        monkeypatch.undo()
        tile_families.family.cache_clear()
