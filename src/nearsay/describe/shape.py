"""Shape descriptor: the outline of a silhouette as the curve of its distances from the center."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearsay.describe.descriptor import brightness
from nearsay.errors import require

CURVE_POINTS = 64


def contour(image: np.ndarray) -> np.ndarray:
    """Distance of the longest outline from its center at 64 equal steps along it, divided by the mean: (64,).

    It starts at the point farthest from the center and goes around with the shape on its right (clockwise on the
    screen), so it does not change when the shape is moved, enlarged or turned, as far as pixels allow; not when it
    is mirrored.
    The shape is what differs from most of the border, dark on light or light on dark. Where there is none, all are 0.
    """
    outline = longest_outline(silhouette(image))
    return np.zeros(CURVE_POINTS) if outline is None else distance_curve(outline, CURVE_POINTS)


def silhouette(image: np.ndarray) -> np.ndarray:
    """A mask of the shape: the pixels on the other side of middle brightness than most of the border."""
    gray = brightness(image)
    bright = gray > (gray.min() + gray.max()) / 2
    border = np.concatenate([bright[0], bright[-1], bright[1:-1, 0], bright[1:-1, -1]])
    mostly_bright = 2 * np.count_nonzero(border) > len(border)
    return ~bright if mostly_bright else bright


def longest_outline(mask: np.ndarray) -> np.ndarray | None:
    """Points (row, column) of the longest closed outline in a mask, the first repeated at the end; None without one."""
    measure: Any = require("skimage.measure", "images")
    # A rim of background closes the outline of a shape that touches the border.
    outlines = measure.find_contours(np.pad(mask, 1).astype(np.float32), 0.5)
    return max(outlines, key=len) if outlines else None


def distance_curve(outline: np.ndarray, n_points: int) -> np.ndarray:
    """Distances from the center of area at equal steps along a closed outline, from the farthest corner on; mean 1.

    outline : (n_corners + 1, 2) corners in order, the first repeated at the end.

    >>> square = np.array([[0, 0], [0, 2], [2, 2], [2, 0], [0, 0]])
    >>> (distance_curve(square, 8) * (1 + np.sqrt(2)) / 2).round(3)     # a corner, the middle of a side, a corner, …
    array([1.414, 1.   , 1.414, 1.   , 1.414, 1.   , 1.414, 1.   ])
    """
    corners = outline[:-1] - center_of_area(outline)
    far = np.linalg.norm(corners, axis=1)
    # Rounding must not decide between corners that are equally far.
    start = int(np.argmax(far >= far.max() * (1 - 1e-9)))
    corners = np.roll(corners, -start, axis=0)
    closed = np.vstack([corners, corners[:1]])
    walked = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(closed, axis=0), axis=1))])
    steps = np.arange(n_points) * (walked[-1] / n_points)
    points = np.column_stack([np.interp(steps, walked, closed[:, axis]) for axis in range(2)])
    distances = np.linalg.norm(points, axis=1)
    return distances / distances.mean()


def center_of_area(outline: np.ndarray) -> np.ndarray:
    """Center of the area within a closed outline.

    >>> center_of_area(np.array([[0.0, 0.0], [0.0, 3.0], [3.0, 0.0], [0.0, 0.0]]))
    array([1., 1.])
    """
    # Near the origin the products below lose no digits.
    corner = outline[0]
    start, end = (outline - corner)[:-1], (outline - corner)[1:]
    cross = start[:, 0] * end[:, 1] - end[:, 0] * start[:, 1]
    return corner + ((start + end) * cross[:, None]).sum(axis=0) / (3 * cross.sum())
