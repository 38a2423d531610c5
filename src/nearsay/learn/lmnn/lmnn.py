"""LMNN: a metric in which rows of one class are near each other and rows of other classes keep a margin."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from nearsay.core.parallel import one_blas_thread
from nearsay.core.settings import check_number, check_whole
from nearsay.errors import InputError
from nearsay.learn.constraints import class_distances
from nearsay.learn.linear_map import LearnedMetric, factor, progress_bar
from nearsay.learn.lmnn.solve import LMNNProblem, mixed_with_euclidean, solve
from nearsay.learn.lmnn.targets import target_neighbors
from nearsay.taxonomy.taxonomy import Taxonomy

# Margins are proportional to this plus the distance of two classes: the largest is at most three times the smallest.
MARGIN_OF_TWINS = 0.5


class LMNN(LearnedMetric):
    """Large margin nearest neighbors (Weinberger & Saul 2009).

    A row should be near its targets, the ``n_neighbors`` nearest rows of its class by Euclidean distance, and farther
    from every row of another class than from its targets, by a margin:

        (1 − push) Σ d²(i, j)  +  push Σ [margin + d²(i, j) − d²(i, l)]₊

    over all rows i, targets j and rows l of other classes. This is convex in M = LᵀL. The unit of X does not matter: M
    for c·X is that for X divided by c², so learned distances are the same.

    Parameters
    ----------
    n_neighbors : int, default=3
        Targets of a row; fewer in a smaller class. With many rows a class, about as many targets as neighbors
        that vote are better, and take longer.
    push : float above 0, at most 1, default=0.5
        Weight of the second sum.
    margin : float, default=1.0
        The unit of learned squared distances: M is proportional to it. Nothing else
        depends on it (unless the descent is stopped early).
    max_iter : int, default=200
        Steps at most. With 0 nothing is learned: the metric is the Euclidean one.
    tol : float, default=1e-4
        Stop when five steps together lower the loss by less than this share of it.
    n_components : int, optional
        Dimensions after the map. If given, the problem is no longer convex, and the
        descent starts from the principal components. None: as many as X has columns.
    shrinkage : float from 0 to 1, default=0.0
        Share of the Euclidean metric (in the scale in which targets are as far) that is mixed into M in the end. With
        few rows a class and many columns, a share such as ⅓ avoids overfitting. Not together with ``n_components``.
    taxonomy : Taxonomy, optional
        Its nodes include every class. Classes far apart in it then need a larger margin than close ones, with the
        same mean over all: confusing them is the worse mistake.
    verbose : bool, default=False
        Show a progress bar on stderr.

    Attributes
    ----------
    components_ : (n_components, n_features)
        L; symmetric unless ``n_components`` was given. Where no rows differ it is a multiple of the identity.
    n_iter_ : int
        Steps over all rows. With 2,000 rows or more the first of them includes many steps over some of the rows.
    loss_curve_ : (``n_iter_`` + 1,)
        The loss over all rows, targets and impostors at the Euclidean metric (in a scale good for a start) and after
        every step; it never rises. ``shrinkage`` comes after it.

    A class of a single row has no targets; its row only acts as an impostor.

    Examples
    --------
    Only the first column separates the classes. In it, targets are at distance 1 and the next impostors at 2, so that
    the margin is met from 1 + m = 4m on:

    >>> X = [[0, 0], [1, 3], [0, 6], [3, 1], [4, 4], [3, 7]]
    >>> lmnn = LMNN(n_neighbors=1).fit(X, ["a", "a", "a", "b", "b", "b"])
    >>> lmnn.get_mahalanobis_matrix().round(2) + 0.0
    array([[0.33, 0.  ],
           [0.  , 0.  ]])
    """

    def __init__(
        self,
        n_neighbors: int = 3,
        *,
        push: float = 0.5,
        margin: float = 1.0,
        max_iter: int = 200,
        tol: float = 1e-4,
        n_components: int | None = None,
        shrinkage: float = 0.0,
        taxonomy: Taxonomy | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.push = push
        self.margin = margin
        self.max_iter = max_iter
        self.tol = tol
        self.n_components = n_components
        self.shrinkage = shrinkage
        self.taxonomy = taxonomy
        self.verbose = verbose

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Learn the map from rows and their labels.

        Parameters
        ----------
        X, y : (n_rows, n_features) rows, and their labels.
        groups : (n_rows,) hashable names, optional
            The group of each row, such as a patient or a writer: no row is a target or an impostor of
            rows of its group.
        """
        X, unit, labels, classes, groups = self._labeled_rows(X, y, groups)
        self._check_parameters(X.shape[1])
        targets = target_neighbors(X, labels, min(self.n_neighbors, len(X) - 1), groups)
        if (targets < 0).all():
            raise InputError(
                f"Each of the {len(classes)} classes has a single row{'' if groups is None else ', or group of rows'},"
                " so no row has a target to be near. Pass at least one class of two."
            )
        axes = np.eye(X.shape[1]) if self.n_components is None else _principal_axes(X, self.n_components)
        problem = LMNNProblem(X, labels, targets, self.push, self._margins(classes), groups)
        with progress_bar("LMNN", self.max_iter, self.verbose) as report:
            descent = solve(problem, axes, max_iter=self.max_iter, tol=self.tol, report=report)
        self.components_ = descent.point.copy()
        if self.n_components is None:
            M = descent.point.T @ descent.point
            self.components_ = factor(mixed_with_euclidean(M, problem, self.shrinkage) if self.shrinkage else M)
        self.components_ /= unit
        self.n_iter_ = len(descent.curve) - 1
        self.loss_curve_ = np.array(descent.curve)
        if not descent.converged:
            warnings.warn(
                f"LMNN stopped after {self.n_iter_} steps with the loss still falling."
                f" Raise max_iter={self.max_iter}, or accept a larger tol={self.tol:g}.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _margins(self, classes: np.ndarray) -> np.ndarray:
        """The margin between every two classes: (n_classes, n_classes)."""
        if self.taxonomy is None:
            return np.full((len(classes), len(classes)), float(self.margin))
        grown = MARGIN_OF_TWINS + class_distances(self.taxonomy, classes)
        mean = grown[~np.eye(len(classes), dtype=bool)].mean()
        np.fill_diagonal(grown, mean)
        return self.margin * grown / mean

    def _check_parameters(self, n_features: int) -> None:
        check_whole("n_neighbors", self.n_neighbors, least=1)
        check_whole("max_iter", self.max_iter, least=0)
        if self.n_components is not None:
            check_whole("n_components", self.n_components, least=1, most=n_features)
        check_number("push", self.push, 0, 1, closed="right")
        check_number("margin", self.margin, 0, closed="right")
        check_number("shrinkage", self.shrinkage, 0, 1)
        check_number("tol", self.tol, 0)
        if self.shrinkage and self.n_components is not None:
            raise InputError(
                f"shrinkage={self.shrinkage!r} mixes in the Euclidean metric of all {n_features} dimensions,"
                f" but got n_components={self.n_components!r} too. Set one of the two."
            )


def _principal_axes(X: np.ndarray, n_components: int) -> np.ndarray:
    """The directions in which the rows vary most: (n_components, n_features), each with its largest entry positive."""
    with one_blas_thread():
        centered = X - X.mean(axis=0)
        axes = np.linalg.eigh(centered.T @ centered)[1].T[::-1][:n_components]
    signs = np.sign(axes[np.arange(n_components), np.abs(axes).argmax(axis=1)])
    return np.ascontiguousarray(axes * signs[:, None])
