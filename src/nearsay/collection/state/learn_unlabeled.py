"""What a collection learns while little or nothing is labeled: how items are compared, and which distances are usual.

Labels that were chosen to cover the collection lie far apart, so that past cases among them say too little of how near
neighbors agree: nothing is chosen by them, and nearer neighbors count more by a fixed rule.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from nearsay.collection.state.feature_groups import FeatureGroups
from nearsay.collection.state.learned import Learned
from nearsay.collection.state.live_items import NO_LABEL
from nearsay.collection.state.text_views import TextViews
from nearsay.core.arrays import evenly
from nearsay.posterior.choice.candidate_views import transformed_views
from nearsay.posterior.views.feature_group import View
from nearsay.posterior.views.row_transforms import STANDARDIZED

# Neighbors that are shown of an item, and those that vote while there are few labels.
NEIGHBORS, FEW_NEIGHBORS = 10, 3
# Columns are standardized where the widest spreads so many times as much as the middle one: a table with an income
# beside an age, but neither pixels nor the columns of an encoder.
DROWNS = 3.0
ROWS_TO_COMPARE = 20_000


def learned_unlabeled(
    X: np.ndarray,
    labels: np.ndarray,
    numbers: np.ndarray,
    metric: str,
    groups: FeatureGroups | TextViews | None,
    **further: Any,
) -> Learned:
    """Learn from rows without labels (``NO_LABEL``), or with a few; ``numbers`` are theirs in the store."""
    unlabeled = bool((labels == NO_LABEL).all())
    learned = Learned.from_rows(
        X,
        labels,
        numbers,
        metric=metric,
        groups=groups,
        posterior="proportional" if unlabeled else "weighted",
        n_neighbors=max(1, min(NEIGHBORS if unlabeled else FEW_NEIGHBORS, len(X) - 1)),
        views=partial(_one_view, metric, groups),
        **further,
    )
    learned.requested = ("auto", "auto")
    return learned


def _one_view(
    metric: str,
    groups: FeatureGroups | TextViews | None,
    X: np.ndarray,
    labels: np.ndarray,
    n_classes: int,
    make: Callable[..., View] = View,
) -> list[View]:
    """All groups together; or all columns, standardized where one drowns the others."""
    if groups is not None:
        return groups.views(X, labels, n_classes, make)[:1]
    given: Any = X, labels, n_classes
    standardized = metric == "euclidean" and one_column_drowns_others(X)
    views = transformed_views([STANDARDIZED], *given, make=make) if standardized else []
    return views or [make("all", None, metric).fit(*given)]


def one_column_drowns_others(X: np.ndarray) -> bool:
    """Whether one column decides nearly all distances.

    >>> one_column_drowns_others(np.array([[30.0, 1.0, 41_000.0], [40.0, 2.0, 39_500.0], [20.0, 5.0, 20_000.0]]))
    True
    >>> one_column_drowns_others(np.array([[1.0, 2.0], [3.0, 0.0]]))
    False
    """
    spread = np.asarray(X[evenly(len(X), ROWS_TO_COMPARE)], np.float64).std(axis=0)
    spread = spread[spread > 0]
    return len(spread) > 1 and bool(spread.max() > DROWNS * np.median(spread))
