"""The fitted model of several feature groups: a table of neighbors for each, one answer from all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from nearsay.core.arrays import evenly, row_blocks
from nearsay.data.content_order import content_order
from nearsay.errors import InputError
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.base import Posterior, judged_among
from nearsay.posterior.choice.candidate_views import is_auto_metric, views_to_try
from nearsay.posterior.choice.fit_checks import posteriors_to_try
from nearsay.posterior.choice.model_choice import (
    CASES_TO_CHOOSE_BY,
    JOINT,
    Chooser,
    ModelCandidate,
    neighbors_to_try,
)
from nearsay.posterior.choice.model_fit import FitOptions
from nearsay.posterior.evidence.records import Records, records_of_answers
from nearsay.posterior.methods.fusion import Fusion
from nearsay.posterior.methods.named import is_auto
from nearsay.posterior.methods.pooled import Pooled
from nearsay.posterior.model import FittedModel
from nearsay.posterior.past_cases import possible_members, rows_judged, rows_not_judged, sample_of
from nearsay.posterior.priors import Priors, log_frequencies
from nearsay.posterior.row_weights import RowWeights, TrainingRows
from nearsay.posterior.views.feature_group import View, present
from nearsay.posterior.views.joint_view import JointView
from nearsay.posterior.views.model_beside import FEWEST_ROWS
from nearsay.posterior.votes import neighbor_labels, winners

# Products of the same numbers in another order differ in their last digits; they count as equal.
SAME = 1e-13

# How feature groups are put together.
FUSIONS = ("pool", "product")


@dataclass(frozen=True, eq=False)
class GroupViews:
    """The views of feature groups, each searched by itself: a list of tables."""

    views: list[View]

    @property
    def has_class(self) -> np.ndarray:
        """Whether any row of a class has a group: (n_views, n_classes)."""
        return np.stack([view.has_class for view in self.views])

    def query(self, X: np.ndarray, k: int, members: tuple[int, ...] | None) -> list[NeighborTable]:
        """For each view the nearest rows of every query; −1 all along where it lacks the group."""
        return [view.neighbors(X, k, members) for view in self.views]

    def leave_one_out(self, k: int, members: tuple[int, ...] | None, rows: np.ndarray | None) -> list[NeighborTable]:
        """The same for rows, each among the others."""
        return [view.past_cases(k, members, rows) for view in self.views]


@dataclass(frozen=True, eq=False, kw_only=True)
class FusedModel(FittedModel):
    """A ``FittedModel`` of several feature groups, whose tables are lists, one table for each view.

    judged : (n_judged,) numbers of the rows that were asked about the others; None for all.
    """

    judged: np.ndarray | None = None

    def answer(self, tables: Sequence[NeighborTable]) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities and the winning class numbers."""
        return self._with_winners(self.posterior.proba(tables), tables)

    def proba(self, tables: Any) -> np.ndarray:
        """Probabilities (n_queries, n_classes)."""
        return self.answer(tables)[0]

    def settled(self, p: np.ndarray, tables: Any) -> np.ndarray:
        """What the fusion gave for these neighbors, with priors and ties broken, in place."""
        return self._with_winners(p, tables)[0]

    def _with_winners(self, p: np.ndarray, tables: Sequence[NeighborTable]) -> tuple[np.ndarray, np.ndarray]:
        if self.priors is not None:
            self.priors.put_in(p, self._log_frequencies(tables))
        best = np.empty(len(p), np.int64)
        for part in row_blocks(len(p), row_bytes=8 * 4 * len(self.classes)):
            few = [table[part] for table in tables]
            best[part] = settle_ties(p[part], few, self.labels, self.tie_break, self.seed)
        return p, best

    def _log_frequencies(self, tables: Sequence[NeighborTable]) -> np.ndarray:
        """The training frequencies that are in the answers to each query, as logs: (n_queries, n_classes).

        Every group that a query has brings them into the product, to the
        power of its exponent; a pool holds them once.
        """
        has_group = np.stack([table.indices[:, 0] >= 0 for table in tables], axis=1)
        n_classes = len(self.classes)
        if self.posterior.pools:
            return np.outer(has_group.any(axis=1), log_frequencies(self.labels, n_classes, self.weights))
        of_groups = [
            log_frequencies(view.labeled_.labels, n_classes, None if self.weights is None else self.weights[view.rows_])
            for view in self.views.views
        ]
        return (has_group * self.posterior.exponents_) @ np.stack(of_groups)

    def _left_out_by_this(self, at_once: int | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        tables: Any = self.leave_one_out(self.judged)  # type: ignore[arg-type]
        p = self.settled(self.posterior.leave_one_out_proba(tables), tables)
        yield (np.arange(len(p)) if self.judged is None else self.judged), p
        for others in rows_not_judged(self.judged, len(self.labels), at_once):
            yield others, self.proba(self.leave_one_out(others))

    @cached_property
    def records(self) -> Records:
        """How often past cases of each probability were right."""
        rows = np.arange(len(self.labels)) if self.judged is None else self.judged
        if learns_from_past_cases(self.posterior):
            tables = self.leave_one_out(rows)
            p = self.settled(self.posterior.recorded_proba(tables), tables)
        else:  # nothing was learned from any row, so that a few will do
            rows = sample_of(rows, self.seed)
            p = self.proba(self.leave_one_out(rows))
        self._put_in_nested(p, rows)
        return records_of_answers(p, self.labels, rows, self.priors, self.weights)

    def answers_over(self, given: TrainingRows, rows: np.ndarray) -> np.ndarray:
        labels, n_classes = given.labels, len(self.classes)
        views = GroupViews([view.over(given.X, labels, n_classes, given.groups) for view in self.views.views])
        fusion = self.posterior.over(labels, views.has_class, given.weights)
        model = replace(self, views=views, labels=labels, weights=given.weights, posterior=fusion)
        tables = model.leave_one_out(rows)
        return model.settled(fusion.proba_without(tables, rows), tables)


@dataclass(frozen=True)
class FusedOptions:
    """What a fused model is fitted with.

    of_each : FitOptions of every group; ``metric`` may be a list.
    groups : {name: columns}
    exponents : as in ``Fusion``.
    fusion : "pool" or "product"
    """

    of_each: FitOptions
    groups: dict[str, Any]
    exponents: str | None
    fusion: str = FUSIONS[0]

    @property
    def n_neighbors(self) -> Any:
        """How many neighbors vote in each group."""
        return self.of_each.n_neighbors

    @property
    def nests(self) -> bool:
        """Whether past cases choose."""
        options = self.of_each
        return is_auto(options.posterior) or is_auto_metric(options.metric) or is_auto(options.n_neighbors)

    @property
    def tries_many(self) -> bool:
        """Past cases choose among distances and groups, and how these are put together."""
        return True

    def in_memory(self) -> FusedOptions:
        """The same: rows are in memory."""
        return self

    def take(self, X: np.ndarray, rows: np.ndarray, held: np.ndarray) -> np.ndarray:
        """Some of the rows."""
        return np.asarray(X[rows])

    def _joint_view(self, given: TrainingRows) -> JointView | None:
        """What a classifier of all columns learns from the rows that lack none; None where it has no say.

        It needs a row of every class; where too few are complete, groups alone answer.
        """
        if self.fusion != "pool" or len(self.groups) < 2 or not is_auto(self.of_each.posterior):
            return None
        columns = _union(self.groups, given.X.shape[1])
        rows, numbers = present(given.X, columns)
        if len(rows) < FEWEST_ROWS or len(np.unique(given.labels[numbers])) < len(given.classes):
            return None
        options = self.of_each
        if isinstance(options.metric, list):
            options = replace(options, metric=options.metric[0])
        model = options.fit(given.some(rows, numbers))
        return JointView(columns, model.past, len(given.X), numbers)

    def _posteriors(
        self, weights: RowWeights | None, groups: np.ndarray | None, *, of_groups: bool
    ) -> dict[str, Callable[[], Posterior]]:
        """What makes a fresh posterior, by name: those of a product alone where that is asked for."""
        posteriors = posteriors_to_try(
            self.of_each.posterior, every=True, weights=weights, row_groups=groups, of_groups=of_groups
        )
        if self.fusion == "pool":
            return posteriors
        factors = {name: make for name, make in posteriors.items() if not isinstance(make(), Pooled)}
        if not factors:
            raise InputError('The posterior "pooled" takes all feature groups at once. Pass fusion="pool".')
        return factors

    def fit(self, given: TrainingRows) -> FusedModel:
        """Learn from rows that all count."""
        X, labels, classes = given.X, given.labels, given.classes
        weights, groups = given.weights, given.groups
        options, n_classes = self.of_each, len(classes)
        distances = options.metric if isinstance(options.metric, list) else [options.metric]
        views = views_to_try(self.groups, distances, options.search, X, labels, n_classes, n_jobs=options.n_jobs)
        if groups is not None:
            for view in views.values():
                view.leave_out_groups(groups)
        joint = self._joint_view(given)
        if joint is not None:
            views = {JOINT: joint, **views}
        posteriors = self._posteriors(weights, groups, of_groups=joint is None)
        order = judged_among(content_order(X, labels), groups)
        choices = None
        if self.nests:
            k = options.n_neighbors
            chooser = Chooser(
                views,
                posteriors,
                labels,
                n_classes,
                ks=neighbors_to_try(len(X) - 1) if is_auto(k) else [int(k)],
                rows=order[evenly(len(order), CASES_TO_CHOOSE_BY)],
                exponents=self.exponents,
                criterion=options.criterion,
                weights=weights,
            )
            candidate = chooser.choose()
            choices = chooser.report()
        else:
            candidate = ModelCandidate(next(iter(posteriors)), int(options.n_neighbors), tuple(views))
        taken = GroupViews([views[key] for key in candidate.views])
        posterior, k = posteriors[candidate.posterior](), candidate.n_neighbors
        members = possible_members(posterior.members, labels)
        judged = None
        if posterior.takes_rows:
            places = rows_judged(len(order), k, members, n_classes, len(taken.views), options.max_past_cases)
            judged = order if places is None else order[places]
        fusion = Fusion(posterior, self.exponents)
        tables: Sequence[NeighborTable | None] = [None] * len(taken.views)
        if learns_from_past_cases(fusion):
            tables = taken.leave_one_out(k, members, judged)
        fusion.fit(tables, labels, n_classes, judged, has_class=taken.has_class)
        return FusedModel(
            classes=classes,
            labels=labels,
            views=taken,
            posterior=fusion,
            n_neighbors=k,
            members=members,
            past=None,
            novelty=None,
            tie_break=options.tie_break,
            seed=options.seed,
            weights=weights,
            priors=Priors.of(options.priors, classes, labels, weights),
            order=order,
            choices=choices,
            judged=judged,
        )


def _union(groups: Mapping[str, Any], n_columns: int) -> Any:
    """The columns of all groups together."""
    taken = np.zeros(n_columns, np.bool_)
    for columns in groups.values():
        taken[columns] = True
    return slice(None) if taken.all() else np.flatnonzero(taken)


def learns_from_past_cases(fusion: Fusion) -> bool:
    """Whether posteriors or exponents are learned from past cases."""
    return fusion.posterior.needs_past_cases or fusion.exponents == "learned"


def settle_ties(
    p: np.ndarray, tables: Sequence[NeighborTable], labels: np.ndarray, tie_break: str, seed: int
) -> np.ndarray:
    """The winners, raised in place by one rounding step where they were equal to others.

    With "nearest" the class wins that is nearest in all groups taken
    together: its nearest member's distance in units of the k-th neighbor's,
    added up. Where that is equal too, the nearest neighbor of the first group
    decides, then that of the second, and so on.
    """
    highest = p.max(axis=1, keepdims=True)
    tied = p >= highest * (1 - SAME)
    if tie_break == "nearest":
        contested = np.flatnonzero(tied.sum(axis=1) > 1)
        far = sum(_how_far(table[contested], labels, p.shape[1]) for table in tables)
        far = np.where(tied[contested], far, np.inf)
        tied[contested] = far == far.min(axis=1, keepdims=True)
    best = winners(tied, _side_by_side(tables), labels, tie_break, seed)
    query = np.flatnonzero((p >= highest * (1 - SAME)).sum(axis=1) > 1)
    p[query, best[query]] = np.nextafter(highest[query, 0], np.inf)
    return best


def _how_far(table: NeighborTable, labels: np.ndarray, n_classes: int) -> np.ndarray:
    """The distance of each class's nearest neighbor as a share of the k-th's; 2 where it has none.

    >>> table = NeighborTable(np.array([[1, 0, 2]]), np.array([[1.0, 2.0, 4.0]]))
    >>> _how_far(table, np.array([0, 2, 2]), n_classes=3)
    array([[0.5 , 2.  , 0.25]])
    """
    classes = neighbor_labels(table, labels)
    last = np.where(np.isfinite(table.distances), table.distances, 0.0).max(axis=1, keepdims=True)
    shares = np.divide(table.distances, last, out=np.zeros_like(table.distances), where=last > 0)
    far = np.full((len(table), n_classes + 1), 2.0)  # the last column takes missing neighbors
    for place in range(table.n_neighbors - 1, -1, -1):
        far[np.arange(len(table)), classes[:, place]] = shares[:, place]
    return far[:, :-1]


def _side_by_side(tables: Sequence[NeighborTable]) -> NeighborTable:
    """The neighbors of all groups in one line: the nearest of each group, then the second of each, and so on."""
    indices = np.stack([table.indices for table in tables], axis=2)
    distances = np.stack([table.distances for table in tables], axis=2)
    return NeighborTable(indices.reshape(len(indices), -1), distances.reshape(len(indices), -1))
