"""What do the neighbors say?

From a labeled collection, nearsay gives a new item a class with a probability
one can trust, and shows the neighbors as evidence. What most people need is
here; the rest is in the packages named at the end of ``dir(nearsay)``.
"""

from nearsay.core.lazy import attach

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = attach(__name__, __file__)
