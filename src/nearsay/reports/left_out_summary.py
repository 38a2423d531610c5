"""Leave-one-out evaluation of a classifier over shards, a block of rows at a time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from nearsay.metrics.probability import accuracy, bins_of, macro_precision, macro_recall
from nearsay.posterior.evidence.records import likely_range
from nearsay.posterior.sharded import ShardedClassifier
from nearsay.reports.evaluation import N_BINS, by_class, confused_pairs


def left_out_summary(classifier: ShardedClassifier) -> dict[str, Any]:
    """What ``evaluation_summary`` gives for all rows, each answered by the others, without holding all probabilities.

    Four numbers are kept per row. Mistakes are in ``classifier.label_scores()``, which answers all rows again.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> np.save(f"{folder}/0.npy", np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]]))
    >>> summary = left_out_summary(ShardedClassifier(1, posterior="proportional").fit(folder, list("aaabbb")))
    >>> summary["n_right"], summary["n_items"]
    (6, 6)
    """
    labels, names = classifier.labels_, classifier.classes_
    predicted, sure, p_label = np.empty(len(labels), np.int64), np.empty(len(labels)), np.empty(len(labels))
    counted = np.zeros(len(labels), np.bool_)
    for rows, p in classifier.left_out_blocks():
        known = labels[rows] >= 0  # a class none of whose rows counts is none
        rows, p = rows[known], p[known]
        predicted[rows], sure[rows] = p.argmax(axis=1), p.max(axis=1)
        p_label[rows], counted[rows] = p[np.arange(len(p)), labels[rows]], True
    predicted, sure, p_label, labels = predicted[counted], sure[counted], p_label[counted], labels[counted]
    right = predicted == labels
    low, high = likely_range(np.array([right.mean()]), np.array([len(labels)]))
    bins = bins_of(sure, right, N_BINS)
    with np.errstate(divide="ignore"):
        log_posterior = float(np.log(p_label).mean())
    y, answers = names[labels], names[predicted]
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
