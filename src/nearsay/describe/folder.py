"""Describe many images as named feature groups, in parallel, with a list of the images that were skipped."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.core.parallel import in_parallel, threads
from nearsay.data.images import image_files, read_image
from nearsay.data.rows import LabeledRows
from nearsay.describe.choose_encoder import installed_encoder
from nearsay.describe.descriptor import ImageDescriptor
from nearsay.describe.encoder import Encoder, ImageEncoder
from nearsay.describe.named import MAKADIA, as_descriptor
from nearsay.errors import InputError
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.fused import FusedClassifier

# Read before the encoders see them: a few batches, and at most 50 MB.
IMAGES_AT_ONCE = 256


@dataclass(frozen=True)
class SkippedImage:
    """An image that could not be described, and why."""

    path: Path
    reason: str


@dataclass(frozen=True, eq=False)
class ImageDescriptions:
    """The result of ``describe_images``.

    Attributes
    ----------
    rows : LabeledRows
        float32, one row per image, one feature group per descriptor. From a folder, ``ids`` are the paths within it and
        ``y`` the names of the folders the images lie in; from a list of paths, ``ids`` are the paths and ``y`` is None.
    descriptors : tuple
        In the order of the feature groups.
    skipped : tuple of SkippedImage
        In the order of the paths.
    """

    rows: LabeledRows
    descriptors: tuple[ImageDescriptor, ...] = field(repr=False)
    skipped: tuple[SkippedImage, ...]

    @property
    def metrics(self) -> dict[str, str]:
        """The metric of each feature group."""
        return {descriptor.name: descriptor.metric for descriptor in self.descriptors}

    def classifier(self) -> NeighborClassifier | FusedClassifier:
        """An unfitted classifier for these rows: each feature group is compared by its own distance.

        One group (an encoder's) is compared by its own metric. Several are fused, each with its own neighbors; where
        their metrics differ, each group has a view by each of them, and past cases weigh the views.

        >>> rows = LabeledRows(np.zeros((4, 2)), feature_groups={"lab": slice(0, 1), "gist": slice(1, 2)})
        >>> ImageDescriptions(rows, (as_descriptor("lab"), as_descriptor("gist")), ()).classifier()
        FusedClassifier(estimator=NeighborClassifier(metric='manhattan'), feature_groups={...})
        """
        metrics: list[Any] = list(dict.fromkeys(self.metrics.values()))
        base = NeighborClassifier(metric=metrics[0] if len(metrics) == 1 else metrics)
        return base if len(self.descriptors) == 1 else FusedClassifier(dict(self.rows.feature_groups), base)

    @property
    def preprocessing(self) -> dict[str, dict[str, Any]]:
        """How each encoder prepared the images, as JSON values to be kept with the rows."""
        return {
            descriptor.name: descriptor.preprocessing
            for descriptor in self.descriptors
            if isinstance(descriptor, Encoder)
        }


def describe_images(
    images: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    descriptors: Iterable[str | ImageDescriptor] | str | None = None,
    *,
    n_jobs: int | None = None,
    progress: bool = False,
) -> ImageDescriptions:
    """Describe every image of a folder, or of a list of paths, by each descriptor. Needs the extra ``images``.

    Parameters
    ----------
    images : a folder, or paths of image files
        A folder is searched with the folders within it.
    descriptors : names of ``DESCRIPTORS``, descriptors, or both; or None
        None for ``default_encoder()`` where it is installed, and the seven of Makadia et al. (2008) elsewhere. An
        encoder (anything with ``encode(images)``) gets many at once.
    n_jobs : int or None
        Threads; None for as many as nearsay uses otherwise. The result does not depend on it (an encoder's only
        within float32 rounding).
    progress : bool
        Show a bar on stderr.

    A damaged or missing file is skipped and listed, with the reason, in ``skipped``. If no image is left, that is an
    error.

    >>> import tempfile
    >>> from PIL import Image
    >>> folder = Path(tempfile.mkdtemp())
    >>> Image.new("RGB", (64, 48), "red").save(folder / "red.png")
    >>> _ = (folder / "broken.png").write_bytes(b"not an image")
    >>> described = describe_images(folder, ["rgb", "gist"])
    >>> described.rows.ids, described.rows.X.shape, described.metrics
    (array(['red.png'], dtype='<U7'), (1, 4608), {'rgb': 'manhattan', 'gist': 'manhattan'})
    >>> described.skipped[0].path.name
    'broken.png'
    """
    if descriptors is None:
        encoder = installed_encoder(n_jobs)
        descriptors = MAKADIA if encoder is None else [encoder]
    listed = [descriptors] if isinstance(descriptors, str) else descriptors
    used = tuple(as_descriptor(descriptor) for descriptor in listed)
    names = [descriptor.name for descriptor in used]
    if not used or len(set(names)) < len(names):
        raise InputError(f"Name at least one descriptor, and none twice; got {', '.join(names) or 'none'}.")
    folder, paths = _folder_and_paths(images)

    with threads(n_jobs) if n_jobs is not None else nullcontext(), _bar(len(paths), progress) as advance:
        vectors, kept, skipped = _describe_pictures(paths, used, advance)
    if not kept:
        raise InputError(f"None of the {len(paths)} images can be read. First: {skipped[0].reason}")
    return ImageDescriptions(_as_rows(vectors, names, kept, folder), used, tuple(skipped))


def describe_paths(
    paths: list[Path], descriptors: Iterable[str | ImageDescriptor] = MAKADIA
) -> tuple[np.ndarray, list[SkippedImage]]:
    """The vectors of these images, float32 and side by side, and the images that were skipped; all of them may be.

    >>> describe_paths([Path("nowhere.png")])
    (array([], shape=(0, 0), dtype=float32), [SkippedImage(path=PosixPath('nowhere.png'), reason='There is no file ...
    """
    used = tuple(as_descriptor(descriptor) for descriptor in descriptors)
    vectors, kept, skipped = _describe_pictures(paths, used, lambda: None)
    if not kept:
        return np.empty((0, 0), dtype=np.float32), skipped
    return _as_rows(vectors, [descriptor.name for descriptor in used], kept, None).X, skipped


def _describe_pictures(
    paths: list[Path], used: tuple[ImageDescriptor, ...], advance: Callable[[], None]
) -> tuple[list[list[np.ndarray]], list[Path], list[SkippedImage]]:
    """The vectors of each image in the order of the descriptors, the paths of these images, and those skipped."""
    encoders = [descriptor for descriptor in used if isinstance(descriptor, ImageEncoder)]

    def describe(path: Path) -> tuple[np.ndarray | None, dict[str, np.ndarray]] | SkippedImage:
        try:
            image = read_image(path)
            vectors = {
                descriptor.name: np.asarray(descriptor(image), dtype=np.float32).ravel()
                for descriptor in used
                if descriptor not in encoders
            }
            return (image if encoders else None), vectors  # without encoders no image is kept
        except (InputError, OSError) as error:
            return SkippedImage(path, str(error))
        finally:
            advance()

    every: list[list[np.ndarray]] = []
    kept: list[Path] = []
    skipped: list[SkippedImage] = []
    for block in row_blocks(len(paths), size=IMAGES_AT_ONCE if encoders else len(paths)):
        results = in_parallel(describe, paths[block])
        described = [result for result in results if not isinstance(result, SkippedImage)]
        for encoder in encoders if described else []:
            encoded = np.asarray(encoder.encode([image for image, _ in described]), dtype=np.float32)
            if encoded.ndim != 2 or len(encoded) != len(described):
                raise InputError(
                    f"The encoder {encoder.name!r} gave an array of shape {encoded.shape} for {len(described)} images."
                    " It must give one row per image: (n, columns)."
                )
            for (_, vectors), vector in zip(described, encoded, strict=True):
                vectors[encoder.name] = vector
        every += [[vectors[descriptor.name] for descriptor in used] for _, vectors in described]
        kept += [path for path, each in zip(paths[block], results, strict=True) if not isinstance(each, SkippedImage)]
        skipped += [result for result in results if isinstance(result, SkippedImage)]
    return every, kept, skipped


def _folder_and_paths(images: Any) -> tuple[Path | None, list[Path]]:
    if isinstance(images, str | os.PathLike):
        folder = Path(images)
        if not folder.is_dir():
            raise InputError(f"{folder} is not a folder. Pass a folder, or a list of paths: [{str(folder)!r}].")
        return folder, image_files(folder)
    paths = [Path(path) for path in images]
    if not paths:
        raise InputError("No paths given. Pass a folder of images, or at least one path.")
    return None, paths


def _as_rows(vectors: list[list[np.ndarray]], names: list[str], paths: list[Path], folder: Path | None) -> LabeledRows:
    """The vectors of each image side by side; the list of them is emptied on the way, to hold them once only."""
    widths = [len(part) for part in vectors[0]]
    for path, parts in zip(paths, vectors, strict=True):
        for name, width, part in zip(names, widths, parts, strict=True):
            if len(part) != width:
                raise InputError(
                    f"The descriptor {name!r} gave {width} numbers for {paths[0]}, but {len(part)} for {path}."
                    " Give as many for every image, whatever its size."
                )
    stops = np.cumsum(widths).tolist()
    X = np.empty((len(vectors), stops[-1]), dtype=np.float32)
    for number in reversed(range(len(X))):
        np.concatenate(vectors.pop(), out=X[number])
    groups = {name: slice(start, stop) for name, start, stop in zip(names, [0, *stops[:-1]], stops, strict=True)}
    if folder is None:
        return LabeledRows(X, feature_groups=groups, ids=[path.as_posix() for path in paths])
    within = [path.relative_to(folder) for path in paths]
    labels = None if any(len(path.parts) == 1 for path in within) else [path.parent.name for path in within]
    return LabeledRows(X, labels, groups, [path.as_posix() for path in within], folder.resolve().name)


@contextmanager
def _bar(n_images: int, shown: bool) -> Iterator[Callable[[], None]]:
    """A function to call after each image, which advances a progress bar on stderr if one is shown."""
    if not shown:
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr)) as bar:
        task = bar.add_task("Describing images", total=n_images)
        yield lambda: bar.advance(task)
