"""Distances between items: by name, as a function, or as a matrix."""

from nearsay.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
