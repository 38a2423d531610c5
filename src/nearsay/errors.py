"""Errors a user can act on, and the one way to import an optional package."""

from __future__ import annotations

import importlib
from types import ModuleType


class NearsayError(Exception):
    """Base of every error that nearsay raises on purpose."""


class InputError(NearsayError, ValueError):
    """What was passed in cannot be used; the message says what came, what was expected and what to do."""


class SavedFileError(NearsayError, ValueError):
    """A file is damaged, of an unknown kind, or from a newer version."""


class DatasetNotFound(NearsayError, FileNotFoundError):
    """A data set is not on this machine; the message says where it was looked for."""


class NotFitted(NearsayError, ValueError, AttributeError):
    """Something was asked before ``fit``; the bases are those of scikit-learn's NotFittedError."""


class MissingExtra(NearsayError, ImportError):
    """An optional package is needed and not installed; the message names the extra."""


def require(module: str, extra: str) -> ModuleType:
    """Import an optional package, or say which extra brings it.

    >>> require("math", "faiss").sqrt(4.0)
    2.0
    >>> require("no_such_package", "faiss")
    Traceback (most recent call last):
    nearsay.errors.MissingExtra: This needs the package 'no_such_package', which is not installed. Run: pip install ...
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f'This needs the package {module!r}, which is not installed. Run: pip install "nearsay[{extra}]"'
        ) from error
