"""Check a collection: its faults, what to do about them, and its contents (``nearsay doctor COLLECTION``).

files and log     checksums, digests, the items against the log replayed       (integrity.py)
answers           tables kept in memory and some answers against the collection opened again
around it         leftover files, versions, the writer, whether learning is due
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nearsay import __version__
from nearsay.collection.live import LiveCollection
from nearsay.collection.state.learned import LEARN
from nearsay.collection.store import learned_files, shard_files
from nearsay.collection.store.database import Database
from nearsay.collection.store.files.folder import DATABASE, LOG, LOG_INDEX, Folder
from nearsay.collection.store.files.writer_lock import holder_of
from nearsay.collection.store.integrity import entry_faults
from nearsay.collection.store.reader import ReadableStore
from nearsay.collection.store.store import Store
from nearsay.errors import InputError, NearsayError, StorageError

ANSWERS_COMPARED = 20
# SQLite versions in which two connections that both write or checkpoint can damage a file.
FIRST_AFFECTED, LAST_AFFECTED = (3, 7, 0), (3, 51, 2)
RESTORE = "Restore the collection from a backup. Until then, open it with read_only=True and export what can be read."
RESTORE_ROWS = "Restore the file from a backup of the collection, or forget its items and add them again."
REOPEN = "Close the collection and open it again: what is on disk counts. This should not happen; please report it."
# What to do, by words of the fault; the first that fit.
ADVICE = (
    (f"{os.sep}{learned_files.FOLDER}{os.sep}", LEARN),
    ("he shard ", RESTORE_ROWS),
    ("he vectors of ", RESTORE_ROWS),
)


class Fault(NamedTuple):
    """A fault, and what to do about it."""

    what: str
    advice: str


@dataclass(frozen=True)
class Checkup:
    """The result of checking a collection.

    Attributes
    ----------
    path : str
    faults : list of Fault
        (what is wrong, what to do); empty where nothing is.
    compared : what was compared with the collection opened again; empty for one that was opened for this alone.
    versions : ``nearsay``, ``sqlite`` and ``format``, and ``sqlite_affected``: whether this SQLite has the bug below.
    items : dict
        ``rows`` ever added and those ``forgotten``; ``items`` that are there, and of these ``voters``, ``unconfirmed``
        and ``unlabeled`` ones; vectors in ``shards`` (files) and the ``tail`` (rows not sealed yet).
    learned : what is learned, in a sentence, or None; ``stale`` says whether to learn again.
    stored : dict
        Bytes: ``vectors``, ``database``, ``learned`` (in ``learned_folders``), and of files ``left_behind`` (in
        ``n_left_behind``), which the next writer removes.
    writer : who has the collection open for writing, or None.

    >>> import tempfile
    >>> leaves = LiveCollection.create(tempfile.mkdtemp() + "/leaves", n_columns=1)
    >>> _ = leaves.add(["a", "b", "c", "d"], [[0.0], [0.2], [4.0], [4.3]], labels=["oak", "oak", "elm", None])
    >>> found = checkup(leaves)
    >>> found.ok, found.items["voters"], found.items["unlabeled"]
    (True, 3, 1)
    >>> leaves.close()
    """

    path: str
    faults: list[Fault]
    compared: str = "nothing"
    versions: dict[str, Any] = field(default_factory=dict)
    items: dict[str, int] = field(default_factory=dict)
    learned: str | None = None
    stale: bool = False
    stored: dict[str, int] = field(default_factory=dict)
    writer: str | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults

    @property
    def notes(self) -> list[str]:
        """Remarks that are no faults, in sentences."""
        notes = []
        if self.versions.get("sqlite_affected"):
            first, last = (".".join(map(str, version)) for version in (FIRST_AFFECTED, LAST_AFFECTED))
            notes.append(
                f"SQLite {self.versions['sqlite']} is among {first} to {last}, in which two connections that both write"
                " can damage a file. Here one process writes and readers never do; let no other program write to it."
            )
        if self.stale:
            notes.append("At least a tenth of the items changed since it learned: learn again to make use of them.")
        if self.stored.get("n_left_behind"):
            notes.append(
                f"{self.stored['n_left_behind']:,} files of {_size(self.stored['left_behind'])} were left by an"
                " interrupted change. They are harmless, and the next writer removes them."
            )
        if self.items.get("unconfirmed"):
            notes.append(f"{self.items['unconfirmed']:,} unconfirmed labels of models do not vote.")
        return notes

    def __str__(self) -> str:
        n = len(self.faults)
        verdict = f"{n} fault{'s' * (n != 1)}." if n else "no faults."
        lines = [f"{self.path}: {verdict}"]
        for what, advice in self.faults:
            lines += [f"- {what}", f"  {advice}"]
        if self.items:
            lines.append(
                f"{self.items['items']:,} items, {self.items['voters']:,} vote, {self.items['forgotten']:,} forgotten;"
                f" {self.items['shards']:,} shards, {self.items['tail']:,} rows not sealed."
            )
        if self.versions:
            of = self.versions
            lines.append(f"nearsay {of['nearsay']}, SQLite {of['sqlite']}, format {of['format']}.")
        lines.append(self.learned or "Nothing is learned yet.")
        if self.stored:
            sizes = (f"{name} {_size(self.stored[name])}" for name in ("vectors", "database", "learned"))
            lines.append(f"On disk: {', '.join(sizes)}.")
        if self.compared:
            lines.append(f"Compared with the collection opened again: {self.compared}.")
        lines.append("No other process writes." if self.writer is None else f"Written to by {self.writer}.")
        return "\n".join([*lines, *self.notes])

    def to_dict(self) -> dict[str, Any]:
        """Everything, the text too, as values that ``json.dumps`` takes."""
        faults = [fault._asdict() for fault in self.faults]
        return {**asdict(self), "ok": self.ok, "faults": faults, "notes": self.notes, "text": str(self)}


def checkup(collection: LiveCollection | str | os.PathLike[str]) -> Checkup:
    """Check a collection for faults; everything is read, nothing is changed.

    Pass the folder of a collection, also while it is written to, or an open one: then the tables that it keeps in
    memory are compared with those of the collection opened again.
    """
    if isinstance(collection, LiveCollection):
        return _check_collection(collection, newly_opened=False)
    path = Path(os.path.abspath(collection))
    try:
        with LiveCollection.open(path, read_only=True) as opened:
            opened.store.check_row_numbers()
            return _check_collection(opened, newly_opened=True)
    except InputError:
        raise  # no collection, or one of a newer nearsay: that is no fault of it
    except (StorageError, OSError, ValueError, TypeError) as error:
        folder = Folder.open(path)
        try:
            more = [what for what in _damage_of(folder) if what not in str(error)]
            faults = [Fault(what, advice_on(what)) for what in (f"It cannot be opened: {error}", *more)]
            return Checkup(str(path), faults, writer=holder_of(folder))
        finally:
            folder.close()


def _damage_of(folder: Folder) -> list[str]:
    """The faults of a collection that cannot be opened, as far as it can be read."""
    faults: list[str] = []
    with suppress(OSError):
        faults += entry_faults(folder)
        database = Database.open(folder, read_only=True)
        try:
            faults += [what for what in ReadableStore(folder, database).damage() if what not in faults]
        finally:
            database.close()
    return faults


def _check_collection(collection: LiveCollection, *, newly_opened: bool) -> Checkup:
    store = collection.store
    faults = [Fault(what, advice_on(what)) for what in store.damage()]
    learned, stale, compared = None, False, ""
    items: dict[str, int] = {}
    try:
        items = _counts(collection)
        about = collection.learned
        learned, stale = (None, False) if about is None else (str(about), about.stale)
        if items["voters"] and about is not None and newly_opened:
            collection.label(store.vectors([int(np.argmax(collection.items.voting().votes))]))
        elif items["voters"] and about is not None:
            compared, differ = _compared(collection)
            faults += [Fault(what, REOPEN) for what in differ]
    except (NearsayError, OSError, ValueError, KeyError) as error:
        if not faults:  # otherwise that is why
            faults.append(Fault(f"The collection cannot answer: {error}", LEARN))
    left = [] if faults else store.left_behind()
    return Checkup(
        str(store.path),
        faults,
        compared,
        _versions(store),
        items,
        learned,
        stale,
        {
            **_sizes(store.folder),
            "left_behind": sum(folder.n_bytes(name) for folder, name in left),
            "n_left_behind": len(left),
        },
        holder_of(store.folder),
    )


def advice_on(fault: str) -> str:
    """What to do about a fault that ``Store.faults`` reports."""
    return next((advice for words, advice in ADVICE if words in fault), RESTORE)


def _counts(collection: LiveCollection) -> dict[str, int]:
    items, voting = collection.store.items(), collection.items.voting()
    alive, labeled = items.alive, np.array([label is not None for label in items.labels], np.bool_)
    sealed = collection.store.sealed()
    counts: dict[str, Any] = {
        "rows": len(alive),
        "items": np.count_nonzero(alive),
        "voters": 0 if voting.is_unlabeled else np.count_nonzero(voting.votes),
        "unconfirmed": np.count_nonzero(alive & labeled & ~items.confirmed),
        "unlabeled": np.count_nonzero(alive & ~labeled),
        "forgotten": np.count_nonzero(~alive),
        "shards": len(sealed),
        "tail": len(alive) - (sealed[-1].end if sealed else 0),
    }
    return {name: int(n) for name, n in counts.items()}


def _compared(collection: LiveCollection) -> tuple[str, list[str]]:
    """Compare the state in memory with the collection opened again; gives what was compared, and what differs."""
    with LiveCollection.open(collection.store.path, read_only=True) as fresh, collection.tracker.lock:
        ours, theirs = collection.state(), fresh.state()
        if ours.version != theirs.version:
            return "nothing, since it was changed meanwhile", []
        k = ours.learned.n_neighbors
        differ = []
        left, right = collection.tracker.left_out(ours.views, k), fresh.tracker.left_out(theirs.views, k)
        if not (np.array_equal(left.indices, right.indices) and np.array_equal(left.distances, right.distances)):
            differ.append("The leave-one-out table differs from that of the collection opened again.")
        pairs = list(zip(ours.classifier.posterior_.tables(), theirs.classifier.posterior_.tables(), strict=True))
        same = (
            np.array_equal(mine.cases, other.cases) and np.array_equal(mine.probability, other.probability)
            for mine, other in pairs
        )
        if not all(same):
            differ.append("A table of past cases differs from that of the collection opened again.")
        rows = np.flatnonzero(ours.voting.votes)
        few = rows[np.linspace(0, len(rows) - 1, min(ANSWERS_COMPARED, len(rows))).astype(np.int64)]
        X = theirs.views.all_rows()[few]
        if [each.to_dict() for each in collection.label(X)] != [each.to_dict() for each in fresh.label(X)]:
            differ.append("Some answers differ from those of the collection opened again.")
        compared = f"the neighbors of {len(rows):,} items, {len(pairs)} tables of past cases and {len(few)} answers"
        return compared, differ


def _versions(store: Store) -> dict[str, Any]:
    number = sqlite3.sqlite_version_info
    return {
        "nearsay": __version__,
        "sqlite": sqlite3.sqlite_version,
        "sqlite_affected": FIRST_AFFECTED <= number <= LAST_AFFECTED,
        "format": store.format,
    }


def _sizes(folder: Folder) -> dict[str, int]:
    learned = None
    with suppress(OSError):  # a link, named as a fault
        learned = folder.folder(learned_files.FOLDER)
    return {
        "vectors": folder.n_bytes(shard_files.FOLDER),
        "database": sum(map(folder.n_bytes, (DATABASE, DATABASE + LOG, DATABASE + LOG_INDEX))),
        "learned": folder.n_bytes(learned_files.FOLDER),
        "learned_folders": 0 if learned is None else len(learned.names()),
    }


def _size(n_bytes: int) -> str:
    """
    >>> _size(512), _size(3_500_000)
    ('512 bytes', '3.5 MB')
    """
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if n_bytes >= unit:
            return f"{n_bytes / unit:.1f} {name}"
    return f"{n_bytes} bytes"
