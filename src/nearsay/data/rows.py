"""Rows with labels, ids and named feature groups: the type that readers give and writers take."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from nearsay.core.arrays import as_labels, check_row_numbers
from nearsay.core.tables import html_table
from nearsay.errors import InputError, closest

ROWS_SHOWN = 5
COLUMNS_SHOWN = 6


@dataclass(frozen=True, eq=False, repr=False, init=False)
class LabeledRows:
    """Rows of numbers with labels, ids and feature groups; immutable, and without copies.

    Parameters
    ----------
    X : (n, columns) array of any numeric type
        Where a row lacks a feature group, its columns there are NaN.
    y : n labels of any hashable kind, or None
    feature_groups : {name: slice}
        Which columns belong together. Groups may leave columns out, but not share them.
    ids : n names of the rows, or None
    name : what the collection is called

    >>> leaves = LabeledRows([[1, 2, 5], [3, 4, 6]], ["oak", "elm"], {"size": slice(0, 2), "hue": slice(2, 3)})
    >>> leaves
    <LabeledRows: 2 rows × 3 columns (int64), 2 labels, groups: size (2), hue (1)>
    >>> leaves.label_names
    ('elm', 'oak')
    >>> leaves.select("hue").X
    array([[5],
           [6]])
    """

    X: np.ndarray
    y: np.ndarray | None
    feature_groups: dict[str, slice]
    ids: np.ndarray | None
    name: str

    def __init__(
        self, X: Any, y: Any = None, feature_groups: Mapping[str, slice] | None = None, ids: Any = None, name: str = ""
    ) -> None:
        assign = object.__setattr__  # the one way past a frozen class
        assign(self, "X", _as_numbers(X))
        assign(self, "y", None if y is None else _as_values(y, len(self.X), "y", "labels"))
        assign(self, "feature_groups", _as_groups(feature_groups or {}, self.X.shape[1]))
        assign(self, "ids", None if ids is None else _as_values(ids, len(self.X), "ids", "ids"))
        assign(self, "name", name)

    def __len__(self) -> int:
        return len(self.X)

    @cached_property
    def label_names(self) -> tuple[Any, ...]:
        """The distinct labels, sorted; labels that cannot be compared by type, then by their text."""
        distinct = set() if self.y is None else set(self.y.tolist())
        try:
            return tuple(sorted(distinct))
        except TypeError:
            return tuple(sorted(distinct, key=lambda label: (type(label).__name__, repr(label))))

    def take(self, rows: Any) -> LabeledRows:
        """Some of the rows, by a slice, by numbers (in that order, repeats allowed) or by a mask of all rows.

        A slice shares memory with this collection, anything else copies.

        >>> LabeledRows([[0], [1], [2]], ["a", "b", "c"]).take([2, 0]).y
        array(['c', 'a'], dtype='<U1')
        """
        chosen = rows if isinstance(rows, slice) else check_row_numbers(rows, len(self))
        return replace(
            self,
            X=self.X[chosen],
            y=None if self.y is None else self.y[chosen],
            ids=None if self.ids is None else self.ids[chosen],
        )

    def select(self, *group_names: str) -> LabeledRows:
        """The columns of these feature groups alone, in the order named.

        One group shares memory with this collection, several are copied side by side.
        """
        if not group_names:
            raise InputError(f"Name at least one feature group to select. {self._known_groups()}")
        if len(set(group_names)) < len(group_names):
            raise InputError(f"A feature group can be selected once; got {', '.join(group_names)}.")
        columns = [self.X[:, self._group(name)] for name in group_names]
        stops = np.cumsum([part.shape[1] for part in columns]).tolist()
        return replace(
            self,
            X=columns[0] if len(columns) == 1 else np.hstack(columns),
            feature_groups={
                name: slice(stop - part.shape[1], stop)
                for name, stop, part in zip(group_names, stops, columns, strict=True)
            },
        )

    def missing(self, group: str | None = None) -> np.ndarray:
        """A mask of the rows that lack this feature group (a NaN in any of its columns), or any column at all.

        >>> LabeledRows([[1.0, np.nan], [2.0, 3.0]], feature_groups={"hue": slice(1, 2)}).missing("hue")
        array([ True, False])
        """
        columns = self.X if group is None else self.X[:, self._group(group)]
        if columns.dtype.kind != "f":
            return np.zeros(len(self), dtype=bool)
        return np.isnan(columns).any(axis=1)

    def split(self, share: float = 0.25, *, seed: int = 0) -> tuple[LabeledRows, LabeledRows]:
        """Cut into (most rows, ``share`` of the rows): stratified by label, the order of rows is kept.

        Each label's rows in the second part are ``share`` of them to within one row.

        >>> train, test = LabeledRows(np.arange(8)[:, None], list("aaaabbbb")).split(0.5)
        >>> "".join(train.y), "".join(test.y)
        ('aabb', 'aabb')
        """
        if not 0 < share < 1:
            raise InputError(f"The share to split off must lie between 0 and 1; got {share}.")
        random = np.random.default_rng(seed)
        number_of = {label: number for number, label in enumerate(self.label_names)}
        label = np.zeros(len(self)) if self.y is None else np.array([number_of[y] for y in self.y.tolist()])
        order = np.lexsort((random.random(len(self)), label))
        # Walking along the rows label by label, one is split off whenever the running share passes a whole number.
        passed = np.floor(np.arange(len(self) + 1) * share + random.random())
        split_off = np.zeros(len(self), dtype=bool)
        split_off[order] = np.diff(passed) > 0
        if split_off.all() or not split_off.any():
            raise InputError(f"Splitting {share:g} off {len(self)} rows leaves one part empty. Change the share.")
        return self.take(~split_off), self.take(split_off)

    def _group(self, name: str) -> slice:
        if name not in self.feature_groups:
            raise InputError(f"No feature group {name!r}{closest(name, self.feature_groups)}. {self._known_groups()}")
        return self.feature_groups[name]

    def _known_groups(self) -> str:
        if not self.feature_groups:
            return "These rows have no feature groups."
        return f"These rows have: {', '.join(self.feature_groups)}."

    def __repr__(self) -> str:
        return f"<LabeledRows{' ' * bool(self.name)}{self._summary()}>"

    def _summary(self) -> str:
        parts = [f"{len(self)} rows × {self.X.shape[1]} columns ({self.X.dtype})"]
        if self.y is not None:
            parts.append(f"{len(self.label_names)} label{'s' * (len(self.label_names) != 1)}")
        if self.feature_groups:
            shown = [f"{name} ({part.stop - part.start})" for name, part in self.feature_groups.items()]
            parts.append("groups: " + ", ".join(_shortened(shown)))
        return f"{self.name}: {', '.join(parts)}"

    def _repr_html_(self) -> str:
        first = self.take(slice(0, ROWS_SHOWN))
        columns = _shortened([str(number) for number in range(self.X.shape[1])])
        lines = []
        for row in range(len(first)):
            known = ["" if values is None else str(values[row]) for values in (first.ids, first.y)]
            lines.append([*known, *_shortened([f"{value:.4g}" for value in first.X[row].tolist()])])
        return html_table(self._summary().lstrip(": "), ["id", "label", *columns], lines)


def _as_numbers(X: Any) -> np.ndarray:
    array = np.asarray(X)
    if array.ndim != 2:
        raise InputError(
            f"X must have two dimensions (rows × columns); got shape {array.shape}."
            " Flatten each item to a row: X.reshape(len(X), -1)."
        )
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"X must hold numbers; got {array.dtype}. Convert it first (X.astype(float)),"
            " and pass labels as y and names of rows as ids."
        )
    return array


def as_ids(ids: Any, n_rows: int) -> np.ndarray | None:
    """Names of the rows of a collection, strings or whole numbers, as an array; None stays None.

    >>> as_ids(["a.png", 7], 2)
    array(['a.png', 7], dtype=object)
    >>> as_ids([0.5, 1.5], 2)
    Traceback (most recent call last):
    nearsay.errors.InputError: ids must be strings or whole numbers; row 0 has 0.5 (float). Try [str(name) for ...
    """
    if ids is None:
        return None
    names = _as_values(ids, n_rows, "ids", "ids")
    for row, name in enumerate(names.tolist()):
        if not isinstance(name, str | int) or isinstance(name, bool):
            raise InputError(
                f"ids must be strings or whole numbers; row {row} has {name!r} ({type(name).__name__})."
                " Try [str(name) for name in ids]."
            )
    return names


def as_groups(groups: Any, n_rows: int) -> np.ndarray | None:
    """The group of every row, hashable names of any kind, as numbers from 0 on; None stays None.

    >>> as_groups(["ann", "bob", "ann"], 3)
    array([0, 1, 0])
    """
    if groups is None:
        return None
    if isinstance(groups, str):
        raise InputError(f'groups must name the group of each row, or be "auto"; got {groups!r}.')
    names = _as_values(groups, n_rows, "groups", "groups").tolist()
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    if len(numbers) == 1 < n_rows:
        raise InputError(
            f"All {n_rows} rows are of one group, {names[0]!r}: none can be judged by others. Pass rows of several"
            " groups, or no groups."
        )
    return np.array([numbers[name] for name in names], np.int64)


def _as_values(values: Any, n_rows: int, name: str, what: str) -> np.ndarray:
    """Labels or ids as a one-dimensional array; values of mixed types as objects."""
    if not hasattr(values, "__len__"):
        raise InputError(f"{name} must be a sequence of {what}; got {type(values).__name__}.")
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise InputError(f"{name} must have one dimension; got shape {values.shape}. Try {name}.ravel().")
    if len(values) != n_rows:
        raise InputError(f"{name} holds {len(values)} {what}, but X has {n_rows} rows. Each row needs exactly one.")
    array = values if isinstance(values, np.ndarray) else np.asarray(values) if hasattr(values, "dtype") else None
    if array is None or array.dtype.kind == "O":
        array = _as_array(list(values))
    if array.dtype.kind not in "OfM":
        return array
    for row, value in enumerate(array.tolist()):
        if value is None or value != value:
            raise InputError(f"Row {row} has no value in {name}; got {value}. Drop such rows, or name the unknown.")
        if not isinstance(value, Hashable):
            raise InputError(f"{name} must be hashable; row {row} has {value!r} ({type(value).__name__}). Try a tuple.")
    return array


def _as_array(values: list[Any]) -> np.ndarray:
    kinds = {type(value) for value in values}
    if len(kinds) == 1 and issubclass(kinds.pop(), str | bool | int | float | np.generic):
        return as_labels(values)
    # numpy would turn [1, "a"] into texts and [(1, 2), (3, 4)] into a matrix.
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _as_groups(groups: Mapping[str, slice], n_columns: int) -> dict[str, slice]:
    checked: dict[str, slice] = {}
    owner: dict[int, str] = {}
    for name, part in groups.items():
        if not isinstance(name, str) or not name or name != name.strip():
            raise InputError(f"A feature group needs a name, without spaces at its ends; got {name!r}.")
        if not isinstance(part, slice) or part.step not in (None, 1):
            raise InputError(f"Feature group {name!r} must be a slice of columns without a step; got {part!r}.")
        start, stop = part.start or 0, n_columns if part.stop is None else part.stop
        if not 0 <= start < stop <= n_columns:
            raise InputError(
                f"Feature group {name!r} names columns {start} to {stop}, but X has columns 0 to {n_columns}"
                " (the last not included), and a group needs at least one."
            )
        for column in range(start, stop):
            if column in owner:
                raise InputError(f"Feature groups {owner[column]!r} and {name!r} both name column {column}.")
            owner[column] = name
        checked[name] = slice(int(start), int(stop))
    return checked


def _shortened(words: list[str]) -> list[str]:
    return words if len(words) <= COLUMNS_SHOWN else [*words[: COLUMNS_SHOWN - 1], "…"]
