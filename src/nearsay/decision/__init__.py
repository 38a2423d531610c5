"""From probabilities to answers: hedged labels in a taxonomy and prediction sets, with the promises they keep."""

from nearsay.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
