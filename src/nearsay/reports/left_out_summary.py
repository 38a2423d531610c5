"""Leave-one-out evaluation of a classifier over shards, a block of rows at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearsay.posterior.sharded import ShardedClassifier
from nearsay.reports.evaluation import answer_figures


def left_out_summary(classifier: ShardedClassifier) -> dict[str, Any]:
    """``evaluation_summary`` of all rows by leave-one-out, without all probabilities in memory.

    Four numbers are kept per row. Mistakes are in ``classifier.label_scores()``, which answers all rows again.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> np.save(f"{folder}/0.npy", np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]]))
    >>> from nearsay.posterior.classifier import NeighborClassifier
    >>> votes = ShardedClassifier(NeighborClassifier(1, posterior="proportional"))
    >>> summary = left_out_summary(votes.fit(folder, list("aaabbb")))
    >>> summary["n_right"], summary["n_items"]
    (6, 6)
    """
    labels, names = classifier.labels_, classifier.classes_
    predicted, sure, p_label = np.empty(len(labels), np.int64), np.empty(len(labels)), np.empty(len(labels))
    counted = np.zeros(len(labels), np.bool_)
    for rows, p in classifier.left_out_blocks():
        known = labels[rows] >= 0  # classes whose rows all have weight 0 are left out
        rows, p = rows[known], p[known]
        predicted[rows], sure[rows] = p.argmax(axis=1), p.max(axis=1)
        p_label[rows], counted[rows] = p[np.arange(len(p)), labels[rows]], True
    predicted, sure, p_label, labels = predicted[counted], sure[counted], p_label[counted], labels[counted]
    with np.errstate(divide="ignore"):
        log_posterior = float(np.log(p_label).mean())
    how = "Leave-one-out: each row was answered by all others."
    return {"how": how, **answer_figures(names[labels], names[predicted], sure, names, log_posterior)}
