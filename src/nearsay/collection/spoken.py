"""From one search to answers: class, record, hedged node, keywords and evidence of every query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nearsay.annotate.relevance import DECAY
from nearsay.collection.answers import Answer, Keyword, SaidBy
from nearsay.collection.live_items import NO_LABEL
from nearsay.collection.now import Now
from nearsay.decision.guarantee import check_share
from nearsay.errors import InputError
from nearsay.posterior.evidence import Evidence


def answers_of(
    now: Now, X: np.ndarray, accuracy: float | None, n_keywords: int, ids: Sequence[str] | None
) -> list[Answer]:
    """An answer for every query, from one search."""
    if ids is not None and len(ids) != len(X):
        raise InputError(f"Got {len(ids)} ids for {len(X)} items; pass one for each.")
    hedged = now.hedged
    nodes: list[Any] = [None] * len(X)
    if hedged is None:
        if accuracy is not None:
            raise InputError(
                "A hedged answer needs a taxonomy, and this collection has none. Give it one with set_taxonomy"
                " and learn again, or leave accuracy out."
            )
        found = list(now.classifier.explain(X))
    else:
        if accuracy is not None:
            check_share("accuracy", accuracy, ends=True)
            hedged = hedged.around(now.classifier).set_accuracy(accuracy)
        nodes = list(hedged.explain(X))
        found = [node.evidence for node in nodes]
    names = [None] * len(X) if ids is None else ids
    words = keywords_said(now, X, [said.neighbors for said in found]) if n_keywords else [[]] * len(X)
    every = zip(names, found, nodes, words, strict=True)
    return [_answer(now, name, said, node, some[:n_keywords]) for name, said, node, some in every]


def _answer(now: Now, name: str | None, said: Evidence, node: Any, keywords: list[Keyword]) -> Answer:
    rows, ids = said.neighbors, now.standing.ids
    weights = _shares(len(rows))
    hedge: dict[str, Any] = {"label": None, "probability": None}
    if node is not None:
        hedge |= {
            "node": node.node,
            "node_word": node.word,
            "node_path": [step.node for step in node.path],
            "node_probability": node.probability,
            "node_record": node.record,
        }
    if said.label != NO_LABEL:
        told = {name: getattr(said, name) for name in ("probability", "probabilities", "record")}
        hedge.update(told, label=str(said.label))
    return Answer(
        id=name,
        keywords=keywords,
        neighbors=[
            SaidBy(ids[row], str(label) or None, distance, float(weight))
            for row, label, distance, weight in zip(rows, said.labels, said.distances, weights, strict=True)
        ],
        novelty=said.novelty,
        twin_of=None if said.twin is None else ids[said.twin],
        version=now.version,
        **hedge,
    )


def _shares(n: int) -> np.ndarray:
    """How much each of n neighbors counts, nearest first; together 1."""
    weights: np.ndarray = DECAY ** np.arange(n)
    return weights / weights.sum() if n else weights


def keywords_said(now: Now, X: np.ndarray, neighbors: Sequence[Sequence[int]]) -> list[list[Keyword]]:
    """The keywords of each item: as was learned, or by a vote of these neighbors where nothing was."""
    return votes_of(now, neighbors) if now.words is None else now.words.of_queries(X)


def votes_of(now: Now, neighbors: Sequence[Sequence[int]]) -> list[list[Keyword]]:
    """The keywords of each item by the row numbers of its neighbors, nearest first."""
    return [keywords_of([now.keywords[row] for row in rows], _shares(len(rows))) for rows in neighbors]


def keywords_of(words: Sequence[Sequence[str] | None], weights: np.ndarray) -> list[Keyword]:
    """The words of the neighbors and their shares of them, largest first; equal ones by the nearest that has them.

    >>> keywords_of([["bird", "small"], ["bird"], None], np.array([0.5, 0.3, 0.2]))
    [Keyword(word='bird', score=0.8), Keyword(word='small', score=0.5)]
    """
    total: dict[str, float] = {}
    for some, weight in zip(words, weights.tolist(), strict=True):
        for word in some or ():
            total[word] = total.get(word, 0.0) + weight
    return [Keyword(*pair) for pair in sorted(total.items(), key=lambda each: -each[1])]
