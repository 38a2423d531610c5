"""Layout descriptors: a tiny copy of the image, and the directions of its edges, cell by cell."""

from __future__ import annotations

import numpy as np

from nearsay.describe.descriptor import brightness, resized

THUMBNAIL_SIDE = 12

# As Dalal and Triggs (2005) found best for people in street scenes, on a square of 64 pixels.
HOG_SIDE = 64
CELL = 8
DIRECTIONS = 9
BLOCK = 2
# No direction may make up more than this of a block, so that one strong edge does not outweigh the others.
LARGEST_SHARE = 0.2
FAINTEST = 1e-5


def thumbnail(image: np.ndarray) -> np.ndarray:
    """The image at 12 × 12 pixels, from 0 to 1, row by row: (432,)."""
    return resized(image, THUMBNAIL_SIDE, THUMBNAIL_SIDE).ravel()


def hog(image: np.ndarray) -> np.ndarray:
    """Histograms of oriented gradients: nine directions in 8 × 8 cells, normalized in blocks of 2 × 2: (1764,).

    An edge counts by its strength in the cell it lies in; light on dark is the same as dark on light.
    """
    gray = brightness(resized(image, HOG_SIDE, HOG_SIDE)).astype(np.float64)
    down, right = np.zeros_like(gray), np.zeros_like(gray)
    down[1:-1] = gray[2:] - gray[:-2]
    right[:, 1:-1] = gray[:, 2:] - gray[:, :-2]
    turned = np.rad2deg(np.arctan2(down, right)) % 180
    direction = np.minimum((turned * (DIRECTIONS / 180)).astype(int), DIRECTIONS - 1)  # 180 itself can round up to it
    strength = np.hypot(down, right)

    cells = HOG_SIDE // CELL
    cell = np.arange(HOG_SIDE) // CELL
    places = (cell[:, None] * cells + cell) * DIRECTIONS + direction
    histograms = np.bincount(places.ravel(), strength.ravel(), cells * cells * DIRECTIONS) / CELL**2
    windows = np.lib.stride_tricks.sliding_window_view(histograms.reshape(cells, cells, -1), (BLOCK, BLOCK), (0, 1))
    blocks = np.moveaxis(windows, 2, 4).reshape(-1, BLOCK * BLOCK * DIRECTIONS)
    return _unit_length(np.minimum(_unit_length(blocks), LARGEST_SHARE)).ravel()


def _unit_length(blocks: np.ndarray) -> np.ndarray:
    """Rows of length 1, or less where there is hardly anything."""
    lengths = np.sqrt((blocks**2).sum(axis=1, keepdims=True) + FAINTEST**2)
    return blocks / lengths
