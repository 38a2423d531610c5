"""BoostMetric: a metric as a weighted sum of rank-one matrices, boosted on triplets of rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

from nearsay.core.arrays import row_blocks
from nearsay.core.parallel import one_blas_thread
from nearsay.core.settings import check_choice, check_number, check_randomness, check_whole
from nearsay.errors import InputError
from nearsay.learn.constraints import class_distances
from nearsay.learn.linear_map import LearnedMetric, progress_bar
from nearsay.learn.triplets import Triplets, near_triplets, triplet_shares
from nearsay.learn.tuning import held_out_rows, neighbor_accuracy
from nearsay.taxonomy.taxonomy import Taxonomy

# Default number of triplets: per row, and in all. More take time and change little.
TRIPLETS_PER_ROW = 30
MOST_TRIPLETS = 200_000

# Neighbors that vote on held-out rows, as in the paper.
VOTING_NEIGHBORS = 20

STARTS = ("identity", "zero")


class Comparisons:
    """The margins of triplets, with each distinct pair of rows measured once.

    Near triplets share their pairs: 30 triplets of a row have but 13 pairs.

    >>> X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    >>> comparisons = Comparisons(X, Triplets(np.array([0]), np.array([1]), np.array([2])))
    >>> comparisons.margins(X)                              # 4 to the other, less 1 to the row of the class
    array([3.])
    >>> comparisons.mean_difference(np.array([1.0]))        # its inner product with a metric M is the margin under M
    array([[-1.,  0.],
           [ 0.,  4.]])
    """

    def __init__(self, X: np.ndarray, triplets: Triplets) -> None:
        self.X = X
        keys = np.concatenate([triplets.anchor * len(X) + triplets.same, triplets.anchor * len(X) + triplets.other])
        pairs, numbers = np.unique(keys, return_inverse=True)
        self._first, self._second = np.divmod(pairs, len(X))
        self._same, self._other = np.split(numbers, 2)
        self._row_ends = np.searchsorted(self._first, np.arange(len(X) + 1))

    def margins(self, Z: np.ndarray) -> np.ndarray:
        """Squared distance to the other row minus that to the row of the same class, for rows ``Z``."""
        squared = np.empty(len(self._first))
        for pairs in row_blocks(len(squared), row_bytes=8 * Z.shape[1]):
            gaps = Z[self._first[pairs]] - Z[self._second[pairs]]
            np.einsum("ij,ij->i", gaps, gaps, out=squared[pairs])
        return squared[self._other] - squared[self._same]

    def mean_difference(self, shares: np.ndarray) -> np.ndarray:
        """Σ shares · ((anchor − other)(anchor − other)ᵀ − (anchor − same)(anchor − same)ᵀ): (n_features, n_features).

        With W the shares by pair of rows, it is Xᵀ(D − W − Wᵀ)X, D the sums of W by row and by column.
        """
        X, n_pairs, n_rows = self.X, len(self._first), len(self.X)
        weights = np.bincount(self._other, shares, n_pairs) - np.bincount(self._same, shares, n_pairs)
        W = csr_array((weights, self._second, self._row_ends), shape=(n_rows, n_rows))
        sums = np.bincount(self._first, weights, n_rows) + np.bincount(self._second, weights, n_rows)
        crossed = X.T @ (W @ X)
        return (X.T * sums) @ X - crossed - crossed.T


class Round(NamedTuple):
    """The metric M after a round, and its loss."""

    M: np.ndarray
    loss: float


def boost(comparisons: Comparisons, shares: np.ndarray, start: float, penalty: float, tol: float) -> Iterator[Round]:
    """The metric after each round, from ``start`` times the identity, until a round lowers the loss by ``tol`` or less.

    The loss is log Σ shares · exp(−margins under M) + penalty · trace M. A round adds the
    direction that lowers it most steeply, with the weight that then lowers it most.

    shares : (n_triplets,) weights of the triplets, summing to 1
    """
    from nearsay.learn.boost_metric_kernels import best_weight, shift_shares

    X, n_features = comparisons.X, comparisons.X.shape[1]
    log_shares = np.log(shares)
    M = start * np.eye(n_features)
    loss = shift_shares(log_shares, comparisons.margins(X), start) + penalty * start * n_features
    yield Round(M, loss)
    change, satisfied = -np.inf, False
    while -change > tol and not satisfied:
        difference = comparisons.mean_difference(np.exp(log_shares))
        (steepest,), z = eigh(difference, subset_by_index=(n_features - 1, n_features - 1), driver="evx")
        if steepest <= penalty:
            return
        margins = comparisons.margins(X @ z)
        weight = best_weight(log_shares, margins, penalty)
        change = shift_shares(log_shares, margins, weight) + penalty * weight
        M, loss = M + weight * (z @ z.T), loss + change
        yield Round(M, loss)
        # One direction satisfies every triplet: the loss has no minimum, and more of it changes nothing.
        satisfied = margins.min() > penalty


def weight_of_identity(comparisons: Comparisons, shares: np.ndarray, penalty: float) -> float:
    """The factor of the identity of least loss; 1 if no factor lowers it, because most triplets are violated."""
    from nearsay.learn.boost_metric_kernels import best_weight

    X = comparisons.X
    return best_weight(np.log(shares), comparisons.margins(X), penalty * X.shape[1]) or 1.0


def map_of(M: np.ndarray) -> np.ndarray:
    """The map L with LᵀL = M, with as many rows as the rank of M.

    >>> map_of(np.diag([0.0, 4.0]))
    array([[0., 2.]])
    """
    values, vectors = np.linalg.eigh(M)
    kept = values > values[-1] * len(M) * np.finfo(np.float64).eps
    return (vectors[:, kept] * np.sqrt(values[kept])).T


class BoostMetric(LearnedMetric):
    """BoostMetric (Shen, Kim, Wang & van den Hengel 2009): a metric boosted on triplets of rows.

    For triplets of a row, one of its class and one of another, with d² the squared distance under M = LᵀL, the loss

        log mean exp(d²(row, same) − d²(row, other))  +  trace_penalty · trace M

    is lowered round by round: a round adds w·zzᵀ to M, with z the leading eigenvector of the weighted
    sum of the triplets' differences (the more violated, the larger the weight), and w the best weight.

    The paper starts from zero and stops when the loss no longer falls. The metric then has few directions, and on
    hard data it is far less accurate than the Euclidean distance. By default learning starts from the
    identity, and runs for the number of rounds that was best on held-out rows, possibly none.
    ``BoostMetric(start="zero", near=(3, 10), validation_fraction=None)`` is the paper's form.

    Parameters
    ----------
    n_triplets : int, optional
        Number of triplets, the same for every row. None: 30 a row, 200,000 at most.
    near : (int, int), default=(10, 300)
        From how many nearest rows of its class, and of other classes, the triplets of a row are drawn, by
        Euclidean distance. Where classes overlap, the very nearest others alone cannot be satisfied.
    start : {"identity", "zero"}, default="identity"
        "identity": scaled by the factor of least loss.
    max_iter : int, default=100
        Rounds at most. With 0 nothing is learned: the metric is the Euclidean one.
    trace_penalty : float, default=1e-7
        v of the paper, for rows scaled to a mean squared distance of 1 from their mean: the unit of X does not matter.
    tol : float, default=1e-4
        Stop when a round lowers the loss by no more than this.
    validation_fraction : float, optional, default=0.2
        Share of each class that is held out to choose the number of rounds by the votes of 20
        neighbors, before all rows are learned from. None: every round that lowers the loss.
    taxonomy : Taxonomy, optional
        Its nodes include every class. Triplets then weigh more the farther apart their classes are in it.
    random_state : int, RandomState or None
        Which triplets are drawn, and which rows held out.
    verbose : bool, default=False
        Show a progress bar on stderr.

    Attributes
    ----------
    components_ : (rank of M, n_features)
        L. From zero, the rank is at most the number of rounds.
    n_rounds_ : int
        Rounds that M includes.
    n_iter_ : int
        Rounds run; with held-out rows, those of the run without them.
    loss_curve_ : (``n_rounds_`` + 1,)
        The loss at the start and after every round; it never rises.
    validation_curve_ : dict
        The accuracy on held-out rows after some numbers of rounds; after 0 it is that of the Euclidean
        distance. Empty where no rows were held out.

    A class of a single row has no triplets of its own.

    Examples
    --------
    Only the first column tells the classes apart:

    >>> X = [[0, 0], [0, 3], [1, 0], [1, 3]]
    >>> boosted = BoostMetric(start="zero", validation_fraction=None).fit(X, ["a", "a", "b", "b"])
    >>> abs(boosted.components_).round(2)
    array([[5.48, 0.  ]])
    >>> boosted.n_rounds_  # one direction satisfies all triplets, so none is added
    1
    """

    def __init__(
        self,
        n_triplets: int | None = None,
        *,
        near: tuple[int, int] = (10, 300),
        start: str = "identity",
        max_iter: int = 100,
        trace_penalty: float = 1e-7,
        tol: float = 1e-4,
        validation_fraction: float | None = 0.2,
        taxonomy: Taxonomy | None = None,
        random_state: int | np.random.RandomState | None = 0,
        verbose: bool = False,
    ) -> None:
        self.n_triplets = n_triplets
        self.near = near
        self.start = start
        self.max_iter = max_iter
        self.trace_penalty = trace_penalty
        self.tol = tol
        self.validation_fraction = validation_fraction
        self.taxonomy = taxonomy
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Learn the map from rows and their labels.

        Parameters
        ----------
        X, y : (n_rows, n_features) rows, and their labels.
        groups : (n_rows,) hashable names, optional
            The group of each row, such as a patient or a writer: no triplet holds an anchor
            and another row of its group, and whole groups are held out.
        """
        X, unit, labels, classes, groups = self._labeled_rows(X, y, groups)
        self._check_parameters()
        apart = None if self.taxonomy is None else class_distances(self.taxonomy, classes)
        random = check_randomness(self.random_state)
        self.validation_curve_ = self._validation_curve(X, labels, groups, apart, random)
        max_iter = max(self.validation_curve_, key=self.validation_curve_.__getitem__, default=self.max_iter)
        losses, M = [], np.eye(X.shape[1])
        with one_blas_thread(), progress_bar("BoostMetric", max_iter, self.verbose) as report:
            path, spread = self._path(X, labels, groups, apart, random)
            for done, (learned, loss) in enumerate(islice(path, max_iter + 1)):
                report(done, loss)
                losses.append(loss)
                # Before the first round there is at most a scale: the metric is the Euclidean one.
                M, scale = (learned, spread * unit) if done else (M, 1.0)
        self.components_ = map_of(M) / scale
        self.loss_curve_ = np.array(losses)
        self.n_rounds_ = len(losses) - 1
        self.n_iter_ = max(self.validation_curve_, default=self.n_rounds_)
        if 0 < self.n_rounds_ == self.max_iter and losses[-2] - losses[-1] > self.tol:
            warnings.warn(
                f"BoostMetric stopped after {self.n_rounds_} rounds with the loss still falling."
                f" Raise max_iter={self.max_iter}, or accept a larger tol={self.tol:g}.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _path(
        self,
        X: np.ndarray,
        labels: np.ndarray,
        groups: np.ndarray | None,
        apart: np.ndarray | None,
        random: np.random.RandomState,
    ) -> tuple[Iterator[Round], float]:
        """The metrics of all rounds, on rows scaled by a unit, and this unit."""
        n_triplets = self.n_triplets or min(TRIPLETS_PER_ROW * len(X), MOST_TRIPLETS)
        triplets = near_triplets(X, labels, n_triplets, self.near, random, groups)
        if not len(triplets.anchor):
            raise InputError(
                "There is no triplet to learn from: it takes two rows of one class and one of another class that"
                " differs from them, both of other groups than the first. Pass more rows of each class."
            )
        centered = X - X.mean(axis=0)
        unit = float(np.sqrt(np.einsum("ij,ij->i", centered, centered).mean())) or 1.0
        comparisons = Comparisons(centered / unit, triplets)
        shares, penalty = triplet_shares(triplets, labels, apart), float(self.trace_penalty)
        start = weight_of_identity(comparisons, shares, penalty) if self.start == "identity" else 0.0
        return boost(comparisons, shares, start, penalty, self.tol), unit

    def _validation_curve(
        self,
        X: np.ndarray,
        labels: np.ndarray,
        groups: np.ndarray | None,
        apart: np.ndarray | None,
        random: np.random.RandomState,
    ) -> dict[int, float]:
        """Accuracy on held-out rows by the number of rounds: 0, 1, 2, 3, 4, 6, 8, 11, …, and the last."""
        if self.validation_fraction is None or self.max_iter == 0:
            return {}
        held_out = held_out_rows(labels, self.validation_fraction, random, groups)
        Q, truth, X, labels = X[held_out], labels[held_out], X[~held_out], labels[~held_out]
        groups = None if groups is None else groups[~held_out]
        if not len(Q) or np.bincount(labels).max() < 2:
            return {}
        k = min(VOTING_NEIGHBORS, len(X))
        curve = {0: neighbor_accuracy(X, labels, Q, truth, k)}

        def judge(done: int, M: np.ndarray) -> None:
            L = map_of(M)
            curve[done] = neighbor_accuracy(X @ L.T, labels, Q @ L.T, truth, k)

        with one_blas_thread(), progress_bar("BoostMetric, on held-out rows", self.max_iter, self.verbose) as report:
            path, _ = self._path(X, labels, groups, apart, random)
            done, M, due = 0, np.empty(0), 1
            for done, (M, loss) in enumerate(islice(path, self.max_iter + 1)):
                report(done, loss)
                if done == due:
                    judge(done, M)
                    due = max(done + 1, round(done * np.sqrt(2)))
            if done not in curve:
                judge(done, M)
        return curve

    def _check_parameters(self) -> None:
        check_choice("start", self.start, STARTS)
        if not isinstance(self.near, tuple | list) or len(self.near) != 2:
            raise InputError(f"near must be two numbers of rows, of the class and of others; got {self.near!r}.")
        n_triplets = TRIPLETS_PER_ROW if self.n_triplets is None else self.n_triplets
        check_whole("n_triplets", n_triplets, least=1)
        check_whole("max_iter", self.max_iter, least=0)
        for number in self.near:
            check_whole("near", number, least=1)
        check_number("trace_penalty", self.trace_penalty, 0)
        check_number("tol", self.tol, 0)
