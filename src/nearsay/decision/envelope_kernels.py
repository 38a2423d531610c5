"""The compiled loops behind hedging: which nodes can win at all, and at which reward shifts they do.

Imported on first use only.

A node with probability p and information g is worth p·(g + λ) at reward shift λ: a line over λ. The node
to name is the highest line, so every answer there is to a query is the upper envelope of its lines.
"""

from __future__ import annotations

import math

import numpy as np

from nearsay.core.compiling import compiled

# Marks a node that another one beats at every setting. Below zero, so that it never wins and never reaches a threshold.
BEATEN = -1.0

# Shifts are told apart by nine digits: log2(shift + most information) in steps of 2 ** -30.
STEPS = 2.0**30

# Rounding of a worth p·(g + λ) in float64 is below half of it.
ROUNDING = 2.0**-51


@compiled
def put_in_order(p, leaf_of, p_leaf):  # type: ignore[no-untyped-def]
    """Write the probabilities of classes, (queries, classes), into the columns of their leaves; others stay zero."""
    for i in range(p.shape[0]):
        for c in range(p.shape[1]):
            if p[i, c] != 0.0:
                p_leaf[i, leaf_of[c]] = p[i, c]


@compiled
def add_up(p_leaf, starts, targets, p_node):  # type: ignore[no-untyped-def]
    """Write the probabilities of all nodes, (queries, nodes): leaves as they are, inner nodes from what is below them.

    Node v is complete when its turn comes, and is added to ``targets[starts[v]:starts[v + 1]]``.
    """
    for i in range(p_leaf.shape[0]):
        p_node[i, : p_leaf.shape[1]] = p_leaf[i]
        p_node[i, p_leaf.shape[1] :] = 0.0
        for v in range(p_node.shape[1]):
            for j in range(starts[v], starts[v + 1]):
                p_node[i, targets[j]] += p_node[i, v]


@compiled
def most_probable_of_each(p_leaf, starts, targets, level, first, p, nodes):  # type: ignore[no-untyped-def]
    """Find, for every query and level of information, the most probable node; the first one at ties.

    Probabilities are those that ``add_up`` gives to ``p_leaf`` (queries, leaves). ``first`` (levels,) is the first
    node of each level, the most informative level first; ``p`` and ``nodes`` (queries, levels) are filled in. A level
    that is no more probable than a more informative one is marked as beaten.
    """
    n_leaves = p_leaf.shape[1]
    p_inner = np.empty(len(level))  # by node number; what leaves have is read where it is
    for i in range(p.shape[0]):
        p[i], nodes[i] = 0.0, first
        p_inner[n_leaves:] = 0.0
        for v in range(len(level)):
            p_v = p_leaf[i, v] if v < n_leaves else p_inner[v]
            if p_v == 0.0:  # of ten thousand leaves, neighbors vote for a few
                continue
            for j in range(starts[v], starts[v + 1]):
                p_inner[targets[j]] += p_v
            if p_v > p[i, level[v]]:
                p[i, level[v]] = p_v
                nodes[i, level[v]] = v
        highest = BEATEN
        for c in range(p.shape[1]):
            if p[i, c] > highest:
                highest = p[i, c]
            else:
                p[i, c] = BEATEN


@compiled
def highest_lines(p, nodes, information, shifts, winners):  # type: ignore[no-untyped-def]
    """Write, for every query, the node whose line is the highest at the query's shift; the first one at ties."""
    for i in range(p.shape[0]):
        winners[i] = nodes[i, _winner((p[i], information, nodes[i]), shifts[i])]


@compiled
def upper_envelopes(p, nodes, information, root, largest, shifts, winners):  # type: ignore[no-untyped-def]
    """Write, for every query, the nodes that win as the shift grows, each with the shift from which on it does.

    ``shifts`` and ``winners`` are (queries, levels + 1); ``shifts`` is filled with NaN, and stays so where there is
    no further point. Nodes that win beyond ``largest`` only are left out. At +inf the root wins.
    """
    n, m = p.shape
    line_p, line_g, line_node = np.empty(m), np.empty(m), np.empty(m, np.intp)
    hull, crossing = np.empty(m, np.intp), np.empty(m)
    for i in range(n):
        k = 0
        for c in range(m):
            if p[i, c] != BEATEN:
                line_p[k], line_g[k], line_node[k] = p[i, c], information[c], nodes[i, c]
                k += 1
        size = _hull((line_p[:k], line_g[:k], line_node[:k]), hull, crossing)
        shifts[i, 0], winners[i, 0] = 0.0, line_node[hull[0]]
        n_steps = 1
        for j in range(1, size):
            step_up = 1.0 - line_p[hull[j - 1]] / line_p[hull[j]]
            start = _surely_past(crossing[j], step_up, information[0])
            if start > largest:
                break
            if start == shifts[i, n_steps - 1]:  # the one before wins nowhere that can be told apart
                n_steps -= 1
            shifts[i, n_steps], winners[i, n_steps] = start, line_node[hull[j]]
            n_steps += 1
        if winners[i, n_steps - 1] != root:
            shifts[i, n_steps], winners[i, n_steps] = np.inf, root


@compiled
def _hull(lines, hull, crossing):  # type: ignore[no-untyped-def]
    """The lines of the upper envelope over shifts of at least 0, and where each meets the one before.

    Lines come in rising order of p and falling order of g, so no sorting is needed.
    """
    p, g, _ = lines
    hull[0], crossing[0] = _winner(lines, 0.0), 0.0
    size = 1
    for line in range(hull[0] + 1, len(p)):
        while True:
            before = hull[size - 1]
            met = (p[before] * g[before] - p[line] * g[line]) / (p[line] - p[before])
            if size == 1 or met > crossing[size - 1]:
                break
            size -= 1
        hull[size], crossing[size] = line, max(met, 0.0)
        size += 1
    return size


@compiled
def _winner(lines, shift):  # type: ignore[no-untyped-def]
    """The highest line at this shift; the first node at ties."""
    p, g, node = lines
    best, highest = 0, p[0] * (g[0] + shift)
    for line in range(1, len(p)):
        worth = p[line] * (g[line] + shift)
        if worth > highest or (worth == highest and node[line] < node[best]):
            best, highest = line, worth
    return best


@compiled
def _surely_past(crossing, step_up, most):  # type: ignore[no-untyped-def]
    """The end of the step that holds the crossing: a shift at which no rounding makes the line before win again.

    Votes that are the same but for their order cross at shifts that differ by rounding. Steps put them together,
    so that all of them have changed where one has; whole numbers and their like lie in the middle of a step.
    """
    worth = (crossing + most) * (1.0 + ROUNDING / step_up)
    return math.exp2((np.floor(math.log2(worth) * STEPS + 0.5) + 0.5) / STEPS) - most
