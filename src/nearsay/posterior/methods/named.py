"""The table of named posteriors, and how a user's word or object becomes one."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Literal

from nearsay.errors import InputError, unknown_name
from nearsay.posterior.base import Posterior
from nearsay.posterior.methods.confusion import Confmat, ConfmatRank, ConfmatRankVotesplit
from nearsay.posterior.methods.custom_posterior import as_one
from nearsay.posterior.methods.dist_votesplit import DistVotesplit
from nearsay.posterior.methods.pooled import Pooled
from nearsay.posterior.methods.proportional import Proportional
from nearsay.posterior.methods.rank import Rank, RankVotesplit
from nearsay.posterior.methods.weighted import Weighted

AUTO: Literal["auto"] = "auto"


# The names, for type checkers; a test holds them against the table.
PosteriorName = Literal[
    "proportional",
    "weighted",
    "dist&votesplit",
    "confmat",
    "rank",
    "rank&votesplit",
    "confmat&rank",
    "confmat&rank&votesplit",
    "pooled",
    "auto",
]


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


# What "auto" tries where time counts: plain votes, votes that weigh, and the pool, which is nearly always taken.
FEW = ("pooled", "proportional", "weighted")


def as_posterior(posterior: Any, *, model_failure: float, smoothing: str) -> Posterior:
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
        return as_one(deepcopy(posterior))
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
