"""A query and its neighbors in a row, colored by the similarity of their labels to the right one (Figure 9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nearsay.displays import drawing
from nearsay.displays.evidence_strip import (
    LINE,
    MOST_NEIGHBORS,
    StripTile,
    draw_strip,
    explained,
    headline,
    strip_width,
)
from nearsay.metrics.specificity import semantic_similarities
from nearsay.posterior.evidence.evidence import Evidence
from nearsay.taxonomy.taxonomy import Taxonomy
from nearsay.taxonomy.words import word_of

# From unlike to alike; in between gray, which is neither.
SCALE = (drawing.DISAGREES, "#b8b8b8", drawing.AGREES)
KEY_WIDTH, KEY_HEIGHT = 1.6, 0.11


class SimilarNeighborsDisplay:
    """One query, then its neighbors, nearest first, colored by semantic similarity.

    Blue: the neighbor has the right label; gray: its label shares half of the path down the taxonomy; orange:
    none of it. The number below is the same similarity. At most ten neighbors are shown.

    Attributes
    ----------
    evidence : Evidence
        From ``explain``.
    compared_with
        The true label where it is known, otherwise the answer.
    similarities : (n_shown,)
        Of the label of each neighbor to that one, from 0 to 1 (see ``semantic_similarities``).
    figure_, ax_
        Where it was drawn; there after ``plot``.

    >>> import nearsay as ns
    >>> pets = ns.Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}}})
    >>> clf = ns.NeighborClassifier(n_neighbors=3, posterior="proportional")
    >>> clf = clf.fit([[0.0], [1.0], [3.0], [9.0]], ["corgi", "poodle", "cat", "cat"])
    >>> SimilarNeighborsDisplay.from_estimator(clf, [[0.2]], taxonomy=pets).similarities
    array([1. , 0.5, 0. ])
    """

    def __init__(
        self,
        *,
        evidence: Evidence,
        compared_with: Any,
        similarities: np.ndarray,
        true_label: Any,
        names: Mapping[Any, str],
    ) -> None:
        self.evidence = evidence
        self.compared_with = compared_with
        self.similarities = similarities
        self.true_label = true_label
        self.names = names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        taxonomy: Taxonomy,
        names: Mapping[Any, str] | None = None,
        ax: Any = None,
    ) -> SimilarNeighborsDisplay:
        """Query a fitted NeighborClassifier with one row and compare the labels of its neighbors.

        Parameters
        ----------
        estimator : fitted NeighborClassifier
        X : (1, n_features) or (n_features,)
        y : name of a node, optional
            Its true label. Without it the labels of neighbors are compared with the answer.
        taxonomy : Taxonomy
            Every label of a neighbor is one of its nodes.
        names : {node: word}, optional
            What nodes are called, by default the taxonomy's words.
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        """
        evidence, true_label = explained(estimator, drawing.one_row(X)), drawing.one_label(y)
        compared_with = evidence.label if true_label is None else true_label
        # Compared with itself first: there may be no neighbor at all.
        compared = [compared_with, *evidence.labels[:MOST_NEIGHBORS]]
        return cls(
            evidence=evidence,
            compared_with=compared_with,
            similarities=semantic_similarities([compared_with] * len(compared), compared, taxonomy)[1:],
            true_label=true_label,
            names=taxonomy.node_words if names is None else names,
        ).plot(ax=ax)

    def plot(self, ax: Any = None) -> SimilarNeighborsDisplay:
        """Draw on ``ax``, or on a new figure."""
        ax = drawing.fresh_axes(strip_width(len(self.similarities)), 2.3) if ax is None else ax
        words = "query" if self.true_label is None else word_of(self.true_label, self.names)
        right, lower = draw_strip(ax, StripTile(None, drawing.INK, words, "query"), self._tiles())
        if len(self.similarities):
            self._draw_key(ax, right, lower)
        title = headline(self.evidence, len(self.similarities), self.true_label, self.names)
        ax.set_title(title, loc="left", fontsize="medium", color=drawing.INK)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _tiles(self) -> list[StripTile]:
        return [
            StripTile(None, _color(similarity), word_of(label, self.names), f"{similarity:.2f}")
            for label, similarity in zip(self.evidence.labels, self.similarities, strict=False)
        ]

    def _draw_key(self, ax: Any, right: float, lower: float) -> None:
        """The scale of colors from 0 to 1, below the strip."""
        text = {"va": "center", "fontsize": "small", "color": drawing.PALE_INK}
        middle, end = lower - LINE / 2, max(right, 2.0) - 0.12
        start = end - KEY_WIDTH
        extent = (start, end, middle - KEY_HEIGHT / 2, middle + KEY_HEIGHT / 2)
        ax.imshow(np.linspace(0, 1, 64)[None], cmap=_scale(), extent=extent, zorder=1)
        words = f"alike to {word_of(self.compared_with, self.names)}:   0"
        ax.text(start - 0.06, middle, drawing.as_written(words), ha="right", **text)
        ax.text(end + 0.06, middle, "1", ha="left", **text)
        ax.set(xlim=(-0.06, end + 0.18), ylim=(lower - LINE, 1.06))


def _color(similarity: float) -> str:
    from matplotlib.colors import to_hex

    return str(to_hex(_scale()(similarity)))


def _scale() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("alike", SCALE)
