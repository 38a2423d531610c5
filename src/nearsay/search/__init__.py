"""Search backends, one per file: each proposes candidate rows; ``choose`` selects the backend."""

from nearsay.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
