"""Safe decoding of untrusted pictures: known formats only, converted in bands, within a memory budget.

    file ──► one of formats()? ─────► size in the header ──► room in the budget? ──► decoded ──► bands, upright, RGB
               else refused             too large: refused       else it waits

A file of a hundred kilobytes can hold fifty million pixels. Once Pillow has decoded them, no other copy of a large
picture is made: it is turned, brought to 8 bits, laid on white and made smaller a band of rows at a time. The result is
that of a conversion in one piece.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from nearsay.errors import InputError, MissingExtra, require

# The only decoders that are used, and how names of their files end. Pillow has forty others; that of EPS starts
# Ghostscript. An MPO file, as some cameras write it, is a JPEG and read as one.
FORMATS = {
    "PNG": (".png",),
    "JPEG": (".jpg", ".jpeg"),
    "GIF": (".gif",),
    "BMP": (".bmp",),
    "TIFF": (".tif", ".tiff"),
    "WEBP": (".webp",),
}
# Those that not every installation has: AVIF is part of newer Pillows, HEIC needs the extra.
EXTRA_FORMATS = {"AVIF": (".avif",), "HEIF": (".heic", ".heif")}
# What Pillow refuses by default, and what is refused here even where that was switched off: a file of a few kilobytes
# can claim pixels that would fill the memory.
MOST_PIXELS = 178_956_970
# Bytes that all pictures being decoded by this process take together, and so the most that one may take.
MOST_BYTES = 1536 * 2**20
# Pixels that are converted at once: in float64, some megabytes.
PIXELS_AT_ONCE = 2**18
# Pixels of a picture that is resized in one piece. Most cameras have fewer.
PIXELS_WHOLE = 2**24
# Bytes of a decoded pixel; Pillow takes four for all other modes.
PIXEL_BYTES = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16L": 2, "I;16B": 2, "I;16N": 2}
# Further memory of decoders, in bytes a pixel: frames to draw on, strips, whole files.
DECODER_BYTES = {"GIF": 4, "TIFF": 8, "WEBP": 12, "AVIF": 12, "HEIF": 12}
# Rows of the upright picture lie in columns of the file, and are counted from its end, for these values of EXIF.
SIDEWAYS, FROM_END = (5, 6, 7, 8), (3, 4, 7, 8)
TURNS = {2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE", 6: "ROTATE_270",
         7: "TRANSVERSE", 8: "ROTATE_90"}  # fmt: skip
ORIENTATION = 0x0112


@cache
def formats() -> tuple[str, ...]:
    """The formats that this installation reads."""
    features: Any = require("PIL.features", "images")
    with_avif = ("AVIF",) if "avif" in features.modules and features.check("avif") else ()
    try:
        require("pillow_heif", "heic").register_heif_opener()
    except MissingExtra:
        return (*FORMATS, *with_avif)
    return (*FORMATS, *with_avif, "HEIF")


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Any]:
    """The Pillow image of a file, its header read and nothing decoded; the one place that opens pictures."""
    pillow: Any = require("PIL.Image", "images")
    # Pillow warns of large images and odd metadata; what matters here is whether the pixels can be had.
    with _without_warnings(), pillow.open(path, formats=formats()) as image:
        yield image


@contextmanager
def decoded(path: str | os.PathLike[str], at_least: int | None = None) -> Iterator[Picture]:
    """The picture of a file, decoded; it may wait until others have been read.

    A JPEG whose sides are longer than ``at_least`` pixels may come smaller, but not below.
    """
    with opened(path) as image:
        width, height = image.size
        if width * height > MOST_PIXELS:
            raise InputError(f"{width:,} × {height:,} pixels; at most {MOST_PIXELS:,} are read. Make it smaller first")
        if at_least is not None:
            # A JPEG can be decoded at a half, a quarter or an eighth of its size; elsewhere this does nothing.
            image.draft("RGB", (at_least, at_least))
        with BUDGET.taken(_memory(image, width * height)):
            image.load()
            yield Picture(image)


def _memory(image: Any, n_pixels: int) -> int:
    """Bytes that decoding takes, and one RGB copy of the result; ``n_pixels`` of the file, which may be more."""
    kept = image.size[0] * image.size[1] * (PIXEL_BYTES.get(image.mode, 4) + 4)
    if image.info.get("progressive"):  # a JPEG whose coefficients are all held until the last of them is read
        return int(kept + n_pixels * 2 * len(image.getbands()))
    return int(kept + n_pixels * DECODER_BYTES.get(image.format, 0))


class Budget:
    """A memory budget shared by threads; those that find no room wait in turn."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._held = 0
        self._room = threading.Condition()
        # So that small pictures cannot pass a large one forever.
        self._next = threading.Lock()

    @contextmanager
    def taken(self, n_bytes: int) -> Iterator[None]:
        """Reserve bytes; more than the whole budget is refused."""
        if n_bytes > self.most:
            raise InputError(
                f"decoding it would take about {n_bytes / 1e9:.1f} GB of memory; at most {self.most / 1e9:.1f} GB are"
                " taken. Make it smaller first"
            )
        with self._next, self._room:
            self._room.wait_for(lambda: self._held + n_bytes <= self.most)
            self._held += n_bytes
        try:
            yield
        finally:
            with self._room:
                self._held -= n_bytes
                self._room.notify_all()


BUDGET = Budget(MOST_BYTES)


class Picture:
    """A decoded picture: upright, transparent parts white, 8 bits; rows are converted on request.

    size : (width, height), upright.
    pixels_at_once : that are converted together.
    pixels_whole : of a picture that is resized in one piece.
    """

    def __init__(self, image: Any, pixels_at_once: int = PIXELS_AT_ONCE, pixels_whole: int = PIXELS_WHOLE) -> None:
        self._image = image
        self._at_once, self._whole = pixels_at_once, pixels_whole
        self._turn = image.getexif().get(ORIENTATION, 1)
        if self._turn not in TURNS:
            self._turn = 1
        self.size: tuple[int, int] = image.size[::-1] if self._turn in SIDEWAYS else image.size
        self._range = self._brightness()

    def rows(self, top: int, bottom: int) -> Any:
        """These rows as a Pillow image of mode RGB."""
        pillow: Any = require("PIL.Image", "images")
        width, height = self._image.size
        if self._turn in FROM_END:
            top, bottom = self.size[1] - bottom, self.size[1] - top
        band = self._converted((top, 0, bottom, height) if self._turn in SIDEWAYS else (0, top, width, bottom))
        return band if self._turn == 1 else band.transpose(pillow.Transpose[TURNS[self._turn]])

    def bands(self, multiple: int = 1) -> Iterator[tuple[int, Any]]:
        """(its first row, the band) for all rows, some at a time; as many as a multiple of a number."""
        width, height = self.size
        at_once = max(self._at_once // width // multiple, 1) * multiple
        for top in range(0, height, at_once):
            yield top, self.rows(top, min(top + at_once, height))

    def resized(self, size: tuple[int, int], resampling: Any, mode: str = "RGB") -> Any:
        """A Pillow image of the mode and size.

        Of more than ``pixels_whole`` pixels the rows are made narrower first, a band at a time, and then the columns
        shorter. Pillow does the same, except where it finds the other order faster: then a value may differ by one.
        """
        pillow: Any = require("PIL.Image", "images")
        if self.size[0] * self.size[1] <= self._whole:
            return self.rows(0, self.size[1]).convert(mode).resize(size, resampling)
        narrow = pillow.new(mode, (size[0], self.size[1]))
        for top, band in self.bands():
            narrow.paste(band.convert(mode).resize((size[0], band.size[1]), resampling), (0, top))
        return narrow.resize(size, resampling)

    def reduced(self, factor: int) -> Any:
        """A Pillow image of mode RGB in which each pixel is the mean of a square of ``factor`` × ``factor``."""
        pillow: Any = require("PIL.Image", "images")
        small = pillow.new("RGB", tuple(-(-side // factor) for side in self.size))
        for top, band in self.bands(factor):
            small.paste(band.reduce(factor), (0, top // factor))
        return small

    # ------------------------------------------------------------ conversions

    def _converted(self, box: tuple[int, int, int, int]) -> Any:
        """A part of the picture, oriented as in the file, in RGB. A row may be as long as the whole picture."""
        pillow: Any = require("PIL.Image", "images")
        tiles = list(_tiles(box, self._at_once))
        if len(tiles) == 1:
            return _on_white(self._with_eight_bits(self._image.crop(box)))
        whole = pillow.new("RGB", (box[2] - box[0], box[3] - box[1]))
        for tile in tiles:
            whole.paste(_on_white(self._with_eight_bits(self._image.crop(tile))), (tile[0] - box[0], tile[1] - box[1]))
        return whole

    def _brightness(self) -> tuple[float, float]:
        """The black and white levels of pixels with more than 8 bits."""
        if not self._image.mode.startswith("F"):
            return 0.0, 65535.0  # whole numbers use the range of 16 bits, as cameras and scanners do
        low, high = np.inf, -np.inf
        for tile in _tiles((0, 0, *self._image.size), self._at_once):
            values = _values(self._image.crop(tile))
            low, high = min(low, values.min()), max(high, values.max())
        return low, high

    def _with_eight_bits(self, image: Any) -> Any:
        """Gray images of 16 or 32 bits with 8; Pillow itself would cut off everything above 255."""
        if not image.mode.startswith(("I", "F")):
            return image
        pillow: Any = require("PIL.Image", "images")
        values = _values(image)
        low, high = self._range
        share = np.clip((values - low) / max(high - low, np.finfo(np.float64).tiny), 0.0, 1.0)
        eight = pillow.fromarray(np.round(share * 255).astype(np.uint8))
        if "transparency" in image.info:
            eight.putalpha(pillow.fromarray(np.where(values == image.info["transparency"], 0, 255).astype(np.uint8)))
        return eight


def _values(image: Any) -> np.ndarray:
    return np.nan_to_num(np.asarray(image, dtype=np.float64))


def _on_white(image: Any) -> Any:
    pillow: Any = require("PIL.Image", "images")
    if not (image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info):
        return image.convert("RGB")
    front = image.convert("RGBA")
    white = pillow.new("RGBA", front.size, "white")
    return pillow.alpha_composite(white, front).convert("RGB")


def _tiles(box: tuple[int, int, int, int], at_once: int) -> Iterator[tuple[int, int, int, int]]:
    """A box in parts, none of much more than ``at_once`` pixels.

    >>> list(_tiles((0, 0, 100, 2), at_once=100))
    [(0, 0, 100, 1), (0, 1, 100, 2)]
    """
    left, top, right, bottom = box
    across = min(right - left, at_once)
    down = max(at_once // across, 1)
    for y in range(top, bottom, down):
        for x in range(left, right, across):
            yield x, y, min(x + across, right), min(y + down, bottom)


# ------------------------------------------------------------------ warnings


class _Silence:
    """The number of threads that are reading, and how to restore the warnings after the last one."""

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
