"""Rows that must not be asked about each other: groups that are found, and validation rows behind the training rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length, column_or_1d

from nearsay.core.arrays import check_sample_weight, row_blocks
from nearsay.core.validation import checked_labels
from nearsay.errors import InputError, NearDuplicateWarning
from nearsay.neighbors.by_class.labeled import LabeledNeighbors
from nearsay.neighbors.near_duplicates import near_duplicate_groups
from nearsay.posterior.base import FRESH
from nearsay.posterior.choice.candidate_views import is_auto_metric
from nearsay.posterior.choice.model_fit import SCALES_MATTER, FitOptions
from nearsay.posterior.methods.named import is_auto
from nearsay.posterior.past_cases import ROWS_AT_ONCE
from nearsay.posterior.views.row_transforms import STANDARDIZED, learn_maps, unequal_columns
from nearsay.posterior.votes import count_votes, neighbor_labels, winners


def are_automatic(groups: Any) -> bool:
    """Whether groups of rows are to be found, not given."""
    return isinstance(groups, str) and is_auto(groups)


def automatic_groups(options: FitOptions, X: Any, labels: np.ndarray) -> np.ndarray | None:
    """Groups of near-duplicates, as the metric compares rows; None where there are none.

    Columns of unequal scale are standardized first, where the metric may be chosen so.
    """
    metric: Any = "euclidean" if is_auto_metric(options.metric) else options.metric
    if isinstance(metric, str) and metric in SCALES_MATTER and unequal_columns(X):
        X = learn_maps([STANDARDIZED], X, labels)[0](X)
    return near_duplicate_groups(X, labels, metric, options.n_jobs)


def checked_validation(validation: Any) -> tuple[Any, np.ndarray]:
    """Validation rows, and their labels as an array.

    >>> checked_validation(5)
    Traceback (most recent call last):
    nearsay.errors.InputError: validation must be (rows, labels) that are not among the training rows; got 5.
    """
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise InputError(f"validation must be (rows, labels) that are not among the training rows; got {validation!r}.")
    rows, labels = validation
    check_consistent_length(rows, labels)
    return rows, column_or_1d(checked_labels(labels), warn=True)


def labels_together(y: np.ndarray, more: np.ndarray) -> np.ndarray:
    """The labels of rows, and of more behind them; words and numbers do not mix.

    >>> labels_together(np.array([1, 0]), np.array(["1"]))
    Traceback (most recent call last):
    nearsay.errors.InputError: Labels of validation rows must be like those of training rows, such as 1; got '1'.
    """
    together = np.concatenate([y, more])
    if len(more) and (y.dtype.kind in "US") != (more.dtype.kind in "US") and "O" not in (y.dtype.kind, more.dtype.kind):
        raise InputError(
            "Labels of validation rows must be like those of training rows, such as"
            f" {y[0].item()!r}; got {more[0].item()!r}."
        )
    return together


def items_together(X: Any, more: Any) -> Any:
    """Rows, or items of any kind, with more behind them."""
    return np.concatenate([X, more]) if isinstance(X, np.ndarray) else [*X, *more]


def weights_together(sample_weight: Any, n_rows: int, n_more: int) -> Any:
    """The weights of rows, and of more behind them, which count as much as the usual row that counts.

    >>> weights_together([1.0, 0.0, 3.0], 3, 1)
    array([0.25, 0.  , 0.75, 0.5 ])
    """
    if sample_weight is None or not n_more:
        return sample_weight
    given = check_sample_weight(sample_weight, n_rows)
    return np.append(given, np.full(n_more, given[given > 0].mean()))


def groups_together(groups: np.ndarray | None, fresh: np.ndarray) -> np.ndarray | None:
    """The group of each row, validation rows marked as such; ``groups`` are those of the others, or of all.

    >>> groups_together(None, np.array([False, False, True]))
    array([ 0,  1, -1])
    """
    if not fresh.any():
        return groups
    together = np.arange(len(fresh))
    if groups is not None:
        together[: len(groups)] = groups
    together[fresh] = FRESH
    return together


def warn_of_near_duplicates(labeled: LabeledNeighbors, n_neighbors: int) -> None:
    """Warn where votes are right less often without groups, by more than a standard error."""
    lost = near_duplicate_loss(labeled, n_neighbors)
    if lost is not None:
        learned = "Probabilities, records and promises are learned without them, as for new rows."
        warnings.warn(f"{lost} {learned}", NearDuplicateWarning, stacklevel=4)


def near_duplicate_loss(labeled: LabeledNeighbors, n_neighbors: int) -> str | None:
    """How many votes are right with and without groups, in words; None where that is within a standard error."""
    assert labeled.groups is not None
    with_all, without = (right_votes(each, n_neighbors) for each in (labeled.ungrouped, labeled))
    n_rows, lost = len(labeled), with_all - without
    share = with_all / n_rows
    if lost / n_rows <= np.sqrt(share * (1 - share) / n_rows):
        return None
    of_live = labeled.groups[labeled.live_numbers]
    _, number, size = np.unique(of_live, return_inverse=True, return_counts=True)
    return (
        f"{(size[number] > 1).mean():.0%} of the rows have near-duplicates in their class. The votes of {n_neighbors}"
        f" neighbors are right for {share:.1%} of the rows, and for {share - lost / n_rows:.1%} if near-duplicates do"
        " not vote."
    )


def right_votes(labeled: LabeledNeighbors, n_neighbors: int) -> int:
    """For how many rows the votes of their neighbors among the others are right, ties by the nearest."""
    n_right, rows = 0, labeled.live_numbers
    for part in row_blocks(len(rows), size=ROWS_AT_ONCE):
        table = labeled.leave_one_out(n_neighbors, rows=rows[part])
        votes = count_votes(neighbor_labels(table, labeled.labels), labeled.n_classes)
        n_right += int(np.count_nonzero(winners(votes, table, labeled.labels) == labeled.labels[rows[part]]))
    return n_right
