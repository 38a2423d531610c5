"""Files of pictures: paths that stay within their folder, the picture of an item, and small copies."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

from nearsay.collection.store.files.folder import UPLOADS
from nearsay.collection.store.store import Store
from nearsay.data.images import check_image_header, read_upright
from nearsay.errors import InputError


def picture_within(folder: Path, name: str) -> Path:
    """The path of a picture in the folder, after a check of its first bytes; an error says what is wrong."""
    path = path_within(folder, name)
    try:
        check_image_header(path)
    except InputError as error:
        raise InputError(str(error)[0].lower() + str(error)[1:]) from error
    return path


def path_within(folder: Path, name: str) -> Path:
    """The path of a file in the folder; an error says why there is none.

    >>> path_within(Path("photos"), "../secret.png")
    Traceback (most recent call last):
    nearsay.errors.InputError: the path leaves the folder
    """
    path = folder / relative_path(name)
    try:
        if leads_out(folder, path):
            raise InputError("the path leaves the folder, by a link")
        if not path.is_file():
            raise InputError("there is no such picture")
    except OSError as error:
        raise InputError(f"the path cannot be used ({error.strerror})") from error
    return path


def relative_path(name: str) -> Path:
    """The name of a picture as a path that leaves no folder, whether or not the picture exists."""
    if not name:
        raise InputError("no picture is named")
    relative = Path(name.replace("\\", "/"))
    if relative.is_absolute() or relative.drive or ".." in relative.parts or "\0" in name:
        raise InputError("the path leaves the folder")
    if not relative.name:
        raise InputError("no picture is named")
    return relative


def leads_out(folder: Path, path: Path) -> bool:
    """Whether a path within the folder leads out of it by a link."""
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def picture_path(store: Store, details: dict[str, Any] | None) -> Path | None:
    """The file of an item's picture; None where it has none, or none that may be shown.

    A path that leads out of its folder, by dots or by links, may not be shown; nor may one in a folder that the
    collection records, and the user has not named on this machine.
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
    """The picture as a PNG of at most so many pixels a side, upright, without metadata."""
    image = read_upright(path, at_least=side)
    image.thumbnail((side, side))
    image.info = {}  # a color profile would be written too, and names its device
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()
