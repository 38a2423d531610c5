"""How nearsay's loops are compiled: once, kept on disk, without Python's lock. Importing this imports numba.

So only modules of compiled loops import it, and those are imported on first
use, inside functions: ``import nearsay`` compiles nothing and stays quick.
"""

from __future__ import annotations

from numba import njit

# Division by zero gives what numpy gives, and loops are vectorized without a check for it.
OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy"}

compiled = njit(**OPTIONS)
