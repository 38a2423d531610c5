"""What a collection answers about one item: plain values that print, travel as JSON, and are written to files."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from nearsay.posterior.evidence import record_in_words

SHOWN = 3


@dataclass(frozen=True)
class NeighborSaid:
    """One neighbor: who it is, what it says, how far it is, and its share of the vote."""

    id: str
    label: str | None
    distance: float
    weight: float


@dataclass(frozen=True)
class Answer:
    """What the neighbors say of one item.

    Attributes
    ----------
    id : str or None
        What the item is called.
    label : str or None
        The most probable label.
    probability : float or None
        Of that label.
    probabilities : dict
        The most probable labels (at most 5), largest first.
    record : dict
        ``{"cases": 44, "right": 41}``: past cases with a probability like this, and how many of them were right.
    node, node_words, node_path, node_probability, node_record :
        The hedged answer: the most specific node that is right as often as was asked for, in words, from the root down
        to it, with its probability and record. None without a taxonomy.
    keywords : list of (word, score)
        Words of the neighbors; the score is their share of the neighbors, nearer ones counting more.
    neighbors : list of NeighborSaid, nearest first
    novelty : float or None
        The share of the collection that is less unusual than this item.
    twin_of : str or None
        The item that it repeats.
    version : int
        The event after which it was asked.

    >>> answer = Answer("17", "chick", 0.93, {"chick": 0.93}, {"cases": 44, "right": 41}, version=8)
    >>> print(answer)
    17 is 'chick' with probability 0.93. Of 44 past cases with a probability like this, 41 were right.
    """

    id: str | None
    label: str | None
    probability: float | None
    probabilities: dict[str, float] = field(default_factory=dict)
    record: dict[str, int] | None = None
    node: str | None = None
    node_words: str | None = None
    node_path: tuple[str, ...] | None = None
    node_probability: float | None = None
    node_record: dict[str, int] | None = None
    keywords: list[tuple[str, float]] = field(default_factory=list)
    neighbors: list[NeighborSaid] = field(default_factory=list)
    novelty: float | None = None
    twin_of: str | None = None
    version: int = 0

    @property
    def text(self) -> str:
        """The answer in a sentence or two."""
        name = "It" if self.id is None else self.id
        if self.label is None:
            said = f"{name}:"
        else:
            said = f"{name} is {self.label!r} with probability {self.probability:.2f}."
        parts = [said, "" if self.record is None else record_in_words(self.record)]
        if self.node is not None and self.node != self.label:
            parts.append(f"Hedged: {self.node_words or self.node} ({self.node_probability:.2f}).")
        if self.keywords:
            parts.append(f"Keywords: {', '.join(word for word, _ in self.keywords)}.")
        if self.twin_of is not None:
            parts.append(f"A twin of {self.twin_of}.")
        return " ".join(part for part in parts if part)

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """Everything, the text too, as values that ``json.dumps`` takes."""
        return {**asdict(self), "text": self.text}
