"""All operating points at once: the answers of a rule at every setting, and how accurate and specific they are.

For one query a rule's answer changes at a few settings only::

    setting    0 ────────── 0.33 ───────────────── 2.33 ──────────── ∞
    answer         a1                  A                    R

``operating_points`` finds them for all queries, ``accuracy_curve`` merges those of labeled queries into one step
function. Every search for a setting reads that curve; no rule is ever tried setting by setting.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.core.arrays import as_labels, check_row_numbers
from nearsay.core.parallel import in_parallel
from nearsay.decision.rules import Levels, as_compared, as_probabilities, climbs, contenders, levels_of, query_blocks
from nearsay.errors import InputError, unknown_name
from nearsay.taxonomy.taxonomy import Taxonomy

# Beyond it a bit of information is lost in the rounding of probabilities.
LARGEST_SHIFT = 1e12

# Settings and nodes, (queries, most points of one); NaN where a query has fewer points.
Points = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class OperatingPoints:
    """What a rule says to each query at every setting.

    Query i has the points ``starts[i]`` … ``starts[i + 1] − 1``: node ``nodes[j]`` is the answer from ``settings[j]``
    on, that setting included, up to the next. Settings of a query rise.
    """

    rule: str
    starts: np.ndarray
    settings: np.ndarray
    nodes: np.ndarray

    def __len__(self) -> int:
        return len(self.starts) - 1

    def take(self, rows: Any) -> OperatingPoints:
        """The points of some queries: row numbers in any order, or True for each that is wanted."""
        chosen = check_row_numbers(rows, len(self))
        counts = np.diff(self.starts)[chosen]
        starts = np.concatenate([[0], np.cumsum(counts)])
        points = np.arange(starts[-1]) + np.repeat(self.starts[chosen] - starts[:-1], counts)
        return OperatingPoints(self.rule, starts, self.settings[points], self.nodes[points])

    def at(self, setting: Any) -> np.ndarray:
        """The node numbers that the rule gives at this setting, one for all queries or one for each: (n_queries,)."""
        return self.nodes[self.places(setting)]

    def places(self, setting: Any) -> np.ndarray:
        """The numbers of the points that hold at this setting: (n_queries,)."""
        of_points = np.repeat(np.broadcast_to(setting, len(self)), np.diff(self.starts))
        begun = np.concatenate([[0], np.cumsum(self.settings <= of_points)])
        return self.starts[:-1] + np.diff(begun[self.starts]) - 1


@dataclass(frozen=True)
class AccuracyCurve:
    """How often a rule is right, and how much it says, at every setting: step functions over rising settings.

    From ``settings[j]`` on, that setting included, up to the next, ``n_right[j]`` of ``n_rows`` answers
    are right, and ``gain[j]`` is the mean information of an answer in bits, 0 where it is wrong.
    ``most_information`` is that of the most informative leaf.
    """

    rule: str
    settings: np.ndarray
    n_right: np.ndarray
    gain: np.ndarray
    n_rows: int
    most_information: float

    @property
    def accuracy(self) -> np.ndarray:
        """The share of right answers at each of ``settings``."""
        return self.n_right / self.n_rows

    @property
    def normalized_gain(self) -> np.ndarray:
        """``gain`` as a share of what the most informative leaf says: 1 where every answer is a right leaf."""
        return self.gain / (self.most_information or 1.0)

    def place(self, setting: float) -> int:
        """The number of the step that holds this setting.

        >>> curve = AccuracyCurve("darts", np.array([0.0, 0.5]), np.array([1, 2]), np.array([1.0, 0.5]), 2, 2.0)
        >>> curve.accuracy[curve.place(0.49)], curve.accuracy[curve.place(0.5)]
        (np.float64(0.5), np.float64(1.0))
        """
        return int(np.searchsorted(self.settings, setting, side="right")) - 1


def operating_points(p_leaf: Any, taxonomy: Taxonomy, rule: str = "darts") -> OperatingPoints:
    """Find every answer that a rule gives to each query, and the smallest setting at which it does.

    The setting is the reward shift of ``darts`` or the threshold of the others. Thresholds are exact. Shifts are
    rounded up to about nine digits, so that answers which differ by rounding only change together; those between
    1e12 and +inf are not looked at.

    Parameters
    ----------
    p_leaf : (n_queries, n_leaves), rows sum to 1.
    rule : one of RULES

    >>> tree = Taxonomy.from_edges([("R", "A"), ("R", "B"), ("A", "a1"), ("A", "a2"), ("B", "b1"), ("B", "b2")])
    >>> points = operating_points([[0.4, 0.3, 0.2, 0.1]], tree)
    >>> points.settings.round(4), [tree.nodes[v] for v in points.nodes]
    (array([0.    , 0.3333, 2.3333]), ['a1', 'A', 'R'])
    """
    if rule not in POINTS:
        raise unknown_name("rule", rule, POINTS)
    p_leaf, levels = as_probabilities(p_leaf, taxonomy), levels_of(taxonomy)

    def find(rows: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        settings, nodes = POINTS[rule](p_leaf[rows], levels)
        is_point = ~np.isnan(settings)
        return is_point.sum(axis=1), settings[is_point], nodes[is_point]

    none = (np.empty(0, np.intp), np.empty(0), np.empty(0, np.intp))
    blocks = [none, *in_parallel(find, query_blocks(len(p_leaf), taxonomy))]
    counts, settings, nodes = (np.concatenate(part) for part in zip(*blocks, strict=True))
    return OperatingPoints(rule, np.concatenate([[0], np.cumsum(counts)]), settings, nodes)


def _darts_points(p_leaf: np.ndarray, levels: Levels) -> Points:
    from nearsay.decision.envelope_kernels import upper_envelopes

    best = contenders(p_leaf, levels)
    shifts = np.full((len(p_leaf), len(best.information) + 1), np.nan)
    winners = np.zeros(shifts.shape, dtype=np.intp)
    upper_envelopes(best.p, best.nodes, best.information, levels.root, LARGEST_SHIFT, shifts, winners)
    return shifts, winners


def _fixed_threshold_points(p_leaf: np.ndarray, levels: Levels) -> Points:
    best = contenders(p_leaf, levels)
    in_play = best.p >= 0
    # A node is named when the threshold has passed all that say more; the last of them is also the most probable.
    passed = np.maximum.accumulate(np.where(in_play, as_compared(best.p), 0.0), axis=1)
    begins = np.nextafter(passed, np.inf)
    ends_at_root = in_play[:, -1] & (best.nodes[:, -1] == levels.root)
    settings = np.column_stack(
        [
            np.zeros(len(p_leaf)),
            np.where(in_play[:, 1:], begins[:, :-1], np.nan),
            np.where(ends_at_root, np.nan, begins[:, -1]),
        ]
    )
    _leave_out_empty_steps(settings)
    return settings, _then_root(best.nodes, levels)


def _leave_out_empty_steps(settings: np.ndarray) -> None:
    """Put NaN where a node is passed as soon as it is reached: 0.1 + 0.2 is above 0.3 until both are compared.

    >>> settings = np.array([[0.0, 0.3, np.nan, 0.3, 0.8]])
    >>> _leave_out_empty_steps(settings)
    >>> settings
    array([[0. , nan, nan, 0.3, 0.8]])
    """
    following = settings[:, -1].copy()
    for column in settings.T[-2::-1]:
        column[column == following] = np.nan
        is_setting = ~np.isnan(column)
        following[is_setting] = column[is_setting]


def _flat_reject_points(p_leaf: np.ndarray, levels: Levels) -> Points:
    settings = np.column_stack([np.zeros(len(p_leaf)), np.nextafter(p_leaf.max(axis=1), np.inf)])
    return settings, _then_root(p_leaf.argmax(axis=1)[:, None], levels)


def _climbing_points(p_leaf: np.ndarray, levels: Levels) -> Points:
    way, p = climbs(p_leaf, levels)
    passed = np.nextafter(np.maximum.accumulate(p, axis=1), np.inf)
    settings = np.column_stack([np.zeros(len(way)), passed[:, :-1]])
    settings[:, 1:][way[:, 1:] == way[:, :-1]] = np.nan  # the root, repeated
    _leave_out_empty_steps(settings)
    return settings, way


def _then_root(nodes: np.ndarray, levels: Levels) -> np.ndarray:
    return np.column_stack([nodes, np.full(len(nodes), levels.root)])


POINTS: dict[str, Callable[[np.ndarray, Levels], Points]] = {
    "darts": _darts_points,
    "fixed-threshold": _fixed_threshold_points,
    "flat-reject": _flat_reject_points,
    "climbing": _climbing_points,
}


def accuracy_curve(points: OperatingPoints, y: Any, taxonomy: Taxonomy) -> AccuracyCurve:
    """Count, at every setting at once, the right answers to queries whose labels are known, and what they say.

    Parameters
    ----------
    points : from ``operating_points``
    y : (n_queries,) names of nodes
        Mostly leaves. Where only an inner node is known ("some dog"), that node and those above it are right.

    >>> tree = Taxonomy.from_edges([("R", "A"), ("R", "B"), ("A", "a1"), ("A", "a2"), ("B", "b1"), ("B", "b2")])
    >>> p = [[0.4, 0.3, 0.2, 0.1]] * 3 + [[0.9, 0.05, 0.03, 0.02]]
    >>> curve = accuracy_curve(operating_points(p, tree), ["a1", "a2", "b1", "a1"], tree)
    >>> curve.settings.round(2), curve.accuracy, curve.gain
    (array([ 0.  ,  0.33,  2.33, 17.  , 19.  ]), array([0.5 , 0.75, 1.  , 1.  , 1.  ]), array([1.  , 1.  , 0.5 , ...]))
    """
    labels = taxonomy.check_labels(check_labels(y, len(points)))
    right = taxonomy.covers_label(points.nodes, np.repeat(labels, np.diff(points.starts)))
    gain = np.where(right, taxonomy.information[points.nodes], 0.0)
    opening, closing = points.starts[:-1], points.starts[1:] - 1
    more_right, more_gain = np.diff(right.astype(np.int64), prepend=0), np.diff(gain, prepend=0.0)
    more_right[opening], more_gain[opening] = right[opening], gain[opening]
    order = np.argsort(points.settings, kind="stable")
    settings = points.settings[order]
    last = np.flatnonzero(np.append(settings[1:] != settings[:-1], True))
    # Summed from the safe end, where little is left to say, so that no rounding of large sums remains there.
    still_to_come = np.append(np.cumsum(more_gain[order][:0:-1])[::-1], 0.0)
    return AccuracyCurve(
        points.rule,
        settings[last],
        np.cumsum(more_right[order])[last],
        np.maximum(gain[closing].sum() - still_to_come[last], 0.0) / len(points),
        len(points),
        float(taxonomy.information.max()),
    )


def check_labels(y: Any, n_rows: int) -> np.ndarray:
    """Give the labels as an array, one for each row of ``p_leaf``."""
    labels = as_labels(y)
    if labels.shape != (n_rows,):
        raise InputError(f"y must hold one label for each of the {n_rows} rows of p_leaf; got shape {labels.shape}.")
    if not n_rows:
        raise InputError("No rows given: how often answers are right is read from rows whose labels are known.")
    return labels
