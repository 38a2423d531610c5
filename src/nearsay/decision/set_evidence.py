"""Evidence for a prediction set: each member with its probability, the promise, and the neighbors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nearsay.posterior.evidence.evidence import InWords, text_and_table
from nearsay.taxonomy.taxonomy import Taxonomy

MEMBERS_SHOWN = 5


@dataclass(frozen=True)
class SetEvidence(InWords):
    """A prediction set and what it rests on, in plain Python values.

    labels : the set, the most probable first, as ``predict_set_labels`` gives it.
    probabilities : the probability of each of them.
    n_classes : how many classes there are to hold.
    coverage : how often sets were asked to hold the true class; of each class by itself where ``per_class`` is True.
    n_calibration : how many rows the promise was read from.
    left_out : ``{label: probability}`` of the most probable class that is not in the set; empty where all are.
    evidence : that of the estimator (``Evidence``: neighbors, distances …), or None.
    words : list of str, or None, what the nodes of a taxonomy are called, where ``labels`` are nodes.
    n_inside : how many classes these nodes hold; None where ``labels`` are classes.

    >>> print(SetEvidence(["corgi", "pug"], [0.62, 0.3], 5, 0.9, False, 400, {"cat": 0.05}, None))
    One of 'corgi' (0.62), 'pug' (0.30), 2 of 5 classes; not 'cat' (0.05).
    Sets hold the true class in at least 90% of cases, by the record of 400 rows.
    """

    labels: list[Any]
    probabilities: list[float]
    n_classes: int
    coverage: float
    per_class: bool
    n_calibration: int
    left_out: dict[Any, float]
    evidence: Any
    words: list[str] | None = None
    n_inside: int | None = None

    @property
    def text(self) -> str:
        """The evidence in a few sentences, one a line."""
        more = [] if self.evidence is None else str(self.evidence).splitlines()[1:]  # the first is its one answer
        return "\n".join([self._set_in_words(), self._promise_in_words(), *more])

    def _set_in_words(self) -> str:
        pairs = list(zip(self.labels, self.probabilities, strict=True))
        named = ", ".join(_with_probability(*pair) for pair in pairs[:MEMBERS_SHOWN])
        more = f", … {len(pairs) - MEMBERS_SHOWN} more" if len(pairs) > MEMBERS_SHOWN else ""
        first = "".join(_with_probability(*pair) for pair in self.left_out.items())
        if self.words is not None:
            nodes = ", or ".join(f"{word} ({p:.2f})" for word, p in zip(self.words, self.probabilities, strict=True))
            rest = f"; not {first}" if self.left_out else ""
            return f"{nodes}: {self.n_inside} of {self.n_classes} classes{rest}."
        if not pairs:
            return f"None of {self.n_classes} classes fits well enough; the best is {first}."
        if not self.left_out:
            return f"Any of {self.n_classes} classes: {named}{more}."
        if len(pairs) == 1:
            return f"{named} alone; not {first}."
        return f"One of {named}{more}, {len(pairs)} of {self.n_classes} classes; not {first}."

    def _promise_in_words(self) -> str:
        whose = " of each class" if self.per_class else ""
        share = f"{100 * self.coverage:g}% of cases{whose}"
        return f"Sets hold the true class in at least {share}, by the record of {self.n_calibration:,} rows."

    def _repr_html_(self) -> str:
        rows = [(str(label), f"{p:.3f}") for label, p in zip(self.labels, self.probabilities, strict=True)]
        text = f"{self._set_in_words()}\n{self._promise_in_words()}"
        return text_and_table(text, ("class", "probability"), rows, self.evidence)


def set_evidence(
    sets: np.ndarray,
    probabilities: np.ndarray,
    classes: np.ndarray,
    evidence: Sequence[Any] | None,
    *,
    coverage: float,
    per_class: bool,
    n_calibration: int,
) -> list[SetEvidence]:
    """One plain object for each of some queries, from arrays.

    sets, probabilities : (n_queries, n_classes), columns as ``classes``.
    evidence : for each query that of the estimator; None where it explains nothing.
    """
    names = classes.tolist()
    order = np.argsort(-probabilities, axis=1, kind="stable")
    listed = []
    for i, by_rank in enumerate(order.tolist()):
        members = [c for c in by_rank if sets[i, c]]
        others = [c for c in by_rank if not sets[i, c]]
        listed.append(
            SetEvidence(
                labels=[names[c] for c in members],
                probabilities=[float(probabilities[i, c]) for c in members],
                n_classes=len(names),
                coverage=float(coverage),
                per_class=per_class,
                n_calibration=n_calibration,
                left_out={names[c]: float(probabilities[i, c]) for c in others[:1]},
                evidence=None if evidence is None else evidence[i],
            )
        )
    return listed


def node_set_evidence(
    items: Sequence[SetEvidence], nodes: np.ndarray, p: np.ndarray, taxonomy: Taxonomy
) -> list[SetEvidence]:
    """The evidence of sets of classes, told by the nodes that hold them.

    nodes, p : (n_queries, max_nodes), the most probable node first; −1 where a set has fewer.
    """
    words, listed = taxonomy.node_words, []
    for item, row, of_row in zip(items, nodes.tolist(), p.tolist(), strict=True):
        names = [taxonomy.nodes[node] for node in row if node >= 0]
        shares = [float(share) for node, share in zip(row, of_row, strict=True) if node >= 0]
        in_words = [words[name] for name in names]
        listed.append(replace(item, labels=names, probabilities=shares, words=in_words, n_inside=len(item.labels)))
    return listed


def _with_probability(label: Any, p: float) -> str:
    return f"{label!r} ({p:.2f})"
