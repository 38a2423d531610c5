"""The reading half of a store; all of it works while another process writes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.collection.store import backup, integrity, learned_files, snapshot
from nearsay.collection.store.database import Database
from nearsay.collection.store.events import (
    Event,
    read_events,
    rows_confirmed_again,
    rows_of_events,
    undone_events,
)
from nearsay.collection.store.files.folder import Folder
from nearsay.collection.store.items import CHANGING, Items, columns_of, items_at
from nearsay.collection.store.shard_files import ShardFile, Shards
from nearsay.collection.store.stored_values import (
    check_column,
    check_n_columns,
    check_settings,
    check_taxonomy,
    from_json,
    not_as_written,
)
from nearsay.collection.store.user_decisions import UserDecisions
from nearsay.data.saved import saved_objects
from nearsay.errors import InputError, StorageError
from nearsay.taxonomy.taxonomy import Taxonomy

# Of the objects that are kept: how rows of a table are encoded, and the words of texts.
TABLE, WORDS = "table", "words"
KEPT_CLASS = {TABLE: "TableEncoder", WORDS: "WordVectors"}
# One end at a time: for both at once, SQLite would read the table.
ROW_NUMBERS = """
SELECT (SELECT min(row) FROM items), (SELECT max(row) FROM items), (SELECT min(row) FROM tail),
       (SELECT max(row) FROM tail), (SELECT first + n_rows FROM shards ORDER BY first DESC LIMIT 1)
"""


class _Taxonomy:
    """A taxonomy as it is stored, parsed once."""

    def __init__(self, text: str | None) -> None:
        self.text = text
        stored = from_json(text, "'taxonomy'")
        check_taxonomy(stored)
        edges = stored["edges"] if isinstance(stored, dict) else stored
        self.edges = None if edges is None else [(parent, child) for parent, child in edges]
        self.words: dict[str, str] = dict(stored["words"]) if isinstance(stored, dict) else {}
        self.nodes = frozenset(node for edge in self.edges or () for node in edge)

    @cached_property
    def tree(self) -> Taxonomy | None:
        return None if self.edges is None else Taxonomy.from_edges(self.edges).with_words(self.words)


class ReadableStore:
    """The part of ``Store`` that reads."""

    def __init__(self, folder: Folder, database: Database) -> None:
        self.path, self.folder, self._database = folder.path, folder, database
        self._checked: dict[str, str] = {}
        self._taxonomy: _Taxonomy | None = None
        self._rows_checked = False
        self.n_columns: int = check_n_columns(self._about("n_columns"))
        self._shards = Shards(database, folder, self.n_columns)

    def check_row_numbers(self) -> None:
        """Check that the first and last rows of the items, the shards and the newest rows fit together.

        Done once, before anything uses row numbers; it reads no table.
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
        """The number of items, without forgotten ones."""
        return int(self._database.one("SELECT count(*) FROM items WHERE alive"))

    def n_labeled(self, *, confirmed: bool) -> int:
        """The number of items with a label; with ``confirmed``, a confirmed one."""
        which = "alive AND label IS NOT NULL" + (" AND confirmed" if confirmed else "")
        return int(self._database.one(f"SELECT count(*) FROM items WHERE {which}"))

    @property
    def version(self) -> int:
        """The number of the last event; 0 where nothing happened yet."""
        return self._database.one("SELECT max(number) FROM events") or 0

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the collection."""
        settings: dict[str, Any] = self._about("settings", check_settings)
        return settings

    @cached_property
    def remembered(self) -> UserDecisions:
        """The paths that the user named for this collection on this machine."""
        text = self._database.one("SELECT value FROM about WHERE name = 'id'")
        id = None if text is None else from_json(text, "'id'")
        return UserDecisions.of(self.path, id if isinstance(id, str) else "")

    @property
    def taxonomy(self) -> list[tuple[str, str]] | None:
        """(parent, child) pairs, or None where there is no taxonomy."""
        return self._stored_taxonomy().edges

    @property
    def taxonomy_words(self) -> dict[str, str]:
        """{node: word}, the words of the nodes that have one."""
        return self._stored_taxonomy().words

    @property
    def tree(self) -> Taxonomy | None:
        """The taxonomy, or None."""
        return self._stored_taxonomy().tree

    def _stored_taxonomy(self) -> _Taxonomy:
        text = self._database.one("SELECT value FROM about WHERE name = 'taxonomy'")
        if self._taxonomy is None or self._taxonomy.text != text:
            self._taxonomy = _Taxonomy(text)
        return self._taxonomy

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
            why = " It was forgotten: undo that event, or add it again." if known else ""
            raise InputError(f"No item of {self.path.name} is called {id!r}.{why}")
        return row

    def item(self, id: str) -> dict[str, Any]:
        """A living item without its vector: id, row, label, keywords, details, confirmed, by."""
        with self._database.one_state():
            return self._item_dicts([(id, self.row_of(id))])[0]

    def unconfirmed(self, n: int) -> list[dict[str, Any]]:
        """The first ``n`` living items with a label that is not confirmed, in the order of rows."""
        with self._database.one_state():
            self.check_row_numbers()
            which = "alive AND NOT confirmed AND label IS NOT NULL"
            lines = self._database.all(f"SELECT id, row FROM items WHERE {which} ORDER BY row LIMIT ?", (n,))
            return self._item_dicts(lines)

    def items_of(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """The living items of some rows, in the given order; forgotten ones and numbers of no row are left out."""
        with self._database.one_state():
            self.check_row_numbers()
            known = [row for row in rows if 0 <= row < self.n_rows]
            lines = [self._database.all("SELECT id, row FROM items WHERE row = ? AND alive", (row,)) for row in known]
            return self._item_dicts([line for some in lines for line in some])

    def _item_dicts(self, lines: list[Any]) -> list[dict[str, Any]]:
        names = [name for name in CHANGING if name != "alive"]
        columns = columns_of(self._database, [row for _, row in lines], names)
        check_column("id", [id for id, _ in lines])
        return [
            {"id": id, "row": row, **{name: columns[name][place] for name in names}}
            for place, (id, row) in enumerate(lines)
        ]

    def vectors(self, rows: Sequence[int] | np.ndarray) -> np.ndarray:
        """The vectors of some rows, forgotten ones too, in the given order; float32."""
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
        return set(rows_of_events(self._database, "number > ?", after))

    def undone(self) -> dict[int, int]:
        """The events that are taken back at present, and by which undo."""
        return undone_events(self._database)

    def confirmed_again(self) -> set[int]:
        """Rows whose label a person confirmed although it counted already, and that kept this label since."""
        return rows_confirmed_again(self._database, bool(self.settings.get("machines_vote", False)))

    def rows_added_by_machines(self) -> list[int]:
        """Rows that came with a machine's label, in order."""
        return rows_of_events(self._database, "kind = 'add' AND by = 'machine'")

    def latest_kept(self, kind: str) -> tuple[int, Path] | None:
        """The event that kept the latest state of a kind, and its folder; None where there is none."""
        latest = learned_files.latest_kept(self._database, kind)
        if latest is None:
            return None
        # Readers are given a path, so its files are checked first.
        for folder, name in learned_files.kept_files(self.folder, latest[1]).values():
            if folder.file(name) is None:
                raise StorageError(f"The file {folder.path / name} is missing. Learn again: it is made from the items.")
        return latest[0], self.path / learned_files.FOLDER / latest[1]["folder"]

    def kept_object(self, kind: str) -> Any:
        """The object that ``Store.keep_object`` kept last, a class of this kind; None where there is none."""
        kept = self.latest_kept(kind)
        return None if kept is None else saved_objects.load(kept[1] / f"{kind}.nearsay", expect=KEPT_CLASS[kind])

    def backup(self, to: str | os.PathLike[str]) -> None:
        """Copy the collection as it is into a new folder, checking every file; also while it is written to."""
        self.check_row_numbers()
        backup.back_up(self._database, self.folder, Path(os.path.abspath(to)))

    def snapshot(self, path: str | os.PathLike[str]) -> Path:
        """Write a JSON file with the paths of all vectors, for other machines; see ``Snapshot``.

        Rows not sealed yet are written next to it as a shard of the snapshot,
        so this works for a reader too and does not change the collection.
        """
        self.check_row_numbers()
        return snapshot.write_snapshot(self._database, self._shards, Path(os.path.abspath(path)))

    def faults(self) -> list[str]:
        """All faults of the files, the log and the items. Reads everything."""
        return integrity.find_faults(self._database, self._shards, self.folder)

    def damage(self) -> list[str]:
        """The same without leftover files, which are harmless, and which the next writer removes."""
        return integrity.find_damage(self._database, self._shards, self.folder)

    def left_behind(self) -> list[tuple[Folder, str]]:
        """Leftover files, each with its folder."""
        return integrity.unnamed_files(self._database, self.folder)

    def sealed(self) -> list[ShardFile]:
        """The files of sealed vectors, first rows first."""
        return self._shards.sealed()

    @property
    def format(self) -> int:
        """The number of the format that the collection is written in."""
        return int(self._database.one("PRAGMA user_version"))

    def _about(self, name: str, check: Callable[[Any], None] | None = None) -> Any:
        """A value about the whole collection; each text is checked once."""
        text = self._database.one("SELECT value FROM about WHERE name = ?", (name,))
        value = from_json(text, f"{name!r}")
        if check is not None and self._checked.get(name) != text:
            check(value)
            self._checked[name] = text
        return value
