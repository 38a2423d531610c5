"""The map: every item a point, beside those that are like it. The points travel as plain numbers, not as text."""

from __future__ import annotations

from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nearsay.errors import unknown_name
from nearsay.web.content.item_filters import counts_by_label, labels_now
from nearsay.web.content.map_layout import LAYOUTS, check_not_too_many, without_form
from nearsay.web.content.served_collection import Served
from nearsay.web.pages.browsing import SURE_UP_TO, _offered, looks_of
from nearsay.web.rendering import respond, served_by, wants_json

# Labels in the table beneath; the twin has all.
LABELS_LISTED = 200
NO_LABEL = 65_535


async def show(request: Request) -> Response:
    """The page around the map: how many items each label has, and where the points are to be had."""
    served, layout = served_by(request), _layout(request)
    data = await served.run(_about, served, layout, 10**9 if wants_json(request) else LABELS_LISTED)
    return await respond(request, "map.html", data)


def _about(served: Served, layout: str, most: int) -> dict[str, Any]:
    labels = labels_now(served.collection)
    if layout == "neighbors":
        check_not_too_many(int(np.count_nonzero(labels.alive)))
    return {
        "layout": layout, "layouts": LAYOUTS, "points": f"/map.bin?layout={layout}", "rows": len(labels.alive),
        "version": labels.version, "sure_up_to": SURE_UP_TO, **counts_by_label(labels, most),
        "offered": _offered(served, labels), "seen_as": _seen_as(served, layout),
    }  # fmt: skip


def _seen_as(served: Served, layout: str) -> str | None:
    """A word where the overview does not follow the metric."""
    metrics = without_form(served.collection.store.settings) if layout == "components" else []
    if not metrics:
        return None
    return f"{' and '.join(metrics)} cannot be drawn on a plane at once: this overview is by Euclidean distance."


async def points(request: Request) -> Response:
    """All points: x and y of every row as float32, then the number of its label as uint16, all little-endian.

    Numbers are places in the list of labels of ``/map.json`` of the same version; 65,535 is no label. A row that was
    forgotten has no place (NaN).
    """
    served, layout = served_by(request), _layout(request)
    placed = await served.run(looks_of(request).maps[layout].get)
    if placed is None:
        return Response("The map is being computed.", 202, {"Retry-After": "1"})
    content, version = await served.run(_points, served, placed)
    headers = {"X-Version": str(version), "X-Rows": str(len(content) // 10)}
    return Response(content, media_type="application/octet-stream", headers=headers)


def _points(served: Served, placed: np.ndarray) -> tuple[bytes, int]:
    labels = labels_now(served.collection)
    numbers = np.full(len(placed), NO_LABEL, "<u2")
    known = labels.numbers[: len(placed)]
    has = (known >= 0) & (known < NO_LABEL)
    numbers[has] = known[has]
    return placed.astype("<f4", copy=False).tobytes() + numbers.tobytes(), labels.version


def _layout(request: Request) -> str:
    asked = request.query_params.get("layout") or LAYOUTS[0]
    if asked not in LAYOUTS:
        raise unknown_name("layout", asked, LAYOUTS)
    return asked


ROUTES = [
    Route("/map", show, methods=["GET"]),
    Route("/map.json", show, methods=["GET"]),
    Route("/map.bin", points, methods=["GET"]),
]
