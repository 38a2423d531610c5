"""A collection as the page sees it: asked in threads, a few at a time, and told no when there are too many.

page ──► Served.run(function) ──► a thread ──► LiveCollection
              └── 503 where too many wait
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from nearsay.collection.described import SETTING
from nearsay.collection.live import LiveCollection
from nearsay.errors import InputError, NearsayError

T = TypeVar("T")
# Accuracies that the slider stops at.
ACCURACIES = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99)
AT_ONCE, MOST_WAITING = 4, 64


class Overloaded(NearsayError):
    """Too many ask at once."""


class Changed(NearsayError):
    """Somebody else changed an item since it was shown; the message says to what."""


class Served:
    """The collection behind the pages.

    Parameters
    ----------
    collection : LiveCollection
        Open for writing where corrections are to be taken.
    """

    def __init__(self, collection: LiveCollection) -> None:
        self.collection = collection
        self._changing = threading.Lock()
        self._waiting = 0
        self._limiter: anyio.CapacityLimiter | None = None

    @property
    def name(self) -> str:
        """What the collection is called."""
        return self.collection.store.path.name.removesuffix(".nearsay")

    @property
    def read_only(self) -> bool:
        """Whether corrections are refused."""
        return bool(self.collection.store.read_only)

    async def run(self, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Call a function in a thread; at once, or when it is its turn, or not at all where too many wait."""
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(AT_ONCE)
        if self._waiting >= MOST_WAITING:
            raise Overloaded("Too many ask at once. Try again in a moment.")
        self._waiting += 1
        try:
            return await anyio.to_thread.run_sync(lambda: function(*arguments, **named), limiter=self._limiter)
        finally:
            self._waiting -= 1

    # ------------------------------------------------------------ what there is

    def about(self) -> dict[str, Any]:
        """The collection in a few figures."""
        store = self.collection.store
        learned = self.collection.learned
        return {
            "name": self.name,
            "items": len(self.collection),
            "version": store.version,
            "read_only": self.read_only,
            "pictures": (store.settings.get(SETTING) or {}).get("kind") == "pictures",
            "hedged": store.taxonomy is not None,
            "learned": None if learned is None else str(learned),
            "stale": bool(learned is not None and learned.stale),
        }

    def item(self, id: str) -> dict[str, Any]:
        """An item as it is shown, with its ``state``, which changes with it."""
        return with_state(self.collection.store.item(id))

    def labels(self) -> list[str]:
        """What an item may be called: nodes of the tree, or the labels there are."""
        tree = self.collection.taxonomy
        if tree is not None:
            return sorted(str(node) for node in tree.nodes if node != tree.root)
        return sorted(label for label in self.collection.now().standing.classes.tolist() if label)

    # ------------------------------------------------------------ questions

    def ask(self, X: Any = None, id: str | None = None, accuracy: float = 0.9) -> dict[str, Any]:
        """What the neighbors say of a vector or of an item, hedged at every accuracy of the slider."""
        hedged = self.collection.taxonomy is not None and self.collection.now().hedged is not None
        asked: dict[str, Any] = {"hedges_at": ACCURACIES} if hedged else {}
        if hedged:
            asked["accuracy"] = accuracy
        if id is not None:
            answer = self.collection.label_items([id], **asked)[0]
        else:
            answer = self.collection.label(X, **asked)[0]
        return answer.to_dict()

    # ------------------------------------------------------------ changes

    def change(self, id: str, state: str | None, make: Callable[[], int]) -> dict[str, Any]:
        """Make a change of an item that is still as it was when it was shown; gives the item before and after."""
        with self._changing:
            before = self.item(id)
            if state is not None and before["state"] != state:
                raise Changed(
                    f"{id!r} was changed by somebody else meanwhile: it is {before['label'] or 'without a label'} now."
                    " Look at it again; nothing was overwritten."
                )
            event = make()
            return {"event": event, "before": before, "after": self.item(id)}


def with_state(item: dict[str, Any]) -> dict[str, Any]:
    """The item with a digest of all that can be changed of it."""
    told = [item[name] for name in ("label", "keywords", "confirmed", "row")]
    state = hashlib.sha256(json.dumps(told, ensure_ascii=False).encode()).hexdigest()[:16]
    return {**item, "state": state}


def as_vector(text: str, n_columns: int) -> list[float]:
    """Numbers that somebody pasted, however they are separated.

    >>> as_vector("[1, 2.5;3]", 3)
    [1.0, 2.5, 3.0]
    """
    cells = "".join(" " if mark in "[](){},;\t\r\n|" else mark for mark in text).split()
    try:
        numbers = [float(cell) for cell in cells]
    except ValueError:
        wrong = next(cell for cell in cells if not _is_number(cell))
        raise InputError(f"{wrong[:40]!r} is not a number. Paste {n_columns} numbers.") from None
    if len(numbers) != n_columns:
        raise InputError(f"Got {len(numbers)} numbers; an item of this collection has {n_columns}.")
    return numbers


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
