"""The picture of an item: where its file lies, and a small copy that holds nothing but pixels."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from nearsay.collection.ingest.picture_sources import path_within
from nearsay.collection.store.files.folder import UPLOADS
from nearsay.collection.store.store import Store
from nearsay.data.images import seen
from nearsay.errors import InputError


def picture_path(store: Store, details: dict[str, Any] | None) -> Path | None:
    """The file of an item's picture, or None where it has none, or none that may be shown.

    A path that leads out of its folder, by dots or by links, is none; so is one in a folder that the collection
    records, and the user has not named on this machine.
    """
    details = details or {}
    name, upload = details.get("path"), details.get("upload")
    try:
        if upload:
            uploads = store.folder.folder(UPLOADS)
            return None if uploads is None or uploads.file(upload) is None else uploads.path / upload
        folder = picture_folder(store, details)
        return None if folder is None or not isinstance(name, str) else path_within(folder, name)
    except (InputError, OSError):
        return None


def picture_folder(store: Store, details: dict[str, Any] | None) -> Path | None:
    """The folder in which the path of an item's picture begins; None where the user has not named it here."""
    return store.remembered.picture_folder((details or {}).get("folder") or store.settings.get("pictures"))


def small_copy(path: Path, side: int) -> bytes:
    """The picture as a PNG of at most so many pixels a side, turned as its camera was, without anything else in it."""
    image = seen(path, at_least=side)
    image.thumbnail((side, side))
    image.info = {}  # a color profile would be written too, and names its device
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()
