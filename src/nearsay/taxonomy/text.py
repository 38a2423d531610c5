"""A taxonomy as an indented tree of text; only the top of a large one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nearsay.taxonomy.arrays import NodeArrays

MOST_LINES = 70
# Where not all nodes fit, so many children of each are shown.
FEW_CHILDREN = 4


def drawn_as_text(taxonomy: NodeArrays, words: Mapping[Any, str]) -> str:
    """One line per node in its word, children below and to the right of their parent.

    If that would be more than 70 lines, only the upper nodes are drawn, with some children of each and the numbers of
    hidden children and leaves. A node with several parents is drawn in full below the first one; the others refer to
    that.
    """
    root = taxonomy.n_nodes - 1
    return "\n".join([words[taxonomy.root], *_lines(taxonomy, words, root, _opened(taxonomy), "")])


def _opened(taxonomy: NodeArrays) -> dict[int, tuple[int, ...]]:
    """The nodes whose children are drawn, and which of them: from the top, as long as there is room."""
    all_fit = sum(map(len, taxonomy.children)) < MOST_LINES
    opened: dict[int, tuple[int, ...]] = {}
    lines, to_open = 1, [taxonomy.n_nodes - 1]
    for node in to_open:  # it grows
        children = taxonomy.children[node]
        if not all_fit and len(children) > FEW_CHILDREN + 1:  # "1 more" would take the line of that one
            children = children[:FEW_CHILDREN]
        lines += len(children) + (len(children) < len(taxonomy.children[node]))
        if lines > MOST_LINES:
            break
        opened[node] = children
        to_open += [child for child in children if taxonomy.parents[child][0] == node]
    return opened


def _lines(
    taxonomy: NodeArrays, words: Mapping[Any, str], node: int, opened: dict[int, tuple[int, ...]], indent: str
) -> Iterator[str]:
    children = opened[node]
    hidden = len(taxonomy.children[node]) - len(children)
    for place, child in enumerate(children, start=1):
        last = place == len(children) and not hidden
        word, first_parent = words[taxonomy.nodes[child]], taxonomy.parents[child][0]
        if first_parent != node:
            yield f"{indent}{_corner(last)} {word} (as under {words[taxonomy.nodes[first_parent]]})"
        elif child in opened:
            yield f"{indent}{_corner(last)} {word}"
            yield from _lines(taxonomy, words, child, opened, indent + ("   " if last else "│  "))
        else:
            yield f"{indent}{_corner(last)} {word}{_size(taxonomy, child)}"
    if hidden:
        yield f"{indent}{_corner(True)} … {hidden} more"


def _size(taxonomy: NodeArrays, node: int) -> str:
    """The number of leaves below a node whose children are not drawn."""
    if node < taxonomy.n_leaves:
        return ""
    count = taxonomy.covers[:, [node]].nnz
    return f" ({count} {'leaf' if count == 1 else 'leaves'})"


def _corner(last: bool) -> str:
    return "└─" if last else "├─"
