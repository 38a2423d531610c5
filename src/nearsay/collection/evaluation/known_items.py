"""Answers about items whose labels are known, with the evidence of the worst mistakes.

left out     every item that votes ──► all others, with what is learned
held out     some of them ──► the rest, after learning from these only
brought      other items ──► the collection as it is
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
from nearsay.collection.distributed import left_out_on
from nearsay.collection.live import LiveCollection
from nearsay.collection.state.build_answers import votes_of
from nearsay.collection.state.collection_state import CollectionState
from nearsay.collection.state.keywords.learned_keywords import KeywordState
from nearsay.collection.state.learned import LiveClassifier
from nearsay.collection.state.live_views import LiveViews, Voters, checked_queries
from nearsay.collection.state.row_groups import GROUP_BY
from nearsay.core.arrays import places_among, row_blocks, rows_within
from nearsay.core.notebook_progress import Progress
from nearsay.data.rows import LabeledRows
from nearsay.errors import InputError
from nearsay.learn.tuning import held_out_rows
from nearsay.neighbors.by_class.labeled import LabeledNeighbors
from nearsay.neighbors.living.living_table import LivingTable
from nearsay.neighbors.near_duplicates import near_duplicate_groups
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.base import FRESH
from nearsay.posterior.choice.row_groups import near_duplicate_loss
from nearsay.posterior.evidence.evidence import Evidence
from nearsay.posterior.evidence.shift import FEWEST, DriftTest, ShiftTest, batch_shift, drift_test
from nearsay.posterior.methods.named import AUTO, is_auto
from nearsay.posterior.nested import worth_nesting
from nearsay.posterior.past_cases import ROWS_AT_ONCE
from nearsay.reports.evaluation import MISTAKES_SHOWN

N_KEYWORDS = 5
# Why items were not judged, where there are too many.
NOT_IN_SAMPLE = "not in the sample"
# In larger collections, near-duplicates are not looked for unasked.
MOST_COMPARED = 20_000
Blocks = Iterator[tuple[slice, NeighborTable, np.ndarray]]


@dataclass
class KnownItems:
    """Items to evaluate on.

    Attributes
    ----------
    state : the collection that answers.
    ids, labels, keywords, details : of the items; ``labels`` is None where the collection has keywords alone.
    blocks : their neighbors and probabilities, some at a time.
    words : gives the learned keywords of some of them, by place.
    how : how they are answered, in words.
    not_judged : how many items are left out, by reason.
    notes : sentences on how some of them count.
    new : (n_items,) bool, which of them came after the collection learned.
    """

    state: CollectionState
    ids: list[str]
    labels: np.ndarray | None
    keywords: list[list[str] | None]
    details: list[dict[str, Any] | None]
    blocks: Blocks
    words: Callable[[KeywordState, np.ndarray], list[list[Keyword]]]
    how: str
    not_judged: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    new: np.ndarray | None = None


@dataclass
class Judged:
    """The answers.

    Attributes
    ----------
    probabilities : (n_items, n_classes)
    evidence : of the most confident wrong answers, by place among the items.
    keywords : (true, predicted) of the items that have keywords, or None where none has.
    shift : whether the new items are unlike the collection; None of fewer than ten.
    drift : whether answers to them are right less often than their probabilities say; None of fewer than ten.
    """

    probabilities: np.ndarray
    evidence: dict[int, Evidence]
    keywords: tuple[list[list[str]], list[list[str]]] | None
    shift: ShiftTest | None = None
    drift: DriftTest | None = None


def left_out(collection: LiveCollection, cluster: Any = None, most_bytes: int | None = None) -> KnownItems:
    """Every item that votes, answered by all others, on a cluster if one is given.

    A sample where probabilities take more than ``most_bytes``.
    """
    state = collection.state()
    state.check_labeled()
    voters, learned = np.flatnonzero(state.voting.votes), state.learned
    validation = learned.validation[state.voting.votes[learned.validation]]
    rows, n_left_out = _sample(state, validation if len(validation) else voters, most_bytes)
    how = (
        f"Leave-one-out: each item was answered by all others, with what was learned from {learned.n_rows:,} items"
        f" after event {learned.version}. Slightly optimistic: settings were learned from these items."
        " Hold some out for a strict test."
    )
    blocks = state.classifier.left_out_proba(rows)
    nests = worth_nesting(len(voters), len(state.voting.classes))
    if nests and is_auto(learned.requested[0]) and state.voting.has_labels:
        blocks = _by_other_choices(collection, state, voters, rows)
        how = (
            "Leave-one-out: each item was answered by all others, with settings that were chosen and learned without"
            " it."
        )
    elif cluster is not None:
        blocks = left_out_on(cluster, collection.store.path, state.version, rows)
    items = _of_collection(state, state, rows, blocks, lambda words, places: words.of_rows(rows[places]), how)
    items.new = rows >= len(learned.fold)
    if items.labels is not None:
        sizes = np.bincount(state.voting.labels[state.voting.votes])
        if len(validation):
            items.notes.append(f"Only the {len(validation):,} items for validation were judged, by all that are not.")
        items.notes += _notes_on_groups(collection, state)
        alone = int(np.count_nonzero(sizes[state.voting.labels[rows]] == 1))
        if alone:
            items.notes.append(
                f"{_items(alone)} the only one of a class: no other can name it, so the answer counts as wrong."
            )
    return _note_sample(items, n_left_out)


def _notes_on_groups(collection: LiveCollection, state: CollectionState) -> list[str]:
    """Who was not asked about whom; without groups, what near-duplicates make look better than it is."""
    group_by, labeled = collection.store.settings.get(GROUP_BY), state.views.first.labeled
    if group_by is not None:
        who = "Near-duplicates" if group_by == AUTO else f"Items with the same {group_by!r}"
        return [f"{who} did not judge each other."]
    if state.views.groups is not None or len(labeled) > MOST_COMPARED:
        return []
    voters, search = labeled.live_numbers, labeled.search
    rows = search.rows_.take(voters)
    try:
        alike = near_duplicate_groups(np.asarray(rows), labeled.labels[voters], search.distance_)
    except InputError:  # a metric that does not compare any rows
        return []
    if alike is None:
        return []
    groups = np.arange(len(labeled.labels)) + len(voters)
    groups[voters] = alike
    grouped = LabeledNeighbors(search, labeled.labels, labeled.n_classes, groups=groups)
    lost = near_duplicate_loss(grouped, state.learned.n_neighbors)
    return [] if lost is None else [f'{lost} The figures here have them vote. group_by="auto" leaves them out.']


def _by_other_choices(
    collection: LiveCollection, state: CollectionState, voters: np.ndarray, rows: np.ndarray
) -> Blocks:
    """Some of the voters, with their neighbors, and probabilities by settings that were chosen without each."""
    fitted = collection.tracker.fit(*state.learned.requested, state.voting, state.views.groups)
    p = np.zeros((len(voters), len(state.voting.classes)))
    p[:, places_among(state.voting.classes, fitted.classes_)] = fitted.leave_one_out_proba()
    p = p[np.searchsorted(voters, rows)]
    for part, table, _ in state.classifier.left_out_proba(rows):
        yield part, table, p[part]


def held_out(collection: LiveCollection, share: float, seed: int, most_bytes: int | None = None) -> KnownItems:
    """A share of every class, answered by the rest after learning again from it; or a sample, as above."""
    state = collection.state()
    state.check_labeled()
    held = rows_held_out(state, share, seed)
    without = _without(collection, state, held)
    held, n_left_out = _sample(state, held, most_bytes)
    n_rest = int(np.count_nonzero(without.voting.votes))
    is_grouped = _groups_of_several(state, np.flatnonzero(state.voting.votes)) is not None
    of_what = "all groups" if is_grouped else "every class"
    how = (
        f"Held out: {len(held):,} items, {share:.0%} of {of_what}, were answered by the other {n_rest:,},"
        f" from which everything was learned again (seed {seed})."
    )
    X = state.views.all_rows()
    blocks = _answers(without.classifier, lambda part: X[held[part]], len(held))
    items = _of_collection(state, without, held, blocks, lambda words, places: words.of_queries(X[held[places]]), how)
    if items.labels is not None:
        kept = sum(n == 1 for n in Counter(state.voting.labels[state.voting.votes].tolist()).values())
        if kept:
            items.notes.append(f"{_items(kept)} the only one of a class and cannot be held out.")
            items.not_judged["only one of a class"] = kept
    return _note_sample(items, n_left_out)


def _sample(state: CollectionState, rows: np.ndarray, most_bytes: int | None) -> tuple[np.ndarray, int]:
    """As many rows as fit into ``most_bytes``, in order, and how many are left out."""
    line = 8 * len(state.voting.classes)
    most = len(rows) if most_bytes is None else rows_within(most_bytes, line, most=len(rows))
    if most == len(rows):
        return rows, 0
    return np.sort(np.random.default_rng(0).choice(rows, most, replace=False)), len(rows) - most


def _note_sample(items: KnownItems, n_left_out: int) -> KnownItems:
    if n_left_out:
        items.not_judged[NOT_IN_SAMPLE] = n_left_out
        items.notes.append(
            f"A sample of {len(items.ids):,} items was evaluated: the probabilities of all would take too much memory."
        )
    return items


def rows_held_out(state: CollectionState, share: float, seed: int) -> np.ndarray:
    """Numbers of the rows that are held out: of every class the share, and never all of it; of groups whole ones."""
    rows = np.flatnonzero(state.voting.votes)
    labels = state.voting.labels[rows]
    if not isinstance(share, int | float) or not 0 < share < 1:
        raise InputError(f"The share to hold out must lie between 0 and 1; got {share!r}.")
    groups = _groups_of_several(state, rows)
    if groups is not None:
        of_groups = held_out_rows(labels, share, np.random.RandomState(seed), groups)
        if not of_groups.any():
            raise InputError("No group can be held out: a class would be empty, or more items held out than asked for.")
        return np.asarray(rows[of_groups])
    held = LabeledRows(rows[:, None], labels.astype(np.str_)).split(share, seed=seed)[1].X[:, 0]
    of_class = np.bincount(state.voting.labels[held], minlength=len(state.voting.classes))
    # Where all of a class would go, its first row stays.
    lost = np.flatnonzero(of_class == np.bincount(labels, minlength=len(of_class)))
    firsts = [rows[np.argmax(labels == number)] for number in lost]
    held = np.setdiff1d(held, firsts)
    if not len(held):
        raise InputError(
            f"Of {len(rows):,} items none can be held out: every class would be empty. Without holdout each item"
            " is answered by all others."
        )
    return held


def _groups_of_several(state: CollectionState, rows: np.ndarray) -> np.ndarray | None:
    """The group of each of these rows, one of its own where it is for validation; None if no two are together."""
    if state.views.groups is None:
        return None
    groups: np.ndarray = state.views.groups[rows]
    groups = np.where(groups == FRESH, len(state.views.groups) + np.arange(len(rows)), groups)
    return groups if len(np.unique(groups)) < len(groups) else None


def brought(collection: LiveCollection, source: Any) -> KnownItems:
    """Separate test items with labels: (ids, X, labels), or a source of ``read_source``."""
    state = collection.state()
    state.check_labeled()
    ids, X, labels, keywords, details = _other_items(source)
    X = checked_queries(X, collection.n_columns)
    how = f"{len(ids):,} other items were answered by the {len(state.views):,} items that vote here."
    not_judged: Counter[str] = Counter()
    notes: list[str] = []
    by_words = not state.voting.has_labels
    known = set(state.voting.classes.tolist())
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
        raise InputError("None of these items has a label of the collection: there is nothing to evaluate.")
    places = np.array(judged)
    return KnownItems(
        state,
        [ids[place] for place in judged],
        None if by_words else np.array([labels[place] for place in judged], dtype=np.str_),
        [keywords[place] for place in judged],
        [details[place] for place in judged],
        _answers(state.classifier, lambda part: X[places[part]], len(judged)),
        lambda words, some: words.of_queries(X[places[some]]),
        how,
        dict(not_judged),
        notes,
        np.ones(len(judged), np.bool_),
    )


def judge(items: KnownItems, on_progress: Progress | None) -> Judged:
    """Compute all answers, and the evidence of the worst mistakes."""
    classifier, n = items.state.classifier, len(items.ids)
    p = np.empty((n, len(classifier.classes_)))
    has_words = np.array([bool(words) for words in items.keywords], np.bool_)
    keywords: dict[int, list[str]] = {}
    worst: list[tuple[float, int, NeighborTable]] = []
    new = np.zeros(n, np.bool_) if items.new is None or items.new.sum() < FEWEST else items.new
    novelty: list[float] = []
    for part, table, p[part] in items.blocks:
        if new[part].any():
            novelty += classifier.model_.novelty_of(table[new[part]], p[part][new[part]]).tolist()
        lines = np.flatnonzero(has_words[part])
        for place, words in zip((part.start + lines).tolist(), _words(items, part, lines, table), strict=True):
            keywords[place] = [word for word, _ in words[:N_KEYWORDS]]
        if items.labels is not None:
            sure, answers = p[part].max(axis=1), classifier.classes_[p[part].argmax(axis=1)]
            wrong = np.flatnonzero(answers != items.labels[part])
            wrong = wrong[np.argsort(-sure[wrong], kind="stable")][:MISTAKES_SHOWN]
            worst += [(-float(sure[line]), part.start + line, table[line : line + 1]) for line in wrong.tolist()]
            worst = sorted(worst, key=lambda each: each[:2])[:MISTAKES_SHOWN]
        if on_progress is not None:
            on_progress(part.stop, n)
    both = [items.keywords[place] or [] for place in keywords], list(keywords.values())
    evidence = {place: classifier.evidence_of(table, p[place : place + 1])[0] for _, place, table in worst}
    shift, drift = batch_shift(novelty, classifier.model_.novelty.n_usual), None
    if items.labels is not None and new.any():
        right = classifier.classes_[p[new].argmax(axis=1)] == items.labels[new]
        drift = drift_test(p[new].max(axis=1), right, classifier.model_.records)
    return Judged(p, evidence, both if keywords else None, shift, drift)


def _words(items: KnownItems, part: slice, lines: np.ndarray, table: NeighborTable) -> list[list[Keyword]]:
    if not len(lines):
        return []
    if items.state.words is not None:
        return items.words(items.state.words, part.start + lines)
    return votes_of(items.state, [row[row >= 0].tolist() for row in table.indices[lines]])


def _answers(classifier: LiveClassifier, X: Callable[[slice], np.ndarray], n: int) -> Blocks:
    for part in row_blocks(n, size=ROWS_AT_ONCE):
        table = classifier.neighbors(X(part))
        yield part, table, classifier.model_.proba(table)


def _of_collection(
    before: CollectionState, state: CollectionState, rows: np.ndarray, blocks: Blocks, words: Any, how: str
) -> KnownItems:
    """Items of the collection ``before``, answered by ``state``."""
    by_words = not before.voting.has_labels
    waiting: dict[str, int] = {}
    if not by_words:
        has_label = np.array([label is not None for label in before.all_labels], np.bool_) & before.alive
        waiting["no label"] = int(np.count_nonzero(before.alive & ~has_label))
        waiting["not confirmed"] = int(np.count_nonzero(has_label & ~before.voting.votes))
    numbers = rows.tolist()
    return KnownItems(
        state,
        [before.voting.ids[row] for row in numbers],
        None if by_words else np.array([before.all_labels[row] for row in numbers], dtype=np.str_),
        [before.keywords[row] for row in numbers],
        [before.details[row] for row in numbers],
        blocks,
        words,
        how,
        {why: n for why, n in waiting.items() if n},
    )


def _without(collection: LiveCollection, state: CollectionState, held: np.ndarray) -> CollectionState:
    """The collection without some rows, after learning again from the others; nothing is written."""
    votes = state.voting.votes.copy()
    votes[held] = False
    voting = replace(state.voting, votes=votes, labels=np.where(votes, state.voting.labels, 0))
    learned = collection.tracker.learn(*state.learned.requested, voting, validation=state.learned.validation)
    X = state.views.all_rows()
    voters = Voters.of(votes, voting.labels, len(voting.classes), learned.fold, state.views.groups)
    views = LiveViews.of(learned.transforms, voters, lambda: X)

    def others(views: LiveViews, k: int) -> NeighborTable:
        return LivingTable(views.first.search, k, spare=0).table()

    gives = collection.items.gives_keywords()
    gives[held] = False
    return CollectionState(others, state.version, learned, voting, views, collection.items, gives)


def _other_items(source: Any) -> tuple[list[str], Any, list[Any], list[Any], list[Any]]:
    if isinstance(source, tuple):
        if len(source) != 3:
            raise InputError(f"Other items are (ids, X, labels); got {len(source)} parts.")
        ids, X, labels = source
        if not len(ids) == len(X) == len(labels):
            raise InputError(
                f"Other items need an id and a label each; got {len(ids)} ids, {len(X)} rows and {len(labels)} labels."
            )
        return list(ids), X, list(labels), [None] * len(ids), [None] * len(ids)
    if not isinstance(source, Iterable):
        raise InputError(
            "holdout is a share of the items such as 0.2, (ids, X, labels) of other items, or a source of"
            f" read_source; got {source!r}."
        )
    batches = list(source)
    if not batches:
        raise InputError("The source has no items, so there is nothing to evaluate.")
    columns: Sequence[list[Any]] = [
        [each for batch in batches for each in getattr(batch, name)]
        for name in ("ids", "labels", "keywords", "details")
    ]
    ids, labels, keywords, details = columns
    return ids, np.concatenate([batch.X for batch in batches]), labels, keywords, details


def _items(n: int) -> str:
    return "1 item is" if n == 1 else f"{n:,} items are each"
