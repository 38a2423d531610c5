"""Classes that a saved file holds by their name in a table of nearsay, with plain fields.

So a new distance or posterior can be saved without a line in ``savable.py``. One with compiled loops is declared there
all the same: only declared fields are checked for row numbers past the last row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# ``module:class`` of each, and the class of ``savable.py`` that stands for it.
SAVED_AS: dict[str, str] = {}


def save_by_name(table: Mapping[str, Any], saved_as: str) -> None:
    """Let files hold the classes of a table by name, where ``savable.py`` does not declare them."""
    SAVED_AS.update({f"{kind.__module__}:{kind.__qualname__}": saved_as for kind in table.values()})


def named_in_file(table: Mapping[str, Any], name: str) -> Any:
    """The class that a file names. One that is declared is refused: its fields would not be checked."""
    from nearsay.data.saved.savable import CLASSES
    from nearsay.data.saved.saved_fields import Mismatch

    kind = table.get(name)
    where = None if kind is None else f"{kind.__module__}:{kind.__qualname__}"
    if where not in SAVED_AS or where in {savable.where for savable in CLASSES}:
        raise Mismatch(f"{name[:60]!r} is none of those that are saved by name")
    return kind
