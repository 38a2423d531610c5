"""A query image and its neighbors in a row: the evidence as one looks at it."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearsay.evaluate import drawing

# In image heights: the free space between neighbors, and between the query and the first neighbor.
GAP, WIDE_GAP = 0.14, 0.5
MOST_NEIGHBORS = 10


class EvidenceDisplay:
    """One query image, then its neighbors, nearest first, with labels and distances.

    Build it with :meth:`from_estimator`. A neighbor that voted for the answer
    has a blue rim; one that did not, a dashed orange one. At most ten
    neighbors are shown.

    Attributes
    ----------
    evidence : Evidence
        What ``explain`` said about the query.
    neighbor_images : (n_shown, height, width)
    figure_, ax_
        Where it was drawn; there after ``plot``.

    >>> import nearsay as ns
    >>> from nearsay.evaluate.displays import EvidenceDisplay
    >>> X, y = [[0, 0, 0, 9], [0, 0, 9, 0], [9, 9, 0, 0]], ["low", "low", "high"]
    >>> clf = ns.NeighborClassifier(n_neighbors=2).fit(X, y)
    >>> EvidenceDisplay.from_estimator(clf, X, query=[0, 0, 8, 1]).neighbor_images.shape
    (2, 2, 2)
    """

    def __init__(
        self, *, evidence: Any, query_image: np.ndarray, neighbor_images: np.ndarray, true_label: Any = None
    ) -> None:
        self.evidence = evidence
        self.query_image = query_image
        self.neighbor_images = neighbor_images
        self.true_label = true_label

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        images: Any,
        query: Any,
        *,
        query_image: Any = None,
        true_label: Any = None,
        ax: Any = None,
    ) -> EvidenceDisplay:
        """Ask a fitted NeighborClassifier about one query and show the images of its neighbors.

        Parameters
        ----------
        estimator : fitted NeighborClassifier
        images : (n, height, width)
            One image for each row the classifier was fitted on. Square images may also come as rows.
        query : (n_features,)
            One row to ask about.
        query_image : (height, width), optional
            Its image; by default the row itself, folded to a square.
        true_label : optional
            What the query really is, if that is known: named above the strip.
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        """
        evidence = estimator.explain(drawing.one_row(query))[0]
        pictures = drawing.as_images(images, count=len(images))
        shown = np.asarray(evidence.neighbors)[:MOST_NEIGHBORS]
        drawing.check_holds(shown, len(pictures), name="images")
        display = cls(
            evidence=evidence,
            query_image=drawing.as_image(query if query_image is None else query_image),
            neighbor_images=pictures[shown],
            true_label=true_label,
        )
        return display.plot(ax=ax)

    def plot(self, ax: Any = None) -> EvidenceDisplay:
        """Draw on ``ax``, or on a new figure."""
        ax = drawing.fresh_axes(1.0 + 1.05 * len(self.neighbor_images), 1.9) if ax is None else ax
        answer, labels = self.evidence.label, self.evidence.labels
        right = _draw_tile(ax, self.query_image, 0.0, drawing.INK, "query", "")
        left = right + WIDE_GAP
        for image, label, distance in zip(self.neighbor_images, labels, self.evidence.distances, strict=False):
            agrees = label == answer
            color = drawing.AGREES if agrees else drawing.DISAGREES
            right = _draw_tile(ax, image, left, color, drawing.as_written(label), f"{distance:#.3g}", dashed=not agrees)
            left = right + GAP
        ax.set(xlim=(-0.06, right + 0.06), ylim=(-0.5, 1.06), aspect="equal")
        ax.set_axis_off()
        ax.set_title(self._headline(), loc="left", fontsize="medium", color=drawing.INK)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _headline(self) -> str:
        said, k = self.evidence, len(self.evidence.neighbors)
        parts = [f"says {said.label} (p = {said.probability:.2f})"]
        if self.true_label is not None:
            parts.append("right" if self.true_label == said.label else f"really {self.true_label}")
        parts.append(f"{said.votes.get(said.label, 0)} of {k} neighbors")
        if said.novelty is not None:
            parts.append(f"novelty {said.novelty:.2f}")
        if k > len(self.neighbor_images):
            parts.append(f"the nearest {len(self.neighbor_images)} shown")
        return drawing.as_written(" · ".join(parts))


def _draw_tile(
    ax: Any, image: np.ndarray, left: float, color: str, label: str, note: str, *, dashed: bool = False
) -> float:
    """One image of height 1 with a rim and two lines of text below; gives its right side."""
    from matplotlib.patches import Rectangle

    width: float = image.shape[1] / image.shape[0]
    ax.imshow(image, cmap="gray_r", extent=(left, left + width, 0, 1), interpolation="nearest", zorder=1)
    style = "--" if dashed else "-"
    ax.add_patch(Rectangle((left, 0), width, 1, fill=False, edgecolor=color, linewidth=2.2, linestyle=style, zorder=2))
    middle = left + width / 2
    ax.text(middle, -0.08, label, ha="center", va="top", color=color, fontweight="bold")
    ax.text(middle, -0.3, note, ha="center", va="top", color=drawing.PALE_INK, fontsize="small")
    return left + width
