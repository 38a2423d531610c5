"""Triton where there is one: kernels can be read, and their modules imported, without it."""

from __future__ import annotations

from typing import Any

try:
    import triton
    import triton.language as tl
except ImportError:  # no kernel is launched without it
    triton = tl = None

__all__ = ["jit", "tl"]


def jit(function: Any) -> Any:
    """The kernel that a function stands for; the function itself where there is no Triton."""
    return function if triton is None else triton.jit(function)
