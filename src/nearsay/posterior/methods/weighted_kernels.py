"""The compiled loops behind weighted votes. Imported on first use only."""

from __future__ import annotations

import math

from nearsay.core.compiling import compiled


@compiled
def give_by_weight(indices, labels, weights, model_failure, p):  # type: ignore[no-untyped-def]
    """Give every class the share of the weight its neighbors have; without a neighbor all classes are alike.

    ``weights`` (n_queries, k) are those of the neighbors.
    """
    n_classes = p.shape[1]
    spread = model_failure / n_classes
    for i in range(p.shape[0]):
        total = 0.0
        for j in range(indices.shape[1]):
            if indices[i, j] >= 0:
                total += weights[i, j]
        if total <= 0.0:
            p[i, :] = 1.0 / n_classes
            continue
        p[i, :] = spread
        for j in range(indices.shape[1]):
            if indices[i, j] >= 0:
                p[i, labels[indices[i, j]]] += (1.0 - model_failure) * weights[i, j] / total


@compiled
def surprise_of_weights(weights, rest, indices, labels, truth, worth, slope):  # type: ignore[no-untyped-def]
    """Minus the log likelihood of the true labels; its slope by the score of every row is added to ``slope``.

    The weight of a row is in proportion to the sigmoid of its score, and ``rest`` is what the sigmoid lacks to 1; both
    are given. Every case counts as much as it is worth, and must have a neighbor with its true label.
    """
    surprise = 0.0
    for i in range(indices.shape[0]):
        total, right = 0.0, 0.0
        for j in range(indices.shape[1]):
            row = indices[i, j]
            if row >= 0:
                total += weights[row]
                if labels[row] == truth[i]:
                    right += weights[row]
        surprise += worth[i] * (math.log(total) - math.log(right))
        for j in range(indices.shape[1]):
            row = indices[i, j]
            if row >= 0:
                pushed = 1.0 / total
                if labels[row] == truth[i]:
                    pushed -= 1.0 / right
                slope[row] += worth[i] * pushed * weights[row] * rest[row]
    return surprise
