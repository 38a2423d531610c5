"""Shape contexts: contour points described by the positions of the others (Belongie, Malik and Puzicha 2002).

    image ──► contour points ──► where the others lie (5 rings × 12 sectors) ──► matching, one to one
                                                     ▲                                │
                                                     └── row's points, bent by a ◄────┘   three times
                                                         thin plate onto the query's

The distance is measured after the row's shape has been warped onto the query's: the difference of the contexts, the
bending energy of the plate, and the difference of the images around matched points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearsay.errors import InputError

REFINEMENTS = 3
# Chosen on 300 training images of MNIST (the paper has 0.1 and 1; such soft plates fit any shape).
# Share of the contour's direction in the cost of a match; the rest is that of the contexts.
ANGLE_SHARE = 0.3
# Stiffness of the plate; the unit of length is the mean distance between points.
STIFFNESS = 20.0
# The paper's weights for digits.
CONTEXT_WEIGHT, BENDING_WEIGHT, APPEARANCE_WEIGHT = 1.0, 0.3, 1.6
# Images are compared in windows of this many pixels each way around matched points, under a Gaussian of this width.
WINDOW, WINDOW_SIGMA = 2, 1.0
# Regularizes the affine part of the plate toward the identity: points on one line leave it undetermined.
IDENTITY_PULL = 1e-9


class Shape(NamedTuple):
    """A contour: its points, with their centroid at 0 and mean distance 1, and the features of each."""

    points: np.ndarray  # (n, 2)
    angles: np.ndarray  # (n,) direction of the brightest ascent
    contexts: np.ndarray  # (n, 60)
    windows: np.ndarray  # (n, 25) the image around the point, weighted so that plain squares can be summed


def describe_shape(image: np.ndarray, n_points: int) -> Shape:
    """The shape of a bright figure on a dark ground (0 or less), outlined at half the image's peak.

    At most ``n_points`` contour points are taken, by farthest-point sampling; a small figure has fewer. A blank
    image is an error.

    >>> square = np.zeros((8, 8)); square[2:6, 2:6] = 1.0
    >>> shape = describe_shape(square, n_points=100)
    >>> shape.points.shape, shape.contexts.shape
    ((16, 2), (16, 60))
    >>> np.abs(shape.points).max(axis=0) == shape.points.max(axis=0)
    array([ True,  True])
    """
    from nearsay.distances.shape_context_kernels import contexts, mean_distance, spread_out

    peak = image.max(initial=0.0)
    if not peak > 0.0:
        raise InputError("A blank image (no value above 0) has no contour, so it has no shape-context distance.")
    # A dark frame closes the contour of a figure that touches the image's edge.
    framed = np.pad(image / peak, 1)
    contour = contour_points(framed, level=0.5)
    contour = contour[spread_out(contour, min(n_points, len(contour)))]
    points = (contour - contour.mean(axis=0)) / mean_distance(contour)
    return Shape(points, _contour_angles(framed, contour), contexts(points), _windows(framed, contour))


def contour_points(image: np.ndarray, level: float) -> np.ndarray:
    """Points where the image, interpolated linearly between pixels, crosses ``level``: (n, 2) rows and columns.

    >>> contour_points(np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]), level=0.5)
    array([[0.5, 1. ],
           [1.5, 1. ],
           [1. , 0.5],
           [1. , 1.5]])
    """
    inside = image >= level
    crossings = []
    for step in ((1, 0), (0, 1)):
        before = tuple(slice(None, -s or None) for s in step)
        after = tuple(slice(s, None) for s in step)
        crossed = np.argwhere(inside[before] != inside[after])
        a, b = image[before][tuple(crossed.T)], image[after][tuple(crossed.T)]
        crossings.append(crossed + ((level - a) / (b - a))[:, None] * step)
    return np.concatenate(crossings)


def _contour_angles(image: np.ndarray, points: np.ndarray) -> np.ndarray:
    from scipy.ndimage import gaussian_filter, map_coordinates

    down, right = (
        map_coordinates(gaussian_filter(image, 1.0, order=order, mode="constant"), points.T, order=1)
        for order in ((1, 0), (0, 1))
    )
    return np.arctan2(down, right)


def _windows(image: np.ndarray, points: np.ndarray) -> np.ndarray:
    from scipy.ndimage import map_coordinates

    reach = np.arange(-WINDOW, WINDOW + 1)
    offsets = np.stack(np.meshgrid(reach, reach, indexing="ij"), axis=-1).reshape(-1, 2)
    weights = np.exp(-(offsets**2).sum(axis=1) / (2 * WINDOW_SIGMA**2))
    places = points[:, None, :] + offsets
    values = map_coordinates(image, places.reshape(-1, 2).T, order=1).reshape(len(points), -1)
    return values * np.sqrt(weights / weights.sum())


def shape_distance(query: Shape, row: Shape) -> float:
    """The distance of the row's shape from the query's, after it has been warped onto it.

    context + 0.3 · bending + 1.6 · appearance, the weights of the paper:

    * context: the mean, over the query's points, of the cost of their best
      match, plus the same over the row's (χ² between 0 and 1, each way);
    * bending: the energy of the thin plate; affine maps have none;
    * appearance: mean squared difference of the images, of peak 1, in
      Gaussian windows around matched points (not warped).
    """
    from scipy.optimize import linear_sum_assignment

    from nearsay.distances.shape_context_kernels import contexts, matching_costs

    costs = matching_costs(query.contexts, query.angles, row.contexts, row.angles, ANGLE_SHARE)
    bending = 0.0
    for _ in range(REFINEMENTS):
        matched_query, matched_row = linear_sum_assignment(costs)
        points, bending = bend(row.points, row.points[matched_row], query.points[matched_query])
        costs = matching_costs(query.contexts, query.angles, contexts(points), row.angles, ANGLE_SHARE)
    context = costs.min(axis=1).mean() + costs.min(axis=0).mean()
    differences = query.windows[matched_query] - row.windows[matched_row]
    appearance = (differences**2).sum(axis=1).mean()
    return float(CONTEXT_WEIGHT * context + BENDING_WEIGHT * bending + APPEARANCE_WEIGHT * appearance)


def bend(points: np.ndarray, sources: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, float]:
    """Map ``points`` by the thin-plate spline from ``sources`` to ``targets``; also its bending energy.

    A shift of all points takes no energy:

    >>> corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> moved, energy = bend(np.array([[0.5, 0.5]]), corners, corners + 2.0)
    >>> moved.round(6), round(energy, 6)
    (array([[2.5, 2.5]]), 0.0)
    """
    from nearsay.distances.shape_context_kernels import bending_kernel

    n = len(sources)
    kernel = bending_kernel(sources, sources)
    system = np.zeros((n + 3, n + 3))
    system[:n, :n] = kernel
    system[np.arange(n), np.arange(n)] += STIFFNESS
    system[:n, n:] = _straight_part(sources)
    system[n:, :n] = system[:n, n:].T
    system[np.arange(n, n + 3), np.arange(n, n + 3)] = -IDENTITY_PULL
    # Solving for displacements, not targets, keeps points that need not move exactly in place.
    pulled = np.zeros((n + 3, 2))
    pulled[:n] = targets - sources
    solution = np.linalg.solve(system, pulled)
    forces, straight = solution[:n], solution[n:]
    moved = points + bending_kernel(points, sources) @ forces + _straight_part(points) @ straight
    return moved, float(max(0.0, np.einsum("ic,ij,jc->", forces, kernel, forces)))


def _straight_part(points: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(points)), points])
