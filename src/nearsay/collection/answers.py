"""An answer of a collection about one item, in plain values: what the page shows and what is exported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from html import escape
from typing import Any, NamedTuple

from nearsay.posterior.evidence.evidence import UNUSUAL, InWords, record_in_words

# Fields whose names are words of Python have another name in JSON.
NAME_IN_JSON = {"set_": "set"}


class SaidBy(NamedTuple):
    """A neighbor: what it says, how far away it is, and how much it counted."""

    id: str
    label: str | None
    distance: float
    weight: float


class Keyword(NamedTuple):
    """A keyword and how sure it is."""

    word: str
    score: float


@dataclass(frozen=True)
class Answer(InWords):
    """What the collection says about one item, and what that rests on.

    Attributes
    ----------
    id : str or None
        The item that was asked about.
    label : str or None
        The most probable class.
    probability : float or None
        Its probability.
    record : dict or None
        ``{"cases": 412, "right": 407, "low": 0.972, "high": 0.995}``: past cases with a probability like this one, how
        many were right, and the range in which the true share lies, nineteen times in twenty.
    probabilities : dict
        The most probable classes (at most 5), largest first.
    set_ : list of str
        The classes still in question, the most probable first. In JSON: ``set``.
    node : str or None
        The hedged answer: the most specific node of the taxonomy that is sure enough.
    node_path : list of str
        From the root down to it.
    node_probability : float or None
    node_word : str or None
        What the taxonomy calls it.
    node_record : dict or None
        As ``record``, of hedged answers.
    hedges : list of dict
        The hedged answer at each of several accuracies, where they were asked for: ``accuracy``, ``node``,
        ``node_word``, ``node_path``, ``node_probability``, ``node_record``.
    tree : list of dict
        With them the part of the taxonomy worth showing, a parent before its children: ``node``, ``word``, ``parent``,
        ``depth``, ``probability``.
    keywords : list of Keyword
        (word, score), the surest first.
    neighbors : list of SaidBy
        (id, label, distance, weight), the nearest first.
    novelty : float or None
        The share of items here that are less unusual.
    twin_of : str or None
        The id of the item that this one repeats.
    version : int or None
        Which version of the collection was asked.
    path : str or None
        The picture, within the folder it was found in.

    >>> answer = Answer("7.png", "owl", 0.62, {"cases": 40, "right": 25}, node="bird", node_path=["anything", "bird"],
    ...                 node_probability=0.98, keywords=[("sky", 0.5)], neighbors=[("3.png", "owl", 0.25, 1.0)])
    >>> print(answer)
    'owl' with probability 0.62.
    Of 40 past cases with a probability like this, 25 were right (47 to 76%).
    Surely 'bird' (0.98).
    Keywords: sky (0.50).
    >>> answer.to_dict()["neighbors"]
    [{'id': '3.png', 'label': 'owl', 'distance': 0.25, 'weight': 1.0}]
    """

    id: str | None
    label: str | None = None
    probability: float | None = None
    record: dict[str, int] | None = None
    set_: list[str] = field(default_factory=list)
    node: str | None = None
    node_path: list[str] = field(default_factory=list)
    node_probability: float | None = None
    keywords: list[Keyword] = field(default_factory=list)
    neighbors: list[SaidBy] = field(default_factory=list)
    novelty: float | None = None
    twin_of: str | None = None
    version: int | None = None
    path: str | None = None
    probabilities: dict[str, float] = field(default_factory=dict)
    node_word: str | None = None
    node_record: dict[str, int] | None = None
    hedges: list[dict[str, Any]] = field(default_factory=list)
    tree: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        assign = object.__setattr__  # the one way past a frozen class
        assign(self, "keywords", [Keyword(*pair) for pair in self.keywords])
        assign(self, "neighbors", [SaidBy(*neighbor) for neighbor in self.neighbors])

    @property
    def text(self) -> str:
        """The answer in a few sentences, one a line."""
        lines = []
        if self.label is not None:
            sure = "" if self.probability is None else f" with probability {self.probability:.2f}"
            lines.append(f"{self.label!r}{sure}.")
        if self.record is not None:
            lines.append(record_in_words(self.record))
        if self.node is not None and self.node != self.label and len(self.node_path) > 1:
            sure = "" if self.node_probability is None else f" ({self.node_probability:.2f})"
            lines.append(f"Surely {self.node_word or self.node!r}{sure}.")
        if self.keywords:
            lines.append(f"Keywords: {', '.join(f'{word} ({score:.2f})' for word, score in self.keywords)}.")
        if self.twin_of is not None:
            lines.append(f"A twin of {self.twin_of!r}.")
        if self.unusual:
            lines.append(f"Unlike what is known here (novelty {self.novelty:.2f}).")
        return "\n".join(lines) or "No answer."

    @property
    def unusual(self) -> bool:
        """Whether hardly anything like it is in the collection."""
        return self.novelty is not None and self.novelty >= UNUSUAL

    @property
    def tree_path(self) -> list[str]:
        """The answer from general to specific, without the root, which says nothing; the label where nothing is hedged.

        >>> Answer("a", "owl", node="bird", node_path=["anything", "bird"]).tree_path, Answer("a", "owl").tree_path
        (['bird'], ['owl'])
        """
        if self.node is not None:
            return self.node_path[1:]
        return [] if self.label is None else [self.label]

    def rows(self) -> list[dict[str, Any]]:
        """A dict for every neighbor, nearest first."""
        answer = {"item": self.id, "answer": self.label, "probability": self.probability}
        return [{**answer, "rank": rank, **said._asdict()} for rank, said in enumerate(self.neighbors, start=1)]

    def to_dict(self) -> dict[str, Any]:
        """Everything, the text too, as values that ``json.dumps`` takes."""
        own = {NAME_IN_JSON.get(each.name, each.name): getattr(self, each.name) for each in fields(self)}
        pairs = {name: [each._asdict() for each in own[name]] for name in ("keywords", "neighbors")}
        return {**own, **pairs, "text": self.text}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Answer:
        """The answer that ``to_dict`` gave."""
        names: dict[str, str] = {each.name: NAME_IN_JSON.get(each.name, each.name) for each in fields(cls)}
        own = {name: state[written] for name, written in names.items() if written in state}
        for name in own.keys() & {"keywords", "neighbors"}:
            own[name] = [tuple(each.values()) for each in own[name]]
        own["probabilities"] = dict(own.get("probabilities") or {})  # Parquet has pairs
        return cls(**own)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(said.id)}</td><td>{escape(str(said.label))}</td><td>{said.distance:.3g}</td>"
            f"<td>{said.weight:.2f}</td></tr>"
            for said in self.neighbors
        )
        head = "<tr><th>neighbor</th><th>says</th><th>distance</th><th>weight</th></tr>"
        text = escape(self.text).replace("\n", "<br>")
        return f"<div><p>{text}</p><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>"
