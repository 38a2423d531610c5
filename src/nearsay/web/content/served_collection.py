"""A collection as the page sees it: asked in threads, a few at a time, and told no when there are too many.

page ──► Served.run(function) ──► a thread ──► LiveCollection
              └── 503 where too many wait, or one for too long
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import numpy as np

from nearsay.collection.answers import Answer
from nearsay.collection.ingest.image_description import SETTING
from nearsay.collection.live import LiveCollection
from nearsay.collection.state.state_tracker import LEARNED
from nearsay.errors import InputError, NearsayError
from nearsay.web.content.batched_questions import Together
from nearsay.web.content.vector_sketches import sketches

T = TypeVar("T")
# Accuracies that the slider stops at.
ACCURACIES = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99)
AT_ONCE, MOST_WAITING = 4, 64
# Seconds until it must be one's turn.
LONGEST_WAIT = 20.0
# By then all that is compiled is there, and rows are held in the form in which single questions go over them.
QUESTIONS_TO_WARM_UP = 5


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
        self._turns: anyio.CapacityLimiter | None = None
        self._threads: anyio.CapacityLimiter | None = None
        self._at_start: dict[str, Any] | None = None
        self._together: Together[np.ndarray, dict[str, Any]] = Together(self.run, self._ask_all)

    @property
    def name(self) -> str:
        """What the collection is called."""
        return self.collection.store.path.name.removesuffix(".nearsay")

    @property
    def read_only(self) -> bool:
        """Whether corrections are refused."""
        return bool(self.collection.store.read_only)

    async def run(self, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Call a function in a thread: at once, or when it is its turn.

        ``Overloaded`` where too many wait, or where it takes too long until then.
        """
        if self._turns is None or self._threads is None:
            self._turns, self._threads = anyio.CapacityLimiter(AT_ONCE), anyio.CapacityLimiter(AT_ONCE)
        if self._waiting >= MOST_WAITING:
            raise Overloaded("Too many ask at once. Try again in a moment.")
        self._waiting += 1
        turn = object()
        try:
            try:
                with anyio.fail_after(LONGEST_WAIT):
                    await self._turns.acquire_on_behalf_of(turn)
            except TimeoutError:
                raise Overloaded("Others ask for something that takes long. Try again in a moment.") from None
            try:
                return await anyio.to_thread.run_sync(lambda: function(*arguments, **named), limiter=self._threads)
            finally:
                self._turns.release_on_behalf_of(turn)
        finally:
            self._waiting -= 1

    # ------------------------------------------------------------ what there is

    def warm_up(self) -> threading.Thread | None:
        """Read what the first question needs, in the background; until then ``about`` tells what there was before.

        Nothing is learned here: where nothing is, the first question has it learned.
        """
        collection = self.collection
        if collection.store.kept(LEARNED) is None:
            return None
        self._at_start = self.about()

        def read() -> None:
            try:
                now = collection.state()
                for row in now.views.live_numbers[:QUESTIONS_TO_WARM_UP]:
                    collection.label(now.views.all_rows()[row][None])
                    collection.label_items([now.voting.ids[row]])
            except Exception as error:  # whoever asks first is told
                logging.getLogger("nearsay.web").debug("not read beforehand: %s", error)
            finally:
                self._at_start = None

        thread = threading.Thread(target=read, name="nearsay warm-up", daemon=True)
        thread.start()
        return thread

    def about(self) -> dict[str, Any]:
        """The collection in a few figures."""
        at_start = self._at_start
        if at_start is not None:
            return at_start
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
        return sorted(label for label in self.collection.state().voting.classes.tolist() if label)

    def labels_like(self, text: str, n: int = 20) -> list[str]:
        """Labels that start with a text, then those that hold it elsewhere, or whose word does; at most ``n``."""
        tree, text = self.collection.taxonomy, text.casefold()
        words = {} if tree is None else {str(node): word.casefold() for node, word in tree.node_words.items()}
        ranked = []
        for label in self.labels():
            said = label.casefold()
            if text in said or text in words.get(label, ""):
                ranked.append((not said.startswith(text), label))
        return [label for _, label in sorted(ranked)[:n]]

    def sketches(self, X: np.ndarray, rows: Sequence[int]) -> list[list[float]]:
        """Small drawings of what was asked about and of rows, in one scale."""
        return sketches(np.vstack([X, self.collection.store.vectors(list(rows))]))

    # ------------------------------------------------------------ questions

    async def ask_new(self, X: np.ndarray, accuracy: float = 0.9) -> dict[str, Any]:
        """What the neighbors say of a vector (1, n_columns), hedged at every accuracy of the slider."""
        if len(self._together) >= MOST_WAITING:
            raise Overloaded("Too many ask at once. Try again in a moment.")
        return await self._together.ask(X, accuracy)

    def ask_item(self, id: str, accuracy: float = 0.9) -> dict[str, Any]:
        """The same of an item, by all others."""
        return as_shown(self.collection.label_items([id], **self._hedged_at(accuracy))[0])

    def ask(self, X: Any = None, id: str | None = None, accuracy: float = 0.9) -> dict[str, Any]:
        """The same of a vector or an item, for who is in a thread already."""
        return self.ask_item(id, accuracy) if id is not None else self._ask_all([X], accuracy)[0]

    def _ask_all(self, asked: Sequence[np.ndarray], accuracy: float) -> list[dict[str, Any]]:
        """One search for all that ask."""
        return [as_shown(answer) for answer in self.collection.label(np.vstack(asked), **self._hedged_at(accuracy))]

    def _hedged_at(self, accuracy: float) -> dict[str, Any]:
        return {} if self.collection.state().hedged is None else {"hedges_at": ACCURACIES, "accuracy": accuracy}

    # ------------------------------------------------------------ changes

    def change(self, id: str, state: str | None, make: Callable[[], int], *, gone: bool = False) -> dict[str, Any]:
        """Make a change of an item that is still as it was when it was shown; gives the item before and after.

        With ``gone`` there is no item after.
        """
        with self._changing:
            before = self.item(id)
            if state is not None and before["state"] != state:
                raise Changed(
                    f"{id!r} was changed by somebody else meanwhile: it is {before['label'] or 'without a label'} now."
                    " Look at it again; nothing was overwritten."
                )
            event = make()
            return {"event": event, "before": before, "after": None if gone else self.item(id)}

    def change_many(self, items: Sequence[dict[str, Any]], version: int | None, make: Callable[[], int]) -> int:
        """Make a change of items that nobody has changed since they were shown, at a version; gives the event."""
        with self._changing:
            if version is not None:
                later = self.collection.store.rows_changed(version)
                changed = [item["id"] for item in items if item["row"] in later]
                if changed:
                    more = f" and {len(changed) - 1:,} more of them were" if len(changed) > 1 else " was"
                    raise Changed(
                        f"{changed[0]!r}{more} changed by somebody else meanwhile."
                        " Load the page again to see them; nothing was overwritten."
                    )
            return make()

    def undo(self, event: int | None, version: int | None, who: str, *, sure: bool = False) -> int:
        """Take back an event, or the last one, which must be the one that was shown where a version is given."""
        with self._changing:
            if event is None and version is not None and self.collection.version != version:
                raise Changed("Somebody else changed something meanwhile. Look at the history; nothing was taken back.")
            return self.collection.undo(event, sure=sure, who=who)


def as_shown(answer: Answer) -> dict[str, Any]:
    """An answer in plain values, and what its hedges say in words."""
    told = {**answer.to_dict(), "unusual": answer.unusual and answer.twin_of is None}
    for hedge in (told, *told["hedges"]):
        hedge["says"] = _lead(hedge, answer.label)
    return told


def _lead(hedge: dict[str, Any], label: str | None) -> str:
    """The words before the node.

    >>> _lead({"node": "owl", "node_path": ["anything", "bird", "owl"]}, "owl")
    'Sure enough to say'
    >>> _lead({"node": "bird", "node_path": ["anything", "bird"]}, "owl")
    'Not sure which, but'
    """
    if hedge["node"] is not None and hedge["node"] == label:
        return "Sure enough to say"
    return "Not sure which, but" if len(hedge["node_path"]) > 1 else "Not sure of anything"


def with_state(item: dict[str, Any]) -> dict[str, Any]:
    """The item with a digest of all that can be changed of it, and without paths of this machine."""
    told = [item[name] for name in ("label", "keywords", "confirmed", "row")]
    state = hashlib.sha256(json.dumps(told, ensure_ascii=False).encode()).hexdigest()[:16]
    details = {
        name: told for name, told in (item["details"] or {}).items() if name != "folder"
    }  # a path of this machine
    return {**item, "details": details, "state": state}


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
