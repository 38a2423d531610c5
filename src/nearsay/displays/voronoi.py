"""Voronoi cells of points, clipped to a frame.

The points are mirrored at the four sides of the frame. A side is equally far from a point and its mirror image, so the
sides become borders of cells: nothing has to be clipped afterwards, and a single point or points on a line are no
special case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Frame(NamedTuple):
    """The part of the plane that is drawn."""

    left: float
    right: float
    bottom: float
    top: float

    @classmethod
    def around(cls, points: np.ndarray, margin: float = 0.08) -> Frame:
        """A frame that holds all points, with ``margin`` times each side left free.

        >>> Frame.around(np.array([[0.0, 0.0], [10.0, 20.0]]), margin=0.1)
        Frame(left=-1.0, right=11.0, bottom=-2.0, top=22.0)
        """
        low, high = points.min(axis=0), points.max(axis=0)
        sides = high - low
        # Points on a line, or all equal, span a side of length 0.
        sides[sides == 0] = sides.max() or 1.0
        # Far from zero, a tiny margin would be lost in rounding.
        free = np.maximum(margin * sides, 1e-9 * np.abs(points).max())
        (left, bottom), (right, top) = (low - free).tolist(), (high + free).tolist()
        return cls(left, right, bottom, top)

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.top - self.bottom


@dataclass(frozen=True)
class VoronoiCells:
    """The Voronoi cell of each point, and the borders between cells.

    Attributes
    ----------
    polygons : list of (n_corners, 2) arrays
        ``polygons[i]`` holds the places of the frame whose nearest point is i.
    between : (n_borders, 2) int, the two points that each border lies between.
    borders : (n_borders, 2, 2) the ends of each border.
    """

    polygons: list[np.ndarray]
    between: np.ndarray
    borders: np.ndarray


def voronoi_cells(points: np.ndarray, frame: Frame) -> VoronoiCells:
    """The cells of distinct ``points`` (n, 2) that all lie inside the ``frame``.

    >>> cells = voronoi_cells(np.array([[1.0, 1.0], [3.0, 1.0]]), Frame(0.0, 4.0, 0.0, 2.0))
    >>> cells.borders.round(12)[0, :, 0]  # the line x = 2 parts the two points
    array([2., 2.])
    """
    from scipy.spatial import Voronoi

    # Centered and scaled, so that rows far from zero lose no digits. One scale for both
    # axes: different ones would move the borders.
    origin = np.array([frame.left, frame.bottom])
    scale = max(frame.width, frame.height)
    inside = (points - origin) / scale
    x, y = inside.T
    twice_width, twice_height = 2 * frame.width / scale, 2 * frame.height / scale
    mirrored = [(-x, y), (twice_width - x, y), (x, -y), (x, twice_height - y)]
    diagram = Voronoi(np.concatenate([inside, *(np.column_stack(image) for image in mirrored)]))

    corners = diagram.vertices * scale + origin
    n = len(points)
    polygons = [corners[diagram.regions[region]] for region in diagram.point_region[:n]]
    ours = (diagram.ridge_points < n).all(axis=1)
    ends = np.array([ridge for ridge, keep in zip(diagram.ridge_vertices, ours, strict=True) if keep], dtype=int)
    return VoronoiCells(polygons, diagram.ridge_points[ours], corners[ends.reshape(-1, 2)])
