"""The SQLite file of a collection: its tables, its settings, and transactions that are all or nothing.

    about       n_columns, settings, taxonomy, …          current values of the whole collection
    events      number, kind, at, by, who, undoes, …      the log: append-only, each with a digest over all before
    items       row, id, label, keywords, …, alive        the sum of all events; indexed by row and id
    tail        row, vector                               vectors not sealed yet
    shards      first, n_rows, file, sha256               vectors sealed in .npy files, by their first row

Every change is one transaction, synced once (``synchronous=FULL``). One connection writes, under ``WriterLock``;
readers never write or checkpoint, and ``mmap_size`` stays 0: in SQLite 3.7.0 to 3.51.2 two connections that both do can
damage the file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Any

from nearsay.collection.store.files.folder import DATABASE, JOURNAL, LOG, LOG_INDEX, Folder
from nearsay.collection.store.files.sqlite_files import check_schema, connected, raise_interruption, statements
from nearsay.errors import InputError, StorageError

NAME = DATABASE
FORMAT = 1
# "nsay" in ASCII; the application id of SQLite's header tells a collection from any other database.
APPLICATION = 0x6E736179
PRAGMAS = {
    "journal_mode": "WAL",
    "synchronous": "FULL",
    "fullfsync": "ON",
    "checkpoint_fullfsync": "ON",
    "cache_size": "-65536",
}
SECONDS_TO_WAIT = 10.0

SCHEMA = f"""
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {FORMAT};
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE events (
    number INTEGER PRIMARY KEY, kind TEXT NOT NULL, at TEXT NOT NULL, by TEXT NOT NULL, who TEXT NOT NULL,
    undoes INTEGER, rows TEXT NOT NULL, before TEXT NOT NULL, after TEXT NOT NULL, vectors TEXT, digest TEXT NOT NULL
);
CREATE INDEX undos ON events (undoes) WHERE undoes IS NOT NULL;
CREATE INDEX keeps ON events (number) WHERE kind = 'keep';
CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON events
    BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;
CREATE TRIGGER events_are_not_deleted BEFORE DELETE ON events
    BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END;
CREATE TRIGGER events_are_not_replaced BEFORE INSERT ON events
    WHEN NEW.number IS NOT (SELECT coalesce(max(number), 0) + 1 FROM events)
    BEGIN SELECT RAISE(ABORT, 'events are only appended'); END;
CREATE TABLE items (
    row INTEGER PRIMARY KEY, id TEXT NOT NULL, label TEXT, keywords TEXT, details TEXT,
    confirmed INTEGER NOT NULL, by TEXT NOT NULL, alive INTEGER NOT NULL
);
CREATE UNIQUE INDEX ids ON items (id) WHERE alive;
CREATE TABLE tail (row INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE TABLE shards (first INTEGER PRIMARY KEY, n_rows INTEGER NOT NULL, file TEXT NOT NULL, sha256 TEXT NOT NULL);
"""


def no_collection(path: Path) -> InputError:
    """The error for a folder without a database."""
    return InputError(
        f"{path} is not a collection: there is no {NAME} in it. Make one with nearsay index, or with"
        " LiveCollection.create."
    )


class database_errors:
    """Turns errors of SQLite into StorageError with advice."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, sqlite3.IntegrityError):
            raise StorageError(f"The collection refused a change: {error}. Nothing was changed.") from error
        if not isinstance(error, sqlite3.DatabaseError):
            return
        message = " ".join(str(error).split())[:300]
        if "closed database" in message:
            raise InputError(f"The collection {self._file.parent} is closed. Open it again.") from None
        if message == "interrupted":
            raise_interruption()
        if "full" in message:
            advice = "Free some space and try again; the collection is as it was before."
        elif "malformed" in message or "not a database" in message:
            advice = "The file is damaged. Restore the collection from a backup."
        elif "readonly" in message:
            advice = "The file or its folder cannot be written to. Open the collection with read_only=True to read it."
        else:
            advice = "The collection is as it was before."
        raise StorageError(f"{self._file}: {message}. {advice}") from error


class Database:
    """One connection, and the transactions on it; threads take turns."""

    def __init__(self, connection: sqlite3.Connection, file: Path) -> None:
        self.connection, self.file = connection, file
        self.turn = RLock()
        self._folder: Folder | None = None

    @classmethod
    def create(cls, file: Path, about: dict[str, str]) -> Database:
        """A new file with all tables, empty but for ``about``."""
        database = cls(_connected(file, "rwc"), file)
        with database_errors(file):
            database._set_up()
            with database.transaction():
                for statement in statements(SCHEMA):
                    database.execute(statement)
                database.execute_many("INSERT INTO about VALUES (?, ?)", about.items())
        return database

    @classmethod
    def open(cls, folder: Folder, *, read_only: bool) -> Database:
        """Open the database of a collection, after checks of its application, format and tables.

        SQLite opens files by path, so the file is checked before, and again when SQLite has it open.
        """
        file = folder.path / NAME
        if not folder.watches(NAME) and not folder.watch(NAME):
            raise no_collection(folder.path)
        folder.file(NAME + LOG)
        folder.file(NAME + LOG_INDEX)
        if folder.stat(NAME + JOURNAL) is not None:
            # SQLite would undo changes by it, and may remove a file that it names.
            raise StorageError(
                f"{folder.path / (NAME + JOURNAL)} is no file of a collection, and SQLite would apply it."
                " Remove it if you know where it comes from, else restore the collection from a backup."
            )
        database = cls(_connected(file, "ro" if read_only else "rw"), file)
        try:
            with database_errors(file):
                try:
                    database._check_format()
                except sqlite3.OperationalError as error:
                    if not read_only:
                        raise
                    database.connection.close()
                    database.connection = _without_log(folder, file, error)
                    database._check_format()
                check_schema(database.connection, SCHEMA, file)
                if not read_only:
                    database._set_up()
                    folder.watch(NAME + LOG)
                    database._folder = folder
            folder.check_watched()
        except BaseException:
            database.close()
            raise
        return database

    def _check_format(self) -> None:
        ((application,),) = self.execute("PRAGMA application_id").fetchall()
        ((version,),) = self.execute("PRAGMA user_version").fetchall()
        if application != APPLICATION:
            raise InputError(f"{self.file} is a database of another application, not a collection of nearsay.")
        if version < 1:
            raise StorageError(f"{self.file} has format {version}, which no nearsay writes. Restore it from a backup.")
        if version > FORMAT:
            raise InputError(
                f"The collection {self.file.parent} has format {version}; this version of nearsay reads up to {FORMAT}."
                " Install a newer nearsay to open it."
            )

    def _set_up(self) -> None:
        self.connection.executescript("".join(f"PRAGMA {name} = {value};" for name, value in PRAGMAS.items()))

    def execute(self, statement: str, values: Any = ()) -> sqlite3.Cursor:
        """Run a statement; the holder of the transaction translates errors of SQLite."""
        return self.connection.execute(statement, values)

    def execute_many(self, statement: str, values: Any) -> None:
        """Run a statement for each of many values."""
        self.connection.executemany(statement, values)

    def one(self, statement: str, values: Any = ()) -> Any:
        """The only value of the only row, or None where there is none."""
        with self.turn, database_errors(self.file):
            row = self.execute(statement, values).fetchone()
        return None if row is None else row[0]

    def all(self, statement: str, values: Any = ()) -> list[tuple[Any, ...]]:
        """All rows of the result."""
        with self.turn, database_errors(self.file):
            return self.execute(statement, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All writes within are durable together at the end, or none is."""
        with self.turn, database_errors(self.file):
            self.execute("BEGIN IMMEDIATE")
            try:
                yield
                if self._folder is not None:  # writes to a file that lost its name would be lost
                    self._folder.check_watched()
                self.execute("COMMIT")
            except BaseException:
                self._roll_back()
                raise

    @contextmanager
    def one_state(self) -> Iterator[None]:
        """All reads within see one state, whatever a writer does meanwhile."""
        with self.turn, database_errors(self.file):
            if self.connection.in_transaction:
                yield
                return
            self.execute("BEGIN")
            try:
                yield
            finally:
                self._roll_back()

    def copy_into(self, file: Path) -> None:
        """Write the current content to a new file; works for readers, too."""
        with self.turn, database_errors(self.file):
            ((only_reads,),) = self.execute("PRAGMA query_only").fetchall()
            # For a reader this would forbid the copy; the file itself is opened read-only.
            self.execute("PRAGMA query_only = OFF")
            try:
                self.execute("VACUUM INTO ?", (str(file),))
            finally:
                self.execute(f"PRAGMA query_only = {only_reads}")

    def _roll_back(self) -> None:
        if self.connection.in_transaction:
            self.execute("ROLLBACK")

    def close(self) -> None:
        """Close the file; the last writer moves the write-ahead log into it."""
        with self.turn, database_errors(self.file):
            self.connection.close()


def _connected(file: Path, mode: str, more: str = "") -> sqlite3.Connection:
    with database_errors(file):
        return connected(file, mode, more, SECONDS_TO_WAIT)


def _without_log(folder: Folder, file: Path, error: sqlite3.OperationalError) -> sqlite3.Connection:
    """A connection that only reads, for a folder that is read-only too.

    Readers of a write-ahead log share an index in the folder. Where they cannot
    write it and there is no log, nobody is writing, and the file is complete.
    """
    if str(error) == "interrupted":
        raise_interruption()
    log = folder.file(NAME + LOG)
    if log is not None and log.st_size:
        raise StorageError(
            f"{file}: {error}. Its last changes are in {NAME + LOG}, and reading them needs a folder that can be"
            " written to. Open the collection once for writing, or copy the folder."
        ) from error
    return _connected(file, "ro", "&immutable=1")
