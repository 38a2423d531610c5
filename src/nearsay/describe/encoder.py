"""The base of encoders: images preprocessed as in the training of a network, batches, and one vector per image.

images ──► Preprocessing (size, crop, mean, std, layout) ──► the model, batch by batch ──► mean over places ──► vectors
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.core.parallel import in_parallel
from nearsay.core.settings import check_whole
from nearsay.data.images import read_image
from nearsay.describe.descriptor import ImageDescriptor, as_image
from nearsay.errors import InputError, require, unknown_name

# Of red, green and blue over ImageNet, in units of 0 to 1: what most published networks were trained with.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

# A smaller one is a mistake, and may overflow; 1/255 leaves levels from 0 to 255 unchanged.
SMALLEST_STD = 1e-6

LAYOUTS = ("NCHW", "NHWC")
RESAMPLINGS = ("bicubic", "bilinear")

BATCH_SIZE = 32


@runtime_checkable
class ImageEncoder(ImageDescriptor, Protocol):
    """A descriptor that is faster on many images at once."""

    def encode(self, images: Iterable[Any]) -> np.ndarray: ...


@dataclass(frozen=True, init=False)
class Preprocessing:
    """How images are prepared for a network; vectors are comparable only if this is the same.

    Parameters
    ----------
    size : int or (height, width)
        In pixels; one number for a square.
    mean, std : float or three floats
        Of red, green and blue, in units of 0 to 1: a channel becomes (value / 255 − mean) / std.
    crop : bool
        Cut the largest part of the right shape out of the middle. False: stretch the whole image.
    resampling : "bicubic" or "bilinear"
        Either one is smoothed when an image is made smaller, as Pillow does.
    layout : "NCHW" or "NHWC"
        Channels before height and width (torch), or after them (TensorFlow).

    >>> gray = np.full((6, 4), 51, np.uint8)
    >>> Preprocessing(2, mean=0.5, std=0.5)([gray]).shape
    (1, 3, 2, 2)
    >>> Preprocessing(2, mean=0.5, std=0.5)([gray])[0, 0, 0]  # (51 / 255 − .5) / .5
    array([-0.6, -0.6], dtype=float32)
    """

    size: tuple[int, int]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    crop: bool
    resampling: str
    layout: str

    def __init__(
        self,
        size: int | tuple[int, int],
        *,
        mean: float | Iterable[float] = IMAGENET_MEAN,
        std: float | Iterable[float] = IMAGENET_STD,
        crop: bool = True,
        resampling: str = "bicubic",
        layout: str = "NCHW",
    ) -> None:
        if resampling not in RESAMPLINGS:
            raise unknown_name("resampling", resampling, RESAMPLINGS)
        assign = object.__setattr__  # the class is frozen
        assign(self, "size", as_size(size))
        assign(self, "mean", _as_channels(mean, "mean"))
        assign(self, "std", _as_channels(std, "std"))
        if max(self.mean) > 1:
            raise InputError(f"mean is in units of 0 to 1; got {mean!r}. Divide mean and std by 255.")
        if min(self.std) < SMALLEST_STD:
            raise InputError(f"std must be at least {SMALLEST_STD:g} in every channel; got {std!r}.")
        assign(self, "crop", bool(crop))
        assign(self, "resampling", resampling)
        assign(self, "layout", as_layout(layout))

    def __call__(self, images: Iterable[Any]) -> np.ndarray:
        """A batch: (n, 3, height, width) float32, or (n, height, width, 3). Needs the package pillow."""
        batch = np.stack(in_parallel(self._prepare, images))
        return batch if self.layout == "NHWC" else np.ascontiguousarray(batch.transpose(0, 3, 1, 2))

    def as_dict(self) -> dict[str, Any]:
        """All parameters as JSON values."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    def _prepare(self, image: Any) -> np.ndarray:
        pillow: Any = require("PIL.Image", "images")
        pixels = read_image(image) if isinstance(image, str | os.PathLike) else as_image(image)
        height, width = self.size
        box = middle(pixels.shape[0], pixels.shape[1], height, width) if self.crop else None
        filtered = pillow.Resampling[self.resampling.upper()]
        sized = np.asarray(pillow.fromarray(pixels).resize((width, height), filtered, box=box), dtype=np.float32)
        mean, std = (np.array(channels, dtype=np.float32) for channels in (self.mean, self.std))
        return (sized / np.float32(255) - mean) / std


def middle(height: int, width: int, to_height: int, to_width: int) -> tuple[float, float, float, float]:
    """The largest part in the middle of an image that has another's shape: left, top, right, bottom.

    >>> middle(128, 192, 224, 224)
    (32.0, 0.0, 160.0, 128.0)
    """
    scale = min(height / to_height, width / to_width)
    # Rounding must not carry the part over the edge: Pillow refuses one that is outside by any amount.
    left, top = max(0.0, (width - to_width * scale) / 2), max(0.0, (height - to_height * scale) / 2)
    return left, top, width - left, height - top


class Encoder(ABC):
    """A network as a descriptor: ``encode(images)`` is (n, columns) float32, ``encoder(image)`` one such row.

    The outputs for the places of an image are averaged. Vectors do not depend on which
    images share a batch, except for float32 rounding: a library may add in another order for another batch size or
    number of threads (about 1e-5 of the largest value).
    """

    def __init__(self, preprocessing: Preprocessing, *, name: str, metric: str, batch_size: int) -> None:
        self._preprocessing = preprocessing
        self.name = name
        self.metric = metric
        self.batch_size = check_whole("batch_size", batch_size, least=1)

    @property
    def preprocessing(self) -> dict[str, Any]:
        """How images are prepared, as a plain dict: keep it as JSON with the vectors."""
        return self._preprocessing.as_dict()

    def check_preprocessing(self, recorded: Mapping[str, Any]) -> None:
        """Raise InputError unless vectors made with the ``recorded`` preprocessing can be compared with this encoder's.

        Only the preprocessing is compared, not the model itself.
        """
        here = self.preprocessing
        unlike = [
            f"{key} {recorded.get(key)!r} instead of {here.get(key)!r}"
            for key in sorted({*here, *recorded})
            if recorded.get(key) != here.get(key)
        ]
        if unlike:
            raise InputError(
                f"The recorded vectors were made with {', '.join(unlike)}, so they cannot be compared with those of"
                f" {self!r}. Make the encoder with the recorded preprocessing, or encode the images again."
            )

    def encode(self, images: Iterable[Any]) -> np.ndarray:
        """Vectors of many images: (n, columns) float32.

        Images are (h, w, 3) or gray (h, w) arrays of uint8 of any sizes, or paths of files, which ``read_image`` reads
        batch by batch. A damaged or huge file raises an InputError that names it; ``describe_images`` skips it.
        """
        if isinstance(images, str | os.PathLike):
            raise InputError(f"encode takes many images; got one path. Pass a list: [{os.fspath(images)!r}].")
        images = list(images)
        if not images:
            raise InputError("No images given. Pass at least one: a path, or pixels as read_image gives them.")
        return np.concatenate(
            [self._encode_batch(images[rows]) for rows in row_blocks(len(images), size=self.batch_size)]
        )

    def __call__(self, image: Any) -> np.ndarray:
        return self.encode([image])[0]

    def __repr__(self) -> str:
        height, width = self._preprocessing.size
        return f"<encoder {self.name}, {height} × {width} pixels, compared by {self.metric}>"

    def _encode_batch(self, images: list[Any]) -> np.ndarray:
        vectors = mean_over_places(self._outputs(self._preprocessing(images)), self._preprocessing.layout)
        if len(vectors) != len(images):
            raise InputError(
                f"The model {self.name} gave {len(vectors)} vectors for {len(images)} images. It must keep the first"
                " axis, or pass batch_size=1."
            )
        if not np.isfinite(vectors).all():
            raise InputError(
                f"The model {self.name} gave numbers that are not finite. Compare mean and std with those of its"
                " training, and the type of its numbers: 16 bits overflow early."
            )
        return vectors

    @abstractmethod
    def _outputs(self, batch: np.ndarray) -> np.ndarray:
        """What the model gives for a batch of prepared images, one row per image."""


def mean_over_places(outputs: np.ndarray, layout: str = "NCHW") -> np.ndarray:
    """One vector per image, (n, columns) float32: the mean over height and width, or over the tokens of three axes.

    >>> mean_over_places(np.arange(8.0).reshape(1, 2, 2, 2))
    array([[1.5, 5.5]], dtype=float32)
    >>> mean_over_places(np.arange(8.0).reshape(1, 2, 2, 2), "NHWC")
    array([[3., 4.]], dtype=float32)
    """
    if outputs.ndim not in (2, 3, 4) or not outputs.size:
        raise InputError(
            "A model must give (n, columns), (n, tokens, columns) or a map of places (four axes);"
            f" got shape {outputs.shape}. Name another layer or output."
        )
    if outputs.ndim == 2:
        return np.ascontiguousarray(outputs, dtype=np.float32)
    places = (2, 3) if outputs.ndim == 4 and layout == "NCHW" else tuple(range(1, outputs.ndim - 1))
    return outputs.mean(axis=places, dtype=np.float64).astype(np.float32)


def as_layout(layout: Any) -> str:
    """One of the layouts that batches of images have."""
    if layout not in LAYOUTS:
        raise unknown_name("layout", layout, LAYOUTS)
    return str(layout)


def as_size(size: Any) -> tuple[int, int]:
    """(height, width) in pixels; one number stands for both.

    >>> as_size(224)
    (224, 224)
    """
    sides = np.ravel(np.asarray(size))
    if sides.dtype.kind not in "iu" or len(sides) not in (1, 2) or sides.min() < 1:
        raise InputError(f"size must be a whole number of pixels or (height, width); got {size!r}.")
    return int(sides[0]), int(sides[-1])


def _as_channels(values: Any, name: str) -> tuple[float, float, float]:
    try:
        numbers = np.broadcast_to(np.asarray(values, dtype=np.float64), (3,))
    except (TypeError, ValueError):
        numbers = np.full(3, np.nan)
    if not np.isfinite(numbers).all():
        raise InputError(f"{name} must be one number or three, for red, green and blue; got {values!r}.")
    red, green, blue = numbers.tolist()
    return red, green, blue
