"""Lazy imports: the public names of a package are imported on first use, so that ``import nearsay`` is fast.

The names are listed once, in the stub of the package (``__init__.pyi``), which type checkers and editors read too.
A package exports them with::

    __getattr__, __dir__, __all__ = attach(__name__, __file__)
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package, from the imports in its stub.

    >>> import nearsay.distances
    >>> dir(nearsay.distances)
    ['DISTANCES', 'Distance', 'as_distance']
    """
    homes: dict[str, str] = {}
    for line in ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8")).body:
        if isinstance(line, ast.ImportFrom):
            homes |= {alias.name: str(line.module) for alias in line.names}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        value = import_module(f"{home}.{name}") if home == package else getattr(import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value

    names = sorted(homes)
    return get, names.copy, names
