"""Trees of classes: read, checked, asked who is above whom and how much a node says, and drawn as text."""

from nearsay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
