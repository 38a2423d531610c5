"""A taxonomy as a picture: the root at the left, a row for each leaf, values as color and number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.decision.rules import node_probabilities
from nearsay.displays import drawing
from nearsay.displays.hedging.hedge_on_tree import from_the_root_down
from nearsay.errors import InputError
from nearsay.taxonomy.taxonomy import Taxonomy

# Inches: a row at best, all rows at most, all rows without names, a column at least, a leaf's dot from its parent.
ROW, MOST_HEIGHT, SHAPE_HEIGHT, COLUMN, STUB, MARGIN = 0.24, 24.0, 8.0, 0.45, 0.16, 0.12
# Size of letters by the height of a row: a leaf's name leaves room for that of an inner node in the next row.
LETTERS_IN_A_ROW = 0.53
SMALLEST_POINTS, READABLE_POINTS = 3.0, 9.0
LETTER = 0.56  # width of a letter by its height, on average
MOST_LETTERS = 26
POINTS = 72.0  # in an inch


@dataclass(frozen=True)
class Layout:
    """Positions in inches, y downward: (n_nodes,) dots at ``x``, ``y``, and their branches from ``left``."""

    x: np.ndarray
    y: np.ndarray
    left: np.ndarray
    width: float
    height: float
    points: float  # size of letters

    @property
    def legible(self) -> bool:
        return self.points >= SMALLEST_POINTS


@dataclass(kw_only=True, eq=False, repr=False)
class TaxonomyDisplay(drawing.Display):
    """A tree from left to right; a second parent is joined by a dashed line.

    Build it with :meth:`from_taxonomy`, or, for the answer to one row, with :meth:`from_estimator` or
    :meth:`from_predictions`. Letters shrink with the number of leaves; where they would be too small to read (from
    about 300 leaves on), only the shape is drawn, and what is highlighted is named.

    Attributes
    ----------
    taxonomy : Taxonomy
    values : (n_nodes,) or None
        Values of the nodes; NaN for none.
    highlight : tuple of node names

    >>> import nearsay as ns
    >>> from nearsay.taxonomy.taxonomy import Taxonomy
    >>> pets = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}}})
    >>> TaxonomyDisplay.from_taxonomy(pets, values={"corgi": 2, "poodle": 1, "dog": 3}, highlight="dog").values
    array([ 2.,  1., nan,  3., nan])
    """

    taxonomy: Taxonomy
    values: np.ndarray | None
    highlight: tuple[Any, ...]

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any = None, *, ax: Any = None) -> TaxonomyDisplay:
        """Draw the answer of a fitted HedgedClassifier to one row: the probability of every node, and the node named.

        Parameters
        ----------
        estimator : fitted HedgedClassifier
        X : (1, n_features) or (n_features,)
            The query.
        y : name of a node, optional; its true label, highlighted beside the answer.
        ax : matplotlib axes, optional; a new figure by default.
        """
        hedged = drawing.check_hedged(estimator)
        row = drawing.one_row(X)
        p_leaf, answer = drawing.leaf_probabilities(hedged, row), hedged.predict(row).tolist()[0]
        return cls.from_predictions(y, p_leaf, taxonomy=hedged.taxonomy_, y_pred=answer, ax=ax)

    @classmethod
    def from_predictions(
        cls, y_true: Any, y_prob: Any, *, taxonomy: Taxonomy, y_pred: Any = None, ax: Any = None
    ) -> TaxonomyDisplay:
        """Draw the probability of every node for one row, with its true label and its answer highlighted.

        Parameters
        ----------
        y_true : the true label of the row, or None
        y_prob : (1, n_leaves) or (n_leaves,) probabilities in the order of ``taxonomy.leaves``
        taxonomy : Taxonomy
        y_pred : name of a node, optional; the answer.
        ax : matplotlib axes, optional
        """
        p_node = node_probabilities(drawing.one_row(y_prob), taxonomy)[0]
        named = [name for name in (drawing.one_label(y_pred), drawing.one_label(y_true)) if name is not None]
        return cls.from_taxonomy(taxonomy, values=p_node, highlight=list(dict.fromkeys(named)), ax=ax)

    @classmethod
    def from_taxonomy(
        cls, taxonomy: Taxonomy, *, values: Any = None, highlight: Any = None, ax: Any = None
    ) -> TaxonomyDisplay:
        """Draw a taxonomy.

        Parameters
        ----------
        taxonomy : Taxonomy
        values : (n_nodes,) numbers in the order of the nodes, or a mapping {name: number}, optional
            Votes, probabilities, bits: the larger, the darker a node; written beside its name.
        highlight : name or list of names, optional; nodes to point out, each with its path from the root.
        ax : matplotlib axes, optional; a new figure by default.
        """
        names = (highlight,) if isinstance(highlight, str | int | float) else tuple(highlight or ())
        taxonomy.check_labels(names)
        return cls(taxonomy=taxonomy, values=_as_values(values, taxonomy), highlight=names).plot(ax=ax)

    def _drawn(self, ax: Any) -> Any:
        words = self._words()
        layout = lay_out(self.taxonomy, words)
        ax = drawing.fresh_axes(layout.width, layout.height) if ax is None else ax
        marked = self._marked()
        self._draw_branches(ax, layout, marked)
        self._draw_dots(ax, layout, marked)
        for node in np.flatnonzero(layout.legible | (marked == 2)).tolist():
            self._write(ax, layout, node, words[node], highlighted=marked[node] == 2)
        ax.set(xlim=(0, layout.width), ylim=(layout.height, 0))
        ax.set_axis_off()
        return ax

    def _words(self) -> list[str]:
        names = [drawing.shortened(word, MOST_LETTERS) for word in self.taxonomy.node_words.values()]
        if self.values is None:
            return names
        return [
            name if np.isnan(value) else f"{name}  {value:.3g}" for name, value in zip(names, self.values, strict=True)
        ]

    def _marked(self) -> np.ndarray:
        """(n_nodes,) 2 at a highlighted node, 1 on its path, else 0."""
        marked = np.zeros(self.taxonomy.n_nodes, np.int64)
        for name in self.highlight:
            on_path = self.taxonomy.check_labels(self.taxonomy.path(name))
            marked[on_path] = np.maximum(marked[on_path], 1)
        marked[self.taxonomy.check_labels(self.highlight)] = 2
        return marked

    def _draw_branches(self, ax: Any, layout: Layout, marked: np.ndarray) -> None:
        from matplotlib.collections import LineCollection

        thin = min(0.8, max(0.1, layout.points / 6))
        ways, across, colors, widths = [], [], [], []
        # Marked ones last, so that they lie on top.
        for node in np.argsort(marked > 0, kind="stable").tolist():
            x, y, left = layout.x[node], layout.y[node], layout.left[node]
            first, *others = self.taxonomy.parents[node] or (node,)
            ways.append([(left, layout.y[first]), (left, y), (x, y)])
            colors.append(drawing.AGREES if marked[node] else drawing.PALE_INK)
            widths.append(1.8 if marked[node] else thin)
            across += [[(layout.x[other], layout.y[other]), (x, y)] for other in others]
        ax.add_collection(LineCollection(ways, colors=colors, linewidths=widths, zorder=1))
        ax.add_collection(LineCollection(across, colors=drawing.PALE_INK, linewidths=thin, linestyles="--", zorder=0))

    def _draw_dots(self, ax: Any, layout: Layout, marked: np.ndarray) -> None:
        rims = [drawing.AGREES if mark else drawing.PALE_INK for mark in marked]
        fills = [drawing.tinted(drawing.AGREES, strength) for strength in self._strengths(marked)]
        size = max(layout.points, 1.0) ** 2 * np.where(marked == 2, 0.8, 0.45)
        ax.scatter(layout.x, layout.y, s=size, c=fills, edgecolors=rims, linewidths=0.8, zorder=2)

    def _strengths(self, marked: np.ndarray) -> np.ndarray:
        """(n_nodes,) how dark each dot is, 0 to 1: by its value, or where nothing has one, dark if highlighted."""
        if self.values is None:
            return np.where(marked == 2, 1.0, 0.0)
        shown = np.nan_to_num(self.values)
        low, high = min(float(shown.min()), 0.0), float(shown.max())
        return (shown - low) / (high - low) if high > low else np.zeros(len(shown))

    def _write(self, ax: Any, layout: Layout, node: int, text: str, *, highlighted: bool) -> None:
        points = layout.points if layout.legible else READABLE_POINTS
        letter = points / POINTS
        is_leaf = node < self.taxonomy.n_leaves
        # A leaf's name is to the right of its dot, in its own row; an inner node's above its branch.
        x = layout.x[node] + 0.7 * letter if is_leaf else layout.left[node] + 0.6 * letter
        y = layout.y[node] if is_leaf else layout.y[node] - 0.25 * letter
        ax.text(
            x,
            y,
            drawing.as_written(text),
            va="center_baseline" if is_leaf else "bottom",
            fontsize=points,
            color=drawing.AGREES if highlighted else drawing.INK,
            fontweight="bold" if highlighted else "normal",
            zorder=3,
        )


def lay_out(taxonomy: Taxonomy, words: list[str]) -> Layout:
    """A layout with leaves in rows from top to bottom, by parent; inner nodes in the middle of their children.

    Each depth has a column as wide as the longest of ``words`` at an inner node of it.
    """
    rows = _rows(taxonomy)
    n_rows = rows.max() + 1
    row = min(ROW, MOST_HEIGHT / n_rows)
    points = LETTERS_IN_A_ROW * row * POINTS
    if points < SMALLEST_POINTS:
        row = SHAPE_HEIGHT / n_rows
    lengths = np.array([len(text) + 2 for text in words]) * LETTER * points / POINTS
    inner = np.arange(taxonomy.n_nodes) >= taxonomy.n_leaves
    columns = np.zeros(taxonomy.depths.max() + 1)
    np.maximum.at(columns, taxonomy.depths[inner], lengths[inner])
    stops = MARGIN + np.cumsum(np.maximum(columns, COLUMN))
    left = np.where(taxonomy.depths > 0, stops[taxonomy.depths - 1], MARGIN)
    x = np.where(inner, stops[taxonomy.depths], left + STUB)
    y = MARGIN + (rows + 0.8) * row
    right = np.where(inner, x, x + lengths) + MARGIN
    return Layout(x, y, left, float(right.max()), float(2 * MARGIN + (n_rows + 0.6) * row), points)


def _rows(taxonomy: Taxonomy) -> np.ndarray:
    """(n_nodes,) the row of each leaf, and the middle of the children's rows for an inner node, by first parents."""
    families = [
        [child for child in children if taxonomy.parents[child][0] == node]
        for node, children in enumerate(taxonomy.children)
    ]
    rows = np.zeros(taxonomy.n_nodes)
    ends = [node for node in from_the_root_down(taxonomy) if not families[node]]
    rows[ends] = np.arange(len(ends))
    for node, family in enumerate(families):  # children before parents
        if family:
            rows[node] = (rows[family[0]] + rows[family[-1]]) / 2
    return rows


def _as_values(values: Any, taxonomy: Taxonomy) -> np.ndarray | None:
    if values is None:
        return None
    if isinstance(values, Mapping):
        array = np.full(taxonomy.n_nodes, np.nan)
        array[taxonomy.check_labels(list(values))] = list(values.values())
        return array
    array = np.array(values, dtype=np.float64)
    if array.shape != (taxonomy.n_nodes,):
        raise InputError(
            f"values must hold one number for each of {taxonomy.n_nodes} nodes, or be a mapping by name;"
            f" got shape {array.shape}. Node probabilities are p_leaf @ taxonomy.covers."
        )
    return array
