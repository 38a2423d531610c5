"""Compiled loops of the forest: growing a tree by the best of some cuts, and finding the leaves of rows."""

from __future__ import annotations

import numpy as np

from nearsay.core.compiling import only_compiled as compiled

# Values of a column are told apart up to so many.
N_CODES = 256
# Nodes are numbered below this prime: the children's numbers follow from their parent's, and draw the columns.
PRIME, LEFT, RIGHT, DRAW = 2_147_483_647, 48_271, 69_621, 16_807
# The place of the only bit of a number: the upper six bits of its product with this one are different for each.
DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
BIT_OF = np.empty(64, np.int64)
BIT_OF[[(int(DE_BRUIJN) << bit & (1 << 64) - 1) >> 58 for bit in range(64)]] = np.arange(64)


@compiled
def is_coprime(a, b):  # type: ignore[no-untyped-def]
    """Whether no number but 1 divides both."""
    while b:
        a, b = b, a % b
    return a == 1


@compiled
def sort_by_code(column, rows, first, n, code, order, ends, met, codes_met):  # type: ignore[no-untyped-def]
    """Fill ``order`` with the numbers from 0 to n − 1 in ascending order of the codes of n rows; gives how many differ.

    ``codes_met`` are the different codes, ascending, and ``ends`` where each of them ends in the order. ``ends`` and
    ``met``, a bit for each code, are zeros before; whoever reads ``ends`` makes them zeros again. Nodes are small and
    many: nothing but the codes that are met is looked at.
    """
    for i in range(n):
        each = column[rows[first + i]]
        code[i] = each
        ends[each] += np.uint32(1)
        met[each >> 6] |= np.uint64(1) << np.uint64(each & 63)
    n_met, place = 0, np.uint32(0)
    for word in range(len(met)):
        bits = met[word]
        met[word] = np.uint64(0)
        while bits != 0:
            lowest = bits & (~bits + np.uint64(1))
            each = 64 * word + BIT_OF[(lowest * DE_BRUIJN) >> np.uint64(58)]
            bits ^= lowest
            size = ends[each]
            ends[each] = place
            place += size
            codes_met[n_met] = each
            n_met += 1
    for i in range(n):
        order[ends[code[i]]] = i
        ends[code[i]] += np.uint32(1)
    return n_met


@compiled
def best_cut(codes_met, n_met, ends, order, weights, begins, stops, classes, total, left, squares, weight):  # type: ignore[no-untyped-def]
    """The cut of a node's rows by one column that leaves the purest halves: its score, and the last code on the left.

    The score is, added up over both halves, the sum of the squared weights of the classes over the weight: the larger
    it is, the less do the rows of a half differ. ``squares`` is the sum of squares of the whole node, and ``total``
    and ``left`` are weights by class, the latter zeros before and after.
    """
    best, last = -1.0, codes_met[0]
    squares_left, squares_right, weight_left, i = 0, squares, 0, 0
    for number in range(n_met - 1):
        end = ends[codes_met[number]]
        while i < end:
            row = order[i]
            w = weights[row]
            weight_left += w
            for at in range(begins[row], stops[row]):
                one = classes[at]
                squares_left += w * (2 * left[one] + w)
                squares_right -= w * (2 * (total[one] - left[one]) - w)
                left[one] += w
            i += 1
        weight_right = weight - weight_left
        score = (squares_left * weight_right + squares_right * weight_left) / (weight_left * weight_right)
        if score > best:
            best, last = score, codes_met[number]
    for before in range(i):
        for at in range(begins[order[before]], stops[order[before]]):
            left[classes[at]] = 0
    return best, last


@compiled
def grow_tree(  # type: ignore[no-untyped-def]
    columns, codes, kind, rows, often, starts, classes, n_classes, n_tried, key, feature, threshold, right, size
):
    """Grow one tree until the rows of every leaf are alike; gives the number of its nodes.

    The left child of a node is the next node; a leaf has 0 for its right one.

    columns, codes : (n_rows, n_columns) float32 and (n_columns, n_rows) uint8, values and numbers ascending with them.
    kind : (n_rows,) uint32, the same for rows of the same codes.
    rows : (n_drawn,) uint32, the rows to grow it from, which are reordered; ``often`` (n_rows,) how often each counts.
    starts, classes : the classes of row i are ``classes[starts[i] : starts[i + 1]]``, below ``n_classes``.
    n_tried, key : how many columns each node looks at, and the number of the root, which says at which.
    feature, threshold, right, size : (2 n_drawn − 1,), to be filled: the column and the value that each node compares,
        and how many different rows reached it.
    """
    n_columns, n = len(codes), len(rows)
    code, ends, codes_met = np.empty(n, np.uint8), np.zeros(N_CODES, np.uint32), np.empty(N_CODES, np.int64)
    met = np.zeros(N_CODES // 64, np.uint64)
    order, moved = np.empty(n, np.uint32), np.empty(n, np.uint32)
    # Of the rows of a node: how often each counts, and where its classes are.
    weights, begins, stops = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    total, left = np.zeros(n_classes, np.int64), np.zeros(n_classes, np.int64)
    # Nodes to come: their first row, end, number, and whose right child they are.
    waiting = np.zeros((n + 1, 4), np.int64)
    waiting[0, 1], waiting[0, 2], waiting[0, 3] = n, key, -1
    n_waiting, n_nodes = 1, 0
    while n_waiting:
        n_waiting -= 1
        first, end = waiting[n_waiting, 0], waiting[n_waiting, 1]
        key, parent = waiting[n_waiting, 2], waiting[n_waiting, 3]
        node = n_nodes
        n_nodes += 1
        if parent >= 0:
            right[parent] = node
        feature[node], threshold[node], right[node], size[node] = 0, 0.0, 0, end - first
        weight, n_classes_met, squares = 0, 0, 0
        for i in range(end - first):
            row = rows[first + i]
            weights[i], begins[i], stops[i] = often[row], starts[row], starts[row + 1]
            weight += weights[i]
            for at in range(begins[i], stops[i]):
                total[classes[at]] += weights[i]
        is_mixed = False
        for i in range(end - first):
            is_mixed = is_mixed or kind[rows[first + i]] != kind[rows[first]]
            for at in range(begins[i], stops[i]):
                n_classes_met += weights[i]
                squares += weights[i] * total[classes[at]]
        is_mixed = is_mixed and squares < weight * n_classes_met
        best, column, last = -1.0, 0, 0
        # Columns are looked at in steps from one on; a step that shares no divisor with their number meets them all.
        each, step, n_looked = key * n_columns // PRIME, 1 + key * DRAW % PRIME * (n_columns - 1) // PRIME, 0
        while not is_coprime(step, n_columns):
            step += 1
        # Halves whose rows all have the same classes score as much as all classes that are met: no cut is better.
        while is_mixed and n_looked < n_columns and (n_looked < n_tried or best < 0) and best < n_classes_met:
            each = (each + step) % n_columns
            n_looked += 1
            n_met = sort_by_code(codes[each], rows, first, end - first, code, order, ends, met, codes_met)
            if n_met > 1:
                score, cut = best_cut(
                    codes_met, n_met, ends, order, weights, begins, stops, classes, total, left, squares, weight
                )
                if score > best:
                    best, column, last = score, each, cut
            for number in range(n_met):
                ends[codes_met[number]] = 0
        for i in range(end - first):
            for at in range(begins[i], stops[i]):
                total[classes[at]] = 0
        if best < 0:
            continue
        middle, n_moved, low, high = first, 0, -np.inf, np.inf
        for i in range(first, end):
            row = rows[i]
            value = np.float64(columns[row, column])
            if codes[column, row] <= last:
                rows[middle] = row
                middle += 1
                low = max(low, value)
            else:
                moved[n_moved] = row
                n_moved += 1
                high = min(high, value)
        for i in range(n_moved):
            rows[middle + i] = moved[i]
        feature[node], threshold[node] = column, (low + high) / 2
        for child in range(2):  # the left one last, which comes next
            waiting[n_waiting, 0] = middle if child == 0 else first
            waiting[n_waiting, 1] = end if child == 0 else middle
            waiting[n_waiting, 2] = (key * RIGHT + 1) % PRIME if child == 0 else (key * LEFT + 1) % PRIME
            waiting[n_waiting, 3] = node if child == 0 else -1
            n_waiting += 1
    return n_nodes


@compiled
def find_leaves(columns, roots, feature, threshold, right, leaves):  # type: ignore[no-untyped-def]
    """Fill ``leaves`` (n_rows, n_trees) with the node at which every row ends in every tree."""
    for i in range(len(columns)):
        for tree in range(len(roots)):
            node = roots[tree]
            while right[node] > 0:
                node = node + 1 if columns[i, feature[node]] <= threshold[node] else right[node]
            leaves[i, tree] = node
