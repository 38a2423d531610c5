"""Keywords from neighbors: neighbor estimators, relevances, and the annotators built from both."""

from nearsay.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
