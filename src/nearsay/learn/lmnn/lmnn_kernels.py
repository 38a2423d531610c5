"""The compiled loops of LMNN. Imported on first use only (numba)."""

from __future__ import annotations

from functools import partial

from nearsay.core.compiling import only_compiled as compiled


# Allows vectorized sums, four times as fast; always in the same order.
@partial(compiled, fastmath={"reassoc", "contract"})
def squared_distance(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for c in range(a.shape[0]):
        difference = a[c] - b[c]
        total += difference * difference
    return total


@compiled
def measure_targets(Z, rows, targets, out):  # type: ignore[no-untyped-def]
    """Squared distance of every one of the ``rows`` to its targets; −1 where there is none."""
    for a in range(rows.shape[0]):
        for t in range(targets.shape[1]):
            j = targets[a, t]
            out[a, t] = squared_distance(Z[rows[a]], Z[j]) if j >= 0 else -1.0


@compiled
def list_within(products, half_squares, bars, starts, stops, ends, listed):  # type: ignore[no-untyped-def]
    """List, for each line of ``products``, the columns outside starts … stops whose product is high enough.

    |a − b|² ≤ r² where ab − |b|²/2 ≥ (|a|² − r²)/2, the bar of a. What overflowed is listed.
    Line a's list ends at ``ends[a]`` of ``listed``, where the next begins.
    """
    at = 0
    for a in range(products.shape[0]):
        line, bar = products[a], bars[a]
        for first, last in ((0, starts[a]), (stops[a], products.shape[1])):
            for l in range(first, last):
                # Always written, and counted only if listed: no branch misprediction.
                listed[at] = l
                at += not (line[l] - half_squares[l] < bar)
        ends[a] = at


@compiled
def push_away(Z, X, rows, targets, near, labels, margins, ends, listed, loss, balance, pulled):  # type: ignore[no-untyped-def]
    """Add up the triples (row, target, impostor) in which the impostor is not farther than the target by the margin.

    ``loss`` gets by how much, for each of the ``rows``. A row's targets add to its line of ``pulled`` the columns of
    ``X`` once for every triple they are in, impostors take theirs off; ``balance`` counts the same by row.
    """
    start = 0
    for a in range(rows.shape[0]):
        i = rows[a]
        of_class = margins[labels[i]]
        farthest = near[a].max()
        total = 0.0
        pulled[a, :] = 0.0
        counts = [0] * near.shape[1]
        for p in range(start, ends[a]):
            l = listed[p]
            short = of_class[labels[l]] - squared_distance(Z[i], Z[l])
            if farthest + short <= 0.0:
                continue
            n_triples = 0
            for t in range(near.shape[1]):
                if near[a, t] >= 0.0 and near[a, t] + short > 0.0:
                    total += near[a, t] + short
                    counts[t] += 1
                    n_triples += 1
            balance[l] -= n_triples
            for c in range(X.shape[1]):
                pulled[a, c] -= n_triples * X[l, c]
        for t in range(near.shape[1]):
            if counts[t]:
                j = targets[a, t]
                balance[j] += counts[t]
                for c in range(X.shape[1]):
                    pulled[a, c] += counts[t] * X[j, c]
        loss[a] = total
        start = ends[a]
