"""Distances: each is its formula, equals scipy's and scikit-learn's, and says clearly what it cannot compare."""

from __future__ import annotations

import copy
import subprocess
import sys
from decimal import Decimal, localcontext
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numba import njit
from scipy.spatial.distance import cdist, jensenshannon
from scipy.special import rel_entr
from sklearn.base import clone
from sklearn.metrics.pairwise import additive_chi2_kernel
from sklearn.neighbors import NearestNeighbors

import nearsay as ns
from nearsay.distances.functions import CompiledDistance, FunctionDistance
from nearsay.distances.named import ALIASES, DISTANCES, as_distance
from nearsay.distances.vectors import Euclidean, VectorDistance
from nearsay.errors import InputError
from nearsay.search.screening.bounds import MEASURED_ROUNDOFF
from tests.reference import neighbors as reference

D = 11
L = np.random.default_rng(9).normal(size=(7, D))
PARAMETERS = {"minkowski": {"p": 2.5}, "mahalanobis": {"L": L}}
NAMES = [name for name in DISTANCES if name not in ("tangent", "shape_context", "precomputed")]

every_distance = pytest.mark.parametrize("name", NAMES)


def build(name):
    return as_distance(name, **PARAMETERS.get(name, {}))


@pytest.fixture
def amounts():
    """Rows that every distance accepts, with some zeros."""
    rng = np.random.default_rng(0)
    X = rng.gamma(0.7, size=(40, D)) * (rng.random((40, D)) < 0.8)
    return X[:13], X[13:]


# ---------------------------------------------------------------- formulas


WITH_A_LOOP = [name for name in NAMES if issubclass(DISTANCES[name], VectorDistance) or hasattr(reference, name)]


@pytest.mark.parametrize("name", WITH_A_LOOP)
def test_a_distance_is_its_double_loop_to_the_last_bit(name, amounts):
    Q, X = amounts
    slow = partial(getattr(reference, name), **PARAMETERS.get(name, {}))
    np.testing.assert_array_equal(build(name).block(Q, X), [[slow(q, x) for x in X] for q in Q])


SCIPY = {
    "euclidean": {},
    "sqeuclidean": {},
    "manhattan": {"metric": "cityblock"},
    "chebyshev": {},
    "minkowski": {"p": 2.5},
    "mahalanobis": {"VI": L.T @ L},
    "cosine": {},
    "correlation": {},
    "canberra": {},
    "braycurtis": {},
    "hamming": {},
}


@pytest.mark.parametrize("name", SCIPY)
def test_a_distance_equals_that_of_scipy(name, amounts):
    Q, X = amounts[0] - 0.4, amounts[1] - 0.4  # negative values too
    expected = cdist(Q, X, **{"metric": name, **SCIPY[name]})
    np.testing.assert_allclose(build(name).pairwise(Q, X), expected, rtol=1e-12, atol=1e-14)


def test_jaccard_equals_that_of_scipy_on_what_is_present(amounts):
    Q, X = amounts
    expected = cdist(Q != 0, X != 0, "jaccard")
    np.testing.assert_allclose(as_distance("jaccard").pairwise(Q, X), expected, rtol=1e-15)
    assert as_distance("jaccard")([0, 0], [0, 0]) == 0


def test_jensen_shannon_equals_that_of_scipy(amounts):
    Q, X = amounts
    expected = [[jensenshannon(q, x) for x in X] for q in Q]
    np.testing.assert_allclose(as_distance("js").pairwise(Q, X), expected, rtol=1e-12)


def test_chi2_is_minus_half_the_kernel_of_scikit_learn(amounts):
    Q, X = amounts
    np.testing.assert_allclose(as_distance("chi2").pairwise(Q, X), -additive_chi2_kernel(Q, X) / 2, rtol=1e-12)


def test_kullback_leibler_goes_from_the_query_to_the_row(amounts):
    Q, X = (rows + 0.1 for rows in amounts)
    P, R = (rows / rows.sum(axis=1, keepdims=True) for rows in (Q, X))
    expected = rel_entr(P[:, None], R[None]).sum(axis=2)
    np.testing.assert_allclose(as_distance("kl", smoothing=1e-15).pairwise(Q, X), expected, rtol=1e-10)


def test_more_smoothing_brings_histograms_closer():
    distances = [as_distance("kl", smoothing=s)([1, 0], [0, 1]) for s in (1e-12, 1e-6, 1e-2)]
    assert distances == sorted(distances, reverse=True)
    assert np.isfinite(distances).all()


@every_distance
def test_a_distance_is_symmetric_and_zero_on_itself(name, amounts):
    Q, X = amounts
    distance = build(name)
    # Under cosine and correlation a row may lie a rounding error from itself.
    np.testing.assert_allclose(distance.paired(X, X.copy()), 0, atol=1e-15)
    if name != "kullback_leibler":
        np.testing.assert_allclose(distance.pairwise(Q, X), distance.pairwise(X, Q).T, rtol=1e-12)


@every_distance
def test_a_distance_does_not_depend_on_what_is_measured_beside_it(name, amounts):
    Q, X = amounts
    distance = build(name)
    together = distance.block(Q, X)
    np.testing.assert_array_equal(together, [[distance(q, x) for x in X] for q in Q])
    np.testing.assert_array_equal(together, distance.block(np.asfortranarray(Q), np.asfortranarray(X)))
    candidates = np.array([[3, -1, 0, 40, 26]] * len(Q))
    measured = np.full(candidates.shape, np.nan)
    distance.measure(Q, X, candidates, 0, measured)
    np.testing.assert_array_equal(measured[:, [0, 2, 4]], together[:, [3, 0, 26]])
    assert np.isnan(measured[:, [1, 3]]).all()
    # With more candidates than rows a distance may go about it in another way.
    many = np.tile(np.r_[-1, np.arange(len(X))[::-1], len(X)], (len(Q), 2))
    measured = np.full(many.shape, np.nan)
    distance.measure(Q, X, many, 0, measured)
    outside = np.full((len(Q), 1), np.nan)
    np.testing.assert_array_equal(measured, np.tile(np.hstack([outside, together[:, ::-1], outside]), 2))


@every_distance
def test_a_distance_can_be_built_again_from_its_parameters(name, amounts):
    Q, X = amounts
    distance = build(name)
    again = as_distance(name, **distance.parameters())
    np.testing.assert_array_equal(again.block(Q, X), distance.block(Q, X))


# ---------------------------------------------------------------- Euclidean forms

# Half the squared Euclidean distance of the forms, from the measured distance.
HALF_SQUARE = {
    "cosine": lambda measured: measured,
    "correlation": lambda measured: measured,
    "mahalanobis": lambda measured: measured**2 / 2,
    "hellinger": lambda measured: measured**2,
    "euclidean": lambda measured: measured**2 / 2,
    "sqeuclidean": lambda measured: measured / 2,
}


@pytest.mark.parametrize("name", [name for name in NAMES if DISTANCES[name].has_euclidean_form])
@pytest.mark.parametrize(("offset", "scale"), [(0, 1.0), (1e4, 1e-2), (1e8, 1e-6)])
def test_a_euclidean_form_is_as_true_as_it_promises(name, offset, scale):
    X = np.abs(offset + scale * np.random.default_rng(1).normal(size=(12, D)))
    distance = build(name)
    form = distance.euclidean_form(X)
    measured = distance.block(X, X)
    rounding = Decimal(distance.form_rounding(float(np.linalg.norm(X, axis=1).max()), D))
    with localcontext(prec=60):
        exact = [[Decimal(float(value)) for value in row] for row in form]
        for i in range(len(X)):
            for j in range(i):
                half = sum((a - b) ** 2 for a, b in zip(exact[i], exact[j], strict=True)) / 2
                apart = (2 * half).sqrt()
                # What the screen adds for float64 in any case, and what the form asks for.
                allowed = (D + 8) * Decimal(MEASURED_ROUNDOFF) * apart**2 + 2 * rounding * (apart + 2 * rounding)
                assert abs(half - HALF_SQUARE[name](Decimal(float(measured[i, j])))) <= allowed


def test_mahalanobis_loses_nothing_to_a_common_offset():
    X = np.random.default_rng(2).integers(-3, 4, size=(30, D)).astype(float)
    distance = as_distance("mahalanobis", L=L)
    np.testing.assert_array_equal(distance.pairwise(X + 2.0**40), distance.pairwise(X))


def test_mahalanobis_by_matrix_and_by_map_agree_at_low_rank(amounts):
    Q, X = amounts
    by_matrix = as_distance("mahalanobis", M=L.T @ L)
    assert by_matrix.L.shape == L.shape
    np.testing.assert_allclose(by_matrix.pairwise(Q, X), as_distance("mahalanobis", L=L).pairwise(Q, X), rtol=1e-11)


def test_a_metric_that_sees_nothing_finds_all_rows_equally_near():
    table = ns.nearest(np.eye(3), np.ones((1, 3)), k=3, metric=("mahalanobis", {"M": np.zeros((3, 3))}))
    assert table.indices.tolist() == [[0, 1, 2]]
    assert table.distances.tolist() == [[0.0, 0.0, 0.0]]


# ---------------------------------------------------------------- names


def test_aliases_lead_to_names():
    assert set(ALIASES.values()) <= set(DISTANCES)
    assert not set(ALIASES) & set(DISTANCES)


@every_distance
def test_a_distance_carries_the_name_it_is_known_by(name):
    assert build(name).name == name


def test_a_distance_can_be_given_in_many_ways():
    @njit
    def compiled(a, b):
        return 1.0

    ours = as_distance("cosine")
    assert as_distance(ours) is ours
    assert as_distance(("minkowski", {"p": 3})).p == 3
    assert as_distance("minkowski", p=3).p == 3
    assert isinstance(as_distance(compiled), CompiledDistance)
    assert isinstance(as_distance(compiled.py_func), FunctionDistance)


def test_distances_can_be_cloned_as_parameters_of_an_estimator(amounts):
    Q, X = amounts

    @njit
    def compiled(a, b):
        return np.abs(a - b).sum()

    for distance in (*map(build, NAMES), as_distance(compiled), as_distance(compiled.py_func)):
        np.testing.assert_array_equal(copy.deepcopy(distance).block(Q, X), distance.block(Q, X))
    assert isinstance(clone(NearestNeighbors(metric=as_distance("cosine"))).metric, VectorDistance)


def test_every_name_is_explained_in_the_docs():
    page = (Path(__file__).parents[2] / "docs" / "distances.md").read_text()
    assert [name for name in (*DISTANCES, *ALIASES) if f"`{name}`" not in page] == []


def test_numba_waits_until_something_is_measured():
    code = "import sys, nearsay.distances as d; d.as_distance('cosine'); assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# ---------------------------------------------------------------- what is refused


@njit
def _minus_one(a, b):
    return -1.0


MISTAKES = {
    "an unknown name": (lambda: as_distance("euclidian"), "did you mean 'euclidean'.*Known names: .*minkowski"),
    "a name like no other": (lambda: as_distance("zzz"), "Unknown distance 'zzz'. Known names"),
    "a number": (lambda: as_distance(3), "A distance is a name"),
    "a class": (lambda: as_distance(FunctionDistance), "A distance is a name"),
    "a matrix": (lambda: as_distance(np.eye(2)), 'metric="precomputed"'),
    "a parameter of no use": (lambda: as_distance("minkowski", q=3), "takes p; got q"),
    "a parameter too many": (lambda: as_distance("cosine", p=3), "takes no parameters; got p"),
    "a parameter for a function": (lambda: as_distance(Euclidean(), p=3), "belong to a named distance"),
    "p below 1": (lambda: as_distance("minkowski", p=0.5), "at least 1; got 0.5"),
    "p infinite": (lambda: as_distance("minkowski", p=np.inf), "chebyshev"),
    "p a word": (lambda: as_distance("minkowski", p="two"), "at least 1; got 'two'"),
    "no smoothing": (lambda: as_distance("kl", smoothing=0), "smoothing from 1e-300 to 1; got 0"),
    "neither M nor L": (lambda: as_distance("mahalanobis"), "one of M, L .* got none"),
    "both M and L": (lambda: as_distance("mahalanobis", M=np.eye(2), L=np.eye(2)), "got M and L"),
    "M not square": (lambda: as_distance("mahalanobis", M=np.ones((2, 3))), "M must be square"),
    "M lopsided": (lambda: as_distance("mahalanobis", M=[[1.0, 2], [0, 1]]), r"M\[0, 1\] = 2.0 and M\[1, 0\] = 0.0"),
    "M indefinite": (lambda: as_distance("mahalanobis", M=[[1.0, 2], [2, 1]]), "its smallest is -1"),
    "L not finite": (lambda: as_distance("mahalanobis", L=[[np.nan]]), "L holds nan"),
    "rows not finite": (lambda: as_distance("mahalanobis", L=np.eye(2))([np.nan, 2], [1, 2]), "A holds nan"),
    "rows not as wide as L": (lambda: as_distance("mahalanobis", L=np.eye(2))([1, 2, 3], [1, 2, 3]), "given for 2"),
    "zeros under cosine": (
        lambda: ns.nearest([[1, 1], [0, 0]], [[1, 2]], 1, metric="cosine"),
        "X row 1 is all zeros",
    ),
    "a query of zeros": (lambda: ns.nearest([[1, 1]], [[0, 0]], 1, metric="cosine"), "Q row 0 is all zeros"),
    "too short to square": (lambda: as_distance("cosine")([1e-200, 0], [1, 0]), "A row 0 .* too short to square"),
    "a constant row": (lambda: as_distance("correlation")([0.1, 0.1, 0.1], [1, 2, 3]), "A row 0 is constant"),
    "rows that cancel": (lambda: as_distance("braycurtis")([1, -1], [-1, 1]), "the two rows cancel"),
    "powers too large": (lambda: as_distance("minkowski", p=9)([1e99], [0]), "choose a smaller p"),
    "rows of two widths": (lambda: as_distance("l1").pairwise([[1, 2]], [[1, 2, 3]]), "3 columns, but 2 are expected"),
    "pairs left over": (lambda: as_distance("l1").paired([[1], [2]], [[1]]), "got 2 and 1"),
    "one item for a list": (lambda: ns.nearest("word", ["word"], 1, metric=lambda a, b: 0), r"pass \[item\]"),
    "a number for a list": (lambda: ns.nearest(5, [5], 1, metric=lambda a, b: 0), r"pass \[item\]"),
    "a lone array": (lambda: ns.nearest(np.array(5), [5], 1, metric=lambda a, b: 0), "without dimensions"),
    "NaN from a function": (lambda: as_distance(lambda a, b: np.nan)("pear", "fig"), "gave nan for .*'pear' and 'fig'"),
    "nothing from a function": (lambda: as_distance(lambda a, b: None)(1, 2), "gave None .* finite number"),
    "a complex number": (lambda: as_distance(lambda a, b: 1j)(1, 2), "gave 1j"),
    "a matrix not square": (lambda: ns.nearest(np.ones((2, 3)), [[1, 2]], 1, metric="precomputed"), "square matrix"),
    "similarities from a function": (
        lambda: as_distance(lambda a, b: -0.5)(1, 2),
        "gave -0.5, below 0, .*Simil",
    ),
    "similarities from a compiled one": (lambda: as_distance(_minus_one)([1.0], [2.0]), "gave -1, below 0, .*Similar"),
    "a matrix of similarities": (
        lambda: as_distance("precomputed").check([[0, -2], [1, 0]]),
        r"X\[0, 1\] is -2.*max\(s",
    ),
    "a query too short": (lambda: ns.nearest(np.eye(3), [[1, 2]], 1, metric="precomputed"), "each of the 3 rows"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_explained(mistake):
    do, message = MISTAKES[mistake]
    with pytest.raises(InputError, match=message):
        do()


@pytest.mark.parametrize("name", ["chi2", "hellinger", "intersection", "js", "kl"])
def test_histograms_hold_no_negative_amounts(name):
    with pytest.raises(InputError, match=r"X row 1 has a negative entry \(-2\)"):
        ns.nearest([[1, 0], [3, -2]], [[1, 1]], 1, metric=name)


@pytest.mark.parametrize("name", ["intersection", "js", "kl"])
def test_shares_of_an_empty_histogram_are_refused(name):
    with pytest.raises(InputError, match="Q row 2 is an empty histogram"):
        ns.nearest([[1, 0]], [[1, 1], [0, 1], [0, 0]], 1, metric=name)


@pytest.mark.parametrize("name", ["chi2", "hellinger", "canberra", "braycurtis", "jaccard"])
def test_two_empty_rows_are_the_same(name):
    assert as_distance(name)([0, 0], [0, 0]) == 0


def test_cosine_of_rows_in_several_blocks_is_that_of_each_pair():
    random = np.random.default_rng(0)
    X, Q = random.normal(size=(900, 1300)), random.normal(size=(30, 1300))
    candidates = random.integers(-1, 900, size=(30, 31))
    assert candidates.size > len(X)  # so that they are measured block by block
    measured, alone = np.full((2, *candidates.shape), np.nan)
    build("cosine").measure(Q, X, candidates, 0, measured)
    for query in range(30):
        build("cosine").measure(Q[query : query + 1], X, candidates[query : query + 1], 0, alone[query : query + 1])
    np.testing.assert_array_equal(measured, alone)
    assert (np.isnan(measured) == (candidates < 0)).all()
