"""From neighbors to probabilities, learned from past cases; the classifiers, and the evidence behind an answer."""

from nearsay.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
