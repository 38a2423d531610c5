"""Small taxonomies of every shape, and who is above whom in them, one step at a time."""

from __future__ import annotations

from hypothesis import strategies as st

T1 = {"R": {"A": ["a1", "a2"], "B": ["b1", "b2"]}}
DAG = [("R", "P"), ("R", "Q"), ("P", "a"), ("P", "b"), ("Q", "b"), ("Q", "c")]
ILSVRC65_SHAPE = {
    "object": {
        "animal": {
            name: [f"{name} {n}" for n in range(size)] for name, size in {"bird": 7, "cat": 5, "dog": 31}.items()
        },
        "vehicle": {name: [f"{name} {n}" for n in range(size)] for name, size in {"boat": 5, "car": 9}.items()},
    }
}


@st.composite
def pairs(draw: st.DrawFn, most_parents: int = 3, names: str = "node {}") -> list[tuple[str, str]]:
    """Pairs of a graph with one root, in any order, some of them twice."""
    n = draw(st.integers(2, 9))
    labels = [names.format(number) for number in draw(st.permutations(range(n)))]
    edges = [
        (labels[parent], labels[child])
        for child in range(1, n)
        for parent in draw(st.sets(st.integers(0, child - 1), min_size=1, max_size=most_parents))
    ]
    return draw(st.permutations(edges + draw(st.lists(st.sampled_from(edges), max_size=3))))


TREES = pairs(most_parents=1)
GRAPHS = pairs()
ODD_NAMES = pairs(names='né, "{}"; x')


def walked_up(edges: list[tuple[str, str]], node: str) -> set[str]:
    """The node and everything above it, one step at a time."""
    found = {node}
    while True:
        more = {parent for parent, child in edges if child in found} - found
        if not more:
            return found
        found |= more


def leaves_below(edges: list[tuple[str, str]], node: str) -> set[str]:
    inner = {parent for parent, _ in edges}
    return {leaf for _, leaf in edges if leaf not in inner and node in walked_up(edges, leaf)}
