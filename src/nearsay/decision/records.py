"""Records of hedged answers: how often past answers of about the same probability were right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.decision.envelope import OperatingPoints
from nearsay.decision.rules import as_compared, node_probabilities, query_blocks
from nearsay.posterior.evidence.records import record_of
from nearsay.taxonomy.taxonomy import Taxonomy

# So many past cases are kept; a record needs no more.
CASES_KEPT = 10_000

# A record counts so many cases, half of them less and half of them more probable than the answer, but of none that is
# farther from it than this.
CASES_COUNTED, ALIKE = 100, 0.05


@dataclass(frozen=True)
class PastAnswers:
    """The answers of a rule to past cases at every setting, how probable each is, and whether it is right.

    points : OperatingPoints of the cases.
    p, right : (n_points,)
    branch : (n_cases,) places in the branches of the promise.
    root : int, the number of the node that says nothing.
    group : (n_cases,) the number of the group of each case, or None where each is alone.
    """

    points: OperatingPoints
    p: np.ndarray
    right: np.ndarray
    branch: np.ndarray
    root: int
    group: np.ndarray | None = None

    def wrong(self, settings: np.ndarray) -> np.ndarray:
        """Which cases get a wrong answer at these settings, one for each branch: (n_cases,)."""
        return ~self.right[self.points.places(settings[self.branch])]

    def record(self, settings: np.ndarray, nodes: np.ndarray, p: np.ndarray) -> list[dict[str, Any] | None]:
        """For each answer, how many past cases were answered at a probability like this, and how many of them rightly.

        Parameters
        ----------
        settings : (n_branches,)
        nodes, p : (n_queries,) the answers and their probabilities.

        Returns
        -------
        [{"cases": 100, "right": 96, "low": 0.902, "high": 0.984}, …]; None for the root, which says nothing and is
        always right.
        """
        points = self.points.places(settings[self.branch])
        points = points[self.points.nodes[points] != self.root]
        order = np.argsort(self.p[points], kind="stable")
        past, right = self.p[points][order], np.concatenate([[0], np.cumsum(self.right[points][order])])
        first, last = alike(past, p)
        counts = zip(nodes, last - first, right[last] - right[first], strict=True)
        return [None if node == self.root else record_of(n, m) for node, n, m in counts]


def alike(past: np.ndarray, p: Any) -> tuple[np.ndarray, np.ndarray]:
    """Which of the rising probabilities ``past`` are like each of ``p``: from the first to before the last.

    >>> alike(np.array([0.1, 0.5, 0.5, 0.54, 0.9]), [0.5, 0.3])
    (array([1, 1]), array([4, 1]))
    """
    p = as_compared(np.asarray(p))
    below, above = (np.searchsorted(past, p, side=side) for side in ("left", "right"))
    wanted = np.maximum(CASES_COUNTED - (above - below), 0)
    first = np.maximum(below - (wanted + 1) // 2, np.searchsorted(past, p - ALIKE, side="left"))
    last = np.minimum(above + (wanted + 1) // 2, np.searchsorted(past, p + ALIKE, side="right"))
    return first, last


def cases_kept(n_rows: int, most: int = CASES_KEPT) -> np.ndarray:
    """The numbers of the rows that records count, in the order in which equally probable ones are taken."""
    # Drawn in any case: a record may count only some of them.
    return np.random.default_rng(0).permutation(n_rows)[:most]


def probabilities_of(points: OperatingPoints, p_leaf: np.ndarray, taxonomy: Taxonomy) -> np.ndarray:
    """How probable the node of each operating point is, as it is compared: (n_points,).

    ``p_leaf`` (n_rows, n_leaves) are the probabilities of the rows that the points are of.
    """
    counts = np.diff(points.starts)
    p = np.empty(len(points.nodes))
    for part in query_blocks(len(points), taxonomy):
        of_part = slice(points.starts[part.start], points.starts[part.stop])
        p_node = node_probabilities(p_leaf[part], taxonomy)
        p[of_part] = p_node[np.repeat(np.arange(len(p_node)), counts[part]), points.nodes[of_part]]
    return as_compared(p)


def past_answers(
    points: OperatingPoints,
    p: np.ndarray,
    labels: np.ndarray,
    branch: np.ndarray,
    taxonomy: Taxonomy,
    group: np.ndarray | None = None,
) -> PastAnswers:
    """The answers at the operating points of the cases that are kept.

    points : OperatingPoints of the cases.
    p : (n_points,) as ``probabilities_of`` gives them.
    labels : (n_cases,) names of nodes.
    branch, group : (n_cases,)
    """
    truth = taxonomy.check_labels(labels)
    right = taxonomy.covers_label(points.nodes, np.repeat(truth, np.diff(points.starts)))
    return PastAnswers(points, p, right, branch, taxonomy.n_nodes - 1, group)
