"""Trees of classes: read, checked, queried for ancestors and information, and drawn as text."""

from nearsay.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
