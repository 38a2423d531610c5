"""Bags of visual words: small patches of an image, counted in a vocabulary that is learned from images.

    image ──► patches (a vector each, every few pixels) ──► the nearest of n_words ──► shares of each word

Two kinds of patches: ``sift``, in which directions brightness changes in each of 4 × 4 cells (after Lowe 2004),
and ``hue``, which colors there are, the stronger ones counting more (after van de Weijer and Schmid 2006).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.core.documented import DocumentedEstimator
from nearsay.core.parallel import in_parallel, one_blas_thread
from nearsay.core.settings import check_whole
from nearsay.data.images import read_image
from nearsay.describe.descriptor import as_image, brightness
from nearsay.errors import InputError, NotFitted, require, unknown_name

# Pixels of a cell's side. A patch has 4 × 4 cells, and patches start at every cell.
CELL_SIDES = (4, 6, 8)
CELLS = 4
SIFT_DIRECTIONS = 8
# No single direction may make up more of a patch than this (before it is scaled to length one again).
LARGEST_SHARE = 0.2
HUES = 36
# In units of brightness (0 to 255) summed over a patch: less than this is the noise of an even patch.
FAINTEST = 16.0

Patches = tuple[np.ndarray, np.ndarray]


class BagOfWords(DocumentedEstimator):
    """Shares of visual words in an image, in a vocabulary that ``fit`` learns: a descriptor once it is fitted.

    Parameters
    ----------
    patches : "sift" or "hue"
    n_words : int, default=1000
        Size of the vocabulary.
    n_bands : int, default=1
        Equally high parts of the image from top to bottom, each with bins of its own (3 is the 3 × 1 layout).
    seed : int, default=0
        The vocabulary depends on it.

    Attributes
    ----------
    vocabulary_ : (n_words, columns of a patch) float32
        The words; fewer than ``n_words`` where the images have fewer distinct patches.

    >>> stripes = [np.tile(np.array([0, 0, 255, 255], np.uint8), (32, 8)), np.zeros((32, 32), np.uint8)]
    >>> words = BagOfWords(n_words=2).fit(stripes)
    >>> words(stripes[1]).tolist() in ([0.0, 1.0], [1.0, 0.0])
    True
    """

    most_images, most_patches = 1000, 100_000  # enough for a vocabulary of a thousand words
    vocabulary_: np.ndarray

    def __init__(self, patches: str = "sift", n_words: int = 1000, *, n_bands: int = 1, seed: int = 0) -> None:
        self.patches = patches
        self.n_words = n_words
        self.n_bands = n_bands
        self.seed = seed

    @property
    def name(self) -> str:
        return f"{self.patches}_words" + (f"_{self.n_bands}x1" if self.n_bands > 1 else "")

    @property
    def metric(self) -> str:
        return "manhattan"

    def fit(self, images: Iterable[Any], y: Any = None) -> BagOfWords:
        """Learn the vocabulary by k-means on patches of at most 1000 of the images (arrays, or paths of files).

        Files that cannot be read are left out and named in a warning.
        """
        from sklearn.cluster import MiniBatchKMeans

        self._check()
        patches = self._sample(list(images))
        n_words = min(self.n_words, len(np.unique(patches, axis=0)))
        # On one thread the sums of k-means are always made in the same order.
        with one_blas_thread(), _one_openmp_thread():
            means = MiniBatchKMeans(n_words, random_state=self.seed, batch_size=4096, n_init=1, max_iter=10)
            self.vocabulary_ = np.ascontiguousarray(means.fit(patches).cluster_centers_, dtype=np.float32)
        return self

    def in_bands(self, n_bands: int) -> BagOfWords:
        """The same words counted in so many bands, without learning them again."""
        other = BagOfWords(self.patches, self.n_words, n_bands=n_bands, seed=self.seed)
        other._check()
        other.vocabulary_ = self._words()
        return other

    def __call__(self, image: Any) -> np.ndarray:
        """Shares of the words, band by band: (n_bands · words,) float32 that sum to 1."""
        words = self._words()
        patches, heights = PATCHES[self.patches](as_image(image))
        with one_blas_thread():
            # The nearest word: |p − w|² = |p|² + 2 (|w|²/2 − p·w), and the first term is the same for all.
            scores = np.einsum("ij,ij->i", words, words) / 2 - patches @ words.T
        band = (heights * self.n_bands).astype(np.intp)
        counts = np.bincount(band * len(words) + scores.argmin(axis=1), minlength=self.n_bands * len(words))
        return (counts / len(patches)).astype(np.float32)

    def _words(self) -> np.ndarray:
        if not hasattr(self, "vocabulary_"):
            raise NotFitted(f"{self!r} has no vocabulary yet. Learn one first: .fit(images).")
        return self.vocabulary_

    def _check(self) -> None:
        if self.patches not in PATCHES:
            raise unknown_name("kind of patches", self.patches, PATCHES)
        for name in ("n_words", "n_bands"):
            check_whole(name, getattr(self, name), least=1)

    def _sample(self, images: list[Any]) -> np.ndarray:
        """Patches of some of the images, as many of each image: (n, columns) float32.

        Which ones depends on the content of the images, and not on the order in which they are listed.
        """
        if not images:
            raise InputError("A vocabulary is learned from images; got none.")
        lots = list(in_parallel(self._lot, images))
        chosen = sorted(range(len(images)), key=lots.__getitem__)[: self.most_images]
        most = max(1, self.most_patches // len(chosen))

        def some_patches(number: int) -> np.ndarray | str:
            image = images[number]
            try:
                pixels = read_image(image) if isinstance(image, str | os.PathLike) else as_image(image)
            except (InputError, FileNotFoundError) as error:
                return str(error)
            patches, _ = PATCHES[self.patches](pixels)
            random = np.random.default_rng(lots[number])
            return patches[np.sort(random.permutation(len(patches))[:most])]

        results = in_parallel(some_patches, chosen)
        unread = [result for result in results if isinstance(result, str)]
        if len(unread) == len(results):
            raise InputError(f"None of the {len(results)} images can be read. {unread[0]}")
        if unread:
            warnings.warn(f"{len(unread)} of {len(results)} images are left out. {unread[0]}", stacklevel=3)
        return np.concatenate([patches for patches in results if not isinstance(patches, str)])

    def _lot(self, image: Any) -> int:
        """A pseudo-random number from the content of an image, or of its file."""
        digest = blake2b(str(self.seed).encode(), digest_size=16)
        if isinstance(image, str | os.PathLike):
            try:
                digest.update(Path(image).read_bytes())
            except OSError:  # reported when it is decoded
                digest.update(os.fsencode(image))
        else:
            pixels = np.asarray(image)
            digest.update(f"{pixels.shape} {pixels.dtype}".encode() + pixels.tobytes())
        return int.from_bytes(digest.digest())


def _one_openmp_thread() -> Any:
    from threadpoolctl import threadpool_limits

    return threadpool_limits(limits=1, user_api="openmp")


# ------------------------------------------------------------------ patches


def sift_patches(image: np.ndarray) -> Patches:
    """How brightness changes around each place: (n, 128) float32 of length 1 (0 where it is even), and the heights.

    A height is where the middle of a patch lies, from 0 (top) up to 1.
    """
    gray = brightness(_large_enough(image))
    down, right = np.gradient(gray)
    patches, heights = _patches(np.arctan2(down, right), np.hypot(down, right), SIFT_DIRECTIONS)
    patches = _unit_length(patches.reshape(len(patches), -1))
    return _unit_length(np.minimum(patches, LARGEST_SHARE), faintest=0.0), heights


def hue_patches(image: np.ndarray) -> Patches:
    """Which hues there are around each place: (n, 36) float32 of length 1 (0 without color), and the heights.

    Pixels are weighted by their saturation, since the hue of a gray one is arbitrary.
    """
    red, green, blue = np.moveaxis(_large_enough(image).astype(np.float32), 2, 0)
    across, along = (red - green) / np.float32(np.sqrt(2)), (red + green - 2 * blue) / np.float32(np.sqrt(6))
    patches, heights = _patches(np.arctan2(across, along), np.hypot(across, along), HUES)
    return _unit_length(patches.sum(axis=(1, 2))), heights


PATCHES: dict[str, Callable[[np.ndarray], Patches]] = {"sift": sift_patches, "hue": hue_patches}


def _patches(angles: np.ndarray, weights: np.ndarray, n_bins: int) -> Patches:
    """Histograms of angles in the cells of all patches, at each size: (n, 4, 4, n_bins), and the heights."""
    by_side = [_cells(angles, weights, n_bins, side) for side in CELL_SIDES]
    windows = [np.lib.stride_tricks.sliding_window_view(cells, (CELLS, CELLS), axis=(0, 1)) for cells in by_side]
    heights = [
        np.repeat((np.arange(window.shape[0]) + CELLS / 2) * side / len(angles), window.shape[1])
        for window, side in zip(windows, CELL_SIDES, strict=True)
    ]
    flat = [np.moveaxis(window, 2, 4).reshape(-1, CELLS, CELLS, n_bins) for window in windows]
    return np.concatenate(flat), np.concatenate(heights)


def _cells(angles: np.ndarray, weights: np.ndarray, n_bins: int, side: int) -> np.ndarray:
    """Weighted histograms of angles in cells of side × side pixels, each angle shared by the two nearest bins."""
    rows, columns = angles.shape[0] // side, angles.shape[1] // side
    angles, weights = (values[: rows * side, : columns * side] for values in (angles, weights))
    place = (angles / np.float32(2 * np.pi)) % 1 * n_bins
    below = np.floor(place)
    cell = (np.arange(rows * side) // side)[:, None] * columns + np.arange(columns * side) // side
    share = weights * (place - below)
    total = np.zeros(rows * columns * n_bins)
    for bins, part in ((below, weights - share), (below + 1, share)):
        where = cell * n_bins + bins.astype(np.intp) % n_bins
        total += np.bincount(where.ravel(), weights=part.ravel(), minlength=len(total))
    return total.reshape(rows, columns, n_bins).astype(np.float32)


def _unit_length(rows: np.ndarray, faintest: float = FAINTEST) -> np.ndarray:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.where(length > faintest, rows / np.maximum(length, np.finfo(np.float32).tiny), np.float32(0))


def _large_enough(image: np.ndarray) -> np.ndarray:
    """The image, enlarged where it could not hold a patch of every size."""
    shortest = CELLS * max(CELL_SIDES)
    height, width = image.shape[:2]
    if min(height, width) >= shortest:
        return image
    pillow: Any = require("PIL.Image", "images")
    larger = pillow.fromarray(image).resize((max(width, shortest), max(height, shortest)), pillow.Resampling.BILINEAR)
    return np.asarray(larger)
