"""Color descriptors: joint histograms of the whole image, or of its three bands from top to bottom.

*Joint* means that a bin is a color: red, green and blue together. Three histograms of one channel each
have far fewer bins, and on Corel5K find far worse neighbors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nearsay.errors import require

# L goes from 0 to 100. a and b reach ±110, but most colors of photographs lie within ±50, and finer bins there find
# better neighbors (Corel5K); stronger colors are counted in the outermost bins.
LAB_LOWEST = np.array([0.0, -50.0, -50.0], dtype=np.float32)
LAB_RANGE = np.array([100.0, 100.0, 100.0], dtype=np.float32)

Space = Callable[[np.ndarray], np.ndarray]


def rgb(image: np.ndarray) -> np.ndarray:
    """Red, green and blue, from 0 up to but not including 1: (h, w, 3) float32."""
    return image.astype(np.float32) / np.float32(256)


def hsv(image: np.ndarray) -> np.ndarray:
    """Hue, saturation and value, from 0 up to but not including 1; without color the hue is 0: (h, w, 3) float32."""
    pillow: Any = require("PIL.Image", "images")
    return np.asarray(pillow.fromarray(image).convert("HSV")).astype(np.float32) / np.float32(256)


def lab(image: np.ndarray) -> np.ndarray:
    """CIE L*a*b*, in which equal steps look equally large, most of it brought into 0 to 1: (h, w, 3) float32."""
    color: Any = require("skimage.color", "images")
    lightness_a_b: np.ndarray = color.rgb2lab(image.astype(np.float32) / np.float32(255))
    return (lightness_a_b - LAB_LOWEST) / LAB_RANGE


def joint_histogram(channels: np.ndarray, n_levels: int, n_bands: int = 1) -> np.ndarray:
    """Shares of the pixels in each joint bin of three channels, band by band; all of them together sum to 1.

    channels : (h, w, 3), from 0 to 1, what lies outside is counted in the first or last bin.
    n_levels : bins of each channel, so n_levels³ bins of a color
    n_bands : equally high parts from top to bottom, each with bins of its own

    Returns (n_bands · n_levels³,) float32: band by band, and within a band the third channel fastest.

    >>> black_over_white = np.array([[[0.0, 0.0, 0.0]], [[0.9, 0.9, 0.9]]])
    >>> joint_histogram(black_over_white, n_levels=2)
    array([0.5, 0. , 0. , 0. , 0. , 0. , 0. , 0.5], dtype=float32)
    >>> np.flatnonzero(joint_histogram(black_over_white, n_levels=2, n_bands=2))
    array([ 0, 15])
    """
    height, width, _ = channels.shape
    levels = np.clip((channels * n_levels).astype(np.intp), 0, n_levels - 1)
    band = np.arange(height) * n_bands // height
    bins = ((band[:, None] * n_levels + levels[..., 0]) * n_levels + levels[..., 1]) * n_levels + levels[..., 2]
    counts = np.bincount(bins.ravel(), minlength=n_bands * n_levels**3)
    shares: np.ndarray = counts / (height * width)
    return shares.astype(np.float32)


def color_histogram(space: Space, n_levels: int, n_bands: int = 1) -> Callable[[np.ndarray], np.ndarray]:
    """A function that gives the joint histogram of an image in this color space."""

    def measure(image: np.ndarray) -> np.ndarray:
        return joint_histogram(space(image), n_levels, n_bands)

    return measure
