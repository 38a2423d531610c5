"""What the user named for a collection on this machine, remembered outside of it: where its pictures lie, its model.

    nearsay index photos/ -o birds ──► CONFIG/collections/3f….json   {"path": "…/birds", "id": "…",
    nearsay serve birds --pictures photos                             "pictures": {"photos as recorded": "…/photos"},
                                                                      "models": {"model as recorded": ["…", sha256]}}

A collection records such paths too, but it may come from a stranger, who could record any path of this machine: a
folder whose pictures are then shown, or a model that is then run. So what it records is no more than a name. It is used
where it lies in the collection's own folder (pictures), or where the user has named it here. An entry is good for one
collection (its ``id``) at one path: a copy from elsewhere is asked about once.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nearsay.data.images import content_hash
from nearsay.data.replacing import replacing
from nearsay.errors import InputError

LONGEST_ENTRY = 1 << 20


@dataclass
class UserDecisions:
    """What the user named for one collection.

    Attributes
    ----------
    path, id : which collection this is good for.
    pictures : {folder as the collection records it: folder on this machine}
    models : {model as the collection records it: (its path on this machine, the SHA-256 it had when it was named)}
    """

    path: Path
    id: str
    pictures: dict[str, str] = field(default_factory=dict)
    models: dict[str, tuple[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path, id: str) -> UserDecisions:
        """What was named before; nothing where there is no entry, or one that cannot be read."""
        found = cls(Path(os.path.realpath(path)), id)
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            with open(found._file, "rb") as file:
                said = json.loads(file.read(LONGEST_ENTRY))
            if said["path"] == str(found.path) and said["id"] == id and id:
                found.pictures = {str(name): str(folder) for name, folder in said["pictures"].items()}
                found.models = {str(name): (str(file), str(sha256)) for name, (file, sha256) in said["models"].items()}
        return found

    @property
    def _file(self) -> Path:
        return config_folder() / "collections" / f"{hashlib.sha256(os.fsencode(self.path)).hexdigest()[:32]}.json"

    def name_pictures(self, recorded: str | None, folder: str | os.PathLike[str]) -> None:
        """Pictures that the collection records in one folder lie in another one, or the same, on this machine."""
        real = os.path.realpath(folder)
        if not os.path.isdir(real):
            raise InputError(f"There is no folder {os.fspath(folder)}. Name the folder of the collection's pictures.")
        self.pictures[real] = real
        # What was named before stays while it is there: items that were added later may lie in a second folder.
        if recorded and not os.path.isdir(self.pictures.get(recorded, "")):
            self.pictures[recorded] = real

    def name_model(self, recorded: str, model: str | os.PathLike[str]) -> None:
        """The model that the collection records is this file."""
        real = os.path.realpath(model)
        if not os.path.isfile(real):
            raise InputError(f"There is no file {os.fspath(model)}. Name the model that described the pictures.")
        self.models[recorded] = (real, content_hash(real))

    def name_recorded(self, settings: Mapping[str, Any]) -> None:
        """The user makes the collection here, with these settings: what they record is named by that."""
        if isinstance(settings.get("pictures"), str) and os.path.isdir(settings["pictures"]):
            self.name_pictures(settings["pictures"], settings["pictures"])
        record = settings.get("described")
        model = record.get("model") if isinstance(record, Mapping) else None
        if isinstance(model, str) and os.path.isfile(model):
            self.name_model(model, model)

    def save(self) -> None:
        """Write it down; where that is impossible, the user is asked again next time."""
        if not self.pictures and not self.models:
            return
        said = {"path": str(self.path), "id": self.id, "pictures": self.pictures, "models": self.models}
        with suppress(OSError, InputError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with replacing(self._file) as out:
                out.write(json.dumps(said, indent=1).encode())

    def picture_folder(self, recorded: Any) -> Path | None:
        """Where pictures of a folder that the collection records lie; None where the user has not named it."""
        if not isinstance(recorded, str) or "\0" in recorded:
            return None
        if recorded in self.pictures:
            return Path(self.pictures[recorded])
        real = Path(os.path.realpath(recorded))
        return real if real != self.path and real.is_relative_to(self.path) else None

    def model(self, record: Mapping[str, Any]) -> Path | None:
        """The model that described a collection's pictures; None where none did, an error where it was not named."""
        recorded = record.get("model")
        if recorded is None:
            return None
        if recorded not in self.models:
            raise InputError(
                f"The pictures of this collection were described by a model, which it records as {recorded!r:.200}."
                " A model is code that runs here: pass encoder=, the path of your copy, if you trust it."
            )
        path, sha256 = self.models[recorded]
        if not os.path.isfile(path):
            raise InputError(
                f"The pictures of this collection were described by the model {path}, which is not there. Put it back,"
                " or pass encoder=, its path."
            )
        if not content_hash(path) == sha256 == record.get("content"):
            raise InputError(
                f"The model {path} is another one than when this collection was made. Put that back, or index anew."
            )
        return Path(path)


def config_folder() -> Path:
    """Where nearsay keeps what the user decided: NEARSAY_CONFIG, or the place that the system has for that."""
    named = os.environ.get("NEARSAY_CONFIG")
    if named:
        return Path(named)
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming") / "nearsay"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "nearsay"
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "nearsay"
