"""What was tried on past cases, and what each member of a pool cost and brought, as tables that print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nearsay.core.tables import ShownAsTable, Table, html_table, text_table
from nearsay.posterior.methods.named import CRITERIA

SHOWN = 20


@dataclass(frozen=True)
class CandidateScore:
    """One candidate that was tried, and how it did on past cases.

    posterior, n_neighbors : as in ``NeighborClassifier``; ``n_neighbors`` is None where it makes no difference.
    distances, groups : names; among the distances also those of the models beside them.
    log_posterior : mean natural log of the probability given to the true class.
    seconds : how long it took to fit and to judge it.
    """

    posterior: str
    n_neighbors: int | None
    distances: tuple[str, ...]
    groups: tuple[str, ...]
    log_posterior: float
    accuracy: float
    seconds: float = 0.0


class Choices(list[CandidateScore]):
    """All that was tried, best first; ``chosen`` is the one that was taken. Prints as a table.

    ``view_seconds`` is how long past cases took in each view, learning its maps included. Maps that are
    learned together count in the first view that needs them.

    >>> tried = {"l1": -0.21, "l2": -0.2}
    >>> scores = [CandidateScore("rank", None, (name,), ("all",), log_p, 0.91) for name, log_p in tried.items()]
    >>> print(Choices(scores, chosen=scores[0], n_cases=120))           # the other is not clearly better
    chosen by the log posterior of 120 past cases
      posterior    k  distances  groups  log posterior  accuracy  seconds
      rank         -  l2         all           -0.2000     91.0%     0.00
    * rank         -  l1         all           -0.2100     91.0%     0.00
    """

    def __init__(
        self, tried: Sequence[CandidateScore], chosen: CandidateScore, n_cases: int, criterion: str = CRITERIA[0]
    ) -> None:
        super().__init__(sorted(tried, key=lambda one: [-value for value in merits(one, criterion)]))
        self.chosen = chosen
        self.n_cases = n_cases
        self.criterion = criterion
        self.view_seconds: dict[str, float] = {}

    @property
    def why(self) -> str:
        """One line that says by what was chosen."""
        return f"chosen by the {self.criterion.replace('_', ' ')} of {self.n_cases} past cases"

    def rows(self) -> list[dict[str, Any]]:
        """Plain values, for JSON and for tables."""
        return [
            {
                "posterior": one.posterior,
                "k": one.n_neighbors,
                "distances": list(one.distances),
                "groups": list(one.groups),
                "log_posterior": one.log_posterior,
                "accuracy": one.accuracy,
                "seconds": one.seconds,
                "chosen": one is self.chosen,
            }
            for one in self
        ]

    def __str__(self) -> str:
        shown = [one for number, one in enumerate(self) if number < SHOWN or one is self.chosen]
        table = text_table(
            self.why, _HEAD, [*map(_cells, shown)], [one is self.chosen for one in shown], words=(0, 2, 3)
        )
        more = len(self) - len(shown)
        return f"{table}\n  … and {more} more" if more else table

    def _repr_html_(self) -> str:
        return html_table(self.why, _HEAD, [*map(_cells, self)], [one is self.chosen for one in self])


_HEAD = ("posterior", "k", "distances", "groups", "log posterior", "accuracy", "seconds")


def _cells(one: CandidateScore) -> tuple[str, ...]:
    k = "-" if one.n_neighbors is None else str(one.n_neighbors)
    joined = " + ".join(one.distances), ", ".join(one.groups)
    return one.posterior, k, *joined, f"{one.log_posterior:.4f}", f"{one.accuracy:.1%}", f"{one.seconds:.2f}"


def merits(one: CandidateScore, criterion: str) -> tuple[float, float]:
    """What is compared first, and where that is equal."""
    both = one.log_posterior, one.accuracy
    return both if criterion == CRITERIA[0] else (both[1], both[0])


@dataclass(frozen=True)
class MemberSummary:
    """A view of the rows, or a model beside them.

    seconds : how long ``fit`` took to learn it and to ask it about past cases.
    used : whether it answers queries.
    without : the log loss of past cases without it; None for a member that is not in the pool.
    """

    name: str
    seconds: float
    used: bool
    without: float | None = None


@dataclass(frozen=True)
class PoolSummary(ShownAsTable):
    """What each member of a pool cost and brought; prints as a table.

    members : of MemberSummary; those in use first, by what they bring.
    log_loss : of past cases, with all members that are used. What it is without one is computed to second order.

    >>> views = MemberSummary("cosine", 0.5, used=False), MemberSummary("euclidean", 0.25, used=True, without=0.31)
    >>> print(PoolSummary((*views, MemberSummary("forest", 2.0, used=True, without=0.35)), log_loss=0.3, n_cases=120))
    log loss of 120 past cases: 0.3000
      member     seconds  without it
    * forest        2.00      0.3500
    * euclidean     0.25      0.3100
      cosine        0.50           -
    """

    members: tuple[MemberSummary, ...]
    log_loss: float
    n_cases: int

    def __post_init__(self) -> None:
        by_worth = sorted(self.members, key=lambda one: (not one.used, -(one.without or 0.0)))
        object.__setattr__(self, "members", tuple(by_worth))

    @property
    def why(self) -> str:
        """What the numbers are, in a line."""
        return f"log loss of {self.n_cases} past cases: {self.log_loss:.4f}"

    def rows(self) -> list[dict[str, Any]]:
        """Plain values, for JSON and for tables."""
        return [asdict(one) for one in self.members]

    def _table(self) -> Table:
        head = ("member", "seconds", "without it")
        return self.why, head, [*map(_of_member, self.members)], [one.used for one in self.members]


def _of_member(one: MemberSummary) -> tuple[str, ...]:
    return one.name, f"{one.seconds:.2f}", "-" if one.without is None else f"{one.without:.4f}"
