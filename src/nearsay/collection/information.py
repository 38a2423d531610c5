"""What a collection is, in plain values: items, labels, how they are compared, accuracy and size."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.collection.ingest.image_description import SETTING
from nearsay.collection.live import LiveCollection


def label_figures(numbers: np.ndarray, alive: np.ndarray, confirmed: np.ndarray) -> dict[str, int]:
    """How many items have a label, a confirmed one, none; and how many labels there are, by arrays of the rows."""
    labeled = alive & (numbers >= 0)
    return {
        "n_items": int(np.count_nonzero(alive)),
        "n_labeled": int(np.count_nonzero(labeled)),
        "n_waiting": int(np.count_nonzero(labeled & ~confirmed)),
        "n_classes": len(np.unique(numbers[labeled])),
    }


def collection_information(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The facts about a collection that need no computing."""
    with LiveCollection.open(path, read_only=True) as collection:
        learned, store = collection.learned, collection.store
        record = store.settings.get(SETTING) or {}
        last = next(iter(collection.history(collection.version - 1)), None) if collection.version else None
        by = record.get("by") or ([] if learned is None else learned.views)
        return {
            "kind": "rows" if collection.kind == "numbers" else collection.kind,
            **label_figures(*collection.labels_by_row()[2:]),
            "n_columns": collection.n_columns,
            "compared_by": ", ".join(map(str, by)) or f"{collection.n_columns} columns",
            "taxonomy": store.taxonomy is not None,
            "learned": None if learned is None else str(learned),
            "accuracy": None if learned is None else learned.record,
            "version": collection.version,
            "changed": None if last is None else last.when[:19].replace("T", " "),
            "n_bytes": sum(each.stat().st_size for each in Path(path).rglob("*") if each.is_file()),
        }
