"""Make the pictures of docs/specificity.md again: python docs/make_pictures_hedging.py (needs the data set tin200)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

import nearsay as ns
from nearsay.decision.envelope import AccuracyCurve, OperatingPoints, accuracy_curve, operating_points
from nearsay.decision.guarantee import setting_for
from nearsay.decision.rules import darts, flat
from nearsay.displays.hedging.specificity_curve import AccuracySpecificityDisplay
from nearsay.errors import DatasetNotFound
from nearsay.metrics.specificity import best_f_score, breakdown
from nearsay.neighbors.index import NeighborIndex
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.methods.proportional import Proportional
from nearsay.posterior.methods.weighted import Weighted
from nearsay.taxonomy.taxonomy import Taxonomy
from reproduce.hedging.displays.breakdown_bars import BreakdownDisplay
from reproduce.hedging.displays.f_against_k import FScoreDisplay

IMAGES = Path(__file__).parent / "images"
N_NEIGHBORS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100)
K = 30
RULES = {"DARTS": "darts", "iNaturalist's threshold": "fixed-threshold", "answer or reject": "flat-reject"}
POSTERIORS = {"votes": Proportional(model_failure=0.0), "weighted votes": Weighted(model_failure=0.0)}


@dataclass(frozen=True)
class Photographs:
    """20,000 photographs of 200 kinds, 5,000 to be answered, and the 100 nearest of each: its own row left out."""

    taxonomy: Taxonomy
    labels: np.ndarray
    truth: np.ndarray
    own: NeighborTable
    asked: NeighborTable

    def probabilities(self, posterior: Any, table: NeighborTable) -> np.ndarray:
        """Leaf by leaf, from the first neighbors that ``table`` holds."""
        fitted = posterior.fit(self.own.first(table.n_neighbors), self.labels, self.taxonomy.n_leaves)
        p: np.ndarray = fitted.proba(table)
        return p

    def points(self, rule: str, posterior: Any = POSTERIORS["votes"], k: int = K) -> OperatingPoints:
        """What a rule says to the photographs asked about."""
        return operating_points(self.probabilities(posterior, self.asked.first(k)), self.taxonomy, rule)

    def curve(self, points: OperatingPoints) -> AccuracyCurve:
        return accuracy_curve(points, self.truth, self.taxonomy)


@cache
def photographs() -> Photographs:
    """Found once: a smaller k is the first columns of the same tables."""
    taxonomy = ns.load_taxonomy("tin200")
    rows, asked = ns.load_dataset("tin200"), ns.load_dataset("tin200", split="test")
    index = NeighborIndex().fit(rows.X)
    most = max(N_NEIGHBORS)
    return Photographs(
        taxonomy, taxonomy.check_labels(rows.y), asked.y, index.leave_one_out(most), index.query(asked.X, most)
    )


def specificity_curve() -> Any:
    """Three rules on the votes of thirty neighbors."""
    found = photographs()
    curves = {name: found.curve(found.points(rule)) for name, rule in RULES.items()}
    return AccuracySpecificityDisplay.from_curves(curves, target=0.9).figure_


def f_against_k() -> Any:
    """Two rules on two posteriors, from one neighbor to a hundred."""
    found = photographs()
    scores = {
        f"{rule}, {votes}": {k: best_f_score(found.curve(found.points(RULES[rule], posterior, k))) for k in N_NEIGHBORS}
        for rule in ("DARTS", "answer or reject")
        for votes, posterior in POSTERIORS.items()
    }
    return FScoreDisplay.from_scores(scores).figure_


def breakdown_bars() -> Any:
    """What is said when nothing is asked for, and when ever more accuracy is."""
    found = photographs()
    tree, names = found.taxonomy, np.array(found.taxonomy.nodes)
    own = found.probabilities(POSTERIORS["votes"], found.own.first(K))
    known = accuracy_curve(operating_points(own, tree), names[found.labels], tree)
    p = found.probabilities(POSTERIORS["votes"], found.asked.first(K))
    said = {"flat": flat(p, tree)}
    for accuracy in (0.7, 0.8, 0.9, 0.95, 0.99):
        said[f"{accuracy:.0%} asked"] = darts(p, tree, setting_for(known, accuracy, method="exact"))
    bars = {name: breakdown(found.truth, names[nodes], tree) for name, nodes in said.items()}
    return BreakdownDisplay.from_breakdowns(bars).figure_


PICTURES: dict[str, Callable[[], Any]] = {
    "specificity-curve": specificity_curve,
    "f-against-k": f_against_k,
    "breakdown-bars": breakdown_bars,
}


def main() -> None:
    matplotlib.use("Agg")
    IMAGES.mkdir(exist_ok=True)
    try:
        photographs()
    except DatasetNotFound as absent:
        print(f"{', '.join(PICTURES)}: left as they are. {absent}")
        return
    for name, draw in PICTURES.items():
        draw().savefig(IMAGES / f"{name}.png", dpi=110)


if __name__ == "__main__":
    main()
