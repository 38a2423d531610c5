"""The map: every item a point near similar ones. Points are sent as binary numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from nearsay.web.content.item_filters import counts_by_label, row_labels
from nearsay.web.content.map_layout import LAYOUTS, check_not_too_many, metrics_without_form
from nearsay.web.content.served_collection import ServedCollection
from nearsay.web.pages.browsing import LABELS_OFFERED, SURE_UP_TO, caches_of
from nearsay.web.parameters import PageRoute, Takes, twins
from nearsay.web.rendering import respond, served_by, wants_json
from nearsay.web.schema import PLACE, one_of, record, several, text
from nearsay.web.shapes import LABEL, LABELS, NOTE, VERSION

# Labels in the table below the map; the JSON twin has all.
LABELS_LISTED = 200
NO_LABEL = 65_535
COLORS = ("labels", "groups")
MAP = Takes(query={"layout": one_of(*LAYOUTS), "color": one_of(*COLORS)})


async def show(request: Request) -> Response:
    """The page around the map: how many items each label has, and the address of the points."""
    served = served_by(request)
    layout, color = _settings(request)
    grouped = color == "groups" and len(served.collection) > 0
    groups = await served.run(caches_of(request).groups.get) if grouped else []
    most = 10**9 if wants_json(request) else LABELS_LISTED
    return await respond(request, "map.html", await served.run(_about, served, layout, color, groups or [], most))


def _settings(request: Request) -> tuple[str, str]:
    """The layout, and what points are colored by: by groups where nothing has a label."""
    query, collection = MAP.read_query(request), served_by(request).collection
    by_default = COLORS[0] if row_labels(collection).names or not len(collection) else COLORS[1]
    return query["layout"] or LAYOUTS[0], query["color"] or by_default


def _about(served: ServedCollection, layout: str, color: str, groups: list[np.ndarray], most: int) -> dict[str, Any]:
    labels = row_labels(served.collection)
    if layout == "neighbors":
        check_not_too_many(int(np.count_nonzero(labels.alive)))
    return {
        "layout": layout, "layouts": LAYOUTS, "color": color, "colors": COLORS,
        "points": f"/map.bin?layout={layout}&color={color}", "rows": len(labels.alive),
        "groups": [len(group) for group in groups[:most]], "version": labels.version,
        "sure_up_to": SURE_UP_TO, **counts_by_label(labels, most),
        "offered": served.labels(labels, LABELS_OFFERED), "seen_as": _note_on_metric(served, layout),
    }  # fmt: skip


def _note_on_metric(served: ServedCollection, layout: str) -> str | None:
    """A sentence where the overview does not follow the metric."""
    metrics = metrics_without_form(served.collection.store.settings) if layout == "components" else []
    if not metrics:
        return None
    return f"{' and '.join(metrics)} cannot be drawn on a plane directly: this overview uses Euclidean distance."


async def points(request: Request) -> Response:
    """All points: x and y of every row as float32, then the number of its label as uint16, all little-endian.

    Numbers are places in the list of labels (or of groups) of ``/map.json`` of the same version; 65,535 is none. A
    forgotten row has no place (NaN).
    """
    served, caches = served_by(request), caches_of(request)
    layout, color = _settings(request)
    placed = await served.run(caches.maps[layout].get)
    groups = await served.run(caches.groups.get) if color == "groups" else []
    if placed is None or groups is None:
        return Response("The map is being computed.", 202, {"Retry-After": "1"})
    content, version = await served.run(_points, served, placed, groups if color == "groups" else None)
    headers = {"X-Version": str(version), "X-Rows": str(len(content) // 10)}
    return Response(content, media_type="application/octet-stream", headers=headers)


def _points(served: ServedCollection, placed: np.ndarray, groups: list[np.ndarray] | None) -> tuple[bytes, int]:
    labels = row_labels(served.collection)
    numbers = np.full(len(placed), NO_LABEL, "<u2")
    known = labels.numbers[: len(placed)] if groups is None else np.full(len(placed), -1)
    for number, rows in enumerate(groups or ()):
        known[rows[rows < len(known)]] = number
    has = (known >= 0) & (known < NO_LABEL)
    numbers[has] = known[has]
    return placed.astype("<f4", copy=False).tobytes() + numbers.tobytes(), labels.version


GIVES = record(
    {
        "layout": one_of(*LAYOUTS), "layouts": several(one_of(*LAYOUTS)), "color": one_of(*COLORS),
        "colors": several(one_of(*COLORS)), "points": text("/map.bin?layout=components&color=labels"), "rows": PLACE,
        "groups": several(PLACE), "version": VERSION, "sure_up_to": PLACE, "unlabeled": PLACE, "other_labels": PLACE,
        "labels": several(record({"label": LABEL, "items": PLACE})), "in_other_labels": PLACE, "offered": LABELS,
        "seen_as": NOTE,
    }
)  # fmt: skip

ROUTES = [*twins("/map", show, MAP, gives=GIVES), PageRoute("/map.bin", points, MAP)]
