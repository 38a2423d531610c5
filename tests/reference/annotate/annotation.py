"""The baselines of annotation as loops, straight from the definitions: one query, one word, one row at a time."""

from __future__ import annotations

from collections.abc import Sequence

Table = Sequence[Sequence[float]]


def joint_order(
    distances: Sequence[Sequence[float]], scales: Sequence[float], weights: Sequence[float]
) -> list[tuple[float, int]]:
    """Rows by Σ weight · distance / scale; ``distances`` are those of one query, space by space."""
    n_rows = len(distances[0])
    total = [sum(w / s * d[row] for d, s, w in zip(distances, scales, weights, strict=True)) for row in range(n_rows)]
    return sorted((round(total[row], 12), row) for row in range(n_rows))


def transferred(neighbors: Sequence[int], keywords: Sequence[set[int]], n_words: int, n: int) -> list[int]:
    """Makadia's transfer: at most ``n`` words of the nearest by frequency, then filled up from the other neighbors."""
    frequency = [sum(word in words for words in keywords) for word in range(n_words)]
    nearest, *others = [keywords[row] for row in neighbors if row >= 0] or [set()]
    chosen = sorted(nearest, key=lambda word: (-frequency[word], word))[:n]

    def goes_with(word: int) -> float:
        if not nearest:
            return 1.0
        return sum(
            sum(word in words and given in words for words in keywords) / frequency[given] for given in sorted(nearest)
        )

    def place(word: int) -> tuple[float, ...]:
        local = sum(word in words for words in others)
        return (-round(goes_with(word) * local, 9), -local, -frequency[word], word)

    rest = sorted((word for word in range(n_words) if word not in nearest), key=place)
    return chosen + rest[: n - len(chosen)]


def first_pass(in_order: Sequence[int], keywords: Sequence[set[int]], n_words: int, per_word: int) -> list[int]:
    """The rows that are among the first ``per_word`` of some word, in their order."""
    kept: set[int] = set()
    for word in range(n_words):
        kept |= set([row for row in in_order if word in keywords[row]][:per_word])
    return [row for row in in_order if row in kept]


def ml_knn(
    own_neighbors: Sequence[Sequence[int]],
    neighbors: Sequence[Sequence[int]],
    keywords: Sequence[set[int]],
    n_words: int,
    smoothing: float,
) -> list[list[float]]:
    """Zhang and Zhou (2007), Fig. 1: P(word) of every query."""
    k, m = len(neighbors[0]), len(keywords)

    def votes(rows: Sequence[int], word: int) -> int:
        return sum(word in keywords[row] for row in rows)

    answers = []
    for rows in neighbors:
        line = []
        for word in range(n_words):
            prior = (smoothing + sum(word in words for words in keywords)) / (2 * smoothing + m)
            with_word, without = [0] * (k + 1), [0] * (k + 1)
            for i in range(m):
                (with_word if word in keywords[i] else without)[votes(own_neighbors[i], word)] += 1
            v = votes(rows, word)
            p_has = prior * (smoothing + with_word[v]) / (smoothing * (k + 1) + sum(with_word))
            p_lacks = (1 - prior) * (smoothing + without[v]) / (smoothing * (k + 1) + sum(without))
            line.append(p_has / (p_has + p_lacks))
        answers.append(line)
    return answers


def pairs_sharing(keywords: Sequence[set[int]], least: int) -> list[tuple[int, int]]:
    n = len(keywords)
    return [(i, j) for i in range(n) for j in range(i + 1, n) if len(keywords[i] & keywords[j]) >= least]
