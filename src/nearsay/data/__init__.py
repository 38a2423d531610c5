"""Labeled rows: from files, to files, and the papers' data sets by name."""

from nearsay.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
