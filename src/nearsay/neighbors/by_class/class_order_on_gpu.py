"""Classes in order that stay on the GPU: a posterior that works there needs no copy.

GPU    distance of each class · order · means of the nearest ──► posterior ──► probabilities
CPU    numbers, nearest, means: copied on first use
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from nearsay.errors import require
from nearsay.neighbors.class_order import NearestClasses
from nearsay.search.gpu.classes import in_order

# Cached copies of the tensors.
COPIES = ("_in_order", "numbers", "nearest", "means")


class ClassesOnGpu(NearestClasses):
    """All classes of every query, as tensors; the arrays of ``NearestClasses`` are copied on first use.

    by_class : (n_queries, n_classes) float64 tensor, the distance of the nearest member of each class, +inf without
        any, in the order of class numbers.
    rows : (n_queries, n_classes) int32 tensor of these members; they decide between classes that are equally far.
    near : (n_queries, n_near) int64 tensor of the nearest classes, in order, padded with −1.
    near_means : (n_queries, n_near, len(members)) float64 tensor
    """

    by_class: Any
    rows: Any
    near: Any
    near_means: Any

    def __init__(self, by_class: Any, rows: Any, near: Any, near_means: Any, members: tuple[int, ...]) -> None:
        vars(self).update(by_class=by_class, rows=rows, near=near, near_means=near_means, members=members)

    @property
    def tensors(self) -> tuple[Any, Any, Any, Any]:
        return self.by_class, self.rows, self.near, self.near_means

    @cached_property
    def _in_order(self) -> tuple[Any, Any]:
        return in_order(require("torch", "torch"), self.rows, self.by_class)

    @cached_property
    def numbers(self) -> np.ndarray:
        return np.asarray(self._in_order[0].cpu().numpy())

    @cached_property
    def nearest(self) -> np.ndarray:
        return np.asarray(self._in_order[1].cpu().numpy())

    @cached_property
    def means(self) -> np.ndarray:
        return np.asarray(self.near_means.cpu().numpy())

    @cached_property
    def beyond(self) -> np.ndarray:
        return np.full(len(self), np.inf)

    def __len__(self) -> int:
        return len(self.by_class)

    def __getitem__(self, rows: slice | np.ndarray) -> ClassesOnGpu:
        """The same for some of the queries."""
        lines = self._lines(rows)
        by_class, of_rows, near, means = (tensor[lines] for tensor in self.tensors)
        return ClassesOnGpu(by_class, of_rows, near, means, self.members)

    def __setitem__(self, rows: slice | np.ndarray, some: NearestClasses) -> None:
        """Replace the lines of some queries."""
        torch, lines = require("torch", "torch"), self._lines(rows)
        far, order = np.full((len(some), self.by_class.shape[1]), np.inf), np.full((len(some), self.rows.shape[1]), -1)
        line, place = np.nonzero(some.numbers >= 0)
        far[line, some.numbers[line, place]] = some.nearest[line, place]
        order[line, some.numbers[line, place]] = place  # instead of row numbers: they only break ties of a query
        near = some.numbers[:, : self.near.shape[1]]
        for tensor, array in zip(self.tensors, (far, order, near, some.means), strict=True):
            tensor[lines] = torch.from_numpy(np.ascontiguousarray(array)).to(tensor)
        for name in COPIES:
            vars(self).pop(name, None)

    def _lines(self, rows: slice | np.ndarray) -> Any:
        if isinstance(rows, slice):
            return rows
        torch = require("torch", "torch")
        return torch.from_numpy(np.arange(len(self))[rows]).to(self.by_class.device)

    def __reduce__(self) -> tuple[type[NearestClasses], tuple[Any, ...]]:
        """A copy, or one in another process, holds arrays."""
        return NearestClasses, (*self.arrays, self.members)
