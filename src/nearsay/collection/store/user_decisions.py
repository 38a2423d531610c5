"""The paths that the user trusts for a collection on this machine: folders of pictures, and models.

    nearsay index photos/ -o birds ──► CONFIG/collections/3f….json   {"path": "…/birds", "id": "…",
    nearsay serve birds --pictures photos                             "pictures": {"photos as recorded": "…/photos"},
                                                                      "models": {"model as recorded": ["…", sha256]}}

A collection from a stranger could record any path: a folder whose pictures are then shown, a model that is then run. So
a recorded path is used only if it lies in the collection's own folder (pictures), or if the user has named it here, for
this collection (``id``) at this path.
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
    """The paths that the user named for one collection.

    Attributes
    ----------
    path, id : the collection.
    pictures : {folder as the collection records it: folder on this machine}
    models : {model as the collection records it: (its path on this machine, the SHA-256 it had when it was named)}
    """

    path: Path
    id: str
    pictures: dict[str, str] = field(default_factory=dict)
    models: dict[str, tuple[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path, id: str) -> UserDecisions:
        """The stored entry; an empty one where there is none that can be read."""
        decisions = cls(Path(os.path.realpath(path)), id)
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            with open(decisions._file, "rb") as file:
                stored = json.loads(file.read(LONGEST_ENTRY))
            if stored["path"] == str(decisions.path) and stored["id"] == id and id:
                decisions.pictures = {str(name): str(folder) for name, folder in stored["pictures"].items()}
                decisions.models = {
                    str(name): (str(file), str(sha256)) for name, (file, sha256) in stored["models"].items()
                }
        return decisions

    @property
    def _file(self) -> Path:
        return config_folder() / "collections" / f"{hashlib.sha256(os.fsencode(self.path)).hexdigest()[:32]}.json"

    def name(
        self,
        settings: Mapping[str, Any],
        pictures: str | os.PathLike[str] | None,
        encoder: str | os.PathLike[str] | None,
    ) -> None:
        """Store the folder of pictures and the model that the user names for a collection with these settings."""
        if pictures is not None:
            self.name_pictures(settings.get("pictures"), pictures)
        if encoder is not None:
            recorded = (settings.get("described") or {}).get("model")
            if recorded is None:
                raise InputError(
                    "The items of this collection were not described by a user's model: leave the encoder out."
                )
            self.name_model(recorded, encoder)
        if pictures is not None or encoder is not None:
            self.save()

    def name_pictures(self, recorded: str | None, folder: str | os.PathLike[str]) -> None:
        """The folder on this machine of pictures that the collection records in another one, or the same."""
        real = os.path.realpath(folder)
        if not os.path.isdir(real):
            raise InputError(f"There is no folder {os.fspath(folder)}. Name the folder of the collection's pictures.")
        self.pictures[real] = real
        # An earlier folder stays while it exists: items that were added later may lie in a second one.
        if recorded and not os.path.isdir(self.pictures.get(recorded, "")):
            self.pictures[recorded] = real

    def name_model(self, recorded: str, model: str | os.PathLike[str]) -> None:
        """The model that the collection records is this file."""
        real = os.path.realpath(model)
        if not os.path.isfile(real):
            raise InputError(f"There is no file {os.fspath(model)}. Name the model that described the pictures.")
        self.models[recorded] = (real, content_hash(real))

    def name_recorded(self, settings: Mapping[str, Any]) -> None:
        """Trust the paths in the settings of a collection that the user makes here."""
        if isinstance(settings.get("pictures"), str) and os.path.isdir(settings["pictures"]):
            self.name_pictures(settings["pictures"], settings["pictures"])
        record = settings.get("described")
        model = record.get("model") if isinstance(record, Mapping) else None
        if isinstance(model, str) and os.path.isfile(model):
            self.name_model(model, model)

    def save(self) -> None:
        """Store the entry; where that fails, the user is asked again next time."""
        if not self.pictures and not self.models:
            return
        stored = {"path": str(self.path), "id": self.id, "pictures": self.pictures, "models": self.models}
        with suppress(OSError, InputError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with replacing(self._file) as out:
                out.write(json.dumps(stored, indent=1).encode())

    def picture_folder(self, recorded: Any) -> Path | None:
        """The folder for one that the collection records; None where the user has not named it."""
        if not isinstance(recorded, str) or "\0" in recorded:
            return None
        if recorded in self.pictures:
            return Path(self.pictures[recorded])
        real = Path(os.path.realpath(recorded))
        return real if real != self.path and real.is_relative_to(self.path) else None

    def model(self, record: Mapping[str, Any]) -> Path | None:
        """The model that described a collection's pictures, if any; an error where the user has not named it."""
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
                f"The pictures of this collection were described by the model {path}, which is missing. Restore it,"
                " or pass encoder=, its path."
            )
        if not content_hash(path) == sha256 == record.get("content"):
            raise InputError(
                f"The model {path} has changed since this collection was made. Restore it, or index again."
            )
        return Path(path)


def config_folder() -> Path:
    """The folder for the user's decisions: NEARSAY_CONFIG, or the usual one of the system."""
    named = os.environ.get("NEARSAY_CONFIG")
    if named:
        return Path(named)
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming") / "nearsay"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "nearsay"
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "nearsay"
