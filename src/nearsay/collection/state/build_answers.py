"""From one search to answers: class, record, hedged node, keywords and evidence of every query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nearsay.annotate.scorers.relevance import DECAY
from nearsay.collection.answers import Answer, Keyword, SaidBy
from nearsay.collection.state.collection_state import CollectionState
from nearsay.collection.state.live_items import NO_LABEL
from nearsay.collection.state.tree_excerpt import tree_shown
from nearsay.decision.guarantee import check_share
from nearsay.errors import InputError
from nearsay.posterior.evidence.evidence import Evidence


def answers_of(
    now: CollectionState,
    X: np.ndarray,
    accuracy: float | None,
    n_keywords: int,
    ids: Sequence[str] | None,
    hedges_at: Sequence[float] = (),
) -> list[Answer]:
    """An answer for every query, from one search."""
    if ids is not None and len(ids) != len(X):
        raise InputError(f"Got {len(ids)} ids for {len(X)} items; pass one for each.")
    _check_hedged(now, accuracy)
    found = now.classifier.explain(X)
    words = answer_keywords(now, X, [said.neighbors for said in found]) if n_keywords else [[]] * len(X)
    names = [None] * len(X) if ids is None else list(ids)
    return _spoken(now, names, list(found), found.probabilities, words, accuracy, n_keywords, hedges_at)


def answers_of_rows(
    now: CollectionState, rows: np.ndarray, accuracy: float | None, n_keywords: int, hedges_at: Sequence[float] = ()
) -> list[Answer]:
    """An answer for rows that vote, each by all others."""
    _check_hedged(now, accuracy)
    found: list[Evidence] = []
    p = np.empty((len(rows), len(now.standing.classes)))
    for part, table, p[part] in now.classifier.left_out_proba(rows):
        found += now.classifier.evidence_of(table, p[part])
    neighbors = [said.neighbors for said in found]
    words = votes_of(now, neighbors) if now.words is None or not n_keywords else now.words.of_rows(rows)
    names = [str(now.standing.ids[row]) for row in rows.tolist()]
    return _spoken(now, names, found, p, words, accuracy, n_keywords, hedges_at)


def _check_hedged(now: CollectionState, accuracy: float | None) -> None:
    if accuracy is None:
        return
    if now.hedged is None:
        raise InputError(
            "A hedged answer needs a taxonomy, and this collection has none. Give it one with set_taxonomy"
            " and learn again, or leave accuracy out."
        )
    check_share("accuracy", accuracy, ends=True)


def _spoken(
    now: CollectionState,
    names: Sequence[str | None],
    found: list[Evidence],
    p: np.ndarray,
    words: Sequence[list[Keyword]],
    accuracy: float | None,
    n_keywords: int,
    hedges_at: Sequence[float],
) -> list[Answer]:
    """Answers from what was found of each item, hedged where there is a taxonomy."""
    nodes: list[Any] = [None] * len(found)
    hedges: list[list[dict[str, Any]]] = [[] for _ in found]
    trees: list[list[dict[str, Any]]] = [[] for _ in found]
    if now.hedged is not None:
        asked = now.hedged if accuracy is None else now.hedged.around(now.classifier).set_accuracy(accuracy)
        nodes = list(asked.explain_proba(p, found))
        for each in hedges_at:
            check_share("accuracy", each, ends=True)
            at = now.hedged.around(now.classifier).set_accuracy(each).explain_proba(p)
            for told, node in zip(hedges, at, strict=True):
                told.append({"accuracy": each, **_hedge(node)})
        if hedges_at:
            p_node = now.hedged.nodes_proba(p)
            for line, node in enumerate(nodes):
                trees[line] = tree_shown(asked.taxonomy_, p_node[line], _nodes_said(node, hedges[line]))
    every = zip(names, found, nodes, words, hedges, trees, strict=True)
    return [_answer(now, name, said, node, some[:n_keywords], *told) for name, said, node, some, *told in every]


def _nodes_said(node: Any, hedges: list[dict[str, Any]]) -> list[Any]:
    return list(dict.fromkeys([node.node, *(hedge["node"] for hedge in hedges)]))


def _hedge(node: Any) -> dict[str, Any]:
    return {
        "node": node.node,
        "node_word": node.word,
        "node_path": [step.node for step in node.path],
        "node_probability": node.probability,
        "node_record": node.record,
    }


def _answer(
    now: CollectionState,
    name: str | None,
    said: Evidence,
    node: Any,
    keywords: list[Keyword],
    hedges: list[dict[str, Any]],
    tree: list[dict[str, Any]],
) -> Answer:
    rows, ids = said.neighbors, now.standing.ids
    weights = _shares(len(rows))
    hedge: dict[str, Any] = {"label": None, "probability": None}
    if node is not None:
        hedge |= _hedge(node)
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
        hedges=hedges,
        tree=tree,
        **hedge,
    )


def _shares(n: int) -> np.ndarray:
    """How much each of n neighbors counts, nearest first; together 1."""
    weights: np.ndarray = DECAY ** np.arange(n)
    return weights / weights.sum() if n else weights


def answer_keywords(now: CollectionState, X: np.ndarray, neighbors: Sequence[Sequence[int]]) -> list[list[Keyword]]:
    """The keywords of each item: as was learned, or by a vote of these neighbors where nothing was."""
    return votes_of(now, neighbors) if now.words is None else now.words.of_queries(X)


def votes_of(now: CollectionState, neighbors: Sequence[Sequence[int]]) -> list[list[Keyword]]:
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
