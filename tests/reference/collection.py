"""A collection the slow and obvious way: a notebook that copies everything after every event."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np

ITEM = ("id", "label", "keywords", "details", "confirmed", "by", "alive")


class Refused(Exception):
    """The notebook does not do this; a store must raise an InputError, and stay as it was."""


class Notebook:
    """Items as dicts, events as lists of (where, name, old value, new value), and a copy of all of it per version."""

    def __init__(self, n_columns: int, settings: dict[str, Any] | None = None) -> None:
        self.n_columns = n_columns
        self.items: list[dict[str, Any]] = []
        self.vectors: list[np.ndarray] = []
        self.about: dict[str, Any] = {"settings": dict(settings or {}), "taxonomy": (None, {})}
        self.events: list[dict[str, Any]] = []
        self.first_there: dict[str, int] = {}  # of each kind of learned state, the first event whose files are kept
        self.pages = [self._page()]

    @property
    def version(self) -> int:
        return len(self.events)

    def _page(self) -> Any:
        """A copy of all items; what stands in them is replaced, never changed."""
        return [dict(item) for item in self.items], dict(self.about)

    def row_of(self, id: str) -> int:
        found = [row for row, item in enumerate(self.items) if item["alive"] and item["id"] == id]
        if not found:
            raise Refused(id)
        return found[0]

    def living(self) -> list[str]:
        return [item["id"] for item in self.items if item["alive"]]

    def _write(self, kind: str, changes: list[tuple[Any, str, Any, Any]], **more: Any) -> int:
        for where, name, _, new in changes:
            if where == "about":
                self.about[name] = new
            elif where != "kept":
                self.items[where][name] = new
        self.events.append({"kind": kind, "changes": changes, "undoes": None, **more})
        self.pages.append(self._page())
        return self.version

    def _change(self, kind: str, ids: list[str], columns: dict[str, list[Any]]) -> int:
        rows = [self.row_of(id) for id in ids]
        changes = [
            (row, name, self.items[row][name], values[place])
            for place, row in enumerate(rows)
            for name, values in columns.items()
        ]
        return self._write(kind, changes)

    def add(self, ids, X, labels=None, keywords=None, details=None, by="person", who="", confirmed=True):
        n, first = len(ids), len(self.items)
        if set(ids) & set(self.living()) or len(set(ids)) < n:
            raise Refused(ids)
        given = [one or [None] * n for one in (labels, keywords, details)]
        for id, vector, label, words, more in zip(ids, X, *given, strict=True):
            values = (id, label, words, more, confirmed, by, True)
            self.items.append(dict(zip(ITEM, values, strict=True)))
            self.vectors.append(np.asarray(vector, np.float32))
        return self._write("add", [(row, "alive", False, True) for row in range(first, first + n)])

    def relabel(self, ids, labels, keywords=None, by="person", who="", confirmed=True):
        n, words = len(ids), {} if keywords is None else {"keywords": keywords}
        return self._change("relabel", ids, {"label": labels, "confirmed": [confirmed] * n, "by": [by] * n, **words})

    def set_keywords(self, ids, keywords, by="person", who="", confirmed=None):
        flags = {} if confirmed is None else {"confirmed": [confirmed] * len(ids), "by": [by] * len(ids)}
        return self._change("keywords", ids, {"keywords": keywords, **flags})

    def confirm(self, ids, by="person", who=""):
        return self._change("confirm", ids, {"confirmed": [True] * len(ids)})

    def forget(self, ids, by="person", who=""):
        return self._change("forget", ids, {"alive": [False] * len(ids)})

    def set_settings(self, settings):
        old = self.about["settings"]
        return self._write("settings", [("about", "settings", old, {**old, **settings})])

    def set_taxonomy(self, edges, words=None):
        return self._write("taxonomy", [("about", "taxonomy", self.about["taxonomy"], (edges, words or {}))])

    def keep(self, kind, write):
        return self._write("keep", [("kept", kind, None, None)])

    def latest_kept(self, kind):
        found = [number for number in self.keeps(kind) if not self.is_undone(number)]
        return found[-1] if found else None

    def open_to_write(self):
        """Of each kind only the last two that count stay, and what came between and after them."""
        for kind in ("metric", "posterior"):
            counting = [n for n in self.keeps(kind) if not self.is_undone(n)]
            if len(counting) > 1:
                self.first_there[kind] = max(counting[-2], self.first_there.get(kind, 0))

    def keeps(self, kind):
        every = enumerate(self.events, start=1)
        return [number for number, one in every if one["kind"] == "keep" and one["changes"][0][1] == kind]

    def is_undone(self, number):
        """Whether an undo took the event back that was not itself taken back."""
        later = range(number + 1, self.version + 1)
        return any(self.events[one - 1]["undoes"] == number and not self.is_undone(one) for one in later)

    def confirmed_again(self):
        """Rows with a confirm that found the label counting, and no other label in any event after it."""
        events = [(n, one) for n, one in enumerate(self.events, start=1) if not self.is_undone(n)]
        votes = self.about["settings"].get("machines_vote", False)
        return {
            row
            for row in range(len(self.items))
            for number, one in events
            if one["kind"] == "confirm"
            and any(where == row and (old or votes) for where, _, old, _ in one["changes"])
            and not any(
                (where, name) == (row, "label") and old != new
                for later, other in events
                if later > number and other["kind"] == "relabel"
                for where, name, old, new in other["changes"]
            )
        }

    def undo(self, event=None, sure=False):
        if event is None:
            open_ones = [
                number
                for number, one in enumerate(self.events, start=1)
                if one["kind"] not in ("undo", "keep") and not self.is_undone(number)
            ]
            if not open_ones:
                raise Refused("nothing to undo")
            event = open_ones[-1]
        if not 1 <= event <= self.version or self.is_undone(event):
            raise Refused(event)
        changes = self.events[event - 1]["changes"]
        for where, name, old, new in changes:
            if where == "kept":
                continue
            now = self.about if where == "about" else self.items[where]
            if now[name] != new:
                raise Refused("changed since")
            if where != "about" and name != "alive" and not now["alive"]:
                raise Refused("forgotten")
            if name == "alive" and old and now["id"] in self.living():
                raise Refused("added anew")
        out = {where for where, name, old, _ in changes if name == "alive" and not old}
        for number in range(event + 1, self.version + 1):
            one = self.events[number - 1]
            touched = any(where in out for where, *_ in one["changes"])
            if touched and one["kind"] != "undo" and not self.is_undone(number):
                raise Refused("something depends on it")
        if len(out) > 1 and not sure:
            raise Refused("not sure")
        back = [(where, name, new, old) for where, name, old, new in changes]
        number = self._write("undo", back, undoes=event)
        for kind, first in self.first_there.items():
            if (self.latest_kept(kind) or first) < first:
                self.events.pop()
                self.pages.pop()
                raise Refused("no longer kept")
        return number


def assert_equal(store, notebook, version=None):
    """The store says what the notebook says: now, or of a version."""
    if version is not None:
        assert said_of(store.items(version)) == notebook.pages[version][0]
        return
    assert store.version == notebook.version
    assert_at_its_version(store, notebook)


def assert_at_its_version(store, notebook):
    """The store is what the notebook was when it had as many events, to the last bit of the vectors."""
    items, about = notebook.pages[store.version]
    assert said_of(store.items()) == items
    assert store.n_rows == len(items)
    assert store.settings == about["settings"]
    assert (store.taxonomy, store.taxonomy_words) == about["taxonomy"]
    found = b"".join(block.tobytes() for block in store.blocks())
    assert found == b"".join(vector.tobytes() for vector in notebook.vectors[: len(items)])


def said_of(items):
    """Items of a store as the notebook has them."""
    columns = (items.ids, items.labels, items.keywords, items.details, items.confirmed, items.by, items.alive)
    return [dict(zip(ITEM, (plain(value) for value in row), strict=True)) for row in zip(*columns, strict=True)]


def plain(value):
    return bool(value) if isinstance(value, np.bool_) else value


def made_up_change(luck: random.Random, notebook: Notebook) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """A call that the notebook takes or refuses; with few ids and labels, so that much happens to the same items."""
    living = notebook.living()
    often = living[:4] if luck.random() < 0.7 else living
    some = luck.sample(often, luck.randint(1, min(3, len(often)))) if living else []
    label = [luck.choice(["oak", "elm", None]) for _ in some]
    kind = luck.choice(["add", "add", "relabel", "relabel", "keywords", "confirm", "forget", "undo", "other", "other"])
    if kind == "add" or not some:
        n = luck.choice([1, 1, 1, 2, 20])
        forgotten = [item["id"] for item in notebook.items if item["id"] not in living]
        ids = [f"item {len(notebook.items) + place}" for place in range(n)]
        if forgotten and luck.random() < 0.3:
            ids[0] = luck.choice(forgotten)
        X = [[luck.randint(-2, 2) for _ in range(notebook.n_columns)] for _ in ids]
        labels = [luck.choice(["oak", "elm", None]) for _ in ids]
        words = [luck.choice([None, [], ["green", "large"]]) for _ in ids]
        details = [luck.choice([None, {"path": f"{id}.png"}]) for id in ids]
        return "add", (ids, X, labels, words, details), {"confirmed": luck.random() < 0.7, "by": "machine"}
    if kind == "relabel":
        words = luck.choice([None, [luck.choice([None, ["red"], []]) for _ in some]])
        return "relabel", (some, label, words), {"confirmed": luck.random() < 0.7}
    if kind == "keywords":
        return "set_keywords", (some, [luck.choice([None, ["red"], ["red", "small"]]) for _ in some]), {}
    if kind == "confirm":
        return "confirm", (some,), {}
    if kind == "forget":
        return "forget", (some,), {}
    if kind == "undo":
        event = luck.choice([None, luck.randint(1, max(1, notebook.version))])
        return "undo", (event,), {"sure": luck.random() < 0.8}
    if luck.random() < 0.3:
        words = luck.choice([None, {}, {"tree": "a tree"}])
        return "set_taxonomy", ([("tree", "oak"), ("tree", "elm"), ("tree", luck.choice(["fir", "ash"]))], words), {}
    if luck.random() < 0.5:
        return "set_settings", ({luck.choice("ab"): luck.randint(0, 2)},), {}
    return "keep", (luck.choice(["metric", "posterior"]), write_state), {}


def write_state(folder):
    """Learned state as a caller of ``keep`` would write it: a file, and one in a folder within."""
    (folder / "weights.bin").write_bytes(b"\x00\x01" * 500)
    (folder / "more").mkdir()
    (folder / "more" / "about.json").write_text("{}")


def answer_keywords(odds, indices, distances, keywords):
    """Words of neighbors and their probabilities, word by word: {word: probability}.

    ``odds`` holds what was learned: two columns a vote, the log odds of the word, 1; then the word's own line.
    """
    there = [place for place, row in enumerate(indices) if row >= 0]
    votes = {}
    for sharpness in (1.0, 4.0):
        farther = [distances[place] - distances[there[0]] for place in there]
        mean = sum(farther) / max(len(there) - 1, 1) / sharpness
        counts = [math.exp(-far / mean) if mean > 0 else 1.0 for far in farther]
        for word in {word for place in there for word in keywords[indices[place]] or ()}:
            has = [
                count for count, place in zip(counts, there, strict=True) if word in (keywords[indices[place]] or ())
            ]
            votes.setdefault(word, []).append(sum(has) / sum(counts))
    said = {}
    for word, shares in votes.items():
        number = odds.words.tolist().index(word) if word in odds.words else -1
        columns = [
            column for v, u in zip(shares, odds.usual, strict=True) for column in (v / u, math.asinh(v / u / 0.002))
        ]
        total = sum(w * c for w, c in zip(odds.weights, [*columns, odds.log_odds[number], 1.0], strict=True))
        said[word] = 1 / (1 + math.exp(-(odds.slopes[number] * total + odds.shifts[number])))
    return said


def rows_chosen(rows, said, wanted, under):
    """Rows that a filter lets through, looked at one by one.

    ``said`` has of the first rows what all others answer and how probable they find its label, or None where they
    were not asked; ``under`` all labels at or below each node.
    """
    chosen = []
    for number, row in enumerate(rows):
        label, heard = row["label"], said[number] if number < len(said) else None
        state = "unlabeled" if label is None else "confirmed" if row["confirmed"] else "waiting"
        answer, own = (None, None) if label is None or heard is None else heard
        if (
            row["alive"]
            and wanted.label in (None, label)
            and (wanted.node is None or label in under[wanted.node])
            and wanted.state in (None, state)
            and (wanted.below is None or (own is not None and own < wanted.below))
            and (not wanted.differs or answer not in (None, label))
        ):
            chosen.append(number)
    return chosen


def who_votes(rows: list[dict[str, Any]], machines_vote: bool) -> tuple[list[bool], list[int], list[str]]:
    """Who votes, for which class, and the classes: counted row by row."""
    for told in ("label", "keywords"):
        votes = [
            bool(row["alive"] and (machines_vote or row["confirmed"]) and row[told] not in (None, [])) for row in rows
        ]
        if told == "label" and any(votes):
            classes = sorted({row["label"] for row, vote in zip(rows, votes, strict=True) if vote})
            numbers = [classes.index(row["label"]) if vote else 0 for row, vote in zip(rows, votes, strict=True)]
            return votes, numbers, classes
    if not any(votes):  # nothing is labeled: all that live are neighbors
        votes = [bool(row["alive"]) for row in rows]
    return votes, [0] * len(rows), [""]
