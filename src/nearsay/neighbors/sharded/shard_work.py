"""Runs the tasks of a sharded search in one process, and keeps their answers in a work folder for a restart.

search ──► tasks ──► OneProcess: shard after shard ──────┐
                └──► DaskCluster: many at a time ────────┼──► merged ──► the next round of tasks, or the result
                           │                             │
                           └── work folder: each answer is written once, under the fingerprint of its task
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from nearsay.core.arrays import READING_A_HEADER, mapped
from nearsay.data.replacing import replacing
from nearsay.errors import InputError
from nearsay.neighbors.sharded.fitted_shards import known_as
from nearsay.neighbors.sharded.shard_search import Partial, ShardTask, merge

# Raise this when what is computed or written changes: fingerprints include it.
FORMAT = 3

Report = Callable[[], Any]
Item = TypeVar("Item")
Result = TypeVar("Result")
# A generator that yields tasks, one for each shard, receives the merged answer, may yield another round, and returns
# the result. Several can run at a time: each depends on its own answers only.
TaskRounds: TypeAlias = Generator[Sequence[ShardTask], Partial, Result]


class Workers(Protocol):
    """Runs tasks: this process, or a cluster."""

    def run(self, searches: Iterable[TaskRounds[Result]], folder: str | None, report: Report) -> Iterator[Result]:
        """The results of the searches, in order; calls ``report`` after each task.

        Answers that are in ``folder`` are read from there.
        """
        ...

    def each(self, work: Callable[[Item], Result], items: Sequence[Item], report: Report) -> Iterator[Result]:
        """The results of a pure function for each item, in order; a lost worker's items are run again."""
        ...


class OneProcess:
    """Runs one task after the other, in this process, with as many threads as nearsay may use."""

    def run(self, searches: Iterable[TaskRounds[Result]], folder: str | None, report: Report) -> Iterator[Result]:
        """One search after the other; at most two answers are in memory."""
        for rounds in searches:
            yield self._run_one(rounds, folder, report)

    def _run_one(self, rounds: TaskRounds[Result], folder: str | None, report: Report) -> Result:
        def answers(tasks: Sequence[ShardTask]) -> Iterator[Partial]:
            for task in tasks:
                yield answer_once(task, folder)
                report()

        try:
            tasks = next(rounds)
            while True:
                tasks = rounds.send(merge(answers(tasks)))
        except StopIteration as end:
            return end.value

    def each(self, work: Callable[[Item], Result], items: Sequence[Item], report: Report) -> Iterator[Result]:
        """One item after the other."""
        for item in items:
            result = work(item)
            report()
            yield result


def answer_once(task: ShardTask, folder: str | None = None) -> Partial:
    """The answer of a task: read from the work folder, or computed and written there.

    Any number of processes may share the folder: files appear atomically.
    """
    if folder is None:
        return task.answer()
    task.shard.check()  # the answer is void if the file has changed
    path = Path(folder) / f"{fingerprint(task)}.npz"
    known = _read(path)
    if known is not None:
        return known
    result = task.answer()
    with replacing(path) as out:
        np.savez(out, **result.arrays())  # type: ignore[arg-type]  # an array of no name is a bool, to mypy
    return result


def fingerprint(task: ShardTask) -> str:
    """A name for a task, from the content of its file, its queries and settings, but not from paths."""
    distance = known_as(task.distance)
    if distance is None:
        raise InputError(
            "A work_folder needs a metric with a name, and this one is a function. Pass a metric by name, or no"
            " work_folder."
        )
    settings = [FORMAT, task.shard.known_by(), task.k, distance, task.n_classes, task.n_members, task.search]
    digest = hashlib.sha256(json.dumps(settings).encode())
    for array in (task.removed, task.Q, task.left_out, _labels(task), task.near, *(task.groups or ())):
        if array is None:
            digest.update(b"none")
        else:
            digest.update(f"{array.dtype.str} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:40]


def work_folder(path: str | os.PathLike[str] | None) -> str | None:
    """The full path of the work folder, which is created if it does not exist."""
    if path is None:
        return None
    folder = Path(path).resolve()
    if folder.exists() and not folder.is_dir():
        raise InputError(f"The work folder {folder} is a file. Name a folder, which need not exist.")
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


def _labels(task: ShardTask) -> np.ndarray | None:
    if isinstance(task.labels, str):
        return mapped(task.labels)[task.shard.first : task.shard.end]
    return task.labels


def _read(path: Path) -> Partial | None:
    """The answer in a file; None if it is missing or damaged."""
    try:
        with READING_A_HEADER, np.load(path) as result:
            return Partial.of_arrays(dict(result))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile):
        return None
