"""A query image and its neighbors in a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import numpy as np

from nearsay.displays import drawing
from nearsay.errors import InputError
from nearsay.posterior.evidence.evidence import Evidence
from nearsay.taxonomy.words import word_of

# In image heights: the free space between neighbors, and between the query and the first neighbor; a line of text.
GAP, WIDE_GAP, LINE = 0.14, 0.5, 0.21
MOST_NEIGHBORS = 10
LETTER = 0.085  # inches, the width of one in the title
LETTERS_IN_A_TILE, MOST_LINES_IN_A_TILE, MOST_LINES_BELOW = 11, 4, 2


@dataclass(kw_only=True, eq=False, repr=False)
class EvidenceDisplay(drawing.Display):
    """One query image, then its neighbors, nearest first, with labels and distances.

    Build it with :meth:`from_estimator` or :meth:`from_predictions`. A neighbor that voted for the answer has a blue
    border; one that did not, a dashed orange one. At most ten neighbors are shown.

    Attributes
    ----------
    evidence : Evidence
        From ``explain``.
    neighbor_images : (n_shown, height, width)

    >>> import nearsay as ns
    >>> from nearsay.displays import EvidenceDisplay
    >>> X, y = [[0, 0, 0, 9], [0, 0, 9, 0], [9, 9, 0, 0]], ["low", "low", "high"]
    >>> clf = ns.NeighborClassifier(n_neighbors=2, posterior="proportional").fit(X, y)
    >>> EvidenceDisplay.from_estimator(clf, [[0, 0, 8, 1]], images=X).neighbor_images.shape
    (2, 2, 2)
    """

    evidence: Any
    query_image: np.ndarray
    neighbor_images: np.ndarray
    true_label: Any = None

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any = None, *, images: Any, query_image: Any = None, ax: Any = None
    ) -> EvidenceDisplay:
        """Query a fitted NeighborClassifier with one row and show the images of its neighbors.

        Parameters
        ----------
        estimator : fitted NeighborClassifier
        X : (1, n_features) or (n_features,)
            The query.
        y : optional; its true label, if that is known: named above the strip.
        images : (n, height, width)
            One image for each row the classifier was fitted on. Square images may also come as rows.
        query_image : (height, width), optional; the image of the row; by default the row itself, folded to a square.
        ax : matplotlib axes, optional; a new figure by default.
        """
        row = drawing.one_row(X)
        query_image = row if query_image is None else query_image
        return cls.from_predictions(y, explained(estimator, row), images=images, query_image=query_image, ax=ax)

    @classmethod
    def from_predictions(
        cls, y_true: Any, evidence: Evidence, *, images: Any, query_image: Any, ax: Any = None
    ) -> EvidenceDisplay:
        """Draw evidence that ``explain`` gave before.

        Parameters
        ----------
        y_true : the true label of the row, or None
        evidence : Evidence
        images, query_image, ax
            As in ``from_estimator``.
        """
        pictures, neighbors = drawing.as_images(images, count=len(images)), evidence.neighbors[:MOST_NEIGHBORS]
        drawing.check_holds(np.array(neighbors, np.int64), len(pictures), name="images")
        return cls(
            evidence=evidence,
            query_image=drawing.as_image(query_image),
            neighbor_images=pictures[np.array(neighbors, np.int64)],
            true_label=drawing.one_label(y_true),
        ).plot(ax=ax)

    def _drawn(self, ax: Any) -> Any:
        ax = drawing.fresh_axes(strip_width(len(self.neighbor_images)), 1.9) if ax is None else ax
        draw_strip(ax, StripTile(self.query_image, drawing.INK, "query"), self._tiles())
        title = headline(self.evidence, len(self.neighbor_images), self.true_label)
        ax.set_title(title, loc="left", fontsize="medium", color=drawing.INK)
        return ax

    def _tiles(self) -> list[StripTile]:
        evidence = self.evidence
        return [
            StripTile(
                image,
                drawing.AGREES if label == evidence.label else drawing.DISAGREES,
                str(label),
                f"{distance:#.3g}",
                dashed=bool(label != evidence.label),
            )
            for image, label, distance in zip(self.neighbor_images, evidence.labels, evidence.distances, strict=False)
        ]


def explained(estimator: Any, row: Any) -> Evidence:
    """The evidence of a fitted classifier for a table of one row."""
    if not hasattr(estimator, "explain"):
        raise InputError(
            f"{type(estimator).__name__} has no explain, which finds the neighbors. Pass a NeighborClassifier,"
            " such as the estimator_ of a HedgedClassifier around one."
        )
    return estimator.explain(row)[0]


def strip_width(n_shown: int) -> float:
    """The width of a strip of so many neighbors, in inches."""
    return 1.0 + 1.05 * max(n_shown, 3)


def headline(evidence: Evidence, n_shown: int, true_label: Any, names: Mapping[Any, str] | None = None) -> str:
    """A title: the answer, whether it is right, and how many neighbors voted for it."""
    k = len(evidence.neighbors)
    parts = [f"says {word_of(evidence.label, names)} (p = {evidence.probability:.2f})"]
    if true_label is not None:
        parts.append("right" if true_label == evidence.label else f"really {word_of(true_label, names)}")
    parts.append(f"{evidence.votes.get(evidence.label, 0)} of {k} neighbors" if k else "no neighbors")
    if evidence.novelty is not None:
        parts.append(f"novelty {evidence.novelty:.2f}")
    if k > n_shown:
        parts.append(f"the nearest {n_shown} shown")
    return drawing.as_written(drawing.in_lines(parts, int(strip_width(n_shown) / LETTER)))


@dataclass(frozen=True)
class StripTile:
    """One tile of a strip: an image with words below, or words only; a note below; a border in ``color``, hex."""

    image: np.ndarray | None
    color: str
    words: str
    note: str = ""
    dashed: bool = False

    @property
    def lines_below(self) -> list[str]:
        return [] if self.image is None else _in_lines(self.words, MOST_LINES_BELOW)

    @property
    def width(self) -> float:
        return 1.0 if self.image is None else self.image.shape[1] / self.image.shape[0]


def draw_strip(ax: Any, query: StripTile, neighbors: list[StripTile]) -> tuple[float, float]:
    """Draw the query, then its neighbors, each of height 1, from left to right; gives the right and the lower end."""
    note_at = -0.08 - LINE * max(len(tile.lines_below) for tile in (query, *neighbors))
    left, right = 0.0, query.width
    _draw_tile(ax, query, left, note_at)
    left = right + WIDE_GAP
    for tile in neighbors:
        _draw_tile(ax, tile, left, note_at)
        right = left + tile.width
        left = right + GAP
    lower = note_at - LINE
    ax.set(xlim=(-0.06, right + 0.06), ylim=(lower, 1.06), aspect="equal")
    ax.set_axis_off()
    return right, lower


def _draw_tile(ax: Any, tile: StripTile, left: float, note_at: float) -> None:
    from matplotlib.patches import Rectangle

    middle = left + tile.width / 2
    face: Any = "none"
    if tile.image is None:
        face = drawing.tinted(tile.color, 0.14)
        words = drawing.as_written("\n".join(_in_lines(tile.words, MOST_LINES_IN_A_TILE)))
        ax.text(middle, 0.5, words, ha="center", va="center", color=drawing.INK, fontsize="small", zorder=3)
    else:
        ax.imshow(tile.image, cmap="gray_r", extent=(left, left + tile.width, 0, 1), interpolation="nearest", zorder=1)
        words = drawing.as_written("\n".join(tile.lines_below))
        ax.text(middle, -0.08, words, ha="center", va="top", color=tile.color, fontweight="bold", linespacing=1.0)
    rim: dict[str, Any] = {"edgecolor": tile.color, "linewidth": 2.2, "linestyle": "--" if tile.dashed else "-"}
    ax.add_patch(Rectangle((left, 0), tile.width, 1, facecolor=face, zorder=2, **rim))
    ax.text(middle, note_at, tile.note, ha="center", va="top", color=drawing.PALE_INK, fontsize="small")


def _in_lines(words: str, most: int) -> list[str]:
    return wrap(words, LETTERS_IN_A_TILE, max_lines=most, placeholder=" …")
