"""How good the answers of a classifier over shards are: its rows answered by the others, a block at a time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from nearsay.metrics.probability import accuracy, bins_of, macro_precision, macro_recall
from nearsay.posterior.evidence.records import likely_range
from nearsay.posterior.sharded import ShardedClassifier
from nearsay.reports.evaluation import N_BINS, by_class, confused_pairs


def left_out_summary(classifier: ShardedClassifier) -> dict[str, Any]:
    """What ``evaluation_summary`` says of all rows, each answered by the others, without holding all probabilities.

    Of every row four numbers are kept. Mistakes are in ``classifier.label_scores()``, which asks all rows again.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> np.save(f"{folder}/0.npy", np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]]))
    >>> from nearsay.posterior.classifier import NeighborClassifier
    >>> votes = ShardedClassifier(NeighborClassifier(1, posterior="proportional"))
    >>> found = left_out_summary(votes.fit(folder, list("aaabbb")))
    >>> found["n_right"], found["n_items"]
    (6, 6)
    """
    labels, names = classifier.labels_, classifier.classes_
    said, sure, own = np.empty(len(labels), np.int64), np.empty(len(labels)), np.empty(len(labels))
    counted = np.zeros(len(labels), np.bool_)
    for rows, p in classifier.left_out_blocks():
        known = labels[rows] >= 0  # a class none of whose rows counts is none
        rows, p = rows[known], p[known]
        said[rows], sure[rows] = p.argmax(axis=1), p.max(axis=1)
        own[rows], counted[rows] = p[np.arange(len(p)), labels[rows]], True
    said, sure, own, labels = said[counted], sure[counted], own[counted], labels[counted]
    right = said == labels
    low, high = likely_range(np.array([right.mean()]), np.array([len(labels)]))
    bins = bins_of(sure, right, N_BINS)
    with np.errstate(divide="ignore"):
        log_posterior = float(np.log(own).mean())
    y, answers = names[labels], names[said]
    return {
        "how": "Leave-one-out: each row was answered by all others.",
        "n_items": len(labels),
        "n_classes": len(names),
        "n_right": int(right.sum()),
        "accuracy": accuracy(answers, y),
        "accuracy_range": [float(low[0]), float(high[0])],
        "always_the_most_common": Counter(labels.tolist()).most_common(1)[0][1] / len(labels),
        "mean_log_posterior": log_posterior,
        "calibration_error": float(bins.n_rows @ np.abs(bins.accuracy - bins.confidence)) / len(labels),
        "mean_confidence": float(sure.mean()),
        "macro_precision": macro_precision(answers, y),
        "macro_recall": macro_recall(answers, y),
        "reliability": [
            {"confidence": float(c), "accuracy": float(a), "n_items": int(n)} for c, a, n in zip(*bins, strict=True)
        ],
        "classes": by_class(y, answers, names),
        "confused": confused_pairs(y, answers),
    }
