"""What is saved and opened again, for tests that compare the two."""

from __future__ import annotations

import tempfile
from typing import TypeVar

import nearsay as ns

Thing = TypeVar("Thing")


def saved_and_opened(thing: Thing) -> Thing:
    """The same thing, from a file."""
    with tempfile.TemporaryDirectory() as folder:
        ns.save(thing, f"{folder}/saved.nearsay")
        return ns.load(f"{folder}/saved.nearsay")
