"""Several feature spaces of the same rows, each with a distance: distances to every row in each space.

Learned rankings and weighted distances need *all* rows in every space, not only the nearest. One query needs rows ×
spaces numbers; they are computed for a few queries at a time and not kept. Among the rows themselves most distances
are symmetric, and are measured once::

            0 ─────────── n
            ┌──┬────┬─────┐
            │▒▒│▒▒▒▒│▒▒▒▒▒│
      lines │▒▒│█▒▒▒│▒▒▒▒▒│      ▒ measured   █ copied from across the diagonal
            │▒▒│██▒▒│▒▒▒▒▒│
            │▒▒│███▒│▒▒▒▒▒│
            └──┴────┴─────┘
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nearsay.core.arrays import as_rows, evenly, row_blocks
from nearsay.core.parallel import in_parallel
from nearsay.data.content_order import content_order
from nearsay.distances.distance import Distance
from nearsay.distances.named import as_distance
from nearsay.errors import InputError
from nearsay.neighbors.joint.held_space import HeldSpace

# The largest distance of a space is measured from so many rows, so many at once.
REFERENCE_ROWS, AT_ONCE = 512, 16


@dataclass(frozen=True)
class FeatureSpace:
    """Some columns of the rows, and how they are compared."""

    name: str
    columns: slice
    distance: Distance


def as_spaces(features: Any, n_columns: int, distance: Any = "euclidean") -> list[FeatureSpace]:
    """The feature spaces of a ``features`` parameter.

    features : None, {name: columns} or {name: (columns, distance)}, None is one space of all columns. Columns are a
        slice.
    n_columns : of the rows.
    distance : for spaces that name none.

    >>> [(space.name, space.distance) for space in as_spaces({"hue": (slice(0, 3), "l1"), "size": slice(3, 5)}, 5)]
    [('hue', <distance manhattan>), ('size', <distance euclidean>)]
    """
    if features is None:
        return [FeatureSpace("all", slice(0, n_columns), as_distance(distance))]
    if not isinstance(features, Mapping) or not features:
        raise InputError(
            "features must map names to columns, {'color': slice(0, 64)}, or to columns and a distance,"
            f" {{'color': (slice(0, 64), 'manhattan')}}; got {features!r}."
        )
    return [_as_space(name, given, n_columns, distance) for name, given in features.items()]


def _as_space(name: str, given: Any, n_columns: int, distance: Any) -> FeatureSpace:
    columns, named = given if isinstance(given, tuple) and len(given) == 2 else (given, distance)
    if not isinstance(columns, slice):
        raise InputError(f"The columns of {name!r} must be a slice, such as slice(0, 64); got {columns!r}.")
    if not len(range(*columns.indices(n_columns))):
        raise InputError(f"The feature space {name!r} is empty: {columns} takes none of {n_columns} columns.")
    return FeatureSpace(str(name), columns, as_distance(named))


class HeldSpaces:
    """The rows of a collection, ready to be measured from any query in every space.

    X : (n_rows, n_columns)
    spaces : from ``as_spaces``.

    >>> held = HeldSpaces([[0, 0], [3, 4]], as_spaces({"a": slice(0, 1), "b": (slice(1, 2), "sqeuclidean")}, 2))
    >>> [held.distances(m, np.array([[0, 0]])).tolist() for m in range(2)]
    [[[0.0, 3.0]], [[0.0, 16.0]]]
    """

    distances_kept = 2**25  # among the rows, at once (256 MB): all of them up to 5,792 rows

    def __init__(self, X: Any, spaces: list[FeatureSpace]) -> None:
        self.rows = as_rows(X)
        self.spaces = spaces
        self._farthest: dict[int, float] = {}  # of the spaces in which all rows were measured, as ``scales`` says
        self._hold()

    def _hold(self) -> None:
        self.held = in_parallel(lambda space: HeldSpace(self.rows[:, space.columns], space.distance), self.spaces)

    def __getstate__(self) -> dict[str, Any]:
        """What is saved or sent to another process: the rows, and not what is made of them."""
        return {name: value for name, value in self.__dict__.items() if name != "held"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._hold()

    def __len__(self) -> int:
        return len(self.spaces)

    @property
    def n_rows(self) -> int:
        return len(self.rows)

    @cached_property
    def scales(self) -> np.ndarray:
        """The largest distance in each space from some hundred rows; 1 where all rows are equal: (n_spaces,)."""
        reference = self.rows[self._reference_rows()]
        scales = np.array([self._farthest.get(space, 0.0) for space in range(len(self))])
        unknown = [space for space in range(len(self)) if space not in self._farthest]
        roughly = dict(zip(unknown, in_parallel(lambda space: self.held[space].rough(), unknown), strict=True))
        parts = [(space, part) for space in unknown for part in row_blocks(len(reference), size=AT_ONCE)]

        def largest(at: tuple[int, slice]) -> float:
            space, part = at
            return self.held[space].largest(reference[part][:, self.spaces[space].columns], roughly[space])

        np.maximum.at(scales, [space for space, _ in parts], in_parallel(largest, parts))
        return np.where(scales > 0, scales, 1.0)

    def _reference_rows(self) -> np.ndarray:
        """The rows from which largest distances are measured: all, or some chosen by content."""
        if self.n_rows <= REFERENCE_ROWS:
            return np.arange(self.n_rows)
        return content_order(self.rows, in_any_unit=True)[evenly(self.n_rows, REFERENCE_ROWS)]

    def distances(self, space: int, Q: np.ndarray, rows: slice | None = None) -> np.ndarray:
        """Distances of whole query rows to every row (or to these, from start to stop) in one space."""
        columns = self.spaces[space].columns
        return self.held[space].distances(Q[:, columns], slice(0, self.n_rows) if rows is None else rows)

    @property
    def fits_at_once(self) -> bool:
        """Whether the distances between all rows are few enough to be kept."""
        return self.n_rows**2 <= self.distances_kept

    def line_blocks(self) -> Iterator[slice]:
        """Rows whose distances to all rows are few enough to be kept: parts for ``between_rows``."""
        return row_blocks(self.n_rows, size=max(1, self.distances_kept // self.n_rows))

    def between_rows(self, space: int, lines: slice, out: np.ndarray) -> None:
        """Fill ``out`` (lines × rows) with the distances of these rows to every row in one space.

        The same numbers as from ``distances``, in little more than half the
        time where ``lines`` are all rows and both sides of a pair see the same.

        >>> held, out = HeldSpaces([[0], [2], [5]], as_spaces(None, 1)), np.empty((2, 3))
        >>> held.between_rows(0, slice(1, 3), out)
        >>> out
        array([[2., 0., 3.],
               [5., 3., 0.]])
        """
        distance = self.spaces[space].distance
        mirrored = distance.symmetric

        def measure(part: slice) -> None:
            mine = slice(lines.start + part.start, lines.start + part.stop)
            Q = self.rows[mine]
            if not mirrored:
                out[part] = self.distances(space, Q)
                return
            if lines.start:
                out[part, : lines.start] = self.distances(space, Q, slice(0, lines.start))
            onward = self.distances(space, Q, slice(mine.start, self.n_rows))
            out[part, mine.start :] = onward
            out[part.stop :, mine] = onward[:, len(Q) : lines.stop - mine.start].T

        in_parallel(measure, row_blocks(lines.stop - lines.start, size=AT_ONCE))
        if len(out) == self.n_rows:
            self._farthest[space] = float(out[self._reference_rows()].max())
