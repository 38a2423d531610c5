"""Texts as sources: a column of a table, the files of a folder, the lines of a file, JSON lines.

table with a column of texts ─┐
folder of .txt and .md       ─┼─► rows with details["text"] ──► described, or refused one by one
.jsonl, lines                ─┘
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from nearsay.collection.ingest.batches import RawRows, Reader
from nearsay.collection.ingest.picture_files import leads_out
from nearsay.collection.ingest.picture_sources import labels_of_folders
from nearsay.collection.store.validate_items import name_fault
from nearsay.core.arrays import row_blocks
from nearsay.data.tables.columns import (
    TEXT_NAMES,
    ColumnChoices,
    choose_roles,
    column_called,
    separator_of,
    split_keywords,
)
from nearsay.describe.texts.text_descriptor import LONGEST_TEXT, text_fault
from nearsay.errors import InputError

ROWS_AT_ONCE = 4096
SAMPLE = 50
# Bytes of a line of JSON; more than any text that is described takes.
LONGEST_LINE = 16 << 20
TEXT_ENDINGS = (".txt", ".md")

# Texts to a row for each of them.
DescribeTexts = Callable[[list[str]], np.ndarray]


class DescribedTexts:
    """The rows of a reader with their texts described; without ``describe`` they have no columns yet."""

    def __init__(self, reader: Reader, describe: DescribeTexts | None) -> None:
        self._reader, self._describe = reader, describe
        self.chosen, self.n_rows = reader.chosen, reader.n_rows
        self.columns: list[str] = []
        roles, names = getattr(reader, "roles", None), getattr(reader, "names", None)
        self.text_column = None if roles is None or names is None else names[roles.text]

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


class TextFolder:
    """The ``.txt`` and ``.md`` files of a folder and its subfolders, an item each; the subfolders are labels."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._names = text_files(folder)
        if not self._names:
            raise InputError(f"{folder} holds no texts ({', '.join(TEXT_ENDINGS)}), nor do the folders within it.")
        self.n_rows = len(self._names)
        self.columns: list[str] = []
        self.feature_groups: dict[str, slice] = {}
        named = [name.parts[:-1] for name in self._names]
        good = [folders for folders in named if all(name_fault(each) is None and each.strip() for each in folders)]
        self.taxonomy, self._label_of = labels_of_folders(good)
        self._label_of |= {folders: folders[-1] for folders in named if folders not in self._label_of}
        n_labels = len(set(self._label_of.values()) - {None})
        labeled = f"labeled by the {n_labels} folders they lie in" if n_labels else "without labels"
        self.chosen = [f"{self.n_rows} texts, {labeled}"]
        if self.taxonomy is not None:
            self.chosen.append(f"folders within folders are a taxonomy of depth {self.taxonomy.depths.max()}")

    def __iter__(self) -> Iterator[RawRows]:
        for block in row_blocks(self.n_rows, size=ROWS_AT_ONCE):
            names = self._names[block]
            labels = [self._label_of[name.parts[:-1]] for name in names]
            ids = [name.as_posix() for name in names]
            raw = _raw(list(range(self.n_rows)[block]), ids, labels)
            for place, name in enumerate(names):
                try:
                    raw.details[place] = {"text": read_text_file(self.folder, name)}
                except InputError as error:
                    raw.refused[place] = str(error)
            yield raw


def text_files(folder: Path) -> list[Path]:
    """The text files of a folder and its subfolders, relative to it, in order; hidden ones are left out."""
    files = [path for path in folder.rglob("*") if path.suffix.lower() in TEXT_ENDINGS and path.is_file()]
    names = [path.relative_to(folder) for path in files]
    return sorted(name for name in names if not any(part.startswith(".") for part in name.parts))


def read_text_file(folder: Path, name: Path) -> str:
    """The text of a file within the folder; an error says what is wrong with it."""
    path = folder / name
    if leads_out(folder, path):
        raise InputError("the path leaves the folder, by a link")
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


class TextLines:
    """The lines of a file or of standard input, an item each; blank lines are left out."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = [(number, line.strip()) for number, line in enumerate(lines, start=1) if line.strip()]
        self.n_rows = len(self._lines)
        self.columns: list[str] = []
        self.feature_groups: dict[str, slice] = {}
        self.chosen = [f"{self.n_rows} texts, one a line"]

    def __iter__(self) -> Iterator[RawRows]:
        for block in row_blocks(self.n_rows, size=ROWS_AT_ONCE):
            lines = self._lines[block]
            raw = _raw(list(range(self.n_rows)[block]), [text_id(text) for _, text in lines], [None] * len(lines))
            raw.details = [{"text": text} for _, text in lines]
            raw.lines = [number for number, _ in lines]
            yield raw


def text_id(text: str) -> str:
    """An id for a text that has none, by its content.

    >>> text_id("where is my card")
    'text-32a9ac6d9e94'
    """
    return f"text-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


class JsonLines:
    """The objects of a file of JSON lines; their keys are columns, one of them the text."""

    def __init__(self, path: Path, choices: ColumnChoices) -> None:
        self.path = path
        objects = [each for _, each in islice(self._objects(), SAMPLE) if isinstance(each, dict)]
        if not objects:
            raise InputError(f"{path.name} holds no JSON objects, one a line.")
        self.names = list(dict.fromkeys(str(name) for each in objects for name in each))
        columns = [[each.get(name) for each in objects] for name in self.names]
        is_text = [any(isinstance(value, str | list) for value in values) for values in columns]
        choices = choices.for_table(self.names, len(self.names))
        if choices.text is None:
            choices = replace(choices, text=column_called(TEXT_NAMES, self.names))
        self.roles = choose_roles(self.names, is_text, choices, path.name)
        if self.roles.text is None:
            raise InputError(
                f"{path.name} has no column of texts by name. Name it (text_column=, --text-column): it has"
                f" {', '.join(self.names[:20])}."
            )
        self.chosen = self.roles.chosen
        with self._open() as file:
            self.n_rows = sum(1 for _ in file)
        self.columns: list[str] = []
        self.feature_groups: dict[str, slice] = {}
        words = None if self.roles.keywords is None else columns[self.roles.keywords]
        self._separator = separator_of([each for each in words or () if isinstance(each, str)])

    def _open(self) -> IO[bytes]:
        return open(self.path, "rb")

    def _objects(self) -> Iterator[tuple[int, Any]]:
        """Every line that is not blank: its number, and its value or an InputError."""
        with self._open() as file:
            number = 0
            while line := file.readline(LONGEST_LINE):
                number += 1
                whole = line.endswith(b"\n") or len(line) < LONGEST_LINE
                while not line.endswith(b"\n") and (more := file.readline(LONGEST_LINE)):
                    line = more
                if not whole:
                    yield number, InputError(f"the line has more than {LONGEST_LINE:,} bytes")
                elif line.strip():
                    yield number, _value(line, first=number == 1)

    def __iter__(self) -> Iterator[RawRows]:
        numbered = enumerate(self._objects())
        while block := list(islice(numbered, ROWS_AT_ONCE)):
            raw = _raw([row for row, _ in block], [], [])
            raw.lines = [line for _, (line, _) in block]
            raw.keywords = []
            for place, (row, (_, value)) in enumerate(block):
                self._take(raw, place, row, value)
            yield raw

    def _take(self, raw: RawRows, place: int, row: int, value: Any) -> None:
        roles, given = self.roles, value if isinstance(value, dict) else {}
        if isinstance(value, InputError):
            raw.refused[place] = str(value)
        elif not isinstance(value, dict):
            raw.refused[place] = "it is no JSON object, {…}"

        def cell(column: int | None) -> Any:
            return None if column is None else given.get(self.names[column])

        text = cell(roles.text)
        fault = text_fault(text)
        if fault is not None:
            raw.refused.setdefault(place, fault)
        id, label, words = cell(roles.id), cell(roles.label), cell(roles.keywords)
        raw.ids.append(f"{self.path.stem}:{row}" if roles.id is None else _cell(id))
        raw.labels.append(_cell(label) or None)
        listed = [_cell(word) for word in words] if isinstance(words, list) else None
        if listed is None and isinstance(words, str):
            listed = split_keywords(words, self._separator)
        raw.keywords.append(None if listed is None else list(dict.fromkeys(word for word in listed if word)))
        details = {self.names[column]: _cell(cell(column)) for column in roles.details}
        text = text.strip() if isinstance(text, str) else ""
        raw.details[place] = {**{name: kept for name, kept in details.items() if kept}, "text": text}


def _value(line: bytes, *, first: bool) -> Any:
    """The value of a line of JSON, or an InputError that says why it has none."""
    try:
        return json.loads(line.decode("utf-8-sig" if first else "utf-8", "surrogateescape"))
    except (ValueError, RecursionError) as error:
        why = "nested too deep" if isinstance(error, RecursionError) else " ".join(str(error).split())[:80]
        return InputError(f"it is not JSON ({why})")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value.strip() if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _raw(rows: list[int], ids: list[str], labels: Sequence[str | None]) -> RawRows:
    n = len(rows)
    return RawRows(rows, ids, np.zeros((n, 0)), list(labels), [None] * n, [{} for _ in range(n)])
