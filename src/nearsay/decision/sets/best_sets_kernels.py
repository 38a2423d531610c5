"""The compiled loop behind sets of nodes: one walk through the steps of a taxonomy for each query.

Imported on first use only.
"""

from __future__ import annotations

import numpy as np

from nearsay.core.compiling import compiled
from nearsay.decision.envelope_kernels import BEATEN

# A sum is 8 times the probability, in units, minus the number of nodes: of equally probable sets the one of fewer wins.
BITS = 3
FEW = 7

LOWEST = -(1 << 62)

UNITS = 2.0**52


@compiled
def take_steps(of_nodes, n_places, target, first, second, level, p, nodes):  # type: ignore[no-untyped-def]
    """Write the probability and the nodes of the best set of every level for each query.

    ``of_nodes`` (queries, nodes) is the probability of every node in units; ``p`` is (queries, levels), ``nodes``
    (queries, levels, most nodes of a set). A level that is no more probable than one of fewer leaves is beaten.
    """
    most = nodes.shape[2]
    sums, members = np.empty(n_places, np.int64), np.empty((n_places, most), np.int32)
    sums[0] = 0
    for i in range(of_nodes.shape[0]):
        sums[1 + of_nodes.shape[1] :] = LOWEST
        for v in range(of_nodes.shape[1]):
            sums[1 + v] = (of_nodes[i, v] << BITS) - 1
            members[1 + v, 0] = v
        for s in range(len(target)):
            together = sums[first[s]] + sums[second[s]]
            if together > sums[target[s]]:
                sums[target[s]] = together
                n_first, n_second = -sums[first[s]] & FEW, -sums[second[s]] & FEW
                for m in range(n_first):
                    members[target[s], m] = members[first[s], m]
                for m in range(n_second):
                    members[target[s], n_first + m] = members[second[s], m]
        highest = 0
        for c in range(len(level)):
            best = sums[level[c]]
            units, n_nodes = (best + FEW) >> BITS, -best & FEW
            nodes[i, c] = -1
            for m in range(n_nodes):  # in order
                node, place = members[level[c], m], m
                while place > 0 and nodes[i, c, place - 1] > node:
                    nodes[i, c, place] = nodes[i, c, place - 1]
                    place -= 1
                nodes[i, c, place] = node
            if units > highest:
                highest = units
                p[i, c] = units / UNITS
            else:
                p[i, c] = BEATEN
