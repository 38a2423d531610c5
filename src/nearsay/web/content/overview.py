"""What the first page says of a collection: typical items of each class, its accuracy, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from nearsay.collection.evaluation.judgement import Judgement
from nearsay.collection.information import label_figures
from nearsay.collection.state.learned import LearnedInfo
from nearsay.errors import InputError
from nearsay.web.content.background_cache import BackgroundCache
from nearsay.web.content.item_filters import CLASSES, TYPICAL, row_labels
from nearsay.web.content.page_caches import PageCaches
from nearsay.web.content.served_collection import ServedCollection, as_listed

# Up to so many items, mistakes and duplicates are counted without being asked for.
COUNTED_UP_TO = 20_000
# Seconds that the first page waits for each of its parts.
WAIT = 0.1


def overview_of(served: ServedCollection, caches: PageCaches, judgement: Judgement | None) -> dict[str, Any]:
    """Figures, typical items, accuracy in past cases, and what to do next; ``counting`` while some of it is counted.

    ``judgement`` is the last of all items, if there is one.
    """
    collection, labels = served.collection, row_labels(served.collection)
    known: dict[str, Any] = {**label_figures(labels.numbers, labels.alive, labels.confirmed)}
    known["n_keywords"] = sum(map(bool, islice(collection.items.columns["keywords"], COUNTED_UP_TO)))
    learned = collection.learned
    # What needs something learned is not begun here: learning may take long, and holds up everybody.
    counted = learned is not None and 0 < known["n_items"] <= COUNTED_UP_TO
    typical = _typical(caches, known, counted)
    numbers: dict[str, int | None] = {"mistakes": 0, "duplicates": 0}
    if known["n_labeled"] and counted:
        numbers = {"mistakes": _number(caches.mistakes), "duplicates": _number(caches.duplicates)}
    todo = to_do(known, numbers["mistakes"], numbers["duplicates"], bool(learned is not None and learned.stale))
    return {
        "figures": known,
        "strip": _strip(served, typical or []),
        "accuracy": None if learned is None or not known["n_labeled"] else _accuracy(learned, judgement),
        "todo": todo,
        "counting": None in numbers.values() or typical is None,
    }


def _accuracy(learned: LearnedInfo, judgement: Judgement | None) -> dict[str, Any] | None:
    """How many past cases were right, ``of`` how many: all that were judged, or else those that learning drew."""
    if judgement is not None and judgement.version >= learned.version:
        return judgement.record
    return None if learned.record is None else {**learned.record, "of": learned.n_rows}


def _typical(
    caches: PageCaches, known: dict[str, Any], counted: bool
) -> Sequence[tuple[str | None, int, list[int]]] | None:
    """Typical items of classes; of groups where nothing has a label. None while they are computed."""
    if known["n_classes"]:
        return caches.typical.get(WAIT)
    groups = caches.groups.get(WAIT) if counted else []
    return None if groups is None else [(None, len(rows), rows[:TYPICAL].tolist()) for rows in groups[:CLASSES]]


def _number(cache: BackgroundCache[Any]) -> int | None:
    """How many are listed; None while they are being counted, 0 where the collection is too small."""
    try:
        listed = cache.get(WAIT)
    except InputError:
        return 0
    return None if listed is None else listed[0] if isinstance(listed, tuple) else len(listed)


def _strip(served: ServedCollection, typical: Sequence[tuple[str | None, int, list[int]]]) -> list[dict[str, Any]]:
    strip: list[dict[str, Any]] = []
    shown: list[dict[str, Any]] = []
    for label, n, rows in typical:
        items = [as_listed(item) for item in served.collection.store.items_of(rows)]
        strip.append({"label": label, "n_items": n, "items": items})
        shown += items
    served.add_sketches(shown)  # in one scale
    return strip


def to_do(
    figures: dict[str, Any], n_mistakes: int | None, n_duplicates: int | None, stale: bool
) -> list[dict[str, Any]]:
    """What to do next, the most useful first: ``what``, ``why`` and the page, or None for learning again."""
    n_items, n_labeled, n_waiting = (figures[name] for name in ("n_items", "n_labeled", "n_waiting"))
    todo: list[dict[str, Any]] = []

    def add(what: str, page: str | None, why: str) -> None:
        todo.append({"what": what, "why": why, "page": page})

    if n_items and not n_labeled and not figures["n_keywords"]:
        add("Label the first items", "/next", "Nothing is labeled yet. Label a few typical items, and answers begin.")
        add("Label whole groups", "/groups", "Items that lie together, labeled at a stroke.")
    elif n_items:
        if stale:
            add("Learn again", None, "Many items came or went since it was learned.")
        if n_waiting:
            why = "A machine gave these labels. They count once you accept them."
            add(f"Review {_count(n_waiting, 'label')}", "/review", why)
        if n_mistakes:
            add(_count(n_mistakes, "likely mistake"), "/mistakes", "Labels that their neighbors contradict.")
        if n_duplicates:
            add(f"{_count(n_duplicates, 'pair')} of near-duplicates", "/duplicates", "Items that are nearly the same.")
        if n_labeled and n_labeled < n_items:
            left = n_items - n_labeled
            what = "Label the last item" if left == 1 else f"Label some of {left:,} unlabeled items"
            add(what, "/next", "Those whose labels would help most come first.")
    return todo


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'s' * (n != 1)}"
