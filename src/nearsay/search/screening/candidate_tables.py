"""Tables of candidates: row numbers (n_queries, width), −1 where a query has fewer than others."""

from __future__ import annotations

import numpy as np


def stack_tables(looks: list[np.ndarray]) -> np.ndarray:
    """Candidate tables of different queries, filled up with −1 to one width."""
    width = max(look.shape[1] for look in looks)
    out = np.full((sum(len(look) for look in looks), width), -1, np.int64)
    start = 0
    for look in looks:
        out[start : start + len(look), : look.shape[1]] = look
        start += len(look)
    return out


def replace_lines(found: np.ndarray, queries: np.ndarray, again: np.ndarray) -> np.ndarray:
    """Put a second look at some of the queries in place of the first."""
    if again.shape[1] > found.shape[1]:
        found = np.pad(found, ((0, 0), (0, again.shape[1] - found.shape[1])), constant_values=-1)
    found[queries] = -1
    found[queries, : again.shape[1]] = again
    return found
