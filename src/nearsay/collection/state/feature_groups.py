"""The metric of a collection: one distance for all columns, or feature groups with a distance each; views of texts.

    columns of a group, by its own distance ────────────────► a view of each group, for the pool
    all groups, each divided by its mean distance ──────────► the view that shows the neighbors

So no group dominates the neighbors shown; past cases say how much each counts in an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from nearsay.core.arrays import evenly, within_range
from nearsay.data.content_order import content_order
from nearsay.distances.named import DISTANCES, as_distance
from nearsay.errors import InputError
from nearsay.posterior.views.class_lines import CLASS_LINES, ClassLines
from nearsay.posterior.views.feature_group import View
from nearsay.posterior.views.row_transforms import LearnedTransforms, LinearMap, RowTransform

# Symmetric distances: one pass finds the rows that have a new row as neighbor.
METRICS = tuple(name for name, kind in DISTANCES.items() if getattr(kind, "symmetric", False))
# Those that grow with the columns, so that groups can be divided by their mean distance.
GROWING = ("euclidean", "manhattan")
PAIRS = 4000
TOGETHER = "all together"
# With more texts the lines between classes take too long to be learned unasked.
ROWS_FOR_LINES = 50_000


@dataclass(frozen=True)
class FeatureGroups:
    """Columns that belong together, and the distance of each group.

    Attributes
    ----------
    columns : {name: (start, stop)}
    metrics : {name: metric}

    >>> FeatureGroups.of_parameters({"color": (0, 3), "shape": slice(3, 7)}, {"color": "chi2", "shape": "euclidean"}, 7)
    FeatureGroups(columns={'color': (0, 3), 'shape': (3, 7)}, metrics={'color': 'chi2', 'shape': 'euclidean'})
    """

    columns: dict[str, tuple[int, int]]
    metrics: dict[str, str]

    @classmethod
    def of_parameters(cls, groups: Any, metric: Any, n_columns: int) -> FeatureGroups:
        """Groups as a user names them: pairs (start, stop) or slices, and one metric, or one for each."""
        if not isinstance(groups, Mapping) or not groups:
            raise InputError(
                'feature_groups must name groups of columns, such as {"color": (0, 48), "shape": (48, 112)};'
                f" got {groups!r}."
            )
        columns = {str(name): _ends(name, each, n_columns) for name, each in groups.items()}
        in_order = sorted(columns, key=lambda name: columns[name])
        for before, after in pairwise(in_order):
            if columns[after][0] < columns[before][1]:
                raise InputError(
                    f"The feature groups {before!r} {columns[before]} and {after!r} {columns[after]} overlap."
                    " A column belongs to one group: let each start where the one before it stops."
                )
        return cls(columns, _metrics(metric, columns))

    @classmethod
    def of_settings(cls, settings: Mapping[str, Any]) -> FeatureGroups | None:
        """The groups in the settings of a store; None without groups."""
        columns = settings.get("feature_groups")
        if columns is None:
            return None
        return cls({name: (start, stop) for name, (start, stop) in columns.items()}, dict(settings["metric"]))

    def to_settings(self) -> dict[str, Any]:
        """The settings to store, in plain JSON."""
        return {"feature_groups": {name: list(ends) for name, ends in self.columns.items()}, "metric": self.metrics}

    @property
    def joint_metric(self) -> str:
        """The metric of all groups together: their common one, if it scales with the columns."""
        shared = set(self.metrics.values())
        return shared.pop() if len(shared) == 1 and shared <= set(GROWING) else GROWING[0]

    def views(
        self,
        X: np.ndarray,
        labels: np.ndarray,
        n_classes: int,
        make: Callable[..., View] = View,
        groups: np.ndarray | None = None,
    ) -> list[View]:
        """Fitted views: all groups together, then each by its own distance; of one group that alone."""
        views = [make(name, slice(*ends), self.metrics[name]) for name, ends in self.columns.items()]
        if len(views) > 1:
            transform = RowTransform(TOGETHER, distance=self.joint_metric)
            transforms = _AllGroups(self, transform, X, labels)
            views.insert(0, make("all", None, transform.distance, transform=transform, transforms=transforms))
        return [view.fit(X, labels, n_classes) for view in views]

    def scales(self, X: np.ndarray) -> np.ndarray:
        """Factors of the columns that give each group the same weight, and all rows a mean distance of 1.

        Columns in no group have 0.
        """
        distance, rows = as_distance(self.joint_metric), evenly(len(X), PAIRS)
        some = np.asarray(X[np.random.default_rng(0).permutation(rows)], np.float64)
        others = np.roll(some, 1, axis=0)
        scales = np.zeros(X.shape[1])
        for start, stop in self.columns.values():
            scales[start:stop] = _per_mean(distance.paired(some[:, start:stop], others[:, start:stop]))
        scales *= _per_mean(distance.paired(some * scales, others * scales))
        return scales


@dataclass(frozen=True)
class ScaledColumns:
    """Rows with each column times its scale; float32 where the rows are.

    >>> ScaledColumns(np.array([2.0, 0.0]))(np.array([[1.0, 3.0]]))
    array([[2., 0.]])
    """

    scales: np.ndarray

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """The scaled rows."""
        return within_range(rows * self.scales, LinearMap.dtype_of(rows.dtype))

    def largest_mapped(self, largest: float) -> float:
        """No number of a scaled row is larger than this, where none of the rows is larger than ``largest``."""
        return largest * float(np.abs(self.scales).max(initial=0.0))


class _AllGroups(LearnedTransforms):
    """The transform of all groups together; it does not depend on labels."""

    def __init__(self, groups: FeatureGroups, transform: RowTransform, X: np.ndarray, labels: np.ndarray) -> None:
        super().__init__([transform], X, labels)
        self._scaled = ScaledColumns(groups.scales(X))

    def whole(self, transform: RowTransform) -> Any:
        return self._scaled


def check_metric(metric: Any, group: str | None = None) -> str:
    """Check that a collection can use a metric; the error lists those that it can."""
    if not isinstance(metric, str) or metric not in METRICS:
        whose = "" if group is None else f" for the feature group {group!r}"
        groups = " Several metrics need feature_groups, one for each." if isinstance(metric, Mapping) else ""
        raise InputError(f"A collection measures by one of {', '.join(METRICS)}; got metric={metric!r}{whose}.{groups}")
    return metric


def check_measurable(X: np.ndarray, settings: Mapping[str, Any]) -> np.ndarray:
    """Check that the distances of a collection can measure rows; the error names the group that they cannot."""
    groups = FeatureGroups.of_settings(settings)
    if groups is None:
        as_distance(settings.get("metric", "euclidean")).check(X)
        return X
    for name, ends in groups.columns.items():
        try:
            as_distance(groups.metrics[name]).check(np.ascontiguousarray(X[:, slice(*ends)]))
        except InputError as error:
            raise InputError(f"The feature group {name!r} cannot be measured: {error}") from error
    return X


def _metrics(metric: Any, groups: Mapping[str, Any]) -> dict[str, str]:
    if not isinstance(metric, Mapping):
        return dict.fromkeys(groups, check_metric(metric))
    if set(metric) != set(groups):
        raise InputError(
            f"Each feature group needs its metric: the groups are {', '.join(groups)},"
            f" but there are metrics for {', '.join(map(str, metric)) or 'none'}. One name for all of them will do too."
        )
    return {name: check_metric(metric[name], name) for name in groups}


def _ends(name: Any, columns: Any, n_columns: int) -> tuple[int, int]:
    ends = (columns.start or 0, columns.stop) if isinstance(columns, slice) and columns.step in (None, 1) else columns
    listed = list(ends) if isinstance(ends, tuple | list) else []
    whole = len(listed) == 2 and all(isinstance(end, int | np.integer) for end in listed)
    if not whole or not 0 <= listed[0] < listed[1] <= n_columns:
        raise InputError(
            f"The feature group {name!r} has the columns {columns!r}. Name the first column and the one after the last,"
            f" as (start, stop) with 0 ≤ start < stop ≤ {n_columns}."
        )
    return int(listed[0]), int(listed[1])


def _per_mean(distances: np.ndarray) -> float:
    """1 / the mean of positive distances; 1 without any."""
    positive = distances[distances > 0]
    return float(1 / positive.mean()) if len(positive) else 1.0


@dataclass(frozen=True)
class TextViews:
    """What a collection of texts is compared by: all columns, as they are and as scores of lines between classes."""

    columns: dict[str, tuple[int, int]]
    joint_metric: str

    @classmethod
    def of_settings(cls, settings: Mapping[str, Any]) -> TextViews | None:
        """The views by the settings of a store; None where items are no texts."""
        record = settings.get("described") or {}
        if record.get("kind") != "texts" or not isinstance(settings.get("metric"), str):
            return None
        return cls({"text": (0, record["columns"][-1][1])}, settings["metric"])

    def views(
        self,
        X: np.ndarray,
        labels: np.ndarray,
        n_classes: int,
        make: Callable[..., View] = View,
        groups: np.ndarray | None = None,
    ) -> list[View]:
        """Fitted views: the rows as they are, whose neighbors are shown, and their scores for each class."""
        views = [make("all", None, self.joint_metric)]
        if n_classes > 1 and len(X) <= ROWS_FOR_LINES:
            lines = ClassLines(X, labels, content_order(X, labels), groups)
            views.append(make("all", None, CLASS_LINES.distance, transform=CLASS_LINES, transforms=lines))
        return [view.fit(X, labels, n_classes) for view in views]
