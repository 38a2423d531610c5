"""Make the pictures of distances.md, descriptors.md and prediction-sets.md again: python docs/make_pictures_guides.py.

Neighbors under six distances, emoji with their neighbors by five descriptors, digits with their prediction sets.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from sklearn.datasets import load_digits
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


def show(ax: Any, image: np.ndarray, **options: Any) -> None:
    """A picture without a frame."""
    ax.imshow(image, **options)
    ax.set_axis_off()


PICTURES = {"distances": distances, "descriptors": descriptors, "prediction-sets": prediction_sets}


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
