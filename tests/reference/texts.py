"""Words and character n-grams of texts, counted one by one in dictionaries."""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import pairwise

import numpy as np


def words_and_pairs(text: str) -> list[str]:
    words = re.findall(r"\b\w+\b", text.lower())
    return words + [" ".join(pair) for pair in pairwise(words)]


def parts_of_words(text: str) -> list[str]:
    """Every 2 to 4 characters of every word with a blank at each side; a word that is shorter counts once."""
    parts = []
    for word in text.lower().split():
        padded = f" {word} "
        for n in range(2, 5):
            parts += [padded[at : at + n] for at in range(max(len(padded) - n, 0) + 1)]
            if n >= len(padded):
                break
    return parts


def tf_idf(texts: list[str], queries: list[str]) -> np.ndarray:
    """Rows of the queries: words and parts of words side by side, each of length one, in the order of sorted terms."""
    blocks = []
    for terms_of in (words_and_pairs, parts_of_words):
        n_with = Counter(term for text in texts for term in set(terms_of(text)))
        terms = sorted(n_with)
        idf = {term: math.log((1 + len(texts)) / (1 + n_with[term])) + 1 for term in terms}
        rows = []
        for query in queries:
            counts = Counter(term for term in terms_of(query) if term in idf)
            row = [(1 + math.log(counts[term])) * idf[term] if counts[term] else 0.0 for term in terms]
            length = math.sqrt(sum(value**2 for value in row))
            rows.append([value / (length or 1.0) for value in row])
        blocks.append(np.array(rows).reshape(len(queries), len(terms)))
    return np.hstack(blocks)
