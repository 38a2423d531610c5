"""The views of the rows that are worth trying: by several distances, and transformed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nearsay.errors import InputError
from nearsay.posterior.methods.named import AUTO
from nearsay.posterior.views.feature_group import View, present
from nearsay.posterior.views.row_transforms import (
    LARGE_MARGIN,
    STANDARDIZED,
    STANDARDIZED_MANHATTAN,
    WHITENED,
    LearnedTransforms,
    RowTransform,
    columns_of_maps,
    unequal_columns,
)

# A metric that is left open, without and with a view that LMNN learns.
AUTO_METRICS = (AUTO, "auto-large-margin")
# Rows as they are, their directions, and amounts; one that a row does not allow (a root of a negative number, the
# direction of nothing) is not tried. All are searched by products, so that trying them takes no longer than using them.
DISTANCES_TO_TRY = ("euclidean", "cosine", "hellinger")
# What no product finds takes many times as long, in proportion to the numbers a collection has: up to so many it is
# worth that.
NUMBERS_TO_MEASURE = 1 << 20


def is_auto_metric(metric: Any) -> bool:
    """Whether past cases choose how rows are compared.

    >>> is_auto_metric("auto"), is_auto_metric("auto-large-margin"), is_auto_metric("euclidean")
    (True, True, False)
    """
    return isinstance(metric, str) and metric in AUTO_METRICS


def views_to_try(
    groups: Mapping[str, Any],
    distances: Sequence[Any],
    search: Any,
    X: Any,
    labels: np.ndarray,
    n_classes: int,
    *,
    n_jobs: int | None = None,
    make: Callable[..., View] = View,
) -> dict[tuple[int, int], View]:
    """Fitted views of every group under every distance; "auto" among them stands for those worth trying.

    A distance that was asked for must take every row, and measures all columns. One that was not is
    left out for a group where it does not, unless none takes it, and measures neither constant columns nor
    copies of others. ``make`` makes the views.
    """
    views = {}
    for number, (group, columns) in enumerate(groups.items()):
        refused: list[InputError] = []
        for place, (distance, by_user) in enumerate(_spelled_out(distances)):
            measured = None if by_user else columns_of_maps(present(X, columns)[0])
            view = make(
                group, columns, distance, search, forgiving=not by_user, measured_columns=measured, n_jobs=n_jobs
            )
            try:
                views[number, place] = view.fit(X, labels, n_classes)
            except InputError as error:
                if by_user:
                    raise
                refused.append(error)
        if refused and not any(group == number for group, _ in views):
            raise refused[0]
    return views


def _spelled_out(distances: Sequence[Any]) -> Iterator[tuple[Any, bool]]:
    """Each distance, and whether the user asked for it."""
    for distance in distances:
        if is_auto_metric(distance):
            yield from ((name, False) for name in DISTANCES_TO_TRY)
        else:
            yield distance, True


def transforms_to_try(
    X: Any, labels: np.ndarray, *, large_margin: bool = False, most_measured: int = NUMBERS_TO_MEASURE
) -> list[RowTransform]:
    """Transforms that are worth a try: to columns of one scale, where they are not, and whitened in several ways.

    Whitened ones only where there is something to learn: two classes, and two columns; with a large margin only where
    that is asked for: LMNN can take several times as long as all else.
    """
    transforms = [STANDARDIZED] if unequal_columns(X) else []
    n_columns = len(columns_of_maps(X))
    if n_columns > 1 and len(X) * n_columns <= most_measured:
        transforms.append(STANDARDIZED_MANHATTAN)
    if np.count_nonzero(np.bincount(labels)) > 1 and n_columns > 1:
        transforms += WHITENED
        if large_margin:
            transforms.append(LARGE_MARGIN)
    return transforms


def transformed_views(
    transforms: Sequence[RowTransform],
    X: Any,
    labels: np.ndarray,
    n_classes: int,
    *,
    search: Any = "auto",
    n_jobs: int | None = None,
    make: Callable[..., View] = View,
    order: np.ndarray | None = None,
    groups: np.ndarray | None = None,
) -> list[View]:
    """Fitted views of transformed rows; none where their numbers are too large or too small to be squared twice."""
    # LMNN is learned when its view is first asked for, so that the time it takes shows there.
    parts = [[each for each in transforms if each.large_margin == large_margin] for large_margin in (False, True)]
    learned = [LearnedTransforms(part, X, labels, order, groups) for part in parts]
    try:
        return [
            make(
                "all",
                None,
                each.distance,
                search,
                transform=each,
                transforms=learned[each.large_margin],
                n_jobs=n_jobs,
            ).fit(X, labels, n_classes)
            for each in transforms
        ]
    except InputError:
        return []
