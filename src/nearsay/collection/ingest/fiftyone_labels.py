"""The labels of a folder that FiftyOne exported, by the paths of its pictures.

FiftyOneImageClassificationDataset   data/, labels.json    {"classes": […], "labels": {"owl 1": 0 or {"label": "owl"}}}
FiftyOneDataset                      data/, metadata.json, samples.json    samples with a Classification; tags
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.collection.ingest.batches import RawRows
from nearsay.data.images import named_images
from nearsay.errors import InputError

DATA, LABELS, SAMPLES, ABOUT = "data", "labels.json", "samples.json", "metadata.json"
# The field that FiftyOne calls the labels of people.
USUAL = "ground_truth"


def fiftyone_file(folder: Path) -> Path | None:
    """The file of labels, where this is a folder that FiftyOne exported; else None.

    >>> import tempfile
    >>> fiftyone_file(Path(tempfile.mkdtemp())) is None
    True
    """
    if not (folder / DATA).is_dir():
        return None
    samples, labels = folder / SAMPLES, folder / LABELS
    if samples.is_file() and (folder / ABOUT).is_file():
        return samples
    return labels if labels.is_file() else None


Row = tuple[str, str | None, list[str] | None]  # id, label and keywords


class FiftyOneLabels:
    """The labels and keywords of such a file, as a table of labels gives them; ids are paths within the folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path.name} is not JSON ({error}).") from error
        kind = dict if path.name == LABELS else list
        entries: Any = held.get(path.name.removesuffix(".json")) if isinstance(held, dict) else None
        if not isinstance(entries, kind):
            raise InputError(f"{path.name} is not a file of FiftyOne: it holds no {path.name.removesuffix('.json')!r}.")
        classes = held.get("classes")
        names = classes if isinstance(classes, list) else []
        self._rows = list(
            _of_samples(entries) if isinstance(entries, list) else _of_labels(entries, names, path.parent)
        )

    def __iter__(self) -> Iterator[RawRows]:
        ids = [id for id, _, _ in self._rows]
        labels, keywords = [label for _, label, _ in self._rows], [words for _, _, words in self._rows]
        yield RawRows(list(range(len(ids))), ids, np.zeros((len(ids), 0)), labels, keywords, [{} for _ in ids])


def _of_labels(entries: dict[str, Any], classes: list[Any], folder: Path) -> Iterator[Row]:
    """Labels go by the names of pictures without their endings, and may be numbers of classes."""
    by_name = {path.relative_to(folder / DATA).with_suffix("").as_posix(): path for path in named_images(folder / DATA)}
    for name, entry in entries.items():
        path = by_name.get(name)
        id = f"{DATA}/{name}" if path is None else path.relative_to(folder).as_posix()
        label = entry.get("label") if isinstance(entry, dict) else entry
        if isinstance(label, int) and 0 <= label < len(classes):
            label = classes[label]
        more = entry.get("attributes") if isinstance(entry, dict) else None
        yield id, _text(label), _words((more if isinstance(more, dict) else {}).get("keywords"))


def _of_samples(samples: list[Any]) -> Iterator[Row]:
    """The usual field of labels, else the first one; the words of several labels, else tags, are keywords."""
    for sample in samples:
        if not isinstance(sample, dict):
            continue
        fields = {name: value for name, value in sample.items() if isinstance(value, dict)}
        one = [name for name, value in fields.items() if value.get("_cls") == "Classification"]
        label = fields[USUAL if USUAL in one else one[0]].get("label") if one else None
        several = [each for each in fields.values() if each.get("_cls") == "Classifications"]
        words = [word.get("label") for each in several for word in each.get("classifications") or () if word]
        yield str(sample.get("filepath")), _text(label), _words(words or sample.get("tags"))


def _text(label: Any) -> str | None:
    return label if isinstance(label, str) and label else None


def _words(given: Any) -> list[str] | None:
    return [word for word in given if isinstance(word, str) and word] or None if isinstance(given, list) else None
