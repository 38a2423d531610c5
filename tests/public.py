"""What users import: every name of ``nearsay`` and of its public packages, so that tests can ask all of them."""

from __future__ import annotations

import inspect
from typing import Any

import nearsay as ns

ROOMS = [ns, *(thing for name in ns.__all__ if inspect.ismodule(thing := getattr(ns, name)))]
PUBLIC: dict[str, Any] = {
    name: thing for room in ROOMS for name in room.__all__ if not inspect.ismodule(thing := getattr(room, name))
}
# What learns from rows in memory; those that learn from images or from files have tests of their own.
ESTIMATORS: dict[str, type] = {
    name: kind
    for name, kind in PUBLIC.items()
    if (hasattr(kind, "get_params") or kind is ns.NeighborIndex)
    and "X" in inspect.signature(getattr(kind, "fit", lambda: None)).parameters
    and kind is not ns.ShardedClassifier
}


def declared(estimator: Any) -> dict[str, str]:
    """Checks of scikit-learn that an estimator cannot pass, and why: of those that hold neighbors and weights, one.

    docs/rows-and-weights.md shows users how to declare it.
    """
    check = "check_sample_weight_equivalence_on_dense_data"
    if isinstance(estimator, ns.NeighborClassifier | ns.FusedClassifier):
        return {check: "A row of weight 2 is one neighbor, not two; test_sample_weight.py checks weight 0."}
    if isinstance(estimator, ns.HedgedClassifier | ns.ConformalClassifier):
        return {check: "A promise counts each row once, whatever it weighs; test_sample_weight.py checks weight 0."}
    return {}
