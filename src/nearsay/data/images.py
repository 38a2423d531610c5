"""Read image files of any kind, upright and in RGB; list and check image files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from nearsay.data.decoding import FORMATS, MOST_PIXELS, Picture, decoded, opened
from nearsay.errors import InputError, require

IMAGE_ENDINGS = frozenset({".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp"})

# Larger images are reduced to this size, so that the scale of textures and the time for an image do not depend on the
# camera.
LONGEST_SIDE = 256

Made = TypeVar("Made")


def read_image(path: str | os.PathLike[str]) -> np.ndarray:
    """Read an image file: (h, w, 3) uint8, upright, the longer side at most 256 pixels. Needs the extra ``images``.

    What ``read_upright`` gives, smaller if need be, and in three channels.
    """

    def small(picture: Picture) -> np.ndarray:
        shrink = LONGEST_SIDE / max(picture.size)
        if shrink >= 1:
            return np.asarray(picture.rows(0, picture.size[1]))
        pillow: Any = require("PIL.Image", "images")
        width, height = (max(1, round(side * shrink)) for side in picture.size)
        return np.asarray(picture.resized((width, height), pillow.Resampling.BOX))

    # A JPEG is decoded at twice the size at least, which takes far less time for a large one.
    return _read(path, small, at_least=2 * LONGEST_SIDE)


def read_pixels(path: str | os.PathLike[str], size: tuple[int, int], mode: str) -> np.ndarray:
    """All of an image at a size (width, height), stretched where the shape differs, in a mode of Pillow."""
    pillow: Any = require("PIL.Image", "images")
    return _read(path, lambda picture: np.asarray(picture.resized(size, pillow.Resampling.LANCZOS, mode)))


def read_upright(path: str | os.PathLike[str], *, at_least: int | None = None) -> Any:
    """A Pillow image of mode RGB, as an image viewer shows it: upright, transparent parts white, 16 bits as 8.

    Gray images get three equal channels. Of a moving picture it is the first
    frame. A file that is damaged or not an image raises InputError. An image
    whose longer side has more than ``at_least`` pixels may come smaller, but
    with no fewer on that side.
    """

    def shown(picture: Picture) -> Any:
        factor = 1 if at_least is None else max(picture.size) // (2 * at_least)
        return picture.reduced(factor) if factor > 1 else picture.rows(0, picture.size[1])

    return _read(path, shown, at_least)


def _read(path: str | os.PathLike[str], made_of: Callable[[Picture], Made], at_least: int | None = None) -> Made:
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    require("PIL.Image", "images")
    try:
        with decoded(path, at_least) as picture:
            return made_of(picture)
    except Exception as error:  # a damaged file can surface as nearly any of them, by the kind of file
        raise InputError(f"{path} cannot be read as an image ({_reason(error)}).") from error


def _reason(error: Exception) -> str:
    if type(error).__name__ == "UnidentifiedImageError":
        return f"it is none of the formats that are read: {', '.join(FORMATS)}"
    return str(error)


def content_hash(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file in hexadecimal, to detect changes.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "empty.png"
    ...     file.touch()
    ...     content_hash(file)[:16]
    'e3b0c44298fc1c14'
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def image_files(folder: str | os.PathLike[str]) -> list[Path]:
    """The image files in a folder and the folders within it, in the order of their names; hidden ones left out."""
    files = [file for file in named_images(folder) if file.is_file()]
    if not files:
        raise InputError(
            f"{folder} holds no images ({', '.join(sorted(IMAGE_ENDINGS))}), nor do the folders within it."
        )
    return files


def named_images(folder: str | os.PathLike[str]) -> list[Path]:
    """The same by name only, without opening files: broken links are listed too, and the list may be empty."""
    folder = Path(folder)
    files = [
        file
        for file in folder.rglob("*")
        if file.suffix.lower() in IMAGE_ENDINGS
        and not file.is_dir()
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
    ]
    return sorted(files, key=lambda file: file.relative_to(folder).parts)


def check_image_header(path: str | os.PathLike[str], most_pixels: int = MOST_PIXELS) -> str:
    """Raise an error for files that are no images or have too many pixels, by the header; nothing is decoded.

    Gives the kind of file as Pillow calls it, such as ``PNG``, whatever the name of the file ends with.
    """
    pillow: Any = require("PIL.Image", "images")
    try:
        with opened(path) as image:
            n_pixels, kind = image.width * image.height, str(image.format)
    except pillow.DecompressionBombError as error:  # what Pillow itself refuses may be less than here
        raise InputError(f"It has too many pixels to be opened ({error}).") from error
    except pillow.UnidentifiedImageError as error:
        raise InputError(f"It is no image of a known kind: {', '.join(FORMATS)}.") from error
    except Exception as error:  # a damaged file can surface as nearly any of them, by the kind of file
        raise InputError(f"It cannot be read as an image ({error}).") from error
    if n_pixels > most_pixels:
        raise InputError(
            f"It has too many pixels: {n_pixels / 1e6:.0f} million, and at most {most_pixels / 1e6:.0f} million are"
            " opened. Make it smaller."
        )
    return kind
