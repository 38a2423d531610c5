"""Read image files of any kind, upright and in RGB; list and check image files."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from nearsay.data.decoding import EXTRA_FORMATS, FORMATS, MOST_PIXELS, Picture, decoded, formats, opened
from nearsay.errors import InputError, MissingExtra, require

IMAGE_ENDINGS = frozenset(ending for endings in FORMATS.values() for ending in endings)

# Of files that are no pictures, so many kinds are named.
MOST_KINDS = 8
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

    Gray images get three equal channels. Of a moving picture it is the first frame. A file that is damaged or not an
    image raises InputError. An image whose longer side has more than ``at_least`` pixels may come smaller, but with no
    fewer on that side.
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
        return f"it is none of the formats that are read: {', '.join(formats())}"
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
            f"{folder} holds no images ({', '.join(sorted(image_endings()))}), nor do the folders within it."
        )
    return files


def named_images(folder: str | os.PathLike[str]) -> list[Path]:
    """The same by their names alone: a link that leads nowhere is listed too, and there may be none."""
    endings = image_endings()
    return [file for file in _listed(folder) if file.suffix.lower() in endings]


def image_endings() -> frozenset[str]:
    """How names of files end that can be read here: ``IMAGE_ENDINGS``, and those of formats that are installed."""
    try:
        known = formats()
    except MissingExtra:  # names alone need no decoder
        return IMAGE_ENDINGS
    return IMAGE_ENDINGS.union(*(endings for name, endings in EXTRA_FORMATS.items() if name in known))


def other_files(folder: str | os.PathLike[str]) -> str | None:
    """The files of a folder that are no pictures, by kind and number, in a sentence; None without any.

    Sidecars of pictures (.xmp) are not counted.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in ("a.svg", "b.svg", "notes.txt", "LICENSE", "c.png", "c.xmp"):
    ...     (folder / name).touch()
    >>> other_files(folder)
    '4 files are not pictures: 2 .svg, 1 .txt, 1 without an ending'
    """
    endings = image_endings() | {".xmp"}
    kinds = Counter(file.suffix.lower() for file in _listed(folder) if file.suffix.lower() not in endings)
    if not kinds:
        return None
    ordered = sorted(kinds.items(), key=lambda kind: (-kind[1], kind[0] == "", kind[0]))
    named = [f"{count:,} {ending or 'without an ending'}" for ending, count in ordered[:MOST_KINDS]]
    more = sum(count for _, count in ordered[MOST_KINDS:])
    total = kinds.total()
    sentence = f"{total:,} {'file is not a picture' if total == 1 else 'files are not pictures'}: {', '.join(named)}"
    sentence += f", and {more:,} others" if more else ""
    missing = [ending for endings in EXTRA_FORMATS.values() for ending in endings if ending in kinds]
    return sentence + (f'; {" and ".join(missing)} can be read after: pip install "nearsay[heic]"' if missing else "")


def _listed(folder: str | os.PathLike[str]) -> list[Path]:
    """All files in a folder and the folders within it, in the order of their names; hidden ones left out."""
    folder = Path(folder)
    files = [
        file
        for file in folder.rglob("*")
        if not file.is_dir() and not any(part.startswith(".") for part in file.relative_to(folder).parts)
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
        raise InputError(f"It is no image of a known kind: {', '.join(formats())}.") from error
    except Exception as error:  # a damaged file can surface as nearly any of them, by the kind of file
        raise InputError(f"It cannot be read as an image ({error}).") from error
    if n_pixels > most_pixels:
        raise InputError(
            f"It has too many pixels: {n_pixels / 1e6:.0f} million, and at most {most_pixels / 1e6:.0f} million are"
            " opened. Make it smaller."
        )
    return kind
