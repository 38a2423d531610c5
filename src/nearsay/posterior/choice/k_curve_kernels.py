"""The compiled loop behind the k curve. Imported on first use only."""

from __future__ import annotations

import numpy as np

from nearsay.core.arrays import mix
from nearsay.core.compiling import compiled

# One definition for both worlds: numpy draws the lots of queries, compiled code those of past cases.
_mix = compiled(mix)


@compiled
def count_past_votes(classes, truth, by_class, neighborhoods, votes, first_at, true_votes, right):  # type: ignore[no-untyped-def]
    """Add, for every k at once, how many of the first k neighbors said the truth, and whether it won.

    ``votes`` and ``first_at`` are work space, one place a class; ``votes`` comes and goes as zeros.
    With ``neighborhoods`` (n, k) ties are drawn by lot; with none the class first in
    class order (``by_class``) or first among the neighbors wins.
    """
    k = classes.shape[1]
    by_lot = neighborhoods.shape[0] > 0
    for i in range(classes.shape[0]):
        most, leader = 0, -1
        for j in range(k):
            label = classes[i, j]
            if label >= 0:
                if votes[label] == 0:
                    first_at[label] = label if by_class else j
                votes[label] += 1
                if votes[label] > most:
                    most, leader = votes[label], label
                elif votes[label] == most and first_at[label] < first_at[leader]:
                    leader = label
            winner = _lowest_lot(classes[i, : j + 1], votes, most, neighborhoods[i, j]) if by_lot else leader
            true_votes[j, votes[truth[i]]] += 1
            right[j] += winner == truth[i]
        for j in range(k):
            if classes[i, j] >= 0:
                votes[classes[i, j]] = 0


@compiled
def _lowest_lot(classes, votes, most, neighborhood):  # type: ignore[no-untyped-def]
    winner, lowest = -1, neighborhood
    for label in classes:
        if label >= 0 and votes[label] == most:
            lot = _mix(neighborhood ^ _mix(np.uint64(label)))
            if winner < 0 or lot < lowest:
                winner, lowest = label, lot
    return winner
