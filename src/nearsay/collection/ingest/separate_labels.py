"""Labels from a file of their own: a table of labels by id, or what FiftyOne exported with its pictures.

FiftyOneImageClassificationDataset   data/, labels.json    {"classes": […], "labels": {"owl 1": 0 or {"label": "owl"}}}
FiftyOneDataset                      data/, metadata.json, samples.json    samples with a Classification; tags
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from nearsay.collection.ingest.batches import Problem, RawRows
from nearsay.collection.ingest.picture_files import picture_within
from nearsay.collection.ingest.table_sources import table_of_labels
from nearsay.collection.store.validate_items import shown_name
from nearsay.data.images import named_images
from nearsay.data.tables.columns import ColumnChoices
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
        labels, keywords = [label for _, label, _ in self._rows], [words for _, _, words in self._rows]
        yield RawRows(list(range(len(labels))), [id for id, _, _ in self._rows], labels=labels, keywords=keywords)


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


class LabelTable:
    """A table of labels and keywords by id; for pictures, ids are paths within the folder ``pictures``."""

    def __init__(self, path: Path, choices: ColumnChoices, pictures: Path | None) -> None:
        if not path.exists():
            raise FileNotFoundError(f"There is no table of labels {path}.")
        ours = pictures is not None and path == fiftyone_file(pictures)
        self._table = FiftyOneLabels(path) if ours else table_of_labels(path, choices)
        self._pictures = pictures
        self._by_id: dict[str, tuple[str | None, list[str] | None, int, int]] = {}
        self._problems: list[Problem] = []
        for raw in self._table:
            self._take(raw)
        self.restart()
        self.chosen = [f"labels are those of {path.name}; what it does not list has none"]

    def restart(self) -> None:
        """Begin another pass."""
        self._left = set(self._by_id)

    def _take(self, raw: RawRows) -> None:
        for place, id in enumerate(raw.ids):
            name = PurePosixPath(id.replace("\\", "/")).as_posix() if self._pictures is not None and id else id
            line = (raw.lines or raw.rows)[place]
            reason = raw.refused.get(place) or ("" if name else "the id is empty")
            if not reason and name in self._by_id:
                reason = f"the id {name!r} was used before, in line {self._by_id[name][3]}"
            if reason:
                shown = shown_name(name) or None
                self._problems.append(Problem(raw.rows[place], shown, reason, line, self._table.path.name))
            else:
                self._by_id[name] = raw.labels[place], raw.keywords[place], raw.rows[place], line

    def join(self, raw: RawRows) -> None:
        """Give the rows the labels and keywords of the table."""
        for place, id in enumerate(raw.ids):
            self._left.discard(id)
            raw.labels[place], raw.keywords[place] = self._by_id.get(id, (None, None))[:2]

    def unused(self) -> list[Problem]:
        """Lines of the table that could not be used, or that name nothing in the source."""
        source = self._table.path.name
        left = [(row, id, self._why(id), line) for id, (_, _, row, line) in self._by_id.items() if id in self._left]
        missing = [Problem(row, shown_name(id), reason, line, source) for row, id, reason, line in left]
        return sorted([*self._problems, *missing], key=lambda problem: problem.row)

    def _why(self, id: str) -> str:
        if self._pictures is None:
            return "no row has this id"
        try:
            picture_within(self._pictures, id)
        except InputError as error:
            return str(error).rstrip(".")
        return "no picture has this path"
