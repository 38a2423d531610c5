"""Images and texts to vectors: named descriptors and encoders, each with the distance that fits it."""

from nearsay.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
