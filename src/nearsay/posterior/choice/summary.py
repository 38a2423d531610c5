"""What each member of a pool cost and brought, as a table that prints."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from nearsay.core.tables import html_table, text_table

_HEAD = ("member", "seconds", "without it")


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
class PoolSummary:
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

    def __str__(self) -> str:
        return text_table(self.why, _HEAD, [*map(_cells, self.members)], [one.used for one in self.members])

    def _repr_html_(self) -> str:
        return html_table(self.why, _HEAD, [*map(_cells, self.members)], [one.used for one in self.members])


def _cells(one: MemberSummary) -> tuple[str, ...]:
    return one.name, f"{one.seconds:.2f}", "-" if one.without is None else f"{one.without:.4f}"
