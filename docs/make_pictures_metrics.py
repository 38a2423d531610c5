"""Make the picture of docs/metrics.md again: python docs/make_pictures_metrics.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

import nearsay as ns

IMAGES = Path(__file__).parent / "images"
ALIKE_DIGITS = (1, 3, 5, 8, 9)  # classes that are taken for one another
N_SHOWN, N_NEIGHBORS = 40, 3


def apart(planes: list[np.ndarray], count: int) -> np.ndarray:
    """So many rows that do not cover one another in any of the planes, if there are as many."""
    kept: list[int] = []
    room = [0.09 * np.ptp(plane, axis=0).min() for plane in planes]
    for row in np.random.default_rng(0).permutation(len(planes[0])):
        clear = all(
            np.linalg.norm(plane[row] - plane[kept], axis=1).min(initial=np.inf) > space
            for plane, space in zip(planes, room, strict=True)
        )
        if clear and len(kept) < count:
            kept.append(int(row))
    return np.array(kept)


def before_and_after() -> Any:
    """Digits that nothing was learned from, in two dimensions: as they spread most, and as LMNN has them."""
    digits = load_digits()
    alike = np.flatnonzero(np.isin(digits.target, ALIKE_DIGITS))
    known, new = train_test_split(alike, test_size=0.5, random_state=0, stratify=digits.target[alike])
    X, y, truth = digits.data[known], digits.target[known], digits.target[new]
    maps = {
        "Euclidean, two principal components": PCA(2).fit(X),
        # Without the least components, pixels that hardly any digit has: they would throw single digits far out.
        "LMNN, two components": make_pipeline(PCA(20), ns.LMNN(n_neighbors=10, n_components=2)).fit(X, y),
    }
    planes = [learned.transform(digits.data[new]) for learned in maps.values()]
    shown = apart(planes, N_SHOWN)
    query, rows = _contested(planes, truth, shown)
    figure = Figure(figsize=(11.0, 4.8), layout="constrained")
    for ax, (name, learned), plane in zip(figure.subplots(1, 2), maps.items(), planes, strict=True):
        right = (
            ns.NeighborClassifier(N_NEIGHBORS, posterior="proportional")
            .fit(learned.transform(X), y)
            .score(plane, truth)
        )
        few = ns.NeighborClassifier(N_NEIGHBORS, posterior="proportional").fit(plane[rows], truth[rows])
        ns.displays.NeighborhoodDisplay.from_estimator(
            few,
            plane[rows],
            truth[rows],
            query=plane[query],
            images=digits.images[new[rows]],
            query_image=digits.images[new[query]],
            ax=ax,
        )
        ax.set_title(f"{name}: {right:.0%} of new digits right", loc="left", fontsize=10)
    return figure


def _contested(planes: list[np.ndarray], truth: np.ndarray, shown: np.ndarray) -> tuple[int, np.ndarray]:
    """Of the rows shown the one whose neighbors, among the others, gain most from the first plane to the last."""

    def agreeing(plane: np.ndarray, row: int) -> int:
        others = shown[shown != row]
        near = others[np.linalg.norm(plane[others] - plane[row], axis=1).argsort()[:N_NEIGHBORS]]
        return int((truth[near] == truth[row]).sum())

    query = max(shown, key=lambda row: agreeing(planes[-1], row) - agreeing(planes[0], row))
    return int(query), shown[shown != query]


def main() -> None:
    matplotlib.use("Agg")
    IMAGES.mkdir(exist_ok=True)
    before_and_after().savefig(IMAGES / "metric-before-after.png", dpi=110)


if __name__ == "__main__":
    main()
