"""Similar and dissimilar pairs of rows for metric learning, and distances of classes in a taxonomy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nearsay.errors import InputError
from nearsay.learn.linear_map import rows_by_class
from nearsay.neighbors.other_groups import nearest_among, others
from nearsay.taxonomy.taxonomy import Taxonomy


def class_distances(taxonomy: Taxonomy, classes: Any) -> np.ndarray:
    """Distances of classes in a taxonomy, from 0 (the same) to 1 (only the root in common): (n_classes, n_classes).

    One minus the number of common nodes on the paths from both classes to
    below the root, divided by the length of the longer path.

    taxonomy : Taxonomy, its nodes include every class; a class may be an inner node.
    classes : (n_classes,) names of nodes

    >>> pets = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}}})
    >>> class_distances(pets, ["corgi", "poodle", "cat"])  # of corgi and dog, poodle and dog, "dog" is shared
    array([[0. , 0.5, 1. ],
           [0.5, 0. , 1. ],
           [1. , 1. , 0. ]])
    """
    if not isinstance(taxonomy, Taxonomy):
        raise InputError(f"taxonomy must be a Taxonomy (Taxonomy.from_edges, from_paths, …); got {taxonomy!r}.")
    numbers = taxonomy.check_labels(classes)
    ways_up = taxonomy.ancestry[numbers][:, :-1]  # without the root, the last node, which all have in common
    common = (ways_up @ ways_up.T).toarray()
    longer = np.maximum.outer(common.diagonal(), common.diagonal())
    distances: np.ndarray = 1 - common / np.maximum(longer, 1)
    distances[np.equal.outer(numbers, numbers)] = 0  # the root has nothing in common even with itself
    return distances


class Pairs(NamedTuple):
    """Pairs of rows, in the order in which a learner uses them.

    first, second : (n_pairs,) row numbers
    similar : (n_pairs,) bool, whether both rows have the same class
    """

    first: np.ndarray
    second: np.ndarray
    similar: np.ndarray


def sample_pairs(
    labels: np.ndarray, n_pairs: int, random: np.random.RandomState, groups: np.ndarray | None = None
) -> Pairs:
    """Random pairs of rows: half of one class, half of two classes; no pair twice, in random order.

    Every class gives equally many similar pairs, whatever its size, and every two classes equally many dissimilar ones,
    as long as there are any. If ``n_pairs`` is at least half of all pairs, they are drawn uniformly from all pairs.

    labels : (n_rows,) the number of each row's class, from 0
    n_pairs : how many at most; fewer come where there are not so many
    random : the random generator
    groups : (n_rows,) numbers; rows of one group are no pair

    >>> pairs = sample_pairs(np.array([0, 0, 1]), 100, np.random.RandomState(0))
    >>> sorted(zip(pairs.first.tolist(), pairs.second.tolist(), pairs.similar.tolist()))
    [(0, 1, True), (0, 2, False), (1, 2, False)]
    """
    classes = _Classes(labels, groups)
    n_similar = (n_pairs + 1) // 2
    similar = _draw(n_similar, classes.n_similar, classes.some_similar, classes.all_similar, random)
    dissimilar = _draw(
        n_pairs - n_similar, classes.n_dissimilar, classes.some_dissimilar, classes.all_dissimilar, random
    )
    return _mixed(classes.rows[similar], classes.rows[dissimilar], random)


def near_pairs(
    X: np.ndarray,
    labels: np.ndarray,
    n_pairs: int,
    n_neighbors: int,
    random: np.random.RandomState,
    groups: np.ndarray | None = None,
) -> Pairs:
    """As ``sample_pairs``, but of rows near each other, where a metric decides which rows are neighbors.

    Half are a row and one of the ``n_neighbors`` nearest rows of its class,
    half a row and one of as many nearest rows of other classes, by
    Euclidean distance. Every class is equally often that of the first row. Rows of one group are no pair.

    >>> X, labels = np.array([[0.0], [1.0], [3.0], [7.0]]), np.array([0, 0, 1, 1])
    >>> pairs = near_pairs(X, labels, 4, 1, np.random.RandomState(0))
    >>> sorted(zip(pairs.first.tolist(), pairs.second.tolist(), pairs.similar.tolist()))
    [(0, 1, True), (0, 2, False), (1, 2, False), (2, 3, True)]
    """
    members = rows_by_class(labels)
    n_similar = (n_pairs + 1) // 2
    similar = _some_of_each_class(_near_same_class(X, members, n_neighbors, groups), labels, n_similar, random)
    dissimilar = _some_of_each_class(
        _near_other_classes(X, members, n_neighbors, groups), labels, n_pairs - n_similar, random
    )
    return _mixed(similar, dissimilar, random)


def _near_same_class(X: np.ndarray, members: list[np.ndarray], k: int, groups: np.ndarray | None) -> np.ndarray:
    """(n, 2) rows, and one of the k nearest of their class."""
    pairs = [
        _paired(rows, rows, others(X[rows], k, None if groups is None else groups[rows]))
        for rows in members
        if len(rows) > 1
    ]
    return np.concatenate(pairs) if pairs else np.empty((0, 2), np.int64)


def _near_other_classes(X: np.ndarray, members: list[np.ndarray], k: int, groups: np.ndarray | None) -> np.ndarray:
    """(n, 2) rows, and one of the k nearest of other classes."""
    pairs = []
    for rows in members:
        rest = np.delete(np.arange(len(X)), rows)
        of_both = () if groups is None else (groups[rows], groups[rest])
        pairs.append(_paired(rows, rest, nearest_among(X[rest], X[rows], k, *of_both)))
    return np.concatenate(pairs)


def _paired(rows: np.ndarray, among: np.ndarray, places: np.ndarray) -> np.ndarray:
    """(n, 2) each of the rows, and each of its neighbors by their places; −1 is none."""
    line, column = np.nonzero(places >= 0)
    return np.column_stack([rows[line], among[places[line, column]]])


def _some_of_each_class(pairs: np.ndarray, labels: np.ndarray, n: int, random: np.random.RandomState) -> np.ndarray:
    """At most n pairs, none twice, equally many for every class of the first row, as long as there are any."""
    pairs = _distinct(random.permutation(pairs))
    of_class = labels[pairs[:, 0]]
    in_order, sizes = np.argsort(of_class, kind="stable"), np.bincount(of_class)
    turn = np.empty(len(pairs), np.int64)  # each pair's place among those of its class
    turn[in_order] = np.arange(len(pairs)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return pairs[np.argsort(turn, kind="stable")[:n]]


def _distinct(pairs: np.ndarray) -> np.ndarray:
    """The pairs in order, each once, in whichever order its two numbers come."""
    low, high = np.sort(pairs, axis=1).T
    _, first_met = np.unique(low * (pairs.max(initial=0) + 1) + high, return_index=True)
    return pairs[np.sort(first_met)]


def _mixed(similar: np.ndarray, dissimilar: np.ndarray, random: np.random.RandomState) -> Pairs:
    """All pairs in random order, the lower row number first."""
    order = random.permutation(len(similar) + len(dissimilar))
    first, second = np.sort(np.concatenate([similar, dissimilar])[order], axis=1).T
    return Pairs(first, second, order < len(similar))


def _draw(
    n: int,
    n_possible: int,
    some: Callable[[int, np.random.RandomState], np.ndarray],
    all_pairs: Callable[[], np.ndarray],
    random: np.random.RandomState,
) -> np.ndarray:
    """At most ``n`` different pairs: (n, 2) places."""
    if n_possible <= 2 * n:  # drawing until the last pairs come up would take long
        every = all_pairs()
        return every[random.permutation(len(every))[:n]]
    drawn = np.empty((0, 2), np.int64)
    while len(drawn) < n:
        drawn = _distinct(np.concatenate([drawn, some(n, random)]))
    return drawn[:n]


class _Classes:
    """Rows in the order of their classes: places start … start + size hold the ``rows`` of one class.

    Pairs of one group are not counted, and left out.
    """

    def __init__(self, labels: np.ndarray, groups: np.ndarray | None = None) -> None:
        self.rows = np.argsort(labels, kind="stable")
        self.sizes = np.bincount(labels)
        self.starts = np.cumsum(self.sizes) - self.sizes
        n = len(labels)
        self._groups = np.arange(n) if groups is None else groups[self.rows]
        of_both = np.column_stack([labels[self.rows], self._groups])
        in_both = np.unique(of_both, axis=0, return_inverse=True)[1].reshape(-1)
        self.n_similar = _n_pairs(labels) - _n_pairs(in_both)
        self.n_dissimilar = n * (n - 1) // 2 - _n_pairs(self._groups) - self.n_similar

    def _across(self, places: np.ndarray) -> np.ndarray:
        """The pairs of two groups."""
        return places[self._groups[places[:, 0]] != self._groups[places[:, 1]]]

    def some_similar(self, n: int, random: np.random.RandomState) -> np.ndarray:
        """(n, 2) places, the same number for every class of two rows or more."""
        of_class = np.resize(random.permutation(np.flatnonzero(self.sizes > 1)), n)
        sizes = self.sizes[of_class]
        first = random.randint(sizes)
        second = (first + 1 + random.randint(sizes - 1)) % sizes
        return self._across(np.column_stack([first, second]) + self.starts[of_class][:, None])

    def some_dissimilar(self, n: int, random: np.random.RandomState) -> np.ndarray:
        """(n, 2) places: the first row's class is uniform, the second's uniform among the other classes."""
        n_classes = len(self.sizes)
        first = np.resize(random.permutation(n_classes), n)
        second = (first + 1 + random.randint(n_classes - 1, size=n)) % n_classes
        places = [self.starts[of_class] + random.randint(self.sizes[of_class]) for of_class in (first, second)]
        return self._across(np.column_stack(places))

    def all_similar(self) -> np.ndarray:
        pairs = [np.column_stack(np.triu_indices(size, 1)) + start for size, start in self._spans()]
        return self._across(np.concatenate(pairs))

    def all_dissimilar(self) -> np.ndarray:
        n = len(self.rows)
        pairs = [_product(range(start, start + size), range(start + size, n)) for size, start in self._spans()]
        return self._across(np.concatenate(pairs))

    def _spans(self) -> list[tuple[int, int]]:
        return list(zip(self.sizes.tolist(), self.starts.tolist(), strict=True))


def _n_pairs(numbers: np.ndarray) -> int:
    """How many pairs have the same number."""
    sizes = np.bincount(numbers)
    return int((sizes * (sizes - 1) // 2).sum())


def _product(first: range, second: range) -> np.ndarray:
    """The Cartesian product: (len(first) · len(second), 2)."""
    one, other = np.array(first, np.int64), np.array(second, np.int64)
    return np.column_stack([np.repeat(one, len(other)), np.tile(other, len(one))])
