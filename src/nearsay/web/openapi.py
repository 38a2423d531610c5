"""An OpenAPI document of the JSON addresses, made from the routes and their parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from nearsay.web.parameters import FILE, PageRoute
from nearsay.web.rendering import respond

ERRORS = {
    "400": "A parameter cannot be used; ``error`` says why.",
    "403": "No token, a wrong one, or a request made by another site.",
    "404": "No such page.",
    "408": "The body arrived too slowly.",
    "409": "Changed since it was shown, or several items would go without ``sure``; nothing was changed.",
    "413": "Too large.",
    "503": "The server is busy, or the collection cannot be used right now.",
}


def document(routes: Iterable[BaseRoute]) -> dict[str, Any]:
    """The OpenAPI document of the routes that answer in JSON."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if isinstance(route, PageRoute) and route.path.endswith(".json"):
            for method in sorted((route.methods or set()) - {"HEAD"}):
                paths.setdefault(route.path, {})[method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "nearsay", "version": "1", "description": "Query and correct a labeled collection."},
        "security": [{"token": []}],
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "paths": paths,
    }


def _operation(route: PageRoute) -> dict[str, Any]:
    takes, text = route.takes, {"type": "string"}
    in_path = [_parameter(name, "path", text) for name in re.findall(r"{(\w+)}", route.path)]
    operation: dict[str, Any] = {
        "summary": (route.endpoint.__doc__ or route.path).strip().splitlines()[0],
        "parameters": [*in_path, *(_parameter(name, "query", kind.schema) for name, kind in takes.query.items())],
        "responses": {
            "200": _json("The data of the page.", {"type": "object"}),
            "202": _json("Being computed; try again.", {"type": "object"}),
            **{status: _json(why, {}) for status, why in ERRORS.items()},
        },
    }
    if takes.form:
        properties = {name: kind.schema for name, kind in takes.form.items()}
        schema = {"type": "object", "properties": properties, "required": list(takes.needed)}
        has_files = any(FILE.schema in (each, each.get("items")) for each in properties.values())
        form = "multipart/form-data" if has_files else "application/x-www-form-urlencoded"
        media = ["application/json"] if takes.is_json else [form, "application/json"]
        operation["requestBody"] = {"required": True, "content": {each: {"schema": schema} for each in media}}
    return operation


def _parameter(name: str, place: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": schema}


def _json(why: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": why, "content": {"application/json": {"schema": schema}}}


async def openapi(request: Request) -> Response:
    """This document."""
    return await respond(request, "", document(request.app.routes))


ROUTES = [PageRoute("/openapi.json", openapi)]
