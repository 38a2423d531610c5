"""Operating points of calibration rows for every rule, collected some rows at a time.

    probabilities of some rows ──► operating points: a few settings and nodes a row ─┐
    probabilities of others    ──► operating points                                 ─┴─► all of them, in order of rows

A promise is read from these few numbers a row. So the probabilities, rows × classes, need not be held together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nearsay.decision.calibration import Calibration
from nearsay.decision.envelope import OperatingPoints, operating_points
from nearsay.decision.records import CASES_KEPT, PastAnswers, cases_kept, past_answers, probabilities_of
from nearsay.taxonomy.taxonomy import Taxonomy


@dataclass(frozen=True)
class Gathered:
    """What is read from the calibration rows.

    points : {rule: OperatingPoints of all rows}
    past : {rule: the answers that its records count}
    branch : (n_rows,) the branch of the promise that each row belongs to.
    """

    points: dict[str, OperatingPoints]
    past: dict[str, PastAnswers]
    branch: np.ndarray


def gather(
    calibration: Calibration,
    rules: Sequence[str],
    taxonomy: Taxonomy,
    by_leaf: Callable[[np.ndarray], np.ndarray],
    branch_of_leaves: np.ndarray,
    most_cases: int = CASES_KEPT,
) -> Gathered:
    """Go through the probabilities of a calibration once.

    ``by_leaf`` makes probabilities of leaves of those of classes; ``branch_of_leaves`` is (n_leaves,). Records count at
    most so many cases.
    """
    n_rows = len(calibration.labels)
    kept = cases_kept(n_rows, most_cases)
    is_kept = np.zeros(n_rows, np.bool_)
    is_kept[kept] = True
    places, branch = [], np.empty(n_rows, branch_of_leaves.dtype)
    points: dict[str, list[OperatingPoints]] = {rule: [] for rule in rules}
    kept_points: dict[str, list[OperatingPoints]] = {rule: [] for rule in rules}
    for rows, p in calibration.blocks():
        p_leaf, some = by_leaf(p), np.flatnonzero(is_kept[rows])
        branch[rows] = branch_of_leaves[p_leaf.argmax(axis=1)]
        places.append(rows)
        for rule in rules:
            points[rule].append(operating_points(p_leaf, taxonomy, rule))
            of_some = points[rule][-1].take(some)
            kept_points[rule].append(replace(of_some, settings=probabilities_of(of_some, p_leaf[some], taxonomy)))
    order = np.concatenate(places)
    all_points = {rule: _in_order(points.pop(rule), order) for rule in rules}
    past, in_turn = {}, np.flatnonzero(is_kept)
    group = None if calibration.groups is None else np.unique(calibration.groups[kept], return_inverse=True)[1]
    for rule in rules:
        of_kept = _in_order(kept_points.pop(rule), np.searchsorted(in_turn, order[is_kept[order]]))
        p = of_kept.take(np.searchsorted(in_turn, kept)).settings
        of_cases = (calibration.labels[kept], branch[kept], taxonomy, group)
        past[rule] = past_answers(all_points[rule].take(kept), p, *of_cases)
    return Gathered(all_points, past, branch)


def _in_order(parts: Sequence[OperatingPoints], places: np.ndarray) -> OperatingPoints:
    """The points of several parts, whose rows belong at these places, in order of the places."""
    if len(parts) == 1 and np.array_equal(places, np.arange(len(places))):
        return parts[0]
    return joined_points(parts).take(np.argsort(places))


def joined_points(parts: Sequence[OperatingPoints]) -> OperatingPoints:
    """The points of some queries, and of others after them.

    >>> one = OperatingPoints("darts", np.array([0, 2]), np.array([0.0, 0.5]), np.array([3, 7]))
    >>> joined_points([one, one]).starts
    array([0, 2, 4])
    """
    counts = np.concatenate([np.diff(part.starts) for part in parts])
    return OperatingPoints(
        parts[0].rule,
        np.concatenate([[0], np.cumsum(counts)]),
        np.concatenate([part.settings for part in parts]),
        np.concatenate([part.nodes for part in parts]),
    )
