"""Validation of a saved file against the declared fields, before any object is made from it.

A JSON value has one *tag* (``int``, ``list``, ``array``, ``object`` …), and a kind (``field_kinds.py``) has a check for
each tag that it accepts. So no alternatives have to be tried, and checking takes time in proportion to the file.

A *size* is a named number: fields of an object that use the same name must agree, and so must the sizes that an object
shares with the one that holds it. So a file cannot hold a row number past the last row, or labels for more rows than
there are: compiled loops do not check the bounds of their arrays.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

# Nested objects and lists: what nearsay saves is about forty levels deep.
DEEPEST = 100

# The tag of a JSON object that stands for something JSON does not have, by its keys in any order.
ENTRIES: dict[tuple[str, ...], str] = {
    keys: tag
    for tag, names in {
        "object": "object class fields",
        "again": "again",
        "snapshot": "snapshot",
        "scalar": "scalar",
        "objects": "objects shape",
        "not finite": "float",
        "tuple": "tuple",
        "set": "set",
        "dict": "dict",
        "slice": "slice",
        "sparse": "sparse shape class",
        "random state": "random_state",
        "array": "array|array order",
    }.items()
    for one in names.split("|")
    for keys in itertools.permutations(one.split())
}
PLAIN_TAGS: dict[type, str] = {type(None): "none", bool: "bool", int: "int", float: "float", str: "text", list: "list"}


class Mismatch(Exception):
    """A file does not hold what is declared; the message says where, what it holds and what was expected."""


@dataclass(frozen=True)
class Savable:
    """A class that files may hold.

    where : ``module:class``, imported when an object of it is made.
    fields : the kind of every field by name; those of ``optional`` kinds may be missing.
    others : the kind of all other fields, for classes of other packages; None allows none.
    rule : a further condition on the sizes; unknown sizes are 0.
    """

    where: str
    fields: Mapping[str, Kind]
    others: Kind | None = None
    rule: Callable[[Mapping[str, int]], bool] | None = None

    @property
    def name(self) -> str:
        """The name of the class."""
        return self.where.partition(":")[2]

    @cached_property
    def required(self) -> frozenset[str]:
        """Fields that may not be missing."""
        return frozenset(name for name, kind in self.fields.items() if not kind.optional)


@dataclass
class FieldSizes:
    """The sizes of one object, on which its fields agree."""

    known: dict[str, int] = field(default_factory=dict)
    least: dict[str, int] = field(default_factory=dict)  # required by numbers in the file

    def be(self, name: str, size: int, where: str) -> None:
        """Record a size; an error where it is another one already."""
        if self.known.setdefault(name, size) != size:
            raise Mismatch(f"{where} is made for {size:,} {name}, and others are for {self.known[name]:,}")

    def need(self, name: str, size: int) -> None:
        """Record that a size must be at least this."""
        self.least[name] = max(size, self.least.get(name, 0))

    def check(self, where: str) -> None:
        """Every size is as large as required."""
        for name, size in self.least.items():
            if name in self.known and size > self.known[name]:
                raise Mismatch(f"{where} has the number {size - 1:,} where there are {self.known[name]:,} {name}")


Check = Callable[[Any, str, "Contents", FieldSizes], None]


class Contents:
    """The JSON and the arrays of a file, checked against the table of savable classes."""

    def __init__(self, table: Mapping[str, Savable], arrays: Mapping[str, np.ndarray]) -> None:
        self.table = table
        self._arrays = arrays
        self._depth = 0
        self._objects: dict[int, tuple[str, FieldSizes]] = {}

    def check(self, value: Any, kind: Kind, where: str, sizes: FieldSizes) -> None:
        """Raise a Mismatch unless ``value`` is of this kind."""
        tag = PLAIN_TAGS.get(type(value)) or tag_of(value, where)
        check = kind.checks.get(tag)
        if check is accept:
            return
        if check is None:
            raise Mismatch(f"{where} is {_shown(tag, value)}; expected {' or '.join(sorted(kind.checks))}")
        self._depth += 1
        if self._depth > DEEPEST:
            raise Mismatch(f"{where[:60]}… lies more than {DEEPEST} levels deep")
        check(value, where, self, sizes)
        self._depth -= 1

    def array(self, number: Any, where: str) -> np.ndarray:
        array = self._arrays.get(str(number)) if type(number) is int else None
        if array is None:
            raise Mismatch(f"{where} is an array that is not in the file")
        return array

    def whole(self, value: Any, where: str) -> int:
        """A whole number, of Python or of numpy."""
        if type(value) is int:
            return value
        array = self.array(value["scalar"], where)
        if array.ndim or array.dtype.kind not in "iu":
            raise Mismatch(f"{where} is an array of {array.dtype} and shape {array.shape}; expected a whole number")
        return int(array[()])

    def checked_object(self, value: dict[str, Any], where: str) -> tuple[str, FieldSizes]:
        """Check the fields of an object; gives its class and its sizes."""
        number, name, fields = value["object"], value["class"], value["fields"]
        if type(number) is not int or number in self._objects or not isinstance(fields, dict):
            raise Mismatch(f"{where} is not written as an object is")
        if not isinstance(name, str) or name not in self.table:
            raise Mismatch(f"{where} is of the class {str(name)[:60]!r}, which is none of those that are saved")
        declared, sizes = self.table[name], FieldSizes()
        if not declared.required <= fields.keys():
            missing = next(each for each in declared.fields if each in declared.required and each not in fields)
            raise Mismatch(f"{where}, {name}, has no {missing}")
        for each, held in fields.items():
            kind = declared.fields.get(each)
            if kind is None:
                kind = declared.others
                if kind is None or not (each.isidentifier() and not each.startswith("__")):
                    raise Mismatch(f"{where}, {name}, has no field {each[:60]!r}")
            if (
                kind.checks.get(PLAIN_TAGS.get(type(held), "")) is not accept
            ):  # most fields are plain: this saves building the path
                self.check(held, kind, f"{where}.{each}", sizes)
        sizes.check(where)
        if declared.rule is not None and not declared.rule(defaultdict(int, sizes.known)):
            raise Mismatch(f"{where}, {name}, has arrays whose sizes do not fit together")
        self._objects[number] = name, sizes
        return name, sizes

    def object_before(self, number: Any, where: str) -> tuple[str, FieldSizes]:
        if type(number) is not int or number not in self._objects:
            raise Mismatch(f"{where} is an object that the file does not hold before")
        return self._objects[number]


@dataclass(frozen=True)
class Kind:
    """The type of a field: a check for each tag."""

    checks: Mapping[str, Check]
    optional: bool = False

    def __or__(self, other: Kind) -> Kind:
        both = self.checks.keys() & other.checks.keys()
        assert not both, f"{both} in both kinds: make one kind of them"
        return Kind({**self.checks, **other.checks}, self.optional or other.optional)


def tag_of(value: Any, where: str = "it") -> str:
    """The tag of a JSON value: its kind."""
    if isinstance(value, dict):
        tag = ENTRIES.get(tuple(value))
        if tag is None:
            raise Mismatch(f"{where} is an unknown entry ({', '.join(list(value)[:4])[:60]})")
        return tag
    return PLAIN_TAGS[type(value)]


def _shown(tag: str, value: Any) -> str:
    if tag == "object":
        return f"a {str(value['class'])[:60]}"
    return f"a value of the kind {tag!r}"


def accept(value: Any, where: str, contents: Contents, sizes: FieldSizes) -> None:
    """A check that accepts any value of this tag."""
