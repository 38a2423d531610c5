"""The pictures: each ``XxxDisplay.from_estimator(...)`` draws, and ``.plot(ax)`` draws again elsewhere.

As in scikit-learn, a display keeps what it shows, and ``figure_`` and ``ax_``
say where it was drawn. matplotlib is imported when the first one is drawn.
"""

from nearsay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
