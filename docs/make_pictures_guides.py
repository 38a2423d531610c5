"""Make the pictures of seven guides again: python docs/make_pictures_guides.py.

Neighbors under six distances, emoji with their neighbors by five descriptors, digits with their prediction sets, two
groups of columns with neighbors of their own, what each member of the pool brings, probabilities with other
frequencies, and the accuracies that hedges reached.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from sklearn.datasets import load_digits, load_iris
from sklearn.model_selection import train_test_split

import nearsay as ns
from nearsay.describe import DESCRIPTORS, read_image
from nearsay.distances.named import as_distance

IMAGES = Path(__file__).parent / "images"
NEAR, FAR, PALE = "#0072B2", "#D55E00", "#8a8a8a"

METRICS = ("euclidean", "manhattan", "chebyshev", "cosine", "canberra", "braycurtis")
SHARES = (0.02, 0.08, 0.18, 0.32, 0.5, 0.7, 0.9)  # of the plane, within each line
CORNER, QUERY, N_NEIGHBORS = 8.0, np.array([[3.0, 4.5]]), 5

WHAT_IS_MEASURED = {
    "rgb": "colors",
    "lab_3x1": "colors by thirds",
    "haar": "light and dark",
    "gist": "stripes",
    "hog": "edges",
}
ASKED = ("red apple", "fish", "cat face")
N_SHOWN = 4


def distances() -> Any:
    """The five nearest rows under each distance; along a line all places are equally far from the query."""
    places = np.arange(0.5, CORNER, 1.0)
    grid = np.stack(np.meshgrid(places, places), axis=-1).reshape(-1, 2)
    rows = grid + np.random.default_rng(6).uniform(-0.35, 0.35, grid.shape)
    line = np.linspace(0.02, CORNER, 161)
    plane = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    figure, axes = plt.subplots(2, 3, figsize=(8.4, 5.8), layout="constrained")
    for ax, metric in zip(axes.flat, METRICS, strict=True):
        far = as_distance(metric).pairwise(QUERY, plane).reshape(len(line), len(line))
        ax.contour(line, line, far, levels=np.quantile(far, SHARES), colors="#cfcfcf", linewidths=0.9)
        near = ns.nearest(rows, QUERY, k=N_NEIGHBORS, metric=metric).indices[0]
        ax.scatter(*rows.T, s=14, color=PALE)
        ax.scatter(*rows[near].T, s=34, color=NEAR)
        ax.scatter(*QUERY.T, s=90, marker="*", color=FAR, zorder=3)
        ax.set(title=metric, xlim=(0, CORNER), ylim=(0, CORNER), xticks=(0, 4, 8), yticks=(0, 4, 8), aspect="equal")
        ax.title.set_fontsize(10)
        ax.tick_params(labelsize=8, length=0)
        ax.spines[:].set_color("#d0d0d0")
    return figure


def descriptors() -> Any:
    """Three emoji, and the four that are nearest to each by each of five descriptors."""
    emoji = ns.load_dataset("emoji", split="train")
    kept = np.flatnonzero((emoji.artists == "noto") & np.isin(emoji.groups, ["Animals & Nature", "Food & Drink"]))
    names, pictures = emoji.names[kept].tolist(), emoji.images[kept]
    with tempfile.TemporaryDirectory() as folder:
        read = [read_image(path) for path in emoji.take(kept).write_folder(folder)]
    figure = plt.figure(figsize=(10.4, 1.75 * len(ASKED)), layout="constrained")
    parts = figure.subfigures(len(ASKED), 1 + len(WHAT_IS_MEASURED), width_ratios=[1, *[2] * len(WHAT_IS_MEASURED)])
    vectors = {name: np.array([DESCRIPTORS[name](image) for image in read]) for name in WHAT_IS_MEASURED}
    for line, asked in enumerate(ASKED):
        row = names.index(asked)
        show(parts[line, 0].subplots(), pictures[row])
        for part, (name, words) in zip(parts[line, 1:], WHAT_IS_MEASURED.items(), strict=True):
            X = vectors[name]
            near = ns.nearest(X, X[row : row + 1], k=N_SHOWN + 1, metric=DESCRIPTORS[name].metric).indices[0]
            if not line:
                part.suptitle(f"{name}: {words}", fontsize=9)
            others = [other for other in near.tolist() if other != row][:N_SHOWN]
            for ax, other in zip(part.subplots(2, 2).flat, others, strict=True):
                show(ax, pictures[other])
    return figure


def prediction_sets() -> Any:
    """Eight digits with their sets at a coverage of 0.99: the surest, and those of two classes and more."""
    digits = load_digits()
    rows = train_test_split(np.arange(len(digits.target)), test_size=0.5, random_state=0)
    train, test = rows
    votes = ns.NeighborClassifier(n_neighbors=5, posterior="rank&votesplit")
    sets = ns.ConformalClassifier(votes, coverage=0.99).fit(digits.data[train], digits.target[train])
    members = sets.predict_set_labels(digits.data[test])
    p = sets.predict_proba(digits.data[test])
    sizes = np.array([len(each) for each in members])
    larger = np.flatnonzero(sizes > 1)
    chosen = [*np.flatnonzero(sizes == 1)[:3], *larger[np.argsort(sizes[larger], kind="stable")][-5:]]
    figure, axes = plt.subplots(2, len(chosen), figsize=(9.6, 3.2), height_ratios=[1, 1], layout="constrained")
    for (above, below), place in zip(axes.T, chosen, strict=True):
        show(above, digits.images[test[place]], cmap="gray_r")
        words = " or ".join(map(str, members[place]))
        above.set_title(words, fontsize=12, color=NEAR, fontweight="bold")
        inside = np.isin(sets.classes_, members[place])
        below.bar(sets.classes_, p[place], color=np.where(inside, NEAR, "#cfcfcf"), width=0.8)
        below.set(ylim=(0, 1), yticks=(), xticks=sets.classes_)
        below.tick_params(labelsize=7, length=0)
        below.spines[["top", "right", "left"]].set_visible(False)
    axes[1, 0].set_ylabel("probability", fontsize=8)
    return figure


def two_groups() -> Any:
    """A flower of iris among its neighbors by sepals and by petals, which say different things."""
    iris = load_iris()
    species = iris.target_names[iris.target]
    X, Q, y, _ = train_test_split(iris.data, species, random_state=1, stratify=species)
    groups = {"sepal": slice(0, 2), "petal": slice(2, 4)}
    fused = ns.FusedClassifier(groups, ns.NeighborClassifier(5, posterior="rank&votesplit")).fit(X, y)
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.6), layout="constrained")
    for ax, (group, columns) in zip(axes, groups.items(), strict=True):
        near = ns.nearest(X[:, columns], Q[:1, columns], k=5).indices[0]
        for kind, color in zip(iris.target_names, (PALE, NEAR, FAR), strict=True):
            ax.scatter(*X[y == kind][:, columns].T, s=14, color=color, alpha=0.75, label=str(kind))
        ax.scatter(*X[near][:, columns].T, s=90, facecolors="none", edgecolors="black")
        ax.scatter(*Q[0, columns], s=130, marker="*", color="black", zorder=3)
        says = Counter(y[near].tolist()).most_common()
        ax.set_title(f"{group}: " + ", ".join(f"{count} {kind}" for kind, count in says), fontsize=10)
        ax.set(xlabel=f"{group} length", ylabel=f"{group} width")
        ax.spines[["top", "right"]].set_visible(False)
    axes[1].legend(frameon=False, fontsize=8, loc="upper left")
    p = fused.predict_proba(Q[:1])[0]
    figure.suptitle(f"Together: {fused.classes_[p.argmax()]} with probability {p.max():.2f}", fontsize=11)
    return figure


def members_of_the_pool() -> Any:
    """Log loss of past cases of digits, with all members of the pool and without each."""
    X, y = load_digits(return_X_y=True)
    X, _, y, _ = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    summary = ns.NeighborClassifier().fit(X, y).summary_
    without = sorted(
        ((m.name, m.without) for m in summary.members if m.used and m.without is not None), key=lambda pair: pair[1]
    )
    figure, ax = plt.subplots(figsize=(7.2, 2.6), layout="constrained")
    ax.barh([f"without {name}" for name, _ in without], [loss for _, loss in without], color=NEAR, height=0.6)
    ax.axvline(summary.log_loss, color=FAR, linewidth=1.5)
    ax.annotate(
        "with all", (summary.log_loss, -0.75), (3, 0), textcoords="offset points", color=FAR, fontsize=9, va="center"
    )
    ax.set(xlabel="log loss of past cases", ylim=(-1.1, len(without) - 0.5))
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def priors() -> Any:
    """The probability of a defect by one number, with the frequencies of the training rows and with others."""
    random = np.random.default_rng(0)
    kind = np.where(random.random(2000) < 0.05, "defect", "fine")
    sizes = random.normal(size=(2000, 1)) + 2 * (kind == "defect")[:, None]
    line = np.linspace(-2, 4.5, 131)[:, None]
    figure, ax = plt.subplots(figsize=(7.2, 3.0), layout="constrained")
    for share, color in ((0.5, FAR), (None, NEAR), (0.001, PALE)):
        given = None if share is None else {"defect": share, "fine": 1 - share}
        clf = ns.NeighborClassifier(200, posterior="proportional", priors=given).fit(sizes, kind)
        words = "one in twenty, as in training" if share is None else "one in two" if share == 0.5 else "one in 1,000"
        ax.plot(line[:, 0], clf.predict_proba(line)[:, 0], color=color, linewidth=2, label=words)
    ax.legend(frameon=False, fontsize=9, title="defects among queries", title_fontsize=9)
    ax.set(xlabel="size", ylabel="probability of a defect", ylim=(0, 1))
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def reached() -> Any:
    """The accuracies that hedges reached, by those required; from the table of the page."""
    page = (IMAGES.parent / "guarantees-measured.md").read_text(encoding="utf-8")
    lines = page.split("| required accuracy |")[1].split("\n\n")[0].splitlines()[2:]
    numbers = np.array([[float(cell) for cell in line.strip("|").split("|")] for line in lines])
    required, plain, promised = numbers[:, 0], numbers[:, 1], numbers[:, 3]
    figure, ax = plt.subplots(figsize=(5.6, 3.4), layout="constrained")
    ax.plot([0.5, 1], [0.5, 1], color="#cfcfcf", linewidth=1)
    ax.annotate("required", (0.55, 0.55), (4, -10), textcoords="offset points", color=PALE, fontsize=9)
    ax.plot(required, promised, "o-", color=NEAR, markersize=5, label="reached, with confidence 0.95")
    ax.plot(required, plain, "o-", color=FAR, markersize=4, linewidth=1, label="reached, without confidence")
    ax.legend(frameon=False, fontsize=9, loc="upper left")
    ax.set(xlabel="required accuracy", ylabel="accuracy", xlim=(0.48, 0.98), ylim=(0.5, 1.0))
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def show(ax: Any, image: np.ndarray, **options: Any) -> None:
    """A picture without a frame."""
    ax.imshow(image, **options)
    ax.set_axis_off()


PICTURES = {
    "distances": distances,
    "descriptors": descriptors,
    "prediction-sets": prediction_sets,
    "two-groups": two_groups,
    "pool-members": members_of_the_pool,
    "priors": priors,
    "hedges-reached": reached,
}


def main() -> None:
    """All of them."""
    matplotlib.use("Agg")
    for name, draw in PICTURES.items():
        figure = draw()
        path = IMAGES / f"{name}.png"
        figure.savefig(path, dpi=100)
        plt.close(figure)
        # Half of the bytes.
        Image.open(path).convert("RGB").quantize(160, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main()
