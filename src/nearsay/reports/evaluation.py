"""How good the answers about known items were: one plain dict and the pictures to it, from one pass over the answers.

::

    labels, probabilities ──► evaluation_summary ──► {"accuracy": 0.95, "classes": [...], ...} ─┐
                          └─► evaluation_figures ──► {"reliability": Figure, ...} ──────────────┴─► write_report
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nearsay.core.arrays import as_labels
from nearsay.displays.hedging.specificity_curve import AccuracySpecificityDisplay, measured_curve
from nearsay.displays.reliability import ReliabilityDisplay
from nearsay.errors import InputError
from nearsay.metrics.keywords import keyword_measures
from nearsay.metrics.probability import (
    accuracy,
    expected_calibration_error,
    macro_precision,
    macro_recall,
    mean_log_posterior,
    reliability_bins,
)
from nearsay.posterior.evidence.records import likely_range
from nearsay.taxonomy.taxonomy import Taxonomy

ASKED = 0.95
# Accuracies whose operating points are listed below the hedging curve.
LISTED = (0.8, 0.9, 0.95, 0.99)
PAIRS_SHOWN = 12
MISTAKES_SHOWN = 12
POINTS_SHOWN = 200
RULE = "darts"
# One number of bins for the picture, its table and the error, which would differ otherwise.
N_BINS = 10


def evaluation_summary(
    y_true: Any,
    y_prob: Any,
    classes: Any,
    *,
    taxonomy: Taxonomy | None = None,
    asked: float = ASKED,
    keywords: tuple[Any, Any] | None = None,
    ids: Sequence[Any] | None = None,
    evidence: Sequence[Any] | Mapping[int, Any] | None = None,
    title: str = "",
    how: str = "",
) -> dict[str, Any]:
    """What became of the answers, in plain values that ``json.dumps`` takes.

    Parameters
    ----------
    y_true : (n,) labels of items that were not asked about themselves
    y_prob : (n, n_classes) what was said of them; the answer is the most probable class
    classes : (n_classes,) labels of the columns, sorted
    taxonomy : Taxonomy, optional
        Its nodes include all classes; then hedged answers are judged too.
    asked : float
        How often hedged answers should be right.
    keywords : (true keywords, keywords said), optional
        As ``keyword_measures`` takes them.
    ids, evidence : (n,) optional
        Names of the items, and what ``explain`` says of each, for the list of likely mistakes: of all items, or by
        number of those that are listed, the surest ``MISTAKES_SHOWN`` that are wrong.
    title, how : str
        What was judged, and how: "leave-one-out", "on 20% that were held out".

    >>> found = evaluation_summary(["oak", "oak", "elm"], [[0, 1], [0.75, 0.25], [0.5, 0.5]], ["elm", "oak"])
    >>> found["n_right"], found["n_items"], found["confused"]
    (2, 3, [{'label': 'oak', 'said': 'elm', 'n_items': 1, 'share': 0.5}])
    """
    y, names, p = as_labels(y_true), as_labels(classes), np.asarray(y_prob, dtype=np.float64)
    if len(y) != len(p) or len(y) == 0:
        raise InputError(f"There must be one label for each row of probabilities; got {len(y)} and {len(p)} rows.")
    said = names[p.argmax(axis=1)]
    right = said == y
    low, high = likely_range(np.array([right.mean()]), np.array([len(y)]))
    bins = reliability_bins(p, y, classes=names, n_bins=N_BINS)
    most_common = Counter(y.tolist()).most_common(1)[0][1]
    summary: dict[str, Any] = {
        "title": title,
        "how": how,
        "n_items": len(y),
        "n_classes": len(names),
        "n_right": int(right.sum()),
        "accuracy": accuracy(said, y),
        "accuracy_range": [float(low[0]), float(high[0])],
        "always_the_most_common": most_common / len(y),
        "mean_log_posterior": mean_log_posterior(p, y, classes=names),
        "calibration_error": expected_calibration_error(p, y, classes=names, n_bins=N_BINS),
        "mean_confidence": float(p.max(axis=1).mean()),
        "macro_precision": macro_precision(said, y),
        "macro_recall": macro_recall(said, y),
        "reliability": [
            {"confidence": float(c), "accuracy": float(a), "n_items": int(n)} for c, a, n in zip(*bins, strict=True)
        ],
        "classes": by_class(y, said, names),
        "confused": confused_pairs(y, said),
        "mistakes": _mistakes(y, said, p, names, ids, evidence),
    }
    if taxonomy is not None:
        summary["hedging"] = _hedging(y, p, names, taxonomy, asked)
    if keywords is not None:
        summary["keywords"] = keyword_measures(*keywords)
    return summary


def hedging_points(y_true: Any, y_prob: Any, classes: Any, taxonomy: Taxonomy) -> list[dict[str, float]]:
    """The curve of all hedged answers, from the most specific to the surest: at most ``POINTS_SHOWN`` of its points."""
    y, names, p = as_labels(y_true), as_labels(classes), np.asarray(y_prob, dtype=np.float64)
    curve = measured_curve(y, _leaves(p, names, taxonomy), taxonomy, RULE)
    reached, gain = curve.accuracy, curve.normalized_gain
    shown = np.unique(np.linspace(0, len(gain) - 1, min(len(gain), POINTS_SHOWN)).round().astype(int))
    return [{"accuracy": float(reached[place]), "gain": float(gain[place])} for place in shown]


def evaluation_figures(
    y_true: Any, y_prob: Any, classes: Any, *, taxonomy: Taxonomy | None = None, asked: float = ASKED
) -> dict[str, Any]:
    """The pictures of a report by the names it knows them by: ``reliability``, and ``hedging`` with a taxonomy."""
    y, names, p = as_labels(y_true), as_labels(classes), np.asarray(y_prob, dtype=np.float64)
    figures = {"reliability": _figure(4.6, 4.2)}
    ReliabilityDisplay.from_predictions(y, p, classes=names, n_bins=N_BINS, ax=figures["reliability"].axes[0])
    if taxonomy is not None:
        curve = measured_curve(y, _leaves(p, names, taxonomy), taxonomy, RULE)
        figures["hedging"] = _figure(4.6, 4.2)
        drawn = AccuracySpecificityDisplay.from_curves({"answers": curve}, asked=asked, ax=figures["hedging"].axes[0])
        drawn.ax_.get_legend().remove()  # one curve needs no name
    return figures


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    # Without pyplot: no window, whatever backend is set.
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.subplots()
    return figure


def by_class(y: np.ndarray, said: np.ndarray, names: np.ndarray) -> list[dict[str, Any]]:
    """Of each class how many there are and how many were found, those with most mistakes first."""
    true, answered, hits = (Counter(labels.tolist()) for labels in (y, said, y[said == y]))
    rows = [
        {
            "label": label,
            "n_items": true[label],
            "n_said": answered[label],
            "n_right": hits[label],
            "recall": hits[label] / true[label] if true[label] else None,
            "precision": hits[label] / answered[label] if answered[label] else None,
        }
        for label in names.tolist()
    ]
    return sorted(rows, key=lambda row: (row["n_right"] - row["n_items"], str(row["label"])))


def confused_pairs(y: np.ndarray, said: np.ndarray) -> list[dict[str, Any]]:
    """Pairs of a class and what was said instead, most frequent first."""
    totals = Counter(y.tolist())
    wrong = Counter((a, b) for a, b in zip(y.tolist(), said.tolist(), strict=True) if a != b)
    ordered = sorted(wrong.items(), key=lambda pair: (-pair[1], str(pair[0])))[:PAIRS_SHOWN]
    return [{"label": a, "said": b, "n_items": n, "share": n / totals[a]} for (a, b), n in ordered]


def _mistakes(
    y: np.ndarray, said: np.ndarray, p: np.ndarray, names: np.ndarray, ids: Any, evidence: Any
) -> list[dict[str, Any]]:
    """Items whose label the answer contradicts, the surest answers first: the label may be the mistake."""
    sure = p.max(axis=1)
    wrong = np.flatnonzero(said != y)
    place = {label: column for column, label in enumerate(names.tolist())}
    listed = []
    for row in wrong[np.argsort(-sure[wrong], kind="stable")][:MISTAKES_SHOWN].tolist():
        found = None if evidence is None else evidence[row]
        listed.append(
            {
                "id": row if ids is None else _plain(ids[row]),
                "label": y[row : row + 1].tolist()[0],
                "suggested": said[row : row + 1].tolist()[0],
                "probability": float(sure[row]),
                "label_probability": float(p[row, place[y[row : row + 1].tolist()[0]]]),
                "text": None if found is None else str(found),
                "neighbors": [] if found is None else found.rows(),
            }
        )
    return listed


def _hedging(y: np.ndarray, p: np.ndarray, names: np.ndarray, taxonomy: Taxonomy, asked: float) -> dict[str, Any]:
    curve = measured_curve(y, _leaves(p, names, taxonomy), taxonomy, RULE)
    reached, gain = curve.accuracy, curve.normalized_gain

    def most_specific(least: float) -> dict[str, Any] | None:
        keeps = np.flatnonzero(reached >= least)
        if not len(keeps):
            return None
        best = keeps[gain[keeps].argmax()]
        return {"asked": least, "accuracy": float(reached[best]), "gain": float(gain[best])}

    points = [most_specific(least) for least in sorted({*LISTED, asked})]
    return {"asked": asked, "at_asked": most_specific(asked), "points": [point for point in points if point]}


def _leaves(p: np.ndarray, names: np.ndarray, taxonomy: Taxonomy) -> np.ndarray:
    """Probabilities of classes as those of leaves; that of an inner node is divided among the leaves below it."""
    spread: np.ndarray = p @ taxonomy.leaf_mass(names)
    return spread


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
