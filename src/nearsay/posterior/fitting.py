"""What both classifiers ask before they fit: what was left open, what to try, and whether settings can be used."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np

from nearsay.errors import InputError
from nearsay.posterior.base import Posterior
from nearsay.posterior.named import AUTO, FEW, POSTERIORS, as_posterior, name_of
from nearsay.posterior.row_weights import RowWeights
from nearsay.settings import check_randomness


class AsksForPosterior(Protocol):
    """What says which posterior to use, and how it is smoothed: a ``NeighborClassifier``."""

    posterior: Any
    model_failure: float
    smoothing: Any


def is_auto(given: Any) -> bool:
    """Whether the choice was left to the past cases."""
    return isinstance(given, str) and given == AUTO


def fresh_posterior(classifier: AsksForPosterior, posterior: Any, weights: RowWeights | None = None) -> Posterior:
    """A posterior for this name or object, with the smoothing that a classifier asks for and the weights of rows."""
    made = as_posterior(posterior, model_failure=classifier.model_failure, smoothing=classifier.smoothing)
    if weights is not None and not made.takes_weights:
        raise InputError(
            f"Rows were given a sample_weight, but the posterior {posterior!r} makes no use of it. Let its fit take"
            " sample_weight (a Posterior says takes_weights = True), or fit without weights."
        )
    made.weights = weights
    return made


def posteriors_to_try(
    classifier: AsksForPosterior, *, every: bool, weights: RowWeights | None = None
) -> dict[str, Callable[[], Posterior]]:
    """What makes a fresh posterior, by name.

    For "auto" these are the few that do best on most data, or ``every`` one.
    """
    names: Any = [classifier.posterior]
    if is_auto(classifier.posterior):
        names = POSTERIORS if every else FEW
    return {name_of(name): partial(fresh_posterior, classifier, name, weights) for name in names}


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
