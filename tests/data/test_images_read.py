"""Image files of every kind, odd and damaged: one reader for folders of rows and for descriptors."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearsay.data import read_images
from nearsay.data.images import IMAGE_ENDINGS, read_image
from nearsay.errors import InputError

Image = pytest.importorskip("PIL.Image", reason="images need the extra images")

SIDE = 8
GRAYS = np.arange(0, 256, 4, dtype=np.uint8).reshape(SIDE, SIDE)
SIXTEEN_BITS = GRAYS.astype(np.uint16) * 257
# PNG's numbers of the ways to write a pixel, and how many values it has.
GRAY, COLOR, GRAY_ALPHA, COLOR_ALPHA = (0, 1), (2, 3), (4, 2), (6, 4)


def png(values: np.ndarray, kind: tuple[int, int], transparent: int | None = None) -> bytes:
    """A PNG written byte by byte from its specification: (height, width, channels) of 8 or 16 bits."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    lines = values.reshape(len(values), -1).astype(values.dtype.newbyteorder(">"))
    header = struct.pack(">IIBBBBB", values.shape[1], len(values), 8 * values.itemsize, kind[0], 0, 0, 0)
    clear = b"" if transparent is None else chunk(b"tRNS", struct.pack(f">{kind[1]}H", *[transparent] * kind[1]))
    content = zlib.compress(b"".join(b"\0" + line.tobytes() for line in lines))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + clear + chunk(b"IDAT", content) + chunk(b"IEND", b"")


def with_channels(values: np.ndarray, kind: tuple[int, int], alpha: np.ndarray | None) -> np.ndarray:
    colors = np.repeat(values[..., None], kind[1] if alpha is None else kind[1] - 1, axis=2)
    return colors if alpha is None else np.concatenate([colors, alpha[..., None].astype(values.dtype)], axis=2)


def on_white(alpha: np.ndarray) -> np.ndarray:
    """What is seen of GRAYS behind an alpha from 0 to 255, by the formula."""
    share = alpha / 255
    return share * GRAYS + (1 - share) * 255


def read_as_row(folder: Path, content: bytes, name: str = "image.png") -> np.ndarray:
    (folder / "label").mkdir(exist_ok=True)
    (folder / "label" / name).write_bytes(content)
    return read_images(folder, size=(SIDE, SIDE)).X.reshape(SIDE, SIDE)


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("kind", [GRAY, COLOR])
def test_all_brightnesses_are_kept_in_8_and_in_16_bits(tmp_path: Path, bits: int, kind: tuple[int, int]) -> None:
    values = with_channels(GRAYS if bits == 8 else SIXTEEN_BITS, kind, None)
    np.testing.assert_array_equal(read_as_row(tmp_path, png(values, kind)), GRAYS)
    np.testing.assert_array_equal(read_image(tmp_path / "label" / "image.png"), np.dstack([GRAYS] * 3))


def test_the_mean_of_all_16_bit_values_is_the_middle(tmp_path: Path) -> None:
    values = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    (tmp_path / "label").mkdir()
    (tmp_path / "label" / "ramp.png").write_bytes(png(values[..., None], GRAY))
    assert read_images(tmp_path, size=(256, 256)).X.mean() == pytest.approx(127.5, abs=0.01)


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("kind", [GRAY_ALPHA, COLOR_ALPHA])
@pytest.mark.parametrize("alpha", [0, 1, 128, 254, 255])
def test_what_is_transparent_lies_on_white(tmp_path: Path, bits: int, kind: tuple[int, int], alpha: int) -> None:
    scale = 1 if bits == 8 else 257
    behind = np.full(GRAYS.shape, alpha)
    values = with_channels(GRAYS.astype(f"u{bits // 8}") * scale, kind, behind * scale)
    result = read_as_row(tmp_path, png(values.astype(f"u{bits // 8}"), kind))
    assert np.abs(result.astype(float) - on_white(behind)).max() <= 1


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("kind", [GRAY, COLOR])
def test_a_color_that_stands_for_nothing_is_white(tmp_path: Path, bits: int, kind: tuple[int, int]) -> None:
    """Black on a background that the file calls transparent, and a picture that is black there too."""
    values = with_channels(GRAYS if bits == 8 else SIXTEEN_BITS, kind, None)
    result = read_as_row(tmp_path, png(values, kind, transparent=0))
    np.testing.assert_array_equal(result, np.where(GRAYS == 0, 255, GRAYS))


def test_black_on_transparent_is_black_on_white(tmp_path: Path) -> None:
    drawing = np.zeros((SIDE, SIDE, 4), np.uint8)
    drawing[2:5, 3, 3] = 255
    result = read_as_row(tmp_path, png(drawing, COLOR_ALPHA))
    np.testing.assert_array_equal(result, 255 - drawing[..., 3])


def test_rows_and_descriptors_read_the_same_pixels_from_every_kind_of_file(tmp_path: Path) -> None:
    (tmp_path / "label").mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held on its side
    files = {
        "gray.png": (Image.fromarray(GRAYS), {}),
        "16 bits.tif": (Image.fromarray(SIXTEEN_BITS), {}),
        "floats.tiff": (Image.fromarray(GRAYS.astype(np.float32)), {}),
        "palette.gif": (Image.fromarray(GRAYS).convert("P"), {}),
        "two colors.bmp": (Image.fromarray(GRAYS).convert("1"), {}),
        "cmyk.jpg": (Image.fromarray(np.dstack([GRAYS] * 3)).convert("CMYK"), {}),
        "photo.jpeg": (Image.fromarray(np.dstack([GRAYS, GRAYS.T, GRAYS])), {}),
        "web.webp": (Image.fromarray(np.dstack([GRAYS, GRAYS.T, GRAYS, GRAYS])), {"lossless": True}),
        "turned.png": (Image.fromarray(GRAYS), {"exif": exif}),
    }
    for name, (image, options) in files.items():
        image.save(tmp_path / "label" / name, **options)
    assert {Path(name).suffix for name in files} == IMAGE_ENDINGS
    rows = read_images(tmp_path, size=(SIDE, SIDE), color="rgb")
    assert rows.ids.tolist() == sorted(f"label/{name}" for name in files)
    for id, row in zip(rows.ids, rows.X, strict=True):
        np.testing.assert_array_equal(row.reshape(SIDE, SIDE, 3), read_image(tmp_path / id), err_msg=id)


# ------------------------------------------------------------------ damage


def whole_files() -> dict[str, bytes]:
    colors = np.dstack([GRAYS, GRAYS.T, GRAYS])
    files = {"clear.png": png(with_channels(GRAYS, COLOR_ALPHA, GRAYS), COLOR_ALPHA)}
    kinds = {"a.png": "RGB", "a.jpg": "RGB", "a.gif": "P", "a.bmp": "RGB", "a.tif": "RGB", "a.webp": "RGB"}
    for name, mode in kinds.items():
        out = io.BytesIO()
        Image.fromarray(colors).convert(mode).save(out, format={"jpg": "JPEG", "tif": "TIFF"}.get(name[2:], name[2:]))
        files[name] = out.getvalue()
    return files


WHOLE = whole_files()


def reads_or_is_refused(path: Path) -> bool:
    try:
        pixels = read_image(path)
    except InputError:
        return False
    assert pixels.dtype == np.uint8
    assert pixels.ndim == 3
    return True


@pytest.mark.parametrize("name", WHOLE)
def test_an_image_cut_short_anywhere_is_read_or_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    for length in range(len(WHOLE[name])):
        path.write_bytes(WHOLE[name][:length])
        reads_or_is_refused(path)
    path.write_bytes(WHOLE[name])
    assert reads_or_is_refused(path)


@pytest.mark.parametrize("name", WHOLE)
@settings(max_examples=60)
@given(data=st.data())
def test_an_image_with_changed_bytes_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    damaged = bytearray(WHOLE[name])
    place = st.integers(0, len(damaged) - 1)
    for position, value in data.draw(st.lists(st.tuples(place, st.integers(0, 255)), min_size=1, max_size=4)):
        damaged[position] = value
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(damaged)
    reads_or_is_refused(path)
