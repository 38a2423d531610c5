"""How far apart two items are: by name, by function, or by matrix."""

from nearsay.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
