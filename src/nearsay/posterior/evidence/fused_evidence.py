"""Evidence for an answer from several feature groups: the votes of each, and how much it weighed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.evidence.evidence import (
    InWords,
    in_words,
    most_probable,
    names_of,
    neighbor_rows,
    record_in_words,
    text_and_table,
    votes_of,
)
from nearsay.posterior.evidence.records import record_of
from nearsay.posterior.views.feature_group import View


@dataclass(frozen=True)
class GroupEvidence:
    """The votes of one feature group, and how much it weighed.

    Attributes
    ----------
    group, metric : names.
    neighbors, distances, labels, votes : as in ``Evidence``; empty where the query lacks the group.
    factor : float
        How many times as likely this group alone makes the answer as the runner-up; below 1 it counts against it.
    ids : list or None
        The names of these neighbors, where ``fit`` was given names.
    """

    group: str
    metric: str
    neighbors: list[int]
    distances: list[float]
    labels: list[Any]
    votes: dict[Any, int]
    factor: float
    ids: list[Any] | None = None


@dataclass(frozen=True)
class FusedEvidence(InWords):
    """An answer from several feature groups, in plain Python values.

    Attributes
    ----------
    label, probability, probabilities : as in ``Evidence``.
    runner_up : the second most probable label; None with one class.
    groups : list of GroupEvidence
    record : dict
        ``{"cases": 412, "right": 407}``: how many past cases had a probability like this one, and how many of them were
        right.
    """

    label: Any
    probability: float
    probabilities: dict[Any, float]
    runner_up: Any
    groups: list[GroupEvidence]
    record: dict[str, Any]

    @property
    def text(self) -> str:
        """The evidence in a few sentences: the answer, then a line for each group."""
        lines = [f"{self.label!r} with probability {self.probability:.2f}."]
        lines += [f"{group.group} ({group.metric}): {self._in_words(group)}" for group in self.groups]
        return "\n".join([*lines, record_in_words(self.record)])

    def _in_words(self, group: GroupEvidence) -> str:
        if not group.neighbors:
            return "missing, so it has no say."
        words = in_words(self.label, group.votes, group.labels, group.distances)
        if self.runner_up is not None:
            words += f" {_times(group.factor)} as likely as {self.runner_up!r}."
        return words

    def rows(self) -> list[dict[str, Any]]:
        """A dict for every neighbor in every group."""
        answer = {"label": self.label, "probability": self.probability}
        return [
            {**answer, "group": group.group, "metric": group.metric, **neighbor}
            for group in self.groups
            for neighbor in neighbor_rows(group.neighbors, group.ids, group.labels, group.distances)
        ]

    def _repr_html_(self) -> str:
        rows = [
            (
                group.group,
                group.metric,
                ", ".join(f"{label}: {count}" for label, count in group.votes.items()) or "missing",
                _times(group.factor),
                ", ".join(map(str, group.ids or group.neighbors)),
            )
            for group in self.groups
        ]
        return text_and_table(self.text, ("group", "distance", "votes", "against the runner-up", "rows"), rows)


def fused_evidence(
    log_odds: Callable[[np.ndarray, np.ndarray], np.ndarray],
    views: Sequence[View],
    tables: Sequence[NeighborTable],
    p: np.ndarray,
    best: np.ndarray,
    labels: np.ndarray,
    classes: np.ndarray,
    record: tuple[np.ndarray, np.ndarray],
    ids: np.ndarray | None = None,
) -> list[FusedEvidence]:
    """One plain object for each of some queries, from arrays; arguments as in ``evidence``.

    ``log_odds(these, others)`` says how much each group raises the log odds of one class against another.
    """
    names = classes.tolist()
    others = p.copy()
    others[np.arange(len(p)), best] = -np.inf
    runner_up = others.argmax(axis=1)
    factors = np.exp(np.clip(log_odds(best, runner_up), -700, 700))
    items = []
    for i, winner in enumerate(best):
        groups = []
        for s, (view, table) in enumerate(zip(views, tables, strict=True)):
            present = table.indices[i] >= 0
            rows = table.indices[i, present]
            named = [names[c] for c in labels[rows]]
            groups.append(
                GroupEvidence(
                    group=view.group,
                    metric=view.distance.name,
                    neighbors=rows.tolist(),
                    distances=table.distances[i, present].tolist(),
                    labels=named,
                    votes=votes_of(named),
                    factor=float(factors[i, s]),
                    ids=names_of(rows, ids),
                )
            )
        items.append(
            FusedEvidence(
                label=names[winner],
                probability=float(p[i, winner]),
                probabilities=most_probable(p[i], winner, names),
                runner_up=names[runner_up[i]] if len(names) > 1 else None,
                groups=groups,
                record=record_of(record[0][i], record[1][i]),
            )
        )
    return items


def _times(factor: float) -> str:
    """A factor in words that fit a sentence.

    >>> _times(161.7), _times(0.25), _times(1.0), _times(3e7)
    ('162 times', '0.25 times', 'As', 'More than 10,000 times')
    """
    if 0.995 < factor < 1.005:
        return "As"
    if factor > 1e4:
        return "More than 10,000 times"
    return f"{factor:.0f} times" if factor >= 10 else f"{factor:.2g} times"
