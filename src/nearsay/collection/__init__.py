"""Live collections: labeled items in a folder, with a complete history, that label new items by their neighbors."""

from nearsay.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
