"""Export answers: as tables, as sidecars of pictures, and for labeling tools.

::

    answers ──► .csv .jsonl .parquet, a DataFrame
            ──► XMP           a sidecar for each picture            (xmp_sidecars.py)
            ──► Label Studio, FiftyOne                              (labeling_tools.py)

Every file is written completely or not at all, and none is replaced without ``overwrite``.
"""

from __future__ import annotations

import csv
import json
import math
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from nearsay.collection.answers import Answer
from nearsay.collection.export.labeling_tools import fiftyone_files, label_studio_tasks
from nearsay.collection.export.xmp_sidecars import write_sidecars
from nearsay.collection.ingest.batches import Problem
from nearsay.data.replacing import as_text, replacing
from nearsay.errors import InputError, require, unknown_name
from nearsay.posterior.evidence.evidence import record_in_words
from nearsay.reports.report_page import check_free

BY_ENDING = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
# With one of these first, a spreadsheet takes a cell for a formula, and may run it.
FORMULA = re.compile(r"\s*[=+\-@\t\r\n|%]|[\t\r\n]")
BETWEEN = "; "


@dataclass(frozen=True)
class Exported:
    """The files that were written, and the answers that could not be.

    Attributes
    ----------
    paths : list of Path
    problems : answers that are in none of the files, by their number; only sidecars have any.
    """

    paths: list[Path]
    problems: list[Problem] = field(default_factory=list)


def export_answers(
    answers: Iterable[Answer],
    path: str | os.PathLike[str] | None = None,
    *,
    format: str | None = None,
    overwrite: bool = False,
    pictures: str | os.PathLike[str] | None = None,
    beside_pictures: bool = False,
) -> Exported:
    """Write answers for spreadsheets, programs, photo managers or labeling tools.

    Parameters
    ----------
    answers : Answers
    path
        The file; its ending chooses the format unless ``format`` does. For ``xmp`` and ``fiftyone`` a folder.
    format : "csv", "jsonl", "parquet", "xmp", "label-studio" or "fiftyone", optional
    overwrite : replace existing files.
    pictures : path, optional
        The folder in which the paths of the answers begin; for ``fiftyone`` by default that of ``path``.
    beside_pictures : bool
        Write XMP sidecars next to the pictures, instead of into a folder ``path``. An existing one is not replaced:
        new words are added to it.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "out.csv"
    >>> _ = export_answers([Answer("=1+1", "owl", 0.9)], path)
    >>> print(path.read_text().splitlines()[1][:17])
    "'=1+1","owl",0.9
    >>> export_answers([], path)
    Traceback (most recent call last):
    nearsay.errors.InputError: out.csv exists already. Pass overwrite=True to replace it, or name another file.
    """
    given = list(answers)
    chosen, path = format_and_path(path, format, beside_pictures)
    if chosen == "xmp" or path is None:
        folder = None if pictures is None else Path(pictures)
        return export_sidecars(given, [folder] * len(given), path, overwrite=overwrite)
    if chosen == "fiftyone":
        return write_folder(path, fiftyone_files(given, Path(pictures or path.parent)), overwrite=overwrite)
    return write_file(path, lambda out: WRITERS[chosen](given, out), "An answer", overwrite=overwrite)


def format_and_path(
    path: str | os.PathLike[str] | None, format: str | None, beside_pictures: bool
) -> tuple[str, Path | None]:
    """The format, and the path; None is next to the pictures."""
    if beside_pictures:
        if path is not None or format not in (None, "xmp"):
            raise InputError(
                "beside_pictures=True writes XMP sidecars next to the pictures: leave path and format out."
            )
        return "xmp", None
    if path is None:
        raise InputError("Pass a path, or beside_pictures=True for XMP sidecars.")
    return format_of(Path(path), format), Path(path)


def export_sidecars(
    answers: list[Answer], folders: list[Path | None], out: Path | None, *, overwrite: bool
) -> Exported:
    """Write sidecars of pictures in these folders: into a folder ``out``, or next to the pictures."""
    if out is None:
        if any(folder is None and answer.path for answer, folder in zip(answers, folders, strict=True)):
            raise InputError(
                "The folder of the pictures is not known on this machine. Pass pictures=, their folder, or write the"
                " sidecars into a folder of their own."
            )
        return Exported(*write_sidecars(answers, folders))
    if out.resolve() in {folder.resolve() for folder in set(folders) if folder is not None}:
        raise InputError(
            f"{out} is the folder of the pictures. Name another one, or write the sidecars next to the pictures."
        )
    if out.exists() and not out.is_dir():
        raise InputError(f"{out.name} is a file, and sidecars are many: name a folder.")
    if out.is_dir() and any(out.iterdir()):
        check_free(out, overwrite=overwrite)
    out.mkdir(exist_ok=True)
    return Exported(*write_sidecars(answers, folders, out))


def format_of(path: Path, format: str | None) -> str:
    """The given format, or that of the ending."""
    chosen = format or BY_ENDING.get(path.suffix.lower())
    if chosen is None or chosen not in WRITERS:
        if format is None and path.suffix.lower() == ".xmp":
            raise InputError(
                "XMP sidecars are one file for each picture: name a folder and pass format='xmp', or"
                " beside_pictures=True."
            )
        if format is None:
            raise InputError(
                f"Cannot tell the format from {path.name!r}: known endings are {', '.join(sorted(BY_ENDING))}."
                f" Or pass format=, one of {', '.join(sorted(WRITERS))}."
            )
        raise unknown_name("format", format, WRITERS)
    return chosen


def write_file(path: Path, write: Callable[[IO[bytes]], Any], what: str, *, overwrite: bool) -> Exported:
    """Write a file completely or not at all; an existing one is refused unless ``overwrite``."""
    check_free(path, overwrite=overwrite)
    try:
        with replacing(path) as out:
            write(out)
    except UnicodeError as error:
        raise InputError(f"{what} cannot be written as UTF-8 ({error}). Correct its id or label.") from error
    return Exported([path])


def write_folder(folder: Path, files: dict[str, Any], *, overwrite: bool) -> Exported:
    """Write JSON files into a folder, each completely or not at all."""
    check_free(folder, overwrite=overwrite)
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        with replacing(folder / name) as out, as_text(out) as text:
            text.write(as_json(content, indent=1))
    return Exported([folder / name for name in files])


def to_frame(answers: Iterable[Answer]) -> Any:
    """A pandas DataFrame with a line for every answer; sets, paths, keywords and neighbors are lists in it.

    >>> to_frame([Answer("a", "owl", 0.9, keywords=[("sky", 0.5)])])[["id", "label", "keywords"]]
      id label     keywords
    0  a   owl  [(sky, 0.5)]
    """
    pandas = require("pandas", "pandas")
    names = [name for name in Answer("").to_dict() if name != "text"]
    rows = [[getattr(answer, "set_" if name == "set" else name) for name in names] for answer in answers]
    return pandas.DataFrame(rows, columns=names)


# ------------------------------------------------------------------ tables


def flat(answer: Answer) -> dict[str, Any]:
    """The answer as cells of a table: numbers, and texts that may list several values.

    >>> flat(Answer("a", "owl", 0.9, {"cases": 3, "right": 2}, keywords=[("sky", 0.5), ("sun", 0.25)]))["keywords"]
    'sky; sun'
    """
    record = answer.record or {}
    return {
        "id": answer.id,
        "label": answer.label,
        "probability": answer.probability,
        "set": BETWEEN.join(answer.set_),
        "at_least": answer.hedge_shown["node"],
        "node": answer.node,
        "node_probability": answer.node_probability,
        "node_path": " > ".join(answer.node_path),
        "keywords": BETWEEN.join(word for word, _ in answer.keywords),
        "record": None if answer.record is None else record_in_words(answer.record),
        "cases": record.get("cases"),
        "right": record.get("right"),
        "keyword_scores": BETWEEN.join(f"{score:.4g}" for _, score in answer.keywords),
        "neighbors": BETWEEN.join(neighbor.id for neighbor in answer.neighbors),
        "novelty": answer.novelty,
        "twin_of": answer.twin_of,
        "path": answer.path,
        "item_text": answer.item_text,
        "nearest_text": answer.neighbors[0].text if answer.neighbors else None,
        "version": answer.version,
    }


def safe_cell(value: Any) -> Any:
    """A cell that no spreadsheet runs as a formula: such a text gets an apostrophe.

    >>> safe_cell("=1+1"), safe_cell(-1.5), safe_cell("owl"), safe_cell(None)
    ("'=1+1", -1.5, 'owl', '')
    """
    if value is None:
        return ""
    return f"'{value}" if isinstance(value, str) and FORMULA.match(value) else value


def _write_csv(answers: list[Answer], out: IO[bytes]) -> None:
    write_cells(flat(Answer("")), (flat(answer).values() for answer in answers), out)


def write_cells(names: Iterable[str], rows: Iterable[Iterable[Any]], out: IO[bytes]) -> None:
    """Write a table for spreadsheets, in which no cell is a formula."""
    with as_text(out) as text:
        # In quotes, every text: Python's writer leaves a lone carriage return bare, which ends the line for readers.
        writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow(names)
        for row in rows:
            writer.writerow([safe_cell(value) for value in row])


def _write_jsonl(answers: list[Answer], out: IO[bytes]) -> None:
    write_lines((answer.to_dict() for answer in answers), out)


def write_lines(values: Iterable[Any], out: IO[bytes]) -> None:
    """Write a line of JSON for each value."""
    with as_text(out) as text:
        for value in values:
            text.write(f"{as_json(value)}\n")


def as_json(value: Any, *, indent: int | None = None) -> str:
    """JSON in one line: not finite numbers as null, and characters that some readers take for line ends escaped."""
    written = json.dumps(_plain(value), ensure_ascii=False, allow_nan=False, indent=indent)
    return re.sub("[\x7f\x85\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", written)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(held) for name, held in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(held) for held in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


# What the columns of a Parquet file hold: a type, a list of one, a map to numbers, or fields of a dict with theirs.
RECORD = {"cases": int, "right": int, "low": float, "high": float}
WIDER = {"node": str, "node_path": [str], "node_probability": float, "node_word": str}
HEDGE = {
    "accuracy": float, "node": str, "node_word": str, "node_path": [str], "set": [str], "set_probability": float,
    "set_nodes": [str], "node_probability": float, "node_record": RECORD, "wider": WIDER,
}  # fmt: skip
HELD: dict[str, Any] = {
    **dict.fromkeys(("id", "label", "node", "node_word", "twin_of", "path", "text", "item_text", "models"), str),
    **dict.fromkeys(("probability", "node_probability", "set_probability", "novelty"), float),
    **{key: [str] for key in ("set", "set_nodes", "node_path", "compared")},
    **dict.fromkeys(("record", "node_record"), RECORD),
    "wider": WIDER,
    "probabilities": {str: float},
    "keywords": [{"word": str, "score": float}],
    "neighbors": [{"id": str, "label": str, "distance": float, "weight": float, "text": str}],
    "hedges": [HEDGE],
    "tree": [{"node": str, "word": str, "parent": str, "depth": int, "probability": float}],
    "version": int,
}


def _write_parquet(answers: list[Answer], out: IO[bytes]) -> None:
    pyarrow: Any = require("pyarrow", "parquet")
    parquet: Any = require("pyarrow.parquet", "parquet")

    def kind_of(held: Any) -> Any:
        if isinstance(held, list):
            return pyarrow.list_(kind_of(held[0]))
        if str in (held if isinstance(held, dict) else ()):
            return pyarrow.map_(kind_of(str), kind_of(held[str]))
        if isinstance(held, dict):
            return pyarrow.struct({name: kind_of(each) for name, each in held.items()})
        return {str: pyarrow.string(), float: pyarrow.float64(), int: pyarrow.int64()}[held]

    schema = pyarrow.schema([(name, kind_of(HELD[name])) for name in Answer("").to_dict()])
    rows = [{**row, "probabilities": [*row["probabilities"].items()]} for row in map(Answer.to_dict, answers)]
    parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), out)


def _write_label_studio(answers: list[Answer], out: IO[bytes]) -> None:
    with as_text(out) as text:
        text.write(as_json(label_studio_tasks(answers), indent=1))


WRITERS: dict[str, Any] = {
    "csv": _write_csv,
    "jsonl": _write_jsonl,
    "parquet": _write_parquet,
    "label-studio": _write_label_studio,
    "xmp": None,  # several files, written elsewhere
    "fiftyone": None,
}
