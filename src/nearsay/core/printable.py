"""Text from others, safe to print: no name in it can steer a terminal, or turn the order in which it is read.

A label such as ``\\x1b]52;c;…\\x07`` would write the clipboard of who lists it. Such characters are shown by their
numbers instead. All that the command line prints, and evidence that is printed, goes through ``printable``.
"""

from __future__ import annotations

import re

# C0 (but for tab and newline), DEL and C1; marks that turn the direction of text; halves of characters, which cannot
# be written at all.
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""The text with control characters and marks of direction as their numbers; tabs and newlines stay.

    >>> printable("owl\x1b[2J\u202e")
    'owl\\x1b[2J\\u202e'
    """
    if text.isascii() and text.isprintable():
        return text
    return STEERING.sub(lambda found: _numbered(found[0], short=True), text)


def printable_json(text: str) -> str:
    r"""JSON that means the same, without such characters.

    >>> print(printable_json('"owl\x9b2J"'))
    "owl\u009b2J"
    """
    return STEERING.sub(lambda found: _numbered(found[0], short=False), text)


def _numbered(character: str, *, short: bool) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if short and number < 256 else f"\\u{number:04x}"
