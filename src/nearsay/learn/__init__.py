"""Where rows should lie: metrics and rankings learned from labels, as scikit-learn transformers."""

from nearsay.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
