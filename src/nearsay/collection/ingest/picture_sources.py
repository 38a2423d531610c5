"""Pictures as sources: those of a folder, or those that a table names.

The folders that pictures lie in are their labels; folders within folders are a
taxonomy::

    photos/bird/owl/1.jpg   ──►  id bird/owl/1.jpg, label owl, edges anything–bird, bird–owl
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.collection.ingest.batches import RawRows, Reader
from nearsay.collection.ingest.picture_files import picture_within
from nearsay.collection.store.validate_items import name_fault
from nearsay.core.arrays import row_blocks
from nearsay.data.images import IMAGE_ENDINGS, named_images
from nearsay.describe.folder import SkippedImage
from nearsay.errors import InputError
from nearsay.taxonomy.taxonomy import Taxonomy

# Described in one call: an encoder works in batches.
PICTURES_AT_ONCE = 256
ROOT = "anything"

# Paths of pictures to one row for each that could be described, and those that could not.
Describe = Callable[[list[Path]], tuple[np.ndarray, Iterable[SkippedImage]]]


class FolderSource:
    """The pictures of a folder and its subfolders, not described yet."""

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
        self.chosen = self._choices()

    def _choices(self) -> list[str]:
        labels = set(self._label_of.values()) - {None}
        if not labels:
            return [f"{self.n_rows} pictures without labels: they do not lie in folders"]
        chosen = [f"{self.n_rows} pictures, labeled by the {len(labels)} folders they lie in"]
        if self.taxonomy is not None:
            chosen.append(f"folders within folders are a taxonomy of depth {self.taxonomy.depths.max()}")
            if any("/" in str(node) for node in self.taxonomy.nodes):
                chosen.append("labels are whole paths: some folders have the same name")
        return chosen

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
    """The rows of a reader, with the pictures that it names described."""

    def __init__(self, reader: Reader, folder: Path, describe: Describe) -> None:
        self._reader = reader
        self._folder = folder
        self._describe = describe
        self.chosen, self.n_rows, self.columns = reader.chosen, reader.n_rows, reader.columns

    def __iter__(self) -> Iterator[RawRows]:
        for raw in self._reader:
            for block in row_blocks(len(raw.ids), size=PICTURES_AT_ONCE):
                yield self._described(_part(raw, block))

    def _described(self, raw: RawRows) -> RawRows:
        places: list[int] = []
        paths: list[Path] = []
        for place, details in enumerate(raw.details):
            if place in raw.refused:
                continue
            try:
                paths.append(picture_within(self._folder, details.get("path", "")))
                places.append(place)
            except InputError as error:
                raw.refused[place] = str(error).rstrip(".")
        if not paths:
            return raw
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
                raw.refused[place] = reasons[path].replace(f"{path} ", "it ").rstrip(".")
        raw.X = np.zeros((len(raw.ids), X.shape[1]), dtype=np.float32)
        raw.X[kept] = X
        return raw


def _part(raw: RawRows, block: slice) -> RawRows:
    start = block.start or 0
    return RawRows(
        raw.rows[block],
        raw.ids[block],
        raw.X[block],
        raw.labels[block],
        raw.keywords[block],
        raw.details[block],
        {place - start: why for place, why in raw.refused.items() if start <= place < start + len(raw.ids[block])},
        None if raw.lines is None else raw.lines[block],
    )


def described_by(describe: Any) -> str:
    """What pictures are described by, in words."""
    return getattr(describe, "name", None) or getattr(describe, "__name__", None) or type(describe).__name__
