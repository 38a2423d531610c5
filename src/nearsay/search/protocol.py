"""The protocol of search backends: rows in, candidate row numbers out; safe to change during a search.

    writer   version 1 ──► a copy, changed ──► version 2 ──► …      one step from each to the next
    reader     └── snapshot: all of version 1, as long as it is needed

A change never touches what a reader may hold. It is made on a copy whose parts are new where they differ, and takes
effect in one step. So an answer is that of the collection before or after a change, and no reader waits for a writer.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from nearsay.distances.distance import Distance
from nearsay.distances.named import as_distance
from nearsay.search.row_store import HeldRows


@runtime_checkable
class NeighborSearch(Protocol):
    """Proposes candidates; ``nearsay.neighbors`` measures and orders them.

    ``exact`` promises that the k nearest rows, with ties by row number, are always among the candidates.
    """

    exact: bool
    distance_: Distance

    @property
    def rows_(self) -> HeldRows:
        """The rows that are searched."""
        ...

    def snapshot(self) -> NeighborSearch:
        """The search as it is now: it stays so, whatever is added or removed later."""
        ...

    def fit(self, X: Any) -> NeighborSearch:
        """Hold the rows of ``X``, numbered from 0."""
        ...

    def fit_checked(self, items: Any, distance: Distance) -> NeighborSearch:
        """The same for items that ``distance.check`` returned."""
        ...

    def candidates(self, Q: Any, k: int) -> np.ndarray:
        """Row numbers (n_queries, at least k) that should hold the k nearest; −1 fills up.

        ``Q`` has been checked, and k is no more than the number of rows held.
        """
        ...

    def add(self, X: Any) -> np.ndarray:
        """Hold more rows; gives their numbers."""
        ...

    def remove(self, rows: Any) -> None:
        """Forget rows by number. Numbers of other rows stay."""
        ...


class Versioned:
    """Makes a search safe to change while other threads use it; subclasses implement ``fit_checked``.

    The attributes of a version are never assigned to again, and what they hold is never changed, but for what is
    prepared on first use. Readers take a ``snapshot`` and ask that.
    """

    metric: Any
    _writing: SearchWriterLock

    def fit(self, X: Any) -> Self:
        """Check the rows of ``X``, and hold them, numbered from 0."""
        distance = as_distance(self.metric)
        return self.fit_checked(distance.check(X), distance)

    def fit_checked(self, items: Any, distance: Distance) -> Self:
        """Hold items that ``distance.check`` returned."""
        raise NotImplementedError

    def snapshot(self) -> Self:
        """The search as it is now: it stays so, whatever is added or removed later."""
        twin = object.__new__(type(self))
        twin.__dict__ = self.__dict__  # the next version brings its own
        return twin

    def _to_saved(self: Any) -> dict[str, Any]:
        """The state to save: settings and rows; only settings before ``fit``."""
        settings = {name: value for name, value in vars(self).items() if not name.startswith("_") and name[-1] != "_"}
        if not hasattr(self, "rows_"):
            return settings
        chunks = [chunk for _, chunk in self.rows_.chunks()]
        return {**settings, "metric": self.distance_, "chunks": chunks, "removed": self.rows_.removed}

    @classmethod
    def _from_saved(cls: Any, fields: dict[str, Any]) -> Any:
        chunks, removed = fields.pop("chunks", None), fields.pop("removed", None)
        search = cls._made_again(fields)
        if chunks is None:
            return search
        search.fit(chunks[0])
        for chunk in chunks[1:]:
            search.add(chunk)
        if removed is not None:
            search.remove(np.flatnonzero(removed))
        return search

    @classmethod
    def _made_again(cls: Any, settings: dict[str, Any]) -> Any:
        """A search with these settings, from a file; optional packages may be missing on this machine."""
        return cls(**settings)

    @contextmanager
    def _next_version(self) -> Iterator[Self]:
        """A copy to be changed. It takes effect in one step at the end of the block, or not at all on an error."""
        with self._writing:
            following = copy.copy(self)
            yield following
            self.__dict__ = following.__dict__


class SearchWriterLock:
    """A lock for one writer at a time. A copy of a search, or one read from a file, has its own."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[SearchWriterLock], tuple[()]]:
        return type(self), ()
