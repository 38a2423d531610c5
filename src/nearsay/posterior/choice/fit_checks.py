"""What both classifiers ask before they fit: what was left open, what to try, and whether settings can be used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

import numpy as np
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from nearsay.core.settings import check_choice, check_randomness, check_whole
from nearsay.core.validation import checked_labels, checked_rows, checked_rows_and_labels
from nearsay.distances.distance import Distance
from nearsay.distances.functions import FunctionDistance
from nearsay.errors import InputError
from nearsay.posterior.base import GroupPosterior, Posterior
from nearsay.posterior.choice.model_choice import CRITERIA
from nearsay.posterior.methods.named import AUTO, FEW, POSTERIORS, as_posterior, name_of
from nearsay.posterior.methods.proportional import check_smoothing
from nearsay.posterior.row_weights import RowWeights
from nearsay.posterior.votes import check_tie_break


class AsksForPosterior(Protocol):
    """What says which posterior to use, and how it is smoothed: a ``NeighborClassifier``."""

    posterior: Any
    model_failure: float
    smoothing: Any
    tie_break: Any


def is_auto(given: Any) -> bool:
    """Whether the choice was left to the past cases."""
    return isinstance(given, str) and given == AUTO


def fresh_posterior(
    classifier: AsksForPosterior, posterior: Any, weights: RowWeights | None = None, of_groups: bool = False
) -> Posterior:
    """A posterior for this name or object, with the smoothing that a classifier asks for and the weights of rows."""
    made = as_posterior(posterior, model_failure=classifier.model_failure, smoothing=classifier.smoothing)
    if weights is not None and not made.takes_weights:
        raise InputError(
            f"Rows were given a sample_weight, but the posterior {posterior!r} makes no use of it. Let its fit take"
            " sample_weight (a Posterior says takes_weights = True), or fit without weights."
        )
    made.weights = weights
    if isinstance(made, GroupPosterior):
        made.of_groups = of_groups
    return made


def posteriors_to_try(
    classifier: AsksForPosterior, *, every: bool, weights: RowWeights | None = None, of_groups: bool = False
) -> dict[str, Callable[[], Posterior]]:
    """What makes a fresh posterior, by name.

    For "auto" these are the few that do best on most data, or ``every`` one.
    """
    names: Any = [classifier.posterior]
    if is_auto(classifier.posterior):
        names = POSTERIORS if every else FEW
    return {name_of(name): partial(fresh_posterior, classifier, name, weights, of_groups) for name in names}


def seed_of(random_state: Any) -> int:
    """A seed from what scikit-learn calls a random state; None is 0."""
    randomness = check_randomness(random_state)
    if random_state is None or isinstance(random_state, int | np.integer):
        return int(random_state or 0)
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


def check_answering(classifier: AsksForPosterior) -> None:
    """Say what is wrong with how answers are to be given."""
    check_tie_break(classifier.tie_break)
    check_smoothing(classifier.smoothing, classifier.model_failure)
    if not is_auto(classifier.posterior):
        fresh_posterior(classifier, classifier.posterior)


def checked_auto(metric: Any, metric_params: Any) -> Any:
    """The metric "auto"; an error where its parameters are none that it has.

    >>> checked_auto("auto", {"p": 3})
    Traceback (most recent call last):
    nearsay.errors.InputError: metric="auto" takes metric_params={"large_margin": True or False}, or None; got {'p': 3}.
    """
    known = metric_params is None or (isinstance(metric_params, Mapping) and set(metric_params) <= {"large_margin"})
    if not known or not all(isinstance(value, bool | np.bool_) for value in (metric_params or {}).values()):
        raise InputError(
            f'metric="auto" takes metric_params={{"large_margin": True or False}}, or None; got {metric_params!r}.'
        )
    return metric


def check_learning(criterion: Any, max_past_cases: Any) -> None:
    """Say what is wrong with how past cases are to choose, and with how many of them."""
    check_choice("criterion", criterion, CRITERIA)
    if max_past_cases is not None:
        check_whole("max_past_cases", max_past_cases, least=1)


def check_beside(beside: Any, beside_proba: Any, classifier: AsksForPosterior) -> None:
    """Say why a model cannot be asked beside the neighbors."""
    hears_models = is_auto(classifier.posterior) or isinstance(
        fresh_posterior(classifier, classifier.posterior), GroupPosterior
    )
    if beside is not None and not hears_models:
        raise InputError(
            f"posterior={classifier.posterior!r} hears neighbors alone, and cannot weigh the model beside them."
            ' Pass posterior="pooled" or "auto", or beside=None.'
        )
    if beside is None and beside_proba is not None:
        raise InputError("beside_proba holds what a model said, but there is none: pass it as beside.")


def checked_items_and_labels(estimator: Any, distance: Distance | None, X: Any, y: Any) -> tuple[Any, np.ndarray]:
    """Training rows and labels; ``distance`` is None where it is left open."""
    if distance is None or _is_for_tables(distance, X):
        # A function of the user's takes any items; every other distance looks at the numbers itself, in the index.
        X, y = checked_rows_and_labels(estimator, X, y, finite=isinstance(distance, FunctionDistance))
    else:
        if y is None:
            raise InputError("fit needs a label for every item, but y is None.")
        check_consistent_length(X, y)
        y = column_or_1d(checked_labels(y), warn=True)
    check_classification_targets(y)
    return X, y


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
