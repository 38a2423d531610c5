"""Randomized trees: each is grown from some rows, and each of its nodes looks at some columns for the best cut.

    little work    all trees together, level by level, in numpy
    more work      tree by tree, compiled

Both give the same trees. Where a node is cut, and by which of the columns that it looks at, depends on integers alone:
how often each class is met on either side. Values are therefore told apart up to 256 of a column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.core.compiling import done_without, worth_compiling
from nearsay.core.parallel import in_parallel, shares
from nearsay.errors import InputError
from nearsay.posterior.views.forest_kernels import DRAW, LEFT, N_CODES, PRIME, RIGHT, find_leaves, grow_tree

# Nanoseconds that numpy takes to grow trees, for each row, column looked at and doubling of the rows, and more for each
# class, and for each column: some nodes may have to look at all. And to find leaves, for each row, tree and doubling of
# the nodes.
GROWING_STEP, CLASS_STEP, COLUMN_STEP, FINDING_STEP = 400, 20, 100_000, 60
# A thread finds the leaves of so many rows at a time.
ROWS_AT_ONCE = 1024


class Trees(NamedTuple):
    """Trees one after the other. The left child of a node is the next node; a leaf has 0 for its right one.

    Attributes
    ----------
    roots : (n_trees,) numbers of nodes.
    feature, threshold, right, sizes : (n_nodes,), the column and the value that a node compares, its right child, and
        how many different rows it was grown from.
    members, counts : the rows in each leaf, leaf after leaf, and how often each counts.
    """

    roots: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    right: np.ndarray
    sizes: np.ndarray
    members: np.ndarray
    counts: np.ndarray


def grow_trees(
    columns: np.ndarray,
    different: Sequence[tuple[np.ndarray, np.ndarray]],
    starts: np.ndarray,
    classes: np.ndarray,
    seeds: Sequence[int],
) -> Trees:
    """Grow a tree from each of these sets of rows until the rows of every leaf have the same classes.

    Nodes look at as many columns as the square root of their number. Columns in which their rows are alike count, but
    nodes look on until one divides them.

    columns : (n_rows, n_columns) float32.
    different : for each tree, the rows that it is grown from, and how often each counts.
    starts, classes : the classes of row i are ``classes[starts[i] : starts[i + 1]]``, each once.
    seeds : for each tree, a number that says which columns its nodes look at.
    """
    columns = np.ascontiguousarray(columns)
    codes, starts, classes = codes_of(columns), starts.astype(np.int64), classes.astype(np.uint32)
    n_classes, n_tried = int(classes.max(initial=0)) + 1, max(1, int(np.sqrt(len(codes))))
    # Rows of one number have the same codes: no column divides them.
    twins = np.ascontiguousarray(codes.T).view(np.dtype((np.void, len(codes)))).ravel()
    kind = np.unique(twins, return_inverse=True)[1].astype(np.uint32)
    n_drawn = sum(len(rows) for rows, _ in different)
    steps = n_drawn * n_tried * float(np.log2(1 + n_drawn / len(different)))
    cost = (GROWING_STEP + CLASS_STEP * n_classes) * steps + COLUMN_STEP * len(codes)
    if not worth_compiling(cost):
        done_without(cost)
        has = np.zeros((len(columns), n_classes), np.int64)
        has[np.repeat(np.arange(len(columns)), np.diff(starts)), classes] = 1
        return _grown_together(columns, codes, kind, different, has, n_tried, np.array(seeds) % PRIME)

    def grown(tree: int) -> tuple[np.ndarray, ...]:
        rows, counts = different[tree]
        often = np.zeros(len(columns), np.int64)
        often[rows] = counts
        room = 2 * len(rows)
        nodes = np.empty(room, np.int32), np.empty(room), np.empty(room, np.int32), np.empty(room, np.int64)
        key, drawn = seeds[tree] % PRIME, rows.astype(np.uint32)
        n = grow_tree(columns, codes, kind, drawn, often, starts, classes, n_classes, n_tried, key, *nodes)
        return drawn, often[drawn], *(each[:n] for each in nodes)

    members, counts, feature, threshold, right, sizes = zip(*in_parallel(grown, range(len(different))), strict=True)
    n_nodes = [len(each) for each in right]
    roots = np.cumsum([0, *n_nodes[:-1]])
    in_all = np.concatenate(right)
    in_all = np.where(in_all > 0, in_all + np.repeat(roots, n_nodes), 0).astype(np.int32)
    return Trees(
        roots,
        np.concatenate(feature),
        at_most_in_float32(np.concatenate(threshold)),
        in_all,
        np.concatenate(sizes),
        np.concatenate(members).astype(np.int32),
        np.concatenate(counts).astype(np.int32),
    )


def _grown_together(
    columns: np.ndarray,
    codes: np.ndarray,
    kind: np.ndarray,
    different: Sequence[tuple[np.ndarray, np.ndarray]],
    has: np.ndarray,
    n_tried: int,
    key: np.ndarray,
) -> Trees:
    """All trees level by level; ``has`` (n_rows, n_classes) is 1 where a row has a class, ``key`` numbers the roots."""
    rows, often = (np.concatenate(each) for each in zip(*different, strict=True))
    node = np.repeat(np.arange(len(different)), [len(each) for each, _ in different])
    levels: list[tuple[np.ndarray, ...]] = []
    while len(rows):
        first = np.flatnonzero(np.diff(node, prepend=-1))
        weights = often[:, None] * has[rows]
        level = _Level(
            codes, rows, often, node, weights, np.add.reduceat(weights, first), np.add.reduceat(often, first)
        )
        is_equal = np.minimum.reduceat(kind[rows], first) == np.maximum.reduceat(kind[rows], first)
        column, last, is_cut = level.best_cuts(key, n_tried, is_equal)
        in_leaf, on = np.flatnonzero(~is_cut[node]), np.flatnonzero(is_cut[node])
        leaves = node[in_leaf], rows[in_leaf], often[in_leaf]
        rows, often, node = rows[on], often[on], node[on]
        is_right = codes[column[node], rows] > last[node]
        low, high = np.full(len(key), -np.inf), np.full(len(key), np.inf)
        value = columns[rows, column[node]].astype(np.float64)
        np.maximum.at(low, node[~is_right], value[~is_right])
        np.minimum.at(high, node[is_right], value[is_right])
        middle = np.where(is_cut, (np.where(is_cut, low, 0) + np.where(is_cut, high, 0)) / 2, 0.0)
        sizes = np.diff(np.append(first, len(level.node)))
        levels.append((is_cut, np.where(is_cut, column, 0), middle, sizes, *leaves))
        child = 2 * (np.cumsum(is_cut) - 1)[node] + is_right
        order = np.argsort(child, kind="stable")
        rows, often, node = rows[order], often[order], child[order]
        key = np.column_stack([(key[is_cut] * each + 1) % PRIME for each in (LEFT, RIGHT)]).ravel()
    return _in_order(levels)


class _Level(NamedTuple):
    """The nodes at one depth of all trees, and the rows in them, sorted by node."""

    codes: np.ndarray
    rows: np.ndarray
    often: np.ndarray
    node: np.ndarray
    weights: np.ndarray  # of each row in each class
    total: np.ndarray  # the same of each node
    weight: np.ndarray

    def best_cuts(
        self, key: np.ndarray, n_tried: int, is_equal: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For every node the column that it is cut by, the last code on the left, and whether it is cut at all.

        ``is_equal`` says where the rows are equal in all columns.
        """
        n_columns = len(self.codes)
        is_mixed = ~is_equal & ((self.total**2).sum(axis=1) < self.weight * self.total.sum(axis=1))
        each, step = key * n_columns // PRIME, 1 + key * DRAW % PRIME * (n_columns - 1) // PRIME
        while (shared := np.gcd(step, n_columns) > 1).any():
            step += shared
        best, column, last = np.full(len(key), -1.0), np.zeros(len(key), np.int64), np.zeros(len(key), np.int64)
        # Halves whose rows all have the same classes score as much as all classes that are met: no cut is better.
        most = self.total.sum(axis=1)
        for n_looked in range(n_columns):
            goes_on = is_mixed & ((n_looked < n_tried) | (best < 0)) & (best < most)
            if not goes_on.any():
                break
            each = (each + step) % n_columns
            node, code, score = self._cuts(each, np.flatnonzero(goes_on[self.node]))
            order = np.lexsort((-score, node))  # the first of equal scores stays first
            tops = order[np.diff(node[order], prepend=-1) > 0]
            tops = tops[score[tops] > best[node[tops]]]
            best[node[tops]], last[node[tops]] = score[tops], code[tops]
            column[node[tops]] = each[node[tops]]
        return column, last, best >= 0

    def _cuts(self, each: np.ndarray, on: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All cuts of these rows by the columns of their nodes: the node, the last code on the left, and the score."""
        code = self.codes[each[self.node[on]], self.rows[on]].astype(np.int64)
        order = np.argsort(self.node[on] * N_CODES + code, kind="stable")
        on, code = on[order], code[order]
        node = self.node[on]
        first = np.flatnonzero(np.diff(node, prepend=-1))
        lengths = np.diff(np.append(first, len(node)))
        left, weight_left = np.cumsum(self.weights[on], axis=0), np.cumsum(self.often[on])
        left -= np.repeat(left[first] - self.weights[on[first]], lengths, axis=0)
        weight_left -= np.repeat(weight_left[first] - self.often[on[first]], lengths)
        cuts = np.flatnonzero((node[:-1] == node[1:]) & (code[:-1] != code[1:]))
        node, code, left, weight_left = node[cuts], code[cuts], left[cuts], weight_left[cuts]
        right, weight_right = self.total[node] - left, self.weight[node] - weight_left
        squares_left, squares_right = (left**2).sum(axis=1), (right**2).sum(axis=1)
        score = (squares_left * weight_right + squares_right * weight_left) / (weight_left * weight_right)
        return node, code, score


def _in_order(levels: Sequence[tuple[np.ndarray, ...]]) -> Trees:
    """Trees that were grown level by level, node by node from left to right: a left child follows its parent."""
    n_below = [np.ones(len(is_cut), np.int64) for is_cut, *_ in levels]
    for upper in range(len(levels) - 2, -1, -1):
        n_below[upper][levels[upper][0]] += n_below[upper + 1].reshape(-1, 2).sum(axis=1)
    number = roots = np.cumsum(n_below[0]) - n_below[0]
    feature, threshold = np.zeros(n_below[0].sum(), np.int32), np.zeros(n_below[0].sum())
    right, sizes = np.zeros(len(feature), np.int32), np.zeros(len(feature), np.int64)
    leaves = []
    for depth, (is_cut, column, middle, size, node, rows, often) in enumerate(levels):
        feature[number], threshold[number], sizes[number] = column, middle, size
        leaves.append((number[node], rows, often))
        if is_cut.any():
            left = number[is_cut] + 1
            right[number[is_cut]] = left + n_below[depth + 1][::2]
            number = np.column_stack([left, right[number[is_cut]]]).ravel()
    leaf, members, counts = (np.concatenate(each) for each in zip(*leaves, strict=True))
    order = np.argsort(leaf, kind="stable")
    members, counts = members[order].astype(np.int32), counts[order].astype(np.int32)
    return Trees(roots, feature, at_most_in_float32(threshold), right, sizes, members, counts)


def leaves_of_trees(
    columns: np.ndarray,
    roots: np.ndarray,
    feature: np.ndarray,
    threshold: np.ndarray,
    right: np.ndarray,
) -> np.ndarray:
    """The node at which every row ends in every tree: (n_rows, n_trees).

    The left child of a node is the next node, and a leaf has 0 for its right one.
    """
    if feature.max(initial=0) >= columns.shape[1]:
        raise InputError(f"Trees that compare column {feature.max()} were given {columns.shape[1]} columns.")
    cost = FINDING_STEP * len(columns) * len(roots) * np.log2(2 + len(feature) / len(roots))
    if not worth_compiling(cost):
        done_without(cost)
        return _leaves_level_by_level(columns, roots, feature, threshold, right)
    columns, leaves = np.ascontiguousarray(columns), np.empty((len(columns), len(roots)), np.int64)
    # Files may hold other kinds of numbers.
    roots, feature, right = roots.astype(np.int64), feature.astype(np.int32), right.astype(np.int32)
    threshold = threshold.astype(np.result_type(threshold, np.float32))

    def find(part: slice) -> None:
        find_leaves(columns[part], roots, feature, threshold, right, leaves[part])

    in_parallel(find, shares(len(columns), most=ROWS_AT_ONCE))
    return leaves


def _leaves_level_by_level(
    columns: np.ndarray, roots: np.ndarray, feature: np.ndarray, threshold: np.ndarray, right: np.ndarray
) -> np.ndarray:
    nodes = np.tile(roots, (len(columns), 1))
    row, tree = np.nonzero(right[nodes])
    while len(row):
        node = nodes[row, tree]
        is_left = columns[row, feature[node]] <= threshold[node]
        nodes[row, tree] = node = np.where(is_left, node + 1, right[node])
        on = right[node] > 0
        row, tree = row[on], tree[on]
    return nodes


def check_trees(roots: np.ndarray, feature: np.ndarray, right: np.ndarray) -> None:
    """Refuse saved trees that compiled loops would follow for ever, or out of their arrays.

    The largest column is compared with those of the rows, when leaves are found.
    """
    if not len(roots):
        raise InputError("A saved forest has no trees.")
    if not ((right > np.arange(len(right))) | (right == 0)).all():
        raise InputError("A saved forest has a node that is its own ancestor.")
    if feature.min(initial=0) < 0:
        raise InputError(f"A saved forest compares column {feature.min()}; columns are numbered from 0.")


def codes_of(columns: np.ndarray) -> np.ndarray:
    """Numbers from 0 to 255 that ascend with the values of each column: (n_columns, n_rows) uint8.

    Up to 256 different values are all told apart; of more, about as many rows share each number.
    """
    n_rows, n_columns = columns.shape
    codes = np.empty((n_columns, n_rows), np.uint8)
    for part in row_blocks(n_columns, row_bytes=40 * n_rows):
        values = np.ascontiguousarray(columns[:, part].T)
        order = np.argsort(values, axis=1)
        ascending = np.take_along_axis(values, order, axis=1)
        is_new = np.zeros(ascending.shape, np.bool_)
        is_new[:, 1:] = ascending[:, 1:] != ascending[:, :-1]
        number = np.cumsum(is_new, axis=1)
        first = np.maximum.accumulate(np.where(is_new, np.arange(n_rows), 0), axis=1)
        few = number[:, -1:] < N_CODES
        np.put_along_axis(codes[part], order, np.where(few, number, first * N_CODES // n_rows).astype(np.uint8), axis=1)
    return codes


def at_most_in_float32(thresholds: np.ndarray) -> np.ndarray:
    """The largest float32 numbers that are no larger: no float32 number lies between, so that trees stay the same."""
    near = thresholds.astype(np.float32)
    return np.where(near > thresholds, np.nextafter(near, np.float32(-np.inf)), near)
