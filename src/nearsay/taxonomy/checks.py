"""Checks of nodes, parents, prior and words of a taxonomy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nearsay.errors import InputError, closest
from nearsay.taxonomy.edges import NAMES_SHOWN, Name, few

# How far from 1 the sum of a prior may lie.
ROUNDING = 1e-9


def check_order(nodes: Sequence[Name], parents: Sequence[Sequence[int]]) -> None:
    """Check that names are unique, leaves come first, children before their parents, and one root comes last."""
    last = len(nodes) - 1
    if last < 0 or len(parents) != len(nodes):
        raise InputError(f"A taxonomy needs nodes, and parents for each; got {len(nodes)} nodes and {len(parents)}.")
    if len(set(nodes)) < len(nodes):
        raise InputError(f"Each node needs a name of its own; got {few(_repeated(nodes))} more than once.")
    for node, above in enumerate(parents):
        in_order = all(node < parent <= last for parent in above) and len(set(above)) == len(above)
        if not in_order or (node < last) != bool(above):
            raise InputError(
                f"Node {node} ({nodes[node]!r}) has the parents {list(above)}. Each node but the last needs some, all"
                f" different, all with larger numbers, up to {last}. from_edges puts nodes into such an order."
            )
    inner = {parent for above in parents for parent in above}
    if inner and min(inner) != len(nodes) - len(inner):
        raise InputError(
            f"Leaves come first, but the inner node {nodes[min(inner)]!r} comes before a leaf."
            " from_edges puts nodes into such an order."
        )


def _repeated(nodes: Sequence[Name]) -> list[Name]:
    counts = Counter(nodes)
    return [name for name, count in counts.items() if count > 1]


def check_prior(prior: Any, leaves: Sequence[Name]) -> np.ndarray:
    """The probabilities of the leaves: positive numbers that sum to 1."""
    shares = leaf_weights(prior, leaves)
    if abs(shares.sum() - 1.0) > ROUNDING:
        raise InputError(f"The prior of the leaves must sum to 1, not {shares.sum():g}; with_prior takes any counts.")
    return shares


def check_words(words: Any, nodes: Sequence[Name]) -> dict[Name, str]:
    """The words of nodes, in the order of the nodes; words of anything else are left out.

    >>> check_words({"n2": "dog", "elsewhere": "?"}, ["n1", "n2"])
    {'n2': 'dog'}
    >>> check_words(["dog", "cat"], ["n1", "n2"])
    Traceback (most recent call last):
    nearsay.errors.InputError: words is a mapping from nodes to what they are called, {'n1': 'word'}; got list.
    """
    if not isinstance(words, Mapping):
        raise InputError(
            f"words is a mapping from nodes to what they are called, {{{nodes[0]!r}: 'word'}}; got"
            f" {type(words).__name__}."
        )
    known = {name: words[name] for name in nodes if name in words}
    for name, word in known.items():
        if not isinstance(word, str) or not word.strip():
            raise InputError(f"Node {name!r} is to be called {word!r}; a word is a text that is not empty.")
    return known


def leaf_weights(weights: Any, leaves: Sequence[Name]) -> np.ndarray:
    """A positive number for every leaf, from a list in their order or a mapping by name."""
    if isinstance(weights, Mapping):
        wrong = set(weights) ^ set(leaves)
        if wrong:
            raise InputError(
                f"A prior names each leaf and nothing else; {few(sorted(wrong, key=str))} is missing or no leaf."
            )
        weights = [weights[leaf] for leaf in leaves]
    array = np.array(weights, dtype=np.float64)
    if array.shape != (len(leaves),):
        raise InputError(f"A prior holds one number for each of {len(leaves)} leaves; got shape {array.shape}.")
    bad = np.flatnonzero(~((array > 0) & np.isfinite(array)))
    if bad.size:
        raise InputError(
            f"A prior must be positive and finite, but that of leaf {leaves[bad[0]]!r} is {array[bad[0]]}. A leaf that"
            " never occurs would be infinitely informative: add 1 to counts, or take the leaf out."
        )
    return array


def not_in_the_tree(missing: Sequence[Any], count: int, nodes: Sequence[Name]) -> InputError:
    """The error for labels that are not nodes, with the closest names.

    >>> not_in_the_tree(["dgo", "dgo"], 9, ["dog", "pet"])
    InputError("2 of 9 labels are not in the taxonomy 'pet': 'dgo' (did you mean 'dog'?). Correct ...")
    """
    distinct = list(dict.fromkeys(missing))
    texts = [name for name in nodes if isinstance(name, str)]
    words = [f"{label!r}{closest(str(label), texts)}" for label in distinct[:NAMES_SHOWN]]
    more = f" … {len(distinct) - NAMES_SHOWN} more" if len(distinct) > NAMES_SHOWN else ""
    if str(distinct[0]) in texts:
        remedy = "The names of its nodes are texts: pass the labels as texts, as y.astype(str)."
    else:
        remedy = "Correct them, or add them to the taxonomy."
    return InputError(
        f"{len(missing)} of {count} label{'s' * (count != 1)} {'is' if len(missing) == 1 else 'are'} not in the"
        f" taxonomy {nodes[-1]!r}: {', '.join(words)}{more}. {remedy}"
    )
