"""Texture descriptors: Haar wavelets and Gabor filters.

Each image is first brought to one size, so that vectors of landscapes and portraits can be compared place by
place. *Haar* wavelets compare neighboring squares at several scales. *Gabor* waves are short stripes of one
width and direction; their response has a strength (there are such stripes) and a phase (where exactly).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from scipy import fft

from nearsay.describe.descriptor import BRIGHTNESS, brightness, resized
from nearsay.errors import require

# Brightness, orange against blue and purple against green (the YIQ of television).
YIQ = np.array([BRIGHTNESS, [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]], dtype=np.float32)

# Resizing rounds to whole levels of brightness, which changes wavelets: so resize to this, then take block means.
RESIZED_SIDE = 64
HAAR_SIDE = 32
HAAR_SIGNS_SIDE = 16
# How many of the 255 responses of a channel keep their sign: as in the image queries of Jacobs et al. (1995).
LARGEST_RESPONSES = 40

GABOR_SIDE = 128
# Mean phases tell more where a block holds few stripes: they are computed on a smaller image.
PHASES_SIDE = 64
PHASES = 8
# Changes of brightness by less than 5 % are taken for noise.
FAINT = 0.05


def haar(image: np.ndarray) -> np.ndarray:
    """Strengths of the Haar wavelets of brightness, at five scales and in three directions: (1023,)."""
    gray = brightness(resized(image, RESIZED_SIDE, RESIZED_SIDE))[None]
    return np.abs(haar_responses(block_means(gray, HAAR_SIDE)[0]))


def haar_signs(image: np.ndarray) -> np.ndarray:
    """Signs of the 40 strongest Haar wavelets of each channel (brightness and two colors), 0 elsewhere: (765,).

    Makadia et al. (2008) keep the sign of every response to brightness, most of which is chance. Where
    responses are equally strong, those of larger scale come first; one of no strength at all stays 0.
    """
    channels = np.moveaxis(resized(image, RESIZED_SIDE, RESIZED_SIDE) @ YIQ.T, 2, 0)
    # Rounding leaves traces where the image is even; a thousandth of a level of brightness is none.
    strength_and_sign = np.round(haar_responses(block_means(channels, HAAR_SIGNS_SIDE)) * 255, 3)
    strongest = np.argsort(-np.abs(strength_and_sign), axis=1, kind="stable")[:, :LARGEST_RESPONSES]
    signs = np.zeros_like(strength_and_sign, dtype=np.float32)
    np.put_along_axis(signs, strongest, np.sign(np.take_along_axis(strength_and_sign, strongest, axis=1)), axis=1)
    return signs.ravel()


def haar_responses(squares: np.ndarray) -> np.ndarray:
    """All Haar wavelet coefficients but the mean, from the largest scale to the smallest.

    (…, side, side) gives (…, side² − 1); the side is a power of two.

    >>> haar_responses(np.array([[3.0, 1.0], [1.0, 1.0]]))      # horizontal, vertical and diagonal, halved sums
    array([1., 1., 1.])
    """
    wavelets: Any = require("pywt", "images")
    _mean, *details = wavelets.wavedec2(squares, "haar", mode="periodization", axes=(-2, -1))
    flat = [direction.reshape(*squares.shape[:-2], -1) for scale in details for direction in scale]
    return np.concatenate(flat, axis=-1)


def gabor(image: np.ndarray) -> np.ndarray:
    """Mean strength of 3 scales × 4 directions of stripes in each of 4 × 4 parts of the image: (192,)."""
    gray = brightness(resized(image, GABOR_SIDE, GABOR_SIDE))
    return block_means(np.abs(responses(gray, gabor_waves(GABOR_SIDE, 3, 4))), 4).ravel()


def gabor_phases(image: np.ndarray) -> np.ndarray:
    """Mean phase of 3 scales × 4 directions of stripes in each of 8 × 8 parts, in eighths of a turn, 0 to 7: (768,)."""
    gray = brightness(resized(image, PHASES_SIDE, PHASES_SIDE))
    answered = responses(gray, gabor_waves(PHASES_SIDE, 3, 4))
    angles = np.arctan2(answered.imag, answered.real)
    turn = block_means(angles, 8) / (2 * np.pi) + 0.5
    return np.clip(np.floor(turn * PHASES), 0, PHASES - 1).astype(np.float32).ravel()


def gist(image: np.ndarray) -> np.ndarray:
    """The shape of the scene: strength of 4 scales × 8 directions in 4 × 4 parts, light and contrast evened: (512,).

    After Oliva and Torralba (2001).
    """
    gray = even_contrast(brightness(resized(image, GABOR_SIDE, GABOR_SIDE)))
    return block_means(np.abs(responses(gray, gabor_waves(GABOR_SIDE, 4, 8))), 4).ravel()


def responses(gray: np.ndarray, waves: np.ndarray) -> np.ndarray:
    """Complex response of a square image to each of the waves: (n_waves, side, side) complex64."""
    spectrum = fft.fft2(gray)
    return fft.ifft2(spectrum * waves, axes=(1, 2))


@lru_cache(maxsize=8)
def gabor_waves(side: int, n_scales: int, n_components: int) -> np.ndarray:
    """Gabor filters as factors of the spectrum, one octave wide and touching at half height.

    (n_scales · n_components, side, side) float32; wavelengths of 4, 8, 16, … pixels, the shortest first. No
    filter answers to brightness itself.
    """
    y, x = np.meshgrid(np.fft.fftfreq(side), np.fft.fftfreq(side), indexing="ij")
    at_half_height = np.sqrt(2 * np.log(2))
    bank = np.empty((n_scales * n_components, side, side), dtype=np.float32)
    for scale in range(n_scales):
        frequency = 0.25 / 2**scale
        along_width = frequency / 3 / at_half_height
        across_width = frequency * np.tan(np.pi / (2 * n_components)) / at_half_height
        for direction in range(n_components):
            angle = np.pi * direction / n_components
            along = x * np.cos(angle) + y * np.sin(angle)
            across = y * np.cos(angle) - x * np.sin(angle)
            exponent = ((along - frequency) / along_width) ** 2 + (across / across_width) ** 2
            bank[scale * n_components + direction] = np.exp(-exponent / 2)
    bank[:, 0, 0] = 0
    bank.setflags(write=False)
    return bank


def block_means(maps: np.ndarray, n_blocks: int) -> np.ndarray:
    """Mean of each map over n_blocks × n_blocks equal parts: (n_maps, n_blocks, n_blocks) float32.

    >>> block_means(np.arange(16.0).reshape(1, 4, 4), 2)
    array([[[ 2.5,  4.5], [10.5, 12.5]]], dtype=float32)
    """
    size = maps.shape[1] // n_blocks
    means: np.ndarray = maps.reshape(len(maps), n_blocks, size, n_blocks, size).mean(axis=(2, 4))
    return means.astype(np.float32)


def even_contrast(gray: np.ndarray) -> np.ndarray:
    """Take away slow changes of light, and divide by the contrast around each place.

    Multiplying the light in an image changes the result little; an even image becomes 0 everywhere.
    """
    from scipy.ndimage import gaussian_filter

    logarithm = np.log1p(gray * 255)
    around = len(gray) / 16

    def smooth(values: np.ndarray) -> np.ndarray:
        return gaussian_filter(values, around, mode="reflect", truncate=2.0)

    change = logarithm - smooth(logarithm)
    contrast = np.sqrt(np.maximum(smooth(change**2), 0.0))
    return change / (FAINT + contrast)
