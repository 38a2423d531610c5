"""Display names of nodes: words for ids, and for an inner node without a word, some of its leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import accumulate, chain, zip_longest
from typing import Any

from nearsay.taxonomy.arrays import NodeArrays

EVERYTHING = "anything"
EXAMPLES = 2


def words_for_nodes(taxonomy: NodeArrays, words: Mapping[Any, str]) -> dict[Any, str]:
    """A word for every node, from those of the leaves.

    An inner node without a word is described by its leaves: "corgi or poodle", "one
    of 12: corgi, tabby, …", with two leaves of the two largest branches. A node
    above a single leaf has the name of that leaf, and the root is "anything".

    Parameters
    ----------
    words : {node: word}
        Any node may have one. Of synonyms, "goldfish, Carassius auratus", the first is taken; if two nodes would then
        have the same name, as many as distinguish them. A leaf without a word keeps its name; other keys are ignored.

    >>> from nearsay.taxonomy.taxonomy import Taxonomy
    >>> pets = Taxonomy.from_nested({"n0": {"n1": ["n4", "n5", "n6"], "n2": ["n7", "n8"], "n3": ["n9"]}})
    >>> words = {"n4": "corgi, Welsh corgi", "n5": "poodle", "n6": "pug", "n7": "tabby", "n8": "Manx", "n9": "ant"}
    >>> [words_for_nodes(pets, words)[name] for name in ("n4", "n1", "n2", "n3", "n0")]
    ['corgi', 'one of 3: corgi, poodle, …', 'tabby or Manx', 'ant', 'anything']
    """
    known = _first_synonyms({name: str(words[name]) for name in taxonomy.nodes if name in words})
    counts = taxonomy.covers.sum(axis=0).astype(int).tolist()
    examples: list[list[int]] = []
    worded: dict[Any, str] = {}
    for node, name in enumerate(taxonomy.nodes):  # leaves first, children before parents
        examples.append(_examples(node, taxonomy, counts, examples))
        if node < taxonomy.n_leaves:
            worded[name] = known.get(name) or str(name)
        else:
            leaves = [worded[taxonomy.nodes[leaf]] for leaf in examples[node]]
            worded[name] = known.get(name) or _describe(leaves, counts[node], is_root=node == taxonomy.n_nodes - 1)
    return worded


def word_of(name: Any, names: Mapping[Any, str] | None) -> str:
    """The display name of a node: its word, otherwise its name.

    >>> word_of("n1", {"n1": "dog"}), word_of(7, None)
    ('dog', '7')
    """
    return str(name if names is None else names.get(name, name))


def _first_synonyms(words: dict[Any, str]) -> dict[Any, str]:
    """For each node the fewest of its synonyms that no other node begins with; all if that is not enough.

    >>> _first_synonyms({1: "car, auto, machine", 2: "car, railcar", 3: "vessel", 4: "vessel, watercraft"})
    {1: 'car, auto', 2: 'car, railcar', 3: 'vessel', 4: 'vessel, watercraft'}
    """
    synonyms = {name: [part.strip() for part in word.split(",")] for name, word in words.items()}
    beginnings = {name: list(accumulate(parts, "{}, {}".format)) for name, parts in synonyms.items()}
    often = Counter(chain.from_iterable(beginnings.values()))
    return {name: next((words for words in of if often[words] == 1), of[-1]) for name, of in beginnings.items()}


def _examples(node: int, taxonomy: NodeArrays, counts: list[int], of_children: list[list[int]]) -> list[int]:
    """Example leaves under the node: the first of each branch, largest branch first, then their second ones."""
    if node < taxonomy.n_leaves:
        return [node]
    branches = [of_children[child] for child in sorted(taxonomy.children[node], key=lambda child: -counts[child])]
    in_turn = chain.from_iterable(zip_longest(*branches))
    # A leaf with two parents may come twice.
    return [leaf for leaf in dict.fromkeys(in_turn) if leaf is not None][:EXAMPLES]


def _describe(examples: list[str], count: int, *, is_root: bool) -> str:
    if count == 1:
        return examples[0]
    if is_root:
        return EVERYTHING
    if count == 2:
        return " or ".join(examples)
    return f"one of {count}: {', '.join(examples)}, …"
