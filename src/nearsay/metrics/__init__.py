"""How good answers are, in numbers: probabilities, hedged labels, keywords, and what any classifier could reach."""

from nearsay.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
