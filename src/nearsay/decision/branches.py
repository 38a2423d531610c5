"""Branches of a taxonomy: which one a row belongs to, and the accuracy curve of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nearsay.decision.envelope import AccuracyCurve, OperatingPoints, accuracy_curve, check_labels
from nearsay.decision.rules import flat
from nearsay.errors import InputError
from nearsay.taxonomy.taxonomy import Taxonomy


def curves_by_branch(
    points: OperatingPoints, y: Any, branch: np.ndarray, branches: Sequence[Any], taxonomy: Taxonomy
) -> dict[Any, AccuracyCurve | None]:
    """The accuracy curve of the rows of each branch, by its name; None for one without rows.

    ``branch`` is (n_rows,) places in ``branches``, as ``branch_of`` gives them.
    """
    y = check_labels(y, len(points))
    of_branch = {name: np.flatnonzero(branch == place) for place, name in enumerate(branches)}
    return {
        name: accuracy_curve(points.take(rows), y[rows], taxonomy) if len(rows) else None
        for name, rows in of_branch.items()
    }


def branch_of(p_leaf: Any, taxonomy: Taxonomy, branches: Sequence[Any]) -> np.ndarray:
    """The place in ``branches`` of the first that holds each row's most probable leaf: (n_rows,).

    >>> tree = Taxonomy.from_edges([("R", "A"), ("R", "B"), ("A", "a1"), ("A", "a2"), ("B", "b1"), ("B", "b2")])
    >>> branch_of([[0.4, 0.3, 0.2, 0.1], [0, 0, 1, 0]], tree, ["A", "B"])
    array([0, 1])
    >>> branch_of([[0.4, 0.3, 0.2, 0.1]], tree, ["A"])
    Traceback (most recent call last):
    nearsay.errors.InputError: 2 of 4 leaves are in no branch, among them 'b1'. Name a branch for them, or 'R' last ...
    """
    return branch_of_leaves(taxonomy, branches)[flat(p_leaf, taxonomy)]


def branch_of_leaves(taxonomy: Taxonomy, branches: Sequence[Any]) -> np.ndarray:
    """The place in ``branches`` of the first that holds each leaf: (n_leaves,).

    >>> branch_of_leaves(Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}}}), ["cat", "dog"])
    array([1, 1, 0])
    """
    numbers = taxonomy.check_labels(branches)
    if len(np.unique(numbers)) < len(numbers):
        again = next(name for place, name in enumerate(branches) if name in branches[:place])
        raise InputError(f"Branch {again!r} is named twice; name each once.")
    place_of = np.full(taxonomy.n_nodes, len(branches))
    place_of[numbers] = np.arange(len(branches))
    # A leaf covers itself, so every leaf has an entry and reduceat has no empty part.
    first: np.ndarray = np.minimum.reduceat(place_of[taxonomy.covers.indices], taxonomy.covers.indptr[:-1])
    left_out = np.flatnonzero(first == len(branches))
    if len(left_out):
        raise InputError(
            f"{len(left_out)} of {taxonomy.n_leaves} leaves are in no branch, among them"
            f" {taxonomy.leaves[left_out[0]]!r}. Name a branch for them, or {taxonomy.root!r} last for all others."
        )
    return first
