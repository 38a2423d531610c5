"""Checks of new items before anything is written: ids, labels, keywords, details and vectors.

Ids, labels, keywords, nodes and authors are *names*, and one rule holds for all of them (``name_fault``): text of at
most 4,096 characters without control characters, which numpy arrays can lose and terminals may obey. An empty label is
no label.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from nearsay.core.arrays import as_rows
from nearsay.errors import InputError, unknown_name

AUTHORS = ("person", "machine", "import")
# The largest number of a vector. float32 holds up to 1e38, but such a number mostly marks a missing value, and learned
# maps multiply.
LARGEST = 1e30
# In characters. Arrays of names are as wide as the longest one.
LONGEST_NAME = 4096
# Characters of an invalid name that the error repeats.
NAME_SHOWN = 40
# In shorter names one letter makes another word.
SHORTEST_TYPED = 5
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


def name_fault(name: str) -> str | None:
    """Why a text cannot be an id, a label, a keyword or a node; None where it can.

    >>> name_fault("oak"), name_fault("oak\\0"), name_fault("oak" * 2000)
    (None, 'holds the control character U+0000', 'has 6,000 characters; at most 4,096 are kept')
    """
    if len(name) > LONGEST_NAME:
        return f"has {len(name):,} characters; at most {LONGEST_NAME:,} are kept"
    if name.isprintable():
        return None
    if (match := CONTROL.search(name)) is not None:
        return f"holds the control character U+{ord(match[0]):04X}"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "holds bytes that are not UTF-8 text"
    return None


def shown_name(name: str) -> str:
    """The name, cut where it is too long to be one."""
    return name if len(name) <= LONGEST_NAME else f"{name[:NAME_SHOWN]}…"


def checked_ids(ids: Any) -> list[str]:
    """A list of different strings, at least one."""
    if isinstance(ids, str):
        raise InputError(f"ids must be a list of strings; got the string {ids!r}. For one item pass [{ids!r}].")
    checked = [_text(one, "An id") for one in _listed(ids, "ids")]
    if not checked:
        raise InputError("ids is empty; at least one item is needed.")
    if not all(map(str.strip, checked)):
        empty = next(place for place, one in enumerate(checked) if not one.strip())
        raise InputError(f"An id must not be empty; that of item {empty} is.")
    if len(set(checked)) < len(checked):
        earlier: set[str] = set()
        twice = next(one for one in checked if one in earlier or earlier.add(one))  # type: ignore[func-returns-value]
        raise InputError(f"The id {twice!r} is given twice. Each item can be named once per call.")
    return checked


def checked_labels(labels: Any, n: int) -> list[str | None]:
    """A string or None for each of ``n`` items; an empty label is None."""
    texts = (None if one is None else _text(one, "A label") for one in _aligned(labels, n, "labels"))
    return [one if one and one.strip() else None for one in texts]


def checked_keywords(keywords: Any, n: int) -> list[list[str] | None]:
    """A list of strings or None for each of ``n`` items, without empty ones."""
    checked: list[list[str] | None] = []
    for words in _aligned(keywords, n, "keywords") if keywords is not None else ():
        if isinstance(words, str):
            raise InputError(f"The keywords of an item must be a list of strings; got the string {words!r}.")
        texts = None if words is None else [_text(word, "A keyword") for word in _listed(words, "keywords")]
        checked.append(None if texts is None else [word for word in texts if word.strip()])
    return checked or [None] * n


def checked_details(details: Any, n: int) -> list[dict[str, Any] | None]:
    """A dict of plain JSON values or None for each of ``n`` items."""
    if details is None:
        return [None] * n
    checked = _aligned(details, n, "details")
    for one in checked:
        if one is not None and not isinstance(one, dict):
            raise InputError(f"The details of an item must be a dict or None; got {one!r}.")
    return [None if one is None else as_json(one, "details") for one in checked]


def checked_vectors(X: Any, ids: list[str], n_columns: int) -> np.ndarray:
    """A row of float32 numbers for each of these ids, none beyond ``LARGEST``."""
    check_range(X, ids)
    rows = as_rows(X)
    if rows.shape != (len(ids), n_columns):
        raise InputError(
            f"X must have one row of {n_columns} columns for each of the {len(ids):,} ids; got shape {rows.shape}."
        )
    return np.ascontiguousarray(rows, dtype=np.float32)


def check_range(X: Any, ids: Sequence[str] | None = None) -> None:
    """Refuse rows with a number beyond ``LARGEST``, or with none (NaN); ``ids`` name them in the error."""
    rows = np.asarray(X)
    if rows.ndim != 2 or rows.dtype.kind != "f" or not rows.size or max(rows.max(), -rows.min()) <= LARGEST:
        return
    row, column = np.argwhere(~(np.abs(rows) <= LARGEST))[0]
    name = f"The item {ids[row]!r}" if ids is not None and len(ids) == len(rows) else f"Row {row}"
    raise InputError(
        f"{name} holds {rows[row, column]:g} in column {column}; a collection takes numbers up to {LARGEST:g}."
        " Leave it out if this marks a missing value, or scale the column."
    )


def checked_author(by: str, who: str) -> tuple[str, str]:
    """One of ``AUTHORS``, and a name."""
    if by not in AUTHORS:
        raise unknown_name("kind of author", by, AUTHORS)
    return by, _text(who, "who")


def checked_flag(confirmed: Any) -> bool:
    """True or False only: the text "no" would be true."""
    if not isinstance(confirmed, bool | np.bool_):
        raise InputError(f"confirmed must be True or False; got {confirmed!r}.")
    return bool(confirmed)


def checked_edges(edges: Any) -> list[list[str]] | None:
    """(parent, child) pairs of strings, as lists, or None."""
    if edges is None:
        return None
    pairs = [list(pair) if isinstance(pair, list | tuple) else [] for pair in _listed(edges, "edges")]
    if any(len(pair) != 2 for pair in pairs):
        raise InputError("A taxonomy is a list of (parent, child) pairs of strings, or None for no taxonomy.")
    checked = [[_text(node, "A node") for node in pair] for pair in pairs]
    if not all(node.strip() for pair in checked for node in pair):
        raise InputError("A node must not be empty: an empty label is no label.")
    return checked


def checked_words(words: Any, edges: Any) -> dict[str, str]:
    """{node: word}, both strings; words without a taxonomy name nothing."""
    if words is None:
        return {}
    if not isinstance(words, Mapping) or (words and edges is None):
        raise InputError(f"The words of a taxonomy are a dict {{node: word}} in addition to its edges; got {words!r}.")
    return {_text(node, "A node"): _text(word, "A word") for node, word in words.items()}


def as_json(value: Any, name: str) -> Any:
    """A copy with nothing but what JSON gives back: dicts with string keys, lists, strings, numbers, booleans, None."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        text.encode()
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name} must hold plain JSON values (strings, finite numbers, lists, dicts): {error}."
        ) from error
    return json.loads(text)


def _listed(values: Any, name: str) -> list[Any]:
    if isinstance(values, str | bytes | dict) or not isinstance(values, Iterable):
        raise InputError(f"{name} must be a list; got {values!r}.")
    return list(values)


def _aligned(values: Any, n: int, name: str) -> list[Any]:
    """One for each item; nothing given is None for all."""
    if values is None:
        return [None] * n
    listed = _listed(values, name)
    if len(listed) != n:
        raise InputError(f"{name} must be as many as ids: {n:,}; got {len(listed):,}.")
    return listed


def _text(value: Any, what: str) -> str:
    if type(value) is str and value.isprintable() and len(value) <= LONGEST_NAME:  # the fast path
        return value
    if not isinstance(value, str):
        raise InputError(f"{what} must be a string; got {value!r} ({type(value).__name__}). Write it with str().")
    fault = name_fault(value)
    if fault is not None:
        cut = "…" if len(value) > NAME_SHOWN else ""
        raise InputError(f"{what} {fault}: {value[:NAME_SHOWN]!r}{cut}. Correct it first.")
    return str(value)


def check_no_typo(label: str, known: Iterable[str]) -> None:
    """Refuse a new label that is one typing error away from one that is there.

    >>> check_no_typo("Animals and Nature", ["Animal & Nature", "Food"])
    >>> check_no_typo("Animls", ["Animals"])
    Traceback (most recent call last):
    nearsay.errors.InputError: 'Animls' is a new label. Did you mean 'Animals'? Pass new_label=True to take it as it is.
    """
    labels = list(known)
    if label in labels:
        return
    near = next((each for each in labels if is_typo(label, each)), None)
    if near is not None:
        raise InputError(f"{label!r} is a new label. Did you mean {near!r}? Pass new_label=True to take it as it is.")


def is_typo(one: str, other: str) -> bool:
    """Whether two names differ by case, spaces, or one letter that is wrong, missing, too much or swapped.

    Digits tell names apart, and so does a letter in names of fewer than five.

    >>> is_typo("owls", "Owls"), is_typo("animlas", "animals"), is_typo("class 1", "class 2"), is_typo("oak", "oat")
    (True, True, False, False)
    """
    a, b = ("".join(name.casefold().split()) for name in (one, other))
    if a == b:
        return True
    if min(len(a), len(b)) < SHORTEST_TYPED or abs(len(a) - len(b)) > 1:
        return False
    start = next((place for place, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    a, b = a[start:], b[start:]
    if any(mark.isdigit() for mark in (a[:1] + b[:1])):
        return False
    swapped = len(a) > 1 and len(b) > 1 and a[0] == b[1] and a[1] == b[0] and a[2:] == b[2:]
    return a[1:] == b[1:] or a[1:] == b or a == b[1:] or swapped
