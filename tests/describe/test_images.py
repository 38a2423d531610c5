"""Tangent and shape-context distance, against plain loops and against what must hold for every pair of images."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nearsay import leave_one_out, nearest, threads
from nearsay.distances import as_distance
from nearsay.distances.images import SIDES, ShapeContextDistance, TangentDistance
from nearsay.distances.shape_context import STIFFNESS, Shape, bend, contour_points, describe_shape, shape_distance
from nearsay.distances.shape_context_kernels import contexts, spread_out
from nearsay.distances.tangent import TANGENTS, tangent_planes, tangents
from nearsay.distances.tangent_kernels import orthonormalize
from nearsay.errors import InputError
from tests.reference import neighbors as reference

few = settings(max_examples=25)


def images(n: int, height: int = 5, width: int = 4) -> st.SearchStrategy[np.ndarray]:
    """Small whole numbers: blank images, constant images, duplicates and single dots all come often."""
    return arrays(np.int64, (n, height, width), elements=st.integers(0, 2))


def blob(y: float, x: float, size: int = 16, spread: float = 2.0) -> np.ndarray:
    grid = np.arange(size) - (size - 1) / 2
    return np.exp(-((grid[:, None] - y) ** 2 + (grid[None, :] - x) ** 2) / (2 * spread**2)).ravel()


def strokes(n: int, seed: int = 0, size: int = 12) -> np.ndarray:
    """Random thick strokes on a dark ground, flattened."""
    random = np.random.default_rng(seed)
    out = np.zeros((n, size, size))
    for image in out:
        places = np.cumsum(random.integers(-1, 2, (14, 2)), axis=0) + size // 2
        for y, x in np.clip(places, 1, size - 2):
            image[y - 1 : y + 1, x - 1 : x + 1] = random.uniform(0.6, 1.0)
    return out.reshape(n, -1)


# ---------------------------------------------------------------- tangent distance


def sines_between(a: np.ndarray, b: np.ndarray, sigma: float) -> np.ndarray:
    """The sines of the angles in which the two tangent planes meet."""
    planes = []
    for image, side in ((a, "query"), (b, "row")):
        directions = np.array(
            reference.tangent_directions(a.tolist(), b.tolist(), sigma, side) or [0.0 * image.ravel()]
        )
        _, shares, axes = np.linalg.svd(directions, full_matrices=False)
        planes.append(axes[shares > 1e-7])
    first, second = planes
    return np.linalg.svd(second - second @ first.T @ first, compute_uv=False)


@few
@given(pair=images(2), sides=st.sampled_from(SIDES), sigma=st.sampled_from([0.5, 0.7, 1.0]))
def test_tangent_distance_equals_least_squares_over_both_planes(pair, sides, sigma):
    a, b = pair
    # Directions that all but depend on each other count as one or as two, and both are right.
    shares = np.linalg.svd(np.array(reference.tangent_directions(a.tolist(), b.tolist(), sigma, sides) or [[1.0]]))[1]
    assume(not ((shares / shares[0] > 1e-9) & (shares / shares[0] < 1e-5)).any())
    if sides == "both":
        angles = sines_between(a, b, sigma)
        assume(not ((angles > 1e-6) & (angles < 1e-3)).any())
    expected = reference.tangent_distance(a.tolist(), b.tolist(), sigma, sides)
    ours = TangentDistance((5, 4), sides=sides, sigma=sigma)(a.ravel(), b.ravel())
    assert ours == pytest.approx(expected, rel=1e-6, abs=1e-6)


@few
@given(image=images(1))
def test_tangents_equal_the_loops(image):
    expected = reference.tangents(image[0].tolist(), 0.7)
    peak = max(image.max(), 1)  # tangents are those of the image at peak 1
    scales = np.array([peak] * 6 + [peak**2])[:, None]
    np.testing.assert_allclose(tangents(image.astype(float), 0.7)[0] * scales, expected, atol=1e-12)


@few
@given(stack=images(4), sides=st.sampled_from(SIDES))
def test_tangent_distance_is_at_most_the_euclidean_one(stack, sides):
    rows = stack.reshape(4, -1)
    ours = TangentDistance((5, 4), sides=sides).pairwise(rows)
    assert (ours <= as_distance("euclidean").pairwise(rows) * (1 + 1e-12)).all()


@few
@given(stack=images(4), factor=st.sampled_from([1, 0.1, 1e-150, 1e120]))
def test_two_sided_tangent_distance_is_symmetric_to_the_last_bit_and_zero_on_itself(stack, factor):
    distances = TangentDistance((5, 4)).pairwise(stack.reshape(4, -1) * factor)
    np.testing.assert_array_equal(distances, distances.T)
    np.testing.assert_array_equal(np.diag(distances), 0.0)


@few
@given(pair=images(2))
def test_one_side_moves_the_query_or_the_row(pair):
    a, b = pair.reshape(2, -1)
    moves_query, moves_row = (TangentDistance((5, 4), sides=sides) for sides in ("query", "row"))
    assert moves_query(a, b) == moves_row(b, a)
    assert TangentDistance((5, 4))(a, b) <= moves_query(a, b) + 1e-9


DIRECTIONS = [(1.0, 0.0), (0.0, 1.0), (0.6, -0.8)]


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("sides", ["query", "row"])
def test_a_small_shift_is_zero_to_first_order(direction, sides):
    """Halving the shift quarters the distance, while the Euclidean one is only halved."""
    distance, here = TangentDistance(sides=sides, sigma=1.0), blob(0.0, 0.0)
    near, far = (distance(here, blob(step * direction[0], step * direction[1])) for step in (0.25, 0.5))
    assert near < 0.05 * np.linalg.norm(here - blob(0.25 * direction[0], 0.25 * direction[1]))
    assert far > 3.5 * near


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_where_both_sides_move_even_a_whole_pixel_hardly_counts(direction):
    here, present = blob(0.0, 0.0), blob(*direction)
    assert TangentDistance(sigma=1.0)(here, present) < 1e-3 * np.linalg.norm(here - present)


@pytest.mark.parametrize("tangent", range(len(TANGENTS)), ids=TANGENTS)
def test_a_step_along_each_tangent_counts_for_nothing(tangent):
    image = strokes(1)
    planes = tangent_planes(image.reshape(1, 12, 12), sigma=0.7)
    step = tangents(image.reshape(1, 12, 12), sigma=0.7)[0, tangent]
    left = step - planes.basis[0].T @ (planes.basis[0] @ step)
    assert np.abs(left).max() < 1e-12 * np.abs(step).max()


def test_a_dot_in_the_middle_has_tangents_that_depend_on_one_another_and_still_a_plane():
    dot = np.zeros((1, 5, 5))
    dot[0, 2, 2] = 1.0
    basis = tangent_planes(dot, sigma=0.7).basis[0]
    lengths = np.linalg.norm(basis, axis=1)
    np.testing.assert_allclose(basis @ basis.T, np.diag(lengths), atol=1e-12)
    assert set(lengths.round(12)) == {0.0, 1.0}  # turning a round dot does nothing


def test_a_blank_image_does_not_move_so_the_distance_is_that_of_the_other_side():
    image = strokes(1)[0]
    blank = np.zeros_like(image)
    assert TangentDistance()(blank, image) == pytest.approx(TangentDistance(sides="row")(blank, image), rel=1e-12)
    assert TangentDistance()(blank, blank) == 0.0


def test_directions_that_two_planes_all_but_share_count_once():
    """Twice the image has the same plane; a trace of noise must not open seven new directions."""
    image = strokes(1)[0]
    noisy = 2 * image + 1e-9 * np.random.default_rng(0).normal(size=image.size)
    assert TangentDistance()(image, noisy) == pytest.approx(TangentDistance(sides="query")(image, noisy), rel=1e-6)


def test_the_basis_is_orthonormal_even_where_tangents_all_but_depend_on_one_another():
    random = np.random.default_rng(0)
    planes = random.normal(size=40) + 1e-5 * random.normal(size=(1, 7, 40))
    orthonormalize(planes)
    np.testing.assert_allclose(planes[0] @ planes[0].T, np.eye(7), atol=1e-14)


# ---------------------------------------------------------------- shape contexts


@few
@given(seed=st.integers(0, 10_000), n=st.integers(3, 12))
def test_contexts_equal_the_loops(seed, n):
    points = np.random.default_rng(seed).normal(size=(n, 2))
    np.testing.assert_allclose(contexts(points), reference.shape_contexts(points.tolist()), atol=1e-14)


@few
@given(seed=st.integers(0, 10_000))
def test_shape_context_distance_equals_trying_every_matching(seed):
    random = np.random.default_rng(seed)

    def shape() -> Shape:
        points = random.normal(size=(5, 2))
        points -= points.mean(axis=0)
        return Shape(points, random.uniform(-3, 3, 5), contexts(points), random.uniform(size=(5, 4)))

    query, row = shape(), shape()
    expected = reference.shape_context_distance(query._asdict(), row._asdict())
    assert shape_distance(query, row) == pytest.approx(expected, rel=1e-5)


@few
@given(image=images(1, 6, 6))
def test_shape_context_distance_is_zero_on_itself(image):
    assume(image.any())
    assert ShapeContextDistance(n_points=12)(image.ravel(), image.ravel()) == 0.0


@few
@given(seed=st.integers(0, 10_000))
def test_brightness_and_place_of_a_figure_do_not_count(seed):
    figure = strokes(1, seed, size=10).reshape(10, 10)
    high, low = np.zeros((14, 14)), np.zeros((14, 14))
    high[0:10, 1:11], low[3:13, 4:14] = figure, 128 * figure
    assert ShapeContextDistance()(high.ravel(), low.ravel()) == pytest.approx(0.0, abs=1e-6)


def test_another_shape_is_farther_than_a_bent_one():
    ring, bent, cross = np.zeros((3, 16, 16))
    y, x = np.mgrid[:16, :16] - 7.5
    ring[abs(np.hypot(y, x) - 5) < 1] = bent[abs(np.hypot(y * 1.3, x) - 5) < 1] = 1.0
    cross[7:9, 2:14] = cross[2:14, 7:9] = 1.0
    distance = ShapeContextDistance()
    assert distance(ring.ravel(), bent.ravel()) < distance(ring.ravel(), cross.ravel()) / 2


@few
@given(image=images(1, 5, 5), level=st.sampled_from([0.5, 1.0, 1.5]))
def test_contour_points_lie_where_the_image_has_the_level(image, level):
    image = np.pad(image[0].astype(float), 1)
    for y, x in contour_points(image, level):
        above, left = int(np.floor(y)), int(np.floor(x))
        down, right = y - above, x - left
        ends = (image[above, left], image[int(np.ceil(y)), int(np.ceil(x))])
        assert (1 - down - right) * ends[0] + (down + right) * ends[1] == pytest.approx(level)


def test_chosen_contour_points_spread_over_the_whole_contour():
    circle = np.array([(np.sin(t), np.cos(t)) for t in np.linspace(0, 2 * np.pi, 64, endpoint=False)])
    np.testing.assert_array_equal(np.sort(spread_out(circle, 8)), np.arange(0, 64, 8))


def test_a_thin_plate_bends_as_scipys_does():
    from scipy.interpolate import RBFInterpolator

    random = np.random.default_rng(0)
    points, sources, targets = random.normal(size=(7, 2)), random.normal(size=(9, 2)), random.normal(size=(9, 2))
    plate = RBFInterpolator(sources, targets, kernel="thin_plate_spline", smoothing=STIFFNESS / 2, degree=1)
    moved, energy = bend(points, sources, targets)
    np.testing.assert_allclose(moved, plate(points), atol=1e-6)
    assert energy > 0


def test_matched_points_on_one_line_still_bend():
    line = np.column_stack([np.zeros(4), np.arange(4.0)])
    aside = line + np.array([1.0, 0.0])
    moved, _ = bend(line, line, aside)
    np.testing.assert_allclose(moved, aside, atol=1e-6)


def test_a_small_figure_has_fewer_points_than_asked_for():
    dot = np.zeros((5, 5))
    dot[2, 2] = 1.0
    assert len(describe_shape(dot, n_points=100).points) == 4


# ---------------------------------------------------------------- both


BOTH = [TangentDistance(), TangentDistance(sides="query"), ShapeContextDistance(n_points=20)]


@pytest.mark.parametrize("distance", BOTH, ids=repr)
def test_a_pair_has_one_distance_however_it_is_measured(distance):
    Q, X = strokes(3, seed=1), strokes(300, seed=2)[:: 10 if distance.name == "shape_context" else 1]
    whole = distance.pairwise(Q, X)
    one_by_one = np.array([[distance(q, x) for x in X[:12]] for q in Q])
    np.testing.assert_array_equal(whole[:, :12], one_by_one)
    np.testing.assert_array_equal(whole[:, -5:], distance.pairwise(Q, X[-5:]))
    np.testing.assert_array_equal(np.diag(whole), distance.paired(Q, X[: len(Q)]))


@pytest.mark.parametrize("distance", BOTH, ids=repr)
def test_only_candidates_that_lie_in_the_rows_are_measured(distance):
    Q, X = strokes(2, seed=1), strokes(6, seed=2)
    candidates = np.array([[12, -1, 10, 10], [9, 16, 15, 11]])
    out = np.full(candidates.shape, 7.0)
    distance.measure(Q, X, candidates, 10, out)
    whole = distance.pairwise(Q, X)
    np.testing.assert_array_equal(
        out, [[whole[0, 2], 7.0, whole[0, 0], whole[0, 0]], [7.0, 7.0, whole[1, 5], whole[1, 1]]]
    )


@pytest.mark.slow
@few
@given(rows=images(8, 4, 4), k=st.integers(1, 7))
def test_neighbors_by_tangent_distance_are_those_of_a_double_loop(rows, k):
    rows = rows.reshape(8, -1)
    distance = TangentDistance()
    indices, distances = reference.nearest(rows, rows, k, distance, leave_out_itself=True)
    table = leave_one_out(rows, k, metric=distance)
    np.testing.assert_array_equal(table.indices, indices)
    np.testing.assert_array_equal(table.distances, distances)


@pytest.mark.slow
@pytest.mark.parametrize("distance", BOTH, ids=repr)
def test_threads_change_nothing(distance):
    Q, X = strokes(33, seed=3), strokes(20, seed=4)
    tables = []
    for count in (1, 3):
        with threads(count):
            tables.append(nearest(X, Q, 4, metric=distance))
    np.testing.assert_array_equal(tables[0].indices, tables[1].indices)
    np.testing.assert_array_equal(tables[0].distances, tables[1].distances)


@pytest.mark.parametrize("distance", BOTH, ids=repr)
def test_nothing_is_measured_where_there_is_no_image(distance):
    X = strokes(3)
    assert distance.block(X[:0], X).shape == (0, 3)
    assert distance.block(X, X[:0]).shape == (3, 0)


def test_images_found_by_name_and_built_again_from_their_parameters():
    for distance in (TangentDistance((6, 24), sides="row", sigma=0.9), ShapeContextDistance((6, 24), n_points=9)):
        again = as_distance(distance.name, **distance.parameters())
        X = strokes(2)
        np.testing.assert_array_equal(again.pairwise(X), distance.pairwise(X))


@pytest.mark.parametrize(
    ("make", "rows", "message"),
    [
        (TangentDistance, np.ones((1, 15)), "not a square number"),
        (lambda: TangentDistance((4, 5)), np.ones((1, 16)), "4×5 have 20"),
        (lambda: TangentDistance((4, 0)), None, "two whole numbers"),
        (lambda: TangentDistance((4.5, 2)), None, "two whole numbers"),
        (lambda: TangentDistance(16), None, "two whole numbers"),
        (lambda: TangentDistance(sides="left"), None, "'both', 'query', 'row'"),
        (lambda: TangentDistance(sigma=0.1), None, "at least 0.3"),
        (lambda: TangentDistance(sigma=float("nan")), None, "at least 0.3"),
        (lambda: ShapeContextDistance(n_points=3), None, "at least 4"),
        (ShapeContextDistance, np.stack([np.ones(16), np.zeros(16)]), "blank image .* at row 1"),
        (TangentDistance, np.full((1, 16), np.nan), "not a finite number"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(make, rows, message):
    with pytest.raises(InputError, match=message):
        make().pairwise(rows)
