"""The targets for our classifiers on these data sets, and how many are met."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

DEFAULT = "NeighborClassifier()"
AUTO = "everything auto"
COMPANION = "beside the best peer"

PLAIN = "k-NN"


def targets(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is asked, on how many data sets it holds, and the figure of each; only what the rows can tell.

    Every line has "asked", "by_set" (data set → figure), "held", "of", and "median" of the figures.
    """
    by_set: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        by_set.setdefault(row["data"], {})[row["classifier"]] = row
    neighbors = {data: _best(rows_by_name, ("neighbors",)) for data, rows_by_name in by_set.items()}
    everyone = {data: _best(rows_by_name, ("neighbors", "model")) for data, rows_by_name in by_set.items()}
    defaults = {data: rows_by_name.get(DEFAULT) for data, rows_by_name in by_set.items()}
    lines = [
        _ratios("default ≤ the best k-NN peer (asked on all)", by_set, DEFAULT, neighbors, 1.0),
        _ratios("auto ≤ 0.65 × the best k-NN peer (asked in the median)", by_set, AUTO, neighbors, 0.65),
        _ratios("default ≤ the best of all peers", by_set, DEFAULT, everyone, 1.0),
        _ratios("auto ≤ the best of all peers (asked on 11 of 12)", by_set, AUTO, everyone, 1.0),
        _ratios("auto ≤ 1.02 × the default (asked on all)", by_set, AUTO, defaults, 1.02),
        _ratios("beside the best peer ≤ that peer (asked on 11 of 12)", by_set, COMPANION, everyone, 1.0),
        _line("accuracy of auto − that of plain votes, in standard errors: ≥ −1", _errors(by_set), least=-1.0),
    ]
    return [line for line in lines if line["of"]]


def _best(rows_by_name: dict[str, dict[str, Any]], kinds: Sequence[str]) -> dict[str, Any] | None:
    peers = [row for row in rows_by_name.values() if row["kind"] in kinds]
    return min(peers, key=lambda row: float(row["log_loss"]), default=None)


def _ratios(
    target: str,
    by_set: dict[str, dict[str, dict[str, Any]]],
    ours: str,
    peers: dict[str, dict[str, Any] | None],
    most: float,
) -> dict[str, Any]:
    """Log loss of ours over that of a peer."""
    ratios = {}
    for data, rows_by_name in by_set.items():
        peer = peers[data]
        if ours in rows_by_name and peer is not None:
            ratios[data] = rows_by_name[ours]["log_loss"] / peer["log_loss"]
    return _line(target, ratios, most=most)


def _errors(by_set: dict[str, dict[str, dict[str, Any]]]) -> dict[str, float]:
    """How far the accuracy lies above that of plain votes, in standard errors of the latter on one split."""
    errors = {}
    for data, of_data in by_set.items():
        if AUTO in of_data and PLAIN in of_data:
            plain = of_data[PLAIN]["accuracy"]
            error = np.sqrt(max(plain * (1 - plain), 1e-4) / of_data[PLAIN]["n_asked"])
            errors[data] = float((of_data[AUTO]["accuracy"] - plain) / error)
    return errors


def _line(target: str, figures: dict[str, float], *, least: float = -np.inf, most: float = np.inf) -> dict[str, Any]:
    held = sum(least <= figure <= most for figure in figures.values())
    median = float(np.median(list(figures.values()))) if figures else None
    return {"asked": target, "by_set": figures, "held": held, "of": len(figures), "median": median}
