"""Keywords of items, from lists of words or tables of zeros and ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from nearsay.core.arrays import as_rows, mix
from nearsay.data.content_order import content_lots, lots_of_ranks
from nearsay.errors import InputError


@dataclass(frozen=True)
class Keywords:
    """A sparse table of zeros and ones, items × words, and the words.

    Attributes
    ----------
    matrix : (n_items, n_words) csr_array of float64
    words : (n_words,) array
        Sorted where the keywords were lists, else the columns of the table: their names, or numbers from 0.
    named : bool
        Whether these are words, by which two tables can be matched, or mere column numbers.

    >>> Keywords.of([["sky", "sun"], [], ["sky"]]).words.tolist()
    ['sky', 'sun']
    >>> Keywords.of([[0, 1], [1, 1]]).matrix.toarray()
    array([[0., 1.],
           [1., 1.]])
    """

    matrix: csr_array
    words: np.ndarray
    named: bool = True

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    @classmethod
    def of(cls, Y: Any) -> Keywords:
        """Read keywords from a table of zeros and ones (dense, sparse, DataFrame) or from lists of words.

        The columns of a DataFrame are its words, unless they are mere numbers from 0.
        """
        if isinstance(Y, Keywords):
            return Y
        table = csr_array(Y, dtype=np.float64, copy=True) if issparse(Y) else _as_table(Y)
        if table is None:
            return cls._of_lists(Y)
        return cls(_zeros_and_ones(csr_array(table, dtype=np.float64)), *column_words(Y, table.shape[1]))

    @classmethod
    def _of_lists(cls, lists: Any) -> Keywords:
        if isinstance(lists, str | bytes) or not isinstance(lists, Iterable):
            raise InputError(
                f"Keywords are a list of words for every item, or a table of zeros and ones; got {lists!r}."
            )
        sets = [_as_set(given, item) for item, given in enumerate(lists)]
        try:
            words = sorted(set().union(*sets))
        except TypeError as error:
            raise InputError(f"Words of different kinds cannot be put in order ({error}). Pass all as text.") from error
        place = {word: column for column, word in enumerate(words)}
        rows = np.repeat(np.arange(len(sets)), [len(given) for given in sets])
        columns = np.array([place[word] for given in sets for word in sorted(given)], dtype=np.int64)
        shape = (len(sets), len(words))
        return cls(csr_array((np.ones(len(columns)), (rows, columns)), shape=shape), np.array(words))

    def with_words(self, words: Any) -> Keywords:
        """The same keywords with these words as columns: the names of a table's columns, or the vocabulary of lists.

        >>> Keywords.of([["sun"], ["sky"]]).with_words(["sea", "sky", "sun"]).matrix.toarray()
        array([[0., 0., 1.],
               [0., 1., 0.]])
        >>> Keywords.of([[0, 1], [1, 1]]).with_words(["sky", "sun"]).lists()
        [['sun'], ['sky', 'sun']]
        """
        if isinstance(words, str | bytes) or not isinstance(words, Iterable):
            raise InputError(f"words must be a list, such as ['sky', 'sun']; got {words!r}.")
        names = list(words)
        try:
            place = {word: column for column, word in enumerate(names)}
        except TypeError as error:
            raise InputError(f"words must be a list of words, such as ['sky', 'sun']; got {words!r}.") from error
        if len(place) < len(names):
            twice = next(word for word in names if names.count(word) > 1)
            raise InputError(f"words lists {twice!r} twice; every word has one column.")
        if not self.named:
            if len(names) != len(self.words):
                raise InputError(
                    f"words must name every column of the keywords: {len(self.words)} columns; got {len(names)} words."
                )
            return Keywords(self.matrix, np.array(names))
        missing = [word for word in self.words.tolist() if word not in place]
        if missing:
            raise InputError(
                f"{len(missing)} of the keywords are not among words, such as {missing[0]!r}."
                " Add them, or leave words out."
            )
        return Keywords(_in_columns(self, place), np.array(names))

    def lists(self) -> list[list[Any]]:
        """The words of every item, in the order of ``words``.

        >>> Keywords.of([["sun", "sky"], []]).lists()
        [['sky', 'sun'], []]
        """
        words = self.words.tolist()
        starts, columns = self.matrix.indptr, self.matrix.indices
        return [[words[c] for c in sorted(columns[a:b])] for a, b in pairwise(starts)]


def rows_and_keywords(X: Any, Y: Any) -> tuple[np.ndarray, Keywords]:
    """The rows as an array and their keywords, equally many.

    >>> rows_and_keywords([[0, 1], [2, 3]], [["sky"]])
    Traceback (most recent call last):
    nearsay.errors.InputError: X has 2 rows, Y 1; every row needs its keywords.
    """
    rows, keywords = as_rows(X), Keywords.of(Y)
    if len(rows) != len(keywords):
        raise InputError(f"X has {len(rows)} rows, Y {len(keywords)}; every row needs its keywords.")
    return rows, keywords


def annotated_order(rows: np.ndarray, matrix: csr_array) -> np.ndarray:
    """All row numbers in an order that depends only on the content of rows (in any unit) and their keywords.

    >>> X, Y = np.array([[1.0], [2.0], [2.0]]), np.array([[1, 0], [0, 1], [1, 1]])
    >>> order, back = annotated_order(X, csr_array(Y)), annotated_order(X[::-1], csr_array(Y[::-1]))
    >>> bool((Y[order] == Y[::-1][back]).all())
    True
    """
    of_words = mix(np.arange(matrix.shape[1], dtype=np.uint64))
    return np.lexsort((matrix.astype(np.uint64) @ of_words, content_lots(rows), lots_of_ranks(rows)))


def aligned(one: Keywords, other: Keywords) -> tuple[csr_array, csr_array]:
    """Both tables with the same words in the same columns.

    Words go by name: a word that one of them lacks becomes an empty column there. Tables whose columns have no names go
    by position, and both must have as many; a table with words cannot be matched with one without.

    >>> one, other = aligned(Keywords.of([["sun"], ["sky", "sun"]]), Keywords.of([["cat"], ["sky"]]))
    >>> one.toarray(), other.toarray()  # sky, sun, cat
    (array([[0., 1., 0.],
           [1., 1., 0.]]), array([[0., 0., 1.],
           [1., 0., 0.]]))
    """
    check_both_named(one.words, one.named, other.words, other.named)
    if not one.named:
        if len(one.words) != len(other.words):
            raise InputError(
                "Tables of keywords whose columns have no names must have as many columns, in the same order;"
                f" got {len(one.words)} and {len(other.words)}. Pass lists of words, or name the columns."
            )
        return one.matrix, other.matrix
    words = dict.fromkeys([*one.words.tolist(), *other.words.tolist()])  # keeps the order
    place = {word: column for column, word in enumerate(words)}
    return _in_columns(one, place), _in_columns(other, place)


def check_both_named(words: np.ndarray, named: bool, other_words: np.ndarray, other_named: bool) -> None:
    """Raise an error if only one of two tables has words: columns and words cannot be matched."""
    if named != other_named:
        known = words if named else other_words
        such_as = f" (such as {known.tolist()[0]!r})" if len(known) else ""
        raise InputError(
            f"One has words{such_as}, the other is a table whose columns have no"
            " names, so they cannot be matched. Pass both as lists of words or as DataFrames with words as columns"
            " (pd.DataFrame(table, columns=annotator.words_)), or both as tables with their columns in the same order."
        )


def column_words(table: Any, n_columns: int) -> tuple[np.ndarray, bool]:
    """The words of the columns of a table, and whether they are names, not just numbers from 0."""
    numbers = np.arange(n_columns)
    if not hasattr(table, "columns"):
        return numbers, False
    words = np.asarray(table.columns)
    if len(set(words.tolist())) < len(words):
        twice = next(word for word in words.tolist() if words.tolist().count(word) > 1)
        raise InputError(f"Two columns of the table are named {twice!r}; every word has one column.")
    return words, not np.array_equal(words, numbers)


def _in_columns(keywords: Keywords, place: dict[Any, int]) -> csr_array:
    columns = np.array([place[word] for word in keywords.words.tolist()], dtype=np.int64)
    matrix = keywords.matrix
    moved = csr_array((matrix.data, columns[matrix.indices], matrix.indptr), shape=(len(keywords), len(place)))
    moved.sort_indices()
    return moved


def _as_set(given: Any, item: int) -> set[Any]:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        shown = str(given) if isinstance(given, str) else given  # and not as a type of numpy
        raise InputError(
            f"Keywords are a list of words for every item; got {shown!r} for item {item}."
            f" For one word pass [{shown!r}]."
        )
    try:
        return set(given)
    except TypeError as error:
        raise InputError(f"Keywords are a list of words for every item; got {given!r} for item {item}.") from error


def _as_table(Y: Any) -> np.ndarray | None:
    """A table of numbers, or None where Y is something else, such as lists of words of different lengths."""
    try:
        table = np.asarray(Y)
    except ValueError:  # lists of different lengths
        return None
    if hasattr(Y, "columns") and table.dtype.kind not in "biuf":
        try:
            table = table.astype(np.float64)  # columns of several types, or of those that can be missing
        except (TypeError, ValueError) as error:
            raise InputError(
                f"A DataFrame of keywords has a column of zeros and ones for every word; got other values ({error})."
                " For a column of lists of words pass that column alone."
            ) from error
    some_columns = table.ndim == 2 and (table.shape[1] > 0 or isinstance(Y, np.ndarray) or hasattr(Y, "columns"))
    return table if some_columns and table.dtype.kind in "biuf" else None  # [[], []] are lists without words


def _zeros_and_ones(matrix: csr_array) -> csr_array:
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    wrong = matrix.data[matrix.data != 1]
    if len(wrong):
        raise InputError(f"A table of keywords holds zeros and ones; got {wrong[0]:g}. Lists hold words, not numbers.")
    return matrix
