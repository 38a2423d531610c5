"""The living collection: a folder that keeps labeled items and every change to them, and answers from all of it
at once. ``LiveCollection`` is what users open, ``Store`` what is on disk."""

from nearsay.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
