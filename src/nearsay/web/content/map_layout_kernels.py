"""Compiled loops that draw points to their neighbors and push them away from others. Imported on first use."""

from __future__ import annotations

from nearsay.core.compiling import compiled


@compiled
def draw_together(starts, neighbors, shares, Y, pull, moved):  # type: ignore[no-untyped-def]
    """Fill in the attraction of each point to its neighbors, times ``pull``; neighbors are in CSR form (``starts``)."""
    for i in range(Y.shape[0]):
        right = 0.0
        up = 0.0
        for place in range(starts[i], starts[i + 1]):
            j = neighbors[place]
            x = Y[j, 0] - Y[i, 0]
            y = Y[j, 1] - Y[i, 1]
            force = shares[place] / (1.0 + (x * x + y * y))
            right += force * x
            up += force * y
        moved[i, 0] = pull * right
        moved[i, 1] = pull * up


@compiled
def push_apart(others, Y, pushed):  # type: ignore[no-untyped-def]
    """Add the repulsion of each point from another; gives the sum of their closeness."""
    closeness = 0.0
    for i in range(Y.shape[0]):
        j = others[i]
        x = Y[i, 0] - Y[j, 0]
        y = Y[i, 1] - Y[j, 1]
        close = 1.0 / (1.0 + (x * x + y * y))
        closeness += close
        pushed[i, 0] += x * close * close
        pushed[i, 1] += y * close * close
    return closeness
