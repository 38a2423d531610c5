"""Distances between images: tangent distance and shape context. Items are flattened gray images.

Both distances prepare every image once (its tangent plane, its contour) and then measure pairs. Each pair is measured
by the same instructions, one by one or in a block, so results do not depend on what else is measured. They start no
threads: a search distributes its queries.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, Literal

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.core.parallel import one_blas_thread
from nearsay.core.settings import check_whole
from nearsay.distances.distance import Distance
from nearsay.distances.shape_context import Shape, describe_shape, shape_distance
from nearsay.distances.tangent import TangentPlanes, tangent_planes
from nearsay.errors import InputError

SIDES = ("both", "query", "row")
# A narrower Gaussian has no derivative at the pixels.
SMALLEST_SIGMA = 0.3
ROWS_AT_ONCE = 256


class ImageDistance(Distance):
    """Base of distances between flattened images of one shape, each prepared once before pairs are measured."""

    def __init__(self, shape: tuple[int, int] | None = None) -> None:
        self.shape = None if shape is None else _checked_shape(shape)

    def check(self, items: Any, *, name: str = "X", like: Any = None) -> np.ndarray:
        images: np.ndarray = super().check(items, name=name, like=like)
        self.image_shape(images.shape[1], name=name)
        return images

    def image_shape(self, n_columns: int, *, name: str = "X") -> tuple[int, int]:
        """(height, width) of rows with so many columns: the shape given, or else a square.

        >>> TangentDistance().image_shape(784)
        (28, 28)
        """
        if self.shape is None:
            side = math.isqrt(n_columns)
            if side * side != n_columns:
                raise InputError(
                    f"{name} has {n_columns} columns, which is not a square number. Give the images' shape:"
                    f" metric=({self.name!r}, {{'shape': (height, width)}})."
                )
            return side, side
        height, width = self.shape
        if height * width != n_columns:
            raise InputError(
                f"{name} has {n_columns} columns, but images of shape {height}×{width} have {height * width}."
                " Flatten the images row by row, and give their shape as (height, width)."
            )
        return self.shape

    @abstractmethod
    def prepare(self, images: np.ndarray, side: Literal["query", "row"]) -> Any:
        """Features of each image (images × height × width) for measuring."""

    @abstractmethod
    def measure_pairs(self, Q: Any, X: Any, queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Distance of prepared query ``queries[i]`` to prepared row ``rows[i]`` for every i."""

    def block(self, Q: np.ndarray, X: np.ndarray, first: int = 0) -> np.ndarray:
        out = np.empty((len(Q), len(X)))
        self.measure(Q, X, np.broadcast_to(np.arange(len(X)), out.shape), 0, out)
        return out

    def measure(self, Q: np.ndarray, X: np.ndarray, candidates: np.ndarray, first: int, out: np.ndarray) -> None:
        queries, places = np.nonzero((candidates >= first) & (candidates < first + len(X)))
        rows = candidates[queries, places] - first
        prepared_queries = self._prepared(Q, "query")
        # Pairs are sorted by row, so that a row is prepared once for all queries.
        by_row = np.argsort(rows, kind="stable")
        wanted, starts = np.unique(rows[by_row], return_index=True)
        ends = np.append(starts[1:], len(rows))
        for part in row_blocks(len(wanted), size=ROWS_AT_ONCE):
            pairs = by_row[starts[part.start] : ends[part.stop - 1]]
            prepared_rows = self._prepared(X[wanted[part]], "row")
            numbers = np.searchsorted(wanted[part], rows[pairs])
            out[queries[pairs], places[pairs]] = self.measure_pairs(
                prepared_queries, prepared_rows, queries[pairs], numbers
            )

    def _prepared(self, rows: np.ndarray, side: Literal["query", "row"]) -> Any:
        height, width = self.image_shape(rows.shape[1])
        return self.prepare(np.asarray(rows, dtype=np.float64).reshape(-1, height, width), side)


class TangentDistance(ImageDistance):
    """Tangent distance: invariant to small shifts, rotations, scalings and changes of stroke (Simard et al. 1998).

    With x and y the two images blurred by a Gaussian, and Tx and Ty the directions in which the seven transformations
    of ``tangent.TANGENTS`` would move them,

        D(x, y) = min over a, b of |x + Tx·a − y − Ty·b|,

    the distance between the planes that touch the images' curves of transformations. It is at most the Euclidean
    distance, 0 from an image to itself, and symmetric to the last bit when both sides may move.

    Parameters
    ----------
    shape : (height, width), default=None
        Shape of the images; None means square.
    sides : "both", "query" or "row", default="both"
        Which image may move along its plane. One side alone is about four times faster and a little less accurate.
    sigma : float, default=0.7
        Width of the blur in pixels, at least 0.3. Wider blurs reach
        farther, but blur strokes that are closer than that.

    Notes
    -----
    Directions that both planes share to within 1e-4 radian, and tangents that
    depend on one another (all of them, in a blank image), count once. Near the
    planes' intersection the result is accurate to about 1e-7 of the Euclidean
    distance. Not a metric: the triangle inequality does not hold.

    >>> bar = np.zeros((8, 8)); bar[1:7, 3] = 1.0
    >>> moved = np.roll(bar, 1, axis=1)
    >>> distance = TangentDistance()
    >>> round(float(np.linalg.norm(bar - moved)), 2), round(distance(bar.ravel(), moved.ravel()), 2)
    (3.46, 0.01)
    """

    name = "tangent"

    def __init__(
        self,
        shape: tuple[int, int] | None = None,
        *,
        sides: Literal["both", "query", "row"] = "both",
        sigma: float = 0.7,
    ) -> None:
        super().__init__(shape)
        if sides not in SIDES:
            raise InputError(f"sides says which image may move: {', '.join(map(repr, SIDES))}; got {sides!r}.")
        if not SMALLEST_SIGMA <= sigma < math.inf:
            raise InputError(f"sigma is the width of a blur in pixels, at least {SMALLEST_SIGMA}; got {sigma!r}.")
        self.sides = sides
        self.sigma = float(sigma)

    def prepare(self, images: np.ndarray, side: Literal["query", "row"]) -> TangentPlanes:
        return tangent_planes(images, self.sigma, with_basis=self.sides in ("both", side))

    def measure_pairs(self, Q: TangentPlanes, X: TangentPlanes, queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
        from nearsay.distances.tangent_kernels import measure_one_sided, measure_two_sided

        out = np.empty(len(queries))
        if self.sides == "both":
            measure_two_sided(Q.points, X.points, Q.basis, X.basis, queries, rows, out)
        else:
            of_row = self.sides == "row"
            measure_one_sided(Q.points, X.points, X.basis if of_row else Q.basis, of_row, queries, rows, out)
        return out

    def parameters(self) -> dict[str, Any]:
        return {"shape": _as_list(self.shape), "sides": self.sides, "sigma": self.sigma}


class ShapeContextDistance(ImageDistance):
    """Shape-context distance between the contours of two figures (Belongie et al. 2002).

    For bright figures on a dark ground (0 or less). Up to ``n_points`` points of each contour are matched one to one by
    their shape contexts, and the row's figure is warped onto the query's by a thin-plate spline, three times. The
    distance is

        D = context + 0.3 · bending + 1.6 · appearance

    (see ``shape_context.shape_distance``). 0 from an image to itself; not symmetric, since only the row is warped.
    Context and bending do not depend on the position and size of a figure.

    Parameters
    ----------
    shape : (height, width), default=None
        Shape of the images; None means square.
    n_points : int, default=100
        Contour points, at least 4. Time grows with the square of it, in part with the
        cube: a pair with 100 points takes some milliseconds.

    A blank image has no contour: ``check`` refuses it.

    >>> from sklearn.datasets import load_digits
    >>> zero, one, *_, another_zero = load_digits().data[:11]
    >>> distance = ShapeContextDistance()
    >>> distance(zero, zero), distance(zero, another_zero) < distance(zero, one)
    (0.0, True)
    """

    name = "shape_context"

    def __init__(self, shape: tuple[int, int] | None = None, *, n_points: int = 100) -> None:
        super().__init__(shape)
        self.n_points = check_whole("n_points", n_points, least=4)

    def check(self, items: Any, *, name: str = "X", like: Any = None) -> np.ndarray:
        images = super().check(items, name=name, like=like)
        blank = np.flatnonzero(images.max(axis=1) <= 0)
        if len(blank):
            raise InputError(
                f"{name} holds a blank image (no value above 0) at row {blank[0]}; it has no contour, so it has no"
                " shape-context distance. Leave such rows out. Figures must be bright on a dark ground."
            )
        return images

    def prepare(self, images: np.ndarray, side: Literal["query", "row"]) -> list[Shape]:
        return [describe_shape(image, self.n_points) for image in images]

    def measure_pairs(self, Q: list[Shape], X: list[Shape], queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
        # With several threads the plate's equations would be summed in another order.
        with one_blas_thread():
            return np.array([shape_distance(Q[i], X[j]) for i, j in zip(queries, rows, strict=True)])

    def parameters(self) -> dict[str, Any]:
        return {"shape": _as_list(self.shape), "n_points": self.n_points}


def _checked_shape(shape: Any) -> tuple[int, int]:
    try:
        height, width = (int(side) for side in shape)
        if min(height, width) >= 1 and (height, width) == tuple(shape):
            return height, width
    except (TypeError, ValueError):
        pass
    raise InputError(f"The shape of an image is (height, width), two whole numbers of at least 1; got {shape!r}.")


def _as_list(shape: tuple[int, int] | None) -> list[int] | None:
    return None if shape is None else list(shape)
