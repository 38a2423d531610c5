"""ITML: the metric nearest to a prior one in which similar rows are near and dissimilar rows are far."""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from nearsay.core.arrays import as_rows
from nearsay.core.parallel import one_blas_thread
from nearsay.core.settings import check_number, check_randomness, check_whole
from nearsay.errors import InputError, unknown_name
from nearsay.learn.constraints import Pairs, class_distances, near_pairs, sample_pairs
from nearsay.learn.linear_map import LearnedMetric, factor, progress_bar
from nearsay.learn.whitening import around_class_means, power_of, trusted_covariance
from nearsay.taxonomy.taxonomy import Taxonomy

# Percentiles of the observed distances: the bounds for similar and for dissimilar pairs.
NEAR_AND_FAR = (5, 95)

# The inverse of a covariance to these powers: if rows are scaled by 2, the map is scaled by 1/2 to this power.
PRIORS = {"identity": 0.0, "covariance": 1.0, "within-class": 0.5}

# Pairs of classes nearer than this in a taxonomy are drawn together a little instead of being pushed apart.
NEXT_OF_KIN = 0.4


class ITML(LearnedMetric):
    """Information-theoretic metric learning (Davis, Kulis, Jain, Sra & Dhillon 2007).

    Of all metrics in which similar pairs of rows are nearer than u and dissimilar pairs farther than l (squared
    distances, with slack), the one closest to the prior, by the LogDet divergence. Found by cyclic projections onto the
    constraints.

    Parameters
    ----------
    gamma : float, default=0.002
        Weight of the constraints against the prior: near 0 the result is the prior, and with ``inf``
        there is no slack. With more constraints the best value is smaller.
    n_constraints : int, default=20000
        Pairs of rows, half similar, half dissimilar; fewer if there are not so many. Pairs of identical
        rows are left out.
    n_neighbors : int or None, default=20
        Pairs are a row and one of so many nearest rows of its class, or of other
        classes, in the prior metric. None draws any two rows, as the paper does.
    prior : {"identity", "covariance", "within-class"} or (n_features, n_features) array, default="identity"
        The matrix of the prior metric: the Euclidean one, the inverse of the covariance of all rows, the metric
        of ``WithinClassWhitening``, or a symmetric, positive definite matrix.
    bounds : (u, l) or None, default=None
        None takes the 5th and the 95th percentile of the squared distances of the pairs in the prior metric.
    max_iter : int, default=200
        Sweeps over all constraints at most. With 0 nothing is learned: the metric is the prior.
    tol : float, default=1e-3
        Stop when a sweep changes the dual variables by less than this share: Σ|λ − λ'| / Σ(λ + λ').
    taxonomy : Taxonomy or None, default=None
        Its nodes include every class. Rows of two classes that are close in it (``class_distances`` below 0.4)
        then also count as similar, with a bound between u and l that grows with the distance of the classes.
        It favors smaller mistakes.
    random_state : int, RandomState or None, default=0
        Chooses the pairs and their order.
    verbose : bool, default=False
        Show a progress bar on stderr.

    Attributes
    ----------
    components_ : (n_features, n_features)
        The symmetric square root of M.
    bounds_ : (u, l)
    n_iter_ : int
        Sweeps done.
    loss_curve_ : (``n_iter_`` + 1,)
        Minus the dual objective, which every projection lowers: 0 for the prior, then after every sweep.

    Examples
    --------
    The second column is noise, so it comes to count less than the first:

    >>> X = [[0, 0], [0, 4], [0, 8], [1, 1], [1, 5], [1, 9]]
    >>> itml = ITML(gamma=1.0, random_state=0).fit(X, ["a", "a", "a", "b", "b", "b"])
    >>> M = itml.get_mahalanobis_matrix()
    >>> bool(M[0, 0] > 5 * M[1, 1])
    True
    """

    def __init__(
        self,
        gamma: float = 0.002,
        *,
        n_constraints: int = 20_000,
        n_neighbors: int | None = 20,
        prior: Any = "identity",
        bounds: tuple[float, float] | None = None,
        max_iter: int = 200,
        tol: float = 1e-3,
        taxonomy: Taxonomy | None = None,
        random_state: int | np.random.RandomState | None = 0,
        verbose: bool = False,
    ) -> None:
        self.gamma = gamma
        self.n_constraints = n_constraints
        self.n_neighbors = n_neighbors
        self.prior = prior
        self.bounds = bounds
        self.max_iter = max_iter
        self.tol = tol
        self.taxonomy = taxonomy
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Learn from rows and their labels. A class of one row is allowed; it has no similar pairs.

        Parameters
        ----------
        X, y : (n_rows, n_features) rows, and their labels.
        groups : (n_rows,) hashable names, optional
            The group of each row, such as a patient or a writer: rows of one group are never a pair.
        """
        self._check_settings()
        X, unit, labels, classes, groups = self._labeled_rows(X, y, groups)
        random = check_randomness(self.random_state)
        with one_blas_thread():
            prior = prior_matrix(self.prior, X, labels)
            pairs = self._pairs(X @ factor(prior), labels, random, groups)
            if not len(pairs.first):
                raise InputError("All rows are of one group, so there is no pair to learn from. Pass several groups.")
            apart = self._apart(pairs, labels, classes)
            per_unit = unit ** -PRIORS[self.prior] if isinstance(self.prior, str) else 1.0
            squared = (unit * per_unit) ** 2  # what a squared distance is multiplied by
            bounds = None if self.bounds is None else (self.bounds[0] / squared, self.bounds[1] / squared)
            constraints, (near, far) = as_constraints(X, pairs, apart, prior, bounds)
            self.bounds_ = (near * squared, far * squared)
            self.components_ = factor(self._learn(prior, constraints)) * per_unit
        return self

    def _pairs(
        self,
        mapped: np.ndarray,
        labels: np.ndarray,
        random: np.random.RandomState,
        groups: np.ndarray | None = None,
    ) -> Pairs:
        if self.n_neighbors is None:
            return sample_pairs(labels, self.n_constraints, random, groups)
        return near_pairs(mapped, labels, self.n_constraints, self.n_neighbors, random, groups)

    def _apart(self, pairs: Pairs, labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """The distance of the classes of each pair: 0 for the same class, 1 for others, or that of the taxonomy."""
        if self.taxonomy is None:
            return np.where(pairs.similar, 0.0, 1.0)
        return class_distances(self.taxonomy, classes)[labels[pairs.first], labels[pairs.second]]

    def _learn(self, prior: np.ndarray, constraints: Constraints) -> np.ndarray:
        M, duals = prior, np.zeros(len(constraints.signs))
        losses = [0.0]
        change = 1.0
        with progress_bar("ITML", self.max_iter, self.verbose) as report:
            while change >= self.tol and len(losses) <= self.max_iter:
                before = duals
                M, duals = itml_sweep(M, constraints, self.gamma, duals)
                change = float(np.abs(duals - before).sum() / max((duals + before).sum(), math.ulp(0.0)))
                losses.append(itml_loss(M, prior, constraints, self.gamma, duals))
                report(done=len(losses) - 1, loss=losses[-1])
        self.n_iter_ = len(losses) - 1
        self.loss_curve_ = np.array(losses)
        if change >= self.tol and self.max_iter:
            warnings.warn(
                f"ITML stopped after {self.n_iter_} sweeps; the last one still changed the dual variables by"
                f" {change:.2g} of their sum, and tol is {self.tol:g}. Raise max_iter, or lower gamma.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return M

    def _check_settings(self) -> None:
        check_whole("n_constraints", self.n_constraints, least=1)
        if self.n_neighbors is not None:
            check_whole("n_neighbors", self.n_neighbors, least=1)
        check_whole("max_iter", self.max_iter, least=0)
        check_number("gamma", self.gamma, 0, math.inf, closed="right")
        check_number("tol", self.tol, 0, closed="right")
        if self.bounds is not None:
            check_bounds(self.bounds)


class Constraints(NamedTuple):
    """Bounds on the distances of pairs, in the order in which they are projected onto.

    differences : (n_constraints, n_features) of the two rows of each pair
    signs : (n_constraints,) +1 where they are similar, −1 where they are not
    targets : (n_constraints,) the largest squared distance of a similar pair, the smallest of a dissimilar one
    """

    differences: np.ndarray
    signs: np.ndarray
    targets: np.ndarray


def itml_sweep(
    M: np.ndarray, constraints: Constraints, gamma: float, duals: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The metric and the dual variables after one projection onto every constraint, in order.

    Two rows that differ by 2 should have a squared distance of at most 1, not 4. With gamma=1 distance
    and bound meet at 1.6; without slack the distance becomes 1:

    >>> close = Constraints(np.array([[2.0]]), np.array([1.0]), np.array([1.0]))
    >>> [itml_sweep(np.eye(1), close, gamma, np.zeros(1))[0].item() * 4 for gamma in (1.0, math.inf)]
    [1.599..., 1.000...]
    """
    from nearsay.learn.itml_kernels import sweep

    M, duals = np.array(M, np.float64, order="C"), duals.copy()
    sweep(M, *constraints, float(gamma), duals)
    return M, duals


def itml_loss(M: np.ndarray, prior: np.ndarray, constraints: Constraints, gamma: float, duals: np.ndarray) -> float:
    """Minus the dual objective: log det(M prior⁻¹) + gamma Σ log(ξ / target), where ξ is the target with its slack.

    It is convex in the dual variables; each step of a sweep lowers it. Without slack it is the limit for large gamma.

    >>> close = Constraints(np.array([[2.0]]), np.array([1.0]), np.array([1.0]))
    >>> M, duals = itml_sweep(np.eye(1), close, 1.0, np.zeros(1))
    >>> itml_loss(M, np.eye(1), close, 1.0, duals)  # log 0.4 + log 1.6
    -0.446...
    """
    volume = np.linalg.slogdet(M)[1] - np.linalg.slogdet(prior)[1]
    pull = constraints.signs * duals * constraints.targets
    slack = pull if math.isinf(gamma) else -gamma * np.log1p(-pull / gamma)
    return float(volume + slack.sum())


def as_constraints(
    X: np.ndarray, pairs: Pairs, apart: np.ndarray, prior: np.ndarray, bounds: tuple[float, float] | None
) -> tuple[Constraints, tuple[float, float]]:
    """The constraints of these pairs, those of identical rows left out, and the bounds (u, l).

    X : (n_rows, n_features)
    apart : (n_pairs,) distances of their classes: 0 for the same, up to 1
    prior : (n_features, n_features)
    bounds : (u, l), or None for percentiles of the squared distances in the prior metric

    >>> X, pairs = np.array([[0.0], [1.0], [3.0]]), Pairs(np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([1, 0, 0]))
    >>> constraints, _ = as_constraints(X, pairs, np.array([0, 1, 0.2]), np.eye(1), (1.0, 16.0))
    >>> constraints.signs, constraints.targets  # the classes of the last two rows are close
    (array([ 1., -1.,  1.]), array([ 1., 16.,  4.]))
    """
    differences = X[pairs.first] - X[pairs.second]
    differ = differences.any(axis=1)
    if not differ.any():
        raise InputError(f"All {len(X)} rows are the same, so there is no distance to learn. Pass rows that differ.")
    differences, apart = differences[differ], apart[differ]
    if bounds is None:
        squared = np.einsum("ij,ij->i", differences @ prior, differences)
        bounds = tuple(np.percentile(squared, NEAR_AND_FAR).tolist())
    near, far = bounds
    kin = apart < NEXT_OF_KIN
    targets = np.where(kin, (1 - apart) * near + apart * far, far)
    return Constraints(differences, np.where(kin, 1.0, -1.0), targets), (near, far)


def check_bounds(bounds: Any) -> None:
    """Raise InputError unless bounds are valid.

    >>> check_bounds((9.0, 1.0))
    Traceback (most recent call last):
    nearsay.errors.InputError: bounds are two squared distances, 0 < u <= l: similar pairs shall be nearer than u, ...
    """
    try:
        near, far = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        near, far = math.nan, math.nan
    if not 0 < near <= far < math.inf:
        raise InputError(
            "bounds are two squared distances, 0 < u <= l: similar pairs shall be nearer than u, dissimilar ones"
            f" farther than l; got {bounds!r}. None takes percentiles of the observed ones."
        )


def prior_matrix(prior: Any, X: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The matrix of a prior metric, named or given: symmetric and positive definite."""
    if isinstance(prior, str):
        if prior not in PRIORS:
            raise unknown_name("prior", prior, PRIORS, " You can also pass a matrix.")
        if prior == "identity":
            return np.eye(X.shape[1])
        centered = around_class_means(X, labels) if prior == "within-class" else X - X.mean(axis=0)
        return power_of(trusted_covariance(centered), -PRIORS[prior])
    M = np.array(as_rows(prior, name="prior", width=X.shape[1]), np.float64)
    if M.shape[0] != M.shape[1] or not np.allclose(M, M.T) or np.linalg.eigvalsh(M)[0] <= 0:
        raise InputError(
            f"A prior is a symmetric matrix with eigenvalues above 0, {X.shape[1]} × {X.shape[1]} as X has so many"
            f" columns; got one of shape {M.shape} that is not. Known names: {', '.join(PRIORS)}."
        )
    return (M + M.T) / 2
