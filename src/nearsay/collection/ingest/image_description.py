"""How the pictures of a collection are turned into vectors: recorded in its settings, and checked before each use.

index:  pictures ──► descriptors ──► vectors          names, metrics, files ─┐
        a test picture ────────────► its vector ─────────────────────────────┴─► settings of the collection
query:  the same test picture ─────► must give the same vector, or nothing is answered: weights or packages differ
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.data.images import content_hash
from nearsay.describe.choose_encoder import default_encoder, installed_encoder
from nearsay.describe.descriptor import ImageDescriptor
from nearsay.describe.efficientnet import NETWORKS
from nearsay.describe.encoder_onnx import OnnxEncoder
from nearsay.describe.folder import SkippedImage, describe_paths
from nearsay.describe.named import DESCRIPTORS, MAKADIA, as_descriptor
from nearsay.errors import InputError, unknown_name
from nearsay.neighbors.sharded.dask_cluster import workers_of
from nearsay.taxonomy.edges import few

SETTING = "described"
NUMBERS = "numbers"  # the kind of items that are rows of a table
# Networks that come as packages, as they are named on a command line.
ENCODERS = tuple(name.replace("_", "-") for name in NETWORKS)
FAMILIES: dict[str, tuple[str, ...]] = {
    "color": ("rgb", "hsv", "lab"),
    "texture": ("haar", "haar_signs", "gabor", "gabor_phases"),
    "shape": ("hog", "contour"),
    "layout": ("thumbnail", "hog"),
}
# Descriptors that need no package but pillow.
PLAIN = ("thumbnail", "hog")
# Of the largest number of a vector: the two runtimes of the encoder differ by 1e-4.
SAME_WITHIN = 1e-3
# Of a worker.
PICTURES_A_TASK = 16


@dataclass(frozen=True, eq=False)
class Description:
    """The descriptors that turn pictures into the vectors of a collection.

    Attributes
    ----------
    descriptors : in the order of the columns.
    why : what was chosen and why, in a sentence.
    model, size : the file of the user's own encoder, and the pixels a side that were given for it.
    """

    descriptors: tuple[ImageDescriptor, ...]
    why: str
    model: Path | None = None
    size: int | None = None

    @property
    def name(self) -> str:
        """The names of all descriptors."""
        return ", ".join(descriptor.name for descriptor in self.descriptors)

    @property
    def metrics(self) -> dict[str, str]:
        """The metric of each descriptor."""
        return {descriptor.name: descriptor.metric for descriptor in self.descriptors}

    def __call__(self, paths: list[Path]) -> tuple[np.ndarray, list[SkippedImage]]:
        """A row for each picture that could be described, and those that could not."""
        return describe_paths(paths, self.descriptors)

    def to_settings(self) -> dict[str, Any]:
        """What is recorded with a collection, in plain values."""
        parts = [np.asarray(descriptor(probe_picture()), np.float64).ravel() for descriptor in self.descriptors]
        stops = np.cumsum([len(part) for part in parts]).tolist()
        record: dict[str, Any] = {
            "kind": "pictures",
            "by": [descriptor.name for descriptor in self.descriptors],
            "columns": [[start, stop] for start, stop in zip([0, *stops[:-1]], stops, strict=True)],
            "metrics": self.metrics,
            "probe": [sketch_of(part) for part in parts],
        }
        if self.model is not None:
            record |= {"model": str(self.model.resolve()), "content": content_hash(self.model), "size": self.size}
        return record

    @classmethod
    def choose(
        cls,
        describe: Sequence[str] | None = None,
        encoder: str | None = None,
        size: int | None = None,
    ) -> Description:
        """The descriptors or the encoder that the user names; by default an encoder where one is installed.

        >>> Description.choose(["color", "hog"]).name
        'rgb, hsv, lab, hog'
        """
        if describe and encoder:
            raise InputError("Name descriptors or an encoder, not both.")
        if encoder is not None:
            return cls._encoder(encoder, size)
        if describe:
            names = [name for given in describe for name in FAMILIES.get(given, (given,))]
            unknown = [name for name in names if name not in DESCRIPTORS]
            if unknown:
                raise unknown_name("descriptor", unknown[0], {*DESCRIPTORS, *FAMILIES})
            used = tuple(as_descriptor(name) for name in dict.fromkeys(names))
            return cls(used, "pictures are described by " + ", ".join(d.name for d in used) + ", as requested")
        network = installed_encoder()
        if network is not None:
            return cls((network,), f"pictures are described by the network {network.name}, the best one installed")
        names = list(MAKADIA if find_spec("skimage") and find_spec("pywt") else PLAIN)
        return cls(
            tuple(as_descriptor(name) for name in names),
            f"pictures are described by {', '.join(names)}: no encoder is installed, which would be better"
            ' (pip install "nearsay[images]")',
        )

    @classmethod
    def _encoder(cls, name: str, size: int | None) -> Description:
        if (network := name.replace("-", "_")) in NETWORKS:
            encoder = default_encoder(network=network)
            return cls((encoder,), f"pictures are described by the network {network}, as requested")
        known = f"{', '.join(ENCODERS)}, or the path of an .onnx file"
        if not name.endswith(".onnx"):
            raise InputError(f"Unknown encoder {name!r}: pass {known}.")
        path = Path(name)
        if not path.is_file():
            raise InputError(f"There is no file {path}. Pass {known}.")
        return cls((OnnxEncoder(path, size=size),), f"pictures are described by the model {path.name}", path, size)

    @classmethod
    def recorded(cls, record: Mapping[str, Any], model: Path | None) -> Description:
        """The description that a collection records, loaded and checked; an error where vectors would differ.

        ``model`` is the user's model file, if there is one (``UserDecisions.model``): the record itself cannot choose
        what is run.
        """
        names = list(record["by"])
        if model is not None:
            description = cls._encoder(str(model), record.get("size"))
        elif len(names) == 1 and names[0].replace("-", "_") in NETWORKS:
            description = cls._encoder(names[0], None)
        else:
            description = cls(tuple(as_descriptor(name) for name in names), "")
        probes = description.to_settings()["probe"]
        check_probes(names, record["probe"], probes)
        return description


def numbers_settings(columns: Sequence[str]) -> dict[str, Any]:
    """What is recorded of a table of numbers: the names of its columns, where they have names."""
    named = not all(name.isdigit() for name in columns)
    return {"kind": NUMBERS, "columns": list(columns) if named else None}


def check_columns(record: Mapping[str, Any], columns: Sequence[str], source: str) -> None:
    """Raise InputError unless these columns are those that the collection was made from, in the same order.

    >>> check_columns(numbers_settings(["width", "height"]), ["height", "width"], "new.csv")
    Traceback (most recent call last):
    nearsay.errors.InputError: new.csv has the columns of this collection in another order. Put them in this one: ...
    """
    known, given = record.get("columns"), numbers_settings(columns)["columns"]
    if known is None or given is None or known == given:
        return
    if sorted(known) == sorted(given):
        raise InputError(
            f"{source} has the columns of this collection in another order. Put them in this one: {few(known)}."
        )
    missing, more = [name for name in known if name not in given], [name for name in given if name not in known]
    lacks = f" lacks {few(missing)}" if missing else ""
    has = f" has {few(more)} more" if more else ""
    raise InputError(
        f"{source} has other columns than this collection: it{lacks}{' and' if lacks and has else ''}{has}."
    )


def probe_picture() -> np.ndarray:
    """A picture with edges, colors and textures of several sizes, always the same: (96, 128, 3) uint8."""
    y, x = np.mgrid[0:96, 0:128]
    waves = [(x * 7 + y * y // 5) % 256, (y * 11 + x * x // 9) % 256, ((x // 16 + y // 12) % 2) * 200 + (x + y) % 50]
    return np.stack(waves, axis=2).astype(np.uint8)


def sketch_of(vector: np.ndarray) -> list[float]:
    """A few numbers that differ where vectors do: the length, and sums with fixed weights."""
    phases = np.arange(len(vector))[:, None] * np.array([0.7, 1.9, 3.1])
    return [float(np.linalg.norm(vector)), *(vector @ np.cos(phases)).tolist()]


def check_probes(names: Sequence[str], before: Sequence[Any], after: Sequence[Any]) -> None:
    """Raise InputError where a descriptor's sketch of the test differs from that of the collection."""
    for name, one, other in zip(names, before, after, strict=True):
        if not same_sketch(one, other):
            raise InputError(
                f"{name} gives other vectors here than when this collection was made, so nothing can be compared."
                " Use the versions of nearsay and its packages of that time, or index again."
            )


def same_sketch(before: Sequence[float], after: Sequence[float]) -> bool:
    """Whether two sketches are of the same vector, but for rounding."""
    return bool(np.allclose(before, after, rtol=0, atol=SAME_WITHIN * max(map(abs, before), default=1.0)))


class DescribedByWorkers:
    """Describes pictures as a record says, on a cluster whose workers have them at the same paths: the same vectors."""

    def __init__(self, record: Mapping[str, Any], cluster: Any) -> None:
        self.name = ", ".join(record["by"])
        self._record, self._cluster = json.dumps(record, sort_keys=True), cluster

    def __call__(self, paths: list[Path]) -> tuple[np.ndarray, list[SkippedImage]]:
        """A row for each picture that could be described, and those that could not."""
        given = {os.path.abspath(path): path for path in paths}
        tasks = [(self._record, list(given)[part]) for part in row_blocks(len(given), size=PICTURES_A_TASK)]
        parts = list(workers_of(self._cluster).each(describe_some, tasks, lambda: None))
        skipped = [SkippedImage(given[path], reason) for _, some in parts for path, reason in some]
        rows = [X for X, _ in parts if len(X)]
        return (np.concatenate(rows) if rows else np.empty((0, 0), np.float32)), skipped


def describe_some(task: tuple[str, list[str]]) -> tuple[np.ndarray, list[tuple[str, str]]]:
    """The rows of some pictures, and (path, reason) of those that could not be described."""
    record, paths = task
    X, skipped = _recorded(record)([Path(path) for path in paths])
    return X, [(str(each.path), each.reason) for each in skipped]


@lru_cache(maxsize=2)
def _recorded(record: str) -> Description:
    """A description, loaded and checked once per process: an encoder takes seconds."""
    settings = json.loads(record)
    return Description.recorded(settings, Path(settings["model"]) if settings.get("model") else None)
