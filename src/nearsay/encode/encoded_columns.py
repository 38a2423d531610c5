"""One column of a table as columns of numbers, whose squared differences add up to a mixed distance.

number   standardized, or as its normal score      two rows at random are √2 apart, on average over squares
word     one column a value, 0 or a height         two different values are as far apart as suits their number
gap      the mean, and a mark of height 1          as far from a value as two rows at random, 0 from another gap
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from nearsay.encode.column_quantiles import ColumnQuantiles
from nearsay.encode.table_columns import gaps_of

# Two different words are at most this far apart, squared: a rare one would be ever farther.
LARGEST_SQUARE = 4.0
# From this skewness on numbers are measured by ranks: a few far out would hide how the others differ.
SKEWED = 2.0
# Gaps in fewer rows teach nothing: they are filled, and not marked.
GAPS_TO_MARK = 2


@dataclass(frozen=True, eq=False)
class NumberColumn:
    """Numbers, standardized or as their normal scores, and a mark for gaps where ``fit`` met some.

    center, scale : what becomes 0, and what becomes 1 away from it; of normal scores, where there are quantiles.
    quantiles : ColumnQuantiles of the column, or None.
    """

    name: str
    center: float
    scale: float
    quantiles: ColumnQuantiles | None
    marks_gaps: bool
    is_date: bool = False

    @classmethod
    def of(cls, name: str, cells: np.ndarray, by: str, *, is_date: bool) -> NumberColumn:
        """Learn from numbers of which at least two differ; ``by`` is "standardized", "ranks" or "auto"."""
        gaps = np.isnan(cells)
        known = cells[~gaps]
        ranks = by == "ranks" or (by == "auto" and is_skewed(known))
        quantiles = ColumnQuantiles.of(known[:, None]) if ranks else None
        measured = known if quantiles is None else quantiles.normal_scores(known[:, None]).ravel()
        # Halved, so that the sum of very large numbers stays finite.
        center = float((measured / 2).mean() * 2)
        largest = float(np.abs(measured - center).max())
        # Where only gaps differ, no number is away from another.
        scale = float(np.sqrt(np.mean(((measured - center) / largest) ** 2)) * largest) if largest > 0 else np.inf
        return cls(name, center, scale, quantiles, int(gaps.sum()) >= GAPS_TO_MARK, is_date)

    @property
    def outputs(self) -> list[str]:
        """Names of the columns that it becomes."""
        return [self.name, *([f"{self.name} is missing"] if self.marks_gaps else [])]

    def encode(self, cells: np.ndarray) -> np.ndarray:
        """(n_rows, n_outputs)"""
        gaps = np.isnan(cells)
        numbers = np.where(gaps, 0.0, cells)
        if self.quantiles is not None:
            numbers = self.quantiles.normal_scores(numbers[:, None]).ravel()
        encoded = np.where(gaps, 0.0, (numbers - self.center) / self.scale)
        return np.column_stack([encoded, gaps]) if self.marks_gaps else encoded[:, None]


@dataclass(frozen=True, eq=False)
class WordColumn:
    """Words, each value a column; values of few rows share one, and gaps have one where ``fit`` met some.

    A word that ``fit`` did not meet counts as a rare one; where there was none, it lies in the middle of all rows.

    values : (n_values,) texts, the most frequent first.
    shares : (n_codes,) how frequent each value is, then rare ones together, then gaps.
    height : what stands in the column of a row's value; two different values are √2 times as far apart.
    """

    name: str
    values: np.ndarray
    shares: np.ndarray
    has_rare: bool
    has_gaps: bool
    height: float

    @classmethod
    def of(cls, name: str, cells: np.ndarray, min_rows: int, max_values: int) -> WordColumn:
        """Learn from words."""
        counts = Counter(cell for cell in cells if cell is not None)
        ordered = sorted(counts, key=lambda word: (-counts[word], word))
        values = [word for word in ordered[:max_values] if counts[word] >= min_rows]
        n_gaps = int(gaps_of(cells).sum())
        n_rare = sum(counts.values()) - sum(counts[word] for word in values)
        has_gaps = n_gaps >= GAPS_TO_MARK
        numbers = [*(counts[word] for word in values), *([n_rare] if n_rare else []), *([n_gaps] if has_gaps else [])]
        shares = np.array(numbers, np.float64) / sum(numbers)
        differ = 1.0 - float((shares**2).sum())  # of two rows at random, how often
        height = np.sqrt(min(1.0 / differ, LARGEST_SQUARE / 2)) if differ > 0 else 1.0
        return cls(name, np.array(values, dtype=str), shares, bool(n_rare), has_gaps, float(height))

    @property
    def outputs(self) -> list[str]:
        """Names of the columns that it becomes."""
        rare = [f"{self.name} is rare"] if self.has_rare else []
        gaps = [f"{self.name} is missing"] if self.has_gaps else []
        return [*(f"{self.name}={value}" for value in self.values), *rare, *gaps]

    def codes(self, cells: np.ndarray) -> np.ndarray:
        """The number of the value of each row: rare ones and gaps behind, −1 for a word or a gap not met before."""
        place: dict[str | None, int] = {word: code for code, word in enumerate(self.values.tolist())}
        rare = len(place) if self.has_rare else -1
        place[None] = len(self.shares) - 1 if self.has_gaps else -1
        return np.array([place.get(cell, rare) for cell in cells], np.int64)

    def encode(self, cells: np.ndarray) -> np.ndarray:
        """(n_rows, n_outputs)"""
        codes = self.codes(cells)
        by_code = np.vstack([np.eye(len(self.shares)), self.shares])  # −1 is the last: the middle
        return np.asarray(by_code[codes] * self.height)


EncodedColumn = NumberColumn | WordColumn


def is_skewed(numbers: np.ndarray) -> bool:
    """Whether a few numbers lie far out on one side.

    >>> is_skewed(np.array([1.0, 2.0, 3.0])), is_skewed(np.r_[np.zeros(50), 90.0, 99.0])
    (False, True)
    """
    centered = numbers / max(float(np.abs(numbers).max(initial=0.0)), 1e-300)
    centered = centered - centered.mean()
    spread = centered.std()
    return bool(spread > 0 and abs(np.mean((centered / spread) ** 3)) > SKEWED)
