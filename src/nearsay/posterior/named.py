"""What a posterior is, the table of named ones, and how a user's word or object becomes one."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Protocol

import numpy as np

from nearsay.errors import InputError, unknown_name
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.confusion import Confmat, ConfmatRank, ConfmatRankVotesplit
from nearsay.posterior.dist_votesplit import DistVotesplit
from nearsay.posterior.pooled import Pooled
from nearsay.posterior.proportional import Proportional
from nearsay.posterior.tables import Rank, RankVotesplit
from nearsay.posterior.weighted import Weighted

AUTO = "auto"


class Posterior(Protocol):
    """Turns neighbors into probabilities.

    What a class says of itself, and what is taken where it says nothing:

    ``needs_past_cases = True``
        False says that ``fit`` makes no use of the table; None is passed
        then, and the collection is not searched.
    ``n_members = None``
        0 asks for the order of the classes (``table.classes``), a larger
        number also for the distances of that many nearest members of each.
    ``counts_votes = True``
        False says that it reads the classes only, so that k makes no difference.

    Optional: ``record(table)``, how many past cases were like each query and
    in how many the answer was right; ``tables()``, its CaseTables to look at.
    """

    def fit(self, table: Any, labels: np.ndarray, n_classes: int) -> Any:
        """Learn from the collection's own past cases.

        ``table`` holds the k nearest *other* rows of every row (−1 and +inf
        where the collection has fewer), ``labels`` the class number of every
        row. Those of this house also take ``rows``: the row that each line of
        the table is about, where it is not about all of them in order.
        """
        ...

    def proba(self, table: NeighborTable) -> np.ndarray:
        """Probabilities (n_queries, n_classes) for the neighbors of new queries; every row sums to 1."""
        ...


POSTERIORS: dict[str, Callable[..., Posterior]] = {
    "proportional": Proportional,
    "weighted": Weighted,
    "dist&votesplit": DistVotesplit,
    "confmat": Confmat,
    "rank": Rank,
    "rank&votesplit": RankVotesplit,
    "confmat&rank": ConfmatRank,
    "confmat&rank&votesplit": ConfmatRankVotesplit,
    "pooled": Pooled,
}


def as_posterior(posterior: Any, *, model_failure: float, smoothing: str) -> Any:
    """Give a fresh posterior for a name, a name with its options, or an object.

    An object is copied: what the user passed is never written to.

    >>> as_posterior("rank", model_failure=0.0, smoothing="model_failure").model_failure
    0.0
    >>> as_posterior(("confmat", {"normalize": "column"}), model_failure=0.01, smoothing="model_failure").normalize
    'column'
    >>> as_posterior("propotional", model_failure=0.0, smoothing="model_failure")
    Traceback (most recent call last):
    nearsay.errors.InputError: Unknown posterior 'propotional' (did you mean 'proportional'?). Known names: ...
    """
    name, options = posterior if isinstance(posterior, tuple) and len(posterior) == 2 else (posterior, {})
    if isinstance(name, str) and name in POSTERIORS:
        options = {"model_failure": model_failure, **options}
        if name == "proportional":
            options = {"smoothing": smoothing, **options}
        try:
            return POSTERIORS[name](**options)
        except TypeError as error:
            raise InputError(f"The posterior {name!r} does not take these options: {error}.") from None
    if callable(getattr(posterior, "fit", None)) and callable(getattr(posterior, "proba", None)):
        return deepcopy(posterior)
    hint = " You can also pass an object with fit(table, labels, n_classes) and proba(table)."
    raise unknown_name("posterior", posterior, [*POSTERIORS, AUTO], hint)


def name_of(posterior: Any) -> str:
    """A word for a posterior in tables and sentences.

    >>> name_of("rank"), name_of(("confmat", {"normalize": "column"})), name_of(Pooled())
    ('rank', 'confmat', 'Pooled')
    """
    if isinstance(posterior, tuple):
        posterior = posterior[0]
    return posterior if isinstance(posterior, str) else type(posterior).__name__
