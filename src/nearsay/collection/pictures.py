"""The picture of an item: where its file lies, and a small copy that holds nothing but pixels."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from nearsay.collection.backup import UPLOADS
from nearsay.collection.picture_sources import path_within
from nearsay.collection.store import Store
from nearsay.data.images import seen
from nearsay.errors import InputError


def picture_path(store: Store, details: dict[str, Any] | None) -> Path | None:
    """The file of an item's picture, or None where it has none, or none that may be shown.

    A path that leads out of its folder, by dots or by links, is none.
    """
    details = details or {}
    name = details.get("path")
    folder = details.get("folder") or store.settings.get("pictures")
    if details.get("upload"):
        name, folder = details["upload"], str(store.path / UPLOADS)
    if not name or not folder:
        return None
    try:
        path = path_within(Path(folder), str(name))
    except (InputError, OSError):
        return None
    return path if path.is_file() else None


def small_copy(path: Path, side: int) -> bytes:
    """The picture as a PNG of at most so many pixels a side, turned as its camera was, without anything else in it."""
    image = seen(path, at_least=side)
    image.thumbnail((side, side))
    image.info = {}  # a color profile would be written too, and names its device
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()
