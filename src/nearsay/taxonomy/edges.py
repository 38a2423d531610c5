"""Topological order of the nodes of a taxonomy from (parent, child) pairs, with checks.

The order depends only on the tree and the order of its leaves, not on the order of the pairs: leaves, then inner nodes
by height (so that children come before their parents, and the root last), those of one height by the first leaf under
them.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.data.replacing import as_text, replacing
from nearsay.data.tables.text_format import cut_lines, delimiter_of, first_lines
from nearsay.errors import InputError

Name = str | int | float
Edge = tuple[Name, Name]
Order = tuple[tuple[Name, ...], tuple[tuple[int, ...], ...]]

HEADER = ("parent", "child")
TABS = "\t"
NAMES_SHOWN = 5
DIRECTION = "Each pair is (parent, child)."


def as_name(name: Any) -> Name:
    """A node's name as plain Python: a text or a number, so that it can be saved as JSON.

    >>> as_name(np.str_("dog")), as_name(np.int64(3))
    ('dog', 3)
    """
    plain = name.item() if isinstance(name, np.generic) else name
    if not isinstance(plain, str | int | float) or plain != plain or plain == "":
        raise InputError(f"A node is named by a text or a number, which is not empty; got {name!r}.")
    return plain


def few(names: Iterable[Name]) -> str:
    """The first few names, for an error.

    >>> few(range(7))
    '0, 1, 2, 3, 4 … 2 more'
    """
    listed = [repr(name) for name in names]
    more = f" … {len(listed) - NAMES_SHOWN} more" if len(listed) > NAMES_SHOWN else ""
    return ", ".join(listed[:NAMES_SHOWN]) + more


def arrange(names: Iterable[Any], edges: Iterable[Any], *, leaves: Iterable[Any] | None, root: Name | None) -> Order:
    """(nodes in order, numbers of the parents of each) of the graph with these names and (parent, child) pairs.

    ``names`` need not include those of the pairs. ``leaves`` sets the order of the leaves; by default that of their
    first occurrence. ``root`` becomes the parent of the nodes without parents. A pair may occur more than once.

    >>> arrange([], [("pet", "dog"), ("pet", "cat")], leaves=None, root=None)
    (('dog', 'cat', 'pet'), ((2,), (2,), ()))
    """
    parents_of = _parents_of(names, edges)
    if not parents_of:
        raise InputError("A taxonomy needs at least one node; got nothing.")
    if root is not None:
        _add_root(parents_of, as_name(root))
    has_children = {parent for parents in parents_of.values() for parent in parents}
    as_met = [name for name in parents_of if name not in has_children]
    ordered = as_met if leaves is None else checked_leaves(map(as_name, leaves), as_met, parents_of)
    place = _places(parents_of, ordered)
    if len(place) < len(parents_of):
        raise InputError(
            f"These nodes form a cycle, each the parent of the next: {_cycle(parents_of, place)}."
            f" Take one of these pairs out. {DIRECTION}"
        )
    _check_one_root(parents_of)
    inner = sorted(has_children, key=lambda name: (*place[name], str(name), type(name).__name__))
    nodes = (*ordered, *inner)
    number = {name: at for at, name in enumerate(nodes)}
    return nodes, tuple(tuple(number[parent] for parent in parents_of[name]) for name in nodes)


def _parents_of(names: Iterable[Any], edges: Iterable[Any]) -> dict[Name, dict[Name, None]]:
    """The parents of every node, both in order of first occurrence."""
    parents_of: dict[Name, dict[Name, None]] = {as_name(name): {} for name in names}
    for edge in edges:
        if isinstance(edge, str) or not hasattr(edge, "__len__") or len(edge) != 2:
            raise InputError(f"A taxonomy is built from pairs of names; got {edge!r}. {DIRECTION}")
        parent, child = map(as_name, edge)
        if parent == child:
            raise InputError(f"Node {parent!r} is given as its own parent. Take that pair out. {DIRECTION}")
        parents_of.setdefault(parent, {})
        parents_of.setdefault(child, {})[parent] = None
    return parents_of


def _add_root(parents_of: dict[Name, dict[Name, None]], root: Name) -> None:
    if parents_of.get(root):
        raise InputError(
            f"root={root!r} must be above all nodes, but it is under {few(parents_of[root])}."
            " Choose a name that is not in the tree."
        )
    for name, parents in parents_of.items():
        if not parents and name != root:
            parents[root] = None
    parents_of.setdefault(root, {})


def checked_leaves(leaves: Iterable[Name], in_tree: Iterable[Name], known: Collection[Name]) -> list[Name]:
    """``leaves``, after a check that they are each leaf of the tree once."""
    given, expected = list(leaves), list(in_tree)
    listed, real = set(given), set(expected)
    troubles = {
        "listed twice": [name for name, count in Counter(given).items() if count > 1],
        "not in the tree": [name for name in given if name not in known],
        "inner nodes": [name for name in given if name in known and name not in real],
        "left out": [name for name in expected if name not in listed],
    }
    words = [f"{trouble}: {few(names)}" for trouble, names in troubles.items() if names]
    if words:
        raise InputError(
            f"leaves= must hold each of the {len(expected)} leaves of the tree once; {'; '.join(words)}."
            " Leave it out to take them as they come."
        )
    return given


def _places(parents_of: Mapping[Name, Iterable[Name]], leaves: list[Name]) -> dict[Name, tuple[int, int]]:
    """(height, number of the first leaf below) of every node that is neither in a cycle nor above one."""
    children_to_come = Counter(parent for parents in parents_of.values() for parent in parents)
    place = {leaf: (0, number) for number, leaf in enumerate(leaves)}
    done = list(leaves)
    for node in done:  # it grows: a node is done when its last child is, and so in order of height
        height, first = place[node]
        for parent in parents_of[node]:
            place[parent] = height + 1, min(first, place[parent][1] if parent in place else first)
            children_to_come[parent] -= 1
            if not children_to_come[parent]:
                done.append(parent)
    return {node: place[node] for node in done}


def _cycle(parents_of: Mapping[Name, Iterable[Name]], done: Mapping[Name, object]) -> str:
    """A cycle, as text. Each node that is not ``done`` is in a cycle or above one, and has such a child."""
    below = {parent: child for child in parents_of if child not in done for parent in parents_of[child]}
    node = next(iter(below))
    way: dict[Name, None] = {}
    while node not in way:
        way[node] = None
        node = below[node]
    circle = [*list(way)[list(way).index(node) :], node]
    shown = circle if len(circle) <= 2 * NAMES_SHOWN else [*circle[:NAMES_SHOWN], "…", *circle[-NAMES_SHOWN:]]
    return " → ".join(map(str, shown))


def _check_one_root(parents_of: Mapping[Name, Mapping[Name, None]]) -> None:
    roots = [name for name, parents in parents_of.items() if not parents]
    if len(roots) > 1:
        raise InputError(
            f"A taxonomy has one root, but {len(roots)} nodes have no parent: {few(roots)}."
            f' Pass root="..." to put a node of that name above them. {DIRECTION}'
        )


# ------------------------------------------------------------------ other shapes


def paths_of_nested(nested: Any) -> Iterator[tuple[Any, ...]]:
    """The path from the top to every leaf, in the order of the mapping.

    >>> list(paths_of_nested({"animal": {"dog": ["corgi", "poodle"], "cat": {}}}))
    [('animal', 'dog', 'corgi'), ('animal', 'dog', 'poodle'), ('animal', 'cat')]
    """
    open_ways: list[tuple[tuple[Any, ...], Any]] = [((), nested)]
    while open_ways:
        way, below = open_ways.pop()
        children = _children(below, way)
        if way and not children:
            yield way
        # A stack: last in, first out.
        open_ways.extend(((*way, name), under) for name, under in reversed(children))


def _children(below: Any, way: tuple[Any, ...]) -> list[tuple[Any, Any]]:
    if below is None:
        return []
    if isinstance(below, Mapping):
        return list(below.items())
    if isinstance(below, list | tuple) and all(isinstance(name, Hashable) for name in below):
        return [(name, None) for name in below]
    place = f"Under {way[-1]!r}" if way else "As the tree itself"
    raise InputError(
        f"{place}: a mapping {{name: what is below it}}, a list of leaf names, or {{}} or None under a leaf is"
        f" expected; got {below!r}."
    )


def edges_of_paths(paths: Iterable[Any], *, by_path: bool) -> tuple[list[Any], list[Edge]]:
    """(the first name of each path, the pairs of neighbors in all of them).

    >>> edges_of_paths([("fruit", "orange")], by_path=True)
    (['fruit'], [('fruit', 'fruit/orange')])
    """
    tops: list[Any] = []
    edges: list[Edge] = []
    for path in [paths] if isinstance(paths, str) else paths:
        if isinstance(path, str):
            raise InputError(
                f"A path is a list of names from the root down; got the text {str(path)!r}. {_split(path)}"
            )
        if not hasattr(path, "__len__") or len(path) == 0:
            raise InputError(f"A path is a list of names from the root down, at least one; got {path!r}.")
        names = _joined(path) if by_path else list(path)
        tops.append(names[0])
        edges += pairwise(names)
    return tops, edges


def _split(path: str) -> str:
    """What to pass for a path that is one text."""
    names = [name for name in path.split("/") if name]
    if len(names) < 2:
        return f"Pass {[str(path)]} for a node without a parent."
    return f'Pass {names}: from_paths([path.split("/") for path in paths]).'


def _joined(path: Iterable[Any]) -> list[Any]:
    names = [str(as_name(name)) for name in path]
    torn = [name for name in names if "/" in name]
    if torn:
        raise InputError(f"With by_path=True names are joined by '/', but {torn[0]!r} holds one. Replace it first.")
    return ["/".join(names[: depth + 1]) for depth in range(len(names))]


def read_edges(path: Path) -> list[Edge]:
    """The pairs in a table with a line for each; a header is known by the words "parent" and "child"."""
    lines: list[tuple[int, list[str]]] = []
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            delimiter = TABS if path.suffix.lower() == ".tsv" else delimiter_of(first_lines(file))
            file.seek(0)
            for number, cells, fault, _ in cut_lines(file, delimiter):
                if cells is None:
                    raise InputError(f"{path.name}, line {number}: {fault}.")
                if any(cells):
                    lines.append((number, [cell.strip() for cell in cells]))
    except UnicodeDecodeError as error:
        raise InputError(f"{path.name} is not UTF-8 text ({error}). Save it again as UTF-8.") from error
    if not lines:
        raise InputError(f"{path.name} is empty. A taxonomy needs a line parent,child for each child.")
    header = [cell.lower() for cell in lines[0][1]]
    width, columns = 2, [0, 1]
    if set(HEADER) <= set(header):
        width, columns = len(header), [header.index(word) for word in HEADER]
        del lines[0]
    edges: list[Edge] = []
    for line, cells in lines:
        if len(cells) != width or not all(cells[column] for column in columns):
            raise InputError(f"{path.name}, line {line}: a parent and a child are expected; got {cells!r}.")
        edges.append((cells[columns[0]], cells[columns[1]]))
    return edges


def without_header(edges: list[Edge]) -> list[Edge]:
    """The pairs of a table without a first one that only names its columns.

    That is one whose names come nowhere else, where all other parents have several children.

    >>> without_header([("kind", "breed"), ("dog", "corgi"), ("dog", "poodle")])
    [('dog', 'corgi'), ('dog', 'poodle')]
    >>> without_header([("dog", "corgi"), ("cat", "persian")])
    [('dog', 'corgi'), ('cat', 'persian')]
    """
    others = edges[1:]
    n_children = Counter(parent for parent, _ in others)
    known = {name for edge in others for name in edge}
    isolated = known.isdisjoint(edges[0]) and min(n_children.values(), default=0) > 1
    return others if isolated else edges


def write_edges(edges: Iterable[Edge], path: Path) -> None:
    """A header and a line for each pair, as ``read_edges`` reads them."""
    with replacing(path) as out, as_text(out) as text:
        writer = csv.writer(text, delimiter=TABS if path.suffix.lower() == ".tsv" else ",", lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows(edges)
