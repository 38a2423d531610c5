"""Groups of items that lie together: each item goes with the nearest of some typical items. Labels do not matter."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from nearsay.collection.state.collection_state import CollectionState
from nearsay.collection.state.suggest.medoids import ComparedItems, greedy_medoids
from nearsay.core.arrays import row_blocks

MOST_GROUPS = 400
ROWS_AT_ONCE = 4096


class Suggestion:
    """Base of what a collection suggests; it prints as a sentence."""

    def to_dict(self) -> dict[str, Any]:
        """Everything, the text too, as values that ``json.dumps`` takes."""
        return {**asdict(self), "text": str(self)}  # type: ignore[call-overload]


@dataclass(frozen=True)
class ItemGroup(Suggestion):
    """Items that lie together.

    Attributes
    ----------
    ids : all of them, the most typical first.
    labels : how many have each label, the most frequent first.
    n_unlabeled : how many have none that counts.

    >>> print(ItemGroup(["a", "b", "c"], {"owl": 2}, 1))
    3 items around a: 2 owl, 1 without a label.
    """

    ids: list[str]
    labels: dict[str, int]
    n_unlabeled: int

    def __str__(self) -> str:
        counts = [f"{count:,} {label}" for label, count in self.labels.items()]
        counts += [f"{self.n_unlabeled:,} without a label"] if self.n_unlabeled else []
        items = "1 item" if len(self.ids) == 1 else f"{len(self.ids):,} items"
        return f"{items} around {self.ids[0]}: {', '.join(counts)}."


def item_groups(state: CollectionState) -> list[ItemGroup]:
    """All living items in groups, the largest group first."""
    ids, labels = state.voting.ids, state.all_labels
    votes = state.voting.votes & state.voting.has_labels
    groups = []
    for rows in group_rows(state):
        names = Counter(str(labels[row]) for row in rows.tolist() if votes[row])
        ordered = dict(sorted(names.items(), key=lambda pair: (-pair[1], pair[0])))
        groups.append(ItemGroup([str(ids[row]) for row in rows.tolist()], ordered, len(rows) - names.total()))
    return groups


def n_groups(n_items: int) -> int:
    """How many groups so many items make.

    >>> n_groups(1), n_groups(100), n_groups(1_000_000)
    (1, 20, 400)
    """
    return min(n_items, max(1, round(2 * math.sqrt(n_items))), MOST_GROUPS)


def group_rows(state: CollectionState) -> list[np.ndarray]:
    """The row numbers of each group, the most typical first; the largest group first, equal ones by their medoids."""
    items = ComparedItems.of(state)
    if not len(items.rows):
        return []
    sample = items.sample()
    chosen = sample[greedy_medoids(items.between(sample, sample), n_groups(len(items.rows)))]
    group, far = np.empty(len(items.rows), np.int64), np.empty(len(items.rows), np.float32)
    for part in row_blocks(len(items.rows), size=ROWS_AT_ONCE):
        to_medoids = items.between(np.arange(len(items.rows))[part], chosen)
        group[part], far[part] = to_medoids.argmin(axis=1), to_medoids.min(axis=1)
    far[chosen] = -1.0  # a medoid is the most typical of its group, whatever rounding makes of its distance 0
    group[chosen] = np.arange(len(chosen))
    order = np.lexsort((items.rows, far, group))
    parts = np.split(items.rows[order], np.flatnonzero(np.diff(group[order])) + 1)
    return sorted(parts, key=lambda rows: (-len(rows), rows[0]))
