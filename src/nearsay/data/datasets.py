"""The papers' data sets, by name.

Small ones come with scikit-learn, and emoji with nearsay. The others are read from the folder that the
environment variable NEARSAY_DATA names, else from the user's cache. Nothing is
downloaded: the error for a missing set says which files to put where.
"""

from __future__ import annotations

import gzip
import inspect
import struct
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from nearsay.data.catalog import DATASETS, LEAF_FILES, MNIST_FILES, split_parts
from nearsay.data.files import read_rows
from nearsay.data.rows import LabeledRows
from nearsay.errors import InputError, SavedFileError, closest, unknown_name

if TYPE_CHECKING:
    from nearsay.data.annotated_rows import AnnotatedRows
    from nearsay.data.corel5k import AnnotatedImages
    from nearsay.data.emoji_pictures import EmojiPictures

SPECIMENS = 16
WHEAT_FEATURES = ("area", "perimeter", "compactness", "kernel length", "kernel width", "asymmetry", "groove length")
# Each array starts with a mark (0, 0, 8 for unsigned bytes, its number of dimensions), then its sizes.
IDX_MARK = b"\x00\x00\x08"


@overload
def load_dataset(name: Literal["corel5k"], **options: object) -> AnnotatedImages: ...  # type: ignore[overload-overlap]


@overload
def load_dataset(name: Literal["emoji"], **options: object) -> EmojiPictures: ...  # type: ignore[overload-overlap]


@overload
def load_dataset(name: Literal["emotions", "medical"], **options: object) -> AnnotatedRows: ...  # type: ignore[overload-overlap]


@overload
def load_dataset(name: str, **options: object) -> LabeledRows: ...


def load_dataset(name: str, **options: object) -> Any:
    """Load one of the papers' data sets, ready to use: LabeledRows, or what its keywords need.

    ================ ======================================================== ==============================
    name             what it is                                               options
    ================ ======================================================== ==============================
    iris             150 flowers, 4 measures, 3 species (scikit-learn)
    wine             178 wines, 13 measures, 3 growers (scikit-learn)
    breast_cancer    569 tumors, 30 measures, benign or not (scikit-learn)
    digits           1797 images of 8 × 8 pixels, 10 digits (scikit-learn)
    seeds            210 wheat kernels, 7 measures, 3 varieties
    glass            214 pieces of glass, 9 measures, 6 kinds
    satimage         6435 places seen from space, 36 values, 6 soils
    segment          2310 patches of images, 19 measures, 7 surfaces
    vehicle          846 outlines of vehicles, 18 measures, 4 kinds
    vowel            990 spoken vowels, 10 measures, 11 vowels
    yeast            1484 proteins, 8 measures, 10 places in the cell
    leaves           1600 leaves, 3 × 64 features, 100 species                groups, join, missing_specimen
    mnist            70,000 images of 28 × 28 pixels, 10 digits               split, n
    tin200           25,000 images as 256 features, 200 classes               split
    emotions         593 pieces of music, 72 features, some of 6 moods each
    medical          978 radiology reports, 1449 words, some of 45 codes each
    corel5k          4,999 photographs with up to five keywords each          split
    emoji            1,911 emoji drawn by two artists, 97 subgroups, keywords split, every_subgroup
    ================ ======================================================== ==============================

    Where each measure has a name, it is a feature group of its own. ``split``
    is "train" (default), "test" or "all"; ``n`` keeps the first n rows.

    emoji comes with nearsay (``EmojiPictures``). Train is every picture by one artist and half of the other's, test the
    other half. ``every_subgroup=True`` has the flags of countries and the skin tones too: 99 subgroups.

    leaves: ``groups`` names some of shape, texture and margin. ``join="label"`` puts the features of one leaf together,
    by species and position within the species; ``join="row"`` goes by line number, though the shape file has another
    order: the mistake of the paper, only to reproduce it. One leaf of Acer Campestre has no texture (NaN), and the data
    do not say which: ``missing_specimen``, from 1 to 16.

    >>> load_dataset("iris")
    <LabeledRows iris: 150 rows × 4 columns (float64), 3 labels, groups: sepal length (1), sepal width (1), ...>
    >>> load_dataset("irsi")
    Traceback (most recent call last):
    nearsay.errors.InputError: Unknown data set 'irsi' (did you mean 'iris'?). Known names: breast_cancer, corel5k, ...
    """
    if name not in DATASETS:
        raise unknown_name("data set", name, DATASETS)
    entry = DATASETS[name]
    read, fixed = entry.read, entry.arguments
    known = list(inspect.signature(read).parameters)[1 + len(fixed) :]
    unknown = [option for option in options if option not in known]
    if unknown:
        takes = f"takes {', '.join(known)}" if known else "takes no options"
        raise InputError(f"The data set {name!r} has no option {unknown[0]!r}{closest(unknown[0], known)}; it {takes}.")
    return read(entry.place(f"The data set {name!r}"), *fixed, **options)


# ------------------------------------------------------------------ measures


def read_from_sklearn(_: Path, name: str) -> LabeledRows:
    """A data set that comes with scikit-learn."""
    import sklearn.datasets

    data = getattr(sklearn.datasets, f"load_{name}")()
    if name == "digits":
        return LabeledRows(data.data, data.target, name=name)
    groups = _one_column_each(str(column).removesuffix(" (cm)") for column in data.feature_names)
    return LabeledRows(data.data, data.target_names[data.target], groups, name=name)


def read_seeds(folder: Path) -> LabeledRows:
    rows = read_rows(folder / "seeds_dataset.txt", label=-1, groups=_one_column_each(WHEAT_FEATURES))
    return replace(rows, name="seeds")


def read_small_table(folder: Path, name: str) -> LabeledRows:
    """A table whose last column is the class; classes of several words are in single quotes there."""
    groups: dict[str, slice] | None = {} if name == "satimage" else None  # all its columns have the same name
    rows = read_rows(folder / f"{name}.csv", label=-1, groups=groups)
    labels = np.asarray(rows.y).tolist()
    return replace(rows, y=np.array([label.strip("'") if isinstance(label, str) else label for label in labels]))


def _one_column_each(names: Iterable[str]) -> dict[str, slice]:
    return {name: slice(column, column + 1) for column, name in enumerate(names)}


# ------------------------------------------------------------------ leaves


def read_leaves(
    folder: Path, groups: Iterable[str] = tuple(LEAF_FILES), join: str = "label", missing_specimen: int = 1
) -> LabeledRows:
    if join not in ("label", "row"):
        raise InputError(f"Unknown join {join!r}. Known: 'label' (the right one), 'row' (the paper's mistake).")
    if missing_specimen not in range(1, SPECIMENS + 1):
        raise InputError(f"missing_specimen counts from 1 to {SPECIMENS}; got {missing_specimen!r}.")
    files = {group: _read_leaf_file(folder / file) for group, file in LEAF_FILES.items()}
    species, _ = files["margin"]
    listed = list(dict.fromkeys(species))
    blocks = []
    for names, features in files.values():
        if set(names) != set(listed):
            odd = ", ".join(sorted(set(names) ^ set(listed)))
            raise SavedFileError(f"The files in {folder} do not list the same species: {odd}. Fetch them again.")
        # Joined by row, each file keeps its own order of species; only texture and margin agree in theirs.
        order = listed if join == "label" else list(dict.fromkeys(names))
        block = np.full((SPECIMENS * len(listed), features.shape[1]), np.nan)
        block[_places(names, order, missing_specimen)] = features
        blocks.append(block)
    stops = np.cumsum([block.shape[1] for block in blocks]).tolist()
    rows = LabeledRows(
        np.hstack(blocks),
        [name for name in listed for _ in range(SPECIMENS)],
        {group: slice(start, stop) for group, start, stop in zip(files, [0, *stops[:-1]], stops, strict=True)},
        [f"{name.replace(' ', '_')}/{position}" for name in listed for position in range(1, SPECIMENS + 1)],
        "leaves",
    )
    return rows.select(*groups)


def _read_leaf_file(path: Path) -> tuple[list[str], np.ndarray]:
    """(species, features) of every line, the species spelled with one space between words."""
    rows = read_rows(path, label=0)
    labels = [] if rows.y is None else rows.y.tolist()
    return [" ".join(label.replace("_", " ").split()) for label in labels], rows.X


def _places(species: list[str], order: list[str], missing_specimen: int) -> list[int]:
    """The row of every leaf: by species, then by position within it, one place left free where a species lacks a leaf.

    >>> _places(["oak"] * 15 + ["elm"] * 16, ["elm", "oak"], missing_specimen=1)[:3]
    [17, 18, 19]
    """
    n_before = dict.fromkeys(order, 0)
    counts = Counter(species)
    places = []
    for name in species:
        if counts[name] not in (SPECIMENS - 1, SPECIMENS):
            raise SavedFileError(
                f"A leaves file lists {counts[name]} leaves of {name}; {SPECIMENS} are expected, or {SPECIMENS - 1}"
                " where a feature is missing. Fetch it again."
            )
        after_the_gap = counts[name] < SPECIMENS and n_before[name] >= missing_specimen - 1
        places.append(SPECIMENS * order.index(name) + n_before[name] + after_the_gap)
        n_before[name] += 1
    return places


# ------------------------------------------------------------------ images


def read_mnist(folder: Path, split: str = "train", n: int | None = None) -> LabeledRows:
    if n is not None and (not isinstance(n, int) or n < 1):
        raise InputError(f"n is how many rows to keep, at least 1; got {n!r}.")
    images, labels, ids = [], [], []
    left = n
    for part in split_parts(split, MNIST_FILES):
        pictures, digits = (_read_idx(folder / file, left) for file in MNIST_FILES[part])
        images.append(pictures.reshape(len(pictures), -1))
        labels.append(digits.astype(np.int64))
        ids += [f"{part}/{row}" for row in range(len(digits))]
        left = None if left is None else left - len(digits)
        if left == 0:
            break
    return LabeledRows(_joined(images), _joined(labels), ids=ids, name="mnist")


def _read_idx(path: Path, n: int | None) -> np.ndarray:
    """The first n items (all by default) of an array of bytes in the idx format, gzipped."""
    try:
        with gzip.open(path) as file:
            start = file.read(4)
            if len(start) != 4 or not start.startswith(IDX_MARK):
                raise SavedFileError(f"{path} is not an idx file of bytes. Fetch it again.")
            shape = struct.unpack(f">{start[3]}I", file.read(4 * start[3]))
            shape = (shape[0] if n is None else min(n, shape[0]), *shape[1:])
            values = np.frombuffer(file.read(int(np.prod(shape))), np.uint8)
    except (gzip.BadGzipFile, EOFError, zlib.error, struct.error) as error:
        raise SavedFileError(f"{path} is damaged ({error}). Fetch it again.") from error
    if values.size != np.prod(shape):
        raise SavedFileError(f"{path} is cut short. Fetch it again.")
    return values.reshape(shape).copy()  # what lies in a bytes object could not be written to


def read_tin200(folder: Path, split: str = "train") -> LabeledRows:
    stored = np.load(folder / "embeddings.npz", allow_pickle=False)
    classes = read_rows(folder / "classes.csv", label="words", id="wnid")
    wnids = np.asarray(classes.ids)[np.argsort(classes.X[:, 0])]
    parts = split_parts(split, ("train", "test"))
    # float16 saves room on disk, but compiled loops cannot read it; float32 holds the same values.
    X = _joined([stored[f"X_{part}"].astype(np.float32) for part in parts])
    numbers = {part: stored[f"y_{part}"] for part in parts}
    return LabeledRows(
        X,
        wnids[_joined(list(numbers.values()))],
        ids=[f"{part}/{row}" for part in parts for row in range(len(numbers[part]))],
        name="tin200",
    )


def _joined(arrays: list[np.ndarray]) -> np.ndarray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
