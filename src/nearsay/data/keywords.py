"""Keywords of a collection: which of some words each item has, in whatever form they came."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from nearsay.arrays import as_rows
from nearsay.errors import InputError


@dataclass(frozen=True)
class Keywords:
    """A sparse table of zeros and ones, items × words, and the words.

    Attributes
    ----------
    matrix : (n_items, n_words) csr_array of float64
    words : (n_words,) array
        In sorted order where they came as lists; the numbers of the columns where they came as a table.

    >>> Keywords.of([["sky", "sun"], [], ["sky"]]).words.tolist()
    ['sky', 'sun']
    >>> Keywords.of([[0, 1], [1, 1]]).matrix.toarray()
    array([[0., 1.],
           [1., 1.]])
    """

    matrix: csr_array
    words: np.ndarray

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    @classmethod
    def of(cls, Y: Any, words: Any = None) -> Keywords:
        """Read keywords from a table of zeros and ones (dense, sparse, DataFrame) or from lists of words.

        The columns of a DataFrame are its words. Where ``words`` are passed, those are the words, in their order: a
        table must have as many columns, and lists may hold no others.

        >>> Keywords.of([["sun"], []], words=["sky", "sun"]).matrix.toarray()
        array([[0., 1.],
               [0., 0.]])
        """
        keywords = cls._as_they_came(Y)
        return keywords if words is None else keywords._in_columns_of(np.asarray(words))

    @classmethod
    def _as_they_came(cls, Y: Any) -> Keywords:
        if isinstance(Y, Keywords):
            return Y
        if issparse(Y):
            return cls(_zeros_and_ones(csr_array(Y, dtype=np.float64)), np.arange(Y.shape[1]))
        table = _as_table(Y)
        if table is None:
            return cls._of_lists(Y)
        words = np.asarray(Y.columns) if hasattr(Y, "columns") else np.arange(table.shape[1])
        return cls(_zeros_and_ones(csr_array(table.astype(np.float64))), words)

    @classmethod
    def _of_lists(cls, lists: Iterable[Iterable[Any]]) -> Keywords:
        sets = []
        for item, given in enumerate(lists):
            if isinstance(given, str | bytes) or not isinstance(given, Iterable):
                raise InputError(
                    f"Keywords are a list of words for every item; item {item} came with {given!r}."
                    f" For one word pass [{given!r}]."
                )
            sets.append(set(given))
        try:
            words = sorted(set().union(*sets))
        except TypeError as error:
            raise InputError(f"Words of different kinds cannot be put in order ({error}). Pass all as text.") from error
        place = {word: column for column, word in enumerate(words)}
        rows = np.repeat(np.arange(len(sets)), [len(given) for given in sets])
        columns = np.array([place[word] for given in sets for word in sorted(given)], dtype=np.int64)
        shape = (len(sets), len(words))
        return cls(csr_array((np.ones(len(columns)), (rows, columns)), shape=shape), np.array(words))

    def _in_columns_of(self, words: np.ndarray) -> Keywords:
        """The same keywords with a column for each of these words."""
        if np.array_equal(self.words, np.arange(self.matrix.shape[1])):  # a table whose columns have no names
            if self.matrix.shape[1] != len(words):
                raise InputError(f"The table of keywords has {self.matrix.shape[1]} columns for {len(words)} words.")
            return Keywords(self.matrix, words)
        place = {word: column for column, word in enumerate(words.tolist())}
        unknown = [word for word in self.words.tolist() if word not in place]
        if unknown:
            raise InputError(
                f"{len(unknown)} of the words that came are not among the {len(words)} known ones: {unknown[0]!r}"
                f"{', …' if len(unknown) > 1 else ''}. Leave them out, or learn them first."
            )
        columns = np.array([place[word] for word in self.words.tolist()], dtype=np.int64)
        table = csr_array(
            (self.matrix.data, columns[self.matrix.indices], self.matrix.indptr), shape=(len(self), len(words))
        )
        table.sort_indices()
        return Keywords(table, words)

    def lists(self) -> list[list[Any]]:
        """The words of every item, in the order of ``words``.

        >>> Keywords.of([["sun", "sky"], []]).lists()
        [['sky', 'sun'], []]
        """
        words = self.words.tolist()
        starts, columns = self.matrix.indptr, self.matrix.indices
        return [[words[c] for c in sorted(columns[a:b])] for a, b in pairwise(starts)]


def rows_and_keywords(X: Any, Y: Any) -> tuple[np.ndarray, Keywords]:
    """The rows as an array and their keywords, as many of the one as of the other.

    >>> rows_and_keywords([[0, 1], [2, 3]], [["sky"]])
    Traceback (most recent call last):
    nearsay.errors.InputError: X has 2 rows, Y 1; every row needs its keywords.
    """
    rows, keywords = as_rows(X), Keywords.of(Y)
    if len(rows) != len(keywords):
        raise InputError(f"X has {len(rows)} rows, Y {len(keywords)}; every row needs its keywords.")
    return rows, keywords


def _as_table(Y: Any) -> np.ndarray | None:
    """A table of numbers, or None where Y is something else, such as lists of words of different lengths."""
    try:
        table = np.asarray(Y)
    except ValueError:  # lists of different lengths
        return None
    return table if table.ndim == 2 and table.dtype.kind in "biuf" else None


def _zeros_and_ones(matrix: csr_array) -> csr_array:
    matrix.eliminate_zeros()
    wrong = matrix.data[matrix.data != 1]
    if len(wrong):
        raise InputError(f"A table of keywords holds zeros and ones; {wrong[0]:g} came. Lists hold words, not numbers.")
    matrix.sort_indices()
    return matrix
