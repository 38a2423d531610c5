"""Several feature groups, one answer: the product of their posteriors, or one pool over all of them.

    table of group 1 ──► posterior ──► log p ─┐
    table of group 2 ──► posterior ──► log p ─┼─► Σ exponent · log p ──► normalized
    (a group that is missing adds nothing)   ─┘

Products are sums of logs, so a hundred groups and ten thousand classes neither
underflow nor lose a class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace

import numpy as np

from nearsay.core.arrays import evenly, row_blocks
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.base import Posterior, splits
from nearsay.posterior.methods.pool.log_linear import Cases, fit_weights, likeliest, stack
from nearsay.posterior.methods.pooled import Pooled
from nearsay.posterior.row_weights import RowWeights, relative_weights

MOST_CASES = 20_000
# Eq. (3) is every exponent at 1. That is the belief to start from; a few dozen hard cases outweigh it.
EXPONENT_PRECISION = 1.0
# A posterior may give a class nothing at all; its log is then that of the smallest number there is.
NOTHING = np.finfo(np.float64).tiny


class Fusion:
    """One posterior over the tables of several feature groups.

    Parameters
    ----------
    posterior : Posterior
        Copies of it are fitted. ``Pooled`` takes all groups at once; of any other there is one for each group.
    exponents : None or "learned"
        None is eq. (3), the plain product. "learned" raises each group's
        posterior to a power, by maximum likelihood on past cases: groups that
        repeat each other then do not count twice. A pool's weights are its
        exponents already.

    Attributes
    ----------
    posteriors_ : list
        One for each group, or the one that takes them all.
    exponents_ : (n_groups,)
    """

    def __init__(self, posterior: Posterior, exponents: str | None = None) -> None:
        self.posterior = posterior
        self.exponents = exponents

    def fit(
        self,
        tables: Sequence[NeighborTable | None],
        labels: np.ndarray,
        n_classes: int,
        rows: np.ndarray | None = None,
        *,
        has_class: np.ndarray | None = None,
    ) -> Fusion:
        """Learn from past cases.

        Parameters
        ----------
        tables : for each group the leave-one-out table; the line of a row that lacks the group is empty (−1).
            None for a posterior that learns nothing from past cases.
        rows : (n_lines,)
            The row that each line is about; all rows in order where None.
        has_class : (n_groups, n_classes) bool
            Whether any row of the class has the group; all of them where None.
        """
        rows = np.arange(len(labels)) if rows is None else rows
        self.n_classes_ = n_classes
        self._has_class = np.ones((len(tables), n_classes), np.bool_) if has_class is None else has_class
        self._labels, self._rows = labels, rows
        self.exponents_ = np.ones(len(tables))
        self._exponents_left_out = np.ones((len(rows), len(tables)))
        given = [table for table in tables if table is not None]
        first = copy(self.posterior)
        self._joint = first if isinstance(first, Pooled) else None
        self.posteriors_: list[Posterior]
        if self._joint is not None:
            self.posteriors_ = [self._joint.fit_groups(given, labels, n_classes, rows)]
            return self
        self.posteriors_ = [_fitted(copy(self.posterior), table, labels, n_classes, rows) for table in tables]
        if self.exponents == "learned" and len(tables) > 1:
            self._learn_exponents(given)
        return self

    def leave_one_out_proba(self, tables: Sequence[NeighborTable], rows: np.ndarray | None = None) -> np.ndarray:
        """Probabilities (n_lines, n_classes) of the past cases that ``fit`` was given, each by what others taught.

        Of each group as its posterior does it; learned exponents are learned
        again without each fifth of the cases. ``rows`` are those of ``fit``.
        """
        return self._past_proba(tables, lambda posterior: posterior.leave_one_out_proba)

    def recorded_proba(self, tables: Sequence[NeighborTable], rows: np.ndarray | None = None) -> np.ndarray:
        """The same for records, as ``Posterior.recorded_proba``."""
        return self._past_proba(tables, lambda posterior: posterior.recorded_proba)

    def _past_proba(
        self, tables: Sequence[NeighborTable], method: Callable[[Posterior], Callable[..., np.ndarray]]
    ) -> np.ndarray:
        if self._joint is not None:
            return self._joint.leave_one_out_groups(tables, self._rows)
        total = np.zeros((len(tables[0]), self.n_classes_))
        for posterior, table, has_class, exponent in zip(
            self.posteriors_, tables, self._has_class, self._exponents_left_out.T, strict=True
        ):
            lines = has_group(table)
            p = method(posterior)(table[lines], self._rows[lines])
            log_p = _log(self._spread(p, lines, len(table), has_class))
            log_p *= exponent[:, None]
            total += log_p
        return normalized(total)

    def proba(self, tables: Sequence[NeighborTable]) -> np.ndarray:
        """Probabilities (n_queries, n_classes); every row sums to 1. A query without any group gets all alike."""
        p = np.empty((len(tables[0]), self.n_classes_))
        for part in row_blocks(len(p), row_bytes=8 * 4 * self.n_classes_):
            some = [table[part] for table in tables]
            p[part] = self._product(some) if self._joint is None else self._joint.proba_groups(some)
        return p

    def over(self, labels: np.ndarray, has_class: np.ndarray, weights: RowWeights | None) -> Fusion:
        """The same fusion over the neighbors among other rows; ``has_class`` as in ``fit``."""
        other = copy(self)
        other._labels, other._has_class, other.posteriors_ = labels, has_class, []
        for posterior in self.posteriors_:
            again = copy(posterior)
            again.weights = weights
            other.posteriors_.append(again.over(labels, self.n_classes_, np.arange(len(labels))))
        if isinstance(other.posteriors_[0], Pooled):
            other._joint = other.posteriors_[0]
        return other

    def proba_without(self, tables: Sequence[NeighborTable], rows: np.ndarray) -> np.ndarray:
        """Probabilities of rows that nothing was learned from but that can be neighbors, each without itself."""
        p = self.proba(tables)
        return p if self._joint is None else self._joint.without_the_case(p, tables, rows)

    def log_odds(self, tables: Sequence[NeighborTable], these: np.ndarray, others: np.ndarray) -> np.ndarray:
        """How much each group raises the log odds of one class against another: (n_queries, n_groups)."""
        if self._joint is not None:
            return self._joint.log_odds(tables, these, others)
        query = np.arange(len(tables[0]))
        log_p = [log_p[query, these] - log_p[query, others] for log_p in self._logs(tables)]
        return np.stack(log_p, axis=1) * self.exponents_

    @property
    def pools(self) -> bool:
        """Whether one posterior takes all groups at once."""
        return self._joint is not None

    def _product(self, tables: Sequence[NeighborTable]) -> np.ndarray:
        if len(tables) == 1:  # a product of one is itself, and taking logs back and forth takes longer than all else
            (p,) = self._proba_by_group(tables)
            return p / p.sum(axis=1, keepdims=True)
        total = np.zeros((len(tables[0]), self.n_classes_))
        for exponent, log_p in zip(self.exponents_, self._logs(tables), strict=True):
            log_p *= exponent
            total += log_p
        return normalized(total)

    def _logs(self, tables: Sequence[NeighborTable]) -> Iterator[np.ndarray]:
        """The log posterior of each group in turn: (n_queries, n_classes)."""
        return map(_log, self._proba_by_group(tables))

    def _proba_by_group(self, tables: Sequence[NeighborTable]) -> Iterator[np.ndarray]:
        """The posterior of each group in turn: (n_queries, n_classes)."""
        for posterior, table, has_class in zip(self.posteriors_, tables, self._has_class, strict=True):
            lines = has_group(table)
            p = posterior.proba(table[lines]) if len(lines) else np.empty((0, self.n_classes_))
            yield self._spread(p, lines, len(table), has_class)

    def _spread(self, p_lines: np.ndarray, lines: np.ndarray, n_lines: int, has_class: np.ndarray) -> np.ndarray:
        """The probabilities of a group for all lines: all classes alike where the group is missing."""
        if len(lines) == n_lines and has_class.all():
            return p_lines
        p = np.full((n_lines, self.n_classes_), 1 / self.n_classes_)
        p[lines] = p_lines
        # A class without a row in this group is neither helped nor harmed by it.
        p[np.ix_(lines, ~has_class)] = 1 / self.n_classes_
        return p

    def _learn_exponents(self, tables: Sequence[NeighborTable]) -> None:
        """Exponents from posteriors that were fitted without the cases they answer."""
        parts: list[Cases] = []
        lines: list[np.ndarray] = []
        plain = Fusion(self.posterior)
        for fold, of_fold in left_out_folds(plain, tables, self._labels, self.n_classes_, self._rows, self._has_class):
            rows = self._rows[fold]
            for part in row_blocks(len(fold), row_bytes=8 * 4 * self.n_classes_ * len(tables)):
                logs = plain._logs([table[part] for table in of_fold])
                far = np.stack([-log_p for log_p in logs], axis=2)
                worth = relative_weights(self.posterior.weights, rows[part])
                parts.append(likeliest(far, self._labels[rows[part]], far.sum(axis=2), worth))
            lines.append(fold)
        cases = stack(parts)
        self.exponents_ = _powers(cases)
        self._exponents_left_out[:] = self.exponents_
        end = 0
        for fold in lines:
            start, end = end, end + len(fold)
            others = np.r_[0:start, end : len(cases)]
            self._exponents_left_out[fold] = _powers(cases[others])


def _powers(cases: Cases) -> np.ndarray:
    """The most likely exponents, none below 0: a group that would count against its best guess is left out."""
    counted = np.arange(cases.features.shape[2])
    while len(counted):
        some = replace(cases, features=cases.features[:, :, counted])
        powers, _ = fit_weights(some, center=1.0, precision=EXPONENT_PRECISION)
        if powers.min() >= 0:
            break
        counted = counted[powers > 0]
    exponents = np.zeros(cases.features.shape[2])
    exponents[counted] = powers[: len(counted)]
    return exponents


def left_out_folds(
    fusion: Fusion,
    tables: Sequence[NeighborTable],
    labels: np.ndarray,
    n_classes: int,
    rows: np.ndarray,
    has_class: np.ndarray | None,
) -> Iterator[tuple[np.ndarray, list[NeighborTable]]]:
    """Fit to four fifths of the cases, and give the last fifth: their lines and tables, five times over.

    Leave-one-out tables keep a row from voting for itself; this keeps a case
    out of the table of cases it is judged by. At most 20,000 cases are used.
    """
    some = evenly(len(rows), MOST_CASES)
    if fusion.posterior.members is None:  # classes that are not read are not copied
        tables = [replace(table, classes=None, further=(), candidates=None) for table in tables]
    for others, fold in splits(labels[rows[some]], groups=fusion.posterior.groups_of(rows[some])):
        rest, lines = some[others], some[fold]
        if len(rest):
            fusion.fit([table[rest] for table in tables], labels, n_classes, rows[rest], has_class=has_class)
            yield lines, [table[lines] for table in tables]


def _log(p: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(p, NOTHING))


def normalized(log_p: np.ndarray) -> np.ndarray:
    """Probabilities from sums of logs, in place: every row sums to 1, however small its numbers.

    >>> normalized(np.array([[-1e6, -1e6 - np.log(3)]])).round(2)
    array([[0.75, 0.25]])
    """
    log_p -= log_p.max(axis=1, keepdims=True)
    p: np.ndarray = np.exp(log_p, out=log_p)
    p /= p.sum(axis=1, keepdims=True)
    return p


def has_group(table: NeighborTable) -> np.ndarray:
    """The lines that are not empty."""
    return np.flatnonzero(table.indices[:, 0] >= 0)


def _fitted(
    posterior: Posterior, table: NeighborTable | None, labels: np.ndarray, n_classes: int, rows: np.ndarray
) -> Posterior:
    if table is None:
        posterior.fit(None, labels, n_classes)
    else:
        lines = has_group(table)
        posterior.fit(table[lines], labels, n_classes, rows[lines])
    return posterior
