"""Candidates: the classes that stand for all of very many in each past case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nearsay.neighbors.class_order import NearestClasses


@dataclass(frozen=True)
class Candidates:
    """The classes that stand for all in each past case.

    numbers : (n_cases, n_candidates) class numbers; −1 fills up.
    offsets : (n_cases, n_candidates) the log of how many classes each stands for: 0 for one, −inf for none.
    truth : (n_cases,) the place of the true class among them.
    """

    numbers: np.ndarray
    offsets: np.ndarray
    truth: np.ndarray

    def __getitem__(self, lines: slice | np.ndarray) -> Candidates:
        return Candidates(self.numbers[lines], self.offsets[lines], self.truth[lines])

    @property
    def width(self) -> int:
        """How many candidates a case has, at most."""
        return int(self.numbers.shape[1])

    def take(self, of_classes: np.ndarray) -> np.ndarray:
        """What there is of each class (n_classes,), or of each case and class, for the candidates of each case."""
        numbers = np.maximum(self.numbers, 0)
        return of_classes[numbers] if of_classes.ndim == 1 else np.take_along_axis(of_classes, numbers, axis=1)

    def classes(self, near: NearestClasses, n_classes: int) -> NearestClasses:
        """The candidates alone in a table of all classes, numbered by their places; in the same order."""
        n, width = self.numbers.shape
        line = np.arange(n)[:, None]
        place = np.full((n, n_classes + 1), -1)  # the last column is for what only fills up
        place[line, np.where(self.numbers >= 0, self.numbers, n_classes)] = np.arange(width)
        place[:, n_classes] = -1
        places = place[line, near.numbers]  # −1 is the last column
        kept = np.argsort(places < 0, axis=1, kind="stable")[:, :width]
        places, nearest = (np.take_along_axis(each, kept, axis=1) for each in (places, near.nearest))
        return NearestClasses(places, np.where(places >= 0, nearest, np.inf), near.means, near.beyond, near.members)


def joined_candidates(parts: Sequence[Candidates]) -> Candidates:
    """The cases of several, one after the other; as wide as the widest."""
    width = max(part.width for part in parts)

    def side_by_side(arrays: Sequence[np.ndarray], value: float) -> np.ndarray:
        return np.concatenate([wider(each, width, value) for each in arrays])

    numbers = side_by_side([part.numbers for part in parts], -1)
    offsets = side_by_side([part.offsets for part in parts], -np.inf)
    return Candidates(numbers, offsets, np.concatenate([part.truth for part in parts]))


def wider(array: np.ndarray, width: int, value: float) -> np.ndarray:
    """An array with so many columns: a value fills up."""
    return np.pad(array, ((0, 0), (0, width - array.shape[1])), constant_values=value)
