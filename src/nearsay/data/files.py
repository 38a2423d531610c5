"""Read labeled rows from files and write them, in the format that the ending names; never by pickle."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from nearsay.data.images import IMAGE_ENDINGS, named_images, read_pixels
from nearsay.data.replacing import replacing
from nearsay.data.rows import LabeledRows
from nearsay.data.tables.array_file import read_npy, read_npz, write_npz
from nearsay.data.tables.columns import Column
from nearsay.data.tables.parquet_table import read_parquet, write_parquet
from nearsay.data.tables.text_table import read_text, write_text
from nearsay.errors import InputError, unknown_name

# Pillow's names of the ways to see an image.
COLORS = {"gray": "L", "rgb": "RGB"}
NAMED_DAMAGED = 5

Groups = Mapping[str, slice] | None


def read_rows(
    path: str | os.PathLike[str],
    *,
    label: Column | None = None,
    id: Column | None = None,
    groups: Groups = None,
    header: bool | None = None,
) -> LabeledRows:
    """Read labeled rows from a file, or from a folder of images.

    Parameters
    ----------
    path
        ``.csv``, ``.tsv``, ``.txt``
            A table of text, with or without a header; comma, semicolon, tab, bar or white space between cells.
            An empty cell, ``NA`` or ``?`` is a missing number (NaN). Labels and ids written as numbers, or as True
            and False, are such, unless they are in quotes and numbers are not.
        ``.parquet``
            A table; a column of equally long lists is a feature group. Needs the extra ``parquet``.
        ``.npz``
            Arrays ``X``, ``y`` and ``ids``; an only array of numbers may have any name.
        ``.npy``
            ``X``; labels from ``NAME_labels.npy`` in the same folder, if it exists.
        a folder
            ``folder/LABEL/*.png`` (or jpg, gif, bmp, tif, webp), as ``read_images`` reads them by default.
    label, id
        Tables: a column by name or number (−1 is the last); by default a column called label, class, target or
        y, else the last that holds text, and a column called id or not called anything.
        ``.npz``: the name of the array. ``.npy``: the path of another file.
    groups
        ``{name: slice}`` of the feature columns. By default tables take them from the column names: a name is
        a group, and ``shape[0]``, ``shape[1]``, … are together the group ``shape``.
    header
        Tables of text: whether the first line names the columns. By default that is found out; a first line
        that may be either (0,1,2 above whole numbers) is an error that asks for this.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "leaves.csv"
    >>> _ = path.write_text("width,height,label\\n1,2,oak\\n3,4,elm\\n")
    >>> read_rows(path)
    <LabeledRows leaves: 2 rows × 2 columns (float64), 2 labels, groups: width (1), height (1)>
    """
    path = Path(path)
    if path.is_dir():
        if any(given is not None for given in (label, id, groups, header)):
            raise InputError("A folder of images names its labels by its folders; no other arguments apply.")
        return read_images(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no file or folder {path}.")
    read: Reader = _by_ending(path, READERS, "read")
    if header is not None:
        if read is not read_text:
            raise InputError(f"Only a table of text may have a header or not; {path.name} is none. Leave header= out.")
        return read_text(path, label, id, groups, header)
    return read(path, label, id, groups)


def write_rows(rows: LabeledRows, path: str | os.PathLike[str]) -> None:
    """Write rows to ``.csv``, ``.tsv``, ``.npz`` or ``.parquet``, so that ``read_rows`` gives them back.

    A file already there is replaced only when the new one is whole. ``.npz`` and ``.parquet`` keep the type of the
    numbers; text tables keep their values, to the last bit, and give them back as float64.
    """
    write: Writer = _by_ending(Path(path), WRITERS, "write")
    try:
        with replacing(path) as out:
            write(rows, out)
    except UnicodeError as error:
        raise InputError(
            f"A label, an id or a group cannot be written as UTF-8 ({error}). Correct it first."
        ) from error


def read_images(
    folder: str | os.PathLike[str], *, size: tuple[int, int] = (32, 32), color: str = "gray"
) -> LabeledRows:
    """Read ``folder/LABEL/*.png`` (or another image): one row per image, brightness 0 to 255, line by line.

    Every file is read as ``describe.read_image`` does: upright, 16 bits as 8,
    transparent parts white, the first frame of several. Needs the extra ``images``.

    Parameters
    ----------
    size : (height, width)
        Every image is resized to this, whatever its shape.
    color : "gray" or "rgb"
        With "rgb" the three values of a pixel stand side by side: ``row.reshape(height, width, 3)``.

    Images go by name within their label, and their ids are ``LABEL/FILE``.
    Files that cannot be read as images are left out and named in a warning.
    """
    if color not in COLORS:
        raise unknown_name("color", color, COLORS)
    if not (len(size) == 2 and all(isinstance(side, int) and side > 0 for side in size)):
        raise InputError(f"The size is (height, width) in whole pixels; got {size!r}.")
    folder = Path(folder)
    files = [file for file in named_images(folder) if file.parent.parent == folder and file.is_file()]
    if not files:
        raise InputError(f"{folder} holds no images. Expected {folder}/LABEL/NAME with {_listed(IMAGE_ENDINGS)}.")
    X = np.empty((len(files), size[0] * size[1] * len(COLORS[color])), np.uint8)
    kept: list[Path] = []
    damaged: list[str] = []
    for file in files:
        try:
            X[len(kept)] = read_pixels(file, (size[1], size[0]), COLORS[color]).reshape(-1)
            kept.append(file)
        except InputError as error:
            damaged.append(f"{file.relative_to(folder).as_posix()} ({error.__cause__})")
    if not kept:
        raise InputError(f"None of the {len(files)} images in {folder} can be read. First: {damaged[0]}.")
    if damaged:
        more = f" and {len(damaged) - NAMED_DAMAGED} more" * (len(damaged) > NAMED_DAMAGED)
        warnings.warn(
            f"{len(damaged)} of {len(files)} images cannot be read and are left out:"
            f" {'; '.join(damaged[:NAMED_DAMAGED])}{more}.",
            stacklevel=2,
        )
    return LabeledRows(
        X[: len(kept)],
        [file.parent.name for file in kept],
        ids=[file.relative_to(folder).as_posix() for file in kept],
        name=folder.resolve().name,
    )


# ------------------------------------------------------------------ by ending

Reader = Callable[[Path, Column | None, Column | None, Groups], LabeledRows]
Writer = Callable[[LabeledRows, IO[bytes]], None]

READERS: dict[str, Reader] = {
    ".csv": read_text,
    ".tsv": read_text,
    ".txt": read_text,
    ".npy": read_npy,
    ".npz": read_npz,
    ".parquet": read_parquet,
}
WRITERS: dict[str, Writer] = {
    ".csv": lambda rows, out: write_text(rows, out, ","),
    ".tsv": lambda rows, out: write_text(rows, out, "\t"),
    ".npz": write_npz,
    ".parquet": write_parquet,
}


def _by_ending(path: Path, table: Mapping[str, Any], verb: str) -> Any:
    if path.suffix.lower() not in table:
        raise InputError(f"Cannot {verb} {path.name}: known endings are {_listed(table)}.")
    return table[path.suffix.lower()]


def _listed(names: Any) -> str:
    return ", ".join(sorted(map(str, names)))
