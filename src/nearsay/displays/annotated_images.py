"""Images with their true and predicted keywords, and the neighbors that voted for them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.annotate.annotation import Annotation
from nearsay.data.keywords import Keywords
from nearsay.displays import drawing
from nearsay.errors import InputError

COLUMNS = 3
MOST_WORDS = 8
# Shares of an item's axes: the width of the image, the height of the neighbors below it, a line of words.
IMAGE_WIDTH, NEIGHBORS_HEIGHT, LINE = 0.55, 0.25, 0.125
LETTERS_IN_A_LINE = 24


@dataclass(frozen=True)
class AnnotatedImage:
    """One image of the grid.

    Attributes
    ----------
    image : (height, width) or (height, width, 3)
    given : words that it has
    predicted : words that were predicted for it, best first
    probabilities : of the words predicted; empty where there are none
    neighbors : images of its neighbors, nearest first
    """

    image: np.ndarray
    given: Sequence[Any]
    predicted: Sequence[Any]
    probabilities: Sequence[float] = ()
    neighbors: Sequence[np.ndarray] = ()


class AnnotatedImagesDisplay(drawing.Display):
    """A grid of images, each with its neighbors below and its keywords beside it.

    Predicted words are in order, right ones in blue with a check, others in orange; missed words come last.
    Build it with :meth:`from_estimator` or :meth:`from_predictions`, or from a list of ``AnnotatedImage``.

    Attributes
    ----------
    items : list of AnnotatedImage
    figure_, ax_
        The matplotlib figure and axes, set by ``plot``; ``ax_`` is (n_items,).

    >>> from nearsay.displays.annotated_images import AnnotatedImage
    >>> item = AnnotatedImage(np.zeros((4, 6)), ["sky", "sun"], ["sky", "tree"], [0.9, 0.4])
    >>> AnnotatedImagesDisplay([item]).lines(item)
    [('✓ sky  90 %', True), ('tree  40 %', False), ('missed: sun', None)]
    """

    def __init__(self, items: Sequence[AnnotatedImage]) -> None:
        if not items:
            raise InputError("No images given: there is nothing to show.")
        self.items = list(items)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        query_images: Any,
        images: Any = None,
        n_neighbors: int = 4,
        ax: Any = None,
    ) -> AnnotatedImagesDisplay:
        """Draw the keywords that a fitted KeywordAnnotator gives to rows whose keywords are known.

        Parameters
        ----------
        estimator : fitted KeywordAnnotator
        X : (n, n_features)
        y : keywords of the rows, a table of zeros and ones or lists of words.
        query_images, images, n_neighbors, ax
            As in ``from_predictions``.
        """
        shown = {"query_images": query_images, "images": images, "n_neighbors": n_neighbors}
        return cls.from_predictions(y, estimator.annotate(X), **shown, ax=ax)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        annotations: Sequence[Annotation],
        *,
        query_images: Any,
        images: Any = None,
        n_neighbors: int = 4,
        ax: Any = None,
    ) -> AnnotatedImagesDisplay:
        """Draw keywords that ``annotate`` gave before.

        Parameters
        ----------
        y_true : keywords of the items, a table of zeros and ones or lists of words.
        annotations : list of Annotation, one for each item
        query_images : (n, height, width), or a list of images of any size
            One image for each item.
        images : (n_rows, height, width), or a list, optional
            One image for each row the annotator was fitted on: the nearest are shown below an item.
        n_neighbors : int, default=4; at most so many of them.
        ax : n matplotlib axes, optional; a new figure by default.
        """
        given = Keywords.of(y_true).lists()
        if not len(given) == len(annotations) == len(query_images):
            raise InputError(
                f"Every item needs its keywords, an annotation and an image; got {len(given)} lists of keywords,"
                f" {len(annotations)} annotations and {len(query_images)} images."
            )
        items = []
        for words, annotation, image in zip(given, annotations, query_images, strict=True):
            near = [] if images is None else annotation.neighbors[:n_neighbors].tolist()
            drawing.check_holds(np.array(near, np.int64), 0 if images is None else len(images), name="images")
            neighbors = [np.asarray(images[row]) for row in near]
            items.append(
                AnnotatedImage(np.asarray(image), words, annotation.words, annotation.probabilities, neighbors)
            )
        return cls(items).plot(ax=ax)

    def lines(self, item: AnnotatedImage) -> list[tuple[str, bool | None]]:
        """The words beside an image, each right, wrong or (None) missed."""
        probabilities = [*item.probabilities, *[None] * (len(item.predicted) - len(item.probabilities))]
        lines: list[tuple[str, bool | None]] = []
        for word, p in list(zip(item.predicted, probabilities, strict=False))[:MOST_WORDS]:
            right = word in item.given
            lines.append((f"{'✓ ' if right else ''}{word}" + ("" if p is None else f"  {100 * p:.0f} %"), right))
        missed = [str(word) for word in item.given if word not in item.predicted]
        return [*lines, *([(f"missed: {', '.join(missed)}", None)] if missed else [])]

    def _drawn(self, ax: Any) -> Any:
        n_lines = -(-len(self.items) // COLUMNS)
        if ax is None:
            size = (3.7 * COLUMNS, 2.35 * n_lines)
            grid = drawing.panels(None, n_lines, COLUMNS, "one image each", figsize=size).ravel()
            for spare in grid[len(self.items) :]:
                spare.remove()
            ax = grid[: len(self.items)]
        axes = drawing.panels(ax, 1, len(self.items), "one image each")[0]
        for panel, item in zip(axes, self.items, strict=True):
            self._draw(panel, item)
        return axes

    def _draw(self, ax: Any, item: AnnotatedImage) -> None:
        ax.set(xlim=(0, 1), ylim=(0, 1))
        ax.axis("off")
        below = NEIGHBORS_HEIGHT if len(item.neighbors) else 0.0
        _draw_image(ax, item.image, (0.0, below, IMAGE_WIDTH, 1 - below))
        for number, image in enumerate(item.neighbors):
            width = IMAGE_WIDTH / len(item.neighbors)
            _draw_image(ax, image, (number * width, 0.0, 0.94 * width, 0.92 * below))
        colors = {True: drawing.AGREES, False: drawing.DISAGREES, None: "#777777"}
        for number, (words, right) in enumerate(self.lines(item)):
            text = drawing.as_written(words if right is not None else textwrap.fill(words, LETTERS_IN_A_LINE))
            style = {"color": colors[right], "va": "top", "fontsize": 9}
            ax.text(IMAGE_WIDTH + 0.04, 0.97 - LINE * number, text, **style)


def _draw_image(ax: Any, image: np.ndarray, bounds: tuple[float, float, float, float]) -> None:
    panel = ax.inset_axes(bounds)
    panel.imshow(image, cmap="gray")
    panel.axis("off")
