"""An OpenAPI document of the JSON addresses, made from the routes, what they take and what they give."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from nearsay.web.parameters import PageRoute
from nearsay.web.rendering import respond
from nearsay.web.schema import FILE, Schema, example_of, record, text, whole

ERRORS = {
    "400": "A parameter cannot be used; ``error`` says why.",
    "403": "No token, a wrong one, or a request made by another site.",
    "404": "No such page.",
    "408": "The body arrived too slowly.",
    "409": "Changed since it was shown, or several items would go without ``sure``; nothing was changed.",
    "413": "Too large.",
    "503": "The server is busy, or the collection cannot be used right now.",
}
ERROR = record(
    {"error": text("accuracy must be a number from 0 to 1; got 'x'.")},
    {"event": whole(1), "n_items": whole(1), "back": text("/history")},  # of an undo that needs ``sure``
    "Error",
)


def document(routes: Iterable[BaseRoute]) -> dict[str, Any]:
    """The OpenAPI document of the routes that answer in JSON."""
    paths: dict[str, dict[str, Any]] = {}
    named: dict[str, Schema] = {}
    for route in routes:
        if isinstance(route, PageRoute) and route.for_machines:
            for method in sorted((route.methods or set()) - {"HEAD"}):
                paths.setdefault(route.path, {})[method.lower()] = _operation(route, named)
    return {
        "openapi": "3.1.0",
        "info": {"title": "nearsay", "version": "1", "description": "Query and correct a labeled collection."},
        "security": [{"token": []}],
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}, "schemas": named},
        "paths": paths,
    }


def _operation(route: PageRoute, named: dict[str, Schema]) -> dict[str, Any]:
    takes, gives = route.takes, route.gives
    in_path = [_parameter(name, "path", text("no-such-key")) for name in re.findall(r"{(\w+)}", route.path)]
    good = {str(status): _json("The data of the page.", gives, named) for status in route.statuses}
    if gives.get("properties", {}).keys() & {"computing", "job"}:
        good["202"] = _json("Being computed; try again.", gives, named)
    operation: dict[str, Any] = {
        "summary": (route.endpoint.__doc__ or route.path).strip().splitlines()[0],
        "parameters": [*in_path, *(_parameter(name, "query", schema) for name, schema in takes.query.items())],
        "responses": {**good, **{status: _json(why, ERROR, named) for status, why in ERRORS.items()}},
    }
    if takes.form or takes.body:
        schema = takes.body or {"type": "object", "properties": {**takes.form}, "required": list(takes.needed)}
        has_files = any(FILE in (each, each.get("items")) for each in takes.form.values())
        form = "multipart/form-data" if has_files else "application/x-www-form-urlencoded"
        media = ["application/json"] if takes.body else [form, "application/json"]
        content = _media(schema, named)
        operation["requestBody"] = {"required": True, "content": dict.fromkeys(media, content)}
    return operation


def _parameter(name: str, place: str, schema: Schema) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": schema}


def _json(why: str, schema: Schema, named: dict[str, Schema]) -> dict[str, Any]:
    media = schema.get("contentMediaType", "application/json")
    return {"description": why, "content": {media: _media(schema, named)}}


def _media(schema: Schema, named: dict[str, Schema]) -> dict[str, Any]:
    return {"schema": _by_name(schema, named), "example": example_of(schema)}


def _by_name(schema: Any, named: dict[str, Schema]) -> Any:
    """The schema with those that have a title by name, which are collected."""
    if isinstance(schema, list):
        return [_by_name(each, named) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: value if name == "examples" else _by_name(value, named) for name, value in schema.items()}
    if not isinstance(made.get("title"), str):
        return made
    named[made["title"]] = made
    return {"$ref": f"#/components/schemas/{made['title']}"}


async def openapi(request: Request) -> Response:
    """This document."""
    return await respond(request, "", document(request.app.routes))


ROUTES = [PageRoute("/openapi.json", openapi)]
