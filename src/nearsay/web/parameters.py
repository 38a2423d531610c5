"""Routes that know what they take and give: parsed and checked for the handlers, described for OpenAPI.

Takes(query, form) ──┬──► read_query, read_form ──► values that handlers use, or InputError
                     └──► PageRoute.takes ────────► openapi.document
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from nearsay.errors import InputError
from nearsay.web.access import ACCESS, ROUTE, Forbidden
from nearsay.web.schema import ANY, Schema, check, from_text, in_short

# Values of a JSON object, those of lists one by one.
MOST_VALUES = 100_000


@asynccontextmanager
async def fields_of(request: Request, *, max_files: int = 0, max_fields: int = 20) -> Any:
    """The fields of a form, or of a JSON object: lists are several values, true is "yes", null is left out."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json":
        body = await read_json(request)
        pairs = [
            (name, each) for name, value in body.items() for each in (value if isinstance(value, list) else [value])
        ]
        if len(pairs) > max(max_fields, MOST_VALUES):
            raise InputError(f"Too many values: at most {max(max_fields, MOST_VALUES):,}.")
        yield FormData([pair for name, value in pairs for pair in _as_fields(name, value)])
        return
    async with request.form(max_files=max_files, max_fields=max_fields, max_part_size=2**20) as form:
        yield form


async def read_json(request: Request) -> dict[str, Any]:
    """The JSON object of a body; an error says what came instead."""
    try:
        body = json.loads(await request.body(), parse_constant=_not_a_number)
    except (ValueError, RecursionError) as error:
        raise InputError(f"The body is not JSON: {_what_is_wrong(error)}.") from None
    if not isinstance(body, dict):
        raise InputError(f"The body must be a JSON object; got {in_short(body)}.")
    return body


def _what_is_wrong(error: ValueError | RecursionError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos}"
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _not_a_number(constant: str) -> None:
    raise ValueError(f"{constant} is no number in JSON")


def _as_fields(name: str, value: Any) -> list[tuple[str, str]]:
    if value is None or value is False:
        return []
    if isinstance(value, dict):  # the cells of a row
        return [(f"{name.removesuffix('s')}:{column}", str(cell)) for column, cell in value.items() if cell is not None]
    return [(name, "yes" if value is True else value if isinstance(value, str) else str(value))]


@dataclass(frozen=True)
class Takes:
    """The parameters of an address: in its query, and in the form, or the JSON ``body``, that is sent to it.

    >>> from nearsay.web.schema import SHARE, TEXT
    >>> Takes({"accuracy": SHARE, "id": TEXT}).parse({"accuracy": "0.5"})
    {'accuracy': 0.5, 'id': None}
    """

    query: Mapping[str, Schema] = field(default_factory=dict)
    form: Mapping[str, Schema] = field(default_factory=dict)
    needed: tuple[str, ...] = ()
    body: Schema | None = None

    def read_query(self, request: Request) -> dict[str, Any]:
        """Every query parameter by name, None where it is left out."""
        return self.parse(dict(request.query_params))

    async def read_form(self, request: Request, *, max_fields: int = 20) -> dict[str, Any]:
        """Every field of a form without files by name: None, or an empty list, where it is left out."""
        async with fields_of(request, max_fields=max_fields) as form:
            return self.parse(form)

    async def read_body(self, request: Request) -> dict[str, Any]:
        """A JSON body that is as described."""
        body = await read_json(request)
        check("body", body, self.body or ANY)
        return body

    def parse(self, given: Mapping[str, Any] | FormData) -> dict[str, Any]:
        """Values by name; a field that is empty counts as left out."""
        values: dict[str, Any] = {}
        for name, schema in {**self.query, **self.form}.items():
            if schema["type"] == "array":
                texts = given.getlist(name) if isinstance(given, FormData) else []
                values[name] = [from_text(name, str(text), schema["items"]) for text in texts]
            else:
                text = given.get(name)
                values[name] = None if text is None or text == "" else from_text(name, str(text), schema)
        for name in self.needed:
            if values[name] is None or values[name] == []:
                raise InputError(f"{name} is missing.")
        return values


NOTHING = Takes()


def label_of(fields: Mapping[str, Any]) -> str:
    """The label in a form, which must not be empty."""
    label: str = (fields["label"] or "").strip()
    if not label:
        raise InputError("label is missing.")
    return label


class PageRoute(Route):
    """A route that knows its parameters, and the JSON it gives; ``for_machines`` are in the OpenAPI document.

    ``statuses`` are those of an answer that is no error.
    """

    def __init__(
        self,
        path: str,
        handler: Callable[..., Any],
        takes: Takes = NOTHING,
        method: str = "GET",
        role: str | None = None,
        gives: Schema = ANY,
        *,
        for_machines: bool = False,
        statuses: tuple[int, ...] = (200,),
    ) -> None:
        super().__init__(path, handler, methods=[method])
        self.takes, self.gives, self.statuses = takes, gives, statuses
        self.for_machines = for_machines or path.endswith(".json")
        self.role = role or ("read" if method == "GET" else "label")

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[ROUTE] = self.path
        access = scope.get(ACCESS)
        if access is not None and not access.allows(self.role):
            raise Forbidden(f"The token of {access.name!r} may {access.role}; this needs the role {self.role!r}.")
        await super().handle(scope, receive, send)


def twins(
    path: str, handler: Callable[..., Any], takes: Takes = NOTHING, method: str = "GET", **named: Any
) -> list[PageRoute]:
    """A page and its JSON twin, which must come first where the path ends in a parameter; arguments of PageRoute.

    ``role`` is what a token must allow: by default "read" for what is read, "label" for what is sent.
    """
    return [PageRoute(path + ending, handler, takes, method, **named) for ending in (".json", "")]
