"""Label a folder of Parquet files, file by file, on one machine or many; files that were labeled are skipped.

    new/0.parquet ──► collection, opened by each worker ──► answers/0.parquet, then 0.done.json
    new/day=2/1.parquet ──►                             ──► answers/day=2/1.parquet, …

``0.done.json`` records what the answers depend on: the file, the version of the collection, and the settings. It is
written last, so a file without one is labeled again.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nearsay.collection.distributed import opened_at
from nearsay.collection.ingest.batches import Problem
from nearsay.collection.labeling import label_source
from nearsay.collection.live import LiveCollection
from nearsay.data.replacing import replacing
from nearsay.errors import InputError, StorageError
from nearsay.neighbors.sharded.dask_cluster import workers_of
from nearsay.search.stored.places import file_checksum, files_within

ENDING, DONE = ".parquet", ".done.json"


@dataclass(frozen=True)
class LabeledParts:
    """The result of labeling a folder of files.

    Attributes
    ----------
    paths : the files of answers, in the order of the sources.
    n_answers : how many answers they hold.
    n_kept : how many of the files were labeled before.
    problems : rows that were left out.
    """

    paths: list[str]
    n_answers: int
    n_kept: int
    problems: list[Problem]

    def to_dict(self) -> dict[str, Any]:
        """Everything as values that ``json.dumps`` takes."""
        problems = [problem.to_dict() for problem in self.problems]
        return {"written": self.paths, "answers": self.n_answers, "kept": self.n_kept, "problems": problems}


@dataclass(frozen=True)
class PartTask:
    """One file to label, and all that the answers depend on."""

    collection: str
    version: int
    source: str
    source_digest: str
    out: str
    accuracy: float | None
    n_keywords: int
    id_column: str | None

    @property
    def done(self) -> Path:
        """The file that records that the answers are complete."""
        return Path(self.out).with_suffix(DONE)

    @property
    def fingerprint(self) -> str:
        """A digest of all that the answers depend on, wherever the files are."""
        task = {**asdict(self), "collection": "", "source": Path(self.source).name, "out": ""}
        return hashlib.sha256(json.dumps(task, sort_keys=True).encode()).hexdigest()

    def previous_result(self) -> dict[str, Any] | None:
        """The record of answers to this task; None where there are none."""
        try:
            result: dict[str, Any] = json.loads(self.done.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        return result if result.get("fingerprint") == self.fingerprint and Path(self.out).exists() else None


def label_parts(
    collection: str | os.PathLike[str],
    src: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    accuracy: float | None = None,
    n_keywords: int = 5,
    id_column: str | None = None,
    cluster: Any = None,
    overwrite: bool = False,
    on_progress: Callable[[int, int], Any] | None = None,
) -> LabeledParts:
    """Label every Parquet file of a folder, and write a file of answers for each.

    Parameters
    ----------
    collection : path of the collection; on a cluster, every worker has it there.
    src : a folder of Parquet files with the columns that the collection was made of; those of its partitions (folders
        named ``key=value``) get folders of the same names.
    out : a folder for the answers; made if missing.
    accuracy, n_keywords, id_column : as in ``label_source``.
    cluster : as in ``ShardedIndex``; None works in this process.
    overwrite : replace answers to other questions, instead of refusing to.
    on_progress : function of (files done, files in all), optional
    """
    files = parquet_files(src)
    if not files:
        raise InputError(f"{src} is no folder with {ENDING} files. Name one, or label a single table without parts.")
    folder = Path(out).resolve()
    outs = [folder / path.relative_to(Path(src).resolve()) for path in files]
    for within in {folder, *(path.parent for path in outs)}:
        within.mkdir(parents=True, exist_ok=True)
    with LiveCollection.open(collection, read_only=True) as opened:
        version = opened.version
    where = str(Path(collection).resolve())
    settings = (accuracy, n_keywords, id_column)
    tasks = [
        PartTask(where, version, str(path), file_checksum(path), str(place), *settings)
        for path, place in zip(files, outs, strict=True)
    ]
    kept = [task for task in tasks if task.previous_result() is not None]
    _check_free([task for task in tasks if task not in kept], overwrite)
    done = 0

    def report() -> None:
        nonlocal done
        done += 1
        if on_progress is not None:
            on_progress(done, len(tasks))

    results = list(workers_of(cluster).each(label_part, tasks, report))
    problems = [Problem(**problem) for each in results for problem in each["problems"]]
    return LabeledParts([task.out for task in tasks], sum(each["n_answers"] for each in results), len(kept), problems)


def parquet_files(folder: str | os.PathLike[str]) -> list[Path]:
    """The Parquet files of a folder and of its partitions, in order; none where it is no folder."""
    path = os.path.realpath(folder)
    return [Path(each) for each in files_within(path) if each.endswith(ENDING)] if os.path.isdir(path) else []


def label_part(task: PartTask) -> dict[str, Any]:
    """Label one file, unless that was done; gives the content of its ``.done.json``."""
    known = task.previous_result()
    if known is not None:
        return known
    if not Path(task.source).exists() or file_checksum(task.source) != task.source_digest:
        raise StorageError(f"{task.source} on {socket.gethostname()} is missing or has changed. Run it again.")
    with opened_at(task.collection, task.version) as collection:
        labeled = label_source(
            collection, task.source, task.out, accuracy=task.accuracy, n_keywords=task.n_keywords,
            overwrite=True, id_column=task.id_column,
        )  # fmt: skip
    result = {
        "fingerprint": task.fingerprint,
        "n_answers": len(labeled.answers),
        "version": task.version,
        "problems": [asdict(problem) for problem in labeled.problems],
    }
    with replacing(task.done) as file:
        file.write(json.dumps(result, indent=1).encode())
    return result


def _check_free(tasks: list[PartTask], overwrite: bool) -> None:
    """Refuse to replace answers to another question, unless ``overwrite``."""
    for task in tasks:
        if task.done.exists() and not overwrite:
            raise InputError(
                f"{task.out} holds answers to another question: another version of the collection or of the file, or"
                " other settings. Name another folder, or pass overwrite=True."
            )
