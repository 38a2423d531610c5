"""Weights of a log-linear pool by maximum likelihood.

    score of class c  =  offset(c) − Σ_j weight_j · feature_j(c),      probability = softmax of the scores

Each feature is a "how far" (a log distance, or −log of a probability), so a
positive weight makes near classes likely. The negative log likelihood is
convex; a Gaussian prior keeps it strictly so, and Newton's method finds the
one minimum. Cases come as lists of candidate classes, each with its true one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from nearsay.core.arrays import evenly, row_blocks
from nearsay.core.parallel import one_blas_thread

STEPS = 50
CLOSE_ENOUGH = 1e-6  # of the log likelihood of all cases together
HALVINGS = 30
MANY_CASES = 1000

# The prior is worth this much curvature: a weight of 3 costs half of what one case can lose or win, and few cases
# cannot drive a weight to infinity. Density falls with distance to the power of the intrinsic dimension of the data,
# so the weights of a group add up to a few, or a few dozen.
PRECISION = 0.1

# The nearest classes of a case that are kept, and of each group of those behind them.
CANDIDATES, PER_GROUP = 32, 4

# How many times as closely some weights may be held at zero, and how many cases say which: where labels are noisy, a
# dozen free weights of distances cost more than they bring.
STRICTER, CASES_TO_HOLD_BY = (1.0, 10.0, 100.0, 1000.0), 2000
# What strong evidence is (Kass and Raftery 1995): odds of 20 to 1.
STRONG_EVIDENCE = 3.0

# Worth of the belief that the pool may fail, in cases; below one, so that past cases decide.
BELIEF = 0.1
HALVINGS_OF_SHARE = 50


@dataclass(frozen=True)
class Cases:
    """Past cases to learn weights from: for each the candidate classes, one of them true.

    Attributes
    ----------
    features : (n_cases, n_candidates, n_weights) float64
    offsets : (n_cases, n_candidates) float64
        Log of how many classes a candidate stands for: 0 for one, −inf for none.
    truth : (n_cases,) int64
        Which candidate is the true class.
    worth : (n_cases,) float64, optional
        How much the log likelihood of each case counts; 1 for all by default.
    """

    features: np.ndarray
    offsets: np.ndarray
    truth: np.ndarray
    worth: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.truth)

    def __getitem__(self, some: slice | np.ndarray) -> Cases:
        features, offsets, truth = (
            np.ascontiguousarray(each[some]) for each in (self.features, self.offsets, self.truth)
        )
        return Cases(features, offsets, truth, None if self.worth is None else self.worth[some])

    def of_views(self, n_of_views: int, n_models: int) -> Cases:
        """The same with so many features of views, and those of models and sizes, which are the last."""
        n_features = self.features.shape[2]
        kept = np.r_[:n_of_views, n_features - n_models - 1 : n_features]
        if len(kept) == n_features:
            return self
        return replace(self, features=np.ascontiguousarray(self.features[:, :, kept]))


def likeliest(features: np.ndarray, truth: np.ndarray, closeness: np.ndarray, worth: np.ndarray | None = None) -> Cases:
    """Keep the nearest 32 classes of each case, the true one, and four of the next 32, of the next 64, and so on.

    What is far has little say in the likelihood each, and with thousands of classes it is nearly everything. The four
    stand evenly in the order of their group, and count as many as are in it. Their mean would not do: it has average
    features, which no class has, and weights that make the truth stand out from averages lose on all classes.

    features : (n_cases, n_classes, n_weights)
    truth : (n_cases,) class numbers.
    closeness : (n_cases, n_classes) what decides who is near; smaller is nearer.
    worth : (n_cases,), optional, as in ``Cases``.
    """
    from nearsay.posterior.methods.pool.log_linear_kernels import keep_nearest

    n, n_classes, n_weights = features.shape
    if n_classes <= CANDIDATES + 1:
        return Cases(features, np.zeros((n, n_classes)), truth, worth)
    # How far down the order the classes that are kept reach, and each group behind them.
    ends = np.unique([min(CANDIDATES << doubling, n_classes) for doubling in range(n_classes.bit_length())])
    kept, place = np.empty((n, n_candidates(n_classes), n_weights)), np.empty(n, np.int64)
    offsets = np.zeros(kept.shape[:2])
    order = np.argsort(closeness, axis=1, kind="stable")
    keep_nearest(features, order, truth, ends, PER_GROUP, kept, offsets, place)
    return Cases(kept, offsets, place, worth)


def n_candidates(n_classes: int) -> int:
    """How many candidates a case has: all classes, or the nearest, the true one and some of the others.

    >>> n_candidates(33), n_candidates(34), n_candidates(65), n_candidates(10_000)
    (33, 37, 41, 69)
    """
    if n_classes <= CANDIDATES + 1:
        return n_classes
    return CANDIDATES + 1 + PER_GROUP * (-(-n_classes // CANDIDATES) - 1).bit_length()


def stack(parts: list[Cases]) -> Cases:
    """Cases of several blocks of rows as one."""
    worth = [part.worth for part in parts if part.worth is not None]
    return Cases(
        np.concatenate([part.features for part in parts]),
        np.concatenate([part.offsets for part in parts]),
        np.concatenate([part.truth for part in parts]),
        np.concatenate(worth) if worth else None,
    )


def fit_weights(
    cases: Cases, center: float | np.ndarray, precision: float | np.ndarray = PRECISION, start: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The most likely weights, and the probability they give the truth in each case.

    Parameters
    ----------
    center : float or (n_weights,), where the prior has its mean, and the search its start.
    precision : float or (n_weights,), how strongly the prior holds the weights there: the inverse of its variance.
    start : (n_weights,) another start, near the minimum: it saves steps, and changes nothing else.

    Returns
    -------
    weights : (n_weights,)
    p_true : (n_cases,)

    One case in four is right at distance 2 and wrong at 1. With weight w on the log distance the nearer class
    has probability 2^w / (1 + 2^w), which should be 3/4: w = log 3 / log 2.

    >>> features = np.log([[[1.0], [2.0]]] * 4)
    >>> cases = Cases(features, np.zeros((4, 2)), np.array([0, 0, 0, 1]))
    >>> weights, p_true = fit_weights(cases, center=0.0, precision=1e-9)
    >>> weights.round(3), p_true.round(3)
    (array([1.585]), array([0.75, 0.75, 0.75, 0.25]))
    """
    n_weights = cases.features.shape[2]
    weights = np.full(n_weights, center) if start is None else start
    if start is None and len(cases) >= MANY_CASES:
        # Every fourth case leads near the minimum, from where all of them have but a few steps to go.
        weights = fit_weights(cases[::4], center, precision)[0]
    p_true = np.empty(len(cases))
    gradient, curvature = np.empty(n_weights), np.empty((n_weights, n_weights))

    def loss(at: np.ndarray) -> float:
        gradient[:], curvature[:] = precision * (at - center), precision * np.eye(n_weights)  # column by column
        lost: float = add_cases(cases, at, p_true, gradient, curvature)
        return lost + float((precision * (at - center) ** 2).sum()) / 2

    current = loss(weights)
    for _ in range(STEPS):
        step = np.linalg.solve(curvature, gradient)
        gain = float(gradient @ step)
        if gain < CLOSE_ENOUGH:
            loss(weights := weights - step)  # so near, the last step is as good as the minimum
            break
        for _ in range(HALVINGS):
            trial = loss(weights - step)
            if trial <= current - gain / 4:
                break
            step, gain = step / 2, gain / 2
        else:
            loss(weights)  # rounding is all that is left to gain
            break
        weights, current = weights - step, trial
    return weights, p_true


def log_evidence(cases: Cases, weights: np.ndarray, center: float | np.ndarray, precision: np.ndarray) -> float:
    """How likely all cases are under a prior, whatever the weights: Laplace's approximation at the most likely ones.

    A strict prior fits the cases worse, and a loose one spreads its bets over weights that do not fit: of several
    priors, the cases speak for the one with the most evidence (MacKay 1992).

    weights : (n_weights,) the most likely ones under this prior.
    center, precision : as in ``fit_weights``.
    """
    curvature = np.diag(precision)
    lost = add_cases(cases, weights, np.empty(len(cases)), np.zeros(len(weights)), curvature)
    lost += float((precision * (weights - center) ** 2).sum()) / 2
    return -lost + float(np.log(precision).sum() - np.linalg.slogdet(curvature)[1]) / 2


def strictness(cases: Cases, precision: np.ndarray, held: np.ndarray) -> float:
    """How many times as closely to hold some weights at zero: as usual, unless cases are strong evidence for more.

    precision : (n_weights,) how closely all weights are usually held.
    held : (n_weights,) bool, the weights in question.
    """
    some = cases[evenly(len(cases), CASES_TO_HOLD_BY)]
    evidence: list[float] = []
    weights = None
    for factor in STRICTER:
        closer = np.where(held, factor, 1.0) * precision
        weights, _ = fit_weights(some, 0.0, closer, start=weights)
        evidence.append(log_evidence(some, weights, 0.0, closer))
        if evidence[-1] < max(evidence):
            break
    best = int(np.argmax(evidence))
    return STRICTER[best] if evidence[best] >= evidence[0] + STRONG_EVIDENCE else STRICTER[0]


class WeightsFit(NamedTuple):
    """The most likely weights; what they give the truth in the cases that taught them, and how much each counts.

    curvature : (n_weights, n_weights) the second derivatives of the loss there, where they are known.
    """

    weights: np.ndarray
    p_true: np.ndarray
    worth: np.ndarray | None = None
    curvature: np.ndarray | None = None


def fits_of_some(
    cases: Cases,
    taught: Iterable[np.ndarray],
    weights: np.ndarray,
    center_of: Callable[[Cases], np.ndarray],
    precision_of: Callable[[int], np.ndarray],
) -> Iterator[WeightsFit | None]:
    """What some of the cases teach, for several choices of most of them; None of no cases.

    A fold of a thousand cases or more moves weights so little that one Newton step leads there; from fewer they are
    fitted anew.

    taught : (n_cases,) bool each.
    weights : the most likely weights of all cases, or nearly so.
    center_of, precision_of : the prior of some cases, and of so many.
    """
    many = len(cases) >= MANY_CASES
    if many:
        of_all, p_true = _derivatives(cases, weights)
        center = center_of(cases)
    for is_taught in taught:
        some, n_taught = np.flatnonzero(is_taught), int(np.count_nonzero(is_taught))
        if not n_taught:
            yield None
            continue
        precision = precision_of(n_taught)
        if not many:
            others = cases[some]
            fitted, p = fit_weights(others, center_of(others), precision, start=weights)
            curvature = _derivatives(others, fitted)[0][1] + np.diag(precision)
            yield WeightsFit(fitted, p, others.worth, curvature)
            continue
        left_out, _ = _derivatives(cases[np.flatnonzero(~is_taught)], weights)
        gradient, curvature = (whole - part for whole, part in zip(of_all, left_out, strict=True))
        curvature += np.diag(precision)
        stepped = weights - np.linalg.solve(curvature, gradient + precision * (weights - center))
        yield WeightsFit(stepped, p_true[some], None if cases.worth is None else cases.worth[some], curvature)


def _derivatives(cases: Cases, weights: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """The gradient and the curvature of the loss of some cases, and the probabilities of the truth."""
    n_weights, p_true = len(weights), np.empty(len(cases))
    derivatives = np.zeros(n_weights), np.zeros((n_weights, n_weights))
    add_cases(cases, weights, p_true, *derivatives)
    return derivatives, p_true


def add_cases(
    cases: Cases, weights: np.ndarray, p_true: np.ndarray, gradient: np.ndarray, curvature: np.ndarray
) -> float:
    """The negative log likelihood of all cases; its derivatives are added to what is there, ``p_true`` is filled in."""
    lost = 0.0
    n_candidates, n_weights = cases.features.shape[1:]
    with one_blas_thread():
        for part in row_blocks(len(cases), row_bytes=3 * 8 * n_candidates * n_weights):
            some, true = cases.features[part], cases.truth[part]
            worth = np.ones(len(true)) if cases.worth is None else cases.worth[part]
            case = np.arange(len(true))
            scores = cases.offsets[part] - some @ weights
            highest = scores.max(axis=1)
            p = np.exp(scores - highest[:, None])
            total = p.sum(axis=1)
            lost += float((worth * (highest + np.log(total) - scores[case, true])).sum())
            p /= total[:, None]
            p_true[part] = p[case, true]
            mean = (p[:, None, :] @ some)[:, 0]
            gradient += (worth[:, None] * (some[case, true] - mean)).sum(axis=0)
            p *= worth[:, None]
            apart = (np.sqrt(p)[:, :, None] * (some - mean[:, None, :])).reshape(-1, n_weights)
            curvature += apart.T @ apart
    return lost


def failure_share(p_true: np.ndarray, n_classes: int, worth: np.ndarray | None = None) -> float:
    """How much probability should be spread evenly, judged by what past cases gave to the truth.

    The share Δ that makes (1−Δ)·p + Δ/C most likely, with a tenth of a case
    of belief that the model may fail. ``worth`` is how much each case counts.

    >>> failure_share(np.array([0.9] * 99 + [1e-6]), n_classes=10) > 0.01 > failure_share(np.full(100, 0.9), 10) > 0
    True
    """
    even = 1 / n_classes
    low, high = 0.0, 1.0
    for _ in range(HALVINGS_OF_SHARE):  # the log likelihood is concave in Δ: where it rises, the best lies above
        share = (low + high) / 2
        rises = (even - p_true) / ((1 - share) * p_true + share * even)
        rise = float(np.sum(rises if worth is None else worth * rises))
        rise += BELIEF / share - BELIEF / (1 - share)
        low, high = (share, high) if rise > 0 else (low, share)
    return high
