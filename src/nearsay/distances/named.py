"""The table of named distances, and how a user's word, function or matrix becomes a Distance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nearsay.distances.distance import Distance
from nearsay.distances.vectors import Euclidean, Manhattan, SquaredEuclidean
from nearsay.errors import InputError

DISTANCES: dict[str, Callable[..., Distance]] = {
    "euclidean": Euclidean,
    "sqeuclidean": SquaredEuclidean,
    "manhattan": Manhattan,
}

ALIASES = {"l2": "euclidean", "l1": "manhattan", "cityblock": "manhattan"}


def as_distance(distance: Any, **parameters: Any) -> Distance:
    """Give the Distance that a name, a function of two items, or a Distance stands for.

    >>> as_distance("l2")
    <distance euclidean>
    """
    if isinstance(distance, Distance):
        return distance
    if isinstance(distance, str):
        name = ALIASES.get(distance, distance)
        if name not in DISTANCES:
            raise InputError(
                f"Unknown distance {distance!r}. Known names: {', '.join(sorted({*DISTANCES, *ALIASES}))}."
                " You can also pass a function of two items."
            )
        return DISTANCES[name](**parameters)
    raise InputError(f"A distance is a name, a function of two items, or a Distance; {distance!r} came.")
