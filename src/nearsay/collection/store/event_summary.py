"""A short description of an event: "relabel 3 items 'owl' → 'chick'"."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

# Different changes of labels that are listed; the rest is counted.
NAMED = 2
# What is kept with a collection, in words.
KEPT = {"learned": "learn", "words": "learn the vocabulary", "table": "read the columns"}


def label_changes(n_items: int, before: dict[str, Any], after: dict[str, Any]) -> list[tuple[Any, Any, int]]:
    """(label before, label after, how many items), the most frequent first.

    >>> label_changes(3, {"label": ["owl", None, "owl"]}, {"label": ["chick", "axe", "chick"]})
    [('owl', 'chick', 2), (None, 'axe', 1)]
    """
    if "label" not in after:
        return []
    pairs = zip(before.get("label", [None] * n_items), after["label"], strict=True)
    return [(old, new, n) for (old, new), n in Counter(pairs).most_common()]


def event_in_words(kind: str, n_items: int, before: dict[str, Any], after: dict[str, Any], undoes: int | None) -> str:
    """The change, without time and author.

    >>> event_in_words("relabel", 2, {"label": ["owl", "owl"]}, {"label": ["chick", "chick"]}, None)
    "relabel 2 items 'owl' → 'chick'"
    >>> event_in_words("relabel", 1, {"label": ["owl"]}, {"label": ["wren"], "keywords": [["small", "brown"]]}, None)
    "relabel 1 item 'owl' → 'wren', keywords: small, brown"
    >>> event_in_words("relabel", 1, {"label": ["owl"]}, {"label": ["owl"]}, None)
    "confirm 'owl' of 1 item"
    >>> event_in_words("add", 3, {}, {"label": ["oak", "oak", "elm"]}, None)
    "add 3 items: 2 'oak', 1 'elm'"
    """
    items = f"{n_items:,} item{'s' * (n_items != 1)}"
    if kind == "undo":
        return f"undo of event {undoes}"
    if kind == "relabel":
        changes = label_changes(n_items, before, after)
        if "keywords" not in after and all(old == new for old, new, _ in changes):
            return _confirmed([(_name(new), n) for _, new, n in changes], items)
        changes_in_words = [
            f"{_name(old)} → {_name(new)}" if old != new else f"still {_name(new)}" for old, new, _ in changes
        ]
        words = _words(after)
        besides = "" if "keywords" not in after else f", keywords: {words}" if words else " and set their keywords"
        return f"relabel {items} {_named(changes_in_words, [n for *_, n in changes])}{besides}"
    if kind == "add":
        counts = Counter(after.get("label", []))
        if not any(counts):
            return f"add {items} without a label"
        most = counts.most_common()
        return f"add {items}: {_counted([_name(label) for label, _ in most], [n for _, n in most])}"
    if kind == "keywords":
        words = _words(after)
        return f"set keywords of {items}" + (f": {words}" if words else "")
    if kind == "settings":
        new = [name for name, value in after["settings"].items() if before["settings"].get(name, ()) != value]
        return f"set {', '.join(sorted(new)) or 'nothing new'}"
    if kind == "taxonomy":
        tree = after["taxonomy"]
        edges = tree["edges"] if isinstance(tree, dict) else tree  # with the words of its nodes, or without
        return "remove the taxonomy" if edges is None else f"set a taxonomy of {len(edges):,} edges"
    if kind == "keep":
        kept = after["keep"]["kind"]
        return KEPT.get(kept, f"keep {kept}")
    return f"{kind} {items}"


def _confirmed(labels: Sequence[tuple[str, int]], items: str) -> str:
    """Labels that were given again as they were: "confirm 'owl' of 1 item"."""
    if len(labels) == 1:
        return f"confirm {labels[0][0]} of {items}"
    return f"confirm {_counted([label for label, _ in labels], [n for _, n in labels])}"


def _name(label: Any) -> str:
    return "no label" if label is None else repr(label)


def _words(after: dict[str, Any]) -> str:
    """The keywords that all items got; empty where they differ."""
    texts = {", ".join(words or []) or "none" for words in after.get("keywords", [])}
    return texts.pop() if len(texts) == 1 else ""


def _named(names: Sequence[str], counts: Sequence[int]) -> str:
    return names[0] if len(names) == 1 else f"({_counted(names, counts)})"


def _counted(names: Sequence[str], counts: Sequence[int]) -> str:
    shown = [f"{n:,} {each}" for each, n in zip(names[:NAMED], counts, strict=False)]
    rest = sum(counts[NAMED:])
    return ", ".join([*shown, *([f"{rest:,} more"] if rest else [])])
