"""Words and parts of words as vectors, learned from the texts of a collection: TF-IDF, reduced by an SVD.

    texts ──► counts of words and word pairs ───────┐
         └──► counts of character n-grams in words ─┴─► TF-IDF ──► main directions (SVD) ──► unit length

Needs nothing but scikit-learn. Character n-grams make "cards" and "card" alike, and forgive typing errors. What was
learned is arrays of texts and numbers: it is saved like all else, never as a pickle.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.utils.extmath import randomized_svd

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
WORD = r"(?u)\b\w+\b"
# By number of terms: words and pairs of them, character n-grams within words.
WORD_RANGE, PART_RANGE = (1, 2), (2, 4)
# A term of one text alone tells nothing about others, once there are enough texts.
ENOUGH_TEXTS = 1000
POWER_ITERATIONS = 1
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
        self.__dict__.pop("_counters", None)
        self.words_ = _vocabulary(texts, self.n_words, analyzer="word", token_pattern=WORD, ngram_range=WORD_RANGE)
        self.parts_ = _vocabulary(texts, self.n_parts, analyzer="char_wb", ngram_range=PART_RANGE)
        if not len(self.words_) + len(self.parts_):
            raise InputError(f"No text holds a word or a letter; the first is {texts[0][:40]!r}.")
        counts = self._counts(texts)
        n_with = np.concatenate([np.bincount(part.indices, minlength=part.shape[1]) for part in counts])
        self.idf_ = (np.log((1 + len(texts)) / (1 + n_with)) + 1).astype(np.float32)
        weighted = self._weighted(counts)
        n_columns = min(self.n_columns, *weighted.shape)
        # On one thread the sums are made in one order; the sign of a direction is fixed by scikit-learn.
        with one_blas_thread():
            _, spread, directions = randomized_svd(
                weighted, n_columns, n_iter=POWER_ITERATIONS, random_state=0, power_iteration_normalizer="LU"
            )
        # Directions in which no text lies are chance: there are some where texts repeat each other.
        kept = spread > FAINTEST * spread[0]
        self.components_ = np.ascontiguousarray(directions[kept].T, np.float32)
        return self

    def encode(self, texts: Iterable[str]) -> np.ndarray:
        """Vectors of many texts: (n, n_columns) float32, of length one or zero."""
        if not hasattr(self, "components_"):
            raise NotFitted(f"{self!r} has no vocabulary yet. Learn one first: .fit(texts).")
        texts = checked_texts(texts)
        blocks = row_blocks(len(texts), size=TEXTS_AT_ONCE)
        return np.concatenate([unit_length(self._weighted(self._counts(texts[b])) @ self.components_) for b in blocks])

    def __call__(self, text: str) -> np.ndarray:
        return self.encode([text])[0]

    @cached_property
    def _counters(self) -> list[CountVectorizer]:
        kinds: list[dict[str, Any]] = [
            {"analyzer": "word", "token_pattern": WORD, "ngram_range": WORD_RANGE},
            {"analyzer": "char_wb", "ngram_range": PART_RANGE},
        ]
        vocabularies = (self.words_.tolist(), self.parts_.tolist())
        return [
            CountVectorizer(vocabulary={term: place for place, term in enumerate(terms)}, dtype=np.float32, **kind)
            for kind, terms in zip(kinds, vocabularies, strict=True)
            if terms
        ]

    def _counts(self, texts: list[str]) -> list[sparse.csr_matrix]:
        return [counter.transform(texts) for counter in self._counters]

    def _weighted(self, counts: list[sparse.csr_matrix]) -> sparse.csr_matrix:
        """TF-IDF; words and parts of words have the same weight."""
        start, parts = 0, []
        for part in counts:
            stop = start + part.shape[1]
            weighted = part.copy()
            weighted.data = (1 + np.log(weighted.data)) * self.idf_[start:stop][weighted.indices]
            lengths = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
            scale = np.repeat(1 / np.where(lengths > 0, lengths, 1.0), np.diff(weighted.indptr))
            weighted.data = (weighted.data * scale).astype(np.float32)
            parts.append(weighted)
            start = stop
        return sparse.hstack(parts, format="csr")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_counters"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "components_" in state:  # which may come from a file
            terms = [self.words_.tolist(), self.parts_.tolist()]
            n_terms = sum(len(set(some)) for some in terms)
            if not n_terms == sum(map(len, terms)) == len(self.idf_) == len(self.components_):
                raise ValueError("its terms are not different, or not as many as its weights")
            if not (np.isfinite(self.idf_).all() and np.isfinite(self.components_).all()):
                raise ValueError("its weights are not finite")


def _vocabulary(texts: list[str], most: int, **kind: Any) -> np.ndarray:
    """The most frequent terms, sorted; none where the texts hold none."""
    counter = CountVectorizer(max_features=most, min_df=2 if len(texts) >= ENOUGH_TEXTS else 1, **kind)
    try:
        counter.fit(texts)
    except ValueError:  # an empty vocabulary
        return np.empty(0, "<U1")
    terms = sorted(term for term in counter.vocabulary_ if len(term) <= LONGEST_TERM)
    return np.array(terms) if terms else np.empty(0, "<U1")
