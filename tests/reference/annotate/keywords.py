"""Keywords as sets and loops: measures word by word, relevance neighbor by neighbor."""

from __future__ import annotations

import math


def measures(true: list[set], said: list[set], words: list) -> dict[str, float]:
    precision, recall, found = [], [], 0
    for word in words:
        given = [i for i, keywords in enumerate(said) if word in keywords]
        have = [i for i, keywords in enumerate(true) if word in keywords]
        right = [i for i in given if i in have]
        precision.append(len(right) / len(given) if given else 0.0)
        if have:
            recall.append(len(right) / len(have))
        found += bool(right)
    p = sum(precision) / len(words)
    r = sum(recall) / len(recall) if recall else 0.0
    items = [len(t & s) / len(s) if s else 0.0 for t, s in zip(true, said, strict=True)]
    return {
        "precision": p,
        "recall": r,
        "f1": 2 * p * r / (p + r) if p + r else 0.0,
        "words_found": found,
        "precision_per_item": sum(items) / len(items),
    }


def average_precision(has: list[bool], score: list[float]) -> float:
    """The mean, over items that have the word, of the share of such items among those scored no lower."""
    shares = []
    for i in range(len(has)):
        if has[i]:
            seen = [j for j in range(len(has)) if score[j] >= score[i]]
            shares.append(sum(has[j] for j in seen) / len(seen))
    return sum(shares) / len(shares)


def relevance(
    kind: str, neighbors: list[int], distances: list[float], keywords: list[set], word, decay: float
) -> float:
    """What the neighbors of one query (−1: missing) say about one word."""
    there = [(row, d) for row, d in zip(neighbors, distances, strict=True) if row >= 0]
    share = sum(word in keyword_set for keyword_set in keywords) / len(keywords)
    if kind in ("rank", "exp-z"):
        weights = [decay**i for i, row in enumerate(neighbors) if row >= 0]
    elif kind == "distance":
        farther = [d - there[0][1] for _, d in there]
        mean = sum(farther) / max(len(farther) - 1, 1) if farther else 0.0
        weights = [math.exp(-far / (mean if mean > 0 else 1.0)) for far in farther]
    else:
        weights = [1.0] * len(there)
    vote = sum(weight for weight, (row, _) in zip(weights, there, strict=True) if word in keywords[row])
    if kind == "count":
        return vote
    if kind in ("rank", "distance"):
        return vote / sum(weights) if weights else 0.0
    more = vote - share * sum(weights)
    if kind == "prior":
        return more
    spread = math.sqrt(share * (1 - share) * sum(weight**2 for weight in weights))
    return more / spread if spread > 0 else 0.0


def joint_neighbors(
    distances: list[list[list[float]]], weights: list[float], scales: list[float], k: int, left_out: list[int] | None
) -> list[list[tuple[float, int]]]:
    """The k rows of least Σ weight · distance / scale for every query, as (distance, row); equal ones by row number.

    ``distances[space][query][row]``; a space of weight 0 has no part.
    """
    factors = [weight / sum(weights) / scale for weight, scale in zip(weights, scales, strict=True)]
    found = []
    for query in range(len(distances[0])):
        rows = []
        for row in range(len(distances[0][query])):
            total = 0.0
            for space, factor in zip(distances, factors, strict=True):
                if factor:
                    total += factor * space[query][row]
            rows.append((total, row))
        found.append(sorted(pair for pair in rows if left_out is None or pair[1] != left_out[query])[:k])
    return found
