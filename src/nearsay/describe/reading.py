"""Image files as pixels, whatever the kind of file, and which files of a folder are images."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.errors import InputError, require

IMAGE_ENDINGS = frozenset({".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp"})

# Descriptors say what is seen at a glance; larger images are brought to this size, so that the scale of textures and
# the time for an image do not depend on the camera.
LONGEST_SIDE = 256


def read_image(path: str | os.PathLike[str]) -> np.ndarray:
    """Read an image file: (h, w, 3) uint8, upright, the longer side at most 256 pixels. Needs the extra ``images``.

    Gray images get three equal channels, 16 bits become 8, and what is transparent becomes white. Of a moving
    picture it is the first frame. A file that is damaged or no image raises InputError.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    pillow: Any = require("PIL.Image", "images")
    operations: Any = require("PIL.ImageOps", "images")
    try:
        with warnings.catch_warnings():
            # Pillow warns of large images and odd metadata; what matters here is whether the pixels can be had.
            warnings.simplefilter("ignore")
            with pillow.open(path) as image:
                # A JPEG can be decoded at a half, a quarter or an eighth of its size; elsewhere this does nothing.
                image.draft("RGB", (2 * LONGEST_SIDE, 2 * LONGEST_SIDE))
                upright = operations.exif_transpose(image)
                seen = _on_white(_with_eight_bits(upright))
    except (OSError, SyntaxError, ValueError, pillow.DecompressionBombError) as error:
        raise InputError(f"{path} cannot be read as an image ({error}).") from error
    shrink = LONGEST_SIDE / max(seen.size)
    if shrink < 1:
        seen = seen.resize([max(1, round(side * shrink)) for side in seen.size], pillow.Resampling.BOX)
    return np.asarray(seen)


def _with_eight_bits(image: Any) -> Any:
    """Gray images of 16 or 32 bits with 8; Pillow itself would cut off everything above 255."""
    if not image.mode.startswith(("I", "F")):
        return image
    pillow: Any = require("PIL.Image", "images")
    values = np.nan_to_num(np.asarray(image, dtype=np.float64))
    # Whole numbers use the range of 16 bits, as cameras and scanners do; others may lie anywhere.
    low, high = (0.0, 65535.0) if image.mode.startswith("I") else (values.min(), values.max())
    share = np.clip((values - low) / max(high - low, np.finfo(np.float64).tiny), 0.0, 1.0)
    return pillow.fromarray(np.round(share * 255).astype(np.uint8))


def _on_white(image: Any) -> Any:
    pillow: Any = require("PIL.Image", "images")
    if not (image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info):
        return image.convert("RGB")
    front = image.convert("RGBA")
    white = pillow.new("RGBA", front.size, "white")
    return pillow.alpha_composite(white, front).convert("RGB")


def image_files(folder: str | os.PathLike[str]) -> list[Path]:
    """The image files in a folder and the folders within it, in the order of their names; hidden ones left out."""
    folder = Path(folder)
    found = [
        file
        for file in folder.rglob("*")
        if file.suffix.lower() in IMAGE_ENDINGS
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
    ]
    if not found:
        raise InputError(
            f"{folder} holds no images ({', '.join(sorted(IMAGE_ENDINGS))}), nor do the folders within it."
        )
    return sorted(found, key=lambda file: file.relative_to(folder).parts)
