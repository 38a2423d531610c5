"""The rows with the largest inner products: those of a double loop, ties by row number, whatever searches."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import nearsay as ns
from nearsay.errors import InputError, NotFitted
from nearsay.search.gpu.gpu_search import GpuSearch
from tests.reference import neighbors as reference

SEARCHES = ["auto", "exact"] + [GpuSearch(device="cpu")] * bool(importlib.util.find_spec("torch"))


def rows(most):
    few = st.sampled_from([0.0, 1.0, -1.0, 2.0, 0.5, 3.0])
    return npst.arrays(np.float64, st.tuples(st.integers(1, most), st.just(3)), elements=few)


@pytest.mark.parametrize("search", SEARCHES)
@given(X=rows(40), Q=rows(4), k=st.integers(1, 40))
def test_they_are_those_of_a_double_loop(search, X, Q, k):
    k = min(k, len(X))
    found = ns.InnerProductIndex(search).fit(X).query(Q, k)
    numbers, products = reference.largest_products(Q, X, k)
    np.testing.assert_array_equal(found.indices, numbers)
    np.testing.assert_array_equal(found.products, products)


@pytest.mark.slow
@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("scale", [1.0, 1e-120, 1e120])
def test_many_rows_of_very_different_lengths(search, scale):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 20)) * rng.exponential(size=(3000, 1)) * scale
    X[2000:] = X[:1000]  # equal products everywhere
    Q = rng.normal(size=(30, 20)) * np.logspace(-3, 3, 30)[:, None]
    found = ns.InnerProductIndex(search).fit(X).query(Q, 5)
    numbers, products = reference.largest_products(Q, X, 5)
    np.testing.assert_array_equal(found.indices, numbers)
    np.testing.assert_array_equal(found.products, products)


class Trusting(ns.InnerProductIndex):
    """Searches for no more rows than wanted first, and then for no more at all."""

    more_rows = 0

    def _most(self, Q, distances):
        return np.full(len(Q), -np.inf)


def test_without_more_rows_the_order_would_be_that_of_a_rounded_column():
    rng = np.random.default_rng(0)
    X, Q = (rng.integers(-3, 4, size=(n, 6)).astype(float) for n in (2000, 50))  # equal products, other lengths
    expected = reference.largest_products(Q, X, 3)[0]
    np.testing.assert_array_equal(ns.InnerProductIndex().fit(X).query(Q, 3).indices, expected)
    assert (Trusting().fit(X).query(Q, 3).indices != expected).any()


def test_what_cannot_be_asked_is_said():
    index = ns.InnerProductIndex()
    with pytest.raises(NotFitted, match=r"Call fit\(X\) first"):
        index.query([[1.0]], 1)
    with pytest.raises(InputError, match="at least one row"):
        index.fit(np.empty((0, 2)))
    with pytest.raises(InputError, match="too large to square"):
        index.fit([[1e200, 1.0]])
    with pytest.raises(InputError, match="NaN"):
        index.fit([[np.nan]])
    with pytest.raises(InputError, match='got search="approximate"'):
        ns.InnerProductIndex("approximate").fit([[1.0]])
    with pytest.raises(InputError, match="1 columns, but 2 are expected"):
        index.fit([[1.0, 2.0]]).query([[1.0]], 1)
    with pytest.raises(InputError, match="k"):
        index.query([[1.0, 1.0]], 2)
