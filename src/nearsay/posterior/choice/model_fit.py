"""Fit a model: views of the rows, companion models, what past cases choose among them, and the posterior.

    X, labels ──► views, models ──► candidates, judged by past cases ──► posterior, k ──► FittedModel

Everything that ``fit`` of a classifier does after it has checked what it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from nearsay.core.arrays import evenly
from nearsay.core.steps import Steps
from nearsay.data.content_order import content_order
from nearsay.distances.functions import PrecomputedDistance
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.base import FOLDS_LEFT_OUT, FRESH, Posterior, folds_by, judged_among
from nearsay.posterior.choice.candidate_views import (
    AUTO_METRICS,
    is_auto_metric,
    transformed_views,
    transforms_to_try,
    views_to_try,
)
from nearsay.posterior.choice.choices import PoolSummary
from nearsay.posterior.choice.fit_checks import posteriors_to_try
from nearsay.posterior.choice.k_curve import KCurve, curves_of, largest_k
from nearsay.posterior.choice.model_choice import Chooser, ModelCandidate, members_of_all, neighbors_to_try
from nearsay.posterior.evidence.novelty import Novelty
from nearsay.posterior.methods.named import CRITERIA, Auto, as_posterior, is_auto
from nearsay.posterior.methods.pooled import Pooled
from nearsay.posterior.model import FittedModel
from nearsay.posterior.past_cases import MANY_CLASSES, MAX_PAST_CASES, PastCases, possible_members, rows_judged
from nearsay.posterior.priors import Priors, PriorsLike
from nearsay.posterior.row_weights import TrainingRows
from nearsay.posterior.views.feature_group import View
from nearsay.posterior.views.model_beside import ModelBeside, companion_models
from nearsay.posterior.views.row_transforms import (
    STANDARDIZED,
    VALUE_DIFFERENCES,
    WHITENED_BESIDE,
    RowTransform,
    unequal_columns,
)
from nearsay.posterior.views.value_differences import MOST_DIRECTIONS
from nearsay.posterior.views.views import Views

# Metrics by name in which a column of large numbers drowns the others; and how many past cases, and members of each
# class, say whether it should.
SCALES_MATTER = ("euclidean", "l2")
CASES_TO_SCALE_BY, MEMBERS_TO_SCALE_BY = 1000, 4

ViewsByKey = dict[tuple[int, int], View]


@dataclass(frozen=True)
class FitOptions:
    """What a model is fitted with: the settings of a classifier, checked.

    Attributes
    ----------
    n_neighbors, posterior, tie_break, priors, n_jobs : as in ``NeighborClassifier``.
    beside : (name, classifier) of each companion model.
    metric : with its parameters.
    search : as there.
    seed : int
    views : function of (X, labels, n_classes, make_view, groups) or None
        Gives the views to take, the first to be shown; None tries what the metric leaves open.
    columns : numbers of the columns that decide the order of the rows; None for all.
    keep_copies : bool
        Whether copies of companion models, fitted without each fold, are kept to be asked about past cases later.
    make_view : function or None
        What makes a view; None is ``View``.
    shards : ShardedIndex or None
        The settings by which rows in shards are searched.
    blocks : pairs of int
        Columns that stand for one column of a table with words or gaps, as in ``RowTransform``.
    verbose : bool
        Whether a line is printed for each step.
    """

    n_neighbors: Any
    posterior: Any
    metric: Any
    search: Any = "auto"
    tie_break: str = "nearest"
    beside: tuple[tuple[str, Any], ...] = ()
    priors: PriorsLike = None
    seed: int = 0
    n_jobs: int | None = None
    views: Callable[..., Sequence[View]] | None = None
    columns: np.ndarray | None = None
    keep_copies: bool = False
    make_view: Callable[..., View] | None = None
    shards: Any = None
    blocks: tuple[tuple[int, int], ...] = ()
    verbose: bool = False

    @property
    def chooses(self) -> bool:
        """Whether past cases choose more than k."""
        return is_auto(self.posterior) or is_auto_metric(self.metric)

    @property
    def nests(self) -> bool:
        """Whether past cases are judged by choices made without them, where rows are few."""
        return self.chooses and (is_auto(self.posterior) or isinstance(self.posterior, str | Posterior))

    @property
    def tries_many(self) -> bool:
        """Whether every posterior is tried, and many views."""
        return is_auto_metric(self.metric)

    @property
    def criterion(self) -> str:
        """What is chosen by."""
        return self.posterior.criterion if isinstance(self.posterior, Auto) else CRITERIA[0]

    @property
    def max_past_cases(self) -> int | None:
        """How many rows are asked about the others, at most."""
        if is_auto(self.posterior):
            return self.posterior.max_past_cases if isinstance(self.posterior, Auto) else MAX_PAST_CASES
        return as_posterior(self.posterior).max_past_cases

    @property
    def is_precomputed(self) -> bool:
        """Whether X holds distances, not rows."""
        return is_precomputed(self.metric)

    def in_memory(self) -> FitOptions:
        """The same for rows in memory, few enough to be searched here."""
        return replace(self, shards=None, make_view=None, verbose=False)

    def take(self, X: Any, rows: np.ndarray, held: np.ndarray) -> Any:
        """Some of the rows; of distances, those to the rows that are held."""
        taken = _safe_indexing(X, rows)
        return taken[:, held] if self.is_precomputed else taken

    def fit(self, given: TrainingRows) -> FittedModel:
        """Learn from rows that all count; ``beside_proba`` has an item for each of ``beside``."""
        return ModelFit(self, given).model()


def is_precomputed(metric: Any) -> bool:
    """Whether a metric takes X as distances."""
    named = isinstance(metric, str) and metric == PrecomputedDistance.name
    return named or isinstance(metric, PrecomputedDistance)


def _of_table(make: Callable[[], Posterior]) -> Posterior:
    """A posterior for rows of a table with words or gaps."""
    posterior = make()
    if isinstance(posterior, Pooled):
        posterior.of_table = True
    return posterior


class ModelFit:
    """One fit: what its steps share."""

    def __init__(self, options: FitOptions, given: TrainingRows) -> None:
        self.options = options
        self.X, self.labels, self.classes = given.X, given.labels, given.classes
        self.weights, self.groups, self.beside_proba = given.weights, given.groups, given.beside_proba
        self.steps = Steps("NeighborClassifier", shown=options.verbose)
        self.n_rows, self.n_classes = len(self.labels), len(self.classes)
        # Posteriors that read the order of all classes take long where these are very many.
        every = is_auto_metric(options.metric) and self.n_classes <= MANY_CLASSES
        self.posteriors = posteriors_to_try(
            options.posterior, every=every, weights=self.weights, row_groups=self.groups
        )
        if options.blocks:
            self.posteriors = {name: partial(_of_table, make) for name, make in self.posteriors.items()}
        learns = options.chooses or any(make().needs_past_cases for make in self.posteriors.values())
        self.order = self._content_order() if learns else None
        self.summary: PoolSummary | None = None
        has_fresh = self.groups is not None and (self.groups == FRESH).any()
        order = np.arange(self.n_rows) if self.order is None else self.order
        self.judged = judged_among(order, self.groups) if has_fresh else self.order

    def model(self) -> FittedModel:
        """Everything, step by step."""
        options = self.options
        priors = Priors.of(options.priors, self.classes, self.labels, self.weights)
        views = self._views()
        if self.groups is not None:
            for view in views.values():
                view.leave_out_groups(self.groups)
        models = self._models(views)
        choices, fitted = None, None
        if options.chooses:
            if options.views is None and not is_auto_metric(options.metric):
                views = self._of_one_scale(views)
            candidate, choices, fitted, past = self._choose(views, models)
        else:
            # Where k alone is left open, the largest to try.
            k = largest_k(self.n_rows) if is_auto(options.n_neighbors) else int(options.n_neighbors)
            candidate = ModelCandidate(next(iter(self.posteriors)), k, tuple(views))
            past = self._past_cases(list(views.values()), models)
        posterior = self.posteriors[candidate.posterior]() if fitted is None else fitted
        members = possible_members(posterior.members, self.labels)
        k, k_curve, rows_by_k = candidate.n_neighbors, None, {}
        table, rows = None, None
        if posterior.needs_past_cases and fitted is None:
            table, rows = past.judged(max(k, 1), members, every_row=not posterior.takes_rows)
        if is_auto(options.n_neighbors) and not options.chooses:
            k_curve, best = self._k_curve(posterior, past, table, rows, k)
            k = k_curve.best
            rows_by_k = {other: best[other] for other in best if other != k}
        if fitted is None:
            posterior.fit(None if table is None else table.first(k), self.labels, self.n_classes, rows)
        return FittedModel(
            classes=self.classes,
            labels=self.labels,
            views=past.search,
            posterior=posterior,
            n_neighbors=k,
            members=members,
            past=past,
            novelty=Novelty(past, k),
            tie_break=options.tie_break,
            seed=options.seed,
            weights=self.weights,
            priors=priors,
            order=self.judged,
            rows_by_k=rows_by_k,
            k_curve=k_curve,
            choices=choices,
            summary=self.summary,
        )

    @property
    def of_candidates(self) -> bool:
        """Whether past cases keep few of very many classes: where no posterior but pools reads any."""
        reads_all = [make for make in self.posteriors.values() if make().members is not None]
        in_memory = self.options.make_view is None and self.options.shards is None and self.options.views is None
        return in_memory and self.n_classes > MANY_CLASSES and all(isinstance(make(), Pooled) for make in reads_all)

    def _content_order(self) -> np.ndarray:
        """The order in which rows are dealt into folds, drawn, and teach."""
        columns = self.options.columns
        X = self.X if columns is None else np.asarray(self.X)[:, columns]
        return content_order(X, self.labels, pairwise=self.options.is_precomputed)

    def _views(self) -> ViewsByKey:
        """The rows by their metric, and transformed; the first shows the neighbors unless past cases choose."""
        options = self.options
        if options.views is not None:
            views = options.views(self.X, self.labels, self.n_classes, options.make_view or View, self.groups)
            return {(0, number): view for number, view in enumerate(views)}
        made: dict[str, Any] = {"n_jobs": options.n_jobs, "make": options.make_view or View}
        given = self.X, self.labels, self.n_classes
        search = options.search if options.shards is None else options.shards
        by_metric = views_to_try({"all": None}, [options.metric], search, *given, **made)
        search = "auto" if options.shards is None else options.shards
        more = transformed_views(
            self._transforms(), *given, search=search, order=self.order, groups=self.groups, **made
        )
        return by_metric | {(0, len(by_metric) + number): view for number, view in enumerate(more)}

    def _transforms(self) -> list[Any]:
        """All transforms worth a try for "auto"; otherwise, where open, columns of one scale, and whitened ones."""
        metric = self.options.metric
        if is_auto_metric(metric):
            pools = any(isinstance(make(), Pooled) for make in self.posteriors.values())
            large_margin = metric == AUTO_METRICS[1]
            transforms = transforms_to_try(self.X, self.labels, large_margin=large_margin) if pools else []
            return [*transforms, *self._value_differences()] if pools else []
        if not self.options.chooses or not isinstance(metric, str) or metric not in SCALES_MATTER:
            return []
        transforms = [STANDARDIZED] if unequal_columns(self.X) else []
        transforms += [each for each in transforms_to_try(self.X, self.labels) if each == WHITENED_BESIDE]
        return transforms + self._value_differences()

    def _value_differences(self) -> list[RowTransform]:
        """What each column of a table with words or gaps says about the classes, as one more view."""
        blocks = self.options.blocks
        few = 0 < len(blocks) * self.n_classes <= MOST_DIRECTIONS and self.n_classes > 1
        return [RowTransform(VALUE_DIFFERENCES, blocks=blocks)] if few else []

    def _models(self, views: ViewsByKey) -> list[ModelBeside]:
        """Models to pool with the neighbors: the user's, then our own where rows are whitened too."""
        beside = self.options.beside
        weights = None if self.weights is None else self.weights.relative
        y = self.classes[self.labels]
        models = []
        for (name, model), held_out in zip(beside, self.beside_proba or [None] * len(beside), strict=True):
            with self.steps.step(name):
                member = ModelBeside(model, self.classes, name)
                member.fit(self.X, y, self.labels, held_out, weights, order=self.order, groups=self.groups)
            models.append(member)
        if any(view.knows_labels for view in views.values()):
            thorough = is_auto_metric(self.options.metric)
            given = self.X, self.labels, self.n_classes, self.order, self.groups
            keep = self.options.keep_copies
            is_table = bool(self.options.blocks)
            whitened = [view.transforms for view in views.values() if view.transform == WHITENED_BESIDE]
            maps = whitened[0] if whitened and self.options.views is None and self.options.shards is None else None
            models += companion_models(
                *given, is_table=is_table, thorough=thorough, keep_copies=keep, steps=self.steps, maps=maps
            )
        return models

    def _of_one_scale(self, views: ViewsByKey) -> ViewsByKey:
        """The rows as they are, or standardized where a few past cases are clearly better off."""
        plain = {key: view for key, view in views.items() if not view.knows_labels}
        if len(plain) < 2:
            return views
        assert self.judged is not None
        few = self.judged[evenly(len(self.judged), CASES_TO_SCALE_BY)]
        chooser = Chooser(
            plain,
            self.posteriors,
            self.labels,
            self.n_classes,
            ks=[1],
            rows=few,
            weights=self.weights,
            most_members=MEMBERS_TO_SCALE_BY,
            of_candidates=self.of_candidates,
        )
        shown = chooser.view_to_show().views
        return {key: view for key, view in views.items() if key in shown or view.knows_labels}

    def _choose(
        self, views: ViewsByKey, models: Sequence[ModelBeside]
    ) -> tuple[ModelCandidate, Any, Posterior | None, PastCases]:
        """What past cases choose, with all that was tried; their table is kept.

        The posterior comes with it where choosing has fitted it to all cases.
        """
        k = self.options.n_neighbors
        ks = neighbors_to_try(self.n_rows - 1) if is_auto(k) else [int(k)]
        members = members_of_all(self.posteriors, self.labels)
        most = self.options.max_past_cases
        assert self.judged is not None
        places = rows_judged(len(self.judged), max(ks), members, self.n_classes, len(views), most)
        rows = self.judged if places is None else self.judged[places]
        chooser = Chooser(
            views,
            self.posteriors,
            self.labels,
            self.n_classes,
            ks=ks,
            rows=rows,
            models=models,
            criterion=self.options.criterion,
            weights=self.weights,
            steps=self.steps,
            of_candidates=self.of_candidates,
        )
        with self.steps.step("choosing"):
            candidate = chooser.choose_one_group()
        past = self._past_cases([views[key] for key in candidate.views], [models[n] for n in candidate.models])
        if self.of_candidates:
            past.n_views = len(views)  # the same rows are judged when they are asked again
        else:
            past.keep(chooser.table(candidate), rows)
        self.summary = chooser.summary(candidate)
        return candidate, chooser.report(), chooser.fitted(candidate), past

    def _past_cases(self, views: list[View], models: list[ModelBeside]) -> PastCases:
        options = self.options
        return PastCases(
            Views(views, models),
            options.seed,
            n_views=len(views),
            max_past_cases=options.max_past_cases,
            order=self.judged,
        )

    def _k_curve(
        self, posterior: Posterior, past: PastCases, table: NeighborTable | None, rows: np.ndarray | None, k: int
    ) -> tuple[KCurve, Mapping[int, np.ndarray]]:
        """How each k does, and the rows for which each is the best by the cases of other folds."""
        if k == 0:  # one row has no others to be judged by
            return KCurve(np.empty(0, np.int64), np.empty(0), np.empty(0)), {}
        numbers = np.arange(self.n_rows) if rows is None else rows
        parts = past.blocks(k) if table is None else [(numbers, table)]
        order = np.arange(self.n_rows) if self.order is None else self.order
        fold = folds_by(order, self.labels, FOLDS_LEFT_OUT, self.groups)
        curve, best = curves_of(
            parts,
            self.labels,
            self.n_classes,
            k,
            fold,
            weights=self.weights,
            model_failure=posterior.model_failure,
            smoothing=posterior.smoothing,
            tie_break=self.options.tie_break,
            seed=self.options.seed,
        )
        return curve, {each: np.flatnonzero(np.isin(fold, np.flatnonzero(best == each))) for each in np.unique(best)}
