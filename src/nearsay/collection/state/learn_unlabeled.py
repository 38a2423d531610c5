"""What a collection learns while little or nothing is labeled: how items are compared, and which distances are usual.

Labels that were chosen to cover the collection lie far apart, so that past cases among them say too little of how near
neighbors agree: nothing is chosen by them, nearer neighbors count more by a fixed rule, and the fewer labels there are,
the more of the probability is spread over all classes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from nearsay.collection.state.feature_groups import FeatureGroups, TextViews
from nearsay.collection.state.learned import Learned
from nearsay.collection.state.live_items import NO_LABEL
from nearsay.core.arrays import evenly
from nearsay.posterior.choice.candidate_views import transformed_views
from nearsay.posterior.methods.weighted import Weighted
from nearsay.posterior.views.feature_group import View
from nearsay.posterior.views.row_transforms import STANDARDIZED

# Neighbors that are shown of an item, and those that vote while there are few labels.
NEIGHBORS, FEW_NEIGHBORS = 10, 3
# A column that spreads so many times as much as the middle one is wide. Where the wide ones hold this share of all
# variance, columns are standardized: a table with an income beside an age, but neither pixels nor an embedding.
WIDE, MOST_OF_IT = 3.0, 0.5
ROWS_TO_COMPARE = 20_000
# As posteriors have it by default.
LEAST_DOUBT = 0.01


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
    posterior: Any = "proportional" if unlabeled else Weighted(model_failure=doubt_after(len(X)))
    learned = Learned.from_rows(
        X,
        labels,
        numbers,
        metric=metric,
        groups=groups,
        posterior=posterior,
        n_neighbors=max(1, min(NEIGHBORS if unlabeled else FEW_NEIGHBORS, len(X) - 1)),
        views=partial(_one_view, metric, groups),
        **further,
    )
    learned.requested = ("auto", "auto")
    return learned


def doubt_after(n_labels: int) -> float:
    """The share of the probability that is spread over all classes while labels are few, by the rule of succession.

    After n labels that agreed with their neighbors the next one disagrees with probability 1 / (n + 2).

    >>> doubt_after(2), doubt_after(198)
    (0.25, 0.01)
    """
    return max(1 / (n_labels + 2), LEAST_DOUBT)


def _one_view(
    metric: str,
    groups: FeatureGroups | TextViews | None,
    X: np.ndarray,
    labels: np.ndarray,
    n_classes: int,
    make: Callable[..., View] = View,
    of_groups: np.ndarray | None = None,
) -> list[View]:
    """All groups together; or all columns, standardized where few of them decide."""
    if groups is not None:
        return groups.views(X, labels, n_classes, make)[:1]
    given: Any = X, labels, n_classes
    standardized = metric == "euclidean" and few_columns_decide(X)
    views = transformed_views([STANDARDIZED], *given, make=make) if standardized else []
    return views or [make("all", None, metric).fit(*given)]


def few_columns_decide(X: np.ndarray) -> bool:
    """Whether a few wide columns decide most of the distances.

    >>> few_columns_decide(np.array([[30.0, 1.0, 41_000.0], [40.0, 2.0, 39_500.0], [20.0, 5.0, 20_000.0]]))
    True
    >>> few_columns_decide(np.array([[1.0, 2.0], [3.0, 0.0]]))
    False

    Of many main directions the first may be wide, and still say little:

    >>> few_columns_decide(np.random.default_rng(0).normal(size=(100, 200)) * ([5.0] + [1.0] * 199))
    False
    """
    variances = np.sort(np.asarray(X[evenly(len(X), ROWS_TO_COMPARE)], np.float64).var(axis=0))
    variances = variances[variances > 0]
    if len(variances) < 2:
        return False
    wide = variances > WIDE**2 * variances[(len(variances) - 1) // 2]
    return bool(variances[wide].sum() > MOST_OF_IT * variances.sum())
