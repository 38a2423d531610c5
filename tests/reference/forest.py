"""A forest row by row and cut by cut: how its trees are grown, and the weights of rows in its vote."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np


@dataclass
class Node:
    rows: list[int]  # as often as they were drawn
    column: int = 0
    threshold: float = 0.0
    below: Node | None = None
    above: Node | None = None

    @property
    def n_different(self) -> int:
        return len(set(self.rows))


def codes(values: np.ndarray) -> list[int]:
    """Numbers that ascend with the values of one column; of more than 256 values, some share a number."""
    different = sorted(set(values.tolist()))
    if len(different) <= 256:
        return [different.index(value) for value in values.tolist()]
    return [int((values < value).sum()) * 256 // len(values) for value in values.tolist()]


def grow(columns: np.ndarray, classes: list[list[int]], drawn: np.ndarray, n_tried: int, number: int) -> Node:
    """The tree of these rows, which have these classes: each node is cut where the two halves are purest.

    It looks at so many columns, in steps of a size that meets them all, and on until one has two values.
    """
    prime, n_columns = 2**31 - 1, columns.shape[1]
    coded = [codes(column) for column in columns.T]

    def grown(rows: list[int], number: int) -> Node:
        node = Node(rows)
        if all(classes[row] == classes[rows[0]] for row in rows):
            return node
        column, step = number * n_columns // prime, 1 + number * 16807 % prime * (n_columns - 1) // prime
        while math.gcd(step, n_columns) > 1:
            step += 1
        best = None
        for n_looked in range(n_columns):
            if n_looked >= n_tried and best is not None:
                break
            column = (column + step) % n_columns
            code = coded[column]
            for cut in sorted({code[row] for row in rows})[:-1]:
                halves = [row for row in rows if code[row] <= cut], [row for row in rows if code[row] > cut]
                score = sum(purity(half, classes) for half in halves)
                if best is None or score > best[0]:
                    best = score, column, halves
        if best is None:
            return node
        _, node.column, (low, high) = best
        at_most, at_least = columns[low, node.column].max(), columns[high, node.column].min()
        node.threshold = (np.float64(at_most) + np.float64(at_least)) / 2
        node.below = grown(low, (number * 48271 + 1) % prime)
        node.above = grown(high, (number * 69621 + 1) % prime)
        return node

    return grown([int(row) for row in drawn], number % prime)


def purity(rows: list[int], classes: list[list[int]]) -> Fraction:
    """The sum of the squared numbers of rows of each class, over the number of rows."""
    met = [each for row in rows for each in classes[row]]
    return Fraction(sum(met.count(each) ** 2 for each in set(met)), len(rows))


def draws(n_trees: int, n_rows: int) -> list[tuple[int, np.ndarray]]:
    """The seed of each tree, and the rows drawn for it, as scikit-learn's forests draw them."""
    random = np.random.RandomState(0)
    seeds = [random.randint(np.iinfo(np.int32).max) for _ in range(n_trees)]
    return [(seed, np.random.RandomState(seed).randint(0, n_rows, n_rows, dtype=np.int32)) for seed in seeds]


def forest(columns: np.ndarray, classes: list[list[int]], n_trees: int) -> list[Node]:
    n_tried = max(1, int(np.sqrt(columns.shape[1])))
    return [grow(columns, classes, drawn, n_tried, seed) for seed, drawn in draws(n_trees, len(columns))]


def forest_weights(
    trees: list[Node], n_rows: int, query: np.ndarray, case: int | None, smallest: int = 2
) -> np.ndarray:
    """The share of every training row in the vote for one query; ``case`` is the training row that it is, or None.

    Nodes that fewer than ``smallest`` different rows reached are not split.
    """
    total, n_trees = np.zeros(n_rows), 0
    for tree in trees:
        if case is not None and case in tree.rows:
            continue
        n_trees += 1
        node = tree
        while node.below is not None and node.n_different >= smallest:
            node = node.below if query[node.column] <= node.threshold else node.above
        for row in node.rows:
            total[row] += 1 / len(node.rows)
    return total / n_trees if n_trees else total
