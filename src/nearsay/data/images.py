"""The one reader of image files: pixels as they are seen, whatever the kind of file; and which files are images."""

from __future__ import annotations

import hashlib
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.errors import InputError, require

IMAGE_ENDINGS = frozenset({".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp"})

# Descriptors say what is seen at a glance; larger images are brought to this size, so that the scale of textures and
# the time for an image do not depend on the camera.
LONGEST_SIDE = 256
# What Pillow refuses by default, and what is refused here even where that was switched off: a file of a few kilobytes
# can claim pixels that would fill the memory.
MOST_PIXELS = 178_956_970


def read_image(path: str | os.PathLike[str]) -> np.ndarray:
    """Read an image file: (h, w, 3) uint8, upright, the longer side at most 256 pixels. Needs the extra ``images``.

    What ``seen`` gives, smaller if need be, and in three channels.
    """
    # A JPEG is decoded at twice the size at least, which takes far less time for a large one.
    image = seen(path, at_least=2 * LONGEST_SIDE)
    shrink = LONGEST_SIDE / max(image.size)
    if shrink < 1:
        pillow: Any = require("PIL.Image", "images")
        image = image.resize([max(1, round(side * shrink)) for side in image.size], pillow.Resampling.BOX)
    return np.asarray(image)


def seen(path: str | os.PathLike[str], *, at_least: int | None = None) -> Any:
    """A Pillow image of mode RGB, as an image viewer shows it: upright, transparent parts white, 16 bits as 8.

    Gray images get three equal channels. Of a moving picture it is the first
    frame. A file that is damaged or not an image raises InputError. A JPEG whose
    sides are longer than ``at_least`` pixels may come smaller, but not below.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    pillow: Any = require("PIL.Image", "images")
    operations: Any = require("PIL.ImageOps", "images")
    try:
        # Pillow warns of large images and odd metadata; what matters here is whether the pixels can be had.
        with _without_warnings(), pillow.open(path) as image:
            _check_size(*image.size)  # before anything is decoded
            if at_least is not None:
                # A JPEG can be decoded at a half, a quarter or an eighth of its size; elsewhere this does nothing.
                image.draft("RGB", (at_least, at_least))
            return _on_white(_with_eight_bits(operations.exif_transpose(image)))
    except Exception as error:  # a damaged file can surface as nearly any of them, by the kind of file
        raise InputError(f"{path} cannot be read as an image ({error}).") from error


def _check_size(width: int, height: int) -> None:
    if width * height > MOST_PIXELS:
        raise InputError(f"{width:,} × {height:,} pixels; at most {MOST_PIXELS:,} are read. Make it smaller first")


def content_hash(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal: what was made of a file stays good while this is the same.

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


class _Silence:
    """How many threads are reading, and what restores the warnings after the last one."""

    lock = threading.Lock()
    readers = 0
    ignored = warnings.catch_warnings()


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Ignore warnings while any thread is within.

    ``warnings.catch_warnings`` puts back what it found on entering, for all threads: of two that overlap, the one
    that entered second would restore the silence of the first, for good. So the first one in enters it, and the last
    one out leaves it.
    """
    with _Silence.lock:
        if _Silence.readers == 0:
            _Silence.ignored = warnings.catch_warnings()
            _Silence.ignored.__enter__()
            warnings.simplefilter("ignore")
        _Silence.readers += 1
    try:
        yield
    finally:
        with _Silence.lock:
            _Silence.readers -= 1
            if _Silence.readers == 0:
                _Silence.ignored.__exit__(None, None, None)


def _with_eight_bits(image: Any) -> Any:
    """Gray images of 16 or 32 bits with 8; Pillow itself would cut off everything above 255."""
    if not image.mode.startswith(("I", "F")):
        return image
    pillow: Any = require("PIL.Image", "images")
    values = np.nan_to_num(np.asarray(image, dtype=np.float64))
    # Whole numbers use the range of 16 bits, as cameras and scanners do; others may lie anywhere.
    low, high = (0.0, 65535.0) if image.mode.startswith("I") else (values.min(), values.max())
    share = np.clip((values - low) / max(high - low, np.finfo(np.float64).tiny), 0.0, 1.0)
    eight = pillow.fromarray(np.round(share * 255).astype(np.uint8))
    if "transparency" in image.info:
        eight.putalpha(pillow.fromarray(np.where(values == image.info["transparency"], 0, 255).astype(np.uint8)))
    return eight


def _on_white(image: Any) -> Any:
    pillow: Any = require("PIL.Image", "images")
    if not (image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info):
        return image.convert("RGB")
    front = image.convert("RGBA")
    white = pillow.new("RGBA", front.size, "white")
    return pillow.alpha_composite(white, front).convert("RGB")


def image_files(folder: str | os.PathLike[str]) -> list[Path]:
    """The image files in a folder and the folders within it, in the order of their names; hidden ones left out."""
    found = [file for file in named_images(folder) if file.is_file()]
    if not found:
        raise InputError(
            f"{folder} holds no images ({', '.join(sorted(IMAGE_ENDINGS))}), nor do the folders within it."
        )
    return found


def named_images(folder: str | os.PathLike[str]) -> list[Path]:
    """The same by their names alone: a link that leads nowhere is listed too, and there may be none."""
    folder = Path(folder)
    found = [
        file
        for file in folder.rglob("*")
        if file.suffix.lower() in IMAGE_ENDINGS
        and not file.is_dir()
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
    ]
    return sorted(found, key=lambda file: file.relative_to(folder).parts)


def check_image_header(path: str | os.PathLike[str], most_pixels: int = MOST_PIXELS) -> str:
    """Refuse what is no image, and an image of too many pixels, by the first bytes of the file: nothing is decoded.

    Gives the kind of file as Pillow calls it, such as ``PNG``, whatever the name of the file ends with.
    """
    pillow: Any = require("PIL.Image", "images")
    try:
        with _without_warnings(), pillow.open(path) as image:
            n_pixels, kind = image.width * image.height, str(image.format)
    except pillow.DecompressionBombError as error:  # what Pillow itself refuses may be less than here
        raise InputError(f"It has too many pixels to be opened ({error}).") from error
    except pillow.UnidentifiedImageError as error:
        raise InputError("It is no image of a known kind.") from error
    except Exception as error:  # a damaged file can surface as nearly any of them, by the kind of file
        raise InputError(f"It cannot be read as an image ({error}).") from error
    if n_pixels > most_pixels:
        raise InputError(
            f"It has too many pixels: {n_pixels / 1e6:.0f} million, and at most {most_pixels / 1e6:.0f} million are"
            " opened. Make it smaller."
        )
    return kind
