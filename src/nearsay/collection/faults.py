"""All that can be wrong with a collection on disk, looked for by reading everything.

SQLite's own check ─ digests of the log ─ items against the log replayed ─ vectors against the digests of their adds
shards and learned state against their checksums ─ rows without a gap ─ files that nothing names
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from nearsay.collection.database import SCHEMA, Database, statements
from nearsay.collection.durable_files import checksum
from nearsay.collection.events import digest_faults, read_events
from nearsay.collection.garbage import unnamed_files
from nearsay.collection.items import different, items_at, replayed
from nearsay.collection.kept import FOLDER, all_kept
from nearsay.collection.shards import Shards, vectors_digest
from nearsay.errors import StorageError

NAMED = 5


def find_faults(database: Database, vectors: Shards, folder: Path) -> list[str]:
    """Everything that is wrong, in words; empty where nothing is."""
    # Looked at first: a file that a writer is about to name would seem to be garbage if the names came first.
    garbage = [
        f"{path} is named by nothing: it was left behind and can go." for path in unnamed_files(database, folder)
    ]
    return find_damage(database, vectors, folder) + garbage


def find_damage(database: Database, vectors: Shards, folder: Path) -> list[str]:
    """The same without files that nothing names, which harm nothing."""
    found = []
    with database.one_state():
        try:
            found += [f"SQLite: {said}" for (said,) in database.all("PRAGMA integrity_check") if said != "ok"]
            found += _schema_faults(database)
            found += digest_faults(database)
            found += _about_faults(database)
            found += _item_faults(database)
            damaged = [*_gaps(database, vectors), *_shard_faults(vectors)]
            found += damaged or _vector_faults(database, vectors)
            found += _kept_faults(database, folder)
        except (StorageError, ValueError, KeyError, IndexError, TypeError) as error:
            found.append(f"The database cannot be read to its end: {error}")
    return found


def _schema_faults(database: Database) -> list[str]:
    """Tables and triggers are as they were made; without its triggers the log would be unprotected."""
    made = {_plain(statement) for statement in statements(SCHEMA) if "CREATE" in statement}
    there = {_plain(sql) for (sql,) in database.all("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    return [] if made == there else ["The tables or triggers of the database are not as they were made."]


def _plain(statement: str) -> str:
    return " ".join(statement.split()).removesuffix(";")


def _about_faults(database: Database) -> list[str]:
    about = {name: json.loads(value) for name, value in database.all("SELECT name, value FROM about")}
    logged = {"settings": about["first_settings"], "taxonomy": None}
    for event in read_events(database):
        logged |= {name: said for name, said in event.after.items() if name in logged}
    return [f"The {name} are not what the log says." for name, said in logged.items() if about[name] != said]


def _item_faults(database: Database) -> list[str]:
    events = read_events(database)
    last = database.one("SELECT max(number) FROM events") or 0
    rows = different(items_at(database, last), replayed(events))
    more = f" and {len(rows) - NAMED} more" * (len(rows) > NAMED)
    named = ", ".join(map(str, rows[:NAMED]))
    return [f"The items are not what the log adds up to, in row {named}{more}."] if rows else []


def _gaps(database: Database, vectors: Shards) -> Iterator[str]:
    """Every row has one vector: in the shards without a gap, then in the tail."""
    first = 0
    for shard in vectors.sealed():
        if shard.first != first:
            yield f"The vectors of rows {first} to {shard.first - 1} are missing: no shard holds them."
        first = shard.end
    ((lowest, highest, n_tail),) = database.all("SELECT min(row), max(row), count(*) FROM tail")
    n_items = database.one("SELECT count(*) FROM items")
    if first + n_tail != n_items or (n_tail and (lowest, highest) != (first, n_items - 1)):
        yield f"There are {n_items:,} items, but vectors for {first + n_tail:,}."


def _shard_faults(vectors: Shards) -> Iterator[str]:
    for shard in vectors.sealed():
        try:
            vectors.opened(shard)
            if checksum(vectors.folder / shard.file) != shard.sha256:
                yield f"The shard {vectors.folder / shard.file} is not as it was written: its checksum does not match."
        except OSError as error:
            yield str(error)


def _vector_faults(database: Database, vectors: Shards) -> list[str]:
    blocks = vectors.blocks()
    starts = np.cumsum([0, *map(len, blocks)])
    return [
        f"The vectors of event {event.number} are not those that were added."
        for event in read_events(database)
        if event.kind == "add"
        and vectors_digest(_slice(blocks, starts, event.rows[0], event.rows[-1] + 1)) != event.vectors
    ]


def _slice(blocks: list[np.ndarray], starts: np.ndarray, first: int, end: int) -> Iterator[np.ndarray]:
    """Rows ``first`` to ``end``, cut where the blocks are."""
    for number in range(int(np.searchsorted(starts, first, side="right")) - 1, len(blocks)):
        start = int(starts[number])
        if start >= end:
            return
        yield blocks[number][max(first - start, 0) : end - start]


def _kept_faults(database: Database, folder: Path) -> Iterator[str]:
    for state in all_kept(database):
        own = folder / FOLDER / state["folder"]
        for name, sha256 in state["files"].items():
            if not (own / name).is_file():
                yield f"The file {own / name} is missing."
            elif checksum(own / name) != sha256:
                yield f"The file {own / name} is not as it was written: its checksum does not match."
