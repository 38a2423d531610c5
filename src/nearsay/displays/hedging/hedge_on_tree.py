"""A hedged answer explained on the tree: probability, information and reward of each node."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.decision.rules import RULES, flat, node_probabilities
from nearsay.errors import InputError, unknown_name
from nearsay.posterior.evidence.evidence import InWords
from nearsay.taxonomy.taxonomy import Taxonomy
from nearsay.taxonomy.words import word_of

SHARE = 0.05


@dataclass(frozen=True)
class HedgedNode:
    """A node of the tree, with its figures for one query.

    Attributes
    ----------
    name, word : the node, and what it is called.
    parents : tuple of the names of shown nodes right above it; () for the root.
    depth : int
    probability : float
    gain : its information in bits.
    reward : what DARTS compares: (gain + shift) · probability. None for another rule, or where the shift is infinite.
    votes : how many neighbors voted for it or a descendant.
    """

    name: Any
    word: str
    parents: tuple[Any, ...]
    depth: int
    probability: float
    gain: float
    reward: float | None
    votes: int | None


@dataclass(frozen=True)
class HedgeOnTree(InWords):
    """The relevant part of a taxonomy for one query, and the node of the answer.

    Attributes
    ----------
    nodes : tuple of HedgedNode, the root first, children below their parents.
    answer, flat, true : the node named, the most probable leaf, and the true label or None.
    right : whether the answer is the true label or above it; None where that is not known.
    rule : str
    setting : the reward shift of DARTS in bits, or the threshold of another rule.
    share : nodes less probable than that are left out, apart from those that lead to ``answer``, ``flat`` and ``true``.
    """

    nodes: tuple[HedgedNode, ...]
    answer: Any
    flat: Any
    true: Any
    right: bool | None
    rule: str
    setting: float
    share: float

    def __getitem__(self, name: Any) -> HedgedNode:
        """The shown node of that name."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise InputError(f"{name!r} is not among the {len(self.nodes)} nodes shown here. A smaller share shows more.")

    @property
    def headline(self) -> list[str]:
        """A title: the answer, the most probable leaf and the true label."""
        named, sure = self[self.answer], self[self.flat]
        parts = [f"says {named.word} (p = {named.probability:.2f}, {named.gain:.2f} of {sure.gain:.2f} bits)"]
        if self.flat != self.answer:
            parts.append(f"most probable is {sure.word} (p = {sure.probability:.2f})")
        if self.true is not None:
            parts.append(f"{'right' if self.right else 'wrong'}, really {self[self.true].word}")
        return parts

    @property
    def text(self) -> str:
        """The answer in a line, then a line for each node, indented by its depth."""
        columns = (
            [f"{'  ' * node.depth}{node.word}" for node in self.nodes],
            ["" if node.votes is None else f"{node.votes} vote{'s' * (node.votes != 1)}" for node in self.nodes],
            [worth(node, self.setting) for node in self.nodes],
            ["".join(f"← {role} " for role in self.roles(node)) for node in self.nodes],
        )
        width, votes_width, worth_width, _ = (max(map(len, column)) for column in columns)
        lines = [
            f"{word:{width}}  {votes:>{votes_width}}  {worth:{worth_width}}  {roles}".rstrip()
            for word, votes, worth, roles in zip(*columns, strict=True)
        ]
        return "\n".join([" · ".join(self.headline), *lines])

    def roles(self, node: HedgedNode) -> list[str]:
        """Whether the node is the answer, the most probable leaf, the true label: in words."""
        names = {"answer": self.answer, "most probable": self.flat, "true": self.true}
        return [role for role, name in names.items() if name is not None and name == node.name]

    def to_dict(self) -> dict[str, Any]:
        """Everything, the text too, as values that ``json.dumps`` takes; an infinite setting as None."""
        return {**super().to_dict(), "setting": self.setting if math.isfinite(self.setting) else None}


def hedge_on_tree(
    p_leaf: Any,
    taxonomy: Taxonomy,
    setting: float,
    *,
    rule: str = "darts",
    votes: Mapping[Any, int] | None = None,
    true_label: Any = None,
    names: Mapping[Any, str] | None = None,
    share: float = SHARE,
) -> HedgeOnTree:
    """Probability, information and reward of each node for one query, and the node that a rule chooses.

    Only nodes of probability ``share`` or more are listed, and the paths to the answer, the most probable leaf and the
    true label. Nodes that cover the same leaves as a descendant are left out, except for the root and these three.

    Parameters
    ----------
    p_leaf : (n_leaves,) probabilities in the order of ``taxonomy.leaves``
    setting : the reward shift of DARTS, or the threshold of another ``rule``.
    votes : {label: count}, optional
        Votes of the neighbors, for leaves or inner nodes; each counts once for every ancestor.
    true_label : name of a node, optional
    names : {node: word}, optional; what nodes are called, by default the taxonomy's words.
    share : float, default=0.05

    >>> tree = Taxonomy.from_nested({"R": {"A": ["a1", "a2"], "B": ["b1", "b2"]}})
    >>> print(hedge_on_tree([0.4, 0.3, 0.2, 0.1], tree, 0.5, share=0.2))
    says A (p = 0.70, 1.00 of 2.00 bits) · most probable is a1 (p = 0.40)
    R         1.00 × (0.00 + 0.50) = 0.50
      A       0.70 × (1.00 + 0.50) = 1.05  ← answer
        a1    0.40 × (2.00 + 0.50) = 1.00  ← most probable
        a2    0.30 × (2.00 + 0.50) = 0.75
      B       0.30 × (1.00 + 0.50) = 0.45
        b1    0.20 × (2.00 + 0.50) = 0.50
    """
    if rule not in RULES:
        raise unknown_name("rule", rule, RULES)
    p = np.asarray(p_leaf)
    if p.ndim != 1:
        raise InputError(
            f"p_leaf holds the probabilities of one query, one number a leaf; got shape {p.shape}. Pass p[0]."
        )
    p_node = node_probabilities(p[None], taxonomy)[0]
    answer, sure = int(RULES[rule](p[None], taxonomy, setting)[0]), int(flat(p[None], taxonomy)[0])
    named = [answer, sure, *([] if true_label is None else [taxonomy.number(true_label)])]
    tree = pruned(taxonomy, p_node >= share, named)
    numbers = taxonomy.check_labels(tree.nodes)
    count = None if votes is None else _votes_of_nodes(votes, taxonomy)
    words = taxonomy.node_words if names is None else names
    shift = setting if rule == "darts" and math.isfinite(setting) else None

    def node_at(place: int) -> HedgedNode:
        name, node = tree.nodes[place], numbers[place]
        probability, gain = float(p_node[node]), float(taxonomy.information[node])
        return HedgedNode(
            name=name,
            word=word_of(name, words),
            parents=tuple(tree.nodes[parent] for parent in tree.parents[place]),
            depth=int(tree.depths[place]),
            probability=probability,
            gain=gain,
            reward=None if shift is None else (gain + shift) * probability,
            votes=None if count is None else int(count[node]),
        )

    return HedgeOnTree(
        nodes=tuple(map(node_at, from_the_root_down(tree))),
        answer=taxonomy.nodes[answer],
        flat=taxonomy.nodes[sure],
        true=None if true_label is None else taxonomy.nodes[named[-1]],
        right=None if true_label is None else bool(taxonomy.covers_label(answer, named[-1])),
        rule=rule,
        setting=float(setting),
        share=float(share),
    )


def pruned(taxonomy: Taxonomy, wanted: np.ndarray, named: list[int]) -> Taxonomy:
    """The taxonomy restricted to ``wanted`` (n_nodes,) and ``named`` nodes and their ancestors, without redundant ones.

    >>> tree = Taxonomy.from_paths([("R", "animal", "dog"), ("R", "animal", "cat"), ("R", "thing", "car")])
    >>> tree.nodes
    ('dog', 'cat', 'car', 'animal', 'thing', 'R')
    >>> print(pruned(tree, tree.covers_label([0, 1, 2, 3, 4, 5], 0), named=[2]))
    R
    ├─ animal
    │  └─ dog
    └─ car
    """
    chosen = np.union1d(np.flatnonzero(wanted), named)
    shown = np.unique(taxonomy.ancestry[chosen].indices).tolist()
    kept = [node for node in shown if node in named or not _is_redundant(node, taxonomy)]
    nearest: dict[int, tuple[int, ...]] = {}  # of each node, itself if it is kept, otherwise what is kept above it
    above: dict[int, tuple[int, ...]] = {}
    is_kept = set(kept)
    for node in reversed(shown):  # parents before children
        above[node] = tuple(dict.fromkeys(up for parent in taxonomy.parents[node] for up in nearest[parent]))
        nearest[node] = (node,) if node in is_kept else above[node]
    has_children = {up for node in kept for up in above[node]}
    ordered = sorted(kept, key=lambda node: (node in has_children, node))  # leaves come first in a taxonomy
    place = {node: number for number, node in enumerate(ordered)}
    return Taxonomy([taxonomy.nodes[node] for node in ordered], [[place[up] for up in above[node]] for node in ordered])


def from_the_root_down(taxonomy: Taxonomy) -> list[int]:
    """Node numbers in depth-first preorder, by first parents.

    >>> tree = Taxonomy.from_nested({"R": {"A": ["a1", "a2"], "B": {}}})
    >>> [tree.nodes[node] for node in from_the_root_down(tree)]
    ['R', 'A', 'a1', 'a2', 'B']
    """
    order, to_visit = [], [taxonomy.n_nodes - 1]
    while to_visit:
        node = to_visit.pop()
        order.append(node)
        to_visit += [child for child in reversed(taxonomy.children[node]) if taxonomy.parents[child][0] == node]
    return order


def worth(node: HedgedNode, setting: float) -> str:
    """The reward of a node as a formula with numbers."""
    if node.reward is None:
        return f"{node.probability:.2f} · {node.gain:.2f} bits"
    return f"{node.probability:.2f} × ({node.gain:.2f} + {setting:.2f}) = {node.reward:.2f}"


def _is_redundant(node: int, taxonomy: Taxonomy) -> bool:
    """Whether an inner node covers the same leaves as a descendant, or (other than the root) as the root."""
    if node < taxonomy.n_leaves or node == taxonomy.n_nodes - 1:
        return False
    gain = taxonomy.information[node]
    return bool(gain == 0 or any(taxonomy.information[child] == gain for child in taxonomy.children[node]))


def _votes_of_nodes(votes: Mapping[Any, int], taxonomy: Taxonomy) -> np.ndarray:
    """(n_nodes,) the number of votes for the node or a descendant, each counted once."""
    counts = np.fromiter(votes.values(), np.int64, len(votes))
    return counts @ taxonomy.ancestry[taxonomy.check_labels(list(votes))]
