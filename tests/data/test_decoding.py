"""Pictures from strangers: only named formats are decoded, and no picture fills the memory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from nearsay.data import decoding
from nearsay.data.images import check_image_header, read_image, read_upright
from nearsay.errors import InputError

Image = pytest.importorskip("PIL.Image", reason="images need the extra images")
SRC = Path(decoding.__file__).parents[1]

# ------------------------------------------------------------------ formats


def test_pictures_are_opened_in_one_place_and_by_named_formats():
    opens = re.compile(r"\b(?:pillow|Image|PIL)\.open\(|ImageFile|imread|\bimageio\b")
    result = [
        (path.relative_to(SRC).as_posix(), line.strip())
        for path in sorted(SRC.rglob("*.py"))
        for line in path.read_text().splitlines()
        if opens.search(line)
    ]
    assert result == [("data/decoding.py", "with _without_warnings(), pillow.open(path, formats=formats()) as image:")]


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n0 0 moveto 10 10 lineto stroke\n%%EOF\n"


@pytest.mark.skipif(os.name == "nt", reason="the stand-in for Ghostscript is a shell script")
def test_an_eps_file_of_another_name_is_refused_and_starts_no_ghostscript(tmp_path):
    started = tmp_path / "started"
    gs = tmp_path / "bin" / "gs"
    gs.parent.mkdir()
    gs.write_text(f"#!/bin/sh\necho 10.0\ntouch {started}\n")
    gs.chmod(0o755)
    picture = tmp_path / "owl.png"
    picture.write_bytes(EPS)
    code = (
        "import sys\nfrom nearsay.data.images import check_image_header, read_image\n"
        "from nearsay.errors import InputError\n"
        "for read in (check_image_header, read_image):\n"
        "    try:\n        read(sys.argv[1])\n    except InputError as error:\n        print(error)\n"
    )
    environment = {**os.environ, "PATH": f"{gs.parent}:{os.environ['PATH']}", "PYTHONPATH": str(SRC.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code, str(picture)], capture_output=True, text=True, env=environment, check=True
    )
    assert not started.exists()
    assert done.stdout.count("PNG, JPEG, GIF, BMP, TIFF, WEBP") == 2


@pytest.mark.parametrize("kind", ["ICO", "PPM", "PCX", "TGA", "SGI", "DDS", "JPEG2000"])
def test_formats_that_are_not_named_are_refused_whatever_the_file_is_called(tmp_path, kind):
    path = tmp_path / "owl.png"
    Image.new("RGB", (20, 20)).save(path, kind)
    for read in (read_image, read_upright, check_image_header):
        with pytest.raises(InputError, match="PNG, JPEG, GIF, BMP, TIFF, WEBP"):
            read(path)


def test_the_pictures_of_cameras_that_are_two_jpegs_in_a_file_are_read(tmp_path):
    first = Image.new("RGB", (40, 30), "red")
    first.save(tmp_path / "two.jpg", "MPO", save_all=True, append_images=[Image.new("RGB", (40, 30), "blue")])
    assert read_image(tmp_path / "two.jpg")[0, 0].tolist() == [254, 0, 0]


# ------------------------------------------------------------------ parts


@pytest.mark.parametrize("turn", range(1, 9))
@pytest.mark.parametrize("mode", ["P", "RGBA", "I;16", "F"])
def test_a_picture_converted_in_parts_is_the_one_converted_whole(tmp_path, mode, turn):
    values = np.random.default_rng(turn).integers(0, 256, (31, 47, 4), dtype=np.uint8)
    image = {
        "P": Image.fromarray(values[..., :3]).quantize(16),
        "RGBA": Image.fromarray(values),
        "I;16": Image.fromarray(values[..., 0].astype(np.uint16) * 257),
        "F": Image.fromarray(values[..., 0].astype(np.float32)),
    }[mode]
    exif = Image.Exif()
    exif[decoding.ORIENTATION] = turn
    path = tmp_path / "a.tif"
    if mode != "F":
        path = path.with_suffix(".png")
    image.save(path, exif=exif, **({"transparency": 3} if mode == "P" else {}))
    with decoding.opened(path) as opened:
        opened.load()  # which turns a TIFF by itself
        whole, parts = decoding.Picture(opened), decoding.Picture(opened, pixels_at_once=37, pixels_whole=0)
        upright = whole.rows(0, whole.size[1])
        assert upright.size == ((47, 31) if turn < 5 else (31, 47))
        np.testing.assert_array_equal(parts.rows(0, whole.size[1]), upright)
        np.testing.assert_array_equal(parts.reduced(2), upright.reduce(2))
        for size, resampling, as_mode in (((20, 13), "BOX", "RGB"), ((9, 11), "LANCZOS", "L")):
            how = size, Image.Resampling[resampling], as_mode
            one, other = (np.asarray(picture.resized(*how)).astype(int) for picture in (whole, parts))
            assert np.abs(one - other).max() <= 1
    np.testing.assert_array_equal(read_upright(path), upright)
    np.testing.assert_array_equal(read_upright(path, at_least=10), upright.reduce(2))


# ------------------------------------------------------------------ memory


def peak_of_reading(path, function, n_threads=1, before=""):
    """Megabytes that a fresh process takes beyond what it had before."""
    code = (
        "import re, sys, threading\nimport PIL.Image\nfrom nearsay.data import decoding, images\n"
        "def peak():\n"
        "    return int(re.search(r'VmHWM:\\s*(\\d+) kB', open('/proc/self/status').read())[1]) // 1024\n"
        f"images.IMAGE_ENDINGS\n{before}\nbase = peak()\n"
        f"threads = [threading.Thread(target=lambda: {function}) for _ in range({n_threads})]\n"
        "for each in threads:\n    each.start()\nfor each in threads:\n    each.join()\nprint(peak() - base)\n"
    )
    # What is given back goes back at once, so that the peak is of what is held together.
    at_once = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "1000000"}
    environment = {**os.environ, **at_once, "PYTHONPATH": str(SRC.parent)}
    lines = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, env=environment, check=True
    )
    assert not lines.stderr
    return int(lines.stdout)


on_linux = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs the peak of memory as Linux has it")


@pytest.mark.slow
@on_linux
@pytest.mark.parametrize(
    "function", ["images.read_image(sys.argv[1])", "images.read_upright(sys.argv[1], at_least=128)"]
)
def test_a_small_file_of_many_16_bit_pixels_takes_little_more_than_they_do(tmp_path, function):
    path = tmp_path / "large.png"
    Image.fromarray(np.zeros((5000, 6000), np.uint16)).save(path)  # 60 MB decoded, about 60 kB as a file
    assert path.stat().st_size < 100_000
    assert peak_of_reading(path, function) < 150


@pytest.mark.slow
@on_linux
def test_all_readers_of_a_process_share_one_budget(tmp_path):
    path = tmp_path / "large.png"
    Image.fromarray(np.zeros((3000, 4000), np.uint16)).save(path)
    one_at_a_time = "decoding.BUDGET.most = 73 * 10**6"
    assert peak_of_reading(path, "images.read_image(sys.argv[1])", 4, one_at_a_time) < 150  # four take more than 300


def test_who_finds_no_room_waits_until_there_is_some_and_what_never_fits_is_refused():
    budget = decoding.Budget(100)
    order = []
    with pytest.raises(InputError, match="Make it smaller"), budget.taken(101):
        pass

    def take(name, n_bytes):
        with budget.taken(n_bytes):
            order.append(name)

    with budget.taken(60):
        large = threading.Thread(target=take, args=("large", 50))
        large.start()
        time.sleep(0.1)
        small = threading.Thread(target=take, args=("small", 10))
        small.start()
        time.sleep(0.1)
        assert order == []  # the small one would fit, but it came later
    large.join(10)
    small.join(10)
    assert sorted(order) == ["large", "small"]
    with budget.taken(100):  # all was given back
        pass


def test_a_picture_that_takes_more_than_the_budget_is_refused_in_words(tmp_path, monkeypatch):
    path = tmp_path / "a.webp"
    Image.new("RGB", (100, 100)).save(path)
    monkeypatch.setattr(decoding.BUDGET, "most", 100_000)
    with pytest.raises(InputError, match=r"would take about .* of memory"):
        read_image(path)
