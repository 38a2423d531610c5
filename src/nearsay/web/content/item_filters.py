"""Which items a page lists: by label, node of the taxonomy, state or name, or those whose label is doubted."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from nearsay.collection.live import LiveCollection
from nearsay.errors import InputError, unknown_name
from nearsay.taxonomy.taxonomy import Taxonomy
from nearsay.web.content.label_doubts import LabelDoubts

STATES = ("confirmed", "waiting", "unlabeled")
# Letters of a name that are shown.
NAME_SHOWN = 80
# Classes with typical items, typical items of each, and items of a class that are compared.
CLASSES, TYPICAL, COMPARED = 12, 4, 64


@dataclass(frozen=True)
class RowLabels:
    """The label of every row at one version.

    Attributes
    ----------
    version : the last event that is included.
    names : labels, those of the most living items first, equal ones by name.
    numbers : (n_rows,) places in ``names``; −1 without a label.
    counts : (n_labels,) how many living items have each.
    alive, confirmed : (n_rows,) bool
    """

    version: int
    names: list[str]
    numbers: np.ndarray
    counts: np.ndarray
    alive: np.ndarray
    confirmed: np.ndarray

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    def number(self, label: str) -> int:
        """The place of a label among the names; −2 where no item has it."""
        return self._places.get(label, -2)


@dataclass(frozen=True)
class ItemFilter:
    """Conditions that items must meet; None is no condition.

    Attributes
    ----------
    label, node : the label itself; a node of the taxonomy, for all labels under it and the node itself.
    state : "confirmed", "waiting" (its label is not confirmed) or "unlabeled".
    below : the label is less probable than this, by all others.
    differs : the label is not the answer of all others.
    """

    label: str | None = None
    node: str | None = None
    state: str | None = None
    below: float | None = None
    differs: bool = False

    @property
    def needs_doubts(self) -> bool:
        """Whether all items must be answered by the others first."""
        return self.below is not None or self.differs


def row_labels(collection: LiveCollection) -> RowLabels:
    """The labels of all rows.

    >>> import tempfile
    >>> leaves = LiveCollection.create(tempfile.mkdtemp() + "/leaves", n_columns=1)
    >>> _ = leaves.add(["a", "b", "c"], [[0.0], [0.2], [4.0]], labels=["oak", None, "elm"])
    >>> labels = row_labels(leaves)
    >>> labels.names, labels.numbers
    (['elm', 'oak'], array([ 1, -1,  0]))
    >>> leaves.close()
    """
    version, names, numbers, alive, confirmed = collection.labels_by_row()
    counts = np.bincount(numbers[alive & (numbers >= 0)], minlength=len(names))
    order = sorted(np.flatnonzero(counts).tolist(), key=lambda each: (-counts[each], names[each]))
    place = np.full(len(names) + 1, -1, np.int64)  # the last is that of −1
    place[order] = np.arange(len(order))
    return RowLabels(version, [names[each] for each in order], place[numbers], counts[order], alive, confirmed)


def matching_rows(
    labels: RowLabels, conditions: ItemFilter, tree: Taxonomy | None = None, doubts: LabelDoubts | None = None
) -> np.ndarray:
    """Numbers of the living rows that meet the conditions, in order.

    ``doubts`` are needed if ``needs_doubts``; rows added after they were computed are left out then.
    """
    rows = labels.alive.copy()
    if conditions.label is not None:
        rows &= labels.numbers == labels.number(conditions.label)
    if conditions.node is not None:
        below = labels_under(labels, conditions.node, tree)
        rows &= np.isin(labels.numbers, [labels.number(label) for label in below])
    if conditions.state is not None:
        rows &= _in_state(labels, conditions.state)
    if conditions.needs_doubts:
        assert doubts is not None
        n = min(len(rows), len(doubts.answer))
        rows[n:] = False
        if conditions.below is not None:
            rows[:n] &= doubts.label_probability[:n] < conditions.below
        if conditions.differs:
            answers = np.array([labels.number(str(label)) for label in doubts.classes.tolist()], np.int64)
            comparable = (labels.numbers[:n] >= 0) & (doubts.answer[:n] >= 0)
            rows[:n] &= comparable & (answers[doubts.answer[:n]] != labels.numbers[:n])
    return np.flatnonzero(rows)


def labels_under(labels: RowLabels, node: str, tree: Taxonomy | None) -> list[str]:
    """The labels of items that are a node of the taxonomy or under it."""
    if tree is None:
        raise InputError("This collection has no taxonomy. Choose items by label instead of by node.")
    if node not in tree.nodes:
        raise InputError(f"{node!r} is not in the taxonomy of this collection.")
    known = set(tree.nodes)
    return [label for label in labels.names if label in known and (label == node or node in tree.ancestors(label))]


def counts_by_label(labels: RowLabels, most: int) -> dict[str, Any]:
    """How many items have each label, the most frequent labels first; the others are counted together."""
    unlabeled = int(np.count_nonzero(labels.alive & (labels.numbers < 0)))
    listed = [
        {"label": name, "items": count}
        for name, count in zip(labels.names[:most], labels.counts[:most].tolist(), strict=True)
    ]
    others = labels.counts[most:]
    return {
        "labels": listed, "unlabeled": unlabeled, "other_labels": len(others), "in_other_labels": int(others.sum()),
    }  # fmt: skip


def _in_state(labels: RowLabels, state: str) -> np.ndarray:
    if state not in STATES:
        raise unknown_name("state", state, STATES)
    if state == "unlabeled":
        return labels.numbers < 0
    return np.asarray((labels.numbers >= 0) & (labels.confirmed if state == "confirmed" else ~labels.confirmed))


def typical_rows(collection: LiveCollection) -> list[tuple[str, int, list[int]]]:
    """(label, how many items have it, rows of typical ones) of the most frequent labels.

    Typical are the items nearest to the mean of their class, among a few that are spread over it.

    >>> import tempfile
    >>> leaves = LiveCollection.create(tempfile.mkdtemp() + "/leaves", n_columns=1)
    >>> _ = leaves.add(list("abcd"), [[0.0], [1.0], [2.0], [9.0]], labels=["oak", "oak", "oak", "elm"])
    >>> [(label, n, rows[0]) for label, n, rows in typical_rows(leaves)]
    [('oak', 3, 1), ('elm', 1, 3)]
    >>> leaves.close()
    """
    labels = row_labels(collection)
    strip = []
    for place, label in enumerate(labels.names[:CLASSES]):
        rows = np.flatnonzero(labels.alive & (labels.numbers == place))
        some = rows[np.linspace(0, len(rows) - 1, min(COMPARED, len(rows))).astype(int)]
        if not len(some):
            continue
        X = np.asarray(collection.store.vectors(some), np.float64)
        far = ((X - X.mean(axis=0)) ** 2).sum(axis=1)
        strip.append((label, len(rows), some[np.argsort(far, kind="stable")[:TYPICAL]].tolist()))
    return strip


# ------------------------------------------------------------ by name


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
            name = str(known.get("name") or known.get("text") or "")[:NAME_SHOWN]
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
        matching = [place for place, name in enumerate(self.searched) if wanted in name]
        whole = re.compile(rf"(?<![^\W_]){re.escape(wanted)}(?![^\W_])")
        begins = re.compile(rf"(?<![^\W_]){re.escape(wanted)}")

        def rank(place: int) -> tuple[int, str]:
            name = self.searched[place]
            if name.startswith(wanted):
                return 0, name
            return (1 if whole.search(name) else 2 if begins.search(name) else 3), name

        return [{"id": self.ids[place], "name": self.names[place]} for place in sorted(matching, key=rank)[:most]]
