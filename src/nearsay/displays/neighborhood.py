"""Plot of a query in the plane with links to its neighbors, and their votes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.displays import drawing
from nearsay.displays.voronoi import Frame

# More thumbnails than this would overlap; then only the query and its neighbors are shown as images.
MOST_THUMBNAILS = 150


@dataclass(kw_only=True, eq=False, repr=False)
class NeighborhoodDisplay(drawing.Display):
    """One query in the plane with its neighbors, and the vote beside it.

    Build it with :meth:`from_estimator`; there is no ``from_predictions``,
    because it draws where rows lie, not predictions.

    Attributes
    ----------
    points : (n, 2) where the rows of the collection are drawn.
    place : (2,) where the query is drawn.
    evidence : Evidence
        From ``explain``: neighbors, vote, label, probability.
    figure_, ax_, vote_ax_
        The matplotlib figure and axes, set by ``plot``.

    >>> import nearsay as ns
    >>> from nearsay.displays import NeighborhoodDisplay
    >>> X, y = [[0, 0], [2, 0], [2, 2], [9, 9]], ["low", "low", "high", "high"]
    >>> three = ns.NeighborClassifier(n_neighbors=3, posterior="proportional").fit(X, y)
    >>> NeighborhoodDisplay.from_estimator(three, X, y, query=[1, 0]).evidence.label
    'low'
    """

    points: np.ndarray
    labels: np.ndarray
    classes: np.ndarray
    place: np.ndarray
    evidence: Any
    images: np.ndarray | None = None
    query_image: np.ndarray | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        query: Any,
        embed: Any = None,
        images: Any = None,
        query_image: Any = None,
        ax: Any = None,
    ) -> NeighborhoodDisplay:
        """Query a fitted NeighborClassifier with one row and draw the votes of its neighbors.

        Parameters
        ----------
        estimator : fitted NeighborClassifier
        X : (n, n_features) the rows the classifier was fitted on.
        y : (n,) their labels.
        query : (n_features,) the row to draw among the others.
        embed : fitted transformer, optional
            Brings rows to the plane (``PCA(2).fit(X)``). Needed unless rows have two columns. The
            neighbors are still those among the full rows, so links can cross nearer-looking rows.
        images : (n, height, width), optional; drawn in place of points. Square images may also come as rows.
        query_image : (height, width), optional; drawn in place of the query.
        ax : matplotlib axes, optional; a new figure by default.
        """
        row = drawing.one_row(query)
        places = [X, row] if embed is None else [embed.transform(X), embed.transform(row)]
        instead = "Pass embed=PCA(2).fit(X), or another fitted transformer that brings rows to the plane."
        points = drawing.as_plane(places[0], instead=instead)
        place = drawing.as_plane(places[1], name="query", instead=instead)[0]
        classes = np.asarray(estimator.classes_)
        evidence = estimator.explain(row)[0]
        drawing.check_holds(evidence.neighbors, len(points), name="X")
        pictures = None if images is None else drawing.as_images(images, count=len(points))
        display = cls(
            points=points,
            labels=drawing.label_numbers(y, classes, count=len(points)),
            classes=classes,
            place=place,
            evidence=evidence,
            images=pictures,
            query_image=None if query_image is None else drawing.as_image(query_image),
        )
        return display.plot(ax=ax)

    def _drawn(self, ax: Any) -> Any:
        """The votes are drawn to the right."""
        frame = Frame.around(np.vstack([self.points, self.place]))
        ax = drawing.fresh_axes_for(frame) if ax is None else ax
        colors = drawing.class_colors(len(self.classes))
        neighbors = np.asarray(self.evidence.neighbors)
        self._draw_links(ax, colors, neighbors)
        self._draw_rows(ax, colors, neighbors)
        self._draw_query(ax)
        drawing.fit_frame(ax, frame)
        drawing.quiet(ax)
        names = {int(number): drawing.as_written(self.classes[number]) for number in np.unique(self.labels)}
        drawing.name_classes(ax, names, colors, shapes=not self._all_are_images, below=True)
        self.vote_ax_ = self._draw_vote(ax, colors)
        return ax

    @property
    def _all_are_images(self) -> bool:
        return self.images is not None and len(self.points) <= MOST_THUMBNAILS

    def _draw_links(self, ax: Any, colors: list[str], neighbors: np.ndarray) -> None:
        from matplotlib.collections import LineCollection

        links = [np.array([self.place, self.points[row]]) for row in neighbors]
        ax.add_collection(
            LineCollection(links, colors=[colors[c] for c in self.labels[neighbors]], linewidths=2.2, zorder=2)
        )

    def _draw_rows(self, ax: Any, colors: list[str], neighbors: np.ndarray) -> None:
        near = np.zeros(len(self.points), dtype=bool)
        near[neighbors] = True
        as_picture = np.zeros(len(self.points), dtype=bool)
        if self.images is not None:
            as_picture = near | self._all_are_images
            for row in np.flatnonzero(as_picture):
                color = colors[self.labels[row]]
                rim = color if near[row] else drawing.tinted(color, 0.45)
                size = drawing.THUMBNAIL_POINTS * (1.3 if near[row] else 1.0)
                drawing.draw_thumbnail(
                    ax, self.images[row], self.points[row], rim, size=size, layer=4 if near[row] else 3
                )
        for number in np.unique(self.labels):
            marker = drawing.marker(int(number))
            ours = (self.labels == number) & ~as_picture
            pale = drawing.tinted(colors[number], 0.5)
            near_style = {"s": 44, "color": colors[number], "edgecolors": drawing.INK, "zorder": 4}
            ax.scatter(*self.points[ours & ~near].T, s=22, color=[pale], marker=marker, linewidths=0, zorder=1)
            ax.scatter(*self.points[ours & near].T, marker=marker, **near_style)

    def _draw_query(self, ax: Any) -> None:
        if self.query_image is not None:
            size = drawing.THUMBNAIL_POINTS * 1.7
            drawing.draw_thumbnail(ax, self.query_image, self.place, drawing.INK, size=size, layer=5)
        else:
            ax.scatter(*self.place, s=170, marker="*", color=drawing.INK, edgecolors="white", linewidths=1.0, zorder=5)

    def _draw_vote(self, ax: Any, colors: list[str]) -> Any:
        """Bars for the classes that got votes, most votes on top."""
        votes = self.evidence.votes
        counts = list(votes.values())
        numbers = drawing.label_numbers(list(votes), self.classes, count=len(votes))
        height = min(0.075 * len(votes), 0.6)
        inset = ax.inset_axes((1.04, 0.86 - height, 0.3, height))
        bars = inset.barh(range(len(votes)), counts, color=[colors[c] for c in numbers], height=0.72)
        words = [f"{count} {'says' if count == 1 else 'say'} {label}" for label, count in votes.items()]
        inset.bar_label(bars, list(map(drawing.as_written, words)), padding=4, color=drawing.INK)
        inset.invert_yaxis()
        inset.set_xlim(0, max(counts) * 2)  # half the width is for the words
        inset.set_axis_off()
        title = f"{sum(counts)} neighbors\nsays {self.evidence.label} (p = {self.evidence.probability:.2f})"
        inset.set_title(drawing.as_written(title), loc="left", fontsize="medium")
        return inset
