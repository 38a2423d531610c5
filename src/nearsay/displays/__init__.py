"""The pictures: ``XxxDisplay.from_estimator(estimator, X, y)`` or ``from_predictions(y_true, …)``, as in scikit-learn.

A display keeps what it shows, ``.plot(ax)`` draws it again elsewhere, and
``figure_`` and ``ax_`` say where it was drawn. Options are keyword-only and
have the same names in all displays. matplotlib is imported when the first one is drawn.
"""

from nearsay.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
