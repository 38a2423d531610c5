"""Companion models: classifiers whose probabilities are pooled with the neighbors.

    rows ──► model ──► log probabilities ─┐
    rows ──► neighbors ──► distances      ─┴─► one pool, weighed by past cases

What a model says of rows it was fitted to is worth nothing as a past case, so
past cases are asked of copies that were fitted without them, fold by fold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, count
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from nearsay.core.arrays import row_blocks, rows_within
from nearsay.core.settings import check_estimator
from nearsay.core.steps import Steps
from nearsay.errors import InputError
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.past_cases import MANY_CLASSES, ROWS_AT_ONCE
from nearsay.posterior.views.boosted_classes import BoostedClasses
from nearsay.posterior.views.directions_model import DirectionsModel, FoldsOfDirections, taken
from nearsay.posterior.views.forest import FOREST_SPREAD, SMALLEST_SPLITS, ForestClasses
from nearsay.posterior.views.gaussian_classes import MOST_ANSWERS, GaussianClasses
from nearsay.posterior.views.linear_classes import LinearClasses
from nearsay.posterior.views.row_transforms import ROWS_TO_LEARN_FROM, LearnedTransforms, folds_to_learn
from nearsay.search.shards import ShardedRows

# Some models give a class nothing at all; this share of every answer is spread evenly, so that logs stay finite.
SPREAD = 1e-4

# Trees of the default, and where every way to compare rows is tried; products a step of the line in each.
FEW_TREES, MANY_TREES = 100, 200
FEW_ROWS_A_TREE, MANY_ROWS_A_TREE = 2000, 20_000
FEW_PRODUCTS, MANY_PRODUCTS = 1e8, 4e9
# Of very many classes with fewer rows each, Gaussians alone are pooled: what other models add to them is noise. For
# 4,000×20 rows in 2,000 clusters the log loss of new rows was 0.177 with them alone and 0.183 with all models, or 4.33
# and 4.51 where clusters overlap more. In 1,000 clusters lines pay: 0.372 and 0.332.
GAUSSIAN, ROWS_A_CLASS = "Gaussian", 3
# Models of classes by the names that people read; whether to take more time says how thorough they are.
BOOSTING = "boosting"
COMPANIONS: dict[str, Callable[[bool], Any]] = {
    GAUSSIAN: lambda thorough: GaussianClasses(),
    "Gaussian ranks": lambda thorough: GaussianClasses(scores=True),
    "line": lambda thorough: LinearClasses(most_products=MANY_PRODUCTS if thorough else FEW_PRODUCTS),
    BOOSTING: lambda thorough: BoostedClasses(),
    "forest": lambda thorough: (
        ForestClasses(n_trees=MANY_TREES, rows_a_tree=MANY_ROWS_A_TREE)
        if thorough
        else ForestClasses(n_trees=FEW_TREES, rows_a_tree=FEW_ROWS_A_TREE)
    ),
}
OWN_MODELS = (DirectionsModel, BoostedClasses, ForestClasses)
# A tree for each class and step takes long where classes are many.
MOST_CLASSES_TO_BOOST = 16
# Fewer rows have nothing to teach a model.
FEWEST_ROWS = 20


class ModelBeside:
    """A fitted classifier of any kind, and what copies of it say of the training rows that they were fitted without.

    In shards a model is fitted to at most 200,000 rows, drawn with a fixed seed, and the copies are kept and asked
    when needed: probabilities of all rows may be billions of numbers. So are copies of our own models where classes are
    very many. Otherwise they are asked once.

    Parameters
    ----------
    model : a classifier with ``fit`` and ``predict_proba``; it is cloned, not fitted itself.
    classes : (n_classes,) the labels, sorted: the order of all columns here.
    name : for people.
    keeps_copies : whether the copies are kept in memory too: past cases of other rows are to be asked of them later.

    Attributes
    ----------
    model_ : the fitted clone; where held-out probabilities were given, the model itself.
    rows_ : (n_drawn,) the numbers of the rows that it was fitted to, in their order.
    past_ : (n_rows, n_classes) float32 log probabilities of the training rows; None where copies are asked.
    copies_ : where they are kept, a model for each fold, fitted without it; None among them where too few rows are left
        to learn from.
    """

    past_: np.ndarray | None = None
    copies_: Sequence[Any] = ()
    keeps_copies = False
    most_rows = ROWS_TO_LEARN_FROM

    def __init__(self, model: Any, classes: np.ndarray, name: str = "", *, keeps_copies: bool = False) -> None:
        self.model = model
        self.classes = classes
        self.name = name
        self.keeps_copies = keeps_copies

    @property
    def spread(self) -> float:
        """The share of every answer that is spread evenly."""
        return FOREST_SPREAD if isinstance(self.model, ForestClasses) else SPREAD

    def fit(
        self,
        X: Any,
        y: np.ndarray,
        labels: np.ndarray,
        held_out: Any = None,
        sample_weight: np.ndarray | None = None,
        *,
        order: np.ndarray | None = None,
        groups: np.ndarray | None = None,
        maps: LearnedTransforms | None = None,
    ) -> ModelBeside:
        """Fit a clone to all rows, and others to four fifths of them; or take the model as it is.

        labels : (n_rows,) class numbers of y.
        held_out : (n_rows, n_classes), optional, what the model says of these rows without having been fitted to them.
            It must be fitted, and is not fitted again.
        sample_weight : (n_rows,), optional, how much each row counts; a model that is fitted here must take it.
        order : (n_rows,) row numbers, in the order in which rows are dealt into folds, and teach; theirs by default.
        groups : (n_rows,) int, optional, rows of one group are in one fold.
        maps : of a view of the same rows and folds, optional; a line is learned in its directions.
        """
        if held_out is not None:
            self.model_ = self.model
            check_is_fitted(self.model_)
            self.past_ = self._logs(_check_held_out(held_out, (len(labels), len(self.classes)))).astype(np.float32)
            return self
        self._check_weights(sample_weight)
        self._learn(X, y, labels, np.arange(len(labels)) if order is None else order, sample_weight, groups, maps)
        return self

    def _learn(
        self,
        X: Any,
        y: np.ndarray,
        labels: np.ndarray,
        order: np.ndarray,
        sample_weight: np.ndarray | None,
        groups: np.ndarray | None,
        maps: LearnedTransforms | None,
    ) -> None:
        """Fit the model and, without each fold, its copies; past cases in memory are asked at once."""
        fold = folds_to_learn(order, labels, groups)
        in_shards = isinstance(X, ShardedRows)
        is_ours = isinstance(self.model, DirectionsModel)
        # A model of the user's learns from all rows in memory.
        draws = in_shards or isinstance(self.model, OWN_MODELS)
        asks_later = in_shards or self._keeps_rows

        self.rows_ = self._drawn(order) if draws else order

        def fitted(model: Any, rows: np.ndarray) -> Any:
            rows = self._drawn(rows) if draws else rows
            weights = {} if sample_weight is None else {"sample_weight": sample_weight[rows]}
            return clone(model).fit(taken(X, rows), y[rows], **weights)

        folds = FoldsOfDirections(self.model, X, y, self.rows_, fold, maps) if is_ours else None
        self.model_ = fitted(self.model, order) if folds is None else folds.model

        def without_fold(number: int, rest: np.ndarray) -> Any:
            if len(np.unique(labels[rest])) < 2:  # few models can be fitted to one class
                return None
            return fitted(self.model, rest) if folds is None else folds.without(number, self._drawn(rest))

        copies = []
        if not asks_later:
            self.past_ = np.empty((len(labels), len(self.classes)), np.float32)
        for number in range(int(fold.max(initial=-1)) + 1):
            model = without_fold(number, order[fold[order] != number])
            if self.past_ is not None:
                rows = order[fold[order] == number]
                if folds is None or model is None:
                    self.past_[rows] = self._log_proba_of(model, X[rows])
                else:
                    self.past_[rows] = self._log_proba_of(model, folds.mapped(model, rows), is_mapped=True)
            if asks_later or self.keeps_copies:
                copies.append(model)
        self.copies_ = copies
        if asks_later:
            self._rows, self._fold = X, fold

    @property
    def _keeps_rows(self) -> bool:
        """Whether past cases are asked when needed: probabilities of rows × classes are many numbers."""
        return len(self.classes) > MANY_CLASSES and isinstance(self.model, OWN_MODELS)

    def _drawn(self, rows: np.ndarray) -> np.ndarray:
        """All of these rows, or as many as a model is learned from."""
        if len(rows) <= self.most_rows:
            return rows
        return rows[np.sort(np.random.default_rng(0).choice(len(rows), self.most_rows, replace=False))]

    def past_cases(self, rows: np.ndarray | None = None) -> np.ndarray:
        """Log probabilities of the training rows, or of some, by models that were fitted without them, in float32."""
        if self.past_ is not None:
            return self.past_ if rows is None else self.past_[rows]
        rows = np.arange(len(self._fold)) if rows is None else rows
        log_p = np.empty((len(rows), len(self.classes)), np.float32)
        for number, model in enumerate(self.copies_):
            of_fold = np.flatnonzero(self._fold[rows] == number)
            for part in row_blocks(len(of_fold), size=ROWS_AT_ONCE):
                lines = of_fold[part]
                log_p[lines] = self._log_proba_of(model, taken(self._rows, rows[lines]))
        return log_p

    def log_proba(self, X: Any) -> np.ndarray:
        """Log probabilities (n_queries, n_classes); a class that the model does not know has next to none."""
        return self._log_proba_of(self.model_, X)

    def neighbors(self, X: Any, k: int) -> NeighborTable | None:
        """The rows whose votes a forest's answer is made of, as ``ForestClasses.neighbors``; None of others."""
        if not isinstance(self.model_, ForestClasses):
            return None
        table = self.model_.neighbors(X, k)
        return replace(table, indices=np.where(table.indices >= 0, self.rows_[table.indices], -1))

    def _log_proba_of(self, model: Any, X: Any, *, is_mapped: bool = False) -> np.ndarray:
        if not len(X):
            return np.empty((0, len(self.classes)))
        if model is None:
            return np.full((len(X), len(self.classes)), -np.log(len(self.classes)))
        known = np.searchsorted(self.classes, model.classes_)
        p = np.zeros((len(X), len(self.classes)))
        p[:, known] = model.proba_of_mapped(X) if is_mapped else model.predict_proba(X)
        return self._logs(p)

    def _check_weights(self, sample_weight: np.ndarray | None) -> None:
        """Refuse weights of rows for a model that takes none."""
        if sample_weight is not None and not has_fit_parameter(self.model, "sample_weight"):
            raise InputError(
                f"Rows were given a sample_weight, but the fit of beside={self.model!r} takes none. Pass a model whose"
                " fit takes it, or fit the model yourself and pass beside_proba, what it says of rows it has not seen."
            )

    def _logs(self, p: np.ndarray) -> np.ndarray:
        return log_shares(p, self.spread)

    def _to_saved(self) -> dict[str, Any]:
        again = {"keeps_copies"} if self.past_ is None else {"keeps_copies", "copies_"}  # past cases are at hand
        return {name: value for name, value in vars(self).items() if name not in again}


class ForestBeside(ModelBeside):
    """A forest, which answers past cases by the trees that were grown without them: it is fitted once."""

    bytes_at_once = 1 << 24  # of probabilities of past cases

    def _learn(
        self,
        X: Any,
        y: np.ndarray,
        labels: np.ndarray,
        order: np.ndarray,
        sample_weight: np.ndarray | None,
        groups: np.ndarray | None,
        maps: LearnedTransforms | None,
    ) -> None:
        """Grow the trees from all rows, or as many as are drawn; each tree from whole groups."""
        self.rows_ = self._drawn(order)
        of_rows = None if groups is None else groups[self.rows_]
        self.model_ = clone(self.model).fit(taken(X, self.rows_), y[self.rows_], of_rows)
        # The row of the forest that is left out for each row: itself, or any of its group.
        number = np.arange(len(labels)) if groups is None else np.unique(groups, return_inverse=True)[1]
        of_group = np.full(len(labels), -1)
        of_group[number[self.rows_]] = np.arange(len(self.rows_))
        self._left_out = of_group[number]
        if isinstance(X, ShardedRows) or self._keeps_rows:
            self._rows = X
        else:
            self.past_ = self._past(np.arange(len(labels)), X.__getitem__)

    def past_cases(self, rows: np.ndarray | None = None) -> np.ndarray:
        if self.past_ is not None:
            return super().past_cases(rows)
        rows = np.arange(len(self._left_out)) if rows is None else rows
        return self._past(rows, partial(taken, self._rows))

    def _past(self, rows: np.ndarray, take: Callable[[np.ndarray], Any]) -> np.ndarray:
        known = np.searchsorted(self.classes, self.model_.classes_)
        log_p = np.empty((len(rows), len(self.classes)), np.float32)
        for part in row_blocks(len(rows), size=rows_within(self.bytes_at_once, 8 * len(self.classes), ROWS_AT_ONCE)):
            p = np.zeros(log_p[part].shape)
            p[:, known] = self.model_.predict_proba(take(rows[part]), self._left_out[rows[part]])
            log_p[part] = self._logs(p)
        return log_p

    def _to_saved(self) -> dict[str, Any]:
        fields = super()._to_saved()
        return {name: value for name, value in fields.items() if self.past_ is None or name != "_left_out"}


def companion_models(
    X: Any,
    labels: np.ndarray,
    n_classes: int,
    order: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    *,
    is_table: bool = False,
    thorough: bool = False,
    keep_copies: bool = False,
    steps: Steps | None = None,
    maps: LearnedTransforms | None = None,
) -> list[ModelBeside]:
    """Classes as Gaussians of the columns and of their normal scores, a line, boosted trees for a table, and a forest.

    ``is_table`` tells that the columns are those of a table with words or gaps. No models where rows are very few, or
    rows × classes too many; of very many classes with few rows each, the first alone. ``thorough`` takes more time for
    the line and the forest; ``keep_copies`` keeps those that were fitted without each fold; ``steps`` measures each;
    ``maps`` are those of a view of X, in order and groups.
    """
    if len(X) < FEWEST_ROWS or len(X) * n_classes > MOST_ANSWERS:
        return []
    classes = np.arange(n_classes)
    models = []
    for name, make in COMPANIONS.items():
        if name == BOOSTING and not (is_table and n_classes <= MOST_CLASSES_TO_BOOST):
            continue
        if name != GAUSSIAN and n_classes > MANY_CLASSES and len(X) < ROWS_A_CLASS * n_classes:
            continue
        model = make(thorough)
        if isinstance(model, ForestClasses) and not is_table:
            model.smallest_split = SMALLEST_SPLITS[0]
        kind = ForestBeside if isinstance(model, ForestClasses) else ModelBeside
        beside = kind(model, classes, name, keeps_copies=keep_copies)
        with (steps or Steps()).step(name):
            models.append(beside.fit(X, labels, labels, order=order, groups=groups, maps=maps))
    return models


def named_models(beside: Any) -> list[tuple[str, Any]]:
    """The classifiers given as ``beside``, each with its name: as given, or that of its class.

    >>> from sklearn.naive_bayes import GaussianNB
    >>> [name for name, _ in named_models([GaussianNB(), ("broad", GaussianNB(var_smoothing=0.1)), GaussianNB()])]
    ['GaussianNB', 'broad', 'GaussianNB 2']
    """
    if beside is None:
        return []
    models: list[tuple[str, Any]] = []
    for given in beside if isinstance(beside, list) else [beside]:
        name, model = given if isinstance(given, tuple) and len(given) == 2 else (None, given)
        check_estimator("beside", model, "fit", "predict_proba")
        taken = {*COMPANIONS, *(other for other, _ in models)}
        if name is None:
            name = _numbered(type(model).__name__, taken)
        elif not isinstance(name, str) or not name or name in taken:
            raise InputError(
                f"A classifier in beside needs a name of its own; got {name!r}."
                f" Names in use: {', '.join(sorted(taken))}."
            )
        models.append((name, model))
    return models


def _numbered(name: str, taken: set[str]) -> str:
    """The name, with the first number that makes it a new one."""
    numbered = (f"{name} {number}" for number in count(2))
    return next(each for each in chain([name], numbered) if each not in taken)


def held_out_of_each(beside: Any, beside_proba: Any) -> list[Any]:
    """What is given as ``beside_proba`` for each classifier of ``beside``; None for those that are to be fitted."""
    if not isinstance(beside, list):
        return [beside_proba]
    each = [None] * len(beside) if beside_proba is None else beside_proba
    if not isinstance(each, list | tuple) or len(each) != len(beside):
        raise InputError(
            f"beside lists {len(beside)} classifiers, so beside_proba must list as many arrays of probabilities, with"
            " None for a classifier that is to be fitted."
        )
    return list(each)


def log_shares(p: np.ndarray, spread: float) -> np.ndarray:
    """The logs of probabilities, of which a share is spread evenly over all classes."""
    return np.log((1 - spread) * p + spread / p.shape[1])


def stacked_models(log_proba: Sequence[np.ndarray]) -> np.ndarray | None:
    """The log probabilities of several models as one array (n_queries, n_classes, n_models); None without any."""
    return np.stack(log_proba, axis=2) if log_proba else None


def _check_held_out(held_out: Any, expected: tuple[int, int]) -> np.ndarray:
    p = np.asarray(held_out, np.float64)
    if p.shape != expected:
        raise InputError(
            f"beside_proba must hold a probability for each row and class, shape {expected}; got {p.shape}."
        )
    if not np.isfinite(p).all() or p.min(initial=0) < 0 or np.abs(p.sum(axis=1) - 1).max(initial=0) > 1e-3:
        raise InputError("beside_proba must hold probabilities: from 0 to 1, and every row sums to 1.")
    return p
