"""Decision regions of any classifier of two features; exact Voronoi cells for one Euclidean neighbor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.core.settings import check_whole
from nearsay.displays import drawing
from nearsay.displays.voronoi import Frame, VoronoiCells, voronoi_cells
from nearsay.distances.named import as_distance
from nearsay.distances.vectors import Euclidean
from nearsay.errors import InputError

# From the palest tint (a class that only just won) to the strongest (sure).
TINTS = (0.14, 0.46)


@dataclass(kw_only=True, eq=False, repr=False)
class DecisionRegionsDisplay(drawing.Display):
    """The predicted class at every point of the plane, and the training rows.

    Build it with :meth:`from_estimator`; there is no ``from_predictions``, because the classifier is evaluated on a
    grid. With one Euclidean neighbor the regions are drawn as exact unions of Voronoi cells. A paler tint means a lower
    probability.

    Attributes
    ----------
    frame : Frame
        The part of the plane that is drawn.
    regions : (resolution, resolution) int, the predicted class number at every place of the grid, lowest row first.
    sureness : (resolution, resolution) float or None
        The probability of that class, where the classifier gives any.
    cells : VoronoiCells or None
        The cell of every distinct row.

    >>> import nearsay as ns
    >>> from nearsay.displays import DecisionRegionsDisplay
    >>> X, y = [[0, 0], [2, 0], [2, 2]], ["low", "low", "high"]
    >>> one = ns.NeighborClassifier(n_neighbors=1, posterior="proportional").fit(X, y)
    >>> len(DecisionRegionsDisplay.from_estimator(one, X, y, resolution=20).cells.polygons)
    3
    """

    frame: Frame
    regions: np.ndarray
    sureness: np.ndarray | None
    cells: VoronoiCells | None
    cell_classes: np.ndarray | None
    points: np.ndarray
    labels: np.ndarray
    classes: np.ndarray
    axis_names: tuple[str, str] | None = None
    images: np.ndarray | None = None

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, images: Any = None, resolution: int = 300, ax: Any = None
    ) -> DecisionRegionsDisplay:
        """Draw the regions of a fitted classifier around the rows it was fitted on.

        Parameters
        ----------
        estimator : fitted classifier
            Anything with ``predict`` and ``classes_``; its ``predict_proba``, if any, gives the tints.
        X : (n, 2) the rows the classifier was fitted on. A DataFrame names the axes.
        y : (n,) their labels.
        images : (n, height, width), optional; drawn in place of points. Square images may also come as rows.
        resolution : int, default=300; places along each axis.
        ax : matplotlib axes, optional; a new figure by default.
        """
        points = drawing.as_plane(X)
        check_whole("resolution", resolution, least=2)
        classes = _classes(estimator)
        labels = drawing.label_numbers(y, classes, count=len(points))
        pictures = None if images is None else drawing.as_images(images, count=len(points))

        frame = Frame.around(points)
        columns = list(X.columns) if hasattr(X, "columns") else None
        places = _named(grid(frame, resolution), X)
        regions = drawing.label_numbers(estimator.predict(places), classes, count=resolution**2)
        sureness = None
        if hasattr(estimator, "predict_proba"):
            proba = np.asarray(estimator.predict_proba(places))
            sureness = proba[np.arange(len(regions)), regions].reshape(resolution, resolution)

        cells = cell_classes = None
        if _one_euclidean_neighbor(estimator):
            distinct = np.unique(points, axis=0)
            cells = voronoi_cells(distinct, frame)
            cell_classes = drawing.label_numbers(estimator.predict(_named(distinct, X)), classes, count=len(distinct))
        display = cls(
            frame=frame,
            regions=regions.reshape(resolution, resolution),
            sureness=sureness,
            cells=cells,
            cell_classes=cell_classes,
            points=points,
            labels=labels,
            classes=classes,
            axis_names=None if columns is None else (str(columns[0]), str(columns[1])),
            images=pictures,
        )
        return display.plot(ax=ax)

    def _drawn(self, ax: Any) -> Any:
        ax = drawing.fresh_axes_for(self.frame) if ax is None else ax
        colors = drawing.class_colors(len(self.classes))
        if self.cells is None or self.cell_classes is None:
            self._draw_grid(ax, colors)
        else:
            self._draw_cells(ax, colors, self.cells, self.cell_classes)
        self._draw_rows(ax, colors)
        drawing.fit_frame(ax, self.frame)
        drawing.quiet(ax)
        if self.axis_names is not None:
            ax.set(xlabel=drawing.as_written(self.axis_names[0]), ylabel=drawing.as_written(self.axis_names[1]))
        return ax

    def _draw_grid(self, ax: Any, colors: list[str]) -> None:
        low, high = TINTS
        # The smallest possible probability of the most probable class.
        chance = 1 / len(self.classes)
        sure = np.ones(self.regions.shape) if self.sureness is None else self.sureness
        strength = low + (high - low) * np.clip((sure - chance) / max(1 - chance, 1e-12), 0, 1)
        full = np.array([drawing.tinted(color, 1.0) for color in colors])[self.regions]
        ax.imshow(
            1 - strength[..., None] * (1 - full),
            extent=self.frame,
            origin="lower",
            interpolation="nearest",
            aspect="auto",
            zorder=0,
        )
        xs, ys = grid_lines(self.frame, len(self.regions))
        for number in np.unique(self.regions):
            here = self.regions == number
            if not here.all():  # a single class has no border, and matplotlib would warn
                ax.contour(xs, ys, here, levels=[0.5], colors=drawing.INK, linewidths=0.9, zorder=1)

    def _draw_cells(self, ax: Any, colors: list[str], cells: VoronoiCells, cell_classes: np.ndarray) -> None:
        from matplotlib.collections import LineCollection, PolyCollection

        faces = [drawing.tinted(colors[number], 0.36) for number in cell_classes]
        ax.add_collection(
            PolyCollection(cells.polygons, facecolors=faces, edgecolors="white", linewidths=1.1, zorder=0)
        )
        decides = cell_classes[cells.between[:, 0]] != cell_classes[cells.between[:, 1]]
        ax.add_collection(LineCollection(cells.borders[decides], colors=drawing.INK, linewidths=1.5, zorder=1))

    def _draw_rows(self, ax: Any, colors: list[str]) -> None:
        names = {int(number): drawing.as_written(self.classes[number]) for number in np.unique(self.labels)}
        drawing.name_classes(ax, names, colors, shapes=self.images is None)
        if self.images is not None:
            for image, point, number in zip(self.images, self.points, self.labels, strict=True):
                drawing.draw_thumbnail(ax, image, point, colors[number], size=drawing.THUMBNAIL_POINTS, layer=3)
            return
        for number in names:
            style = {"s": 34, "color": colors[number], "edgecolors": "white", "linewidths": 0.8, "zorder": 3}
            ax.scatter(*self.points[self.labels == number].T, marker=drawing.marker(number), **style)


def grid_lines(frame: Frame, resolution: int) -> tuple[np.ndarray, np.ndarray]:
    """The middles of ``resolution`` equal steps along each axis of the frame.

    >>> grid_lines(Frame(0.0, 4.0, 0.0, 2.0), 2)[0]
    array([1., 3.])
    """
    steps = (np.arange(resolution) + 0.5) / resolution
    return frame.left + steps * frame.width, frame.bottom + steps * frame.height


def grid(frame: Frame, resolution: int) -> np.ndarray:
    """All places of the grid as rows (resolution², 2), the lowest line first."""
    return np.stack(np.meshgrid(*grid_lines(frame, resolution)), axis=-1).reshape(-1, 2)


def _named(places: np.ndarray, like: Any) -> Any:
    """The places as a DataFrame where the rows came as one, so that feature names fit."""
    if not hasattr(like, "columns"):
        return places
    return type(like)(dict(zip(like.columns, places.T, strict=True)))


def _classes(estimator: Any) -> np.ndarray:
    if not hasattr(estimator, "classes_"):
        raise InputError(f"{type(estimator).__name__} has no classes_: fit a classifier first, then draw it.")
    return np.asarray(estimator.classes_)


def _one_euclidean_neighbor(estimator: Any) -> bool:
    """Whether the regions are Voronoi cells: one neighbor, by Euclidean distance in the plane."""
    if not hasattr(estimator, "metric"):
        return False
    k = getattr(estimator, "n_neighbors_", getattr(estimator, "n_neighbors", None))
    return k == 1 and isinstance(as_distance(estimator.metric), Euclidean)
