"""What a store tells without changing anything; all of it works beside a writer in another process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.collection.store import backup, integrity, learned_files, snapshot
from nearsay.collection.store.database import Database
from nearsay.collection.store.events import Event, read_events, rows_changed, rows_said_right, undone_events
from nearsay.collection.store.files.folder import Folder
from nearsay.collection.store.items import CHANGING, Items, columns_of, items_at
from nearsay.collection.store.shard_files import Shards
from nearsay.collection.store.stored_values import (
    check_n_columns,
    check_settings,
    check_taxonomy,
    from_json,
    not_as_written,
)
from nearsay.collection.store.user_decisions import UserDecisions
from nearsay.errors import InputError, StorageError

# One end at a time: asked for both, SQLite would read the table.
ROW_NUMBERS = """
SELECT (SELECT min(row) FROM items), (SELECT max(row) FROM items), (SELECT min(row) FROM tail),
       (SELECT max(row) FROM tail), (SELECT first + n_rows FROM shards ORDER BY first DESC LIMIT 1)
"""


class ReadableStore:
    """The part of ``Store`` that reads."""

    def __init__(self, folder: Folder, database: Database) -> None:
        self.path, self.folder, self._database = folder.path, folder, database
        self._checked: dict[str, str] = {}
        self._rows_checked = False
        self.n_columns: int = check_n_columns(self._about("n_columns"))
        self._shards = Shards(database, folder, self.n_columns)

    def check_row_numbers(self) -> None:
        """The first and the last row of the items, the shards and the newest rows fit together; this reads no table.

        Looked at once, before anything goes by row numbers.
        """
        if self._rows_checked:
            return
        ((first, last, lowest, highest, sealed),) = self._database.all(ROW_NUMBERS)
        sealed = sealed or 0
        end = sealed if highest is None else highest + 1
        if (first or 0) != 0 or lowest not in (None, sealed) or end != (0 if last is None else last + 1):
            raise not_as_written(
                "the numbering of rows",
                f"items have rows {first} to {last}, shards end before row {sealed}, newest rows go from {lowest} to"
                f" {highest}",
            )
        self._rows_checked = True

    def __repr__(self) -> str:
        return f"<Store {self.path.name}: {self.n_rows:,} rows × {self.n_columns} columns, version {self.version}>"

    @property
    def n_rows(self) -> int:
        """All rows ever added, forgotten ones too."""
        self.check_row_numbers()
        last = self._database.one("SELECT max(row) FROM items")
        return 0 if last is None else last + 1

    @property
    def n_items(self) -> int:
        """The items there are, forgotten ones not counted."""
        found: int = self._database.one("SELECT count(*) FROM items WHERE alive")
        return found

    def n_labeled(self, *, confirmed: bool) -> int:
        """The items that have a label; with ``confirmed``, one that may count."""
        asked = "alive AND label IS NOT NULL" + (" AND confirmed" if confirmed else "")
        found: int = self._database.one(f"SELECT count(*) FROM items WHERE {asked}")
        return found

    @property
    def version(self) -> int:
        """The number of the last event; 0 where nothing happened yet."""
        return self._database.one("SELECT max(number) FROM events") or 0

    @property
    def settings(self) -> dict[str, Any]:
        """What was set for the collection as a whole."""
        found: dict[str, Any] = self._about("settings", check_settings)
        return found

    @cached_property
    def remembered(self) -> UserDecisions:
        """What the user named for this collection on this machine."""
        text = self._database.one("SELECT value FROM about WHERE name = 'id'")
        found = None if text is None else from_json(text, "'id'")
        return UserDecisions.of(self.path, found if isinstance(found, str) else "")

    @property
    def taxonomy(self) -> list[tuple[str, str]] | None:
        """(parent, child) pairs, or None where there is no taxonomy."""
        kept = self._about("taxonomy", check_taxonomy)
        edges = kept["edges"] if isinstance(kept, dict) else kept
        return None if edges is None else [(parent, child) for parent, child in edges]

    @property
    def taxonomy_words(self) -> dict[str, str]:
        """{node: word}, what nodes of the taxonomy are called where they have words."""
        kept = self._about("taxonomy", check_taxonomy)
        return dict(kept["words"]) if isinstance(kept, dict) else {}

    def items(self, version: int | None = None) -> Items:
        """Ids, labels and all else but the vectors, by row number: as they are, or right after an event."""
        with self._database.one_state():
            self.check_row_numbers()
            last = self.version
            if version is not None and not 0 <= version <= last:
                raise InputError(f"There is no version {version}; this collection has 0 (empty) to {last}.")
            return items_at(self._database, last if version is None else version)

    def row_of(self, id: str) -> int:
        """The row number of a living item."""
        self.check_row_numbers()
        row: int | None = self._database.one("SELECT row FROM items WHERE id = ? AND alive", (id,))
        if row is None:
            known = self._database.one("SELECT count(*) FROM items WHERE id = ?", (id,))
            why = " It was forgotten; undo that event, or add it anew." if known else ""
            raise InputError(f"No item of {self.path.name} is called {id!r}.{why}")
        return row

    def item(self, id: str) -> dict[str, Any]:
        """All that is known of a living item but its vector: id, row, label, keywords, details, confirmed, by."""
        with self._database.one_state():
            row = self.row_of(id)
            found = columns_of(self._database, [row], [name for name in CHANGING if name != "alive"])
        return {"id": id, "row": row, **{name: values[0] for name, values in found.items()}}

    def page(
        self, after: int = -1, n: int = 100, *, labels: Sequence[str] | None = None, confirmed: bool | None = None
    ) -> list[dict[str, Any]]:
        """The next living items behind a row number, in the order of rows; some labels or any, confirmed or not."""
        asked: list[str] = ["alive", "row > ?"]
        values: list[Any] = [after]
        if labels is not None:
            asked.append(f"label IN ({', '.join('?' * len(labels))})")
            values += labels
        if confirmed is not None:
            asked.append(f"{'' if confirmed else 'NOT '}confirmed AND label IS NOT NULL")
        with self._database.one_state():
            self.check_row_numbers()
            chosen = f"SELECT id, row FROM items WHERE {' AND '.join(asked)} ORDER BY row LIMIT ?"
            lines = self._database.all(chosen, (*values, n))
            return self._told(lines)

    def items_of(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """The living items of some rows, in the order asked for; those that were forgotten are left out."""
        with self._database.one_state():
            self.check_row_numbers()
            lines = [self._database.all("SELECT id, row FROM items WHERE row = ? AND alive", (row,)) for row in rows]
            return self._told([line for found in lines for line in found])

    def _told(self, lines: list[Any]) -> list[dict[str, Any]]:
        names = [name for name in CHANGING if name != "alive"]
        found = columns_of(self._database, [row for _, row in lines], names)
        return [
            {"id": id, "row": row, **{name: found[name][place] for name in names}}
            for place, (id, row) in enumerate(lines)
        ]

    def find(self, text: str, n: int = 10) -> list[str]:
        """Ids of living items that start with a text, then those that hold it elsewhere; in order, at most ``n``."""
        first = "SELECT id FROM items WHERE alive AND id >= ? AND id < ? ORDER BY id LIMIT ?"
        found = [id for (id,) in self._database.all(first, (text, text + chr(0x10FFFF), n))]
        if text and len(found) < n:
            elsewhere = "SELECT id FROM items WHERE alive AND instr(id, ?) > 1 ORDER BY id LIMIT ?"
            more = [id for (id,) in self._database.all(elsewhere, (text, 2 * n)) if not id.startswith(text)]
            found += more[: n - len(found)]
        return found

    def vectors(self, rows: Sequence[int] | np.ndarray) -> np.ndarray:
        """The vectors of some rows, forgotten ones too, in the order asked for; float32."""
        wanted = np.asarray(rows)
        n_rows = self.n_rows
        if wanted.ndim != 1 or (wanted.size and wanted.dtype.kind not in "iu"):
            raise InputError(f"rows must be a list of row numbers; got {rows!r}.")
        if wanted.size and not (wanted.min() >= 0 and wanted.max() < n_rows):
            raise InputError(f"Row numbers go from 0 to {n_rows - 1}; got {wanted.min()} to {wanted.max()}.")
        return self._shards.rows(wanted)

    def blocks(self) -> list[np.ndarray]:
        """Vectors of all rows in order: sealed shards as read-only memory maps, the newest rows as an array.

        Nothing is read from the sealed ones.
        """
        self.check_row_numbers()
        return self._shards.blocks()

    def events(self, after: int = 0) -> Iterator[Event]:
        """The log, oldest first, from the event behind ``after`` on."""
        yield from read_events(self._database, after)

    def rows_changed(self, after: int) -> set[int]:
        """Numbers of the rows that events behind ``after`` are about."""
        return rows_changed(self._database, after)

    def undone(self) -> dict[int, int]:
        """The events that are taken back at present, and by which undo."""
        return undone_events(self._database)

    def said_right(self) -> set[int]:
        """Rows whose label a person confirmed although it counted already, and that have had no other label since."""
        return rows_said_right(self._database, bool(self.settings.get("machines_vote", False)))

    def kept(self, kind: str) -> tuple[int, Path] | None:
        """The event that kept the latest state of a kind, and its folder; None where there is none."""
        found = learned_files.latest_kept(self._database, kind)
        if found is None:
            return None
        # Readers take a path: what they will find there is looked at first.
        for folder, name in learned_files.kept_files(self.folder, found[1]).values():
            if folder.file(name) is None:
                raise StorageError(f"The file {folder.path / name} is missing. Learn again: it is made from the items.")
        return found[0], self.path / learned_files.FOLDER / found[1]["folder"]

    def backup(self, to: str | os.PathLike[str]) -> None:
        """Copy the collection as it is into a new folder, checking every file; also while it is written to."""
        self.check_row_numbers()
        backup.back_up(self._database, self.folder, Path(os.path.abspath(to)))

    def snapshot(self, path: str | os.PathLike[str]) -> Path:
        """Write a JSON file that tells other machines where the vectors are; see ``Snapshot``.

        Rows not sealed yet are written beside it as a shard of the snapshot
        alone, so this works for a reader too and leaves the collection alone.
        """
        self.check_row_numbers()
        return snapshot.write_snapshot(self._database, self._shards, Path(os.path.abspath(path)))

    def faults(self) -> list[str]:
        """All that is wrong with the files, the log and the items; empty where nothing is. Reads everything."""
        return integrity.find_faults(self._database, self._shards, self.folder)

    def damage(self) -> list[str]:
        """The same without files that were left behind, which harm nothing and go when the next writer comes."""
        return integrity.find_damage(self._database, self._shards, self.folder)

    @property
    def format(self) -> int:
        """The number of the format that the collection is written in."""
        found: int = self._database.one("PRAGMA user_version")
        return found

    def _about(self, name: str, check: Callable[[Any], None] | None = None) -> Any:
        """A value that holds for the whole collection; each text is checked once."""
        text = self._database.one("SELECT value FROM about WHERE name = ?", (name,))
        found = from_json(text, f"{name!r}")
        if check is not None and self._checked.get(name) != text:
            check(found)
            self._checked[name] = text
        return found
