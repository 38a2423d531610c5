"""A taxonomy: a tree of classes, or a directed acyclic graph in which a class may have several parents.

Nodes are numbered once, leaves first, a child always before its parents, the root last. Everything else is arrays by
node number, so that decisions are matrix products: node probabilities are ``p_leaf @ taxonomy.covers``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.errors import InputError, require
from nearsay.taxonomy.arrays import NodeArrays
from nearsay.taxonomy.checks import leaf_weights
from nearsay.taxonomy.edges import (
    Edge,
    Name,
    arrange,
    as_name,
    checked_leaves,
    edges_of_paths,
    few,
    paths_of_nested,
    read_edges,
    write_edges,
)
from nearsay.taxonomy.text import drawn_as_text
from nearsay.taxonomy.words import words_for_nodes


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Taxonomy(NodeArrays):
    """A tree (or DAG) of classes, from general to specific; a class may have several parents and is counted once.

    Build it with ``from_edges``, ``from_paths``, ``from_nested``, ``from_csv`` or
    ``from_networkx``. It is immutable; two of the same content are equal.

    Parameters
    ----------
    nodes : names in order: leaves, then inner nodes, a child always before its parents, the root last
    parents : the numbers of each node's parents; none for the root alone
    prior : (n_leaves,) probabilities of the leaves, or None where all are equally likely
    words : {node: word}, what nodes are called where their names are ids; any may be left out

    Examples
    --------
    >>> pets = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}}})
    >>> print(pets)
    pet
    ├─ dog
    │  ├─ corgi
    │  └─ poodle
    └─ cat
    >>> pets.nodes
    ('corgi', 'poodle', 'cat', 'dog', 'pet')
    >>> pets.covers.toarray()[0]                  # a corgi is a corgi, a dog and a pet
    array([1., 0., 0., 1., 1.])
    >>> np.array([0.5, 0.25, 0.25]) @ pets.covers
    array([0.5 , 0.25, 0.25, 0.75, 1.  ])
    >>> pets.information.round(3)                 # bits: log2(3) for a leaf, log2(3/2) for a dog
    array([1.585, 1.585, 1.585, 0.585, 0.   ])
    """

    # -------------------------------------------------------------- built from

    @classmethod
    def from_edges(
        cls, edges: Iterable[Any], *, leaves: Iterable[Any] | None = None, root: Name | None = None
    ) -> Taxonomy:
        """The taxonomy of these (parent, child) pairs, in any order.

        Parameters
        ----------
        edges : pairs of names (texts or numbers)
            A pair may come twice; a child may have several parents, of which the first one counts for ``path``.
        leaves : names, optional
            Every leaf once, in the order wanted, such as the ``classes_`` of a classifier. By default in order of
            first occurrence.
        root : name, optional
            A new parent of all nodes without parents, if there are several.

        >>> Taxonomy.from_edges([("animal", "dog"), ("animal", "cat"), ("vehicle", "car")], root="thing")
        <Taxonomy thing: 3 leaves, 6 nodes, a tree of depth 2>
        >>> Taxonomy.from_edges([("animal", "dog"), ("dog", "animal")])
        Traceback (most recent call last):
        nearsay.errors.InputError: These nodes form a cycle, each the parent of the next: dog → animal → dog. ...
        """
        return cls(*arrange([], edges, leaves=leaves, root=root))

    @classmethod
    def from_paths(
        cls,
        paths: Iterable[Any],
        *,
        by_path: bool = False,
        leaves: Iterable[Any] | None = None,
        root: Name | None = None,
    ) -> Taxonomy:
        """The taxonomy of these paths, each a list of names from the root down, of any length.

        A name that occurs under two parents is one node with two parents. With ``by_path=True`` it is two nodes: each
        is then named by its whole path, joined by "/". ``leaves`` and ``root`` as in :meth:`from_edges`; a ``root`` put
        above named paths is no part of their names.

        >>> paths = [("fruit", "orange"), ("color", "orange"), ("color", "red")]
        >>> Taxonomy.from_paths(paths, root="word").leaves
        ('orange', 'red')
        >>> Taxonomy.from_paths(paths, root="word", by_path=True).leaves
        ('fruit/orange', 'color/orange', 'color/red')
        """
        tops, edges = edges_of_paths(paths, by_path=by_path)
        return cls(*arrange(tops, edges, leaves=leaves, root=root))

    @classmethod
    def from_nested(
        cls, nested: Any, *, by_path: bool = False, leaves: Iterable[Any] | None = None, root: Name | None = None
    ) -> Taxonomy:
        """The taxonomy of nested mappings {name: what is below it}; leaves may be listed, or have {} or None below.

        ``by_path``, ``leaves`` and ``root`` as in :meth:`from_paths`.

        >>> Taxonomy.from_nested({"pet": ["dog", "cat"]}).nodes
        ('dog', 'cat', 'pet')
        """
        return cls.from_paths(paths_of_nested(nested), by_path=by_path, leaves=leaves, root=root)

    @classmethod
    def from_csv(
        cls, path: str | os.PathLike[str], *, leaves: Iterable[Any] | None = None, root: Name | None = None
    ) -> Taxonomy:
        """The taxonomy of a file with lines parent,child (tabs in a .tsv file).

        A first line with the words "parent" and "child" is a header; it may name other columns besides, and in any
        order. ``leaves`` and ``root`` as in :meth:`from_edges`. All names are texts.
        """
        return cls.from_edges(read_edges(Path(path)), leaves=leaves, root=root)

    @classmethod
    def from_networkx(cls, graph: Any, *, leaves: Iterable[Any] | None = None, root: Name | None = None) -> Taxonomy:
        """The taxonomy of a networkx DiGraph with an edge from each parent to each of its children."""
        if not graph.is_directed():
            raise InputError(
                f"{graph} does not say which end of an edge is the parent. Pass a DiGraph: parent → child."
            )
        # Child by child: all edges at once would come in the order of the parents in the graph.
        edges = ((parent, child) for child in graph for parent in graph.predecessors(child))
        return cls(*arrange(graph, edges, leaves=leaves, root=root))

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Taxonomy:
        """The taxonomy that ``to_dict`` wrote, every number checked."""
        if not isinstance(state, Mapping) or not {"nodes", "parents"} <= set(state):
            raise InputError(f"A saved taxonomy is a dict with nodes, parents and prior; got {type(state).__name__}.")
        return cls(state["nodes"], state["parents"], state.get("prior"), dict(state.get("words", [])))

    # -------------------------------------------------------------- turned into

    def to_edges(self) -> list[Edge]:
        """(parent, child) pairs, child by child in the order of the nodes."""
        return [(self.nodes[parent], self.nodes[child]) for child, above in enumerate(self.parents) for parent in above]

    def to_paths(self) -> list[tuple[Name, ...]]:
        """Every path from the root to a leaf, leaf by leaf; a leaf under several parents has several.

        >>> Taxonomy.from_edges([("pet", "dog"), ("dog", "corgi"), ("pet", "cat")]).to_paths()
        [('pet', 'dog', 'corgi'), ('pet', 'cat')]
        """
        paths: list[list[tuple[Name, ...]]] = [[] for _ in self.nodes]
        for node in reversed(range(self.n_nodes)):
            above = [path for parent in self.parents[node] for path in paths[parent]] or [()]
            paths[node] = [(*path, self.nodes[node]) for path in above]
        return list(chain.from_iterable(paths[: self.n_leaves]))

    def to_nested(self) -> dict[Name, Any]:
        """Nested dicts {name: what is below it}, {} below a leaf; only for a tree.

        >>> Taxonomy.from_paths([("pet", "dog"), ("pet", "cat")]).to_nested()
        {'pet': {'dog': {}, 'cat': {}}}
        """
        several = [name for name, above in zip(self.nodes, self.parents, strict=True) if len(above) > 1]
        if several:
            raise InputError(
                f"Nested dicts hold a tree, but these nodes have several parents: {few(several)}."
                " Use to_edges, to_paths or to_networkx."
            )
        below: list[dict[Name, Any]] = []
        for children in self.children:  # children come before their parents, so their dicts exist
            below.append({self.nodes[child]: below[child] for child in children})
        return {self.root: below[-1]}

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a header and a line parent,child for each pair (tabs into a .tsv file)."""
        write_edges(self.to_edges(), Path(path))

    def to_networkx(self) -> Any:
        """A networkx DiGraph with an edge from each parent to each of its children."""
        graph = require("networkx", "networkx").DiGraph()
        graph.add_nodes_from(self.nodes)
        graph.add_edges_from(self.to_edges())
        return graph

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, for JSON and saved files; ``from_dict`` restores the same order of nodes."""
        prior = None if self.prior is None else self.prior.tolist()
        state = {"nodes": list(self.nodes), "parents": [list(above) for above in self.parents], "prior": prior}
        # Pairs, because the keys of a JSON object are texts and names may be numbers.
        return {**state, "words": [list(pair) for pair in self.words.items()]} if self.words else state

    def with_prior(self, prior: Any) -> Taxonomy:
        """The same taxonomy with a prior of the leaves: ``information`` becomes −log2 of the prior mass.

        Parameters
        ----------
        prior : (n_leaves,) numbers in the order of ``leaves``, a mapping {leaf: number}, or None
            Counts are divided by their sum. None: equally likely again.

        >>> Taxonomy.from_nested({"pet": ["dog", "cat"]}).with_prior({"dog": 3, "cat": 1}).information.round(3)
        array([0.415, 2.   , 0.   ])
        """
        if prior is None:
            return Taxonomy(self.nodes, self.parents, words=self.words)
        weights = leaf_weights(prior, self.leaves)
        return Taxonomy(self.nodes, self.parents, weights / weights.sum(), self.words)

    def with_leaves(self, leaves: Iterable[Any]) -> Taxonomy:
        """The same taxonomy with its leaves in another order, as ``classes_`` of a classifier; inner nodes stay.

        >>> Taxonomy.from_nested({"pet": ["dog", "cat"]}).with_leaves(["cat", "dog"]).nodes
        ('cat', 'dog', 'pet')
        """
        ordered = checked_leaves(map(as_name, leaves), self.leaves, self.nodes)
        moved = self.check_labels(ordered).tolist()
        parents = (*(self.parents[leaf] for leaf in moved), *self.parents[self.n_leaves :])
        prior = None if self.prior is None else self.prior[moved]
        return Taxonomy((*ordered, *self.nodes[self.n_leaves :]), parents, prior, self.words)

    def with_words(self, words: Mapping[Any, str]) -> Taxonomy:
        """The same taxonomy with display names for nodes.

        Parameters
        ----------
        words : {node: word}
            Any node may have one; other keys are ignored. Answers are still names of nodes.

        >>> tree = Taxonomy.from_nested({"n0": ["n1", "n2"]}).with_words({"n1": "dog, domestic dog", "n2": "cat"})
        >>> tree.node_words
        {'n1': 'dog', 'n2': 'cat', 'n0': 'anything'}
        >>> tree.leaves
        ('n1', 'n2')
        """
        return Taxonomy(self.nodes, self.parents, self.prior, words)

    # -------------------------------------------------------------- names

    @cached_property
    def node_words(self) -> dict[Name, str]:
        """The display name of every node: that of ``words_for_nodes``, or its name if the taxonomy has no words.

        >>> Taxonomy.from_nested({"pet": ["dog", "cat"]}).node_words
        {'dog': 'dog', 'cat': 'cat', 'pet': 'pet'}
        """
        return words_for_nodes(self, self.words) if self.words else {name: str(name) for name in self.nodes}

    def path(self, name: Any) -> tuple[Name, ...]:
        """Names from the root down to this node; along the first parents where there are several."""
        way = [self.number(name)]
        while self.parents[way[-1]]:
            way.append(self.parents[way[-1]][0])
        return tuple(self.nodes[node] for node in reversed(way))

    def depth(self, name: Any) -> int:
        """Steps from the root down to this node, along its path."""
        return int(self.depths[self.number(name)])

    def ancestors(self, name: Any) -> tuple[Name, ...]:
        """Names of all nodes above this one, nearest first; of those equally near, that of the first parent first."""
        visited: dict[int, None] = {}
        step = list(self.parents[self.number(name)])
        while step:
            visited.update(dict.fromkeys(step))
            step = [above for node in dict.fromkeys(step) for above in self.parents[node] if above not in visited]
        return tuple(self.nodes[node] for node in visited)

    def leaves_under(self, name: Any) -> tuple[Name, ...]:
        """Names of the leaves under this node, in order; of a leaf, itself."""
        return tuple(self.nodes[leaf] for leaf in self.leaf_mass([name]).indices)

    def branch(self, name: Any) -> Taxonomy:
        """The taxonomy of a node and all below it, in the same order; a parent elsewhere is left out.

        >>> pets = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}}})
        >>> pets.branch("dog").nodes
        ('corgi', 'poodle', 'dog')
        """
        top = self.number(name)
        kept = np.flatnonzero(self.covers_label(np.full(self.n_nodes, top), np.arange(self.n_nodes))).tolist()
        place = {node: number for number, node in enumerate(kept)}
        parents = [[place[above] for above in self.parents[node] if above in place and node != top] for node in kept]
        prior = None if self.prior is None else self.prior[[node for node in kept if node < self.n_leaves]]
        whole = None if prior is None else prior / prior.sum()
        return Taxonomy([self.nodes[node] for node in kept], parents, whole, dict(self.words))

    def lca(self, a: Any, b: Any) -> Name:
        """The lowest common ancestor of two nodes: the most informative one."""
        return self.nodes[int(self.lca_numbers(self.number(a), self.number(b)))]

    # -------------------------------------------------------------- as a value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Taxonomy):
            return NotImplemented
        return self._content == other._content

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:  # slow for ten thousand names, and needed by every decision
        return hash(self._content)

    @property
    def _content(self) -> tuple[Any, ...]:
        return self.nodes, self.parents, _bytes(self.prior), tuple(self.words.items())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.nodes, self.parents, self.prior, dict(self.words))

    def _to_saved(self) -> dict[str, Any]:
        return {"nodes": self.nodes, "parents": self.parents, "prior": self.prior, "words": dict(self.words)}

    @classmethod
    def _from_saved(cls, fields: dict[str, Any]) -> Taxonomy:
        return cls(**fields)

    def __str__(self) -> str:
        return drawn_as_text(self, self.node_words)

    def __repr__(self) -> str:
        shape = "a tree" if self.is_tree else "a graph"
        prior = "" if self.prior is None else ", with a prior"
        leaves = f"{self.n_leaves} {'leaf' if self.n_leaves == 1 else 'leaves'}"
        return f"<Taxonomy {self.root}: {leaves}, {self.n_nodes} nodes, {shape} of depth {self.depths.max()}{prior}>"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self)[1:-1])}</p><pre>{escape(str(self))}</pre>"


def _bytes(array: np.ndarray | None) -> bytes:
    return b"" if array is None else array.tobytes()
