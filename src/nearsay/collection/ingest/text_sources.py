"""Texts as sources: a column of a table, the files of a folder, the lines of a file.

table with a column of texts ─┐
folder of .txt and .md       ─┼─► rows with details["text"] ──► described, or refused one by one
lines                        ─┘
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from nearsay.collection.ingest.batches import RawRows, Reader
from nearsay.collection.ingest.picture_files import leads_out
from nearsay.collection.ingest.picture_sources import labels_of_folders
from nearsay.core.arrays import row_blocks
from nearsay.describe.texts.text_descriptor import LONGEST_TEXT, text_fault
from nearsay.errors import InputError

ROWS_AT_ONCE = 4096
TEXT_ENDINGS = (".txt", ".md")

# Texts to a row for each of them.
DescribeTexts = Callable[[list[str]], np.ndarray]


class DescribedTexts(Reader):
    """The rows of a reader with their texts described; without ``describe`` they have no columns yet."""

    kind = "texts"

    def __init__(self, reader: Reader, describe: DescribeTexts | None) -> None:
        self._reader, self._describe = reader, describe
        self.chosen, self.n_rows = reader.chosen, reader.n_rows
        self.taxonomy, self.text_column, self.group_by = reader.taxonomy, reader.text_column, reader.group_by

    def __iter__(self) -> Iterator[RawRows]:
        for raw in self._reader:
            places = []
            for place, details in enumerate(raw.details):
                if place not in raw.refused:
                    fault = text_fault(details.get("text", ""))
                    if fault is None:
                        places.append(place)
                    else:
                        raw.refused[place] = fault
                        raw.details[place] = {}  # a text that is refused is not looked at again
            if self._describe is not None and places:
                X = self._describe([raw.details[place]["text"] for place in places])
                raw.X = np.zeros((len(raw.ids), X.shape[1]), np.float32)
                raw.X[places] = X
            yield raw


class TextFolder(Reader):
    """The ``.txt`` and ``.md`` files of a folder and its subfolders, an item each; the subfolders are labels."""

    kind = "texts"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._names = text_files(folder)
        if not self._names:
            raise InputError(f"{folder} holds no texts ({', '.join(TEXT_ENDINGS)}), nor do the folders within it.")
        self.n_rows = len(self._names)
        self.taxonomy, self._label_of = labels_of_folders([name.parts[:-1] for name in self._names])
        n_labels = len(set(self._label_of.values()) - {None})
        labeled = f"labeled by the {n_labels} folders they lie in" if n_labels else "without labels"
        self.chosen = [f"{self.n_rows} texts, {labeled}"]
        if self.taxonomy is not None:
            self.chosen.append(f"folders within folders are a taxonomy of depth {self.taxonomy.depths.max()}")

    def __iter__(self) -> Iterator[RawRows]:
        for block in row_blocks(self.n_rows, size=ROWS_AT_ONCE):
            names = self._names[block]
            labels = [self._label_of[name.parts[:-1]] for name in names]
            raw = RawRows(list(range(self.n_rows)[block]), [name.as_posix() for name in names], labels=labels)
            for place, name in enumerate(names):
                try:
                    raw.details[place] = {"text": read_text_file(self.folder, name)}
                except InputError as error:
                    raw.refused[place] = str(error)
            yield raw


def text_files(folder: Path) -> list[Path]:
    """The text files of a folder and its subfolders, relative to it, in order; hidden ones are left out."""
    files = [path for path in folder.rglob("*") if path.suffix.lower() in TEXT_ENDINGS and not path.is_dir()]
    names = [path.relative_to(folder) for path in files]
    return sorted(name for name in names if not any(part.startswith(".") for part in name.parts))


def read_text_file(folder: Path, name: Path) -> str:
    """The text of a file within the folder; an error says what is wrong with it."""
    path = folder / name
    if leads_out(folder, path):
        raise InputError("the path leaves the folder, by a link")
    if not path.is_file():
        raise InputError("there is no such file")
    try:
        with open(path, "rb") as file:
            content = file.read(4 * LONGEST_TEXT + 4)
    except OSError as error:
        raise InputError(f"it cannot be read ({error.strerror})") from error
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError("it is UTF-16 text; save it as UTF-8")
    if len(content) > 4 * LONGEST_TEXT:
        raise InputError(f"it has more than {LONGEST_TEXT:,} characters; split it into several files")
    return content.decode("utf-8-sig", "surrogateescape").strip()


class TextLines(Reader):
    """The lines of a file or of standard input, an item each; blank lines are left out."""

    kind = "texts"

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = [(number, line.strip()) for number, line in enumerate(lines, start=1) if line.strip()]
        self.n_rows = len(self._lines)
        self.chosen = [f"{self.n_rows} texts, one a line"]

    def __iter__(self) -> Iterator[RawRows]:
        for block in row_blocks(self.n_rows, size=ROWS_AT_ONCE):
            lines = self._lines[block]
            yield RawRows(
                list(range(self.n_rows)[block]),
                [text_id(text) for _, text in lines],
                details=[{"text": text} for _, text in lines],
                lines=[number for number, _ in lines],
            )


def text_id(text: str) -> str:
    """An id for a text that has none, by its content.

    >>> text_id("where is my card")
    'text-32a9ac6d9e94'
    """
    return f"text-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
