"""The store: a collection in a folder, and all changes to it.

    COLLECTION/
        collection.sqlite      ids, labels, keywords, settings, taxonomy, the log of events: the only commit point
        shards/                sealed vectors, .npy files that never change
        kept/                  learned state, a folder for each time something was learned
        writer.lock            the process that writes

    check ──► write and sync new files ──► one transaction: event + items + names of the files ──► event number

Files that no transaction has named are garbage: a crash at any moment leaves all of the change or nothing of it.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from nearsay.collection.store import learned_files, shard_files
from nearsay.collection.store.backup import check_new_folder, new_folder
from nearsay.collection.store.database import NAME, Database, no_collection
from nearsay.collection.store.events import Event, append_event
from nearsay.collection.store.files.durable_files import storage_errors
from nearsay.collection.store.files.folder import Folder
from nearsay.collection.store.files.writer_lock import WriterLock
from nearsay.collection.store.integrity import remove_garbage
from nearsay.collection.store.items import add_items, change_items, columns_of
from nearsay.collection.store.reader import ReadableStore
from nearsay.collection.store.shard_files import ShardFile, vectors_digest
from nearsay.collection.store.stored_values import ADVICE, check_n_columns, check_settings
from nearsay.collection.store.undo import event_to_undo, turned_back
from nearsay.collection.store.validate_items import (
    as_json,
    checked_author,
    checked_details,
    checked_edges,
    checked_flag,
    checked_ids,
    checked_keywords,
    checked_labels,
    checked_vectors,
    checked_words,
)
from nearsay.core.settings import check_whole
from nearsay.data.saved import saved_objects
from nearsay.errors import InputError, StorageError, closest
from nearsay.taxonomy.edges import few

# Of columns with a value for each item.
CHECKS: dict[str, Callable[[Any, int], list[Any]]] = {
    "label": checked_labels, "keywords": checked_keywords, "details": checked_details,
}  # fmt: skip


class Store(ReadableStore):
    """Items with vectors, labels and keywords on disk.

    Every change is an event, and it is durable when its number is returned.
    Make one with ``Store.create`` or ``Store.open``, and close it or use it in
    a ``with`` statement. One process may write, any number may read meanwhile.
    Threads of one process may share a store.

    Attributes
    ----------
    path : the folder.
    n_columns : columns of every vector.
    read_only : whether this store only reads; it then sees what the writer has acknowledged so far.

    >>> import tempfile
    >>> store = Store.create(Path(tempfile.mkdtemp()) / "leaves", n_columns=2)
    >>> store.add(["a", "b"], [[0.0, 1.0], [2.0, 3.0]], labels=["oak", None])
    1
    >>> store.relabel(["b"], ["elm"])
    2
    >>> store.undo()
    3
    >>> store.items().labels, store.items(version=2).labels
    (array(['oak', None], dtype=object), array(['oak', 'elm'], dtype=object))
    >>> store.close()
    """

    def __init__(self, folder: Folder, database: Database, lock: WriterLock | None) -> None:
        super().__init__(folder, database)
        self._lock, self.read_only = lock, lock is None
        if lock is not None:
            states = None
            with suppress(StorageError):  # on a full disk the next writer does it
                states = learned_files.drop_old(database)
            remove_garbage(database, folder, states)

    @classmethod
    def create(cls, path: str | os.PathLike[str], n_columns: int, settings: dict[str, Any] | None = None) -> Self:
        """Make an empty collection and open it for writing; the folder must be empty or not exist yet.

        It is made under another name next to ``path`` and renamed when it is
        whole, so there is never an incomplete collection.
        """
        path = Path(os.path.abspath(path))
        n_columns = check_whole("n_columns", n_columns, least=1)
        check_new_folder(path)
        first = _usable(as_json(settings or {}, "settings"))
        about = {"n_columns": n_columns, "first_settings": first, "settings": first, "taxonomy": None}
        about["id"] = secrets.token_hex(16)
        check_n_columns(n_columns)
        with storage_errors(f"make the collection {path}"), new_folder(path) as part:
            part.mkdir()
            (part / shard_files.FOLDER).mkdir()
            (part / learned_files.FOLDER).mkdir()
            Database.create(part / NAME, {name: json.dumps(value) for name, value in about.items()}).close()
        return cls.open(path)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, read_only: bool = False) -> Self:
        """Open a collection; only counts are read.

        A second writer is refused with ``CollectionBusy``. With ``read_only``
        nothing is ever written, and another process may write.
        """
        path = Path(os.path.abspath(path))
        folder = opened_folder(path)
        lock = database = None
        try:
            lock = None if read_only else WriterLock(folder)
            database = Database.open(folder, read_only=read_only)
            return cls(folder, database, lock)
        except BaseException:
            if database is not None:
                database.close()
            if lock is not None:
                lock.release()
            folder.close()
            raise

    def close(self) -> None:
        """Close the collection; a second call does nothing."""
        self._database.close()
        if self._lock is not None:
            self._lock.release()
        self.folder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # ------------------------------------------------------------ changes: one event each, durable on return

    def add(
        self,
        ids: Sequence[str],
        X: Any,
        labels: Sequence[str | None] | None = None,
        keywords: Sequence[Sequence[str] | None] | None = None,
        details: Sequence[dict[str, Any] | None] | None = None,
        *,
        by: str = "person",
        who: str = "",
        confirmed: bool = True,
    ) -> int:
        """Add items; their rows are the next numbers, in order.

        Parameters
        ----------
        ids : new ones, each once. The id of a forgotten item may be used again, for a new row.
        X : (n, n_columns) numbers up to 1e30, kept as float32.
        labels, keywords, details
            One per item, or None: a string; a list of strings; a dict of JSON values such as a path.
        by : the kind of author; ``who`` may name them.
        confirmed : False for a machine's guess that a person has to confirm first.
        """
        ids = checked_ids(ids)
        n = len(ids)
        rows = checked_vectors(X, ids, self.n_columns)
        by, who = checked_author(by, who)
        given = {"label": labels, "keywords": keywords, "details": details, "confirmed": checked_flag(confirmed)}
        columns = {"id": ids, **_columns(n, {**given, "by": by, "alive": True})}
        with self._writing(new_files=True):
            first, sealed_end = self.n_rows, self._shards.sealed_end()
            numbers = list(range(first, first + n))
            sealed: list[ShardFile] = []
            if first - sealed_end + n >= self._shards.most_rows:
                sealed = self._shards.write(sealed_end, [self._shards.tail(), rows])
            with self._database.transaction():
                self._add_items(numbers, columns)
                if sealed:
                    self._shards.name(sealed)
                else:
                    self._shards.append_to_tail(first, rows)
                return self._append("add", by, who, numbers, {}, columns, vectors=vectors_digest([rows]))

    def relabel(
        self,
        ids: Sequence[str],
        labels: Sequence[str | None],
        keywords: Sequence[Sequence[str] | None] | None = None,
        *,
        by: str = "person",
        who: str = "",
        confirmed: bool = True,
    ) -> int:
        """Set the labels of items, and in the same event their keywords where they are given; None removes them."""
        after = {"label": labels, "confirmed": checked_flag(confirmed), "by": by}
        return self._change("relabel", ids, after | ({} if keywords is None else {"keywords": keywords}), by, who)

    def set_keywords(
        self,
        ids: Sequence[str],
        keywords: Sequence[Sequence[str] | None],
        *,
        by: str = "person",
        who: str = "",
        confirmed: bool | None = None,
    ) -> int:
        """Set the keywords of items; None removes them.

        The author of the label, and whether it is confirmed, stays unless ``confirmed`` is given.
        """
        sure = {} if confirmed is None else {"confirmed": checked_flag(confirmed), "by": by}
        return self._change("keywords", ids, {"keywords": keywords, **sure}, by, who)

    def confirm(self, ids: Sequence[str], *, by: str = "person", who: str = "") -> int:
        """Confirm the labels of items, so that they count."""
        return self._change("confirm", ids, {"confirmed": True}, by, who)

    def forget(self, ids: Sequence[str], *, by: str = "person", who: str = "") -> int:
        """Remove items; their rows stay as tombstones, and their numbers are never used again."""
        return self._change("forget", ids, {"alive": False}, by, who)

    def undo(self, event: int | None = None, *, sure: bool = False, by: str = "person", who: str = "") -> int:
        """Undo an event: the given one, or the last that is neither an undo nor undone.

        Learning (``keep``) is undone by its number only, and what was learned before it counts again. Only the last two
        are kept for that.

        Refused where something it changed was changed again since, and where it would remove items (of an ``add``)
        that later events changed. To undo an undo is to redo the change.

        Parameters
        ----------
        event : its number, optional
        sure : needed for an undo that removes more than one item; ``NotSure`` otherwise.
        """
        by, who = checked_author(by, who)
        with self._writing(), self._database.transaction():
            undone = event_to_undo(self._database, event)
            about = {name: self._about(name) for name in ("settings", "taxonomy")}
            before, after = turned_back(self._database, undone, about, sure=sure)
            if undone.changes_items:
                change_items(self._database, undone.rows, after)
            for name in about.keys() & after.keys():
                self._set_about(name, after[name])
            number = self._append("undo", by, who, undone.rows, before, after, undoes=undone.number)
            if not undone.changes_items:
                learned_files.check_not_dropped(self._database, undone.number)
            return number

    def set_settings(self, settings: dict[str, Any], *, by: str = "person", who: str = "") -> int:
        """Set some settings; those not named stay as they are."""
        if not isinstance(settings, dict):
            raise InputError(f"settings must be a dict of names and JSON values; got {settings!r}.")
        new = as_json(settings, "settings")
        number = self._change_about("settings", lambda old: _usable({**old, **new}), by, who)
        self.remembered.name_recorded(new)
        self.remembered.save()
        return number

    def set_taxonomy(
        self,
        edges: Sequence[tuple[str, str]] | None,
        words: Mapping[str, str] | None = None,
        *,
        by: str = "person",
        who: str = "",
    ) -> int:
        """Set the taxonomy, as (parent, child) pairs; None removes it.

        ``words`` are the words of nodes, {node: word}; any may be left out. Every label of an item must be a node.
        """
        pairs, named = checked_edges(edges), checked_words(words, edges)
        new = {"edges": pairs, "words": named} if named else pairs
        return self._change_about("taxonomy", lambda _: new, by, who)

    def keep(self, kind: str, write: Callable[[Path], Any], *, by: str = "machine", who: str = "") -> int:
        """Keep learned state: ``write`` is given a new, empty folder to fill, which no later call ever changes.

        The last two of a kind are kept; the next writer removes older ones.
        """
        by, who = checked_author(by, who)
        with self._writing(new_files=True):
            state = learned_files.write_kept(self.folder, kind, self.version + 1, write)
            with self._database.transaction():
                return self._append("keep", by, who, [], {}, {"keep": state})

    def keep_object(self, kind: str, thing: Any, *, who: str = "") -> int:
        """Keep a fitted object of nearsay's, which ``kept_object`` gives back."""
        return self.keep(kind, lambda folder: saved_objects.save(thing, folder / f"{kind}.nearsay"), who=who)

    # ------------------------------------------------------------ changes of the files only

    def seal(self, min_rows: int = shard_files.SHARD_ROWS) -> int:
        """Move the newest rows from the database into an immutable file if there are ``min_rows``; returns how many.

        ``add`` does this by itself for every 65,536 rows.
        """
        check_whole("min_rows", min_rows, least=1)
        with self._writing(new_files=True):
            first = self._shards.sealed_end()
            if self.n_rows - first < min_rows:
                return 0
            sealed = self._shards.write(first, [self._shards.tail()])
            with self._database.transaction():
                self._shards.name(sealed)
            return sealed[-1].end - first

    def _change(self, kind: str, ids: Sequence[str], given: dict[str, Any], by: str, who: str) -> int:
        ids = checked_ids(ids)
        by, who = checked_author(by, who)
        after = _columns(len(ids), given)
        with self._writing(), self._database.transaction():
            rows = [self.row_of(id) for id in ids]
            before = columns_of(self._database, rows, after)
            change_items(self._database, rows, after)
            return self._append(kind, by, who, rows, before, after)

    def _change_about(self, name: str, changed: Callable[[Any], Any], by: str, who: str) -> int:
        by, who = checked_author(by, who)
        with self._writing(), self._database.transaction():
            old = self._about(name)
            new = changed(old)
            self._set_about(name, new)
            return self._append(name, by, who, [], {name: old}, {name: new})

    def _set_about(self, name: str, value: Any) -> None:
        self._database.execute("UPDATE about SET value = ? WHERE name = ?", (json.dumps(value), name))

    def _append(
        self,
        kind: str,
        by: str,
        who: str,
        rows: list[int],
        before: dict[str, Any],
        after: dict[str, Any],
        **more: Any,
    ) -> int:
        self._check_taxonomy(kind, rows, after)
        number = self.version + 1
        when = datetime.now(UTC).isoformat(timespec="microseconds")
        append_event(self._database, Event(number, kind, when, by, who, rows, before, after, **more))
        return number

    def _check_taxonomy(self, kind: str, rows: list[int], after: dict[str, Any]) -> None:
        """Refuse a change, before its transaction ends, after which items have labels that the taxonomy lacks."""
        if not after.keys() & {"taxonomy", "label", "alive"}:
            return
        stored = self._stored_taxonomy()
        if stored.edges is None:
            return
        if "taxonomy" in after:
            labels = {label for (label,) in self._database.all("SELECT DISTINCT label FROM items WHERE alive")}
        elif "label" in after:
            labels = set(after["label"])
        else:
            columns = columns_of(self._database, rows, ("label", "alive"))
            labels = {label for label, alive in zip(columns["label"], columns["alive"], strict=True) if alive}
        missing = sorted(labels - {None} - stored.nodes)
        if not missing:
            return
        if kind == "taxonomy":
            raise InputError(
                f"The taxonomy lacks labels that items have: {few(missing)}. Add them to it, or give these"
                " items other labels first."
            )
        if kind == "undo":
            raise InputError(
                f"This cannot be undone: the taxonomy would lack labels that items have: {few(missing)}. Set one"
                " that has them first, or give these items other labels."
            )
        raise _not_nodes(missing, stored.nodes)

    def check_labels(self, labels: Iterable[str | None]) -> None:
        """Refuse labels that are not in the taxonomy."""
        stored = self._stored_taxonomy()
        missing = sorted({label for label in labels if label is not None} - stored.nodes)
        if missing and stored.edges is not None:
            raise _not_nodes(missing, stored.nodes)

    def _add_items(self, rows: list[int], columns: dict[str, list[Any]]) -> None:
        try:
            add_items(self._database, rows, columns)
        except sqlite3.IntegrityError:
            taken = "SELECT 1 FROM items WHERE id = ? AND alive AND row < ?"
            for id in columns["id"]:
                if self._database.execute(taken, (id, rows[0])).fetchone():
                    raise InputError(
                        f"The id {id!r} is taken already. To change an item use relabel, or forget it first."
                    ) from None
            raise

    @contextmanager
    def _writing(self, *, new_files: bool = False) -> Iterator[None]:
        """One change at a time; the new files of a change that failed are removed."""
        if self.read_only:
            raise InputError(f"The collection {self.path} is open read-only. Open it without read_only=True.")
        with self._database.turn:
            self.check_row_numbers()
            try:
                yield
            except BaseException as error:
                # After a failed sync it is unknown what is on the disk: files stay until it was read again.
                if new_files and getattr(error.__cause__, "sqlite_errorname", "") != "SQLITE_IOERR_FSYNC":
                    with suppress(StorageError, OSError):  # the first error counts
                        remove_garbage(self._database, self.folder)
                raise


def _columns(n: int, given: dict[str, Any]) -> dict[str, list[Any]]:
    """Columns of ``n`` items, checked; other values are those of each item."""
    return {name: CHECKS[name](value, n) if name in CHECKS else [value] * n for name, value in given.items()}


def _usable(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings, after a check of those that nearsay uses."""
    try:
        check_settings(settings)
    except StorageError as error:
        raise InputError(str(error).removeprefix("collection.sqlite: ").partition(f" {ADVICE}")[0]) from error
    return settings


def _not_nodes(missing: list[str], nodes: Collection[str]) -> InputError:
    suggestion = closest(missing[0], nodes) if len(missing) == 1 else ""
    return InputError(
        f"{few(missing)} {'is' if len(missing) == 1 else 'are'} not in the taxonomy of this"
        f" collection{suggestion}. Use its nodes as labels, or set another taxonomy with set_taxonomy."
    )


def opened_folder(path: Path) -> Folder:
    """The folder of a collection, open; an error says that there is none."""
    try:
        folder = Folder.open(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise no_collection(path) from error
    except OSError as error:
        raise StorageError(f"Cannot open the collection {path}: {error.strerror}.") from error
    if not folder.watch(NAME):
        raise no_collection(path)
    return folder
