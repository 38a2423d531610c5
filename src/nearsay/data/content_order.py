"""A pseudo-random order of rows that depends on their content only, not on the order in which they are listed.

    rows ──► a number each, from its values alone ──► rows by these numbers ──► folds, samples, sums

Folds and samples by row number would change when a table is sorted in another way, and so would whatever is learned
from them. The order does not depend on the names of classes, or on constant or copied columns.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import numpy as np

from nearsay.core.arrays import evenly, mix, row_blocks

# Columns whose numbers are ranked; with more of them, some.
MOST_RANKED = 256


def content_order(
    X: Any, labels: np.ndarray | None = None, *, pairwise: bool = False, in_any_unit: bool = False
) -> np.ndarray:
    """All row numbers in a pseudo-random order that depends on content, not on row numbers or names of classes.

    Rows that are equal in everything, label included, are interchangeable.

    X : (n_rows, n_columns) numbers, in an array or in shards; or any items, items that cannot be pickled keep the order
        they have.
    labels : (n_rows,) class numbers, or None where rows have none.
    pairwise : whether X holds the distances of every row to all others, whose order is that of the rows.
    in_any_unit : whether neither the unit of the rows nor (up to 256 of them) the order of columns matters: rows are
        compared by the ranks of their numbers in each column. X is an array of numbers.

    >>> X, labels = np.array([[1.0, 2.0], [0.0, 5.0], [3.0, 3.0]]), np.array([0, 1, 1])
    >>> order, back = content_order(X, labels), content_order(X[::-1], 1 - labels[::-1])
    >>> bool((X[order] == X[::-1][back]).all())
    True
    """
    lots = _of_distances(X) if pairwise else _of_items(X)
    if lots is None:
        return np.arange(len(X))
    keys = [lots]
    if in_any_unit:
        keys.append(lots_of_ranks(X))
    if labels is not None:
        of_class = np.zeros(labels.max(initial=-1) + 1, np.uint64)
        np.add.at(of_class, labels, mix(keys[-1]))
        keys.insert(0, of_class[labels])
    return np.lexsort(keys)


def content_lots(X: np.ndarray) -> np.ndarray:
    """A pseudo-random number from the content of each row; equal rows have the same."""
    factors = _factors(X)
    parts = [mix(_bits(block) @ factors) for block in _blocks(X)]
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)


def lots_of_ranks(X: np.ndarray) -> np.ndarray:
    """A pseudo-random number from the ranks of each row's numbers within their columns, without constant columns.

    Rows share it that have the same places in another order of columns: their values have to tell them apart.
    """
    lots = np.zeros(len(X), np.uint64)
    for column in X[:, evenly(X.shape[1], MOST_RANKED)].T:
        order = np.argsort(column, kind="stable")
        larger = np.diff(column[order]) > 0
        if larger.any():
            ranks = np.empty(len(column), np.uint64)
            ranks[order] = np.concatenate([[0], np.cumsum(larger)])
            lots += mix(mix(ranks))
    return lots


def _of_items(X: Any) -> np.ndarray | None:
    """A number from the content of each item; None where it cannot be computed."""
    if len(getattr(X, "shape", ())) == 2 and np.dtype(X.dtype).kind in "fiub":
        return content_lots(X)
    try:
        digests = [blake2b(pickle.dumps(item), digest_size=8).digest() for item in X]
    except Exception:  # whatever an item of the user's raises where it cannot be pickled
        return None
    return np.frombuffer(b"".join(digests), np.uint64)


def _factors(X: Any) -> np.ndarray:
    """An odd factor for every column; 0 for constant columns and copies."""
    first, n_before = None, 0
    differs, digest = np.zeros(X.shape[1], bool), np.zeros(X.shape[1], np.uint64)
    for block in _blocks(X):
        bits = _bits(block)
        first = bits[0] if first is None else first
        differs |= (bits != first).any(axis=0)
        digest += mix(np.arange(n_before, n_before + len(bits), dtype=np.uint64)) @ mix(bits)
        n_before += len(bits)
    columns = np.flatnonzero(differs)
    columns = columns[np.sort(np.unique(digest[columns], return_index=True)[1])]
    factors = np.zeros(X.shape[1], np.uint64)
    factors[columns] = mix(np.arange(len(columns), dtype=np.uint64)) | np.uint64(1)
    return factors


def _of_distances(X: np.ndarray) -> np.ndarray:
    """A number from the distances of each row, in any order, combined with those of the rows at these distances."""
    lots = np.zeros(len(X), np.uint64)
    for _ in range(2):
        lots = np.concatenate([mix(_bits(block) ^ lots).sum(axis=1) for block in _blocks(X)] or [lots])
    return lots


def _blocks(X: Any) -> Iterator[np.ndarray]:
    """Rows as float64, in blocks; shard by shard, since each is read at once."""
    for part in (shard.opened() for shard in X.shards) if hasattr(X, "shards") else [X]:
        for block in row_blocks(len(part), row_bytes=8 * X.shape[1]):
            yield np.ascontiguousarray(part[block], np.float64)


def _bits(block: np.ndarray) -> np.ndarray:
    """Hashed bits of numbers; the same for 0 and −0."""
    block = np.where(np.isnan(block), np.nan, block + 0.0)
    bits = block.view(np.uint64)
    return bits ^ (bits >> np.uint64(32))


def as_met(values: np.ndarray) -> np.ndarray:
    """A number for each different value: 0 for the first that is met, 1 for the next one.

    >>> as_met(np.array([7, 7, 3, 9, 3]))
    array([0, 0, 1, 2, 1])
    """
    _, first, number = np.unique(values, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[number]
