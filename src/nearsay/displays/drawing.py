"""Drawing functions shared by all displays: colors, axes, checks of arguments, thumbnails."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from nearsay.core.arrays import as_labels, as_rows
from nearsay.data.replacing import replacing
from nearsay.decision.hedged import HedgedClassifier
from nearsay.displays.voronoi import Frame
from nearsay.errors import InputError

# Okabe and Ito (2008): distinct for any kind of color vision, but only seven.
FEW_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
# Petroff (2021), optimized for ten.
MANY_COLORS = (
    *("#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6"),
    *("#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd"),
)
# Shapes distinguish classes where colors do not (print, more than ten classes).
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")
# Dashes distinguish lines where colors do not show.
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
INK = "#222222"
PALE_INK = "#8a8a8a"
AGREES, DISAGREES = FEW_COLORS[0], FEW_COLORS[5]
THUMBNAIL_POINTS = 19.0
MOST_NAMES = 12


class Display:
    """Base of the displays: ``plot`` draws what they hold; ``ax_`` and ``figure_`` are the matplotlib objects."""

    def plot(self, ax: Any = None) -> Self:
        """Draw on ``ax``, or on a new figure."""
        self.ax_ = self._drawn(ax)
        self.figure_ = np.ravel(self.ax_)[0].figure
        return self

    def _drawn(self, ax: Any) -> Any:
        """Draw on these axes, or on new ones for None, and give them."""
        raise NotImplementedError


def class_colors(n_classes: int) -> list[str]:
    """A color for each class; they repeat after ten.

    >>> class_colors(2)
    ['#0072B2', '#E69F00']
    """
    palette = FEW_COLORS if n_classes <= len(FEW_COLORS) else MANY_COLORS
    return [palette[number % len(palette)] for number in range(n_classes)]


def tinted(color: str, strength: float) -> tuple[float, float, float]:
    """A tint of the color: mixed with white, and opaque.

    >>> tinted("#000000", 0.25)
    (0.75, 0.75, 0.75)
    """
    red, green, blue = (1 - strength * (1 - int(color[at : at + 2], 16) / 255) for at in (1, 3, 5))
    return red, green, blue


def method_style(number: int, count: int, name: str) -> dict[str, Any]:
    """Color, dashes and marker of the line of one of ``count`` methods."""
    # Colors repeat after ten methods; the dashes then shift by one, so that no style comes twice.
    dashes = number + number // len(MANY_COLORS)
    return {
        "color": class_colors(count)[number],
        "linestyle": DASHES[dashes % len(DASHES)],
        "linewidth": 1.6,
        "marker": marker(number),
        "markersize": 4.5,
        "markeredgecolor": "white",
        "markeredgewidth": 0.5,
        "label": as_written(name),
    }


def as_written(label: Any) -> str:
    """A label escaped for matplotlib: dollars start no formula, a leading underscore hides nothing.

    >>> as_written("$5"), as_written("_x"), as_written(7)
    ('\\\\$5', ' _x', '7')
    """
    text = str(label).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def shortened(text: str, most_letters: int) -> str:
    """The text, cut to this length.

    >>> shortened("golden retriever", 7)
    'golden…'
    """
    return text if len(text) <= most_letters else f"{text[: most_letters - 1].rstrip()}…"


def in_lines(parts: list[str], most_letters: int) -> str:
    """The parts joined by dots and wrapped into lines; a part that is too long is cut.

    >>> print(in_lines(["says dog", "right", "5 of 7 neighbors"], most_letters=20))
    says dog · right
    5 of 7 neighbors
    """
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + 3 + len(part) <= most_letters:
            lines[-1] += f" · {part}"
        else:
            lines.append(shortened(part, most_letters))
    return "\n".join(lines)


def fresh_axes(width: float, height: float) -> Any:
    """New axes on a new figure of this size in inches, laid out so that nothing is cut off."""
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="compressed")[1]


def panels(ax: Any, n_rows: int, n_columns: int, what: str, **layout: Any) -> np.ndarray:
    """(n_rows, n_columns) axes: those of ``ax``, or new ones; ``what`` is their purpose, for errors."""
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(n_rows, n_columns, squeeze=False, layout="constrained", **layout)[1]
    axes = np.asarray(ax, dtype=object)
    if axes.size != n_rows * n_columns:
        raise InputError(
            f"{n_rows * n_columns} axes are needed, for {what}; got {axes.size}."
            f" Pass plt.subplots({n_rows}, {n_columns})[1], or leave ax out for a new figure."
        )
    return axes.reshape(n_rows, n_columns)


def save_figure(figure: Any, path: Path, **options: Any) -> None:
    """Save a figure atomically; ``options`` are those of ``savefig``."""
    with replacing(path) as out:
        figure.savefig(out, format=path.suffix[1:] or None, **options)


def quiet(ax: Any) -> None:
    """Mute what is not data: remove the upper and right spines, gray the others."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(PALE_INK)
    ax.tick_params(colors=PALE_INK, labelcolor=INK)


def as_plane(X: Any, *, name: str = "X", instead: str = "") -> np.ndarray:
    """Rows of two numbers as float64; anything else cannot be drawn in a plane.

    >>> as_plane([[1, 2, 3]])
    Traceback (most recent call last):
    nearsay.errors.InputError: X has 3 columns; a picture in the plane needs rows of exactly 2. ...
    """
    rows = as_rows(X, name=name)
    if rows.shape[1] != 2:
        columns = f"{rows.shape[1]} column{'s' if rows.shape[1] != 1 else ''}"
        raise InputError(
            f"{name} has {columns}; a picture in the plane needs rows of exactly 2. "
            + (instead or f"Pick two columns, as {name}[:, [0, 1]], or project the rows first (sklearn PCA, t-SNE).")
        )
    if not len(rows):
        raise InputError(f"{name} has no rows, so there is nothing to draw.")
    return rows.astype(np.float64)


def as_images(images: Any, *, count: int, name: str = "images") -> np.ndarray:
    """Images as (count, height, width), or with a last axis of colors; flat square ones are folded.

    >>> as_images(np.zeros((5, 64)), count=5).shape
    (5, 8, 8)
    """
    array = np.asarray(images)
    if array.ndim == 2 and math.isqrt(array.shape[1]) ** 2 == array.shape[1]:
        array = array.reshape(len(array), math.isqrt(array.shape[1]), -1)
    if array.ndim not in (3, 4) or (array.ndim == 4 and array.shape[3] not in (3, 4)):
        raise InputError(
            f"{name} must have shape (n, height, width), (n, height, width, 3 or 4 colors), or hold square images"
            f" as rows; got shape {np.shape(images)}. Reshape it first."
        )
    if len(array) != count:
        raise InputError(f"{name} holds {len(array)} images, but {count} are needed: one for each row.")
    return array


def as_image(image: Any) -> np.ndarray:
    """One image as (height, width) or with colors; a flat square one is folded.

    >>> as_image(np.zeros(64)).shape
    (8, 8)
    """
    array = np.asarray(image)
    one_flat_row = array.ndim == 2 and len(array) == 1
    return as_images(array if one_flat_row else array[None], count=1, name="query_image")[0]


def one_row(query: Any) -> Any:
    """The query as an array of one row; a DataFrame of one row stays one.

    >>> one_row([1, 2]).shape
    (1, 2)
    """
    rows = query if hasattr(query, "columns") else np.atleast_2d(np.asarray(query))
    if len(rows) != 1:
        raise InputError(f"One query is drawn at a time; got {len(rows)}. Pass one row, as Q[0].")
    return rows


def one_label(y: Any) -> Any:
    """The label of the row that is drawn, alone or in an array of one; None if it is not known.

    >>> one_label(["cat"]), one_label("cat"), one_label(None)
    ('cat', 'cat', None)
    """
    labels = [y] if y is None or isinstance(y, str) or np.ndim(y) == 0 else list(y)
    if len(labels) != 1:
        raise InputError(f"One row is drawn at a time, with one label; got {len(labels)} labels. Pass one, as y[0].")
    return labels[0]


def by_method(given: Any, name: str = "answers") -> dict[str, Any]:
    """Results by method; those of a single method get the key ``name``.

    >>> by_method([1, 2]), by_method({"votes": [1, 2]})
    ({'answers': [1, 2]}, {'votes': [1, 2]})
    """
    methods = {str(method): one for method, one in given.items()} if isinstance(given, Mapping) else {name: given}
    if not methods:
        raise InputError("There is nothing to draw: pass at least one method.")
    return methods


def check_hedged(estimator: Any) -> HedgedClassifier:
    """The estimator, if it is a fitted HedgedClassifier."""
    if not isinstance(estimator, HedgedClassifier):
        raise InputError(
            f"{type(estimator).__name__} names no nodes of a taxonomy. Wrap it: HedgedClassifier(estimator, taxonomy)."
        )
    check_is_fitted(estimator, "estimator_")
    return estimator


def leaf_probabilities(hedged: HedgedClassifier, X: Any) -> np.ndarray:
    """(n_rows, n_leaves) probabilities of the leaves by a fitted HedgedClassifier."""
    p_node: np.ndarray = hedged.predict_proba_nodes(X)
    return p_node[:, : hedged.taxonomy_.n_leaves]  # leaves are the first nodes


def label_numbers(labels: Any, classes: np.ndarray, *, count: int) -> np.ndarray:
    """The place of each label among the classes."""
    known = {label: number for number, label in enumerate(classes.tolist())}
    given = as_labels(labels).ravel().tolist()
    if len(given) != count:
        raise InputError(f"y holds {len(given)} labels, but X has {count} rows: one label for each row is needed.")
    unknown = sorted({str(label) for label in given if label not in known})
    if unknown:
        raise InputError(
            f"y holds labels the classifier was not fitted on: {', '.join(unknown[:5])}."
            f" It knows {', '.join(map(str, classes.tolist()[:10]))}{' …' if len(classes) > 10 else ''}."
        )
    return np.array([known[label] for label in given], dtype=int)


def check_holds(neighbors: np.ndarray, count: int, *, name: str) -> None:
    """Check that there is something to draw for every neighbor."""
    if max(neighbors, default=-1) >= count:
        raise InputError(
            f"Row {max(neighbors)} is a neighbor, but {name} holds only {count} rows."
            f" Pass {name} for all the rows the classifier was fitted on, in the same order."
        )


def draw_thumbnail(ax: Any, image: np.ndarray, at: np.ndarray, color: Any, *, size: float, layer: float) -> None:
    """Draw the image at a position of the axes, ``size`` points high, with a colored border."""
    from matplotlib.offsetbox import AnnotationBbox, OffsetImage

    picture = OffsetImage(image, zoom=size / image.shape[0], cmap="gray_r", interpolation="nearest")
    rim = {"edgecolor": color, "linewidth": 1.6, "boxstyle": "round,pad=0.1,rounding_size=0.15"}
    ax.add_artist(AnnotationBbox(picture, tuple(at), pad=0.1, bboxprops=rim, zorder=layer))


def fit_frame(ax: Any, frame: Frame) -> None:
    """Set the limits to the frame, with equal units on both axes unless it is too narrow for that."""
    ax.set(xlim=(frame.left, frame.right), ylim=(frame.bottom, frame.top))
    if _equal_units(frame):
        ax.set_aspect("equal")


def fresh_axes_for(frame: Frame) -> Any:
    """New axes of the shape of the frame, with room for words to the right."""
    shape = frame.width / frame.height if _equal_units(frame) else 1.3
    height = min(5.0, 5.2 / shape)
    return fresh_axes(2.0 + height * shape, 0.5 + height)


def _equal_units(frame: Frame) -> bool:
    return 0.4 < frame.width / frame.height < 2.5


def marker(number: int) -> str:
    """The marker of a class; they repeat after eleven."""
    return MARKERS[number % len(MARKERS)]


def name_classes(ax: Any, names: dict[int, str], colors: list[str], *, shapes: bool, below: bool = False) -> None:
    """A legend of the classes by number to the right of the axes, where it covers nothing.

    ``shapes`` : whether the rows are drawn with the markers of their classes.
    """
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], linestyle="", marker=marker(number) if shapes else "s", color=colors[number], label=name)
        for number, name in list(names.items())[:MOST_NAMES]
    ]
    if len(names) > MOST_NAMES:
        handles.append(Line2D([], [], linestyle="", label=f"… {len(names) - MOST_NAMES} more"))
    loc, place = ("lower left", (1.01, 0.0)) if below else ("upper left", (1.01, 1.0))
    ax.legend(handles=handles, loc=loc, bbox_to_anchor=place, frameon=False, handletextpad=0.3)
