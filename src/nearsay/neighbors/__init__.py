"""Nearest-neighbor search: indexes of rows, and tables of neighbors, measured in float64 and in order."""

from nearsay.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
