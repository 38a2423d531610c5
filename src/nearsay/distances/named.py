"""The table of named distances, and how a name, function or matrix becomes a Distance."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Literal, TypeAlias, get_args

from nearsay.core.classes_by_name import classes_by_name
from nearsay.data.saved.saved_by_name import named_in_file, save_by_name
from nearsay.distances.distance import Distance
from nearsay.distances.functions import CompiledDistance, FunctionDistance, is_compiled
from nearsay.errors import InputError, unknown_name

# Every name of a distance. A new one is a class with this ``name`` in a module beside this one.
MetricName = Literal[
    "euclidean",
    "sqeuclidean",
    "manhattan",
    "chebyshev",
    "minkowski",
    "mahalanobis",
    "cosine",
    "correlation",
    "canberra",
    "braycurtis",
    "hamming",
    "jaccard",
    "chi2",
    "hellinger",
    "intersection",
    "jensen_shannon",
    "kullback_leibler",
    "tangent",
    "shape_context",
    "precomputed",
    # the same by other names: ALIASES
    "l2",
    "squared_euclidean",
    "l1",
    "cityblock",
    "taxicab",
    "linf",
    "maximum",
    "bray_curtis",
    "chi_square",
    "chi_squared",
    "histogram_intersection",
    "js",
    "jensenshannon",
    "kl",
]
# What a user may pass as a metric.
Metric: TypeAlias = MetricName | tuple[MetricName, Mapping[str, Any]] | Distance | Callable[[Any, Any], float]

ALIASES = {
    "l2": "euclidean",
    "squared_euclidean": "sqeuclidean",
    "l1": "manhattan",
    "cityblock": "manhattan",
    "taxicab": "manhattan",
    "linf": "chebyshev",
    "maximum": "chebyshev",
    "bray_curtis": "braycurtis",
    "chi_square": "chi2",
    "chi_squared": "chi2",
    "histogram_intersection": "intersection",
    "js": "jensen_shannon",
    "jensenshannon": "jensen_shannon",
    "kl": "kullback_leibler",
}

# What the name stands for, called with the parameters.
DISTANCES: dict[str, Callable[..., Distance]] = classes_by_name(
    [name for name in get_args(MetricName) if name not in ALIASES], beside=__name__
)
save_by_name(DISTANCES, "NamedDistance")


class NamedDistance:
    """A distance as a file holds it: its name and parameters."""

    @classmethod
    def _from_saved(cls, fields: dict[str, Any]) -> Distance:
        return named_in_file(DISTANCES, fields.pop("name"))(**fields)


def as_distance(distance: Any, **parameters: Any) -> Distance:
    """Give the Distance that a name, a function of two items, or a Distance stands for.

    Parameters
    ----------
    distance : str, (str, dict), function or Distance
        A name of ``DISTANCES`` or ``ALIASES``, alone or with its parameters; a Python function of two items; a function
        of two vectors compiled by numba; or a Distance, which is given back as it is.
    **parameters
        Parameters of a named distance, or further arguments of a Python function.

    >>> as_distance("l2")
    <distance euclidean>
    >>> as_distance(("minkowski", {"p": 3}))
    <distance minkowski p=3.0>
    >>> as_distance("euclid")
    Traceback (most recent call last):
    nearsay.errors.InputError: Unknown distance 'euclid' (did you mean 'euclidean'?). Known names: ...
    """
    if isinstance(distance, tuple) and len(distance) == 2 and isinstance(distance[1], dict):
        distance, parameters = distance[0], {**distance[1], **parameters}
    if isinstance(distance, str):
        return _named(distance, parameters)
    if parameters and callable(distance) and not isinstance(distance, type | Distance) and not is_compiled(distance):
        return FunctionDistance(partial(distance, **parameters))
    if parameters:
        raise InputError(
            f"Parameters ({', '.join(parameters)}) belong to a named distance or a Python function; got {distance!r}"
            " with them."
        )
    if isinstance(distance, Distance):
        return distance
    if is_compiled(distance):
        return CompiledDistance(distance)
    if callable(distance) and not isinstance(distance, type):
        return FunctionDistance(distance)
    raise InputError(
        "A distance is a name, a (name, parameters) pair, a function of two items, or a Distance;"
        f" got {type(distance).__name__} {distance!r}. A matrix of distances is passed in place of the rows, with"
        ' metric="precomputed".'
    )


def with_parameters(metric: Any, metric_params: Any) -> Any:
    """What scikit-learn calls ``metric`` and ``metric_params`` as one thing that ``as_distance`` takes.

    >>> with_parameters("minkowski", {"p": 3})
    <distance minkowski p=3.0>
    """
    if metric_params is None:
        return metric
    if not isinstance(metric_params, Mapping):
        raise InputError(f'metric_params must be a dict, such as {{"p": 3}}, or None; got {metric_params!r}.')
    return as_distance(metric, **metric_params) if metric_params else metric


_signature = cache(inspect.signature)  # asking anew takes longer than a search of a few rows


def _named(given: str, parameters: dict[str, Any]) -> Distance:
    name = ALIASES.get(given, given)
    if name not in DISTANCES:
        raise unknown_name("distance", given, {*DISTANCES, *ALIASES}, " You can also pass a function of two items.")
    make = DISTANCES[name]
    takes = _signature(make)
    try:
        takes.bind(**parameters)
    except TypeError as error:
        raise InputError(
            f"The distance {given!r} takes {', '.join(takes.parameters) or 'no parameters'};"
            f" got {', '.join(parameters)} ({error})."
        ) from error
    return make(**parameters)
