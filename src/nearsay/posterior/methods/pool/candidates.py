"""Past cases of very many classes: the likely ones, the true one, and a few that stand for all others.

    all classes of a case, in every view and model ──► the nearest of each ─┐
                                                   ──► the true one        ─┼─► candidates, the same in all views
                                                   ──► four of each group  ─┘   of the others, by how far they are

A table of all classes would hold cases × classes numbers for every view. It is made for a few cases at a time, and
only what is known of their candidates is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nearsay.neighbors.class_candidates import Candidates
from nearsay.neighbors.class_order import MEMBERS_OF_NEAREST, NearestClasses
from nearsay.posterior.methods.pool.log_linear import CANDIDATES, PER_GROUP
from nearsay.posterior.methods.pool.pooled_features import FLOOR, from_nearest

# Of each model so many of the likeliest classes are candidates; of each view, those with means of several members.
LIKELIEST_OF_MODEL = 8


def candidates_of(
    views: Sequence[NearestClasses], log_proba: Sequence[np.ndarray], truth: np.ndarray, n_classes: int
) -> Candidates:
    """Choose the candidates of some cases.

    views : tables of all classes; of each the classes with means of several members are candidates.
    log_proba : (n_cases, n_classes) of each model.
    truth : (n_cases,) class numbers.

    The other classes come in groups of 32, 64, 128 and so on, by how far they are in all views and models together.
    Four of each, evenly, stand for all in it.
    """
    n = len(truth)
    line = np.arange(n)[:, None]
    closeness = np.zeros((n, n_classes))
    is_near = np.zeros((n, n_classes + 1), np.bool_)
    for near in views:
        closeness += from_nearest(_log_distances(near, n_classes))
        is_near[line, near.numbers[:, :MEMBERS_OF_NEAREST]] = True  # −1 is the last column
    for log_p in log_proba:
        closeness += from_nearest(-log_p)
        is_near[line, np.argsort(-log_p, axis=1, kind="stable")[:, :LIKELIEST_OF_MODEL]] = True
    order = np.argsort(closeness, axis=1, kind="stable")
    is_near[line, order[:, :CANDIDATES]] = is_near[line, truth[:, None]] = True
    near_in_order = is_near[line, order]
    n_near = near_in_order.sum(axis=1)
    near_first = np.take_along_axis(order, np.argsort(~near_in_order, axis=1, kind="stable"), axis=1)
    numbers = np.where(np.arange(n_near.max(initial=0)) < n_near[:, None], near_first[:, : n_near.max(initial=0)], -1)
    offsets = np.where(numbers >= 0, 0.0, -np.inf)
    stand_ins, of_stand_ins = _of_the_others(near_first, n_near)
    numbers, offsets = np.hstack([stand_ins, numbers]), np.hstack([of_stand_ins, offsets])
    return Candidates(numbers, offsets, (numbers == truth[:, None]).argmax(axis=1))


def _of_the_others(classes: np.ndarray, n_near: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Those that stand for the classes behind the near ones, and the logs of how many each stands for."""
    n, n_classes = classes.shape
    numbers, offsets = [], []
    start, size = 0, CANDIDATES
    while start < n_classes:
        n_in_group = np.clip(n_classes - n_near - start, 0, size)
        n_kept = np.minimum(PER_GROUP, n_in_group)
        place = np.arange(PER_GROUP)
        rank = (2 * place + 1) * n_in_group[:, None] // (2 * np.maximum(n_kept, 1))[:, None]
        is_kept = place < n_kept[:, None]
        far = np.where(is_kept, n_near[:, None] + start + rank, 0)
        numbers.append(np.where(is_kept, classes[np.arange(n)[:, None], far], -1))
        share = np.log(np.maximum(n_in_group, 1) / np.maximum(n_kept, 1))
        offsets.append(np.where(is_kept, share[:, None], -np.inf))
        start, size = start + size, 2 * size
    return np.hstack(numbers), np.hstack(offsets)


def _log_distances(near: NearestClasses, n_classes: int) -> np.ndarray:
    """The log distance of every class, as a pool takes it, but for the scale of what is added to each."""
    n = len(near)
    far = np.repeat(near.beyond[:, None], n_classes + 1, axis=1)
    far[np.arange(n)[:, None], near.numbers] = near.nearest  # −1 is the last column
    far = far[:, :n_classes]
    first = near.nearest[:, :MEMBERS_OF_NEAREST]
    is_there = first < np.inf
    usual = np.where(is_there, first, 0.0).sum(axis=1) / np.maximum(is_there.sum(axis=1), 1)
    log_far = np.log(far + FLOOR * np.where(usual > 0, usual, 1.0)[:, None])
    # What is nowhere counts as far as the farthest.
    most = np.where(log_far < np.inf, log_far, -np.inf).max(axis=1, keepdims=True)
    return np.minimum(log_far, np.where(most > -np.inf, most, 0.0))
