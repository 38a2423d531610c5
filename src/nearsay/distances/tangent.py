"""Tangent planes of images under small shifts, rotations, scalings and changes of stroke.

    image ──► smoothed ──► ∂x, ∂y ──► seven tangents ──► orthonormal basis of the plane
                  │
                  └──► the point that the plane touches

An image moved by a small transformation traces a curve through the space of all images. Its direction at the start is a
*tangent*, and for each of the seven transformations it is a simple product of the image's own derivatives (Simard,
LeCun, Denker and Victorri 1998). Pixels alone have no derivative, so image and derivatives are those of the image
blurred by a Gaussian.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

TANGENTS = (
    "horizontal shift",
    "vertical shift",
    "scaling",
    "rotation",
    "axis stretch",
    "diagonal stretch",
    "thickness",
)


class TangentPlanes(NamedTuple):
    """The blurred images, and an orthonormal basis of each tangent plane (None if no plane is needed).

    ``points`` is (images × pixels), ``basis`` (images × 7 × pixels). A tangent that depends on those before it has a
    basis vector of zeros, so that all images have arrays of the same shape.
    """

    points: np.ndarray
    basis: np.ndarray | None


def tangent_planes(images: np.ndarray, sigma: float, *, with_basis: bool = True) -> TangentPlanes:
    """Blur every image (images × height × width) and span its tangent plane.

    >>> planes = tangent_planes(np.eye(5)[None], sigma=0.7)
    >>> np.round(planes.basis[0] @ planes.basis[0].T, 12).trace()
    np.float64(7.0)
    >>> tangent_planes(np.zeros((1, 5, 5)), sigma=0.7).basis.any()
    np.False_
    """
    images = np.asarray(images, dtype=np.float64)
    n, height, width = images.shape
    points = smoothed(images, sigma).reshape(n, height * width)
    if not with_basis:
        return TangentPlanes(points, None)
    from nearsay.distances.tangent_kernels import orthonormalize

    basis = tangents(images, sigma)
    orthonormalize(basis)
    return TangentPlanes(points, basis)


def smoothed(images: np.ndarray, sigma: float) -> np.ndarray:
    """Blur by a Gaussian of ``sigma`` pixels; outside the frame all is 0.

    >>> float(smoothed(np.ones((1, 9, 9)), sigma=0.5)[0, 4, 4].round(6))
    1.0
    """
    return _blur(images, sigma, derivative_of=None)


def tangents(images: np.ndarray, sigma: float) -> np.ndarray:
    """The seven tangents of every image (images × height × width), in the order of ``TANGENTS``.

    Gives (images × 7 × pixels). Rotations and scalings are about the middle of the frame. Only directions matter: each
    image is first scaled to peak 1, so that squares of very small or large values stay finite.

    >>> ramp = np.tile(np.arange(9.0), (9, 1))  # brighter to the right, in even steps
    >>> np.round(tangents(ramp[None], sigma=1.0).reshape(7, 9, 9)[0, 4, 3:5] * 8, 2)
    array([1., 1.])
    """
    n, height, width = images.shape
    peaks = np.abs(images).max(axis=(1, 2), initial=0.0, keepdims=True)
    images = images / np.where(peaks > 0, peaks, 1.0)
    down = _blur(images, sigma, derivative_of=1)
    right = _blur(images, sigma, derivative_of=2)
    y = (np.arange(height) - (height - 1) / 2)[:, None]
    x = (np.arange(width) - (width - 1) / 2)[None, :]
    out = np.stack(
        [
            right,
            down,
            x * right + y * down,
            y * right - x * down,
            x * right - y * down,
            y * right + x * down,
            right * right + down * down,
        ],
        axis=1,
    )
    return out.reshape(n, len(TANGENTS), height * width)


def _blur(images: np.ndarray, sigma: float, derivative_of: int | None) -> np.ndarray:
    """A Gaussian along both axes of every image, or its derivative along one of them."""
    from scipy.ndimage import gaussian_filter1d

    for axis in (1, 2):
        order = 1 if axis == derivative_of else 0
        images = gaussian_filter1d(images, sigma, axis=axis, order=order, mode="constant")
    return images
