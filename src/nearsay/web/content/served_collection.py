"""The collection behind the page: calls in a few threads, answers in plain values, changes without overwriting others'.

page ──► ServedCollection.run(function) ──► a thread ──► LiveCollection
              └── 503 where too many wait, or one for too long
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import numpy as np

from nearsay.collection.answers import Answer, in_words
from nearsay.collection.ingest.image_description import SETTING, Description
from nearsay.collection.ingest.text_description import TextDescription
from nearsay.collection.labeling import column_names, row_vector
from nearsay.collection.live import LiveCollection
from nearsay.collection.state.live_views import checked_queries
from nearsay.collection.state.state_tracker import LEARNED
from nearsay.describe.texts.text_descriptor import text_fault
from nearsay.errors import InputError, NearsayError
from nearsay.taxonomy.taxonomy import Taxonomy
from nearsay.web.content.batched_questions import QuestionBatcher
from nearsay.web.content.drawings import sketches
from nearsay.web.content.item_filters import RowLabels, row_labels
from nearsay.web.content.table_rows import TableRows

T = TypeVar("T")
# Accuracies that the slider stops at.
ACCURACIES = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99)
ACCURACY = 0.9
# By then all loops are compiled, and rows are held in the form that single queries use.
QUESTIONS_TO_WARM_UP = 5
# Cells of a row that a list of items shows.
CELLS_SHOWN = 5
BUSY = "The server is busy. Try again in a moment."


class Overloaded(NearsayError):
    """Too many requests at once."""


class Changed(NearsayError):
    """Somebody else changed an item since it was shown; the message says to what."""


class ServedCollection:
    """A collection that pages query and change.

    Parameters
    ----------
    collection : open for writing where corrections are to be accepted.
    """

    at_once, most_waiting = 4, 64  # calls
    longest_wait = 20.0  # seconds until it must be one's turn

    def __init__(self, collection: LiveCollection) -> None:
        self.collection = collection
        self._changing = threading.Lock()
        self._waiting = 0
        self._turns: anyio.CapacityLimiter | None = None
        self._threads: anyio.CapacityLimiter | None = None
        self._at_start: dict[str, Any] | None = None
        self._description: Description | None = None
        self._texts: TextDescription | None = None
        self._has_names = column_names(collection) is not None
        self._table_rows: tuple[int | None, TableRows | None] | None = None
        self._batcher: QuestionBatcher[np.ndarray, dict[str, Any]] = QuestionBatcher(self.run, self._answer_vectors)

    @property
    def name(self) -> str:
        """What the collection is called."""
        return self.collection.store.path.name.removesuffix(".nearsay")

    @property
    def read_only(self) -> bool:
        """Whether corrections are refused."""
        return bool(self.collection.store.read_only)

    @property
    def kind(self) -> str:
        """What items are: "pictures", "texts" or "numbers"."""
        return self.collection.kind

    @property
    def of_pictures(self) -> bool:
        """Whether items are pictures."""
        return self.kind == "pictures"

    @property
    def taxonomy(self) -> Taxonomy | None:
        """The taxonomy of the collection."""
        return self.collection.taxonomy

    async def run(self, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Call a function in a thread when it is its turn; ``Overloaded`` where that takes too long."""
        if self._turns is None or self._threads is None:
            self._turns, self._threads = anyio.CapacityLimiter(self.at_once), anyio.CapacityLimiter(self.at_once)
        if self._waiting >= self.most_waiting:
            raise Overloaded(BUSY)
        self._waiting += 1
        turn = object()
        try:
            try:
                with anyio.fail_after(self.longest_wait):
                    await self._turns.acquire_on_behalf_of(turn)
            except TimeoutError:
                raise Overloaded(BUSY) from None
            try:
                return await anyio.to_thread.run_sync(lambda: function(*arguments, **named), limiter=self._threads)
            finally:
                self._turns.release_on_behalf_of(turn)
        finally:
            self._waiting -= 1

    # ------------------------------------------------------------ about the collection

    def warm_up(self) -> threading.Thread | None:
        """Read what the first query needs, in the background; until then ``about`` gives the figures of the start.

        Nothing is learned here: where nothing was, the first query has it learned.
        """
        collection = self.collection
        if collection.store.latest_kept(LEARNED) is None:
            return None
        self._at_start = self.about()

        def read() -> None:
            try:
                state = collection.state()
                for row in state.views.live_numbers[:QUESTIONS_TO_WARM_UP]:
                    collection.label(state.views.all_rows()[row][None])
                    collection.label_items([state.voting.ids[row]])
            except Exception as error:  # the first query raises it again
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
        store, learned = self.collection.store, self.collection.learned
        return {
            "name": self.name,
            "items": len(self.collection),
            "version": store.version,
            "read_only": self.read_only,
            "pictures": self.of_pictures,
            "texts": self.kind == "texts",
            "hedged": store.taxonomy is not None,
            "learned": None if learned is None else str(learned),
            "stale": bool(learned is not None and learned.stale),
        }

    def item(self, id: str) -> dict[str, Any]:
        """An item as it is shown, with its ``state``, which changes with it."""
        return with_state(self.collection.store.item(id))

    def labels(self, known: RowLabels | None = None, most: int | None = None) -> list[str]:
        """Labels that an item may get: nodes of the tree, or the labels of other items, ``most`` of them at most."""
        if self.taxonomy is not None:
            return sorted(str(node) for node in self.taxonomy.nodes if node != self.taxonomy.root)[:most]
        return sorted((row_labels(self.collection) if known is None else known).names[:most])

    def labels_like(self, text: str, n: int = 20) -> list[str]:
        """Labels that start with a text, then those that contain it, or whose word does; at most ``n``."""
        tree, text = self.taxonomy, text.casefold()
        words = {} if tree is None else {str(node): word.casefold() for node, word in tree.node_words.items()}
        ranked = []
        for label in self.labels():
            name = label.casefold()
            if text in name or text in words.get(label, ""):
                ranked.append((not name.startswith(text), label))
        return [label for _, label in sorted(ranked)[:n]]

    def description(self) -> Description:
        """What describes a picture as the items were described."""
        if not self.of_pictures:
            what = "texts: type one" if self.kind == "texts" else "rows of numbers: paste numbers"
            raise InputError(f"The items of this collection are {what} instead of a picture.")
        if self._description is None:
            store = self.collection.store
            record = store.settings[SETTING]
            try:
                self._description = Description.recorded(record, store.remembered.model(record))
            except InputError as error:  # for the operator of the server, not for visitors
                raise NearsayError(f"Pictures cannot be described: {error}") from error
        return self._description

    def text_description(self) -> TextDescription:
        """What describes a text as the items were described."""
        if self._texts is None:
            store = self.collection.store
            try:
                self._texts = TextDescription.recorded(store.settings[SETTING], store)
            except InputError as error:  # whoever runs the server can act on it, a visitor cannot
                raise NearsayError(f"Texts cannot be described: {error}") from error
        return self._texts

    def checked_text(self, text: str) -> str:
        """A text that can be described, without blanks around it."""
        if self.kind != "texts":
            raise InputError("The items of this collection are no texts: send id, vector or cells.")
        if (fault := text_fault(text.strip())) is not None:
            raise InputError(f"This cannot be used: {fault}.")
        return text.strip()

    def sketches(self, X: np.ndarray, rows: Sequence[int]) -> list[list[float]]:
        """Small drawings of a query and of rows, in one scale."""
        return sketches(np.vstack([X, self.collection.store.vectors(list(rows))]))

    def add_sketches(self, items: list[dict[str, Any]]) -> None:
        """Give rows of a table their most telling cells, other numbers a small drawing in one scale; the rest None."""
        rows, table = [item["row"] for item in items], self.table_rows
        cells = [] if table is None else table.cells_of(rows)
        plain = self.kind == "numbers" and table is None and len(items) > 0
        drawn = sketches(self.collection.store.vectors(rows)) if plain else []
        for place, item in enumerate(items):
            item["sketch"] = drawn[place] if drawn else None
            item["cells"] = table.shown(cells[place], CELLS_SHOWN) if table is not None else None

    # ------------------------------------------------------------ answers

    async def ask_new(self, X: np.ndarray, accuracy: float = ACCURACY) -> dict[str, Any]:
        """The answer to a vector (1, n_columns), hedged at every accuracy of the slider."""
        if len(self._batcher) >= self.most_waiting:
            raise Overloaded(BUSY)
        return await self._batcher.ask(X, (accuracy, True))

    def ask_item(self, id: str, accuracy: float = ACCURACY, *, slider: bool = True) -> dict[str, Any]:
        """The answer about an item, by all others; hedged at one accuracy unless for the ``slider``."""
        return as_shown(self.collection.label_items([id], **self._options(accuracy, slider))[0])

    def ask_vector(self, X: np.ndarray, *, slider: bool = True) -> dict[str, Any]:
        """The answer to a vector (1, n_columns), for callers that are in a thread already."""
        return self._answer_vectors([X], (ACCURACY, slider))[0]

    @property
    def table_rows(self) -> TableRows | None:
        """The named columns of the items, where they are rows of a table; read once for everything learned."""
        if not self._has_names or not len(self.collection):
            return None
        kept = self.collection.store.latest_kept(LEARNED)
        key = None if kept is None else kept[0]
        if self._table_rows is None or self._table_rows[0] != key:
            self._table_rows = key, TableRows.of(self.collection)
        return self._table_rows[1]

    def vector_of(self, cells: dict[str, str]) -> np.ndarray:
        """A row by its cells as a vector (1, n_columns)."""
        names = column_names(self.collection) or []
        unknown = [column for column in cells if column not in names]
        if unknown:
            raise InputError(f"There is no column {unknown[0][:80]!r}. The columns: {', '.join(names)}.")
        return checked_queries(row_vector(self.collection, cells, names), self.collection.n_columns)

    def compared(self, answer: dict[str, Any], cells: dict[str, str]) -> dict[str, Any]:
        """The answer about a row of a table, with how each neighbor is like it."""
        details = [self.collection.store.item(neighbor["id"])["details"] for neighbor in answer["neighbors"]]
        table = self.collection.table
        return answer if table is None else {**answer, "compared": table.compared(cells, details)}

    def answers_by_place(
        self, items: Mapping[int, str], vectors: Mapping[int, np.ndarray], accuracy: float | None = None
    ) -> dict[int, Answer]:
        """Answers about items and vectors (1, n_columns), by the place of each: one search for either kind."""
        answers: dict[int, Answer] = {}
        if items:
            answers |= zip(items, self.collection.label_items(list(items.values()), accuracy=accuracy), strict=True)
        if vectors:
            X = np.vstack(list(vectors.values()))
            answers |= zip(vectors, self.collection.label(X, accuracy=accuracy), strict=True)
        return answers

    def _answer_vectors(self, queries: Sequence[np.ndarray], options: tuple[float, bool]) -> list[dict[str, Any]]:
        return [as_shown(answer) for answer in self.collection.label(np.vstack(queries), **self._options(*options))]

    def _options(self, accuracy: float, slider: bool) -> dict[str, Any]:
        return {"accuracy": accuracy, "hedges_at": ACCURACIES if slider else ()}

    # ------------------------------------------------------------ changes

    def change(self, id: str, state: str | None, make: Callable[[], int], *, gone: bool = False) -> dict[str, Any]:
        """Change an item that is still as it was when it was shown; gives the item before and after.

        With ``gone`` there is no item after.
        """
        with self._changing:
            before = self.item(id)
            if state is not None and before["state"] != state:
                raise Changed(
                    f"{id!r} was changed by somebody else: it is now {before['label'] or 'without a label'}."
                    " Load the page again; nothing was overwritten."
                )
            event = make()
            return {"event": event, "before": before, "after": None if gone else self.item(id)}

    def change_many(self, items: Sequence[dict[str, Any]], version: int | None, make: Callable[[], int]) -> int:
        """Change items; an error if one of them was changed since the version that was shown; gives the event."""
        with self._changing:
            if version is not None:
                later = self.collection.store.rows_changed(version)
                changed = [item["id"] for item in items if item["row"] in later]
                if changed:
                    more = f" and {len(changed) - 1:,} more of them were" if len(changed) > 1 else " was"
                    raise Changed(
                        f"{changed[0]!r}{more} changed by somebody else. Load the page again; nothing was overwritten."
                    )
            return make()

    def undo(self, event: int | None, version: int | None, who: str, *, sure: bool = False) -> int:
        """Undo an event, or the last one, which must be the one that was shown where a version is given."""
        with self._changing:
            if event is None and version is not None and self.collection.version != version:
                raise Changed("Somebody else made a change. Check the history; nothing was undone.")
            return self.collection.undo(event, sure=sure, who=who)


def as_shown(answer: Answer) -> dict[str, Any]:
    """An answer in plain values; it and each hedge have what is sure in words, and how sure."""
    shown = {**answer.to_dict(), "unusual": answer.unusual and answer.twin_of is None}
    for hedge in (shown, *shown["hedges"]):
        hedge |= headline(hedge, answer.label)
    return shown


def headline(hedge: dict[str, Any], label: str | None) -> dict[str, Any]:
    """What is sure at an accuracy: ``lead``, ``words`` and ``share``, and whether it ``is_sure``.

    >>> headline({"set": ["owl"], "set_probability": 0.96}, "owl")
    {'lead': '', 'words': 'owl', 'share': 0.96, 'is_sure': True}
    >>> headline({"set": ["owl", "hawk"], "set_probability": 0.97}, "owl")
    {'lead': 'Not sure:', 'words': 'owl or hawk', 'share': 0.97, 'is_sure': False}
    >>> headline({"set": ["corgi", "wolf", "poodle"], "set_nodes": ["dog", "wolf"], "set_probability": 0.97}, "corgi")
    {'lead': 'Not sure:', 'words': 'dog or wolf', 'share': 0.97, 'is_sure': False}
    >>> headline({"node": "bird", "node_path": ["anything", "bird"], "node_word": None, "node_probability": 0.9}, "owl")
    {'lead': 'Not sure which, but', 'words': 'bird', 'share': 0.9, 'is_sure': False}
    """
    at = hedge.get("wider") or hedge
    if at.get("node") is not None and len(at["node_path"]) > 1:
        is_label = at["node"] == label
        lead = "" if is_label else "Not sure which, but"
        words = at["node_word"] or at["node"]
        return {"lead": lead, "words": words, "share": at["node_probability"], "is_sure": is_label}
    labels = hedge.get("set") or []
    words = in_words(hedge.get("set_nodes") or labels) if labels else ""
    lead = "Not sure:" if len(labels) > 1 else ""
    return {"lead": lead, "words": words, "share": hedge.get("set_probability"), "is_sure": len(labels) == 1}


def with_state(item: dict[str, Any]) -> dict[str, Any]:
    """The item with its text, a digest of everything that can be changed, and without paths of this machine."""
    changeable = [item[name] for name in ("label", "keywords", "confirmed", "row")]
    state = hashlib.sha256(json.dumps(changeable, ensure_ascii=False).encode()).hexdigest()[:16]
    details = {name: value for name, value in (item["details"] or {}).items() if name != "folder"}
    return {**item, "details": details, "text": details.get("text"), "state": state}


def as_listed(item: dict[str, Any]) -> dict[str, Any]:
    """The same without its details: visitors need no paths of this machine."""
    return {name: value for name, value in with_state(item).items() if name != "details"}


def as_vector(text: str, n_columns: int) -> list[float]:
    """Pasted numbers, however they are separated.

    >>> as_vector("[1, 2.5;3]", 3)
    [1.0, 2.5, 3.0]
    """
    cells = "".join(" " if mark in "[](){},;\t\r\n|" else mark for mark in text).split()
    numbers = []
    for cell in cells:
        try:
            numbers.append(float(cell))
        except ValueError:
            raise InputError(f"{cell[:40]!r} is not a number. Paste {n_columns} numbers.") from None
    if len(numbers) != n_columns:
        raise InputError(f"Got {len(numbers)} numbers; an item of this collection has {n_columns}.")
    return numbers
