"""Words and parts of words as vectors, learned from the texts of a collection: TF-IDF, reduced by an SVD.

    texts ──► counts of words and word pairs ───────┐
         └──► counts of character n-grams in words ─┴─► TF-IDF ──► main directions (SVD) ──► unit length

Needs nothing but scikit-learn. Character n-grams make "cards" and "card" alike, and forgive typing errors. What was
learned is arrays of texts and numbers: it is saved like all else, never as a pickle.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import randomized_range_finder

from nearsay.core.arrays import row_blocks
from nearsay.core.documented import DocumentedEstimator
from nearsay.core.parallel import one_blas_thread
from nearsay.core.settings import check_whole
from nearsay.describe.texts.text_descriptor import checked_texts, unit_length
from nearsay.errors import InputError, NotFitted

N_COLUMNS = 512
MOST_WORDS, MOST_PARTS = 8_000, 12_000
# Longer ones are no words: addresses, codes.
LONGEST_TERM = 40
WORD = re.compile(r"\w+")
PART_SIZES = (2, 3, 4)
# A term of one text alone tells nothing about others, once there are enough texts.
ENOUGH_TEXTS = 1000
POWER_ITERATIONS = 1
# Found beside those that are kept, so that the last of these are right, too.
MORE_DIRECTIONS = 10
# Of the widest spread of the texts: less is rounding.
FAINTEST = 1e-4
TEXTS_AT_ONCE = 4096


class WordVectors(DocumentedEstimator):
    """Texts by their words and character n-grams, as directions that ``fit`` learns from texts: a text descriptor.

    Parameters
    ----------
    n_columns : int, default=512
        Directions that are kept; fewer where there are fewer texts or terms.
    n_words, n_parts : int
        At most so many words and word pairs, and character n-grams: the most frequent.

    Attributes
    ----------
    words_, parts_ : (n_words,) and (n_parts,) texts
        The vocabulary.
    idf_ : (n_words + n_parts,) float32
        How much a term counts: the rarer, the more.
    components_ : (n_words + n_parts, n_columns) float32
        The directions.

    Rows have length one, so that Euclidean distances order texts as the cosine does. A text of which no term is known
    is a row of zeros: as far from all others as texts get that share nothing.

    >>> vectors = WordVectors(n_columns=2).fit(["block my card", "block this card", "what is the weather"])
    >>> near, far = vectors.encode(["a card to block", "how is the weather"])
    >>> card = vectors.encode(["block my card"])[0]
    >>> bool(near @ card > 0.9), bool(far @ card < 0.5)
    (True, True)
    """

    name = "words"
    metric = "euclidean"

    words_: np.ndarray
    parts_: np.ndarray
    idf_: np.ndarray
    components_: np.ndarray

    def __init__(self, n_columns: int = N_COLUMNS, *, n_words: int = MOST_WORDS, n_parts: int = MOST_PARTS) -> None:
        self.n_columns = n_columns
        self.n_words = n_words
        self.n_parts = n_parts

    def fit(self, texts: Iterable[str], y: Any = None) -> WordVectors:
        """Learn the vocabulary and the directions."""
        for name in ("n_columns", "n_words", "n_parts"):
            check_whole(name, getattr(self, name), least=1)
        texts = checked_texts(texts)
        self.words_, words = _most_frequent(*count_words(texts), self.n_words)
        self.parts_, parts = _most_frequent(*count_parts(texts), self.n_parts)
        if not len(self.words_) + len(self.parts_):
            raise InputError(f"No text holds a word or a letter; the first is {texts[0][:40]!r}.")
        n_with = np.concatenate([_texts_with_each(words), _texts_with_each(parts)])
        self.idf_ = (np.log((1 + len(texts)) / (1 + n_with)) + 1).astype(np.float32)
        self.components_ = main_directions(self._weighted([words, parts]), self.n_columns)
        return self

    def encode(self, texts: Iterable[str]) -> np.ndarray:
        """Vectors of many texts: (n, n_columns) float32, of length one or zero."""
        if not hasattr(self, "components_"):
            raise NotFitted(f"{self!r} has no vocabulary yet. Learn one first: .fit(texts).")
        texts = checked_texts(texts)
        vectors = []
        for block in row_blocks(len(texts), size=TEXTS_AT_ONCE):
            words = _of_vocabulary(*count_words(texts[block]), self.words_)
            parts = _of_vocabulary(*count_parts(texts[block]), self.parts_)
            vectors.append(unit_length(self._weighted([words, parts]) @ self.components_))
        return np.concatenate(vectors)

    def __call__(self, text: str) -> np.ndarray:
        return self.encode([text])[0]

    def _weighted(self, counts: list[sparse.csr_array]) -> sparse.csr_array:
        """TF-IDF; words and parts of words have the same weight."""
        start, parts = 0, []
        for part in counts:
            stop = start + part.shape[1]
            weights = (1 + np.log(part.data)) * self.idf_[start:stop][part.indices]
            weighted = sparse.csr_array((weights, part.indices, part.indptr), part.shape)
            lengths = np.sqrt(weighted.multiply(weighted).sum(axis=1))
            scale = np.repeat(1 / np.where(lengths > 0, lengths, 1.0), np.diff(weighted.indptr))
            weighted.data = (weighted.data * scale).astype(np.float32)
            parts.append(weighted)
            start = stop
        return sparse.hstack(parts, format="csr")

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "components_" in state:  # which may come from a file
            terms = [self.words_.tolist(), self.parts_.tolist()]
            n_terms = sum(len(set(some)) for some in terms)
            if not n_terms == sum(map(len, terms)) == len(self.idf_) == len(self.components_):
                raise ValueError("its terms are not different, or not as many as its weights")
            if not (np.isfinite(self.idf_).all() and np.isfinite(self.components_).all()):
                raise ValueError("its weights are not finite")


def count_words(texts: Sequence[str]) -> tuple[np.ndarray, sparse.csr_array]:
    """The words and pairs of words of some texts, and how often each text has each: (n_texts, n_terms) float32.

    >>> terms, counts = count_words(["My card, my CARD"])
    >>> dict(zip(terms.tolist(), counts.toarray()[0].astype(int).tolist()))
    {'my': 2, 'card': 2, 'my card': 2, 'card my': 1}
    """
    words = [WORD.findall(text.lower()) for text in texts]
    return _count([*some, *(f"{first} {second}" for first, second in pairwise(some))] for some in words)


def count_parts(texts: Sequence[str]) -> tuple[np.ndarray, sparse.csr_array]:
    """The character n-grams within the words of some texts, and how often each text has each, as ``count_words``.

    A word is what stands between spaces, and its n-grams see where it begins and ends. Each different word is cut once.

    >>> terms, counts = count_parts(["a a"])
    >>> dict(zip(terms.tolist(), counts.toarray()[0].astype(int).tolist()))
    {' a': 2, 'a ': 2, ' a ': 2}
    """
    words, in_texts = _count(text.lower().split() for text in texts)
    parts, in_words = _count(map(_parts, words.tolist()))
    return parts, in_texts @ in_words


def _parts(word: str) -> list[str]:
    edged = f" {word} "
    return [edged[at : at + size] for size in PART_SIZES for at in range(len(edged) - size + 1)]


def _count(texts: Iterable[Sequence[str]]) -> tuple[np.ndarray, sparse.csr_array]:
    """The different terms, in the order in which they first occur, and how often each text has each."""
    places: dict[str, int] = {}
    indices, ends = [], [0]
    for terms in texts:
        indices += [places.setdefault(term, len(places)) for term in terms]
        ends.append(len(indices))
    shape = len(ends) - 1, len(places)
    ones = np.ones(len(indices), np.float32)
    counts = sparse.csr_array((ones, np.array(indices, np.int32), np.array(ends, np.int32)), shape)
    counts.sum_duplicates()
    names = np.empty(len(places), object)
    names[:] = list(places)
    return names, counts


def _most_frequent(terms: np.ndarray, counts: sparse.csr_array, most: int) -> tuple[np.ndarray, sparse.csr_array]:
    """The terms that are used, in order, and their counts: of equally frequent ones those that come first."""
    least = 2 if counts.shape[0] >= ENOUGH_TEXTS else 1
    lengths = np.fromiter(map(len, terms), np.int64, len(terms))
    usable = np.flatnonzero((_texts_with_each(counts) >= least) & (lengths <= LONGEST_TERM))
    usable = np.array(sorted(usable.tolist(), key=terms.__getitem__), np.int64)
    often = counts.sum(axis=0)[usable]
    kept = np.sort(np.argsort(-often, kind="stable")[:most])
    vocabulary = terms[usable[kept]].astype(str) if len(kept) else np.empty(0, "<U1")
    return vocabulary, _of_vocabulary(terms, counts, vocabulary)


def _texts_with_each(counts: sparse.csr_array) -> np.ndarray:
    return np.bincount(counts.indices, minlength=counts.shape[1])


def _of_vocabulary(terms: np.ndarray, counts: sparse.csr_array, vocabulary: np.ndarray) -> sparse.csr_array:
    """Counts of the terms of a vocabulary, in its order, which is sorted."""
    short = np.flatnonzero([len(term) <= LONGEST_TERM for term in terms])  # no array is as wide as the longest text
    if len(short) and len(vocabulary):
        names = terms[short].astype(str)
        places = np.minimum(np.searchsorted(vocabulary, names), len(vocabulary) - 1)
        known = vocabulary[places] == names
        short, places = short[known], places[known]
    else:
        short = places = np.empty(0, np.int64)
    kept = counts[:, short]
    ordered = sparse.csr_array((kept.data, places[kept.indices], kept.indptr), (counts.shape[0], len(vocabulary)))
    ordered.sort_indices()
    return ordered


def main_directions(rows: sparse.csr_array, most: int) -> np.ndarray:
    """The directions in which rows differ most, widest first: (n_columns, n_directions) float32, of length one.

    A randomized SVD: the rows are first mapped to few directions that hold nearly all of them. There their products are
    a small matrix, whose eigenvectors take a fraction of the time of an SVD.
    """
    size = min(most + MORE_DIRECTIONS, *rows.shape)
    # On one thread the sums are made in one order.
    with one_blas_thread():
        basis = randomized_range_finder(
            rows.T, size=size, n_iter=POWER_ITERATIONS, power_iteration_normalizer="none", random_state=0
        )
        mapped = (rows @ basis).astype(np.float64)
        squares, inner = np.linalg.eigh(mapped.T @ mapped)
        # Directions in which no text lies are chance: there are some where texts repeat each other.
        wide = np.flatnonzero(squares > FAINTEST**2 * squares[-1])[::-1][:most]
        directions = basis @ inner[:, wide].astype(np.float32)
    # Of each direction and its reverse, the one whose largest number is positive.
    largest = directions[abs(directions).argmax(axis=0), np.arange(len(wide))]
    return np.ascontiguousarray(directions * np.sign(largest), np.float32)
