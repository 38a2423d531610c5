"""The mixed distance of a table with words and gaps, column by column and pair by pair; slow, without nearsay."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

LARGEST_SQUARE = 4.0


def squared_distance(table: Sequence[Sequence[Any]], a: Sequence[Any], b: Sequence[Any], min_rows: int) -> float:
    """How far apart two rows are, squared, as the rows of the table teach it: None is a gap."""
    return sum(
        _of_numbers([row[c] for row in table], a[c], b[c])
        if all(isinstance(row[c], float | None) for row in table)
        else _of_words([row[c] for row in table], a[c], b[c], min_rows)
        for c in range(len(a))
    )


def _of_numbers(column: list[float | None], a: float | None, b: float | None) -> float:
    """In standard deviations; a gap lies at the mean, and one mark away from every number where gaps are usual."""
    known = [x for x in column if x is not None]
    mean = sum(known) / len(known)
    deviation = math.sqrt(sum((x - mean) ** 2 for x in known) / len(known))
    mark = 1.0 if len(column) - len(known) >= 2 and (a is None) != (b is None) else 0.0
    away = [0.0 if x is None or deviation == 0 else (x - mean) / deviation for x in (a, b)]
    return (away[0] - away[1]) ** 2 + mark


def _of_words(column: list[str | None], a: str | None, b: str | None, min_rows: int) -> float:
    """0 between equal values, and otherwise as much as makes rows at random 2 apart, but no more than 4.

    Rare values are one, and so are gaps; a value that no row has lies in the middle of all rows.
    """
    counts = Counter(x for x in column if x is not None)
    values = [_value(x, counts, min_rows) for x in column if x is not None]
    n_gaps = column.count(None)
    if n_gaps >= 2:
        values += ["a gap"] * n_gaps
    share = {value: values.count(value) / len(values) for value in values}
    differ = sum(share[x] * share[y] for x in share for y in share if x != y)
    square = min(2 / differ, LARGEST_SQUARE) if differ > 0 else 2.0
    points = []
    for x in (a, b):
        value = "a gap" if x is None else _value(x, counts, min_rows)
        points.append({v: float(v == value) for v in share} if value in share else share)
    return square / 2 * sum((points[0][value] - points[1][value]) ** 2 for value in share)


def _value(word: str, counts: Counter[str | None], min_rows: int) -> str:
    return f"word {word}" if counts[word] >= min_rows else "a rare word"


def value_difference(column: list[str], labels: list[int], a: str, b: str, shrinkage: float) -> float:
    """How differently the classes are distributed behind two words, squared; rows of the usual shares are added."""
    classes = sorted(set(labels))
    usual = [labels.count(c) / len(labels) for c in classes]

    def shares(word: str) -> list[float]:
        of_word = [label for x, label in zip(column, labels, strict=True) if x == word]
        n = len(of_word)
        return [(of_word.count(c) + shrinkage * p) / (n + shrinkage) for c, p in zip(classes, usual, strict=True)]

    return sum((x - y) ** 2 for x, y in zip(shares(a), shares(b), strict=True))
