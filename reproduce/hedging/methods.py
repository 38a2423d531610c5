"""The hedging methods of the paper side by side: their answers at every accuracy.

outputs ──► operating points ──► a setting for every accuracy, read from past rows ──► rows of a figure
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.decision.envelope import AccuracyCurve, OperatingPoints, accuracy_curve, operating_points
from nearsay.decision.guarantee import most_specific, setting_for
from nearsay.metrics.specificity import breakdown, f_scores, semantic_similarity
from nearsay.taxonomy.taxonomy import Taxonomy

# The accuracies asked for along a curve.
GRID = (*(step / 20 for step in range(20)), 0.99)

PROMISED = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
PROMISE_CONFIDENCE = 0.95

# Gains are sums over many rows: equal ones may differ by this much.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Method:
    """A rule, and whether its setting is searched for on past rows; otherwise the accuracy itself is the threshold."""

    rule: str
    searched: bool


METHODS = {
    "FLAT-REJ": Method("flat-reject", searched=False),
    "FLAT-REJ, calibrated": Method("flat-reject", searched=True),
    "fixed threshold": Method("fixed-threshold", searched=False),
    "DARTS": Method("darts", searched=True),
}


@dataclass(frozen=True)
class Part:
    """What a classifier says of some rows, and their labels.

    ``p`` is (n_rows, n_leaves), columns as the leaves of the taxonomy; ``labels`` (n_rows,) names of leaves.
    """

    p: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class Outputs:
    """What a classifier says of past rows, from which settings are read, and of rows that are judged.

    The classifier has seen neither. ``confidence`` is with which an accuracy is kept, None where past rows just keep
    it; ``search`` is how the setting is found.
    """

    taxonomy: Taxonomy
    past: Part
    judged: Part
    confidence: float | None = None
    search: str = "exact"

    def curve(self, part: Part, rule: str) -> AccuracyCurve:
        """How right and how specific a rule is about one of the two parts, at every setting."""
        return accuracy_curve(operating_points(part.p, self.taxonomy, rule), part.labels, self.taxonomy)


@dataclass(frozen=True)
class TradeOff:
    """A method on one classifier: all that it says of the judged rows, and which setting an accuracy asks for.

    ``past`` is None where the accuracy itself is the setting.
    """

    past: AccuracyCurve | None
    points: OperatingPoints
    curve: AccuracyCurve
    outputs: Outputs

    def setting(self, accuracy: float) -> float:
        if self.past is None:
            return accuracy
        return _setting(self.past, accuracy, self.outputs.confidence, self.outputs.search)

    def at(self, accuracy: float) -> dict[str, Any]:
        """The figures of the judged rows where this accuracy is asked for; "setting" is None where that is infinite."""
        setting = self.setting(accuracy)
        place = self.curve.place(setting)
        right, gain = self.curve.accuracy[place], self.curve.normalized_gain[place]
        return {
            "asked": accuracy,
            "setting": _or_none(setting),
            "accuracy": float(right),
            "normalized_gain": float(gain),
            "f": float(f_scores(right, gain)),
        }

    def answers(self, accuracy: float) -> np.ndarray:
        """Node numbers of the answers to the judged rows where this accuracy is asked for."""
        return self.points.at(self.setting(accuracy))


def trade_off(outputs: Outputs, name: str) -> TradeOff:
    """One of METHODS on a classifier: operating points are found once, for every accuracy.

    >>> tree = Taxonomy.from_edges([("R", "A"), ("R", "B"), ("A", "a1"), ("A", "a2"), ("B", "b1"), ("B", "b2")])
    >>> p = np.array([[0.4, 0.3, 0.2, 0.1]] * 3 + [[0.9, 0.05, 0.03, 0.02]])
    >>> part = Part(p, np.array(["a1", "a2", "b1", "a1"]))
    >>> trade_off(Outputs(tree, part, part), "DARTS").at(0.75)["accuracy"]
    0.75
    """
    method = METHODS[name]
    past = outputs.curve(outputs.past, method.rule) if method.searched else None
    points = operating_points(outputs.judged.p, outputs.taxonomy, method.rule)
    curve = accuracy_curve(points, outputs.judged.labels, outputs.taxonomy)
    return TradeOff(past, points, curve, outputs)


def curve_rows(outputs: Outputs, names: Iterable[str], grid: Sequence[float] = GRID) -> list[dict[str, Any]]:
    """Accuracy, normalized gain and F of each method at every accuracy asked for."""
    rows = []
    for name in names:
        trade = trade_off(outputs, name)
        rows += [{"method": name, **trade.at(accuracy)} for accuracy in grid]
    return rows


def best_of(rows: Iterable[dict[str, Any]], *keys: str) -> list[dict[str, Any]]:
    """Of rows that are alike in ``keys`` the one with the largest F, the first at ties, in their order.

    >>> rows = [{"method": "a", "f": 0.5}, {"method": "b", "f": 0.1}, {"method": "a", "f": 0.6}]
    >>> [row["f"] for row in best_of(rows, "method")]
    [0.6, 0.1]
    """
    best: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        who = tuple(row[key] for key in keys)
        if who not in best or row["f"] > best[who]["f"]:
            best[who] = row
    return list(best.values())


def compared_with_fixed_threshold(outputs: Outputs) -> dict[str, Any]:
    """How much more DARTS says than a fixed threshold does, at every accuracy that one reaches.

    Compared are all operating points of the threshold on the judged rows, but for those that say nothing, with DARTS
    where it is right as often, read between its own points in proportion.

    Returns
    -------
    dict with "points", "less_specific" (how many of them DARTS says less at), "least" and "at_accuracy" (the
    smallest difference of normalized gains, and where), and "best_less_specific": how many the better of both rules
    says less at, chosen for each accuracy as HedgedClassifier does.
    """
    darts, fixed = (outputs.curve(outputs.judged, rule) for rule in ("darts", "fixed-threshold"))
    informative = fixed.normalized_gain > 0
    accuracy = fixed.accuracy[informative]
    more = largest_gain_at(darts, accuracy) - fixed.normalized_gain[informative]
    least = int(more.argmin())
    return {
        "points": len(more),
        "less_specific": int((more < -ROUNDING).sum()),
        "least": float(more[least]),
        "at_accuracy": float(accuracy[least]),
        "best_less_specific": int((_most_of_both(darts, fixed, accuracy) - fixed.gain[informative] < -ROUNDING).sum()),
    }


def _most_of_both(darts: AccuracyCurve, fixed: AccuracyCurve, accuracies: np.ndarray) -> np.ndarray:
    """The gain that ``most_specific`` finds at each of these accuracies."""
    gains = {}
    for accuracy in np.unique(accuracies).tolist():
        way, (setting,) = most_specific([{"all": darts}, {"all": fixed}], accuracy)
        curve = (darts, fixed)[way]
        gains[accuracy] = curve.gain[curve.place(setting)]
    return np.array([gains[accuracy] for accuracy in accuracies.tolist()])


def largest_gain_at(curve: AccuracyCurve, accuracy: Any) -> np.ndarray:
    """The largest normalized gain of a curve where it is right at least so often; between points in proportion.

    >>> n_right, gain = np.array([2, 3, 4]), np.array([1.0, 0.5, 0.75])
    >>> curve = AccuracyCurve("darts", np.array([0.0, 1.0, 2.0]), n_right, gain, n_rows=4, most_information=1.0)
    >>> largest_gain_at(curve, [0.1, 0.5, 0.75, 1.0])
    array([1.  , 1.  , 0.75, 0.75])
    """
    rising = np.argsort(curve.accuracy, kind="stable")
    most = np.maximum.accumulate(curve.normalized_gain[rising][::-1])[::-1]
    reached, first = np.unique(curve.accuracy[rising], return_index=True)
    gains: np.ndarray = np.interp(accuracy, reached, most[first])
    return gains


def promise_rows(outputs: Outputs, accuracies: Sequence[float] = PROMISED) -> list[dict[str, Any]]:
    """The accuracy that DARTS keeps on the judged rows, empirical and with a confidence, and what it says there."""
    past, judged = (outputs.curve(part, "darts") for part in (outputs.past, outputs.judged))
    rows = []
    for confidence, search in ((None, "exact"), (PROMISE_CONFIDENCE, "fixed-sequence")):
        for accuracy in accuracies:
            setting = _setting(past, accuracy, confidence, search)
            place = judged.place(setting)
            rows.append(
                {
                    "confidence": confidence,
                    "asked": accuracy,
                    "setting": _or_none(setting),
                    "accuracy": float(judged.accuracy[place]),
                    "normalized_gain": float(judged.normalized_gain[place]),
                }
            )
    return rows


def breakdown_rows(outputs: Outputs, accuracies: Sequence[float]) -> list[dict[str, Any]]:
    """Figure 7: the shares of wrong answers, and of right ones by what they say; FLAT is FLAT-REJ asked for nothing."""
    settings = [("FLAT", "FLAT-REJ", 0.0)]
    settings += [(name, name, accuracy) for name in ("FLAT-REJ", "DARTS") for accuracy in accuracies]
    trades = {name: trade_off(outputs, name) for name in ("FLAT-REJ", "DARTS")}
    rows = []
    for shown, name, accuracy in settings:
        bars = breakdown(
            outputs.judged.labels, names_of(trades[name].answers(accuracy), outputs.taxonomy), outputs.taxonomy
        )
        rows.append(
            {
                "method": shown,
                "asked": accuracy,
                "wrong": bars.wrong,
                "information": bars.information.tolist(),
                "shares": bars.shares.tolist(),
                "names": list(bars.names),
            }
        )
    return rows


def flat_measures(outputs: Outputs) -> dict[str, float]:
    """Table 1: how often the most probable leaf is the label, and how similar the two are, in percent."""
    answers = names_of(outputs.judged.p.argmax(axis=1), outputs.taxonomy)
    return {
        "accuracy_percent": 100 * float(np.mean(np.asarray(answers) == outputs.judged.labels)),
        "similarity_percent": 100 * semantic_similarity(outputs.judged.labels, answers, outputs.taxonomy),
    }


def names_of(nodes: np.ndarray, taxonomy: Taxonomy) -> list[Any]:
    """The names of node numbers."""
    return [taxonomy.nodes[node] for node in nodes]


def _setting(curve: AccuracyCurve, accuracy: float, confidence: float | None, search: str) -> float:
    """As ``setting_for``, without its warning: a row of a figure shows that nothing but the root was left to say."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "An accuracy of")
        return setting_for(curve, accuracy, confidence, search)


def _or_none(setting: float) -> float | None:
    """JSON has no infinity."""
    return setting if np.isfinite(setting) else None
