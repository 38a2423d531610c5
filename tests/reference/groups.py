"""Groups by loops: who may be compared with whom."""

from __future__ import annotations

import numpy as np


def nearest_of_other_groups(X, Q, k, of_queries, groups):
    """Rows of other groups, nearest first, ties by row number; −1 fills up."""
    lines = []
    for query, group in zip(Q, of_queries, strict=True):
        allowed = [row for row in range(len(X)) if groups[row] != group]
        allowed.sort(key=lambda row: (sum((float(a) - float(b)) ** 2 for a, b in zip(query, X[row], strict=True)), row))
        lines.append((allowed + [-1] * k)[:k])
    return np.array(lines, np.int64).reshape(len(Q), k)


def hinge_loss(X, labels, targets, groups, push, margin):
    """The loss of LMNN at the identity, impostors of other groups alone."""
    squared = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    pull = pushed = 0.0
    for i in range(len(X)):
        for j in targets[i]:
            if j < 0:
                continue
            pull += squared[i, j]
            for other in range(len(X)):
                if labels[other] != labels[i] and groups[other] != groups[i]:
                    pushed += max(0.0, margin + squared[i, j] - squared[i, other])
    return (1 - push) * pull + push * pushed
