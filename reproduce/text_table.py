"""A table to print."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TextTable:
    """A table to print: columns of words, then columns of numbers, and the lines in sections."""

    title: str
    words: tuple[str, ...]
    numbers: tuple[str, ...]
    sections: list[list[list[str]]]
