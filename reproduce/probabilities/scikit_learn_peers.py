"""The classifier that chooses for itself, compared with scikit-learn's k-NN and its calibration, on the same folds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nearsay.core.arrays import evenly
from nearsay.data.datasets import load_dataset
from nearsay.data.rows import LabeledRows
from nearsay.metrics.probability import accuracy, brier, expected_calibration_error, mean_log_posterior
from nearsay.posterior.choice.model_choice import NEIGHBORS_TO_TRY
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.fused import FusedClassifier
from nearsay.posterior.methods.named import AUTO
from reproduce.held_out import Answers, Fold, ask, chosen_ways, stratified_folds

MNIST_TRAIN, MNIST_TEST = 5000, 2000
INNER_FOLDS = 3


def compare(*, auto: bool, n_folds: int | None, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """A row for every data set and way of answering."""
    lines = []
    for data, load in DATA_SETS.items():
        rows, folds = load()
        for estimator, classifier in ways(rows, auto=auto).items():
            tell(f"Beside scikit-learn: {data}, {estimator}")
            answers = ask(rows, folds[:n_folds], classifier)
            line = {"data": data, "estimator": estimator, "measured": judged(answers)}
            lines.append({**line, "chosen": chosen_ways(answers.chosen)} if answers.chosen else line)
    return lines


def ways(rows: LabeledRows, *, auto: bool) -> dict[str, Any]:
    """What is compared: classifiers by name."""
    ours: dict[str, Any] = {
        "rank&votesplit": NeighborClassifier(AUTO, posterior="rank&votesplit"),
        "pooled": NeighborClassifier(5, posterior="pooled"),
    }
    if auto:
        ours["auto, one group"] = fused_by_choice(LabeledRows(rows.X, rows.y))
        if rows.feature_groups:
            ours["auto, a group a column"] = fused_by_choice(rows)
    return {
        "scikit-learn KNN": scikit_learn_knn(),
        "scikit-learn KNN, sigmoid": scikit_learn_calibrated("sigmoid"),
        "scikit-learn KNN, isotonic": scikit_learn_calibrated("isotonic"),
        **ours,
    }


def fused_by_choice(rows: LabeledRows) -> FusedClassifier:
    """The general estimator: everything is left to the past cases of each training part."""
    base = NeighborClassifier(AUTO, posterior=AUTO, metric=AUTO)
    return FusedClassifier(rows.feature_groups or None, base)


def scikit_learn_knn() -> Any:
    """scikit-learn's k-NN, k chosen by log loss among the numbers that ours tries."""
    from sklearn.neighbors import KNeighborsClassifier

    return _with_chosen_k(KNeighborsClassifier(), "n_neighbors")


def scikit_learn_calibrated(method: str) -> Any:
    """The same, calibrated by scikit-learn: "sigmoid" or "isotonic"; k is the one that is best after calibration."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.neighbors import KNeighborsClassifier

    return _with_chosen_k(CalibratedClassifierCV(KNeighborsClassifier(), method=method), "estimator__n_neighbors")


def _with_chosen_k(classifier: Any, name_of_k: str) -> Any:
    from sklearn.model_selection import GridSearchCV

    return GridSearchCV(classifier, {name_of_k: NEIGHBORS_TO_TRY}, scoring="neg_log_loss", cv=INNER_FOLDS)


def judged(answers: Answers) -> dict[str, float | None]:
    """Log loss (None where a true class was given no probability), Brier score, calibration error and accuracy.

    >>> judged(Answers(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([1, 1]), []))["log_loss"] is None
    True
    """
    p, truth = answers.probabilities, answers.truth
    nothing = float(np.mean(p[np.arange(len(p)), truth] == 0))
    return {
        "log_loss": None if nothing else -mean_log_posterior(p, truth),
        "brier": brier(p, truth),
        "calibration_error": expected_calibration_error(p, truth),
        "accuracy_percent": 100 * accuracy(p.argmax(axis=1), truth),
        "no_probability_percent": 100 * nothing,
    }


def _folded(name: str, n_folds: int) -> Callable[[], tuple[LabeledRows, Sequence[Fold]]]:
    def load() -> tuple[LabeledRows, Sequence[Fold]]:
        rows = load_dataset(name)
        return rows, list(stratified_folds(rows, n_folds=n_folds, repeats=1))

    return load


def _mnist() -> tuple[LabeledRows, Sequence[Fold]]:
    train = load_dataset("mnist", split="train", n=MNIST_TRAIN)
    test = load_dataset("mnist", split="test")
    test = test.take(evenly(len(test), MNIST_TEST))  # the first half of the test set is easier than the second
    # float32 holds every gray value exactly, and products of it are fast.
    X = np.concatenate([train.X, test.X]).astype(np.float32)
    y = np.concatenate([np.asarray(train.y), np.asarray(test.y)])
    return LabeledRows(X, y), [(np.arange(len(train)), np.arange(len(train), len(X)))]


DATA_SETS: dict[str, Callable[[], tuple[LabeledRows, Sequence[Fold]]]] = {
    "iris, ten-fold": _folded("iris", 10),
    "wheat, ten-fold": _folded("seeds", 10),
    "digits, five-fold": _folded("digits", 5),
    f"mnist, {MNIST_TRAIN:,} rows": _mnist,
}
