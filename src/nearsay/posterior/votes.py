"""Votes of the neighbors: their labels, how many each class has, and who wins a tie.

Labels are class numbers here, 0 … n_classes−1, one for each row of the
collection. A missing neighbor (row number −1) has no vote.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nearsay.core.arrays import mix
from nearsay.core.settings import check_choice
from nearsay.neighbors.table import NeighborTable


def neighbor_labels(table: NeighborTable, labels: np.ndarray) -> np.ndarray:
    """The label of every neighbor, nearest first: (n_queries, k), −1 where there is none.

    >>> table = NeighborTable(np.array([[2, 0, -1]]), np.array([[0.5, 1.0, np.inf]]))
    >>> neighbor_labels(table, np.array([7, 8, 9]))
    array([[ 9,  7, -1]])
    """
    return np.where(table.indices >= 0, labels[table.indices], -1)


def count_votes(classes: np.ndarray, n_classes: int, weights: np.ndarray | None = None) -> np.ndarray:
    """How many neighbors vote for each class: (n_queries, n_classes) whole numbers; or how much they weigh together.

    ``weights`` (n_queries, k) are those of the neighbors.

    >>> count_votes(np.array([[0, 2, 0], [1, -1, -1]]), n_classes=3)
    array([[2, 0, 1],
           [0, 1, 0]])
    """
    query, _ = cast = np.nonzero(classes >= 0)
    weights = None if weights is None else weights[cast]
    votes = np.bincount(query * n_classes + classes[cast], weights, minlength=len(classes) * n_classes)
    return votes.reshape(len(classes), n_classes)


def winners(
    scores: np.ndarray, table: NeighborTable, labels: np.ndarray, tie_break: str = "nearest", seed: int = 0
) -> np.ndarray:
    """The class with the largest score for every query; equal largest scores go by ``tie_break``.

    Each query is decided by its own row of ``scores`` and of ``table`` alone,
    so neither the order nor the number of queries matters.

    scores : (n_queries, n_classes) votes or probabilities.
    tie_break : one of TIE_RULES
    seed : what "random" starts from.

    >>> table = NeighborTable(np.array([[2, 0, 1, 3]]), np.array([[1.0, 2.0, 3.0, 4.0]]))
    >>> labels = np.array([0, 0, 1, 1])
    >>> winners(np.array([[2, 2]]), table, labels, "nearest"), winners(np.array([[2, 2]]), table, labels, "first")
    (array([1]), array([0]))
    """
    tied = scores == scores.max(axis=1, keepdims=True)
    best: np.ndarray = tied.argmax(axis=1)
    last = tied.shape[1] - 1 - tied[:, ::-1].argmax(axis=1)
    contested = np.flatnonzero(best != last)
    if len(contested):
        best[contested] = TIE_RULES[tie_break](tied[contested], table[contested], labels, seed)
    return best


def lift(scores: np.ndarray, best: np.ndarray) -> None:
    """Raise, in place, the score of a winner by tie break by the smallest step there is.

    So ``scores.argmax(axis=1)`` is the winner, even without the table.
    """
    query = np.flatnonzero(scores.argmax(axis=1) != best)
    scores[query, best[query]] = np.nextafter(scores[query, best[query]], np.inf)


def _first_class(tied: np.ndarray, table: NeighborTable, labels: np.ndarray, seed: int) -> np.ndarray:
    return tied.argmax(axis=1)


def _nearest_neighbor(tied: np.ndarray, table: NeighborTable, labels: np.ndarray, seed: int) -> np.ndarray:
    classes = neighbor_labels(table, labels)
    query = np.arange(len(classes))
    is_tied = (classes >= 0) & tied[query[:, None], classes]
    # A posterior may put classes first that no neighbor has; class order is all that is left then.
    return np.where(is_tied.any(axis=1), classes[query, is_tied.argmax(axis=1)], tied.argmax(axis=1))


def _drawn_by_lot(tied: np.ndarray, table: NeighborTable, labels: np.ndarray, seed: int) -> np.ndarray:
    lots = lot(neighborhood_numbers(table, seed)[:, -1:], np.arange(tied.shape[1]).astype(np.uint64))
    return np.where(tied, lots, np.iinfo(np.uint64).max).argmin(axis=1)


TIE_RULES: dict[str, Callable[[np.ndarray, NeighborTable, np.ndarray, int], np.ndarray]] = {
    "nearest": _nearest_neighbor,
    "random": _drawn_by_lot,
    "first": _first_class,
}


def check_tie_break(tie_break: str) -> None:
    """Say which rules there are when it is none of them.

    >>> check_tie_break("coin")
    Traceback (most recent call last):
    nearsay.errors.InputError: Unknown tie_break 'coin'. Known names: first, nearest, random.
    """
    check_choice("tie_break", tie_break, TIE_RULES)


def neighborhood_numbers(table: NeighborTable, seed: int) -> np.ndarray:
    """A number drawn from the seed and the first 1, 2, … k neighbors of every query: (n_queries, k) uint64.

    The neighbors themselves stand in for a random generator: the same query
    draws the same lot in any batch, on any thread, on any day.
    """
    numbers = np.empty(table.indices.shape, np.uint64)
    state = mix(np.full(len(table), seed, np.uint64))
    distance_bits = (table.distances + 0.0).view(np.uint64)  # −0.0 becomes 0.0
    for column in range(table.n_neighbors):
        state = mix(state ^ table.indices[:, column].astype(np.uint64))
        state = mix(state ^ distance_bits[:, column])
        numbers[:, column] = state
    return numbers


def lot(neighborhood: np.ndarray, class_number: np.ndarray) -> np.ndarray:
    """What a class draws in a neighborhood; the lowest lot wins."""
    return mix(neighborhood ^ mix(class_number))
