"""Suggestions for a collection: likely mistakes, near-duplicates, and what to label next."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.collection.answers import NeighborVote
from nearsay.collection.state.collection_state import CollectionState
from nearsay.collection.state.suggest.item_groups import Suggestion, n_groups
from nearsay.collection.state.suggest.medoids import ComparedItems, greedy_medoids
from nearsay.errors import InputError, unknown_name
from nearsay.neighbors import neighbor_search
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.evidence.label_scores import LabelScores

# Neighbors checked first for duplicates; where all of them are near enough, twice as many are.
FIRST_K = 4
EVIDENCE_SHOWN = 5
# The most uncertain items, among which distant ones are picked.
CANDIDATES = 2000


@dataclass(frozen=True)
class Mistake(Suggestion):
    """An item whose neighbors contradict its label.

    Attributes
    ----------
    id, label : the item, and the label it has.
    suggested : the label that the others suggest.
    probability, suggested_probability : of the two, by all other items.
    neighbors : its nearest others, as evidence.

    >>> print(Mistake("7", "cat", "dog", 0.02, 0.95, []))
    7 is labeled 'cat' (0.02), but its neighbors suggest 'dog' (0.95).
    """

    id: str
    label: str
    suggested: str
    probability: float
    suggested_probability: float
    neighbors: list[NeighborVote]

    def __str__(self) -> str:
        return (
            f"{self.id} is labeled {self.label!r} ({self.probability:.2f}),"
            f" but its neighbors suggest {self.suggested!r} ({self.suggested_probability:.2f})."
        )


@dataclass(frozen=True)
class Duplicate(Suggestion):
    """Two items that are nearly the same; their labels, and whether these differ.

    >>> print(Duplicate("7", "9", 0.0, "cat", "dog"))
    7 and 9 are 0 apart, and labeled 'cat' and 'dog'.
    """

    id: str
    other: str
    distance: float
    label: str | None
    other_label: str | None

    def __str__(self) -> str:
        labels = f"{self.label!r}" + ("" if self.label == self.other_label else f" and {self.other_label!r}")
        return f"{self.id} and {self.other} are {self.distance:.3g} apart, and labeled {labels}."


@dataclass(frozen=True)
class ToLabel(Suggestion):
    """An item worth labeling: its predicted label, the probability, how unusual it is, and for how many it stands.

    >>> print(ToLabel("7", "cat", 0.41, 0.9))
    7: perhaps 'cat' (0.41), novelty 0.90.
    >>> print(ToLabel("7", None, None, 0.2, n_like=120))
    7: typical of 120 items without a label.
    """

    id: str
    guess: str | None
    probability: float | None
    novelty: float | None
    n_like: int | None = None

    def __str__(self) -> str:
        if self.guess is None or self.probability is None:
            return f"{self.id}: typical of {self.n_like or 1:,} items without a label."
        unusual = "" if self.novelty is None else f", novelty {self.novelty:.2f}"
        return f"{self.id}: perhaps {self.guess!r} ({self.probability:.2f}){unusual}."


def likely_mistakes(state: CollectionState, n: int | None, confirmed_again: Collection[int] = ()) -> list[Mistake]:
    """Items whose label is not the most probable by all others, the clearest first; at most ``n``.

    Rows whose label a person ``confirmed_again`` are left out. So is the only one of a class where most classes have
    one alone: the others cannot but contradict it, and the first items that somebody labels would all be mistakes.
    """
    state.check_labeled()
    rows, right = np.flatnonzero(state.voting.votes), np.array(sorted(confirmed_again), np.int64)
    truth, classes = state.voting.labels, state.voting.classes
    sizes = np.bincount(truth[rows], minlength=len(classes))
    alone = (sizes == 1) & (np.median(sizes[sizes > 0]) == 1)
    parts: list[tuple[np.ndarray, ...]] = []
    for part, table, p in state.classifier.left_out_proba(rows):
        scores = LabelScores.from_probabilities(p, truth[rows[part]], classes)
        doubted = np.flatnonzero((scores.margin < 0) & ~alone[truth[rows[part]]] & ~np.isin(rows[part], right))
        given, rival = scores.probability[doubted], p[doubted].max(axis=1, initial=0.0)
        n_others = np.count_nonzero(table.indices[doubted] >= 0, axis=1)
        shown = table.indices[doubted, :EVIDENCE_SHOWN], table.distances[doubted, :EVIDENCE_SHOWN]
        parts.append((rows[part][doubted], given, rival, scores.suggested[doubted], n_others, *shown))
    if not parts:
        return []
    doubted, given, rival, suggested, n_others, numbers, far = (
        np.concatenate(each) for each in zip(*parts, strict=True)
    )
    first = np.lexsort((doubted, given / (given + rival)))[:n]
    doubted, numbers = doubted[first], numbers[first]
    ids = state.voting.ids
    evidence = (ids[numbers], classes[truth[numbers]], far[first], numbers)
    neighbors = [
        _neighbors(state, 1 / max(n_near, 1), *each)
        for n_near, *each in zip(n_others[first].tolist(), *(column.tolist() for column in evidence), strict=True)
    ]
    columns = (ids[doubted], classes[truth[doubted]], suggested[first], given[first], rival[first])
    return list(map(Mistake, *(column.tolist() for column in columns), neighbors))


def _neighbors(
    state: CollectionState, share: float, ids: list[str], labels: list[str], far: list[float], rows: list[int]
) -> list[NeighborVote]:
    """The nearest of several neighbors that count alike, as evidence."""
    columns = zip(ids, labels, far, rows, strict=True)
    return [
        NeighborVote(id, label, distance, share, state.text_of(row)) for id, label, distance, row in columns if row >= 0
    ]


def near_duplicates(
    state: CollectionState, distance: float | None, across: str | Callable[[dict[str, Any]], Any] | None
) -> list[Duplicate]:
    """Pairs of items up to a distance apart, found exactly; nearest first, then by row number."""
    if distance is not None and not distance >= 0:
        raise InputError(f"distance must be a number of at least 0; got {distance!r}.")
    if isinstance(across, str):
        across = _detail(state, across)
    search = state.everything
    rows, n_live = np.flatnonzero(state.alive), int(np.count_nonzero(state.alive))
    pairs: dict[tuple[int, int], float] = {}
    k, most = FIRST_K, max(n_live - 1, 0)
    while len(rows) and most:
        k = min(k, most)
        table = neighbor_search.leave_one_out(search, k, rows)
        limit = _twin_limits(state, table) if distance is None else np.full((len(rows), 1), distance)
        near = (table.distances <= limit) & (table.indices >= 0)
        for line, place in np.argwhere(near):
            first, second = sorted((int(rows[line]), int(table.indices[line, place])))
            pairs[first, second] = float(table.distances[line, place])
        rows = rows[near[:, -1]] if k < most else rows[:0]
        k *= 2
    ids, labels = state.voting.ids, state.all_labels
    return [
        Duplicate(ids[a], ids[b], far, labels[a], labels[b])
        for (a, b), far in sorted(pairs.items(), key=lambda pair: (pair[1], pair[0]))
        if across is None or across(state.details[a] or {}) != across(state.details[b] or {})
    ]


def _detail(state: CollectionState, name: str) -> Callable[[dict[str, Any]], Any]:
    """A function that gives this detail of an item; an error where no item has it."""
    known = {each for row in np.flatnonzero(state.alive).tolist() for each in state.details[row] or ()}
    if not known:
        raise InputError(
            f"There is no column {name!r}: the items of this collection have no further columns. Columns of text"
            " other than label, keywords and id are kept when a table is indexed."
        )
    if name not in known:
        raise unknown_name("column", name, known)
    return lambda details: details.get(name)


def _twin_limits(state: CollectionState, table: NeighborTable) -> np.ndarray:
    """The largest distance of a twin: far smaller than usual distances to neighbors."""
    usual = table.distances[:, -1:]
    share = state.learned.novelty.twin_share if state.learned.novelty.k else 0.0
    return np.where(np.isfinite(usual), share * usual, 0.0)


def label_next(state: CollectionState, n: int) -> list[ToLabel]:
    """Items without a vote; at most ``n``.

    Typical ones while there are fewer labels than groups of items, so that every region has one; then uncertain and
    unusual ones that are far from each other.
    """
    if n < 1:
        raise InputError(f"n must be a whole number of at least 1; got {n!r}.")
    votes = state.voting.votes & (not state.voting.is_unlabeled)
    rows = np.flatnonzero(state.alive & ~votes)
    if not len(rows):
        return []
    n_items = int(np.count_nonzero(state.alive))
    few = not state.voting.has_labels or np.count_nonzero(votes) < n_groups(n_items)
    return _typical(state, votes, n) if few else _uncertain(state, rows, n)


def _typical(state: CollectionState, votes: np.ndarray, n: int) -> list[ToLabel]:
    """Items that together with those that vote cover the collection, each with the number of items nearest to it."""
    items = ComparedItems.of(state)
    covered, labeled = items.sample(), np.flatnonzero(votes[items.rows])
    open_places = covered[~votes[items.rows[covered]]]
    far = items.between(open_places, covered)
    nearest = items.between(labeled, covered).min(axis=0) if len(labeled) else None
    chosen = greedy_medoids(far, n, nearest)
    around = far[chosen]
    taken = around.argmin(axis=0) if len(chosen) else np.empty(0, np.int64)
    if nearest is not None and len(chosen):
        taken = np.where(around.min(axis=0) < nearest, taken, -1)
    scale = len(items.rows) / len(covered)
    n_like = [max(1, round(scale * np.count_nonzero(taken == place))) for place in range(len(chosen))]
    picked = items.rows[open_places[chosen]]
    evidence = state.classifier.explain(state.views.all_rows()[picked])
    has_labels = state.voting.has_labels
    return [
        ToLabel(
            state.voting.ids[row],
            str(each.label) if has_labels else None,
            float(each.probability) if has_labels else None,
            each.novelty,
            like,
        )
        for row, each, like in zip(picked.tolist(), evidence, n_like, strict=True)
    ]


def _uncertain(state: CollectionState, rows: np.ndarray, n: int) -> list[ToLabel]:
    """Of some rows those that are uncertain, unusual, and far from those already picked."""
    X = state.views.all_rows()
    evidence = state.classifier.explain(X[rows])
    sure = np.array([each.probability for each in evidence])
    unusual = np.array([0.0 if each.novelty is None else each.novelty for each in evidence])
    worth = (1 - sure) + unusual
    few = np.argsort(-worth, kind="stable")[:CANDIDATES]
    transform, distance = state.views.first.transform, state.views.first.search.distance_
    mapped = distance.check(transform.apply(X[rows[few]]))
    usual = float(np.median([evidence[place].distances[0] for place in few])) or 1.0
    apart = np.full(len(few), np.inf)
    picked: list[int] = []
    for _ in range(min(n, len(few))):
        best = int(np.argmax(worth[few] * np.minimum(1.0, apart / usual) - np.isin(np.arange(len(few)), picked)))
        picked.append(best)
        apart = np.minimum(apart, distance.block(mapped[best : best + 1], mapped)[0])
    return [
        ToLabel(state.voting.ids[rows[one]], str(evidence[one].label), float(sure[one]), evidence[one].novelty)
        for one in few[picked]
    ]
