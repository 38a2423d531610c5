"""Plots: ``XxxDisplay.from_estimator(estimator, X, y)`` or ``from_predictions(y_true, …)``, as in scikit-learn.

A display holds its data; ``.plot(ax)`` draws it again, and ``figure_`` and ``ax_`` are the matplotlib objects. Options
are keyword-only and have the same names in all displays. matplotlib is imported when the first one is drawn.
"""

from nearsay.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
