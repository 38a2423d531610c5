"""What a posterior is, the table of named ones, and how a user's word or object becomes one."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Protocol

import numpy as np

from nearsay.errors import unknown_name
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.proportional import Proportional


class Posterior(Protocol):
    """Turns neighbors into probabilities.

    ``needs_past_cases = False`` on the class says that ``fit`` makes no use of
    the table; None is passed then, and the collection is not searched.
    Without that word the table is made.
    """

    def fit(self, table: NeighborTable | None, labels: np.ndarray, n_classes: int) -> Any:
        """Learn from the collection's own past cases.

        ``table`` holds the k nearest *other* rows of every row (−1 and +inf
        where the collection has fewer), ``labels`` the class number of every
        row.
        """
        ...

    def proba(self, table: NeighborTable) -> np.ndarray:
        """Probabilities (n_queries, n_classes) for the neighbors of new queries; every row sums to 1."""
        ...


POSTERIORS = {"proportional": Proportional}


def as_posterior(posterior: Any, *, model_failure: float, smoothing: str) -> Posterior:
    """Give a fresh posterior for a name, or a copy of an object: what the user passed is never written to.

    >>> as_posterior("proportional", model_failure=0.0, smoothing="model_failure").model_failure
    0.0
    >>> as_posterior("propotional", model_failure=0.0, smoothing="model_failure")
    Traceback (most recent call last):
    nearsay.errors.InputError: Unknown posterior 'propotional' (did you mean 'proportional'?). Known names: ...
    """
    if isinstance(posterior, str) and posterior in POSTERIORS:
        return POSTERIORS[posterior](model_failure=model_failure, smoothing=smoothing)
    if callable(getattr(posterior, "fit", None)) and callable(getattr(posterior, "proba", None)):
        copied: Posterior = deepcopy(posterior)
        return copied
    hint = " You can also pass an object with fit(table, labels, n_classes) and proba(table)."
    raise unknown_name("posterior", posterior, POSTERIORS, hint)
