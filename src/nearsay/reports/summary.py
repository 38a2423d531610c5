"""A fitted classifier and its results as one plain dict."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearsay.metrics.probability import accuracy, mean_log_posterior
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.methods.named import is_auto, name_of


def summarize(classifier: NeighborClassifier, X_test: Any, y_test: Any) -> dict[str, Any]:
    """The settings of a classifier and its results on new rows, in plain values.

    >>> X, y = [[0], [1], [10], [11]], ["low", "low", "high", "high"]
    >>> clf = NeighborClassifier(n_neighbors=1, posterior="proportional").fit(X, y)
    >>> summary = summarize(clf, [[2], [9]], ["low", "high"])
    >>> summary["rows"], summary["k"], summary["accuracy"]
    (4, 1, 1.0)
    """
    p = classifier.predict_proba(X_test)
    return summarize_answers(classifier, classifier.classes_[p.argmax(axis=1)], p, y_test)


def summarize_answers(
    classifier: NeighborClassifier, predictions: np.ndarray, probabilities: np.ndarray, y_test: Any
) -> dict[str, Any]:
    """The same from answers computed before, so that nothing is searched twice."""
    index, classes = classifier.index_, classifier.classes_
    choices = getattr(classifier, "choices_", None)  # where nothing was left open, there are none
    return {
        "rows": index.search_.rows_.n_live,
        "columns": getattr(classifier, "n_features_in_", None),  # items that are not vectors have none
        "classes": len(classes),
        "k": classifier.n_neighbors_,
        "k_chosen": is_auto(classifier.n_neighbors),
        "posterior": name_of(classifier.posterior) if choices is None else choices.chosen.posterior,
        "chosen_by": None if choices is None else choices.why,
        "metric": index.search_.distance_.name,
        "views": [index.search_.distance_.name] if choices is None else list(choices.chosen.distances),
        "search": index.chosen_.name,
        "search_why": index.chosen_.why,
        "queries": len(predictions),
        "accuracy": accuracy(predictions, y_test),
        "mean_log_posterior": mean_log_posterior(probabilities, y_test, classes=classes),
        "mean_log10_posterior": mean_log_posterior(probabilities, y_test, classes=classes, base=10),
    }
