"""Grid search for a learned metric, by the accuracy of neighbors on held-out rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_X_y, has_fit_parameter

from nearsay.core.arrays import as_rows, row_blocks
from nearsay.core.settings import check_estimator, check_flag, check_number, check_randomness, check_whole
from nearsay.core.validation import checked_labels
from nearsay.data.content_order import content_order
from nearsay.data.rows import as_groups
from nearsay.errors import InputError
from nearsay.learn.whitening import WithinClassWhitening
from nearsay.neighbors.index import nearest


@dataclass(frozen=True)
class TunedMetric:
    """The result of ``tune_metric``.

    best_ : the best transformer, fitted: the learner with its best settings, the whitening that was tried before it,
        or, where nothing is better than the Euclidean distance, scikit-learn's ``FunctionTransformer()``, which leaves
        rows as they are
    metric : its name in the table
    settings : its settings; of equally good ones the first in the table
    accuracy : share of validation rows that their neighbors classify correctly, with these settings
    euclidean : the same without any learned metric
    table : one dict for "Euclidean", one for "WithinClassWhitening", and one for each setting, in the order of the
        grid, ``{"metric": name of the learner, "settings": {…}, "accuracy": …}``
    """

    best_: Any
    metric: str
    settings: dict[str, Any]
    accuracy: float
    euclidean: float
    table: list[dict[str, Any]]

    @property
    def gain(self) -> float:
        """Accuracy minus that of the Euclidean distance; negative only with ``keep_learner``."""
        return self.accuracy - self.euclidean


def tune_metric(
    learner: Any,
    X: Any,
    y: Any,
    grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
    *,
    n_neighbors: int = 20,
    groups: Any = None,
    X_valid: Any = None,
    y_valid: Any = None,
    validation_fraction: float = 1 / 3,
    random_state: Any = None,
    keep_learner: bool = False,
) -> TunedMetric:
    """Grid search for the settings of a learner with the most accurate neighbors on validation rows.

    Simpler metrics are tried first, and win ties: the Euclidean distance, then ``WithinClassWhitening(pull=1)``,
    which takes a hundredth of a second.

    Each candidate is fitted on training rows; the nearest of these to each validation row, after
    ``transform``, have a vote each, and of tied classes the nearest wins.

    Parameters
    ----------
    learner : transformer
        ``ITML()``, ``LMNN()``, ``BoostMetric()``, scikit-learn's ``NeighborhoodComponentsAnalysis()`` or
        ``LinearDiscriminantAnalysis()``, a pipeline of transformers, … It is cloned, never changed.
    X, y : (n_rows, n_features) and (n_rows,)
    grid : dict of lists, or a list of such dicts
        As for scikit-learn's ``GridSearchCV``; ``{}`` tries the learner as it is.
    n_neighbors : int, default=20
        Neighbors that vote, or all rows where there are fewer.
    groups : (n_rows,) hashable names, optional
        The group of each row, such as a patient or a writer: whole groups are held out, and learners whose ``fit``
        takes groups learn with them.
    X_valid, y_valid : optional
        Validation rows. The best candidate is then the one fitted on all of ``X``.
        Without them rows of ``X`` are held out, and the best settings are fitted again on all of ``X``.
    validation_fraction : float, default=1/3
        Share of each class that is held out where no validation rows are passed. One row of every class stays.
    random_state : int, RandomState or None
        Which rows are held out.
    keep_learner : bool, default=False
        Choose among the settings of the learner only, even if the Euclidean distance is better; whitening is not tried.

    Only the second column separates the classes. Whitening detects that, and discriminant analysis is no better:

    >>> from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    >>> X, y = [[0, 0], [4, 1], [8, 0], [2, 3], [6, 4], [10, 3]], [0, 0, 0, 1, 1, 1]
    >>> grid = {"solver": ["svd", "eigen"]}
    >>> tuned = tune_metric(
    ...     LinearDiscriminantAnalysis(), X, y, grid, n_neighbors=1, X_valid=[[2, 1.2], [8, 2.5]], y_valid=[0, 1]
    ... )
    >>> tuned.euclidean, tuned.accuracy, tuned.metric, tuned.settings
    (0.5, 1.0, 'WithinClassWhitening', {'pull': 1.0})
    """
    check_estimator("learner", learner, "fit", "transform")
    tried = list(ParameterGrid(grid))
    if not tried:
        raise InputError("The grid holds no settings to try. Pass {} to try the learner as it is.")
    simpler = [TransformerCandidate("Euclidean", FunctionTransformer(), {})]
    if not check_flag("keep_learner", keep_learner):
        simpler.append(TransformerCandidate("WithinClassWhitening", WithinClassWhitening(), {"pull": 1.0}))
    candidates = simpler + [TransformerCandidate(type(learner).__name__, learner, settings) for settings in tried]
    X, y = _check_rows(X, y)
    groups = as_groups(groups, len(y))
    passed = X_valid is not None
    if passed != (y_valid is not None):
        raise InputError("Validation rows need their labels: pass both X_valid and y_valid, or neither.")
    if passed:
        train, labels, of_train = X, y, groups
        rows, truth = _check_rows(X_valid, y_valid)
    else:
        # Rows are held out at random, in this order.
        order = content_order(X, np.unique(y, return_inverse=True)[1], in_any_unit=True)
        X, y, groups = X[order], y[order], None if groups is None else groups[order]
        held_out = held_out_rows(y, validation_fraction, check_randomness(random_state), groups)
        train, labels, rows, truth = X[~held_out], y[~held_out], X[held_out], y[held_out]
        of_train = None if groups is None else groups[~held_out]
    if not len(rows):
        raise InputError(
            f"No row can be held out of {len(X)} rows with validation_fraction={validation_fraction}."
            " Pass X_valid and y_valid, or more rows of each class."
        )
    k = min(check_whole("n_neighbors", n_neighbors, least=1), len(train))
    fitted = [candidate.fitted(train, labels, of_train) for candidate in candidates]
    accuracies = [
        neighbor_accuracy(mapped.transform(train), labels, mapped.transform(rows), truth, k) for mapped in fitted
    ]
    table = [
        {"metric": candidate.metric, "settings": candidate.settings, "accuracy": accuracy}
        for candidate, accuracy in zip(candidates, accuracies, strict=True)
    ]
    open_to_choice = range(1 if keep_learner else 0, len(candidates))
    chosen = max(open_to_choice, key=accuracies.__getitem__)  # the first of equals
    best = fitted[chosen] if passed else candidates[chosen].fitted(X, y, groups)
    return TunedMetric(
        best, candidates[chosen].metric, candidates[chosen].settings, accuracies[chosen], accuracies[0], table
    )


class TransformerCandidate(NamedTuple):
    """A transformer to try: its name in the table, itself, and the settings it is tried with."""

    metric: str
    learner: Any
    settings: dict[str, Any]

    def fitted(self, X: np.ndarray, y: np.ndarray, groups: np.ndarray | None) -> Any:
        learner = clone(self.learner).set_params(**self.settings)
        takes = groups is not None and has_fit_parameter(learner, "groups")
        return learner.fit(X, y, **({"groups": groups} if takes else {}))


def _check_rows(X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    X, y = check_X_y(as_rows(X), checked_labels(y), dtype=(np.float64, np.float32))
    check_classification_targets(y)
    return X, y


def held_out_rows(
    labels: np.ndarray, share: float, random: np.random.RandomState, groups: np.ndarray | None = None
) -> np.ndarray:
    """A random mask of held-out rows: this share of each class, rounded; one row of every class stays.

    With groups, whole groups: at most this share of all rows.

    >>> held_out_rows(np.array([0, 0, 0, 0, 1]), 0.5, np.random.RandomState(0)).sum()
    np.int64(2)
    """
    check_number("validation_fraction", share, 0, 1, closed="neither")
    held_out = np.zeros(len(labels), bool)
    if groups is not None:
        left = dict(Counter(labels.tolist()))
        for group in random.permutation(np.unique(groups)):
            rows = np.flatnonzero(groups == group)
            taken = Counter(labels[rows].tolist())
            if all(taken[label] < left[label] for label in taken) and held_out.sum() + len(rows) <= share * len(labels):
                held_out[rows] = True
                left |= {label: left[label] - taken[label] for label in taken}
        return held_out
    for label in dict.fromkeys(labels.tolist()):  # in order of their first rows, whatever their names
        rows = random.permutation(np.flatnonzero(labels == label))
        held_out[rows[: min(round(share * len(rows)), len(rows) - 1)]] = True
    return held_out


def neighbor_accuracy(X: np.ndarray, labels: np.ndarray, Q: np.ndarray, truth: np.ndarray, k: int) -> float:
    """Accuracy of the majority vote of the ``k`` nearest rows; of tied classes the nearest wins.

    >>> X, labels = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array(["a", "b", "b", "a"])
    >>> neighbor_accuracy(X, labels, np.array([[0.1], [3.1]]), np.array(["a", "b"]), k=3)
    0.5
    """
    names, numbers = np.unique(labels, return_inverse=True)
    votes_cast = numbers[nearest(X, Q, k).indices]
    winners = np.empty(len(Q), np.int64)
    for block in row_blocks(len(Q), row_bytes=k * k):
        votes = (votes_cast[block][:, :, None] == votes_cast[block][:, None, :]).sum(axis=2)
        # The first of the largest counts is that of the nearest neighbor of a tied class.
        winners[block] = votes_cast[block][np.arange(len(votes)), votes.argmax(axis=1)]
    return float((names[winners] == truth).mean())
