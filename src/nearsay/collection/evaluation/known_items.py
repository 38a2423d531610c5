"""Items whose labels are known, asked about again: what was said of them, and why, where it was wrong.

left out     every item that votes ──► all others, with what is learned
held out     some of them ──► the rest, learned anew from them alone
brought      items from elsewhere ──► the collection as it is
                                          │ block by block
                     probabilities, keywords, evidence of the worst mistakes
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nearsay.collection.answers import Keyword
from nearsay.collection.evaluation.distributed_leave_one_out import left_out_on
from nearsay.collection.live import LiveCollection
from nearsay.collection.state.build_answers import votes_of
from nearsay.collection.state.collection_state import CollectionState
from nearsay.collection.state.keyword_state import KeywordState
from nearsay.collection.state.learned import LiveClassifier
from nearsay.collection.state.live_items import NO_LABEL
from nearsay.collection.state.live_views import LiveViews, checked_queries
from nearsay.core.arrays import places_among, row_blocks, rows_within
from nearsay.data.rows import LabeledRows
from nearsay.errors import InputError
from nearsay.neighbors.living.living_table import LivingTable
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.choice.nested import worth_nesting
from nearsay.posterior.evidence.evidence import Evidence
from nearsay.posterior.methods.named import is_auto
from nearsay.posterior.past_cases import ROWS_AT_ONCE
from nearsay.reports.evaluation import MISTAKES_SHOWN

N_KEYWORDS = 5
Progress = Callable[[int, int], Any]
Blocks = Iterator[tuple[slice, NeighborTable, np.ndarray]]


@dataclass
class KnownItems:
    """Items that are asked about again.

    Attributes
    ----------
    now : the collection that answers.
    ids, labels, keywords, details : of the items; ``labels`` is None where the collection has keywords alone.
    blocks : their neighbors and probabilities, some at a time.
    words : the keywords that were learned to be said of some of them, by place.
    how : how they are asked, in words.
    not_judged : how many items are left out, by reason.
    notes : sentences on how some of them count.
    """

    now: CollectionState
    ids: list[str]
    labels: np.ndarray | None
    keywords: list[list[str] | None]
    details: list[dict[str, Any] | None]
    blocks: Blocks
    words: Callable[[KeywordState, np.ndarray], list[list[Keyword]]]
    how: str
    not_judged: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass
class Judged:
    """What was said of them.

    Attributes
    ----------
    probabilities : (n_items, n_classes)
    evidence : by place among the items, of the surest answers that are wrong.
    keywords : (true, said) of the items that have keywords, or None where none has.
    """

    probabilities: np.ndarray
    evidence: dict[int, Evidence]
    keywords: tuple[list[list[str]], list[list[str]]] | None


def left_out(collection: LiveCollection, cluster: Any = None, most_bytes: int | None = None) -> KnownItems:
    """Every item that votes, answered by all others; on a cluster, if one is named, some of them by each worker.

    A sample where probabilities take more than so many bytes.
    """
    now = collection.now()
    voters, learned = np.flatnonzero(now.standing.votes), now.learned
    rows, left_aside = _sample(now, voters, most_bytes)
    how = (
        f"Leave-one-out: each item was answered by all others, with what was learned from {learned.n_rows:,} items"
        f" after event {learned.version}. That knew most of these items, if only through a few weights:"
        " hold some out to judge without."
    )
    blocks = now.classifier.left_out_proba(rows)
    nests = worth_nesting(len(voters), len(now.standing.classes))
    if nests and is_auto(learned.asked[0]) and now.standing.classes.tolist() != [NO_LABEL]:
        blocks = _by_other_choices(collection, now, voters, rows)
        how = (
            "Leave-one-out: each item was answered by all others, with settings that were chosen and learned without"
            " it."
        )
    elif cluster is not None:
        blocks = left_out_on(cluster, collection.store.path, now.version, rows)
    asked = _of_collection(now, now, rows, blocks, lambda words, places: words.of_rows(rows[places]), how)
    if asked.labels is not None:
        sizes = np.bincount(now.standing.labels[now.standing.votes])
        alone = int(np.count_nonzero(sizes[now.standing.labels[rows]] == 1))
        if alone:
            asked.notes.append(
                f"{_items(alone)} the only one of a class: no other can name it, so the answer counts as wrong."
            )
    return _with_aside(asked, left_aside)


def _by_other_choices(collection: LiveCollection, now: CollectionState, voters: np.ndarray, rows: np.ndarray) -> Blocks:
    """Some of the voters, with their neighbors, and probabilities by settings that were chosen without each of them."""
    fitted = collection._fitted_anew(*now.learned.asked, now.standing)
    p = np.zeros((len(voters), len(now.standing.classes)))
    p[:, places_among(now.standing.classes, fitted.classes_)] = fitted.leave_one_out_proba()
    p = p[np.searchsorted(voters, rows)]
    for part, table, _ in now.classifier.left_out_proba(rows):
        yield part, table, p[part]


def held_out(collection: LiveCollection, share: float, seed: int, most_bytes: int | None = None) -> KnownItems:
    """A share of every class, answered by the rest, which learn anew; nothing is written. Or a sample, as above."""
    now = collection.now()
    held = rows_held_out(now, share, seed)
    without = _without(collection, now, held)
    held, left_aside = _sample(now, held, most_bytes)
    n_rest = int(np.count_nonzero(without.standing.votes))
    how = (
        f"Held out: {len(held):,} items, {share:.0%} of every class, were answered by the other {n_rest:,},"
        f" from which all was learned anew (seed {seed})."
    )
    X = now.views.all_rows()
    blocks = _answers(without.classifier, lambda part: X[held[part]], len(held))
    asked = _of_collection(now, without, held, blocks, lambda words, places: words.of_queries(X[held[places]]), how)
    if asked.labels is not None:
        kept = sum(n == 1 for n in Counter(now.standing.labels[now.standing.votes].tolist()).values())
        if kept:
            asked.notes.append(f"{_items(kept)} the only one of a class and cannot be held out.")
            asked.not_judged["only one of a class"] = kept
    return _with_aside(asked, left_aside)


def _sample(now: CollectionState, rows: np.ndarray, most_bytes: int | None) -> tuple[np.ndarray, int]:
    """As many of the rows as have probabilities of so many bytes, in order, and how many are left aside."""
    line = 8 * len(now.standing.classes)
    most = len(rows) if most_bytes is None else rows_within(most_bytes, line, most=len(rows))
    if most == len(rows):
        return rows, 0
    return np.sort(np.random.default_rng(0).choice(rows, most, replace=False)), len(rows) - most


def _with_aside(asked: KnownItems, left_aside: int) -> KnownItems:
    if left_aside:
        asked.not_judged["not in the sample"] = left_aside
        asked.notes.append(
            f"A sample of {len(asked.ids):,} items was judged: the probabilities of all would take too much memory."
        )
    return asked


def rows_held_out(now: CollectionState, share: float, seed: int) -> np.ndarray:
    """Numbers of the rows that are held out: of every class the share, and never all of it."""
    rows = np.flatnonzero(now.standing.votes)
    labels = now.standing.labels[rows]
    if not isinstance(share, int | float) or not 0 < share < 1:
        raise InputError(f"The share to hold out must lie between 0 and 1; got {share!r}.")
    held = LabeledRows(rows[:, None], labels.astype(np.str_)).split(share, seed=seed)[1].X[:, 0]
    of_class = np.bincount(now.standing.labels[held], minlength=len(now.standing.classes))
    # Where all of a class would go, its first row stays.
    lost = np.flatnonzero(of_class == np.bincount(labels, minlength=len(of_class)))
    firsts = [rows[np.argmax(labels == number)] for number in lost]
    held = np.setdiff1d(held, firsts)
    if not len(held):
        raise InputError(
            f"Of {len(rows):,} items none can be held out: every class would be empty. Leave holdout out, and each item"
            " is answered by all others."
        )
    return held


def brought(collection: LiveCollection, source: Any) -> KnownItems:
    """Items from elsewhere whose labels are known: (ids, X, labels), or a source as ``read_source`` gives it."""
    now = collection.now()
    ids, X, labels, keywords, details = _from_elsewhere(source)
    X = checked_queries(X, collection.n_columns)
    how = f"{len(ids):,} items from elsewhere were answered by the {len(now.views):,} items that vote here."
    not_judged: Counter[str] = Counter()
    notes: list[str] = []
    by_words = now.standing.classes.tolist() == [NO_LABEL]
    known = set(now.standing.classes.tolist())
    judged = []
    for place, label in enumerate(labels):
        if by_words or label in known:
            judged.append(place)
        else:
            not_judged["no label" if label is None else "label unknown here"] += 1
    strange = sorted({label for label in labels if label is not None} - known)
    if strange and not by_words:
        n = not_judged["label unknown here"]
        notes.append(
            f"{n:,} of them {'has a label' if n == 1 else 'have labels'} that no item here has, such as"
            f" {strange[0]!r}: no answer could be right, and they are not counted."
        )
    if not judged:
        raise InputError("None of these items has a label that an item of the collection has: nothing can be judged.")
    places = np.array(judged)
    return KnownItems(
        now,
        [ids[place] for place in judged],
        None if by_words else np.array([labels[place] for place in judged], dtype=np.str_),
        [keywords[place] for place in judged],
        [details[place] for place in judged],
        _answers(now.classifier, lambda part: X[places[part]], len(judged)),
        lambda words, some: words.of_queries(X[places[some]]),
        how,
        dict(not_judged),
        notes,
    )


def judge(asked: KnownItems, on_progress: Progress | None) -> Judged:
    """Hear all answers, and keep the evidence of the worst mistakes."""
    classifier, n = asked.now.classifier, len(asked.ids)
    p = np.empty((n, len(classifier.classes_)))
    has_words = np.array([bool(words) for words in asked.keywords], np.bool_)
    said: dict[int, list[str]] = {}
    worst: list[tuple[float, int, NeighborTable]] = []
    for part, table, p[part] in asked.blocks:
        lines = np.flatnonzero(has_words[part])
        for place, words in zip((part.start + lines).tolist(), _words(asked, part, lines, table), strict=True):
            said[place] = [word for word, _ in words[:N_KEYWORDS]]
        if asked.labels is not None:
            sure, answers = p[part].max(axis=1), classifier.classes_[p[part].argmax(axis=1)]
            wrong = np.flatnonzero(answers != asked.labels[part])
            wrong = wrong[np.argsort(-sure[wrong], kind="stable")][:MISTAKES_SHOWN]
            worst += [(-float(sure[line]), part.start + line, table[line : line + 1]) for line in wrong.tolist()]
            worst = sorted(worst, key=lambda each: each[:2])[:MISTAKES_SHOWN]
        if on_progress is not None:
            on_progress(part.stop, n)
    both = [asked.keywords[place] or [] for place in said], list(said.values())
    found = {place: classifier.evidence_of(table, p[place : place + 1])[0] for _, place, table in worst}
    return Judged(p, found, both if said else None)


def _words(asked: KnownItems, part: slice, lines: np.ndarray, table: NeighborTable) -> list[list[Keyword]]:
    if not len(lines):
        return []
    if asked.now.words is not None:
        return asked.words(asked.now.words, part.start + lines)
    return votes_of(asked.now, [row[row >= 0].tolist() for row in table.indices[lines]])


def _answers(classifier: LiveClassifier, X: Callable[[slice], np.ndarray], n: int) -> Blocks:
    for part in row_blocks(n, size=ROWS_AT_ONCE):
        table = classifier.neighbors(X(part))
        yield part, table, classifier.model_.proba(table)


def _of_collection(
    before: CollectionState, now: CollectionState, rows: np.ndarray, blocks: Blocks, words: Any, how: str
) -> KnownItems:
    """Items of the collection ``before``, answered by ``now``."""
    by_words = before.standing.classes.tolist() == [NO_LABEL]
    waiting: dict[str, int] = {}
    if not by_words:
        has_label = np.array([label is not None for label in before.all_labels], np.bool_) & before.alive
        waiting["no label"] = int(np.count_nonzero(before.alive & ~has_label))
        waiting["not confirmed"] = int(np.count_nonzero(has_label & ~before.standing.votes))
    numbers = rows.tolist()
    return KnownItems(
        now,
        [before.standing.ids[row] for row in numbers],
        None if by_words else np.array([before.all_labels[row] for row in numbers], dtype=np.str_),
        [before.keywords[row] for row in numbers],
        [before.details[row] for row in numbers],
        blocks,
        words,
        how,
        {why: n for why, n in waiting.items() if n},
    )


def _without(collection: LiveCollection, now: CollectionState, held: np.ndarray) -> CollectionState:
    """The collection without some rows, learned anew from the others as it was learned; nothing is written."""
    votes = now.standing.votes.copy()
    votes[held] = False
    standing = replace(now.standing, votes=votes, labels=np.where(votes, now.standing.labels, 0))
    learned = collection._learned_anew(*now.learned.asked, standing)
    X = now.views.all_rows()
    voters = learned.voters(votes, standing.labels, len(standing.classes))
    views = LiveViews.of(learned.sights, voters, lambda: X)

    def others(views: LiveViews, k: int) -> NeighborTable:
        return LivingTable(views.first.search, k, spare=0).table()

    gives = collection.items.gives_keywords()
    gives[held] = False
    return CollectionState(others, now.version, learned, standing, views, collection.items, gives)


def _from_elsewhere(source: Any) -> tuple[list[str], Any, list[Any], list[Any], list[Any]]:
    if isinstance(source, tuple):
        if len(source) != 3:
            raise InputError(f"Items from elsewhere are (ids, X, labels); got {len(source)} parts.")
        ids, X, labels = source
        if not len(ids) == len(X) == len(labels):
            raise InputError(
                f"Items from elsewhere need an id and a label each; got {len(ids)} ids, {len(X)} rows and"
                f" {len(labels)} labels."
            )
        return list(ids), X, list(labels), [None] * len(ids), [None] * len(ids)
    if not isinstance(source, Iterable):
        raise InputError(
            "holdout is a share of the items such as 0.2, (ids, X, labels) of items from elsewhere, or a source that"
            f" read_source gave; got {source!r}."
        )
    batches = list(source)
    if not batches:
        raise InputError("The source has no items, so there is nothing to judge.")
    columns: Sequence[list[Any]] = [
        [each for batch in batches for each in getattr(batch, name)]
        for name in ("ids", "labels", "keywords", "details")
    ]
    ids, labels, keywords, details = columns
    return ids, np.concatenate([batch.X for batch in batches]), labels, keywords, details


def _items(n: int) -> str:
    return "1 item is" if n == 1 else f"{n:,} items are each"
