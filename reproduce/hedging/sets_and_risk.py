"""What comes after the paper: sets of a few nodes beside the hedged node, and risk against coverage of climbing."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp, softmax

from nearsay.decision.calibration import calibrate
from nearsay.decision.envelope import operating_points
from nearsay.decision.guarantee import most_specific
from nearsay.decision.hedged import RULES_TO_TRY
from nearsay.decision.sets.class_scores import threshold
from nearsay.decision.sets.node_sets import SET_POINTS, NodeSets
from nearsay.metrics.selective import risk_coverage_curve
from nearsay.posterior.classifier import NeighborClassifier
from reproduce.hedging.methods import Outputs, Part
from reproduce.hedging.tin200 import Images

COVERAGES = (0.9, 0.95)
SIZES = (1, 2, 3)
COMPARED_RULES = ("climbing", "darts", "fixed-threshold", "flat-reject")

# Where two curves are compared: coverages between those that both reach.
GRID = np.linspace(0.05, 1.0, 96)


def default_outputs(images: Images) -> Outputs:
    """``NeighborClassifier()``: its leave-one-out probabilities of the training rows, and those of the test rows."""
    calibration = calibrate(NeighborClassifier(), images.train.X, images.train.y, None)
    place = images.taxonomy.check_labels(calibration.estimator.classes_.tolist())

    def part(p: np.ndarray, labels: Any) -> Part:
        by_leaf = np.zeros((len(p), images.taxonomy.n_leaves))
        by_leaf[:, place] = p
        return Part(by_leaf, np.asarray(labels))

    judged = part(calibration.estimator.predict_proba(images.test.X), images.test.y)
    return Outputs(images.taxonomy, part(calibration.probabilities, calibration.labels), judged)


def set_rows(outputs: Mapping[str, Outputs]) -> list[dict[str, Any]]:
    """Coverage and bits of the hedged node and of sets, each promised from past rows, on the judged ones."""
    rows = []
    for who, each in outputs.items():
        for asked in COVERAGES:
            hedge = _hedged(each, asked)
            rows.append({"classifier": who, "asked": asked, "answer": "hedged node", **hedge, "more_bits": 0.0})
            for max_nodes in SIZES:
                for score in SET_POINTS:
                    made = _sets(each, asked, max_nodes, score)
                    more = made["bits"] / hedge["bits"] - 1 if hedge["bits"] else None
                    name = f"{max_nodes} node{'s' if max_nodes > 1 else ''}, {score}"
                    rows.append({"classifier": who, "asked": asked, "answer": name, **made, "more_bits": more})
    return rows


def _hedged(outputs: Outputs, asked: float) -> dict[str, Any]:
    """As HedgedClassifier answers: the better of its rules."""
    tree, judged = outputs.taxonomy, outputs.judged
    curves = [outputs.curve(outputs.past, rule) for rule in RULES_TO_TRY]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "An accuracy of")
        way, (setting,) = most_specific([{"all": curve} for curve in curves], asked)
    nodes = operating_points(judged.p, tree, RULES_TO_TRY[way]).at(setting)
    return _measured(outputs, nodes[:, None])


def _sets(outputs: Outputs, asked: float, max_nodes: int, score: str) -> dict[str, Any]:
    tree, past, judged = outputs.taxonomy, outputs.past, outputs.judged
    rule = NodeSets(tree, np.array(tree.leaves), max_nodes, score)
    limit = threshold(rule.true_scores(past.p, tree.check_labels(past.labels)), asked)
    return _measured(outputs, rule.nodes(judged.p, np.full(len(judged.p), limit)))


def _measured(outputs: Outputs, nodes: np.ndarray) -> dict[str, Any]:
    """How often sets (n, max_nodes) hold the label, and what they say: log2(all leaves / leaves in the set)."""
    tree = outputs.taxonomy
    truth = tree.check_labels(outputs.judged.labels)
    is_node = nodes >= 0
    n_leaves = np.where(is_node, np.diff(tree.covers.tocsc().indptr)[np.maximum(nodes, 0)], 0).sum(axis=1)
    right = (tree.covers_label(np.maximum(nodes, 0), truth[:, None]) & is_node).any(axis=1)
    return {
        "coverage": float(right.mean()),
        "bits": float((right * np.log2(tree.n_leaves / n_leaves)).mean()),
        "leaves": float(n_leaves.mean()),
        "nodes": float(is_node.sum(axis=1).mean()),
    }


def risk_rows(outputs: Mapping[str, Outputs]) -> list[dict[str, Any]]:
    """hAURC of each rule on the judged rows, of probabilities as they are and tempered on the past rows.

    "above_climbing" is by how much the curve of a rule lies above that of climbing at most, over coverages of .05 to 1.
    """
    rows = []
    for who, each in outputs.items():
        heat = temperature(each)
        kinds = {"raw": each.judged.p, f"at temperature {heat:.2f}": _tempered(each.judged.p, heat)}
        for kind, p in kinds.items():
            curves = {
                rule: risk_coverage_curve(p, each.judged.labels, each.taxonomy, rule=rule) for rule in COMPARED_RULES
            }
            at = {rule: np.interp(GRID, one.coverage[::-1], one.risk[::-1]) for rule, one in curves.items()}
            rows += [
                {
                    "classifier": who,
                    "probabilities": kind,
                    "rule": rule,
                    "haurc": curves[rule].area,
                    "above_climbing": float((at[rule] - at["climbing"]).max()),
                }
                for rule in COMPARED_RULES
            ]
    return rows


def temperature(outputs: Outputs) -> float:
    """The temperature with the smallest log loss of the past rows."""
    logs = _logs(outputs.past.p)
    truth = outputs.taxonomy.check_labels(outputs.past.labels)

    def loss(log_heat: float) -> float:
        scaled = logs / math.exp(log_heat)
        return float(np.mean(logsumexp(scaled, axis=1) - scaled[np.arange(len(scaled)), truth]))

    return float(math.exp(minimize_scalar(loss, bounds=(-3, 3), method="bounded").x))


def _tempered(p: np.ndarray, heat: float) -> np.ndarray:
    tempered: np.ndarray = softmax(_logs(p) / heat, axis=1)
    return tempered


def _logs(p: np.ndarray) -> np.ndarray:
    """Logs of probabilities, where those of no vote count as one in a million."""
    logs: np.ndarray = np.log(np.maximum(p, 1e-6))
    return logs
