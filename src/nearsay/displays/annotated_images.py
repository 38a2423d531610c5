"""Images with the keywords they have and those they were given, and the neighbors that gave them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.displays import drawing
from nearsay.errors import InputError

COLUMNS = 3
MOST_WORDS = 8


@dataclass(frozen=True)
class AnnotatedImage:
    """One image of the picture.

    Attributes
    ----------
    image : (height, width) or (height, width, 3)
    given : words that it has
    found : words that it was given, best first
    probabilities : of the words found; empty where there are none
    neighbors : images of its neighbors, nearest first
    """

    image: np.ndarray
    given: Sequence[Any]
    found: Sequence[Any]
    probabilities: Sequence[float] = ()
    neighbors: Sequence[np.ndarray] = ()


class AnnotatedImagesDisplay:
    """A grid of images, each with its neighbors below and its keywords beside it.

    Words found are in order, right ones in blue with a check, others in orange; words that were missed stand last.

    Attributes
    ----------
    items : list of AnnotatedImage
    figure_, ax_
        Where it was drawn; there after ``plot``.

    >>> from nearsay.displays.annotated_images import AnnotatedImage
    >>> item = AnnotatedImage(np.zeros((4, 6)), ["sky", "sun"], ["sky", "tree"], [0.9, 0.4])
    >>> AnnotatedImagesDisplay([item]).lines(item)
    [('✓ sky  90 %', True), ('tree  40 %', False), ('missed: sun', None)]
    """

    def __init__(self, items: Sequence[AnnotatedImage]) -> None:
        if not items:
            raise InputError("No images given: there is nothing to show.")
        self.items = list(items)

    def lines(self, item: AnnotatedImage) -> list[tuple[str, bool | None]]:
        """The words beside an image, each right, wrong or (None) missed."""
        said = [*item.probabilities, *[None] * (len(item.found) - len(item.probabilities))]
        lines: list[tuple[str, bool | None]] = []
        for word, p in list(zip(item.found, said, strict=False))[:MOST_WORDS]:
            right = word in item.given
            lines.append((f"{'✓ ' if right else ''}{word}" + ("" if p is None else f"  {100 * p:.0f} %"), right))
        missed = [str(word) for word in item.given if word not in item.found]
        return [*lines, *([(f"missed: {', '.join(missed)}", None)] if missed else [])]

    def plot(self) -> AnnotatedImagesDisplay:
        """Draw all images on a new figure."""
        import matplotlib.pyplot as plt

        n_lines = -(-len(self.items) // COLUMNS)
        figure = plt.figure(figsize=(3.7 * COLUMNS, 2.35 * n_lines), layout="constrained")
        cells = figure.subfigures(n_lines, COLUMNS, squeeze=False).ravel()
        self.ax_ = [self._draw(cell, item) for cell, item in zip(cells, self.items, strict=False)]
        self.figure_ = figure
        return self

    def _draw(self, cell: Any, item: AnnotatedImage) -> Any:
        near = list(item.neighbors)
        layout = [["image"] * max(1, len(near)) + ["words"] * 3]
        if near:
            layout.append([f"near {number}" for number in range(len(near))] + ["words"] * 3)
        panels = cell.subplot_mosaic(layout, height_ratios=[3, 1] if near else [1])
        for name, panel in panels.items():
            panel.axis("off")
            if name == "image":
                panel.imshow(item.image, cmap="gray")
            elif name.startswith("near"):
                panel.imshow(near[int(name.split()[1])], cmap="gray")
        colors = {True: drawing.AGREES, False: drawing.DISAGREES, None: "#777777"}
        for number, (words, right) in enumerate(self.lines(item)):
            panels["words"].text(
                0.0, 0.97 - 0.125 * number, words, color=colors[right], va="top", fontsize=9, wrap=right is None,
                transform=panels["words"].transAxes,
            )  # fmt: skip
        return panels
