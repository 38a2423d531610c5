"""Accuracy and log posterior as the collection grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing

from nearsay.core.arrays import as_labels
from nearsay.core.settings import check_whole
from nearsay.displays import drawing
from nearsay.errors import InputError
from nearsay.metrics.probability import accuracy, mean_log_posterior

MEASURES = ("accuracy", "mean log posterior")


class TrainingSizeDisplay:
    """Accuracy and mean log posterior against the number of training rows of a class, a line for each method.

    Build it with :meth:`from_estimator`, :meth:`from_predictions`, :meth:`from_results`, or with
    :meth:`from_panels` for several settings (such as two K) side by side.

    Attributes
    ----------
    panels : dict of title: dict of method: (n_sizes, 3)
        Size, accuracy and log posterior, sizes ascending.
    figure_, ax_
        Where it was drawn: ``ax_`` is (2, n_panels), accuracy above log posterior. There after ``plot``.

    >>> from nearsay.displays import TrainingSizeDisplay
    >>> results = {"votes": [(2, 0.84, -0.82), (4, 0.91, -0.53)], "rank": [(2, 0.89, -0.40), (4, 0.95, -0.18)]}
    >>> TrainingSizeDisplay.from_results(results).ax_.shape
    (2, 1)
    """

    def __init__(self, *, panels: dict[str, dict[str, np.ndarray]]) -> None:
        self.panels = panels

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        sizes: Sequence[int] | None = None,
        test_size: float = 0.5,
        random_state: int | None = 0,
        ax: Any = None,
    ) -> TrainingSizeDisplay:
        """Fit classifiers on more and more rows of each class, and judge them on rows held out.

        Parameters
        ----------
        estimator : classifier with ``predict_proba``, or {method: classifier}
            It is cloned and fitted once per size.
        X, y : rows and their labels.
        sizes : numbers of training rows of each class, optional
            By default powers of two, as far as the smallest class goes.
        test_size : float, default=0.5
            The share of every class that is held out.
        random_state : int or None, default=0
            Which rows are held out, and the order in which the others come.
        ax : a pair of matplotlib axes, optional
        """
        train, test = train_test_split(
            np.arange(len(y)), test_size=test_size, random_state=random_state, stratify=y, shuffle=True
        )
        classes, labels = np.unique(as_labels(y), return_inverse=True)
        smallest = int(np.bincount(labels[train]).min())
        wanted = [2**step for step in range(smallest.bit_length())] if sizes is None else list(sizes)
        for size in wanted:
            check_whole("A training size", size, least=1, most=smallest)
        chosen = {
            size: np.concatenate([train[labels[train] == number][:size] for number in range(len(classes))])
            for size in wanted
        }
        probabilities = {
            method: {
                size: clone(own)
                .fit(_safe_indexing(X, rows), classes[labels[rows]])
                .predict_proba(_safe_indexing(X, test))
                for size, rows in chosen.items()
            }
            for method, own in drawing.estimators_by_method(estimator).items()
        }
        return cls.from_predictions(classes[labels[test]], probabilities, classes=classes, ax=ax)

    @classmethod
    def from_predictions(
        cls, y_true: Any, y_prob: Mapping[Any, Any], *, classes: Any = None, ax: Any = None
    ) -> TrainingSizeDisplay:
        """Draw probabilities that were computed before with several sizes.

        Parameters
        ----------
        y_true : (n,) true classes
            Column numbers of the probabilities, or labels where ``classes`` names the columns.
        y_prob : {size: (n, n_classes) probabilities}, or {method: {size: probabilities}}
        classes : (n_classes,) labels of the columns, sorted as in ``classifier.classes_``.
        ax : a pair of matplotlib axes, optional
        """
        results = {
            method: [
                (
                    size,
                    accuracy(drawing.most_probable_classes(p, classes), y_true),
                    mean_log_posterior(p, y_true, classes=classes),
                )
                for size, p in by_size.items()
            ]
            for method, by_size in drawing.by_method_and_number(y_prob).items()
        }
        return cls.from_results(results, ax=ax)

    @classmethod
    def from_results(cls, results: Mapping[str, Any], *, ax: Any = None) -> TrainingSizeDisplay:
        """Draw one setting.

        Parameters
        ----------
        results : {method: [(size, accuracy, log posterior), …]}
            A log posterior of −inf leaves a gap.
        ax : a pair of matplotlib axes, optional
        """
        return cls.from_panels({"": results}, ax=ax)

    @classmethod
    def from_panels(cls, panels: Mapping[str, Mapping[str, Any]], *, ax: Any = None) -> TrainingSizeDisplay:
        """Draw several settings side by side: {title: {method: [(size, accuracy, log posterior), …]}}.

        A method has the same color in all of them. ``ax``, if given, holds (2, n_panels) axes.
        """
        checked = {
            title: {method: _curve(method, rows) for method, rows in results.items()}
            for title, results in panels.items()
        }
        if not any(checked.values()):
            raise InputError("There is nothing to draw: pass at least one method with its rows.")
        return cls(panels=checked).plot(ax=ax)

    def plot(self, ax: Any = None) -> TrainingSizeDisplay:
        """Draw on (2, n_panels) axes ``ax``, or on a new figure."""
        size = (2.3 + 3.9 * len(self.panels), 5.6)
        axes = drawing.panels(
            ax, len(MEASURES), len(self.panels), " and ".join(MEASURES), figsize=size, sharex="col", sharey="row"
        )
        methods = list(dict.fromkeys(method for results in self.panels.values() for method in results))
        for column, (title, results) in enumerate(self.panels.items()):
            for row, measure in enumerate(MEASURES):
                self._draw(axes[row, column], methods, results, row + 1)
                axes[row, 0].set_ylabel(measure)
            axes[0, column].set_title(drawing.as_written(title), loc="left", fontsize="medium")
            axes[1, column].set_xlabel("training rows of each class")
        _name_methods(axes[0, -1], methods)
        self.ax_, self.figure_ = axes, axes[0, 0].figure
        return self

    def _draw(self, panel: Any, methods: list[str], results: dict[str, np.ndarray], measure: int) -> None:
        from matplotlib.ticker import MaxNLocator

        for method, curve in results.items():
            values = np.where(np.isfinite(curve[:, measure]), curve[:, measure], np.nan)
            panel.plot(curve[:, 0], values, **_look(methods, method))
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.grid(axis="y", color="#e6e6e6", linewidth=0.8)
        panel.set_axisbelow(True)
        drawing.quiet(panel)


def _look(methods: list[str], method: str) -> dict[str, Any]:
    number = methods.index(method)
    return {
        "color": drawing.class_colors(len(methods))[number],
        "marker": drawing.marker(number),
        "markersize": 4.5,
        "markeredgecolor": "white",
        "markeredgewidth": 0.5,
        "linewidth": 1.5,
        "label": drawing.as_written(method),
    }


def _name_methods(ax: Any, methods: list[str]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **_look(methods, method)) for method in methods]
    ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)


def _curve(method: str, rows: Any) -> np.ndarray:
    """Rows of (size, accuracy, log posterior), the smallest size first."""
    curve = np.asarray(rows, dtype=np.float64)
    if curve.ndim != 2 or curve.shape[1] != 3 or not len(curve):
        raise InputError(f"{method!r} must hold rows of (size, accuracy, log posterior); got shape {curve.shape}.")
    return curve[np.argsort(curve[:, 0], kind="stable")]
