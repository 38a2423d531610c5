"""From neighbors to answers: what a posterior says, priors put in, and ties broken.

neighbors ──► posterior ──► priors ──► ties ──► probabilities, the winner highest
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.errors import InputError
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.base import Posterior
from nearsay.posterior.methods.custom_posterior import OwnPosterior
from nearsay.posterior.methods.named import name_of
from nearsay.posterior.priors import Priors
from nearsay.posterior.votes import lift, winners
from nearsay.search.gpu.results import brought


@dataclass(frozen=True)
class Answers:
    """Probabilities of queries, a block at a time.

    Attributes
    ----------
    posterior : fitted.
    labels : (n_rows,) class numbers of the rows that neighbors are.
    n_classes : int
    priors : what to put in, or None.
    tie_break, seed : as in ``winners``.
    """

    posterior: Posterior
    labels: np.ndarray
    n_classes: int
    priors: Priors | None
    tie_break: str
    seed: int

    def by_block(self, table: NeighborTable) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """(queries, their probabilities, the winning class numbers), a block of queries at a time."""
        for part in self._blocks(len(table)):
            p = np.array(self.posterior.proba(table[part]), dtype=np.float64)
            yield part, p, self._settle(p, table[part])

    def proba(self, table: NeighborTable) -> np.ndarray:
        """Probabilities (n_queries, n_classes)."""
        there = self._there(table)
        if there is not None:
            p = brought(there)
            contested = _contested(there)
            if len(contested):
                few = p[contested]
                self._settle(few, table[contested])
                p[contested] = few
            return p
        p = np.empty((len(table), self.n_classes))
        for part, p_part, _ in self.by_block(table):
            p[part] = p_part
        return p

    def best(self, table: NeighborTable) -> np.ndarray:
        """The winning class numbers (n_queries,)."""
        there = self._there(table)
        if there is not None:
            winner: np.ndarray = there.argmax(dim=1).cpu().numpy()
            contested = _contested(there)
            if len(contested):
                winner[contested] = self._settle(there[contested].cpu().numpy(), table[contested])
            return winner
        winner = np.empty(len(table), np.int64)
        for part, _, of_part in self.by_block(table):
            winner[part] = of_part
        return winner

    def _there(self, table: NeighborTable) -> Any | None:
        """What the posterior says, as a tensor where it works on a card; None elsewhere, or where priors are put in."""
        return self.posterior.proba_there(table) if self.priors is None else None

    def settled(self, p: np.ndarray, table: NeighborTable) -> np.ndarray:
        """What the posterior said of these neighbors, priors put in and ties broken, in place."""
        for part in self._blocks(len(table)):
            self._settle(p[part], table[part])
        return p

    def _settle(self, p: np.ndarray, table: NeighborTable) -> np.ndarray:
        """The winning class numbers, each raised in ``p`` above those equal to it; priors are put in first."""
        expected = (len(table), self.n_classes)
        if p.shape != expected:
            own = self.posterior.own if isinstance(self.posterior, OwnPosterior) else self.posterior
            raise InputError(
                f"The posterior {name_of(own)} gave probabilities of shape {p.shape};"
                f" {expected} (queries × classes) is expected."
            )
        if self.priors is not None:
            self.priors.put_in(p)
        best = winners(p, table, self.labels, self.tie_break, self.seed)
        lift(p, best)
        return best

    def _blocks(self, n_queries: int) -> Iterator[slice]:
        # About eight arrays of a block's size come and go; together they should stay in the cache.
        return row_blocks(n_queries, row_bytes=8 * 8 * self.n_classes)


def _contested(there: Any) -> np.ndarray:
    """Numbers of the queries for which several classes are equally probable."""
    several = (there == there.amax(dim=1, keepdim=True)).sum(dim=1) > 1
    found: np.ndarray = several.nonzero()[:, 0].cpu().numpy()
    return found
