"""The only place that chooses a search backend, and says why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nearsay.distances.distance import Distance
from nearsay.errors import InputError
from nearsay.search.exact import ExactSearch
from nearsay.search.protocol import NeighborSearch


@dataclass(frozen=True)
class Choice:
    """The backend that serves, its name, and the reason in words."""

    search: NeighborSearch
    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


def choose(search: Any, distance: Distance, X: Any, recall: float | None = None) -> Choice:
    """Build the backend that ``search`` names, or for "auto" the one that should be fastest here."""
    if not isinstance(search, str):
        return Choice(search, type(search).__name__, "you passed it")
    if search in ("auto", "exact"):
        return Choice(ExactSearch(distance), "exact", "you asked for it")
    raise InputError(f"Unknown search {search!r}.")
