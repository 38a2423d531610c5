"""Hierarchical selective classification: the risk of answers against how much they narrow down (Goren et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.decision.envelope import check_labels, operating_points
from nearsay.decision.rules import as_probabilities
from nearsay.taxonomy.taxonomy import Taxonomy


@dataclass(frozen=True)
class RiskCoverageCurve:
    """Risk and coverage of a rule at every setting at which it gives an answer other than the root.

    Attributes
    ----------
    settings : (n_points,) rising; −inf is always to name the most probable leaf.
    coverage : (n_points,) falling
        The mean of 1 − H(v) / H(root) over the answers v, where H is the entropy of a leaf drawn evenly from those
        below a node: 1 where all answers are leaves, 0 where all are the root.
    risk : (n_points,) the share of wrong answers among those that are not the root.
    """

    settings: np.ndarray
    coverage: np.ndarray
    risk: np.ndarray

    @property
    def area(self) -> float:
        """The area under the risk from coverage 0 to 1 (hAURC): the smaller the better.

        Between two points the risk is read in proportion, and below the smallest coverage it stays what it is there.
        """
        coverage, risk = np.append(self.coverage, 0.0)[::-1], np.append(self.risk, self.risk[-1])[::-1]
        return float(np.sum(np.diff(coverage) * (risk[1:] + risk[:-1])) / 2)


def risk_coverage_curve(p_leaf: Any, y: Any, taxonomy: Taxonomy, *, rule: str = "climbing") -> RiskCoverageCurve:
    """Risk and coverage of a rule at all its settings, and of the most probable leaf at coverage 1.

    A rule may never come to coverage 1, as DARTS gives up a leaf where a node above is worth more even at shift 0. The
    most probable leaf ends its curve then: answering some queries that way reaches every point of the line between.

    Parameters
    ----------
    p_leaf : (n_rows, n_leaves), rows sum to 1, columns as ``taxonomy.leaves``.
    y : (n_rows,) labels, names of nodes.
    rule : {"climbing", "darts", "fixed-threshold", "flat-reject"}, default="climbing"
        "climbing" is that of Goren et al.; "flat-reject" is selective classification without a taxonomy.

    >>> tree = Taxonomy.from_edges([("R", "A"), ("R", "B"), ("A", "a1"), ("A", "a2"), ("B", "b1"), ("B", "b2")])
    >>> curve = risk_coverage_curve([[0.5, 0.3, 0.1, 0.1], [0.1, 0.0, 0.2, 0.7]], ["a2", "b2"], tree)
    >>> curve.coverage, curve.risk                # leaves, at −inf and at 0; A and b2; A and B; B alone
    (array([1.  , 1.  , 0.75, 0.5 , 0.25]), array([0.5, 0.5, 0. , 0. , 0. ]))
    >>> curve.area                                # a triangle
    0.0625
    """
    p_leaf = as_probabilities(p_leaf, taxonomy)
    labels = taxonomy.check_labels(check_labels(y, len(p_leaf)))
    points = operating_points(p_leaf, taxonomy, rule)
    below = np.log2(np.diff(taxonomy.covers.tocsc().indptr))
    of_node = (below[-1] - below) / (below[-1] or 1.0)
    wrong = ~taxonomy.covers_label(points.nodes, np.repeat(labels, np.diff(points.starts)))
    answered = points.nodes != taxonomy.n_nodes - 1
    order = np.argsort(points.settings, kind="stable")
    settings = points.settings[order]
    last = np.flatnonzero(np.append(settings[1:] != settings[:-1], True))
    n_wrong, n_answered, covered = (
        _at_every_setting(values, points.starts, order)[last] for values in (wrong, answered, of_node[points.nodes])
    )
    flat = p_leaf.argmax(axis=1)
    keep = n_answered > 0.5
    return RiskCoverageCurve(
        np.append(-np.inf, settings[last][keep]),
        np.append(of_node[flat].mean(), covered[keep] / len(p_leaf)),
        np.append((~taxonomy.covers_label(flat, labels)).mean(), n_wrong[keep] / n_answered[keep]),
    )


def hierarchical_aurc(p_leaf: Any, y: Any, taxonomy: Taxonomy, *, rule: str = "climbing") -> float:
    """The area under risk against coverage (hAURC) of a rule; see ``risk_coverage_curve``.

    >>> tree = Taxonomy.from_edges([("R", "A"), ("R", "B"), ("A", "a1"), ("A", "a2"), ("B", "b1"), ("B", "b2")])
    >>> hierarchical_aurc([[0.5, 0.3, 0.1, 0.1], [0.1, 0.0, 0.2, 0.7]], ["a2", "b2"], tree, rule="flat-reject")
    0.125
    """
    return risk_coverage_curve(p_leaf, y, taxonomy, rule=rule).area


def _at_every_setting(values: np.ndarray, starts: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The sum over queries of a value of their points, after each change in the order of settings."""
    steps = np.diff(values.astype(np.float64), prepend=0.0)
    steps[starts[:-1]] = values[starts[:-1]]
    return np.cumsum(steps[order])
