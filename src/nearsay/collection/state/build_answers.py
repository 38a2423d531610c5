"""Build answers from one search: class, record, hedged node, keywords and evidence of every query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from nearsay.annotate.scorers.relevance import DECAY
from nearsay.collection.answers import HEDGE_SHOWN, Answer, Keyword, NeighborVote
from nearsay.collection.state.collection_state import CollectionState
from nearsay.collection.state.live_items import NO_LABEL
from nearsay.core.arrays import row_blocks
from nearsay.decision.guarantee import check_share
from nearsay.decision.hedge_evidence import HedgeEvidence, PathStep
from nearsay.decision.sets.node_sets import covering_nodes
from nearsay.errors import InputError
from nearsay.posterior.evidence.evidence import Evidence, most_probable
from nearsay.posterior.evidence.model_answers import models_in_words
from nearsay.taxonomy.taxonomy import Taxonomy

# The required accuracy of hedged answers and prediction sets, where none is named.
ACCURACY = 0.9
# "A dog or a wolf": a set of more labels is given in so many nodes of the taxonomy.
WORDS_OF_SET = 2
# Nodes of a tree that are shown besides the answers, and their least probability.
NODES_SHOWN, LEAST_SHOWN = 14, 0.02
PATHS_AT_ONCE = 256


def answers_of(
    state: CollectionState,
    X: np.ndarray,
    accuracy: float | None,
    n_keywords: int,
    ids: Sequence[str] | None,
    hedges_at: Sequence[float] = (),
    within: Any = None,
) -> list[Answer]:
    """An answer for every query, from one search; ``within`` names a node whose classes alone are considered."""
    if ids is not None and len(ids) != len(X):
        raise InputError(f"Got {len(ids)} ids for {len(X)} items; pass one for each.")
    check_share("accuracy", ACCURACY if accuracy is None else accuracy, ends=True)
    evidence = state.classifier.explain(X)
    p, listed = evidence.probabilities, list(evidence)
    if within is not None:
        p, listed = _restricted(state, p, listed, within)
    words = answer_keywords(state, X, [each.neighbors for each in evidence]) if n_keywords else [[]] * len(X)
    names = [None] * len(X) if ids is None else list(ids)
    return _build_answers(state, names, listed, p, words, accuracy, n_keywords, hedges_at, within)


def _restricted(
    state: CollectionState, p: np.ndarray, evidence: list[Evidence], within: Any
) -> tuple[np.ndarray, list[Evidence]]:
    """Probabilities of the classes below a node alone, and evidence that names the most probable of these.

    No record is of such answers.
    """
    if state.hedged is None:
        raise InputError(
            "Answers within a node need a taxonomy, and this collection has none. Give it one with set_taxonomy"
            " and learn again, or leave within out."
        )
    shares = state.hedged.around(state.classifier).restricted(p, within)
    names = state.classifier.classes_.tolist()
    best = shares.argmax(axis=1)
    restricted = [
        replace(
            each,
            label=names[winner],
            probability=float(of_row[winner]),
            probabilities={name: share for name, share in most_probable(of_row, winner, names).items() if share > 0},
            record=None,
        )
        for each, of_row, winner in zip(evidence, shares, best.tolist(), strict=True)
    ]
    return shares, restricted


def answers_of_rows(
    state: CollectionState, rows: np.ndarray, accuracy: float | None, n_keywords: int, hedges_at: Sequence[float] = ()
) -> list[Answer]:
    """An answer for rows that vote, each by all others."""
    check_share("accuracy", ACCURACY if accuracy is None else accuracy, ends=True)
    evidence: list[Evidence] = []
    p = np.empty((len(rows), len(state.voting.classes)))
    for part, table, p[part] in state.classifier.left_out_proba(rows):
        evidence += state.classifier.evidence_of(table, p[part])
    neighbors = [each.neighbors for each in evidence]
    words = votes_of(state, neighbors) if state.words is None or not n_keywords else state.words.of_rows(rows)
    names = [str(state.voting.ids[row]) for row in rows.tolist()]
    return _build_answers(state, names, evidence, p, words, accuracy, n_keywords, hedges_at)


def _build_answers(
    state: CollectionState,
    names: Sequence[str | None],
    evidence: list[Evidence],
    p: np.ndarray,
    words: Sequence[list[Keyword]],
    accuracy: float | None,
    n_keywords: int,
    hedges_at: Sequence[float],
    within: Any = None,
) -> list[Answer]:
    """Answers from the evidence of each item, hedged where there is a taxonomy."""
    shown: list[dict[str, Any]] = [{} for _ in evidence]
    least = ACCURACY if accuracy is None else accuracy
    sets = [prediction_set(state, each, least) for each in p]
    hedges: list[list[dict[str, Any]]] = [
        [{"accuracy": at, **prediction_set(state, each, at)} for at in hedges_at] for each in p
    ]
    trees: list[list[dict[str, Any]]] = [[] for _ in evidence]
    if state.hedged is not None:
        hedged = state.hedged if accuracy is None else state.hedged.around(state.classifier).set_accuracy(accuracy)
        nodes, tree = list(hedged.explain_proba(p, evidence, within)), hedged.taxonomy_
        shown = _hedges(nodes, sets, tree)
        for place, each in enumerate(hedges_at):
            check_share("accuracy", each, ends=True)
            at = state.hedged.around(state.classifier).set_accuracy(each).explain_proba(p, None, within)
            for listed, hedge in zip(hedges, _hedges(at, [each[place] for each in hedges], tree), strict=True):
                listed[place] |= hedge
        if hedges_at:
            p_node = state.hedged.nodes_proba(p)
            for line, node in enumerate(nodes):
                named = [node.node, *(hedge["node"] for hedge in hedges[line])]
                trees[line] = tree_shown(tree, p_node[line], named)
    every = zip(names, evidence, shown, words, sets, hedges, trees, strict=True)
    return [_answer(state, name, item, hedge, some[:n_keywords], *listed) for name, item, hedge, some, *listed in every]


def prediction_set(state: CollectionState, p: np.ndarray, accuracy: float) -> dict[str, Any]:
    """The labels that hold the true one as often as asked for, two words for them, and how probable they are."""
    chosen = state.learned.prediction_set(p, accuracy)
    labels = [str(label) for label in state.voting.classes[chosen].tolist() if label != NO_LABEL]
    share = min(float(p[chosen].sum()), 1.0) if labels else None
    return {"set": labels, "set_probability": share, "set_nodes": _in_nodes(state, labels)}


def _in_nodes(state: CollectionState, labels: list[str]) -> list[str]:
    """The words of two nodes that hold these labels; nothing where that is no shorter, or one node holds them."""
    if state.hedged is None or len(labels) <= WORDS_OF_SET:
        return []
    tree = state.hedged.taxonomy_
    nodes = covering_nodes(labels, tree, WORDS_OF_SET)
    return [tree.node_words[node] for node in nodes] if len(nodes) == WORDS_OF_SET else []


def _hedges(nodes: Sequence[HedgeEvidence], sets: Sequence[dict[str, Any]], taxonomy: Taxonomy) -> list[dict[str, Any]]:
    """The hedged answers, and ``wider``: what can be shown beside their prediction sets."""
    paths = [[step.node for step in node.path] for node in nodes]
    n_steps = _steps_that_hold(paths, [each["set"] for each in sets], taxonomy)
    hedges = []
    for node, n in zip(nodes, n_steps.tolist(), strict=True):
        wider = None if n == len(node.path) else _steps(node.path[:n])
        hedges.append({**_steps(node.path), "node_record": node.record, "wider": wider})
    return hedges


def _steps(path: Sequence[PathStep]) -> dict[str, Any]:
    last = path[-1]
    shown = (last.node, [step.node for step in path], last.probability, last.word)
    return dict(zip(HEDGE_SHOWN, shown, strict=True))


def _steps_that_hold(paths: Sequence[Sequence[Any]], sets: Sequence[Sequence[str]], taxonomy: Taxonomy) -> np.ndarray:
    """How many steps of each path from the root are, or are above, every label of its set.

    >>> pets = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}}})
    >>> _steps_that_hold([["pet", "dog", "corgi"]] * 3, [["corgi"], ["corgi", "poodle"], ["cat"]], pets)
    array([3, 2, 1])
    """
    lengths = np.array([len(path) for path in paths], np.int64)
    for part in row_blocks(len(paths), size=PATHS_AT_ONCE):
        on_path = np.arange(lengths[part].max()) < lengths[part][:, None]
        steps = np.zeros(on_path.shape, np.int64)
        steps[on_path] = taxonomy.check_labels([step for path in paths[part] for step in path])
        labels = taxonomy.check_labels([label for labels in sets[part] for label in labels])
        sizes = np.array([len(labels) for labels in sets[part]])
        ends = np.concatenate([[0], sizes.cumsum()])
        in_set = csr_array((np.ones(len(labels)), labels, ends), shape=(len(steps), taxonomy.n_nodes))
        n_held = (in_set @ taxonomy.ancestry).toarray()  # of each node, how many labels of the set are at or below it
        holds_all = np.take_along_axis(n_held, steps, axis=1) == sizes[:, None]
        lengths[part] = (holds_all & on_path).sum(axis=1)  # what is above a step that holds them holds them, too
    return lengths


def _answer(
    state: CollectionState,
    name: str | None,
    evidence: Evidence,
    hedged: dict[str, Any],
    keywords: list[Keyword],
    set_: dict[str, Any],
    hedges: list[dict[str, Any]],
    tree: list[dict[str, Any]],
) -> Answer:
    rows, ids = evidence.neighbors, state.voting.ids
    weights = _shares(len(rows))
    hedge: dict[str, Any] = {"label": None, "probability": None, **hedged}
    if evidence.label != NO_LABEL:
        known = {name: getattr(evidence, name) for name in ("probability", "probabilities", "record")}
        hedge.update(known, label=str(evidence.label), set_=set_["set"])
        hedge |= {name: set_[name] for name in ("set_probability", "set_nodes")}
    return Answer(
        id=name,
        keywords=keywords,
        neighbors=[
            NeighborVote(ids[row], str(label) or None, distance, float(weight), state.text_of(row))
            for row, label, distance, weight in zip(rows, evidence.labels, evidence.distances, weights, strict=True)
        ],
        models=models_in_words(evidence.models) if evidence.models else None,
        novelty=evidence.novelty,
        twin_of=None if evidence.twin is None else ids[evidence.twin],
        version=state.version,
        hedges=hedges,
        tree=tree,
        **hedge,
    )


def _shares(n: int) -> np.ndarray:
    """The weights of n neighbors, nearest first; they sum to 1."""
    weights: np.ndarray = DECAY ** np.arange(n)
    return weights / weights.sum() if n else weights


def answer_keywords(state: CollectionState, X: np.ndarray, neighbors: Sequence[Sequence[int]]) -> list[list[Keyword]]:
    """The keywords of each item: as learned, or else by a vote of these neighbors."""
    return votes_of(state, neighbors) if state.words is None else state.words.of_queries(X)


def votes_of(state: CollectionState, neighbors: Sequence[Sequence[int]]) -> list[list[Keyword]]:
    """The keywords of each item by the row numbers of its neighbors, nearest first."""
    return [keywords_of([state.keywords[row] for row in rows], _shares(len(rows))) for rows in neighbors]


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


def tree_shown(taxonomy: Taxonomy, p_node: np.ndarray, answers: Iterable[Any] = ()) -> list[dict[str, Any]]:
    """The relevant nodes, a parent before its children, each with its probability.

    Parameters
    ----------
    p_node : (n_nodes,) how probable each node is.
    answers : nodes that are shown with the whole path to them, however probable.

    >>> pets = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}, "fish": {}}})
    >>> for node in tree_shown(pets, np.array([0.6, 0.2, 0.2, 0.0, 0.8, 1.0])):
    ...     print("  " * node["depth"], node["node"], node["probability"])
    pet 1.0
       dog 0.8
         corgi 0.6
         poodle 0.2
       cat 0.2
    """
    worth = np.flatnonzero(p_node >= LEAST_SHOWN)
    # Among equals the higher number first: a parent has a higher one than its children.
    most = worth[np.lexsort((-worth, -p_node[worth]))][:NODES_SHOWN].tolist()
    named = [taxonomy.root, *answers, *(taxonomy.nodes[node] for node in most)]
    shown = {taxonomy.number(step) for name in named for step in taxonomy.path(name)}
    lines: list[dict[str, Any]] = []

    def add(node: int, parent: Any, depth: int) -> None:
        name, p = taxonomy.nodes[node], float(p_node[node])
        word = taxonomy.node_words[name]
        lines.append({"node": name, "word": word, "parent": parent, "depth": depth, "probability": p})
        below = [child for child in taxonomy.children[node] if child in shown and taxonomy.parents[child][0] == node]
        for child in sorted(below, key=lambda child: -p_node[child]):
            add(child, name, depth + 1)

    add(taxonomy.n_nodes - 1, None, 0)
    return lines
