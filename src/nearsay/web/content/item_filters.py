"""Which items are shown: by label, by node of the taxonomy, confirmed or waiting, or doubted by all others.

labels of all rows ──► rows of this label, of this node, confirmed …  ──► row numbers, in order
opinions ───────────► whose label is improbable, or not the answer
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nearsay.collection.live import LiveCollection
from nearsay.errors import InputError
from nearsay.taxonomy.taxonomy import Taxonomy
from nearsay.web.content.label_doubts import Opinions

STATES = ("confirmed", "waiting", "unlabeled")


@dataclass(frozen=True)
class LabelsNow:
    """The label of every row at one moment.

    Attributes
    ----------
    version : the last event that is counted in.
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
class Wanted:
    """What is asked for; what is left out is not asked.

    Attributes
    ----------
    label, node : the label itself; a node of the taxonomy, for all labels under it and the node itself.
    state : "confirmed", "waiting" (it has a label that nobody confirmed) or "unlabeled".
    below : only items whose label is less probable than this, by all others.
    differs : only items whose label is not the answer of all others.
    """

    label: str | None = None
    node: str | None = None
    state: str | None = None
    below: float | None = None
    differs: bool = False

    @property
    def needs_opinions(self) -> bool:
        """Whether all others have to be asked first."""
        return self.below is not None or self.differs


def labels_now(collection: LiveCollection) -> LabelsNow:
    """The labels of all rows, as they are.

    >>> import tempfile
    >>> leaves = LiveCollection.create(tempfile.mkdtemp() + "/leaves", n_columns=1)
    >>> _ = leaves.add(["a", "b", "c"], [[0.0], [0.2], [4.0]], labels=["oak", None, "elm"])
    >>> found = labels_now(leaves)
    >>> found.names, found.numbers
    (['elm', 'oak'], array([ 1, -1,  0]))
    >>> leaves.close()
    """
    version, met, numbers, alive, confirmed = collection.labels_by_row()
    counts = np.bincount(numbers[alive & (numbers >= 0)], minlength=len(met))
    order = sorted(np.flatnonzero(counts).tolist(), key=lambda each: (-counts[each], met[each]))
    place = np.full(len(met) + 1, -1, np.int64)  # the last is that of −1
    place[order] = np.arange(len(order))
    return LabelsNow(version, [met[each] for each in order], place[numbers], counts[order], alive, confirmed)


def rows_wanted(
    labels: LabelsNow, wanted: Wanted, tree: Taxonomy | None = None, opinions: Opinions | None = None
) -> np.ndarray:
    """Numbers of the living rows that are asked for, in order.

    ``opinions`` are needed where ``wanted`` says so; rows that came after them are left out then.
    """
    rows = labels.alive.copy()
    if wanted.label is not None:
        rows &= labels.numbers == labels.number(wanted.label)
    if wanted.node is not None:
        rows &= np.isin(labels.numbers, [labels.number(label) for label in labels_under(labels, wanted.node, tree)])
    if wanted.state is not None:
        rows &= _in_state(labels, wanted.state)
    if wanted.needs_opinions:
        assert opinions is not None
        n = min(len(rows), len(opinions.answer))
        rows[n:] = False
        if wanted.below is not None:
            rows[:n] &= opinions.own[:n] < wanted.below
        if wanted.differs:
            answers = np.array([labels.number(str(label)) for label in opinions.classes.tolist()], np.int64)
            asked = (labels.numbers[:n] >= 0) & (opinions.answer[:n] >= 0)
            rows[:n] &= asked & (answers[opinions.answer[:n]] != labels.numbers[:n])
    return np.flatnonzero(rows)


def labels_under(labels: LabelsNow, node: str, tree: Taxonomy | None) -> list[str]:
    """The labels of items that are a node of the taxonomy or under it."""
    if tree is None:
        raise InputError("This collection has no taxonomy, so its items cannot be chosen by a node. Choose a label.")
    if node not in tree.nodes:
        raise InputError(f"{node!r} is not in the taxonomy of this collection.")
    known = set(tree.nodes)
    return [label for label in labels.names if label in known and (label == node or node in tree.ancestors(label))]


def counts_by_label(labels: LabelsNow, most: int) -> dict[str, Any]:
    """How many items have each label, the most frequent labels first; what is not listed is counted."""
    unlabeled = int(np.count_nonzero(labels.alive & (labels.numbers < 0)))
    listed = [
        {"label": name, "items": count}
        for name, count in zip(labels.names[:most], labels.counts[:most].tolist(), strict=True)
    ]
    others = labels.counts[most:]
    return {
        "labels": listed, "unlabeled": unlabeled, "other_labels": len(others), "in_other_labels": int(others.sum()),
    }  # fmt: skip


def _in_state(labels: LabelsNow, state: str) -> np.ndarray:
    if state not in STATES:
        raise InputError(f"Unknown state {state[:40]!r}: {', '.join(STATES)}.")
    if state == "unlabeled":
        return labels.numbers < 0
    return np.asarray((labels.numbers >= 0) & (labels.confirmed if state == "confirmed" else ~labels.confirmed))
