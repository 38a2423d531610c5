"""Pictures as sources: those of a folder, or those that a table names.

The folders that pictures lie in are their labels, or their tags are; folders within
folders, and trees of tags, are a taxonomy::

    photos/bird/owl/1.jpg   ──►  id bird/owl/1.jpg, label owl, edges anything–bird, bird–owl
    bird|owl, night, ★★★★   ──►  the same label and edges, keyword night, detail rating 4
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.collection.ingest.batches import RawRows, Reader
from nearsay.collection.ingest.picture_files import picture_within
from nearsay.collection.store.validate_items import name_fault, shown_name
from nearsay.core.arrays import row_blocks
from nearsay.core.parallel import in_parallel
from nearsay.data.images import image_endings, named_images, other_files
from nearsay.data.photo_tags import PhotoTags, photo_tags
from nearsay.describe.folder import SkippedImage
from nearsay.errors import InputError
from nearsay.taxonomy.taxonomy import Taxonomy

# Described in one call: an encoder works in batches.
PICTURES_AT_ONCE = 256
# Pictures whose tags cannot be read, in one sentence.
NAMED_DAMAGED = 5
ROOT = "anything"

# Paths of pictures to one row for each that could be described, and those that could not.
Describe = Callable[[list[Path]], tuple[np.ndarray, Iterable[SkippedImage]]]


class FolderSource(Reader):
    """The pictures of a folder and its subfolders, not described yet.

    ``labels_from`` is "folder" or "tags". Tags that are not labels are keywords. With ``only``, that one picture.
    """

    kind = "pictures"

    def __init__(self, folder: Path, labels_from: str = "folder", only: Path | None = None) -> None:
        self.folder = folder
        named_files = named_images(folder) if only is None else [only]
        self._names = [path.relative_to(folder) for path in named_files]
        others = other_files(folder) if only is None else None
        if not self._names:
            raise InputError(
                f"{folder} holds no pictures ({', '.join(sorted(image_endings()))}), nor do the folders within it."
                + (f" {others}." if others is not None else "")
            )
        self.n_rows = len(self._names)
        self._from_tags = labels_from == "tags"
        self._tags, damaged = _tags_of(folder, self._names)
        self.taxonomy, self._label_of = labels_of_folders(
            [tags.label_path if self._from_tags else name.parts[:-1] for name, tags in self._tags.items()]
        )
        choices = self._choices() if only is None else []
        self.chosen = [*choices, *([] if others is None else [others]), *damaged]

    def _choices(self) -> list[str]:
        what = "tags" if self._from_tags else "folders"
        labels, chosen = set(self._label_of.values()) - {None}, []
        if labels:
            they = "tags" if self._from_tags else "folders they lie in"
            chosen = [f"{self.n_rows} pictures, labeled by the {len(labels)} {they}"]
        elif not self._from_tags:
            chosen = [f"{self.n_rows} pictures without labels: they do not lie in folders"]
        if self._from_tags:
            unlabeled = sum(not tags.label_path for tags in self._tags.values())
            if unlabeled:
                chosen.append(f"{unlabeled} pictures have no tag that could be their label: none, or several alike")
        if self.taxonomy is not None:
            chosen.append(f"{what} within {what} are a taxonomy of depth {self.taxonomy.depths.max()}")
            if any("/" in str(node) for node in self.taxonomy.nodes):
                chosen.append(f"labels are whole paths: some {what} have the same name")
        n_words = sum(map(bool, map(self._words, self._names)))
        n_rated = sum(tags.rating is not None for tags in self._tags.values())
        if n_words:
            chosen.append(f"tags of {n_words} pictures are their keywords")
        if n_rated:
            chosen.append(f"ratings of {n_rated} pictures are kept as a detail: rating")
        return chosen

    def _label(self, name: Path) -> str | None:
        return self._label_of[self._tags[name].label_path if self._from_tags else name.parts[:-1]]

    def _words(self, name: Path) -> list[str] | None:
        tags = self._tags[name]
        return (tags.keywords if self._from_tags else tags.all_words) or None

    def _details(self, name: Path) -> dict[str, str]:
        rating = self._tags[name].rating
        return {"path": name.as_posix(), **({} if rating is None else {"rating": str(rating)})}

    def __iter__(self) -> Iterator[RawRows]:
        for block in row_blocks(self.n_rows, size=PICTURES_AT_ONCE):
            names = self._names[block]
            yield RawRows(
                list(range(self.n_rows)[block]),
                [name.as_posix() for name in names],
                labels=[self._label(name) for name in names],
                keywords=[self._words(name) for name in names],
                details=[self._details(name) for name in names],
            )


def _tags_of(folder: Path, names: list[Path]) -> tuple[dict[Path, PhotoTags], list[str]]:
    """The tags of every picture, and a sentence where some cannot be read; the pictures themselves may well be."""

    def read(name: Path) -> PhotoTags | str:
        try:
            path = picture_within(folder, name.as_posix())
        except (InputError, OSError):  # what is wrong with the picture itself is said when it is described
            return PhotoTags()
        try:
            return photo_tags(path)
        except (InputError, OSError) as error:
            return str(error)

    tags, damaged = dict.fromkeys(names, PhotoTags()), []
    for name, given in zip(names, in_parallel(read, names), strict=True):
        if isinstance(given, PhotoTags):
            tags[name] = given
        else:
            damaged.append(f"{shown_name(name.as_posix())!r} ({given})")
    if not damaged:
        return tags, []
    n = "1 picture has" if len(damaged) == 1 else f"{len(damaged):,} pictures have"
    more = f" and {len(damaged) - NAMED_DAMAGED:,} more" * (len(damaged) > NAMED_DAMAGED)
    return tags, [f"{n} tags that cannot be read: {', '.join(damaged[:NAMED_DAMAGED])}{more}"]


def _is_label(name: str) -> bool:
    return name_fault(name) is None and bool(name.strip())


def labels_of_folders(
    folders: list[tuple[str, ...]],
) -> tuple[Taxonomy | None, dict[tuple[str, ...], str | None]]:
    """(the taxonomy of folders within folders, the label of each folder); no taxonomy where none lies in another.

    A folder's label is its name, or its path where two folders have the same name. What lies in no folder has no label.
    Folders that cannot be labels are no nodes: what lies in them is left out, one by one.

    >>> tree, label_of = labels_of_folders([("bird", "owl"), ("bird", "wren"), ("fish",)])
    >>> tree.to_edges()
    [('anything', 'fish'), ('bird', 'owl'), ('bird', 'wren'), ('anything', 'bird')]
    >>> label_of["bird", "owl"]
    'owl'
    """
    distinct = sorted({folder for folder in folders if all(map(_is_label, folder))})
    nodes = {folder[: depth + 1] for folder in distinct for depth in range(len(folder))}
    by_path = len({node[-1] for node in nodes}) < len(nodes)
    label_of: dict[tuple[str, ...], str | None] = {
        folder: ("/".join(folder) if by_path else folder[-1]) if folder else None for folder in distinct
    }
    label_of |= {folder: folder[-1] for folder in folders if folder not in label_of}
    if all(len(folder) <= 1 for folder in distinct):
        return None, label_of
    paths = [folder for folder in distinct if folder]
    return Taxonomy.from_paths(paths, by_path=by_path, root=root_above(node[-1] for node in nodes)), label_of


def root_above(names: Iterable[str]) -> str:
    """A name for the root above several trees, which none of their nodes has."""
    root, taken = ROOT, set(names)
    while root in taken:
        root = f"_{root}"
    return root


class DescribedPictures(Reader):
    """The rows of a reader, with the pictures that it names described."""

    kind = "pictures"

    def __init__(self, reader: Reader, folder: Path, describe: Describe) -> None:
        self._reader, self._folder, self._describe = reader, folder, describe
        self.chosen, self.n_rows = reader.chosen, reader.n_rows
        self.taxonomy, self.group_by = reader.taxonomy, reader.group_by

    def __iter__(self) -> Iterator[RawRows]:
        for raw in self._reader:
            for block in row_blocks(len(raw.ids), size=PICTURES_AT_ONCE):
                yield self._with_vectors(raw.take(block))

    def _with_vectors(self, raw: RawRows) -> RawRows:
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


def described_by(describe: Any) -> str:
    """What pictures are described by, in words."""
    return getattr(describe, "name", None) or getattr(describe, "__name__", None) or type(describe).__name__
