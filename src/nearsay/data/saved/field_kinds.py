"""Type declarations for the fields of saved objects, used by the table in ``savable.py``.

labels_=ints("rows", below="classes")    an array of whole numbers, one for each row, each 0 … classes − 1
n_classes_=count("classes")              a number that is that size
index_=of("NeighborIndex", "rows")       an object of this class, with as many rows as ours
further=NONE | floats("columns more")    nothing, or an array
"""

from __future__ import annotations

import itertools
import math
import re
from functools import partial
from typing import Any

import numpy as np

from nearsay.data.saved.saved_fields import Check, Contents, FieldSizes, Kind, Mismatch, accept
from nearsay.data.saved.saved_file import SAVED_KINDS

MOST_ROWS = 2**31 - 1
# Columns that a sparse matrix may have, however few numbers it holds; beyond, as many as bytes of it are in the file.
SPARSE_COLUMNS = 1 << 16
WHOLE = 1 << 63
NOT_FINITE = ("nan", "inf", "-inf")
SPARSE = ("csr_array", "csr_matrix", "csc_array", "csc_matrix", "coo_array", "coo_matrix")


def may(kind: Kind) -> Kind:
    """A field that may be missing."""
    return Kind(kind.checks, optional=True)


# ------------------------------------------------------------------ numbers and texts


def _scalar(kinds: str) -> Check:
    def check(value: Any, where: str, contents: Contents, sizes: FieldSizes) -> None:
        array = contents.array(value["scalar"], where)
        if array.ndim or array.dtype.kind not in kinds:
            raise Mismatch(f"{where} is an array of {array.dtype} and shape {array.shape}; expected one number")

    return check


def _whole(least: int, most: int) -> Kind:
    def check(value: Any, where: str, contents: Contents, sizes: FieldSizes) -> None:
        number = contents.whole(value, where)
        if not least <= number <= most:
            raise Mismatch(f"{where} is too small or too large; expected {least} to {most}")

    return Kind({"int": check, "scalar": check})


def _not_finite(value: Any, where: str, contents: Contents, sizes: FieldSizes) -> None:
    if value["float"] not in NOT_FINITE:
        raise Mismatch(f"{where} is not one of {', '.join(NOT_FINITE)}")


def _finite(value: Any, where: str, contents: Contents, sizes: FieldSizes) -> None:
    if isinstance(value, dict):
        _scalar("iuf")(value, where, contents, sizes)
        if not np.isfinite(contents.array(value["scalar"], where)):
            raise Mismatch(f"{where} is not finite")
    elif not math.isfinite(value):
        raise Mismatch(f"{where} is not finite")


NONE = Kind({"none": accept})
BOOL = Kind({"bool": accept}) | Kind({"scalar": _scalar("b")})
INT = _whole(-WHOLE, WHOLE)
FLOAT = Kind({"int": _whole(-WHOLE, WHOLE).checks["int"], "float": accept, "not finite": _not_finite}) | Kind(
    {"scalar": _scalar("iuf")}
)
FINITE = Kind({"int": _whole(-WHOLE, WHOLE).checks["int"], "float": _finite, "scalar": _finite})
TEXT = Kind({"text": accept})
# Threads to use; below zero as in scikit-learn.
JOBS = NONE | _whole(-4096, 4096)


def count(name: str = "", *, most: int = MOST_ROWS, at_most: str = "") -> Kind:
    """A count: a whole number that is a size, or no larger than a size."""

    def check(value: Any, where: str, contents: Contents, sizes: FieldSizes) -> None:
        plain.checks["int" if type(value) is int else "scalar"](value, where, contents, sizes)
        number = contents.whole(value, where)
        if name:
            sizes.be(name, number, where)
        if at_most:
            sizes.need(at_most, number)

    plain = _whole(0, most)
    return Kind({"int": check, "scalar": check})


# ------------------------------------------------------------------ arrays


def _array(kinds: str, sides: str, below: str = "", least: int = 0, *, steps: bool = False) -> Kind:
    """An array of numbers of these kinds; ``sides`` names its sizes ("rows columns"), with _ for any.

    ``a|b c`` takes arrays of one or of two sides. Every number lies from ``least`` to what ``below`` names, less one.
    ``steps``: offsets of parts, which begin at 0 and never fall; the last is the size that ``below`` names.
    """
    named = {len(one.split()): one.split() for one in sides.split("|")}

    def check(value: Any, where: str, contents: Contents, sizes: FieldSizes) -> None:
        array = contents.array(value["array"], where)
        if value.get("order", "C") not in ("C", "F"):
            raise Mismatch(f"{where} is in no order of memory")
        if array.dtype.kind not in kinds or array.ndim not in named:
            raise Mismatch(
                f"{where} is an array of {array.dtype} with {array.ndim} sides;"
                f" expected {' or '.join(map(str, named))} sides and one of the kinds {kinds}"
            )
        for name, size in zip(named[array.ndim], array.shape, strict=True):
            _side(name, size, where, sizes)
        if not below or not array.size:
            return
        if array.dtype.kind == "i" and array.min() < least:
            raise Mismatch(f"{where} holds {int(array.min()):,}; expected {least} or more")
        if steps:
            if array[0] != 0 or (np.diff(array) < 0).any():
                raise Mismatch(f"{where} does not rise from 0")
            sizes.be(below, int(array[-1]), where)
        else:
            sizes.need(below, int(array.max()) + 1)

    return Kind({"array": check})


def _side(name: str, size: int, where: str, sizes: FieldSizes) -> None:
    """One side of an array: ``name``, ``name+1``, a number or _."""
    if name.isdigit():
        if size != int(name):
            raise Mismatch(f"{where} has a side of {size:,}; expected {name}")
    elif name != "_":
        name, _, more = name.partition("+")
        if size < int(more or 0):
            raise Mismatch(f"{where} has a side of {size:,}; expected {more} or more")
        sizes.be(name, size - int(more or 0), where)


# Arrays by the kind of their numbers; the argument names their sides.
floats, numbers, bools, texts = (partial(_array, kinds) for kinds in ("f", "biuf", "b", "U"))


def ints(sides: str, below: str = "", *, least: int = 0) -> Kind:
    """An array of whole numbers; with ``below`` they number something: ``least`` to one less than that size."""
    return _array("iu", sides, below, least)


def starts(sides: str, of: str) -> Kind:
    """Offsets of consecutive parts: from 0 to the size ``of``, never falling."""
    return _array("iu", sides, of, steps=True)


def values(side: str) -> Kind:
    """Labels, ids or names: one array of numbers, texts or dates, or of plain Python values."""

    def check(value: Any, where: str, contents: Contents, sizes: FieldSizes) -> None:
        _objects(value, where, contents, sizes)
        if len(value["shape"]) != 1:
            raise Mismatch(f"{where} has {len(value['shape'])} sides; expected 1")
        _side(side, value["shape"][0], where, sizes)

    return _array(SAVED_KINDS.replace("c", ""), side) | Kind({"objects": check})


def _objects(value: Any, where: str, contents: Contents, sizes: FieldSizes) -> None:
    """An array of Python values."""
    items, shape = value["objects"], value["shape"]
    if not isinstance(items, list) or not _is_shape(shape) or math.prod(shape) != len(items):
        raise Mismatch(
            f"{where} holds {len(items) if isinstance(items, list) else 'no'} values, not as many as its shape says"
        )
    for item in items:
        contents.check(item, PLAIN, f"{where}[…]", sizes)


def _is_shape(shape: Any) -> bool:
    return (
        isinstance(shape, list)
        and len(shape) <= 8
        and all(type(side) is int and 0 <= side <= MOST_ROWS for side in shape)
    )


def sparse_matrix(rows: str, columns: str) -> Kind:
    """A sparse matrix of numbers."""

    def check(value: Any, where: str, contents: Contents, sizes: FieldSizes) -> None:
        parts, shape = value["sparse"], value["shape"]
        if value["class"] not in SPARSE or not isinstance(parts, list) or len(parts) != 3:
            raise Mismatch(f"{where} is not written as a sparse matrix is")
        data, indices, indptr = (contents.array(part, where) for part in parts)
        if data.dtype.kind not in "biuf" or indices.dtype.kind != "i" or indptr.dtype.kind != "i":
            raise Mismatch(f"{where} is a sparse matrix of {data.dtype}")
        if not _is_shape(shape) or len(shape) != 2 or not data.ndim == indices.ndim == indptr.ndim == 1:
            raise Mismatch(f"{where} is a sparse matrix of an odd shape")
        n_bytes = data.nbytes + indices.nbytes + indptr.nbytes
        if len(indptr) != shape[0] + 1 or shape[1] > max(SPARSE_COLUMNS, n_bytes):
            raise Mismatch(f"{where} is a sparse matrix of shape {tuple(shape)}, which {n_bytes:,} bytes cannot fill")
        within = not len(indices) or (indices.min() >= 0 and indices.max() < shape[1])
        rising = indptr[0] == 0 and (np.diff(indptr) >= 0).all() and indptr[-1] == len(indices) == len(data)
        if not within or not rising:
            raise Mismatch(f"{where} is a sparse matrix whose parts do not fit together")
        _side(rows, shape[0], where, sizes)
        _side(columns, shape[1], where, sizes)

    return Kind({"sparse": check})


def chunks(rows: str, columns: str) -> Kind:
    """Rows in several arrays, one after the other."""

    def check(value: Any, where: str, contents: Contents, sizes: FieldSizes) -> None:
        if not value:
            raise Mismatch(f"{where} is empty")
        for chunk in value:
            contents.check(chunk, numbers(f"_ {columns}"), where, sizes)
        _side(rows, sum(len(contents.array(chunk["array"], where)) for chunk in value), where, sizes)

    return Kind({"list": check})


def _random_state(value: Any, where: str, contents: Contents, sizes: FieldSizes) -> None:
    contents.check(value["random_state"], dict_of(TEXT, PLAIN), where, sizes)


RANDOM_STATE = Kind({"random state": _random_state})


# ------------------------------------------------------------------ containers


def _each(tag: str, kind: Kind, side: str = "_") -> Kind:
    """A list, tuple or set of values of one kind."""

    def check(value: Any, where: str, contents: Contents, sizes: FieldSizes) -> None:
        items = value if tag == "list" else value[tag]
        if not isinstance(items, list):
            raise Mismatch(f"{where} is a {tag} without a list")
        _side(side, len(items), where, sizes)
        for place, item in enumerate(items):
            contents.check(item, kind, f"{where}[{place}]", sizes)

    return Kind({tag: check})


list_of, tuple_of = (partial(_each, tag) for tag in ("list", "tuple"))


def members_of(side: str = "_") -> Kind:
    """The numbers of nearest members that are used of each class: a tuple of rising numbers."""

    def check(value: Any, where: str, contents: Contents, sizes: FieldSizes) -> None:
        tuple_of(count(most=1 << 20), side).checks["tuple"](value, where, contents, sizes)
        rising = [contents.whole(item, where) for item in value["tuple"]]
        if any(before >= after for before, after in itertools.pairwise(rising)):
            raise Mismatch(f"{where} does not rise")

    return Kind({"tuple": check})


def pair_of(*kinds: Kind) -> Kind:
    """A tuple with one value of each kind."""

    def check(value: Any, where: str, contents: Contents, sizes: FieldSizes) -> None:
        items = value["tuple"]
        if not isinstance(items, list) or len(items) != len(kinds):
            raise Mismatch(f"{where} is not a tuple of {len(kinds)}")
        for kind, item in zip(kinds, items, strict=True):
            contents.check(item, kind, where, sizes)

    return Kind({"tuple": check})


def dict_of(key: Kind, value_kind: Kind) -> Kind:
    """A dict."""

    def check(value: Any, where: str, contents: Contents, sizes: FieldSizes) -> None:
        pairs = value["dict"]
        if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            raise Mismatch(f"{where} is a dict without a list of pairs")
        for name, held in pairs:
            contents.check(name, key, f"{where} (a key)", sizes)
            contents.check(held, value_kind, f"{where}[{name!r:.40}]", sizes)

    return Kind({"dict": check})


def _slice(value: Any, where: str, contents: Contents, sizes: FieldSizes) -> None:
    ends = value["slice"]
    if not isinstance(ends, list) or len(ends) != 3:
        raise Mismatch(f"{where} is not a slice")
    for end in ends:
        contents.check(end, NONE | INT, where, sizes)
    if ends[2] == 0:
        raise Mismatch(f"{where} is a slice of step 0")


SLICE = Kind({"slice": _slice})

# Hashable values.
_SCALAR = Kind({"scalar": _scalar(SAVED_KINDS)})
SIMPLE = (
    NONE | Kind({"bool": accept, "int": accept, "float": accept, "not finite": _not_finite, "text": accept}) | _SCALAR
)
KEY = SIMPLE | tuple_of(SIMPLE)


def plain_with(objects: Kind | None = None) -> Kind:
    """Plain data of any kind, in containers too; of objects these only."""
    checks = dict(_PLAIN)
    kind = Kind(checks)
    checks |= {
        **_each("list", kind).checks,
        **_each("tuple", kind).checks,
        **_each("set", KEY).checks,
        **dict_of(KEY, kind).checks,
        **({} if objects is None else objects.checks),
    }
    return kind


_PLAIN = {
    **SIMPLE.checks,
    **_array(SAVED_KINDS, "|_|_ _|_ _ _|_ _ _ _").checks,
    "objects": _objects,
    **SLICE.checks,
    **RANDOM_STATE.checks,
    **sparse_matrix("_", "_").checks,
}
# The values of settings.
PLAIN = plain_with()


# ------------------------------------------------------------------ objects


def of(classes: str, shared: str = "") -> Kind:
    """An object of one of these classes; ``shared`` names sizes that are ours, too (``rows:here``: its rows)."""
    names = frozenset(classes.split())
    pairs = [(theirs, ours or theirs) for theirs, _, ours in (each.partition(":") for each in shared.split())]

    def share(name: str, theirs: FieldSizes, where: str, sizes: FieldSizes) -> None:
        if name not in names:
            raise Mismatch(f"{where} is a {name}; expected {' or '.join(sorted(names))}")
        for their_name, our_name in pairs:
            if their_name in theirs.known:
                sizes.be(our_name, theirs.known[their_name], where)
            if their_name in theirs.least:
                sizes.need(our_name, theirs.least[their_name])

    def check(value: Any, where: str, contents: Contents, sizes: FieldSizes) -> None:
        if value["class"] not in names:
            raise Mismatch(f"{where} is a {str(value['class'])[:60]}; expected {' or '.join(sorted(names))}")
        share(*contents.checked_object(value, where), where, sizes)

    def check_again(value: Any, where: str, contents: Contents, sizes: FieldSizes) -> None:
        share(*contents.object_before(value["again"], where), where, sizes)

    def check_snapshot(value: Any, where: str, contents: Contents, sizes: FieldSizes) -> None:
        name, theirs = contents.object_before(value["snapshot"], where)
        if not re.fullmatch(r"\w+Search", name):
            raise Mismatch(f"{where} is the snapshot of a {name}, which has none")
        share(name, theirs, where, sizes)

    return Kind({"object": check, "again": check_again, "snapshot": check_snapshot})
