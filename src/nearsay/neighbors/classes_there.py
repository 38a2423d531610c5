"""Classes in order that are held where they were found, on a card: a posterior that can work there needs no copy.

card   how far each class is · the order · means of the nearest ──► posterior ──► probabilities
host   numbers, nearest, means: copied when someone asks for them
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from nearsay.errors import require
from nearsay.neighbors.class_order import NearestClasses

NAMES = ("numbers", "nearest", "means")


class ClassesThere(NearestClasses):
    """All classes of every query, as tensors; the arrays of ``NearestClasses`` are made when they are asked for.

    Attributes
    ----------
    by_class : (n_queries, n_classes) float64 tensor
        The distance of the nearest member of each class, +inf without any, in the order of class numbers.
    in_order : (n_queries, n_classes) int64 tensor of the classes, nearest first; −1 fills up.
    near_means : (n_queries, n_near, len(members)) float64 tensor
    """

    by_class: Any
    in_order: Any
    near_means: Any

    def __init__(self, by_class: Any, in_order: Any, near_means: Any, members: tuple[int, ...]) -> None:
        vars(self).update(by_class=by_class, in_order=in_order, near_means=near_means, members=members)

    @cached_property
    def numbers(self) -> np.ndarray:
        return np.asarray(self.in_order.cpu().numpy())

    @cached_property
    def nearest(self) -> np.ndarray:
        far = self.by_class.gather(1, self.in_order.clamp(min=0))
        return np.where(self.numbers >= 0, far.cpu().numpy(), np.inf)

    @cached_property
    def means(self) -> np.ndarray:
        return np.asarray(self.near_means.cpu().numpy())

    @cached_property
    def beyond(self) -> np.ndarray:
        return np.full(len(self), np.inf)

    def __len__(self) -> int:
        return len(self.by_class)

    def __getitem__(self, rows: slice | np.ndarray) -> ClassesThere:
        """The same for some of the queries."""
        here = self._lines(rows)
        return ClassesThere(self.by_class[here], self.in_order[here], self.near_means[here], self.members)

    def __setitem__(self, rows: slice | np.ndarray, some: NearestClasses) -> None:
        """Put what is known of some queries in their place."""
        torch, here = require("torch", "torch"), self._lines(rows)
        far = np.full((len(some), self.by_class.shape[1]), np.inf)
        line, place = np.nonzero(some.numbers >= 0)
        far[line, some.numbers[line, place]] = some.nearest[line, place]
        tensors = self.by_class, self.in_order, self.near_means
        for tensor, array in zip(tensors, (far, some.numbers, some.means), strict=True):
            tensor[here] = torch.from_numpy(array).to(tensor.device)
        for name in NAMES:
            vars(self).pop(name, None)

    def _lines(self, rows: slice | np.ndarray) -> Any:
        if isinstance(rows, slice):
            return rows
        torch = require("torch", "torch")
        return torch.from_numpy(np.arange(len(self))[rows]).to(self.by_class.device)

    def __reduce__(self) -> tuple[type[NearestClasses], tuple[Any, ...]]:
        """A copy, or one that travels to another process, holds arrays."""
        return NearestClasses, (*self.arrays, self.members)
