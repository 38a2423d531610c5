"""Make the pictures of the docs again: `make docs`, or python docs/make_pictures.py with the checkout on PYTHONPATH."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import make_architecture
import make_beside_published
import make_notebooks
import make_pictures_annotation
import make_pictures_gpu
import make_pictures_guides
import make_pictures_hedged
import make_pictures_hedging
import make_pictures_images
import make_pictures_metrics
import make_pictures_search
import make_results
import matplotlib
import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits, load_iris, make_blobs
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

import nearsay as ns
from benchmarks.classes import answers
from nearsay.displays.drawing import FEW_COLORS, PALE_INK, marker, quiet
from nearsay.displays.hedging.taxonomy_picture import TaxonomyDisplay
from nearsay.metrics.probability import mean_log_posterior
from nearsay.neighbors.by_class import labeled
from nearsay.posterior import past_cases
from nearsay.taxonomy.taxonomy import Taxonomy
from nearsay.tour.digits_tour import take_tour
from nearsay.tour.emoji_tour import take_tour as take_emoji_tour
from reproduce.probabilities.training_size import TrainingSizeDisplay

IMAGES = Path(__file__).parent / "images"
FEW_DIGITS = (0, 1, 4, 6, 7)  # classes that two dimensions can hold apart
ALIKE_DIGITS = (1, 3, 5, 8, 9)  # classes that are taken for one another
EDGES, GRAYS = (0, 0.5, 0.8, 0.95, 1.01), ("white", "#ededed", "#cfcfcf", "#9c9c9c")  # how novel, how dark


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
    clf = ns.NeighborClassifier(n_neighbors=3, posterior="proportional").fit(plane[kept], y)
    others = np.setdiff1d(np.flatnonzero(digits.target == 4), kept)
    said = dict(zip(others, clf.explain(plane[others]), strict=True))
    # Of the contested fours the one with most room, so that the links can be seen.
    query = max((row for row in others if said[row].votes.get(4) == 2), key=lambda row: said[row].distances[0])
    return ns.displays.NeighborhoodDisplay.from_estimator(
        clf, plane[kept], y, query=plane[query], images=digits.images[kept], query_image=digits.images[query]
    ).figure_


def voronoi() -> Any:
    """The same thirty digits: each owns the places that are nearest to it."""
    digits, plane, kept = digits_in_the_plane()
    y = digits.target[kept]
    clf = ns.NeighborClassifier(n_neighbors=1, posterior="proportional").fit(plane[kept], y)
    return ns.displays.DecisionRegionsDisplay.from_estimator(clf, plane[kept], y, images=digits.images[kept]).figure_


def regions() -> Any:
    """Fifteen neighbors on two columns of the iris data."""
    iris = load_iris(as_frame=True)
    X, y = iris.data[["petal length (cm)", "sepal length (cm)"]], iris.target_names[iris.target]
    clf = ns.NeighborClassifier(n_neighbors=15, posterior="proportional").fit(X, y)
    return ns.displays.DecisionRegionsDisplay.from_estimator(clf, X, y).figure_


def k_curve() -> Any:
    """Which k suits the digits."""
    X, y = load_digits(return_X_y=True)
    return ns.displays.KCurveDisplay.from_estimator(
        ns.NeighborClassifier(n_neighbors="auto", posterior="proportional").fit(X, y)
    ).figure_


def reliability() -> Any:
    """Half of the digits answered by the other half: votes, and what past cases make of them."""
    X, X_test, y, y_test = train_test_split(*load_digits(return_X_y=True), test_size=0.5, random_state=0)
    methods = {
        "scikit-learn's votes": KNeighborsClassifier(5),
        "rank&votesplit": ns.NeighborClassifier(5, posterior="rank&votesplit"),
        "pooled": ns.NeighborClassifier(5, posterior="pooled"),
    }
    ax = None
    for name, method in methods.items():
        ax = ns.displays.ReliabilityDisplay.from_estimator(method.fit(X, y), X_test, y_test, name=name, ax=ax).ax_
    return ax.figure


def records() -> Any:
    """Half of a few thousand made-up rows answered by the other half: what records say, and what was right."""
    X, y = make_blobs(6000, 4, centers=12, cluster_std=3.0, random_state=4)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    ax = None
    for posterior in ("proportional", "confmat&rank", "pooled"):
        clf = ns.NeighborClassifier(5, posterior=posterior).fit(X, y)
        ax = ns.displays.RecordDisplay.from_estimator(clf, X_test, y_test, name=posterior, ax=ax).ax_
    return ax.figure


def many_classes() -> Any:
    """The same queries, of the same hundred classes, as ever more classes are added: all listed, and 128 at most."""
    counts = (100, 128, 129, 200, 1000)
    ways = {"every class listed": labeled.LIST_ALL_UP_TO, "listed up to 128 classes only": 128}
    figure = Figure(figsize=(8.6, 3.6), layout="constrained")
    axes = figure.subplots(1, 2)
    for number, (name, limit) in enumerate(ways.items()):
        with patch.object(labeled, "LIST_ALL_UP_TO", limit), patch.object(past_cases, "LIST_ALL_UP_TO", limit):
            found = [answers(n_classes, ("pooled",)) for n_classes in counts]
        look = {
            "color": FEW_COLORS[number],
            "marker": marker(number),
            "markersize": 5,
            "label": name,
            "zorder": -number,
        }
        for ax, measure in zip(axes, ("accuracy", "log loss"), strict=True):
            ax.plot(counts, [row[f"pooled: {measure}"] for row in found], **look)
    for ax, measure in zip(axes, ("accuracy", "log loss, nat"), strict=True):
        ax.set_xscale("log")
        ax.set_xticks((100, 128, 200, 500, 1000), ("100", "128", "200", "500", "1,000"))
        ax.minorticks_off()
        ax.set(xlabel="classes", ylabel=measure)
        quiet(ax)
    axes[0].legend(frameon=False)
    return figure


def training_size() -> Any:
    """Two to fifteen digits of each class, ten draws each, answered about the rest."""
    X, y = load_digits(return_X_y=True)
    panels = {
        f"K = {k}": {
            posterior: [(n, *_small_collections(X, y, n, k, posterior)) for n in (2, 3, 4, 6, 8, 11, 15)]
            for posterior in ("proportional", "rank", "rank&votesplit", "pooled")
        }
        for k in (3, 5)
    }
    return TrainingSizeDisplay.from_panels(panels).figure_


def _small_collections(X: np.ndarray, y: np.ndarray, n: int, k: int, posterior: str) -> np.ndarray:
    """Mean accuracy and mean log posterior with n rows of each class."""
    measured = []
    for seed in range(10):
        order = np.random.default_rng(seed).permutation(len(y))
        kept = np.concatenate([order[y[order] == label][:n] for label in range(10)])
        asked = np.setdiff1d(order, kept)
        clf = ns.NeighborClassifier(k, posterior=posterior).fit(X[kept], y[kept])
        p = clf.predict_proba(X[asked])
        measured.append((np.mean(p.argmax(axis=1) == y[asked]), mean_log_posterior(p, y[asked])))
    return np.mean(measured, axis=0)


def case_tables() -> Any:
    """What the posterior of some digits has learned: which is taken for which, and the rank of the true one."""
    X, y = load_digits(return_X_y=True)
    alike = np.isin(y, ALIKE_DIGITS)
    clf = ns.NeighborClassifier(5, posterior="confmat&rank&votesplit").fit(X[alike], y[alike])
    return ns.displays.CaseTableDisplay.from_estimator(clf).figure_


def coverage() -> Any:
    """Prediction sets of the digits: coverage asked for and got, and how large sets get; ten halves of the data."""
    X, y = load_digits(return_X_y=True)
    asked = np.array([0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99])
    figure = Figure(figsize=(8.6, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.axline((1, 1), slope=1, color=PALE_INK, linewidth=1.0, linestyle="--")
    ways = {"leave-one-out": None, "5 folds": 5, "split": "split"}
    for number, (name, cv) in enumerate(ways.items()):
        got = np.mean([_coverage_and_size(X, y, cv, asked, seed) for seed in range(10)], axis=0)
        look = {"color": FEW_COLORS[number], "marker": marker(number), "markersize": 5, "label": name}
        left.plot(asked, got[:, 0], **look)
        right.plot(asked, got[:, 1], **look)
    left.set(ylabel="sets that hold the true digit")
    right.set(ylabel="digits in a set, mean")
    for ax in (left, right):
        ax.set_xlabel("coverage asked for")
        quiet(ax)
    left.legend(frameon=False)
    return figure


def _coverage_and_size(
    X: np.ndarray, y: np.ndarray, cv: Any, asked: np.ndarray, seed: int
) -> list[tuple[float, float]]:
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=seed)
    sets = ns.ConformalClassifier(ns.NeighborClassifier(5, posterior="pooled"), cv=cv).fit(X_train, y_train)
    found = [sets.set_coverage(coverage).predict_set(X_test) for coverage in asked]
    return [(inside[np.arange(len(y_test)), y_test].mean(), inside.sum(axis=1).mean()) for inside in found]


def taxonomy() -> Any:
    """Ten neighbors of a photograph on a tree of animals and vehicles, and the node that seven of them agree on."""
    tree = Taxonomy.from_nested(
        {
            "thing": {
                "animal": {"dog": ["corgi", "poodle", "beagle"], "cat": ["tabby", "Siamese"], "ant": {}},
                "vehicle": {"boat": ["canoe", "gondola"], "car": ["jeep", "cab"]},
            }
        }
    )
    votes = {"corgi": 3, "poodle": 2, "beagle": 2, "tabby": 1, "canoe": 2}
    shares = np.array([votes.get(leaf, 0) for leaf in tree.leaves]) / 10
    return TaxonomyDisplay.from_taxonomy(tree, values=shares @ tree.covers, highlight="dog").figure_


def novelty() -> Any:
    """A narrow class and a wide one: the distance to the 5th neighbor, and novelty, by the same rows."""
    random = np.random.default_rng(2)
    X = np.vstack([random.normal(size=(150, 2)) * 0.25, random.normal(size=(150, 2)) * 1.3 + (4.2, 1.0)])
    y = np.repeat(["narrow", "wide"], 150)
    clf = ns.NeighborClassifier(10, posterior="pooled").fit(X, y)
    across, up = np.meshgrid(np.linspace(-2.5, 8.5, 220), np.linspace(-3.5, 5.5, 180))
    queries = np.column_stack([across.ravel(), up.ravel()])
    fifth, own = clf.kneighbors(queries)[0][:, 4], np.sort(clf.kneighbors()[0][:, 4])
    shares = {
        "the 5th neighbor alone": np.searchsorted(own, fifth) / len(own),
        "novelty": clf.novelty(queries),
    }
    figure = Figure(figsize=(7.4, 3.2), layout="constrained")
    for ax, (title, share) in zip(figure.subplots(1, 2, sharey=True), shares.items(), strict=True):
        drawn = ax.contourf(across, up, share.reshape(across.shape), levels=EDGES, colors=GRAYS)
        for number, label in enumerate(("narrow", "wide")):
            ax.scatter(*X[y == label].T, s=6, color=FEW_COLORS[number], label=label, linewidths=0)
        ax.set_title(title, size=9, loc="left")
        quiet(ax)
    figure.colorbar(drawn, ax=figure.axes, format="%g", ticks=EDGES[:-1])
    return figure


def speed() -> Any:
    """How many queries a second exact search answers, beside scikit-learn's and faiss's: the table in RESULTS.md."""
    lines = (Path(__file__).parent.parent / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8").splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    start = next(place for place, row in enumerate(table) if "× torch addmm + topk" in row)
    cases = [row for row in table[start + 2 : start + 6] if row[2]]  # all rivals took part
    numbers = np.array([[float(cell.split()[0].replace(",", "")) for cell in row[1:6]] for row in cases])
    ours = numbers[:, 0]
    rivals = {
        "nearsay": ours,
        "faiss, tuned": ours / numbers[:, 2],
        "torch addmm + topk": ours / numbers[:, 4],
        "scikit-learn": ours / numbers[:, 1],
    }
    figure = Figure(figsize=(7.0, 3.6), layout="constrained")
    ax = figure.subplots()
    for number, (name, speeds) in enumerate(rivals.items()):
        places = np.arange(len(cases)) + 0.2 * (number - 1.5)
        bars = ax.barh(places, speeds / ours * 100, height=0.18, color=FEW_COLORS[number], label=name)
        ax.bar_label(bars, [f"{speed:,.0f}" for speed in speeds], padding=3, fontsize=8)
    ax.set_yticks(np.arange(len(cases)), [row[0] for row in cases])
    ax.invert_yaxis()
    ax.set_xticks([])
    ax.set_xlim(0, 112)
    ax.set_title("Exact search, one thread of a Xeon: queries a second", loc="left")
    ax.spines[["top", "right", "bottom"]].set_visible(False)
    ax.tick_params(left=False)
    figure.legend(loc="outside lower center", ncols=len(rivals), frameon=False)
    return figure


PICTURES: dict[str, Callable[[], Any]] = {
    "neighborhood": neighborhood,
    "voronoi": voronoi,
    "regions": regions,
    "k-curve": k_curve,
    "reliability": reliability,
    "records": records,
    "many-classes": many_classes,
    "training-size": training_size,
    "case-tables": case_tables,
    "coverage": coverage,
    "taxonomy": taxonomy,
    "novelty": novelty,
    "speed": speed,
}


def in_few_colors(path: Path) -> None:
    """Photographs and pictures of pictures take a third of the bytes with 128 colors."""
    from PIL import Image

    Image.open(path).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)


def main() -> None:
    matplotlib.use("Agg")
    IMAGES.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        draw().savefig(IMAGES / f"{name}.png", dpi=110)
    take_tour(IMAGES / "tour.png")
    take_emoji_tour(IMAGES / "tour-emoji.png")
    in_few_colors(IMAGES / "tour-emoji.png")
    make_architecture.main()
    make_beside_published.main()
    make_pictures_images.main()
    make_pictures_gpu.main()
    make_pictures_guides.main()
    make_pictures_hedging.main()
    make_pictures_hedged.main()
    make_pictures_metrics.main()
    make_pictures_search.main()
    make_pictures_annotation.main()
    make_results.main()
    make_notebooks.main()


if __name__ == "__main__":
    main()
