"""Evaluation measures for answers in a taxonomy: accuracy, information gain, and both combined.

An answer is right if it is the label or an ancestor of it. A right answer gains the information of its node, in bits:
0 for the root, most for a leaf. There is a trade-off between accuracy and information.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.decision.envelope import AccuracyCurve
from nearsay.errors import InputError
from nearsay.taxonomy.taxonomy import Taxonomy

# Levels of information that differ by less than this are equal up to rounding.
SAME_INFORMATION_DIGITS = 9

# Shares are sums of many terms and may exceed 1 by rounding.
ROUNDING = 1e-9

# More nodes than these on one level are counted instead of named.
MOST_NAMES = 2


def hierarchical_accuracy(y_true: Any, y_pred: Any, taxonomy: Taxonomy) -> float:
    """The share of right answers: the label itself, or an ancestor of it.

    Parameters
    ----------
    y_true : (n,) names of nodes
        Mostly leaves. If only "some dog" is known, "dog" and its ancestors are right, a breed is not.
    y_pred : (n,) names of nodes, as ``HedgedClassifier.predict`` gives them.

    >>> pets = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}}})
    >>> hierarchical_accuracy(["corgi", "corgi", "corgi", "cat"], ["corgi", "poodle", "dog", "pet"], pets)
    0.75
    """
    return float(taxonomy.covers_label(*_predicted_and_true(y_true, y_pred, taxonomy)).mean())


def information_gain(y_true: Any, y_pred: Any, taxonomy: Taxonomy, *, normalized: bool = True) -> float:
    """The mean information of right answers; a wrong one counts as 0.

    Parameters
    ----------
    y_true, y_pred : (n,) names of nodes, as in ``hierarchical_accuracy``.
    normalized : bool, default=True
        As a share of the information of the most informative leaf, so that 1 is perfect. Otherwise in bits.

    >>> tree = Taxonomy.from_edges([("R", "A"), ("R", "B"), ("A", "a1"), ("A", "a2"), ("B", "b1"), ("B", "b2")])
    >>> information_gain(["a1", "a2", "b1", "a1"], ["A", "A", "A", "a1"], tree, normalized=False)   # 1 + 1 + 0 + 2
    1.0
    """
    predicted, true = _predicted_and_true(y_true, y_pred, taxonomy)
    bits = float(np.mean(taxonomy.information[predicted] * taxonomy.covers_label(predicted, true)))
    # With one leaf there is no information to gain, and the divisor would be 0.
    return bits / (float(taxonomy.information.max()) or 1.0) if normalized else bits


def semantic_similarity(y_true: Any, y_pred: Any, taxonomy: Taxonomy) -> float:
    """The mean of ``semantic_similarities``.

    >>> tree = Taxonomy.from_edges([("R", "A"), ("R", "B"), ("A", "a1"), ("A", "a2"), ("B", "b1"), ("B", "b2")])
    >>> semantic_similarity(["a1", "a2", "b1", "a1"], ["a1", "a1", "a1", "a1"], tree)
    0.625
    """
    return float(semantic_similarities(y_true, y_pred, taxonomy).mean())


def semantic_similarities(y_true: Any, y_pred: Any, taxonomy: Taxonomy) -> np.ndarray:
    """Path similarity of each answer and its label: nodes on both paths / nodes on the longer path; (n,) from 0 to 1.

    The path of a node is the node and its ancestors, over all its parents, without the root. Unlike
    accuracy, a wrong breed of dog gets credit for the dog. Two roots score 1.

    y_true, y_pred : (n,) names of nodes; it does not matter which is which.

    >>> pets = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}}})
    >>> semantic_similarities(["corgi"] * 5, ["corgi", "poodle", "dog", "cat", "pet"], pets)
    array([1. , 0.5, 0.5, 0. , 0. ])
    """
    predicted, true = _predicted_and_true(y_true, y_pred, taxonomy)
    above = taxonomy.ancestry
    length = np.diff(above.indptr)
    common = above[predicted].multiply(above[true]).sum(axis=1) - 1
    longer = np.maximum(length[predicted], length[true]) - 1
    # Only two roots have empty paths.
    return np.divide(common, longer, out=np.ones(len(predicted)), where=longer > 0)


def lca_cost(y_true: Any, y_pred: Any, taxonomy: Taxonomy) -> float:
    """The mean height of the lowest common ancestor (LCA) of answer and label.

    The height of a node is the length of its longest path down to a leaf: 0 for the true leaf, 1 for a sibling. For a
    right but less specific answer the LCA is the answer, so "dog" costs the same as a wrong breed: this measures how
    bad mistakes are and gives no credit for hedging. Use it to compare leaf answers, and accuracy together with gain
    for hedged ones. A label that is an inner node costs at least its own height.

    Parameters
    ----------
    y_true, y_pred : (n,) names of nodes; it does not matter which is which.

    >>> pets = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}}})
    >>> [lca_cost(["corgi"], [node], pets) for node in ("corgi", "poodle", "dog", "cat")]
    [0.0, 1.0, 1.0, 2.0]
    """
    predicted, true = _predicted_and_true(y_true, y_pred, taxonomy)
    common = taxonomy.ancestry[predicted].multiply(taxonomy.ancestry[true]).tocsr()
    # The root is above every pair, so no row is empty.
    lowest = np.minimum.reduceat(_heights(taxonomy)[common.indices], common.indptr[:-1])
    return float(lowest.mean())


def f_scores(accuracy: Any, normalized_gain: Any) -> np.ndarray:
    """The harmonic mean of accuracy and normalized gain, 2AG/(A+G); 0 where both are 0.

    Parameters
    ----------
    accuracy, normalized_gain : shares from 0 to 1, of one shape or of shapes that numpy broadcasts.

    >>> f_scores([0.5, 0.75, 1.0], [0.5, 0.5, 0.0])
    array([0.5, 0.6, 0. ])
    """
    accuracy, gain = as_shares("accuracy", accuracy), as_shares("normalized_gain", normalized_gain)
    both = accuracy + gain
    return np.divide(2 * accuracy * gain, both, out=np.zeros(both.shape), where=both > 0)


def best_f_score(curve: AccuracyCurve) -> float:
    """The largest F score among all operating points of a rule.

    >>> best_f_score(AccuracyCurve("darts", np.array([0.0, 0.5]), np.array([2, 3]), np.array([1.0, 1.0]), 4, 2.0))
    0.6
    """
    return float(f_scores(curve.accuracy, curve.normalized_gain).max())


@dataclass(frozen=True)
class Breakdown:
    """The shares of wrong answers, and of right ones by their information.

    Attributes
    ----------
    wrong : the share of wrong answers.
    information : (n_levels,) bits
        The distinct values over all nodes, from 0 (the root) up to that of the most informative leaf.
    shares : (n_levels,) the share of right answers on each level; with ``wrong`` they sum to 1.
    names : (n_levels,) texts
        "root"; "leaf" if all leaves are equally informative; else the nodes of the level, or how many they are.
    """

    wrong: float
    information: np.ndarray
    shares: np.ndarray
    names: tuple[str, ...]


def breakdown(y_true: Any, y_pred: Any, taxonomy: Taxonomy) -> Breakdown:
    """Shares of wrong answers, and of right ones by their information.

    Parameters
    ----------
    y_true, y_pred : (n,) names of nodes, as in ``hierarchical_accuracy``.

    >>> tree = Taxonomy.from_edges([("R", "A"), ("R", "B"), ("A", "a1"), ("A", "a2"), ("B", "b1"), ("B", "b2")])
    >>> breakdown(["a1", "a2", "b1", "a1"], ["A", "A", "A", "a1"], tree)
    Breakdown(wrong=0.25, information=array([0., 1., 2.]), shares=array([0.  , 0.5 , 0.25]),
              names=('root', 'A or B', 'leaf'))
    """
    predicted, true = _predicted_and_true(y_true, y_pred, taxonomy)
    right = taxonomy.covers_label(predicted, true)
    _, first, level = np.unique(
        taxonomy.information.round(SAME_INFORMATION_DIGITS), return_index=True, return_inverse=True
    )
    return Breakdown(
        wrong=float(np.mean(~right)),
        information=taxonomy.information[first],
        shares=np.bincount(level[predicted[right]], minlength=len(first)) / len(right),
        names=_level_names(taxonomy, level),
    )


def _level_names(taxonomy: Taxonomy, level: np.ndarray) -> tuple[str, ...]:
    """A name for each level; ``level`` is (n_nodes,)."""
    by_level = np.split(np.argsort(level, kind="stable"), np.cumsum(np.bincount(level))[:-1])
    names = [
        " or ".join(str(taxonomy.nodes[node]) for node in nodes) if len(nodes) <= MOST_NAMES else f"{len(nodes)} nodes"
        for nodes in by_level
    ]
    if (level[: taxonomy.n_leaves] == level[0]).all():
        names[level[0]] = "leaf"
    return ("root", *names[1:])


def _heights(taxonomy: Taxonomy) -> np.ndarray:
    """(n_nodes,) the length of the longest path down from each node to a leaf."""
    heights = np.zeros(taxonomy.n_nodes, np.int64)
    for node, above in enumerate(taxonomy.parents):  # children come before their parents, so their heights are known
        for parent in above:
            heights[parent] = max(heights[parent], heights[node] + 1)
    return heights


def _predicted_and_true(y_true: Any, y_pred: Any, taxonomy: Taxonomy) -> tuple[np.ndarray, np.ndarray]:
    """Node numbers of answers and labels, after a check that there are equally many."""
    true, predicted = taxonomy.check_labels(y_true), taxonomy.check_labels(y_pred)
    if len(true) != len(predicted) or not len(true):
        raise InputError(
            f"As many answers as labels are expected, at least one; got {len(predicted)} answers and {len(true)}"
            " labels."
        )
    return predicted, true


def as_shares(name: str, values: Any) -> np.ndarray:
    """Shares as float64 from 0 to 1; small excess by rounding is clipped."""
    shares = np.asarray(values, dtype=np.float64)
    if not ((shares >= -ROUNDING) & (shares <= 1 + ROUNDING)).all():
        raise InputError(
            f"{name}: shares from 0 to 1 are expected; got {shares.min():g} to {shares.max():g}."
            " Divide percent by 100, and a gain in bits by that of a leaf: information_gain(…, normalized=True)."
        )
    return np.clip(shares, 0.0, 1.0)
