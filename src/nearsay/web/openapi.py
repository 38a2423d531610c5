"""What can be asked of the page by other programs: an OpenAPI document made from the routes and one table.

Every route that ends in ``.json`` is in it. The table says what a route takes beside
what its path and its first line of documentation say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from nearsay.web.content.item_filters import STATES
from nearsay.web.content.map_layout import LAYOUTS
from nearsay.web.rendering import respond

TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "integer", "minimum": 1}
SHARE: dict[str, Any] = {"type": "number", "minimum": 0, "maximum": 1}
FILE: dict[str, Any] = {"type": "string", "format": "binary"}
PLACE: dict[str, Any] = {"type": "integer", "minimum": 0}
ROWS: dict[str, Any] = {"type": "string", "pattern": "^[0-9]{1,15}(,[0-9]{1,15})*$"}
ERRORS = {
    "400": "What was given cannot be used; ``error`` says why.",
    "403": "No token, a wrong one, or a request that another site made.",
    "404": "There is no such page.",
    "408": "What was sent came too slowly.",
    "409": "Changed since it was shown, or several items would go and nobody is sure; nothing was overwritten.",
    "413": "Too large.",
    "503": "Too many ask at once, or the collection cannot be used right now.",
}


@dataclass(frozen=True)
class Takes:
    """What a route takes in its address, and in the form that is sent to it."""

    query: dict[str, dict[str, Any]]
    form: dict[str, dict[str, Any]]
    needed: Sequence[str] = ()


def asked(**query: dict[str, Any]) -> Takes:
    """Taken from the address."""
    return Takes(query, {})


def sent(*needed: str, **form: dict[str, Any]) -> Takes:
    """Taken from a form; those named first must be there."""
    return Takes({}, form, needed)


def one_of(*words: str) -> dict[str, Any]:
    """One of these words."""
    return {"type": "string", "enum": list(words)}


def several(kind: dict[str, Any]) -> dict[str, Any]:
    """As many as one likes."""
    return {"type": "array", "items": kind}


CHANGES = one_of("relabel", "keywords", "confirm", "forget")
HELD_OUT: dict[str, Any] = {"type": "number", "minimum": 0.05, "maximum": 0.5}
FROM = Takes({"from": PLACE}, {})
TAKES: dict[tuple[str, str], Takes] = {
    ("GET", "/ask.json"): asked(id=TEXT, question=TEXT, accuracy=SHARE, event=NUMBER),
    ("POST", "/ask.json"): sent(picture=FILE, numbers=TEXT),
    ("GET", "/find.json"): asked(q=TEXT),
    ("GET", "/labels.json"): asked(q=TEXT),
    ("POST", "/change.json"): sent("id", id=TEXT, do=CHANGES, label=TEXT, keywords=TEXT, state=TEXT, back=TEXT),
    ("POST", "/undo.json"): sent(event=NUMBER, version=NUMBER, sure=one_of("yes"), back=TEXT),
    ("GET", "/items.json"): asked(
        label=TEXT, node=TEXT, state=one_of(*STATES), below=SHARE, differs=one_of("1"), after=PLACE, rows=ROWS,
        row=PLACE, selected=one_of("1"),
    ),
    ("GET", "/mistakes.json"): FROM,
    ("GET", "/duplicates.json"): FROM,
    ("GET", "/next.json"): FROM,
    ("POST", "/label-many.json"): sent(
        "label", id=several(TEXT), rows=ROWS, label=TEXT, sure=one_of("yes"), version=NUMBER, back=TEXT
    ),
    ("GET", "/map.json"): asked(layout=one_of(*LAYOUTS)),
    ("GET", "/how-good.json"): asked(accuracy=SHARE, holdout=HELD_OUT),
    ("POST", "/how-good.json"): sent(accuracy=SHARE, holdout=HELD_OUT),
    ("POST", "/batch.json"): sent("files", files=several(FILE), keep=one_of("yes", "no")),
    ("GET", "/review.json"): asked(batch=TEXT, last=NUMBER),
    ("POST", "/review.json"): sent(
        batch=TEXT, id=TEXT, do=one_of("accept", "correct", "undo"), label=TEXT, state=TEXT, event=NUMBER
    ),
}  # fmt: skip


def document(routes: Iterable[BaseRoute]) -> dict[str, Any]:
    """The OpenAPI document of the routes that answer in JSON."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if isinstance(route, Route) and route.path.endswith(".json"):
            for method in sorted((route.methods or set()) - {"HEAD"}):
                path = re.sub(r":[a-z]+}", "}", route.path)
                paths.setdefault(path, {})[method.lower()] = _operation(method, path, route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "nearsay", "version": "1", "description": "A collection that is asked and corrected."},
        "security": [{"token": []}],
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "paths": paths,
    }


def _operation(method: str, path: str, route: Route) -> dict[str, Any]:
    takes = TAKES.get((method, path), Takes({}, {}))
    named = [_parameter(name, "path", TEXT) for name in re.findall(r"{(\w+)}", path)]
    told: dict[str, Any] = {
        "summary": (route.endpoint.__doc__ or path).strip().splitlines()[0],
        "parameters": [*named, *(_parameter(name, "query", kind) for name, kind in takes.query.items())],
        "responses": {
            "200": _json("What the page shows, as data.", {"type": "object"}),
            "202": _json("It is being computed; ask again.", {"type": "object"}),
            **{status: _json(why, {}) for status, why in ERRORS.items()},
        },
    }
    if takes.form:
        schema = {"type": "object", "properties": takes.form, "required": list(takes.needed)}
        has_files = any(FILE in (kind, kind.get("items")) for kind in takes.form.values())
        kind = "multipart/form-data" if has_files else "application/x-www-form-urlencoded"
        told["requestBody"] = {"required": True, "content": {kind: {"schema": schema}}}
    return told


def _parameter(name: str, where: str, kind: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": where, "required": where == "path", "schema": kind}


def _json(why: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": why, "content": {"application/json": {"schema": schema}}}


async def openapi(request: Request) -> Response:
    """This document."""
    return await respond(request, "", document(request.app.routes))


ROUTES = [Route("/openapi.json", openapi, methods=["GET"])]
