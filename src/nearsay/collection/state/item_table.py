"""The items of a collection as a table: a plain dict for each, or a DataFrame."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearsay.collection.store.items import Items
from nearsay.errors import require

COLUMNS = ("id", "label", "keywords", "confirmed", "by", "details")


def item_dicts(items: Items) -> list[dict[str, Any]]:
    """What is known of each item, in the order they were added; those forgotten are left out."""
    rows = np.flatnonzero(items.alive)
    every = (items.ids, items.labels, items.keywords, items.confirmed, items.by, items.details)
    columns = [column[rows].tolist() for column in every]
    return [dict(zip(COLUMNS, values, strict=True)) for values in zip(*columns, strict=True)]


def frame_of(items: Items) -> Any:
    """The same as a pandas DataFrame; keywords are lists in it, details dicts."""
    pandas = require("pandas", "pandas")
    return pandas.DataFrame(item_dicts(items), columns=list(COLUMNS))
