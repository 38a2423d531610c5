"""Checks of settings, rows and labels before a classifier is fitted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from nearsay.core.settings import check_randomness
from nearsay.core.validation import checked_labels, checked_rows, checked_rows_and_labels
from nearsay.distances.distance import Distance
from nearsay.distances.functions import FunctionDistance, PrecomputedDistance
from nearsay.distances.named import with_parameters
from nearsay.encode.encoded_table import EncodedTable
from nearsay.encode.table_columns import needs_encoding
from nearsay.errors import InputError
from nearsay.posterior.base import Posterior
from nearsay.posterior.choice.candidate_views import is_auto_metric
from nearsay.posterior.methods.named import FEW, POSTERIORS, Auto, as_posterior, is_auto, name_of
from nearsay.posterior.methods.pooled import Pooled
from nearsay.posterior.row_weights import RowWeights
from nearsay.posterior.votes import check_tie_break


def posteriors_to_try(
    posterior: Any,
    *,
    every: bool,
    weights: RowWeights | None = None,
    row_groups: np.ndarray | None = None,
    of_groups: bool = False,
) -> dict[str, Callable[[], Posterior]]:
    """What makes a fresh posterior, by name.

    For "auto" these are the few that do best on most data, or ``every`` one.
    """
    prepared = partial(_prepared, weights=weights, row_groups=row_groups, of_groups=of_groups)
    if not is_auto(posterior):
        return {name_of(posterior): partial(prepared, partial(as_posterior, posterior))}
    auto = posterior if isinstance(posterior, Auto) else Auto()
    names = POSTERIORS if every else FEW
    return {name: partial(prepared, partial(auto.posterior, name)) for name in names}


def _prepared(
    make: Callable[[], Posterior], weights: RowWeights | None, row_groups: np.ndarray | None, of_groups: bool
) -> Posterior:
    """A fresh posterior with the weights and the groups of the rows."""
    made = make()
    if weights is not None and not made.takes_weights:
        raise InputError(
            f"Rows were given a sample_weight, but the posterior {name_of(made)!r} makes no use of it. Let its fit take"
            " sample_weight (a Posterior says takes_weights = True), or fit without weights."
        )
    made.weights = weights
    if row_groups is not None:
        made.row_groups = row_groups
    if isinstance(made, Pooled):
        made.of_groups = of_groups
    return made


def seed_of(random_state: Any) -> int:
    """A seed from what scikit-learn calls a random state; None draws a new one."""
    randomness = check_randomness(random_state)
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(randomness.randint(2**31 - 1))


def check_n_neighbors(n_neighbors: Any, n_rows: int) -> None:
    """Say what is wrong with a number of neighbors, where so many rows can be neighbors."""
    whole = isinstance(n_neighbors, int | np.integer) and not isinstance(n_neighbors, bool)
    if not whole or n_neighbors < 1:
        raise InputError(f'n_neighbors must be a whole number of at least 1, or "auto"; got {n_neighbors!r}.')
    if n_neighbors > n_rows:
        raise InputError(
            f"n_neighbors={n_neighbors}, but there are n_samples={n_rows} rows to be neighbors."
            f" Ask for at most {n_rows}, or fit more rows (those with a sample_weight of 0 do not count)."
        )


def check_answering(posterior: Any, tie_break: Any) -> None:
    """Say what is wrong with how answers are to be given."""
    check_tie_break(tie_break)
    if isinstance(posterior, Auto):
        posterior.check_parameters()
    elif not is_auto(posterior):
        as_posterior(posterior)


def checked_metric(metric: Any, metric_params: Any) -> Any:
    """The metric with its parameters; "auto" takes none.

    >>> checked_metric("auto", {"p": 3})
    Traceback (most recent call last):
    nearsay.errors.InputError: metric="auto" takes no metric_params; got {'p': 3}.
    """
    if is_auto_metric(metric):
        if metric_params is not None:
            raise InputError(f'metric="{metric}" takes no metric_params; got {metric_params!r}.')
        return metric
    return with_parameters(metric, metric_params)


def check_beside(beside: Any, beside_proba: Any, posterior: Any) -> None:
    """Say why companion models cannot be used."""
    pools = is_auto(posterior) or isinstance(as_posterior(posterior), Pooled)
    if beside is not None and not pools:
        raise InputError(
            f"posterior={posterior!r} uses neighbors only; it cannot combine them with `beside`."
            ' Pass posterior="pooled" or "auto", or beside=None.'
        )
    if beside is None and beside_proba is not None:
        raise InputError("beside_proba holds probabilities of a model, but there is none: pass it as beside.")


def checked_items_and_labels(estimator: Any, distance: Distance | None, X: Any, y: Any) -> tuple[Any, np.ndarray]:
    """Training rows and labels; ``distance`` is None where it is left open."""
    if distance is None or _is_for_tables(distance, X):
        # A function of the user's takes any items; every other distance checks the numbers itself, in the index.
        X, y = checked_rows_and_labels(estimator, X, y, finite=isinstance(distance, FunctionDistance))
    else:
        if y is None:
            raise InputError("fit needs a label for every item, but y is None.")
        check_consistent_length(X, y)
        y = column_or_1d(checked_labels(y), warn=True)
    check_classification_targets(y)
    return X, y


def table_to_encode(estimator: Any, distance: Distance | None, X: Any) -> EncodedTable | None:
    """A table with words, dates or gaps, encoded; None for anything else, and for a function of the user's."""
    by_user = isinstance(distance, FunctionDistance | PrecomputedDistance)
    return None if by_user or not needs_encoding(X) else EncodedTable.of(estimator, X)


def checked_items(estimator: Any, distance: Distance, X: Any) -> Any:
    """Queries of an estimator that was fitted to such items."""
    if not _is_for_tables(distance, X):
        return X
    finite = isinstance(distance, FunctionDistance)  # as in fit
    return checked_rows(estimator, X, finite=finite, reset=False, ensure_min_samples=0)


def _is_for_tables(distance: Distance, X: Any) -> bool:
    """Whether X should be a table of numbers; otherwise its items are for the distance alone to judge."""
    if not isinstance(distance, FunctionDistance):
        return True
    return len(getattr(X, "shape", ())) == 2 and not (isinstance(X, np.ndarray) and X.dtype.kind not in "fiub")
