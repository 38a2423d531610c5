"""Keyword annotation: scorers of keywords (neighbors, regression), calibration, and the annotator."""

from nearsay.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
