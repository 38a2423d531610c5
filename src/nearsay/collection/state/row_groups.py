"""Which items of a collection never judge each other: those of one group, and items for validation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from nearsay.collection.store.reader import ReadableStore
from nearsay.core.settings import check_choice
from nearsay.errors import InputError
from nearsay.posterior.base import FRESH

# The setting that names the detail by which items are grouped; "auto" takes near-duplicates.
GROUP_BY = "group_by"
NO_ROWS = np.empty(0, np.int64)
# Items that came with a machine's label, and have one now that a person confirmed or corrected.
ANSWERED = "answered"


def check_group_by(group_by: Any) -> str:
    """The name of a detail.

    >>> check_group_by(3)
    Traceback (most recent call last):
    nearsay.errors.InputError: group_by is the name of a detail of the items, such as "patient", or "auto"; got 3.
    """
    if not isinstance(group_by, str) or not group_by.strip():
        raise InputError(
            f'group_by is the name of a detail of the items, such as "patient", or "auto"; got {group_by!r}.'
        )
    return group_by


def validation_rows(validation: Sequence[str] | str | None, store: ReadableStore, votes: np.ndarray) -> np.ndarray:
    """The rows that vote among those named as in ``LiveCollection.learn``, in order."""
    if validation is None:
        return NO_ROWS
    if isinstance(validation, str):
        check_choice("validation", validation, (ANSWERED,), " You can also pass a list of ids.")
        rows = np.array(store.rows_added_by_machines(), np.int64)
        missing = "no machine's label was confirmed or corrected yet"
    else:
        rows = np.unique(np.array([store.row_of(id) for id in validation], np.int64))
        missing = "none of those named has a label that votes"
    rows = np.asarray(rows[votes[rows]])
    if not len(rows):
        raise InputError(f"There are no items for validation: {missing}. Label some first, or leave validation out.")
    return rows


def groups_by_detail(details: Iterable[dict[str, Any] | None], name: str) -> np.ndarray:
    """The group of each item by one of its details; an item that lacks it is in a group of its own.

    >>> groups_by_detail([{"who": "ann"}, None, {"who": "bob"}, {"who": "ann"}], "who")
    array([0, 1, 2, 0])
    """
    numbers: dict[int | str, int] = {}
    values = (None if each is None else each.get(name) for each in details)
    keys = (row if value is None else json.dumps(value, sort_keys=True) for row, value in enumerate(values))
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)


def with_validation(groups: np.ndarray | None, validation: np.ndarray, n_rows: int) -> np.ndarray | None:
    """The group of each row where some rows are for validation: these are asked about all others.

    >>> with_validation(None, np.array([1]), 3)
    array([ 0, -1,  2])
    """
    validation = validation[validation < n_rows]
    if not len(validation):
        return groups
    together: np.ndarray = np.arange(n_rows) if groups is None else groups.copy()
    together[validation] = FRESH
    return together
