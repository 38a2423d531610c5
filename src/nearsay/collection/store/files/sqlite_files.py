"""Safe opening of untrusted SQLite files.

    connect ──► untrusted schema, limits, a handler for Ctrl-C ──► the schema is ours, word by word ──► use

Tables could be endless views, or triggers that run with each change, so nothing is queried before the schema is found
to be ours. SQLite does not handle signals while it works: every so many steps it calls back here, where Python does,
and where cancellation is checked.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

from nearsay.core.cancellation import go_on
from nearsay.errors import StorageError

STEPS = 50_000
# Far above what any statement of this program needs. Data itself is limited by the size of the file.
LIMITS = {
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1_000_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 100,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 10,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 16,
    sqlite3.SQLITE_LIMIT_ATTACHED: 1,  # VACUUM INTO takes one
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 4,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
PRAGMAS = "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0;"
READ_ONLY = "PRAGMA query_only = ON; PRAGMA wal_autocheckpoint = 0;"
DEFINED = "SELECT type, name, tbl_name, sql FROM sqlite_master"

_stopped = threading.local()


def connected(file: Path, mode: str, more: str = "", timeout: float = 10.0) -> sqlite3.Connection:
    """A connection to a file; nothing in it has been read yet."""
    connection = sqlite3.connect(
        f"file:{quote(str(file.absolute()))}?mode={mode}{more}",
        uri=True,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    for limit, value in LIMITS.items():
        connection.setlimit(limit, value)
    connection.executescript(PRAGMAS + READ_ONLY if mode == "ro" else PRAGMAS)
    connection.set_progress_handler(_is_to_stop, STEPS)
    return connection


def raise_interruption() -> NoReturn:
    """Raise the exception that interrupted a statement, such as KeyboardInterrupt; SQLite does not report it."""
    error, _stopped.error = getattr(_stopped, "error", None), None
    # A signal that comes before the handler's first line is lost, and nothing else interrupts a statement.
    raise KeyboardInterrupt if error is None else error


def _is_to_stop() -> int:
    try:
        go_on()
    except BaseException as error:
        _stopped.error = error
        return 1
    return 0


def check_schema(connection: sqlite3.Connection, script: str, file: Path) -> None:
    """Raise an error if the schema of a file is not that of this script."""
    try:
        stored, made = connection.execute(DEFINED).fetchall(), _schema_of(script)
    except UnicodeDecodeError as error:
        raise StorageError(f"{file}: the names of its tables are no text. Restore it from a backup.") from error
    if stored == made:
        return
    defined, expected = _in_words(stored), _in_words(made)  # in another order, or spaced otherwise
    if len(defined) != len(expected) or set(defined) != set(expected):
        changed = sorted({name for _, name, *_ in set(defined) ^ set(expected)})
        raise StorageError(
            f"{file}: its tables or triggers are not as nearsay makes them ({', '.join(map(repr, changed[:5]))})."
            " It was changed by something else: restore it from a backup."
        )


@lru_cache
def _schema_of(script: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(":memory:")
    try:
        for statement in statements(script):
            connection.execute(statement)
        return connection.execute(DEFINED).fetchall()
    finally:
        connection.close()


def _in_words(schema: list[tuple[Any, ...]]) -> list[tuple[str, ...]]:
    return [(str(kind), str(name), str(table), " ".join(str(sql).split())) for kind, name, table, sql in schema]


def statements(script: str) -> Iterator[str]:
    """One statement at a time: ``executescript`` would commit on its own."""
    statement = ""
    for line in script.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
