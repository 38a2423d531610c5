"""Make the pictures of docs/hedged-pictures.md again: python docs/make_pictures_hedged.py.

They show tin200; where that data set is not on the machine, the pictures stay as they are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

import nearsay as ns
from nearsay.core.arrays import evenly
from nearsay.decision.rules import flat, flat_reject
from nearsay.displays.hedging.hedge_picture import HedgeDisplay
from nearsay.errors import DatasetNotFound
from reproduce.hedging.displays.hedged_answers import HedgedAnswersDisplay, verdicts
from reproduce.hedging.displays.similar_neighbors import SimilarNeighborsDisplay

IMAGES = Path(__file__).parent / "images"
ACCURACY, N_NEIGHBORS, N_ANSWERS = 0.7, 30, 12


def answers(hedged: Any, Q: np.ndarray) -> dict[str, Any]:
    """What the paper's three ways of answering say."""
    tree = hedged.taxonomy_
    p_leaf = hedged.predict_proba_nodes(Q)[:, : tree.n_leaves]
    return {
        "Flat": [tree.nodes[node] for node in flat(p_leaf, tree)],
        "Flat-rej": [tree.nodes[node] for node in flat_reject(p_leaf, tree, ACCURACY)],
        "DARTS": hedged.predict(Q),
    }


def main() -> None:
    matplotlib.use("Agg")
    IMAGES.mkdir(exist_ok=True)
    try:
        tree, rows, test = (
            ns.load_taxonomy("tin200"),
            ns.load_dataset("tin200"),
            ns.load_dataset("tin200", split="test"),
        )
    except DatasetNotFound as absent:
        print(f"The pictures of hedged answers stay as they are. {absent}")
        return
    knn = ns.NeighborClassifier(N_NEIGHBORS, posterior=ns.posterior.Proportional(model_failure=0.0))
    hedged = ns.HedgedClassifier(knn, tree, ACCURACY, rule="darts").fit(rows.X, rows.y)

    chosen = evenly(len(test), N_ANSWERS) + 7  # not the first of a class each time, and nobody's choice
    said = answers(hedged, test.X[chosen])
    table = HedgedAnswersDisplay.from_predictions(test.y[chosen], said, taxonomy=tree)
    table.figure_.savefig(IMAGES / "hedged-answers.png", dpi=100)

    judged = verdicts(test.y[chosen], said["DARTS"], tree)
    bits = tree.information[tree.check_labels(said["DARTS"])]
    # Of the answers that are right though less specific, the one that says most.
    query = chosen[np.where(np.array(judged) == "hedged", bits, -1.0).argmax()]
    one = test.X[query], test.y[query]
    on_tree = HedgeDisplay.from_estimator(hedged, *one)
    on_tree.figure_.savefig(IMAGES / "hedge-on-tree.png", dpi=100)
    strip = SimilarNeighborsDisplay.from_estimator(hedged.estimator_, *one, taxonomy=tree)
    strip.figure_.savefig(IMAGES / "similar-neighbors.png", dpi=100)


if __name__ == "__main__":
    main()
