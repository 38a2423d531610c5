"""Import of Triton that may fail: kernel modules can be imported without it."""

from __future__ import annotations

from typing import Any

try:
    import triton
    import triton.language as tl
except ImportError:  # no kernel is launched then
    triton = tl = None

__all__ = ["jit", "tl"]


def jit(function: Any) -> Any:
    """``triton.jit``, or the function itself without Triton."""
    return function if triton is None else triton.jit(function)
