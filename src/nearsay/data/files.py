"""Rows from files and to files, by the ending of the name; never by pickle."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from nearsay.core.arrays import READING_A_HEADER
from nearsay.data.images import IMAGE_ENDINGS, read_pixels
from nearsay.data.replacing import replacing
from nearsay.data.rows import LabeledRows
from nearsay.data.tables import LABEL_NAMES, Column, read_parquet, write_parquet
from nearsay.data.text_tables import read_text, write_text
from nearsay.errors import InputError, SavedFileError, unknown_name

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
            ``X``; labels from ``NAME_labels.npy`` beside ``NAME.npy`` where that exists.
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

    A file already there is replaced only when the new one is whole. ``.npz``
    and ``.parquet`` keep the type of the numbers; text tables keep their values,
    to the last bit, and give them back as float64.
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
    files = sorted(
        file for file in folder.glob("[!.]*/[!.]*") if file.suffix.lower() in IMAGE_ENDINGS and file.is_file()
    )
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


# ------------------------------------------------------------------ arrays


def _read_npy(path: Path, label: Column | None, id: Column | None, groups: Groups) -> LabeledRows:
    beside = path.with_name(f"{path.stem}_labels.npy")
    if label is None and beside.exists():
        label = str(beside)
    y, ids = (None if other is None else _load_one(Path(str(other))) for other in (label, id))
    return LabeledRows(_flat(_load_one(path)), y, groups or {}, ids, path.stem)


def _read_npz(path: Path, label: Column | None, id: Column | None, groups: Groups) -> LabeledRows:
    stored = _load_all(path)
    y = _stored(stored, label, (*LABEL_NAMES, "labels"), path)
    ids = _stored(stored, id, ("ids", "id"), path)
    if groups is None:
        groups = _stored_groups(stored, path)
    matrices = [name for name, values in stored.items() if values.ndim >= 2 and name != "group_slices"]
    if "X" not in stored and len(matrices) != 1:
        raise InputError(
            f"{path.name} holds {_listed(stored)}; none is called X, and {len(matrices)} could be the rows."
        )
    return LabeledRows(_flat(stored["X" if "X" in stored else matrices[0]]), y, groups or {}, ids, path.stem)


def _stored(
    stored: Mapping[str, np.ndarray], asked: Column | None, known: tuple[str, ...], path: Path
) -> np.ndarray | None:
    if asked is not None and asked not in stored:
        raise InputError(f"{path.name} holds no array {asked!r}. It holds {_listed(stored)}.")
    names = known if asked is None else (str(asked),)
    return next((stored[name] for name in names if name in stored), None)


def _stored_groups(stored: Mapping[str, np.ndarray], path: Path) -> dict[str, slice]:
    held = {name: stored[name] for name in ("group_names", "group_slices") if name in stored}
    if not held:
        return {}
    shapes = [array.shape for array in held.values()]
    n_groups = held["group_names"].size if "group_names" in held else 0
    if shapes != [(n_groups,), (n_groups, 2)] or held["group_slices"].dtype.kind not in "iu":
        given = " and ".join(f"{name} of shape {array.shape} ({array.dtype})" for name, array in held.items())
        raise InputError(
            f"{path.name} holds {given}; feature groups are saved as n group_names and n group_slices, each the first"
            " column and the one after the last. Save both, or pass groups={name: slice} (groups={} for none)."
        )
    names, bounds = (array.tolist() for array in held.values())
    return {name: slice(*bound) for name, bound in zip(names, bounds, strict=True)}


def _load_one(path: Path) -> np.ndarray:
    loaded = _load(path)
    if not isinstance(loaded, np.ndarray):
        raise InputError(f"{path.name} is an archive of arrays; one array is expected. Give its name the ending .npz.")
    return loaded


def _load_all(path: Path) -> dict[str, np.ndarray]:
    loaded = _load(path)
    if isinstance(loaded, np.ndarray):
        raise InputError(f"{path.name} is one array; an archive is expected. Give its name the ending .npy.")
    for name, array in loaded.items():
        if not isinstance(array, np.ndarray):
            raise InputError(f"{path.name} holds {name!r}, which is no array. Save it again with np.savez.")
    return loaded


def _load(path: Path) -> np.ndarray | dict[str, Any]:
    """An array, or for an archive a dictionary of what it holds."""
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    try:
        with READING_A_HEADER:
            loaded = np.load(path, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return loaded
            with loaded:
                return {name: loaded[name] for name in loaded.files}
    except Exception as error:  # a damaged header is read as Python, a damaged archive as zip: nearly any may come
        if "Object arrays" in str(error):
            raise InputError(
                f"{path.name} holds Python objects, which nearsay does not load: opening such a file can run any"
                " program. Save numbers, and labels as texts."
            ) from error
        # numpy takes whatever does not begin as an array or an archive for a pickle, and offers to load it.
        why = "it does not begin as a numpy file" if "allow_pickle" in str(error) else str(error)
        raise SavedFileError(f"{path.name} cannot be read as numpy arrays: {why}. Copy or save it again.") from error


def _flat(X: np.ndarray) -> np.ndarray:
    """Items of more dimensions (images) as rows."""
    return X.reshape(len(X), math.prod(X.shape[1:])) if X.ndim > 2 else X


def _write_npz(rows: LabeledRows, out: IO[bytes]) -> None:
    arrays: dict[str, Any] = {"X": rows.X}
    for name, values in (("y", rows.y), ("ids", rows.ids)):
        if values is not None:
            if values.dtype.kind == "O":
                raise InputError(
                    f"{name} holds Python objects, which would need pickle. Convert it to texts or numbers."
                )
            arrays[name] = values
    if rows.feature_groups:
        arrays["group_names"] = np.array(list(rows.feature_groups))
        arrays["group_slices"] = np.array([(part.start, part.stop) for part in rows.feature_groups.values()])
    np.savez(out, **arrays)


# ------------------------------------------------------------------ by ending

Reader = Callable[[Path, Column | None, Column | None, Groups], LabeledRows]
Writer = Callable[[LabeledRows, IO[bytes]], None]

READERS: dict[str, Reader] = {
    ".csv": read_text,
    ".tsv": read_text,
    ".txt": read_text,
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".parquet": read_parquet,
}
WRITERS: dict[str, Writer] = {
    ".csv": lambda rows, out: write_text(rows, out, ","),
    ".tsv": lambda rows, out: write_text(rows, out, "\t"),
    ".npz": _write_npz,
    ".parquet": write_parquet,
}


def _by_ending(path: Path, table: Mapping[str, Any], verb: str) -> Any:
    if path.suffix.lower() not in table:
        raise InputError(f"Cannot {verb} {path.name}: known endings are {_listed(table)}.")
    return table[path.suffix.lower()]


def _listed(names: Any) -> str:
    return ", ".join(sorted(map(str, names)))
