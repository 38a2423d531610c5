"""Who does the tasks of a search over shards, and how what was done is found again after an interruption.

a talk ──► tasks ──► OneProcess: shard after shard ──────────┐
                └──► on_dask.DaskCluster: many at a time ────┼──► merged ──► what the talk asks next, or its result
                           │                                 │
                           └── a work folder: each answer is written once, under the fingerprint of its task
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

# A change in what is computed or written makes all fingerprints new.
FORMAT = 2

Told = Callable[[], Any]
Item = TypeVar("Item")
Found = TypeVar("Found")
# Yields tasks, one for each shard, gets the merged answer, may ask again, and returns what came of it. Several can be
# held at a time: what one asks depends on nothing but its own answers.
Talk: TypeAlias = Generator[Sequence[ShardTask], Partial, Found]


class Workers(Protocol):
    """Whoever does tasks."""

    def held(self, talks: Iterable[Talk[Found]], folder: str | None, tell: Told) -> Iterator[Found]:
        """What comes of each talk, in order; ``tell`` is called after each task.

        What ``folder`` holds is not done again.
        """
        ...

    def each(self, work: Callable[[Item], Found], items: Sequence[Item], tell: Told) -> Iterator[Found]:
        """What a pure function gives for each item, in order; it may be done again where a worker was lost."""
        ...


class OneProcess:
    """Does one task after the other, in this process, with as many threads as nearsay may use."""

    def held(self, talks: Iterable[Talk[Found]], folder: str | None, tell: Told) -> Iterator[Found]:
        """One talk after the other; answers of two tasks at a time are in memory."""
        for talk in talks:
            yield self._to_the_end(talk, folder, tell)

    def _to_the_end(self, talk: Talk[Found], folder: str | None, tell: Told) -> Found:
        def answers(tasks: Sequence[ShardTask]) -> Iterator[Partial]:
            for task in tasks:
                yield answer_once(task, folder)
                tell()

        try:
            tasks = next(talk)
            while True:
                tasks = talk.send(merge(answers(tasks)))
        except StopIteration as end:
            found: Found = end.value
            return found

    def each(self, work: Callable[[Item], Found], items: Sequence[Item], tell: Told) -> Iterator[Found]:
        """One after the other."""
        for item in items:
            found = work(item)
            tell()
            yield found


def answer_once(task: ShardTask, folder: str | None = None) -> Partial:
    """The answer of a task: read from the work folder where it is there, otherwise found, and written there.

    Any number of processes may work in one folder, on machines that share it: a file is whole or not there.
    """
    if folder is None:
        return task.answer()
    task.shard.check()  # an answer about a file that has changed since is none
    path = Path(folder) / f"{fingerprint(task)}.npz"
    known = _read(path)
    if known is not None:
        return known
    found = task.answer()
    with replacing(path) as out:
        np.savez(out, **found.arrays())  # type: ignore[arg-type]  # an array of no name is a bool, to mypy
    return found


def fingerprint(task: ShardTask) -> str:
    """Names a task by all that its answer depends on, whatever the paths of the files are.

    A file with other content, another query, another setting: another name.
    """
    distance = known_as(task.distance)
    if distance is None:
        raise InputError(
            "What was done is found again by the name of the metric, and this one is a function. Pass a metric by"
            " name, or no work_folder."
        )
    settings = [FORMAT, task.shard.known_by(), task.k, distance, task.n_classes, task.n_members, task.search]
    digest = hashlib.sha256(json.dumps(settings).encode())
    for array in (task.removed, task.Q, task.left_out, _labels(task), task.asked):
        if array is None:
            digest.update(b"none")
        else:
            digest.update(f"{array.dtype.str} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:40]


def work_folder(path: str | os.PathLike[str] | None) -> str | None:
    """The full path of a folder for answers, which is made where it is not there."""
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
    """What a file holds; None where there is none, or one that is damaged."""
    try:
        with READING_A_HEADER, np.load(path) as found:
            return Partial.of_arrays(dict(found))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile):
        return None
