"""Metric learning: metrics from labels, as scikit-learn transformers, and rankings from keywords."""

from nearsay.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
