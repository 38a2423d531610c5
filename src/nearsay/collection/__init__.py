"""A collection on disk that never loses what it acknowledged: items, labels and vectors, and the log of
every change to them."""

from nearsay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
