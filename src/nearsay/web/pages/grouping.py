"""Groups: items that lie together, with their most typical ones, labeled at a stroke."""

from __future__ import annotations

from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from nearsay.web.content.item_filters import RowLabels, row_labels
from nearsay.web.content.served_collection import ServedCollection, as_listed
from nearsay.web.pages.browsing import LABELS_OFFERED, cached, caches_of, or_later
from nearsay.web.parameters import Takes, twins
from nearsay.web.rendering import served_by
from nearsay.web.schema import PLACE, record, several
from nearsay.web.shapes import LABEL, LISTED, SHOWN_ITEM, VERSION

CARDS, TYPICAL = 24, 6
GROUPS = Takes(query={"from": PLACE})


async def groups(request: Request) -> Response:
    """Groups that have items without a label, the largest first, a page at a time."""
    served, first = served_by(request), GROUPS.read_query(request)["from"] or 0
    rows, why = await cached(request, caches_of(request).groups, [])
    data = {**await served.run(_groups, served, rows, first), "why_none": why}
    return await or_later(request, "groups.html", data, rows is None)


def _groups(served: ServedCollection, rows: list[np.ndarray] | None, first: int) -> dict[str, Any]:
    labels = row_labels(served.collection)
    left = [
        (number, group, unlabeled)
        for number, group in enumerate(rows or [])
        if len(unlabeled := _unlabeled(labels, group)) > 0
    ]
    cards = [_card(served, labels, *each) for each in left[first : first + CARDS]]
    served.add_sketches([item for card in cards for item in card["typical"]])
    return {
        "groups": cards,
        "total": len(rows or []),
        "left": len(left),
        "first": first,
        "next": f"?from={first + CARDS}" if first + CARDS < len(left) else None,
        "computing": rows is None,
        "version": labels.version,
        "labels": served.labels(labels, LABELS_OFFERED),
    }


def _unlabeled(labels: RowLabels, rows: np.ndarray) -> np.ndarray:
    """Those of the rows that live and have no label that somebody confirmed."""
    known = rows[rows < len(labels.alive)]
    return np.asarray(known[labels.alive[known] & ((labels.numbers[known] < 0) | ~labels.confirmed[known])])


def _card(
    served: ServedCollection, labels: RowLabels, number: int, rows: np.ndarray, unlabeled: np.ndarray
) -> dict[str, Any]:
    alive = rows[labels.alive[rows]]
    items = [as_listed(item) for item in served.collection.store.items_of(alive[:TYPICAL].tolist())]
    named = labels.numbers[np.setdiff1d(alive, unlabeled)]
    counts = [
        {"label": labels.names[place], "items": int(np.count_nonzero(named == place))} for place in np.unique(named)
    ]
    return {
        "number": number, "items": len(alive), "unlabeled": unlabeled.tolist(), "typical": items,
        "labels": sorted(counts, key=lambda each: -each["items"]),
    }  # fmt: skip


GROUP = record(
    {
        "number": PLACE, "items": PLACE, "unlabeled": several(PLACE), "typical": several(SHOWN_ITEM),
        "labels": several(record({"label": LABEL, "items": PLACE})),
    },
    title="Group",
)  # fmt: skip
GIVES = record({"groups": several(GROUP), "left": PLACE, "version": VERSION, **LISTED})

ROUTES = twins("/groups", groups, GROUPS, gives=GIVES)
