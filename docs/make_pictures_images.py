"""Make the picture of docs/image-distances.md again: python docs/make_pictures_images.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import rotate, shift, zoom
from sklearn.datasets import load_digits

from nearsay.distances.images import TangentDistance
from nearsay.distances.tangent import TANGENTS, smoothed, tangents

IMAGES = Path(__file__).parent / "images"
SIGMA = 0.9
# How far the shown images are moved along each tangent, as a share of the image's own length.
STEP = 0.45
NEAR, FAR = "#0072B2", "#D55E00"


def larger_digits() -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's digits, drawn on 24 × 24 pixels with a margin: (n, 24, 24), from 0 to 1, and their labels."""
    digits = load_digits()
    large = np.clip(zoom(digits.images / 16.0, (1, 2.5, 2.5), order=3), 0.0, 1.0)
    return np.pad(large, ((0, 0), (2, 2), (2, 2))), digits.target


def moved(image: np.ndarray) -> np.ndarray:
    """The same figure one pixel aside and turned by nine degrees."""
    turned: np.ndarray = shift(rotate(image, 9, reshape=False, order=3), (0.5, 1.0), order=3)
    return np.clip(turned, 0.0, 1.0)


def misleading_pair(images: np.ndarray, labels: np.ndarray) -> tuple[int, int]:
    """Numbers of an image, and of one of another digit that Euclidean distance takes for nearer than itself moved.

    Of the first 200 images the one where tangent distance says most clearly that it is not.
    """
    distance = TangentDistance(sigma=SIGMA)
    found = []
    for number, image in enumerate(images[:200]):
        gaps = np.linalg.norm((images - image).reshape(len(images), -1), axis=1)
        gaps[labels == labels[number]] = np.inf
        other = int(gaps.argmin())
        if np.linalg.norm(image - moved(image)) > gaps[other]:
            same, different = (distance(image.ravel(), b.ravel()) for b in (moved(image), images[other]))
            found.append((different / same, number, other))
    _, number, other = max(found)
    return number, other


def draw_tangents(axes: np.ndarray, image: np.ndarray) -> None:
    """Three lines of pictures: the blurred image moved back, as it is, and moved on along each tangent."""
    middle = smoothed(image[None], SIGMA)[0]
    for column, (name, tangent) in enumerate(zip(TANGENTS, tangents(image[None], SIGMA)[0], strict=True)):
        direction = tangent.reshape(image.shape)
        step = STEP * np.linalg.norm(middle) / np.linalg.norm(direction)
        for line, sign in enumerate((-1, 0, 1)):
            show(axes[line, column], middle + sign * step * direction)
        axes[0, column].set_title(name, fontsize=9)
    for line, words in enumerate(("a step back", "the image", "a step on")):
        axes[line, 0].set_ylabel(words, fontsize=9)


def draw_pair(axes: np.ndarray, bars: Any, image: np.ndarray, other: np.ndarray, digits: tuple[int, int]) -> None:
    """The image, itself moved and another digit, and both distances of the first to the other two."""
    same = moved(image)
    for ax, picture, words, color in (
        (axes[0], image, f"a {digits[0]}", "#222222"),
        (axes[1], same, f"the same {digits[0]}, shifted and turned", NEAR),
        (axes[2], other, f"a {digits[1]}", FAR),
    ):
        show(ax, picture)
        ax.set_title(words, fontsize=9, color=color)
    tangent = TangentDistance(sigma=SIGMA)
    for place, (name, measure) in enumerate(
        (("euclidean", lambda a, b: float(np.linalg.norm(a - b))), ("tangent", tangent))
    ):
        for offset, picture, color in ((-0.18, same, NEAR), (0.18, other, FAR)):
            length = measure(image.ravel(), picture.ravel())
            bars.barh(place + offset, length, height=0.32, color=color)
            bars.text(length, place + offset, f" {length:.1f}", va="center", fontsize=8)
        bars.text(0, place - 0.42, name, va="bottom", fontsize=9)
    bars.invert_yaxis()
    bars.axis("off")


def show(ax: Any, image: np.ndarray) -> None:
    ax.imshow(image, cmap="gray_r", vmin=0.0, vmax=1.0)
    ax.set_xticks([])
    ax.set_yticks([])


def tangent_distance() -> Any:
    """What small transformations make of a digit, and what it helps to know them."""
    images, labels = larger_digits()
    number, other = misleading_pair(images, labels)
    figure = plt.figure(figsize=(9.2, 6.6), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(2, 1.1))
    draw_tangents(above.subplots(3, len(TANGENTS)), images[number])
    panels = below.subplots(1, 4, width_ratios=(1, 1, 1, 1.6))
    draw_pair(panels[:3], panels[3], images[number], images[other], (labels[number], labels[other]))
    return figure


def main() -> None:
    matplotlib.use("Agg")
    IMAGES.mkdir(exist_ok=True)
    tangent_distance().savefig(IMAGES / "tangent-distance.png", dpi=110)


if __name__ == "__main__":
    main()
