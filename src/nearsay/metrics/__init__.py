"""Evaluation measures for probabilities, hedged labels and keywords, and a range of the Bayes error."""

from nearsay.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
