"""Value differences: rows compared by what each column of a table, by itself, says about the classes.

    a column's values ──► class shares of the rows that have them, drawn to those of all rows where they are few
    a column of numbers ──► class shares along its line

The distance between two words is then how differently the classes are distributed behind them, so that columns
which say nothing count for nothing (Stanfill and Waltz's value difference metric).
"""

from __future__ import annotations

import numpy as np

# Rows of the usual shares that are added to those of a value.
SHRINKAGE = 5.0
# Directions that the map may have: columns of the table × classes.
MOST_DIRECTIONS = 512


def value_difference_matrix(X: np.ndarray, labels: np.ndarray, blocks: tuple[tuple[int, int], ...]) -> np.ndarray:
    """A matrix (n_columns, n_blocks × n_classes) that maps encoded rows to what each block says about the classes.

    Within a block, the class of a row (1 or 0), less its usual share, is regressed on its columns, with a ridge. For a
    word, which is one column a value, that gives the class shares of the rows with that value and ``SHRINKAGE`` more
    rows of the usual shares. A column of numbers gives shares that rise or fall along it.

    X : (n_rows, n_columns)
    labels : (n_rows,) class numbers.
    blocks : the first column of each block, and the one after its last.
    """
    classes = np.unique(labels)
    Y = (labels[:, None] == classes).astype(np.float64)
    Y -= Y.mean(axis=0)
    matrix = np.zeros((X.shape[1], len(blocks) * len(classes)))
    for place, (start, stop) in enumerate(blocks):
        block = X[:, start:stop]
        height = np.abs(block).max(axis=0)
        scale = np.where(height > 0, height, 1.0)
        units = block / scale
        ridge = SHRINKAGE * np.eye(stop - start)
        slopes = np.linalg.solve(units.T @ units + ridge, units.T @ Y)
        matrix[start:stop, place * len(classes) : (place + 1) * len(classes)] = slopes / scale[:, None]
    return matrix
