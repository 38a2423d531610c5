"""Pictures of a folder, or named by a table: none outside the folder is opened, none too large is decoded.

The folders that pictures lie in are their labels; folders within folders are a
taxonomy::

    photos/bird/owl/1.jpg   ──►  id bird/owl/1.jpg, label owl, edges anything–bird, bird–owl
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.collection.ingest.batches import RawRows, Reader
from nearsay.collection.store.validate_items import name_fault
from nearsay.core.arrays import row_blocks
from nearsay.data.images import IMAGE_ENDINGS, check_image_header, named_images
from nearsay.describe.folder import SkippedImage
from nearsay.errors import InputError
from nearsay.taxonomy.taxonomy import Taxonomy

# Described together; an encoder takes that many at once.
PICTURES_AT_ONCE = 256
ROOT = "anything"

# Paths of pictures to one row for each that could be described, and those that could not.
Describe = Callable[[list[Path]], tuple[np.ndarray, Iterable[SkippedImage]]]


class FolderSource:
    """The pictures of a folder and the folders within it; they have still to be described."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._names = [path.relative_to(folder) for path in named_images(folder)]
        if not self._names:
            raise InputError(
                f"{folder} holds no pictures ({', '.join(sorted(IMAGE_ENDINGS))}), nor do the folders within it."
            )
        self.n_rows = len(self._names)
        self.columns: list[str] = []
        self.feature_groups: dict[str, slice] = {}
        # Pictures in folders that cannot be labels are left out one by one; no node is made of these folders.
        named = [name.parts[:-1] for name in self._names]
        good = [folders for folders in named if all(map(_is_label, folders))]
        self.taxonomy, self._label_of = labels_of_folders(good)
        self._label_of |= {folders: folders[-1] for folders in named if folders not in self._label_of}
        self.chosen = self._told()

    def _told(self) -> list[str]:
        labels = set(self._label_of.values()) - {None}
        if not labels:
            return [f"{self.n_rows} pictures without labels: they do not lie in folders"]
        told = [f"{self.n_rows} pictures, labeled by the {len(labels)} folders they lie in"]
        if self.taxonomy is not None:
            told.append(f"folders within folders are a taxonomy of depth {self.taxonomy.depths.max()}")
            if any("/" in str(node) for node in self.taxonomy.nodes):
                told.append("labels are whole paths: some folders have the same name")
        return told

    def __iter__(self) -> Iterator[RawRows]:
        for block in row_blocks(self.n_rows, size=PICTURES_AT_ONCE):
            names = self._names[block]
            ids = [name.as_posix() for name in names]
            yield RawRows(
                list(range(self.n_rows)[block]),
                ids,
                np.zeros((len(names), 0)),
                [self._label_of[name.parts[:-1]] for name in names],
                [None] * len(names),
                [{"path": id} for id in ids],
            )


def _is_label(folder: str) -> bool:
    return name_fault(folder) is None and bool(folder.strip())


def labels_of_folders(
    folders: list[tuple[str, ...]],
) -> tuple[Taxonomy | None, dict[tuple[str, ...], str | None]]:
    """(the taxonomy of folders within folders, the label of each folder); no taxonomy where none lies in another.

    A folder's label is its name, or its path where two folders have the same
    name. What lies in no folder has no label.

    >>> tree, label_of = labels_of_folders([("bird", "owl"), ("bird", "wren"), ("fish",)])
    >>> tree.to_edges()
    [('anything', 'fish'), ('bird', 'owl'), ('bird', 'wren'), ('anything', 'bird')]
    >>> label_of["bird", "owl"]
    'owl'
    """
    distinct = sorted(set(folders))
    nodes = {folder[: depth + 1] for folder in distinct for depth in range(len(folder))}
    by_path = len({node[-1] for node in nodes}) < len(nodes)
    label_of: dict[tuple[str, ...], str | None] = {
        folder: ("/".join(folder) if by_path else folder[-1]) if folder else None for folder in distinct
    }
    if all(len(folder) <= 1 for folder in distinct):
        return None, label_of
    root = ROOT
    while any(root == node[-1] for node in nodes):
        root = f"_{root}"
    paths = [folder for folder in distinct if folder]
    return Taxonomy.from_paths(paths, by_path=by_path, root=root), label_of


class DescribedPictures:
    """What a reader found, with the pictures it names described."""

    def __init__(self, reader: Reader, folder: Path, describe: Describe) -> None:
        self._reader = reader
        self._folder = folder
        self._describe = describe
        self.chosen, self.n_rows, self.columns = reader.chosen, reader.n_rows, reader.columns

    def __iter__(self) -> Iterator[RawRows]:
        for found in self._reader:
            for block in row_blocks(len(found.ids), size=PICTURES_AT_ONCE):
                yield self._described(_part(found, block))

    def _described(self, found: RawRows) -> RawRows:
        places: list[int] = []
        paths: list[Path] = []
        for place, details in enumerate(found.details):
            if place in found.refused:
                continue
            try:
                paths.append(picture_within(self._folder, details.get("path", "")))
                places.append(place)
            except InputError as error:
                found.refused[place] = str(error).rstrip(".")
        if not paths:
            return found
        X, skipped = self._describe(paths)
        reasons = {Path(each.path): each.reason for each in skipped}
        kept = [place for place, path in zip(places, paths, strict=True) if path not in reasons]
        if X.ndim != 2 or len(X) != len(kept):
            raise InputError(
                f"describe gave an array of shape {X.shape} for {len(paths)} pictures, {len(reasons)} of them skipped."
                " It must give one row for each that is not."
            )
        for place, path in zip(places, paths, strict=True):
            if path in reasons:
                found.refused[place] = reasons[path].replace(f"{path} ", "it ").rstrip(".")
        found.X = np.zeros((len(found.ids), X.shape[1]), dtype=np.float32)
        found.X[kept] = X
        return found


def picture_within(folder: Path, name: str) -> Path:
    """The path of a picture that lies in the folder and is one by its first bytes; an error says what is wrong."""
    path = path_within(folder, name)
    try:
        check_image_header(path)
    except InputError as error:
        raise InputError(str(error)[0].lower() + str(error)[1:]) from error
    return path


def path_within(folder: Path, name: str) -> Path:
    """The path of a file that lies in the folder; an error says why there is none.

    >>> path_within(Path("photos"), "../secret.png")
    Traceback (most recent call last):
    nearsay.errors.InputError: the path leaves the folder
    """
    path = folder / relative_path(name)
    try:
        if leads_out(folder, path):
            raise InputError("the path leaves the folder, by a link")
        if not path.is_file():
            raise InputError("there is no such picture")
    except OSError as error:
        raise InputError(f"the path cannot be used ({error.strerror})") from error
    return path


def relative_path(name: str) -> Path:
    """The name of a picture as a path that leaves no folder, whether there is such a picture or not."""
    if not name:
        raise InputError("no picture is named")
    relative = Path(name.replace("\\", "/"))
    if relative.is_absolute() or relative.drive or ".." in relative.parts or "\0" in name:
        raise InputError("the path leaves the folder")
    if not relative.name:
        raise InputError("no picture is named")
    return relative


def leads_out(folder: Path, path: Path) -> bool:
    """Whether a path within the folder leads out of it by a link."""
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _part(found: RawRows, block: slice) -> RawRows:
    start = block.start or 0
    return RawRows(
        found.rows[block],
        found.ids[block],
        found.X[block],
        found.labels[block],
        found.keywords[block],
        found.details[block],
        {place - start: why for place, why in found.refused.items() if start <= place < start + len(found.ids[block])},
        None if found.lines is None else found.lines[block],
    )


def described_by(describe: Any) -> str:
    """What pictures are described by, in words."""
    return getattr(describe, "name", None) or getattr(describe, "__name__", None) or type(describe).__name__
