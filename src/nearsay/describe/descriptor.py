"""Descriptors: functions from images to vectors, with a name and the metric for these vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from nearsay.errors import InputError, require

# Brightness of red, green and blue as televisions weigh them (ITU-R BT.601).
BRIGHTNESS = np.array([0.299, 0.587, 0.114], dtype=np.float32)


@runtime_checkable
class ImageDescriptor(Protocol):
    """Protocol of descriptors: a function from an image to a vector, with a name and the metric for these vectors."""

    @property
    def name(self) -> str: ...

    @property
    def metric(self) -> str: ...

    def __call__(self, image: Any) -> np.ndarray: ...


@dataclass(frozen=True)
class Descriptor:
    """A named function from images of any size to vectors of one length: ``descriptor(image)`` is (columns,) float32.

    Parameters
    ----------
    name : str
        What the feature group is called.
    metric : str
        A name of ``nearsay.distances.DISTANCES`` that suits these vectors.
    measure : function of an (h, w, 3) uint8 image
        What computes the vector.

    >>> red = Descriptor("redness", "manhattan", lambda image: image[..., 0].mean(keepdims=True).ravel() / 255)
    >>> red(np.full((2, 2, 3), 51, dtype=np.uint8))
    array([0.2], dtype=float32)
    """

    name: str
    metric: str
    measure: Callable[[np.ndarray], np.ndarray]

    def __call__(self, image: Any) -> np.ndarray:
        return np.ascontiguousarray(self.measure(as_image(image)), dtype=np.float32)

    def __repr__(self) -> str:
        return f"<descriptor {self.name}, compared by {self.metric}>"


def as_image(image: Any) -> np.ndarray:
    """Give an (h, w, 3) array of uint8; a gray image (h, w) gets three equal channels.

    >>> as_image([[0, 1]])
    Traceback (most recent call last):
    nearsay.errors.InputError: An image is an array of uint8, (h, w, 3) or gray (h, w); got int64 of shape (1, 2). ...
    """
    pixels = np.asarray(image)
    if pixels.dtype != np.uint8 or not (pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] == 3)):
        raise InputError(
            f"An image is an array of uint8, (h, w, 3) or gray (h, w); got {pixels.dtype} of shape {pixels.shape}."
            " Files of any kind are read by nearsay.describe.read_image."
        )
    if pixels.size == 0:
        raise InputError(f"An image needs at least one pixel; got shape {pixels.shape}.")
    return np.repeat(pixels[..., None], 3, axis=2) if pixels.ndim == 2 else pixels


def resized(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """The image at another size, stretched where the shape differs: (height, width, 3) float32 from 0 to 1.

    Made smaller, each new pixel is the mean of the area it covers.
    """
    pillow: Any = require("PIL.Image", "images")
    filtered = pillow.Resampling.BOX if min(image.shape[:2]) >= min(height, width) else pillow.Resampling.BILINEAR
    small = pillow.fromarray(image).resize((width, height), filtered)
    return np.asarray(small, dtype=np.float32) / np.float32(255)


def brightness(image: np.ndarray) -> np.ndarray:
    """How bright each pixel is, in the units of the image: (h, w) float32.

    >>> brightness(np.array([[[0, 255, 0]]], dtype=np.uint8))
    array([[149.685]], dtype=float32)
    """
    return image.astype(np.float32, copy=False) @ BRIGHTNESS
