"""Tables of classes by name, so that a new one is a file of its own and a name in a list."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any


def modules_of(package: str, *, without: str = "") -> list[ModuleType]:
    """The modules of a package, by name: all but compiled loops (``*_kernels.py``) and the one that calls this.

    >>> [module.__name__ for module in modules_of("nearsay.taxonomy")][:1]
    ['nearsay.taxonomy.arrays']
    """
    names = [f"{package}.{module.name}" for module in iter_modules(import_module(package).__path__)]
    return [import_module(name) for name in sorted(names) if name != without and not name.endswith("_kernels")]


def classes_by_name(names: Iterable[str], *, beside: str) -> dict[str, Any]:
    """The class with each of these names as its ``name``, from the modules beside the calling one (``__name__``).

    A name belongs to the class that sets it, not to those derived from it.

    >>> classes_by_name(["manhattan"], beside="nearsay.distances.named")
    {'manhattan': <class 'nearsay.distances.vectors.Manhattan'>}
    >>> classes_by_name(["manhatten"], beside="nearsay.distances.named")
    Traceback (most recent call last):
    ImportError: No class in nearsay.distances sets name = 'manhatten'.
    """
    package = beside.rpartition(".")[0]
    kinds = {
        kind.__dict__["name"]: kind
        for module in modules_of(package, without=beside)
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__ == module.__name__ and isinstance(kind.__dict__.get("name"), str)
    }
    missing = [name for name in names if name not in kinds]
    if missing:
        raise ImportError(f"No class in {package} sets name = {missing[0]!r}.")
    return {name: kinds[name] for name in names}
