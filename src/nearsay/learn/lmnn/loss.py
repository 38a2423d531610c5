"""The LMNN loss: distances to targets, and violations of the margin to other classes.

    ε(M) = (1 − μ) Σ d²(i, j)  +  μ Σ [m + d²(i, j) − d²(i, l)]₊        d²(a, b) = (a − b)ᵀ M (a − b)
               targets j of i          and rows l of other classes

It is convex in M. Its slope is a sum of outer products of differences, which
a few matrix products give: Σ w_ab (a − b)(a − b)ᵀ = Xᵀ(diag(row + column sums of W) − W − Wᵀ)X.
"""

from __future__ import annotations

import numpy as np

from nearsay.core.arrays import evenly, row_blocks
from nearsay.core.parallel import in_parallel, one_blas_thread, thread_count
from nearsay.learn.lmnn.impostors import ImpostorLists


class LMNNLoss:
    """The loss of a map L, with M = LᵀL, and its gradient by M; fast for a sequence of similar maps.

    X : (n_rows, n_features) float64
    labels : (n_rows,) class numbers from 0
    targets : (n_rows, n_targets) row numbers of the same class; −1 where there is none
    push : weight μ of the second sum, from 0 to 1
    margins : (n_classes, n_classes) m for a row of one class and an impostor of the other, not negative
    n_rows : sum over so many rows i only, taken evenly from all classes; None for all
    groups : (n_rows,) a row l of the group of row i is no impostor; None where each row is a group of its own

    Two rows of one class at (0, 0) and (1, 0), one of another at (0, 1): targets cost 1 + 1, impostors (1 + 1 − 1)
    + (1 + 1 − 2), half of each counts.

    >>> X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> loss = LMNNLoss(X, np.array([0, 0, 1]), np.array([[1], [0], [-1]]), push=0.5, margins=np.ones((2, 2)))
    >>> loss(np.eye(2))
    (1.5, array([[ 1.5,  0. ],
                 [ 0. , -0.5]]))
    """

    def __init__(
        self,
        X: np.ndarray,
        labels: np.ndarray,
        targets: np.ndarray,
        *,
        push: float,
        margins: np.ndarray,
        n_rows: int | None = None,
        groups: np.ndarray | None = None,
    ) -> None:
        order = np.argsort(labels, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        self._X = np.ascontiguousarray(X[order] - X.mean(axis=0))  # short rows round less
        self._labels = labels[order]
        self._push, self._margins = push, margins
        rows = evenly(len(X), len(X) if n_rows is None else n_rows)
        # A row without targets is in neither sum, except as an impostor.
        self._rows = rows[(targets[order[rows]] >= 0).any(axis=1)]
        targets = targets[order[self._rows]]
        self._targets = np.where(targets >= 0, place[targets], -1)
        sizes = np.bincount(labels)
        stops = np.cumsum(sizes)
        of_class = (stops - sizes)[self._labels], stops[self._labels]
        self._lists = ImpostorLists(self._X, *of_class, self._rows, None if groups is None else groups[order])
        self._widest = margins.max(axis=1)[self._labels[self._rows]]
        with one_blas_thread():
            self._pull = scatter_of_targets(self._X, self._rows, self._targets)

    def __call__(self, L: np.ndarray) -> tuple[float, np.ndarray]:
        from nearsay.learn.lmnn.lmnn_kernels import measure_targets

        with one_blas_thread():
            Z = self._X @ L.T
            near = np.empty(self._targets.shape)
            measure_targets(Z, self._rows, self._targets, near)
            self._lists.follow(L, Z, np.sqrt(near.max(axis=1, initial=0.0) + self._widest))
            loss, slope = self._push_away(Z, near)
            pulled = float(near[self._targets >= 0].sum())
            return (1 - self._push) * pulled + self._push * loss, (1 - self._push) * self._pull + self._push * slope

    def _push_away(self, Z: np.ndarray, near: np.ndarray) -> tuple[float, np.ndarray]:
        """The second sum and its slope."""
        from nearsay.learn.lmnn.lmnn_kernels import push_away

        X, rows = self._X, self._rows
        losses, pulled = np.empty(len(rows)), np.empty((len(rows), X.shape[1]))

        def push(numbers: range) -> np.ndarray:
            balance = np.zeros(len(X))
            for number in numbers:
                block = self._lists.blocks[number]
                listed = self._lists.of_block(number)
                push_away(
                    Z,
                    X,
                    rows[block],
                    self._targets[block],
                    near[block],
                    self._labels,
                    self._margins,
                    *listed,
                    losses[block],
                    balance,
                    pulled[block],
                )
            return balance

        # Sums of whole numbers are the same in any order, so threads may take any blocks.
        n_shares = thread_count()
        balance = np.zeros(len(X))
        for part in in_parallel(push, [range(s, len(self._lists.blocks), n_shares) for s in range(n_shares)]):
            balance += part
        # In (i − j)(i − j)ᵀ − (i − l)(i − l)ᵀ the products of i with itself cancel.
        crossed = X[rows].T @ pulled
        slope = (X.T * balance) @ X - crossed - crossed.T
        return float(losses.sum()), slope


def scatter_of_targets(X: np.ndarray, rows: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Σ (i − j)(i − j)ᵀ over the ``targets`` j (n, n_targets) of the ``rows`` i (n,).

    >>> scatter_of_targets(np.array([[0.0, 0.0], [1.0, 2.0]]), np.array([0, 1]), np.array([[1], [-1]]))
    array([[1., 2.],
           [2., 4.]])
    """
    total = np.zeros((X.shape[1], X.shape[1]))
    for part in row_blocks(len(rows), row_bytes=8 * X.shape[1]):
        for column in targets[part].T:
            is_target = column >= 0
            apart = X[rows[part][is_target]] - X[column[is_target]]
            total += apart.T @ apart
    return total
