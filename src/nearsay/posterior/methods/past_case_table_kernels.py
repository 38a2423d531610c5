"""The compiled loops behind the tables of past cases. Imported on first use only.

Sums and products of whole arrays are written as loops: numba takes seconds to compile the first array expression.
"""

from __future__ import annotations

import numpy as np

from nearsay.core.compiling import compiled


@compiled
def elect(indices, labels, votes, winner, winner_votes):  # type: ignore[no-untyped-def]
    """The most voted label of every line and its votes; ties go to the label of the nearest neighbor.

    ``votes`` is work space, one place a class; it comes and goes as zeros. −1 and 0 where there is no neighbor.
    """
    n, k = indices.shape
    for i in range(n):
        most = 0
        for j in range(k):
            if indices[i, j] >= 0:
                label = labels[indices[i, j]]
                votes[label] += 1
                most = max(most, votes[label])
        winner[i] = -1
        winner_votes[i] = most
        for j in range(k):
            if indices[i, j] >= 0:
                label = labels[indices[i, j]]
                if winner[i] < 0 and votes[label] == most:
                    winner[i] = label
        for j in range(k):
            if indices[i, j] >= 0:
                votes[labels[indices[i, j]]] = 0


@compiled
def _total(values):  # type: ignore[no-untyped-def]
    """The sum, added from the first to the last."""
    total = 0.0
    for value in values:
        total += value
    return total


@compiled
def true_ranks(numbers, truth, beyond):  # type: ignore[no-untyped-def]
    """The rank of the true label of each case, from 0; ``beyond`` where it is not listed."""
    ranks = np.empty(numbers.shape[0], np.int64)
    for i in range(numbers.shape[0]):
        ranks[i] = beyond
        for r in range(numbers.shape[1]):
            if numbers[i, r] == truth[i]:
                ranks[i] = r
                break
    return ranks


@compiled
def _listed(numbers, reading):  # type: ignore[no-untyped-def]
    """How many classes a line lists, and how much of the probability stands at their ranks."""
    total = 0.0
    for r in range(numbers.shape[0]):
        if numbers[r] < 0:
            return r, total
        total += reading[r]
    return numbers.shape[0], total


@compiled
def give_by_rank(numbers, cells, reading, model_failure, p):  # type: ignore[no-untyped-def]
    """Give the class at each rank what ``reading[cell]`` says of that rank; the unlisted share the rest evenly."""
    n_classes = p.shape[1]
    kept = 1.0 - model_failure
    spread = model_failure / n_classes
    for i in range(p.shape[0]):
        here = reading[cells[i]]
        n_listed, total = _listed(numbers[i], here)
        if n_listed < n_classes:
            p[i, :] = kept * (1.0 - total) / (n_classes - n_listed) + spread
            scale = kept
        else:
            scale = kept / total
        for r in range(n_listed):
            p[i, numbers[i, r]] = scale * here[r] + spread


@compiled
def accumulate_by_rank(numbers, truth, worth, cells, reading, first, mass, tail):  # type: ignore[no-untyped-def]
    """Add the probability each case gives to the classes from ``first`` on, in the row of its true class.

    It counts as much as the case is worth.

    What a case gives to every unlisted class goes to ``tail`` of its row, once; ``mass`` (n_classes, columns)
    holds what listed classes get beside that, so that a case costs as much as it lists classes.
    """
    n_classes, columns = mass.shape[0], mass.shape[1]
    for i in range(numbers.shape[0]):
        here = reading[cells[i]]
        n_listed, total = _listed(numbers[i], here)
        if n_listed < n_classes:
            share, scale = (1.0 - total) / (n_classes - n_listed), 1.0
        else:
            share, scale = 0.0, 1.0 / total
        tail[truth[i]] += worth[i] * share
        for r in range(n_listed):
            column = numbers[i, r] - first
            if 0 <= column < columns:
                mass[truth[i], column] += worth[i] * (scale * here[r] - share)


@compiled
def give_column(base, starts, classes, extra, predicted, model_failure, p):  # type: ignore[no-untyped-def]
    """Give every line the column of its predicted class: ``base`` everywhere, and ``extra`` where it has more."""
    n_classes = p.shape[1]
    spread = model_failure / n_classes
    whole = _total(base)
    for i in range(p.shape[0]):
        if predicted[i] < 0:
            p[i, :] = 1.0 / n_classes
            continue
        start, stop = starts[predicted[i]], starts[predicted[i] + 1]
        scale = (1.0 - model_failure) / (whole + _total(extra[start:stop]))
        for c in range(n_classes):
            p[i, c] = scale * base[c] + spread
        for e in range(start, stop):
            p[i, classes[e]] += scale * extra[e]


@compiled
def give_columns_left_out(  # type: ignore[no-untyped-def]
    numbers, n_listed, truth, worth, cells, n_true, by_class, starts, reading, alike, predicted, model_failure, p
):
    """Give each of the cases ``alike`` the column of its predicted class, as all cases but itself fill it.

    ``reading`` is what ranks are worth without any one of them; ``predicted`` is in order, so that a column is added up
    once. ``by_class[starts[c] : starts[c + 1]]`` are the places of class c in ``numbers``, counted line by line.
    """
    n_classes, width = p.shape[1], numbers.shape[1]
    spread = model_failure / n_classes
    # What case i gives to the class at rank r is scale[i] · reading[cell, r]; to each class it does not list, share[i].
    scale, share = np.ones(len(truth)), np.zeros(len(truth))
    tail = np.ones(n_classes)
    up_to = np.empty(reading.shape)
    for cell in range(len(reading)):
        total = 0.0
        for r in range(reading.shape[1]):
            total += reading[cell, r]
            up_to[cell, r] = total
    for i in range(len(truth)):
        total = up_to[cells[i], n_listed[i] - 1]
        if n_listed[i] < n_classes:
            share[i] = (1.0 - total) / (n_classes - n_listed[i])
            tail[truth[i]] += worth[i] * share[i]
        else:
            scale[i] = 1.0 / total
    column = np.empty(n_classes)
    for a in range(len(alike)):
        c = predicted[a]
        if a == 0 or c != predicted[a - 1]:
            for other in range(n_classes):
                column[other] = tail[other]
            for at in range(starts[c], starts[c + 1]):
                i, r = by_class[at] // width, by_class[at] % width
                column[truth[i]] += worth[i] * (scale[i] * reading[cells[i], r] - share[i])
        i = alike[a]
        of_case = share[i]
        for r in range(n_listed[i]):
            if numbers[i, r] == c:
                of_case = scale[i] * reading[cells[i], r]
        for other in range(n_classes):
            p[i, other] = column[other] / (n_classes + n_true[other])
        p[i, truth[i]] = (column[truth[i]] - worth[i] * of_case) / (n_classes + n_true[truth[i]] - worth[i])
        kept = (1.0 - model_failure) / _total(p[i])
        for other in range(n_classes):
            p[i, other] = p[i, other] * kept + spread


@compiled
def give_to_predicted(predicted, right, model_failure, p):  # type: ignore[no-untyped-def]
    """Give the predicted class of each line its ``right`` (n_lines,), and all others the rest evenly."""
    n_classes = p.shape[1]
    kept = 1.0 - model_failure
    spread = model_failure / n_classes
    for i in range(p.shape[0]):
        c = predicted[i]
        if c < 0 or n_classes == 1:
            p[i, :] = 1.0 / n_classes
        else:
            p[i, :] = kept * (1.0 - right[i]) / (n_classes - 1) + spread
            p[i, c] = kept * right[i] + spread


@compiled
def distance_bin(distance, low, width, n_bins):  # type: ignore[no-untyped-def]
    """The bin of a distance; what lies outside the bins goes to the first or the last."""
    if not distance > low:
        return 0
    if distance >= low + width * n_bins:
        return n_bins - 1
    return min(int((distance - low) / width), n_bins - 1)


@compiled
def count_distances(indices, distances, labels, truth, worth, cells, low, width, same, other):  # type: ignore[no-untyped-def]
    """Add every neighbor of every case at its distance bin and the cell of its case, by whether its label was right.

    It counts as much as its case is worth.
    """
    for i in range(indices.shape[0]):
        for j in range(indices.shape[1]):
            if indices[i, j] >= 0:
                b = distance_bin(distances[i, j], low, width, same.shape[1])
                if labels[indices[i, j]] == truth[i]:
                    same[cells[i], b] += worth[i]
                else:
                    other[cells[i], b] += worth[i]


@compiled
def give_by_distance(indices, distances, labels, cells, reading, low, width, model_failure, p):  # type: ignore[no-untyped-def]
    """Give a class the largest reading of its neighbors, rows scaled to one."""
    n_classes = p.shape[1]
    spread = model_failure / n_classes
    for i in range(p.shape[0]):
        p[i, :] = 0.0
        for j in range(indices.shape[1]):
            if indices[i, j] >= 0:
                value = reading[cells[i], distance_bin(distances[i, j], low, width, reading.shape[1])]
                c = labels[indices[i, j]]
                p[i, c] = max(p[i, c], value)
        total = _total(p[i])
        if total > 0.0:
            kept = (1.0 - model_failure) / total
            for c in range(n_classes):
                p[i, c] = p[i, c] * kept + spread
        else:
            p[i, :] = 1.0 / n_classes
