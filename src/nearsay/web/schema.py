"""JSON schemas: what a value may be, described for OpenAPI and checked by the same words.

whole(), one_of(), several(), record() ──► a schema ──┬──► OpenAPI, with an example
                                                      ├──► from_text: a parameter becomes a value, or InputError
                                                      └──► check: a JSON value is as described, or InputError
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

from nearsay.errors import InputError, unknown_name

Schema = dict[str, Any]
SHOWN = 40  # letters of a wrong value that an error quotes
DIGITS = 15
LARGEST = sys.float_info.max
TYPES: dict[str, Any] = {
    "string": str,
    "number": (int, float),
    "integer": int,
    "array": list,
    "object": dict,
    "boolean": bool,
}
IN_WORDS = {"string": "a text", "array": "a list", "object": "an object", "boolean": "true or false"}


def text(example: str = "", **more: Any) -> Schema:
    """A text."""
    return {"type": "string", **({"examples": [example]} if example else {}), **more}


def share(low: float = 0, high: float = 1, example: float = 0.9) -> Schema:
    """A number in a range."""
    return {"type": "number", "minimum": low, "maximum": high, "examples": [min(example, high)]}


def whole(least: int, example: int | None = None) -> Schema:
    """A whole number."""
    return {"type": "integer", "minimum": least, "examples": [least if example is None else example]}


def one_of(*words: str) -> Schema:
    """One of these words."""
    return {"type": "string", "enum": list(words)}


def several(schema: Schema, least: int = 0, most: int | None = None) -> Schema:
    """A list; in a form the name comes once for each value."""
    sizes = {"minItems": least or None, "maxItems": most}
    return {"type": "array", "items": schema, **{name: size for name, size in sizes.items() if size is not None}}


def record(needed: Mapping[str, Schema], maybe: Mapping[str, Schema] | None = None, title: str = "") -> Schema:
    """An object with these fields and no others; the document names one with a title once."""
    return {
        **({"title": title} if title else {}),
        "type": "object",
        "properties": {**needed, **(maybe or {})},
        "required": list(needed),
        "additionalProperties": False,
    }


def mapping(schema: Schema) -> Schema:
    """An object whose keys are names: all values are of one kind."""
    return {"type": "object", "additionalProperties": schema, "examples": [{"owl": example_of(schema)}]}


def nullable(schema: Schema) -> Schema:
    """The same, or null."""
    words = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {
        **{name: value for name, value in schema.items() if name != "title"},
        **words,
        "type": [schema["type"], "null"],
    }


def with_fields(schema: Schema, needed: Mapping[str, Schema], title: str = "") -> Schema:
    """A record with further fields."""
    return record({**schema["properties"], **needed}, title=title)


ANY: Schema = {}
TEXT, BOOL, FILE = text(), {"type": "boolean"}, text(format="binary")
NUMBER, PLACE, SHARE = whole(1), whole(0), share()
# A share as it was computed: rounding may take it a little beyond 1.
PART: Schema = {"type": "number", "minimum": 0, "examples": [0.93]}
REAL: Schema = {"type": "number", "examples": [0.25]}
YES = one_of("yes")
ROWS = text(
    "0,4,7",
    pattern=f"^[0-9]{{1,{DIGITS}}}(,[0-9]{{1,{DIGITS}}})*$",
    description="whole numbers of at least 0 with commas between",
)


def check(name: str, value: Any, schema: Schema) -> None:
    """Raise InputError where a JSON value is not as described.

    >>> check("rows", [1, -2], several(PLACE))
    Traceback (most recent call last):
    nearsay.errors.InputError: rows[1] must be a whole number of at least 0; got -2.
    """
    if "anyOf" in schema:
        wrong = [why for why in (_fault(name, value, each) for each in schema["anyOf"]) if why is not None]
        if len(wrong) == len(schema["anyOf"]):
            raise wrong[0]
    if "type" not in schema:
        return
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if value is None and "null" in types:
        return
    is_bool = isinstance(value, bool)
    kind = next((t for t in types if t in TYPES and isinstance(value, TYPES[t]) and is_bool == (t == "boolean")), None)
    if kind is None or not _fits(value, schema):
        if kind == "string" and "enum" in schema:
            raise unknown_name(name, value[:SHOWN], [word for word in schema["enum"] if word is not None])
        raise InputError(f"{name} must be {_in_words(schema, types)}; got {in_short(value)}.")
    if isinstance(value, list):
        items = schema.get("items", ANY)
        if items is REAL and set(map(type, value)) <= {int, float} and max(map(abs, value), default=0) <= LARGEST:
            return  # a vector, all at once
        for place, each in enumerate(value):
            check(f"{name}[{place}]", each, items)
    elif isinstance(value, dict):
        _check_fields(name, value, schema)


def _fault(name: str, value: Any, schema: Schema) -> InputError | None:
    try:
        check(name, value, schema)
    except InputError as error:
        return error
    return None


def _check_fields(name: str, value: dict[str, Any], schema: Schema) -> None:
    fields, others = schema.get("properties", {}), schema.get("additionalProperties", ANY)
    for each in value:
        if each not in fields and others is False:  # first: a field that is misspelled is missing, too
            raise unknown_name(f"field of {name}", str(each)[:SHOWN], fields)
    for each in schema.get("required", ()):
        if each not in value:
            raise InputError(f"{each} is missing.")
    for each, its in value.items():
        check(each if name == "body" else f"{name}.{str(each)[:SHOWN]}", its, fields.get(each, others))


def _fits(value: Any, schema: Schema) -> bool:
    if isinstance(value, str):
        in_enum = "enum" not in schema or value in schema["enum"]
        return in_enum and ("pattern" not in schema or re.search(schema["pattern"], value) is not None)
    if isinstance(value, int | float):
        return bool(schema.get("minimum", -LARGEST) <= value <= schema.get("maximum", LARGEST))  # and not NaN
    n = len(value)
    least, most = ("minItems", "maxItems") if isinstance(value, list) else ("minProperties", "maxProperties")
    return bool(schema.get(least, 0) <= n <= schema.get(most, n))


def _in_words(schema: Schema, types: list[str]) -> str:
    if "description" in schema:
        return str(schema["description"])
    if "number" in types and "maximum" in schema:
        return f"a number from {schema['minimum']:g} to {schema['maximum']:g}"
    if "integer" in types:
        return f"a whole number of at least {schema.get('minimum', 0)}"
    if "maxItems" in schema:
        return f"a list of at least {schema.get('minItems', 0)} and at most {schema['maxItems']:,}"
    return " or ".join("null" if each == "null" else IN_WORDS.get(each, f"a {each}") for each in types)


def in_short(value: Any) -> str:
    """A JSON value for an error: short, and lists and objects by their size.

    >>> in_short([1, 2]), in_short("owl"), in_short(None)
    ('a list of 2', "'owl'", 'null')
    """
    if isinstance(value, list | dict):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value):,}"
    return repr(value[:SHOWN]) if isinstance(value, str) else "null" if value is None else f"{value!r:.40}"


def from_text(name: str, given: str, schema: Schema) -> Any:
    """The value that a text stands for.

    >>> from_text("accuracy", "0.9", SHARE), from_text("after", "7", PLACE)
    (0.9, 7)
    """
    value: Any = given
    if schema["type"] == "integer" and given.isascii() and given.isdigit() and len(given) <= DIGITS:
        value = int(given)
    elif schema["type"] == "number":
        try:
            value = float(given)
        except ValueError:
            value = given
    check(name, value, schema)
    return value


def example_of(schema: Schema) -> Any:
    """A value that fits, made from the examples of its parts.

    >>> example_of(record({"id": text("owl.png"), "shares": several(SHARE), "by": nullable(TEXT)}))
    {'id': 'owl.png', 'shares': [0.9], 'by': None}
    """
    if "anyOf" in schema:
        return example_of(schema["anyOf"][0])
    types = schema.get("type", "null")
    if "examples" in schema or "enum" in schema:
        return (schema.get("examples") or schema["enum"])[0]
    if "object" in types:
        return {name: example_of(schema["properties"][name]) for name in schema.get("required", ())}
    if "array" in types:
        return [example_of(schema["items"])]
    return None if "null" in types else {"string": "", "boolean": False}[types]
