"""The parameters of every address: parsed and checked for the handlers, described for OpenAPI, from one place.

Takes(query, form) ──┬──► read_query, read_form ──► values that handlers use, or InputError
                     └──► PageRoute.takes ────────► openapi.document
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.routing import Route

from nearsay.errors import InputError, unknown_name

SHOWN = 40  # letters of a wrong value that an error quotes
DIGITS = 15


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


@dataclass(frozen=True)
class Takes:
    """The parameters of an address: in its query, and in the form that is sent to it.

    >>> Takes({"accuracy": SHARE, "id": TEXT}).parse({"accuracy": "0.5"})
    {'accuracy': 0.5, 'id': None}
    """

    query: Mapping[str, ParameterKind] = field(default_factory=dict)
    form: Mapping[str, ParameterKind] = field(default_factory=dict)
    needed: tuple[str, ...] = ()

    def read_query(self, request: Request) -> dict[str, Any]:
        """Every query parameter by name, None where it is left out."""
        return self.parse(dict(request.query_params))

    async def read_form(self, request: Request, *, max_fields: int = 20) -> dict[str, Any]:
        """Every field of a form without files by name: None, or an empty list, where it is left out."""
        async with request.form(max_files=0, max_fields=max_fields) as form:
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

    def __init__(self, path: str, handler: Callable[..., Any], takes: Takes = NOTHING, method: str = "GET") -> None:
        super().__init__(path, handler, methods=[method])
        self.takes = takes


def twins(path: str, handler: Callable[..., Any], takes: Takes = NOTHING, method: str = "GET") -> list[PageRoute]:
    """A page and its JSON twin, which must come first where the path ends in a parameter."""
    return [PageRoute(path + ending, handler, takes, method) for ending in (".json", "")]
