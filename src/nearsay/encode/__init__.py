"""Tables with words, dates and gaps as rows of numbers, whose distances make sense."""

from nearsay.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
