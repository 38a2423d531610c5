"""Items by what people call them: a part of the id, of a name in the details, or of the text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nearsay.collection.live import LiveCollection

# Letters of a name that are shown.
SHOWN = 80


@dataclass(frozen=True)
class ItemNames:
    """All living items in order of their rows, each with everything that it may be found by, in lower case."""

    ids: list[str]
    names: list[str]
    searched: list[str]
    rows: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, collection: LiveCollection) -> ItemNames:
        """The names of all items at the newest version."""
        items = collection.items
        details = items.columns["details"]
        ids, names, searched, rows = [], [], [], []
        for id, row in list(items.row_of.items()):  # a copy: others may change it meanwhile
            known = details[row] or {}
            name = str(known.get("name") or known.get("text") or "")[:SHOWN]
            ids.append(id)
            rows.append(row)
            names.append(name)
            searched.append(f"{id}\n{name}".casefold())
        return cls(ids, names, searched, rows)

    def rows_like(self, text: str) -> np.ndarray:
        """Rows of the items whose id or name holds a text, in order."""
        wanted = text.strip().casefold()
        holds = [row for row, name in zip(self.rows, self.searched, strict=True) if wanted in name]
        return np.sort(np.array(holds, np.int64))

    def like(self, text: str, most: int) -> list[dict[str, str]]:
        """Items whose id or name holds a text, the nearest to it first: ``id`` and ``name``.

        >>> items = ItemNames(["a/catalog.png", "a/cat-noto.png", "a/bobcat.png"], [""] * 3,
        ...                   ["a/catalog.png", "a/cat-noto.png", "a/bobcat.png"])
        >>> [each["id"] for each in items.like("cat", 2)]
        ['a/cat-noto.png', 'a/catalog.png']
        """
        wanted = text.strip().casefold()
        found = [place for place, name in enumerate(self.searched) if wanted in name]
        whole = re.compile(rf"(?<![^\W_]){re.escape(wanted)}(?![^\W_])")
        begins = re.compile(rf"(?<![^\W_]){re.escape(wanted)}")

        def rank(place: int) -> tuple[int, str]:
            name = self.searched[place]
            if name.startswith(wanted):
                return 0, name
            return (1 if whole.search(name) else 2 if begins.search(name) else 3), name

        return [{"id": self.ids[place], "name": self.names[place]} for place in sorted(found, key=rank)[:most]]


def first_ids(named: Sequence[dict[str, str]], most: int) -> str:
    """A few ids in a sentence.

    >>> first_ids([{"id": "a", "name": ""}, {"id": "b", "name": ""}, {"id": "c", "name": ""}], 2)
    "'a', 'b' and 1 more"
    """
    shown = ", ".join(repr(each["id"]) for each in named[:most])
    return shown if len(named) <= most else f"{shown} and {len(named) - most} more"
