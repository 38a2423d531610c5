"""The arrays of a taxonomy by node number: ancestors, information, and the leaves under each node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from nearsay.errors import InputError
from nearsay.taxonomy.checks import check_order, check_prior, check_words, not_in_the_tree
from nearsay.taxonomy.edges import Name, as_name


@dataclass(frozen=True, eq=False, repr=False, init=False)
class NodeArrays:
    """Nodes in order and their parents, with arrays derived from them, computed on first use."""

    nodes: tuple[Name, ...]
    parents: tuple[tuple[int, ...], ...]
    prior: np.ndarray | None
    words: Mapping[Name, str]

    def __init__(
        self,
        nodes: Iterable[Any],
        parents: Iterable[Iterable[int]],
        prior: Any = None,
        words: Mapping[Any, str] | None = None,
    ) -> None:
        assign = object.__setattr__  # the class is frozen
        assign(self, "nodes", tuple(map(as_name, nodes)))
        assign(self, "parents", tuple(tuple(map(int, above)) for above in parents))
        check_order(self.nodes, self.parents)
        assign(self, "prior", None if prior is None else _read_only(check_prior(prior, self.leaves)))
        assign(self, "words", MappingProxyType(check_words(words or {}, self.nodes)))

    def number(self, name: Any) -> int:
        """The number of the node of this name.

        >>> from nearsay.taxonomy.taxonomy import Taxonomy
        >>> Taxonomy.from_nested({"pet": ["dog", "cat"]}).number("dgo")
        Traceback (most recent call last):
        nearsay.errors.InputError: 1 of 1 label is not in the taxonomy 'pet': 'dgo' (did you mean 'dog'?). Correct ...
        """
        return int(self.check_labels([name])[0])

    def check_labels(self, labels: Any) -> np.ndarray:
        """(n,) node numbers of labels, leaves or inner nodes; the error for unknown labels suggests similar names."""
        try:
            listed = labels.tolist() if hasattr(labels, "tolist") else labels
            if isinstance(listed, str):  # a string would be taken as a list of letters
                raise TypeError("one text")
            listed = list(listed)
            numbers = np.fromiter((self._number_of.get(label, -1) for label in listed), np.int64, len(listed))
        except TypeError as error:
            raise InputError(f"A list of names of nodes is expected; got {labels!r} ({error}).") from error
        if (numbers < 0).any():
            missing = [listed[row] for row in np.flatnonzero(numbers < 0)]
            raise not_in_the_tree(missing, len(listed), self.nodes)
        return numbers

    @property
    def n_nodes(self) -> int:
        return len(self.nodes)

    @cached_property
    def n_leaves(self) -> int:
        return self.n_nodes - len(set(chain.from_iterable(self.parents)))

    @property
    def leaves(self) -> tuple[Name, ...]:
        """The names of the leaves, which are the first nodes."""
        return self.nodes[: self.n_leaves]

    @property
    def root(self) -> Name:
        """The name of the root, which is the last node."""
        return self.nodes[-1]

    @cached_property
    def is_tree(self) -> bool:
        """Whether no node has more than one parent."""
        return all(len(above) <= 1 for above in self.parents)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of each node's children, by the first leaf below them; () for a leaf."""
        first_leaf = [self.n_leaves] * self.n_nodes
        below: list[list[int]] = [[] for _ in self.nodes]
        for child, above in enumerate(self.parents):
            first_leaf[child] = min(child, first_leaf[child])
            for parent in above:
                below[parent].append(child)
                first_leaf[parent] = min(first_leaf[parent], first_leaf[child])
        return tuple(tuple(sorted(nodes, key=lambda node: (first_leaf[node], node))) for nodes in below)

    @cached_property
    def depths(self) -> np.ndarray:
        """(n_nodes,) steps down from the root along first parents."""
        depths = np.zeros(self.n_nodes, np.int64)
        for node in reversed(range(self.n_nodes - 1)):
            depths[node] = depths[self.parents[node][0]] + 1
        return _read_only(depths)

    @cached_property
    def ancestry(self) -> Any:
        """Sparse (nodes × nodes) zeros and ones: [v, u] is one where u is v or an ancestor of v."""
        lines: list[tuple[int, ...]] = [()] * self.n_nodes
        for node in reversed(range(self.n_nodes)):
            above = [lines[parent] for parent in self.parents[node]]
            # A single path is in order already; several share nodes, at least the root.
            lines[node] = (node, *(sorted(set(chain.from_iterable(above))) if len(above) > 1 else chain(*above)))
        stops = np.cumsum([0, *map(len, lines)])
        columns = np.fromiter(chain.from_iterable(lines), np.int32, count=int(stops[-1]))
        return _ones(columns, stops.astype(np.int32), self.n_nodes)

    @cached_property
    def covers(self) -> Any:
        """Sparse (leaves × nodes) float64 zeros and ones: [y, v] is one where v is leaf y or above it."""
        stops = self.ancestry.indptr[: self.n_leaves + 1]
        return _ones(self.ancestry.indices[: stops[-1]], stops, self.n_nodes)

    @cached_property
    def information(self) -> np.ndarray:
        """(n_nodes,) bits: log2(all leaves / leaves under the node), or of their prior mass; 0 at the root.

        A node never has more than its descendants, also after rounding: sums are in the same order.
        """
        mass = np.log2(self._mass)
        return _read_only(mass[-1] - mass)

    @cached_property
    def _mass(self) -> np.ndarray:
        """(n_nodes,) number of leaves under each node, or their prior mass."""
        return (np.ones(self.n_leaves) if self.prior is None else self.prior) @ self.covers

    @cached_property
    def _ancestry_keys(self) -> np.ndarray:
        """Every pair (node, ancestor or itself) as one number, sorted, for lookups."""
        rows = np.repeat(np.arange(self.n_nodes), np.diff(self.ancestry.indptr))
        return rows * self.n_nodes + self.ancestry.indices

    def covers_label(self, node_numbers: Any, label_numbers: Any) -> np.ndarray:
        """Whether each node is the label or an ancestor of it, so that the answer is right. A label may be any node.

        Both are arrays of node numbers of one shape, or of shapes that numpy broadcasts.

        >>> from nearsay.taxonomy.taxonomy import Taxonomy
        >>> pets = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}}})
        >>> pets.covers_label(pets.check_labels(["corgi", "dog", "pet"]), pets.number("dog"))
        array([False,  True,  True])
        """
        nodes, labels = (self._checked_numbers(numbers) for numbers in (node_numbers, label_numbers))
        keys = labels * self.n_nodes + nodes
        at = np.searchsorted(self._ancestry_keys, keys)
        # The largest key is (root, root), so a lookup never goes beyond the end.
        return self._ancestry_keys[at] == keys

    def lca_numbers(self, a: Any, b: Any) -> np.ndarray:
        """(n,) the lowest common ancestor of each pair of nodes: the most informative one, the first at ties.

        >>> from nearsay.taxonomy.taxonomy import Taxonomy
        >>> pets = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}}})
        >>> [pets.nodes[node] for node in pets.lca_numbers([0, 0, 0], [0, 1, 2])]
        ['corgi', 'dog', 'pet']
        """
        first, second = np.broadcast_arrays(self._checked_numbers(a), self._checked_numbers(b))
        if first.size == 0:
            return np.zeros(first.shape, np.int64)
        common = self.ancestry[first.ravel()].multiply(self.ancestry[second.ravel()]).tocsr()
        common.sort_indices()
        starts, information = common.indptr[:-1], self.information[common.indices]
        most = np.repeat(np.maximum.reduceat(information, starts), np.diff(common.indptr))
        nodes = np.where(information == most, common.indices, self.n_nodes).astype(np.int64)
        return np.minimum.reduceat(nodes, starts).reshape(first.shape)

    def leaf_mass(self, labels: Any) -> Any:
        """Sparse (labels × leaves): each label's mass distributed over the leaves under it, by prior; rows sum to 1.

        A leaf has all its mass itself; "dog" is divided among the breeds.

        >>> from nearsay.taxonomy.taxonomy import Taxonomy
        >>> pets = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}}})
        >>> pets.leaf_mass(["dog", "cat"]).toarray()
        array([[0.5, 0.5, 0. ],
               [0. , 0. , 1. ]])
        """
        numbers = self.check_labels(labels)
        mass = self.covers.T.tocsr()[numbers]
        mass.data *= 1.0 if self.prior is None else self.prior[mass.indices]
        mass.data /= np.repeat(self._mass[numbers], np.diff(mass.indptr))
        return mass

    @cached_property
    def _number_of(self) -> dict[Name, int]:
        return {name: number for number, name in enumerate(self.nodes)}

    def _checked_numbers(self, numbers: Any) -> np.ndarray:
        array = np.asarray(numbers)
        if array.dtype.kind not in "iu" and array.size:
            raise InputError(f"Nodes are given by number here; got {array.dtype}. check_labels(names) gives numbers.")
        if array.size and not (array.min() >= 0 and array.max() < self.n_nodes):
            raise InputError(f"Nodes are numbered from 0 to {self.n_nodes - 1}; got {array.min()} to {array.max()}.")
        return array.astype(np.int64)


def _ones(columns: np.ndarray, stops: np.ndarray, width: int) -> Any:
    """A read-only sparse matrix with ones at these columns of each row."""
    parts = map(_read_only, (np.ones(len(columns)), columns, stops))
    return csr_array(tuple(parts), shape=(len(stops) - 1, width))


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
