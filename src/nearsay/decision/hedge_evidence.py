"""Evidence for a hedged answer: the path down the tree, the record of such answers, and the neighbors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.posterior.evidence.evidence import InWords, record_in_words, text_and_table
from nearsay.taxonomy.taxonomy import Taxonomy

LABELS_SHOWN = 3


@dataclass(frozen=True)
class PathStep:
    """A node on the path down to the answer.

    Attributes
    ----------
    node, word : its name, and what it is called.
    probability : float
    information : float
        Bits that it says; 0 for the root.
    """

    node: Any
    word: str
    probability: float
    information: float


@dataclass(frozen=True)
class HedgeEvidence(InWords):
    """A hedged answer and what it rests on, in plain Python values.

    node, word : the answer, as ``predict`` gives it, and what it is called.
    probability : the probability of the answer: of all classes at or below it.
    path : from the root down to the answer, first parents where a node has several.
    most_probable : PathStep, the most probable leaf.
    record : ``{"cases": 100, "right": 96}``: how many past cases were answered at a probability like this, and how many
        of these answers were right. None for the root, which says nothing.
    accuracy, confidence : what was asked for.
    votes : {word: count} or None, what the neighbors say, most votes first, as the tree calls it.
    n_agree : how many neighbors say the answer, or something below it.
    evidence : the evidence of the estimator (``Evidence``: neighbors, distances …), or None.
    within : what the node is called whose classes alone were considered; None: all.

    >>> step = PathStep("dog", "dog", 0.97, 0.6)
    >>> corgi = PathStep("corgi", "corgi", 0.5, 1.6)
    >>> print(HedgeEvidence("dog", "dog", 0.97, [PathStep("pet", "pet", 1.0, 0.0), step], corgi,
    ...                     {"cases": 100, "right": 96}, 0.95, None, {"corgi": 8, "pug": 7}, 15, None))
    dog with probability 0.97 (pet 1.00 › dog 0.97); the most probable class is corgi (0.50).
    Of 100 past cases answered at a probability like this, 96 were right (90 to 98%).
    All 15 neighbors say so: 8 corgi, 7 pug.
    Calibrated to be right in 95% of answers.
    """

    node: Any
    word: str
    probability: float
    path: list[PathStep]
    most_probable: PathStep
    record: dict[str, Any] | None
    accuracy: float
    confidence: float | None
    votes: dict[str, int] | None
    n_agree: int | None
    evidence: Any
    within: str | None = None

    @property
    def text(self) -> str:
        """The evidence in a few sentences, one a line."""
        path = " › ".join(f"{step.word} {step.probability:.2f}" for step in self.path)
        answer = f"{self.word} with probability {self.probability:.2f} ({path})"
        if self.most_probable.node != self.node:
            sure = self.most_probable
            answer += f"; the most probable class is {sure.word} ({sure.probability:.2f})"
        lines = [f"{answer}.", self._record_in_words(), self._votes_in_words(), self._promise_in_words()]
        return "\n".join(line for line in lines if line)

    def _record_in_words(self) -> str:
        if self.record is None:
            return "It says nothing, so it is always right." if len(self.path) == 1 else ""
        return record_in_words(self.record, hedged=True)

    def _votes_in_words(self) -> str:
        if not self.votes:
            return ""
        total = sum(self.votes.values())
        who = f"All {total}" if self.n_agree == total else f"{self.n_agree or 'None'} of {total}"
        shown = [f"{count} {word}" for word, count in list(self.votes.items())[:LABELS_SHOWN]]
        others = total - sum(list(self.votes.values())[:LABELS_SHOWN])
        listed = ", ".join([*shown, *([f"{others} something else"] if others else [])])
        return f"{who} neighbor{'s' * (total != 1)} say{'s' * (self.n_agree == 1)} so: {listed}."

    def _promise_in_words(self) -> str:
        if self.within is not None:
            return f"Only classes of {self.within} were considered; no record is of such answers."
        sure = "" if self.confidence is None else f", with confidence {self.confidence:g}"
        return f"Calibrated to be right in {100 * self.accuracy:g}% of answers{sure}."

    def _repr_html_(self) -> str:
        rows = [(step.word, f"{step.probability:.3f}", f"{step.information:.2f}") for step in self.path]
        return text_and_table(self.text, ("node", "probability", "bits"), rows, self.evidence)


def hedge_evidence(
    nodes: np.ndarray,
    p_node: np.ndarray,
    taxonomy: Taxonomy,
    accuracy: float,
    confidence: float | None,
    records: Sequence[dict[str, Any] | None] | None,
    evidence: Sequence[Any] | None,
    within: Any = None,
) -> list[HedgeEvidence]:
    """One plain object for each of some queries, from arrays.

    nodes : (n_queries,) node numbers of the answers.
    p_node : (n_queries, n_nodes)
    records, evidence : for each query its record, and the evidence of the estimator; None where there is none.
    within : the name of the node whose classes alone were considered, or None.
    """
    leaders = p_node[:, : taxonomy.n_leaves].argmax(axis=1)
    listed = []
    for i, (node, leader) in enumerate(zip(nodes.tolist(), leaders.tolist(), strict=True)):
        path = taxonomy.check_labels(taxonomy.path(taxonomy.nodes[node])).tolist()
        of_estimator = None if evidence is None else evidence[i]
        votes = getattr(of_estimator, "votes", None)
        listed.append(
            HedgeEvidence(
                node=taxonomy.nodes[node],
                word=taxonomy.node_words[taxonomy.nodes[node]],
                probability=float(p_node[i, node]),
                path=[_step(step, p_node[i], taxonomy) for step in path],
                most_probable=_step(leader, p_node[i], taxonomy),
                record=None if records is None else records[i],
                accuracy=float(accuracy),
                confidence=confidence,
                votes=None if votes is None else {taxonomy.node_words[label]: n for label, n in votes.items()},
                n_agree=None if votes is None else _n_agree(votes, node, taxonomy),
                evidence=of_estimator,
                within=None if within is None else taxonomy.node_words[within],
            )
        )
    return listed


def _step(node: int, p_node: np.ndarray, taxonomy: Taxonomy) -> PathStep:
    name = taxonomy.nodes[node]
    return PathStep(name, taxonomy.node_words[name], float(p_node[node]), float(taxonomy.information[node]))


def _n_agree(votes: dict[Any, int], node: int, taxonomy: Taxonomy) -> int:
    """How many votes are for the node or something below it."""
    agrees = taxonomy.covers_label(node, taxonomy.check_labels(list(votes)))
    return int(agrees @ np.fromiter(votes.values(), np.int64, len(votes)))
