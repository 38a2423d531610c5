"""Each term of the rounding bound is needed: without it some order is wrong, with it none is.

A screen is right if two scores of a query, whose rows will be measured in the
other order, never lie farther apart than the query's slack. So what is checked,
in exact fractions, is by how much the errors of the scores of one query differ.

No rows make these fail, so they are only swept: ``summing`` of float64 rows
(``measuring`` exceeds it eight times), the 8 in d + 8 and the factor 8 of
``MEASURED_ROUNDOFF`` (room for second-order terms, and for other distances than
Euclidean), ``comparing``, ``MARGIN_UP`` and ``ROUNDED_UP`` (far
below the other terms, which are never tight together) and ``tree_blur`` in a kd
tree (a box rounds as a row does, as long as scikit-learn adds up in our order).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nearsay.distances.named import as_distance
from nearsay.neighbors.neighbor_search import nearest
from nearsay.search.exact import ExactSearch
from nearsay.search.row_store import HeldRows
from nearsay.search.screening import bounds
from nearsay.search.screening.packed_rows import PackedRows
from nearsay.search.screening.prepared_rows import ROWS_AT_ONCE, Geometry, PlainView, PreparedView, RowsForProducts
from nearsay.search.screening.products import PRODUCTS, Float32Products, Int8Products
from nearsay.search.trees import TreeSearch
from tests import exact_searches

KINDS = list(PRODUCTS)


def plain(X: np.ndarray) -> RowsForProducts:
    return PlainView(Geometry(as_distance("euclidean"), HeldRows(X)))


def prepared(X: np.ndarray, products: object, distance: str = "euclidean") -> RowsForProducts:
    return PreparedView(Geometry(as_distance(distance), HeldRows(X)), products)


def scores(view: RowsForProducts, Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores (queries × rows) as a screen computes them, and the slack of every query."""
    exact, lengths = view.prepare(Q)
    queries, errors = view.products.prepare(exact)
    parts = []
    for _, rows, half_norms in view.blocks(ROWS_AT_ONCE):
        out = np.empty((len(Q), len(rows)), exact.dtype)
        view.products.into(queries, rows, out)
        parts.append(half_norms - out)
    return np.hstack(parts), view.slack(lengths, errors, Q)


# Half the squared distance, from what is measured.
HALF_SQUARE = {"euclidean": lambda measured: measured**2 / 2, "cosine": lambda measured: measured}


def disagreement(view: RowsForProducts, Q: np.ndarray) -> list[tuple[Fraction, float]]:
    """For each query, by how much the errors of its scores differ, and its slack. Exact but for the scores."""
    geometry = view.geometry
    unit = Fraction(1 if isinstance(view, PlainView) else geometry.scale) ** 2
    half_square = HALF_SQUARE[geometry.distance.name]
    measured = geometry.distance.block(Q, geometry.rows.items)
    told = []
    for computed, slack, line in zip(*scores(view, Q), measured, strict=True):
        if np.isfinite(slack):
            pairs = zip(computed.tolist(), line.tolist(), strict=True)
            errors = [Fraction(score) - unit * half_square(Fraction(far)) for score, far in pairs]
            told.append((max(errors) - min(errors), float(slack)))
    return told


def holds(view: RowsForProducts, Q: np.ndarray) -> bool:
    return all(apart <= Fraction(slack) for apart, slack in disagreement(view, Q))


def exactly(X: np.ndarray, Q: np.ndarray, k: int, distance: object) -> np.ndarray:
    """The k nearest rows of every query by all measured distances; ties by row number."""
    return np.argsort(as_distance(distance).block(Q, X), axis=1, kind="stable")[:, :k]


def leave_out(monkeypatch: pytest.MonkeyPatch, term: str) -> None:
    """From now on this term is nothing."""
    numbers = {
        "rounding_queries": 0.0,
        "farthest": np.inf,
        "tree_blur": 0.0,
        "least_certain": 0.0,
        "squaring": (0.0, 0.0),
    }
    monkeypatch.setattr(bounds, term, lambda *_: numbers.get(term, bounds.Bound()))


# ---------------------------------------------------------------- rows and queries that need one term each


def both_ways(X: np.ndarray) -> np.ndarray:
    """Rows and their opposites: the center is the origin, whatever is rounded."""
    return np.concatenate([X, -X])


def of_residual(n: int, d: int, share: float) -> np.ndarray:
    """Rows whose numbers all lie ``share`` of a step beside what 8 bits can say, but for the largest."""
    wholes = np.random.default_rng(0).integers(-60, 60, size=(n, d)) + share
    wholes[:, 0] = 127
    return wholes / 128


def near_twins(apart: float) -> np.ndarray:
    """Two clumps at ±1, whose rows differ by this much."""
    return both_ways(1 + apart * np.random.default_rng(0).normal(size=(300, 4)))


def needs_summing() -> tuple[RowsForProducts, np.ndarray]:
    X = near_twins(1e-9)
    return prepared(X, Float32Products()), X[:5]


def needs_flushing() -> tuple[RowsForProducts, np.ndarray]:
    X = (1e-22 * np.random.default_rng(0).normal(size=(200, 4))).astype(np.float32)
    return plain(X), X[:5]


def needs_rounding_rows() -> tuple[RowsForProducts, np.ndarray]:
    """The query is the same in 8 bits; all rounding errors of a row point along it."""
    X = np.concatenate([of_residual(4, 256, 0.45), of_residual(4, 256, -0.45)])
    return prepared(both_ways(X), Int8Products()), np.full((1, 256), 0.5)


def needs_rounding_queries() -> tuple[RowsForProducts, np.ndarray]:
    """The rows are the same in 8 bits, one way or the other."""
    X = np.full((1, 256), 127 / 128)
    return prepared(both_ways(X), Int8Products()), of_residual(3, 256, 0.45)


def needs_measuring() -> tuple[RowsForProducts, np.ndarray]:
    """From so far away that all rows are measured as equally far."""
    X = np.column_stack([np.zeros(50), np.random.default_rng(0).permutation(50) / 50])
    return plain(X), np.array([[1e10, 0.0]])


def needs_taking_form() -> tuple[RowsForProducts, np.ndarray]:
    """Directions that measured cosines cannot tell apart."""
    X = np.column_stack([np.ones(50), 1e-9 * np.random.default_rng(0).permutation(50)])
    return prepared(X, Float32Products(), "cosine"), X[:3]


NEEDS = {
    "summing": needs_summing,
    "flushing": needs_flushing,
    "rounding_rows": needs_rounding_rows,
    "rounding_queries": needs_rounding_queries,
    "measuring": needs_measuring,
    "taking_form": needs_taking_form,
}


@pytest.mark.parametrize("term", NEEDS)
def test_scores_stay_within_the_slack_with_every_term_and_not_without_it(monkeypatch, term):
    assert holds(*NEEDS[term]())
    leave_out(monkeypatch, term)
    assert not holds(*NEEDS[term]())


# ---------------------------------------------------------------- the same for whole searches


def bytes_beside(n: int, share: float) -> np.ndarray:
    """Rows that 8 bits move along the diagonal, half of them either way."""
    return np.concatenate([of_residual(n, 256, share), of_residual(n, 256, -share)[::-1]])


def one_way(n: int, scale: float) -> np.ndarray:
    """A column of ones, and one of the whole numbers up to n in any order, times a scale."""
    return np.column_stack([np.ones(n), scale * np.random.default_rng(0).permutation(n)])


def normal(n: int, d: int, scale: float) -> np.ndarray:
    return (scale * np.random.default_rng(0).normal(size=(n, d))).astype(np.float32)


def on_both_sides(n: int, d: int) -> np.ndarray:
    """Rows of which the first half lies away from a query that is far on the other side: its products are −inf."""
    X = np.abs(normal(n, d, 1.0))
    X[: n // 2] *= -1
    return X


# Rows, queries, kind of product, distance, and how a screen goes over the rows.
ALL_PRODUCTS, BLOCKS, ALONE = "all products", "blocks of rows", "one by one"
SEARCHES = {
    ("summing", ALL_PRODUCTS): (near_twins(1e-7).astype(np.float32), near_twins(1e-7)[:5], "float32", "euclidean"),
    ("summing", BLOCKS): (near_twins(1e-7), near_twins(1e-7)[:40], "float32", "euclidean"),
    ("summing", ALONE): (*[near_twins(1e-7).astype(np.float32)] * 2, "float32", "euclidean"),
    ("flushing", ALL_PRODUCTS): (normal(200, 32, 1e-22), normal(25, 32, 1e-22), "float32", "euclidean"),
    ("flushing", ALONE): (normal(200, 32, 1e-22), normal(25, 32, 1e-22), "float32", "euclidean"),
    ("rounding_rows", BLOCKS): (both_ways(bytes_beside(400, 0.45)), np.full((1, 256), 0.5), "int8", "euclidean"),
    ("rounding_queries", BLOCKS): (
        both_ways(of_residual(600, 256, 0)),
        of_residual(40, 256, 0.45),
        "int8",
        "euclidean",
    ),
    ("measuring", ALL_PRODUCTS): (one_way(50, 0.02) - [1, 0], np.array([[1e10, 0.0]]), "float32", "euclidean"),
    ("measuring", ALONE): (one_way(50, 0.02) - [1, 0], np.array([[1e10, 0.0]]), "float32", "euclidean"),
    ("measuring", BLOCKS): (
        np.tile([[1], [-1]], (25, 1)) * one_way(50, 1e-4),
        np.array([[0.0, 1e14]]),
        "int8",
        "euclidean",
    ),
    ("taking_form", ALL_PRODUCTS): (one_way(50, 1e-9), one_way(3, 1e-9), "float32", "cosine"),
    ("taking_form", BLOCKS): (one_way(50, 1e-9), one_way(3, 1e-9), "int8", "cosine"),
    ("squaring", BLOCKS): (normal(400, 30, 1.0), normal(400, 30, 1.0)[:60] * np.float32(1e7), "int8", "euclidean"),
    ("screenable", BLOCKS): (one_way(300, 1e-162), one_way(5, 1e-162), "float32", "euclidean"),
    ("farthest", ALL_PRODUCTS): (on_both_sides(60, 3), np.full((1, 3), 1e60), "float32", "euclidean"),
    ("farthest", ALONE): (normal(60, 3, 1.0), np.full((1, 3), 3e38, np.float32), "float32", "euclidean"),
}


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")  # where nothing is out of reach
@pytest.mark.parametrize(("term", "way"), SEARCHES)
def test_a_search_is_exact_with_every_term_and_not_without_it(monkeypatch, term, way):
    X, Q, products, distance = SEARCHES[term, way]
    search = ExactSearch(distance, products=products, limits=exact_searches.BLOCKS if way == BLOCKS else None)
    together = [Q] if way != ALONE else Q[:, None]

    def found() -> np.ndarray:
        search.fit(X)
        return np.concatenate([nearest(search, few, 5).indices for few in together])

    expected = exactly(X, Q, 5, distance)
    np.testing.assert_array_equal(found(), expected)
    leave_out(monkeypatch, term)
    assert (found() != expected).any()


# ---------------------------------------------------------------- trees


def balls_that_lie_too_far() -> tuple[np.ndarray, np.ndarray]:
    """Near rows share a ball with far ones, so that their bound is rounded as the far ones are: up, by 0.3 · 2⁻³².

    Half of the near rows lie on the other side, in a ball of their own.
    """
    rng = np.random.default_rng(0)
    near = 1 + 0.7 * 2.0**-32 + 1e-12 * rng.permutation(19)
    far = 1e6 * (1.2 + 0.5 * rng.random(14))
    return np.concatenate([-near[:16], near[16:], far])[:, None], np.zeros((1, 1))


def powers_that_vanish(power: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows each of whose differences vanishes, so that they are measured at 0, in a ball that lies elsewhere."""
    unit = 5e-324 ** (1 / power)
    along_axes = -unit * np.arange(1, 17)[:, None] ** (1 / power) * np.eye(16, 20)
    measured_as_zero = np.full((3, 20), 0.49 ** (1 / power) * unit)
    far = np.full((14, 20), 1e6 * unit) * np.linspace(1, 2, 14)[:, None]
    X = np.concatenate([along_axes, measured_as_zero, far])
    return np.insert(X, 0, 1.0, axis=1), np.eye(1, 21)


TREES = {
    "tree_blur, euclidean": ("tree_blur", as_distance("euclidean"), balls_that_lie_too_far()),
    "tree_blur, manhattan": ("tree_blur", as_distance("manhattan"), balls_that_lie_too_far()),
    "least_certain, euclidean": ("least_certain", as_distance("euclidean"), powers_that_vanish(2.0)),
    "least_certain, minkowski": ("least_certain", as_distance("minkowski", p=3.0), powers_that_vanish(3.0)),
}


@pytest.mark.parametrize("case", TREES)
def test_a_tree_is_exact_with_every_term_and_not_without_it(monkeypatch, case):
    term, distance, (X, Q) = TREES[case]
    search = TreeSearch(distance, kind="ball", leaf_size=10)
    search.few_pairs = 0
    expected = exactly(X, Q, 4, distance)
    np.testing.assert_array_equal(nearest(search.fit(X), Q, 4).indices, expected)
    leave_out(monkeypatch, term)
    assert (nearest(search.fit(X), Q, 4).indices != expected).any()


# ---------------------------------------------------------------- any rows, any scale, any product


@st.composite
def rows_and_queries(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Rows of some scale around some offset, and queries among them or far away; small integers make exact ties."""
    n, d = draw(st.integers(2, 8)), draw(st.sampled_from([1, 2, 3, 17, 40]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = rng.integers(-3, 4, size=(n + 3, d)) if draw(st.booleans()) else rng.normal(size=(n + 3, d))
    offset, power = draw(st.sampled_from([0.0, 1.0, 1e4, 1e9])), draw(st.integers(-138, 130))
    dtype = draw(st.sampled_from([np.float32, np.float64])) if -40 < power < 28 else np.float64
    X = ((shape[:n] + offset) * 10.0**power).astype(dtype)
    X[0, 0] = 10.0**power  # not all zeros
    away = 10.0 ** draw(st.sampled_from([-20, -3, 0, 0, 0, 3, 8, 14, 20]))
    return X, ((shape[n:] * away + offset) * 10.0**power).clip(-1e139, 1e139)


@given(rows_and_queries())
@settings(max_examples=60)
def test_scores_of_rows_as_they_are_stay_within_the_slack(data):
    view, Q = plain(data[0]), data[1]
    assume(view.geometry.plain)
    assert holds(view, Q)


@pytest.mark.parametrize("kind", KINDS)
@given(data=rows_and_queries(), distance=st.sampled_from(["euclidean", "cosine"]))
@settings(max_examples=60)
def test_scores_of_prepared_rows_stay_within_the_slack(kind, data, distance):
    X, Q = data
    if distance == "cosine":  # which refuses rows without a direction
        X, Q = (rows[np.linalg.norm(rows.astype(np.float64), axis=1) > 1e-138] for rows in (X, Q))
        assume(len(X) and len(Q))
    assert holds(prepared(X, PRODUCTS[kind](), distance), Q)


@given(data=rows_and_queries(), distance=st.sampled_from(["euclidean", "cosine"]))
@settings(max_examples=60)
def test_scores_of_packed_rows_stay_within_their_own_margins(data, distance):
    X, Q = data
    if distance == "cosine":
        X, Q = (rows[np.linalg.norm(rows.astype(np.float64), axis=1) > 1e-138] for rows in (X, Q))
        assume(len(X) and len(Q))
    packed = PackedRows(Geometry(as_distance(distance), HeldRows(X)))
    queries, slack, lengths = packed._queries(Q)
    listed, _, counts, *_ = packed.lists(queries, slack, len(X), 200, 1, np.full(len(Q), np.inf, np.float32)).arrays()
    geometry = packed.geometry
    measured = geometry.distance.block(Q, geometry.rows.items)
    for q in np.flatnonzero(np.isfinite(slack)):
        assert sorted(listed["row"][q, : counts[q]]) == list(range(len(X)))  # all of them are wanted
        for score, margin, row in listed[q, : len(X)]:
            half_square = HALF_SQUARE[distance](Fraction(float(measured[q, row])))
            expected = half_square * Fraction(geometry.scale) ** 2 - Fraction(float(lengths[q])) ** 2 / 2
            # The length of a query is rounded, too, which moves all of its scores alike.
            alike = Fraction(float(lengths[q])) ** 2 * Fraction(2.0**-45)
            off = abs(Fraction(float(score)) - expected) - alike
            assert off <= Fraction(float(slack[q])) / 2 + Fraction(float(margin))


@pytest.mark.parametrize("radius", [1e-12, 1e-10, 1.0, 1e10])
def test_the_slack_is_infinite_beyond_the_farthest_query_only(radius):
    X = np.array([[radius], [-radius]])
    reach = bounds.farthest(radius)
    Q = reach * np.array([[0.5], [1.0], [1.0 + 1e-9], [1e9]])
    assert np.isfinite(scores(plain(X), Q)[1]).tolist() == [True, True, False, False]
