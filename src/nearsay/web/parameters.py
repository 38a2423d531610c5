"""The parameters of every address: parsed and checked for the handlers, described for OpenAPI, from one place.

Takes(query, form) ──┬──► read_query, read_form ──► values that handlers use, or InputError
                     └──► PageRoute.takes ────────► openapi.document
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from nearsay.errors import InputError, unknown_name
from nearsay.web.access import ACCESS, ROUTE, Forbidden

SHOWN = 40  # letters of a wrong value that an error quotes
DIGITS = 15
# Values of a JSON object, those of lists one by one.
MOST_VALUES = 100_000


class ParameterKind(NamedTuple):
    """What a parameter may be: its JSON schema, and how (name, text) becomes a value."""

    schema: dict[str, Any]
    parse: Callable[[str, str], Any]
    is_list: bool = False


def share(low: float = 0, high: float = 1) -> ParameterKind:
    """A number in a range.

    >>> share().parse("accuracy", "0.9")
    0.9
    """

    def parse(name: str, text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            raise InputError(f"{name} must be a number from {low:g} to {high:g}; got {text[:SHOWN]!r}.")
        return value

    return ParameterKind({"type": "number", "minimum": low, "maximum": high}, parse)


def whole(least: int) -> ParameterKind:
    """A whole number."""

    def parse(name: str, text: str) -> int:
        if not _is_whole(text) or int(text) < least:
            raise InputError(f"{name} must be a whole number of at least {least}; got {text[:SHOWN]!r}.")
        return int(text)

    return ParameterKind({"type": "integer", "minimum": least}, parse)


def one_of(*words: str) -> ParameterKind:
    """One of these words."""

    def parse(name: str, text: str) -> str:
        if text not in words:
            raise unknown_name(name, text[:SHOWN], words)
        return text

    return ParameterKind({"type": "string", "enum": list(words)}, parse)


def several(kind: ParameterKind) -> ParameterKind:
    """A list: the name comes once for each value."""
    return ParameterKind({"type": "array", "items": kind.schema}, kind.parse, is_list=True)


def _parse_rows(name: str, text: str) -> list[int]:
    cells = text.split(",")
    if not all(map(_is_whole, cells)):
        raise InputError(f"{name} must be whole numbers of at least 0 with commas between; got {text[:SHOWN]!r}.")
    return [int(cell) for cell in cells]


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= DIGITS


TEXT = ParameterKind({"type": "string"}, lambda name, text: text)
FILE = ParameterKind({"type": "string", "format": "binary"}, lambda name, text: text)
NUMBER, PLACE, SHARE = whole(1), whole(0), share()
ROWS = ParameterKind({"type": "string", "pattern": f"^[0-9]{{1,{DIGITS}}}(,[0-9]{{1,{DIGITS}}})*$"}, _parse_rows)
YES = one_of("yes")


@asynccontextmanager
async def fields_of(request: Request, *, max_files: int = 0, max_fields: int = 20, max_part_size: int = 2**20) -> Any:
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
    async with request.form(max_files=max_files, max_fields=max_fields, max_part_size=max_part_size) as form:
        yield form


async def read_json(request: Request) -> dict[str, Any]:
    """The JSON object of a body; an error says what came instead."""
    try:
        body = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise InputError("The body is not JSON.") from None
    if not isinstance(body, dict):
        raise InputError(f"The body must be a JSON object; got {type(body).__name__}.")
    return body


def _as_fields(name: str, value: Any) -> list[tuple[str, str]]:
    if value is None or value is False:
        return []
    if isinstance(value, dict):  # the cells of a row
        return [(f"{name.removesuffix('s')}:{column}", str(cell)) for column, cell in value.items() if cell is not None]
    return [(name, "yes" if value is True else value if isinstance(value, str) else str(value))]


@dataclass(frozen=True)
class Takes:
    """The parameters of an address: in its query, and in the form that is sent to it.

    >>> Takes({"accuracy": SHARE, "id": TEXT}).parse({"accuracy": "0.5"})
    {'accuracy': 0.5, 'id': None}
    """

    query: Mapping[str, ParameterKind] = field(default_factory=dict)
    form: Mapping[str, ParameterKind] = field(default_factory=dict)
    needed: tuple[str, ...] = ()
    is_json: bool = False

    def read_query(self, request: Request) -> dict[str, Any]:
        """Every query parameter by name, None where it is left out."""
        return self.parse(dict(request.query_params))

    async def read_form(self, request: Request, *, max_fields: int = 20) -> dict[str, Any]:
        """Every field of a form without files by name: None, or an empty list, where it is left out."""
        async with fields_of(request, max_fields=max_fields) as form:
            return self.parse(form)

    def parse(self, given: Mapping[str, Any] | FormData) -> dict[str, Any]:
        """Values by name; a field that is empty counts as left out."""
        values: dict[str, Any] = {}
        for name, kind in {**self.query, **self.form}.items():
            if kind.is_list:
                texts = given.getlist(name) if isinstance(given, FormData) else []
                values[name] = [kind.parse(name, str(text)) for text in texts]
            else:
                text = given.get(name)
                values[name] = None if text is None or text == "" else kind.parse(name, str(text))
        for name in self.needed:
            if values[name] is None or values[name] == []:
                raise InputError(f"{name} is missing.")
        return values


NOTHING = Takes()


class PageRoute(Route):
    """A route that knows its parameters."""

    def __init__(
        self,
        path: str,
        handler: Callable[..., Any],
        takes: Takes = NOTHING,
        method: str = "GET",
        role: str | None = None,
    ) -> None:
        super().__init__(path, handler, methods=[method])
        self.takes = takes
        self.role = role or ("read" if method == "GET" else "label")

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[ROUTE] = self.path
        access = scope.get(ACCESS)
        if access is not None and not access.allows(self.role):
            raise Forbidden(f"The token of {access.name!r} may {access.role}; this needs the role {self.role!r}.")
        await super().handle(scope, receive, send)


def twins(
    path: str, handler: Callable[..., Any], takes: Takes = NOTHING, method: str = "GET", role: str | None = None
) -> list[PageRoute]:
    """A page and its JSON twin, which must come first where the path ends in a parameter.

    ``role`` is what a token must allow: by default "read" for what is read, "label" for what is sent.
    """
    return [PageRoute(path + ending, handler, takes, method, role) for ending in (".json", "")]
