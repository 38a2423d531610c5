"""What a pool reads from tables of neighbors: views of the classes, sizes of classes, usual distances."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nearsay.errors import InputError
from nearsay.neighbors.class_order import MEMBERS_OF_NEAREST, NearestClasses
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.methods.past_case_table import listed_classes

# Added to every distance, as a share of the usual one: a duplicate is near, not infinitely near.
FLOOR = 0.3


def class_views(tables: Sequence[NeighborTable]) -> list[NearestClasses]:
    """All that is known of the classes: in each group, and in further views of it."""
    return [view for table in tables for view in (listed_classes(table), *table.further)]


def from_nearest(far: np.ndarray) -> np.ndarray:
    """How much farther than the nearest class each one is, where the usual one is 1 farther.

    Logs of models may range over hundreds, and logs of distances over tenths: so they count alike.
    """
    farther = far - far.min(axis=1, keepdims=True)
    usual = farther.mean(axis=1, keepdims=True)
    return np.asarray(farther / np.where(usual > 0, usual, 1.0))


def n_models(tables: Sequence[NeighborTable]) -> int:
    return 0 if tables[0].model_log_p is None else tables[0].model_log_p.shape[2]


def is_known(views: Sequence[NearestClasses], log_p: np.ndarray | None) -> np.ndarray:
    """Of which queries anything is known, by these views or by models: (n_queries,) bool."""
    known: np.ndarray = np.any([view.numbers[:, 0] >= 0 for view in views], axis=0)
    # A model that gives all classes the same knows nothing.
    return known if log_p is None else known | (log_p != log_p[:, :1]).any(axis=(1, 2))


def far_by_size(sizes: np.ndarray, worth: np.ndarray, usual: float) -> np.ndarray:
    """−log of how much the rows of each class count together; ``sizes`` says how many they are.

    A class of one row is never the truth of a past case, so nothing is learned
    about such: it counts as one of the usual size, neither helped nor harmed.
    """
    return -np.log(np.where(sizes > 1, worth, usual))


def usual_size(sizes: np.ndarray, worth: np.ndarray) -> float:
    return float(np.median(worth[sizes > 1])) if (sizes > 1).any() else 1.0


def shared_members(members: tuple[int, ...] | None, groups: Sequence[NearestClasses]) -> np.ndarray:
    """Those of these numbers whose means are in all tables."""
    shared = [number for number in members or () if all(number in near.members for near in groups)]
    if not shared:
        raise InputError(
            f"A pool with these classes averages {list(members or ())} members, but the tables have the means of"
            f" {' and '.join(str(list(near.members)) for near in groups)}. Search with the same members."
        )
    return np.array(shared)


def usual_distance(near: NearestClasses) -> float:
    """The median distance to the nearest class, of those that are not 0; 1 where all are."""
    nearest = near.nearest[:, 0] if near.nearest.size else np.empty(0)
    positive = nearest[(nearest > 0) & (nearest < np.inf)]
    return float(np.median(positive)) if len(positive) else 1.0


def usual_gaps(near: NearestClasses, floor: float, columns: np.ndarray) -> np.ndarray:
    """How much larger the log means of the last class with all means are than that of its nearest member."""
    n_near = near.means.shape[1]
    full = np.flatnonzero(near.nearest[:, n_near - 1 : n_near] < np.inf)
    if n_near < MEMBERS_OF_NEAREST or not len(full):
        return np.zeros(len(columns))
    means, nearest = near.means[full, -1][:, columns], near.nearest[full, n_near - 1]
    return (np.log(means + floor) - np.log(nearest + floor)[:, None]).mean(axis=0)


def softmax(scores: np.ndarray, offsets: np.ndarray | None, failure: float, n_classes: int) -> np.ndarray:
    """Probabilities by scores, in place, of which a share is spread evenly over all classes.

    offsets : the log of how many classes each candidate stands for, all as probable; None where each is itself.
    """
    if offsets is not None:
        scores[offsets == -np.inf] = -np.inf
    scores -= scores.max(axis=1, keepdims=True)
    p: np.ndarray = np.exp(scores, out=scores)
    p /= (p if offsets is None else p * np.exp(offsets)).sum(axis=1, keepdims=True)
    p *= 1 - failure
    p += failure / n_classes
    return p


def proba_of_listed(numbers: np.ndarray, scores: np.ndarray, by_size: np.ndarray, failure: float) -> np.ndarray:
    """Probabilities of all classes, of which few are listed; the last score stands for each of the others.

    by_size : (n_classes,) what the size of a class makes of its odds: of those that are not listed only that differs.
    """
    listed = numbers >= 0
    n_alike = by_size.sum() - np.where(listed, by_size[numbers], 0.0).sum(axis=1)
    scores[:, :-1][~listed] = -np.inf
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    odds[:, :-1] *= by_size[numbers]
    odds *= (1 - failure) / (odds[:, :-1].sum(axis=1) + n_alike * odds[:, -1])[:, None]
    p: np.ndarray = odds[:, -1:] * by_size
    query, place = np.nonzero(listed)
    p[query, numbers[query, place]] = odds[query, place]
    p += failure / len(by_size)
    return p
