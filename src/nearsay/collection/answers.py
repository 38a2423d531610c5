"""The answer of a collection about one item, in plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from html import escape
from typing import Any, NamedTuple

from nearsay.describe.texts.shared_words import marked_parts, quote, words_of
from nearsay.posterior.evidence.evidence import UNUSUAL, InWords, answer_first, record_in_words

# Fields whose names are words of Python have another name in JSON.
NAME_IN_JSON = {"set_": "set"}


class NeighborVote(NamedTuple):
    """A neighbor: its label, its distance, the weight of its vote, and its text if it is one."""

    id: str
    label: str | None
    distance: float
    weight: float
    text: str | None = None


class Keyword(NamedTuple):
    """A keyword and its score."""

    word: str
    score: float


# What ``wider`` has of a hedged answer.
HEDGE_SHOWN = ("node", "node_path", "node_probability", "node_word")
# Labels of a prediction set that are named.
SET_SHOWN = 5


def in_words(labels: Sequence[str]) -> str:
    """Labels of which one may be right: "fruit, vegetable or sweet".

    >>> in_words(["owl"]), in_words(["owl", "hawk"]), in_words(list("abcdefg"))
    ('owl', 'owl or hawk', 'a, b, c, d, e or 2 more')
    """
    named = [*labels[:SET_SHOWN], *([f"{len(labels) - SET_SHOWN:,} more"] if len(labels) > SET_SHOWN else [])]
    return f"{', '.join(named[:-1])}{' or ' if len(named) > 1 else ''}{named[-1]}"


@dataclass(frozen=True)
class Answer(InWords):
    """The answer about one item, with its evidence.

    Attributes
    ----------
    id : str or None
        The item.
    label : str or None
        The most probable class.
    probability : float or None
        Its probability.
    record : dict or None
        ``{"cases": 412, "right": 407, "low": 0.972, "high": 0.995}``: past cases with a probability like this one, how
        many were right, and the 95 % confidence interval of their share.
    probabilities : dict
        The most probable classes (at most 5), largest first.
    set_ : list of str
        The prediction set: the fewest classes, the most probable first, that hold the true one as often as asked for.
        In JSON: ``set``.
    set_probability : float or None
        How probable these are together.
    set_nodes : list of str
        The set in two words, where it has more labels and a taxonomy has them: nodes that hold them all.
    node : str or None
        The hedged answer: the most specific node of the taxonomy that is sure enough.
    node_path : list of str
        From the root down to it.
    node_probability : float or None
    node_word : str or None
        Its word in the taxonomy.
    node_record : dict or None
        As ``record``, of hedged answers.
    wider : dict or None
        Where the prediction set has classes outside ``node``: the lowest node of ``node_path`` that holds them, too, as
        ``node``, ``node_path``, ``node_probability`` and ``node_word``. It is right whenever ``node`` is.
    hedges : list of dict
        At each requested accuracy: ``accuracy``, ``set``, ``set_probability``, and with a taxonomy the hedged answer,
        ``set_nodes``, ``node``, ``node_word``, ``node_path``, ``node_probability``, ``node_record``, ``wider``.
    tree : list of dict
        The relevant part of the taxonomy, if hedges are requested, a parent before its children: ``node``, ``word``,
        ``parent``, ``depth``, ``probability``.
    keywords : list of Keyword
        (word, score), the highest first.
    neighbors : list of NeighborVote
        (id, label, distance, weight, text), the nearest first.
    compared : list of str
        Of a table with words or gaps: how each neighbor is like the item ("same plan, income 41,000 against 39,500").
    models : str or None
        What the models in the pool say, in a sentence.
    novelty : float or None
        The share of items here that are less unusual.
    twin_of : str or None
        The id of the item that this one repeats.
    version : int or None
        The version of the collection.
    path : str or None
        The picture, relative to its folder.
    item_text : str or None
        The text, where the item is one.

    >>> answer = Answer("7.png", "owl", 0.62, {"cases": 40, "right": 25}, node="bird", node_path=["anything", "bird"],
    ...                 node_probability=0.98, keywords=[("sky", 0.5)], neighbors=[("3.png", "owl", 0.25, 1.0)])
    >>> print(answer)
    'owl' with probability 0.62.
    Of 40 past cases with a probability like this, 25 were right (47 to 76%).
    Hedged answer: 'bird' (0.98).
    Keywords: sky (0.50).
    >>> answer.to_dict()["neighbors"]
    [{'id': '3.png', 'label': 'owl', 'distance': 0.25, 'weight': 1.0, 'text': None}]
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
    neighbors: list[NeighborVote] = field(default_factory=list)
    novelty: float | None = None
    twin_of: str | None = None
    version: int | None = None
    path: str | None = None
    probabilities: dict[str, float] = field(default_factory=dict)
    node_word: str | None = None
    node_record: dict[str, int] | None = None
    hedges: list[dict[str, Any]] = field(default_factory=list)
    tree: list[dict[str, Any]] = field(default_factory=list)
    compared: list[str] = field(default_factory=list)
    item_text: str | None = None
    models: str | None = None
    set_probability: float | None = None
    set_nodes: list[str] = field(default_factory=list)
    wider: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        assign = object.__setattr__  # the one way past a frozen class
        assign(self, "keywords", [Keyword(*pair) for pair in self.keywords])
        assign(self, "neighbors", [NeighborVote(*neighbor) for neighbor in self.neighbors])

    @property
    def text(self) -> str:
        """The answer in a few sentences, one a line."""
        lines = []
        if self.label is not None:
            sure = "" if self.probability is None else f" with probability {self.probability:.2f}"
            lines.append(f"{self.label!r}{sure}.")
        if self.record is not None:
            lines.append(record_in_words(self.record))
        if len(self.set_) > 1:
            lines.append(f"Not sure: {in_words(self.set_nodes or self.set_)}.")
        hedge = self.hedge_shown
        if hedge["node"] is not None and hedge["node"] != self.label and len(hedge["node_path"]) > 1:
            sure = "" if hedge["node_probability"] is None else f" ({hedge['node_probability']:.2f})"
            lines.append(f"Hedged answer: {hedge['node_word'] or hedge['node']!r}{sure}.")
        if self.neighbors and self.neighbors[0].text is not None:
            near = self.neighbors[0]
            lines.append(f"Nearest: {quote(near.text or '')}, labeled {near.label!r}.")
        if self.keywords:
            lines.append(f"Keywords: {', '.join(f'{word} ({score:.2f})' for word, score in self.keywords)}.")
        if self.compared:
            lines.append(f"The nearest: {self.compared[0]}.")
        if self.twin_of is not None:
            lines.append(f"A twin of {self.twin_of!r}.")
        if self.unusual:
            lines.append(f"Unlike the items of this collection (novelty {self.novelty:.2f}).")
        return "\n".join(lines) or "No answer."

    @property
    def is_sure(self) -> bool:
        """Whether the prediction set is one class."""
        return len(self.set_) == 1

    @property
    def hedge_shown(self) -> dict[str, Any]:
        """The hedged answer beside which the prediction set can stand: ``wider``, or else the node itself.

        >>> wider = {"node": "animal", "node_path": ["anything", "animal"], "node_probability": 1.0, "node_word": None}
        >>> Answer("a", "owl", set_=["owl", "trout"], node="bird", wider=wider).hedge_shown["node"]
        'animal'
        """
        return self.wider or {name: getattr(self, name) for name in HEDGE_SHOWN}

    @property
    def unusual(self) -> bool:
        """Whether it is unlike nearly all items of the collection."""
        return self.novelty is not None and self.novelty >= UNUSUAL

    @property
    def tree_path(self) -> list[str]:
        """The hedged answer from general to specific, without the root; the label where nothing is hedged.

        >>> Answer("a", "owl", node="bird", node_path=["anything", "bird"]).tree_path, Answer("a", "owl").tree_path
        (['bird'], ['owl'])
        """
        if self.node is not None:
            return self.node_path[1:]
        return [] if self.label is None else [self.label]

    def rows(self) -> list[dict[str, Any]]:
        """A dict for every neighbor, nearest first."""
        answer = {"item": self.id, "answer": self.label, "probability": self.probability}
        return [{**answer, "rank": rank, **neighbor._asdict()} for rank, neighbor in enumerate(self.neighbors, start=1)]

    def to_dict(self) -> dict[str, Any]:
        """Everything, the text too, as values that ``json.dumps`` takes."""
        values = {NAME_IN_JSON.get(each.name, each.name): getattr(self, each.name) for each in fields(self)}
        pairs = {name: [each._asdict() for each in values[name]] for name in ("keywords", "neighbors")}
        return {**values, **pairs, "text": self.text}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Answer:
        """The answer that ``to_dict`` gave."""
        names: dict[str, str] = {each.name: NAME_IN_JSON.get(each.name, each.name) for each in fields(cls)}
        values = {name: state[written] for name, written in names.items() if written in state}
        for name in values.keys() & {"keywords", "neighbors"}:
            values[name] = [tuple(each.values()) for each in values[name]]
        values["probabilities"] = dict(values.get("probabilities") or {})  # Parquet has pairs
        return cls(**values)

    def _repr_html_(self) -> str:
        words = words_of(self.item_text or "")
        rows = "".join(
            f"<tr><td>{escape(neighbor.id) if neighbor.text is None else _marked(neighbor.text, words)}</td>"
            f"<td>{escape(str(neighbor.label))}</td><td>{neighbor.distance:.3g}</td>"
            f"<td>{neighbor.weight:.2f}</td></tr>"
            for neighbor in self.neighbors
        )
        head = "<tr><th>neighbor</th><th>label</th><th>distance</th><th>weight</th></tr>"
        quoted = "" if self.item_text is None else f"<q>{escape(self.item_text)}</q><br>"
        text = quoted + answer_first(escape(self.text))
        return f"<div><p>{text}</p><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>"


def _marked(text: str, words: frozenset[str]) -> str:
    """A text in quotes, with these words marked."""
    parts = (f"<mark>{escape(part)}</mark>" if shared else escape(part) for part, shared in marked_parts(text, words))
    return f"<q>{''.join(parts)}</q>"
