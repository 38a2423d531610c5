"""Within-class whitening: directions of large variance within classes count less."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils.validation import _check_sample_weight

from nearsay.core.parallel import one_blas_thread
from nearsay.core.settings import check_number
from nearsay.errors import InputError
from nearsay.learn.linear_map import LearnedMetric, class_numbers, factor, in_units, varying_columns


class WithinClassWhitening(LearnedMetric):
    """The metric M = S^(−power), where S is the covariance of rows around the mean of their class.

    At ``power=1`` classes have the same variance in all directions, as in RCA and LDA; ½ is often better for neighbors.
    Closed form, with few parameters: a baseline for other learned metrics.

    With ``pull`` the squared distance has a second term: the difference of the two rows' class scores by linear
    regression. With many columns that helps much.

    Parameters
    ----------
    power : float, default=0.5
        From 0, the Euclidean metric, to 1.
    pull : float, default=0.0
        Weight of the second term: at 1 both terms have the same mean over all pairs of rows. Try 0.3 to 3.
    shrinkage : "auto" or float, default="auto"
        S is mixed with this share, from 0 to 1, of the identity times the mean variance. It decides how much directions
        without variance within classes count, for example with more columns than rows. "auto" is the share of Ledoit
        and Wolf, which is small if rows are many. Constant columns are left out of both; a query that differs in one is
        measured as if the column had mean variance.

    Attributes
    ----------
    components_ : (n_features, n_features)
        The symmetric square root of M; without ``pull``, the identity where no row differs from others of its class.
    shrinkage_ : float
        The share of the identity that was mixed in.

    Examples
    --------
    Within a class the second column has 16 times the variance, so it counts a quarter:

    >>> X, y = [[0, 0], [0, 8], [2, 0], [2, 8], [9, 4], [9, 12], [11, 4], [11, 12]], [0, 0, 0, 0, 1, 1, 1, 1]
    >>> WithinClassWhitening(shrinkage=0).fit(X, y).get_mahalanobis_matrix().round(3)
    array([[1.  , 0.  ],
           [0.  , 0.25]])
    """

    def __init__(self, power: float = 0.5, *, pull: float = 0.0, shrinkage: float | str = "auto") -> None:
        self.power = power
        self.pull = pull
        self.shrinkage = shrinkage

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows and their labels. A class of one row is allowed; it adds nothing.

        Parameters
        ----------
        X : (n_rows, n_features)
        y : (n_rows,) labels
        sample_weight : (n_rows,), optional
            A row of weight 3 counts as three such rows, one of weight 0 not at all. Shrinkage "auto" goes by the
            total weight, so weights that sum to 1 are taken for a single row: scale them to the number of rows.
        """
        check_number("power", self.power, 0, 1)
        check_number("pull", self.pull, 0)
        auto = isinstance(self.shrinkage, str) and self.shrinkage == "auto"
        if not auto:
            check_number("shrinkage", self.shrinkage, 0, 1, otherwise=', or "auto"')
        X, y = self._checked_rows_and_labels(X, y)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        counts = weights > 0
        if not counts.any():  # scikit-learn before 1.8 lets it pass
            raise InputError("Every sample_weight is 0; pass weights of which some are positive.")
        labels, _ = class_numbers(y[counts])
        X, weights = X[counts], weights[counts]
        n_features = X.shape[1]
        varying = varying_columns(X)
        varying = varying if len(varying) else np.arange(n_features)
        X, unit = in_units(X[:, varying])
        with one_blas_thread():
            centered = around_class_means(X, labels, weights)
            plain = covariance(centered, weights)
            self.shrinkage_ = ledoit_wolf(centered, weights, plain) if auto else float(self.shrinkage)
            within = shrunk(plain, self.shrinkage_)
            if self.pull:
                M = power_of(within, -self.power)
                root = factor(M + self.pull * pulling_metric(X, labels, weights, like=M))
            else:
                root = power_of(within, -self.power / 2)
        of_constant = (within.trace() / len(within) or 1.0) ** (-self.power / 2)
        self.components_ = of_constant * np.eye(n_features)
        self.components_[np.ix_(varying, varying)] = root
        self.components_ *= unit**-self.power
        return self


def pulling_metric(
    X: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None, *, like: np.ndarray
) -> np.ndarray:
    """The metric of the distance between class scores by linear regression: (n_features, n_features).

    With E a column of ones and zeros for every class and B = C⁻¹ Xᵀ E / n the regression on them, X centered
    and C its covariance as Ledoit and Wolf shrink it, it is BBᵀ. Squared distances have
    the mean, over all pairs of rows, that they have in the metric ``like``.

    labels : (n_rows,) the number of each row's class
    weights : (n_rows,) positive; 1 by default

    The second column does not separate the classes:

    >>> X, labels = np.array([[0.0, 0.0], [0.0, 4.0], [2.0, 0.0], [2.0, 4.0]]), np.array([0, 0, 1, 1])
    >>> pulling_metric(X, labels, like=np.eye(2)).round(2)  # variances 1 and 4, now all in the first
    array([[5., 0.],
           [0., 0.]])
    """
    weights = np.ones(len(X)) if weights is None else weights
    centered = X - np.average(X, axis=0, weights=weights)
    sums = class_sums(centered, labels, weights)
    # Class means that differ by rounding only are the same.
    sums[np.abs(sums) <= np.finfo(np.float64).eps * weights.sum() * np.abs(X).max()] = 0.0
    plain = covariance(centered, weights)
    inverse = power_of(shrunk(plain, ledoit_wolf(centered, weights, plain)), -1.0)
    B = inverse @ sums.T
    M: np.ndarray = B @ B.T
    mean = np.einsum("ij,ij->", M, plain)
    return M * (np.einsum("ij,ij->", like, plain) / mean) if mean > 0 else np.zeros_like(M)


def around_class_means(X: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Every row minus the weighted mean of its class; ``labels`` numbers the classes from 0.

    >>> around_class_means(np.array([[1.0], [3.0], [9.0]]), np.array([0, 0, 1])).ravel()
    array([-1.,  1.,  0.])
    """
    weights = np.ones(len(X)) if weights is None else weights
    means = class_sums(X, labels, weights) / np.bincount(labels, weights)[:, None]
    return X - means[labels]


def class_sums(X: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The weighted sum of the rows of each class, added up in order: (n_classes, n_features).

    >>> class_sums(np.array([[1.0], [3.0], [9.0]]), np.array([1, 0, 1]), np.array([1.0, 1.0, 2.0]))
    array([[ 3.],
           [19.]])
    """
    members = csr_array((weights, (labels, np.arange(len(labels)))), shape=(labels.max() + 1, len(labels)))
    return np.asarray(members @ X)


def covariance(centered: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """The weighted mean of the products of centered columns: (n_features, n_features).

    >>> covariance(np.array([[-1.0, 0.0], [1.0, 0.0]]))
    array([[1., 0.],
           [0., 0.]])
    """
    weights = np.ones(len(centered)) if weights is None else weights
    scaled = np.sqrt(weights)[:, None] * centered  # a matrix times its own transpose is symmetric to the last bit
    return scaled.T @ scaled / weights.sum()


def ledoit_wolf(centered: np.ndarray, weights: np.ndarray | None = None, S: np.ndarray | None = None) -> float:
    """The optimal shrinkage of a covariance toward the identity (Ledoit and Wolf 2004).

    It is the share of the distance from the covariance to the identity that the scatter of the rows explains. As
    scikit-learn's ``ledoit_wolf_shrinkage``, which takes no weights. ``S`` is the covariance, where it is known.
    """
    weights = np.ones(len(centered)) if weights is None else weights
    S = covariance(centered, weights) if S is None else S
    gap = np.sum((S - S.trace() / len(S) * np.eye(len(S))) ** 2)
    fourth_moment = np.average(np.einsum("ij,ij->i", centered, centered) ** 2, weights=weights)
    scatter = max(fourth_moment - np.sum(S**2), 0.0) / weights.sum()
    return float(min(scatter / gap, 1.0)) if gap > 0 else 0.0


def shrunk(S: np.ndarray, shrinkage: float) -> np.ndarray:
    """A covariance mixed with a share of the identity times its mean variance.

    >>> shrunk(np.array([[1.0, 0.0], [0.0, 0.0]]), shrinkage=0.2)  # variances 1 and 0, their mean ½
    array([[0.9, 0. ],
           [0. , 0.1]])
    """
    return (1 - shrinkage) * S + shrinkage * (S.trace() / len(S)) * np.eye(len(S))


def trusted_covariance(centered: np.ndarray) -> np.ndarray:
    """The covariance of centered rows, with the shrinkage of Ledoit and Wolf."""
    S = covariance(centered)
    return shrunk(S, ledoit_wolf(centered, S=S))


def power_of(S: np.ndarray, exponent: float) -> np.ndarray:
    """A power of a symmetric positive semidefinite matrix; of zeros the identity.

    Eigenvalues so small that they may be rounding count as the smallest that are not, so negative powers are finite.

    >>> power_of(np.array([[4.0, 0.0], [0.0, 9.0]]), -0.5).round(3)
    array([[0.5  , 0.   ],
           [0.   , 0.333]])
    """
    values, vectors = np.linalg.eigh(S)
    if values[-1] <= 0:
        return np.eye(len(S))
    values = np.maximum(values, values[-1] * len(S) * np.finfo(np.float64).eps)
    half = vectors * values ** (exponent / 2)
    return half @ half.T  # a matrix times its transpose is symmetric to the last bit
