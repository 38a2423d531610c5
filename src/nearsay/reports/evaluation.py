"""Evaluation of answers about labeled items, as one plain dict for the command line, the page and the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nearsay.core.arrays import as_labels
from nearsay.displays.case_tables import without_empty_end
from nearsay.displays.hedging.specificity_curve import measured_curve, most_specific
from nearsay.errors import InputError
from nearsay.metrics.keywords import keyword_measures
from nearsay.metrics.probability import accuracy, bins_of, macro_precision, macro_recall, mean_log_posterior
from nearsay.posterior.evidence.records import likely_range
from nearsay.posterior.methods.past_case_table import CaseTable
from nearsay.posterior.sharded import ShardedClassifier
from nearsay.taxonomy.taxonomy import Taxonomy

TARGET = 0.95
# Accuracies whose operating points are listed below the hedging curve.
LISTED = (0.8, 0.9, 0.95, 0.99)
PAIRS_SHOWN = 12
MISTAKES_SHOWN = 12
POINTS_SHOWN = 200
RULE = "darts"
# Shared by the chart, its table and the calibration error.
N_BINS = 10
# A level of more nodes has no table of all pairs; a longer axis of past cases is neither drawn nor listed.
MOST_NODES, MOST_CELLS = 30, 40


def evaluation_summary(
    y_true: Any,
    y_prob: Any,
    classes: Any,
    *,
    taxonomy: Taxonomy | None = None,
    target: float = TARGET,
    keywords: tuple[Any, Any] | None = None,
    ids: Sequence[Any] | None = None,
    evidence: Sequence[Any] | Mapping[int, Any] | None = None,
    title: str = "",
    how: str = "",
) -> dict[str, Any]:
    """Accuracy, calibration, classes, confusions and mistakes, in plain values that ``json.dumps`` takes.

    Parameters
    ----------
    y_true : (n,) labels of items that did not vote on their own answers
    y_prob : (n, n_classes) probabilities; the answer is the most probable class
    classes : (n_classes,) labels of the columns, sorted
    taxonomy : Taxonomy, optional; its nodes include all classes; then hedged answers are judged too.
    target : required accuracy of hedged answers.
    keywords : (true keywords, predicted keywords), optional; as ``keyword_measures`` takes them.
    ids, evidence : (n,) optional
        Names of the items, and the evidence of each from ``explain``, for the list of likely mistakes: of all items, or
        by number of those that are listed, the surest ``MISTAKES_SHOWN`` that are wrong.
    title, how : what was evaluated, and how: "leave-one-out", "on 20% that were held out".

    >>> summary = evaluation_summary(["oak", "oak", "elm"], [[0, 1], [0.75, 0.25], [0.5, 0.5]], ["elm", "oak"])
    >>> summary["n_right"], summary["n_items"], summary["confused"]
    (2, 3, [{'label': 'oak', 'predicted': 'elm', 'n_items': 1, 'share': 0.5}])
    """
    y, names, p = as_labels(y_true), as_labels(classes), np.asarray(y_prob, dtype=np.float64)
    if len(y) != len(p) or len(y) == 0:
        raise InputError(f"There must be one label for each row of probabilities; got {len(y)} and {len(p)} rows.")
    answers = names[p.argmax(axis=1)]
    log_posterior = mean_log_posterior(p, y, classes=names)
    summary: dict[str, Any] = {
        "title": title,
        "how": how,
        **answer_figures(y, answers, p.max(axis=1), names, log_posterior),
        "mistakes": _mistakes(y, answers, p, names, ids, evidence),
    }
    if taxonomy is not None:
        summary["hedging"] = _hedging(y, p, names, taxonomy, target)
    if keywords is not None:
        summary["keywords"] = keyword_measures(*keywords)
    return summary


def answer_figures(
    y: np.ndarray, answers: np.ndarray, confidence: np.ndarray, names: np.ndarray, log_posterior: float
) -> dict[str, Any]:
    """Accuracy, calibration, classes and confusions from labels, answers and the confidence in each: (n,) arrays."""
    right = answers == y
    low, high = likely_range(np.array([right.mean()]), np.array([len(y)]))
    bins = bins_of(confidence, right, N_BINS)
    return {
        "n_items": len(y),
        "n_classes": len(names),
        "n_right": int(right.sum()),
        "accuracy": accuracy(answers, y),
        "accuracy_range": [float(low[0]), float(high[0])],
        "always_the_most_common": Counter(y.tolist()).most_common(1)[0][1] / len(y),
        "mean_log_posterior": log_posterior,
        "calibration_error": float(bins.n_rows @ np.abs(bins.accuracy - bins.confidence)) / len(y),
        "mean_confidence": float(confidence.mean()),
        "macro_precision": macro_precision(answers, y),
        "macro_recall": macro_recall(answers, y),
        "reliability": [
            {"confidence": float(c), "accuracy": float(a), "n_items": int(n)} for c, a, n in zip(*bins, strict=True)
        ],
        "classes": by_class(y, answers, names),
        "confused": confused_pairs(y, answers),
    }


def hedging_points(y_true: Any, y_prob: Any, classes: Any, taxonomy: Taxonomy) -> list[dict[str, float]]:
    """The accuracy-specificity curve of hedged answers: at most ``POINTS_SHOWN`` of its points."""
    y, names, p = as_labels(y_true), as_labels(classes), np.asarray(y_prob, dtype=np.float64)
    curve = measured_curve(y, _leaves(p, names, taxonomy), taxonomy, RULE)
    reached, gain = curve.accuracy, curve.normalized_gain
    shown = np.unique(np.linspace(0, len(gain) - 1, min(len(gain), POINTS_SHOWN)).round().astype(int))
    return [{"accuracy": float(reached[place]), "gain": float(gain[place])} for place in shown]


def by_class(y: np.ndarray, answers: np.ndarray, names: np.ndarray) -> list[dict[str, Any]]:
    """Items, answers and right answers of each class, those with most mistakes first."""
    true, answered, hits = (Counter(labels.tolist()) for labels in (y, answers, y[answers == y]))
    rows = [
        {
            "label": label,
            "n_items": true[label],
            "n_predicted": answered[label],
            "n_right": hits[label],
            "recall": hits[label] / true[label] if true[label] else None,
            "precision": hits[label] / answered[label] if answered[label] else None,
        }
        for label in names.tolist()
    ]
    return sorted(rows, key=lambda row: (row["n_right"] - row["n_items"], str(row["label"])))


def confused_pairs(y: np.ndarray, answers: np.ndarray) -> list[dict[str, Any]]:
    """Pairs of a class and the answer given instead, most frequent first."""
    totals = Counter(y.tolist())
    wrong = Counter((a, b) for a, b in zip(y.tolist(), answers.tolist(), strict=True) if a != b)
    ordered = sorted(wrong.items(), key=lambda pair: (-pair[1], str(pair[0])))[:PAIRS_SHOWN]
    return [{"label": a, "predicted": b, "n_items": n, "share": n / totals[a]} for (a, b), n in ordered]


def _mistakes(
    y: np.ndarray, answers: np.ndarray, p: np.ndarray, names: np.ndarray, ids: Any, evidence: Any
) -> list[dict[str, Any]]:
    """Items whose label the answer contradicts, the surest answers first: the label may be the mistake."""
    sure = p.max(axis=1)
    wrong = np.flatnonzero(answers != y)
    place = {label: column for column, label in enumerate(names.tolist())}
    listed = []
    for row in wrong[np.argsort(-sure[wrong], kind="stable")][:MISTAKES_SHOWN].tolist():
        why = None if evidence is None else evidence[row]
        listed.append(
            {
                "id": row if ids is None else ids[row].item() if isinstance(ids[row], np.generic) else ids[row],
                "label": y[row : row + 1].tolist()[0],
                "suggested": answers[row : row + 1].tolist()[0],
                "probability": float(sure[row]),
                "label_probability": float(p[row, place[y[row : row + 1].tolist()[0]]]),
                "text": None if why is None else str(why),
                "neighbors": [] if why is None else why.rows(),
            }
        )
    return listed


def _hedging(y: np.ndarray, p: np.ndarray, names: np.ndarray, taxonomy: Taxonomy, target: float) -> dict[str, Any]:
    curve = measured_curve(y, _leaves(p, names, taxonomy), taxonomy, RULE)

    def listed(least: float) -> dict[str, Any] | None:
        best = most_specific((curve.accuracy, curve.normalized_gain), least)
        return None if best is None else {"requested": least, "accuracy": best[0], "gain": best[1]}

    points = [listed(least) for least in sorted({*LISTED, target})]
    return {"requested": target, "at_requested": listed(target), "points": [point for point in points if point]}


def _leaves(p: np.ndarray, names: np.ndarray, taxonomy: Taxonomy) -> np.ndarray:
    """Probabilities of classes as those of leaves; that of an inner node is divided among the leaves below it."""
    return p @ taxonomy.leaf_mass(names)


def left_out_summary(classifier: ShardedClassifier) -> dict[str, Any]:
    """``evaluation_summary`` of all rows by leave-one-out, without all probabilities in memory.

    Four numbers are kept per row. Mistakes are in ``classifier.label_scores()``, which answers all rows again.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> np.save(f"{folder}/0.npy", np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]]))
    >>> from nearsay.posterior.classifier import NeighborClassifier
    >>> votes = ShardedClassifier(NeighborClassifier(1, posterior="proportional"))
    >>> summary = left_out_summary(votes.fit(folder, list("aaabbb")))
    >>> summary["n_right"], summary["n_items"]
    (6, 6)
    """
    labels, names = classifier.labels_, classifier.classes_
    predicted, sure, p_label = np.empty(len(labels), np.int64), np.empty(len(labels)), np.empty(len(labels))
    counted = np.zeros(len(labels), np.bool_)
    for rows, p in classifier.left_out_blocks():
        known = labels[rows] >= 0  # classes whose rows all have weight 0 are left out
        rows, p = rows[known], p[known]
        predicted[rows], sure[rows] = p.argmax(axis=1), p.max(axis=1)
        p_label[rows], counted[rows] = p[np.arange(len(p)), labels[rows]], True
    predicted, sure, p_label, labels = predicted[counted], sure[counted], p_label[counted], labels[counted]
    with np.errstate(divide="ignore"):
        log_posterior = float(np.log(p_label).mean())
    how = "Leave-one-out: each row was answered by all others."
    return {"how": how, **answer_figures(names[labels], names[predicted], sure, names, log_posterior)}


def confusion_by_level(y_true: Any, y_pred: Any, taxonomy: Taxonomy) -> list[dict[str, Any]]:
    """Accuracy and confusion matrix at each level below the root, in plain values.

    Parameters
    ----------
    y_true, y_pred : (n,) names of nodes
    taxonomy : Taxonomy

    Returns
    -------
    list of dict, the most general level first
        ``level`` (1 is right below the root), ``n_items``, ``n_right``, ``accuracy``, ``confused`` (as in
        ``evaluation_summary``), ``nodes``, and ``counts``: a line for each node that items are under, a column for
        each that the answers are under. A node above the level counts as itself; with more than ``MOST_NODES``
        nodes there are no ``nodes`` and ``counts``.

    >>> tree = Taxonomy.from_paths([("animal", "bird", "owl"), ("animal", "bird", "hawk"), ("animal", "cat")])
    >>> [(each["level"], each["accuracy"]) for each in confusion_by_level(["owl", "cat"], ["hawk", "cat"], tree)]
    [(1, 1.0), (2, 0.5)]
    """
    y, predicted = as_labels(y_true), as_labels(y_pred)
    paths = {name: taxonomy.path(name) for name in {*y.tolist(), *predicted.tolist()}}
    order = {path: place for place, path in enumerate(taxonomy.to_paths())}
    # Nodes side by side as in the tree, an inner one before what is below it.
    first = {node: place for path, place in sorted(order.items(), key=lambda each: -each[1]) for node in path}
    deepest = max(len(path) for path in paths.values())
    levels = []
    for level in range(1, deepest):
        above = {name: path[min(level, len(path) - 1)] for name, path in paths.items()}
        true, called = ([above[name] for name in names.tolist()] for names in (y, predicted))
        counts = Counter(zip(true, called, strict=True))
        nodes = sorted({*true, *called}, key=lambda node: (first[node], taxonomy.depth(node)))
        few = len(nodes) <= MOST_NODES
        n_right = sum(n for (a, b), n in counts.items() if a == b)
        levels.append(
            {
                "level": level,
                "n_items": len(y),
                "n_right": n_right,
                "accuracy": n_right / len(y),
                "confused": confused_pairs(np.array(true, np.object_), np.array(called, np.object_)),
                "nodes": [str(node) for node in nodes] if few else None,
                "counts": [[counts[a, b] for b in nodes] for a in nodes] if few else None,
            }
        )
    return levels


def plain_tables(tables: Sequence[CaseTable]) -> list[dict[str, Any]]:
    """Tables of past cases as name, axes, ticks, cases and probability, in values that ``json.dumps`` takes.

    A table with more than ``MOST_CELLS`` cells along an axis is ``too_large``: it has no ticks, cases and probability.

    >>> rank = CaseTable("rank", ("rank of the true label",), ([1, 2],), np.array([9, 1]), np.array([0.9, 0.1]))
    >>> plain_tables([rank])[0]["probability"]
    [0.9, 0.1]
    """
    plain = []
    for table in map(without_empty_end, tables):
        shape, ticks, cases, probability = list(table.cases.shape), None, None, None
        too_large = max(shape, default=0) > MOST_CELLS
        if not too_large:
            ticks = [[tick if isinstance(tick, str) else float(tick) for tick in axis] for axis in table.ticks]
            cases, probability = table.cases.astype(float).tolist(), table.probability.astype(float).tolist()
        plain.append(
            {
                "name": table.name, "axes": list(table.axes), "shape": shape, "too_large": too_large, "ticks": ticks,
                "cases": cases, "probability": probability,
            }
        )  # fmt: skip
    return plain
