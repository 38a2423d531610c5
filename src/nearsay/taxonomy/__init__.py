"""Taxonomies: trees of classes, with readers, checks, ancestors, information, and text output."""

from nearsay.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
