"""Save and load fitted estimators: objects as arrays and JSON, never pickle.

    NeighborClassifier ──► {"object": 0, "class": "NeighborClassifier", "fields": {…}}
      ├ settings               what JSON holds, as it is
      ├ arrays                 {"array": 3} ──► arrays/3.npy
      └ objects                the same again; shared ones are written once: {"again": 7}

A file may come from anyone. It names classes by the names of one table (``savable.py``), which declares the fields of
each; both are checked before a class is imported or an object made. Containers are JSON lists only. A class that needs
more than its attributes has ``_to_saved``, which gives the fields to write, and the classmethod ``_from_saved``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from scipy import sparse

from nearsay.data.saved.field_kinds import of
from nearsay.data.saved.savable import ROWS_ELSEWHERE, SAVABLE
from nearsay.data.saved.saved_by_name import SAVED_AS
from nearsay.data.saved.saved_fields import Contents, FieldSizes, Mismatch, tag_of
from nearsay.data.saved.saved_file import State, in_one_line, open_state, save_state
from nearsay.errors import InputError, MissingExtra, SavedFileError

KIND = "estimator"
VERSION = 1
NAMES = {savable.where: name for name, savable in SAVABLE.items()}


def save(thing: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator, or another object of nearsay's, to one file.

    Arrays and JSON with checksums, never pickle: opening a file runs no code that the file brings. ``nearsay.load``
    gives the object back, with the same answers. Structures that can be built again from the rows (a tree, a graph) are
    built again then.

    What is not data cannot be saved: a metric or a posterior that is a function or a class of your own, rows that lie
    in files elsewhere (shards: save the settings, and fit again where the rows are), a model of another library than
    scikit-learn, or one of scikit-learn that is made of compiled parts (a tree).

    >>> import tempfile
    >>> from pathlib import Path
    >>> from nearsay.posterior.classifier import NeighborClassifier
    >>> clf = NeighborClassifier(1, posterior="proportional").fit([[0.0], [1.0]], ["low", "high"])
    >>> path = Path(tempfile.mkdtemp()) / "levels.nearsay"
    >>> save(clf, path)
    >>> load(path).predict([[0.7]])
    array(['high'], dtype='<U4')
    """
    writer = _Writer()
    root = writer.write(thing, type(thing).__name__)
    if not (isinstance(root, dict) and "object" in root):
        raise InputError(
            f"save takes a fitted estimator or another object of nearsay's; got {type(thing).__name__}."
            " Rows and labels are saved by write_rows, arrays by numpy.save."
        )
    arrays = {name: np.asanyarray(array) for name, array in writer.arrays.items()}
    try:
        _check(root, arrays, None, type(thing).__name__)
    except Mismatch as mismatch:
        raise InputError(f"This cannot be saved: {mismatch}. Save the rows instead, and fit again.") from mismatch
    save_state(path, KIND, VERSION, {"root": root}, arrays, is_plain=True)


def load(path: str | os.PathLike[str], *, expect: str | None = None) -> Any:
    """Read what ``save`` wrote, as the kind of object it was.

    The file may come from anyone: nothing in it is run, no other file or connection is opened, and loading takes
    memory in proportion to its size.

    Parameters
    ----------
    expect : names of classes, optional
        Refuse a file that holds another object than one of these ("NeighborIndex", "Learned LiveTransform").
    """
    state = open_state(path, KIND, newest=VERSION)
    root = state.header.get("root")
    try:
        _check(root, state.arrays, expect, "it")
        return _Reader(state).read(root)
    except MissingExtra:
        raise
    except Mismatch as mismatch:
        reason = str(mismatch)
    except Exception as error:  # whatever a class finds wrong with what it is made of
        reason = f"{type(error).__name__}: {error}"
    raise SavedFileError(
        f"{os.fspath(path)} does not hold what it should ({in_one_line(reason)}). Nothing was loaded."
        " If a newer nearsay wrote it, run: pip install --upgrade nearsay"
    )


def _check(root: Any, arrays: Mapping[str, np.ndarray], expect: str | None, where: str) -> None:
    """Raise a Mismatch unless what is written is declared so in the table of savable classes."""
    kind = of(" ".join(SAVABLE) if expect is None else expect)
    if tag_of(root, where) != "object":
        raise Mismatch(f"{where} is no object")
    Contents(SAVABLE, arrays).check(root, kind, where, FieldSizes())


# ------------------------------------------------------------------ writing


class _Writer:
    """Turns objects into JSON values and arrays. An object that comes again is a reference."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []  # so that no two objects have the same id

    def write(self, value: Any, where: str) -> Any:
        if value is None or isinstance(value, bool | str):
            return value
        for kinds, write in WRITTEN:
            if isinstance(value, kinds):
                return write(self, value, where)
        return self._object(value, where)

    def _array(self, value: np.ndarray, where: str) -> dict[str, Any]:
        if value.dtype == object:
            items = [self.write(item, f"{where}[{place}]") for place, item in enumerate(value.ravel())]
            return {"objects": items, "shape": list(value.shape)}
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self.arrays)
            self._kept.append(value)
            self.arrays[str(len(self.arrays))] = value
        # A product of the same numbers in another order of memory may be rounded otherwise.
        by_columns = value.flags.f_contiguous and not value.flags.c_contiguous
        return {"array": self._numbers[id(value)], **({"order": "F"} if by_columns else {})}

    def _object(self, value: Any, where: str) -> dict[str, Any]:
        kind = type(value)
        if id(value) in self._numbers:
            return {"again": self._numbers[id(value)]}
        if hasattr(kind, "snapshot") and id(vars(value)) in self._numbers:
            return {"snapshot": self._numbers[id(vars(value))]}
        name = NAMES.get(_name_of(kind)) or SAVED_AS.get(_name_of(kind))
        if _name_of(kind) in ROWS_ELSEWHERE:
            raise InputError(
                f"{where} cannot be saved: its rows lie in files elsewhere, and a saved file names no others. Save its"
                " settings (get_params) instead, and fit again where they are."
            )
        if name is None:
            raise InputError(
                f"{where} is {_in_words(value)}, which is not data and cannot be saved."
                " Save the rows instead, and fit again after reading them."
            )
        number = self._numbers[id(value)] = self._numbers[id(vars(value))] = len(self._numbers)
        self._kept.append(value)
        fields = {each: self.write(held, f"{where}.{each}") for each, held in _fields(value).items()}
        return {"object": number, "class": name, "fields": fields}


def _fields(value: Any) -> dict[str, Any]:
    """The fields of an object to save."""
    kind: Any = type(value)
    by_name = {} if _name_of(kind) in NAMES or _name_of(kind) not in SAVED_AS else {"name": value.name}
    if hasattr(kind, "_to_saved"):
        return {**by_name, **value._to_saved()}
    return {**by_name, **(value.__getstate__() if "__getstate__" in _defined_by(kind) else vars(value))}


def _write_float(writer: _Writer, value: float, where: str) -> Any:
    return float(value) if math.isfinite(value) else {"float": repr(float(value))}


def _write_scalar(writer: _Writer, value: np.generic, where: str) -> Any:
    return {"scalar": writer._array(np.asarray(value), where)["array"]}


def _write_dict(writer: _Writer, value: Mapping[Any, Any], where: str) -> Any:
    pairs = [[writer.write(key, where), writer.write(each, f"{where}[{key!r}]")] for key, each in value.items()]
    return {"dict": pairs}


def _write_items(name: str) -> Callable[[_Writer, Any, str], Any]:
    return lambda writer, value, where: {name: [writer.write(item, f"{where}[…]") for item in value]}


def _write_sparse(writer: _Writer, value: Any, where: str) -> Any:
    rows = sparse.csr_array(value)
    parts = [writer._array(part, where)["array"] for part in (rows.data, rows.indices, rows.indptr)]
    return {"sparse": parts, "shape": list(rows.shape), "class": type(value).__name__}


def _write_random_state(writer: _Writer, value: np.random.RandomState, where: str) -> Any:
    return {"random_state": writer.write(value.get_state(legacy=False), where)}


def _write_list(writer: _Writer, value: list[Any], where: str) -> Any:
    return [writer.write(item, f"{where}[{place}]") for place, item in enumerate(value)]


# In this order: a numpy float is a float too, and must come back as what it was.
WRITTEN: list[tuple[Any, Callable[[_Writer, Any, str], Any]]] = [
    (np.generic, _write_scalar),
    (int, lambda writer, value, where: int(value)),
    (float, _write_float),
    (np.ndarray, _Writer._array),
    (list, _write_list),
    (tuple, _write_items("tuple")),
    ((set, frozenset), _write_items("set")),
    (Mapping, _write_dict),
    (slice, lambda writer, value, where: {"slice": writer.write([value.start, value.stop, value.step], where)}),
    ((sparse.sparray, sparse.spmatrix), _write_sparse),
    (np.random.RandomState, _write_random_state),
]


@cache
def _defined_by(kind: type) -> set[str]:
    """The names that a class and its bases in nearsay define."""
    return {name for base in kind.__mro__ if base.__module__.startswith("nearsay") for name in vars(base)}


def _name_of(kind: type) -> str:
    """``module:class``; of scikit-learn the public module, which does not change."""
    module = kind.__module__
    if module.startswith("sklearn."):
        module = module.partition("._")[0]
    return f"{module}:{kind.__qualname__}"


def _in_words(value: Any) -> str:
    if callable(value) and hasattr(value, "__qualname__"):
        return f"the function {value.__qualname__}"
    return f"a {type(value).__module__}.{type(value).__qualname__}"


# ------------------------------------------------------------------ reading


class _Reader:
    """Makes objects from what a _Writer wrote, once it has been checked."""

    def __init__(self, state: State) -> None:
        self._arrays = state.arrays
        self._made: dict[int, Any] = {}

    def read(self, value: Any) -> Any:
        if isinstance(value, dict | list):
            return READ[tag_of(value)](self, value)
        return value

    def _array(self, number: int, order: str = "C") -> np.ndarray:
        name = str(number)
        if order == "F" and self._arrays[name].flags.c_contiguous:
            self._arrays[name] = np.asfortranarray(self._arrays[name])
        return self._arrays[name]

    def _object(self, value: dict[str, Any]) -> Any:
        kind = _class_named(value["class"])
        fields = {name: self.read(each) for name, each in value["fields"].items()}
        made: Any
        if hasattr(kind, "_from_saved"):
            made = kind._from_saved(fields)
        else:
            made = object.__new__(kind)
            if "__setstate__" in _defined_by(kind):
                made.__setstate__(fields)
            else:
                vars(made).update(fields)
        self._made[value["object"]] = made
        return made

    def _objects(self, value: dict[str, Any]) -> np.ndarray:
        array = np.empty(len(value["objects"]), dtype=object)
        array[:] = [self.read(item) for item in value["objects"]]
        return array.reshape(value["shape"])

    def _sparse(self, value: dict[str, Any]) -> Any:
        parts = tuple(self._array(number) for number in value["sparse"])
        return getattr(sparse, value["class"])(sparse.csr_array(parts, shape=tuple(value["shape"])))

    def _random_state(self, value: dict[str, Any]) -> np.random.RandomState:
        made = np.random.RandomState()
        made.set_state(self.read(value["random_state"]))
        return made


READ: dict[str, Callable[[_Reader, Any], Any]] = {
    "list": lambda reader, value: [reader.read(item) for item in value],
    "object": _Reader._object,
    "again": lambda reader, value: reader._made[value["again"]],
    "snapshot": lambda reader, value: reader._made[value["snapshot"]].snapshot(),
    "array": lambda reader, value: reader._array(value["array"], value.get("order", "C")),
    "scalar": lambda reader, value: reader._array(value["scalar"])[()],
    "objects": _Reader._objects,
    "not finite": lambda reader, value: float(value["float"]),
    "tuple": lambda reader, value: tuple(reader.read(item) for item in value["tuple"]),
    "set": lambda reader, value: {reader.read(item) for item in value["set"]},
    "dict": lambda reader, value: {reader.read(key): reader.read(each) for key, each in value["dict"]},
    "slice": lambda reader, value: slice(*(reader.read(end) for end in value["slice"])),
    "sparse": _Reader._sparse,
    "random state": _Reader._random_state,
}


@cache
def _class_named(name: str) -> Any:
    """The class of this name, which is in the table."""
    module, _, kind = SAVABLE[name].where.partition(":")
    return getattr(import_module(module), kind)
