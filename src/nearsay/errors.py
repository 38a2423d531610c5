"""Exceptions with messages a user can act on, and ``require`` for optional packages."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Collection
from types import ModuleType


class NearsayError(Exception):
    """Base of every error that nearsay raises on purpose."""


class InputError(NearsayError, ValueError):
    """What was passed in cannot be used; the message says what was given, what was expected and what to do."""


class NotSure(InputError):
    """A change that would remove several items needs confirmation (``sure=True``).

    Attributes
    ----------
    what : what it would do, in a sentence.
    event, n_items : the event to be undone, and how many items would go.
    """

    def __init__(self, what: str, event: int, n_items: int) -> None:
        super().__init__(f"{what} Pass sure=True if that is meant.")
        self.what, self.event, self.n_items = what, event, n_items


class SavedFileError(NearsayError, ValueError):
    """A file is damaged, of an unknown kind, or from a newer version."""


class StorageError(NearsayError, OSError):
    """A collection on disk cannot be read or written; the message says what is damaged, missing or full."""


class CollectionBusy(NearsayError, RuntimeError):
    """Another process is writing to the collection; the message says which, where and since when."""


class ClusterError(NearsayError, ConnectionError):
    """The cluster cannot be reached; the message says which machine, and which results were saved."""


class DatasetNotFound(NearsayError, FileNotFoundError):
    """A data set is not on this machine; the message says where it was looked for."""


class NotFitted(NearsayError, ValueError, AttributeError):
    """A method was called before ``fit``; a subclass of the bases of scikit-learn's NotFittedError."""


class MissingExtra(NearsayError, ImportError):
    """An optional package is needed and not installed; the message names the extra."""


class NearDuplicateWarning(UserWarning):
    """Rows have near-duplicates among the others, and answers are worse without them."""


def closest(name: str, known: Collection[str]) -> str:
    """A suggestion for a misspelled name ("did you mean …?"), or an empty string.

    >>> closest("irsi", ["iris", "wine"])
    " (did you mean 'iris'?)"
    """
    alike = difflib.get_close_matches(str(name), known, n=1)
    return f" (did you mean {alike[0]!r}?)" if alike else ""


def unknown_name(what: str, given: object, known: Collection[str], hint: str = "") -> InputError:
    """The error for an unknown name, with a suggestion and all known names.

    >>> unknown_name("fruit", "aple", ["pear", "apple"])
    InputError("Unknown fruit 'aple' (did you mean 'apple'?). Known names: apple, pear.")
    """
    names = ", ".join(sorted(known))
    return InputError(f"Unknown {what} {given!r}{closest(str(given), known)}. Known names: {names}.{hint}")


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
