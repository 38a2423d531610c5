"""Make the pictures of the docs again: python docs/make_pictures.py (`make docs`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import make_pictures_images
import matplotlib
import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA

import nearsay as ns
from nearsay.evaluate.drawing import FEW_COLORS
from nearsay.evaluate.tour import take_tour

IMAGES = Path(__file__).parent / "images"
FEW_DIGITS = (0, 1, 4, 6, 7)  # classes that two dimensions can hold apart


def digits_in_the_plane(count: int = 30, room: float = 4.5) -> tuple[Any, np.ndarray, np.ndarray]:
    """All digits of a few classes in two dimensions, and `count` of them that do not cover one another."""
    digits = load_digits()
    few = np.isin(digits.target, FEW_DIGITS)
    digits.data, digits.images, digits.target = digits.data[few], digits.images[few], digits.target[few]
    plane = PCA(2, random_state=0).fit_transform(digits.data)
    kept: list[int] = []
    for row in np.random.default_rng(5).permutation(len(plane)):
        if len(kept) < count and all(np.linalg.norm(plane[row] - plane[other]) > room for other in kept):
            kept.append(int(row))
    return digits, plane, np.array(kept)


def neighborhood() -> Any:
    """A 4 among thirty digits; two of its three neighbors are fours."""
    digits, plane, kept = digits_in_the_plane()
    y = digits.target[kept]
    clf = ns.NeighborClassifier(n_neighbors=3).fit(plane[kept], y)
    others = np.setdiff1d(np.flatnonzero(digits.target == 4), kept)
    said = dict(zip(others, clf.explain(plane[others]), strict=True))
    # Of the contested fours the one with most room, so that the links can be seen.
    query = max((row for row in others if said[row].votes.get(4) == 2), key=lambda row: said[row].distances[0])
    return ns.NeighborhoodDisplay.from_estimator(
        clf, plane[kept], y, plane[query], images=digits.images[kept], query_image=digits.images[query]
    ).figure_


def voronoi() -> Any:
    """The same thirty digits: each owns the places that are nearest to it."""
    digits, plane, kept = digits_in_the_plane()
    y = digits.target[kept]
    clf = ns.NeighborClassifier(n_neighbors=1).fit(plane[kept], y)
    return ns.DecisionRegionsDisplay.from_estimator(clf, plane[kept], y, images=digits.images[kept]).figure_


def regions() -> Any:
    """Fifteen neighbors on two columns of the iris data."""
    iris = load_iris(as_frame=True)
    X, y = iris.data[["petal length (cm)", "sepal length (cm)"]], iris.target_names[iris.target]
    clf = ns.NeighborClassifier(n_neighbors=15).fit(X, y)
    return ns.DecisionRegionsDisplay.from_estimator(clf, X, y).figure_


def k_curve() -> Any:
    """Which k suits the digits."""
    X, y = load_digits(return_X_y=True)
    return ns.KCurveDisplay.from_estimator(ns.NeighborClassifier(n_neighbors="auto").fit(X, y)).figure_


def speed() -> Any:
    """How many queries a second exact search answers, beside scikit-learn's and faiss's: the table in RESULTS.md."""
    lines = (Path(__file__).parent.parent / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8").splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    cases = [row for row in table if len(row) == 7 and row[3] not in ("", "× tuned faiss") and row[6][:1].isdigit()]
    ours = np.array([float(row[1]) for row in cases])
    rivals = {
        "nearsay": ours,
        "faiss, tuned": ours / [float(row[3]) for row in cases],
        "scikit-learn": ours / [float(row[2]) for row in cases],
    }
    figure = Figure(figsize=(7.0, 3.6), layout="constrained")
    ax = figure.subplots()
    for number, (name, speeds) in enumerate(rivals.items()):
        places = np.arange(len(cases)) + 0.26 * (number - 1)
        bars = ax.barh(places, speeds / ours * 100, height=0.24, color=FEW_COLORS[number], label=name)
        ax.bar_label(bars, [f"{speed:,.0f}" for speed in speeds], padding=3, fontsize=8)
    ax.set_yticks(np.arange(len(cases)), [row[0] for row in cases])
    ax.invert_yaxis()
    ax.set_xticks([])
    ax.set_xlim(0, 112)
    ax.set_title("Exact search, one thread: queries a second", loc="left")
    ax.spines[["top", "right", "bottom"]].set_visible(False)
    ax.tick_params(left=False)
    figure.legend(loc="outside lower center", ncols=len(rivals), frameon=False)
    return figure


PICTURES: dict[str, Callable[[], Any]] = {
    "neighborhood": neighborhood,
    "voronoi": voronoi,
    "regions": regions,
    "k-curve": k_curve,
    "speed": speed,
}


def main() -> None:
    matplotlib.use("Agg")
    IMAGES.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        draw().savefig(IMAGES / f"{name}.png", dpi=110)
    take_tour(IMAGES / "tour.png")
    make_pictures_images.main()


if __name__ == "__main__":
    main()
