"""Tables of candidates: row numbers (n_queries, width), −1 where a query has fewer than others."""

from __future__ import annotations

import numpy as np


def stack_tables(tables: list[np.ndarray]) -> np.ndarray:
    """Candidate tables of different queries, filled up with −1 to one width."""
    width = max(table.shape[1] for table in tables)
    out = np.full((sum(len(table) for table in tables), width), -1, np.int64)
    start = 0
    for table in tables:
        out[start : start + len(table), : table.shape[1]] = table
        start += len(table)
    return out


def replace_lines(candidates: np.ndarray, queries: np.ndarray, lines: np.ndarray) -> np.ndarray:
    """Replace the lines of some queries; the table grows as wide as needed."""
    if lines.shape[1] > candidates.shape[1]:
        candidates = np.pad(candidates, ((0, 0), (0, lines.shape[1] - candidates.shape[1])), constant_values=-1)
    candidates[queries] = -1
    candidates[queries, : lines.shape[1]] = lines
    return candidates
